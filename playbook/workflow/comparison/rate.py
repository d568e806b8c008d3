"""Does a learning rate go on? Drawn on from both sides of a seam: a schedule has no noise, but it may have a bend."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from playbook.workflow.comparison.seam import Points

ROWS, LEAST_ROWS = 24, 8  # rows on either side that give the exact slope at the seam, at most and at least
NEAR_ROWS = 4  # steps from row to row that give the tangent
FLAT_ROWS = 5
CLOSE = 0.02  # relative to the rate: rounding in the log, a step counted from 0 or from 1
RATE_CLOSE = 0.01  # relative, at a step that both logged
TIMES = (2, 3, 4, 8, 16)
TIMES_CLOSE = 0.04


@dataclass(frozen=True, slots=True)
class Continued:
    """How a rate goes on.

    fits        the two sides meet, with a bend at most
    times       how many times as fast it changes a step, where exactly so
    step_down   constant on both sides and lower behind: such a schedule falls in steps
    """

    fits: bool
    expected: float
    times: int | None = None
    step_down: bool = False


def continued(before: Points, after: Points) -> Continued:
    """How the rate goes on over the seam. Needs 2 rows before it and 1 after."""
    (s, v), (s2, v2) = before, after
    gap = float(s2[0] - s[-1])
    row = float(np.median(np.diff(s)))
    last, first = float(v[-1]), float(v2[0])
    slope, earlier = _slopes(s[::-1], v[::-1])
    slope2, later = _slopes(s2, v2) if len(s2) > 1 else (slope, slope)
    forward, backward = last + slope * gap, first - slope2 * gap
    room = CLOSE * max(abs(last), abs(first)) + 2 * max(abs(slope), min(abs(slope2), abs(slope) * 4))
    # a curved schedule leaves its tangent, the more the longer the gap
    ahead = room + 2 * abs(slope - earlier) * gap
    behind = room + 2 * abs(slope2 - later) * gap
    meets = (
        abs(first - forward) <= ahead
        or abs(backward - last) <= behind
        or (gap <= 3 * row and abs(first - last) <= CLOSE * max(abs(last), abs(first)))
        or _bends(last, forward, first, backward)
    )
    if not meets and not _known_jump(v, last, first):
        flat = all(len(x) > 2 and np.ptp(x) <= 1e-6 * np.abs(x).max() for x in (v[-FLAT_ROWS:], v2[:FLAT_ROWS]))
        return Continued(False, forward, step_down=flat and 0 < first < last)
    ratio = _end_slope(s2[:ROWS] - s2[0], v2[:ROWS]) / _end_slope(s[-ROWS:] - s[-1], v[-ROWS:])
    return Continued(True, forward, next((n for n in TIMES if abs(ratio / n - 1) < TIMES_CLOSE), None))


def off_schedule(before: Points, after: Points) -> np.ndarray:
    """bool per row of AFTER, all within BEFORE's steps: its rate is none that BEFORE had about there.

    About: within two steps, or within a row of a run that logs more seldom.
    """
    (s, v), (s2, v2) = before, after
    row = float(np.median(np.diff(s))) if len(s) > 1 else 1.0
    near = np.array([np.interp(s2 + d, s, v) for d in (-row, -2, -1, 0, 1, 2, row)])
    low, high = near.min(axis=0), near.max(axis=0)
    room = RATE_CLOSE * np.maximum(np.abs(high), 1e-12)
    return (v2 < low - room) | (v2 > high + room)


def starts_at(before: Points, after: Points) -> bool:
    """The rate after the seam is that of the step right behind the last one, whatever the counter says."""
    (s, _), (s2, v2) = before, after
    spacing = float(np.median(np.diff(s2))) if len(s2) > 1 else 1.0
    return continued(before, (s2 - s2[0] + s[-1] + max(1, int(spacing)), v2)).fits


def _bends(last: float, forward: float, first: float, backward: float) -> bool:
    """The two lines cross between the sides: the end of a warm-up, the beginning of a decay."""
    return (forward - first) * (last - backward) < 0


def _known_jump(v: np.ndarray, last: float, first: float) -> bool:
    """A schedule of steps or of cycles that jumped by this factor before."""
    if last <= 0 or first <= 0 or v.min() <= 0:
        return False
    jumps = np.diff(np.log(v))
    jump = np.log(first / last)
    return bool(np.any(np.abs(jumps[np.abs(jumps) > 0.05] - jump) < 0.05 + 0.03 * abs(jump)))


def _slopes(s: np.ndarray, v: np.ndarray) -> tuple[float, float]:
    """The slope of the rows next to the seam (first in the arrays) and of those behind them."""
    d = np.diff(v) / np.diff(s)
    near = float(np.median(d[:NEAR_ROWS]))
    return near, float(np.median(d[NEAR_ROWS : 2 * NEAR_ROWS])) if len(d) > NEAR_ROWS else near


def _end_slope(at: np.ndarray, v: np.ndarray) -> float:
    """Slope at 0 of the parabola that the rows lie on; NaN where they are few, lie on none, or hardly move."""
    if len(at) < LEAST_ROWS:
        return float("nan")
    scale = float(np.abs(at).max())
    fit = np.polyfit(at / scale, v, 2)
    rest = float(np.abs(np.polyval(fit, at / scale) - v).max())
    travel = abs(float(fit[1]))
    exact = rest < 0.02 * travel and travel > 1e-3 * float(np.abs(v).max())
    return float(fit[1]) / scale if exact else float("nan")
