"""The speed of the training: steady, or lower than it was.

What it sees
    Tokens, samples or iterations a second (or the step time, turned round): `drops` where the speed falls by a
    fifth and more against its level before and is still low at the end; `steady` otherwise. Where the time spent
    waiting for data was logged beside the step time, `data-bound` or `data-fast`: its share in the last rows.
Why it matters
    Throughput drops without any effect on the loss when a GPU throttles, a link degrades or the input stalls
    (D0-hw-3); it costs as much as a crash and nobody gets a traceback.
Blind when
    Neither throughput nor step time was logged, or fewer than 30 rows.
Easily mistaken for
    The first rows (compilation, caches), rows with an evaluation or a checkpoint in them, a running average that
    still comes down, longer sequences or a larger batch: the unit of the metric tells what to expect.
"""

from __future__ import annotations

import math

import numpy as np

from playbook.detectors import stats
from playbook.detectors.stats_curve import Curve, at_steps
from playbook.detectors.stats_shared import MENTION, Shared, answer, blind, finding
from playbook.findings import Finding, Scan
from playbook.series import Run

NAME = "throughput"
NEEDS = (("throughput", "step_time"),)
OPTIONAL = ("batch_size", "seq_len", "data_time")
KINDS = ("drops", "steady", "data-bound", "data-fast")

LEAST = 30  # rows
DROP = math.log(0.8)
Z = 6.0
BLOCKS = 100
START = 0.05  # of the rows: not looked at
WAITS, FAST = 0.2, 0.05  # share of the step: the loader sets the pace, or it does not
LOW_ROWS = 12  # a shorter slow stretch is a pause


def look(shared: Shared) -> Scan:
    if gap := shared.lacks(NEEDS):
        return blind(NAME, gap)
    curve, sign = speed(shared)
    if curve is None:
        return blind(NAME, "no positive value of throughput or step time")
    index = np.flatnonzero(curve.finite & (curve.values > 0))
    if len(index) < LEAST:
        return blind(NAME, f"only {len(index)} rows of {curve.metric}, {LEAST} are needed")
    index = index[max(3, int(START * len(index))) :]
    x = sign * np.log(curve.values[index])
    found = _drop(shared, curve, index, x, sign)
    waits = _waits(shared)
    if found is not None:
        return answer(NAME, [found, *waits], "")
    middle = stats.number(float(np.median(curve.values[index])))
    text = f"{curve.metric} stays at its level (median {middle}, {len(index)} rows)"
    return answer(NAME, [finding(NAME, "steady", curve, int(index[-1]), text, 0.85), *waits], "")


def _waits(shared: Shared) -> list[Finding]:
    """What share of a step the last rows spend waiting for data."""
    data, step = shared.curve("data_time"), shared.curve("step_time")
    if data is None or step is None:
        return []
    own = np.flatnonzero(data.finite)[-64:]
    took = at_steps(step, data.steps[own])
    good = np.isfinite(took) & (took > 0)
    if int(good.sum()) < 8:
        return []
    share = float(np.median(data.values[own][good] / took[good]))
    kind = "data-bound" if share > WAITS else "data-fast" if 0 <= share < FAST else None
    if kind is None or share > 1.0:
        return []
    text = f"{share:.0%} of the step is spent waiting for data in the last {int(good.sum())} rows"
    return [finding(NAME, kind, data, int(own[0]), text, 0.85, numbers={"share": share})]


def speed(shared: Shared) -> tuple[Curve | None, float]:
    """The curve that tells the speed, and +1 where high is fast, -1 where it is a time."""
    for metric, sign in (("throughput", 1.0), ("step_time", -1.0)):
        curve = shared.curve(metric)
        if curve is not None and int((curve.finite & (curve.values > 0)).sum()) >= 3:
            return curve, sign
    return None, 1.0


def _drop(shared: Shared, curve: Curve, index: np.ndarray, x: np.ndarray, sign: float) -> Finding | None:
    size = max(1, len(x) // BLOCKS)
    blocks = stats.block_medians(x, size)
    n = len(blocks)
    k = np.arange(3, n - 2)
    if len(k) < 1:
        return None
    total = np.cumsum(blocks)
    # the split with the greatest gap between two means, then judged by medians
    gain = (total[k - 1] - k / n * total[-1]) ** 2 / (k * (n - k))
    mean_before, mean_after = total[k - 1] / k, (total[-1] - total[k - 1]) / (n - k)
    gain = np.where(mean_after < mean_before, gain, 0.0)
    if not gain.any():
        return None
    split = int(k[np.argmax(gain)])
    before, after = blocks[:split], blocks[split:]
    high, low = float(np.median(before)), float(np.median(after))
    noise = max(stats.mad_sigma(before), stats.diff_sigma(blocks), 1e-3)
    last = float(np.median(blocks[-max(2, len(after) // 3) :]))
    if low - high > DROP or high - low < Z * noise / math.sqrt(min(len(before), len(after), 9)):
        return None
    if last - high > DROP or len(after) * size < LOW_ROWS:
        return None
    # the rows before must have reached the high level shortly before, or a running average only came down
    if (
        float(np.median(before[-max(2, split // 4) :])) - high < 0.5 * DROP
        and float(np.median(before[-2:])) - high < 0.7 * DROP
    ):
        return None
    smoothness = stats.trend(blocks)
    # the exact row: the first of the rows around the split that stays low
    start = max(0, (split - 2) * size)
    part = x[start : (split + 2) * size]
    middle = (high + low) / 2.0
    smooth = part if len(part) < 3 else np.median(np.lib.stride_tricks.sliding_window_view(part, 3), axis=1)
    at = start + int(np.argmax(smooth < middle))
    row = int(index[at])
    step = int(curve.steps[row])
    sure = 0.88 if low - high < math.log(0.7) else 0.75
    if smoothness < -0.85 and abs(float(np.max(-np.diff(blocks)))) < 0.3 * (high - low):
        sure = min(sure, MENTION)  # an even decline over the whole log, as of a running average
    if _explained(shared, step):
        sure = min(sure, MENTION)
    old, new = math.exp(sign * high), math.exp(sign * low)
    text = f"{curve.metric} goes from {stats.number(old)} to {stats.number(new)} at step {step}"
    text += f", {1 - math.exp(low - high):.0%} slower, up to the end"
    numbers = {"before": old, "after": new, "share_lost": 1 - math.exp(low - high)}
    return finding(NAME, "drops", curve, row, text, sure, numbers=numbers)


def _explained(shared: Shared, step: int) -> bool:
    """True where batch size or sequence length changes at the step."""
    for metric in ("batch_size", "seq_len"):
        curve = shared.curve(metric)
        if curve is None or len(curve) < 2:
            continue
        moves = curve.steps[1:][np.diff(curve.values) != 0]
        if len(moves) and bool(np.min(np.abs(moves - step)) <= 5 * curve.spacing):
            return True
    return False


def scan(run: Run) -> Scan:
    return look(Shared(run))
