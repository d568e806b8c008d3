"""Patterns that somebody waits for in logs, made quick: a line is searched only where it holds words that it must hold.

Readers know no book: whoever reads hands in the patterns (those of the signals of the book and of every pack), and a
line that fits one is kept even where nothing else makes it notable.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from functools import lru_cache
from re import _constants as op  # type: ignore[attr-defined]
from re import _parser as parser  # type: ignore[attr-defined]
from typing import Any

SIGNATURE = "signature"  # the kind of a line that is kept only because somebody waits for such lines

Words = frozenset[str]  # lower-case fragments: a line that a pattern fits holds at least one of them

_REPEATS = (op.MAX_REPEAT, op.MIN_REPEAT, op.POSSESSIVE_REPEAT)
_NO_WIDTH = (op.AT, op.ASSERT, op.ASSERT_NOT)
_FEW = 24  # a choice of more fragments than this is no quicker than the pattern


class Signatures:
    """Compiled patterns; `known` are fragments that the caller looks for anyway."""

    __slots__ = ("_always", "_by_words", "hints")

    def __init__(self, patterns: Iterable[str], known: Sequence[str] = ()) -> None:
        self._by_words: list[tuple[tuple[str, ...], re.Pattern[str]]] = []
        self._always: list[re.Pattern[str]] = []  # nothing is known of what their lines hold
        hints: set[str] = set()
        for pattern in dict.fromkeys(patterns):
            words = fragments(pattern, known)
            if words is None:
                self._always.append(re.compile(pattern))
                continue
            self._by_words.append((tuple(sorted(words)), re.compile(pattern)))
            hints.update(word for word in words if not any(hint in word for hint in known))
        # The fragments beyond `known` one of which a line that fits has; "" where any line may fit.
        self.hints: tuple[str, ...] = ("",) if self._always else tuple(sorted(hints))

    def fits(self, line: str, low: str) -> bool:
        """Whether a pattern is found in `line`; `low` is `line.lower()`."""
        for words, pattern in self._by_words:
            for word in words:
                if word in low:
                    if pattern.search(line) is not None:
                        return True
                    break
        return any(pattern.search(line) is not None for pattern in self._always)


@lru_cache(maxsize=8)
def compiled(patterns: tuple[str, ...], known: tuple[str, ...] = ()) -> Signatures:
    """The patterns of one book, compiled once."""
    return Signatures(patterns, known)


def fragments(pattern: str, known: Sequence[str] = ()) -> Words | None:
    """What a line must hold, one of these, for a pattern to fit; None where that cannot be said."""
    return _of(parser.parse(pattern), known)


def _of(items: Iterable[tuple[Any, Any]], known: Sequence[str], run: str = "") -> Words | None:
    """The best choice of fragments: each is looked for anyway, or the shortest is long and turns most lines away.

    `run` are the letters that stand right before.
    """
    best: Words | None = None
    for code, value in [*items, (None, None)]:
        letter = _letter(code, value)
        if letter is not None:
            run += letter
            continue
        if code in _NO_WIDTH:
            continue
        best = _better(best, frozenset([run]) if run else None, known)
        if code is op.SUBPATTERN:
            best = _better(best, _of(value[3], known, run), known)
        elif code is op.ATOMIC_GROUP:
            best = _better(best, _of(value, known, run), known)
        elif code is op.BRANCH:
            best = _better(best, _any_of(value[1], known, run), known)
        elif code in _REPEATS and value[0] > 0:
            best = _better(best, _of(value[2], known, run), known)
        run = ""
    return best


def _letter(code: Any, value: Any) -> str | None:
    """The lower-case letter that must stand here, in either case; None where several may."""
    if code is op.LITERAL:
        return chr(value).lower()
    if code is op.IN and all(part[0] is op.LITERAL for part in value):
        letters = {chr(part[1]).lower() for part in value}
        return letters.pop() if len(letters) == 1 else None
    return None


def _any_of(branches: Iterable[Iterable[tuple[Any, Any]]], known: Sequence[str], run: str) -> Words | None:
    words: set[str] = set()
    for branch in branches:
        found = _of(branch, known, run)
        if found is None:
            return None
        words |= found
    return frozenset(words) if len(words) <= _FEW else None


def _better(one: Words | None, other: Words | None, known: Sequence[str]) -> Words | None:
    if one is None or other is None:
        return other if one is None else one
    return other if _worth(other, known) > _worth(one, known) else one


def _worth(words: Words, known: Sequence[str]) -> tuple[bool, int]:
    free = all(any(hint in word for hint in known) for word in words)
    return free, min(map(len, words))
