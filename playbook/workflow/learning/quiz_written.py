"""Cards that people wrote: `knowledge/questions/`, with choices, with a number, or with key points to be spoken."""

from __future__ import annotations

from collections.abc import Iterator

from playbook.knowledge.entries import Question
from playbook.knowledge.graph import kind_of
from playbook.workflow.learning.quiz_cards import (
    Card,
    Ground,
    Link,
    Option,
    Spec,
    card_id,
    read_point,
    shuffled,
)


def written_specs(ground: Ground) -> Iterator[Spec]:
    """One card a question."""
    for question in _questions(ground):
        topics = {"written", question.id, *question.about}
        if question.key_points:
            topics.add("interview")
        for name in question.about:
            cause = ground.causes.get(name)
            if cause is not None:
                topics |= {cause.layer, cause.class_, *ground.symptoms_of(cause)}
        yield Spec(
            card_id("written", question.id), "written", ("questions", question.id), "", question.difficulty,
            frozenset(topics),
        )  # fmt: skip


def _questions(ground: Ground) -> list[Question]:
    found = ground.book.kind("questions").values()
    return sorted((q for q in found if q.status != "deprecated"), key=lambda q: str(q.id))


def written(ground: Ground, spec: Spec) -> Card | None:
    question: Question = ground.book.kind("questions")[spec.node[1]]
    links: tuple[Link, ...] = tuple((kind_of(ground.book, name) or "?", name) for name in question.about)
    sources = tuple(question.sources)
    if question.choices:
        options = []
        for choice in question.choices:
            link = (kind_of(ground.book, choice.about) or "?", choice.about) if choice.about else links[0]
            options.append(Option(choice.text, float(choice.right), choice.why, link))
        right = next(c for c in question.choices if c.right)
        return Card(
            spec, question.ask, "choice", links, options=shuffled(options, spec), explain=right.why, sources=sources
        )
    if question.number is not None:
        figure = question.number
        return Card(spec, question.ask, "number", links, number=figure, explain=figure.why, sources=sources)
    points = tuple(read_point(text, question.synonyms) for text in question.key_points)
    return Card(
        spec, question.ask, "free", links, points=points, traps=tuple(question.traps), sources=sources,
        explain=ground.say("The key points above are the model answer; say them in your own words."),
    )  # fmt: skip


def interviews(ground: Ground) -> dict[str, tuple[str, ...]]:
    """Opening questions of an interview -> their follow-ups (an id that begins with the opening's and a hyphen)."""
    spoken = [q.id for q in _questions(ground) if q.key_points]
    opening = [q for q in spoken if not any(q.startswith(f"{other}-") for other in spoken)]
    return {q: tuple(f for f in spoken if f.startswith(f"{q}-")) for q in opening}
