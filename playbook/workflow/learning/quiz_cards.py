"""What a quiz card is, however it was made: the question, what may be answered, why, and where to read on.

The id of a card is `template:node` or `template:node:variant` and never changes; its `digest` changes with the texts
of the book behind it, which opens the card again for those who had learned the old ones.
"""

from __future__ import annotations

import hashlib
import random
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal, TypeAlias

import numpy as np

from playbook.engine.tables import SHAPE, Tables
from playbook.knowledge.entries import HOW_OFTEN, Cause, Figure, Fix
from playbook.knowledge.loader import Book
from playbook.workflow.book import Library

Link: TypeAlias = "tuple[str, str]"  # (folder, id) of an entry of the book
Say: TypeAlias = "Callable[..., str]"  # English text with {fields} -> the words of a language
Form = Literal["choice", "order", "number", "percent", "free"]

LEVELS = (1, 2, 3, 4)  # easy, ordinary, hard, expert
# A symptom counts as one of a cause when the cause shows it at least this often.
_SHOWN = HOW_OFTEN["half"]
_POINT = re.compile(r"^(?:\[([1-3])\]\s*)?([^:]{2,60}):\s+(.+)$", re.DOTALL)


def plain(text: str, **values: object) -> str:
    """English as it stands: the `Say` of tests and of programs."""
    return text.format(**values) if values else text


@dataclass(frozen=True, slots=True)
class Option:
    """One choice. `credit` 1 is right, less is partly right (0.4: a weaker but sensible check); `why` tells it."""

    text: str
    credit: float
    why: str
    link: Link


@dataclass(frozen=True, slots=True)
class Chance:
    """A probability asked for: what became of it (1 true, 0 not), and what the engine says on the same evidence."""

    truth: float
    engine: float
    why: str


@dataclass(frozen=True, slots=True)
class Point:
    """A key point of a spoken answer. depth 1 knows of it, 2 works by a system, 3 has done it."""

    label: str
    text: str
    depth: int
    words: tuple[str, ...]


@dataclass(frozen=True, eq=False)
class Panel:
    """One metric of a picture: steps int64[n], values float64[n], non-finite kept. `until`: planned last step."""

    metric: str
    steps: np.ndarray
    values: np.ndarray
    until: int | None = None


@dataclass(frozen=True, eq=False)
class Picture:
    """Curves over one step axis. `alt` describes what is drawn without giving the answer away."""

    panels: tuple[Panel, ...]
    alt: str


@dataclass(frozen=True)
class Spec:
    """A card that can be made: enough to choose by, without the cost of making it."""

    id: str
    template: str
    node: Link
    variant: str
    level: int
    topics: frozenset[str]


@dataclass(frozen=True)
class Card:
    """A card ready to be asked. `facts` are lines of evidence under the question, `steps` the right order."""

    spec: Spec
    ask: str
    form: Form
    links: tuple[Link, ...]
    facts: tuple[str, ...] = ()
    options: tuple[Option, ...] = ()
    steps: tuple[str, ...] = ()
    number: Figure | None = None
    chance: Chance | None = None
    points: tuple[Point, ...] = ()
    traps: tuple[str, ...] = ()
    explain: str = ""
    sources: tuple[str, ...] = ()
    picture: Picture | None = field(default=None, compare=False)

    @property
    def id(self) -> str:
        return self.spec.id

    @property
    def best(self) -> int:
        """Index of the right choice."""
        return max(range(len(self.options)), key=lambda k: self.options[k].credit)

    @property
    def about(self) -> tuple[str, ...]:
        """Where to read on: `folder/id` of each entry, once."""
        return tuple(dict.fromkeys("/".join(link) for link in self.links))

    @property
    def shown_steps(self) -> tuple[str, ...]:
        """The steps in the order in which they are shown: always the same one, never the right one."""
        order = list(self.steps)
        if len(set(order)) > 1:
            dice = random.Random(self.id)
            while tuple(order) == self.steps:
                dice.shuffle(order)
        return tuple(order)

    @cached_property
    def digest(self) -> str:
        """Twelve hex digits over everything that the learner reads."""
        parts: list[Any] = [self.ask, *self.facts, *self.steps, *self.traps]
        parts += [(o.text, o.credit == 1) for o in self.options]
        parts += [(p.label, p.text, p.depth) for p in self.points]
        parts += [self.number.value if self.number else None, self.chance.truth if self.chance else None]
        return hashlib.sha256(repr(parts).encode()).hexdigest()[:12]


def card_id(template: str, node: str, variant: str = "") -> str:
    return f"{template}:{node}:{variant}" if variant else f"{template}:{node}"


def dice(*parts: str) -> random.Random:
    """Randomness that is the same on every machine and every day for the same parts."""
    return random.Random(":".join(parts))


def shuffled(options: Iterable[Option], spec: Spec) -> tuple[Option, ...]:
    """Choices in an order that belongs to the card."""
    order = list(options)
    dice(spec.id, "choices").shuffle(order)
    return tuple(order)


def read_point(text: str, words: dict[str, list[str]]) -> Point:
    """'[2] Label: text' -> Point; a point without a label is its own label."""
    match = _POINT.match(text.strip())
    if match is None:
        return Point(text.strip(), text.strip(), 1, tuple(words.get(text.strip(), ())))
    label = match[2].strip()
    return Point(label, match[3].strip(), int(match[1] or 1), tuple(words.get(label, ())))


@dataclass
class Ground:
    """What the templates stand on: the book, the engine's tables, the words, and reverse links built once."""

    library: Library
    say: Say = plain
    scenes: dict[tuple[str, int], Any] = field(default_factory=dict)  # (case, moves) -> session, see quiz_engine

    @property
    def book(self) -> Book:
        return self.library.book

    @property
    def tables(self) -> Tables:
        return self.library.tables

    @cached_property
    def causes(self) -> dict[str, Cause]:
        return {k: c for k, c in sorted(self.book.causes.items()) if c.status != "deprecated"}

    @cached_property
    def repairs(self) -> dict[str, tuple[Fix, ...]]:
        """cause -> repairs, the most specific and the quickest first."""
        found: dict[str, list[Fix]] = {}
        for fix in self.book.fixes.values():
            if fix.kind == "repair" and fix.status != "deprecated":
                for cause in fix.treats:
                    found.setdefault(cause, []).append(fix)
        return {k: tuple(sorted(v, key=lambda f: (len(f.treats), f.minutes, f.id))) for k, v in sorted(found.items())}

    @cached_property
    def aids(self) -> dict[str, tuple[Fix, ...]]:
        """symptom -> first aid, the safest and quickest first."""
        found: dict[str, list[Fix]] = {}
        for fix in self.book.fixes.values():
            if fix.kind == "first-aid" and fix.status != "deprecated":
                for symptom in fix.symptoms:
                    found.setdefault(symptom, []).append(fix)
        return {k: tuple(sorted(v, key=_safest)) for k, v in sorted(found.items())}

    @cached_property
    def apart(self) -> np.ndarray:
        """float64[h, h, signals]: how far two causes differ on a signal (0 alike, 1 never the same outcome)."""
        table = self.tables.likelihood
        starts = np.array([self.tables.columns[s].start for s in self.tables.signals], int)
        rows = [np.add.reduceat(np.abs(table - table[h]), starts, axis=1) / 2 for h in range(len(table))]
        return np.stack(rows) if rows else np.empty((0, 0, len(starts)))

    def index(self, cause: str) -> int:
        return self.tables.index(cause)

    def symptoms_of(self, cause: Cause) -> tuple[str, ...]:
        """What the cause shows, most often first."""
        ranked = sorted(cause.shows.items(), key=lambda item: (-HOW_OFTEN[item[1]], item[0]))
        return tuple(s for s, word in ranked if HOW_OFTEN[word] >= _SHOWN) or tuple(s for s, _ in ranked[:1])

    def symptom_title(self, symptom: str) -> str:
        entry = self.book.symptoms.get(symptom)
        return entry.title if entry is not None else symptom

    def symptom_link(self, symptom: str) -> Link:
        """The page of a symptom, else of the signal that names it."""
        return ("symptoms", symptom) if symptom in self.book.symptoms else ("signals", SHAPE)

    def usual(self, cause: str, signal: str) -> str:
        """The most probable outcome of a signal under a cause."""
        where = self.tables.columns[signal]
        row = self.tables.likelihood[self.index(cause), where]
        return self.tables.outcomes[signal][int(row.argmax())]

    def fact(self, signal: str, state: str) -> str:
        """One line of evidence in the book's words."""
        entry = self.book.signals[signal]
        meaning = entry.outcomes.get(state, "")
        return f"{entry.title}: {state}" + (f" ({meaning})" if meaning else "")

    def topics(self, cause: Cause) -> frozenset[str]:
        return frozenset({cause.id, cause.layer, cause.class_, *self.symptoms_of(cause)})

    def kin(self, cause: Cause) -> tuple[str, ...]:
        """Other causes that show the same main symptom, most probable first."""
        where = self.tables.columns.get(SHAPE)
        if where is None:
            return ()
        main = self.symptoms_of(cause)[0]
        outcomes = self.tables.outcomes[SHAPE]
        if main not in outcomes:
            return ()
        share = self.tables.likelihood[:, where.start + outcomes.index(main)] * self.tables.prior
        order = sorted(range(len(self.tables.causes)), key=lambda h: (-share[h], self.tables.causes[h]))
        likely = [h for h in order if self.tables.likelihood[h, where.start + outcomes.index(main)] >= _SHOWN * 0.8]
        return tuple(self.tables.causes[h] for h in likely if self.tables.causes[h] != cause.id)


def _safest(fix: Fix) -> tuple[int, float, str]:
    return ("safe", "low", "medium", "high").index(fix.risk), fix.minutes, fix.id


def first_sentence(text: str) -> str:
    """The first sentence of a text of the book."""
    head = re.split(r"(?<=[.!?。])\s", text.strip(), maxsplit=1)[0]
    return head.rstrip()


def pick(pool: Sequence[Any], count: int, *parts: str) -> list[Any]:
    """`count` of a pool, chosen by the card's own dice, in the order of the pool."""
    chosen = dice(*parts).sample(range(len(pool)), min(count, len(pool)))
    return [pool[k] for k in sorted(chosen)]
