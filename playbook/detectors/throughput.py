"""The speed of the training: steady, or lower than it was.

What it sees
    Tokens, samples or iterations a second (or the step time, turned round): `drops` where the speed falls by a
    fifth and more against its level before and is still low at the end, where it leaves its level and declines by
    three tenths, or where rows that take a multiple of the usual time set in and cost a fifth (at even distances, as
    saves and evaluations come: where they double the time); `steady` otherwise. Pauses all along that take three
    tenths of the time are no drop: they are told with their period, and what to do.
    Where the time spent waiting for data was logged, `data-bound` or `data-fast`: its share of the step in the last
    rows, or its rise where the speed falls.
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
import re
from dataclasses import replace

import numpy as np

from playbook.detectors import gpu, stats
from playbook.detectors.shared import DOUBTFUL, MENTION, Shared, answer, blind, finding
from playbook.detectors.stats.curve import Curve, at_steps
from playbook.findings import Finding, Scan
from playbook.series import Series

NAME = "throughput"
NEEDS = (("throughput", "step_time"),)
OPTIONAL = ("batch_size", "seq_len", "data_time", "gpu_util")
KINDS = ("drops", "steady", "data-bound", "data-fast")

LEAST = 30  # rows
DROP = math.log(0.8)
Z = 6.0
BLOCKS = 100
START = 0.05  # of the rows: not looked at
WAITS, FAST = 0.2, 0.05  # share of the step: the loader sets the pace, or it does not
LOW_ROWS = 12  # a shorter slow stretch is a pause
DECLINE, FALLING = math.log(0.7), -0.6  # of the level at the start, and Kendall's tau of the blocks
AT_LEVEL = 0.15  # share of a decline that the first tenth may have: a running average falls most at first
STALL, SOME, NONE = 2.0, 0.08, 0.03  # times the usual time; share of such rows behind the change and before it
COST, STALLS = 0.2, 10  # of the usual time that they cost on the average, and how many there must be
DOUBLED = 1.0  # what they cost where they come evenly, if a row is but one step of many
MORE = 1.5  # times the time that was spent waiting for data before
LOADERS = ("num_workers", "dataloader_num_workers", "num_data_workers", "workers_per_gpu", "data_workers")
# a unit in a name, and the timer of Megatron, which prints milliseconds
_MILLISECONDS = re.compile(r"(?i)(?:^|[^a-z])(?:ms|msecs?|milliseconds?)(?:[^a-z]|$)|batch.generator")
PAUSES, TAKEN, AT_LEAST = 5, 0.3, 0.1  # how many; their share of the time logged, and if a row is but one step of many
REGULAR = 0.7  # of the gaps that are the usual one: evaluations, checkpoints
EVEN = (
    "see what runs at that distance: an evaluation or a save can be made rarer, smaller or asynchronous; if it is "
    "neither, watch the loader and the file system there"
)
UNEVEN = "log the time spent waiting for data beside the step time, and watch the loader and the file system there"


def look(shared: Shared) -> Scan:
    if gap := shared.lacks(NEEDS):
        return blind(NAME, gap)
    curve, sign = speed(shared)
    if curve is None:
        return blind(NAME, "no positive value of throughput or step time")
    index = np.flatnonzero(curve.finite & (curve.values > 0))
    if len(index) < LEAST:
        return blind(NAME, f"only {stats.rows(len(index))} of {curve.metric}, {LEAST} are needed")
    index = index[max(3, int(START * len(index))) :]
    x = sign * np.log(curve.values[index])
    found = _drop(shared, curve, index, x, sign)
    if found is None or found.confidence <= MENTION:
        found = _decline(shared, curve, index, x, sign) or _stalls(curve, index, x) or found
    waits = _waits(shared) or _waits_more(shared, found)
    if found is not None:
        return answer(NAME, [found, *waits], "")
    if pauses := _pauses(curve, index, x):
        return answer(NAME, [pauses, *waits], "")
    middle = stats.number(float(np.median(curve.values[index])))
    text = f"{curve.metric} stays at its level (median {middle}, {stats.rows(len(index))})"
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
    if (unit := seconds(data.series) / seconds(step.series)) != 1.0:
        # one of two names has a unit: the other one may have the same without saying so
        shares = [s for s in (share, share * unit) if 0 <= s <= 1.0]
        if len({_waiting(s) for s in shares}) != 1:
            return []
        share = shares[-1]
    kind = _waiting(share)
    if kind is None:
        return []
    text = f"{share:.0%} of the step is spent waiting for data in the last {stats.rows(int(good.sum()))}"
    return [finding(NAME, kind, data, int(own[0]), text, 0.85, numbers={"share": share})]


def _waiting(share: float) -> str | None:
    return "data-bound" if WAITS < share <= 1.0 else "data-fast" if 0 <= share < FAST else None


def _waits_more(shared: Shared, drop: Finding | None) -> list[Finding]:
    """Where no share of the step is known: the time spent waiting for data rises where the run becomes slow.

    Without that time, GPUs that wait beside a loader in the process of the training are a weak sign of the same.
    """
    if drop is None or drop.step is None or drop.confidence <= MENTION:
        return []
    data = shared.curve("data_time")
    if data is None:
        idle = gpu.all_idle(gpu.parts_of(shared, "gpu_util", None))
        if idle is None or shared.setting(*LOADERS) != 0:
            return []
        return [replace(idle, detector=NAME, kind="data-bound", because=f"no worker loads data, and {idle.because}",
                        confidence=DOUBTFUL)]  # fmt: skip
    before, after = data.before(drop.step), np.flatnonzero(data.finite & (data.steps >= drop.step))
    if min(len(before), len(after)) < LOW_ROWS:
        return []
    old, new = float(np.median(data.values[before])), float(np.median(data.values[after]))
    noise = stats.mad_sigma(data.values[before]) / math.sqrt(LOW_ROWS)
    if new < MORE * old or new - old < Z * noise or new <= 0:
        return []
    n = stats.number
    text = f"the time spent waiting for data goes from {n(old)} to {n(new)} as the run becomes slower"
    return [finding(NAME, "data-bound", data, int(after[0]), text, 0.75, numbers={"before": old, "after": new})]


def seconds(time: Series) -> float:
    """What the values of a time are to be multiplied by to be seconds, as far as its name tells."""
    return 1e-3 if _MILLISECONDS.search(time.raw) else 1.0


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
    if any(shared.changes(metric, step) for metric in ("batch_size", "seq_len")):
        sure = min(sure, MENTION)
    old, new = math.exp(sign * high), math.exp(sign * low)
    text = f"{curve.metric} goes from {stats.number(old)} to {stats.number(new)} at step {step}"
    text += f", {1 - math.exp(low - high):.0%} slower, up to the end"
    numbers = {"before": old, "after": new, "share_lost": 1 - math.exp(low - high)}
    return finding(NAME, "drops", curve, row, text, sure, numbers=numbers)


def _decline(shared: Shared, curve: Curve, index: np.ndarray, x: np.ndarray, sign: float) -> Finding | None:
    """A speed that leaves its level and goes down, little by little, to the end."""
    few = x[:: max(1, len(x) // 4096)]
    part = max(1, len(few) // 10)
    if float(np.median(few[-part:]) - np.median(few[:part])) > 0.8 * DECLINE:
        return None
    size = max(1, len(x) // BLOCKS)
    blocks = stats.block_medians(x, size)
    tenth = max(3, len(blocks) // 10)
    high, low = float(np.median(blocks[:tenth])), float(np.median(blocks[-tenth:]))
    noise = max(stats.diff_sigma(blocks), 1e-3)
    if low - high > DECLINE or high - low < Z * noise or stats.trend(blocks) > FALLING:
        return None
    at = stats.hinge(-blocks, True)
    if at < tenth // 2 or high - float(np.median(blocks[tenth : 2 * tenth])) > AT_LEVEL * (high - low):
        return None
    row = int(index[min(at * size, len(index) - 1)])
    moved = [c for m in ("batch_size", "seq_len") if (c := shared.curve(m)) is not None and np.ptp(c.values) > 0]
    n = stats.number
    text = f"{curve.metric} declines from {n(math.exp(sign * high))} at step {int(curve.steps[row])}"
    text += f" to {n(math.exp(sign * low))} at the end, {1 - math.exp(low - high):.0%} slower"
    numbers = {"before": math.exp(sign * high), "after": math.exp(sign * low), "share_lost": 1 - math.exp(low - high)}
    return finding(NAME, "drops", curve, row, text, MENTION if moved else 0.75, numbers=numbers)


def _stalls(curve: Curve, index: np.ndarray, x: np.ndarray) -> Finding | None:
    """Rows that take a multiple of the usual time, from some row on and too many to be pauses: the input stalls."""
    usual = float(np.median(x[:: max(1, len(x) // stats.SAMPLE)]))
    slow = x < usual - math.log(STALL)
    if slow.mean() < SOME / 10:
        return None
    rest = np.cumsum(slow - slow.mean())
    begin = int(np.argmin(rest)) + 1 if rest.min() < 0 else 0
    period = _period(slow[begin:])
    took = np.exp(np.clip(usual - x, -3.0, 7.0 if period else 3.0))
    last = slow[-max(1, (len(slow) - begin) // 3) :]
    often = 0.5 / period if period else SOME
    many = int(slow[begin:].sum()) >= STALLS and begin >= max(2 * STALLS, 3 * period)
    if not many or slow[begin:].mean() < often or slow[:begin].mean() > often * NONE / SOME or last.mean() < often / 2:
        return None
    cost = float(took[begin:].mean() - np.mean(took[:begin]))
    if cost < (DOUBLED * curve.spacing if period else COST):
        return None
    row = int(index[begin])
    text = (
        f"{int(slow[begin:].sum())} of the last {stats.rows(len(slow) - begin)} take more than "
        f"{STALL:g} times the usual time"
    )
    text += f", from step {int(curve.steps[row])} on; a row takes {cost:.0%} longer on the average"
    numbers = {"share_of_rows": float(slow[begin:].mean()), "share_lost": cost / (1.0 + cost)}
    return finding(NAME, "drops", curve, row, text, 0.75, numbers=numbers)


def _pauses(curve: Curve, index: np.ndarray, x: np.ndarray) -> Finding | None:
    """Slow rows all along that take much of the time: evaluations, saves, a loader that is refilled."""
    usual = float(np.median(x[:: max(1, len(x) // stats.SAMPLE)]))
    slow = x < usual - math.log(STALL)
    if int(slow.sum()) < PAUSES or not slow[: len(slow) // 2].any() or not slow[len(slow) // 2 :].any():
        return None
    took = np.exp(np.clip(usual - x, -7.0, 7.0))
    extra = float((took[slow] - 1.0).sum())
    share = extra / float(took.sum())
    if share < TAKEN or extra / (extra + len(x) * curve.spacing) < AT_LEAST:
        return None
    steps, n = _period(slow) * curve.spacing, stats.number
    name, times = curve.metric, n(float(np.median(took[slow])))
    if steps:
        text = (
            f"{name} stays at its level, but every {n(steps)} steps a row takes {times} times the usual time: "
            f"{share:.0%} of the time logged goes there"
        )
    else:
        text = (
            f"{name} stays at its level, but {int(slow.sum())} of {stats.rows(len(slow))} take {times} times "
            f"the usual time: {share:.0%} of the time logged goes there"
        )
    numbers = {"period": float(steps), "share_lost": share}
    row, remark = int(index[np.argmax(slow)]), EVEN if steps else UNEVEN
    return finding(NAME, "steady", curve, row, text, 0.75, numbers=numbers, remark=remark)


def _period(slow: np.ndarray) -> float:
    """Rows from one slow stretch to the next where they come evenly, else 0."""
    begins = np.flatnonzero(np.diff(np.concatenate([[False], slow]).astype(np.int8)) == 1)
    gaps = np.diff(begins)
    if len(gaps) < 2:
        return 0.0
    middle = float(np.median(gaps))
    even = float(np.mean(np.abs(gaps - middle) <= 1)) > REGULAR
    return middle if even and middle > 2.0 else 0.0
