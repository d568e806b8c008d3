"""A loss that is exactly zero, or next to it from the first row.

What it sees
    `zero-from-start`: 0.0 in the first row and nearly all others. `zero`: ordinary values, then 0.0 to the end.
    `near-zero-from-start`: below a ten-thousandth from the first row, without any descent. `no-label`: rows of 0.0
    (or NaN, 0/0) whose gradient norm is exactly zero too, beside ordinary ones or to the end: nothing in them counts.
Why it matters
    A loss of zero with a gradient of zero means that no label counts: the mask hides the answer, or all labels are
    ignored (D1-sym-2). The log looks calm and nothing is learned.
Blind when
    No loss was logged.
Easily mistaken for
    A NaN that the trainer prints as 0.0 (see nonfinite: the gradient norm tells), a loss rounded to four digits
    that has been learned down, the first rows of a policy loss (zero by construction), a regression on tiny
    targets.
"""

from __future__ import annotations

import numpy as np

from playbook.detectors import stats
from playbook.detectors.shared import DOUBTFUL, MENTION, Shared, answer, blind, finding
from playbook.detectors.stats.curve import Curve, at_steps
from playbook.findings import Finding, Scan

NAME = "loss_zero"
NEEDS = ("loss",)
OPTIONAL = ("grad_norm",)
KINDS = ("zero-from-start", "zero", "near-zero-from-start", "no-label")

LEAST = 3  # rows
TINY = 1e-4  # of a cross entropy: nothing that was not learned is that low
SHRUNK = 0.02  # of the first level: below it a printed zero may be a rounded number
UNMOVED = 0.2  # relative: the level after a batch that moved no weight is that before it


def look(shared: Shared) -> Scan:
    if gap := shared.lacks(NEEDS):
        return blind(NAME, gap)
    loss = shared.loss
    assert loss is not None
    v = loss.values[loss.finite]
    index = np.flatnonzero(loss.finite)
    if len(v) < LEAST:
        return blind(NAME, f"only {len(v)} finite rows of loss")
    zero = v == 0.0
    grad = shared.curve("grad_norm")
    norms = grad.values[grad.finite] if grad is not None else np.empty(0)
    silent = bool(len(norms)) and float(np.median(np.abs(norms))) < 1e-9
    found: list[Finding] = []
    if zero[0] and zero[: min(len(zero), 50)].mean() > 0.9 and zero.mean() > 0.5:
        text = f"loss is exactly 0.0 from the first row, {int(zero.sum())} of {stats.rows(len(v))}"
        text += ", and so is the gradient norm" if silent else ""
        sure = 0.97 if silent else 0.9
        if grad is not None and not grad.finite.any():
            sure = 0.6  # the NaN behind it is the finding
        if shared.no_measure:
            sure = min(sure, MENTION)
        found.append(
            finding(NAME, "zero-from-start", loss, int(index[0]), text, sure, numbers={"rows": float(zero.sum())})
        )
    elif zero[-1] and not zero[0]:
        found += _turns(shared, index, v, zero)
    elif not zero.any() and float(np.median(np.abs(v[: max(3, len(v) // 50)]))) < TINY:
        part = max(3, len(v) // 10)
        first, last = float(np.median(np.abs(v[:part]))), float(np.median(np.abs(v[-part:])))
        flat = last > 0.5 * first
        text = f"loss is {stats.number(first)} from the first row on and {stats.number(last)} at the end"
        sure = 0.72 if flat and first < 1e-6 else DOUBTFUL
        sure = MENTION if shared.no_measure else sure
        found.append(
            finding(
                NAME, "near-zero-from-start", loss, int(index[0]), text, sure, numbers={"first": first, "last": last}
            )
        )
    if grad is not None:
        found += _no_label(shared, loss, grad)
    return answer(NAME, found, f"{stats.rows(len(v))} of loss, not at zero")


def _no_label(shared: Shared, loss: Curve, grad: Curve) -> list[Finding]:
    """Rows without any label that counts: the mean over none is 0/0 or guarded to 0, its gradient is zero."""
    norms = at_steps(grad, loss.steps)
    logged = np.isin(loss.steps, grad.steps)
    empty = (~loss.finite | (loss.values == 0.0)) & (norms == 0.0) & logged
    ordinary = loss.finite & (np.abs(loss.values) > TINY) & (norms > 0.0)
    if not empty.any() or shared.no_measure or (ordinary.any() and not shared.domain.log):
        return []
    starts, ends = stats.runs(empty)
    begin, end = int(starts[0]), int(ends[0])
    step, rows = int(loss.steps[begin]), int(empty.sum())
    numbers = {"rows": float(rows), "episodes": float(len(starts))}
    if not ordinary.any() or end == len(loss):
        if end - begin < LEAST or (ordinary.any() and not ordinary[max(0, begin - 8) : begin].any()):
            return []
        text = f"loss and gradient norm are exactly 0 from step {step} on ({stats.rows(end - begin)}): no label counts"
        return [finding(NAME, "no-label", loss, begin, text, 0.85, numbers=numbers)]
    before, after = loss.values[max(0, begin - 16) : begin], loss.values[end : end + 16]
    before, after = (part[np.isfinite(part) & (part != 0.0)] for part in (before, after))
    if end - begin > 2 or len(before) < 3 or len(after) < 3:
        return []
    level = float(np.median(before))
    if abs(float(np.median(after)) - level) > UNMOVED * abs(level):
        return []
    text = f"loss is {loss.values[begin]:g} and the gradient norm exactly 0 at step {step}"
    text += ", both are usual before and after"
    return [finding(NAME, "no-label", loss, begin, text, 0.85, last_step=int(loss.steps[end - 1]), numbers=numbers)]


def _turns(shared: Shared, index: np.ndarray, v: np.ndarray, zero: np.ndarray) -> list[Finding]:
    loss, grad = shared.loss, shared.curve("grad_norm")
    assert loss is not None
    starts, ends = stats.runs(zero)
    begin, rows = int(starts[-1]), int(ends[-1] - starts[-1])
    before = np.abs(v[max(0, begin - 16) : begin])
    level = float(np.median(before))
    first = float(np.median(np.abs(v[: min(16, begin)])))
    if rows < LEAST:
        return []
    step = int(loss.steps[index[begin]])
    text = f"loss is {stats.number(level)} up to step {step} and exactly 0.0 from then on ({stats.rows(rows)})"
    sure = 0.85 if level > SHRUNK * first else MENTION
    if grad is None:
        sure = min(sure, 0.65)  # may hide a NaN: the norm would tell
    else:
        norms = grad.values[grad.steps >= step]
        if not len(norms) or not np.isfinite(norms).any():
            return []  # a hidden NaN
        text += f", gradient norm {stats.number(float(np.nanmedian(np.where(np.isfinite(norms), norms, np.nan))))}"
    if shared.no_measure:
        sure = min(sure, MENTION)
    numbers = {"rows": float(rows), "level_before": level}
    return [finding(NAME, "zero", loss, int(index[begin]), text, sure, numbers=numbers)]
