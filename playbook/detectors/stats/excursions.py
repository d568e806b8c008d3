"""Where a loss leaves its level upwards, how far, and whether it comes back.

One reading of the curve for spike, periodic, explosion and level_shift. A row is a candidate where it stands far above
the median of the rows before it, in three measures at once: times the level, robust z, and against the tail of the
run's own noise (heavy-tailed noise has outliers every day, and they are no news).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from playbook.detectors import stats
from playbook.detectors.stats.curve import Curve, Domain
from playbook.detectors.stats.segments import Segment

# D3-def-1: about three times the level; half a nat of grace, since logged values are often averages of several steps.
RISE_BIG, Z_BIG = math.log(2.5), 6.0
# Real runs with small batches reach 1.2 times the level at 5 sigma in health; repeatable bad batches 1.27 times at 9.
RISE_SMALL, Z_SMALL = math.log(1.25), 8.0
HELD_ROWS, Z_HELD, Z_EACH = 5, 7.0, 5.0  # rows in a row that are far up, the first of them and each
NEWS = 1.5  # times the extreme that the tail of the noise promises; healthy real runs stay below 1.45
Z_SINGLE = 9.0
NEWS_SINGLE = 0.75  # times what a power-law tail promises, for departures of one or two rows (bad batches: 0.8..1)
# of the level of the first rows, for big and small rises: less is noise in a loss that has come down to nearly nothing
SHARE, SHARE_SMALL = 0.05, 0.1
# the same against the highest rows before: how many are needed, how many make the tail; the gap above it and the chance
# (of a heavy tail, of a light one) that are asked for together, and a gap that is enough alone
TAIL_ROWS, TAIL_LEAST, TAIL_MOST = 40, 8, 100
GAP, WIDE = 2.0, 3.5
CHANCE, CHANCE_LIGHT = 0.01, 0.1
APART = 1.1  # times the highest row behind it that is no departure: what comes again as high is the noise of the run
BACK_STEPS = 200  # D3-stop-1: not back within 100-200 steps is no transient
BACK_ROWS = 5  # sparse logs: a transient may take this many rows
# rows of a fresh start: no spike at all / none that recovers (healthy runs bump to 1.3..2.5 times the first loss)
EARLY_ROWS, BUMP_ROWS = 10, 50
# ... but a run that has come down quietly for some rows and then doubles far beyond its noise is no longer starting
CALM_ROWS, CALM_RISE, Z_CALM = 16, math.log(2.0), 15.0
FOOT = 0.1  # of a rise: what has come before the row that shows it, or it begins there
MOST_OF = 0.7  # of the rise to the level after it
MOST = 200  # excursions of one segment; more is a noisy curve


@dataclass(frozen=True, slots=True)
class Excursion:
    """One departure. `start`, `peak`, `end` are indices into the curve; `end` is the first row back, None for never."""

    start: int
    peak: int
    end: int | None
    base: float  # level before, as logged
    top: float  # highest value
    after: float  # level once it has settled (lasting ones: 100 steps and more after the start)
    final: float  # level of the last rows of the segment
    rise: float  # of the peak over the base, in x
    after_rise: float
    final_rise: float
    z: float
    news: float
    rows: int
    steps: int
    lasting: bool
    broken: bool  # a non-finite value follows while it is still up
    row: int  # rows of the segment before the start
    left: int  # rows of the segment from the start on
    build: int  # rows until most of the level after it is reached

    @property
    def recovered(self) -> bool:
        return self.end is not None


def ordinary(seg: Segment, e: Excursion) -> bool:
    """True for the bump of the first steps, and for rows after a resume that the detector of resumes judges."""
    if seg.kind in ("first", "init"):
        calm = e.row >= CALM_ROWS and e.rise >= CALM_RISE and e.z >= Z_CALM
        return e.row < EARLY_ROWS or (e.row < BUMP_ROWS and not e.lasting and not calm)
    return e.row < 3 and e.rise < 2.0 * RISE_BIG


def measure(curve: Curve, dom: Domain, seg: Segment, good: np.ndarray) -> list[Excursion]:
    """The excursions that start in one segment."""
    own = seg.lo + np.flatnonzero(good[seg.lo : seg.hi])
    index = np.concatenate([seg.before[-1024:], own])
    offset = len(index) - len(own)
    if len(index) < 12 or not len(own):
        return []
    x = dom.x(curve.values[index])
    base = stats.without_lag(x, stats.trailing_level(x))
    rise = x - base
    known = np.isfinite(rise)
    residual = rise[known]
    if len(residual) < 4:
        return []
    sigma = np.full(len(x), np.inf)
    sigma[known] = np.maximum(stats.local_sigma(residual), 1e-4)
    centre = min(0.0, float(np.median(residual)))
    tail, far = np.full(len(x), np.inf), np.full(len(x), np.inf)
    near_tail, far_tail = stats.tails_before(residual)
    tail[known], far[known] = np.maximum(near_tail, 1e-6), np.maximum(far_tail, 1e-6)
    z = np.where(known, rise / sigma, 0.0)
    first = abs(float(np.median(curve.values[index[: max(3, min(50, len(index) // 50))]])))
    high = np.where(known, rise, 0.0)
    up = ((high >= RISE_BIG) & (z >= Z_BIG)) | ((high >= RISE_SMALL) & (z >= Z_SMALL))
    # a rise of several rows needs less in each of them
    held = np.minimum.reduce([np.append(z[k:], np.full(k, -np.inf)) for k in range(HELD_ROWS)])
    up |= (high >= RISE_SMALL) & (z >= Z_HELD) & (held >= Z_EACH)
    up &= high - centre >= NEWS * tail
    candidates = np.flatnonzero(up)
    candidates = candidates[candidates >= offset]
    if first > 0 and len(candidates):
        floor = np.where(high[candidates] >= RISE_BIG, SHARE, SHARE_SMALL) * first
        level = np.exp(np.minimum(base[candidates], 700.0)) if dom.log else base[candidates] * dom.unit
        candidates = candidates[curve.values[index[candidates]] - level >= floor]
    out: list[tuple[int, Excursion]] = []
    position = offset
    while len(out) < MOST:
        at = int(np.searchsorted(candidates, position))
        if at == len(candidates):
            break
        found, position = _follow(curve, dom, seg, index, x, base, sigma, int(candidates[at]), offset, position, tail)
        # one or two rows may be what this run's noise does now and then
        single = found.rise - centre >= NEWS_SINGLE * float(far[candidates[at]]) and found.z >= Z_SINGLE
        if found.rows > 2 or single:
            out.append((int(candidates[at]), found))
    return _without_noise(high - centre, out)


def _without_noise(high: np.ndarray, found: list[tuple[int, Excursion]]) -> list[Excursion]:
    """The departures, without those of one or two rows that are but the tail of this run's noise."""
    taken = np.zeros(len(high), dtype=bool)  # rows of departures: a fault must not widen its own measure
    heights = {at: float(high[at : at + e.rows].max()) for at, e in found}
    rest = high.copy()
    for at, e in found:
        rest[at : at + e.rows] = 0.0
    # several with a gap below the lowest of them
    ranked = sorted((heights[at] for at, e in found if e.rows <= 2), reverse=True)
    below = [*ranked[1:], max(float(rest.max()), 1e-12)]
    least = min((a for m, (a, b) in enumerate(zip(ranked, below, strict=False)) if m and a >= GAP * b), default=np.inf)
    kept: list[tuple[int, Excursion]] = []
    for at, e in found:
        if e.rows > 2 or heights[at] >= least or _stands_apart(high, at, heights[at], taken):
            kept.append((at, e))
            taken[at : at + e.rows] = True
    later = np.append(np.maximum.accumulate(np.where(taken, 0.0, high)[::-1])[::-1], 0.0)
    return [
        e for at, e in kept if e.rows > 2 or heights[at] >= least or heights[at] >= APART * float(later[at + e.rows])
    ]


def _stands_apart(high: np.ndarray, at: int, height: float, taken: np.ndarray) -> bool:
    """Whether a departure of one or two rows is no member of the tail of the rows before it: there is a gap below it,
    and a power law through the highest of them (Hill 1975) would hardly reach it in the whole run."""
    before = high[:at][~taken[:at]]
    before = np.sort(before[before > 0])[::-1]
    if len(before) < TAIL_ROWS:
        return True
    top = float(before[0])
    if height >= WIDE * top:
        return True
    if height < GAP * top:
        return False
    k = max(TAIL_LEAST, min(TAIL_MOST, len(before) // 12))
    begin, draws = float(before[k]), k * len(high) / at
    steep = float(np.mean(np.log(before[:k] / begin)))
    excess = float(np.mean(before[:k] - begin))
    if top <= begin + excess * (math.log(k) + 1.0):  # no heavier than an exponential law
        return draws * math.exp(-(height - begin) / max(excess, 1e-12)) < CHANCE_LIGHT
    return draws * (height / begin) ** (-1.0 / max(steep, 1e-12)) < CHANCE


def _follow(
    curve: Curve,
    dom: Domain,
    seg: Segment,
    index: np.ndarray,
    x: np.ndarray,
    base: np.ndarray,
    sigma: np.ndarray,
    at: int,
    offset: int,
    least: int,
    tail: np.ndarray,
) -> tuple[Excursion, int]:
    """Follow one candidate to its end; the position from which to look for the next."""
    n = len(x)
    start = at
    part = FOOT * float(x[at] - base[at])
    while start > least and x[start - 1] - base[start - 1] > max(3.0 * sigma[start - 1], part):
        start -= 1
    start = _foot(x, start, max(least, at - 32), float(base[start]), float(x[at]))
    level, noise = float(base[start]), float(sigma[at])
    tolerance = max(3.0 * noise, min(math.log(1.1), 0.3 * float(x[at] - level)))
    end = _return(x, at, level + tolerance)
    stop = n if end is None else end
    peak = at + int(np.argmax(x[at:stop])) if stop > at else at
    steps = curve.steps[index]
    rows, length = stop - start, int(steps[min(stop, n - 1)] - steps[start])
    lasting = (rows > BACK_ROWS and length > BACK_STEPS) or (end is None and rows >= 3)
    settle = start + int(np.searchsorted(steps[start:] - steps[start], BACK_STEPS / 2))
    settle = min(max(settle, start + BACK_ROWS), max(n - 3, start))
    after = float(np.median(x[settle : settle + 64]))
    final = float(np.median(x[max(n - 16, start) :]))
    following = int(index[stop]) if stop < n else seg.hi
    broken = bool((~curve.finite[index[start] : following]).any()) and end is None
    risen = np.flatnonzero(x[start:] >= level + MOST_OF * (after - level))
    found = Excursion(
        start=int(index[start]),
        peak=int(index[peak]),
        end=None if end is None else int(index[end]),
        base=dom.value(level),
        top=float(curve.values[index[peak]]),
        after=dom.value(after),
        final=dom.value(final),
        rise=float(x[peak] - level),
        after_rise=after - level,
        final_rise=final - level,
        z=float((x[peak] - level) / noise),
        news=float((x[peak] - level) / tail[at]),
        rows=rows,
        steps=length,
        lasting=lasting,
        broken=broken,
        row=start - offset,
        left=n - start,
        build=int(risen[0]) if len(risen) else n - start,
    )
    return found, (start + stats.WINDOW if lasting else max(stop, at + 1))


def _foot(x: np.ndarray, start: int, least: int, level: float, height: float) -> int:
    """The row where a gradual rise begins: behind the last row near the lowest level of the rows just before.

    A trailing level lags behind a descent, so that the first part of a rise still lies below it.
    """
    before = x[least:start]
    if len(before) < 6:
        return start
    low = float(np.median(np.lib.stride_tricks.sliding_window_view(before, 3), axis=1).min())
    limit = low + 3.0 * stats.diff_sigma(before)
    near = np.flatnonzero(before <= limit)
    if not len(near) or limit >= level:
        return start  # the trailing level does not lag
    if before[-1] - low < FOOT * (height - low):
        return start  # at once: noise that wanders before a jump is no part of it
    return least + int(near[-1]) + 1


def _return(x: np.ndarray, at: int, limit: float) -> int | None:
    """The first row after `at` from which the median of three rows is at or below `limit`; None for never."""
    begin = at + 1
    size = 64
    while begin < len(x):
        part = x[begin : begin + size + 2]
        if len(part) >= 3:
            medians = np.median(np.lib.stride_tricks.sliding_window_view(part, 3), axis=1)
        else:
            medians = np.array([np.median(part)])
        below = np.flatnonzero(medians <= limit)
        if len(below):
            end = begin + int(below[0])
            # a median of three is low one row early
            return end + 1 if x[end] > limit and end + 1 < len(x) else end
        if begin + size + 2 >= len(x):
            return None
        begin += size
        size = min(size * 4, 65536)
    return None
