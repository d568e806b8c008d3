"""The keys of the page that was open, grouped by where they work; made from the bindings themselves."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import VerticalScroll
from textual.content import Content
from textual.widgets import Static

from playbook.faces.tui.base import Dialog
from playbook.faces.tui.widgets import Hint, Hints, Rows, pad

_NAMES = {
    "question_mark": "?", "slash": "/", "full_stop": ".", "comma": ",", "plus": "+", "minus": "-", "equals_sign": "=",
    "greater_than_sign": ">", "less_than_sign": "<",
    "enter": "Enter", "escape": "Esc", "delete": "Del", "left": "←", "right": "→", "up": "↑", "down": "↓",
    "home": "Home", "end": "End", "pageup": "PgUp", "pagedown": "PgDn", "f1": "F1", "tab": "Tab", "space": "Space",
}  # fmt: skip


def key_name(key: str) -> str:
    """As it stands on the keyboard: `ctrl+r` -> `Ctrl+R`, `full_stop` -> `.`"""
    head, plus, tail = key.rpartition("+")
    if plus and head:
        return f"{head.capitalize()}+{_NAMES.get(tail, tail.upper())}"
    return _NAMES.get(key, key)


def rows_of(bindings: Iterable[Any]) -> list[tuple[str, str]]:
    """(keys, words), one row an action, in the order of the table; the digits are one row."""
    merged: dict[str, tuple[list[str], str]] = {}
    for item in bindings:
        binding = item if isinstance(item, Binding) else Binding(*item)
        if not binding.description or binding.action.startswith("digit("):
            continue
        keys = [key_name(k.strip()) for k in binding.key.split(",")]
        have = merged.setdefault(binding.action, ([], binding.description))
        have[0].extend(k for k in keys if k not in have[0])
    return [(" ".join(keys), words) for keys, words in merged.values()]


class Help(Dialog[None]):
    """Opened over a page: its keys, the keys of its lists, of the curve, and those that work everywhere."""

    HINTS: ClassVar[tuple[Hint, ...]] = (("Esc", "close", "close"), ("Ctrl+P", "all commands", "app.command_palette"))
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("question_mark,q,f1", "close", "Close", show=False),
        Binding("j,down", "scroll(1)", "Down", show=False),
        Binding("k,up", "scroll(-1)", "Up", show=False),
    ]
    AUTO_FOCUS = ""

    def compose(self) -> ComposeResult:
        with VerticalScroll(classes="box -large"):
            yield Static("", id="keys", markup=False)
        yield Hints(self.hints())

    def on_mount(self) -> None:
        self.query_one(".box").border_title = self.w("Keys")
        page = self.app.screen_stack[-2]
        groups: list[tuple[str, list[tuple[str, str]]]] = []
        own = rows_of(type(page).BINDINGS)
        if type(page).__name__ == "DiagnosisPage":
            own = [("1-9", "Answer with this outcome"), *own]
        groups.append(("On this page", own))
        if page.query("CurveView"):
            from playbook.faces.tui.curve import CurveView

            groups.append(("In the curve", rows_of(CurveView.BINDINGS)))
        groups.append(("In a list", [("Enter", "Choose"), *rows_of(Rows.BINDINGS)]))
        everywhere = [
            ("Ctrl+P", "Every command, symptom and incident"), ("Tab", "Next pane"), ("q", "Back"),
            *rows_of(type(self.top).BINDINGS), ("Ctrl+Q", "Quit"),
        ]  # fmt: skip
        groups.append(("Everywhere", [row for row in dict.fromkeys(everywhere) if row[0] != "Ctrl+C"]))
        lines: list[Content] = []
        for title, rows in groups:
            lines.append(Content.styled(self.w(title), "bold $accent"))
            lines += [Content.assemble((pad(f"  {keys}", 16), "bold"), self.w(words)) for keys, words in rows]
            lines.append(Content(""))
        self.query_one("#keys", Static).update(Content("\n").join(lines[:-1]))

    def action_scroll(self, by: int) -> None:
        self.query_one(VerticalScroll).scroll_relative(y=by * 3, animate=False)
