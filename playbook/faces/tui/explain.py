"""Why: for and against one cause with their weights, its forms, what was ruled out by what, what would change it."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from textual import on
from textual.binding import Binding, BindingType
from textual.content import Content
from textual.widgets import Static

from playbook.engine.diagnosis import precedents_of
from playbook.faces.tui import registry
from playbook.faces.tui.base import ListPage
from playbook.faces.tui.desk import Desk
from playbook.faces.tui.widgets import Hint, Rows, TopLine, bar, fit, hanging, paragraphs, percent
from playbook.workflow.verdict import noted

if TYPE_CHECKING:
    from playbook.engine.diagnosis import Ranked
    from playbook.engine.explain import Reason

_SHOWN = 12  # causes in the list
_HEAVY = 3.0  # nats that fill a bar: twenty times as likely as by the causes of other classes
_BAR = 8


class Explain(ListPage):
    """`Explain()` begins with the leading cause, `Explain(cause)` with that one."""

    HINTS: ClassVar[tuple[Hint, ...]] = (
        ("↑↓", "another cause", ""),
        ("Enter", "read about it", "read"),
        ("Tab", "scroll the reasons", "app.focus_next"),
        ("q", "leave", "leave"),
    )
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "leave", "Back", show=False),
    ]

    def __init__(self, cause: str | None = None) -> None:
        super().__init__()
        self.cause = cause

    def on_mount(self) -> None:
        self.query_one("#list").border_title = self.w("Causes")
        self.query_one("#why").border_title = self.w("Why")
        self.query_one(TopLine).show([("playbook", "bold $accent"), (self.w("Explain"), "bold")])
        self.call_after_refresh(self.fill)

    def fill(self) -> None:
        desk = self.top.desk
        if desk is None or not self.is_mounted:
            return
        rows = self.query_one("#list", Rows)
        width = max(rows.room, 16)
        shown: list[tuple[str, Content | str] | None] = []
        for ranked in desk.diagnosis.causes[:_SHOWN]:
            tail = f" {percent(ranked.probability):>4}"
            line = Content.assemble((fit(ranked.title, width), "bold"))
            meter = Content.assemble(("\n" + bar(ranked.probability, width - 5), "$primary"), tail)
            shown.append((ranked.id, line + meter))
        rows.fill(shown or [("", Content(self.w.healthy(noted(desk.session))))])
        ids = [row[0] for row in shown if row is not None]
        if self.cause in ids:
            rows.highlighted = ids.index(self.cause)
        elif self.cause is not None:
            # A form of a class that another form stands for.
            home = [r.id for r in desk.diagnosis.causes[:_SHOWN] if self.cause in dict(r.variants)]
            rows.highlighted = ids.index(home[0]) if home else 0
        self._show(desk)

    @on(Rows.OptionHighlighted, "#list")
    def _moved(self, event: Rows.OptionHighlighted) -> None:
        if self.top.desk is not None:
            self.cause = event.option_id
            self._show(self.top.desk)

    @on(Rows.OptionSelected, "#list")
    def action_read(self) -> None:
        name = self.query_one("#list", Rows).current
        if name:
            self.app.push_screen(registry.make("browse", "causes", name))

    def _show(self, desk: Desk) -> None:
        name = self.query_one("#list", Rows).current
        ranked = next((r for r in desk.diagnosis.causes if r.id == name), None)
        if ranked is None:
            return
        self.query_one("#text", Static).update(paragraphs(self._lines(desk, ranked)))
        self.query_one("#why").scroll_home(animate=False)

    @property
    def _width(self) -> int:
        return max(self.query_one("#why").content_size.width - 2, 24)

    def _lines(self, desk: Desk, ranked: Ranked) -> list[Content | None]:
        d = desk.diagnosis
        kind = desk.session.book.class_title(ranked.class_)
        lines: list[Content | None] = [
            Content.styled(ranked.title, "bold"),
            Content.styled(f"{percent(ranked.probability)} · {ranked.layer} / {kind}", "$foreground-muted"),
        ]
        lines += self._reasons(desk, self.w("For"), ranked.pro, "$success", "+")
        lines += self._reasons(desk, self.w("Against"), ranked.con, "$error", "-")
        if not ranked.pro and not ranked.con:
            lines.append(Content.styled(self.w("nothing that is known speaks for or against it"), "$foreground-muted"))
        judged = dict(precedents_of(d, desk.session.tables, len(d.causes)))
        if ranked.class_ in judged:
            told = f"{self.w.lead('Published incidents that tell the same')}{percent(judged[ranked.class_])}"
            lines.append(Content.styled(told, "$foreground-muted"))
        if len(ranked.variants) > 1:
            lines += [Content(""), Content.styled(self.w("Forms of it"), "bold $accent")]
            for name, share in ranked.variants[:6]:
                title = desk.session.book.causes[name].title
                lines.append(hanging(Content.styled(f"{percent(share):>4}", "bold"), title, self._width, 5))
        for a, b, share in d.coupled:
            if ranked.id in (a, b):
                text = self.w("{a} and {b} at once: {share}", a=a, b=b, share=percent(share))
                lines += [Content(""), Content.styled(text, "$warning")]
        if d.ruled_out:
            lines += [Content(""), Content.styled(self.w("Ruled out"), "bold $accent")]
            for item in d.ruled_out:
                how = self.w("impossible given") if item.hard else self.w("unlikely given")
                title = desk.session.book.causes[item.cause].title
                lines.append(hanging(Content("✗"), title, self._width, 2))
                text = f"{how} {item.signal} = {item.state}"
                lines.append(hanging(Content(""), text, self._width, 2, "$foreground-muted"))
        if d.tipping is not None:
            tip = d.tipping
            text = self.w("{signal} = {outcome} ({share} likely) would put {cause} first", signal=tip.signal,
                          outcome=tip.outcome, share=percent(tip.chance), cause=tip.cause)  # fmt: skip
            lines += [Content(""), Content.styled(self.w("What would change it"), "bold $accent"), Content(text)]
        if d.unmapped:
            names = ", ".join(f"{e.signal} = {e.state}" for e in d.unmapped)
            lines += [
                Content(""),
                Content.styled(f"{self.w.lead('not in the book')}{names}", "$foreground-muted"),
            ]
        return lines

    def _reasons(self, desk: Desk, title: str, rows: tuple[Reason, ...], style: str, sign: str) -> list[Content | None]:
        if not rows:
            return []
        lines: list[Content | None] = [Content(""), Content.styled(title, f"bold {style}")]
        for row in rows:
            entry = desk.session.book.signals.get(row.signal)
            name = entry.title if entry else row.signal
            meter = bar(abs(row.weight) / _HEAVY, _BAR)
            head = Content.assemble((meter, style), (f" {sign}{abs(row.weight):.1f}", "bold"))
            lines.append(hanging(head, f"{name}: {row.state}", self._width, _BAR + 6))
            if row.because:
                lines.append(hanging(Content(""), self.w.say(row.because), self._width, _BAR + 6, "$foreground-muted"))
        return lines
