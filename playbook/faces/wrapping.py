"""Lines of a width in cells, for texts in which a character may be two cells wide and words stand without spaces."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Iterator

_WIDE = ("W", "F")
# What may stand alone at a break: a wide character, or a run of narrow ones with the spaces behind it.
_CJK = r"\u2e80-\u9fff\uf900-\ufaff\uff00-\uffef"
_PIECE = re.compile(rf"[{_CJK}]\s*|[^\s{_CJK}]+\s*|\s+")
_WIDE_CHARACTER = re.compile(f"[{_CJK}]")
_NOT_FIRST = frozenset("，。；：、！？）》」』”’…,.;:!?)")
_NOT_LAST = frozenset("（《「『“‘(")


def cells(text: str) -> int:
    """Cells of a terminal that a text takes."""
    return sum(2 if unicodedata.east_asian_width(c) in _WIDE else 0 if unicodedata.combining(c) else 1 for c in text)


def wrapped(text: str, width: int) -> list[str]:
    """The text in lines of at most `width` cells; a closing mark begins no line, an opening one ends none."""
    lines, line = [], ""
    for piece in _pieces(" ".join(text.split())):
        if line and cells(line + piece.rstrip()) > width:
            lines.append(line.rstrip())
            line = ""
        line += piece if line else piece.lstrip()
    return [*lines, line.rstrip()] if line.strip() else lines or [""]


def wrap_wide_characters() -> None:
    """Rich, and Textual by it, break a line at blanks alone: a Chinese sentence after "1. " began on the next line.

    Both ask `rich._wrap.words` where a line may be broken; a text without wide characters is broken as before.
    """
    from rich import _wrap

    plain = _wrap.words
    if plain.__module__ == __name__:
        return

    def words(text: str) -> Iterable[tuple[int, int, str]]:
        return _spans(text) if _WIDE_CHARACTER.search(text) else plain(text)

    _wrap.words = words


def _spans(text: str) -> Iterator[tuple[int, int, str]]:
    """(start, end, piece) of what stays on one line."""
    start = 0
    for piece in _pieces(text):
        yield start, start + len(piece), piece
        start += len(piece)


def _pieces(text: str) -> Iterator[str]:
    """What must stay on one line: a word, a wide character, either with the marks that hang on it."""
    held = ""
    for piece in _PIECE.findall(text):
        if held.strip() and piece[0] not in _NOT_FIRST and held.rstrip()[-1:] not in _NOT_LAST:
            yield held
            held = ""
        held += piece
    if held:
        yield held
