"""Lines that a regular expression fits, one for each of its alternatives: what a test feeds to whatever searches."""

from __future__ import annotations

from collections.abc import Iterable
from re import _constants as op  # type: ignore[attr-defined]
from re import _parser as parser  # type: ignore[attr-defined]
from typing import Any

_CATEGORIES = {op.CATEGORY_DIGIT: "7", op.CATEGORY_SPACE: " ", op.CATEGORY_WORD: "w"}
_NOT = {op.CATEGORY_NOT_SPACE: "w", op.CATEGORY_NOT_DIGIT: "w", op.CATEGORY_NOT_WORD: " "}
_MOST = 60  # alternatives of one pattern


def lines(pattern: str) -> list[str]:
    """Every alternative of every choice is in at least one line."""
    return list(dict.fromkeys(_lines(parser.parse(pattern))))[:_MOST]


def _lines(items: Iterable[tuple[Any, Any]]) -> list[str]:
    found = [""]
    for code, value in items:
        parts = _parts(code, value)
        # the first of the others with all of these, then the others with the first of these: each is met once
        found = [found[0] + part for part in parts] + [other + parts[0] for other in found[1:]]
    return found


def _parts(code: Any, value: Any) -> list[str]:
    if code is op.LITERAL:
        return [chr(value)]
    if code is op.ANY:
        return ["-"]
    if code is op.NOT_LITERAL:
        return ["w" if chr(value) != "w" else "v"]
    if code is op.IN:
        return [_one_of(value)]
    if code is op.SUBPATTERN:
        return _lines(value[3])
    if code is op.BRANCH:
        return [line for branch in value[1] for line in _lines(branch)]
    if code in (op.MAX_REPEAT, op.MIN_REPEAT, op.POSSESSIVE_REPEAT):
        return [line * max(1, value[0]) if value[1] else "" for line in _lines(value[2])]
    return [""]  # places and looks ahead


def _one_of(parts: list[tuple[Any, Any]]) -> str:
    if parts[0][0] is op.NEGATE:
        barred = {chr(value) for code, value in parts[1:] if code is op.LITERAL}
        return next(letter for letter in "w7-" if letter not in barred)
    code, value = parts[0]
    if code is op.LITERAL:
        return chr(value)
    if code is op.RANGE:
        return chr(value[0])
    return _CATEGORIES.get(value) or _NOT[value]
