"""Small pieces that every screen uses: rows with vim keys, the line on top, the key hints, text that fits."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import ClassVar

from rich.cells import cell_len, set_cell_size
from textual import events
from textual.app import RenderResult
from textual.binding import Binding, BindingType
from textual.content import Content
from textual.widget import Widget
from textual.widgets import Input, OptionList
from textual.widgets.option_list import Option

from playbook.faces.wrapping import wrap_wide_characters

wrap_wide_characters()

# Blanks, then a word or one wide character, either with the closing marks behind it.
_CLOSING = "，。；：、！？）】》」』”’％"
_PIECES = re.compile(rf"(\s*)((?:[^\s\u2e80-\uffef]+|[\u2e80-\uffef])[{_CLOSING}]*)")
_EIGHTHS = " ▏▎▍▌▋▊▉"


def fit(text: str, width: int) -> str:
    """Cut to `width` terminal columns with an ellipsis; Chinese characters count two."""
    if width <= 0:
        return ""
    return text if cell_len(text) <= width else set_cell_size(text, width - 1) + "…"


def pad(text: str, width: int) -> str:
    """Exactly `width` columns."""
    return set_cell_size(fit(text, width), max(width, 0))


def wrap(text: str, width: int) -> list[str]:
    """Lines of at most `width` columns, broken at blanks and between Chinese characters, in a word only where it must.

    No line begins with a closing mark of Chinese punctuation unless it is alone too wide.
    """
    lines, line = [], ""
    for blank, piece in _PIECES.findall(text):
        longer = f"{line} {piece}" if line and blank else line + piece
        if cell_len(longer) <= width:
            line = longer
            continue
        if line and (cell_len(piece) <= width or cell_len(line) > width - 4):
            lines.append(line)
            line = piece
        else:
            line = longer
        while cell_len(line) > width > 1:
            head = set_cell_size(line, width).rstrip()
            lines.append(head)
            line = line[len(head) :].lstrip()
    return [*lines, line] if line or not lines else lines


def hanging(head: Content, text: str, width: int, indent: int, style: str = "") -> Content:
    """`head`, then the text from column `indent` on, its further lines below each other."""
    rows = wrap(text, max(width - indent, 8))
    gap = " " * max(indent - head.cell_length, 0)
    first = Content.assemble(head, gap, (rows[0], style))
    return Content("\n").join([first, *(Content.styled(" " * indent + row, style) for row in rows[1:])])


def bar(share: float, width: int) -> str:
    """A bar in eighths of a cell, padded with dots so that it reads without colour."""
    eighths = round(max(0.0, min(1.0, share)) * width * 8)
    full, part = divmod(eighths, 8)
    body = "█" * full + (_EIGHTHS[part] if part else "")
    return body + "·" * (width - len(body))


def percent(share: float) -> str:
    """0 % and 100 % only where it is so."""
    if 0 < share < 0.005:
        return "<1%"
    if 0.995 <= share < 1:
        return ">99%"
    return f"{share:.0%}"


def rule(widget: Widget, title: str, aside: str = "") -> None:
    """The title on the rule above a pane, with a number or a word beside it (a bottom rule would cost a row)."""
    widget.border_title = Content.assemble(title, (f"  {aside}", "$foreground-muted") if aside else "")


class Rows(OptionList):
    """A list of rows: arrows and vim keys, Enter or a click on the whole row chooses."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("j", "cursor_down", "Down", show=False),
        Binding("k", "cursor_up", "Up", show=False),
        Binding("g", "first", "First row", show=False),
        Binding("G", "last", "Last row", show=False),
        Binding("ctrl+d", "page_down", "Page down", show=False),
        Binding("ctrl+u", "page_up", "Page up", show=False),
    ]

    def fill(self, rows: Sequence[tuple[str, Content | str] | None], keep: bool = True) -> None:
        """Replace the rows ((id, text); None is a line between); the highlight stays where its id is still there."""
        before = self.current if keep else None
        self.clear_options()
        self.add_options(
            None if row is None else Option(_content(row[1]), row[0] or None, disabled=not row[0]) for row in rows
        )
        ids = [row[0] for row in rows if row is not None]
        if before in ids:
            self.highlighted = ids.index(before)
        elif any(ids):
            self.highlighted = next(i for i, name in enumerate(ids) if name)

    @property
    def room(self) -> int:
        """Columns of a row."""
        return self.scrollable_content_region.width

    def holds(self, name: str | None) -> bool:
        """Whether a row can be chosen now: a key may come after the rows were replaced."""
        return any(option.id == name and not option.disabled for option in self.options) if name else False

    @property
    def current(self) -> str | None:
        """The id of the highlighted row."""
        if self.highlighted is None or not self.option_count:
            return None
        return self.get_option_at_index(self.highlighted).id


def _content(text: Content | str) -> Content:
    return Content(text) if isinstance(text, str) else text


class TopLine(Widget):
    """One line: what it is, where it stands, what it cost."""

    DEFAULT_CSS = """
    TopLine { height: 1; dock: top; background: $panel; color: $foreground; padding: 0 1; }
    """

    def __init__(self) -> None:
        super().__init__()
        self.left: Sequence[tuple[str, str]] = (("playbook", "bold $accent"),)
        self.right: tuple[str, str] = ("", "")

    def show(self, left: Sequence[tuple[str, str]], right: tuple[str, str] = ("", "")) -> None:
        """(text, style) pieces from the left, one piece at the right end."""
        self.left, self.right = left, right
        self.refresh()

    def render(self) -> RenderResult:
        width = self.content_size.width
        room = width - cell_len(self.right[0]) - (1 if self.right[0] else 0)
        pieces: list[tuple[str, str]] = []
        for place, (text, style) in enumerate(self.left):
            gap = "  " if place else ""
            text = fit(gap + text, room)
            room -= cell_len(text)
            pieces.append((text, style))
        return Content.assemble(*pieces, " " * max(room, 0), " " if self.right[0] else "", self.right)


Hint = tuple[str, str, str]  # key as shown, words, action of the screen or the app


class Hints(Widget):
    """At most six keys of the screen, each a thing to click."""

    DEFAULT_CSS = """
    Hints { height: 1; dock: bottom; background: $panel; color: $text-muted; padding: 0 1; }
    """

    def __init__(self, hints: Sequence[Hint] = ()) -> None:
        super().__init__()
        self.hints: Sequence[Hint] = hints

    def show(self, hints: Sequence[Hint]) -> None:
        if hints != self.hints:
            self.hints = hints
            self.refresh()

    def render(self) -> RenderResult:
        pieces: list[str | tuple[str, str]] = []
        for _, key, text, _ in self._placed():
            pieces += [(key, "bold $accent"), f" {text}", "  "]
        return Content.assemble(*pieces)

    def _placed(self) -> list[tuple[int, str, str, str]]:
        """(column, key, words, action) of the hints that fit."""
        found, column = [], 0
        for key, text, action in self.hints:
            width = cell_len(key) + 1 + cell_len(text)
            if column + width > self.content_size.width:
                break
            found.append((column, key, text, action))
            column += width + 2
        return found

    async def on_click(self, event: events.Click) -> None:
        x = event.x - self.gutter.left
        for column, key, text, action in self._placed():
            if action and column <= x < column + cell_len(key) + 1 + cell_len(text):
                await self.screen.run_action(action if action.startswith("app.") else f"screen.{action}")
                return


class Line(Input):
    """One line of input without a border."""

    DEFAULT_CSS = """
    Line { height: 1; border: none; padding: 0 1; background: $surface; &:focus { border: none; background: $boost; } }
    """


def paragraphs(parts: Iterable[Content | None]) -> Content:
    """Joined by line ends, without the empty ones."""
    return Content("\n").join([part for part in parts if part is not None])
