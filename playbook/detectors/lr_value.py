"""The learning rate as a number: absurd, zero, at once or step by step.

What it sees
    `absurd` (above 1 where the loss is no classic SGD run; above 0.05 where the configuration names an optimizer of
    Adam's kind), `high` (above 0.01 with such a one), `tiny` (below 3e-6 with such a one, though the first loss is that
    of a fresh model), `zero` (in most rows, or from some row to the end that is no end of a decay), and how it begins:
    `full-at-once` (the first row is the highest) or `ramps` (it grows at first). `ramp-usual` and `ramp-short` tell
    the length of the ramp as a share of the planned steps.
Why it matters
    A typing error of a factor of a thousand, a schedule of the wrong length or a missing warm-up is read off at
    once (D1-flat-1, D3-opt-1).
Blind when
    No learning rate was logged.
Easily mistaken for
    Large-batch optimizers (LARS) and plain SGD on small recurrent nets, with rates of 1 to 20; a log that begins
    after the warm-up; a first row of 0, which is the first step of a warm-up; a last row of 0, the end of a decay.
"""

from __future__ import annotations

import numpy as np

from playbook.detectors import stats
from playbook.detectors.shared import Shared, answer, blind, finding
from playbook.detectors.stats.curve import Curve, spent
from playbook.findings import Finding, Scan

NAME = "lr_value"
NEEDS = ("lr",)
OPTIONAL = ()
KINDS = ("absurd", "high", "tiny", "zero", "full-at-once", "ramps", "ramp-usual", "ramp-short")

ABSURD = 1.0
# Adam's step is about the learning rate in every coordinate, whatever the gradient: 1e-4 to 3e-4 at 7B (D3-par-2), up
# to a few thousandths in tiny models.
ADAPTIVE = ("adam", "lamb", "adan", "sophia")
# They find the rate by themselves; what is logged multiplies it and is 1 as a rule (Defazio and Mishchenko 2023).
SELF_TUNING = ("dadapt", "d-adapt", "d_adapt", "prodigy")
ABSURD_ADAPTIVE, HIGH_ADAPTIVE, TINY_ADAPTIVE = 0.05, 0.01, 3e-6
SHORT_RAMP, USUAL_RAMP = 0.005, 0.01  # of the planned steps (D3-par-1: 1 to 2 %)
LEAST = 3  # rows
ZERO_SHARE = 0.5  # of the rows
EARLY = 0.05  # of the highest step: the log begins with the run


def look(shared: Shared) -> Scan:
    if gap := shared.lacks(NEEDS):
        return blind(NAME, gap)
    lr = shared.curve("lr")
    assert lr is not None
    index = np.flatnonzero(lr.finite)
    if not len(index):
        return blind(NAME, "no finite learning rate")
    v = lr.values[index]
    highest, n = float(v.max()), stats.number
    out: list[Finding] = []
    adaptive = _adaptive(shared)
    limit = ABSURD_ADAPTIVE if adaptive else ABSURD
    if highest > limit:
        at = int(index[np.argmax(v > limit)])
        text = f"learning rate {n(float(lr.values[at]))} at step {int(lr.steps[at])}"
        text += f" with {adaptive}" if adaptive else ""
        # named optimizer and measured rate together say more than a number in the configuration alone
        sure = 0.6 if highest < 2.0 * limit else 0.98 if adaptive else 0.8
        out.append(finding(NAME, "absurd", lr, at, text, sure, numbers={"highest": highest}))
    elif adaptive and highest > HIGH_ADAPTIVE:
        at = int(index[np.argmax(v > HIGH_ADAPTIVE)])
        text = f"learning rate {n(float(lr.values[at]))} at step {int(lr.steps[at])} with {adaptive}"
        out.append(finding(NAME, "high", lr, at, text, 0.75, numbers={"highest": highest}))
    elif adaptive and 0.0 < highest < TINY_ADAPTIVE and _fresh(shared):
        text = f"learning rate is {n(highest)} at most with {adaptive}, for a model that begins as a guess"
        out.append(finding(NAME, "tiny", lr, int(index[0]), text, 0.98, numbers={"highest": highest}))
    if len(v) >= LEAST:
        out_at = spent(lr)
        zero = v == 0.0 if out_at is None else index >= out_at
        middle = zero[1:-1] if len(v) > 4 else zero
        if zero.all() or out_at is not None or (len(middle) and middle.mean() > ZERO_SHARE):
            starts, _ = stats.runs(zero)
            at = int(index[0]) if zero.all() else int(index[starts[-1]])
            left = n(float(lr.values[at]))
            text = f"learning rate is {left} in {int(zero.sum())} of {stats.rows(len(v))}"
            text += f", after {n(highest)}" if out_at is not None else ""
            # what was logged counts for more than the rate that the configuration asks for
            out.append(finding(NAME, "zero", lr, at, text, 0.98, numbers={"rows": float(zero.sum())}))
        begins = int(lr.steps[index[0]]) <= max(20, 2 * lr.spacing, EARLY * float(lr.steps.max()))
        if highest > 0 and begins:
            # a row of the warm-up's first step only; sparse logs see the ramp in their first rows as well
            ramp = float(v[0]) < 0.9 * highest and bool(v[1] > v[0] * 1.001)
            kind = "ramps" if ramp else "full-at-once" if float(v[0]) >= 0.98 * highest else None
            if kind is not None:
                top = int(index[np.argmax(v >= 0.99 * highest)])
                text = f"learning rate begins at {n(float(v[0]))}, highest is {n(highest)} at step {int(lr.steps[top])}"
                numbers = {
                    "first": float(v[0]),
                    "highest": highest,
                    "steps_to_peak": float(lr.steps[top] - lr.steps[index[0]]),
                }
                # a sparse first row may lie behind a short warm-up
                sure = 0.8 if kind == "ramps" or int(lr.steps[index[0]]) <= 2 else 0.55
                out.append(finding(NAME, kind, lr, int(index[0]), text, sure, numbers=numbers))
                out += _ramp(shared, lr, index) if ramp else []
    return answer(NAME, out, f"learning rate between {n(float(v.min()))} and {n(highest)}")


def _fresh(shared: Shared) -> bool:
    """True where the number of classes is known and the first loss is that of a guess over them."""
    loss, classes = shared.loss, shared.classes
    if loss is None or classes is None or not shared.good.any():
        return False
    return abs(float(loss.values[np.flatnonzero(shared.good)[0]]) / np.log(classes) - 1.0) < 0.1


def _adaptive(shared: Shared) -> str:
    """The name of the optimizer where the configuration names one that normalises its step; else ""."""
    for key in ("optim", "optimizer", "optimizer_name", "optimizer_type", "opt"):
        name = str(shared.settings.get(key, "")).lower()
        if any(kind in name for kind in ADAPTIVE) and not any(kind in name for kind in SELF_TUNING):
            return name
    return ""


def _ramp(shared: Shared, lr: Curve, index: np.ndarray) -> list[Finding]:
    """The length of the warm-up as logged, where the log is dense enough to show its end."""
    still = np.flatnonzero(np.diff(lr.values[index]) <= 0.0)
    top = int(index[still[0]]) if len(still) else int(index[-1])
    planned = shared.setting("max_steps", "train_iters", "total_steps", "max_train_steps", "num_training_steps")
    total = planned or float(lr.steps.max())
    steps = float(lr.steps[top])
    if steps < 3 * lr.spacing or total <= 0 or top == int(index[-1]):
        return []
    share = steps / total
    kind = "ramp-usual" if share >= USUAL_RAMP else "ramp-short" if share < SHORT_RAMP else None
    if kind is None:
        return []
    text = f"learning rate rises for {steps:.0f} of {total:.0f} planned steps ({share:.1%})"
    # what was logged counts for more than a number of steps in the configuration without the length of the run
    sure = 0.98 if planned else 0.6
    return [finding(NAME, kind, lr, int(index[0]), text, sure, numbers={"share": share, "steps": steps})]
