"""The first loss against that of a random guess.

What it sees
    The first rows of the loss, if the log begins with the run, against the logarithm of the number of classes (from
    the configuration, else the nearest usual vocabulary): `near`, `far-above`, `far-below`.
Why it matters
    A fresh classifier over V classes starts at ln V whatever its size. Above it the initialisation or the loss is
    wrong; far below, the weights are trained already or the labels leak (D1-nan-5, D3-model-3).
Blind when
    No loss was logged, the log begins in the middle of the run, or the loss is no cross entropy of a known number
    of classes.
Easily mistaken for
    A loss summed instead of averaged (over accumulation steps, tokens), fine-tuning, a regression.
"""

from __future__ import annotations

import math

import numpy as np

from playbook.detectors import stats
from playbook.detectors.shared import Shared, answer, blind, finding
from playbook.findings import Scan

NAME = "first_loss"
NEEDS = ("loss",)
OPTIONAL = ()
KINDS = ("far-above", "far-below", "near")

NEAR = 0.05  # relative, with a known number of classes
NEAR_GUESS = 0.02  # relative, to the nearest usual vocabulary
ABOVE, BELOW = 1.3, 0.7  # of ln(classes)
NO_VOCABULARY = math.log(1e6)  # above it no vocabulary explains the first loss
BEGIN = 0.02  # of the run, or 100 steps: where the log must begin


def look(shared: Shared) -> Scan:
    if gap := shared.lacks(NEEDS):
        return blind(NAME, gap)
    loss = shared.loss
    assert loss is not None
    index = np.flatnonzero(shared.good)
    if not len(index):
        return blind(NAME, "no finite row of loss")
    at = int(index[0])
    begin = int(loss.steps[at])
    span = int(loss.steps.max()) - begin
    if begin > max(100, 2 * loss.spacing, BEGIN * span):
        return blind(NAME, f"the log begins at step {begin}, not with the run")
    first = float(loss.values[at])
    known = shared.classes
    away, count = stats.nearest_uniform(first, known)
    uniform = math.log(count)
    numbers = {"first": first, "uniform": uniform, "classes": float(count), "times": first / uniform}
    n = stats.number
    if known is not None:
        kind = "near" if away <= NEAR * uniform else "far-above" if first > ABOVE * uniform else "far-below"
        if kind == "far-below" and first > BELOW * uniform:
            return answer(NAME, [], f"first loss {n(first)}, ln({count}) is {n(uniform)}: neither near nor far")
        text = f"first loss {n(first)} at step {begin}, ln({count}) is {n(uniform)}"
        return answer(NAME, [finding(NAME, kind, loss, at, text, 0.9, numbers=numbers)], "")
    if first > 6.5 and away <= NEAR_GUESS * uniform:
        text = f"first loss {n(first)} at step {begin} is near "
        text += stats.uniform_name(first, None, NEAR_GUESS * uniform)
        return answer(NAME, [finding(NAME, "near", loss, at, text, 0.7, numbers=numbers)], "")
    if first > NO_VOCABULARY:
        text = f"first loss {n(first)} at step {begin} is above that of a guess over any vocabulary"
        return answer(NAME, [finding(NAME, "far-above", loss, at, text, 0.6, numbers=numbers)], "")
    return blind(NAME, f"first loss {n(first)}: the number of classes is not known")
