"""How a card is drawn: its question or its mark on top, the choices below, the line on top with the clock.

`Cards` asks and marks; this is all that only looks at its state.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING

from textual.app import ComposeResult
from textual.containers import VerticalScroll
from textual.content import Content
from textual.widgets import Static, TextArea

from playbook.faces.learning.countdown import clock
from playbook.faces.tui import base, card_text
from playbook.faces.tui.widgets import Hints, Line, Rows, TopLine, fit, hanging, paragraphs, rule, wrap
from playbook.workflow.learning.interview import MINUTES, Sat, total
from playbook.workflow.learning.quiz import TEMPLATES
from playbook.workflow.learning.quiz_cards import Card, Point
from playbook.workflow.learning.quiz_marks import Mark, heard

if TYPE_CHECKING:
    from playbook.knowledge.loader import Book

NEXT = "next"
_Row = tuple[str, Content | str] | None
ASK = {
    "choice": (("1-9", "answer", ""), ("space", "read on", "scroll"), ("?", "keys", "app.open('help')"),
               ("q", "leave", "leave")),
    "order": (("1-9", "the next step", ""), ("Bksp", "take back", "back"), ("?", "keys", "app.open('help')"),
              ("q", "leave", "leave")),
    "line": (("Enter", "answer", ""), ("Esc", "leave", "leave")),
    "free": (("Ctrl+S", "that is my answer", "finish"), ("Esc", "leave", "leave")),
    "ticks": (("1-9", "said in other words", ""), ("Ctrl+S", "go on", "finish"), ("q", "leave", "leave")),
    "told": (("Enter", "next question", "next"), ("e", "too easy", "easy"), ("u", "take back", "undo"),
             ("space", "read on", "scroll"), ("q", "leave", "leave")),
    "end": (("Enter", "done", "next"), ("q", "leave", "leave")),
}  # fmt: skip


class CardView(base.Page):
    """The state of a round of cards, drawn."""

    def __init__(
        self, asked: Sequence[tuple[Card, bool]] = (), parts: Sequence[Point] = (), interview: bool = False
    ) -> None:
        super().__init__()
        self.asked, self.parts, self.interview = list(asked), parts, interview
        self.place = 0
        self.phase = "ask" if self.asked else "end"
        self.done: list[tuple[Card, Mark, datetime | None]] = []
        self.sittings: list[Sat] = []
        self.picked: list[int] = []
        self.ticked: set[str] = set()
        self.easy = False
        self.seconds = 0.0
        self._begun = time.monotonic()
        self._said: Mark | None = None

    @property
    def card(self) -> Card:
        return self.asked[self.place][0]

    @property
    def book(self) -> Book:
        assert self.top.library is not None
        return self.top.library.book

    def body(self) -> ComposeResult:
        with VerticalScroll(id="card", can_focus=False):
            yield Static("", id="text", markup=False)
        yield TextArea(id="spoken", soft_wrap=True, tab_behavior="focus")
        yield Line(id="reply")
        yield Rows(id="replies")

    def _draw(self) -> None:
        if not self.is_mounted:
            return
        form = self.card.form if self.asked else "choice"
        asking = self.phase == "ask"
        self.query_one("#spoken").display = asking and form == "free"
        self.query_one("#reply").display = asking and form in ("number", "percent")
        rows = self.query_one("#replies", Rows)
        rows.display = not (asking and form in ("free", "number", "percent"))
        self._top_line()
        width = max(self.size.width - 5, 30)  # without margins and the scroll bar, also of a pane that is hidden
        choices, lines = self._rows(width), self._lines(width)
        rows.fill(choices, keep=True)
        rule(rows, self._rows_title())
        self.query_one("#text", Static).update(paragraphs(lines))
        self._share_out(lines, choices if rows.display else [], width)
        kind = {"number": "line", "percent": "line"}.get(form, form) if asking else self.phase
        self.query_one(Hints).show([(key, self.w(text), action) for key, text, action in ASK[kind]])

    def _share_out(
        self, lines: Sequence[Content], rows: Sequence[tuple[str, Content | str] | None], width: int
    ) -> None:
        """What the question does not need is the choices'; each has half of the screen where both want more."""
        whole = max(self.size.height - 2, 4)
        asked = sum(len(wrap(row, width)) for line in lines for row in line.plain.split("\n"))
        wanted = sum(_text(row).count("\n") + 1 for row in rows) + 1 if rows else whole // 2
        half = whole // 3 if self.phase == "told" else whole // 2
        below = min(wanted, max(half, whole - asked))
        self.query_one("#card").styles.max_height = whole - below
        self.query_one("#replies").styles.max_height = below

    def _top_line(self) -> None:
        word = self.w("Interview") if self.interview else self.w("Quiz")
        left = [("playbook", "bold $accent"), (word, "bold")]
        right = ""
        if self.asked and self.phase != "end":
            card, opening = self.asked[self.place]
            title = self.w(TEMPLATES[card.spec.template].title)
            if self.interview:
                title = self.w("Question") if opening else self.w("Follow-up")
                seconds = time.monotonic() - self._begun if self.phase == "ask" else self.seconds
                right = f"{clock(seconds)} / {self.w('{n:g} minutes', n=MINUTES[card.spec.level])}"
            left += [
                (f"{self.place + 1}/{len(self.asked)}", ""),
                (title, ""),
                (card_text.stars(card.spec.level), "$accent"),
            ]
        self.query_one(TopLine).show(left, (right, ""))

    def _rows_title(self) -> str:
        if self.phase == "ticks":
            return self.w("Not recognised. Which of these did you say, in other words?")
        if self.phase == "told":
            return self.w("Go on, or read about it")
        if self.phase == "end":
            return ""
        return self.w("In the right order") if self.card.form == "order" else self.w("Your answer")

    def _rows(self, width: int) -> list[_Row]:
        if self.phase == "end":
            return [(NEXT, Content.styled(self.w("done"), "bold"))]
        if self.phase == "told":
            rows: list[_Row] = [(NEXT, Content.styled(self.w("next question"), "bold"))]
            for kind, name in card_text.links(self.card):
                entry = self.book.kind(kind).get(name)
                title = entry.title if entry is not None else name
                head = f"{self.w(kind)}  "
                text = fit(title, width - Content(head).cell_length)
                rows.append((f"{kind}:{name}", Content.assemble((head, "$foreground-muted"), text)))
            return rows
        if self.phase == "ticks":
            return [
                (str(k), hanging(Content.styled(f"{k} {self._box(p)}", "$accent"), f"{p.label}: {p.text}", width, 5))
                for k, p in enumerate(self._open_points(), 1)
            ]
        if self.card.form == "order":
            return [(str(k), self._step(k, step, width)) for k, step in enumerate(self.card.shown_steps, 1)]
        return [
            (str(k), hanging(Content.styled(f"{k}", "bold $accent"), option.text, width, 3))
            for k, option in enumerate(self.card.options, 1)
        ]

    def _box(self, point: Point) -> str:
        return "☑" if point.label in self.ticked else "☐"

    def _step(self, number: int, text: str, width: int) -> Content:
        at = f"{self.picked.index(number) + 1}." if number in self.picked else " ·"
        head = Content.assemble((f"{number} ", "bold $accent"), (at, "bold $success"))
        return hanging(head, text, width, 6, "$foreground-muted" if number in self.picked else "")

    def _open_points(self) -> list[Point]:
        """Key points that were not recognised: only the person knows what was meant."""
        said = heard(self.card.points, self.query_one("#spoken", TextArea).text)
        return [point for point in self.card.points if point.label not in said]

    def _lines(self, width: int) -> list[Content]:
        if self.phase == "end":
            return self._ending(width)
        if self.phase == "told" and self._said is not None:
            head = [Content.styled(self.card.ask, "$foreground-muted"), Content("")]
            if self.sittings and self.interview:
                head += card_text.sat(self.sittings[-1], len(self.parts), self.w)
            lines = [*head, *card_text.marked(self.card, self._said, self.w, width)]
            easy = Content.styled(self.w("too easy: it comes back later"), "$success")
            return [*lines, easy] if self.easy else lines
        if self.phase == "ticks":
            return [Content.styled(self.card.ask, "bold"), Content(self.query_one("#spoken", TextArea).text)]
        return card_text.question(self.card, self.w, width, self.size.height - len(self.card.options) - 4)

    def _ending(self, width: int) -> list[Content]:
        lines = card_text.ending(self.done, len(self.asked), self.w, width)
        if self.interview and self.sittings:
            share = total(self.sittings)
            lines[0] = Content.styled(f"{self.w('Interview')}  {share:.0f} %", "bold")
        return lines


def _text(row: _Row) -> str:
    return "" if row is None else row[1] if isinstance(row[1], str) else row[1].plain
