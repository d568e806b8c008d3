"""Cards that the engine marks: the next best check by its value, a probability by Brier, what a control run costs.

The scene is a published incident, played a few moves as the engine plays it; so each card comes with its evidence.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np

from playbook.engine import value
from playbook.engine.belief import posterior
from playbook.engine.explain import reasons, weigh
from playbook.engine.value import RunSize
from playbook.knowledge.entries import SHAPE, Figure
from playbook.workflow.cases import CaseFile, has_outcome, read_case, start
from playbook.workflow.learning.quiz_cards import (
    Card,
    Chance,
    Ground,
    Option,
    Spec,
    card_id,
    dice,
    pick,
    shuffled,
)
from playbook.workflow.learning.quiz_causes import any_pair, separating
from playbook.workflow.session import UNKNOWN, Session

CHOICES = 4
MOVES = (0, 2)  # answered checks before the question: at the alert, and a little later
LOOKS = 12  # checks that the engine may make in vain before the scene is given up
# A wrong choice brings at most this share of the best value for its cost: near ties teach nothing.
WORSE = 0.6
_SUSPECTS = (4, 2, 1)  # how often the first, second and third suspect of the engine is asked about
PLAUSIBLE = 12  # causes among which a weaker check may have its own moment
_SIZES = ((8, 1.0), (64, 4.0), (64, 32.0), (256, 8.0), (1024, 12.0))  # (GPUs, seconds a step)


def next_specs(ground: Ground) -> Iterator[Spec]:
    """The next best check: two moments of each published incident."""
    for case in _cases(ground):
        for moves in MOVES:
            topics = frozenset({"next", case.id, str(case.answers.get(SHAPE, ""))} - {""})
            level = 3 if moves == 0 else 4
            yield Spec(card_id("next", case.id, str(moves)), "next", ("cases", case.id), str(moves), level, topics)


def next_check(ground: Ground, spec: Spec) -> Card | None:
    say, book, tables = ground.say, ground.book, ground.tables
    session = _scene(ground, spec.node[1], int(spec.variant))
    if session is None:
        return None
    known = {e.signal for e in session.evidence}
    belief = posterior(tables, session.evidence)
    ranked = value.options(tables, belief, book.signals, known, session.closed, session.size, session.clusters_done)
    best = ranked[0]
    weak = [o for o in ranked[1:] if o.rate <= WORSE * best.rate]
    if len(weak) < CHOICES - 1 or best.gain < 0.05:
        return None
    # One that tells much and costs too much, one near miss, one at random.
    dear = max(weak, key=lambda o: (o.gain, o.signal))
    near = next(o for o in weak if o.signal != dear.signal)
    rest = [o for o in weak if o.signal not in (dear.signal, near.signal)]
    chosen = [dear, near, *pick(rest[: len(rest) // 2 + 1], CHOICES - 3, spec.id)]
    order = np.argsort(-belief.marginal, kind="stable")[:PLAUSIBLE]
    plausible = [tables.causes[int(h)] for h in order]
    options = [
        Option(book.signals[best.signal].question, 1.0, _worth(ground, best, 1.0), ("signals", best.signal)),
    ]
    for option in chosen:
        share = option.rate / best.rate
        pair = separating(ground, option.signal, plausible) or any_pair(ground, option.signal, spec)
        why = say("{worth} It would be the right one if the choice were between {a} and {b}.",
                  worth=_worth(ground, option, share), a=ground.causes[pair[0]].title,
                  b=ground.causes[pair[1]].title)  # fmt: skip
        options.append(Option(book.signals[option.signal].question, round(share, 2), why, ("signals", option.signal)))
    first, second = (ground.causes[c] for c in plausible[:2])
    return Card(
        spec,
        say("This is known. Which check is most worth its cost now?"),
        "choice",
        (("signals", best.signal), ("cases", spec.node[1])),
        facts=_facts(ground, session),
        options=shuffled(options, spec),
        explain=say(
            "Before the check {a} ({p:.0%}) and {b} ({q:.0%}) lead; it tells most about the cause for its cost.",
            a=first.title, p=float(belief.marginal[order[0]]), b=second.title, q=float(belief.marginal[order[1]]),
        ),
        sources=tuple(book.cases[spec.node[1]].sources[:2]),
    )  # fmt: skip


def _worth(ground: Ground, option: value.Option, share: float) -> str:
    hours = ground.say(", {n:.1f} GPU-hours", n=option.cost.gpu_hours) if option.cost.gpu_hours >= 0.05 else ""
    return ground.say(
        "Tells {bits:.2f} bit for {minutes:.0f} minutes{hours}: {share:.0%} of the best.",
        bits=option.gain, minutes=option.cost.minutes, hours=hours, share=share,
    )  # fmt: skip


def chance_specs(ground: Ground) -> Iterator[Spec]:
    """A probability: how sure of one suspect, at two moments of each published incident."""
    for case in _cases(ground):
        for moves in MOVES:
            topics = frozenset({"chance", case.id, str(case.answers.get(SHAPE, ""))} - {""})
            yield Spec(card_id("chance", case.id, str(moves)), "chance", ("cases", case.id), str(moves), 4, topics)


def chance(ground: Ground, spec: Spec) -> Card | None:
    say, tables = ground.say, ground.tables
    session = _scene(ground, spec.node[1], int(spec.variant))
    if session is None:
        return None
    case = ground.book.cases[spec.node[1]]
    belief = posterior(tables, session.evidence)
    order = [int(h) for h in np.argsort(-belief.marginal, kind="stable")[:3]]
    truth = [h for h, c in enumerate(tables.causes) if c in case.causes or tables.class_of[h] in case.causes]
    if not truth:
        return None
    # The suspect is chosen without a look at the truth, so that the engine's figure is honest to compare with.
    asked = dice(spec.id).choices(order, weights=_SUSPECTS[: len(order)])[0]
    name = tables.class_of[asked]
    members = [h for h, c in enumerate(tables.class_of) if c == name]
    engine = float(belief.marginal[members].sum())
    is_true = float(name in {tables.class_of[h] for h in truth})
    pro, con = reasons(belief, weigh(tables, belief), asked)
    told = "; ".join(f"{r.signal} = {r.state}" for r in [*pro[:2], *con[:1]])
    cause = ground.causes[tables.causes[asked]]
    real = ground.causes[tables.causes[max(truth, key=lambda h: belief.marginal[h])]]
    why = say(
        "The engine says {p:.0%}, because of {told}. In this incident the cause was: {real}.",
        p=engine, told=told or say("little that speaks either way"), real=real.title,
    )  # fmt: skip
    return Card(
        spec,
        say("This is known. How probable is it that the cause is this one, or one of its class: {cause}? (0-100 %)",
            cause=cause.title),
        "percent",
        (("causes", cause.id), ("cases", spec.node[1])),
        facts=_facts(ground, session),
        chance=Chance(is_true, round(engine, 4), why),
        explain=why,
        sources=tuple(case.sources[:2]),
    )  # fmt: skip


def price_specs(ground: Ground) -> Iterator[Spec]:
    """Orders of magnitude: the GPU-hours of a control run, for three sizes of job each."""
    for signal in sorted(ground.book.signals.values(), key=lambda s: s.id):
        if signal.steps and signal.gpus != "none":
            for variant in ("0", "1", "2"):
                topics = frozenset({"price", signal.id, signal.kind})
                yield Spec(
                    card_id("price", signal.id, variant), "price", ("signals", signal.id), variant, 1, topics
                )  # fmt: skip


def price(ground: Ground, spec: Spec) -> Card | None:
    say = ground.say
    signal = ground.book.signals[spec.node[1]]
    gpus, seconds = _SIZES[dice(spec.id).randrange(len(_SIZES))]
    used = gpus if signal.gpus == "all" else 1
    hours = signal.steps * seconds / 3600 * used
    why = say("{steps} steps x {seconds:g} s x {gpus} GPUs / 3600 s", steps=signal.steps, seconds=seconds, gpus=used)
    return Card(
        spec,
        say(
            "A control run: {question} It needs {steps} steps on {used}; a step takes {seconds:g} s on this job of"
            " {gpus} GPUs. How many GPU-hours does it cost?",
            question=signal.question, steps=signal.steps, seconds=seconds, gpus=gpus,
            used=say("all GPUs") if signal.gpus == "all" else say("one GPU"),
        ),
        "number",
        (("signals", signal.id),),
        number=Figure(value=round(hours, 3), unit="GPU-h", within=0.1, why=why),
        explain=why,
        sources=tuple(signal.sources[:2]),
    )  # fmt: skip


def _cases(ground: Ground) -> list[CaseFile]:
    return [case for case in ground.book.cases.values() if ("cases", case.id) in ground.book.files]


def _scene(ground: Ground, case_id: str, moves: int) -> Session | None:
    """The incident after `moves` answered checks of the engine's own choosing; None where it does not get there."""
    if (case_id, moves) in ground.scenes:
        return ground.scenes[case_id, moves]
    ground.scenes[case_id, moves] = session = _play(ground, case_id, moves)
    return session


def _play(ground: Ground, case_id: str, moves: int) -> Session | None:
    path: Path = ground.book.files["cases", case_id]
    case = read_case(path)
    session = start(case.model_copy(update={"metrics": []}), ground.book, ground.tables, path.parent)
    got = 0
    for _ in range(LOOKS):
        if got == moves:
            break
        option = session.diagnosis(explained=False).next
        if option is None:
            return None
        state = str(case.answers.get(option.signal, UNKNOWN))
        known = has_outcome(ground.book, option.signal, state)
        session.answer(option.signal, state if known else UNKNOWN, source="case")
        got += known
    return session if got == moves and len(session.evidence) >= 2 else None


def _facts(ground: Ground, session: Session) -> tuple[str, ...]:
    """What is known, the shape of the loss first; and what it costs to look."""
    known = sorted(session.evidence, key=lambda e: (e.signal != SHAPE, e.signal))
    size: RunSize = session.size
    lines = [ground.fact(e.signal, e.state) for e in known]
    job = ground.say("The job: {gpus} GPUs, {seconds:g} s per step", gpus=size.gpus, seconds=size.step_seconds)
    return (*lines, job)
