"""Whether the learning rate goes on along the schedule that it followed so far.

What it sees
    `leaves`: another value for a step that was trained before, or a break in its course: at a restart of the steps,
    back to the beginning of the course, or upwards without a pattern, or a rise beyond all that it was after it had
    come down; or one long flat stretch within a smooth decay (a stall). `follows` where the whole course is smooth,
    goes down in steps, or restarts evenly. At a restart of the steps also `not-restored` or `restored`: what it was at
    the same steps before.
Why it matters
    A scheduler that is not restored, stepped twice, or set for another number of steps shows here exactly, without
    any statistics (D2-res-3, D0-sym-4).
Blind when
    No learning rate was logged, or fewer than five rows.
Easily mistaken for
    Step decay and planned warm restarts; a learning rate that a person lowered on purpose after a rollback.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from playbook.detectors import stats
from playbook.detectors.shared import Shared, answer, blind, finding
from playbook.detectors.stats.curve import Curve, since
from playbook.detectors.stats.rate import LEAP
from playbook.findings import Finding, Scan

NAME = "schedule"
NEEDS = ("lr",)
OPTIONAL = ("loss",)
KINDS = ("leaves", "follows", "restored", "not-restored")

LEAST = 5  # rows
OFF = 0.05  # relative difference of two learning rates of one step
STALLED, HIGH, FLOOR = 0.02, 0.98, 0.15  # share of the rows; shares of the peak between which a decay is under way
STEEP, CURVED = 0.75, 1.5  # shares of the steepest slope: at the stall; between the first quarter and the steepest one
BREAK = math.log(1.3)  # from one row to the next, beyond the usual change


def look(shared: Shared) -> Scan:
    if gap := shared.lacks(NEEDS):
        return blind(NAME, gap)
    lr = shared.curve("lr")
    assert lr is not None
    if int(lr.finite.sum()) < LEAST:
        return blind(NAME, f"only {stats.rows(int(lr.finite.sum()))} of the learning rate")
    resumed = [f for past, at in _pasts(shared, lr) for f in _at_restart(lr, past, at)][:10]
    breaks = _breaks(shared, lr)
    out = resumed + breaks + ([] if resumed or breaks else _outgrows(lr) or _stalls(lr))
    if not any(f.kind == "leaves" for f in out):
        text = f"learning rate takes a smooth course over {stats.rows(len(lr))}"
        out.append(finding(NAME, "follows", lr, len(lr) - 1, text, 0.8))
    return answer(NAME, out, "")


@dataclass(frozen=True, slots=True)
class Past:
    """All rows before a restart: their first and last step, the highest and the lowest rate, and the restart after."""

    first: int
    last: int
    highest: float
    lowest: float
    edge: int


def _pasts(shared: Shared, lr: Curve) -> list[tuple[Past, int]]:
    """The restarts that go on from an earlier step, each with what was before."""
    fresh = {_start(shared, seg.lo) for seg in shared.segments if seg.kind in ("init", "rewrite", "counter")}
    at = lr.restarts
    if not len(at):
        return []
    low = np.minimum.accumulate(lr.steps)[at - 1]
    high = np.maximum.accumulate(np.where(lr.finite, lr.steps, lr.steps.min()))[at - 1]
    most = np.maximum.accumulate(np.where(lr.finite, lr.values, -np.inf))[at - 1]
    least = np.minimum.accumulate(np.where(lr.finite, lr.values, np.inf))[at - 1]
    columns = (low.tolist(), high.tolist(), most.tolist(), least.tolist(), [*at[1:].tolist(), len(lr)])
    pasts = [Past(*row) for row in zip(*columns, strict=True)]
    return [(past, k) for past, k in zip(pasts, at.tolist(), strict=True) if int(lr.steps[k]) not in fresh]


def _at_restart(lr: Curve, past: Past, at: int) -> list[Finding]:
    """The learning rate of a resumed segment against what it was at the same steps."""
    begin = int(lr.steps[at])
    if begin <= past.first + 2 * lr.spacing:
        return []  # a fresh start
    own = at + np.flatnonzero(lr.finite[at : min(at + 32, past.edge)])
    own = own[lr.steps[own] <= past.last]
    if not len(own):
        return []
    near = since(lr, at, begin, int(lr.steps[own[-1]]))
    old = near + np.flatnonzero(lr.finite[near:at])
    old = old[np.argsort(lr.steps[old], kind="stable")]
    if len(old) < 2:
        return []
    expected = np.interp(lr.steps[own], lr.steps[old], lr.values[old])
    scale = max(past.highest, 1e-30)
    off = np.abs(lr.values[own] - expected)
    wrong = off > OFF * np.maximum(np.abs(expected), 0.02 * scale)
    n = stats.number
    if float(wrong.mean()) < 0.5:
        if wrong.any() or not np.isin(lr.steps[own], lr.steps[old]).all() or past.highest == past.lowest:
            return []  # a constant rate shows nothing
        text = f"learning rate goes on at step {begin} with the {n(float(lr.values[own[0]]))} that it had there before"
        return [finding(NAME, "restored", lr, int(own[0]), text, 0.85)]
    k = int(np.argmax(wrong))
    text = f"learning rate is {n(float(lr.values[own[k]]))} at step {int(lr.steps[own[k]])} after the restart"
    text += f", at the same step it was {n(float(expected[k]))} before"
    numbers = {"lr": float(lr.values[own[k]]), "expected": float(expected[k])}
    return [finding(NAME, kind, lr, int(own[k]), text, 0.9, numbers=numbers) for kind in ("leaves", "not-restored")]


def _outgrows(lr: Curve) -> list[Finding]:
    """A smooth rise to well above the peak, after the decay had begun: no schedule comes back that high."""
    index = np.flatnonzero(lr.finite & (lr.values > 0))
    v = lr.values[index]
    if len(v) < 4 * LEAST or len(lr.restarts):
        return []
    falls = np.flatnonzero(np.diff(v) < 0)
    if not len(falls):
        return []
    peak = int(falls[0])
    beyond = np.flatnonzero(v[peak:] > LEAP * v[peak])
    if not len(beyond) or float(v[: peak + 1].max()) > v[peak]:
        return []
    low = peak + int(np.argmin(v[peak : peak + int(beyond[0])]))
    if v[low] > 0.98 * v[peak]:
        return []
    step, n = int(lr.steps[index[low]]), stats.number
    text = f"learning rate came down from {n(float(v[peak]))} to {n(float(v[low]))}, turns up at step {step}"
    text += f" and reaches {n(float(v.max()))}"
    numbers = {"peak": float(v[peak]), "highest": float(v.max())}
    return [finding(NAME, "leaves", lr, int(index[low]), text, 0.85, numbers=numbers)]


def _warms_up_in_steps(v: np.ndarray, ups: np.ndarray) -> bool:
    """True where all sudden rises belong to a warm-up that goes up evenly, once an epoch."""
    first = np.flatnonzero(np.diff(v) < 0)
    rising = np.diff(v[: first[0] + 1] if len(first) else v)
    stairs = np.flatnonzero(rising > 0)
    if len(stairs) < 2 or not np.isin(ups, stairs).all():
        return False
    return bool(np.ptp(rising[stairs]) < OFF * float(rising[stairs].max())) and stats.evenly(stairs.tolist(), -1)


def _stalls(lr: Curve) -> list[Finding]:
    """The one flat stretch of a decay that goes down row by row: nobody stepped the scheduler.

    One that lasts to the end may be a floor: it counts only where the rate came down along a curve, on which a floor is
    reached gently, and stood still in full fall.
    """
    index = np.flatnonzero(lr.finite & (lr.values > 0))
    v = lr.values[index]
    if len(v) < 8 * LEAST or len(lr.restarts):
        return []
    top = float(v.max())
    peak = len(v) - 1 - int(np.argmax(v[::-1]))  # the last row at the peak
    decay = v[peak:]
    change = np.diff(decay)
    still = change == 0
    edges = np.flatnonzero(np.diff(np.concatenate([[False], still, [False]]).astype(np.int8)))
    begins, ends = edges[::2], edges[1::2]
    if not len(begins) or (change > 0).any():
        return []
    k = int(np.argmax(ends - begins))
    begin, end = int(begins[k]), int(ends[k])
    others = np.delete(ends - begins, k)
    if end - begin < max(LEAST, STALLED * len(v)) or (len(others) and end - begin < 10 * int(others.max())):
        return []  # steps of a staircase, or figures that are too short for the decay
    level = float(decay[begin])
    if begin < 4 * LEAST or not FLOOR * top < level < HIGH * top or np.count_nonzero(still[:begin]) > 0.1 * begin:
        return []
    slopes = -change / np.maximum(np.diff(lr.steps[index[peak:]]), 1)
    late = float(np.median(slopes[begin - LEAST : begin]))
    if end > len(change) - LEAST:
        early, most = np.median(slopes[: begin // 4]), np.median(np.sort(slopes[:begin])[-begin // 4 :])
        if late < STEEP * most or early * CURVED > most:
            return []
    elif not STEEP * late <= float(np.median(slopes[end : end + LEAST])) <= late / STEEP:
        return []  # another part of a plan: it does not go on where it stood still
    at = int(index[peak + begin])
    step, until, n = int(lr.steps[at]), int(lr.steps[index[peak + end]]), stats.number
    text = f"learning rate, which came down row by row, stands at {n(level)} from step {step} to {until}"
    return [finding(NAME, "leaves", lr, at, text, 0.6, numbers={"level": level, "until": float(until)})]


def _start(shared: Shared, row: int) -> int:
    return int(shared.loss.steps[row]) if shared.loss is not None else -1


def _breaks(shared: Shared, lr: Curve) -> list[Finding]:
    """Sudden changes inside a segment."""
    index = np.flatnonzero(lr.finite & (lr.values > 0))
    if len(index) < LEAST:
        return []
    x = np.log(lr.values[index])
    change = np.diff(x)
    change[np.diff(lr.steps[index]) <= 0] = 0.0
    # the usual change of the neighbourhood: the start of a linear warm-up doubles from row to row
    before = np.concatenate([[0.0], np.abs(change[:-1])])
    after = np.concatenate([np.abs(change[1:]), [0.0]])
    sudden = (
        (np.abs(change) > BREAK) & (np.abs(change) > 4.0 * np.minimum(before, after)) & (np.abs(change) > 2.0 * before)
    )
    # a rate of nothing in the first row of a warm-up has no logarithm: the row behind it tells
    anew = {int(lr.steps[index[min(k, len(index) - 1)]]) for k in np.searchsorted(lr.steps[index], shared.begins_anew)}
    again = np.flatnonzero(np.isin(lr.steps[index[1:]], list(anew)) & (change != 0))
    at = np.union1d(np.flatnonzero(sudden), again)
    at = at[at >= 2]
    resumes = [seg for seg in shared.segments if seg.kind in ("resume", "counter")]
    marks = np.array([_start(shared, seg.lo) for seg in resumes], dtype=np.int64)
    ups = at[change[at] > 0]
    peaks = x[ups + 1] if len(ups) else np.empty(0)
    # at least two rises to one height, or to heights that shrink evenly: planned restarts
    planned = len(ups) >= 2 and (np.ptp(peaks) < 0.1 or bool((np.diff(peaks) <= 0.02).all()))
    planned = planned or _warms_up_in_steps(lr.values[index], ups)
    out: list[Finding] = []
    for k in at.tolist():
        row = int(index[k + 1])
        step = int(lr.steps[row])
        resumed = len(marks) > 0 and bool(np.min(np.abs(marks - step)) <= 3 * lr.spacing)
        up = change[k] > 0
        if not resumed and step not in anew and (not up or planned):
            continue
        if not resumed and k >= len(change) - 1:
            continue  # the last row alone proves nothing
        factor = math.exp(min(float(change[k]), 500.0))
        n = stats.number
        text = f"learning rate goes from {n(math.exp(float(x[k])))} to {n(math.exp(float(x[k + 1])))} at step {step}"
        if step in anew:
            text += " and begins its course again"
        else:
            text += ", right after a resume" if resumed else ", against its course so far"
        sure = 0.88 if resumed or step in anew else 0.6
        out.append(finding(NAME, "leaves", lr, row, text, sure, numbers={"factor": factor}))
    return out[:10]
