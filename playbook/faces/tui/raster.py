"""One metric as braille dots: minimum and maximum of every pixel column, so that no single step is lost.

A column with a value that is not finite is counted and painted, never bridged; a point between two columns is joined
by a line only where both ends are finite neighbours. Pure numpy, no terminal.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

# Bits of a braille cell by row (0..3) and column (0, 1).
_DOTS = np.array([[0x01, 0x08], [0x02, 0x10], [0x04, 0x20], [0x40, 0x80]])
BLANK = 0x2800
# All positive and this far apart: the axis is drawn in powers of ten.
LOG_RANGE = 200.0
_HUGE = 1e300  # beyond this a difference may overflow


@dataclass(frozen=True, eq=False)
class Line:
    """Points sorted by step (equal steps keep file order). steps float64[n]; values float64[n], non-finite kept."""

    steps: np.ndarray
    values: np.ndarray

    @cached_property
    def finite(self) -> np.ndarray:
        return np.isfinite(self.values)

    @cached_property
    def floor(self) -> np.ndarray:
        """Values with +inf where not finite: what a minimum may read."""
        return np.where(self.finite, self.values, np.inf)

    @cached_property
    def ceiling(self) -> np.ndarray:
        return np.where(self.finite, self.values, -np.inf)

    @cached_property
    def bad_before(self) -> np.ndarray:
        """int64[n + 1]: how many of the first i points are not finite."""
        return np.concatenate([[0], np.cumsum(~self.finite)])

    @property
    def span(self) -> tuple[float, float]:
        """First and last step; a single point gets a step of room on each side."""
        if not len(self.steps):
            return 0.0, 1.0
        low, high = float(self.steps[0]), float(self.steps[-1])
        return (low, high) if high > low else (low - 1.0, high + 1.0)


def prepare(steps: np.ndarray, values: np.ndarray) -> Line:
    """Sort by step where a restart made steps go back."""
    x = np.asarray(steps, float)
    y = np.asarray(values, float)
    if len(x) > 1 and bool((np.diff(x) < 0).any()):
        order = np.argsort(x, kind="stable")
        x, y = x[order], y[order]
    return Line(x, y)


@dataclass(frozen=True, eq=False)
class Columns:
    """The view cut into pixel columns. low, high float64[k], NaN where no finite value; bad int[k]."""

    low: np.ndarray
    high: np.ndarray
    bad: np.ndarray
    first: float
    last: float
    links: tuple[tuple[float, float, float, float], ...]  # (column, value) to (column, value), finite neighbours

    @property
    def limits(self) -> tuple[float, float] | None:
        """Smallest and largest finite value in view, None without any."""
        ok = np.isfinite(self.low)
        if not ok.any():
            return None
        return float(self.low[ok].min()), float(self.high[ok].max())


def columns(line: Line, first: float, last: float, k: int) -> Columns:
    """Cut the steps first..last into k columns."""
    n = len(line.steps)
    low = np.full(k, np.nan)
    high = np.full(k, np.nan)
    bad = np.zeros(k, int)
    if not n or k <= 0 or not last > first:
        return Columns(low, high, bad, first, last, ())
    begin = int(np.searchsorted(line.steps, first, "left"))
    end = int(np.searchsorted(line.steps, last, "right"))
    x = line.steps[begin:end]
    edges = begin + np.searchsorted(x, first + (last - first) * np.arange(1, k) / k, "left")
    starts = np.concatenate([[begin], edges]).astype(int)
    stops = np.concatenate([edges, [end]]).astype(int)
    filled = np.flatnonzero(stops > starts)
    if len(filled):
        at = starts[filled]
        low[filled] = np.minimum.reduceat(line.floor[:end], at)
        high[filled] = np.maximum.reduceat(line.ceiling[:end], at)
        low[~np.isfinite(low)] = np.nan
        high[~np.isfinite(high)] = np.nan
        bad = line.bad_before[stops] - line.bad_before[starts]
    return Columns(low, high, bad, first, last, tuple(_links(line, filled, starts, end, first, last, k)))


def _links(
    line: Line, filled: np.ndarray, starts: np.ndarray, end: int, first: float, last: float, k: int
) -> list[tuple[float, float, float, float]]:
    """Joins between the last point of one column and the first of the next one, also across the edge of the view."""
    pairs = [(int(starts[c]) - 1, int(starts[c])) for c in filled if starts[c] > 0]
    if 0 < end < len(line.steps):
        pairs.append((end - 1, end))
    scale = k / (last - first)
    found = []
    for a, b in pairs:
        if line.finite[a] and line.finite[b]:
            found.append(
                (
                    (float(line.steps[a]) - first) * scale,
                    float(line.values[a]),
                    (float(line.steps[b]) - first) * scale,
                    float(line.values[b]),
                )
            )
    return found


@dataclass(frozen=True)
class Axis:
    """Value axis. `log` draws powers of ten; low < high always."""

    low: float
    high: float
    log: bool

    def place(self, value: float) -> float:
        """0 at the bottom, 1 at the top; clipped."""
        low, high, v = self.low, self.high, value
        if self.log:
            low, high, v = np.log10(low), np.log10(high), np.log10(max(value, self.low))
        elif max(abs(low), abs(high)) > _HUGE:
            low, high, v = low / 1e10, high / 1e10, v / 1e10
        return float(min(1.0, max(0.0, (v - low) / (high - low))))


def axis(limits: tuple[float, float] | None, log: bool | None = None) -> Axis:
    """The axis for values in `limits`; `log=None` chooses by their range."""
    low, high = limits or (0.0, 1.0)
    can = low > 1 / _HUGE
    if can and (log or (log is None and high / low > LOG_RANGE)):
        return Axis(low, high, True) if high > low else Axis(low / 2, high * 2, True)
    if high <= low:
        room = abs(low) * 0.1 or 1.0
        return Axis(low - room, low + room, False)
    return Axis(low, high, False)


def braille(cut: Columns, scale: Axis, rows: int) -> np.ndarray:
    """int[rows, k // 2]: code points of the braille cells of a view of `rows` text rows."""
    k = len(cut.low) - len(cut.low) % 2
    height = rows * 4
    grid = np.zeros((height, k), bool)
    if rows <= 0 or k <= 0:
        return np.full((max(rows, 0), k // 2), BLANK)
    for c in np.flatnonzero(np.isfinite(cut.low[:k])):
        _bar(grid, int(c), scale.place(float(cut.low[c])), scale.place(float(cut.high[c])))
    for x0, y0, x1, y1 in cut.links:
        _join(grid, x0, scale.place(y0), x1, scale.place(y1))
    cells = grid.reshape(rows, 4, k // 2, 2)
    codes: np.ndarray = BLANK + (cells * _DOTS[None, :, None, :]).sum(axis=(1, 3))
    return codes


def _bar(grid: np.ndarray, column: int, low: float, high: float) -> None:
    top = grid.shape[0] - 1
    grid[top - round(high * top) : top - round(low * top) + 1, column] = True


def _join(grid: np.ndarray, x0: float, y0: float, x1: float, y1: float) -> None:
    """A straight line between two places; heights at the borders of the columns that it crosses."""
    first, last = int(np.floor(x0)), int(np.floor(x1))
    if last <= first:
        return
    for c in range(max(first, 0), min(last, grid.shape[1] - 1) + 1):
        here = _between(max(float(c), x0), x0, y0, x1, y1)
        there = _between(min(float(c + 1), x1), x0, y0, x1, y1)
        _bar(grid, c, min(here, there), max(here, there))


def _between(x: float, x0: float, y0: float, x1: float, y1: float) -> float:
    return y0 + (y1 - y0) * (x - x0) / (x1 - x0)


def number(value: float) -> str:
    """A value for people, at most 7 characters wide."""
    if not np.isfinite(value):
        return "NaN" if np.isnan(value) else ("Inf" if value > 0 else "-Inf")
    size = abs(value)
    if size and (size >= 1e6 or size < 1e-3):
        return f"{value:.1e}".replace("e+0", "e").replace("e-0", "e-").replace("e+", "e")
    if size >= 1000 or value == int(value):
        return f"{value:.0f}"
    return f"{value:.4g}"
