"""A loss that changes its level in one place and stays there.

What it sees
    Two stretches of 16, 64 or 256 rows, one after the other, whose medians differ by far more than their noise,
    with the change in a few rows and no way back. `up` or `down`.
Why it matters
    The place of a change says more than its shape (D2-src-6): data, batch size, checkpoint, kernel or precision. In
    heavy noise it shows what no single row shows.
Blind when
    No loss was logged, or fewer than 48 rows.
Easily mistaken for
    The end of an epoch (the loss drops as samples are seen again), a warm restart, a planned switch of the data
    mixture: so a shift alone seldom makes an incident; only one to a multiple of the level does.
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from playbook.detectors import stats
from playbook.detectors.shared import MENTION, Shared, answer, blind, finding
from playbook.findings import Finding, Scan

NAME = "level_shift"
NEEDS = ("loss",)
OPTIONAL = ("lr", "epoch")
KINDS = ("up", "down")

LEAST = 48  # rows
WIDTHS = (16, 64, 256)  # rows of a stretch
Z = 8.0  # difference of medians in their own noise
RISE = math.log(1.15)  # the least change: noise of a few tenths is none (D3-def-1)
# a planned switch of the data stays below the first; what is above the second is the size of a spike
SWITCH, BIG = math.log(1.6), math.log(2.5)
SKIP_ROWS = 50  # rows of a fresh start: descent and warm-up
LIKE, OFTEN = 0.6, 3  # share of a rise, and other places with such a one: the loss wanders
MOST = 10


def look(shared: Shared) -> Scan:
    if gap := shared.lacks(NEEDS):
        return blind(NAME, gap)
    rows = int(shared.good.sum())
    if rows < LEAST:
        return blind(NAME, f"only {stats.rows(rows)} of loss, {LEAST} are needed for two levels")
    out: list[Finding] = []
    for line in shared.lineages:
        out += _in_line(shared, line)
    return answer(NAME, out, f"{stats.rows(rows)} of loss without a sudden change of level")


def _in_line(shared: Shared, line: np.ndarray) -> list[Finding]:
    loss = shared.loss
    assert loss is not None
    if len(line) < LEAST:
        return []
    x = shared.domain.x(loss.values[line])
    sigma = max(stats.diff_sigma(x), 0.7 * stats.mad_sigma(_detrended(x)), 1e-4)
    # below this share of the first level a ratio says nothing (losses near zero)
    floor = 0.05 * abs(float(np.median(loss.values[line[: max(3, len(line) // 50)]])))
    taken: list[tuple[int, float, float, float]] = []
    for width in WIDTHS:
        if len(x) < 3 * width:
            continue
        taken += _sharp(x, sigma, width)
    taken.sort(key=lambda t: -abs(t[1]) / t[2])
    out: list[Finding] = []
    used: list[int] = []
    for at, change, scale, before in taken:
        if any(abs(at - u) < 64 for u in used) or len(out) >= MOST:
            continue
        value = shared.domain.value(before)
        if abs(shared.domain.value(before + change) - value) < floor:
            continue
        used.append(at)
        out.append(_told(shared, line, x, at, change, change / scale, before))
    ups = sorted(f.step for f in out if f.kind == "up" and f.step is not None)
    if stats.evenly(ups, int(loss.steps[line[0]])):
        out = [replace(f, confidence=min(f.confidence, MENTION)) if f.kind == "up" else f for f in out]
    return sorted(out, key=lambda f: f.step or 0)


def _detrended(x: np.ndarray) -> np.ndarray:
    level = stats.trailing_level(x)
    rest = x - level
    return rest[np.isfinite(rest)]


def _sharp(x: np.ndarray, sigma: float, width: int) -> list[tuple[int, float, float, float]]:
    """Places of sudden lasting changes: (row, change, noise of the change, level before)."""
    # on a grid of a quarter of the width first: the exact row only where it is worth it
    grid = width // 4
    small = stats.block_medians(x, grid)
    if len(small) < 9:
        return []
    medians = np.median(np.lib.stride_tricks.sliding_window_view(small, 4), axis=1)
    # noise whose neighbours hang together does not average out: what the medians do from one stretch to the next
    wander = stats.MAD_TO_SIGMA * float(np.median(np.abs(np.diff(medians[::4])))) if len(medians) >= 32 else 0.0
    scale = max(1.25 * sigma * math.sqrt(2.0 / width), wander, 1e-4)
    change = medians[4:] - medians[:-4]
    hot = np.flatnonzero((np.abs(change) > Z * scale) & (np.abs(change) > RISE))
    out: list[tuple[int, float, float, float]] = []
    while len(hot) and len(out) < 4 * MOST:
        group = hot[: int(np.searchsorted(hot, hot[0] + 8))]
        hot = hot[len(group) :]
        centre = int(group[np.argmax(np.abs(change[group]))]) + 4
        at = _exact(x, centre * grid, width)
        if at < SKIP_ROWS or at > len(x) - 8:
            continue
        left = x[max(0, at - width) : at]
        right = x[at : at + width]
        step = float(np.median(right) - np.median(left))
        # sudden: the eight rows on each side differ by most of the change already
        near = float(np.median(x[at : at + 8]) - np.median(x[max(0, at - 8) : at]))
        later = float(np.median(x[at : at + 4 * width]) - np.median(left))
        earlier = float(np.median(right) - np.median(x[max(0, at - 4 * width) : at]))
        # in heavy noise the eight rows tell little: they may be off by twice their own noise
        sharp = abs(near) > 0.6 * abs(step) - min(2.0 * scale * math.sqrt(width / 8.0), 0.4 * abs(step))
        if step > 0 and _wanders(change, centre - 4, step):
            continue
        if abs(step) < max(Z * scale, RISE) or not sharp or min(near / step * 9, later / step, earlier / step) < 0.5:
            continue
        out.append((at, step, scale, float(np.median(left))))
    return out


def _wanders(change: np.ndarray, own: int, step: float) -> bool:
    """True where the level rises by as much, or nearly so, in several other places: it goes up and down."""
    high = change > LIKE * step
    high[max(0, own - 8) : own + 9] = False
    starts, _ = stats.runs(high)
    return len(starts) >= OFTEN


def _exact(x: np.ndarray, about: int, width: int) -> int:
    """The row that splits the neighbourhood best into two levels."""
    low, high = max(0, about - width), min(len(x), about + width)
    part = x[low:high]
    n = len(part)
    if n < 8:
        return about
    limit = 3.0 * stats.mad_sigma(part) + 1e-12
    part = np.clip(part, np.median(part) - limit, np.median(part) + limit)
    total, k = np.cumsum(part), np.arange(1, n)
    gain = (total[:-1] - k / n * total[-1]) ** 2 / (k * (n - k))
    return low + int(np.argmax(gain)) + 1


def _told(shared: Shared, line: np.ndarray, x: np.ndarray, at: int, change: float, z: float, before: float) -> Finding:
    loss, n = shared.loss, stats.number
    assert loss is not None
    index = int(line[at])
    step = int(loss.steps[index])
    old, new = shared.domain.value(before), shared.domain.value(before + change)
    final = float(np.median(x[-max(8, min(64, len(x) // 10)) :])) - before
    text = f"loss goes from {n(old)} to {n(new)} at step {step} and stays ({z:.0f} sigma of the level)"
    if change > 0:
        came_down = final < 0.6 * change
        restarts = shared.lr_restarts(step, 200.0, None if came_down else new)
        sure = _sure(change, came_down, restarts)
        if shared.near_epoch(step) or shared.no_measure or not shared.domain.log:
            sure = MENTION
    else:
        sure = 0.3 if shared.near_epoch(step) else 0.5
    numbers = {"level_before": old, "level_after": new, "z": z, "times": new / old if old else 0.0}
    return finding(NAME, "up" if change > 0 else "down", loss, index, text, sure, numbers=numbers)


def _sure(change: float, came_down: bool, restarts: bool) -> float:
    """How sure a rise is a fault: by its size, and by whether the loss comes down again as after a planned change."""
    if change < SWITCH or (restarts and (came_down or change < BIG)):
        return MENTION
    return 0.85 if change >= BIG else 0.72
