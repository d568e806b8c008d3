"""A loss that goes up and never comes down: soon after the start, or after a healthy time.

What it sees
    A rise to a multiple of the best level that is still there at the end of the log, or that ends in NaN. `early`
    within the first rows or the warm-up, `late` afterwards. The first step is where the curve leaves its level.
Why it matters
    Every step after it is lost. Early points at the learning rate, initialisation, mask or precision, late at a
    change, a bad batch with a hot learning rate, or damaged state (D2-sym-1, D2-sym-2).
Blind when
    No loss was logged, or fewer than 4 rows.
Easily mistaken for
    The bump of the first ten steps, which healthy runs climb down from; a warm restart; a file with several runs.
"""

from __future__ import annotations

import math

import numpy as np

from playbook.detectors import stats
from playbook.detectors.shared import MENTION, Shared, answer, blind, finding
from playbook.detectors.stats.curve import Curve
from playbook.detectors.stats.excursions import ordinary
from playbook.detectors.stats.segments import Segment
from playbook.findings import Finding, Scan

NAME = "explosion"
NEEDS = ("loss",)
OPTIONAL = ("lr",)
KINDS = ("early", "late")

LEAST = 4  # rows
EARLY_ROWS = 50  # rows after a fresh start
EARLY_STEPS, EARLY_SHARE = 200, 0.05  # steps, or the share of the planned run: "soon after the start"
EARLY_EPOCHS = 2  # where the steps are epochs: each is hundreds of updates
FEW_ROWS = 20
BURST, BURST_ROWS, BURST_AFTER = math.log(20.0), 10, 60  # height, rows in which it begins, and rows that must follow
JUMP = math.log(1.3)  # the first row that is above everything before it by this much, for good
UP = math.log(1.5)  # early: the level at the end over the best level
UP_CLEAR = math.log(1.25)  # the same where many quiet rows say so: from 6.0 back up to the 7.5 of word frequencies
TIMES = math.log(2.5)  # late: the level that it settles at over the level before


def look(shared: Shared) -> Scan:
    if gap := shared.lacks(NEEDS):
        return blind(NAME, gap)
    loss = shared.loss
    assert loss is not None
    if int(shared.good.sum()) < LEAST:
        return blind(NAME, f"only {stats.rows(int(shared.good.sum()))} of loss")
    out: list[Finding] = []
    for seg in shared.segments:
        if seg.kind in ("first", "init"):
            out += _early(shared, loss, seg)
    for seg, e in shared.excursions:
        if ordinary(seg, e) or any(abs(int(loss.steps[e.start]) - (f.step or 0)) <= 200 for f in out):
            continue
        gone = e.end is None and (e.broken or (e.lasting and min(e.after_rise, e.final_rise) >= TIMES))
        if not gone or (e.broken and e.rise < JUMP):
            continue
        kind = "early" if _soon(shared, loss, seg, e.start) else "late"
        sure = 0.9 if e.final_rise >= TIMES else 0.8
        if shared.no_measure:
            sure = min(sure, MENTION)
        out.append(_told(loss, kind, e.start, e.base, e.top, e.final, sure, e.broken))
    return answer(NAME, out, "the loss ends near its best level")


def _early(shared: Shared, loss: Curve, seg: Segment) -> list[Finding]:
    index = seg.lo + np.flatnonzero(shared.good[seg.lo : seg.hi])
    if len(index) < LEAST:
        return []
    # a few hundred rows tell; what happens thousands of rows later is another story
    horizon = index[: max(20 * EARLY_ROWS, len(index) // 5)]
    x = shared.domain.x(loss.values[horizon])
    head = min(EARLY_ROWS, len(x) - 1)
    smooth = _medians(x)
    # the best level so far: of the first three rows the lowest, then of medians of three, which noise does not lower
    best = np.minimum.accumulate(np.concatenate([x[:3], smooth]))[:head]
    low_ahead = np.minimum.accumulate(smooth[::-1])[::-1]
    rise_now, rise_ever = x[1 : head + 1] - best, low_ahead[1 : head + 1] - best
    over = np.flatnonzero((rise_now > JUMP) & (rise_ever > math.log(1.2)))
    final = float(np.median(x[-max(3, len(x) // 10) :]))
    dead = bool((~loss.finite[seg.lo : seg.hi]).any()) and len(x) < len(loss.values[seg.lo : seg.hi])
    if burst := _burst(x, smooth):
        base, top = shared.domain.value(float(x[:burst].min())), float(loss.values[horizon[burst:]].max())
        sure = MENTION if not shared.domain.log or shared.no_measure else 0.78
        return [_told(loss, "early", int(horizon[burst]), base, top, shared.domain.value(final), sure, dead)]
    if not len(over):
        return []
    at = int(over[0]) + 1
    lift, noise = final - float(best[at - 1]), stats.diff_sigma(x)
    sigma = stats.diff_sigma(x[:at]) if at >= 8 else 0.0
    clear = lift >= UP or (lift >= UP_CLEAR and lift >= 10.0 * noise and len(x) - at >= FEW_ROWS)
    if not clear or rise_now[at - 1] < 4.0 * sigma or lift < (8.0 if at <= 3 else 5.0) * noise:
        return []
    if len(x) - at < 3 and not dead:
        return []  # a last row or two: nothing is known yet
    sure = 0.92 if lift >= math.log(2.0) and len(x) - at >= 5 else 0.78
    if (len(x) < FEW_ROWS or at == 1) and lift < TIMES:
        sure = MENTION  # a handful of epochs, or a single row, is no level
    # a bump before it that was climbed down from belongs to it: the run was unstable from there on
    bump = np.flatnonzero(rise_now[:at] > TIMES)
    at = int(bump[0]) + 1 if len(bump) else at
    if not shared.domain.log or shared.no_measure:
        sure = min(sure, MENTION)
    base, top = shared.domain.value(float(best[at - 1])), float(loss.values[horizon[at:]].max())
    row = int(horizon[at])
    kind = "early" if _soon(shared, loss, seg, row) else "late"
    return [_told(loss, kind, row, base, top, shared.domain.value(final), sure, dead)]


def _burst(x: np.ndarray, smooth: np.ndarray) -> int | None:
    """The row, of the first ones, at which the loss is blown up by decades and after which nothing was learned.

    A bump of the first steps is climbed down from to far below the start; here the first rows stay the best ones.
    """
    height = max(BURST, 12.0 * stats.diff_sigma(x))
    for at in range(1, min(BURST_ROWS, len(x) - BURST_AFTER)):
        if float(smooth[at] - x[:at].min()) >= height:
            return at if float(np.median(smooth[at:][-len(x) // 4 :])) > float(x[:at].min()) else None
    return None


def _medians(x: np.ndarray) -> np.ndarray:
    """Median of each row and the two after it; the last two rows stand for themselves."""
    inner = np.median(np.lib.stride_tricks.sliding_window_view(x, 3), axis=1)
    return np.concatenate([inner, x[-2:]])


def _soon(shared: Shared, loss: Curve, seg: Segment, index: int) -> bool:
    if seg.kind not in ("first", "init"):
        return False
    done = int(loss.steps[index] - loss.steps[seg.lo])
    planned = shared.setting("max_steps", "train_iters", "total_steps", "max_train_steps", "num_training_steps")
    total = planned or float(loss.steps[seg.hi - 1] - loss.steps[seg.lo])
    if shared.counts_epochs:
        return done <= EARLY_EPOCHS
    return done <= EARLY_STEPS or done <= EARLY_SHARE * total or index - seg.lo <= 20


def _told(
    loss: Curve, kind: str, index: int, base: float, top: float, final: float, sure: float, dead: bool
) -> Finding:
    step, n = int(loss.steps[index]), stats.number
    text = f"loss goes from {n(base)} to {n(top)} beginning at step {step} and "
    text += "ends in values that are not finite" if dead else f"is {n(final)} at the end"
    numbers = {"level_before": base, "peak": top, "level_at_end": final, "times": top / base if base else 0.0}
    return finding(NAME, kind, loss, index, text, sure, numbers=numbers)
