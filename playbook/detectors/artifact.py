"""Numbers that are computed otherwise than they seem: a running average, a change by an exact factor.

What it sees
    `average-lag`: neighbouring rows hang together so closely that the number must be a running mean: its departures
    from the local level die away over many rows instead of one. `exact-factor`: the loss changes its level in one row
    to a whole multiple (or part) of it, noise and all, or begins at a multiple of ln(vocabulary) and stays above it,
    or the gradient norm does so at a resume. `logged-only`: such a change of the loss leaves the gradient norm as it
    was, so that only the printed number is another.
Why it matters
    An average shows a spike late, low and long. The step at which it peaks is not the step of the fault, and a
    NaN stays in it for good: search before the onset, and log the raw value. A factor of the GPU number or of the
    accumulation steps is a matter of counting, not of stability (D1-flat-1, D3-dist-1).
Blind when
    No loss was logged, or fewer than 100 rows (48 for a factor).
Easily mistaken for
    A loss over the full data set or a very large batch, which is smooth by nature. Harder data that happen to have
    twice the loss: there the noise and the gradient norm change with it.
"""

from __future__ import annotations

import math

import numpy as np

from playbook.detectors import level_shift, resume, spike, stats
from playbook.detectors.onset import scanned
from playbook.detectors.shared import Shared, answer, blind, finding
from playbook.detectors.stats.curve import Curve
from playbook.detectors.stats.segments import overlap
from playbook.findings import Finding, Scan

NAME = "artifact"
NEEDS = ("loss",)
OPTIONAL = ("grad_norm",)
KINDS = ("average-lag", "exact-factor", "logged-only")

LEAST = 100  # rows
MOST = 8192  # rows, the last ones
TIED = 0.9  # correlation of neighbours around the local level
FAR_TIED = 0.5  # and of rows four apart
SIDE = 32  # rows on each side of a change whose medians are compared
EXACT, VAGUE = 0.01, 0.03  # relative: a factor that is met, and a noise of the ratio that meets everything
WHOLE = (2, 3, 4, 5, 6, 8, 10, 12, 16, 24, 32, 48, 64, 96, 128, 256, 512, 1024)
COUNTS = ("world_size", "num_gpus", "gradient_accumulation_steps", "accumulate_grad_batches", "num_microbatches")
SAME_LOSS = 2e-3  # relative: one step of the same weights and batch
SAME_NORM = 0.1  # in the logarithm: a gradient norm that did not move
SAME_NOISE = 2.0  # times: relative noise before and after a mere factor
NOT_LEARNED = 1.15  # of ln(classes): a loss of a k-fold scale does not come below it while it learns


def look(shared: Shared) -> Scan:
    if gap := shared.lacks(NEEDS):
        return blind(NAME, gap)
    loss = shared.loss
    assert loss is not None
    line = max(shared.lineages, key=len, default=np.zeros(0, dtype=np.int64))
    factors = _factors(shared, loss) + _of_the_norm(shared)
    if len(line) < LEAST:
        if factors:
            return answer(NAME, factors, "")
        return blind(NAME, f"only {stats.rows(len(line))} of loss in one piece, {LEAST} are needed")
    part = line[len(line) // 5 :][-MOST:]
    x = shared.domain.x(loss.values[part])
    # the slow part: medians of windows wide against an average, joined by straight lines
    size = max(8, len(x) // 12)
    knots = stats.block_medians(x, size)
    centre = np.minimum(np.arange(len(knots)) * size + (size - 1) / 2.0, len(x) - 1)
    rest = x - np.interp(np.arange(len(x)), centre, knots)
    limit = 4.0 * stats.mad_sigma(rest)
    if limit <= 0:
        return answer(NAME, factors, "the loss does not move")
    rest = np.clip(rest, -limit, limit)
    one, four = stats.lag_correlation(rest), stats.lag_correlation(rest, 4)
    looked = f"neighbouring rows of the loss correlate by {one:.2f}"
    if one < TIED or four < FAR_TIED:
        return answer(NAME, factors, looked)
    text = f"{looked} around their level: the log shows a running average, which lags behind"
    numbers = {"neighbours": one, "four_apart": four}
    lag = finding(NAME, "average-lag", loss, int(part[0]), text, 0.6, numbers=numbers)
    return answer(NAME, [lag, *factors], "")


def _factors(shared: Shared, loss: Curve) -> list[Finding]:
    """Changes of the loss by a whole factor, and a first loss that is a multiple of ln(classes)."""
    if not shared.domain.log:
        return []
    out = [f for f in [_at_first(shared, loss)] if f is not None]
    kinds = {"level_shift": ("up", "down"), "spike": ("persistent",), "resume": ("jump", "to-initial")}
    told = [f for m in (level_shift, spike, resume) for f in scanned(m, shared).findings if f.kind in kinds[m.NAME]]
    for step in sorted({f.step for f in told if f.step is not None})[:20]:
        out += _change(shared, loss, step)
    return out


def _change(shared: Shared, loss: Curve, step: int) -> list[Finding]:
    good = np.flatnonzero(shared.good)
    starts = good[loss.steps[good] == step]
    if not len(starts):
        return []
    at = _leap(loss, int(starts[-1]))
    seg = next(s for s in reversed(shared.segments) if s.lo <= at)
    left = np.concatenate([seg.before, good[(good >= seg.lo) & (good < at)]])[-SIDE:]
    right = good[(good >= at) & (good < seg.hi)][:SIDE]
    if len(left) < SIDE // 2 or len(right) < SIDE // 2:
        return []
    a, b = np.log(loss.values[left]), np.log(loss.values[right])
    ratio, noise = _ratio(a, b)
    k = _whole(ratio, noise, shared)
    spread = stats.diff_sigma(b) / max(stats.diff_sigma(a), 1e-9)
    sudden = abs(float(b[0]) - float(np.median(b))) < max(4.0 * stats.diff_sigma(b), 0.05)
    if k is None or not sudden or not 1.0 / SAME_NOISE < spread < SAME_NOISE:
        return []
    n, times = stats.number, math.exp(ratio)
    shown = f"{k:g}" if k >= 1 else f"1/{1 / k:g}"
    text = f"loss changes at step {step} to {times:.3f} times its level, a factor of {shown}"
    numbers = {"factor": k, "times": times, "noise": noise}
    norm = _norm_ratio(shared, loss, left, right)
    if norm is None:
        return [finding(NAME, "exact-factor", loss, at, text, 0.6, numbers=numbers)]
    moved, blur = norm
    if abs(moved) < max(SAME_NORM, 3.0 * blur):
        text += f", while the gradient norm stays ({n(math.exp(moved))} times)"
        return [finding(NAME, kind, loss, at, text, 0.85, numbers=numbers) for kind in ("exact-factor", "logged-only")]
    if abs(moved - ratio) < max(SAME_NORM, 3.0 * blur):
        text += f", and so does the gradient norm ({n(math.exp(moved))} times)"
        return [finding(NAME, "exact-factor", loss, at, text, 0.8, numbers=numbers)]
    return []  # another loss with another gradient: other data or weights


def _leap(loss: Curve, at: int) -> int:
    """The row of the largest change next to a row: a foot or a best split may be some rows off."""
    near = loss.values[max(0, at - 4) : at + 5]
    with np.errstate(invalid="ignore", divide="ignore"):
        change = np.abs(np.diff(np.log(near)))
    return max(0, at - 4) + 1 + int(np.argmax(np.where(np.isfinite(change), change, 0.0))) if len(change) else at


def _ratio(a: np.ndarray, b: np.ndarray) -> tuple[float, float]:
    """Difference of the medians of two stretches (logarithms), the trend of the first taken on, and its noise."""
    trend = stats.slope(a) * (len(a) + len(b)) / 2.0 if len(a) >= 8 else 0.0
    sigma = max(stats.diff_sigma(a), stats.diff_sigma(b), 1e-4)
    noise = 1.25 * sigma * math.sqrt(1.0 / len(a) + 1.0 / len(b))
    return float(np.median(b) - np.median(a)) - (trend if abs(trend) > 3.0 * sigma else 0.0), noise


def _whole(ratio: float, noise: float, shared: Shared) -> float | None:
    """The whole factor (or one over it) that a ratio meets; None for none, or where the noise would meet any."""
    if noise > VAGUE:
        return None
    counts = [c for name in COUNTS if (c := shared.setting(name)) is not None and c >= 2]
    candidates = np.log(np.array(sorted({*WHOLE, *counts}), dtype=float))
    off = np.abs(candidates - abs(ratio))
    best = int(np.argmin(off))
    if off[best] > max(EXACT, 2.0 * noise):
        return None
    return float(round(math.exp(math.copysign(float(candidates[best]), ratio)), 6))


def _norm_ratio(shared: Shared, loss: Curve, left: np.ndarray, right: np.ndarray) -> tuple[float, float] | None:
    """The same of the gradient norm at the steps of two stretches of the loss."""
    grad = shared.curve("grad_norm")
    if grad is None:
        return None
    usable = grad.finite & (grad.values > 0)
    steps = grad.steps
    edge = grad.restarts[-1] if len(grad.restarts) else 0
    before = np.flatnonzero(usable & np.isin(steps, loss.steps[left]))[-SIDE:]
    after = np.flatnonzero(usable & np.isin(steps, loss.steps[right]) & (np.arange(len(grad)) >= edge))[:SIDE]
    if len(before) < SIDE // 4 or len(after) < SIDE // 4:
        return None
    return _ratio(np.log(grad.values[before]), np.log(grad.values[after]))


def _at_first(shared: Shared, loss: Curve) -> Finding | None:
    """A first loss of a whole multiple of ln(classes) that never comes down to where a plain loss would."""
    classes = shared.classes
    index = np.flatnonzero(shared.good)
    if classes is None or len(index) < LEAST // 2 or int(loss.steps[index[0]]) > max(20.0, 2 * loss.spacing):
        return None
    uniform = math.log(classes)
    first, lowest = float(np.median(loss.values[index[:3]])), float(np.median(loss.values[index[-LEAST // 4 :]]))
    counts = {c for name in COUNTS if (c := shared.setting(name)) is not None and c >= 2}
    k = min({*WHOLE, *counts}, key=lambda c: abs(math.log(first / uniform / c)))
    # a fresh model is a little above ln(classes), seldom by more than a twentieth
    if not -EXACT < math.log(first / uniform / k) < 0.05 or lowest < NOT_LEARNED * uniform:
        return None
    text = f"loss begins at {stats.number(first)}, {k:g} times ln({classes}), and is {stats.number(lowest)} at the end"
    return finding(NAME, "exact-factor", loss, int(index[0]), text, 0.75, numbers={"factor": float(k), "first": first})


def _of_the_norm(shared: Shared) -> list[Finding]:
    """A gradient norm that is a whole multiple at a resume, on steps trained twice or against the rows before."""
    grad = shared.curve("grad_norm")
    if grad is None:
        return []
    out: list[Finding] = []
    usable = grad.finite & (grad.values > 0)
    for at in grad.restarts.tolist():
        own = at + np.flatnonzero(usable[at : at + SIDE])
        old = np.flatnonzero(usable[:at])[-4 * SIDE :]
        seen, again = overlap(grad, old, own)
        if exact := _first_row(shared, grad, at):
            out.append(exact)
            continue
        if len(seen) >= SIDE // 4:
            off = np.log(again / seen)
            ratio, noise = float(np.median(off)), 1.25 * stats.mad_sigma(off) / math.sqrt(len(off))
        elif len(own) >= SIDE // 2 and len(old) >= SIDE // 2:
            ratio, noise = _ratio(np.log(grad.values[old[-SIDE:]]), np.log(grad.values[own]))
        else:
            continue
        k = _whole(ratio, noise, shared)
        if k is None:
            continue
        step, times = int(grad.steps[at]), stats.number(math.exp(ratio))
        text = f"gradient norm is {times} times what it was from the restart at step {step} on, a whole factor"
        out.append(finding(NAME, "exact-factor", grad, at, text, 0.75, numbers={"factor": k, "noise": noise}))
    return out[:5]


def _rows_of(shared: Shared, curve: Curve, step: int) -> np.ndarray:
    """The rows of a step, in the order of the file."""
    key = "#" + curve.metric
    if key not in shared.memo:
        order = np.argsort(curve.steps, kind="stable")
        shared.memo[key] = order, curve.steps[order]
    order, steps = shared.memo[key]
    return np.asarray(order[np.searchsorted(steps, step, "left") : np.searchsorted(steps, step, "right")])


def _first_row(shared: Shared, grad: Curve, at: int) -> Finding | None:
    """The first step after a restart, trained before with the same loss: its gradient must be the same, too."""
    loss, step = shared.loss, int(grad.steps[at])
    if loss is None:
        return None
    rows, norms = _rows_of(shared, loss, step), _rows_of(shared, grad, step)
    rows, norms = rows[shared.good[rows]], norms[norms < at]
    if len(rows) < 2 or not len(norms):
        return None
    before, now = float(loss.values[rows[-2]]), float(loss.values[rows[-1]])
    was, norm = float(grad.values[norms[-1]]), float(grad.values[at])
    if abs(now - before) > SAME_LOSS * abs(before) or not (was > 0 and norm > 0 and math.isfinite(norm / was)):
        return None
    k = _whole(math.log(norm / was), 0.0, shared)
    if k is None:
        return None
    n = stats.number
    text = f"step {step} was trained twice, with the same loss {n(now)} and a gradient norm of {n(was)} and {n(norm)}: "
    text += f"{norm / was:.3f} times"
    return finding(NAME, "exact-factor", grad, at, text, 0.9, numbers={"factor": k, "times": norm / was})
