"""Close an incident: the confirmed cause (or a false alarm), the fix that helped, who says so."""

from __future__ import annotations

import getpass
from typing import TYPE_CHECKING, ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import VerticalScroll
from textual.content import Content
from textual.widgets import Label, Static

from playbook.faces.tui.base import TALL, Dialog
from playbook.faces.tui.similar import outcome_line
from playbook.faces.tui.widgets import Hint, Hints, Line, Rows, fit, hanging, paragraphs, percent

if TYPE_CHECKING:
    from playbook.faces.tui.desk import Desk

FALSE_ALARM, OTHER = "false-alarm", "other"
_CAUSES = 8


class CloseDialog(Dialog[None]):
    """Rows to pick the cause and the fix from; Enter on a cause goes on to the fix, Ctrl+S closes the incident."""

    HINTS: ClassVar[tuple[Hint, ...]] = (
        ("Tab", "next field", ""),
        ("Ctrl+S", "close the incident", "finish"),
        ("Esc", "cancel", "close"),
    )
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("ctrl+s", "finish", "Close the incident", show=False, priority=True)
    ]

    def compose(self) -> ComposeResult:
        with VerticalScroll(classes="box -large"):
            yield Static("", id="before", markup=False)
            yield Label(self.w("Confirmed cause"))
            yield Rows(id="cause")
            yield Label(self.w("What helped"))
            yield Rows(id="fix")
            yield Label(self.w("Confirmed by"))
            yield Line(id="by", value=me())
            yield Label(self.w("In a few words (needed where the book has no such cause)"))
            yield Line(id="words")
            yield Hints(self.hints())

    def on_mount(self) -> None:
        desk = self.top.desk
        assert desk is not None
        self.query_one(".box").border_title = self.w("Close the incident")
        before = self.query_one("#before", Static)
        before.display = bool(desk.similar)
        head = Content.styled(self.w("Looked like this before"), "$foreground-muted")
        before.update(paragraphs([head, *self._alike(desk)]))
        causes: list[tuple[str, Content | str] | None] = []
        for ranked in desk.diagnosis.causes[:_CAUSES]:
            share = f"{percent(ranked.probability):>4} "
            causes.append((ranked.id, Content.assemble((share, "$primary"), ranked.title)))
        causes.append(
            (OTHER, Content.styled(f"   · {self.w('something that is not in the book')}", "$foreground-muted"))
        )
        causes.append((FALSE_ALARM, Content.styled(f"   · {self.w('false alarm')}", "$foreground-muted")))
        self.query_one("#cause", Rows).fill(causes)
        fixes: list[tuple[str, Content | str] | None] = [
            ("none", Content.styled(self.w("nothing yet"), "$foreground-muted"))
        ]
        fixes += [(name, Content(desk.session.book.fixes[name].title)) for name in desk.diagnosis.fixes[:6]]
        self.query_one("#fix", Rows).fill(fixes)
        self.set_focus(self.query_one("#cause"))

    def _alike(self, desk: Desk) -> list[Content]:
        """What it was then, in a line each: the cause that is confirmed now is often the same."""
        width = min(self.app.size.width * 94 // 100, 84) - 6  # of the box, which has no size yet
        rows, few = [], self.app.size.height < TALL
        for item in desk.similar[: 1 if few else 3]:
            text = f"{item.id}: {outcome_line(item, desk.session.book, self.w)}"
            head = Content.styled(f"≈ {percent(item.likeness)}", "$secondary")
            rows.append(hanging(head, text, width, 6) if not few else head + f" {fit(text, width - 6)}")
        return rows

    @on(Rows.OptionSelected, "#cause")
    def _to_fix(self) -> None:
        self.set_focus(self.query_one("#fix"))

    @on(Rows.OptionSelected, "#fix")
    def _to_by(self) -> None:
        self.set_focus(self.query_one("#by"))

    @on(Line.Submitted)
    def action_finish(self) -> None:
        desk = self.top.desk
        if desk is None:
            return
        cause = self.query_one("#cause", Rows).current
        fix = self.query_one("#fix", Rows).current
        note = self.query_one("#words", Line).value.strip()
        if cause == OTHER and not note:
            self.top.tell(self.w("say in a few words what it was"), "warning")
            self.set_focus(self.query_one("#words"))
            return
        self.dismiss(None)
        self.top.close_incident(
            desk.copy(),
            desk.title or None,
            None if cause == FALSE_ALARM else cause,
            self.query_one("#by", Line).value.strip(),
            [f"{fix}=cured"] if fix and fix != "none" else [],
            note,
            desk.session.book,
        )


def me() -> str:
    """Who sits here, as far as the system knows."""
    try:
        return getpass.getuser()
    except (OSError, KeyError, ImportError):
        return ""
