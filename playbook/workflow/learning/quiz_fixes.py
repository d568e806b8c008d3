"""Cards about doing: first aid for a symptom, the repair for a cause, how a cure shows, the way back, the order."""

from __future__ import annotations

from collections.abc import Iterator

from playbook.knowledge.entries import SHAPE, Cause, Fix
from playbook.workflow.learning.quiz_cards import (
    Card,
    Ground,
    Option,
    Spec,
    card_id,
    first_sentence,
    pick,
    shuffled,
)

CHOICES = 4
_TELLING = 4  # words below which a text ("Set the old limit.") belongs to no fix in particular


def first_aid_specs(ground: Ground) -> Iterator[Spec]:
    """First aid: one card for each fix of a symptom."""
    for symptom, fixes in ground.aids.items():
        if symptom not in ground.book.symptoms and symptom not in _shapes(ground):
            continue
        for fix in fixes:
            topics = frozenset({"first-aid", symptom, fix.id})
            yield Spec(
                card_id("first-aid", symptom, fix.id), "first-aid", ground.symptom_link(symptom), fix.id, 1, topics
            )


def _shapes(ground: Ground) -> dict[str, str]:
    shape = ground.book.signals.get(SHAPE)
    return dict(shape.outcomes) if shape is not None else {}


def first_aid(ground: Ground, spec: Spec) -> Card | None:
    say, book = ground.say, ground.book
    symptom = spec.id.split(":")[1]
    fix = book.fixes[spec.variant]
    own = {f.id for f in ground.aids[symptom]}
    pool = sorted({f.id for fixes in ground.aids.values() for f in fixes} - own)
    chosen = pick(pool, CHOICES - 1, spec.id)
    if len(chosen) < CHOICES - 1:
        return None
    options = [Option(fix.title, 1.0, fix.summary, ("fixes", fix.id))]
    for name in chosen:
        other = book.fixes[name]
        when = say("{a}, {b}", a="", b="").join(ground.symptom_title(s) for s in other.symptoms)
        why = say("That is first aid for: {symptoms}. {summary}", symptoms=when, summary=first_sentence(other.summary))
        options.append(Option(other.title, 0.0, why, ("fixes", name)))
    entry = book.symptoms.get(symptom)
    looks = entry.looks_like if entry is not None else _shapes(ground)[symptom]
    return Card(
        spec,
        say("The alert says: {symptom}. What do you do first?", symptom=ground.symptom_title(symptom)),
        "choice",
        (ground.symptom_link(symptom), ("fixes", fix.id)),
        facts=(looks,),
        options=shuffled(options, spec),
        explain=fix.summary,
        sources=tuple(fix.sources[:3]),
    )


def repair_specs(ground: Ground) -> Iterator[Spec]:
    """The repair: one card a cause, against the repairs of what it is mistaken for."""
    for cause in ground.causes.values():
        if cause.id in ground.repairs:
            yield Spec(
                card_id("repair", cause.id), "repair", ("causes", cause.id), "", 2, ground.topics(cause) | {"repair"}
            )


def repair(ground: Ground, spec: Spec) -> Card | None:
    say = ground.say
    cause = ground.causes[spec.node[1]]
    fix = ground.repairs[cause.id][0]
    rivals: dict[str, Cause] = {}
    for name in (*(m.cause for m in cause.mistaken_for), *ground.kin(cause), *ground.repairs):
        other = ground.repairs.get(name, (None,))[0]
        if name in ground.causes and other is not None and cause.id not in other.treats:
            rivals.setdefault(other.id, ground.causes[name])
        if len(rivals) == CHOICES - 1:
            break
    if len(rivals) < CHOICES - 1:
        return None
    tells = {m.cause: m.tell for m in cause.mistaken_for}
    options = [Option(fix.title, 1.0, fix.summary, ("fixes", fix.id))]
    for fix_id, other_cause in rivals.items():
        why = say("It would be right for: {cause}. {tell}", cause=other_cause.title,
                  tell=tells.get(other_cause.id, first_sentence(other_cause.summary)))  # fmt: skip
        options.append(Option(ground.book.fixes[fix_id].title, 0.0, why, ("fixes", fix_id)))
    return Card(
        spec,
        say("The cause is established: {cause}. What mends it?", cause=cause.title),
        "choice",
        (("causes", cause.id), ("fixes", fix.id)),
        options=shuffled(options, spec),
        explain=f"{fix.title}. {fix.cured}",
        sources=tuple(fix.sources[:3]),
    )


def cured_specs(ground: Ground) -> Iterator[Spec]:
    """How it shows that a fix has worked: one card a fix."""
    return _fix_specs(ground, "cured", 2, ("safe", "low", "medium", "high"))


def undo_specs(ground: Ground) -> Iterator[Spec]:
    """The way back from a fix: one card for each fix with which something can go wrong."""
    return _fix_specs(ground, "undo", 3, ("medium", "high"))


def _fix_specs(ground: Ground, template: str, level: int, risks: tuple[str, ...]) -> Iterator[Spec]:
    for fix in sorted(ground.book.fixes.values(), key=lambda f: f.id):
        if fix.kind == "prevention" or fix.status == "deprecated" or fix.risk not in risks:
            continue
        layers = {ground.causes[c].layer for c in fix.treats if c in ground.causes}
        topics = frozenset({template, fix.id, *fix.treats, *fix.symptoms, *layers})
        yield Spec(card_id(template, fix.id), template, ("fixes", fix.id), "", level, topics)


def cured(ground: Ground, spec: Spec) -> Card | None:
    say = ground.say
    fix = ground.book.fixes[spec.node[1]]
    others = _other_fixes(ground, fix, "cured", spec)
    if len(others) < CHOICES - 2:
        return None
    options = [
        Option(fix.cured, 1.0, say("That is the sign of a cure."), ("fixes", fix.id)),
        Option(
            fix.not_cured, 0.0, say("That is what is seen when it did not work, and what that tells."),
            ("fixes", fix.id),
        ),
    ]  # fmt: skip
    for other in others[: CHOICES - 2]:
        options.append(Option(other.cured, 0.0, say("It would be right after: {fix}", fix=other.title),
                              ("fixes", other.id)))  # fmt: skip
    return Card(
        spec,
        say("You have done this: {fix}. What shows that it worked?", fix=fix.title),
        "choice",
        (("fixes", fix.id),),
        facts=(fix.summary,),
        options=shuffled(options, spec),
        explain=fix.cured,
        sources=tuple(fix.sources[:3]),
    )


def undo(ground: Ground, spec: Spec) -> Card | None:
    say = ground.say
    fix = ground.book.fixes[spec.node[1]]
    others = _other_fixes(ground, fix, "undo", spec)
    if len(others) < CHOICES - 1 or not _telling(fix.undo):
        return None
    options = [Option(fix.undo, 1.0, say("Risk of this step: {risk}.", risk=say(fix.risk)), ("fixes", fix.id))]
    for other in others[: CHOICES - 1]:
        options.append(Option(other.undo, 0.0, say("That takes back: {fix}", fix=other.title), ("fixes", other.id)))
    return Card(
        spec,
        say("You have done this and it did not help: {fix}. What is the way back?", fix=fix.title),
        "choice",
        (("fixes", fix.id),),
        facts=(fix.not_cured,),
        options=shuffled(options, spec),
        explain=fix.undo,
        sources=tuple(fix.sources[:3]),
    )


def _other_fixes(ground: Ground, fix: Fix, attribute: str, spec: Spec) -> list[Fix]:
    """Fixes of the same kind whose text differs, those of the same layers first; never two with one text."""
    layers = {ground.causes[c].layer for c in fix.treats if c in ground.causes}
    seen = {" ".join(str(getattr(fix, attribute)).lower().split())}
    near: list[Fix] = []
    far: list[Fix] = []
    for other in sorted(ground.book.fixes.values(), key=lambda f: f.id):
        text = " ".join(str(getattr(other, attribute)).lower().split())
        if other.kind != fix.kind or other.id == fix.id or text in seen or other.status == "deprecated":
            continue
        if not _telling(text):
            continue
        seen.add(text)
        same = layers & {ground.causes[c].layer for c in other.treats if c in ground.causes}
        alike = set(fix.treats) & set(other.treats)
        if not alike:
            (near if same else far).append(other)
    pool = near if len(near) >= CHOICES else near + far
    return pick(pool, CHOICES - 1, spec.id, attribute)


def _telling(text: str) -> bool:
    """Whether a text belongs to its fix: not "Nothing to undo", not "Set the old limit"."""
    enough = len(text.split()) >= _TELLING if text.isascii() else len(text) >= 2 * _TELLING
    return enough and not text.lower().startswith("nothing")


def order_specs(ground: Ground) -> Iterator[Spec]:
    """Order the steps: one card for each cause that has first aid, a repair and a test to keep."""
    for cause in ground.causes.values():
        if cause.id in ground.repairs and cause.regression and any(s in ground.aids for s in ground.symptoms_of(cause)):
            yield Spec(
                card_id("order", cause.id), "order", ("causes", cause.id), "", 2, ground.topics(cause) | {"order"}
            )


def order(ground: Ground, spec: Spec) -> Card | None:
    """Stop the loss, confirm, mend, see that it holds, keep it from coming back."""
    say, book = ground.say, ground.book
    cause = ground.causes[spec.node[1]]
    symptom = next(s for s in ground.symptoms_of(cause) if s in ground.aids)
    aid, fix = ground.aids[symptom][0], ground.repairs[cause.id][0]
    signal = next((m.signal for m in cause.mistaken_for if m.signal in book.signals), None)
    if signal is None:
        return None
    steps = (
        aid.title,
        say("Look: {question}", question=book.signals[signal].question),
        fix.title,
        say("See whether this holds: {cured}", cured=first_sentence(fix.cured)),
        first_sentence(cause.regression),
    )
    return Card(
        spec,
        say(
            "Alert: {symptom}. It will turn out to be: {cause}. In which order do you go?",
            symptom=ground.symptom_title(symptom), cause=cause.title,
        ),
        "order",
        (("causes", cause.id), ("fixes", aid.id), ("fixes", fix.id), ("signals", signal)),
        steps=steps,
        explain=say("Stop the loss before you look, know before you mend, and leave a test behind."),
        sources=("D2-tri-1", "D2-tri-7"),
    )  # fmt: skip
