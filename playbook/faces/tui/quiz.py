"""The quiz: what to practise on the left, how it goes on the right. The cards themselves are asked by `cards`."""

from __future__ import annotations

import secrets
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, ClassVar

from rich.cells import cell_len
from textual import on, work
from textual.binding import Binding, BindingType
from textual.content import Content
from textual.message import Message
from textual.widgets import Static

from playbook.errors import PlaybookError
from playbook.faces.tui import registry
from playbook.faces.tui.base import ListPage
from playbook.faces.tui.widgets import Hint, Rows, TopLine, bar, fit, pad, paragraphs, rule
from playbook.knowledge.entries import LAYERS, SYMPTOMS

if TYPE_CHECKING:
    from playbook.workflow.learning.progress import Answer
    from playbook.workflow.learning.quiz import Deck
    from playbook.workflow.learning.quiz_cards import Card

SPOKEN = 4  # questions of an interview
_BAR = 12


@dataclass(frozen=True)
class Standing:
    """The deck and how the learner stands: counts by topic, the log of answers, cards due and cards met."""

    deck: Deck
    topics: dict[str, int]
    answers: tuple[Answer, ...] = ()
    due: int = 0
    met: int = 0
    fault: str = ""


class Quiz(ListPage):
    """Enter begins a sheet; `l` narrows it to a level."""

    HINTS: ClassVar[tuple[Hint, ...]] = (
        ("Enter", "begin", ""),
        ("l", "level", "level"),
        ("D", "drill", "app.open('drill')"),
        ("?", "keys", "app.open('help')"),
        ("q", "leave", "leave"),
    )
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("l", "level", "Another level", show=False),
        Binding("escape", "leave", "Back", show=False),
    ]

    class Opened(Message):
        def __init__(self, standing: Standing) -> None:
            super().__init__()
            self.standing = standing

    class Dealt(Message):
        """A sheet is ready; `parts` only for an interview."""

        def __init__(self, arguments: tuple[object, ...], error: PlaybookError | None = None) -> None:
            super().__init__()
            self.arguments, self.error = arguments, error

    def __init__(self) -> None:
        super().__init__()
        self.standing: Standing | None = None
        self.level: int | None = None

    def on_mount(self) -> None:
        self.query_one(TopLine).show([("playbook", "bold $accent"), (self.w("Quiz"), "bold")])
        self.query_one("#why").border_title = self.w("How it goes")
        self.call_after_refresh(self.fill)

    def on_screen_resume(self) -> None:
        """Also after a sheet: what was answered changes what is due."""
        self._open(self.top.clock())

    @work(thread=True, exclusive=True, exit_on_error=False, description="open")
    def _open(self, now: datetime) -> None:
        from playbook.workflow.learning.quiz import Deck
        from playbook.workflow.learning.quiz_cards import Ground

        library = self.top.library
        if library is None:
            return
        deck = self.top.deck or Deck(Ground(library, self.w))
        self.top.deck = deck
        topics = deck.topics()
        try:
            progress = self.top.shop.progress()
            due = sum(item in deck.specs for item in progress.due(now))
            met = sum(item in deck.specs for item in progress.seen())
            standing = Standing(deck, topics, tuple(progress.answers()), due, met)
        except PlaybookError as error:
            standing = Standing(deck, topics, fault=self.w.error(error))
        except Exception as error:
            standing = Standing(deck, topics, fault=f"{type(error).__name__}: {error}")
        self.post_message(self.Opened(standing))

    @on(Opened)
    def _opened(self, event: Opened) -> None:
        self.standing = event.standing
        self.fill()

    def fill(self) -> None:
        if not self.is_mounted:
            return
        rows, standing = self.query_one("#list", Rows), self.standing
        if standing is None:
            rows.fill([("", Content.styled(self.w("making the cards ..."), "$foreground-muted"))])
            return
        from playbook.workflow.learning.quiz import COUNT, TEMPLATES

        width, w = max(rows.room, 24), self.w
        due = w("{n} due", n=standing.due)
        shown: list[tuple[str, Content | str] | None] = [
            ("sheet", self._row(w("{n} cards, due ones first", n=COUNT), due, width, "bold")),
            ("due", self._row(w("only what is due"), str(standing.due), width, "bold")),
            ("interview", self._row(w("an interview: {n} spoken questions", n=SPOKEN), "", width, "bold")),
        ]
        groups = (("By kind of card", tuple(TEMPLATES)), ("By layer", LAYERS), ("By symptom", SYMPTOMS))
        book = standing.deck.ground.book
        for head, names in groups:
            found = [name for name in names if standing.topics.get(name)]
            if found:
                shown.append(("", Content.styled(w(head), "bold $accent")))
            for name in found:
                symptom = book.symptoms.get(name)
                title = w(TEMPLATES[name].title) if name in TEMPLATES else symptom.title if symptom else w(name)
                shown.append((f"topic:{name}", self._row(title, str(standing.topics[name]), width)))
        rows.fill(shown)
        level = w("level {n}", n=self.level) if self.level else w("all levels")
        rule(rows, w("Practise"), level)
        self.query_one("#text", Static).update(paragraphs(self._progress(standing)))

    @staticmethod
    def _row(text: str, tail: str, width: int, style: str = "") -> Content:
        return Content.assemble((pad(text, width - cell_len(tail) - 1), style), " ", (tail, "$foreground-muted"))

    def _progress(self, s: Standing) -> list[Content]:
        from playbook.workflow.learning.progress import brier, calibration, weak_spots
        from playbook.workflow.learning.quiz import TEMPLATES

        w = self.w
        every = len(s.deck.specs)
        text = w.count(len(s.answers), "1 answer", "{n} answers")
        text += w(", {known} of {every} cards met, {due} due", known=s.met, every=every, due=s.due)
        lines = [Content.styled(text, "bold")]
        if s.fault:
            lines.append(Content.styled(f"! {s.fault}", "$warning"))
        if not s.answers:
            lines.append(
                Content.styled(w("Every answer explains itself and leads into the book."), "$foreground-muted")
            )
            return lines
        width = max(self.query_one("#text").content_size.width, 30)
        for title, among in (("layer", LAYERS), ("symptom", SYMPTOMS), ("kind of card", tuple(TEMPLATES))):
            spots = weak_spots(s.answers, among)[:5]
            if spots:
                lines += [Content(""), Content.styled(w("Weak spots by {what}", what=w(title)), "bold $accent")]
            for spot in spots:
                symptom = s.deck.ground.book.symptoms.get(spot.topic)
                name = TEMPLATES[spot.topic].title if spot.topic in TEMPLATES else spot.topic
                name = symptom.title if symptom is not None else w(name)
                meter = Content.styled(bar(spot.score, _BAR), "$primary")
                tail = fit(f"{name} ({spot.answers})", width - _BAR - 7)
                lines.append(Content.assemble(meter, f" {spot.score:>4.0%}  ", tail))
        if (score := brier(s.answers)) is not None:
            lines += [Content(""), Content.styled(f"{w('Stated probabilities')}  Brier {score:.3f}", "bold $accent")]
            for row in calibration(s.answers):
                said = f"{w('said')} {row['from']:.0%}-{row['from'] + 0.2:.0%}"
                came = f"{w('came true')} {row['came_true']:.0%} ({row['answers']:.0f})"
                lines.append(Content.assemble(f"{said}  ", (bar(row["came_true"], _BAR), "$primary"), f" {came}"))
        return lines

    def action_level(self) -> None:
        """All, 1, 2, 3, 4, all ..."""
        self.level = (self.level or 0) + 1 if (self.level or 0) < 4 else None
        self.fill()

    @on(Rows.OptionSelected)
    def _chosen(self, event: Rows.OptionSelected) -> None:
        if event.option_id and self.standing is not None:
            self._deal(self.standing.deck, event.option_id, self.level, self.top.clock())

    @work(thread=True, exclusive=True, group="deal", exit_on_error=False, description="deal")
    def _deal(self, deck: Deck, wish: str, level: int | None, now: datetime) -> None:
        """Make the cards of a sheet."""
        from playbook.workflow.learning import interview
        from playbook.workflow.learning.progress import NEW_A_DAY

        kind, _, topic = wish.partition(":")
        try:
            if kind == "interview":
                asked = interview.plan(deck, None, level, SPOKEN, secrets.randbelow(100_000))
                self.post_message(self.Dealt((asked, interview.frame(deck), True)))
                return
            cards: list[Card] = deck.sheet(
                self.top.shop.progress(), topic or None, level, kind == "due", now=now, new=NEW_A_DAY
            )
            self.post_message(self.Dealt(([(card, False) for card in cards],)))
        except PlaybookError as error:
            self.post_message(self.Dealt((), error))
        except Exception as error:
            ours = PlaybookError(self.w("Quiz"), f"{type(error).__name__}: {error}", "try again")
            self.post_message(self.Dealt((), ours))

    @on(Dealt)
    def _dealt(self, event: Dealt) -> None:
        if event.error is not None:
            self.top.problem(event.error)
        elif not event.arguments[0]:
            self.top.tell(self.w("nothing is due, or the new cards of today are done"))
        else:
            self.app.push_screen(registry.make("cards", *event.arguments))
