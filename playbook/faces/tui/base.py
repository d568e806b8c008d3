"""What pages and dialogs share: the app with its type, the line on top, the hints, the word about small terminals."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, TypeVar, cast

from textual import events
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, VerticalScroll
from textual.screen import ModalScreen, Screen
from textual.widgets import Static

from playbook.faces.tui.widgets import Hint, Hints, Rows, TopLine
from playbook.faces.words import Words

if TYPE_CHECKING:
    from playbook.faces.tui.app import PlaybookApp

SMALLEST = (80, 24)  # columns and rows below which a page says that it needs more
WIDE = 110  # columns from which three panes stand side by side
TALL = 32  # rows from which the curve and the first aid get more room

Result = TypeVar("Result")


class _Parts(Screen[Result]):
    HINTS: ClassVar[tuple[Hint, ...]] = ()

    @property
    def top(self) -> PlaybookApp:
        """The app, with its type."""
        return cast("PlaybookApp", self.app)

    @property
    def w(self) -> Words:
        return self.top.w

    def hints(self) -> list[Hint]:
        """The keys worth showing now, in the language of the person."""
        return [(key, self.w(text), action) for key, text, action in self.HINTS]

    def measure(self, width: int, height: int) -> None:
        """Put the size into classes that the style sheet knows."""
        self.set_class(width < SMALLEST[0] or height < SMALLEST[1], "-tiny")
        self.set_class(width >= WIDE, "-wide")
        self.set_class(width < WIDE, "-narrow")
        self.set_class(height >= TALL, "-high")
        self.set_class(height < TALL, "-low")

    def on_resize(self, event: events.Resize) -> None:
        self.measure(event.size.width, event.size.height)


class Page(_Parts[None]):
    """A whole screen: line on top, body, hints below."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("q", "leave", "Back", show=False)]

    def compose(self) -> ComposeResult:
        yield TopLine()
        yield from self.body()
        yield Hints(self.hints())
        yield Static("", id="tiny", markup=False)

    def body(self) -> ComposeResult:
        yield from ()

    def measure(self, width: int, height: int) -> None:
        super().measure(width, height)
        text = self.w("playbook needs {wide} x {high} characters; this is {w} x {h}",
                      wide=SMALLEST[0], high=SMALLEST[1], w=width, h=height)  # fmt: skip
        self.query_one("#tiny", Static).update(f"{text}\n{self.w('make the window larger; Ctrl+Q quits')}")

    def action_leave(self) -> None:
        self.top.leave()


class ListPage(Page):
    """A list on the left, what belongs to the chosen row on the right; filled anew when the size changes."""

    AUTO_FOCUS = "#list"

    def body(self) -> ComposeResult:
        with Horizontal(id="reasons"):
            yield Rows(id="list")
            with VerticalScroll(id="why"):
                yield Static("", id="text", markup=False)

    def on_resize(self, event: events.Resize) -> None:
        super().on_resize(event)
        self.call_after_refresh(self.fill)

    def fill(self) -> None:
        """Write the list and the text."""


class Dialog(_Parts[Result], ModalScreen[Result]):
    """A box over the page; Esc closes it."""

    AUTO_FOCUS = "Rows, Line"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "close", "Close", show=False),
        # A dialog hides the keys of the app: the help must work here, too.
        Binding("question_mark,f1", "app.open('help')", "Keys", show=False),
    ]

    def action_close(self) -> None:
        self.dismiss(None)

    def action_leave(self) -> None:
        self.dismiss(None)
