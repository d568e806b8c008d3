"""The evaluation loss beside the training loss.

What it sees
    `eval-worse`: the evaluation loss has turned up for good while the training loss goes on down. `eval-jump`: it
    jumps at one evaluation while the training loss does nothing. `train-only`: a fault of the training loss of
    which the next evaluations know nothing.
Why it matters
    An evaluation jump alone is no spike but overfitting or a difference between the two paths (D3-def-2); a
    training spike without a trace in the evaluation is a batch or a logging matter, the weights are sound.
Blind when
    Fewer than four evaluations were logged, or no training loss.
Easily mistaken for
    Overfitting in a planned fine-tuning of many epochs; evaluations on another scale, or on a set that changed.
"""

from __future__ import annotations

import math

import numpy as np

from playbook.detectors import stats
from playbook.detectors.onset import onset_of
from playbook.detectors.shared import DOUBTFUL, MENTION, NOTICED, Shared, answer, blind, finding
from playbook.detectors.stats.curve import Curve
from playbook.findings import Finding, Scan

NAME = "eval_gap"
NEEDS = ("loss", "eval_loss")
OPTIONAL = ()
KINDS = ("eval-worse", "eval-jump", "train-only")

LEAST = 4  # evaluations
WORSE, MUCH_WORSE = math.log(1.1), math.log(1.5)  # to be mentioned, and to doubt the run
NEVER, MANY, LEARNED = math.log(1.2), 12, 0.8  # rise, evaluations, and share of the training loss that is left
FIRST, BARELY = 0.2, 0.25  # share of the evaluations, and of the rise: before the best one nothing was gained
BY_HEART = 0.1  # of its first value and of the best evaluation
JUMP = math.log(1.5)
NOTHING = 0.05  # of the highest evaluation: a ratio below it says nothing
SAME = math.log(1.1)
AROUND = 6  # evaluations on each side of a jump that tell their noise


def look(shared: Shared) -> Scan:
    if gap := shared.lacks(NEEDS):
        return blind(NAME, gap)
    loss, evaluation = shared.loss, shared.curve("eval_loss")
    assert loss is not None and evaluation is not None
    index = np.flatnonzero(evaluation.finite)
    # the last run only: an evaluation of another run is no comparison
    if len(evaluation.restarts):
        index = index[index >= evaluation.restarts[-1]]
    if len(index) < LEAST or not shared.good.any():
        return blind(NAME, f"only {len(index)} evaluations, {LEAST} are needed")
    v = evaluation.values[index]
    if v.min() <= 0:
        return blind(NAME, "the evaluation loss is not positive")
    x, steps = np.log(v), evaluation.steps[index]
    train = _train_at(loss, shared.good, steps)
    out = _jump(evaluation, index, x, train) or _worse(evaluation, index, x, train)
    out += _train_only(shared, evaluation, index, x, steps)
    if out and all(f.confidence < NOTICED for f in out):
        return Scan(NAME, "found", tuple(out))  # a mention, but nobody can say that they follow
    return answer(NAME, out, f"{len(index)} evaluations follow the training loss")


def _train_at(loss: Curve, good: np.ndarray, steps: np.ndarray) -> np.ndarray:
    """Median of the training rows before each evaluation, up to 32 and not far beyond the one before; NaN without."""
    rows = np.flatnonzero(good)
    order = rows[np.argsort(loss.steps[rows], kind="stable")]
    place = np.searchsorted(loss.steps[order], steps, side="right")
    if len(steps) > 2000:
        steps, place = steps[:: len(steps) // 2000], place[:: len(place) // 2000]
    width = int(min(32, max(3, 2 * len(order) // max(1, len(steps)))))
    return np.array([np.median(loss.values[order[max(0, p - width) : p]]) if p else np.nan for p in place.tolist()])


def _jump(evaluation: Curve, index: np.ndarray, x: np.ndarray, train: np.ndarray) -> list[Finding]:
    if len(train) != len(x):
        return []
    rise = np.diff(x)
    noise = max(stats.diff_sigma(x), 1e-3)
    with np.errstate(invalid="ignore", divide="ignore"):
        calm = ~(train[1:] > train[:-1] * math.exp(SAME))
    jumps = np.flatnonzero((rise > JUMP) & (rise > 6.0 * noise) & calm)
    jumps = jumps[(jumps >= 1) & (x[1:][jumps] > x.max() + math.log(NOTHING))]
    # a run that ends calm may have swung while its rate was high: the evaluations around count
    sure = [j for j in jumps.tolist() if rise[j] > 6.0 * stats.diff_sigma(x[max(0, j - AROUND) : j + AROUND + 2])]
    if not sure:
        return []
    k = sure[0] + 1
    # one evaluation may have been a bad one; several in a row that stay up, after several calm ones, are no noise
    rest = x[k:]
    stays = len(rest) >= 3 and k >= 3 and bool((rest[:3] - x[k - 1] > 0.7 * JUMP).all())
    # an evaluation that comes back swung, as it does while the rate is high
    back = len(rest) >= 4 and float(np.median(rest[-3:])) < x[k - 1] + 0.3 * JUMP
    text = f"evaluation loss goes from {stats.number(math.exp(x[k - 1]))} to {stats.number(math.exp(x[k]))} at step "
    text += f"{int(evaluation.steps[index[k]])}, the training loss does nothing"
    return [
        finding(
            NAME,
            "eval-jump",
            evaluation,
            int(index[k]),
            text,
            MENTION if back else 0.75 if stays else DOUBTFUL,
            numbers={"times": math.exp(min(float(rise[k - 1]), 500.0))},
        )
    ]


def _worse(evaluation: Curve, index: np.ndarray, x: np.ndarray, train: np.ndarray) -> list[Finding]:
    low = int(np.argmin(x))
    tail = x[low:]
    if len(tail) < 4 or len(train) != len(x):
        return []
    rise = float(np.median(tail[-max(1, len(tail) // 4) :]) - x[low])
    noise = max(stats.diff_sigma(x), 1e-3)
    down = np.isfinite(train[low]) and np.isfinite(train[-1]) and train[-1] < train[low]
    if rise < max(WORSE, 3.0 * noise) or stats.trend(tail) < 0.5 or not down or x[-1] < x.max() + math.log(NOTHING):
        return []
    # the first of many evaluations were the best, while the training loss comes down: what is learned is not shared;
    # a training loss of nearly nothing beside it was learned by heart, or its answers were in sight
    early = len(x) >= MANY and low <= FIRST * len(x) and float(x[0] - x[low]) < BARELY * rise
    least = WORSE if train[-1] < BY_HEART * min(train[0], math.exp(x[low])) else NEVER
    never = early and rise >= least and train[-1] < LEARNED * train[0]
    n = stats.number
    text = f"evaluation loss has its minimum {n(math.exp(x[low]))} at step {int(evaluation.steps[index[low]])} and is "
    text += f"{n(math.exp(x[low] + rise))} at the end, while the training loss falls"
    return [
        finding(
            NAME,
            "eval-worse",
            evaluation,
            int(index[low]),
            text,
            DOUBTFUL if rise >= MUCH_WORSE or never else MENTION,
            numbers={"times": math.exp(min(rise, 500.0))},
        )
    ]


def _train_only(
    shared: Shared, evaluation: Curve, index: np.ndarray, x: np.ndarray, steps: np.ndarray
) -> list[Finding]:
    begin = onset_of(shared)
    if begin is None:
        return []
    before, after = np.flatnonzero(steps < begin.step), np.flatnonzero(steps >= begin.step)
    if not len(before) or not len(after) or not np.isfinite(evaluation.values[evaluation.steps >= begin.step]).all():
        return []
    change = float(x[after[: max(1, min(3, len(after)))]].max() - x[before[-1]])
    if change > SAME:
        return []
    text = f"the training loss is at fault at step {begin.step}, the next evaluation is as before "
    text += f"({stats.number(math.exp(float(x[before[-1]])))} to {stats.number(math.exp(float(x[after[0]])))})"
    return [
        finding(
            NAME,
            "train-only",
            evaluation,
            int(index[after[0]]),
            text,
            0.75,
            numbers={"times": math.exp(min(change, 500.0))},
        )
    ]
