"""A metric as one curve: rows in file order, repeated steps folded, restarts found, in a domain where noise is even.

A positive loss is looked at as its logarithm (a ratio is what counts), one that touches zero or is negative as it is,
in units of its own spread.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from playbook.detectors import stats
from playbook.series import Origin, Series

# metrics of which the mean of two rows is no value that ever was
STATES = frozenset({"loss_scale", "skipped_iters", "nan_iters", "xid", "ecc_errors", "network_errors", "lr", "epoch"})
SPENT_ROWS, SPENT_SHARE = 20, 0.1  # rows and share of them without a learning rate that are no end of a decay
FAINT = 1e-6  # of its highest: no decay that is meant to work goes so far down
ROUNDED = 20.0  # last digits
INTERLEAVED = 4  # rows: a median distance of restarts below it means mixed writers, not restarts
_NEAR = (512, 8192, 65536)  # rows before a restart, in which what it is held against is looked for


@dataclass(frozen=True, eq=False)
class Curve:
    """One metric, ready to be looked at.

    steps   int64[n], values float64[n] (non-finite kept), rows int64[n] index into the series behind it
    mixed   True where the rows of several writers were mixed and had to be sorted by step
    """

    metric: str
    steps: np.ndarray
    values: np.ndarray
    rows: np.ndarray
    series: Series
    mixed: bool = False

    def __len__(self) -> int:
        return len(self.values)

    @cached_property
    def finite(self) -> np.ndarray:
        return np.isfinite(self.values)

    @cached_property
    def restarts(self) -> np.ndarray:
        """Indices of rows whose step is lower than that of the row before."""
        return np.flatnonzero(np.diff(self.steps) < 0) + 1

    @cached_property
    def spacing(self) -> float:
        """Steps from one row to the next (median, at least 1)."""
        ahead = np.diff(self.steps)
        ahead = ahead[ahead > 0]
        return float(max(1.0, np.median(ahead))) if len(ahead) else 1.0

    def origin(self, index: int) -> Origin:
        row = int(self.rows[index])
        where = self.series.origin
        return Origin(where.path, self.series.line_at(row), where.reader)

    def before(self, step: float, rows: int | None = None) -> np.ndarray:
        """Indices of finite rows with a lower step, in order; the last `rows` of them."""
        found = np.flatnonzero((self.steps < step) & self.finite)
        return found if rows is None else found[-rows:]


def fold(series: Series) -> Curve:
    """The curve of a series: rows that repeat the step of the row before become one.

    Of a quantity the mean (non-finite wins), of a state or a counter the last row.
    """
    steps: np.ndarray = np.asarray(series.steps, dtype=np.int64)
    values: np.ndarray = np.asarray(series.values, dtype=np.float64)
    rows: np.ndarray = np.arange(len(values))
    mixed = False
    if len(steps) > 1:
        back = np.flatnonzero(np.diff(steps) < 0) + 1
        if len(back) > 8 and np.median(np.diff(np.concatenate([[0], back]))) < INTERLEAVED:
            order = np.argsort(steps, kind="stable")
            steps, values, rows, mixed = steps[order], values[order], rows[order], True
        same = np.diff(steps) == 0
        if same.any():
            first = np.flatnonzero(np.concatenate([[True], ~same]))
            count = np.diff(np.append(first, len(steps)))
            if series.metric in STATES:
                values, rows = values[first + count - 1], rows[first + count - 1]
            else:
                with np.errstate(invalid="ignore", over="ignore"):
                    values = np.add.reduceat(values, first) / count
                rows = rows[first]
            steps = steps[first]
    return Curve(series.metric, steps, values, rows, series, mixed)


def of_ranks(metric: str, by_rank: dict[int, Series]) -> Curve | None:
    """The mean over the ranks where the job logged no value of its own; NaN at a step where any rank has one."""
    filled = [s for s in by_rank.values() if len(s)]
    if not filled:
        return None
    if len(filled) == 1:
        return fold(filled[0])
    lead = filled[0]
    if all(len(s) == len(lead) and np.array_equal(s.steps, lead.steps) for s in filled[1:]):
        total: np.ndarray = np.zeros(len(lead))
        with np.errstate(invalid="ignore", over="ignore"):
            for s in filled:
                total += s.values
        mean = Series(metric, None, lead.steps, total / len(filled), lead.lines, lead.origin, lead.raw)
        return fold(mean)
    steps = np.concatenate([s.steps for s in filled])
    values = np.concatenate([s.values for s in filled])
    unique, place = np.unique(steps, return_inverse=True)
    with np.errstate(invalid="ignore", over="ignore"):
        total = np.bincount(place, weights=values, minlength=len(unique))
        mean_values = total / np.bincount(place, minlength=len(unique))
    return fold(Series(metric, None, unique, mean_values, None, lead.origin, lead.raw))


@dataclass(frozen=True, slots=True)
class Domain:
    """How values become x: the logarithm, or the value over `unit`."""

    log: bool
    unit: float = 1.0

    def x(self, values: np.ndarray) -> np.ndarray:
        """float64, as many as there are; a zero, as some loggers print it, becomes -inf without a warning."""
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.log(values) if self.log else values / self.unit

    def value(self, x: float) -> float:
        return float(np.exp(min(x, 700.0))) if self.log else x * self.unit

    def ratio(self, rise: float) -> float:
        """A rise in x as "times the level"."""
        return float(np.exp(min(rise, 50.0))) if self.log else 1.0 + rise


def domain(values: np.ndarray) -> Domain:
    """The domain of finite values: logarithmic where all are positive."""
    if len(values) and values.min() > 0.0:
        return Domain(True)
    if not len(values):
        return Domain(False)
    low, middle, high = np.quantile(values[:: max(1, len(values) // 100_000)], [0.1, 0.5, 0.9])
    unit = max(abs(float(middle)), float(high - low), 1e-12)
    return Domain(False, unit)


def since(curve: Curve, at: int, low: int, high: int) -> int:
    """The first of the last rows before `at` that reach from step `low` to step `high`; 0 where it needs all of them.

    What a restart is held against lies near it; a run of thousands of restarts is not gone through for each.
    """
    for size in _NEAR:
        part = curve.steps[max(0, at - size) : at]
        if len(part) < size:
            break
        if part.min() <= low and part.max() >= high:
            return at - size
    return 0


def at_steps(curve: Curve, steps: np.ndarray) -> np.ndarray:
    """Values of a curve at steps: that of the nearest row at or before each (NaN before the first), last run wins."""
    order = np.argsort(curve.steps, kind="stable")
    place = np.searchsorted(curve.steps[order], steps, side="right") - 1
    out = curve.values[order][np.maximum(place, 0)] if len(curve) else np.full(len(steps), np.nan)
    return np.where(place >= 0, out, np.nan)


def spent(lr: Curve) -> int | None:
    """Row from which on a learning rate that had worked is as good as 0 to the end; None where it never is for long.

    A rate printed with few decimals shows as 0 while it still works: what came before must have been well above the
    last digit.
    """
    index = np.flatnonzero(lr.finite)
    v = lr.values[index]
    works = np.flatnonzero(np.abs(v) > FAINT * float(np.abs(v).max(initial=0.0)))
    if not len(works) or len(v) - 1 - works[-1] < max(SPENT_ROWS, SPENT_SHARE * len(v)):
        return None
    before = np.abs(v[works[-4096:]])
    digits = (d for d in range(13) if bool((np.abs(before * 10.0**d - np.rint(before * 10.0**d)) < 1e-6).all()))
    digit = 10.0 ** -next(digits, 13)
    return int(index[works[-1] + 1]) if float(before.min()) > ROUNDED * digit else None


def noise(x: np.ndarray) -> float:
    """Noise of one row of x: from differences, but never below what rounding in the log leaves."""
    sigma = stats.diff_sigma(x)
    return max(sigma, 1e-9)
