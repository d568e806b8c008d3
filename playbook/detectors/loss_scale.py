"""What the dynamic loss scale does before the onset, or over the whole run.

What it sees
    Halvings and doublings of the scale: `collapses` (five halvings and more without a recovery), `falls` (lower by
    a factor of four or more, not yet a collapse), `backoffs` (the saw-tooth of a working scaler), `steady`. And `reset`
    where the steps go back and the scale is another than it was at the same step.
Why it matters
    The scale is the record of every overflow in fp16. A plunge before the spike says that numbers left the range
    (D3-tab-2, D0-num-5); without any it is hardly fp16.
Blind when
    No loss scale was logged. Under bf16 and fp32 there is none, which itself is evidence ("absent").
Easily mistaken for
    The search from 65536 downwards in the first steps; a saw-tooth with up to 2 % of the steps skipped; a
    hysteresis that is counted down without a change of the scale.
"""

from __future__ import annotations

import math

import numpy as np

from playbook.detectors import stats
from playbook.detectors.onset import Onset, onset_of, prior
from playbook.detectors.shared import Shared, answer, blind, finding
from playbook.detectors.stats.curve import Curve
from playbook.findings import Finding, Scan

NAME = "loss_scale"
NEEDS = ("loss_scale",)
OPTIONAL = ("loss",)
KINDS = ("collapses", "falls", "steady", "backoffs", "reset")

HALVINGS = 5  # without recovery
HALVING_ROWS = 12  # from the onset, in which they happen where every step overflows
FALL = 2.0  # halvings
SEARCH_ROWS, SEARCH_STEPS = 20, 100  # the first search for a scale
RECOVERED = 2.0  # doublings after the lowest point: the scaler found its range again
WINDOW_STEPS = 1000


def look(shared: Shared) -> Scan:
    if gap := shared.lacks(NEEDS):
        return blind(NAME, f"absent: {gap}")
    scale = shared.curve("loss_scale")
    assert scale is not None
    begin = onset_of(shared)
    resets = _resets(scale)
    if begin is not None and _plunges(scale, begin):
        index = np.flatnonzero(scale.finite)
        where = f"around step {begin.step}"
    elif begin is not None:
        index = prior(scale, begin)
        same = np.flatnonzero((scale.steps == begin.step) & scale.finite)  # the scale in use at the step itself
        index = np.concatenate([index, same[:1]])
        index = index[scale.steps[index] >= begin.step - max(WINDOW_STEPS, 50 * scale.spacing)]
        where = f"before step {begin.step}"
    else:
        index = np.flatnonzero(scale.finite)
        where = "in this run"
    index = index[scale.values[index] > 0]
    if not len(index):
        return blind(NAME, f"no value of the loss scale {where}")
    judged = _judged(scale, index, where, begin is not None)
    if judged.kind == "steady":
        judged = _within_a_step(shared, scale, index) or judged
    if judged.kind == "steady" and np.ptp(scale.values[index]) == 0 and _overflows(shared):
        return blind(NAME, "steps are skipped, yet the scale that is told never changes: at its least, or a fixed one")
    return answer(NAME, [judged, *resets], "")


def _overflows(shared: Shared) -> bool:
    return any(event.kind == "overflow-skip" for event in shared.run.events)


def _within_a_step(shared: Shared, scale: Curve, index: np.ndarray) -> Finding | None:
    """The fall where the log has no row between the overflows: one step has all values, in the order of the file."""
    told = shared.run.get("loss_scale")
    if told is None or len(told) <= len(scale.steps):
        return None
    inside = told.finite & (told.values > 0) & (told.steps >= scale.steps[index[0]])
    x = np.log2(told.values[inside & (told.steps <= scale.steps[index[-1]])])
    if len(x) < 2:
        return None
    depth, top, low = _deepest(x)
    if depth < FALL or float(x[low:].max() - x[low]) >= 1.0:
        return None
    n = stats.number
    text = f"loss scale falls from {n(2 ** x[top])} to {n(2 ** x[low])} with no row of the log between"
    kind, sure = ("collapses", 0.9) if depth >= HALVINGS else ("falls", 0.75)
    return finding(NAME, kind, scale, int(index[-1]), text, sure, numbers={"halvings": depth})


def _plunges(scale: Curve, begin: Onset) -> bool:
    """True where the scale begins to fall with the fault itself and never stops: the overflows are the fault.

    The scale of a row is that after its step, so the first halving stands in the row of the onset or the next.
    """
    before = prior(scale, begin, 1)
    after = np.flatnonzero(scale.finite & (scale.values > 0) & (scale.steps >= begin.step))
    if not len(before) or len(after) < HALVINGS or not scale.values[before[0]] > 0:
        return False
    fall = np.log2(scale.values[before[0]]) - np.log2(scale.values[after])
    at_once = bool(fall[min(len(fall), HALVING_ROWS) - 1] >= HALVINGS)
    return at_once and bool(fall[-1] >= HALVINGS)


def _resets(scale: Curve) -> list[Finding]:
    """Restarts of the steps at which the scale is not what it was at that step."""
    out: list[Finding] = []
    for at in scale.restarts.tolist():
        begin = int(scale.steps[at])
        old = np.flatnonzero(scale.finite[:at] & (scale.steps[:at] <= begin))
        if not len(old) or begin <= int(scale.steps[old[0]]) + 2 * scale.spacing or scale.values[at] <= 0:
            continue
        was, now = float(scale.values[old[-1]]), float(scale.values[at])
        if was > 0 and abs(math.log2(now) - math.log2(was)) >= 0.9:
            n = stats.number
            text = f"loss scale is {n(now)} at step {begin} after the restart, at the same step it was {n(was)} before"
            out.append(finding(NAME, "reset", scale, at, text, 0.85, numbers={"scale": now, "before": was}))
    return out[:10]


def _judged(scale: Curve, index: np.ndarray, where: str, at_onset: bool) -> Finding:
    x = np.log2(scale.values[index])
    steps = scale.steps[index]
    change = np.diff(x)
    backs, ups = int(np.sum(change < -0.5)), int(np.sum(change > 0.5))
    numbers = {
        "first": float(scale.values[index[0]]),
        "last": float(scale.values[index[-1]]),
        "lowest": float(2 ** x.min()),
    }
    numbers |= {"backoffs": float(backs), "growths": float(ups), "rows": float(len(x))}
    n = stats.number
    if not backs and not ups:
        text = f"loss scale stays at {n(numbers['last'])} {where}"
        return finding(NAME, "steady", scale, int(index[-1]), text, 0.9, numbers=numbers)
    start = _search(x, steps)
    depth, top, low = _deepest(x[start:])
    top, low = top + start, low + start
    rebound = float(x[low:].max() - x[low])
    numbers |= {"halvings": depth, "rebound": rebound}
    fallen = f"from {n(2 ** x[top])} at step {int(steps[top])} to {n(2 ** x[low])} at step {int(steps[low])}"
    ended = "the end of the log" if not at_onset else "the onset"
    if depth >= HALVINGS and rebound < min(RECOVERED, depth / 2):
        text = f"loss scale collapses {fallen}, {depth:.0f} halvings without a recovery up to {ended}"
        return finding(NAME, "collapses", scale, int(index[top]), text, 0.9, last_step=int(steps[low]), numbers=numbers)
    if depth >= FALL and rebound < 1.0 and float(x[top] - x[-1]) >= FALL:
        text = f"loss scale falls {fallen}"
        return finding(NAME, "falls", scale, int(index[top]), text, 0.75, last_step=int(steps[low]), numbers=numbers)
    text = f"loss scale goes up and down between {n(numbers['lowest'])} and {n(float(2 ** x.max()))} {where}"
    text += f" ({backs} backoffs, {ups} growths)"
    return finding(NAME, "backoffs", scale, int(index[-1]), text, 0.85, numbers=numbers)


def _search(x: np.ndarray, steps: np.ndarray) -> int:
    """Rows of the first search: the fall from the initial scale at the start of the log, before anything grew."""
    down = 0
    while (
        down + 1 < len(x)
        and x[down + 1] <= x[down]
        and down < SEARCH_ROWS
        and steps[down + 1] - steps[0] <= SEARCH_STEPS
    ):
        down += 1
    fell = bool(x[down] < x[0])
    # a fall that never ends is no search
    return down if fell and down + 1 < len(x) and (x[down:].max() > x[down] or len(x) - down > SEARCH_ROWS) else 0


def _deepest(x: np.ndarray) -> tuple[float, int, int]:
    """The deepest fall from a high to a later low, in halvings, with both places."""
    peaks = np.maximum.accumulate(x)
    low = int(np.argmax(peaks - x))
    top = int(np.flatnonzero(x[: low + 1] == peaks[low])[-1])
    depth = float(peaks[low] - x[low])
    return (depth if math.isfinite(depth) else 0.0), top, low
