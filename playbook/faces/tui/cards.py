"""Cards asked one by one: choices by digit, an order step by step, a number, a probability, a spoken answer.

The mark explains itself at once and leads into the book; it is stored when the person goes on (so that "too easy" can
still be said) or leaves. In an interview the clock runs and nothing is stored.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING, ClassVar

from textual import events, on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import VerticalScroll
from textual.content import Content
from textual.widgets import Static, TextArea

from playbook.errors import PlaybookError
from playbook.faces.tui import card_text, registry
from playbook.faces.tui.base import Page
from playbook.faces.tui.messages import Learned
from playbook.faces.tui.widgets import Hint, Hints, Line, Rows, TopLine, fit, hanging, paragraphs, rule, wrap
from playbook.workflow.learning.interview import MINUTES, Sat, sit, total
from playbook.workflow.learning.quiz import TEMPLATES
from playbook.workflow.learning.quiz_cards import Card, Point
from playbook.workflow.learning.quiz_marks import Mark, heard, mark

if TYPE_CHECKING:
    from playbook.knowledge.loader import Book

_NEXT = "next"
_Row = tuple[str, Content | str] | None
_ASK = {
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


class Cards(Page):
    """`asked` are (card, is it the opening of an interview). `parts`: the frame of an answer, only in an interview."""

    HINTS: ClassVar[tuple[Hint, ...]] = _ASK["choice"]
    BINDINGS: ClassVar[list[BindingType]] = [
        *(Binding(str(n), f"digit({n})", f"Choice {n}", show=False) for n in range(1, 10)),
        Binding("space", "scroll", "Read on", show=False),
        Binding("backspace", "back", "Take back the last step", show=False),
        Binding("u", "undo", "Take the last answer back", show=False),
        Binding("e", "easy", "Too easy: it comes back later", show=False),
        Binding("n", "next", "Next question", show=False),
        Binding("ctrl+s", "finish", "That is my answer", show=False, priority=True),
        Binding("escape", "leave", "Leave", show=False),
    ]
    AUTO_FOCUS = ""

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

    def on_mount(self) -> None:
        self.top.learned.subscribe(self, self._learned)
        self.set_interval(1.0, self._tick)
        self.call_after_refresh(self._ask)

    def on_resize(self, event: events.Resize) -> None:
        super().on_resize(event)
        self.call_after_refresh(self._draw)

    def _tick(self) -> None:
        """The clock of an interview."""
        if self.interview and self.phase == "ask":
            self._top_line()

    def _ask(self) -> None:
        """Begin the question of `place`."""
        self.picked, self.ticked, self.easy, self._said = [], set(), False, None
        self._begun = time.monotonic()
        self.query_one("#spoken", TextArea).text = ""
        reply = self.query_one("#reply", Line)
        reply.value = ""
        if self.asked and self.phase == "ask":
            form = self.card.form
            reply.placeholder = self.w("a percentage, 0 to 100") if form == "percent" else self.w("a number")
            focus = "#spoken" if form == "free" else "#reply" if form in ("number", "percent") else "#replies"
            self._draw()
            self.set_focus(self.query_one(focus))
        else:
            self._draw()

    # drawing

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
        self.query_one(Hints).show([(key, self.w(text), action) for key, text, action in _ASK[kind]])

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
                right = f"{card_text.clock(seconds)} / {self.w('{n:g} minutes', n=MINUTES[card.spec.level])}"
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
            return [(_NEXT, Content.styled(self.w("done"), "bold"))]
        if self.phase == "told":
            rows: list[_Row] = [(_NEXT, Content.styled(self.w("next question"), "bold"))]
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

    # answering

    def action_digit(self, number: int) -> None:
        rows = self.query_one("#replies", Rows)
        if rows.display and self.phase in ("ask", "ticks") and number <= rows.option_count:
            rows.highlighted = number - 1
            rows.action_select()

    @on(Rows.OptionSelected)
    def _chosen(self, event: Rows.OptionSelected) -> None:
        chosen = event.option_id or ""
        if not self.query_one("#replies", Rows).holds(chosen):
            return
        if self.phase in ("told", "end"):
            self._follow(chosen)
        elif self.phase == "ticks":
            label = self._open_points()[int(chosen) - 1].label
            self.ticked ^= {label}
            self._draw()
        elif self.card.form == "order":
            self._pick(int(chosen))
        else:
            self._mark(chosen)

    def _pick(self, number: int) -> None:
        if number not in self.picked:
            self.picked.append(number)
        left = [k for k in range(1, len(self.card.steps) + 1) if k not in self.picked]
        if len(left) == 1:
            self.picked += left  # the last one has no other place
        if len(self.picked) == len(self.card.steps):
            self._mark(" ".join(map(str, self.picked)))
        else:
            self._draw()

    def action_back(self) -> None:
        if self.phase == "ask" and self.picked:
            self.picked.pop()
            self._draw()

    @on(Line.Submitted)
    def _typed(self, event: Line.Submitted) -> None:
        self._mark(event.value)

    def action_finish(self) -> None:
        """The spoken answer is complete; what was not recognised may be ticked first."""
        if not self.asked or self.card.form != "free" or self.phase not in ("ask", "ticks"):
            return
        text = self.query_one("#spoken", TextArea).text.strip()
        if not text:
            self.top.tell(self.w("say it in your own words first"), "warning")
        elif self.phase == "ask" and self._open_points():
            self.seconds = time.monotonic() - self._begun
            self.phase = "ticks"
            self._draw()
            self.set_focus(self.query_one("#replies"))
        else:
            self._mark(text)

    def _mark(self, reply: str) -> None:
        if self.phase == "ask":
            self.seconds = time.monotonic() - self._begun
        card, opening = self.asked[self.place]
        try:
            if self.interview:
                self.sittings.append(sit(card, reply, self.seconds, self.parts, opening, self.ticked))
                self._said = self.sittings[-1].mark
            else:
                self._said = mark(card, reply, self.ticked)
        except PlaybookError as error:
            self.top.tell(f"{self.w(error.problem.what)}: {error.problem.hint}", "warning")
            return
        self.phase = "told"
        self._draw()
        self.query_one("#card").scroll_home(animate=False)
        rows = self.query_one("#replies", Rows)
        rows.highlighted = 0
        self.set_focus(rows)

    def action_easy(self) -> None:
        if self.phase == "told" and self._said is not None and self._said.right:
            self.easy = not self.easy
            self._draw()

    def action_undo(self) -> None:
        """The card that was answered last is asked again; what is stored of it is taken back."""
        if self.phase == "told":
            self.sittings = self.sittings[:-1]
        elif self.done and self.phase in ("ask", "end"):
            card, _, _ = self.done.pop()
            self.place = [card.id for card, _ in self.asked].index(card.id)
            self.sittings = self.sittings[:-1]
            if not self.interview:
                self.top.unlearn(card.id)
        else:
            self.top.tell(self.w("nothing to take back"))
            return
        self.phase = "ask"
        self._ask()

    def action_scroll(self) -> None:
        """A page down, and from the end back to the top."""
        pane = self.query_one("#card")
        if pane.scroll_offset.y >= pane.max_scroll_y:
            pane.scroll_home(animate=False)
        else:
            pane.scroll_page_down(animate=False)

    # going on

    def _follow(self, chosen: str) -> None:
        if chosen == _NEXT:
            self.action_next()
        else:
            kind, _, name = chosen.partition(":")
            self.app.push_screen(registry.make("browse", kind, name))

    def action_next(self) -> None:
        if self.phase == "end":
            self.top.leave()
        elif self.phase == "told":
            self._store()
            last = self.place + 1 >= len(self.asked)
            self.phase = "end" if last else "ask"
            self.place += 0 if last else 1
            self._ask()

    def _store(self) -> None:
        """Keep the answer; when the card comes back is told by the store, a little later."""
        if self._said is None:
            return
        said, self._said = self._said, None
        self.done.append((self.card, said, None))
        if not self.interview:
            self.top.learn(self.card, said, self.top.clock(), self.seconds, self.easy)

    def _learned(self, message: Learned) -> None:
        """The store has the answer to a card, or has given it up."""
        if message.due is None:
            if not message.gone:
                self.top.tell(self.w("that card was answered elsewhere since then; its answer stays"), "warning")
            return
        self.done = [(c, m, message.due if c.id == message.item else d) for c, m, d in self.done]
        if self.phase == "end":
            self._draw()

    def action_leave(self) -> None:
        if self.phase == "told":
            self._store()
        self.top.leave()


def _text(row: _Row) -> str:
    return "" if row is None else row[1] if isinstance(row[1], str) else row[1].plain
