"""One piece of a large JSON-lines file: its lines sorted by shape, their numbers put into the columns.

Most logs print their numbers with fixed decimals, so that nearly all lines have the same length and the same places:
these are compared as rows of words and need no look for commas (`Even`). What differs is cut at its commas.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import BinaryIO

import numpy as np

from playbook.readers.documents.cells import PAD, Parsed, TooOdd, evenly, parse
from playbook.readers.documents.json_rows import Rows
from playbook.readers.documents.json_shapes import LONGEST, Even, Shape, even_of, even_rows, learned, matched

ROOM = PAD + 2 * LONGEST  # bytes behind a piece that may be looked at

_SHAPES = 40  # of one file
_TRIES = 6  # lines of one piece that are looked at for a new shape
_ODD_LINES = 0.03  # share of lines without a shape ...
_FREE = 2_000  # ... beyond so many ...
_ODD_BYTES = 64 << 20  # ... and their bytes, above which this way gives up
_SHARE = 0.6  # share of the lines that must be of the even kind to make it worth the look
_FEW = 0.05  # share of lines that are picked out one by one
_LUCK = 6  # times that an even kind may be guessed in vain
_SINGLES = 0.05  # share of the lines that a constant column may remember one by one
_NONE = np.empty(0, np.int64)


@dataclass
class Column:
    """The numbers of one name, indexed by line. One that never changes (a loss scale) takes no memory.

    While it is constant, `pieces` tells the lines in the order in which they came; they may hold lines between that
    are put later.
    """

    capacity: int
    values: np.ndarray | None = None
    pieces: list[slice | np.ndarray] = field(default_factory=list)
    value: float = 0.0

    def put_one(self, where: slice | np.ndarray, value: float) -> None:
        """The same number in many lines."""
        if self.values is None and not self.pieces:
            self.value = value
        singles = sum(len(piece) for piece in (*self.pieces, where) if isinstance(piece, np.ndarray))
        if self.values is None and _same_bits(value, self.value) and singles <= _SINGLES * self.capacity:
            self.pieces.append(where)
        else:
            self.filled()[where] = value

    def filled(self) -> np.ndarray:
        """Room for a number in each line."""
        if self.values is None:
            self.values = np.empty(self.capacity)
            for where in self.pieces:
                self.values[where] = self.value
            self.pieces.clear()
        return self.values


def _same_bits(one: float, other: float) -> bool:
    return np.float64(one).tobytes() == np.float64(other).tobytes()


@dataclass
class File:
    """What the threads share: the place in the file, the shapes, the columns (indexed by line), the odd lines."""

    stream: BinaryIO
    capacity: int  # lines
    rows: Rows
    lock: threading.Lock = field(default_factory=threading.Lock)
    place: int = 0  # bytes
    lines: int = 0
    shapes: list[Shape] = field(default_factory=list)
    firsts: dict[int, int] = field(default_factory=dict)  # shape -> its first line, from 0
    columns: dict[str, Column] = field(default_factory=dict)
    holes: dict[str, np.ndarray] = field(default_factory=dict)  # name -> bool: null in the line
    odd: dict[int, bytes] = field(default_factory=dict)  # line from 1 -> its bytes
    odd_bytes: int = 0
    even: Even | None = None
    luck: int = _LUCK
    stop: bool = False

    def __post_init__(self) -> None:
        self.shape = np.zeros(self.capacity, np.uint8)  # 1 + the shape of each line, 0 for none


Left = list[tuple[int, bytes]]  # number from 0 and bytes of lines that wait


def lines_of(file: File, text: np.ndarray, ends: np.ndarray, commas: np.ndarray, first: int, last: np.ndarray) -> Left:
    """All lines of a piece; `first` lines stand before it. A few lines may be left for `rest`.

    text    uint8, the piece and `ROOM` bytes
    ends    bool[bytes]: the line ends; `commas` is room for the same
    last    int64[lines], the places of the line ends
    """
    count = len(last)
    even = file.even
    if even is not None:
        starts = np.zeros(count, np.int64)
        starts[1:] = last[:-1] + 1
        left = np.flatnonzero(~_of_even(file, even, text, starts, last, first))
        if len(left) <= _FEW * count:
            return [(first + line, text[starts[line] : last[line] + 1].tobytes()) for line in left.tolist()]
        with file.lock:
            if file.even is even:
                file.even = None
    np.equal(text[: len(ends)], 44, out=commas)
    np.logical_or(commas, ends, out=commas)
    _cut(file, text, np.flatnonzero(commas), np.arange(first, first + count))
    return []


def rest(file: File, left: Left) -> None:
    """The lines that `lines_of` left, many at once."""
    if left:
        data = b"".join(text for _, text in left)
        text = np.frombuffer(data + bytes(ROOM), np.uint8)
        own = text[: len(data)]
        _cut(file, text, np.flatnonzero((own == 44) | (own == 10)), np.array([line for line, _ in left]), look=False)


def _of_even(file: File, even: Even, text: np.ndarray, starts: np.ndarray, ends: np.ndarray, first: int) -> np.ndarray:
    """Take the lines of the even kind: bool[n] which."""
    taken = ends - starts == even.size
    which = np.flatnonzero(taken)
    if len(which) < _SHARE * len(ends):
        return np.zeros(len(ends), bool)
    own = starts[which]
    good, varies, rows = even_rows(even, text, own)
    if good is not None:
        taken[which[~good]] = False
        which, own, rows = which[good], own[good], rows[good]
        if not len(which):
            return taken
    found: dict[int, Parsed | None] = {}
    for segment, (begin, size) in even.cells.items():
        numbers = None
        if not varies[begin : begin + size].any():
            found[segment] = None
            continue
        numbers = evenly(rows, begin, even.line[begin : begin + size].tobytes())
        if numbers is not None:
            found[segment] = numbers, None, _NONE
        else:
            found[segment] = parse(text, own + begin, np.full(len(own), size))
    kept = _put(file, even.shape, found, first + which, even.values)
    if kept is not None:
        taken[:] = False
        taken[which[kept]] = True
    return taken


def _cut(file: File, text: np.ndarray, marks: np.ndarray, lines: np.ndarray, look: bool = True) -> None:
    """Take lines by their commas and ends (`marks`); `lines` are their numbers from 0."""
    count = len(lines)
    ends = np.flatnonzero(text.take(marks) == 10)  # indices of marks
    begins = np.zeros(count, np.int64)
    begins[1:] = ends[:-1] + 1
    last = marks[ends]
    starts = np.zeros(count, np.int64)
    starts[1:] = last[:-1] + 1
    widths = ends - begins + 1
    left = np.flatnonzero(last > starts)
    for number in range(len(file.shapes)):
        left = _of_shape(file, text, starts, marks, begins, widths, left, number, lines)
    tried: set[int] = set()
    for _ in range(_TRIES):
        line = next((int(place) for place in left if int(place) not in tried), None)
        if line is None:
            break
        tried.add(line)
        new = learned(text[starts[line] : last[line]].tobytes(), file.rows)
        if new is None:
            continue
        number = _known(file, new)
        if number < 0:
            break
        left = _of_shape(file, text, starts, marks, begins, widths, left, number, lines)
    with file.lock:
        for line in left.tolist():
            keep_odd(file, int(lines[line]) + 1, text[starts[line] : last[line]].tobytes())
        if len(file.odd) > _FREE + _ODD_LINES * file.lines or file.odd_bytes > _ODD_BYTES:
            raise TooOdd
    if look and file.even is None and file.luck:
        _look_for_even(file, text, starts, last - starts, lines)


def _known(file: File, new: Shape) -> int:
    """The number of a shape, perhaps of one that the other thread has just learned; -1 where there are too many."""
    with file.lock:
        for number, known in enumerate(file.shapes):
            if known.before == new.before and known.after == new.after and known.cells == new.cells:
                return number
        if len(file.shapes) >= _SHAPES:
            return -1
        file.shapes.append(new)
        return len(file.shapes) - 1


def _look_for_even(file: File, text: np.ndarray, starts: np.ndarray, sizes: np.ndarray, lines: np.ndarray) -> None:
    """Whether most lines of this piece are of one length; then the next ones are tried as such."""
    if not len(sizes) or int(sizes.max()) > LONGEST:
        return
    often = int(np.bincount(sizes).argmax())
    which = np.flatnonzero((sizes == often) & (file.shape[lines] > 0))
    if len(which) < _SHARE * len(sizes):
        file.luck -= 1
        return
    line = int(which[len(which) // 2])
    number = int(file.shape[lines[line]]) - 1
    even = even_of(file.shapes[number], number, text[starts[line] : starts[line] + often].tobytes())
    with file.lock:
        file.even = even
        file.luck = file.luck if len(which) > (1 - _FEW) * len(sizes) else file.luck - 1


def _of_shape(
    file: File,
    text: np.ndarray,
    starts: np.ndarray,
    marks: np.ndarray,
    begins: np.ndarray,
    widths: np.ndarray,
    left: np.ndarray,
    number: int,
    lines: np.ndarray,
) -> np.ndarray:
    """Take the lines of one shape; the lines that are left."""
    width = file.shapes[number].marks
    if not len(left):
        return left
    fit = widths[left] == width
    if fit.all() and len(left) == len(starts):
        which, table = left, marks.reshape(-1, width)
    else:
        which = left[fit]
        if not len(which):
            return left
        table = marks[begins[which][:, None] + np.arange(width)]
    good, cells = matched(file.shapes[number], text, starts[which], table)
    taken = np.arange(len(which))
    if not good.all():
        taken = np.flatnonzero(good)
        if not len(taken):
            return left
        cells = {segment: (begin[taken], size[taken]) for segment, (begin, size) in cells.items()}
    found = {segment: parse(text, begin, size) for segment, (begin, size) in cells.items()}
    kept = _put(file, number, found, lines[which[taken]])
    rest = np.ones(len(starts), bool)
    rest[which[taken if kept is None else taken[kept]]] = False
    return left[rest[left]]


def _put(
    file: File,
    number: int,
    found: Mapping[int, Parsed | None],
    lines: np.ndarray,
    constants: Mapping[int, float | None] | None = None,
) -> np.ndarray | None:
    """Put the cells of lines of one shape into the columns; the indices that were kept, None for all.

    found  segment -> its numbers, None where all cells hold the one of `constants`
    """
    kept: np.ndarray | None = None
    wrong = [parsed[2] for parsed in found.values() if parsed is not None and len(parsed[2])]
    if wrong:
        fine = np.ones(len(lines), bool)
        fine[np.concatenate(wrong)] = False
        kept = np.flatnonzero(fine)
        lines = lines[kept]
        if not len(lines):
            return kept
    low, high = int(lines[0]), int(lines[-1]) + 1
    where = slice(low, high) if high - low == len(lines) else lines
    for segment, name in file.shapes[number].names.items():
        parsed = found[segment]
        with file.lock:
            column = file.columns.setdefault(name, Column(file.capacity))
        if parsed is None:
            value = (constants or {})[segment]
            if value is None:
                _hole(file, name)[where] = True
            with file.lock:
                column.put_one(slice(low, high), math.nan if value is None else value)
            continue
        values, missing, _ = parsed
        values = values if kept is None else values[kept]
        with file.lock:
            if column.values is None and (values.view(np.int64) == values[:1].view(np.int64)).all():
                column.put_one(where, float(values[0]))
            else:
                column.filled()[where] = values
        if missing is not None:
            _hole(file, name)[where] = missing if kept is None else missing[kept]
    file.shape[where] = number + 1
    with file.lock:
        file.firsts[number] = min(low, file.firsts.get(number, low))
    return kept


def _hole(file: File, name: str) -> np.ndarray:
    with file.lock:
        if name not in file.holes:
            file.holes[name] = np.zeros(file.capacity, bool)
        return file.holes[name]


def keep_odd(file: File, line: int, text: bytes, whole: bool = True) -> None:
    """Keep a line for the careful reader (a last line without its end has no `\\n`)."""
    file.odd[line] = text + b"\n" if whole else text
    file.odd_bytes += len(text)
