"""Where one metric of a run leaves that of a reference: row by row for one seed, level against level for two.

Two runs of one seed and data are equal until something differs, and then they drift apart by rounding alone: a
departure is a sudden one, or one that goes beyond what drifting does. Two seeds of one configuration differ in every
row, in the time at which they learn, and a little in their level: only what is outside all of that is a departure.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass

import numpy as np

from playbook.detectors.stats import diff_sigma as noise
from playbook.series import Series
from playbook.workflow.comparison.pairs import aligned, clean, correlation
from playbook.workflow.comparison.rate import off_schedule

# Two runs of one seed on one machine agree to this relative difference; beyond it they are different runs.
SAME = 1e-3
SUDDEN, FLAT = 2e-3, 1e-6  # relative: from flat to beyond this within a few rows is an event, not rounding that grew
TIED_ROWS, TIED = 40, 0.8  # rows whose noise says that they saw the same samples, and its correlation
DEVIATIONS = 6.0
LASTING = 5  # rows in a row, or this many at the end
AT_THE_END = 3
WINDOW = 25  # rows over which a lasting difference of two equal seeds is averaged
BINS = 200  # levels along the steps that two seeds are compared by
ROWS_A_BIN = 5
LASTING_BINS = 3
LAG = 0.2  # share of the steps so far by which one seed may learn earlier than another
START_SHARE = 0.02  # of the level at the start: differences below are no matter
TINY = 1e-300  # keeps a division by a value of 0 finite
# Relative differences below which nothing is said: of two runs of one seed, of two seeds.
FLOORS = {
    "loss": (0.01, 0.06),
    "eval_loss": (0.01, 0.06),
    "grad_norm": (0.10, 0.60),
    "loss_scale": (0.5, 3.0),
    "throughput": (0.10, 0.12),
}
NO_NUMBER_IS_A_FAULT = frozenset({"loss", "grad_norm", "eval_loss"})
# What depends on the machine and its neighbours, not on the seed, is never equal for good.
OF_THE_MACHINE = frozenset({"throughput"})


@dataclass(frozen=True, slots=True)
class Departure:
    """One metric: the first step at which it departs for good, by how much, and until when it was equal to `SAME`."""

    metric: str
    step: int | None
    reference: float | None
    run: float | None
    equal_until: int | None
    common: int
    because: str
    rank: int | None = None
    blur: int = 0  # steps by which `step` may be off


def departure(name: str, reference: Series, run: Series, paired: bool) -> Departure | None:
    """How one metric of `METRICS` departs; None where the two have no steps in common."""
    (sa, a), (sb, b) = clean(reference), clean(run)
    if not len(sa) or not len(run):
        return None
    if name in NO_NUMBER_IS_A_FAULT and (broken := _not_finite(name, reference, run)):
        return broken
    inside = (sb >= sa[0]) & (sb <= sa[-1])
    if not inside.any():
        return None
    if name == "lr":
        return _rate(sa, a, sb[inside], b[inside])
    steps, x, y = aligned(reference, run)
    if paired and len(steps) >= 3 and name not in OF_THE_MACHINE:
        return _row_by_row(name, steps, x, y)
    return _levels(name, sa, a, sb[inside], b[inside])


def same_seed(reference: Series | None, run: Series | None) -> bool:
    """Whether two runs had the same weights and samples to begin with: their first rows say so, or their noise."""
    steps, a, b = aligned(reference, run)
    if len(steps) < 2:
        return False
    off = np.abs(a - b) / np.maximum(np.abs(a), TINY)
    if off[:2].max() <= 1e-4 or (len(off) >= LASTING and off[:LASTING].max() <= SAME):
        return True
    return len(steps) >= TIED_ROWS and correlation(a[:200], b[:200]) > TIED


def _not_finite(name: str, reference: Series, run: Series) -> Departure | None:
    """The run has no number to its end, or its loss has none once, where the reference has one."""
    steps, a = clean(reference)
    own = ~run.finite & (run.steps >= steps[0]) & (run.steps <= steps[-1])
    own &= ~np.isin(run.steps, reference.steps[~reference.finite])
    good = np.flatnonzero(run.finite)
    ended = int(good[-1]) + 1 if len(good) else 0
    tail = ended + np.flatnonzero(own[ended:])
    # single gradients that overflow are the business of a loss scaler, single losses are not
    found = tail if len(tail) or name != "loss" else np.flatnonzero(own)
    if not len(found):
        return None
    index = int(found[0])
    step = int(run.steps[index])
    value = float(a[np.searchsorted(steps, step, side="right") - 1])
    when = f"from step {step} on" if len(tail) else f"at step {step}"
    what = f"{name} is {run.values[index]} {when}, {value:.6g} in the reference"
    return Departure(name, step, value, float(run.values[index]), None, len(steps), what)


def _rate(sa: np.ndarray, a: np.ndarray, sb: np.ndarray, b: np.ndarray) -> Departure:
    """The learning rate has no noise and no seed: any other schedule is a departure."""
    off = off_schedule((sa, a), (sb, b))
    index = _first_lasting(off, AT_THE_END)
    if index is None:
        return Departure("lr", None, None, None, int(sb[-1]), len(sb), f"the same schedule over {len(sb)} rows")
    step, was = int(sb[index]), float(np.interp(sb[index], sa, a))
    what = f"lr {b[index]:.6g} against {was:.6g} at step {step}"
    return Departure("lr", step, was, float(b[index]), int(sb[index - 1]) if index else None, len(sb), what)


def _row_by_row(name: str, steps: np.ndarray, a: np.ndarray, b: np.ndarray) -> Departure:
    """Two runs of one seed, at their common steps."""
    scale = np.maximum(np.abs(a), TINY)
    off = (b - a) / scale
    equal = np.abs(off) <= SAME
    head = len(equal) if equal.all() else int(np.argmin(equal))
    until = int(steps[head - 1]) if head else None
    count = f"over {len(steps)} common steps"
    if head == len(equal):
        return Departure(name, None, None, None, until, len(steps), f"equal within {SAME:.1%} {count}")
    index = head if _sudden(off, head, a) else _beyond_drift(name, off, a, b)
    if index is None:
        what = f"equal within {SAME:.1%} until step {until}, then apart" if head else "apart"
        what += f" by no more than rounding and random state do, {count}"
        return Departure(name, None, None, None, until, len(steps), what)
    # rows just before that are apart already belong to it
    index = head if index - head <= WINDOW else index
    what = f"{name} {b[index]:.6g} against {a[index]:.6g} at step {steps[index]}"
    what += f", equal within {SAME:.1%} until step {until}" if head else ""
    return Departure(name, int(steps[index]), float(a[index]), float(b[index]), until, len(steps), what)


def _sudden(off: np.ndarray, head: int, a: np.ndarray) -> bool:
    """Equal to the last digit, then at once apart: nothing that grew."""
    if head < 1 or (head < 3 and np.abs(off[:head]).max() > FLAT):
        return False
    before, after = np.abs(off[max(0, head - 5) : head]), np.abs(off[head : head + 3])
    digits = 5e-5 if np.all(np.round(a, 4) == a) else FLAT
    return bool(before.max() <= digits and after.max() > max(SUDDEN, 100 * digits))


def _beyond_drift(name: str, off: np.ndarray, a: np.ndarray, b: np.ndarray) -> int | None:
    """First row of a difference that rounding does not grow to: large in every row, or lasting on the average."""
    floor = FLOORS[name][0]
    matters = np.maximum(floor, START_SHARE / 2 * abs(float(np.median(a[:3]))) / np.maximum(np.abs(a), TINY))
    spread = max(noise(a), noise(b)) * np.sqrt(2) / np.maximum(np.abs(a), TINY)
    large = _first_lasting(np.abs(off) > np.maximum(DEVIATIONS * spread, matters), AT_THE_END)
    size = min(WINDOW, len(off))
    if size < 8:
        return large
    windows = np.lib.stride_tricks.sliding_window_view(off, size)
    mean, error = windows.mean(axis=1), windows.std(axis=1) / np.sqrt(size)
    biased = np.abs(mean) > np.maximum(DEVIATIONS * error, matters[size - 1 :])
    window = _first_lasting(biased, LASTING)
    if window is None:
        return large
    own = np.abs(off[window : window + size]) > matters[window : window + size]
    return min(x for x in (large, window + int(np.argmax(own))) if x is not None)


def _levels(name: str, sa: np.ndarray, a: np.ndarray, sb: np.ndarray, b: np.ndarray) -> Departure:
    """Two seeds, by their levels in `BINS` stretches of the steps."""
    floor = FLOORS[name][1]
    kept = (sa >= sb[0]) & (sa <= sb[-1])
    rows = min(int(kept.sum()), len(sb))
    bins = int(min(BINS, rows // ROWS_A_BIN))
    if bins < LASTING_BINS:
        return Departure(name, None, None, None, None, rows, f"{rows} rows are too few to tell from another seed")
    log = bool(a.min() > 0 and b.min() > 0)
    x, y = (np.log(a), np.log(b)) if log else (a, b)
    if not log:
        floor *= max(float(np.median(np.abs(a))), TINY)
    edges = np.linspace(sb[0], sb[-1] + 1, bins + 1)
    centre, ours = _binned(sa, x, edges)
    _, theirs = _binned(sb, y, edges)
    low, high = _band(centre, ours, 0.0 if name in OF_THE_MACHINE else LAG)
    outside = np.where(theirs > high, theirs - high, np.where(theirs < low, theirs - low, 0.0))
    per_bin = max(1.0, rows / bins)
    error = 1.25 * np.hypot(noise(x[kept]), noise(y)) / np.sqrt(per_bin)
    room = np.full(bins, max(floor, DEVIATIONS * error, 2 * _wander(ours)))
    if log and name not in OF_THE_MACHINE:
        start = float(np.exp(np.median(x[:3])))
        room = np.maximum(room, np.log1p(START_SHARE * start / np.exp(np.clip(ours, -600, 600))))
    index = _first_lasting(np.nan_to_num(np.abs(outside)) > room, LASTING_BINS, LASTING_BINS)
    if index is None:
        what = "within its noise" if name in OF_THE_MACHINE else "within what another seed does"
        return Departure(name, None, None, None, None, rows, f"{what} over {rows} rows")
    row = _refined(sb, y, edges, index, low, high, float(outside[index]))
    was = float(np.interp(sb[row], sa, a))
    what = f"{name} {b[row]:.6g} against {was:.6g} at step {sb[row]}"
    if name not in OF_THE_MACHINE:
        what = f"{name} {b[row]:.6g} against {was:.6g} at about step {sb[row]}, beyond what another seed does"
    return Departure(name, int(sb[row]), was, float(b[row]), None, rows, what, blur=int(edges[1] - edges[0]))


def _binned(steps: np.ndarray, x: np.ndarray, edges: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(centre, median) of each bin; a bin without rows takes its neighbours' line."""
    place = np.searchsorted(steps, edges)
    middle = np.array([np.median(x[i:j]) if j > i else np.nan for i, j in itertools.pairwise(place)])
    centre = (edges[1:] + edges[:-1]) / 2
    good = np.isfinite(middle)
    return centre, np.interp(centre, centre[good], middle[good]) if good.any() else middle


def _band(centre: np.ndarray, level: np.ndarray, lag: float) -> tuple[np.ndarray, np.ndarray]:
    """Lowest and highest level of the reference around each bin: a seed may learn earlier or later."""
    reach = lag * centre + (centre[1] - centre[0])
    first = np.searchsorted(centre, centre - reach)
    last = np.searchsorted(centre, centre + reach, side="right")
    low = np.array([level[i:j].min() for i, j in zip(first, last, strict=True)])
    high = np.array([level[i:j].max() for i, j in zip(first, last, strict=True)])
    return low, high


def _wander(level: np.ndarray) -> float:
    """How far the reference itself moves from one bin to the next."""
    return float(np.quantile(np.abs(np.diff(level)), 0.9))


def _refined(
    steps: np.ndarray, y: np.ndarray, edges: np.ndarray, index: int, low: np.ndarray, high: np.ndarray, size: float
) -> int:
    """The first row about a bin that is half as far outside as the bin is."""
    first = int(np.searchsorted(steps, edges[max(0, index - 1)]))
    last = int(np.searchsorted(steps, edges[index + 1]))
    off = y[first:last] - high[index] if size > 0 else low[index] - y[first:last]
    hits = off > abs(size) / 2
    return first + (int(np.argmax(hits)) if hits.any() else max(0, last - first - 1))


def _first_lasting(flags: np.ndarray, at_end: int, lasting: int = LASTING) -> int | None:
    """First index from which `lasting` flags in a row (or all that are left, at least `at_end`) are True."""
    run = 0
    for index, flag in enumerate(flags):
        run = run + 1 if flag else 0
        if run >= lasting:
            return index - run + 1
    return len(flags) - run if run >= min(at_end, len(flags)) and run else None
