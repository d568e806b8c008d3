"""The page of a case: the story, the curve, the wrong turns, the fix, and how the engine walks it."""

from __future__ import annotations

from playbook.faces.pages.blocks import (
    Block,
    Cell,
    Facts,
    Fold,
    Move,
    Page,
    Plain,
    Prose,
    Section,
    Shape,
    Steps,
    Table,
    Walk,
)
from playbook.faces.pages.curve import plot
from playbook.faces.pages.numbers import WalkNumbers
from playbook.faces.pages.parts import drop_empty, notices, quiz_section, runs_of, sources_section, truth_refs
from playbook.faces.pages.shelf import Shelf, shape_of
from playbook.knowledge.entries import Case
from playbook.workflow.records.published import Strip
from playbook.workflow.session import UNKNOWN


def case_page(shelf: Shelf, case: Case, walk: WalkNumbers | None, strips: tuple[Strip, ...]) -> Page:
    w = shelf.w
    shape = shape_of(case)
    sections = drop_empty(
        [
            Section("story", w("What happened"), (Prose(case.story),), w("Meaning")) if case.story else None,
            _curves(shelf, strips),
            Section("truth", w("The cause"), (Facts(tuple(_truth(shelf, case))),)),
            Section("fix", w("Fix"), (Prose(case.fix),), w("Mitigation")) if case.fix else None,
            Section("wrong", w("Wrong turns"), (Steps(tuple(case.wrong_turns), numbered=False),))
            if case.wrong_turns
            else None,
            Section("earlier", w("Found earlier by"), (Prose(case.earlier),)) if case.earlier else None,
            _walk(shelf, walk),
            _known(shelf, case),
            quiz_section(shelf, case.id),
            sources_section(shelf, case),
        ]
    )
    return Page(
        path=f"cases/{case.id}.html",
        kind="cases",
        id=case.id,
        title=case.title,
        lead="",
        sections=sections,
        crumbs=(shelf.index("cases"),),
        tags=(Plain(w("confirmed") if case.confidence == "confirmed" else w("likely")),),
        notices=notices(shelf, case, "cases"),
        hero=(Shape(shape, shelf.title("symptoms", shape) or shape),) if shape in shelf.book.symptoms else (),
    )


def _truth(shelf: Shelf, case: Case) -> list[tuple[str, Cell]]:
    w = shelf.w
    rows: list[tuple[str, Cell]] = [(w("Cause"), truth_refs(shelf, case))]
    shape = shape_of(case)
    if shape:
        rows.insert(0, (w("Symptom"), shelf.ref("symptoms", shape)))
    told = [w.say(f"{key.replace('_', ' ')}: {value}") for key, value in case.context.items()]
    context = w.comma.join(told)
    if context:
        rows.append((w("Setting"), Plain(context)))
    return rows


def _curves(shelf: Shelf, strips: tuple[Strip, ...]) -> Section | None:
    blocks: list[Block] = []
    for strip in strips:
        marks = [(strip.onset, shelf.w("onset"), "onset")] if strip.onset is not None else []
        drawn = plot(shelf, strip.metric, (strip,), marks)
        if drawn is not None:
            blocks.append(drawn)
    return Section("curves", shelf.w("Curves"), tuple(blocks)) if blocks else None


def _walk(shelf: Shelf, walk: WalkNumbers | None) -> Section | None:
    if walk is None:
        return None
    w = shelf.w
    moves = []
    for move in walk.moves:
        signal = shelf.book.signals[move.signal]
        known = move.state != UNKNOWN
        moves.append(
            Move(
                signal=shelf.ref("signals", move.signal),
                question=signal.question,
                answer=move.state if known else w("not known"),
                meaning=signal.outcomes.get(move.state, "") if known else "",
                price=shelf.price(move.cost),
                top=tuple((shelf.ref("causes", c), p) for c, p in move.top),
                known=known,
            )
        )
    if walk.rank == 1:
        verdict = w("The true cause came first.")
    elif walk.rank:
        verdict = w("The true cause was ranked number {n}.", n=walk.rank)
    else:
        verdict = w("The true cause is not among the causes of the book.")
    verdict += " " + (w("The engine decided.") if walk.decided else w("The engine stayed undecided."))
    block = Walk(
        start=tuple((shelf.ref("signals", s), state) for s, state in walk.start),
        start_top=tuple((shelf.ref("causes", c), p) for c, p in walk.start_top),
        runs=runs_of(moves),
        trace=(walk.start_truth, *(m.truth for m in walk.moves)),
        verdict=verdict,
    )
    return Section("walk", w("How the engine walks it"), (block,), w("Diagnosis"))


def _known(shelf: Shelf, case: Case) -> Section | None:
    w = shelf.w
    rows: tuple[tuple[Cell, ...], ...] = tuple(
        (shelf.ref("signals", signal), Plain(str(state), code=True)) for signal, state in sorted(case.answers.items())
    )
    if not rows:
        return None
    fold = Fold(w.count(len(rows), "1 answer", "{n} answers"), (Table((w("Signal"), w("Outcome")), rows),))
    return Section("answers", w("What is known about it"), (fold,))
