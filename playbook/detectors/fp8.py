"""The history of the largest magnitudes (amax) behind fp8 scales.

What it sees
    `amax-stale`: the amax repeats one value for long although it moved before. `amax-saturated`: it stands at the
    largest number of the format (448 for E4M3, 57344 for E5M2) or has jumped by orders of magnitude within a few
    rows.
Why it matters
    The scale of the next step is made from the amax of the last ones. A stale one clips outliers or drowns small
    values, and nothing in the log turns red (D2-prec-3).
Blind when
    No amax was logged.
Easily mistaken for
    An amax that is only measured every so many steps: it repeats for exactly that long.
"""

from __future__ import annotations

import numpy as np

from playbook.detectors import stats
from playbook.detectors.shared import Shared, answer, blind, finding
from playbook.detectors.stats.curve import Curve
from playbook.findings import Finding, Scan

NAME = "fp8"
NEEDS = ("amax",)
OPTIONAL = ()
KINDS = ("amax-stale", "amax-saturated")

LEAST = 20  # rows
LIMITS = (448.0, 57344.0, 240.0)  # E4M3, E5M2, E4M3 of the other convention
AT_LIMIT = 0.5  # share of the last rows at or above a limit
STALE_ROWS, STALE_TIMES = 30, 5  # rows of one value, and how many times the longest repetition before
LEAP = 50.0  # times the level, in the last rows


def look(shared: Shared) -> Scan:
    if gap := shared.lacks(NEEDS):
        return blind(NAME, gap)
    out: list[Finding] = []
    for name, curve in shared.family("amax").items():
        out += _one(name, curve)
    return answer(NAME, out, "amax moves and stays inside its format")


def _one(name: str, curve: Curve) -> list[Finding]:
    index = np.flatnonzero(curve.finite)
    v = curve.values[index]
    if len(v) < LEAST:
        return []
    out: list[Finding] = []
    last = v[-max(5, len(v) // 10) :]
    for limit in LIMITS:
        close = np.abs(last - limit) <= 1e-3 * limit
        if close.mean() >= AT_LIMIT:
            first = int(index[np.flatnonzero(np.abs(v - limit) <= 1e-3 * limit)[0]])
            text = f"{name} stands at {limit:g}, the largest number of its format"
            out.append(finding(NAME, "amax-saturated", curve, first, text, 0.85, numbers={"limit": limit}))
            return out
    base = float(np.median(v[: len(v) // 2]))
    high = np.flatnonzero(v > LEAP * base) if base > 0 else np.empty(0, dtype=np.int64)
    if len(high) >= 3 and float(np.median(last)) > LEAP * base:
        text = f"{name} goes from {stats.number(base)} to {stats.number(float(np.median(last)))}"
        out.append(finding(NAME, "amax-saturated", curve, int(index[high[0]]), text, 0.75, numbers={"before": base}))
    same = np.diff(v) == 0.0
    starts, ends = stats.runs(same)
    if len(starts) and ends[-1] == len(same) and not same.all():
        length = int(ends[-1] - starts[-1])
        before = int(np.max(ends[:-1] - starts[:-1], initial=1))
        if length >= max(STALE_ROWS, STALE_TIMES * before):
            row = int(index[starts[-1]])
            text = f"{name} repeats {stats.number(float(v[-1]))} from step {int(curve.steps[row])} to the end"
            out.append(finding(NAME, "amax-stale", curve, row, text, 0.8, numbers={"rows": float(length)}))
    return out
