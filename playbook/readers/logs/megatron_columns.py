"""Many Megatron rows at once: a block of bytes -> columns of numbers, without any work a line in Python.

Rows are found by their first word, cut at their bars and grouped by the number of bars; a column is gathered as one
array of bytes, its key compared with that of the first row, and its digits turned into numbers by arithmetic. A group
with anything unusual (torn or wrapped rows, another key, colours) is handed back line by line, so that the caller can
read it slowly: the result is the same, only later.
"""

from __future__ import annotations

import re
from typing import NamedTuple

import numpy as np

_FIRST = re.compile(rb"(?:^|\n)(?P<label>[^|\n]{0,80}?)\biteration (?P<pad> *)\d+(?P<rest>/ *\d+ *)\|")
_DATED = re.compile(rb"\[?\d{4}-\d{2}-\d{2}[ T]")
_KEY = re.compile(rb"^ ?[A-Za-z][^|:\n]{0,80}(?::[^|:\n]{0,30})?:")
_FLOAT = re.compile(rb"^ *(-?)(\d+)(?:\.(\d+))?(?:[eE]([-+])(\d+))? *$")
_DIGITS = 15  # decimal digits that a double holds exactly
_POWERS = np.array([float(10**power) for power in range(23)])  # 10**22 is the last one that a double holds exactly
_FEW = 16  # rows of one shape below which reading line by line is faster
_LATE = ("number of nan iterations", "number of skipped iterations")  # a row without them may go on in the next line
_TRAILING = 4  # blanks that may follow the last bar
_WIDEST = 64  # characters of one cell
_WIDTHS = 24  # distinct widths of the cells of one column: more is no column of numbers


class Columns(NamedTuple):
    """Rows of one shape: lines of the block (from 0) int64[n], steps int64[n], float64[n] a metric."""

    lines: np.ndarray
    steps: np.ndarray
    values: dict[str, np.ndarray]


class Block(NamedTuple):
    """What became of a block: columns, and the other lines (place, bytes) that are not blank."""

    parts: list[Columns]
    others: list[tuple[int, bytes]]
    lines: int
    label: bytes  # what the launcher put in front of the rows


def first_row(data: bytes) -> int:
    """Where the line of the first row ends; the end of the block where there is none."""
    first = _FIRST.search(data)
    return data.index(b"\n", first.end()) + 1 if first else len(data)


def block(data: bytes) -> Block | None:
    """Columns and other lines of a block that ends with a line end; None where it holds no rows worth the trouble."""
    first = _FIRST.search(data)
    if first is None:
        return None
    label = first["label"]
    dated = _DATED.search(label)
    owner = label[: dated.start()] if dated else label
    text = np.frombuffer(data, np.uint8)
    ends = np.flatnonzero(text == 10)
    starts = np.concatenate(([0], ends[:-1] + 1))
    word = len(label)
    rows = _at(data, starts + word, b"iteration ") & _at(data, starts, owner)
    if rows.sum() < _FEW:
        return None
    bars = np.flatnonzero(text == 124)
    upto = np.searchsorted(bars, ends)
    count = np.diff(upto, prepend=0)
    parts: list[Columns] = []
    for number in np.unique(count[rows]):
        members = np.flatnonzero(rows & (count == number))
        if number < 2 or len(members) < _FEW:
            continue
        edges = bars[(upto[members] - number)[:, None] + np.arange(number)]
        part = _group(data, text, members, starts[members] + word, edges, ends[members])
        if part is not None:
            parts.append(part)
            rows[members] = False
            count[members] = -1
    if not parts:
        return None
    left = np.flatnonzero((count >= 0) & (ends > starts))
    return Block(parts, [(int(i), data[starts[i] : ends[i]]) for i in left], len(ends), owner.strip())


def _at(data: bytes, places: np.ndarray, word: bytes) -> np.ndarray:
    """bool[n]: whether the bytes at each place are `word`."""
    if not word:
        return np.ones(len(places), bool)
    inside = places <= len(data) - len(word)
    found = np.zeros(len(places), bool)
    found[inside] = _windows(data, len(word))[places[inside]] == word
    return found


def _windows(data: bytes, width: int) -> np.ndarray:
    """Every stretch of `width` bytes, as a view."""
    return np.ndarray((len(data) - width + 1,), f"S{width}", data, strides=(1,))


def _cells(data: bytes, places: np.ndarray, width: int) -> bytes:
    return _windows(data, width)[places].tobytes() if width else b""


def _group(
    data: bytes, text: np.ndarray, lines: np.ndarray, words: np.ndarray, edges: np.ndarray, ends: np.ndarray
) -> Columns | None:
    """Rows with the same number of bars: `words` is where "iteration" stands, `edges` int64[n, bars]."""
    after = ends - edges[:, -1]
    for gap in range(1, min(int(after.max()), _TRAILING + 2)):
        blank = text[np.minimum(edges[:, -1] + gap, ends)][after > gap]
        if gap > _TRAILING or not ((blank == 32) | (blank == 13) | (blank == 9)).all():
            return None  # text after the last bar
    slash = data.find(b"/", int(words[0]), int(edges[0, 0]))
    steps = _column(data, words + len(b"iteration"), words + (slash - int(words[0]))) if slash > 0 else None
    if steps is None or not (text[words + (slash - int(words[0]))] == 47).all() or not (np.abs(steps) < 2**53).all():
        return None
    whole = steps.astype(np.int64)
    if (whole != steps).any() or (np.diff(whole) == 0).any():
        return None  # a step twice in a row: other ranks may repeat it
    values: dict[str, np.ndarray] = {}
    for place in range(1, edges.shape[1]):
        before, after = edges[:, place - 1] + 1, edges[:, place]
        key = _KEY.match(data[before[0] : after[0]])
        if key is None or _cells(data, before, len(key[0])) != key[0] * len(before):
            return None
        found = _column(data, before + len(key[0]), after)
        if found is None:
            return None
        values.setdefault(key[0][:-1].decode("utf-8", "replace").strip(), found)
    return Columns(lines, whole, values) if any(key in values for key in _LATE) else None


def _column(data: bytes, starts: np.ndarray, stops: np.ndarray) -> np.ndarray | None:
    """The numbers between two places of each row, float64[n]; None where there is something else."""
    widths = stops - starts
    result = np.empty(len(starts), np.float64)
    low, high = int(widths.min()), int(widths.max())
    if low <= 0 or high > _WIDEST:
        return None
    kinds = np.flatnonzero(np.bincount(widths)) if low != high else widths[:1]
    if len(kinds) > _WIDTHS:
        return None
    for width in kinds.tolist():
        here = widths == width if len(kinds) > 1 else slice(None)
        found = _equal(_cells(data, starts[here], width), width)
        if found is None:
            return None
        result[here] = found
    return result


def _equal(cells: bytes, width: int) -> np.ndarray | float | None:
    """The numbers of cells of equal width."""
    count = len(cells) // width
    first = cells[:width]
    if cells == first * count:
        return _one(first)
    table = np.frombuffer(cells, np.uint8).reshape(count, width)
    shape = _FLOAT.match(first)
    found = _arithmetic(table, shape) if shape else None
    if found is None and b"." not in first:
        found = _padded(table)
    if found is not None:
        return found
    singly = [_one(cells[place : place + width]) for place in range(0, len(cells), width)]
    return None if None in singly else np.array(singly, np.float64)


def _one(cell: bytes) -> float | None:
    try:
        return float(cell) if b"_" not in cell else None
    except ValueError:
        return None


def _arithmetic(table: np.ndarray, shape: re.Match[bytes]) -> np.ndarray | None:
    """Cells whose digits stand where those of the first one do, float64[n]. Exact to the last bit: mantissa and power
    of ten are whole numbers that a double holds, and one division or product joins them."""
    sign, _, fraction, direction, power = shape.groups()
    digits = [place for group in (2, 3) if shape.start(group) >= 0 for place in range(*shape.span(group))]
    exponents = list(range(*shape.span(5))) if power else []
    if len(digits) > _DIGITS or len(exponents) > 2:
        return None
    like = table[0].copy()
    like[digits + exponents] = 48  # "0"
    differs = table ^ like  # the digit itself, and 0 where a sign, a point or a blank stands as in the first cell
    limit = np.zeros(len(like), np.uint8)
    limit[digits + exponents] = 9
    if (differs.max(axis=0) > limit).any():
        return None
    values = differs.astype(np.float64)
    weights = np.zeros(len(like))
    weights[digits] = _POWERS[: len(digits)][::-1]
    mantissa = values @ weights
    shift = -len(fraction or b"")
    if power:
        weights[:] = 0
        weights[exponents] = _POWERS[: len(exponents)][::-1]
        told = values @ weights
        exponent = (shift - told if direction == b"-" else shift + told).astype(np.int64)
        if exponent.min() == exponent.max() and exponent[0] <= 0 and exponent[0] > -len(_POWERS):
            result = mantissa / _POWERS[-int(exponent[0])]
        elif (np.abs(exponent) >= len(_POWERS)).any():
            return None
        else:
            scale = _POWERS[np.abs(exponent)]
            result = np.where(exponent < 0, mantissa / scale, mantissa * scale)
    else:
        result = mantissa / _POWERS[-shift] if shift else mantissa
    return -result if sign else result


def _padded(table: np.ndarray) -> np.ndarray | None:
    """Whole numbers with blanks around them, as `{:8d}` prints them."""
    digit = table - np.uint8(48)
    is_digit = digit <= 9
    if not (is_digit | (table == 32)).all():
        return None
    number = is_digit.astype(np.int8)
    if ((np.diff(number, axis=1) == 1).sum(axis=1) + number[:, 0] != 1).any() or number.sum(axis=1).max() > _DIGITS:
        return None
    result = np.zeros(len(table), np.float64)
    for place in range(table.shape[1]):
        np.copyto(result, result * 10 + digit[:, place], where=is_digit[:, place])
    return result
