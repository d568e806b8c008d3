"""The shape of a JSON line: what stands between its numbers, and which of them can become metrics.

Lines of one shape have the same bytes but for their scalars (numbers, NaN, null, true). A shape is learned from one
good line; `matched` says which of many lines have it, byte for byte, and where their cells are. Texts that stay the
same belong to the shape; a line whose text differs is of another one.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from playbook.readers.base import flat, number
from playbook.readers.documents.cells import scalar, window
from playbook.readers.documents.json_rows import Rows

_TOKEN = re.compile(rb'"(?:[^"\\\x00-\x1f])*"|-?\d[\d.eE+-]*|-?[A-Za-z]\w*|[{}\[\]:,]|[ \t\r]+')
_SCALAR = re.compile(rb"-?\d[\d.eE+-]*|NaN|-?Infinity|null|true|false")
LONGEST = 1536  # bytes between two cells of a shape, and of the longest line of an even kind
_MOST = 4096  # cells
_SLACK = 3  # words behind an even line that are looked at and count for nothing
_BLOCK = 32  # lines that are compared at once
_PIECE = 16  # bytes that are compared at once


class _Cell(float):
    """A stand-in for the number at one place of a line, while names are looked for."""

    place: int


@dataclass(frozen=True, eq=False, slots=True)
class Shape:
    """marks: commas and the line end. Before each stands a segment: `before` + a scalar (or none) + `after`."""

    before: tuple[bytes, ...]
    after: tuple[bytes, ...]
    cells: tuple[int, ...]  # the segments that hold a scalar
    names: Mapping[int, str]  # segment -> raw name of the metric or counter that it holds
    line: bytes  # the line that it was learned from

    @property
    def marks(self) -> int:
        return len(self.before)


def learned(line: bytes, rows: Rows) -> Shape | None:
    """The shape of a line; None where it is no single JSON object of plain texts and scalars."""
    text = line.strip(b" \t\r")
    if not text.startswith(b"{") or b"\r" in text:
        return None
    before: list[bytes] = [b""]
    after: list[bytes] = [b""]
    cells: dict[int, str] = {}
    marked: list[bytes] = []  # the line with the number of its segment in each cell
    place, keyed = 0, False
    for hit in _TOKEN.finditer(line):
        if hit.start() != place:
            return None
        place, token = hit.end(), hit[0]
        segment = len(before) - 1
        if _SCALAR.fullmatch(token):
            if segment in cells or len(cells) == _MOST:
                return None
            cells[segment] = token.decode()
            marked.append(b"%d.5" % segment)
        else:
            if (token[:1] == b'"' and b"," in token) or len(token) > LONGEST:
                return None
            marked.append(token)
            if token == b",":
                before.append(b",")
                after.append(b"")
            elif segment in cells:
                after[segment] += token
            else:
                before[segment] += token
        keyed = keyed or token == b":"
    if place != len(line) or not keyed or not cells or max(map(len, before)) > LONGEST:
        return None
    if max(map(len, after)) > _PIECE:
        return None
    try:
        real = json.loads(text.rstrip(b","), parse_float=float)
        row = json.loads(b"".join(marked).decode("utf-8").strip(" \t\r,"), parse_float=_cell)
    except (ValueError, RecursionError):
        return None
    if not isinstance(real, dict) or not isinstance(row, dict):
        return None
    if any(isinstance(value, str) and number(value) is not None for _, value in flat(real)):
        return None  # a text that is a number: it may be another one in the next line
    names = {cell.place: name for name, cell in rows.named(row) if isinstance(cell, _Cell)}
    return Shape(tuple(before), tuple(after), tuple(cells), names, line)


def _cell(text: str) -> _Cell:
    cell = _Cell(0.0)
    cell.place = int(text.removesuffix(".5"))
    return cell


def matched(
    shape: Shape, text: np.ndarray, starts: np.ndarray, marks: np.ndarray
) -> tuple[np.ndarray, dict[int, tuple[np.ndarray, np.ndarray]]]:
    """(bool[n] the lines of this shape, segment -> first byte and size of its cell in each line).

    starts  int64[n], first byte of each line
    marks   int64[n, marks of the shape], its commas and its end
    """
    differs = np.zeros(len(starts), np.uint64)
    good = np.ones(len(starts), bool)
    cells = {}
    held = frozenset(shape.cells)
    for segment in range(shape.marks):
        begin = starts if segment == 0 else np.ascontiguousarray(marks[:, segment - 1])
        before, after = shape.before[segment], shape.after[segment]
        size = marks[:, segment] - begin
        _compare(text, begin, before, differs)
        if segment not in held:
            good &= size == len(before)
            continue
        size -= len(before) + len(after)
        if int(size.min()) < 1:
            good &= size > 0
        if after:
            _compare(text, marks[:, segment] - len(after), after, differs)
        cells[segment] = begin + len(before), size
    good &= differs == 0
    return good, cells


@dataclass(frozen=True, eq=False, slots=True)
class Even:
    """Lines of one shape whose cells all have the same sizes: no need to look for their commas.

    shape   number of the shape
    size    bytes of a line
    cells   segment -> first byte and size of its cell
    values  segment -> the number in the line below, None for null
    line    the bytes of one such line, and what fills it up to whole words and some more
    text    bits of the words that belong to the shape and to no cell
    """

    shape: int
    size: int
    cells: Mapping[int, tuple[int, int]]
    values: Mapping[int, float | None]
    line: np.ndarray
    text: np.ndarray


def even_of(shape: Shape, number: int, line: bytes) -> Even | None:
    """The even kind that a line of a shape is of; None where it is of none."""
    if len(line) > LONGEST:
        return None
    cells = {}
    first = 0
    for segment in range(shape.marks):
        last = line.find(b",", first + 1) if segment + 1 < shape.marks else len(line)
        begin = first + len(shape.before[segment])
        if segment in shape.cells:
            cells[segment] = begin, last - len(shape.after[segment]) - begin
        first = last
    words = -(-len(line) // 8) + _SLACK
    mask = np.zeros(8 * words, np.uint8)
    mask[: len(line)] = 0xFF
    for begin, size in cells.values():
        mask[begin : begin + size] = 0
    filled = np.frombuffer(line.ljust(8 * words, b"\0"), np.uint8)
    values = {}
    for segment, (begin, size) in cells.items():
        values[segment], known = scalar(line[begin : begin + size])
        if not known:
            return None
    return Even(number, len(line), cells, values, filled.copy(), mask.view(np.uint64))


def even_rows(even: Even, text: np.ndarray, starts: np.ndarray) -> tuple[np.ndarray | None, np.ndarray, np.ndarray]:
    """(bool[n] which lines are of this kind, None for all; bool: bytes of a line that vary; uint8[n, width] the lines).

    starts  int64[n], lines of the right length
    """
    line = even.line.view(np.uint64)
    rows = window(text, len(even.line))[starts].view(np.uint8).reshape(len(starts), -1)
    words = rows.view(np.uint64)
    whole = len(starts) // _BLOCK * _BLOCK
    ones, zeros = line.copy(), line.copy()
    for part in (words[:whole].reshape(-1, _BLOCK * words.shape[1]), words[whole:]):
        if len(part):
            ones |= np.bitwise_or.reduce(np.bitwise_or.reduce(part, axis=0).reshape(-1, len(line)), axis=0)
            zeros &= np.bitwise_and.reduce(np.bitwise_and.reduce(part, axis=0).reshape(-1, len(line)), axis=0)
    varying = ones ^ zeros
    good = None
    if (varying & even.text).any():
        good = (((words ^ line) & even.text) == 0).all(axis=1)
    return good, varying.view(np.uint8) != 0, rows


def _compare(text: np.ndarray, places: np.ndarray, wanted: bytes, differs: np.ndarray) -> None:
    """Note the lines that do not hold the wanted bytes at their places."""
    for first in range(0, len(wanted), _PIECE):
        part = wanted[first : first + _PIECE]
        at = places + first if first else places
        if len(part) == 1:
            differs |= text.take(at, mode="clip") != part[0]
            continue
        width = 8 if len(part) <= 8 else _PIECE
        words = window(text, width)[at].view(np.uint64).reshape(len(at), -1)
        for word in range(width // 8):
            piece = part[8 * word : 8 * word + 8]
            off = words[:, word] ^ np.uint64(int.from_bytes(piece, "little"))
            if len(piece) < 8:
                off &= np.uint64((1 << 8 * len(piece)) - 1)
            differs |= off
