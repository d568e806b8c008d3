"""A loss that turns up slowly, without a jump.

What it sees
    `climb`: the blocks' medians fall or lie flat, then rise to the end of the log, or to a height of which most is
    kept to the end: most of them one after the other, by at least eight per cent and far more than their noise, and
    no single place carries the rise. The step is where it turns.
Why it matters
    No alarm for spikes sees it. It points at the order or the mixture of the data, lost random state, low
    precision, or a learning rate that left its schedule (D0-sym-4), and costs the most GPU time because it is seen
    last.
Blind when
    No loss was logged, or fewer than 60 rows.
Easily mistaken for
    A warm restart or a warm-up of the learning rate, the rise inside an epoch after the drop at its beginning, the
    loss of a policy, a run that starts from trained weights and first moves away from them.
"""

from __future__ import annotations

import math

import numpy as np

from playbook.detectors import spike, stats
from playbook.detectors.shared import DOUBTFUL, MENTION, NOTICED, Shared, answer, blind, finding
from playbook.detectors.stats.rate import LEAP
from playbook.findings import Finding, Scan

NAME = "slow_climb"
NEEDS = ("loss",)
OPTIONAL = ("lr", "epoch")
KINDS = ("climb",)

LEAST = 60  # rows
BLOCKS = 48  # the run in this many blocks
FINE = 128  # blocks in which the turn is sought
BEHIND = 6  # part of the rows before the lowest block in which the turn is sought
RISE = math.log(1.08)
Z = 6.0  # of the blocks' own noise
EVEN, Z_EVEN = 5.0, 4.0  # sigma of a climb by the order of its blocks, and of its height where that is so
PART = 0.12  # of the rows: a shorter rise is not told from noise
STRETCH = 0.1  # of the rows: from a tenth to nine tenths of the rise; faster is no slow climb
TAU = 0.55  # Kendall, of the blocks after the turn
HIGH, EARLY_ROWS = math.log(1.4), 30  # a rise that counts even behind a short descent, and its rows
KEPT, HUMP = 0.5, math.log(1.25)  # share of a height that is kept to the end; a lower one is no fault by itself
MULTIPLE = math.log(2.5)  # no drift to the level of new data
ONE_PLACE = 0.6  # share of the rise between two neighbouring blocks: more is a shift, not a climb
# a rise too swift for that and too slow for a jump: blocks of the run, blocks from a tenth to nine tenths of it, height
SWIFT_BLOCKS, SWIFT_STRETCH, SWIFT = 144, 3, math.log(1.5)
NEAR, FOOT = 0.1, 0.1  # of the rows behind the turn, and of the rise: a resume there is where it begins
WANDER = 0.35  # of such a rise: as much up before it or down behind it is a loss that wanders

MODEST, CAME = math.log(1.25), 0.15  # a rise below it, of which the last third of the run has less than this share


def look(shared: Shared) -> Scan:
    if gap := shared.lacks(NEEDS):
        return blind(NAME, gap)
    rows = int(shared.good.sum())
    if rows < LEAST:
        return blind(NAME, f"only {stats.rows(rows)} of loss, {LEAST} are needed to see a slow rise")
    out: list[Finding] = []
    for line in shared.lineages:
        if len(line) >= LEAST:
            out += _in_line(shared, line)
    return answer(NAME, out, f"{stats.rows(rows)} of loss, no lasting rise")


def _in_line(shared: Shared, line: np.ndarray) -> list[Finding]:
    loss, dom = shared.loss, shared.domain
    assert loss is not None
    x = dom.x(loss.values[line])
    return _slow(shared, line, x) or _swift(shared, line, x)


def _slow(shared: Shared, line: np.ndarray, x: np.ndarray) -> list[Finding]:
    """A rise that takes at least a tenth of the run."""
    loss, dom = shared.loss, shared.domain
    assert loss is not None
    size = max(1, len(x) // BLOCKS)
    blocks = stats.block_medians(x, size)
    n = len(blocks)
    noise = max(stats.diff_sigma(blocks), 1.25 * stats.diff_sigma(x) / math.sqrt(size), 1e-5)
    smooth = np.median(np.lib.stride_tricks.sliding_window_view(np.pad(blocks, 1, mode="edge"), 3), axis=1)
    low = int(np.argmin(smooth))
    tail = max(2, n // 16)
    last = float(np.median(blocks[-tail:]) - smooth[low])
    peak = low + int(np.argmax(smooth[low:]))
    top = float(smooth[peak] - smooth[low])
    humped = peak < n - 2 * tail and last >= KEPT * top and top >= HUMP
    after = blocks[low : peak + 1] if humped else blocks[low:]
    if len(after) < max(6, PART * n):
        return []
    rise = top if humped else last
    tau, count = stats.trend(after), len(after)
    # Kendall's test: an even climb of many blocks is sure where a single block is not
    even = 3.0 * tau * math.sqrt(count * (count - 1) / (4.0 * count + 10.0))
    if rise < max(RISE, (Z_EVEN if even >= EVEN else Z) * noise) or tau < TAU:
        return []
    share_up = (smooth[low : low + len(after)] - smooth[low]) / rise
    if int(((share_up > 0.1) & (share_up < 0.9)).sum()) < max(4, STRETCH * n) or _carried(
        shared, line, low * size, rise
    ):
        return []
    steepest = float(np.max(np.diff(smooth[low : low + len(after)]))) if len(after) > 1 else rise
    if steepest > ONE_PLACE * rise:
        return []
    turn = _turn(x, low * size, min((low + len(after)) * size, len(x)))
    index = int(line[_resumed(shared, line, x, turn, rise)])
    begin, end = int(loss.steps[index]), int(loss.steps[line[min((low + len(after)) * size, len(line)) - 1]])
    share = len(after) / n
    start = max(float(np.median(blocks[: max(1, n // 24)])), float(np.median(x[:3])))
    sure = 0.85 if rise >= math.log(1.25) and share >= 0.25 else 0.76
    if (
        rise < MODEST
        and not humped
        and float(blocks[-(n // 3) :].max() - np.median(smooth[-(n // 3) :][:tail])) < CAME * rise
    ):
        sure = min(sure, DOUBTFUL)  # it has come to a new level and stays: as of a term that was phased in
    # a run that never came down much has trained weights behind it: it may drift to the new data's level
    came_down = start - smooth[low] >= max(0.5 * rise, 4.0 * noise)
    early = low < 0.08 * n and not (came_down and rise >= HIGH and low * size >= EARLY_ROWS)
    if rise < MULTIPLE and (early or (not came_down and (rise < math.log(1.2) or low < 0.2 * n))):
        sure = min(sure, MENTION)
    if _with_lr(shared, begin, end) or _after_drop(blocks, low, rise):
        sure = min(sure, MENTION)
    if (
        shared.no_measure
        or shared.phased_in
        or not dom.log
        or abs(dom.value(smooth[low] + rise) - dom.value(smooth[low])) < 0.02 * abs(dom.value(start))
    ):
        sure = min(sure, MENTION)
    old, new = dom.value(float(smooth[low])), dom.value(float(smooth[low]) + rise)
    text = f"loss climbs from {stats.number(old)} at step {begin} to {stats.number(new)} at step {end} without a jump"
    numbers = {
        "level_lowest": old,
        "level_at_end": new,
        "rise_share": share,
        "tau": tau,
        "z": rise / noise,
    }
    return [finding(NAME, "climb", loss, index, text, sure, numbers=numbers)]


def _swift(shared: Shared, line: np.ndarray, x: np.ndarray) -> list[Finding]:
    """A high rise over some tens to hundreds of rows, of which at least half is kept: no jump, and soon over."""
    loss, dom = shared.loss, shared.domain
    assert loss is not None
    coarse = stats.block_medians(x[:: max(1, len(x) // 4096)], 16)
    if float(np.median(coarse[-3:]) - coarse.min()) < 0.5 * KEPT * SWIFT:
        return []
    size = max(1, len(x) // SWIFT_BLOCKS)
    blocks = stats.block_medians(x, size)
    smooth = np.median(np.lib.stride_tricks.sliding_window_view(np.pad(blocks, 1, mode="edge"), 3), axis=1)
    n, low = len(blocks), int(np.argmin(smooth))
    tail = max(2, n // 16)
    top = float(smooth[low:].max() - smooth[low])
    noise = max(stats.diff_sigma(blocks), 1.25 * stats.diff_sigma(x) / math.sqrt(size), 1e-5)
    if top < max(SWIFT, Z * noise) or float(np.median(blocks[-tail:]) - smooth[low]) < KEPT * top:
        return []
    high = low + int(np.argmax(smooth[low:] - smooth[low] >= 0.9 * top))
    foot = high - int(np.argmax((smooth[low : high + 1] - smooth[low] <= 0.1 * top)[::-1]))
    rising = smooth[foot : high + 1]
    if high - foot < SWIFT_STRETCH or stats.trend(rising) < TAU or float(np.max(np.diff(rising))) > ONE_PLACE * top:
        return []
    came_down = float(np.median(x[:3]) - smooth[low]) >= max(0.25 * top, 4.0 * noise)
    known = foot * size >= EARLY_ROWS and foot >= 0.08 * n and came_down and n - high >= tail
    if not known or shared.no_measure or shared.phased_in or not dom.log or _carried(shared, line, low * size, top):
        return []
    index, end = int(line[_turn(x, foot * size, min((high + 1) * size, len(x)))]), min((high + 1) * size, len(x)) - 1
    begin, until = int(loss.steps[index]), int(loss.steps[line[end]])
    sure = MENTION if _with_lr(shared, begin, until) else 0.8
    old, new = dom.value(float(smooth[low])), dom.value(float(smooth[low]) + top)
    if new - old < 0.02 * abs(float(np.median(loss.values[line[:3]]))) or _wanders(smooth, low, high, WANDER * top):
        return []
    text = f"loss climbs from {stats.number(old)} at step {begin} to {stats.number(new)} at step {until} without a jump"
    numbers = {"level_lowest": old, "level_at_end": new, "rise_share": (high - foot) / n, "z": top / noise}
    return [finding(NAME, "climb", loss, index, text, sure, numbers=numbers)]


def _wanders(smooth: np.ndarray, low: int, high: int, much: float) -> bool:
    """True where the curve rises before its lowest place, or falls behind its rise, by `much`: it goes up and down."""
    before, after = smooth[:low], smooth[high:]
    rises = before - np.minimum.accumulate(before) if len(before) else before
    falls = np.maximum.accumulate(after) - after
    return bool(rises.max(initial=0.0) > much or falls.max(initial=0.0) > much)


def _carried(shared: Shared, line: np.ndarray, low: int, rise: float) -> bool:
    """True where a jump that lasts, and is told as one, makes most of the rise."""
    begin = int(line[low])
    return any(
        e.lasting and e.start >= begin and e.after_rise > 0.5 * rise and spike.confidence(shared, seg, e) >= NOTICED
        for seg, e in shared.excursions
    )


def _turn(x: np.ndarray, low: int, end: int) -> int:
    """The row where the curve turns up, near the lowest block: the break of two joined lines through finer blocks."""
    begin = max(0, low - len(x) // BEHIND)
    size = max(1, (end - begin) // FINE)
    return min(begin + stats.hinge(stats.block_medians(x[begin:end], size), True) * size + size // 2, len(x) - 1)


def _resumed(shared: Shared, line: np.ndarray, x: np.ndarray, turn: int, rise: float) -> int:
    """The row where the run was resumed, where that is near the turn and next to nothing was risen before it."""
    reach = max(8, int(NEAR * len(x)))
    for seg in shared.segments[1:]:
        at = int(np.searchsorted(line, seg.lo))
        if seg.kind in ("resume", "counter") and turn < at <= turn + reach and at >= 16:
            before = x[max(0, turn - 8) : at]
            if float(np.median(before[-8:]) - np.median(before[:16])) < FOOT * rise:
                return at
    return turn


def _with_lr(shared: Shared, begin: int, end: int) -> bool:
    """True where the learning rate itself rises over the climb, and not to more than it ever was: a restart.

    In the first warm-up a loss that had come down and climbs with the rate is at fault: the rate is too high already.
    """
    lr = shared.curve("lr")
    if lr is None:
        return False
    part = lr.values[(lr.steps >= begin) & (lr.steps <= end) & lr.finite]
    before = lr.values[(lr.steps < begin) & lr.finite]
    if len(part) and len(before) and float(part.max()) > LEAP * float(before.max()):
        return False
    return len(part) >= 2 and bool(np.median(part[-max(1, len(part) // 5) :]) > 1.2 * max(part[0], 1e-12))


def _after_drop(blocks: np.ndarray, low: int, rise: float) -> bool:
    """True where a sudden drop leads to the lowest block and the climb does not make up for it (inside an epoch)."""
    if low < 2:
        return False
    falls = blocks[max(0, low - 3) : low] - blocks[max(0, low - 3) + 1 : low + 1]
    return bool(falls.max(initial=0.0) > 0.8 * rise)
