"""A loss that jumps off its level: once, again and again, or for good.

What it sees
    Rows far above the median of the 64 rows before them: about three times the level, or 1.25 times where that is
    enormous against the noise; in both cases clearly beyond what the tail of the run's own noise reaches.
    `transient` is back within 200 steps, `persistent` is not, `repeated` are three and more, `growing` are repeated
    ones that become higher. The form of the surest one: `one-row` (off in one row, back in the next), `relaxes` (jumps
    at once, comes down over many rows), `step` (jumps at once and stays), `builds-up` (climbs to its peak).
Why it matters
    An isolated spike that recovers points at a batch or a moment of the network; one that stays high points at the
    learning rate, the data or damaged weights and calls for a rollback (D0-sym-2, D0-sym-3, D3-stop-1).
Blind when
    No loss was logged, or fewer than eight rows. A log every 100 steps, or an average over many steps, hides short
    spikes.
Easily mistaken for
    Noise of small batches (heavy tails), the bump of the optimiser's first steps, a warm restart of the learning
    rate, a switch of the data mixture, the first rows of a second run in the same file; a jump of the evaluation
    loss alone (D3-def-2).
"""

from __future__ import annotations

import math

import numpy as np

from playbook.detectors import stats
from playbook.detectors.shared import DOUBTFUL, MENTION, Shared, answer, blind, finding
from playbook.detectors.stats.curve import Curve
from playbook.detectors.stats.excursions import RISE_BIG, Excursion, ordinary
from playbook.detectors.stats.segments import Segment
from playbook.findings import Finding, Scan

NAME = "spike"
NEEDS = ("loss",)
OPTIONAL = ("lr", "epoch")
KINDS = ("transient", "persistent", "repeated", "growing", "one-row", "relaxes", "step", "builds-up")

LEAST = 8  # rows
SWITCH = math.log(1.6)  # a planned switch of the data is smaller, and the loss comes down from it
Z_OVERSHOT = 9.0  # sigma of a jump to less than twice the level that relaxes over hundreds of steps
LEAP_UP = math.log(1.75)  # far above what a planned switch does, whatever the loss does later
SLOW_ROWS = 20  # of a rise that relaxes as after a warm restart
CLIMB = 0.1  # of the rows: what takes longer to rise is no jump (the least stretch of `slow_climb`)
SHOWN = 20  # transient spikes told one by one
EVENLY = 0.8  # of the gaps that are the usual one: spikes with a period
ALIKE = 0.5  # of the rise of a spike: one before it that tells how long they last
DENSE = 5  # steps from row to row: a sparser log hides the form
AT_ONCE, UPHILL = 3, 5  # rows to the peak of a jump and of a climb
KEPT, LOST = 0.8, 0.35  # share of the first rise that a step keeps, and of the peak that a climb has in its first row


def look(shared: Shared) -> Scan:
    if gap := shared.lacks(NEEDS):
        return blind(NAME, gap)
    loss = shared.loss
    assert loss is not None
    if int(shared.good.sum()) < LEAST:
        return blind(NAME, f"only {stats.rows(int(shared.good.sum()))} of loss, {LEAST} are needed to know its level")
    out: list[Finding] = []
    passing: list[tuple[Excursion, float]] = []
    slow = [e for seg, e in shared.excursions if e.rows >= SLOW_ROWS and e.rise > 0 and not ordinary(seg, e)]
    planned = stats.evenly([int(loss.steps[e.start]) for e in slow], int(loss.steps[0]))
    for seg, e in shared.excursions:
        sure = confidence(shared, seg, e)
        if sure <= 0.0:
            continue
        ended = (
            e.recovered or e.left < 2 * e.row
        )  # a restart would have relaxed in a time as long as twice the run before
        if planned and e.rows >= SLOW_ROWS and not e.broken and ended:
            sure = min(sure, MENTION)  # rises at even distances that relax slowly: restarts of an unlogged schedule
        kind = "persistent" if e.lasting and not _soon_back(e, shared.excursions) else "transient"
        if kind == "transient":
            passing.append((e, sure))
        if kind == "persistent" or len(passing) <= SHOWN:
            out.append(_told(loss, e, kind, sure))
    out += _many(shared, loss, passing)
    out += _form(shared, out)
    return answer(NAME, out, f"{stats.rows(int(shared.good.sum()))} of loss, none leaves its level")


def _soon_back(e: Excursion, all_of: list[tuple[Segment, Excursion]]) -> bool:
    """True for the last of several alike of which the log does not show the end: the ones before took longer."""
    if e.recovered or e.broken:
        return False
    took = [o.rows for _, o in all_of if o.recovered and o.start < e.start and o.rise >= ALIKE * e.rise]
    return len(took) >= 2 and e.left <= max(took)


def confidence(shared: Shared, seg: Segment, e: Excursion) -> float:
    """How sure it is that an excursion is a fault; 0.0 for none at all."""
    if ordinary(seg, e):
        return 0.0
    sure = _by_its_form(e, shared.domain.log)
    return min(sure, MENTION) if _health_explains(shared, e) else sure


def _by_its_form(e: Excursion, log: bool) -> float:
    """How much an excursion looks like a fault by itself: how far it rises, and what becomes of it."""
    big = e.rise >= RISE_BIG
    if not e.lasting:
        if not log and e.rows <= 5:
            return MENTION  # losses that cross zero (SI-SNR, policy losses) have single hard samples of any size
        return 0.88 if big else 0.75
    if e.broken or e.after_rise >= RISE_BIG:
        return 0.92
    if big:
        return 0.88 if e.rise >= 3.0 * max(e.after_rise, 1e-9) else 0.85  # the former overshot and settled
    if e.z >= Z_OVERSHOT and e.rise >= min(2.0 * max(e.after_rise, 1e-9), LEAP_UP):
        return 0.72  # far beyond the noise, and it comes down from there: no switch of the data
    # a step to a new level without overshoot is what a switch of the data looks like
    if e.after_rise < SWITCH and (e.recovered or e.final_rise < 0.7 * e.after_rise):
        return MENTION
    return 0.78 if e.after_rise >= 0.9 else 0.72 if e.after_rise >= 0.336 else MENTION


def _health_explains(shared: Shared, e: Excursion) -> bool:
    """Whether something that healthy runs do lifts the loss like this, or another detector tells it."""
    loss = shared.loss
    came_down = e.recovered or e.final_rise < 0.25 * e.after_rise
    restarts = loss is not None and shared.lr_restarts(int(loss.steps[e.start]), 100.0, None if came_down else e.after)
    if restarts and (came_down or e.after_rise < RISE_BIG) and not e.broken:
        return True  # a warm restart
    if not e.lasting and shared.mean_of_epoch and shared.begins_epoch(e.peak):
        return True  # the first rows of a mean over an epoch are single batches
    if e.lasting and not e.broken and e.build > CLIMB * (e.row + e.left):
        return True  # no jump: a climb, which has a detector of its own
    return shared.no_measure


def _told(loss: Curve, e: Excursion, kind: str, sure: float) -> Finding:
    step = int(loss.steps[e.start])
    n = stats.number
    text = f"loss rises from {n(e.base)} to {n(e.top)} at step {step} ({e.z:.0f} sigma)"
    if kind == "transient":
        text += f", back after {stats.rows(e.rows)}" if e.recovered else ", and the log ends"
    elif e.recovered:
        text += f", back only after {e.steps} steps"
    else:
        text += f", stays at {n(e.after)}"
    numbers = {
        "level_before": e.base,
        "peak": e.top,
        "peak_step": float(loss.steps[e.peak]),
        "level_after": e.after,
        "z": e.z,
        "rows": float(e.rows),
        "steps": float(e.steps),
        "times": e.top / e.base if e.base else 0.0,
        "recovered": float(e.recovered),
    }
    last = int(loss.steps[e.end - 1]) if e.end is not None else None
    return finding(NAME, kind, loss, e.start, text, sure, last_step=last, numbers=numbers)


def _form(shared: Shared, told: list[Finding]) -> list[Finding]:
    """The form of the surest excursion (of several the first), from a dense log."""
    loss = shared.loss
    assert loss is not None
    sure = [f for f in told if f.kind in ("transient", "persistent") and f.confidence >= DOUBTFUL]
    if not sure or loss.spacing > DENSE:
        return []
    best = max(sure, key=lambda f: (f.confidence, -(f.step or 0)))
    e = next(e for _, e in shared.excursions if int(loss.steps[e.start]) == best.step)
    stop = e.end if e.end is not None else len(loss)
    rows = e.start + np.flatnonzero(shared.good[e.start : min(stop, e.start + 256)])
    x = shared.domain.x(loss.values[rows]) - (shared.domain.x(np.array([loss.values[e.peak]]))[0] - e.rise)
    to_peak = int(np.argmax(x))
    first = float(x[:2].max()) / e.rise  # the foot of a jump may be one row early
    kept = float(np.median(x[-len(x) // 3 :])) / max(float(np.median(x[:UPHILL])), 1e-9)
    n = stats.number
    if e.recovered and len(x) <= 2:
        kind, what = "one-row", f"is back after {stats.rows(len(x))}"
    elif to_peak >= UPHILL and first < LOST:
        kind, what = "builds-up", f"takes {stats.rows(to_peak)} to its peak"
    elif to_peak <= AT_ONCE and e.recovered and len(x) > UPHILL:
        kind, what = "relaxes", f"jumps at once and takes {stats.rows(len(x))} to come back"
    elif not e.recovered and first >= LOST and len(x) >= 3 * UPHILL and kept > KEPT:
        kind, what = "step", f"jumps at once and stays at {n(e.after)}"
    elif to_peak <= AT_ONCE and len(x) > UPHILL:
        kind, what = "relaxes", f"jumps at once and comes down to {n(e.final)}"
    else:
        return []
    return [finding(NAME, kind, loss, e.start, f"the loss that leaves its level at step {best.step} {what}", 0.8)]


def _first_of(shared: Shared, loss: Curve, passing: list[tuple[Excursion, float]]) -> int:
    """Row of the first of several spikes: those that come evenly may begin before the level was known."""
    starts = [e.start for e, _ in passing]
    gaps = np.diff(starts)
    period = int(np.median(gaps))
    if len(gaps) < 3 or period < 8 or float(np.mean(np.abs(gaps - period) <= 1)) < EVENLY:
        return starts[0]
    at, least = starts[0], ALIKE * min(e.rise for e, _ in passing)
    while at - period >= 4:
        near = np.arange(at - period - 4, at - period + 6)
        x = shared.domain.x(np.where(shared.good[near], loss.values[near], 1.0))
        peak = 3 + int(np.argmax(x[3:6]))
        if not shared.good[near].all() or float(x[peak] - np.median(np.delete(x, peak))) < least:
            break
        at = int(near[peak])
    return at


def _many(shared: Shared, loss: Curve, passing: list[tuple[Excursion, float]]) -> list[Finding]:
    if len(passing) < 3:
        return []
    first, begin = passing[0][0], _first_of(shared, loss, passing)
    steps = [int(loss.steps[e.start]) for e, _ in passing]
    sure = max(s for _, s in passing)
    often = len(passing) / max(first.left, 1)
    if often > 0.05:
        sure = min(sure, MENTION)  # every twentieth row: the noise of this run
    text = f"{len(passing)} spikes that recover, from step {int(loss.steps[begin])} to step {steps[-1]}"
    numbers = {"count": float(len(passing)), "share_of_rows": often, "highest": max(e.top for e, _ in passing)}
    out = [finding(NAME, "repeated", loss, begin, text, sure, last_step=steps[-1], numbers=numbers)]
    heights = [e.rise for e, _ in passing]
    tau = stats.trend(np.array(heights))
    higher = float(np.mean(heights[-2:]) - np.mean(heights[:2]))
    tops = shared.domain.x(np.array([e.top for e, _ in passing]))
    # spikes of one height over a level that sinks do not grow
    grown = float(np.mean(tops[-2:]) - np.mean(tops[:2])) > 0.5 * higher
    if len(heights) >= 4 and tau >= 0.6 and higher > 0.5 * np.mean(heights[:2]) and grown:
        text = f"{len(heights)} spikes, each higher than the last: {stats.number(passing[0][0].top)} to "
        text += f"{stats.number(passing[-1][0].top)} (tau {tau:.2f})"
        out.append(
            finding(
                NAME, "growing", loss, first.start, text, sure, last_step=steps[-1], numbers={**numbers, "tau": tau}
            )
        )
    return out
