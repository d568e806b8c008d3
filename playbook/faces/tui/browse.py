"""The book in the terminal: search, an entry, where it leads; back and forth as in a browser."""

from __future__ import annotations

from typing import Any, ClassVar

from textual import events, on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, Vertical, VerticalScroll
from textual.content import Content
from textual.widgets import Static

from playbook.faces.tui import entry_text
from playbook.faces.tui.base import Page
from playbook.faces.tui.widgets import Hint, Line, Rows, TopLine, fit, rule


class Browse(Page):
    """`Browse()` opens the search, `Browse(kind, id)` an entry."""

    HINTS: ClassVar[tuple[Hint, ...]] = (
        ("/", "search", "search"),
        ("Enter", "read", ""),
        ("Tab", "next pane", "app.focus_next"),
        ("Bksp", "back", "back"),
        ("y", "copy the command", "copy"),
        ("q", "leave", "leave"),
    )
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("slash", "search", "Search", show=False),
        Binding("backspace,left,h", "back", "Back to the entry before", show=False),
        Binding("right,l", "forward", "Forward", show=False),
        Binding("y", "copy", "Copy the command", show=False),
        Binding("space", "page_down", "Page down", show=False),
        Binding("escape", "leave_search", "To the list, then back", show=False),
    ]
    AUTO_FOCUS = "#query"

    def __init__(self, kind: str | None = None, entry: str | None = None) -> None:
        super().__init__()
        self.past: list[tuple[str, str]] = []
        self.future: list[tuple[str, str]] = []
        self.here: tuple[str, str] | None = (kind, entry) if kind and entry else None

    def body(self) -> ComposeResult:
        yield Line(placeholder=self.w("words, an id, a symptom"), id="query")
        with Horizontal(id="book"):
            yield Rows(id="hits")
            with Vertical(id="entry"):
                with VerticalScroll(id="page"):
                    yield Static("", id="text", markup=False)
                yield Rows(id="links")

    def on_mount(self) -> None:
        self.query_one("#hits").border_title = self.w("Entries")
        self.query_one("#links").border_title = self.w("Leads to")
        self.query_one(TopLine).show([("playbook", "bold $accent"), (self.w("The book"), "bold")])
        self.call_after_refresh(self._first)

    def _first(self) -> None:
        self._search("")
        if self.here is not None:
            self._show(*self.here)
            self.set_focus(self.query_one("#page"))

    def on_resize(self, event: events.Resize) -> None:
        super().on_resize(event)
        self._search(self.query_one("#query", Line).value)
        if self.here is not None:
            self._show(*self.here)

    @on(Line.Changed, "#query")
    def _typed(self, event: Line.Changed) -> None:
        self._search(event.value)

    @on(Line.Submitted, "#query")
    def _entered(self) -> None:
        rows = self.query_one("#hits", Rows)
        self.set_focus(rows)
        if rows.current:
            self._go(rows.current)

    def _search(self, words: str) -> None:
        library = self.top.library
        if library is None:
            return
        rows = self.query_one("#hits", Rows)
        width = max(rows.room, 20)
        shown: list[tuple[str, Content | str] | None] = []
        for kind, name, title in entry_text.search(library.book, words):
            sign = {"symptoms": "S", "causes": "C", "signals": "?", "fixes": "+", "cases": "#"}.get(kind, "·")
            shown.append((f"{kind}:{name}", Content.assemble((f"{sign} ", "bold $accent"), fit(title, width - 2))))
        rows.fill(shown or [("", Content.styled(self.w("nothing fits"), "$foreground-muted"))], keep=False)
        rule(rows, self.w("Entries"), str(len(shown)) if words and shown else "")

    @on(Rows.OptionSelected)
    def _chosen(self, event: Rows.OptionSelected) -> None:
        if event.option_id:
            self._go(event.option_id)

    @on(Rows.OptionHighlighted, "#hits")
    def _looked_at(self, event: Rows.OptionHighlighted) -> None:
        """The entry under the cursor is read at once."""
        if self.query_one("#hits").has_focus and event.option_id:
            kind, _, name = event.option_id.partition(":")
            self._show(kind, name)

    def _go(self, target: str) -> None:
        kind, _, name = target.partition(":")
        if self.here is not None and self.here != (kind, name):
            self.past.append(self.here)
            self.future.clear()
        self._show(kind, name)
        self.set_focus(self.query_one("#page"))

    def _show(self, kind: str, name: str) -> None:
        library = self.top.library
        if library is None or name not in library.book.kind(kind):
            self.query_one("#text", Static).update(self.w("the book has no entry {id}", id=name))
            return
        self.here = (kind, name)
        self.query_one("#text", Static).update(entry_text.page(library.book, kind, name, self.w))
        self.query_one("#page").scroll_home(animate=False)
        self.query_one("#page").border_title = self.w(kind)
        rows = self.query_one("#links", Rows)
        width = max(rows.room, 20)
        shown: list[tuple[str, Content | str] | None] = []
        for link in entry_text.leads_to(library.book, kind, name):
            why = self.w(link.why)
            title = fit(link.title, width - len(why) - 3)
            shown.append((f"{link.kind}:{link.id}", Content.assemble((f"{why}  ", "$foreground-muted"), title)))
        rows.fill(shown or [("", Content.styled(self.w("nothing"), "$foreground-muted"))], keep=False)
        rule(rows, self.w("Leads to"), str(len(shown)) if shown else "")

    def action_search(self) -> None:
        self.set_focus(self.query_one("#query"))

    def action_leave_search(self) -> None:
        if isinstance(self.focused, Line):
            self.set_focus(self.query_one("#hits"))
        else:
            self.top.leave()

    def action_back(self) -> None:
        if self.past and self.here is not None:
            self.future.append(self.here)
            self._show(*self.past.pop())

    def action_forward(self) -> None:
        if self.future and self.here is not None:
            self.past.append(self.here)
            self._show(*self.future.pop())

    def action_copy(self) -> None:
        library = self.top.library
        if self.here is None or library is None:
            return
        if command := entry_text.command_of(library.book, *self.here):
            self.app.copy_to_clipboard(command)
            self.top.tell(self.w("copied"))

    def action_page_down(self) -> None:
        self.query_one("#page").scroll_page_down(animate=False)

    def key_j(self) -> None:
        self._scroll(1)

    def key_k(self) -> None:
        self._scroll(-1)

    def _scroll(self, by: int) -> None:
        if self.query_one("#page").has_focus:
            self.query_one("#page").scroll_relative(y=by, animate=False)

    def on_key(self, event: Any) -> None:
        if event.key == "down" and isinstance(self.focused, Line):
            self.set_focus(self.query_one("#hits"))
            event.stop()
