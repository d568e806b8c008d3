"""What the command palette lists: pages, actions, symptoms to start from, entries of the book, open incidents."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import TYPE_CHECKING, Any, cast

from textual.command import DiscoveryHit, Hit, Hits, Provider

from playbook.faces.tui import registry
from playbook.faces.words import ENGLISH

if TYPE_CHECKING:
    from playbook.faces.tui.app import PlaybookApp

_BOOK = ("causes", "signals", "fixes", "cases")  # kinds that are found, but not listed before a word is typed

# Actions of the diagnosis: words, help, name of the page's action.
_ACTIONS = (
    ("Undo", "take the last answer back", "undo"),
    ("Redo", "give it again", "redo"),
    ("Record the incident", "store evidence, questions, costs and verdict", "record"),
    ("Attach files, a link or a note", "to the recorded incident", "attach"),
    ("Close with a confirmed cause", "the incident is over", "close_incident"),
    ("Add files of the same run", "a log, a configuration", "add_files"),
    ("Copy the command", "how to get the answer", "copy"),
    ("Where each outcome would lead", "show it beside the outcomes", "why"),
    ("First aid is done", "tick the first item", "aid"),
)


class BookProvider(Provider):
    """Rows are (words, help, what to do)."""

    @property
    def top(self) -> PlaybookApp:
        return cast("PlaybookApp", self.app)

    def _rows(self) -> Iterator[tuple[str, str, Callable[[], Any]]]:
        top, w = self.top, self.top.w
        for entry in registry.SCREENS:
            if entry.command and not (entry.needs == "desk" and top.desk is None):
                yield w(entry.command), w(entry.help), partial(top.action_open, entry.name)
        if type(self.screen).__name__ == "DiagnosisPage":
            for words, help_, action in _ACTIONS:
                yield w(words), w(help_), getattr(self.screen, f"action_{action}")
        for row in top.incidents:
            yield f"{row['id']} {row['title']}", w("take up this incident"), partial(top.take_up, row["id"])
        if top.library is not None:
            shape = top.library.book.signals.get("loss-shape")
            for name, meaning in (shape.outcomes if shape is not None else {}).items():
                symptom = top.library.book.symptoms.get(name)
                title = symptom.title if symptom is not None else name
                yield f"{w.lead('Start from')}{title}", meaning, partial(top.start_with, name)

    def _entries(self) -> Iterator[tuple[str, str, Callable[[], Any]]]:
        library = self.top.library
        for kind in _BOOK if library is not None else ():
            assert library is not None
            for entry in library.book.kind(kind).values():
                yield entry.title, f"{self.top.w(kind)} / {entry.id}", partial(self._read, kind, entry.id)
        if self.top.desk is not None and library is not None:
            for signal in library.book.signals.values():
                yield (
                    f"{self.top.w.lead('Ask')}{signal.title}",
                    signal.question,
                    partial(self.top.ask, signal.id),
                )

    def _read(self, kind: str, entry: str) -> None:
        self.top.push_screen(registry.make("browse", kind, entry))

    async def discover(self) -> Hits:
        for text, help_, act in self._rows():
            yield DiscoveryHit(text, act, help=help_)

    async def search(self, query: str) -> Hits:
        matcher = self.matcher(query)
        found = False
        for rows, weight in ((self._rows(), 1.0), (self._entries(), 0.8)):
            for text, help_, act in rows:
                if (score := matcher.match(text)) > 0:
                    found = True
                    yield Hit(score * weight, matcher.highlight(text), act, help=help_)
        if not found and self.top.w.code != ENGLISH:  # in English Textual says so itself
            yield Hit(1.0, self.top.w("No matches found"), lambda: None)
