"""The rows of a table of text: its columns as they grow, and what becomes of one line, whatever it holds.

`Rows.line` knows all that may happen in a table (another header, short and torn rows, conflict markers, comments); the
fast way of `csv_bulk` gives it every line that is not plain, so both ways read the same.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import numpy as np

from playbook.readers.base import RunBuilder
from playbook.readers.names import epoch_name, step_names
from playbook.readers.table_shape import MARKERS, Shape, cell, column_names, split, torn

LAST = 200  # rows before the last one that say how many digits are usual
TOLD = 10  # rows that are left out, told one by one
_RAGGED = 0.1  # share of short rows above which a table leaves out its last cells on purpose
_HELD = 50_000  # rows that are kept as Python numbers before they become arrays
_GROWTH = 1.2

Column = tuple[np.ndarray, "np.ndarray | None"]  # values, and where there are none (None: nowhere)


def value_of(text: str, delimiter: str) -> float | None:
    """The number in a cell, None where it holds none."""
    try:
        return float(text)
    except ValueError:
        return cell(text.strip(), delimiter)


class Columns:
    """Named columns that grow part by part, float64 (or int64 while every value of a counted one is whole).

    `guess` is how many rows there may be in all: a good one saves copies, a bad one costs nothing but them.
    """

    def __init__(self, names: Sequence[str], counted: frozenset[str] = frozenset()) -> None:
        self.names, self.counted = tuple(names), counted
        self.size, self.guess = 0, 0
        self._values: dict[str, np.ndarray] = {}
        self._missing: dict[str, np.ndarray | None] = dict.fromkeys(names)
        self._lines = np.zeros(0, np.int64)

    def append(self, lines: np.ndarray, columns: Mapping[str, Column]) -> None:
        """More rows; the arrays belong to the table from here on."""
        if not len(lines):
            return
        end = self.size + len(lines)
        self._lines = self._longer(self._lines, lines, end)
        for name in self.names:
            values, missing = columns[name]
            whole = name in self.counted and values.dtype.kind == "i"
            if not whole:
                values = values.astype(np.float64, copy=False)
            before = self._values.get(name)
            if before is None:
                self._values[name] = values
            else:
                if before.dtype != values.dtype:
                    before, values = before.astype(np.float64), values.astype(np.float64)
                self._values[name] = self._longer(before, values, end)
            mask = self._missing[name]
            if missing is not None and mask is None:
                mask = np.zeros(self.size, bool)
            if mask is not None:
                more = np.zeros(len(lines), bool) if missing is None else missing
                self._missing[name] = self._longer(mask, more, end) if self.size else more
        self.size = end

    def _longer(self, before: np.ndarray, more: np.ndarray, end: int) -> np.ndarray:
        if not self.size:
            return more
        if len(before) < end:
            longer = np.empty(max(int(end * _GROWTH), self.guess), before.dtype)
            longer[: self.size] = before[: self.size]
            before = longer
        before[self.size : end] = more
        return before

    def lines(self) -> np.ndarray:
        return self._lines[: self.size]

    def masked(self) -> dict[str, np.ma.MaskedArray]:
        result = {}
        for name in self.names:
            values, mask = self._values.get(name, np.zeros(0)), self._missing[name]
            hidden = np.ma.nomask if mask is None else mask[: self.size]
            result[name] = np.ma.MaskedArray(values[: self.size], hidden, copy=False)
        return result


class Rows:
    """What is known so far of a table: its rows, the columns of the header that holds now, the lines put off."""

    def __init__(
        self, builder: RunBuilder, shape: Shape, wanted: Sequence[str], labels: Sequence[str], path: Path
    ) -> None:
        self.builder, self.shape, self.path = builder, shape, path
        counted = frozenset(name for name in wanted if step_names([name]) and not builder.wants(name))
        self.columns = Columns(wanted, counted)
        self.labels: dict[str, list[str]] = {name: [] for name in labels}
        self.places = {name: place for place, name in enumerate(shape.names)}
        self.width = len(shape.names)
        self.recent: deque[str] = deque(maxlen=LAST)
        self.changed = False  # set where another header begins
        self._short: list[tuple[int, list[str]]] = []
        self._lost = 0  # rows that were left out
        self._conflict = False
        self._lines: list[int] = []
        self._cells: list[list[float | None]] = [[] for _ in wanted]

    def line(self, number: int, text: str, whole: bool) -> None:
        """One line of the file; `whole` is False for a last line without an end."""
        builder, delimiter = self.builder, self.shape.delimiter
        if text.startswith(MARKERS) and number >= self.shape.first:
            if not self._conflict:
                what = "git merge-conflict marker; the rows of both sides are read"
                builder.problem(number, what, "resolve the merge")
            self._conflict = True
            return
        if not self._is_row(number, text):
            return
        simple = '"' not in text and delimiter not in " |"
        cells = text.split(delimiter) if simple else split(text, delimiter)
        if len(cells) > self.width and not any(part.strip() for part in cells[self.width :]):
            cells = cells[: self.width]
        if not whole and cut(cells, self.width, [(split(other, delimiter) or [""])[-1] for other in self.recent]):
            builder.problem(number, "the last line is cut; it is left out", "", "cut")
            return
        self.recent.append(text)
        if len(cells) != self.width:
            renamed = another_header(cells, self.path)
            if renamed is not None:
                self._rename(renamed)
            elif len(cells) < self.width and whole:
                self._short.append((number, cells))
            else:
                self._misfit(number, cells)
            return
        if not self._take(cells, number):
            renamed = another_header(cells, self.path)
            if renamed is not None:
                self._rename(renamed)
            elif any(text.strip() for text in cells):
                self._left_out(number, "holds no number in a column of the table; the row is left out")

    def remember(self, lines: Iterable[tuple[int, str]]) -> None:
        """The lines before the last one, where they did not come by `line`."""
        self.recent = deque((text for number, text in lines if self._is_row(number, text)), maxlen=LAST)

    def gathered(self) -> tuple[np.ndarray, dict[str, Column]]:
        """The rows that came by `line` since the last call, as arrays."""
        lines = np.asarray(self._lines, np.int64)
        columns: dict[str, Column] = {}
        for name, cells in zip(self.columns.names, self._cells, strict=True):
            missing = np.fromiter((value is None for value in cells), bool, len(cells))
            values = np.fromiter((0.0 if value is None else value for value in cells), float, len(cells))
            columns[name] = (values, missing if missing.any() else None)
            cells.clear()
        self._lines.clear()
        return lines, columns

    def flush(self, least: int = 1) -> None:
        """Move the rows that came by `line` to the columns, once there are `least`."""
        if len(self._lines) >= least:
            self.columns.append(*self.gathered())

    def finish(self) -> None:
        """After the last line: what becomes of the rows with too few cells."""
        self.flush()
        if len(self._short) > _RAGGED * (self.columns.size + len(self._short)):
            for number, cells in self._short:
                self._take(cells, number)
            self.flush()
        else:
            for number, cells in self._short:
                self._misfit(number, cells)
        if self._lost > TOLD:
            self.builder.problem(None, f"{self._lost} rows in all are left out", "", "cells")

    def _is_row(self, number: int, text: str) -> bool:
        if number < self.shape.first or not text.strip() or text.startswith(MARKERS) or text.lstrip()[:1] in "#%":
            return False
        return self.shape.delimiter != "|" or bool(text.strip("|-: \t"))

    def _misfit(self, number: int, cells: list[str]) -> None:
        self._left_out(number, f"{len(cells)} cells where the header has {self.width}; the row is left out")

    def _left_out(self, number: int, what: str) -> None:
        self._lost += 1
        if self._lost <= TOLD:
            self.builder.problem(number, what, "", "cells")

    def _rename(self, names: list[str]) -> None:
        places = {name: place for place, name in enumerate(names)}
        self.changed = self.changed or (places, len(names)) != (self.places, self.width)
        self.places, self.width = places, len(names)

    def _take(self, cells: list[str], number: int) -> bool:
        """Add one row; False where it holds no number (a header again, or a row of another kind)."""
        delimiter = self.shape.delimiter
        parsed: list[float | None] = []
        for name in self.columns.names:
            place = self.places.get(name)
            text = cells[place] if place is not None and place < len(cells) else ""
            parsed.append(value_of(text, delimiter))
        if all(value is None for value in parsed):
            return False
        self._lines.append(number)
        for column, value in zip(self._cells, parsed, strict=True):
            column.append(value)
        for name, texts in self.labels.items():
            place = self.places.get(name)
            texts.append(cells[place].strip() if place is not None and place < len(cells) else "")
        if len(self._lines) >= _HELD:
            self.flush(_HELD)
        return True


def cut(cells: list[str], width: int, before: list[str]) -> bool:
    """Whether a last line without an end has lost something."""
    if len(cells) < width:
        return True
    if not cells[-1].strip():
        return bool(before) and all(map(str.strip, before))  # a column that is never empty: its cell was not written
    return torn(cells[-1], before)


def another_header(cells: list[str], path: Path) -> list[str] | None:
    """The columns of a second header: a job that began again with other metrics appends one."""
    names = column_names(cells, path)
    if len(cells) < 2 or any(cell(text.strip()) is not None for text in cells):
        return None
    return names if step_names(names) or epoch_name(names) else None
