"""Where in its schedule the learning rate was at the onset.

What it sees
    The learning rate at the onset against its course before and after: `warmup` (still rising), `peak` (within a
    tenth of the highest, not long after it was reached), `decay`, `restart` (rises again after it had come down, or
    begins its course again), `constant`.
Why it matters
    A spike near the peak is the mark of a peak that is too high or a warm-up that is too short; in the tail of the
    decay the learning rate is seldom the reason (D3-tab-4, D3-opt-1).
Blind when
    No learning rate was logged, or not around the onset, or the fault is there from the first row on, before any
    phase (a constant rate is told all the same).
Easily mistaken for
    Nothing: but a phase is where it happened and not yet why.
"""

from __future__ import annotations

import numpy as np

from playbook.detectors import stats
from playbook.detectors.onset import Onset, onset_of
from playbook.detectors.shared import Shared, answer, blind, finding
from playbook.detectors.stats.rate import LEAP
from playbook.findings import Scan

NAME = "lr_phase"
NEEDS = ("lr",)
OPTIONAL = ("loss",)
KINDS = ("warmup", "peak", "decay", "restart", "constant")

TOP = 0.9  # of the highest: near the peak
FLAT = 0.01  # relative: no change
HOLD = 0.3  # constant: at the peak value for this share of all steps so far


def look(shared: Shared) -> Scan:
    if gap := shared.lacks(NEEDS):
        return blind(NAME, gap)
    lr = shared.curve("lr")
    assert lr is not None
    begin = onset_of(shared)
    if begin is None:
        return answer(NAME, [], "no loss fault to look at")
    index = np.flatnonzero(lr.finite)
    order = index[np.argsort(lr.steps[index], kind="stable")]
    v, steps = lr.values[order], lr.steps[order]
    at = int(np.searchsorted(steps, begin.step, side="right")) - 1
    if at < 0 and len(v):
        at = 0
    if not len(v) or v.max() <= 0:
        return blind(NAME, "no learning rate above zero")
    if steps[at] < begin.step - max(200, 20 * lr.spacing):
        return blind(
            NAME, f"the learning rate is logged up to step {int(steps[at])} only, the onset is at step {begin.step}"
        )
    past, now, top = v[: at + 1], float(v[at]), float(v[: at + 1].max())
    ahead = v[at + 1 : at + 6]
    highest = float(v.max())
    rising = (len(ahead) > 0 and float(ahead[-1]) > now * (1 + FLAT)) or (
        at > 0 and now > float(past[max(0, at - 5)]) * (1 + FLAT)
    )
    kind = _kind(past, steps[: at + 1], now, top, highest, rising)
    if any(abs(step - begin.step) <= lr.spacing for step in shared.begins_anew):
        kind = "restart"
    if kind != "constant" and _from_the_start(shared, begin):
        return blind(NAME, "the fault is there from the first row on: no phase brought it")
    n = stats.number
    text = f"learning rate is {n(now)} at step {begin.step}, highest so far {n(top)}: {kind}"
    numbers = {"lr": now, "highest": top, "share_of_peak": now / highest}
    if len(past) < 2 and len(v) > 1:
        kind = "warmup" if rising and now < TOP * highest else kind
    sure = 0.9 if len(v) >= 3 else 0.6
    return answer(NAME, [finding(NAME, kind, lr, int(order[at]), text, sure, numbers=numbers)], "")


def _from_the_start(shared: Shared, begin: Onset) -> bool:
    """True where the fault shows in the first row of all, as a loss at ln(classes) or at zero does."""
    loss = shared.loss
    first = loss is not None and begin.step <= int(loss.steps.min())
    return first and begin.finding.detector in ("plateau", "loss_zero")


def _kind(past: np.ndarray, steps: np.ndarray, now: float, top: float, highest: float, rising: bool) -> str:
    if float(past.min()) >= top * (1 - FLAT) and not rising:
        return "constant"
    reached = int(np.argmax(past >= top * (1 - FLAT)))  # first row at the top
    falls = np.flatnonzero(np.diff(past) < 0)
    if len(falls):  # a leap or a climb to a new top after it had come down from an earlier one
        peak = float(past[falls[0]])
        if peak > 0 and float(past[falls[0] :].min()) < 0.8 * peak and now > LEAP * peak:
            return "restart"
    # it had come down to less than half of what it is now, after the top: a second rise
    lowest_after = float(past[reached:].min())
    recently = past[max(reached, len(past) - max(8, len(past) // 5)) :]
    if lowest_after < 0.7 * now and float(recently.min()) < 0.8 * now:
        return "restart"
    if now >= TOP * top:
        if rising and now < TOP * highest:
            return "warmup"
        # flat at the top for long is the constant stretch of a schedule, shortly after the warm-up it is the peak
        held = float(steps[-1] - steps[reached])
        total = float(steps[-1] - steps[0]) or 1.0
        flat = float(past[reached:].min()) >= top * (1 - FLAT)
        ramp = float(steps[reached] - steps[0])
        return "constant" if flat and held > HOLD * total and held > 2.0 * ramp else "peak"
    return "warmup" if rising and reached >= len(past) - 1 else "decay"
