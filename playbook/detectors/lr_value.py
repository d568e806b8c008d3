"""The learning rate as a number: absurd, zero, at once or step by step.

What it sees
    `absurd` (above 1 where the loss is no classic SGD run), `zero` (in most rows), and how it begins:
    `full-at-once` (the first row is the highest) or `ramps` (it grows at first).
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
from playbook.detectors.stats_shared import Shared, answer, blind, finding
from playbook.findings import Finding, Scan
from playbook.series import Run

NAME = "lr_value"
NEEDS = ("lr",)
OPTIONAL = ()
KINDS = ("absurd", "zero", "full-at-once", "ramps")

ABSURD = 1.0
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
    if highest > ABSURD:
        at = int(index[np.argmax(v > ABSURD)])
        text = f"learning rate {n(float(lr.values[at]))} at step {int(lr.steps[at])}"
        out.append(finding(NAME, "absurd", lr, at, text, 0.8 if highest >= 2.0 else 0.6, numbers={"highest": highest}))
    if len(v) >= LEAST:
        zero = v == 0.0
        middle = zero[1:-1] if len(v) > 4 else zero
        if zero.all() or (len(middle) and middle.mean() > ZERO_SHARE):
            starts, _ = stats.runs(zero)
            at = int(index[starts[-1]]) if not zero.all() else int(index[0])
            text = f"learning rate is 0 in {int(zero.sum())} of {len(v)} rows"
            out.append(finding(NAME, "zero", lr, at, text, 0.9, numbers={"rows": float(zero.sum())}))
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
    return answer(NAME, out, f"learning rate between {n(float(v.min()))} and {n(highest)}")


def scan(run: Run) -> Scan:
    return look(Shared(run))
