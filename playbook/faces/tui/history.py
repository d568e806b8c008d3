"""Past incidents with a search, and unfinished diagnoses; Enter takes an incident up again."""

from __future__ import annotations

from typing import Any, ClassVar

from textual import events, on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.content import Content
from textual.widgets import Static

from playbook.faces.tui.base import Page
from playbook.faces.tui.widgets import Hint, Line, Rows, TopLine, fit, pad, rule

_SIGNS = {"open": ("●", "$warning"), "closed": ("✓", "$success"), "false-alarm": ("○", "$foreground-muted")}


class History(Page):
    """Rows of incidents, newest first; words search title, cause, notes."""

    HINTS: ClassVar[tuple[Hint, ...]] = (
        ("Enter", "take up", ""),
        ("/", "search", "search"),
        ("f", "all, open, closed", "turn"),
        ("q", "leave", "leave"),
    )
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("slash", "search", "Search", show=False),
        Binding("f", "turn", "All, open, closed", show=False),
        Binding("escape", "leave_search", "Back", show=False),
    ]
    AUTO_FOCUS = "#incidents"
    STATES = (None, "open", "closed")

    def __init__(self) -> None:
        super().__init__()
        self.state = 0

    def body(self) -> ComposeResult:
        yield Line(placeholder=self.w("words in an incident"), id="query")
        yield Rows(id="incidents")
        yield Static("", id="fault", markup=False)

    def on_mount(self) -> None:
        self.query_one(TopLine).show([("playbook", "bold $accent"), (self.w("Past incidents"), "bold")])
        self.top.listed.subscribe(self, lambda _: self._fill())
        self._list()

    def on_resize(self, event: events.Resize) -> None:
        super().on_resize(event)
        self.call_after_refresh(self._fill)

    def on_unmount(self) -> None:
        self.top.list_incidents(status="open")

    def _list(self) -> None:
        self.top.list_incidents(self.query_one("#query", Line).value, self.STATES[self.state])

    @on(Line.Changed)
    def _typed(self) -> None:
        self._list()

    @on(Line.Submitted)
    def _entered(self) -> None:
        self.set_focus(self.query_one(Rows))

    def _fill(self) -> None:
        if not self.is_mounted:
            return
        rows = self.query_one(Rows)
        width = max(rows.room, 40)
        shown: list[tuple[str, Content | str] | None] = [
            (row["id"], self._row(row, width)) for row in self.top.incidents
        ]
        empty = Content.styled(self.w("no incident is recorded yet"), "$foreground-muted")
        rows.fill(shown or [("", empty)])
        rule(rows, self.w(("all", "open", "closed")[self.state]), str(len(shown)) if shown else "")
        fault = self.query_one("#fault", Static)
        fault.display = bool(self.top.kept_error)
        fault.update(f"! {self.top.kept_error}")

    def _row(self, row: dict[str, Any], width: int) -> Content:
        sign, style = _SIGNS.get(row["status"], ("·", ""))
        day = str(row["opened_at"])[:10]
        cost = f"{row['cost_usd']:,.0f} USD" if row.get("cost_usd") else ""
        cause = row.get("cause") or (f"? {row['first_cause']}" if row.get("first_cause") else "")
        head = Content.assemble((f"{sign} ", style), (fit(self.w.say(str(row["title"])), width - 2), "bold"))
        tail = f"{pad(str(row['id']), 17)} {day}  {pad(self.w(row['status']), 8)} {pad(cause, 26)} {cost}"
        return head + Content.styled(f"\n  {fit(tail.rstrip(), width - 2)}", "$foreground-muted")

    @on(Rows.OptionSelected)
    def _chosen(self, event: Rows.OptionSelected) -> None:
        if event.option_id:
            self.top.leave()
            self.top.take_up(event.option_id)

    def action_turn(self) -> None:
        self.state = (self.state + 1) % len(self.STATES)
        self._list()

    def action_search(self) -> None:
        self.set_focus(self.query_one("#query"))

    def action_leave_search(self) -> None:
        if isinstance(self.focused, Line):
            self.set_focus(self.query_one(Rows))
        else:
            self.top.leave()
