"""The learner's progress: when each card is due (FSRS), every answer ever given, where the weak spots are.

The one door to it. It lies in the store of the incidents, so that a team's database holds the progress of everybody;
who learns is `PLAYBOOK_LEARNER`, else the user of this machine. A card whose texts have changed since it was learned
counts as new; one that the book no longer has stays in the store and is not asked.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from playbook.workflow.records.shelf import is_there, url_of

if TYPE_CHECKING:
    from playbook.incidents.database import Database
    from playbook.incidents.progress import Recorded

RATINGS = {1: "again", 2: "hard", 3: "good", 4: "easy"}
NEW_A_DAY = 20  # cards that are new to a learner, as in Anki: each of them comes back several times in the days after
BINS = 5  # of the calibration of stated probabilities


@dataclass(frozen=True, slots=True)
class Answer:
    """One answer of the log. `stated` and `truth` only for probabilities."""

    at: str
    item: str
    score: float
    rating: int
    topics: tuple[str, ...]
    level: int
    seconds: float = 0.0
    stated: float | None = None
    truth: float | None = None


@dataclass(frozen=True, slots=True)
class Spot:
    """How a topic goes: mean score of its last answers, worst first in a list."""

    topic: str
    answers: int
    score: float


class Progress:
    """The progress of one learner in one store. `fuzz` spreads due dates a little, as Anki does; tests leave it off."""

    def __init__(self, db: str | None = None, learner: str | None = None, fuzz: bool = True) -> None:
        self.db = db
        self.learner = learner or who()
        self.fuzz = fuzz
        self._done: list[Recorded] = []  # answers given through this object, for taking them back

    @contextmanager
    def _open(self) -> Iterator[Database]:
        from playbook.incidents.database import open_database

        database = open_database(url_of(self.db))
        try:
            yield database
        finally:
            database.engine.dispose()

    def _cards(self) -> list[dict[str, Any]]:
        if not is_there(self.db):
            return []
        from playbook.incidents import progress

        with self._open() as database:
            return progress.cards(database, self.learner)

    def due(self, now: datetime, digests: Mapping[str, str] | None = None) -> list[str]:
        """Cards that are due at `now`, longest overdue first; with `digests`, not those whose texts have changed."""
        found = []
        for card in self._cards():
            changed = digests is not None and digests.get(card["item"]) not in (None, card["digest"])
            if not changed and datetime.fromisoformat(card["due"]) <= now:
                found.append(card["item"])
        return found

    def seen(self) -> dict[str, str]:
        """Every card ever answered -> the digest of the text that was answered."""
        return {card["item"]: card["digest"] for card in self._cards()}

    def record(self, item: str, digest: str, answer: Answer, now: datetime) -> datetime:
        """Store an answer; returns when the card is due again. `now` must know its time zone."""
        from playbook.incidents import progress

        if now.tzinfo is None:
            raise ValueError("a moment without a time zone")
        row = {name: getattr(answer, name) for name in Answer.__slots__ if name not in ("item", "topics")}
        row["topics"] = json.dumps(sorted(answer.topics), ensure_ascii=False)
        with self._open() as database:
            done = progress.record(
                database, self.learner, item, lambda old: self._reviewed(old, item, digest, answer.rating, now), row
            )
        self._done.append(done)
        return datetime.fromisoformat(done.card["due"])

    def take_back(self) -> str | None:
        """Undo the answer that was given last through this object; returns its card, None where there is none."""
        from playbook.incidents import progress

        if not self._done:
            return None
        last = self._done.pop()
        with self._open() as database:
            return last.item if progress.take_back(database, self.learner, last) else None

    def new_since(self, moment: datetime) -> int:
        """Cards that were answered for the first time at `moment` (which knows its time zone) or later."""
        first: dict[str, str] = {}
        for answer in self.answers():
            first.setdefault(answer.item, answer.at)
        return sum(datetime.fromisoformat(at) >= moment for at in first.values())

    def _reviewed(
        self, old: Mapping[str, Any] | None, item: str, digest: str, rating: int, now: datetime
    ) -> dict[str, Any]:
        """The card after a review, as a row of the store."""
        from fsrs import Card, Rating, Scheduler

        if old is not None and old["digest"] == digest:
            card = Card.from_json(old["memory"])
        else:
            card = Card(card_id=int(hashlib.sha256(item.encode()).hexdigest()[:12], 16), due=now)
        card, _ = Scheduler(enable_fuzzing=self.fuzz).review_card(card, Rating(rating), now.astimezone(UTC))
        return {"digest": digest, "due": stamp(card.due), "memory": card.to_json()}

    def answers(self) -> list[Answer]:
        """The log, oldest first."""
        if not is_there(self.db):
            return []
        from playbook.incidents import progress

        with self._open() as database:
            rows = progress.answers(database, self.learner)
        return [Answer(**{n: r[n] for n in Answer.__slots__ if n != "topics"}, topics=_topics(r)) for r in rows]


def _topics(row: Mapping[str, Any]) -> tuple[str, ...]:
    return tuple(json.loads(row["topics"]))


def who() -> str:
    """The learner: `PLAYBOOK_LEARNER`, else the user of this machine, else nobody in particular."""
    import getpass

    try:
        return os.environ.get("PLAYBOOK_LEARNER") or getpass.getuser()
    except (OSError, KeyError):
        return ""


def weak_spots(answers: Iterable[Answer], among: Iterable[str], last: int = 20, least: int = 3) -> list[Spot]:
    """Mean score of the last answers of each topic of `among`, worst first; topics with few answers are left out."""
    wanted = set(among)
    scores: dict[str, list[float]] = {}
    for answer in answers:
        for topic in answer.topics:
            if topic in wanted:
                scores.setdefault(topic, []).append(answer.score)
    spots = [
        Spot(t, len(s), round(sum(s[-last:]) / len(s[-last:]), 4)) for t, s in sorted(scores.items()) if len(s) >= least
    ]
    return sorted(spots, key=lambda s: (s.score, s.topic))


def calibration(answers: Iterable[Answer], bins: int = BINS) -> list[dict[str, float]]:
    """Stated probabilities in bins of equal width: how often what was said came true."""
    from playbook.workflow.calibration import reliability  # numpy, which the cards do not need

    told = [(a.stated, a.truth) for a in answers if a.stated is not None and a.truth is not None]
    return [
        {"from": row["from"], "answers": row["cases"], "stated": row["confidence"], "came_true": row["accuracy"]}
        for row in reliability([stated for stated, _ in told], [truth for _, truth in told], bins)
    ]


def brier(answers: Iterable[Answer]) -> float | None:
    """Mean Brier score of the stated probabilities (0 is perfect, 0.25 is "fifty-fifty" every time)."""
    told = [(a.stated - a.truth) ** 2 for a in answers if a.stated is not None and a.truth is not None]
    return round(sum(told) / len(told), 4) if told else None


def day_begin(now: datetime) -> datetime:
    """The midnight before a moment, in the time zone of this machine."""
    return now.astimezone().replace(hour=0, minute=0, second=0, microsecond=0)


def stamp(now: datetime) -> str:
    """A moment as the log writes it."""
    return now.astimezone(UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
