"""Other questions: everything that is worth asking, best first, and any signal by its words."""

from __future__ import annotations

from typing import ClassVar

from textual import events, on
from textual.app import ComposeResult
from textual.containers import Vertical
from textual.content import Content

from playbook.engine.value import cost_of
from playbook.faces.prices import price
from playbook.faces.tui.base import Dialog
from playbook.faces.tui.widgets import Hint, Hints, Line, Rows, fit


class Plan(Dialog[None]):
    """Enter puts the question first; words find any signal of the book."""

    HINTS: ClassVar[tuple[Hint, ...]] = (
        ("Enter", "ask this", ""),
        ("Tab", "search", "app.focus_next"),
        ("Esc", "close", "close"),
    )

    def compose(self) -> ComposeResult:
        with Vertical(classes="box -large"):
            yield Rows(id="questions")
            yield Line(placeholder=self.w("words of a signal"), id="filter")
            yield Hints(self.hints())

    def on_mount(self) -> None:
        self.query_one(".box").border_title = self.w("Other questions")
        self.call_after_refresh(self._fill)

    def on_resize(self, event: events.Resize) -> None:
        super().on_resize(event)
        self.call_after_refresh(self._fill)

    @on(Line.Changed)
    def _fill(self) -> None:
        desk = self.top.desk
        if desk is None or not self.is_mounted:
            return
        words = self.query_one(Line).value
        rows = self.query_one(Rows)
        width = max(rows.room, 30)
        session, book = desk.session, desk.session.book
        gains = {o.signal: o.gain for o in desk.diagnosis.plan}
        if words.strip():
            from playbook.faces.tui.entry_text import search

            names = [name for kind, name, _ in search(book, words, 200) if kind == "signals"][:20]
        else:
            names = list(gains)
        known = {e.signal for e in session.evidence}
        shown: list[tuple[str, Content | str] | None] = []
        for name in names:
            signal = book.signals[name]
            cost = cost_of(signal, session.size, session.clusters_done)
            tail = f"  {price(cost, ' ')}"
            tail += f"  {gains[name]:.2f} bit" if name in gains else ""
            sign = "✓ " if name in known else "  "
            title = fit(signal.title, width - 2 - len(tail))
            gap = " " * max(width - 2 - len(tail) - Content(title).cell_length, 0)
            body = Content.assemble(sign, (title, "bold"), gap, (tail, "$foreground-muted"))
            shown.append((name, body + Content.styled(f"\n  {fit(signal.question, width - 2)}", "$foreground-muted")))
        rows.fill(
            shown or [("", Content.styled(self.w("nothing is left that would tell much"), "$foreground-muted"))],
            keep=False,
        )

    @on(Line.Submitted)
    def _entered(self) -> None:
        self.set_focus(self.query_one(Rows))

    @on(Rows.OptionSelected)
    def _chosen(self, event: Rows.OptionSelected) -> None:
        desk = self.top.desk
        name = event.option_id
        if not name or desk is None:
            return
        self.dismiss(None)
        if name in {e.signal for e in desk.session.evidence}:
            from playbook.faces.tui.dialogs import EvidenceDialog

            self.app.push_screen(EvidenceDialog(name))
        else:
            self.top.ask(name)
