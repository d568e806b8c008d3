"""What if: try an answer without keeping it; causes before and after stand side by side, `k` keeps it after all."""

from __future__ import annotations

from typing import ClassVar

from textual import events, on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, VerticalScroll
from textual.content import Content
from textual.widgets import Static

from playbook.faces.tui.base import Page
from playbook.faces.tui.desk import Desk
from playbook.faces.tui.widgets import Hint, Line, Rows, TopLine, bar, fit, paragraphs, percent
from playbook.workflow.verdict import noted

_SHOWN = 6  # causes
_BAR = 12


class WhatIf(Page):
    """Left: signals and their outcomes, filtered by words; right: where the causes would stand."""

    HINTS: ClassVar[tuple[Hint, ...]] = (
        ("↑↓", "try", ""),
        ("/", "another signal", "search"),
        ("K", "keep this answer", "keep"),
        ("q", "leave, nothing kept", "leave"),
    )
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("slash", "search", "Find another signal", show=False),
        Binding("K", "keep", "Keep this answer", show=False),
        Binding("escape", "leave_search", "Back", show=False),
    ]
    AUTO_FOCUS = "#try"

    def body(self) -> ComposeResult:
        yield Line(placeholder=self.w("words of a signal"), id="filter")
        with Horizontal(id="both"):
            yield Rows(id="try")
            with VerticalScroll(id="then"):
                yield Static("", id="text", markup=False)

    def on_mount(self) -> None:
        self.query_one("#try").border_title = self.w("If ...")
        self.query_one("#then").border_title = self.w("... then")
        self.query_one(TopLine).show([("playbook", "bold $accent"), (self.w("What if"), "bold")])
        self.call_after_refresh(self._fill)

    def on_resize(self, event: events.Resize) -> None:
        super().on_resize(event)
        self.call_after_refresh(self._fill)

    @on(Line.Changed, "#filter")
    def _typed(self) -> None:
        self._fill()

    @on(Line.Submitted, "#filter")
    def _entered(self) -> None:
        self.set_focus(self.query_one("#try"))

    def _signals(self, desk: Desk, words: str) -> list[str]:
        """The question that is asked, then the others worth asking, then what fits the words."""
        book = desk.session.book
        if words.strip():
            from playbook.faces.tui.entry_text import search

            return [name for kind, name, _ in search(book, words, 200) if kind == "signals"][:12]
        names = [desk.question.id] if desk.question else []
        names += [o.signal for o in desk.diagnosis.plan if o.signal not in names]
        return names or [e.signal for e in desk.session.evidence if e.signal in book.signals][:8]

    def _fill(self) -> None:
        desk = self.top.desk
        if desk is None or not self.is_mounted:
            return
        rows = self.query_one("#try", Rows)
        width = max(rows.room, 16)
        shown: list[tuple[str, Content | str] | None] = []
        for signal in self._signals(desk, self.query_one("#filter", Line).value):
            entry = desk.session.book.signals[signal]
            shown.append(("", Content.styled(fit(entry.title, width), "bold")))
            for name, meaning in entry.outcomes.items():
                head = Content.assemble(
                    "  ", (name, "$primary"), (fit(f"  {meaning}", width - 2 - len(name)), "$foreground-muted")
                )
                shown.append((f"{signal}={name}", head))
        rows.fill(shown or [("", Content.styled(self.w("nothing fits"), "$foreground-muted"))])
        self._show()

    @on(Rows.OptionHighlighted, "#try")
    def _moved(self) -> None:
        self._show()

    @on(Rows.OptionSelected, "#try")
    def _chosen(self) -> None:
        self._show()

    def _show(self) -> None:
        desk = self.top.desk
        chosen = self.query_one("#try", Rows).current
        if desk is None or not chosen:
            self.query_one("#text", Static).update("")
            return
        signal, _, state = chosen.partition("=")
        then = desk.session.what_if(signal, state)
        after = then.diagnosis(explained=False)
        before = desk.now()
        lines: list[Content | None] = [
            Content.assemble((f"{signal} = ", "$foreground-muted"), (state, "bold $primary"))
        ]
        if after.healthy:
            lines.append(Content.styled(self.w.healthy(noted(then)), "$success"))
        width = max(self.query_one("#text").content_size.width, 24)
        size = min(_BAR, max((width - 20) // 2, 4))
        for ranked in after.causes[:_SHOWN]:
            was = before.get(ranked.class_, 0.0)
            move = ranked.probability - was
            arrow = "  " if abs(move) < 0.005 else "▲ " if move > 0 else "▼ "
            lines.append(Content.styled(fit(ranked.title, width), "bold"))
            line = Content.assemble((bar(was, size), "$foreground-muted"), f" {percent(was):>4}  →  ")
            meter = (bar(ranked.probability, size), "$primary")
            lines.append(Content.assemble(line, meter, (f" {percent(ranked.probability):>4} ", "bold"), arrow))
        word = self.w("decided") if after.decided else f"{self.w.lead('undecided')}{self.w(after.why_undecided)}"
        lines += [Content(""), Content.styled(word, "$success" if after.decided else "$warning")]
        if after.next is not None:
            entry = desk.session.book.signals[after.next.signal]
            lines.append(Content.styled(f"{self.w.lead('then asked')}{entry.question}", "$foreground-muted"))
        self.query_one("#text", Static).update(paragraphs(lines))

    def action_keep(self) -> None:
        chosen = self.query_one("#try", Rows).current
        if chosen:
            signal, _, state = chosen.partition("=")
            self.top.leave()
            self.top.answer(signal, state)

    def action_search(self) -> None:
        self.set_focus(self.query_one("#filter"))

    def action_leave_search(self) -> None:
        if isinstance(self.focused, Line):
            self.set_focus(self.query_one("#try"))
        else:
            self.top.leave()
