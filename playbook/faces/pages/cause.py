"""The page of a cause: is it this, what to do, how to see that it worked, what it is taken for, how to prevent it."""

from __future__ import annotations

from playbook.faces.pages.blocks import (
    Block,
    Cell,
    Facts,
    Fold,
    Links,
    Notice,
    Page,
    Part,
    Plain,
    Prose,
    Ref,
    Section,
    Table,
    Web,
)
from playbook.faces.pages.parts import (
    actions,
    class_word,
    drop_empty,
    notices,
    past_section,
    quiz_section,
    refs_cell,
    sources_section,
    verify_section,
)
from playbook.faces.pages.picture import cause_graph
from playbook.faces.pages.shelf import Shelf
from playbook.knowledge.entries import Cause, Fix

OPEN_SIGNALS = 7  # most telling links; the rest is below the fold
SELDOM = 2  # level of a word


def cause_page(shelf: Shelf, cause: Cause) -> Page:
    w = shelf.w
    fixes = shelf.fixes_of.get(cause.id, [])
    mend = [f for f in fixes if f.kind != "prevention"]
    incidents = shelf.incidents_by_cause.get(cause.id, []) + [
        i for i in shelf.incidents_by_cause.get(cause.class_, []) if i.cause == cause.class_
    ]
    sections = drop_empty(
        [
            Section(
                "see",
                w("What you see"),
                (Prose(cause.mechanism), _shows(shelf, cause)),
                w("Meaning"),
            ),
            _confirm(shelf, cause),
            Section("fix", w("Fix"), (actions(shelf, mend),), w("Mitigation")) if mend else None,
            verify_section(shelf, mend),
            _mistaken(shelf, cause),
            _couples(shelf, cause),
            _prevent(shelf, cause, [f for f in fixes if f.kind == "prevention"]),
            Section("results", w("Are earlier results affected?"), (Prose(cause.affects_results),), w("Impact"))
            if cause.affects_results
            else None,
            past_section(shelf, incidents, shelf.cases_of.get(cause.id, []), [i for i in incidents if i.record.cause]),
            Section("picture", w("Picture"), (cause_graph(shelf, cause),)),
            quiz_section(shelf, cause.id),
            sources_section(shelf, cause),
        ]
    )
    common = {
        "very_common": w("very common in its class"),
        "common": w("common in its class"),
        "occasional": w("occasional in its class"),
        "rare": w("rare in its class"),
    }[cause.common]
    return Page(
        path=f"causes/{cause.id}.html",
        kind="causes",
        id=cause.id,
        title=cause.title,
        lead=cause.summary,
        sections=sections,
        crumbs=(
            shelf.index("causes"),
            Ref(f"causes/index.html#{cause.layer}", shelf.layer_word(cause.layer)),
        ),
        tags=(Plain(class_word(shelf, cause.class_)), Plain(common)),
        notices=notices(shelf, cause, "causes"),
        words=cause.class_,
    )


def _shows(shelf: Shelf, cause: Cause) -> Table:
    w = shelf.w
    ordered = sorted(cause.shows.items(), key=lambda item: (-shelf.often_level(item[1]), item[0]))
    rows: tuple[tuple[Cell, ...], ...] = tuple(
        (shelf.ref("symptoms", symptom), Plain(shelf.often_word(word))) for symptom, word in ordered
    )
    return Table((w("Symptom"), w("How often")), rows)


def _confirm(shelf: Shelf, cause: Cause) -> Section:
    w = shelf.w
    blocks: list[Block] = [
        Notice("stop", f"{w('Not this when')} {shelf.state(rule.signal, rule.outcome)}. {rule.why}")
        for rule in cause.excludes
    ]
    telling = [s for s, _ in shelf.numbers.telling.get(cause.id, ()) if s in cause.expects]
    rest = sorted(set(cause.expects) - set(telling))
    rows = [_expect_row(shelf, cause, signal) for signal in [*telling, *rest]]
    head = (w("Look at"), w("Expected"), w("Price"), w("Because"))
    if rows:
        blocks.append(Table(head, tuple(rows[:OPEN_SIGNALS]), w("Most telling first")))
    if rows[OPEN_SIGNALS:]:
        fold = Table(head, tuple(rows[OPEN_SIGNALS:]))
        blocks.append(Fold(w("{n} more signals", n=len(rows) - OPEN_SIGNALS), (fold,)))
    return Section("confirm", w("Is it this?"), tuple(blocks), w("Diagnosis"))


def _expect_row(shelf: Shelf, cause: Cause, signal: str) -> tuple[Cell, ...]:
    link = cause.expects[signal]
    states: list[Part] = []
    for outcome, word in sorted(link.states.items(), key=lambda item: (-shelf.often_level(item[1]), item[0])):
        likely = shelf.often_level(word) > SELDOM  # who searches for what hardly ever comes with it means another cause
        if states:
            states.append(Plain(", ", searched=likely))
        states += [Plain(outcome, code=True, searched=likely), Plain(f" {shelf.often_word(word)}", searched=likely)]
    entry = shelf.book.signals.get(signal)
    because: list[Part] = [link.why, Plain(" ")] if link.why else []
    return (
        shelf.ref("signals", signal),
        tuple(states),
        Plain(shelf.signal_price(entry) if entry else ""),
        (*because, *refs_cell(_short(shelf, key) for key in link.because)),
    )


def _short(shelf: Shelf, key: str) -> Part:
    """A source by its key alone: tables have no room for titles."""
    part = shelf.source(key)
    if isinstance(part, Ref) and part.kind == "cases":
        return Ref(part.url, key, part.kind, part.id)
    if isinstance(part, Web):
        return Ref(f"sources.html#{key}", key)
    return part


def _mistaken(shelf: Shelf, cause: Cause) -> Section | None:
    w = shelf.w
    rows: list[tuple[Cell, ...]] = []
    for other in cause.mistaken_for:
        signal: Cell = shelf.ref("signals", other.signal) if other.signal else ""
        rows.append((shelf.ref("causes", other.cause), other.tell, signal))
    own = {m.cause for m in cause.mistaken_for}
    for neighbour, remark in shelf.mistaken_of.get(cause.id, []):
        if neighbour.id not in own:
            signal = shelf.ref("signals", remark.signal) if remark.signal else ""
            rows.append((shelf.ref("causes", neighbour.id), remark.tell, signal))
    if not rows:
        return None
    head = (w("Other cause"), w("What tells them apart"), w("Look at"))
    return Section("apart", w("Easily taken for"), (Table(head, tuple(rows)),))


def _couples(shelf: Shelf, cause: Cause) -> Section | None:
    rows = [(shelf.ref("causes", c.cause), c.why) for c in cause.couples]
    own = {c.cause for c in cause.couples}
    for other in shelf.book.causes.values():
        if other.id not in own:
            rows += [(shelf.ref("causes", other.id), c.why) for c in other.couples if c.cause == cause.id]
    return Section("together", shelf.w("Often together with"), (Links(tuple(rows)),)) if rows else None


def _prevent(shelf: Shelf, cause: Cause, preventions: list[Fix]) -> Section | None:
    w = shelf.w
    facts: list[tuple[str, Cell]] = []
    if cause.earlier:
        facts.append((w("Found earlier by"), cause.earlier))
    if cause.regression:
        facts.append((w("Regression test"), cause.regression))
    lists = shelf.checklists_of.get(cause.id, [])
    if lists:
        facts.append((w("Checklists"), refs_cell(shelf.ref("checklists", c.id) for c in lists)))
    blocks: list[Block] = [Facts(tuple(facts))] if facts else []
    if preventions:
        blocks.append(actions(shelf, preventions, open_=False))
    return Section("prevent", w("Prevent"), tuple(blocks)) if blocks else None
