"""Steps that the optimizer skipped.

What it sees
    Skipped steps, from a counter (per row or since the start), from halvings of the loss scale and from events: `few`
    (up to 2 %), `many`, `endless` (nothing but skipped steps up to the end; a scale that lies on its floor while no
    gradient norm is finite goes on skipping).
Why it matters
    A skipped step is an overflow that was caught. A few are how dynamic scaling works; endless skipping means that
    the weights no longer move while the log looks alive (D1-nan-2).
Blind when
    Neither skipped or NaN iterations, nor a loss scale, nor such events were logged.
Easily mistaken for
    The first search for a scale; the same overflow reported by each of many ranks; "number of nan iterations: 0".
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from playbook.detectors import stats
from playbook.detectors.shared import DOUBTFUL, MENTION, Shared, answer, blind, finding
from playbook.detectors.stats.curve import Curve
from playbook.findings import Finding, Scan

NAME = "skipped"
NEEDS = (("skipped_iters", "nan_iters", "loss_scale"),)
OPTIONAL = ("loss",)
KINDS = ("few", "many", "endless")

FEW = 0.02  # of the steps
ENDLESS = 10  # rows of skipped steps up to the end
FIRST_SEARCH = 34  # rows of a log that holds little else than the search for a scale
SINCE_START = frozenset({"deepspeed"})  # readers of logs that count since the start
HALVINGS = 5.0  # of a loss scale that runs down
SEARCH = 20  # rows at the start that are not counted
PLUNGE, PACE = 10.0, 2.0  # halvings in one go, and rows that one of them may take
GOES_ON = 0.98  # of the loss just behind the plunge: lower than that, and weights still move


def look(shared: Shared) -> Scan:
    events = [e for e in shared.run.events if "skip" in e.kind or "overflow" in e.kind]
    if (gap := shared.lacks(NEEDS)) and not events:
        return blind(NAME, gap)
    for metric in ("skipped_iters", "nan_iters"):
        curve = shared.curve(metric)
        if curve is not None and curve.finite.any():
            if found := _counted(shared, curve):
                return answer(NAME, [found], "")
            if metric == "skipped_iters" or shared.curve("loss_scale") is None:
                return answer(NAME, [], f"{metric} counts none")
    scale = shared.curve("loss_scale")
    if scale is not None and len(scale) >= 2:
        found = _stuck(scale, shared.curve("grad_norm")) or _floored(shared, scale) or _by_scale(scale)
        return answer(NAME, [found] if found else [], "the loss scale never backs off")
    steps = sorted({e.step for e in events if e.step is not None})
    low, high = shared.run.step_range()
    if len(steps) < 1 or low is None or high is None:
        return blind(NAME, "skipped steps are logged without their step numbers")
    share = len(steps) / max(high - low + 1, 1)
    kind = "few" if share <= FEW else "many"
    text = f"{len(steps)} skipped steps are logged between step {steps[0]} and step {steps[-1]} ({share:.1%})"
    numbers = {"count": float(len(steps)), "share": share}
    return answer(
        NAME, [Finding(NAME, kind, "skipped_iters", steps[0], text, 0.8, last_step=steps[-1], numbers=numbers)], ""
    )


def _counted(shared: Shared, curve: Curve) -> Finding | None:
    index = np.flatnonzero(curve.finite)
    v, steps = curve.values[index], curve.steps[index]
    span = max(float(steps.max() - steps.min()) + curve.spacing, 1.0)
    growing = len(v) >= 3 and bool((np.diff(v) >= 0).all()) and float(v[-1]) <= span + 1 and len(np.unique(v)) > 1
    unsure = False
    if growing and set(np.unique(v).tolist()) == {0.0, curve.spacing}:
        # one row of skipped steps in a count since the start, or every step of every row since then
        still = _nothing_moves(shared, int(steps[np.argmax(v > 0)]))
        growing = not still and (curve.spacing > 1 or curve.series.origin.reader in SINCE_START)
        unsure = not still and not growing
    if growing:
        per_row = np.diff(v, prepend=v[0] if steps[0] > 2 * curve.spacing else 0.0)
    else:
        per_row = v
    # a share of the rows' own steps: 1.0 = every step of the row was skipped
    rate = per_row / curve.spacing
    total = float(per_row.sum())
    if total <= 0:
        return None
    told = _told(curve, index, per_row > 0, rate >= 0.9, total, total / span)
    return replace(told, confidence=DOUBTFUL) if unsure and told.kind == "endless" else told


def _nothing_moves(shared: Shared, step: int) -> bool:
    """True where, from a step on, no loss is printed or always the same one, or the loss scale runs down."""
    loss, scale = shared.loss, shared.curve("loss_scale")
    if loss is not None:
        rest = loss.values[(loss.steps > step) & loss.finite]
        if len(rest) < 2 or float(np.ptp(rest)) == 0.0:
            return True
    if scale is None:
        return False
    rest = scale.values[(scale.steps >= step) & scale.finite & (scale.values > 0)]
    return len(rest) > 1 and float(np.log2(rest[0]) - np.log2(rest[-1])) >= HALVINGS


def _by_scale(scale: Curve) -> Finding | None:
    index = np.flatnonzero(scale.finite & (scale.values > 0))
    if len(index) < 2:
        return None
    change = np.diff(np.log2(scale.values[index]), prepend=np.log2(scale.values[index[0]]))
    change[np.diff(scale.steps[index], prepend=scale.steps[index[0]]) < 0] = 0.0  # a restart of the steps, no skip
    back = change < -0.5
    if not back.any():
        return None
    total = float(-np.minimum(change, 0.0).sum())
    span = max(float(np.ptp(scale.steps[index])) + scale.spacing, 1.0)
    return _told(scale, index, back, back, total, total / span)


def _stuck(scale: Curve, grad: Curve | None) -> Finding | None:
    """A run under a loss scale whose gradient norm is not finite from some row to the end: no step is taken."""
    if grad is None or len(grad) < ENDLESS or grad.finite[-ENDLESS:].any():
        return None
    starts, _ = stats.runs(~grad.finite)
    begin = int(starts[-1])
    rows = len(grad) - begin
    text = f"no gradient norm is finite from step {int(grad.steps[begin])} to the end ({stats.rows(rows)})"
    text += f", with the loss scale at {stats.number(float(scale.values[-1]))}: every step is skipped"
    return finding(NAME, "endless", grad, begin, text, 0.9, numbers={"count": float(rows), "rows": float(rows)})


def _floored(shared: Shared, scale: Curve) -> Finding | None:
    """A scale that plunges by a thousand times and more in one go and lies there to the end, the loss with it."""
    index = np.flatnonzero(scale.finite & (scale.values > 0))
    if len(index) < SEARCH + ENDLESS or len(scale.restarts):
        return None
    x, steps = np.log2(scale.values[index]), scale.steps[index]
    low = int(np.argmax(x <= x[-1] + 0.5))
    tops = np.flatnonzero(x[:low] >= x[-1] + PLUNGE)
    if not len(tops) or len(x) - low < ENDLESS or float(x[low:].max()) > x[-1] + 0.5:
        return None
    top = int(tops[-1])  # the fall began where it last was as high as before
    while top > 0 and x[top - 1] - x[top] > 0.5:
        top -= 1
    top = max(top - 1, 0) if x[top] < x[max(top - 1, 0)] else top
    fall = float(x[top] - x[low])
    if top < SEARCH or low - top > PACE * fall:
        return None
    loss = shared.loss
    if loss is not None:
        after = loss.values[(loss.steps > steps[low]) & loss.finite]
        third = max(1, len(after) // 3)
        if len(after) and float(np.median(after[-third:])) < GOES_ON * float(np.median(after[:third])):
            return None
    n, row = stats.number, int(index[min(top + 1, low)])
    text = f"loss scale plunges from {n(2.0 ** float(x[top]))} to {n(2.0 ** float(x[low]))} at step"
    text += f" {int(scale.steps[row])} and stays there ({stats.rows(len(x) - low)}): every step is skipped"
    return finding(NAME, "endless", scale, row, text, 0.8, numbers={"count": fall, "rows": float(len(x) - low)})


def _told(
    curve: Curve, index: np.ndarray, any_skip: np.ndarray, all_skip: np.ndarray, total: float, share: float
) -> Finding:
    rows = np.flatnonzero(any_skip)
    at = int(index[rows[0]])
    numbers = {"count": total, "share": share}
    starts, ends = stats.runs(all_skip)
    if len(starts) and ends[-1] == len(all_skip) and ends[-1] - starts[-1] >= ENDLESS:
        at = int(index[starts[-1]])
        length = int(ends[-1] - starts[-1])
        text = f"every step is skipped from step {int(curve.steps[at])} to the end ({stats.rows(length)})"
        # the search for a first scale takes up to 32 halvings from the usual 2**32
        sure = MENTION if starts[-1] <= 3 and length <= FIRST_SEARCH else 0.9
        return finding(NAME, "endless", curve, at, text, sure, numbers={**numbers, "rows": float(length)})
    late = rows[rows >= SEARCH]
    many = share > FEW and len(late) > 3
    text = f"{total:.0f} steps are skipped, {share:.1%} of them, first at step {int(curve.steps[at])}"
    return finding(NAME, "many" if many else "few", curve, at, text, 0.8, numbers=numbers)
