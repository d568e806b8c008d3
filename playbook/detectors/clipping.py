"""Gradient clipping that is at work in nearly every step.

What it sees
    `always-active`: nearly all rows have a gradient norm above the clipping threshold of the configuration; or, where
    the clipped norm was logged, they all stand at one value. `scaled-norm`: the norm doubles and halves with the loss
    scale, so that it was taken before the gradient was unscaled.
Why it matters
    Clipping is meant for the rare step. Where it acts always, the threshold sets the step size, hides a gradient
    that is too large by a factor, and delays an explosion instead of preventing it (D3-case, D3-par-4).
Blind when
    No gradient norm was logged, or neither the configuration nor the norm tells the threshold.
Easily mistaken for
    The first steps of a run, where norms are large in health; models whose usual norm is simply above 1.
"""

from __future__ import annotations

import numpy as np

from playbook.detectors import stats
from playbook.detectors.shared import Shared, answer, blind, finding
from playbook.detectors.stats.curve import Curve, at_steps
from playbook.findings import Finding, Scan

NAME = "clipping"
NEEDS = ("grad_norm",)
OPTIONAL = ("loss_scale",)
KINDS = ("always-active", "scaled-norm")

LEAST = 50  # rows
ALWAYS = 0.95  # share of the rows
BESIDE, WITH = 10, 0.25  # rows on both sides of a change of the loss scale; halvings by which the norm may miss it
SETTINGS = (
    "max_grad_norm",
    "gradient_clipping",
    "clip_grad",
    "grad_clip",
    "gradient_clip_val",
    "clip_norm",
    "max_norm",
)


def look(shared: Shared) -> Scan:
    if gap := shared.lacks(NEEDS):
        return blind(NAME, gap)
    grad = shared.curve("grad_norm")
    assert grad is not None
    index = np.flatnonzero(grad.finite)
    v = grad.values[index]
    if len(v) < LEAST:
        return blind(NAME, f"only {stats.rows(len(v))} of the gradient norm, {LEAST} are needed")
    scaled = _scaled(shared, grad)
    # the first tenth is the start of the run
    late = v[len(v) // 10 :]
    limit = shared.setting(*SETTINGS)
    pinned = float(late.max())
    at_pin = float(np.mean(late >= 0.999 * pinned))
    if limit is None and at_pin < 0.5:
        if scaled:
            return answer(NAME, scaled, "")
        return blind(NAME, "the clipping threshold is not known")
    if at_pin >= 0.5 and pinned > 0 and stats.mad_sigma(late) < 1e-3 * pinned:
        text = (
            f"the logged gradient norm stands at {stats.number(pinned)} in {at_pin:.0%} of the rows: clipped each time"
        )
        numbers = {"share": at_pin, "threshold": pinned}
        found = finding(NAME, "always-active", grad, int(index[0]), text, 0.8, numbers=numbers)
        return answer(NAME, [found, *scaled], "")
    if limit is None or limit <= 0:
        return answer(NAME, scaled, "no clipping threshold is set")
    share = float(np.mean(late > limit))
    if share >= ALWAYS:
        text = f"the gradient norm is above the threshold {stats.number(limit)} in {share:.0%} of the rows"
        text += f" (median {stats.number(float(np.median(late)))})"
        numbers = {"share": share, "threshold": limit, "median": float(np.median(late))}
        found = finding(NAME, "always-active", grad, int(index[0]), text, 0.8, numbers=numbers)
        return answer(NAME, [found, *scaled], "")
    return answer(NAME, scaled, f"above the threshold {stats.number(limit)} in {share:.0%} of the rows")


def _scaled(shared: Shared, grad: Curve) -> list[Finding]:
    """The norm against the loss scale: at each change of the scale it changes by the same factor, and at no other."""
    scale = shared.curve("loss_scale")
    if scale is None:
        return []
    steps, x = grad.steps[grad.finite & (grad.values > 0)], np.log2(grad.values[grad.finite & (grad.values > 0)])
    y = np.log2(np.maximum(at_steps(scale, steps), 1.0))
    moves = np.flatnonzero(np.abs(np.diff(y)) >= 0.9) + 1
    # behind the first search, with some rows of one scale on both sides
    moves = moves[(moves >= BESIDE) & (moves <= len(y) - BESIDE)]
    moves = moves[[np.ptp(y[m - BESIDE : m]) == 0.0 and np.ptp(y[m : m + BESIDE]) == 0.0 for m in moves.tolist()]]
    if len(moves) < 2:
        return []
    change = [float(np.median(x[m + 1 : m + BESIDE]) - np.median(x[m - BESIDE : m])) for m in moves.tolist()]
    off = np.abs(np.array(change) - (y[moves] - y[moves - 1]))
    if float(np.median(off)) > WITH or float(np.max(off)) > 3 * WITH:
        return []
    text = f"the gradient norm changes with the loss scale, at {len(moves)} of {len(moves)} changes: it is not unscaled"
    return [finding(NAME, "scaled-norm", grad, int(moves[0]), text, 0.98, numbers={"changes": float(len(moves))})]
