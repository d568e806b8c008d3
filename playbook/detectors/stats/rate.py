"""What a learning rate does by plan and what not: restarts that lift a loss for a while, a course that begins anew."""

from __future__ import annotations

import numpy as np

from playbook.detectors import stats
from playbook.detectors.stats.curve import Curve

LEAP = 1.5  # times the highest learning rate so far: no schedule restarts that high
FALLS, SUDDEN = 0.9, 5.0  # of the rate of the row before, and times the changes before: not the course of a decay
THROWN = 0.5  # of the rate of the row before
RUNNING = 0.2  # of the peak: a cycle that is not over yet
COURSE, LIKE = 16, 0.03  # rows that repeat the first ones, and how nearly, as a share of the peak
LEAST = 4  # of these rows
AS_HIGH = 0.9  # of a rate
OFTEN = 64  # sudden changes of one kind: the rate of many groups in one column, or a plan


def restarts(lr: Curve, step: int, steps: float) -> bool:
    """True where, in the `steps` before a step, the learning rate rises again after it had come down.

    A first warm-up is no restart: a loss that jumps in it is at fault. Nor is a leap to more than ever before, nor a
    rate that was thrown down and is still below where it was: a lower rate lifts no loss.
    """
    at = lr.before(step + 2 * lr.spacing + 1)
    near = at[lr.steps[at] >= step - max(steps, 4 * lr.spacing)]
    if len(near) < 2:
        return False
    k = int(np.searchsorted(at, near[np.argmin(lr.values[near])]))
    while k and k == len(at) - len(near) and lr.values[at[k - 1]] < lr.values[at[k]]:
        near, k = at[k - 1 :], k - 1  # down to the foot of a rise that began earlier
    low = int(at[k])
    lowest = max(float(lr.values[low]), 1e-12)
    earlier, now = lr.values[at[at < low]], float(lr.values[near[-1]])
    if not len(earlier) or now > LEAP * float(earlier.max()):
        return False
    if lowest < THROWN * float(earlier[-1]) and now < float(earlier[-1]):
        return False
    usual = float(np.median(np.abs(np.diff(earlier[-4:])))) if len(earlier) >= 4 else np.inf
    thrown = lowest < FALLS * float(earlier[-1]) and float(earlier[-1]) - lowest > SUDDEN * usual
    if thrown and earlier[-1] >= RUNNING * earlier.max() and step <= lr.steps[low] + 0.5 * lr.spacing:
        return False
    return bool(now > 1.3 * lowest and earlier.max() > 1.1 * lowest)


def last_as_high(lr: Curve, step: int, until: float) -> int | None:
    """The last step before a restart at which the rate was as high as it becomes behind it; None for never."""
    rows = np.flatnonzero(lr.finite)
    steps, v = lr.steps[rows], lr.values[rows]
    after = v[(steps >= step) & (steps <= until)]
    before = np.flatnonzero(steps < step - lr.spacing)
    if not len(after) or not len(before):
        return None
    # down from the restart to the valley before it, and back from there
    past = v[before]
    high = np.flatnonzero(past >= AS_HIGH * float(after.max()))
    valley = np.flatnonzero(past < AS_HIGH * float(after.max()))
    high = high[high < valley[-1]] if len(valley) else high[:0]
    return int(steps[before[high[-1]]]) if len(high) else None


def begins_anew(lr: Curve) -> list[int]:
    """The rows at which the rate goes back to the beginning of its course, in the middle of it.

    Not the restarts of a schedule: those come at the end of a cycle, when the rate is low or no longer falls.
    """
    rows = np.flatnonzero(lr.finite & (lr.values >= 0))
    v, steps = lr.values[rows], lr.steps[rows].astype(np.float64)
    if len(v) < 2 * LEAST or float(v.max()) <= 0:
        return []
    change = np.diff(v)
    usual = np.median(np.lib.stride_tricks.sliding_window_view(np.abs(change), 3), axis=1)
    sudden = (np.diff(steps) > 0) & (np.abs(change) > SUDDEN * np.concatenate([np.full(3, np.inf), usual[:-1]]))
    thrown = (np.flatnonzero(sudden & (v[1:] < FALLS * v[:-1])) + 1).tolist()
    raised = (np.flatnonzero(sudden & (v[1:] > v[:-1] / FALLS)) + 1).tolist()
    if len(thrown) > OFTEN:  # each would be held against all rows before it
        return []
    thrown = [k for k in thrown if _runs(v[:k]) and (_warms_up_again(v, steps, k) or _repeats_the_start(v, steps, k))]
    raised = [k for k in raised if _runs(v[:k]) and _repeats_the_start(v, steps, k)] if len(raised) == 1 else []
    found = sorted(thrown + raised)
    if stats.evenly([int(steps[k]) for k in found], int(steps[0])):
        return []  # by plan
    return [int(rows[k]) for k in found]


def _runs(v: np.ndarray) -> bool:
    """True where the cycle of a rate is not over: it is near its peak, or well above nothing and still falls."""
    top = float(v.max())
    course = -np.diff(v[int(np.argmax(v)) :])
    if v[-1] >= FALLS * top:
        return True
    return v[-1] >= RUNNING * top and len(course) >= LEAST and bool(np.median(course[-3:]) > 0.5 * float(course.mean()))


def _warms_up_again(v: np.ndarray, steps: np.ndarray, k: int) -> bool:
    """True where the rows from k on are those of the first warm-up, which is entered anywhere."""
    top = float(v[:k].max())
    peak = int(np.argmax(v[:k] >= 0.99 * top))
    ramp = v[: peak + 1]
    if peak < 2 or (np.diff(ramp) <= 0).any():
        return False
    slope = (ramp[1] - ramp[0]) / (steps[1] - steps[0])
    begin = np.interp(v[k], ramp, steps[: peak + 1]) if v[k] >= ramp[0] else steps[0] - (ramp[0] - v[k]) / slope
    there = begin + steps[k : k + COURSE] - steps[k]
    expected = np.interp(there, steps[: peak + 1], ramp)
    expected = np.where(there < steps[0], ramp[0] - slope * (steps[0] - there), expected)
    return _alike(v[k : k + COURSE], expected, there <= steps[peak], steps[k - 1 : k + COURSE], top)


def _repeats_the_start(v: np.ndarray, steps: np.ndarray, k: int) -> bool:
    """True where the rows from k on are those of the beginning, the decay from the peak included."""
    top = float(v[:k].max())
    there = steps[0] + steps[k : k + COURSE] - steps[k]
    expected = np.interp(there, steps[:k], v[:k])
    return _alike(v[k : k + COURSE], expected, there <= steps[k - 1], steps[k - 1 : k + COURSE], top)


def _alike(course: np.ndarray, expected: np.ndarray, inside: np.ndarray, steps: np.ndarray, top: float) -> bool:
    inside = inside & (np.diff(steps) > 0)[: len(course)]
    if int(inside.sum()) < LEAST or not inside[:LEAST].all() or float(np.ptp(course[inside])) == 0.0:
        return False
    return bool((np.abs(course - expected)[inside] <= LIKE * top).all())
