"""The page of a symptom, the one an alert links to: first aid, confirm, likely causes, fixes, verify, prevent."""

from __future__ import annotations

from playbook.engine.tables import SHAPE
from playbook.faces.pages.blocks import (
    Bar,
    Bars,
    Block,
    Cell,
    Check,
    Checks,
    Facts,
    Fold,
    Links,
    Outcome,
    Page,
    Part,
    Plain,
    Prose,
    Ref,
    Section,
    Shape,
    Steps,
    Table,
    Web,
)
from playbook.faces.pages.numbers import MOST_CAUSES, CheckNumbers, SymptomNumbers
from playbook.faces.pages.parts import (
    actions,
    class_word,
    drop_empty,
    notices,
    past_section,
    quiz_section,
    sources_section,
    verify_section,
)
from playbook.faces.pages.picture import symptom_graph
from playbook.faces.pages.shelf import Shelf, percent
from playbook.knowledge.entries import Fix, Symptom

LEAST_SHARE = 0.01  # causes below this are in the list of causes, not on this page
OPEN_CHECKS = 6  # the rest is below the fold
MOST_FIXES = 8
FEW_FIXES = 5  # below this many, the repairs of the likely causes are added
MOST_PREVENTIONS = 8


def symptom_page(shelf: Shelf, symptom: Symptom) -> Page:
    w = shelf.w
    numbers = shelf.numbers.symptoms.get(symptom.id)
    healthy = symptom.id == "healthy"
    diagnosis = numbers.diagnosis if numbers else None
    fixes = _repairs(shelf, numbers)
    incidents = shelf.incidents_by_symptom.get(symptom.id, [])
    graph = symptom_graph(shelf, symptom)
    walk: tuple[tuple[Ref | Web, str], ...] = (
        (
            Ref(f"diagnose.html#{SHAPE}={symptom.id}", w("Start the guided diagnosis from here")),
            w("asks the next best question until the cause is found"),
        ),
    )
    sections = drop_empty(
        [
            _first_aid(shelf, symptom, diagnosis.first_aid if diagnosis else ()),
            Section(
                "see",
                w("Is it this?"),
                (Facts(((w("It looks like"), symptom.looks_like), (w("It is not this when"), symptom.not_this))),),
                w("Meaning"),
            ),
            Section(
                "impact",
                w("Impact, and when to stop"),
                (Facts(((w("What it costs"), symptom.impact), (w("Stop or roll back"), symptom.stop_loss))),),
                w("Impact"),
            ),
            _confirm(shelf, numbers, walk) if not healthy else None,
            _causes(shelf, numbers) if not healthy else None,
            Section("fix", w("Fix"), (actions(shelf, fixes, open_=False),), w("Mitigation")) if fixes else None,
            verify_section(shelf, fixes),
            _prevent(shelf, numbers),
            Section("escalate", w("Escalate"), (Prose(symptom.escalate),)) if symptom.escalate else None,
            past_section(
                shelf, incidents, shelf.cases_by_symptom.get(symptom.id, []), [i for i in incidents if i.record.cause]
            ),
            Section("picture", w("Picture"), (graph,)) if graph is not None and not healthy else None,
            quiz_section(shelf, symptom.id),
            sources_section(shelf, symptom),
        ]
    )
    return Page(
        path=f"symptoms/{symptom.id}.html",
        kind="symptoms",
        id=symptom.id,
        title=symptom.title,
        lead=symptom.summary,
        sections=sections,
        crumbs=(shelf.index("symptoms"),),
        notices=notices(shelf, symptom, "symptoms"),
        hero=(Shape(symptom.id, symptom.title),),
    )


def _repairs(shelf: Shelf, numbers: SymptomNumbers | None) -> list[Fix]:
    """The engine's repairs; where many causes share the probability it names few, then the first one of each cause."""
    if numbers is None or numbers.diagnosis.healthy:
        return []
    chosen = {name: shelf.book.fixes[name] for name in numbers.diagnosis.fixes}
    for ranked in numbers.diagnosis.causes[:MOST_CAUSES]:
        repairs = [f for f in shelf.fixes_of.get(ranked.id, []) if f.kind == "repair"]
        if repairs and len(chosen) < FEW_FIXES:
            chosen.setdefault(repairs[0].id, repairs[0])
    return list(chosen.values())[:MOST_FIXES]


def _first_aid(shelf: Shelf, symptom: Symptom, ranked: tuple[str, ...]) -> Section | None:
    """What the engine would put first; where it has no order, what the book has."""
    w = shelf.w
    ids = [*ranked, *(f.id for f in shelf.aid_of.get(symptom.id, []) if f.id not in ranked)]
    fixes: list[Fix] = [shelf.book.fixes[i] for i in ids]
    if not fixes:
        return None
    blocks: list[Block] = [actions(shelf, fixes[:3], tone="aid")]
    if len(fixes) > 3:
        blocks.append(Fold(w("{n} more first aid", n=len(fixes) - 3), (actions(shelf, fixes[3:], tone="aid"),)))
    return Section("first-aid", w("First aid"), tuple(blocks), w("in the next five minutes"), tone="aid")


def _confirm(shelf: Shelf, numbers: SymptomNumbers | None, walk: tuple[tuple[Ref | Web, str], ...]) -> Section | None:
    if numbers is None or not numbers.checks:
        return None
    w = shelf.w
    rows = tuple(_check(shelf, c) for c in numbers.checks)
    blocks: list[Block] = [
        Prose(w("Sorted by how much each check tells for its cost, given only this symptom.")),
        Checks(rows[:OPEN_CHECKS]),
    ]
    if rows[OPEN_CHECKS:]:
        blocks.append(Fold(w("{n} more", n=len(rows) - OPEN_CHECKS), (Checks(rows[OPEN_CHECKS:], more=True),)))
    blocks.append(Links(walk))
    return Section("confirm", w("Confirm"), tuple(blocks), w("Diagnosis"))


def _check(shelf: Shelf, check: CheckNumbers) -> Check:
    signal = shelf.book.signals[check.option.signal]
    outcomes = tuple(
        Outcome(outcome, signal.outcomes[outcome], shelf.ref("causes", cause), share)
        for outcome, cause, share, _ in check.leads
    )
    return Check(
        ref=shelf.ref("signals", signal.id),
        question=signal.question,
        way=shelf.way_word(signal.kind),
        price=shelf.price(check.option.cost),
        gain=shelf.w("tells {n} bit", n=f"{check.option.gain:.2f}"),
        outcomes=outcomes,
        how=signal.how,
        commands=tuple(signal.commands[:1]),
        danger=shelf.danger_word(signal.danger),
    )


def _causes(shelf: Shelf, numbers: SymptomNumbers | None) -> Section | None:
    if numbers is None:
        return None
    w = shelf.w
    diagnosis = numbers.diagnosis
    bars = []
    shown = [r for r in diagnosis.causes[:MOST_CAUSES] if r.probability >= LEAST_SHARE]
    for ranked in shown:
        below: list[Cell] = []
        apart = numbers.apart.get(ranked.id, ())
        if apart:
            below.append((Plain(w("Tells it apart") + ": "), *_states(shelf, apart)))
        others = [v for v, _ in ranked.variants if v != ranked.id]
        if others:
            parts: list[Part] = [Plain(w("Also in this form") + ": ")]
            for other in others[:5]:
                parts += [shelf.ref("causes", other), Plain(" · ")]
            below.append(tuple(parts[:-1]))
        bars.append(
            Bar(
                label=shelf.ref("causes", ranked.id),
                share=ranked.probability,
                note=Plain(f"{shelf.layer_word(ranked.layer)} · {class_word(shelf, ranked.class_)}"),
                below=tuple(below),
                anchor=f"cause-{ranked.id}",
            )
        )
    rest = max(0.0, 1 - sum(r.probability for r in shown) - diagnosis.unknown)
    bars.append(Bar(shelf.index("causes"), rest, Plain(w("all other causes of the book"))))
    bars.append(Bar(Plain(w("Not in the book")), diagnosis.unknown, ""))
    blocks: list[Block] = [Bars(tuple(bars), w("Probability given only this symptom"))]
    if diagnosis.coupled:
        rows: list[tuple[Cell, ...]] = [
            (shelf.ref("causes", a), shelf.ref("causes", b), Plain(percent(p))) for a, b, p in diagnosis.coupled
        ]
        blocks.append(Table((w("Two at once"), "", ""), tuple(rows)))
    return Section("causes", w("Likely causes"), tuple(blocks), w("and what tells them apart"))


def _states(shelf: Shelf, pairs: tuple[tuple[str, str], ...]) -> tuple[Part, ...]:
    parts: list[Part] = []
    for signal, outcome in pairs:
        if parts:
            parts.append(Plain(" · "))
        parts += [shelf.ref("signals", signal), Plain(" = "), Plain(outcome, code=True)]
    return tuple(parts)


def _prevent(shelf: Shelf, numbers: SymptomNumbers | None) -> Section | None:
    """Preventions of the likely causes, and how monitoring would have been earlier."""
    if numbers is None:
        return None
    w = shelf.w
    blocks: list[Block] = []
    chosen: dict[str, Fix] = {}
    earlier: list[Cell] = []
    for ranked in numbers.diagnosis.causes[:MOST_CAUSES]:
        for fix in shelf.fixes_of.get(ranked.id, []):
            if fix.kind == "prevention":
                chosen.setdefault(fix.id, fix)
        text = shelf.book.causes[ranked.id].earlier
        if text and ranked.probability >= 0.03:
            earlier.append((shelf.ref("causes", ranked.id, "#prevent"), Plain(": "), text))
    if chosen:
        rows: tuple[tuple[Ref | Web, str], ...] = tuple(
            (shelf.ref("fixes", f.id), f.summary) for f in list(chosen.values())[:MOST_PREVENTIONS]
        )
        blocks.append(Links(rows))
    if earlier:
        blocks.append(
            Fold(w("How monitoring would have found it earlier"), (Steps(tuple(earlier[:6]), numbered=False),))
        )
    return Section("prevent", w("Prevent"), tuple(blocks)) if blocks else None
