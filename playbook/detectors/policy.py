"""A policy that falls apart: what reward, KL and entropy of reinforcement learning say, where the loss says nothing.

What it sees
    `reward-falls`: the reward had come up (or stood), falls back to where it began or below and stays there.
    `kl-explodes`: the KL (or approximate KL) leaves everything it was before by a factor of five and stays.
    `entropy-collapses`, `entropy-explodes`: the entropy does so, downwards or upwards, within a short time. Two of
    them together are sure, each confirms the other; the earliest says when it began.
Why it matters
    The loss of a policy is no measure of its quality: it may stand near zero while the answers degenerate
    (D2-sym-3). Everything that is sampled after the collapse is sampled by a damaged policy.
Blind when
    Neither reward nor KL and entropy were logged, or fewer than 30 rows.
Easily mistaken for
    Rewards that swing (each swing of the run before is the measure), a dip that is learned away again, a harder
    task, a KL that grows from zero as the policy leaves its reference, an entropy that sinks while the reward rises.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from playbook.detectors import stats
from playbook.detectors.shared import DOUBTFUL, MENTION, Shared, answer, blind, finding
from playbook.detectors.stats.curve import Curve
from playbook.findings import Finding, Scan

NAME = "policy"
NEEDS = (("reward", "kl"),)
OPTIONAL = ("entropy",)
KINDS = ("reward-falls", "kl-explodes", "entropy-collapses", "entropy-explodes")

LEAST = 30  # rows
BLOCKS = 60  # of a curve that is searched for a change
START = 0.15  # of the rows: a KL leaves zero, an entropy its first value, in health
LASTS = 0.08  # of the rows, and 10 of them: a shorter change may pass
LOST = 0.7  # of what was learned: a fall by less is a swing or a harder task
SWING = 1.7  # times the deepest dip before: what a fall must exceed
NOISE, NOISE_LEAST = 2.5, 1.5  # times the noise of a row: what a fall must exceed, by itself and beside a witness
SHARE = 0.3  # of the level: what the fall of a reward must exceed by itself
WANDER = 2.5  # times the spread of all rows before: what the fall of a reward that never rose must exceed
KL_TIMES, KL_LEAST = 5.0, 0.2  # of the highest before, and absolute: below it no policy has moved far
KL_BELOW = 2.5  # times the usual KL, with the sign turned
KL_SURE, KL_FAR = 20.0, 1.0  # a KL that is enough by itself
ENTROPY_TIMES = 4.0
EDGE = 1.35  # times below what it was: where the fall of an entropy begins
SUDDEN = 0.12  # of the rows in which a collapse happens; a decay over the run is learning
NEAR = 0.25  # of the rows between two changes that belong together
SURE, ALONE = 0.88, 0.75


@dataclass(frozen=True, slots=True)
class Change:
    """A lasting change of one curve: row of its onset, levels before and after, and how sure it is by itself."""

    kind: str
    curve: Curve
    row: int
    before: float
    after: float
    sure: float


def look(shared: Shared) -> Scan:
    if gap := shared.lacks(NEEDS):
        return blind(NAME, gap)
    reward, kl, entropy = (shared.curve(metric) for metric in ("reward", "kl", "entropy"))
    if reward is None and entropy is None:
        return blind(NAME, "only a KL, which other models log as well")
    rows = max(int(c.finite.sum()) for c in (reward, kl, entropy) if c is not None)
    if rows < LEAST:
        return blind(NAME, f"only {stats.rows(rows)} of reward and KL, {LEAST} are needed")
    found = [c for c in (_reward(reward), _kl(kl), *_entropy(entropy)) if c is not None]
    if not any(c.sure >= DOUBTFUL for c in found):
        found = []  # weak signs confirm a strong one and nothing else
    out = [_told(shared, change, found) for change in found]
    return answer(NAME, out, f"{stats.rows(rows)} of reward, KL and entropy, none collapses")


def _told(shared: Shared, change: Change, found: list[Change]) -> Finding:
    step = int(change.curve.steps[change.row])
    low, high = shared.run.step_range()
    reach = max(NEAR * float((high or 0) - (low or 0)), 3 * change.curve.spacing)
    others = [c.curve.metric for c in found if c is not change and abs(int(c.curve.steps[c.row]) - step) <= reach]
    n = stats.number
    what = {"reward-falls": "falls", "kl-explodes": "leaps", "entropy-collapses": "falls"}.get(change.kind, "leaps")
    text = f"{change.curve.metric} {what} from {n(change.before)} to {n(change.after)} at step {step} and stays there"
    text += f", and so does {' and '.join(others)} about then" if others else ""
    sure = SURE if others else change.sure
    numbers = {"before": change.before, "after": change.after, "witnesses": float(len(others))}
    return finding(NAME, change.kind, change.curve, change.row, text, sure, numbers=numbers)


def _rows(curve: Curve | None) -> np.ndarray:
    """The finite rows of the last run in the file; empty where there are too few."""
    if curve is None:
        return np.zeros(0, dtype=np.int64)
    index = np.flatnonzero(curve.finite)
    if len(curve.restarts):
        last = index[index >= curve.restarts[-1]]
        index = last if len(last) >= LEAST else index
    return index if len(index) >= LEAST else index[:0]


def _reward(curve: Curve | None) -> Change | None:
    index = _rows(curve)
    if curve is None or not len(index):
        return None
    v = curve.values[index]
    size = max(1, len(v) // BLOCKS)
    b = stats.block_medians(v, size)
    n = len(b)
    width, tail = max(5, n // 6), max(4, int(LASTS * n))
    noise = stats.diff_sigma(v)
    first = float(np.median(b[: max(3, n // 12)]))
    best: tuple[float, int, float, float] | None = None
    for k in range(width, n - tail + 1):
        high, low = float(np.median(b[k - width : k])), float(np.median(b[k:]))
        if best is None or high - low > best[0]:
            best = (high - low, k, high, low)
    if best is None:
        return None
    fall, k, high, low = best
    size_left = len(v) - k * size
    ends_low = float(np.median(b[-max(2, (n - k) // 4) :])) <= low + 0.25 * fall  # else it is learned again
    if fall < NOISE_LEAST * noise or fall <= 0 or size_left < max(10, LASTS * len(v)) or not ends_low:
        return None
    # what was learned: the best stretch before against the start
    top = max(float(np.median(b[i : i + width])) for i in range(k - width + 1))
    learned = max(top - first, 0.0)
    dips = np.maximum.accumulate(b[:k]) - b[:k]
    swing = float(np.max(dips[: max(1, k - width // 2)]))
    spread = float(np.quantile(b[:k], 0.95) - np.quantile(b[:k], 0.05))
    if fall < swing or high < first + 0.5 * learned:
        return None
    smooth = _smooth(v)
    level = high - max(0.15 * fall, min(noise, 0.3 * fall))
    above = np.flatnonzero(smooth[: min(len(v), (k + 2) * size)] >= level)
    onset = min(int(above[-1]) + 1 if len(above) else k * size, len(v) - 1)
    parted = float(np.quantile(b[min(k + 1, n - tail) :], 0.9)) <= high - 0.6 * fall
    # up to where the fall begins, which the split by medians places behind it
    edge = max(k - width // 2 - 1, min(k, onset // size))
    parted = parted and float(np.quantile(b[max(0, edge - width) : edge], 0.2)) >= low + 0.3 * fall
    clear = parted and fall >= NOISE * noise and fall >= SWING * swing and fall >= LOST * learned
    # a reward that never rose must fall far below all that it ever was
    rose = learned >= 0.5 * fall
    wide = (fall >= 4.0 * noise or fall >= 4.0 * swing) and (rose or fall >= WANDER * spread)
    wide = wide and fall >= SHARE * max(abs(high), abs(low))  # a mean over episodes wanders by less
    sure = ALONE if clear and wide else DOUBTFUL if clear and rose else MENTION
    return Change("reward-falls", curve, int(index[onset]), high, low, sure)


def _kl(curve: Curve | None) -> Change | None:
    index = _rows(curve)
    if curve is None or not len(index):
        return None
    v = curve.values[index]
    usual = max(float(np.median(np.abs(v[: max(5, len(v) // 3)]))), 1e-12)
    # a KL far below zero: what is sampled is no sample of the policy
    found = _leap(np.maximum(-v, usual), KL_BELOW) or _leap(np.abs(v), KL_TIMES)
    if found is None:
        return None
    row, before, after = found
    if after < KL_LEAST:
        return None
    sure = ALONE if after >= KL_SURE * max(before, 1e-9) and after >= KL_FAR else DOUBTFUL
    return Change("kl-explodes", curve, int(index[row]), before, after, sure)


def _entropy(curve: Curve | None) -> list[Change | None]:
    index = _rows(curve)
    if curve is None or not len(index):
        return []
    v = curve.values[index]
    if v.max() <= 0:
        v = -v  # an entropy that is part of a loss is logged with its sign turned
    if float(np.quantile(v, 0.02)) < 0:
        return []  # a density: its entropy has no zero
    v = np.maximum(v, 1e-4 * max(float(np.median(v[: max(3, len(v) // 10)])), 1e-12))
    out: list[Change | None] = []
    if up := _leap(v, ENTROPY_TIMES):
        out.append(Change("entropy-explodes", curve, int(index[up[0]]), up[1], up[2], DOUBTFUL))
    if (down := _leap(1.0 / v, ENTROPY_TIMES, EDGE)) and _is_sudden(1.0 / v, down):
        before, after = 1.0 / down[1], 1.0 / down[2]
        out.append(Change("entropy-collapses", curve, int(index[down[0]]), before, after, DOUBTFUL))
    return out


def _leap(v: np.ndarray, times: float, edge: float = 3.0) -> tuple[int, float, float] | None:
    """(row, level before, level after) of a positive curve that leaves everything before it for good.

    `edge`: times the highest before, beyond which it has left.
    """
    size = max(1, len(v) // BLOCKS)
    b = stats.block_medians(v, size)
    n = len(b)
    tail = max(4, int(LASTS * n))
    splits = range(max(4, int(START * n)), n - tail + 1)
    if not len(splits):
        return None
    # the split that parts the lowest of the rows behind it best from the highest of those before
    apart = [float(np.quantile(b[k:], 0.2)) / max(float(np.quantile(b[:k], 0.95)), 1e-12) for k in splits]
    k = splits[int(np.argmax(apart))]
    before, after = float(np.quantile(b[:k], 0.95)), float(np.median(b[k:]))
    if max(apart) < 0.5 * times or after < times * before or len(v) - k * size < 10:
        return None
    if float(np.median(b[-3:])) < 0.5 * times * before:
        return None
    calm = np.flatnonzero(_smooth(v) <= max(min(edge, (after / max(before, 1e-12)) ** 0.5) * before, 1e-12))
    onset = int(calm[-1]) + 1 if len(calm) else k * size
    return min(onset, len(v) - 1), float(np.median(b[max(0, k - n // 6) : k])), after


def _is_sudden(v: np.ndarray, found: tuple[int, float, float]) -> bool:
    """True where most of the way is gone in a small part of the run."""
    row, before, after = found
    x = np.log(v)
    gone = np.flatnonzero(_smooth(x)[row:] >= np.log(before) + 0.7 * (np.log(after) - np.log(before)))
    return len(gone) > 0 and int(gone[0]) <= max(3, SUDDEN * len(v))


def _smooth(v: np.ndarray) -> np.ndarray:
    """Medians of five neighbouring rows, of three at the ends."""
    if len(v) < 5:
        return v
    inner = np.median(np.lib.stride_tricks.sliding_window_view(v, 5), axis=1)
    first, last = float(np.median(v[:3])), float(np.median(v[-3:]))
    return np.concatenate([[first, first], inner, [last, last]])
