"""Which lines of a block of text hold nothing but cells, and their wanted cells as columns.

A line is plain where it has the header's number of cells, no quote, NUL or carriage return inside, does not begin like
a comment or a marker, and holds a number where one is wanted. Only wanted columns are looked into.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from playbook.readers.source import MAX_LINE
from playbook.readers.tables import csv_alike, digits
from playbook.readers.tables.csv_rows import Column

DELIMITERS = frozenset(",;\t")
LONG = MAX_LINE // 2  # bytes of a line that the careful way, which cuts lines, reads
_BLANKS = 64  # blanks around a cell that are taken off for many cells at once
_NEWLINE, _RETURN, _BLANK = ord("\n"), ord("\r"), ord(" ")
_SIGNS = (b'"', b"\0", b"\r")  # that a plain line does not hold
_SHORT = 8  # characters of a cell that is compared as one machine word
_REST = 16  # pieces after one of too many looks that are not even tried so


def bare(header: bytes) -> bool:
    """Whether the first line of a table is ASCII without quote, NUL or carriage return: names as they stand."""
    return header.isascii() and not any(sign in header for sign in _SIGNS)


@dataclass(frozen=True, eq=False)
class Lines:
    """The lines of a block: where each starts and ends, which of them are plain (None: all), and the cells of these.

    `loose`: some plain line has an empty cell too many at its end.
    """

    starts: np.ndarray
    ends: np.ndarray
    plain: np.ndarray | None
    columns: dict[str, Column]
    loose: bool


class Reader:
    """Reads the wanted columns of plain lines; remembers the words (NaN, None) that stood in their cells."""

    def __init__(self, wanted: Sequence[str], delimiter: str) -> None:
        self.wanted, self.delimiter = tuple(wanted), delimiter
        self._sign = ord(delimiter)
        self._known = csv_alike.Known(delimiter)  # words of cells met before: nan, None, -inf
        self._rest = 0

    @property
    def words(self) -> frozenset[bytes]:
        """The texts of cells that are no bare numbers (the last ten thousand of them)."""
        return frozenset(self._known.words)

    def lines(self, block: bytes, low: int, high: int, places: Mapping[str, int], width: int) -> Lines | None:
        """The whole lines of `block[low:high]` (`low` is `digits.PAD` or more); None where one is too long.

        `places` says which cell of a line a wanted column is, `width` how many cells a line has.
        """
        if self._rest:
            self._rest -= 1
        elif not any(block.find(sign, low, high) >= 0 for sign in _SIGNS):
            if (found := self._alike(block, low, high, places, width)) is not None:
                return found
            self._rest = _REST
        return self._cell_by_cell(block, low, high, places, width)

    def _alike(self, block: bytes, low: int, high: int, places: Mapping[str, int], width: int) -> Lines | None:
        """The lines, where most of them have one of a few looks."""
        buffer = np.frombuffer(block, np.uint8)
        ends = np.flatnonzero(buffer[low:high] == _NEWLINE)
        ends += low
        starts = np.empty_like(ends)
        starts[0] = low
        starts[1:] = ends[:-1] + 1
        found = csv_alike.parts(buffer, starts, ends, self.wanted, places, width, self._known)
        if found is None:
            return None
        parts, others = found
        plain, loose = None, False
        if len(others):
            text = [b"\0" * digits.PAD, *(block[starts[n] : ends[n] + 1] for n in others.tolist())]
            left = b"".join(text)
            rest = self._cell_by_cell(left, digits.PAD, len(left), places, width)
            if rest is None:
                return None
            keep = others if rest.plain is None else others[rest.plain]
            if len(keep) < len(others):
                some = np.ones(len(starts), bool)
                some[others] = False
                some[keep] = True
                plain = np.flatnonzero(some)
            loose = rest.loose
            values = {name: column[0] for name, column in rest.columns.items()}
            gaps = {name: False if column[1] is None else column[1] for name, column in rest.columns.items()}
            parts.append((keep, values, gaps))
        columns = {name: csv_alike.joined(name, parts, len(starts)) for name in self.wanted}
        if plain is not None:
            columns = {name: (v[plain], None if m is None else m[plain]) for name, (v, m) in columns.items()}
        return Lines(starts, ends, plain, columns, loose)

    def _cell_by_cell(self, block: bytes, low: int, high: int, places: Mapping[str, int], width: int) -> Lines | None:
        """As `lines`, with every delimiter searched."""
        buffer = np.frombuffer(block, np.uint8)
        part = buffer[low:high]
        breaks = part == _NEWLINE
        hits = np.flatnonzero((part == self._sign) | breaks)
        hits += low
        count = int(np.count_nonzero(breaks))
        loose = False
        begin: np.ndarray | None = None  # where the cells of a line begin in `hits`; None where all lines are alike
        if len(hits) == count * width and (buffer[hits[width - 1 :: width]] == _NEWLINE).all():
            ends = hits[width - 1 :: width].copy()
            closes = ends
            plain = np.ones(count, bool)
        else:
            last = np.flatnonzero(buffer[hits] == _NEWLINE)
            ends = hits[last]
            cells = np.diff(last, prepend=-1)
            begin = last - cells + 1
            before = hits[np.maximum(last - 1, 0)]
            more = (cells == width + 1) & (ends - before == 1)  # an empty cell too many
            plain = (cells == width) | more
            loose = bool(more.any())
            closes = np.where(more, before, ends)
        starts = np.empty(count, np.intp)
        starts[0] = low
        starts[1:] = ends[:-1] + 1
        if int((ends - starts).max()) > LONG:
            return None
        first = buffer[starts]
        if (first == _BLANK).any():
            first = buffer[_past_blanks(buffer, starts, ends)]
        if (strange := csv_alike.STRANGE_START[first]).any():
            plain &= ~strange
        closes = self._marked(block, buffer, low, high, ends, closes, plain)
        chosen = None if plain.all() else np.flatnonzero(plain)
        if begin is not None:
            some = begin if chosen is None else begin[chosen]
            grid = hits[some[:, None] + np.arange(width)]  # of plain lines only: others may have any number of cells
        else:
            grid = hits.reshape(count, width)
            grid = grid if chosen is None else grid[chosen]
        if closes is not ends:
            grid[:, -1] = closes if chosen is None else closes[chosen]
        columns, empty = self._cells(block, buffer, starts if chosen is None else starts[chosen], grid, places)
        if len(empty):
            keep = np.ones(len(grid), bool)
            keep[empty] = False
            plain[empty if chosen is None else chosen[empty]] = False
            columns = {name: (v[keep], None if m is None else m[keep]) for name, (v, m) in columns.items()}
            chosen = np.flatnonzero(plain)
        return Lines(starts, ends, chosen, columns, loose)

    def _marked(
        self,
        block: bytes,
        buffer: np.ndarray,
        low: int,
        high: int,
        ends: np.ndarray,
        closes: np.ndarray,
        plain: np.ndarray,
    ) -> np.ndarray:
        """Take lines with a quote, a NUL or a carriage return inside out of `plain`; where the last cells end."""
        for sign in (b'"', b"\0"):
            if block.find(sign, low, high) >= 0:
                found = np.flatnonzero(buffer[low:high] == sign[0]) + low
                plain[np.searchsorted(ends, found)] = False
        if block.find(b"\r", low, high) < 0:
            return closes
        found = np.flatnonzero(buffer[low:high] == _RETURN) + low
        owner = np.searchsorted(ends, found)
        plain[owner[found != closes[owner] - 1]] = False
        closes = closes.copy()
        closes[owner] -= 1
        return closes

    def _cells(
        self, block: bytes, buffer: np.ndarray, starts: np.ndarray, grid: np.ndarray, places: Mapping[str, int]
    ) -> tuple[dict[str, Column], np.ndarray]:
        """The wanted columns of lines (`grid` is where their cells end), and which lines are not plain after all."""
        columns: dict[str, Column] = {}
        count = len(starts)
        strange: list[np.ndarray] = []
        nothing: np.ndarray | None = None  # lines in which no wanted cell so far holds a number
        full = False
        for name in self.wanted:
            place = places.get(name)
            if place is None:
                columns[name] = np.zeros(count), np.ones(count, bool)
                continue
            ends = grid[:, place]
            begins = starts if place == 0 else grid[:, place - 1] + 1
            values, odd = digits.numbers(buffer, begins, ends)
            missing: np.ndarray | None = None
            if len(odd):
                values, missing, foreign = self._words(block, buffer, values, odd, begins[odd], ends[odd])
                strange.append(foreign)
            columns[name] = values, missing
            if missing is None:
                full = True
            elif not full:
                nothing = missing.copy() if nothing is None else nothing & missing
        if not full and count:
            strange.append(np.arange(count) if nothing is None else np.flatnonzero(nothing))
        return columns, np.unique(np.concatenate(strange)) if strange else np.zeros(0, np.intp)

    def _words(
        self,
        block: bytes,
        buffer: np.ndarray,
        values: np.ndarray,
        odd: np.ndarray,
        starts: np.ndarray,
        ends: np.ndarray,
    ) -> tuple[np.ndarray, np.ndarray | None, np.ndarray]:
        """Cells that are no bare number: (values, where there are none, indices of cells with other than ASCII)."""
        missing = np.zeros(len(values), bool)
        starts, ends = _trimmed(buffer, starts, ends)
        missing[odd[starts == ends]] = True
        left = np.flatnonzero(starts < ends)
        odd, starts, ends = odd[left], starts[left], ends[left]
        found, still = digits.numbers(buffer, starts, ends)
        if len(still) < len(odd):
            known = np.ones(len(odd), bool)
            known[still] = False
            values = _set(values, odd[known], found[known])
        odd, starts, ends = odd[still], starts[still], ends[still]
        foreign: list[int] = []
        for group, start, end in self._same_words(buffer, starts, ends):
            word = block[start:end]
            if not word.isascii():
                foreign += odd[group].tolist()
                continue
            value = self._known.value(word)
            if value is None:
                missing[odd[group]] = True
            else:
                values = _set(values, odd[group], np.array(value))
        return values, missing if missing.any() else None, np.array(foreign, np.intp)

    def _same_words(
        self, buffer: np.ndarray, starts: np.ndarray, ends: np.ndarray
    ) -> Iterator[tuple[np.ndarray, int, int]]:
        """(indices of cells with the same text, its place): short texts that recur are looked at once."""
        short = ends - starts <= _SHORT
        at = np.flatnonzero(short)
        if len(at) > 1:
            shift = (8 * (_SHORT - (ends - starts)[at])).astype(np.uint64)
            _, example, group = np.unique(
                digits.words(buffer)[ends[at] - _SHORT] >> shift, return_index=True, return_inverse=True
            )
            order = np.argsort(group, kind="stable")
            for cells in np.split(order, np.flatnonzero(np.diff(group[order])) + 1):
                one = at[example[group[cells[0]]]]
                yield at[cells], int(starts[one]), int(ends[one])
        else:
            short[:] = False
        for cell in np.flatnonzero(~short).tolist():
            yield np.array([cell]), int(starts[cell]), int(ends[cell])


def _past_blanks(buffer: np.ndarray, starts: np.ndarray, ends: np.ndarray) -> np.ndarray:
    """Where the first character that is no blank stands."""
    for _ in range(_BLANKS):
        blank = (starts < ends) & (buffer[starts] == _BLANK)
        if not blank.any():
            break
        starts = starts + blank
    return starts


def _trimmed(buffer: np.ndarray, starts: np.ndarray, ends: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The places of cells without the blanks around them."""
    starts = _past_blanks(buffer, starts, ends)
    for _ in range(_BLANKS):
        blank = (starts < ends) & (buffer[ends - 1] == _BLANK)
        if not blank.any():
            break
        ends = ends - blank
    return starts, ends


def _set(values: np.ndarray, at: np.ndarray, new: np.ndarray) -> np.ndarray:
    """`values` with others at some places; whole numbers stay whole as long as all are."""
    if values.dtype.kind == "i" and new.dtype.kind != "i":
        values = values.astype(np.float64)
    values[at] = new
    return values
