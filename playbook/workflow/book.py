"""The book as a use case needs it: packs in order, refused with one line where it does not hold, compiled once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from playbook import places
from playbook.engine.tables import Counts, Tables, compile_book
from playbook.errors import PlaybookError
from playbook.knowledge.loader import Book, load


@dataclass
class Library:
    """A loaded book and its tables."""

    book: Book

    @cached_property
    def tables(self) -> Tables:
        return compile_book(self.book)

    def tables_with(self, learned: Counts) -> Tables:
        """Tables with other counts of confirmed incidents (leave-one-out)."""
        return compile_book(self.book, learned)


def open_book(further: Sequence[Path] = (), strict: bool = True, lang: str = "en") -> Library:
    """The built-in book, then `PLAYBOOK_KNOWLEDGE`, then `further`. A broken entry stops us unless `strict` is off.

    `lang` puts the overlay of that language over the texts; ids and links stay as they are.
    """
    book = load([places.knowledge(), *places.packs(), *further])
    if strict and book.problems:
        first = book.problems[0]
        more = f" (and {len(book.problems) - 1} more: see `playbook knowledge lint`)" if len(book.problems) > 1 else ""
        raise PlaybookError(first.where, first.what, (first.hint + more).strip(), first.line)
    if lang != "en":
        from playbook.knowledge.overlay import translate

        book = translate(book, lang)
    return Library(book)
