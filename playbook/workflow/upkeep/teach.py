"""Teach the book: count confirmed incidents and case files into `learned.yaml` of a pack, and show what that moves.

Only what a person confirmed is counted, and each incident once: its id stands beside the counts. The file before is
kept as `learned.before.yaml`, which `undo` puts back.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from playbook.engine.tables import Tables
from playbook.errors import PlaybookError, Problem
from playbook.knowledge.loader import Book, parse_yaml
from playbook.workflow.book import Library
from playbook.workflow.cases import CaseFile, has_outcome, read_cases
from playbook.workflow.records.shelf import is_there, shelf
from playbook.workflow.upkeep.learn import Mutable, class_of, count

if TYPE_CHECKING:
    from playbook.incidents.record import Record

FILE = "learned.yaml"
BEFORE = "learned.before.yaml"
BACKGROUND = "any incident"
SHIFT = 0.01  # a probability that moves by less is not shown
_HEAD = "# Counts of confirmed incidents, added to the words of the book. Written by `playbook knowledge learn`.\n"


@dataclass(frozen=True, slots=True)
class Shift:
    """P(state | class) before and after; `class_` may be `BACKGROUND`, over all incidents."""

    class_: str
    signal: str
    state: str
    before: float
    after: float


@dataclass(frozen=True)
class Lesson:
    """What there is to learn: ids that are new, ids that were counted before, ids that cannot be counted and why."""

    new: tuple[str, ...]
    known: tuple[str, ...]
    useless: tuple[tuple[str, str], ...]
    learned: dict[str, Any]
    shifts: tuple[Shift, ...]


def lesson(
    library: Library, pack: Path, cases: Sequence[Path] = (), incidents: bool = False, db: str | None = None
) -> Lesson:
    """Work out what the pack would learn, without writing. Raises `PlaybookError` for files that are no cases."""
    book = library.book
    before = read_learned(pack)
    counted = set(before["cases"])
    # What an earlier pack has counted already must not count twice.
    counted |= {str(i) for i in book.learned.get("cases", ())}
    passed: list[Problem] = []
    files = [case for path in cases for _, case in read_cases(path, passed=passed.append)]
    files += _confirmed(book, db) if incidents else []
    new: list[CaseFile] = []
    known: list[str] = []
    useless = [(problem.where, problem.what) for problem in passed]
    for case in files:
        if case.id in counted:
            known.append(case.id)
        elif not any(class_of(book, name) for name in case.causes):
            useless.append((case.id, f"its cause {', '.join(case.causes)} is not in the book"))
        else:
            counted.add(case.id)
            new.append(case)
    told = count(new, book)
    learned = {"cases": sorted({*before["cases"], *(c.id for c in new)}), "counts": _sum(before["counts"], told)}
    # The pack that is taught may not be among those that are loaded: its counts come in either way.
    base: Mutable = _sum(book.learned.get("counts", {}), {} if _loaded(book, pack) else before["counts"])
    moved = shifts(library.tables_with(base), library.tables_with(_sum(base, told)), told) if new else ()
    return Lesson(tuple(c.id for c in new), tuple(known), tuple(useless), learned, tuple(moved))


def _loaded(book: Book, pack: Path) -> bool:
    return any(folder.resolve() == pack.resolve() for folder in book.folders)


def _confirmed(book: Book, db: str | None) -> list[CaseFile]:
    if not is_there(db):
        return []
    with shelf(db) as store:
        return [case for record in store.records() if (case := as_case(record, book)) is not None]


def as_case(record: Record, book: Book) -> CaseFile | None:
    """A confirmed incident as a case file; None where its cause is not confirmed."""
    if record.status != "closed" or record.cause is None:
        return None
    answers = {signal: state for signal, state in record.facts.items() if has_outcome(book, signal, state)}
    return CaseFile(id=record.id, title=record.title, answers=answers, causes=[record.cause])


def read_learned(pack: Path) -> dict[str, Any]:
    """`learned.yaml` of a pack, empty where there is none."""
    path = pack / FILE
    if not path.is_file():
        return {"cases": [], "counts": {}}
    data = parse_yaml(path.read_text("utf-8"), str(path)) or {}
    if not isinstance(data, dict) or not isinstance(data.get("counts", {}), dict):
        raise PlaybookError(str(path), "holds no counts", "delete it, or `playbook knowledge learn --undo`")
    return {"cases": [str(c) for c in data.get("cases", ())], "counts": data.get("counts", {})}


def _sum(*tables: Any) -> Mutable:
    total: Mutable = {}
    for table in tables:
        for name, row in table.items():
            for signal, states in row.items():
                into = total.setdefault(str(name), {}).setdefault(str(signal), {})
                for state, n in states.items():
                    into[str(state)] = round(into.get(str(state), 0.0) + float(n), 4)
    return total


def shifts(before: Tables, after: Tables, told: Mutable, least: float = SHIFT) -> list[Shift]:
    """Which probabilities move, most first: P(state | class) where the class was told of, and the background.

    A class is judged by its most moved cause. Links of other classes move with the background alone.
    """
    found = []
    for c, name in enumerate(before.classes):
        members = before.members(c)
        start, stop = members.start, members.stop
        for signal in sorted(set(told.get(name, ())) & set(before.columns)):
            where = before.columns[signal]
            block = np.abs(after.likelihood[start:stop, where] - before.likelihood[start:stop, where])
            row = start + int(block.max(axis=1).argmax())
            found += _moved(name, signal, before, before.likelihood[row, where], after.likelihood[row, where], least)
    for signal, where in before.columns.items():
        found += _moved(BACKGROUND, signal, before, before.background[where], after.background[where], least)
    return sorted(found, key=lambda s: (-abs(s.after - s.before), s.class_, s.signal, s.state))


def _moved(name: str, signal: str, tables: Tables, old: np.ndarray, new: np.ndarray, least: float) -> list[Shift]:
    pairs = zip(tables.outcomes[signal], old.tolist(), new.tolist(), strict=True)
    return [Shift(name, signal, state, round(a, 4), round(b, 4)) for state, a, b in pairs if abs(b - a) >= least]


def write(pack: Path, learned: dict[str, Any]) -> Path:
    """Keep the file before as `learned.before.yaml`, then write the new one."""
    import yaml

    path, before = pack / FILE, pack / BEFORE
    text = _HEAD + yaml.safe_dump(learned, sort_keys=True, allow_unicode=True, width=120)
    try:
        pack.mkdir(parents=True, exist_ok=True)
        before.write_text(path.read_text("utf-8") if path.is_file() else "", "utf-8")
        part = pack / f".{FILE}.part"
        part.write_text(text, "utf-8")
        part.replace(path)
    except OSError as error:
        raise PlaybookError(
            str(pack), f"cannot be written: {error.strerror}", "name a pack of your own: --pack"
        ) from None
    return path


def undo(pack: Path) -> bool:
    """Put the file before the last lesson back; returns whether the pack still has counts."""
    path, before = pack / FILE, pack / BEFORE
    if not before.is_file():
        raise PlaybookError(str(pack), "has nothing to undo", f"{BEFORE} is written by each lesson")
    try:
        text = before.read_text("utf-8")
        if text:
            before.replace(path)
            return True
        path.unlink(missing_ok=True)
        before.unlink()
    except OSError as error:
        raise PlaybookError(str(pack), f"cannot be written: {error.strerror}", "name a pack of your own") from None
    return False
