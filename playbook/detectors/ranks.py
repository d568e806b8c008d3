"""Which ranks are affected at the onset: one, some or all, and which was first.

What it sees
    The loss (or the gradient norm) of each rank around the onset, against its own rows before: a rank is bad where
    its value is not finite or leaps. `one`, `some` or `all` are bad when it begins; `first-bad` names the one rank that
    was ahead of all others. Without an onset in the mean: a rank that departs from all others.
Why it matters
    One rank alone points at its data, its GPU or its node; all at once at the model, the optimizer, the data
    distribution or the network. The sources disagree here, so it weighs and does not decide (D3-tab-5, D3-tab-6,
    D4-conf-1, D0-com-5).
Blind when
    The run logged one value for all ranks. Averages over ranks hide the one that began.
Easily mistaken for
    A fault of one rank that the all-reduce has spread one step later: log every step, or all ranks look alike.
"""

from __future__ import annotations

import math

import numpy as np

from playbook.detectors import stats
from playbook.detectors.onset import Onset, onset_of
from playbook.detectors.shared import Shared, answer, blind
from playbook.detectors.stats.ranks import Matrix, log_values, matrix, middle, typical
from playbook.findings import Finding, Scan

NAME = "ranks"
NEEDS = (("loss", "grad_norm"),)
OPTIONAL = ()
KINDS = ("one", "some", "all", "first-bad")

ALL = 0.9  # share of the ranks
HISTORY, AHEAD = 64, 2  # rows before, rows from the onset on
LEAD = 40  # rows before the onset in which the first rank may show
JUMP, Z = math.log(1.25), 6.0
APART, APART_Z = math.log(1.15), 8.0  # a rank against the others, over many rows
PAIR_ROWS = 16  # rows of a level, where there are two ranks only
SHOWN = 32  # ranks named in a finding


def look(shared: Shared) -> Scan:
    if gap := shared.lacks(NEEDS):
        return blind(NAME, gap)
    metric = next((m for m in ("loss", "grad_norm") if len(shared.ranked.get(m, {})) >= 2), None)
    if metric is None:
        return blind(NAME, "no loss or gradient norm by rank in this run")
    begin = onset_of(shared)
    m = matrix(shared.ranked[metric], begin.step if begin else None)
    if m is None or m.values.shape[1] < 3:
        return blind(NAME, f"fewer than three steps of {metric} by rank")
    found = _at_onset(metric, m, begin) if begin else _apart(metric, m)
    return answer(NAME, found, f"{metric} of {len(m.ranks)} ranks, none departs from the others")


def _at_onset(metric: str, m: Matrix, begin: Onset) -> list[Finding]:
    x = log_values(m)
    at = int(np.searchsorted(m.steps, begin.step))
    if at >= x.shape[1]:
        return []
    low = max(0, at - HISTORY)
    history = x[:, low:at]
    if history.shape[1] >= 3:
        level = middle(history, 1)
        spread = stats.MAD_TO_SIGMA * middle(np.abs(history - level[:, None]), 1)
        spread = np.maximum(spread, np.nanmedian(np.where(np.isfinite(spread), spread, np.nan)) if len(spread) else 0.0)
        limit = np.maximum(Z * np.where(np.isfinite(spread), spread, 0.0), JUMP)
    else:
        level = np.full(len(m.ranks), np.nan)
        limit = np.full(len(m.ranks), JUMP)
    span = slice(max(0, at - LEAD), min(x.shape[1], at + AHEAD + 1))
    part = x[:, span]
    with np.errstate(invalid="ignore"):
        off = (~np.isfinite(m.values[:, span]) & m.logged[:, span]) | (part - level[:, None] > limit[:, None])
    now = off[:, min(at, LEAD) :].any(axis=1)
    count, total = int(now.sum()), len(m.ranks)
    out: list[Finding] = []
    # the step where the first of them shows; one that is bad once, long before, is noise
    when = np.where(off.any(axis=1), np.argmax(off, axis=1), off.shape[1])
    first = int(when.min())
    leaders = m.ranks[when == first]
    near_onset = first >= min(at, LEAD) - 5 if first < off.shape[1] else False
    at_first = off[:, first] if first < off.shape[1] else now
    alone = near_onset and int(at_first.sum()) < ALL * total
    if not count and not alone:
        return out
    # who was bad when it began decides; one step later all-reduce has spread it
    bad = m.ranks[at_first] if alone else m.ranks[now]
    kind = "one" if len(bad) == 1 else "all" if len(bad) >= ALL * total else "some"
    step = int(m.steps[span.start + first]) if alone else begin.step
    named = ", ".join(str(r) for r in bad[:8].tolist()) + (", ..." if len(bad) > 8 else "")
    text = f"{metric} of {len(bad)} of {total} ranks leaves its level at step {step}"
    text += "" if kind == "all" else f" (rank {named})"
    shown = tuple(int(r) for r in bad[:SHOWN]) if kind != "all" else ()
    numbers = {"affected": float(len(bad)), "ranks": float(total)}
    rank = int(bad[0]) if kind == "one" else None
    out.append(Finding(NAME, kind, metric, step, text, 0.9, rank=rank, ranks=shown, numbers=numbers))
    if alone and len(leaders) == 1:  # of several that begin together none was first
        lead = int(leaders[0])
        text = f"rank {lead} is the first whose {metric} is bad, at step {step}"
        numbers = {"ranks": float(total), "steps_ahead": float(begin.step - step)}
        out.append(Finding(NAME, "first-bad", metric, step, text, 0.85, rank=lead, ranks=(lead,), numbers=numbers))
    return out


def _apart(metric: str, m: Matrix) -> list[Finding]:
    """Ranks that stand apart from the others although the mean shows no fault."""
    if len(m.ranks) < 3:
        return _pair(metric, m)
    x = log_values(m)
    off = x - middle(x, 0)[None, :]
    known = np.isfinite(off)
    usual = stats.MAD_TO_SIGMA * typical(off) if known.any() else 0.0
    width = min(off.shape[1], 64)
    recent = middle(off[:, -width:], 1)
    limit = max(APART, APART_Z * 1.25 * usual / math.sqrt(width), 3.0 * usual)
    late = np.flatnonzero(recent > limit)
    out: list[Finding] = []
    if 0 < len(late) <= max(1, len(m.ranks) // 4):
        ranks = m.ranks[late]
        lead = off[late[0]]
        high = np.where(np.isfinite(lead), lead, 0.0) > limit / 2
        starts, ends = stats.runs(high)
        begin = int(starts[np.argmax(ends - starts)]) if len(starts) else off.shape[1] - width
        step = int(m.steps[begin])
        kind = "one" if len(ranks) == 1 else "some"
        named, times = ", ".join(str(r) for r in ranks[:8].tolist()), math.exp(float(recent[late[0]]))
        text = f"{metric} of rank {named} is {times:.2f} times that of the others from step {step} on"
        shown = tuple(int(r) for r in ranks[:SHOWN])
        numbers = {
            "affected": float(len(ranks)),
            "ranks": float(len(m.ranks)),
            "times": math.exp(float(recent[late[0]])),
        }
        first = shown[0] if kind == "one" else None
        out.append(Finding(NAME, kind, metric, step, text, 0.75, rank=first, ranks=shown, numbers=numbers))
    flat = off.ravel() if known.all() else off[known]
    news = max(3.0 * stats.tail_extreme(flat), 12.0 * usual, math.log(3.0)) if len(flat) else math.inf
    high = np.where(known, off, 0.0)
    peak = np.unravel_index(int(np.argmax(high)), high.shape)
    if not out and high[peak] > news:
        rank, step = int(m.ranks[peak[0]]), int(m.steps[peak[1]])
        times = math.exp(min(float(high[peak]), 50.0))
        text = f"{metric} of rank {rank} alone is {times:.1f} times that of the others at step {step}"
        numbers = {"affected": 1.0, "ranks": float(len(m.ranks)), "times": math.exp(min(float(high[peak]), 50.0))}
        out.append(Finding(NAME, "one", metric, step, text, 0.7, rank=rank, ranks=(rank,), numbers=numbers))
    return out


def _pair(metric: str, m: Matrix) -> list[Finding]:
    """One of two ranks rises above the other for good, after they went together: the one that leaves its own course."""
    x = log_values(m)
    apart = x[1] - x[0]
    apart = apart[np.isfinite(apart)]
    if len(apart) != x.shape[1] or len(apart) < 4 * PAIR_ROWS:
        return []
    usual = stats.MAD_TO_SIGMA * float(
        np.median(np.abs(apart[: len(apart) // 4] - np.median(apart[: len(apart) // 4])))
    )
    early = float(np.median(apart[: len(apart) // 4]))
    change = float(np.median(apart[-PAIR_ROWS:])) - early
    limit = max(APART, APART_Z * 1.25 * max(usual, 1e-4) / math.sqrt(PAIR_ROWS), 3.0 * usual)
    if abs(change) < limit or abs(early) > 0.5 * limit:
        return []
    lead = 1 if change > 0 else 0
    high = np.abs(apart - early) > 0.5 * abs(change)
    starts, ends = stats.runs(high)
    begin = int(starts[np.argmax(ends - starts)])
    own, other = x[lead], x[1 - lead]
    width = min(PAIR_ROWS, begin)
    if width < 4:
        return []
    rise = float(np.median(own[begin : begin + PAIR_ROWS]) - np.median(own[begin - width : begin]))
    fall = float(np.median(other[begin : begin + PAIR_ROWS]) - np.median(other[begin - width : begin]))
    if rise < 0.5 * abs(change) or abs(fall) > 0.5 * rise:
        return []  # it is the other one that went down
    rank, step, times = int(m.ranks[lead]), int(m.steps[begin]), math.exp(min(abs(change), 50.0))
    text = f"{metric} of rank {rank} is {times:.2f} times that of the only other rank from step {step} on"
    numbers = {"affected": 1.0, "ranks": 2.0, "times": times}
    return [Finding(NAME, "one", metric, step, text, 0.75, rank=rank, ranks=(rank,), numbers=numbers)]
