"""The plain lines of a table, a megabyte at a time: every line that holds nothing but cells is read as columns.

A line is plain where it has the header's number of cells, no quote, NUL or carriage return inside, does not begin like
a comment or a marker, and holds a number where one is wanted. All others go to `Rows.line` in their place, so that the
result is that of reading line by line. Only wanted columns are looked into.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator

import numpy as np

from playbook.readers import digits
from playbook.readers.csv_rows import LAST, Column, Rows, value_of
from playbook.readers.digits import PAD
from playbook.readers.source import MAX_LINE, Source, marked

DELIMITERS = frozenset(",;\t")
_LONG = MAX_LINE // 2  # bytes of a line that the careful way, which cuts lines, reads
_MOST = 1 << 20  # bytes looked at as one piece
_WARY = 64  # lines that are read one by one after another header: there may be many
_BLANKS = 64  # blanks around a cell that are taken off for many cells at once
_NEWLINE, _RETURN, _BLANK = ord("\n"), ord("\r"), ord(" ")
_SHORT = 8  # characters of a cell that is compared as one machine word
_ODD_START = np.zeros(256, bool)  # first bytes of comments, markers and blank lines
_ODD_START[[*b"#%<=>|\t\n\v\f\r \x1c\x1d\x1e\x1f", *range(128, 256)]] = True


def read(source: Source, rows: Rows) -> bool:
    """Fill `rows` from a file; False where a line is so long that all must be read one by one."""
    walk = _Walk(rows, source.size)
    tail = b""
    for chunk in source.chunks():
        end = chunk.rfind(b"\n") + 1
        if not end:
            tail += chunk
            if len(tail) > _LONG:
                return False
            continue
        if not walk.block(b"".join((b"\0" * PAD, tail, chunk[:end]))):
            return False
        tail = chunk[end:]
    if tail:
        rows.flush()
        rows.remember(walk.last_lines())
        for number, text, whole in marked(walk.number, tail, False):
            rows.line(number, text, whole)
    return True


class _Walk:
    """Where the reading stands. `number` is that of the next line."""

    def __init__(self, rows: Rows, size: int) -> None:
        self.rows, self.number = rows, 1
        self._delimiter = ord(rows.shape.delimiter)
        self._size, self._wary = size, 0
        self._known: dict[bytes, float | None] = {}  # words of cells met before: nan, None, -inf
        self._blocks: deque[tuple[bytes, int]] = deque()  # the last ones, for what is asked at the end of the file
        self._held = 0

    def block(self, block: bytes) -> bool:
        """Whole lines behind `PAD` bytes; False where one is too long."""
        buffer = np.frombuffer(block, np.uint8)
        at, first, number = PAD, self.rows.shape.first, self.number
        while self.number < first:  # the header and what stands above it
            at = block.find(b"\n", at) + 1
            if not at:
                self._keep(block, number)
                return True
            self.number += 1
        while at < len(block):
            stop = len(block)
            if self._wary:
                stop = block.find(b"\n", at) + 1
                self._wary = _WARY if self._line(block[at : stop - 1]) else self._wary - 1
                at = stop
                continue
            if at + _MOST < stop:
                stop = block.find(b"\n", at + _MOST) + 1 or stop
            moved = self._piece(block, buffer, at, stop)
            if not moved:
                return False
            at = moved
        self._keep(block, number)
        return True

    def _line(self, raw: bytes) -> bool:
        """Read one line for itself; whether it was another header."""
        for number, text, whole in marked(self.number, raw, True):
            self.rows.line(number, text, whole)
        self.number += 1
        changed, self.rows.changed = self.rows.changed, False
        return changed

    def last_lines(self) -> Iterator[tuple[int, str]]:
        """(number, text) of the last lines so far, a few more than `LAST`."""
        for block, number in self._blocks:
            lines = block[PAD:].split(b"\n")[:-1]
            skip = max(0, len(lines) - 2 * LAST)
            for place, raw in enumerate(lines[skip:], number + skip):
                for line, text, _ in marked(place, raw, True):
                    yield line, text

    def _keep(self, block: bytes, number: int) -> None:
        self._blocks.append((block, number))
        while len(self._blocks) > 1 and self.number - self._blocks[1][1] > 2 * LAST:
            self._blocks.popleft()

    def _piece(self, block: bytes, buffer: np.ndarray, low: int, high: int) -> int:
        """Read the lines of `block[low:high]`; where it stands then, 0 where a line is too long."""
        rows, width = self.rows, self.rows.width
        rows.flush()
        part = buffer[low:high]
        breaks = part == _NEWLINE
        hits = np.flatnonzero((part == self._delimiter) | breaks)
        hits += low
        count = int(np.count_nonzero(breaks))
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
            closes = np.where(more, before, ends)
        starts = np.empty(count, np.intp)
        starts[0] = low
        starts[1:] = ends[:-1] + 1
        if int((ends - starts).max()) > _LONG:
            return 0
        first = buffer[starts]
        if (first == _BLANK).any():
            first = buffer[_past_blanks(buffer, starts, ends)]
        if (strange := _ODD_START[first]).any():
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
        columns, empty = self._cells(block, buffer, starts if chosen is None else starts[chosen], grid)
        if len(empty):
            keep = np.ones(len(grid), bool)
            keep[empty] = False
            plain[empty if chosen is None else chosen[empty]] = False
            columns = {name: (v[keep], None if m is None else m[keep]) for name, (v, m) in columns.items()}
            chosen = np.flatnonzero(plain)
        if chosen is None:
            rows.columns.append(np.arange(self.number, self.number + count, dtype=np.int64), columns)
            done, at = count, high
        else:
            done = self._careful(block, starts, ends, np.flatnonzero(~plain))
            within = int(np.searchsorted(chosen, done))
            columns = {n: (v[:within], None if m is None else m[:within]) for n, (v, m) in columns.items()}
            self._together(chosen[:within] + self.number, columns)
            at = int(ends[done - 1]) + 1
        self._guess(at - low, done)
        self.number += done
        self._wary, rows.changed = _WARY if rows.changed else 0, False
        return at

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
        self, block: bytes, buffer: np.ndarray, starts: np.ndarray, grid: np.ndarray
    ) -> tuple[dict[str, Column], np.ndarray]:
        """The wanted columns of lines (`grid` is where their cells end), and which lines are not plain after all."""
        columns: dict[str, Column] = {}
        count = len(starts)
        strange: list[np.ndarray] = []
        nothing: np.ndarray | None = None  # lines in which no wanted cell so far holds a number
        full = False
        for name in self.rows.columns.names:
            place = self.rows.places.get(name)
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
            if word not in self._known:
                if len(self._known) > 10_000:
                    self._known.clear()
                self._known[word] = value_of(word.decode(), self.rows.shape.delimiter)
            value = self._known[word]
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

    def _careful(self, block: bytes, starts: np.ndarray, ends: np.ndarray, lines: np.ndarray) -> int:
        """Read these lines one by one; how many lines of the piece are done (fewer where another header began)."""
        rows = self.rows
        for line in lines.tolist():
            for number, text, whole in marked(self.number + line, block[starts[line] : ends[line]], True):
                rows.line(number, text, whole)
            if rows.changed:
                return line + 1
        return len(starts)

    def _together(self, lines: np.ndarray, columns: dict[str, Column]) -> None:
        """Add the plain lines and those that were read one by one in the order of the file."""
        rows = self.rows
        own, parts = rows.gathered()
        if not len(own):
            rows.columns.append(lines, columns)
            return
        order = np.argsort(np.concatenate([lines, own]), kind="stable")
        merged: dict[str, Column] = {}
        for name, (values, missing) in columns.items():
            more, gaps = parts[name]
            hidden = None
            if missing is not None or gaps is not None:
                pair = [np.zeros(len(x), bool) if m is None else m for x, m in ((values, missing), (more, gaps))]
                hidden = np.concatenate(pair)[order]
            merged[name] = np.concatenate([values, more])[order], hidden
        rows.columns.append(np.sort(np.concatenate([lines, own])), merged)

    def _guess(self, size: int, lines: int) -> None:
        """How many rows there will be, by the first piece."""
        if not self.rows.columns.guess and lines:
            self.rows.columns.guess = int(1.02 * self._size * lines / size) + 1000


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
