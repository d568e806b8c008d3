"""Marking: a reply in a person's words -> a mark between 0 and 1, with the reason.

A weaker check than the best one gets its share of the value, an order its share of right pairs, a probability its
Brier score against the engine's own. A spoken answer is checked against key points by known other words for them;
what was not recognised is for the learner to tick: nobody fails for a spelling.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from itertools import combinations

from playbook.errors import PlaybookError
from playbook.knowledge.entries import Figure
from playbook.workflow.learning.quiz_cards import Card, Point

# A known word counts as said with one slip of the pen (a letter lost, doubled, wrong, or two swapped), a long one with
# two; below the first length words differ too little from their neighbours.
SLIP_LETTERS = 7
TWO_SLIPS = 14
WEIGHT = {1: 3.0, 2: 2.0, 3: 1.0}  # of a key point by depth: the ground floor carries the house
REACHED = 0.6  # share of the points of a depth (and of those below) that reaches it
_HALF_FACTOR = 2.0  # a number within this factor gets half a mark: the order of magnitude was known


@dataclass(frozen=True, slots=True)
class Mark:
    """One answer marked. `why` is what to say about it; `brier` and `engine_brier` only for probabilities."""

    score: float
    right: bool
    why: str
    said: str  # the answer as it was understood
    brier: float | None = None
    engine_brier: float | None = None
    covered: tuple[str, ...] = ()  # labels of key points
    depth: int = 0  # depth reached by a spoken answer, 0-3

    @property
    def rating(self) -> int:
        """The rating that spaced repetition takes: 1 again, 2 hard, 3 good (4, easy, only a person says)."""
        return 1 if self.score < 0.5 else 2 if self.score < 0.85 else 3


def mark(card: Card, reply: str, ticks: Collection[str] = ()) -> Mark:
    """Mark a reply. Raises `PlaybookError` where it cannot be understood as an answer to this card."""
    if card.form == "choice":
        return _choice(card, reply)
    if card.form == "order":
        return _order(card, reply)
    if card.form == "number":
        assert card.number is not None
        return _number(card.number, reply)
    if card.form == "percent":
        return _percent(card, reply)
    return _free(card, reply, ticks)


def _choice(card: Card, reply: str) -> Mark:
    text = reply.strip().lower().rstrip(".)")
    fitting = [k for k, o in enumerate(card.options) if o.text.lower().startswith(text)] if text else []
    if text.isdecimal() and 1 <= int(text) <= len(card.options):
        index = int(text) - 1
    elif len(text) == 1 and "a" <= text < chr(ord("a") + len(card.options)):
        index = ord(text) - ord("a")
    elif len(fitting) == 1:
        index = fitting[0]
    else:
        raise PlaybookError(reply.strip() or "nothing", "is no choice", f"a number from 1 to {len(card.options)}")
    chosen = card.options[index]
    return Mark(chosen.credit, index == card.best, chosen.why, chosen.text)


def _order(card: Card, reply: str) -> Mark:
    shown = card.shown_steps
    numbers = [int(n) for n in re.findall(r"\d+", reply if re.search(r"\d\D+\d", reply) else " ".join(reply))]
    if sorted(numbers) != list(range(1, len(shown) + 1)):
        want = " ".join(str(n) for n in range(1, len(shown) + 1))
        raise PlaybookError(reply.strip() or "nothing", "is no order", f"each of {want} once, first step first")
    said = [shown[n - 1] for n in numbers]
    place = {step: k for k, step in enumerate(card.steps)}
    pairs = list(combinations(said, 2))
    score = sum(place[a] < place[b] for a, b in pairs) / len(pairs)
    return Mark(round(score, 4), said == list(card.steps), card.explain, " ".join(map(str, numbers)))


def _number(wanted: Figure, reply: str) -> Mark:
    said = read_number(reply)
    error = abs(said - wanted.value) / abs(wanted.value) if wanted.value else abs(said)
    if error <= wanted.within + 1e-9:
        score = 1.0
    elif wanted.value and said / wanted.value > 0:
        factor = max(said / wanted.value, wanted.value / said)
        score = 0.5 if factor <= _HALF_FACTOR else 0.0
    else:
        score = 0.0
    return Mark(score, score == 1.0, wanted.why, f"{said:g} {wanted.unit}".strip())


def read_number(reply: str) -> float:
    """'1,024', '3e-4', '2^16', '65 504 GPU-h', '1.5k' -> float."""
    text = re.sub(r"(?<=\d)[,  _](?=\d{3}(?!\d))", "", reply.strip().lower().replace("**", "^"))
    power = re.match(r"^([-+]?\d+(?:\.\d+)?)\s*\^\s*([-+]?\d+)", text)
    if power:
        return float(power[1]) ** int(power[2])
    match = re.match(r"^[~≈]?\s*([-+]?(?:\d+\.?\d*|\.\d+)(?:e[-+]?\d+)?)\s*(%|k\b|m\b)?", text)
    if match is None:
        raise PlaybookError(reply.strip() or "nothing", "is no number", "write for example 12.5, 3e-4 or 2^16")
    return float(match[1]) * {"k": 1e3, "m": 1e6}.get(match[2] or "", 1.0)


def _percent(card: Card, reply: str) -> Mark:
    assert card.chance is not None
    said = read_number(reply)
    if "%" not in reply and 0 < said < 1:
        said *= 100
    if not 0 <= said <= 100:
        raise PlaybookError(reply.strip(), "is no probability", "a number from 0 to 100")
    brier = (said / 100 - card.chance.truth) ** 2
    engine = (card.chance.engine - card.chance.truth) ** 2
    # As good as the engine, or better, is all that can be asked for.
    score = 1.0 if brier <= engine + 1e-9 else max(0.0, 1.0 - (brier - engine))
    return Mark(
        round(score, 4), score >= 0.95, card.chance.why, f"{said:.0f} %", round(brier, 4), round(engine, 4)
    )  # fmt: skip


def _free(card: Card, reply: str, ticks: Collection[str]) -> Mark:
    said = set(heard(card.points, reply)) | set(ticks)
    covered = tuple(p.label for p in card.points if p.label in said)
    whole = sum(WEIGHT[p.depth] for p in card.points)
    got = sum(WEIGHT[p.depth] for p in card.points if p.label in said)
    score = round(got / whole, 4) if whole else 0.0
    return Mark(score, score >= 0.85, card.explain, reply.strip(), covered=covered, depth=depth(card.points, said))


def depth(points: Sequence[Point], said: Collection[str]) -> int:
    """The deepest level of which, and of all below it, most points were said."""
    reached = 0
    for level in (1, 2, 3):
        own = [p for p in points if p.depth == level]
        if own and sum(p.label in said for p in own) / len(own) < REACHED:
            break
        if own:
            reached = level
    return reached


def heard(points: Iterable[Point], text: str) -> tuple[str, ...]:
    """Labels of the key points of which the text holds one of its known words (or the label, where that is telling)."""
    flat = fold(text)
    return tuple(p.label for p in points if any(_holds(flat, word) for word in known_words(p)))


def known_words(point: Point) -> tuple[str, ...]:
    """A label of one word ("Data") says too little to be taken for the point itself, unless there is nothing else."""
    telling = " " in point.label.strip() or not point.words
    return (point.label, *point.words) if telling else point.words


def fold(text: str) -> str:
    """Case, width, hyphens and spaces made alike: 'Loss-Scale' and 'loss scale' are one word."""
    flat = unicodedata.normalize("NFKC", text).casefold()
    return " ".join(re.sub(r"[-_/‐–—]+", " ", flat).split())


def _holds(flat: str, word: str) -> bool:
    """`a + b` holds when all of its parts are said somewhere."""
    return all(_said(flat, fold(part)) for part in word.split(" + "))


def _said(flat: str, word: str) -> bool:
    if not word:
        return False
    if not word.isascii():
        return word in flat
    if re.search(rf"(?<![a-z0-9]){re.escape(word)}(?![a-z0-9])", flat):
        return True
    if len(word) < SLIP_LETTERS or any(c.isdecimal() for c in word):
        return False  # 1e-6 and 1e-8 are no slips of one another
    from rapidfuzz.distance import OSA

    slips = 1 if len(word) < TWO_SLIPS else 2
    size = word.count(" ") + 1
    said = flat.split()
    windows = (" ".join(said[k : k + size]).strip(".,;:!?()'\"") for k in range(len(said) - size + 1))
    return any(OSA.distance(word, window, score_cutoff=slips) <= slips for window in windows)
