"""Cards with a picture: name the symptom, name the cause among look-alikes, read a published curve."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

from playbook.knowledge.entries import SHAPE
from playbook.workflow.learning.quiz_cards import (
    Card,
    Ground,
    Link,
    Option,
    Panel,
    Picture,
    Spec,
    card_id,
    pick,
    shuffled,
)
from playbook.workflow.learning.quiz_shapes import CAUSE_SHAPES, RESUMES, SYMPTOM_SHAPES, draw

SEEDS = 3  # pictures of each kind; as many more can be drawn as anybody wants
CHOICES = 4
# What is easily taken for it: a distractor from here is worth more than one from anywhere.
_ALIKE = {
    "transient-spike": ("persistent-spike", "healthy", "resume-drift"),
    "persistent-spike": ("transient-spike", "slow-climb", "resume-drift"),
    "early-explosion": ("instant-nan", "persistent-spike", "slow-climb"),
    "instant-nan": ("hang-or-crash", "loss-zero", "early-explosion"),
    "slow-climb": ("persistent-spike", "silent-degradation", "plateau"),
    "plateau": ("loss-zero", "healthy", "slow-climb"),
    "loss-zero": ("plateau", "instant-nan", "hang-or-crash"),
    "resume-drift": ("persistent-spike", "transient-spike", "healthy"),
    "silent-degradation": ("slow-climb", "healthy", "resume-drift"),
    "throughput-drop": ("hang-or-crash", "healthy", "silent-degradation"),
    "hang-or-crash": ("instant-nan", "throughput-drop", "healthy"),
    "healthy": ("transient-spike", "plateau", "throughput-drop"),
}
_PUBLISHED = ("loss", "grad_norm", "lr", "loss_scale", "eval_loss")  # panels of a published curve, in this order
_MOST_POINTS = 1200


def curve_specs(ground: Ground) -> Iterator[Spec]:
    """Name the symptom: three pictures each."""
    known = set(ground.book.symptoms) | set(ground.book.signals[SHAPE].outcomes)
    for name in SYMPTOM_SHAPES:
        for seed in range(SEEDS if name in known else 0):
            topics = frozenset({"curve", name})
            yield Spec(card_id("curve", name, str(seed)), "curve", ground.symptom_link(name), str(seed), 1, topics)


def curve(ground: Ground, spec: Spec) -> Card | None:
    name = spec.id.split(":")[1]
    picture = draw(name, int(spec.variant))
    return _symptom_card(ground, spec, name, picture, (ground.symptom_link(name),), "D0-log-1")


def _symptom_card(
    ground: Ground, spec: Spec, name: str, picture: Picture, links: tuple[Link, ...], source: str
) -> Card:
    say = ground.say
    options = [Option(ground.symptom_title(name), 1.0, _looks(ground, name), ground.symptom_link(name))]
    for other in _ALIKE[name][: CHOICES - 1]:
        why = say("It would be that if it looked so: {looks}", looks=_looks(ground, other))
        options.append(Option(ground.symptom_title(other), 0.0, why, ground.symptom_link(other)))
    facts = _marks(ground, name, picture)
    return Card(
        spec,
        say("Read this curve. What is it?"),
        "choice",
        links,
        facts=facts,
        options=shuffled(options, spec),
        explain=_looks(ground, name),
        sources=(source,),
        picture=picture,
    )


def _looks(ground: Ground, symptom: str) -> str:
    entry = ground.book.symptoms.get(symptom)
    return entry.looks_like if entry is not None else ground.book.signals[SHAPE].outcomes.get(symptom, symptom)


def _marks(ground: Ground, name: str, picture: Picture) -> tuple[str, ...]:
    """What somebody at the terminal would see besides the curve."""
    if name == "hang-or-crash":
        last, planned = int(picture.panels[0].steps[-1]), picture.panels[0].until
        return (ground.say("Last row: step {last} of {planned}. It is 40 minutes old.", last=last, planned=planned),)
    if name in RESUMES and (at := _resume(picture)) is not None:
        return (ground.say("The log says: checkpoint loaded, going on from step {step}.", step=at),)
    return ()


def _resume(picture: Picture) -> int | None:
    steps = picture.panels[0].steps
    back = np.flatnonzero(np.diff(steps) < 0)
    if len(back):
        return int(steps[back[0] + 1])
    return None


def look_alike_specs(ground: Ground) -> Iterator[Spec]:
    """Name the cause among causes that look alike: three pictures each."""
    for name in CAUSE_SHAPES:
        if name in ground.causes:
            for seed in range(SEEDS):
                topics = ground.topics(ground.causes[name]) | {"look-alike", "curve"}
                yield Spec(card_id("look-alike", name, str(seed)), "look-alike", ("causes", name), str(seed), 3, topics)


def look_alike(ground: Ground, spec: Spec) -> Card | None:
    say = ground.say
    name = spec.node[1]
    picture = draw(name, int(spec.variant))
    others = [c for c in CAUSE_SHAPES if c != name and c in ground.causes]
    # Those that end alike make the better question: resumes beside resumes, scales beside scales.
    layer = ground.causes[name].layer
    kin = [c for c in others if (c in RESUMES) == (name in RESUMES) or ground.causes[c].layer == layer]
    chosen = pick(kin if len(kin) >= CHOICES - 1 else others, CHOICES - 1, spec.id)
    if len(chosen) < CHOICES - 1:
        return None
    seen = say(CAUSE_SHAPES[name][1])
    options = [Option(ground.causes[name].title, 1.0, seen, ("causes", name))]
    for other in chosen:
        why = say("It would be that if it looked so: {looks}", looks=say(CAUSE_SHAPES[other][1]))
        options.append(Option(ground.causes[other].title, 0.0, why, ("causes", other)))
    return Card(
        spec,
        say("Read these curves together. Which cause do they speak for?"),
        "choice",
        (("causes", name),),
        facts=_marks(ground, name, picture),
        options=shuffled(options, spec),
        explain=seen,
        sources=tuple(ground.causes[name].sources[:3]),
        picture=picture,
    )


def published_specs(ground: Ground) -> Iterator[Spec]:
    """A published curve: one card for each case that has its metrics."""
    for case in ground.book.cases.values():
        shape = str(case.answers.get(SHAPE, ""))
        if case.metrics and shape in _ALIKE and ("cases", case.id) in ground.book.files:
            topics = frozenset({"published", "curve", shape, case.id})
            yield Spec(card_id("published", case.id), "published", ("cases", case.id), "", 2, topics)


def published(ground: Ground, spec: Spec) -> Card | None:
    case = ground.book.cases[spec.node[1]]
    picture = case_picture(case.metrics, ground.book.files["cases", case.id].parent)
    if picture is None:
        return None
    shape = str(case.answers[SHAPE])
    links: tuple[Link, ...] = (ground.symptom_link(shape), ("cases", case.id))
    return _symptom_card(ground, spec, shape, picture, links, case.sources[0])


def case_picture(metrics: Sequence[str], folder: Path) -> Picture | None:
    """The curves of a case's metric files; None where it has none."""
    from playbook import readers

    if not metrics:
        return None
    run = readers.read([str(folder / name) for name in metrics])
    panels = []
    for metric in _PUBLISHED:
        series = run.one(metric)
        if series is not None and len(series):
            every = max(1, len(series) // _MOST_POINTS)
            panels.append(Panel(metric, series.steps[::every], series.values[::every]))
    return Picture(tuple(panels), ", ".join(p.metric for p in panels)) if panels else None
