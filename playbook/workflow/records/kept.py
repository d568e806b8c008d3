"""Diagnoses that were not finished: one small file each, written after every answer and offered at the next start.

A file is replaced whole (a killed process leaves the last complete one), holds moves and paths but no metrics, and is
read as data from outside: a damaged one is listed as damaged and stops nobody.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from playbook import places
from playbook.engine.value import Cost, RunSize
from playbook.errors import PlaybookError
from playbook.findings import Evidence
from playbook.series import Origin
from playbook.workflow.session import Move, Session

FORMAT = 1
MOST = 50  # kept files; the oldest go first
_KINDS = ("observed", "answered", "closed", "retracted", "tried")
_SOURCES = ("metrics", "log", "config", "probe", "person", "case")
_NAME = re.compile(r"[0-9A-Za-z][0-9A-Za-z._-]{0,80}")


@dataclass(frozen=True)
class Kept:
    """A session as it lies on disk. `moves` and `undone` are ready to be put into a `Session`."""

    name: str
    saved_at: str  # UTC, such as 2026-03-04T05:06:07Z
    title: str
    paths: tuple[str, ...] = ()
    incident: str | None = None
    aid_done: tuple[str, ...] = ()
    asked: str | None = None  # the question that a person picked instead of the best one
    moves: tuple[Move, ...] = ()
    undone: tuple[Move, ...] = ()
    size: RunSize = field(default_factory=RunSize)
    process: int = 0  # of the terminal that wrote it last

    @property
    def answers(self) -> int:
        """How many moves a person has made."""
        return sum(move.kind != "observed" for move in self.moves)


def folder() -> Path:
    return places.home() / "sessions"


def write(kept: Kept, root: Path | None = None) -> Path:
    """Put the session on disk, whole or not at all. Raises `PlaybookError` where the folder cannot be written."""
    if not _NAME.fullmatch(kept.name):
        raise PlaybookError(kept.name, "is no name of a session", "letters, digits, dot, dash and underscore")
    root = root or folder()
    path = root / f"{kept.name}.json"
    aside = root / f".{kept.name}.{os.getpid()}.part"
    try:
        root.mkdir(parents=True, exist_ok=True)
        aside.write_text(json.dumps(document(kept), ensure_ascii=True, allow_nan=False), "ascii")
        aside.replace(path)
    except OSError as error:
        with suppress(OSError):
            aside.unlink(missing_ok=True)
        raise PlaybookError(str(path), f"cannot be written: {error.strerror or error}", "set PLAYBOOK_HOME") from None
    return path


def drop(name: str, root: Path | None = None) -> None:
    """Forget a session; no fault if it is not there."""
    if _NAME.fullmatch(name):
        ((root or folder()) / f"{name}.json").unlink(missing_ok=True)


def listing(root: Path | None = None) -> tuple[list[Kept], list[PlaybookError]]:
    """(kept sessions, newest first; what is wrong with files that cannot be read)."""
    root = root or folder()
    sessions, faults = [], []
    for path in sorted(root.glob("*.json")) if os.path.isdir(root) else ():  # noqa: PTH112 False, no error, where it may not be entered
        try:
            sessions.append(read(path))
        except PlaybookError as error:
            faults.append(error)
    sessions.sort(key=lambda kept: (kept.saved_at, kept.name), reverse=True)
    for old in sessions[MOST:]:
        drop(old.name, root)
    return sessions[:MOST], faults


def read(path: Path) -> Kept:
    """One kept session. Raises `PlaybookError` for a damaged file."""
    try:
        data = json.loads(path.read_text("utf-8"))
        return _kept(path.stem, data)
    except OSError as error:
        raise PlaybookError(str(path), f"cannot be read: {error.strerror or error}", "delete it") from None
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        raise PlaybookError(str(path), f"is no kept session: {error}", "delete it") from None


def alive(kept: Kept) -> bool:
    """Whether another terminal on this machine seems to have the session open."""
    if kept.process <= 0 or kept.process == os.getpid():
        return False
    try:
        os.kill(kept.process, 0)
    except ProcessLookupError:
        return False
    except OSError:
        return True
    return True


def restore(kept: Kept, session: Session) -> Session:
    """Put the kept moves into a fresh session; what the book no longer knows stays as evidence without weight."""
    session.moves = list(kept.moves)
    session.undone = list(kept.undone)
    session.size = kept.size
    return session


def document(kept: Kept) -> dict[str, Any]:
    """Kept -> JSON values."""
    return {
        "format": FORMAT,
        "saved_at": kept.saved_at,
        "title": kept.title,
        "paths": list(kept.paths),
        "incident": kept.incident,
        "aid_done": list(kept.aid_done),
        "asked": kept.asked,
        "process": kept.process,
        "size": [kept.size.gpus, kept.size.step_seconds, kept.size.known],
        "moves": [_plain(move) for move in kept.moves],
        "undone": [_plain(move) for move in kept.undone],
    }


def _plain(move: Move) -> dict[str, Any]:
    row: dict[str, Any] = {"kind": move.kind, "signal": move.signal}
    if (item := move.evidence) is not None:
        row |= {"state": item.state, "source": item.source, "because": item.because, "confidence": item.confidence}
        row |= {name: value for name in ("step", "rank") if (value := getattr(item, name)) is not None}
        if item.origin is not None:
            row["origin"] = [item.origin.path, item.origin.line, item.origin.reader]
        if item.likelihood is not None:
            row["likelihood"] = [list(pair) for pair in item.likelihood]
    if move.cost is not None:
        row["cost"] = [move.cost.minutes, move.cost.gpu_hours, move.cost.total]
    return row


def _kept(name: str, data: Any) -> Kept:
    if not isinstance(data, dict) or data.get("format") != FORMAT:
        raise ValueError("not written by this version")
    gpus, seconds, known = data.get("size", [8, 2.0, False])
    return Kept(
        name=name,
        saved_at=str(data["saved_at"]),
        title=str(data["title"]),
        paths=tuple(str(path) for path in data["paths"]),
        incident=None if data.get("incident") is None else str(data["incident"]),
        aid_done=tuple(str(fix) for fix in data.get("aid_done", ())),
        asked=None if data.get("asked") is None else str(data["asked"]),
        moves=tuple(_moves(data["moves"])),
        undone=tuple(_moves(data.get("undone", ()))),
        size=RunSize(int(gpus), float(seconds), bool(known)),
        process=int(data.get("process", 0)),
    )


def _moves(rows: Iterable[Any]) -> Iterable[Move]:
    for row in rows:
        kind, signal = str(row["kind"]), str(row["signal"])
        if kind not in _KINDS:
            raise ValueError(f"no such move: {kind}")
        cost = Cost(*(float(part) for part in row["cost"])) if "cost" in row else None
        yield Move(kind, signal, _evidence(signal, row) if "state" in row else None, cost)  # type: ignore[arg-type]


def _evidence(signal: str, row: dict[str, Any]) -> Evidence:
    source = str(row["source"])
    if source not in _SOURCES:
        raise ValueError(f"no such source: {source}")
    origin = row.get("origin")
    likelihood = row.get("likelihood")
    return Evidence(
        signal,
        str(row["state"]),
        source,  # type: ignore[arg-type]
        str(row["because"]),
        None if row.get("step") is None else int(row["step"]),
        None if row.get("rank") is None else int(row["rank"]),
        min(1.0, max(0.0, float(row["confidence"]))),
        None if origin is None else Origin(str(origin[0]), origin[1] and int(origin[1]), str(origin[2])),
        None if likelihood is None else tuple((str(o), float(x)) for o, x in likelihood),
    )
