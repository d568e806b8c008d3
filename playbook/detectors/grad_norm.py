"""The gradient norm just before the onset, or dead from the first row.

What it sees
    The rows of the gradient norm before the onset against the norm that was usual until then: `surges` (the last few
    rows at a multiple), `climbs` (a trend over some ten to two hundred steps), `normal`, `nonfinite`, `vanishes`.
    With or without an onset `dead-from-start`: about zero in nearly every row from the first on; `alive` where the
    fault is there from the first rows and the norm is not zero in them.
Why it matters
    It splits the causes of a spike better than anything else that costs nothing: a norm that grows before the loss
    is the optimizer's doing, one that is normal until a one-step jump points at the batch (D3-tab-1, D3-tab-3,
    D0-num-2).
Blind when
    No gradient norm was logged, fewer than five rows of it before the onset, or it was logged after clipping.
Easily mistaken for
    Outliers of 10 to 200 times the median without any effect on the loss, common in healthy runs; the large norms
    of the first steps. A norm in the row of the onset itself proves nothing: the bad batch makes both.
"""

from __future__ import annotations

import math

import numpy as np

from playbook.detectors import stats
from playbook.detectors.onset import Onset, onset_of, prior
from playbook.detectors.shared import Shared, answer, blind, finding
from playbook.detectors.stats.curve import Curve
from playbook.findings import Finding, Scan

NAME = "grad_norm"
NEEDS = ("grad_norm",)
OPTIONAL = ("loss",)
KINDS = ("surges", "climbs", "normal", "nonfinite", "vanishes", "dead-from-start", "alive")

LEAST = 5  # rows before the onset
WINDOW_STEPS = 300  # before the onset: the climb of D3-case took 200 steps, that of D0-case 10
LAST = 5  # rows: "just before"
SURGE = 3.0  # times the usual norm, of the median of the last rows or 4 times in one of the last two
SURGE_ONE = 4.0
CLIMB = 1.4  # times
CLIMB_ROWS = 6  # a rise in fewer rows is a surge
DEAD = 1e-9
VANISH = 0.01  # of the usual norm


def look(shared: Shared) -> Scan:
    if gap := shared.lacks(NEEDS):
        return blind(NAME, gap)
    grad = shared.curve("grad_norm")
    assert grad is not None
    out: list[Finding] = []
    if dead := _dead(grad):
        return answer(NAME, [dead], "")
    begin = onset_of(shared)
    if begin is None:
        return answer(NAME, out, f"{stats.rows(len(grad))}; no loss fault to look before")
    found = _before(grad, begin)
    if found is None:
        if alive := _alive(grad):
            return answer(NAME, [alive], "")
        return blind(NAME, f"fewer than {stats.rows(LEAST)} of the gradient norm before the onset at step {begin.step}")
    return answer(NAME, [found], "")


def _dead(grad: Curve) -> Finding | None:
    v = np.abs(grad.values[grad.finite])
    if len(v) < 5 or float(v[0]) > DEAD or float(np.mean(v <= DEAD)) < 0.95:
        return None
    index = int(np.flatnonzero(grad.finite)[0])
    zeros = int(np.sum(v <= DEAD))
    text = f"gradient norm is {stats.number(float(v[0]))} from the first row on ({zeros} of {stats.rows(len(v))})"
    return finding(
        NAME, "dead-from-start", grad, index, text, 0.95, numbers={"median": float(np.median(v)), "rows": float(len(v))}
    )


def _alive(grad: Curve) -> Finding | None:
    index = np.flatnonzero(grad.finite)
    v = np.abs(grad.values[index])
    if len(v) < LEAST or float(v[:LEAST].min()) <= DEAD or float(np.median(v)) <= DEAD:
        return None
    n = stats.number
    text = f"gradient norm is {n(float(v[0]))} in the first row and {n(float(np.median(v)))} later"
    return finding(NAME, "alive", grad, int(index[0]), text, 0.85)


def _before(grad: Curve, begin: Onset) -> Finding | None:
    bad = np.flatnonzero(
        ~grad.finite & (grad.steps <= begin.step) & (grad.steps > begin.step - max(10, 3 * grad.spacing))
    )
    loss_is_bad = begin.finding.detector == "nonfinite" and begin.finding.kind.startswith("nan")
    if loss_is_bad:
        bad = bad[grad.steps[bad] < begin.step]  # in the same row the loss makes it so
    if len(bad):
        text = f"gradient norm is not finite at step {int(grad.steps[bad[0]])}, the onset is at step {begin.step}"
        return finding(NAME, "nonfinite", grad, int(bad[0]), text, 0.9)
    index = prior(grad, begin)
    if len(index) < LEAST:
        return None
    v = np.maximum(np.abs(grad.values[index]), 1e-30)
    x = np.log(v)
    near = grad.steps[index] >= begin.step - max(WINDOW_STEPS, 12 * grad.spacing)
    rows = max(int(near.sum()), min(len(x), 2 * LAST))
    window = x[-rows:]
    # what was usual: before the window where there is enough, else its first half
    reference = x[: len(x) - rows][-256:] if len(x) - rows >= 10 else window[: max(3, rows // 2)]
    usual, noise = float(np.median(reference)), max(stats.mad_sigma(reference), stats.diff_sigma(x), 0.02)
    last = x[-LAST:]
    now, peak = float(np.median(last)), float(last[-2:].max())
    numbers = {"usual": math.exp(usual), "before_onset": math.exp(now), "highest": math.exp(float(last.max()))}
    numbers |= {"times": math.exp(now - usual), "z": (now - usual) / noise, "rows": float(rows)}
    at = int(index[-rows])
    n = stats.number
    span = f"from {n(numbers['usual'])} to {n(numbers['before_onset'])} before step {begin.step}"
    blocks = stats.block_medians(window, max(1, rows // 24))
    tau, climbed = stats.trend(blocks), float(np.median(blocks[-max(1, len(blocks) // 6) :])) - usual
    slow = climbed > max(math.log(CLIMB), 2.0 * noise) and tau > 0.45 and _gradual(window, usual, climbed)
    # a fast climb: at least six rows in a row above the usual norm, one higher than the other
    above = x > usual + max(3.0 * noise, math.log(1.3))
    lifted = len(above) - 1 - int(np.flatnonzero(~above)[-1]) if not above.all() else 0
    fast = CLIMB_ROWS <= lifted <= rows and stats.trend(x[-lifted:]) > 0.6
    if slow or fast:
        numbers["tau"] = tau
        at = int(index[-lifted]) if fast and not slow else at
        return finding(NAME, "climbs", grad, at, f"gradient norm climbs {span}", 0.85, numbers=numbers)
    if (now - usual > math.log(SURGE) and now - usual > 5.0 * noise) or (
        peak - usual > math.log(SURGE_ONE) and peak - usual > 6.0 * noise
    ):
        first = int(index[-LAST:][np.argmax(last - usual > math.log(2.0))])
        text = f"gradient norm surges from {n(numbers['usual'])} to {n(numbers['highest'])} before step {begin.step}"
        return finding(NAME, "surges", grad, first, text, 0.85, numbers=numbers)
    if now - usual < math.log(VANISH):
        return finding(NAME, "vanishes", grad, at, f"gradient norm vanishes {span}", 0.85, numbers=numbers)
    # a sparse log may hide what happened between its rows
    sure = 0.85 if grad.spacing <= 10 else 0.6
    return finding(NAME, "normal", grad, int(index[-1]), f"gradient norm stays usual: {span}", sure, numbers=numbers)


def _gradual(window: np.ndarray, usual: float, climbed: float) -> bool:
    """True where the rise is spread over at least six rows: half of the way is done before the last three."""
    if len(window) < 6:
        return False
    reached = float(np.median(window[-6:-3])) if len(window) >= 9 else float(window[-4])
    return reached - usual > 0.35 * climbed
