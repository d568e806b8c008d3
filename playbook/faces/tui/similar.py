"""What looked like this before: incidents of the store and case studies, what they had in common, what was asked there.

`SimilarPane` stands under the causes; the page `SimilarPage` tells everything and opens the incident or the case.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, ClassVar

from rich.cells import cell_len
from textual import on
from textual.binding import Binding, BindingType
from textual.content import Content
from textual.widget import Widget
from textual.widgets import Static

from playbook.faces.tui import registry
from playbook.faces.tui.base import ListPage
from playbook.faces.tui.widgets import Hint, Rows, TopLine, fit, paragraphs, percent, rule
from playbook.faces.words import Words

if TYPE_CHECKING:
    from playbook.faces.tui.desk import Desk
    from playbook.knowledge.loader import Book
    from playbook.workflow.records.similar import Similar


def cause_of(item: Similar, book: Book) -> str:
    """The cause in words; case studies name the class where nobody knew the cause itself."""
    name = item.cause or ""
    if name in book.causes:
        return str(book.causes[name].title)
    return str(book.classes.get(name, {}).get("meaning", name)).split(":")[0]


def outcome_line(item: Similar, book: Book, w: Words) -> str:
    """The cause that was found there (✓ confirmed, ? not) and what helped: `✓ Peak rate too high, cured by ...`."""
    cause = cause_of(item, book) or w("no cause yet")
    sign = "✓ " if item.confirmed else "? " if item.cause else ""
    cure = [book.fixes[fix].title if fix in book.fixes else fix for fix in item.cured_by[:1]]
    return f"{sign}{cause}" + (f", {w('cured by')} {cure[0]}" if cure else "")


def named(item: Similar, w: Words) -> str:
    """An incident has its number, a case study its title."""
    return f"{item.id} {w.say(item.title)}" if item.kind == "incident" else f"{w.lead('case')}{item.title}"


class SimilarPane(Rows):
    """At most three, under the causes; one line on small screens. Nothing is shown where nothing is alike."""

    def __init__(self, w: Words) -> None:
        super().__init__(id="similar")
        self.w = w
        self._shown: object = None

    def show(self, desk: Desk) -> None:
        found: Sequence[Similar] = desk.similar
        self.display = bool(found)
        narrow = self.screen.has_class("-narrow")
        beside = self.parent
        room = beside.content_size.width if isinstance(beside, Widget) else 0
        width = max(room - 2, 16)  # this pane has no size while it is hidden
        if (found, narrow, width) == self._shown:
            return
        self._shown = (found, narrow, width)
        rows: list[tuple[str, Content | str] | None] = []
        for item in found[: 1 if narrow else 3]:
            share = f"≈ {percent(item.likeness)} "
            line = Content.assemble((share, "$secondary"), fit(named(item, self.w), width - cell_len(share)))
            if not narrow:
                text = outcome_line(item, desk.session.book, self.w)
                line = line + Content.styled(f"\n  {fit(text, width - 2)}", "$foreground-muted")
            rows.append((item.id, line))
        self.fill(rows)
        rule(self, self.w("Looked like this before"))


class SimilarPage(ListPage):
    """Left: what is alike; right: in what, what it was, what was asked there and not here."""

    HINTS: ClassVar[tuple[Hint, ...]] = (
        ("↑↓", "another one", ""),
        ("Enter", "open it", "read"),
        ("n", "other questions", "app.open('plan')"),
        ("?", "keys", "app.open('help')"),
        ("q", "leave", "leave"),
    )
    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape", "leave", "Back", show=False)]

    def __init__(self, first: str | None = None) -> None:
        super().__init__()
        self.first = first

    def on_mount(self) -> None:
        self.query_one(TopLine).show([("playbook", "bold $accent"), (self.w("Looked like this before"), "bold")])
        self.call_after_refresh(self.fill)

    def fill(self) -> None:
        desk = self.top.desk
        if desk is None or not self.is_mounted:
            return
        rows = self.query_one("#list", Rows)
        width = max(rows.room, 16)
        shown: list[tuple[str, Content | str] | None] = []
        for item in desk.similar:
            head = f"{percent(item.likeness):>4} "
            under = fit(outcome_line(item, desk.session.book, self.w), width - 5)
            line = Content.assemble((head, "bold $secondary"), (fit(named(item, self.w), width - 5), "bold"))
            shown.append((item.id, line + Content.styled(f"\n     {under}", "$foreground-muted")))
        empty = desk.similar_fault or self.w("nothing looked like this before")
        rows.fill(shown or [("", Content.styled(fit(empty, width), "$foreground-muted"))])
        if self.first in {item.id for item in desk.similar}:
            rows.highlighted = [item.id for item in desk.similar].index(self.first or "")
            self.first = None
        rule(rows, self.w("Incidents and cases"), str(len(desk.similar)) if desk.similar else "")
        self._show()

    @on(Rows.OptionHighlighted)
    def _show(self) -> None:
        desk, item = self.top.desk, self._item()
        if desk is None:
            return
        lines: list[Content | None] = []
        if item is not None:
            book, w = desk.session.book, self.w
            sure = w("confirmed") if item.confirmed else w("not confirmed")
            lines += [
                Content.styled(item.title, "bold"),
                Content.styled(f"{w(item.kind)} {item.id}", "$foreground-muted"),
                Content(""),
                Content.styled(w("cause"), "bold $accent"),
                Content(f"{cause_of(item, book) or '?'} ({sure})"),
            ]
            if item.cured_by:
                lines += [Content(""), Content.styled(w("cured by"), "bold $accent")]
                lines += [Content(book.fixes[fix].title if fix in book.fixes else fix) for fix in item.cured_by]
            lines += [Content(""), Content.styled(w("in common"), "bold $accent")]
            lines += [self._fact(book, signal, self._state(desk, signal)) for signal in item.shared]
            if item.asked:
                lines += [Content(""), Content.styled(w("asked there, not here"), "bold $accent")]
                lines += [self._fact(book, signal, state) for signal, state in item.asked]
        if desk.similar_fault:
            lines.append(Content.styled(f"! {desk.similar_fault}", "$warning"))
        self.query_one("#text", Static).update(paragraphs(lines))
        self.query_one("#why").border_title = self.w("What they have in common")

    @staticmethod
    def _state(desk: Desk, signal: str) -> str:
        return next((e.state for e in desk.session.evidence if e.signal == signal), "")

    @staticmethod
    def _fact(book: Book, signal: str, state: str) -> Content:
        entry = book.signals.get(signal)
        title = entry.title if entry is not None else signal
        return Content.assemble(("• ", "$accent"), f"{title}: ", (state, "bold $primary"))

    def _item(self) -> Similar | None:
        desk = self.top.desk
        chosen = self.query_one("#list", Rows).current
        return next((s for s in desk.similar if s.id == chosen), None) if desk is not None else None

    @on(Rows.OptionSelected)
    def action_read(self) -> None:
        item = self._item()
        if item is None:
            return
        if item.kind == "case":
            self.app.push_screen(registry.make("browse", "cases", item.id))
        else:
            self.top.leave()
            self.top.take_up(item.id)
