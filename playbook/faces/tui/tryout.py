"""A repair that is its own experiment: how to try it, and what became of it."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from textual import events, on
from textual.app import ComposeResult
from textual.containers import VerticalScroll
from textual.content import Content
from textual.widgets import Static

from playbook.faces.tui import registry
from playbook.faces.tui.base import Dialog
from playbook.faces.tui.closing import me
from playbook.faces.tui.question import chances
from playbook.faces.tui.widgets import Hint, Hints, Rows, fit, paragraphs

if TYPE_CHECKING:
    from playbook.engine.trial import Trial
    from playbook.faces.tui.desk import Desk

_STEPS = 4  # of a repair; the rest is read in its entry


def mended_cause(desk: Desk, fix: str) -> str | None:
    """The most probable of the causes that a fix treats."""
    tables, belief = desk.session.tables, desk.diagnosis.belief
    treats = [h for h, name in enumerate(tables.causes) if name in desk.session.book.fixes[fix].treats]
    return tables.causes[max(treats, key=lambda h: (belief.marginal[h], -h))] if treats else None


class TryDialog(Dialog[None]):
    """It mended it: the incident is closed with the cause that it treats; it did not: what it tests is known."""

    HINTS: ClassVar[tuple[Hint, ...]] = (("1-3", "what became of it", ""), ("Esc", "close", "close"))

    def __init__(self, trial: Trial) -> None:
        super().__init__()
        self.trial = trial

    def compose(self) -> ComposeResult:
        with VerticalScroll(classes="box"):
            yield Static("", id="text", markup=False)
            yield Rows(id="became")
            yield Hints(self.hints())

    def on_mount(self) -> None:
        desk = self.top.desk
        assert desk is not None
        book = desk.session.book
        fix = book.fixes[self.trial.fix]
        self.query_one(".box").border_title = self.w("Try it at once")
        more = [self.w("and {n} more", n=len(fix.steps) - _STEPS)] if len(fix.steps) > _STEPS else []
        steps = [f"{n}. {' '.join(step.split())}" for n, step in enumerate(fix.steps[:_STEPS], 1)]
        self.query_one("#text", Static).update(
            paragraphs(
                [
                    Content.styled(fix.title, "bold"),
                    Content.styled(chances(self.trial, self.w), "$foreground-muted"),
                    *(Content(text) for text in [*steps, *more]),
                    Content.styled(f"✓ {' '.join(fix.cured.split())}", "$success"),
                    Content.styled(f"✗ {' '.join(fix.not_cured.split())}", "$warning"),
                ]
            )
        )
        cause = mended_cause(desk, fix.id)
        mended = self.w("it mended it: close the incident")
        title = f"  {fit(book.causes[cause].title, 48)}" if cause else ""
        rows: list[tuple[str, Content | str] | None] = [
            ("mended", Content.assemble(("1  ", "bold $accent"), mended, (title, "$foreground-muted"))),
            ("vain", Content.assemble(("2  ", "bold $accent"), self.w("it did not"))),
            ("read", Content.assemble(("3  ", "bold $accent"), self.w("read the repair"))),
        ]
        self.query_one(Rows).fill(rows)
        self.set_focus(self.query_one(Rows))

    def on_key(self, event: events.Key) -> None:
        if event.character and event.character in "123":
            rows = self.query_one(Rows)
            rows.highlighted = int(event.character) - 1
            rows.action_select()

    @on(Rows.OptionSelected)
    def _became(self, event: Rows.OptionSelected) -> None:
        desk, fix = self.top.desk, self.trial.fix
        self.dismiss(None)
        if desk is None:
            return
        if event.option_id == "mended":
            cause = mended_cause(desk, fix)
            self.top.close_incident(
                desk.copy(), desk.title or None, cause, me(), [f"{fix}=cured"], "", desk.session.book
            )
        elif event.option_id == "vain":
            self.top.change(f"- {fix}", lambda d: d.session.did_not_help(fix))
        elif event.option_id == "read":
            self.app.push_screen(registry.make("browse", "fixes", fix))
