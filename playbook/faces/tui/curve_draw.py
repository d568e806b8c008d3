"""A view of one metric -> lines for the terminal: a rail of marks, the plot, the axis of steps.

A column that holds a value which is no finite number is painted and carries a cross on the rail: colour is never the
only sign. From the onset on the curve has another colour.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from rich.cells import cell_len
from rich.segment import Segment
from rich.style import Style
from textual.strip import Strip

from playbook.faces.tui import raster
from playbook.faces.tui.desk import Mark
from playbook.faces.tui.widgets import fit
from playbook.faces.words import Words

GUTTER = 8  # columns of value labels
STYLES = ("line", "after", "bad", "axis", "onset", "resume", "lr", "cursor")
_SIGNS = {"lr": "◆", "resume": "↺", "onset": "▼"}  # later ones win a column
_WORDS = {"lr": "learning rate", "resume": "resume", "onset": "onset"}


@dataclass(frozen=True)
class Frame:
    """Everything that one picture hangs on. width, rows of the plot; whole: columns of a line; styles[""] is plain."""

    width: int
    rows: int
    whole: int
    first: float
    last: float
    marks: Sequence[Mark]
    cursor_step: float | None
    cut: raster.Columns
    axis: raster.Axis
    styles: Mapping[str, Style]
    w: Words

    def place(self, step: float | None) -> int | None:
        """The column of a step, None out of view."""
        if step is None or not self.first <= step <= self.last or self.last <= self.first:
            return None
        return min(int((step - self.first) / (self.last - self.first) * self.width), self.width - 1)

    @cached_property
    def bad(self) -> np.ndarray:
        """bool[width]: columns with a value that is not finite."""
        bad: np.ndarray = self.cut.bad[: 2 * self.width].reshape(self.width, 2).sum(axis=1) > 0
        return bad

    @cached_property
    def here(self) -> dict[str, dict[int, Mark]]:
        """kind -> column -> its first mark."""
        found: dict[str, dict[int, Mark]] = {kind: {} for kind in _SIGNS}
        for mark in self.marks:
            column = self.place(mark.step)
            if column is not None:
                found[mark.kind].setdefault(column, mark)
        return found


def draw(frame: Frame) -> list[Strip]:
    """All lines from the top."""
    codes = raster.braille(frame.cut, frame.axis, frame.rows)
    return [_rail(frame), *(_plot_row(frame, row, codes[row]) for row in range(frame.rows)), _steps_row(frame)]


def _strip(frame: Frame, segments: list[Segment]) -> Strip:
    return Strip(segments).adjust_cell_length(frame.whole, frame.styles[""]).simplify()


def _rail(frame: Frame) -> Strip:
    """Signs of what happened; the name of the first of each kind stands beside it where there is room."""
    base = frame.styles[""]
    cells: list[tuple[str, Style]] = [(" ", base)] * frame.width
    for column in np.flatnonzero(frame.bad).tolist():
        cells[column] = ("✗", frame.styles["onset"])
    for kind, sign in _SIGNS.items():
        for column in frame.here[kind]:
            cells[column] = (sign, frame.styles[kind])
    for kind in reversed(_SIGNS):
        if frame.here[kind]:
            _word_beside(frame, cells, min(frame.here[kind]), kind)
    return _strip(frame, [Segment(" " * GUTTER, base), *(Segment(text, style) for text, style in cells if text)])


def _word_beside(frame: Frame, cells: list[tuple[str, Style]], column: int, kind: str) -> None:
    text = frame.w(_WORDS[kind])
    if kind == "onset":
        text = f"{text} {frame.here[kind][column].step:,}"
    wide = cell_len(text) + 1
    for start in (column + 1, column - wide):
        free = cells[max(start, 0) : start + wide]
        if start >= 0 and len(free) == wide and all(cell[0] == " " for cell in free):
            first = start + (1 if start > column else 0)
            cells[first] = (text, frame.styles[kind])
            for k in range(first + 1, first + cell_len(text)):
                cells[k] = ("", frame.styles[kind])
            return


def _label(frame: Frame, row: int) -> str:
    """Values beside the first, the middle and the last row."""
    axis, rows = frame.axis, frame.rows
    if frame.cut.limits is None:
        return ""
    if axis.log and rows >= 3 and row == 1:
        return "log"
    if row == 0:
        return raster.number(axis.high)
    if row == rows - 1:
        return raster.number(axis.low)
    return raster.number((axis.high + axis.low) / 2) if rows >= 7 and row == rows // 2 and not axis.log else ""


def _plot_row(frame: Frame, row: int, codes: np.ndarray) -> Strip:
    styles = frame.styles
    label = fit(_label(frame, row), GUTTER - 1).rjust(GUTTER - 1)
    segments = [Segment(f"{label}▏", styles["axis"])]
    cursor = frame.place(frame.cursor_step)
    lines = {column: kind for kind in _SIGNS for column in frame.here[kind]}
    onset = min(frame.here["onset"], default=frame.width)
    bad = frame.bad.tolist()
    for column, code in enumerate(codes.tolist()):
        style = styles["after"] if column >= onset else styles["line"]
        text = chr(code)
        if code == raster.BLANK:
            text = " "
            if column == cursor:
                text, style = "│", styles["cursor"]
            elif column in lines:
                text, style = "┊", styles[lines[column]]
        elif column == cursor:
            style = styles["cursor"]
        segments.append(Segment(text, styles["bad"] if bad[column] else style))
    return _strip(frame, segments)


def _steps_row(frame: Frame) -> Strip:
    low, high = f"{frame.first:,.0f}", f"{frame.last:,.0f}"
    middle = f"{frame.w('step')} {(frame.first + frame.last) / 2:,.0f}"
    gap = frame.width - cell_len(low) - cell_len(high) - cell_len(middle)
    if gap < 4:
        text = low + " " * max(frame.width - cell_len(low) - cell_len(high), 1) + high
    else:
        text = low + " " * (gap // 2) + middle + " " * (gap - gap // 2) + high
    return _strip(frame, [Segment(" " * GUTTER + text, frame.styles["axis"])])
