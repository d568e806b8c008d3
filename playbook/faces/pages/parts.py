"""Sections that many pages share: fixes in short, how to verify, past incidents and cases, sources, status."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import groupby

from playbook.faces.pages.blocks import (
    Action,
    Actions,
    Block,
    Cell,
    Facts,
    Links,
    Move,
    Notice,
    Part,
    Plain,
    Prose,
    Ref,
    Section,
    Steps,
    Table,
    Web,
)
from playbook.faces.pages.shelf import Shelf
from playbook.knowledge.entries import Case, Entry, Fix
from playbook.workflow.records.published import Published

MOST_PAST = 12  # incidents and cases named on a page; the rest is in the list


def notices(shelf: Shelf, entry: Entry, kind: str) -> tuple[Notice, ...]:
    """Drafts, retired entries and those that are not translated say so on top."""
    w = shelf.w
    found = []
    if entry.status == "deprecated":
        ref = shelf.ref(kind, entry.use_instead) if entry.use_instead else None
        found.append(Notice("warn", w("This entry is retired."), ref))
    if entry.status == "draft":
        found.append(Notice("note", w("Draft: not yet tested against a real incident.")))
    if not shelf.translated(kind, entry.id):
        found.append(Notice("note", w("Not translated yet; the English text is shown.")))
    return tuple(found)


def action(shelf: Shelf, fix: Fix, note: str = "") -> Action:
    price = shelf.minutes(fix.minutes)
    if fix.gpu_steps:
        price += " · " + shelf.w("judged after {n} steps", n=fix.gpu_steps)
    return Action(
        ref=shelf.ref("fixes", fix.id),
        summary=fix.summary,
        steps=tuple(fix.steps),
        commands=tuple(fix.commands),
        price=price,
        risk=fix.risk,
        risk_word=shelf.risk_word(fix.risk),
        cured=fix.cured,
        not_cured=fix.not_cured,
        undo=fix.undo,
        note=note,
    )


def actions(shelf: Shelf, fixes: Iterable[Fix], tone: str = "fix", open_: bool = True) -> Actions:
    return Actions(tuple(action(shelf, fix) for fix in fixes), tone, open_)


def verify_section(shelf: Shelf, fixes: Sequence[Fix]) -> Section | None:
    """What is seen when a fix worked, and what it says when it did not."""
    if not fixes:
        return None
    w = shelf.w
    rows: list[tuple[Cell, ...]] = [
        (shelf.ref("fixes", f.id, "#verify"), f.cured, f.not_cured) for f in fixes if f.kind != "prevention"
    ]
    if not rows:
        return None
    table = Table((w("Fix"), w("It worked when"), w("It did not when")), tuple(rows))
    return Section("verify", w("Verify"), (table,))


def past_section(
    shelf: Shelf, incidents: Sequence[Published], cases: Sequence[Case], helped: Sequence[Published] = ()
) -> Section | None:
    """What happened before. `helped`: incidents in which this entry was right or was applied."""
    w = shelf.w
    blocks: list[Block] = []
    if helped:
        last = helped[0]
        blocks.append(Facts(((w("Last helped"), (shelf.ref("incidents", last.record.id), Plain(f" · {last.day}"))),)))
    if incidents:
        blocks.append(
            Table(
                (w("Incident"), w("Date"), w("Verdict")), tuple(_incident_row(shelf, i) for i in incidents[:MOST_PAST])
            )
        )
    if cases:
        blocks.append(Links(tuple((shelf.ref("cases", c.id), _case_word(shelf, c)) for c in cases[:MOST_PAST])))
        if len(cases) > MOST_PAST:
            blocks.append(Links(((shelf.index("cases"), w("and {n} more", n=len(cases) - MOST_PAST)),)))
    if not blocks:
        return None
    return Section("past", w("Past incidents and cases"), tuple(blocks))


def _incident_row(shelf: Shelf, incident: Published) -> tuple[Cell, ...]:
    return (shelf.ref("incidents", incident.record.id), Plain(incident.day), cause_cell(shelf, incident.cause))


def cause_cell(shelf: Shelf, cause: str | None) -> Part:
    """A cause of an incident: an id of the book, a class, or somebody's own words."""
    if cause is None:
        return Plain("–")
    if cause in shelf.book.causes:
        return shelf.ref("causes", cause)
    return Plain(class_word(shelf, cause))


def class_word(shelf: Shelf, name: str) -> str:
    """The meaning of a class of causes, else the name."""
    info = shelf.book.classes.get(name)
    meaning = info.get("meaning") if isinstance(info, dict) else None
    return str(meaning or name.replace("_", " "))


def _case_word(shelf: Shelf, case: Case) -> str:
    return shelf.w("likely") if case.confidence == "likely" else ""


def truth_refs(shelf: Shelf, case: Case) -> tuple[Part, ...]:
    """The true causes of a case, as links where the book has them."""
    parts: list[Part] = []
    for name in case.causes:
        if parts:
            parts.append(Plain(" · "))
        if name in shelf.book.causes:
            parts.append(shelf.ref("causes", name))
        else:
            forms = shelf.causes_by_class.get(name, [])
            parts.append(shelf.ref("causes", forms[0].id) if len(forms) == 1 else Plain(class_word(shelf, name)))
    return tuple(parts)


def sources_section(shelf: Shelf, entry: Entry, more: Iterable[str] = ()) -> Section:
    """What the page rests on."""
    w = shelf.w
    rows: list[Cell] = []
    for key in dict.fromkeys([*entry.sources, *more]):
        part = shelf.source(key)
        if isinstance(part, Ref) and key in shelf.book.ledger:
            rows.append((part, Plain(f" — {shelf.book.ledger[key]}")))
        else:
            rows.append(part)
    blocks: list[Block] = [Steps(tuple(rows), numbered=False)]
    if entry.note:
        blocks.append(Prose(entry.note))
    return Section("sources", w("Sources"), tuple(blocks))


def quiz_section(shelf: Shelf, entry_id: str) -> Section | None:
    found = shelf.questions_of.get(entry_id, [])
    if not found:
        return None
    rows: tuple[tuple[Ref | Web, str], ...] = tuple((shelf.ref("questions", q.id), "") for q in found)
    return Section("quiz", shelf.w("Test yourself"), (Links(rows),))


def runs_of(moves: Sequence[Move]) -> tuple[tuple[Move, ...], ...]:
    """Moves in order, parted where known and unknown answers change."""
    return tuple(tuple(run) for _, run in groupby(moves, key=lambda move: move.known))


def refs_cell(refs: Iterable[Part]) -> tuple[Part, ...]:
    """Several links in one cell."""
    parts: list[Part] = []
    for ref in refs:
        if parts:
            parts.append(Plain(" · "))
        parts.append(ref)
    return tuple(parts)


def drop_empty(sections: Iterable[Section | None]) -> tuple[Section, ...]:
    return tuple(s for s in sections if s is not None and s.blocks)
