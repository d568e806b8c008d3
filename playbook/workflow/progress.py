"""The learner's progress: when each card is due (FSRS), every answer ever given, where the weak spots are.

The one door to it. It lives in `quiz.json` in `places.home()`, is read before every write and replaced whole, so that
a crash leaves the old file. A card whose texts have changed since it was learned counts as new; one that the book no
longer has stays in the file and is not asked.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import tempfile
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from playbook import places
from playbook.errors import PlaybookError

VERSION = 1
RATINGS = {1: "again", 2: "hard", 3: "good", 4: "easy"}
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
    """The file, opened. `fuzz` spreads due dates a little, as Anki does; tests leave it off."""

    def __init__(self, path: Path | None = None, fuzz: bool = True) -> None:
        self.path = path or places.home() / "quiz.json"
        self.fuzz = fuzz

    def read(self) -> dict[str, Any]:
        """The whole document. Raises `PlaybookError` for a file that is not ours."""
        try:
            data = json.loads(self.path.read_text("utf-8"))
        except FileNotFoundError:
            return {"version": VERSION, "cards": {}, "log": []}
        except (OSError, ValueError) as error:
            raise PlaybookError(str(self.path), f"cannot be read: {error}", "move it away to start anew") from None
        if not isinstance(data, dict) or not isinstance(data.get("cards"), dict) or data.get("version") != VERSION:
            raise PlaybookError(str(self.path), "is no quiz progress of this version", "move it away to start anew")
        return data

    def due(self, now: datetime, digests: Mapping[str, str] | None = None) -> list[str]:
        """Cards that are due at `now`, longest overdue first; with `digests`, not those whose texts have changed."""
        found = []
        for item, card in self.read()["cards"].items():
            changed = digests is not None and digests.get(item) not in (None, card["digest"])
            if not changed and datetime.fromisoformat(card["due"]) <= now:
                found.append((card["due"], item))
        return [item for _, item in sorted(found)]

    def seen(self) -> dict[str, str]:
        """Every card ever answered -> the digest of the text that was answered."""
        return {item: card["digest"] for item, card in self.read()["cards"].items()}

    def record(self, item: str, digest: str, answer: Answer, now: datetime) -> datetime:
        """Store an answer; returns when the card is due again. `now` must know its time zone."""
        from fsrs import Card, Rating, Scheduler

        data = self.read()
        old = data["cards"].get(item)
        if old is not None and old["digest"] == digest:
            card = Card.from_json(json.dumps(old["fsrs"]))
        else:
            number = int(hashlib.sha256(item.encode()).hexdigest()[:12], 16)
            card = Card(card_id=number, due=now)
        scheduler = Scheduler(enable_fuzzing=self.fuzz)
        card, _ = scheduler.review_card(card, Rating(answer.rating), now.astimezone(UTC))
        data["cards"][item] = {
            "digest": digest,
            "due": card.due.isoformat(timespec="seconds"),
            "fsrs": json.loads(card.to_json()),
        }
        row = {k: v for k in Answer.__slots__ if (v := getattr(answer, k)) is not None}
        data["log"].append({**row, "topics": sorted(answer.topics)})
        self._write(data)
        return card.due

    def _write(self, data: Mapping[str, Any]) -> None:
        """Beside the file, then in its place: never half a file."""
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            handle, name = tempfile.mkstemp(dir=self.path.parent, prefix=".quiz-", suffix=".json")
            try:
                with os.fdopen(handle, "w", encoding="utf-8") as stream:
                    json.dump(data, stream, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
                Path(name).replace(self.path)
            except BaseException:
                with contextlib.suppress(OSError):
                    Path(name).unlink()
                raise
        except OSError as error:
            raise PlaybookError(str(self.path), f"cannot be written: {error.strerror}", "set PLAYBOOK_HOME") from None

    def answers(self) -> list[Answer]:
        """The log, oldest first."""
        rows = self.read()["log"]
        known = set(Answer.__slots__)
        return [Answer(**{**{k: v for k, v in r.items() if k in known}, "topics": tuple(r["topics"])}) for r in rows]


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
    rows: list[dict[str, float]] = []
    told = [(a.stated, a.truth) for a in answers if a.stated is not None and a.truth is not None]
    for k in range(bins):
        inside = [(s, t) for s, t in told if k / bins <= s < (k + 1) / bins or (k == bins - 1 and s >= 1)]
        if inside:
            rows.append(
                {
                    "from": k / bins,
                    "answers": len(inside),
                    "stated": round(sum(s for s, _ in inside) / len(inside), 4),
                    "came_true": round(sum(t for _, t in inside) / len(inside), 4),
                }
            )
    return rows


def brier(answers: Iterable[Answer]) -> float | None:
    """Mean Brier score of the stated probabilities (0 is perfect, 0.25 is "fifty-fifty" every time)."""
    told = [(a.stated - a.truth) ** 2 for a in answers if a.stated is not None and a.truth is not None]
    return round(sum(told) / len(told), 4) if told else None


def stamp(now: datetime) -> str:
    """A moment as the log writes it."""
    return now.astimezone(UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
