"""Cards asked one by one: choices by digit, an order step by step, a number, a probability, a spoken answer.

The mark explains itself at once and leads into the book; it is stored when the person goes on (so that "too easy" can
still be said) or leaves. In an interview the clock runs and nothing is stored.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, ClassVar

from textual import events, on
from textual.binding import Binding, BindingType
from textual.widgets import TextArea

from playbook.errors import PlaybookError
from playbook.faces.tui import registry
from playbook.faces.tui.card_view import ASK, NEXT, CardView
from playbook.faces.tui.messages import Learned
from playbook.faces.tui.widgets import Hint, Line, Rows
from playbook.workflow.learning.interview import sit
from playbook.workflow.learning.quiz_marks import mark

if TYPE_CHECKING:
    pass


class Cards(CardView):
    """`asked` are (card, is it the opening of an interview). `parts`: the frame of an answer, only in an interview."""

    HINTS: ClassVar[tuple[Hint, ...]] = ASK["choice"]
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
            self.top.tell(f"{self.w.lead(error.problem.what)}{self.w.say(error.problem.hint)}", "warning")
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
        if chosen == NEXT:
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
                self.top.tell(self.w("that card has been answered elsewhere since; that answer stays"), "warning")
            return
        self.done = [(c, m, message.due if c.id == message.item else d) for c, m, d in self.done]
        if self.phase == "end":
            self._draw()

    def action_leave(self) -> None:
        if self.phase == "told":
            self._store()
        self.top.leave()
