"""Past incidents and case studies that look like this one, with what was asked there and not here.

Likeness is the weight of the facts in common over the weight of all facts that both know: a rare state weighs more
than an ordinary one (log of its background frequency), and a contradiction counts against.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from playbook.engine.tables import SHAPE, Tables
from playbook.errors import PlaybookError
from playbook.workflow.records.shelf import is_there, shelf
from playbook.workflow.session import Session
from playbook.workflow.upkeep.learn import facts

if TYPE_CHECKING:
    from playbook.incidents.record import Record

MOST = 3
LIKE = 0.35  # below this, likeness is chance
SHARED = 2  # facts in common, apart from the shape of the loss
LOOKED_AT = 3_000  # newest incidents with the same symptom that are compared
ASKED = 4  # questions named that were answered there and not here


@dataclass(frozen=True, slots=True)
class Similar:
    """`likeness` 0..1; `asked` holds (signal, state) that was found there and is not known here, most telling first."""

    id: str
    kind: str  # incident | case
    title: str
    likeness: float
    cause: str | None
    confirmed: bool
    shared: tuple[str, ...]
    asked: tuple[tuple[str, str], ...]
    cured_by: tuple[str, ...] = ()


def similar(session: Session, db: str | None = None, leave_out: Iterable[str] = ()) -> tuple[list[Similar], str]:
    """(the most alike, a problem with the store in words or nothing). Never stops a diagnosis."""
    known = {e.signal: e.state for e in session.evidence}
    skip, problem = set(leave_out), ""
    found = [s for s in _cases(session, known) if s.id not in skip]
    if is_there(db):
        try:
            found += [s for s in _incidents(session, known, db) if s.id not in skip]
        except PlaybookError as error:
            problem = str(error)
    # What happened here before says more than what happened elsewhere.
    return sorted(found, key=lambda s: (-s.likeness, s.kind != "incident", s.id))[:MOST], problem


def _cases(session: Session, known: Mapping[str, str]) -> list[Similar]:
    found = []
    for case in session.book.cases.values():
        alike = compare(session.tables, known, facts(case, session.book))
        if alike is not None:
            fixes = (case.fix,) if case.fix else ()
            found.append(_made(case.id, "case", case.title, case.causes[0], True, alike, fixes))
    return found


def _incidents(session: Session, known: Mapping[str, str], db: str | None) -> list[Similar]:
    with shelf(db) as store:
        found = []
        for row in store.facts(known.get(SHAPE), LOOKED_AT):
            alike = compare(session.tables, known, row["facts"])
            if alike is not None and row["status"] != "false-alarm":
                confirmed = row["status"] == "closed" and bool(row["cause"])
                cause = row["cause"] or row["first_cause"]
                found.append(_made(row["id"], "incident", row["title"], cause, confirmed, alike))
        best = sorted(found, key=lambda s: (-s.likeness, s.id))[:MOST]
        records = {r.id: r for r in store.records([s.id for s in best])} if best else {}
        return [_with_cure(s, records[s.id]) for s in best]


@dataclass(frozen=True, slots=True)
class Alike:
    likeness: float
    shared: tuple[str, ...]
    asked: tuple[tuple[str, str], ...]


def compare(tables: Tables, here: Mapping[str, str], there: Mapping[str, str]) -> Alike | None:
    """How alike two sets of facts are; None where they are not, or have another shape of the loss."""
    if SHAPE in here and SHAPE in there and here[SHAPE] != there[SHAPE]:
        return None
    both = [s for s in here if s in there]
    same = [s for s in both if here[s] == there[s]]
    if len([s for s in same if s != SHAPE]) < SHARED:
        return None
    agreed = sum(_weight(tables, s, here[s]) for s in same)
    against = sum(max(_weight(tables, s, here[s]), _weight(tables, s, there[s])) for s in both if s not in same)
    # Two facts in common are less than ten: the constant stands for what nobody asked.
    likeness = agreed / (agreed + against + 2.0)
    if likeness < LIKE:
        return None
    more = sorted((s for s in there if s not in here), key=lambda s: (-_weight(tables, s, there[s]), s))
    shared = sorted(same, key=lambda s: (-_weight(tables, s, here[s]), s))
    return Alike(round(likeness, 4), tuple(shared), tuple((s, there[s]) for s in more[:ASKED]))


def _weight(tables: Tables, signal: str, state: str) -> float:
    """Bits of surprise of a state; a signal that the book no longer has counts one bit."""
    column = tables.column(signal, state)
    return 1.0 if column is None else -math.log2(max(float(tables.background[column]), 1e-6))


def _made(
    name: str, kind: str, title: str, cause: str | None, confirmed: bool, alike: Alike, cured_by: tuple[str, ...] = ()
) -> Similar:
    return Similar(name, kind, title, alike.likeness, cause, confirmed, alike.shared, alike.asked, cured_by)


def _with_cure(item: Similar, record: Record) -> Similar:
    """With what helped, and only what a person was asked there: what files tell needs no question."""
    asked = {m.signal for m in record.asked if m.state is not None}
    cured = tuple(t.fix for t in record.treatments if t.outcome == "cured")
    chosen = tuple((s, o) for s, o in item.asked if s in asked) or item.asked
    return Similar(
        item.id, item.kind, item.title, item.likeness, item.cause, item.confirmed, item.shared, chosen, cured
    )
