"""The quiz: every card that can be asked, a sheet of them by topic, level, due date or seed, and an answer taken.

`TEMPLATES` is the whole list of kinds of cards. Cards are cheap to name and made only when they are asked.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property

from playbook.errors import PlaybookError
from playbook.knowledge.entries import LAYERS, SYMPTOMS
from playbook.workflow.learning import quiz_causes, quiz_curves, quiz_engine, quiz_fixes, quiz_written
from playbook.workflow.learning.progress import Answer, Progress, day_begin, stamp
from playbook.workflow.learning.quiz_cards import Card, Ground, Spec, dice
from playbook.workflow.learning.quiz_marks import Mark
from playbook.workflow.session import did_you_mean

COUNT = 10  # cards of a sheet


@dataclass(frozen=True, slots=True)
class Template:
    """One kind of card: what it asks for, how its specs are listed, how a card is made (None: not for this node)."""

    title: str
    specs: Callable[[Ground], Iterator[Spec]]
    build: Callable[[Ground, Spec], Card | None]


TEMPLATES: dict[str, Template] = {
    "written": Template("Written questions", quiz_written.written_specs, quiz_written.written),
    "tells": Template("What tells A from B", quiz_causes.tells_specs, quiz_causes.tells),
    "next": Template("Next best check", quiz_engine.next_specs, quiz_engine.next_check),
    "layer": Template("Which layer", quiz_causes.layer_specs, quiz_causes.layer),
    "impossible": Template("Precision and other hard facts", quiz_causes.impossible_specs, quiz_causes.impossible),
    "first-aid": Template("First aid", quiz_fixes.first_aid_specs, quiz_fixes.first_aid),
    "repair": Template("Which repair", quiz_fixes.repair_specs, quiz_fixes.repair),
    "cured": Template("Did it work", quiz_fixes.cured_specs, quiz_fixes.cured),
    "undo": Template("Side effects and the way back", quiz_fixes.undo_specs, quiz_fixes.undo),
    "order": Template("Order the steps", quiz_fixes.order_specs, quiz_fixes.order),
    "curve": Template("Read this curve", quiz_curves.curve_specs, quiz_curves.curve),
    "look-alike": Template("Causes that look alike", quiz_curves.look_alike_specs, quiz_curves.look_alike),
    "published": Template("Published curves", quiz_curves.published_specs, quiz_curves.published),
    "price": Template("Orders of magnitude", quiz_engine.price_specs, quiz_engine.price),
    "chance": Template("Probability", quiz_engine.chance_specs, quiz_engine.chance),
}


@dataclass
class Deck:
    """Every card of a book in one language."""

    ground: Ground

    @cached_property
    def specs(self) -> dict[str, Spec]:
        """id -> spec, by template in the order of the table."""
        found = {}
        for name, template in TEMPLATES.items():
            for spec in template.specs(self.ground):
                assert spec.template == name
                found[spec.id] = spec
        return found

    def card(self, item: str) -> Card | None:
        """The card of an id; None where the book no longer has it."""
        spec = self.specs.get(item)
        return TEMPLATES[spec.template].build(self.ground, spec) if spec is not None else None

    def matching(self, topic: str | None = None, level: int | None = None) -> list[Spec]:
        """Specs of a topic (a template, layer, class, symptom or entry) and level. Raises for an unknown topic."""
        chosen = list(self.specs.values())
        if topic is not None:
            chosen = [s for s in chosen if topic in s.topics or topic == s.template]
            if not chosen:
                every = sorted({t for s in self.specs.values() for t in s.topics})
                hint = did_you_mean(topic, every).replace("see `playbook knowledge show`", "see `playbook quiz topics`")
                raise PlaybookError(f"--topic {topic}", "no card is about that", hint)
        return [s for s in chosen if level is None or s.level == level]

    def sheet(
        self,
        progress: Progress | None = None,
        topic: str | None = None,
        level: int | None = None,
        due: bool = False,
        count: int = COUNT,
        seed: int | None = None,
        now: datetime | None = None,
        new: int | None = None,
    ) -> list[Card]:
        """Cards to ask. With `seed` the same for everybody; else what is due, then what is new (`due`: only that).

        `new`: the most new cards of a day (None: no limit); those that were met today already count.
        """
        specs = {s.id: s for s in self.matching(topic, level)}
        if seed is not None or progress is None or now is None:
            return self._made(_mixed(list(specs.values()), f"seed {seed or 0}"), count)
        seen = progress.seen()
        first = [specs[item] for item in progress.due(now) if item in specs]
        cards = [c for c in self._made(iter(first), count) if c.digest == seen[c.id]]
        if due:
            return cards
        # A new card, or one whose texts have changed since it was learned.
        fresh = [s for s in specs.values() if s.id not in seen or s.id in {f.id for f in first}]
        if new is not None:
            count = min(count, len(cards) + max(0, new - progress.new_since(day_begin(now))))
        had = {c.id for c in cards}
        more = (s for s in _mixed(fresh, f"new {len(seen)}") if s.id not in had)
        return cards + self._made(more, count - len(cards))

    def _made(self, specs: Iterator[Spec], count: int) -> list[Card]:
        cards: list[Card] = []
        for spec in specs:
            if len(cards) >= count:
                break
            card = TEMPLATES[spec.template].build(self.ground, spec)
            if card is not None:
                cards.append(card)
        return cards

    def topics(self) -> dict[str, int]:
        """What `--topic` takes at large -> number of cards: templates, layers, symptoms, and `interview`."""
        names = [*TEMPLATES, *LAYERS, *SYMPTOMS, "interview"]
        counts = {n: sum(n in s.topics for s in self.specs.values()) for n in names}
        return {n: c for n, c in counts.items() if c}


def _mixed(specs: list[Spec], seed: str) -> Iterator[Spec]:
    """All of them, shuffled, no template twice in a row while there are others: a sheet should not be monotonous."""
    rows: dict[str, list[Spec]] = {}
    for spec in sorted(specs, key=lambda s: s.id):
        rows.setdefault(spec.template, []).append(spec)
    for name, row in rows.items():
        dice(seed, name).shuffle(row)
    names = sorted(rows)
    rng = dice(seed, "templates")
    while names:
        rng.shuffle(names)
        for name in list(names):
            yield rows[name].pop()
            if not rows[name]:
                names.remove(name)


def take(
    progress: Progress, card: Card, marked: Mark, now: datetime, seconds: float = 0.0, easy: bool = False
) -> datetime:
    """Store a marked answer; returns when the card comes back."""
    chance = card.chance
    stated = float(marked.said.rstrip(" %")) / 100 if chance is not None else None
    answer = Answer(
        at=stamp(now),
        item=card.id,
        score=marked.score,
        rating=4 if easy and marked.right else marked.rating,
        topics=tuple(card.spec.topics),
        level=card.spec.level,
        seconds=round(seconds, 1),
        stated=stated,
        truth=chance.truth if chance is not None else None,
    )
    return progress.record(card.id, card.digest, answer, now)
