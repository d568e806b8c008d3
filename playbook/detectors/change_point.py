"""What changed shortly before the onset.

What it sees
    In a small window before the onset: a `resume`, a jump of the learning rate (`lr`), another batch size
    (`batch-size`), or other `data`: another sequence length, the beginning of an epoch, an event that tells of it.
    `unbroken`, not sure: the log holds the run from its first step on and nothing in it goes back.
Why it matters
    The change point says more than the symptom (D2-src-6).
Blind when
    No loss was logged. Changes of code, libraries, mixture or hardware leave no trace in the metrics: absence here
    does not clear them.
Easily mistaken for
    A coincidence: epochs and resumes are frequent in long runs. A row of a warm-up, which may double the rate.
"""

from __future__ import annotations

import numpy as np

from playbook.detectors import stats
from playbook.detectors.onset import Onset, onset_of
from playbook.detectors.shared import DOUBTFUL, Shared, answer, blind, finding
from playbook.detectors.stats.curve import Curve
from playbook.findings import Finding, Scan

NAME = "change_point"
NEEDS = ("loss",)
OPTIONAL = ("lr", "batch_size", "seq_len", "epoch")
KINDS = ("resume", "lr", "batch-size", "data", "unbroken")

STEPS, SHARE, ROWS = 100, 0.01, 3  # the window before the onset: the largest of these
SIDE, SMOOTH = 4, 2.5  # rows on each side, and times their changes: what a step of a schedule does not exceed
LR_TIMES = 1.5  # a change of the learning rate inside the window that is no schedule


def look(shared: Shared) -> Scan:
    if gap := shared.lacks(NEEDS):
        return blind(NAME, gap)
    begin = onset_of(shared)
    if begin is None:
        return blind(NAME, "no loss fault to look before")
    loss = shared.loss
    assert loss is not None
    span = float(loss.steps.max() - loss.steps.min())
    width = max(STEPS, SHARE * span, ROWS * loss.spacing)
    low = begin.step - width
    out = _resume(shared, loss, begin, low)
    out += _lr(shared, begin, low)
    out += _moved(shared, "batch_size", "batch-size", begin, low, 0.85)
    out += _moved(shared, "seq_len", "data", begin, low, 0.8)
    out += _data(shared, loss, begin, low)
    if unbroken := _unbroken(shared, loss, begin, out):
        out = [*out, unbroken]
    return answer(NAME, out, f"nothing changes in the {width:.0f} steps before step {begin.step}")


def _resume(shared: Shared, loss: Curve, begin: Onset, low: float) -> list[Finding]:
    for seg in reversed(shared.segments[1:]):
        step = int(loss.steps[seg.lo])
        if seg.kind in ("resume", "counter") and low <= step <= begin.step and seg.by != "rate":
            what = "another file of the run begins" if seg.by == "file" else "the run was resumed"
            text = f"{what} at step {step}, {begin.step - step} steps before the onset"
            return [
                finding(NAME, "resume", loss, seg.lo, text, 0.9, numbers={"steps_before": float(begin.step - step)})
            ]
    steps = [e.step for e in shared.events("resume") if e.step is not None and low <= e.step <= begin.step]
    if steps:
        text = f"the log tells of a resume at step {max(steps)}"
        return [Finding(NAME, "resume", "loss", max(steps), text, 0.85)]
    return []


def _unbroken(shared: Shared, loss: Curve, begin: Onset, found: list[Finding]) -> Finding | None:
    """The log holds the run from its first step to the onset in one piece. A job may go on without a trace, though."""
    first = int(loss.steps[0])
    one_piece = len(shared.segments) < 2 and not loss.mixed and not shared.events("resume") and not loss.series.seams
    if not one_piece or first > 2 * loss.spacing or any(f.kind == "resume" for f in found):
        return None
    text = f"the steps run on from step {first} to the onset at step {begin.step} without a restart in the log"
    return finding(NAME, "unbroken", loss, 0, text, DOUBTFUL)


def _lr(shared: Shared, begin: Onset, low: float) -> list[Finding]:
    lr = shared.curve("lr")
    if lr is None:
        return []
    index = np.flatnonzero(lr.finite & (lr.values > 0) & (lr.steps >= low - 3 * lr.spacing) & (lr.steps <= begin.step))
    if len(index) < 3:
        return []
    x = np.log(lr.values[index])
    change = np.abs(np.diff(x))
    at, rows = int(np.argmax(change)), np.flatnonzero(lr.finite)
    while change[at] >= np.log(LR_TIMES) and _of_schedule(lr, rows, int(index[at + 1])):
        change[at] = 0.0
        at = int(np.argmax(change))
    rest = np.delete(np.abs(np.diff(x)), at)
    if (
        change[at] < np.log(LR_TIMES)
        or change[at] < 5.0 * float(np.median(rest))
        or float(lr.steps[index[at + 1]]) < low
    ):
        return []
    row, n = int(index[at + 1]), stats.number
    text = f"learning rate goes from {n(float(lr.values[index[at]]))} to {n(float(lr.values[row]))}"
    text += f" at step {int(lr.steps[row])}"
    return [finding(NAME, "lr", lr, row, text, 0.85, numbers={"steps_before": float(begin.step - int(lr.steps[row]))})]


def _of_schedule(lr: Curve, rows: np.ndarray, row: int) -> bool:
    """True where a row is a step of a warm-up or of a smooth decay: as large as its neighbours in the rate itself."""
    k = int(np.searchsorted(rows, row))
    near = lr.values[rows[max(0, k - 1 - SIDE) : k + 1 + SIDE]]
    k = min(k, 1 + SIDE)
    step = float(near[k] - near[k - 1])
    before, after = np.diff(near[:k]), np.diff(near[k:])
    # of the first rows of all nobody can tell a leap from a ramp
    first = step > 0 and len(before) < SIDE // 2 and int(lr.steps[rows[0]]) <= 2 * lr.spacing
    return first or any(abs(step) <= SMOOTH * float(np.median(np.abs(d))) for d in (before, after) if len(d))


def _moved(shared: Shared, metric: str, kind: str, begin: Onset, low: float, sure: float) -> list[Finding]:
    curve = shared.curve(metric)
    if curve is None or len(curve) < 2:
        return []
    with np.errstate(invalid="ignore"):
        moves = np.flatnonzero(np.abs(np.diff(curve.values)) > 0.05 * np.abs(curve.values[:-1])) + 1
    inside = moves[(curve.steps[moves] >= low) & (curve.steps[moves] <= begin.step)]
    if not len(inside) or len(moves) > 0.2 * len(curve):
        return []  # a value that changes all the time is no change
    row, n = int(inside[-1]), stats.number
    text = f"{metric} goes from {n(float(curve.values[row - 1]))} to {n(float(curve.values[row]))}"
    text += f" at step {int(curve.steps[row])}"
    return [
        finding(NAME, kind, curve, row, text, sure, numbers={"steps_before": float(begin.step - int(curve.steps[row]))})
    ]


def _data(shared: Shared, loss: Curve, begin: Onset, low: float) -> list[Finding]:
    told = [e for e in shared.run.events if e.kind.startswith(("data", "stage", "mixture"))]
    steps = [e.step for e in told if e.step is not None and low <= e.step <= begin.step]
    if steps:
        return [Finding(NAME, "data", "loss", max(steps), f"the log tells of other data at step {max(steps)}", 0.8)]
    starts = shared.epoch_starts
    near = starts[(starts >= begin.step - 5 * loss.spacing) & (starts <= begin.step)]
    if len(near):
        text = f"an epoch begins at step {int(near[-1])}, just before the onset"
        return [Finding(NAME, "data", "epoch", int(near[-1]), text, 0.6)]
    return []
