"""Interview practice: an opening question and its follow-ups, time, a free answer, key points, the frame of an answer.

Key points count when the answer holds a known word for them or the learner says that it was said; nobody else marks.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from playbook.errors import PlaybookError
from playbook.workflow.learning.quiz import Deck
from playbook.workflow.learning.quiz_cards import Card, Point, card_id, dice, read_point
from playbook.workflow.learning.quiz_marks import Mark, fold, heard, known_words, mark
from playbook.workflow.learning.quiz_written import interviews

# The question that holds the frame of a good answer (ledger D3-int-1).
FRAME = "five-part-answer"
MINUTES = {1: 2.0, 2: 3.0, 3: 5.0, 4: 6.0}  # to speak, by difficulty; our judgement
DEPTHS = {0: "nothing yet", 1: "knows of it", 2: "works by a system", 3: "has done it"}


@dataclass(frozen=True)
class Sat:
    """One question answered. `frame` holds the parts of the frame that were heard, in the order of the answer."""

    card: Card
    reply: str
    seconds: float
    mark: Mark
    frame: tuple[str, ...]
    opening: bool

    @property
    def over_time(self) -> bool:
        return self.seconds > 60 * MINUTES[self.card.spec.level]

    @property
    def missing(self) -> tuple[Point, ...]:
        return tuple(p for p in self.card.points if p.label not in self.mark.covered)


def plan(
    deck: Deck, topic: str | None = None, level: int | None = None, count: int = 4, seed: int = 0
) -> list[tuple[Card, bool]]:
    """(card, is it an opening) in the order of asking; the same for everybody with the same seed."""
    matching = {s.node[1] for s in deck.matching(topic, level) if s.template == "written"}
    threads = interviews(deck.ground)
    openings = [q for q in threads if q in matching and q != FRAME]
    dice("interview", str(seed)).shuffle(openings)
    asked: list[tuple[Card, bool]] = []
    for question in openings:
        for name in (question, *threads[question]):
            card = deck.card(card_id("written", name))
            if card is not None and len(asked) < count and card.form == "free":
                asked.append((card, name == question))
    if not asked:
        raise PlaybookError("--interview", "no spoken question is about that", "leave out --topic or --level")
    return asked


def frame(deck: Deck) -> tuple[Point, ...]:
    """The parts of a good answer to an open question; () where the book does not have them."""
    question = deck.ground.book.kind("questions").get(FRAME)
    return tuple(read_point(text, question.synonyms) for text in question.key_points) if question else ()


def sit(
    card: Card,
    reply: str,
    seconds: float,
    parts: Sequence[Point],
    opening: bool,
    ticks: Collection[str] = (),
) -> Sat:
    """Mark a spoken answer. `ticks`: labels of key points that the learner says were said in other words."""
    said = in_order(parts, reply) if opening else ()
    return Sat(card, reply, seconds, mark(card, reply, ticks), said, opening)


def in_order(parts: Sequence[Point], reply: str) -> tuple[str, ...]:
    """Parts of the frame heard in a reply, in the order in which they were first spoken of."""
    flat = fold(reply)
    places = {}
    for part in parts:
        if heard([part], reply):
            found = [flat.find(fold(w)) for word in known_words(part) for w in word.split(" + ")]
            places[part.label] = min((p for p in found if p >= 0), default=len(flat))
    return tuple(sorted(places, key=lambda label: places[label]))


def total(sittings: Sequence[Sat]) -> float:
    """Percent over all answers."""
    return round(100 * sum(s.mark.score for s in sittings) / len(sittings), 1) if sittings else 0.0
