"""The first page: what do you see, open a file, go on with an unfinished diagnosis or an open incident."""

from __future__ import annotations

import os
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, Any, ClassVar

from rich.cells import cell_len
from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, Vertical
from textual.content import Content
from textual.suggester import Suggester
from textual.widgets import Static

from playbook.faces.tui import files
from playbook.faces.tui.base import Page
from playbook.faces.tui.widgets import Hint, Line, Rows, TopLine, fit, pad, rule
from playbook.faces.words import ENGLISH

if TYPE_CHECKING:
    from playbook.workflow.records.kept import Kept

DEMO = "lr-peak-hard-samples-7b.csv"  # a shipped run: the 7B case, drawn after its post-mortem
_BREATH = 0.03  # seconds that the first page has for itself before the book is read behind it
_ALL = "folder:"  # id of the row that reads the whole folder


class _Paths(Suggester):
    """Completes a path while it is typed."""

    def __init__(self) -> None:
        super().__init__(use_cache=False, case_sensitive=True)

    async def get_suggestion(self, value: str) -> str | None:
        return files.complete(value)


class Welcome(Page):
    """Left: the twelve symptoms. Right: what can be gone on with, and the files of this folder."""

    HINTS: ClassVar[tuple[Hint, ...]] = (
        ("Enter", "choose", ""),
        ("o", "open a path", "path"),
        ("Tab", "next list", "app.focus_next"),
        ("b", "the book", "app.open('browse')"),
        ("?", "keys", "app.open('help')"),
        ("q", "quit", "leave"),
    )
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("o,slash", "path", "Type a path", show=False),
        Binding("s", "focus_list('symptoms')", "What do you see", show=False),
        Binding("r", "focus_list('resume')", "Go on with", show=False),
        Binding("F", "focus_list('files')", "Files of this folder", show=False),
        Binding("x,delete", "drop", "Forget the unfinished diagnosis", show=False),
        Binding("full_stop", "all_files", "Show all files", show=False),
    ]
    AUTO_FOCUS = "#symptoms"

    def __init__(self) -> None:
        super().__init__()
        self.folder = Path.cwd()
        self.everything = False
        self.kept: dict[str, Kept] = {}

    def body(self) -> ComposeResult:
        yield Static("", id="greeting", markup=False)
        with Horizontal(id="choices"):
            with Vertical(id="see"):
                yield Rows(id="symptoms")
            with Vertical(id="have"):
                yield Rows(id="resume")
                yield Line(
                    placeholder=self.w("path of a metrics file, a log or a folder"), suggester=_Paths(), id="path"
                )
                yield Rows(id="files")

    def on_mount(self) -> None:
        self.query_one("#symptoms").border_title = self.w("What do you see?")
        self.query_one("#resume").border_title = self.w("Go on")
        self.query_one("#files").border_title = self.w("Open a file")
        self.query_one("#greeting", Static).update(self._greeting())
        self.query_one("#greeting").display = not self.top.settings.greeted
        self.top.book_changed.subscribe(self, lambda _: self._show_all())
        self.top.listed.subscribe(self, lambda _: self._show_resume())
        self.call_after_refresh(self._first)

    def _first(self) -> None:
        self._show_all()
        self.set_timer(_BREATH, self.top.painted)

    def on_screen_resume(self) -> None:
        if self.is_mounted:
            self._show_resume()

    def on_resize(self, event: Any) -> None:
        super().on_resize(event)
        self.call_after_refresh(self._show_all)

    def _show_all(self) -> None:
        self._show_symptoms()
        self._show_resume()
        self._show_files()

    def _greeting(self) -> Content:
        return Content.assemble(
            (self.w("Find the cause of a failed training run."), "bold"),
            " " * (self.w.code == ENGLISH),
            self.w("Open what the run left behind, or say what you see."),
            " ",
            self.w("First comes what to do at once, then one question at a time, always the one most worth its cost."),
        )

    def _show_symptoms(self) -> None:
        rows = self.query_one("#symptoms", Rows)
        library = self.top.library
        if self.top.book_error is not None:
            rows.fill(
                [("", Content.styled(self.w("the book is not sound: {error}", error=self.top.book_error), "$error"))]
            )
            return
        if library is None:
            rows.fill([("", Content.styled(self.w("reading the book ..."), "$foreground-muted"))])
            return
        shape = library.book.signals.get("loss-shape")
        outcomes = shape.outcomes if shape is not None else {}
        width = max(rows.room, 20)
        shown = []
        for place, (name, meaning) in enumerate(outcomes.items(), 1):
            entry = library.book.symptoms.get(name)
            title = entry.title if entry is not None else name
            digit = str(place) if place <= 9 else " "
            line = Content.assemble((f"{digit} ", "$foreground-muted"), (fit(title, width - 2), "bold"))
            under = (
                Content.styled(f"\n  {fit(meaning, width - 2)}", "$foreground-muted") if self.has_class("-high") else ""
            )
            shown.append((name, line + under))
        rows.fill(shown)
        rule(rows, self.w("What do you see?"), self.w("{n} causes", n=len(library.book.causes)))

    def _show_resume(self) -> None:
        rows = self.query_one("#resume", Rows)
        width = max(rows.room, 20)
        shown: list[tuple[str, Content | str] | None] = []
        self.kept = {}
        if self.top.options.remember and self.top.library is not None:
            from playbook.workflow.records import (
                kept,  # with the engine behind it: not before the first page is painted
            )

            for row in kept.listing()[0][:8]:
                self.kept[row.name] = row
                shown.append((f"kept:{row.name}", self._kept_row(row, width)))
        for past in self.top.incidents[:12]:
            text = Content.assemble(("● ", "$warning"), fit(f"{past['id']} {past['title']}", width - 2))
            shown.append((f"incident:{past['id']}", text))
        for path in self.top.settings.recent[:4]:
            if not any(path in row.paths for row in self.kept.values()):
                name = Content.assemble(("↻ ", "$foreground-muted"), fit(PurePath(path).name, width - 2))
                shown.append((f"recent:{path}", name))
        if not shown:
            shown.append(
                ("demo", Content.assemble(("▷ ", "$accent"), fit(self.w("the demo: a 7B run that broke"), width - 2)))
            )
        rows.fill(shown)
        rule(rows, self.w("Go on"), fit(self.top.kept_error, width))

    def _kept_row(self, row: Kept, width: int) -> Content:
        from playbook.workflow.records.kept import alive

        what = row.title or ", ".join(PurePath(p).name for p in row.paths[:2]) or self.w("without files")
        tail = f" {self.w('{n} answered', n=row.answers)} {row.saved_at[5:16].replace('T', ' ')}"
        sign = "◌ " if alive(row) else "◐ "
        return Content.assemble(
            (sign, "$accent"), pad(what, max(width - 2 - cell_len(tail), 8)), (tail, "$foreground-muted")
        )

    def _show_files(self) -> None:
        rows = self.query_one("#files", Rows)
        width = max(rows.room, 20)
        found, fault = files.listing(self.folder, self.everything)
        shown: list[tuple[str, Content | str] | None] = []
        for row in found:
            tail = "/" if row.folder else files.size(row.size)
            name = Content.styled(pad(row.name, width - len(tail) - 1), "bold" if row.folder else "")
            shown.append((row.path, Content.assemble(name, " ", (tail, "$foreground-muted"))))
        if any(not row.folder for row in found):
            shown.insert(1, (_ALL, Content.styled(self.w("this whole folder as one run"), "$accent")))
        rows.fill(shown, keep=False)
        rule(rows, self.w("Open a file"), fault or fit(_short(self.folder), width - 14))

    # choosing

    @on(Rows.OptionSelected, "#symptoms")
    def _symptom(self, event: Rows.OptionSelected) -> None:
        if event.option_id:
            self._begin()
            self.top.start_with(event.option_id)

    @on(Rows.OptionSelected, "#resume")
    def _resume(self, event: Rows.OptionSelected) -> None:
        kind, _, name = (event.option_id or "").partition(":")
        self._begin()
        if kind == "kept" and name in self.kept and self.top.library is not None:
            self.top.go_on(self.kept[name])
        elif kind == "recent":
            self.top.open_files((name,))
        elif kind == "incident":
            self.top.take_up(name)
        elif kind == "demo":
            from playbook import places

            self.top.open_files((str(places.knowledge() / "cases" / DEMO),))

    @on(Rows.OptionSelected, "#files")
    def _file(self, event: Rows.OptionSelected) -> None:
        chosen = event.option_id or ""
        if chosen == _ALL:
            self._begin()
            self.top.open_files((str(self.folder),))
        elif os.path.isdir(chosen):  # noqa: PTH112
            self.folder = Path(chosen)
            self._show_files()
        else:
            self._begin()
            self.top.open_files((chosen,))

    @on(Line.Submitted, "#path")
    def _typed(self, event: Line.Submitted) -> None:
        text = event.value.strip()
        if text:
            self._begin()
            self.top.open_files((text,))

    def _begin(self) -> None:
        if not self.top.settings.greeted:
            self.top.remember(greeted=True)
            self.query_one("#greeting").display = False

    def key_escape(self) -> None:
        self.set_focus(self.query_one("#symptoms"))

    def on_key(self, event: Any) -> None:
        """A digit names a symptom."""
        if event.character and event.character.isdecimal() and not isinstance(self.focused, Line):
            place = int(event.character) - 1
            if self.top.library is None and self.top.book_error is None:
                self.top.later(lambda: self._digit(place))
                event.stop()
            elif self._digit(place):
                event.stop()

    def _digit(self, place: int) -> bool:
        rows = self.query_one("#symptoms", Rows)
        if not (0 <= place < rows.option_count and rows.get_option_at_index(place).id):
            return False
        rows.highlighted = place
        self.set_focus(rows)
        rows.action_select()
        return True

    def action_path(self) -> None:
        self.set_focus(self.query_one("#path"))

    def action_focus_list(self, name: str) -> None:
        self.set_focus(self.query_one(f"#{name}"))

    def action_all_files(self) -> None:
        self.everything = not self.everything
        self._show_files()

    def action_drop(self) -> None:
        """Forget the unfinished diagnosis under the cursor."""
        rows = self.query_one("#resume", Rows)
        kind, _, name = (rows.current or "").partition(":")
        if rows.has_focus and kind == "kept":
            self.top.forget(name)
            self._show_resume()
            self.query_one(TopLine).refresh()


def _short(folder: Path) -> str:
    """With ~ for the home."""
    home = str(Path.home())
    text = str(folder)
    return "~" + text[len(home) :] if text.startswith(home) else text
