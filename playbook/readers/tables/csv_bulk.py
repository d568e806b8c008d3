"""The lines of a table, a megabyte at a time: plain ones as columns, all others one by one in their place.

What is not plain (see `csv_plain`) goes to `Rows.line`, so that the result is that of reading line by line.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator

import numpy as np

from playbook.readers.source import Source, marked
from playbook.readers.tables.csv_plain import LONG, Lines, Reader
from playbook.readers.tables.csv_rows import LAST, Column, Rows
from playbook.readers.tables.digits import PAD

_MOST = 1 << 20  # bytes looked at as one piece
_WARY = 64  # lines that are read one by one after another header: there may be many


def read(source: Source, rows: Rows) -> bool:
    """Fill `rows` from a file; False where a line is so long that all must be read one by one."""
    walk = _Walk(rows, source.size)
    tail = b""
    for chunk in source.chunks():
        end = chunk.rfind(b"\n") + 1
        if not end:
            tail += chunk
            if len(tail) > LONG:
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
        self._reader = Reader(rows.columns.names, rows.shape.delimiter)
        self._size, self._wary = size, 0
        self._blocks: deque[tuple[bytes, int]] = deque()  # the last ones, for what is asked at the end of the file

    def block(self, block: bytes) -> bool:
        """Whole lines behind `PAD` bytes; False where one is too long."""
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
                if stop - at > LONG:
                    return False
                self._wary = _WARY if self._line(block[at : stop - 1]) else self._wary - 1
                at = stop
                continue
            if at + _MOST < stop:
                stop = block.find(b"\n", at + _MOST) + 1 or stop
            moved = self._piece(block, at, stop)
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

    def _piece(self, block: bytes, low: int, high: int) -> int:
        """Read the lines of `block[low:high]`; where it stands then, 0 where a line is too long."""
        rows = self.rows
        rows.flush()
        found = self._reader.lines(block, low, high, rows.places, rows.width)
        if found is None:
            return 0
        count, columns, chosen = len(found.ends), found.columns, found.plain
        if chosen is None:
            rows.columns.append(np.arange(self.number, self.number + count, dtype=np.int64), columns)
            done, at = count, high
        else:
            others = np.ones(count, bool)
            others[chosen] = False
            done = self._careful(block, found, np.flatnonzero(others))
            within = int(np.searchsorted(chosen, done))
            columns = {n: (v[:within], None if m is None else m[:within]) for n, (v, m) in columns.items()}
            self._together(chosen[:within] + self.number, columns)
            at = int(found.ends[done - 1]) + 1
        self._guess(at - low, done)
        self.number += done
        self._wary, rows.changed = _WARY if rows.changed else 0, False
        return at

    def _careful(self, block: bytes, found: Lines, lines: np.ndarray) -> int:
        """Read these lines one by one; how many lines of the piece are done (fewer where another header began)."""
        rows = self.rows
        for line in lines.tolist():
            for number, text, whole in marked(self.number + line, block[found.starts[line] : found.ends[line]], True):
                rows.line(number, text, whole)
            if rows.changed:
                return line + 1
        return len(found.ends)

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
