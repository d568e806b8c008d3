"""Cards about causes: what tells one from another, in which layer the fault sits, what a fact makes impossible.

Every wrong choice says when it would be the right one; the engine's own tables find that, not a person.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from playbook.knowledge.entries import LAYERS, SHAPE, Cause
from playbook.workflow.learning.quiz_cards import (
    Card,
    Ground,
    Option,
    Spec,
    card_id,
    dice,
    first_sentence,
    pick,
    shuffled,
)

# Two causes are alike on a signal below the first figure and well apart above the second (0..1).
ALIKE = 0.12
WELL_APART = 0.4
CHOICES = 4


def tells_specs(ground: Ground) -> Iterator[Spec]:
    """What tells A from B: one card for each confusion that a cause names."""
    for cause in ground.causes.values():
        for other in cause.mistaken_for:
            rival = ground.causes.get(other.cause)
            if rival is None or other.signal not in ground.book.signals:
                continue
            level = 4 if rival.class_ == cause.class_ else 3 if rival.layer == cause.layer else 2
            topics = ground.topics(cause) | {rival.id, rival.layer, other.signal}
            yield Spec(
                card_id("tells", cause.id, rival.id), "tells", ("causes", cause.id), rival.id, level,
                frozenset(topics | {"tells"}),
            )  # fmt: skip


def tells(ground: Ground, spec: Spec) -> Card | None:
    say, book = ground.say, ground.book
    cause, rival = ground.causes[spec.node[1]], ground.causes[spec.variant]
    told = next(m for m in cause.mistaken_for if m.cause == rival.id)
    assert told.signal is not None
    right = Option(book.signals[told.signal].question, 1.0, told.tell, ("signals", told.signal))
    wrong = []
    for signal, third in _useless(ground, cause, rival, told.signal, spec):
        why = say(
            "Says nothing here: both mostly give {outcome}. It would be the right one between {a} and {c}, where it"
            " mostly gives {there}.",
            outcome=ground.usual(cause.id, signal), a=cause.title, c=ground.causes[third].title,
            there=ground.usual(third, signal),
        )  # fmt: skip
        wrong.append(Option(book.signals[signal].question, 0.0, why, ("signals", signal)))
    if len(wrong) < CHOICES - 1:
        return None
    return Card(
        spec,
        say(
            "One of two things is going on. A: {a}. B: {b}. Which observation tells them apart?",
            a=cause.title, b=rival.title,
        ),
        "choice",
        (("causes", cause.id), ("causes", rival.id), ("signals", told.signal)),
        options=shuffled([right, *wrong], spec),
        explain=told.tell,
        sources=tuple(cause.sources[:3]),
    )  # fmt: skip


def _useless(ground: Ground, a: Cause, b: Cause, right: str, spec: Spec) -> list[tuple[str, str]]:
    """(signal, third cause): signals on which A and B look alike, and a cause that the signal would tell from A."""
    tables = ground.tables
    i, j = ground.index(a.id), ground.index(b.id)
    kin = [ground.index(c) for c in ground.kin(a) if c != b.id] or [h for h in range(len(tables.causes)) if h != i]
    found = []
    for s, signal in enumerate(tables.signals):
        alike = ground.apart[i, j, s] < ALIKE and tables.groups[signal] != tables.groups[right]
        if not alike or signal == SHAPE or not (tables.linked[i, s] or tables.linked[j, s]):
            continue
        far = ground.apart[i, kin, s]
        best = kin[int(far.argmax())]
        if far.max() >= WELL_APART and ground.usual(a.id, signal) != ground.usual(tables.causes[best], signal):
            found.append((signal, tables.causes[best]))
    return pick(found, CHOICES - 1, spec.id)


def layer_specs(ground: Ground) -> Iterator[Spec]:
    """Which layer: one card a cause."""
    for cause in ground.causes.values():
        level = 1 if cause.common in ("very_common", "common") else 2
        yield Spec(
            card_id("layer", cause.id), "layer", ("causes", cause.id), "", level, ground.topics(cause) | {"layer"}
        )


def layer(ground: Ground, spec: Spec) -> Card | None:
    say = ground.say
    cause = ground.causes[spec.node[1]]
    pool = [*ground.kin(cause), *pick([c for c in ground.causes if c != cause.id], 60, spec.id, "pool")]
    rivals: dict[str, Cause] = {}
    for name in pool:
        other = ground.causes[name]
        if other.layer != cause.layer:
            rivals.setdefault(other.layer, other)
    chosen = pick([name for name in LAYERS if name in rivals], CHOICES - 1, spec.id)
    if len(chosen) < CHOICES - 1:
        return None
    options = [Option(say(cause.layer), 1.0, first_sentence(cause.mechanism), ("causes", cause.id))]
    for name in chosen:
        other = rivals[name]
        why = say("It would be {layer} for example with: {title}. {how}", layer=say(name), title=other.title,
                  how=first_sentence(other.summary))  # fmt: skip
        options.append(Option(say(name), 0.0, why, ("causes", other.id)))
    return Card(
        spec,
        say("In which layer does this fault sit? {summary}", summary=cause.summary),
        "choice",
        (("causes", cause.id),),
        options=shuffled(options, spec),
        explain=f"{cause.title}. {first_sentence(cause.mechanism)}",
        sources=tuple(cause.sources[:3]),
    )


def impossible_specs(ground: Ground) -> Iterator[Spec]:
    """Hard facts (precision above all): which cause cannot be, given one outcome."""
    for cause in ground.causes.values():
        for rule in cause.excludes:
            if rule.signal in ground.book.signals:
                yield Spec(
                    card_id("impossible", cause.id, f"{rule.signal}={rule.outcome}"), "impossible",
                    ("causes", cause.id), f"{rule.signal}={rule.outcome}", 2,
                    ground.topics(cause) | {"impossible", rule.signal, rule.outcome},
                )  # fmt: skip


def impossible(ground: Ground, spec: Spec) -> Card | None:
    say, book = ground.say, ground.book
    cause = ground.causes[spec.node[1]]
    signal, _, outcome = spec.variant.partition("=")
    rule = next(r for r in cause.excludes if (r.signal, r.outcome) == (signal, outcome))
    pool = []
    for other in ground.causes.values():
        if other.id == cause.id or any((r.signal, r.outcome) == (signal, outcome) for r in other.excludes):
            continue
        # A distractor must be possible with this fact, and impossible given another one.
        likely = ground.tables.likelihood[ground.index(other.id), ground.tables.columns[signal]]
        chance = float(likely[ground.tables.outcomes[signal].index(outcome)])
        if other.excludes and chance >= 0.1:
            pool.append(other)
    near = [o for o in pool if o.layer == cause.layer or set(ground.symptoms_of(o)) & set(ground.symptoms_of(cause))]
    chosen = pick(near if len(near) >= CHOICES - 1 else pool, CHOICES - 1, spec.id)
    if len(chosen) < CHOICES - 1:
        return None
    options = [Option(cause.title, 1.0, rule.why, ("causes", cause.id))]
    for other in chosen:
        own = other.excludes[0]
        why = say("Possible with {here}. It would be impossible given {there}: {why}",
                  here=f"{signal} = {outcome}", there=f"{own.signal} = {own.outcome}", why=own.why)  # fmt: skip
        options.append(Option(other.title, 0.0, why, ("causes", other.id)))
    return Card(
        spec,
        say("One fact is certain. Which of these causes does it rule out for good?"),
        "choice",
        (("causes", cause.id), ("signals", signal)),
        facts=(ground.fact(signal, outcome),),
        options=shuffled(options, spec),
        explain=say("{fact} rules it out: {why}", fact=f"{book.signals[signal].title} = {outcome}", why=rule.why),
        sources=tuple(rule.because),
    )


def separating(ground: Ground, signal: str, causes: list[str]) -> tuple[str, str] | None:
    """The two of `causes` that a signal tells apart best; None where it tells none of them well."""
    s = ground.tables.signals.index(signal)
    index = [ground.index(c) for c in causes]
    block = ground.apart[np.ix_(index, index)][:, :, s]
    if not block.size or block.max() < WELL_APART:
        return None
    a, b = np.unravel_index(int(block.argmax()), block.shape)
    return causes[int(a)], causes[int(b)]


def any_pair(ground: Ground, signal: str, spec: Spec) -> tuple[str, str]:
    """Two causes of the whole book that a signal tells apart as well as any."""
    s = ground.tables.signals.index(signal)
    plane = ground.apart[:, :, s]
    best = np.argwhere(plane >= plane.max() - 1e-9)
    a, b = best[dice(spec.id, signal).randrange(len(best))]
    return ground.tables.causes[int(a)], ground.tables.causes[int(b)]
