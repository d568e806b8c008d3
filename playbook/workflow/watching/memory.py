"""What a watch remembers when it is started again: the incidents that it told, and how far every file was read.

A small JSON file in the user's data folder, one for each set of paths and receivers. A watch that goes on neither tells
an incident twice nor misses one that began while nobody watched: the files are read again, what was told is known, and
a file that was renamed meanwhile is read to its end first. Lines are kept as those of the file as it is at the end.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import Any

import numpy as np

from playbook import places
from playbook.errors import PlaybookError, reason
from playbook.findings import Evidence
from playbook.readers.live.tap import Position
from playbook.series import Origin, Run
from playbook.workflow.watching.alarm import Told
from playbook.workflow.watching.live import Follower

VERSION = 1
MOST = 200  # incidents that are kept; the older ones are far behind the run


@dataclass(frozen=True)
class Memory:
    """What an earlier watch left behind."""

    told: tuple[Told, ...] = ()
    count: int = 0
    positions: Mapping[str, Position] | None = None


def place(paths: Sequence[str], receivers: Sequence[str], root: Path | None = None) -> Path:
    """The file of a watch. Another receiver (program, web hook, store) has not heard of anything: it has its own."""
    named = json.dumps([sorted(str(Path(path).absolute()) for path in paths), list(receivers)])
    return (root or places.home() / "watch") / f"{hashlib.sha256(named.encode()).hexdigest()[:16]}.json"


def read(path: Path) -> Memory:
    """What is remembered; nothing where there is no file. Raises `PlaybookError` for one that is damaged."""
    try:
        data = json.loads(path.read_text("utf-8")) if path.exists() else None
        if data is None or data["version"] != VERSION:
            return Memory()
        positions = {
            name: Position(int(p["device"]), int(p["inode"]), int(p["offset"]), bytes.fromhex(p["proof"]))
            for name, p in data["files"].items()
        }
        return Memory(tuple(_told(item) for item in data["told"]), int(data["count"]), positions)
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        said = reason(error) if isinstance(error, OSError) else "it is damaged"
        raise PlaybookError(str(path), f"what was told before is not known: {said}", "delete the file") from None


def write(path: Path, told: Sequence[Told], count: int, follower: Follower, run: Run | None) -> None:
    """Keep everything, whole or not at all. Raises `PlaybookError` where it cannot be written."""
    document = {
        "version": VERSION,
        "count": count,
        "told": [_document(item, follower, run) for item in told[-MOST:]],
        "files": {
            name: {"device": p.device, "inode": p.inode, "offset": p.offset, "proof": p.proof.hex()}
            for name, p in follower.positions().items()
        },
    }
    aside = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        aside.write_text(json.dumps(document), "utf-8")
        aside.replace(path)
    except OSError as error:
        with suppress(OSError):
            aside.unlink(missing_ok=True)
        what = f"what was told cannot be remembered: {reason(error)}"
        raise PlaybookError(str(path), what, "set PLAYBOOK_HOME, or watch with --no-memory") from None


def adapted(told: Sequence[Told], fates: Mapping[str, str], run: Run) -> tuple[list[Told], set[str]]:
    """What was told, as the files are now: (incidents, files of earlier times in which a run has begun once more).

    `fates`: file as it was called -> its name now, "" where it is no longer there.
    """
    lead = run.one("loss") or max(run.series.values(), key=len, default=None)
    first = int(lead.steps[0]) if lead is not None and len(lead) else None
    found, gone = [], set()
    for item in told:
        origin = item.evidence.origin
        path = origin.path if origin is not None else lead.origin.path if lead is not None else ""
        lines = {now: line for name, line in item.lines.items() if (now := fates.get(name, ""))}
        now = fates.get(path, "")
        if now:
            moved = None if origin is None else replace(origin, path=now)
            found.append(replace(item, lines=lines, evidence=replace(item.evidence, origin=moved)))
            continue
        # Its rows are no longer there. Where the steps begin before it, they are run once more.
        if first is None or item.onset is None or first <= item.onset:
            gone.add(path)
        else:
            origin = None
        evidence = replace(item.evidence, origin=origin)
        found.append(replace(item, lines=lines, evidence=evidence, restarts=0, rows=0))
    return found, gone


def _document(item: Told, follower: Follower, run: Run | None) -> dict[str, Any]:
    """An incident with its lines, rows and restarts counted from the first line of the file as it is now."""
    lines = {path: line - follower.turned(path) for path, line in item.lines.items()}
    before_rows = before_restarts = 0
    lead = run.one("loss") or max(run.series.values(), key=len, default=None) if run is not None else None
    if lead is not None and lead.lines is not None and (older := follower.turned(lead.origin.path)):
        before_rows = int(np.count_nonzero(lead.lines <= older))
        before_restarts = int(np.count_nonzero(lead.lines[lead.restarts] <= older))
    evidence, origin = item.evidence, item.evidence.origin
    if origin is not None and origin.line is not None:
        line = origin.line - follower.turned(origin.path)
        evidence = replace(evidence, origin=replace(origin, line=line) if line > 0 else None)
    kept = replace(
        item,
        evidence=evidence,
        lines={path: line for path, line in lines.items() if line > 0},
        rows=max(0, item.rows - before_rows),
        restarts=max(0, item.restarts - before_restarts),
    )
    return asdict(kept) | {"names": sorted(item.names)}


def _told(data: Mapping[str, Any]) -> Told:
    evidence = dict(data["evidence"])
    if evidence.get("origin") is not None:
        evidence["origin"] = Origin(**evidence["origin"])
    if evidence.get("likelihood") is not None:
        evidence["likelihood"] = tuple((str(state), float(weight)) for state, weight in evidence["likelihood"])
    values = {f.name: data[f.name] for f in fields(Told)}
    values |= {"evidence": Evidence(**evidence), "names": set(data["names"]), "lines": dict(data["lines"])}
    return Told(**values)
