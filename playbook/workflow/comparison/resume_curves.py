"""What the curves say at a seam: the loss, the gradient norm, the noise that tells which samples were seen.

The first row after a load is computed before any update and shows weights and data; the rows behind it show the
update. Where rows stand for many steps each, the two cannot be told apart and both are named.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from playbook.workflow.comparison.level import Curve, Move
from playbook.workflow.comparison.pairs import changes, correlation, noise
from playbook.workflow.comparison.seam import Check, Seam

WEIGHTS = ("wrong-weights-loaded", "checkpoint-incomplete", "checkpoint-corrupt")
SMALL_STEP = (
    "data-version-changed-at-resume",
    "wrong-weights-loaded",
    "master-weights-lost",
    "layout-changed-at-resume",
)
UPDATE = ("optimizer-state-lost", "scaler-not-restored", "layout-changed-at-resume")
MASTER = "master-weights-lost"
NO_LOSS = ("loss-logged-wrongly", "no-label-in-batch", "data-version-changed-at-resume")
DATA = ("sampler-not-restored", "data-version-changed-at-resume", "rng-not-restored")

FIRST, SOON, BEGUN, LATER = (
    (0, 1),
    (0, 3),
    (0, 12),
    (3, 100),
)  # rows after the seam: before any update, about the load, after updates
LOSS_FLOOR, NORM_FLOOR = 0.03, 0.25  # relative differences below which nothing is said
LARGE = 0.2
BLUNT = 0.7  # a step that has to be larger than this to be seen leaves the question open ...
SMALL_SHARE = 0.15  # ... unless it is less than this share of all that the run has learned
NEAR_FRESH = 0.2  # of the way from the level to the first losses of all
FACTORS = (2, 3, 4, 5, 6, 8, 10, 12, 16, 20, 24, 25, 32, 48, 50, 64, 100, 128, 256, 512, 1024)
UPDATE_EXACT = 1e-3  # where the first loss is the same to all its digits
FALL_ROWS = 64  # a run that has just begun may fall at any pace
FEW_AFTER, MANY_ROWS = 3, 40
PAIRED = 8  # steps trained twice that make a comparison
FIRST_EQUAL = 5e-5  # relative: the first loss is that of the same weights and samples (4 digits in a log)
UPDATE_EQUAL = 3e-3  # relative: what kernels and reductions may move the next losses
SAME_DATA, OTHER_DATA = 0.5, 0.2  # correlation of the noise of steps trained twice
ECHO_ROWS = 20  # fewer rows recognise no samples


def loss(seam: Seam) -> Check:
    before, after = seam.sides("loss")
    if seam.broken_at is not None:
        when = f"at step {seam.broken_at}" if seam.mended else f"from step {seam.broken_at} on"
        what = f"loss is no number {when}"
        causes = (WEIGHTS[2], WEIGHTS[0], *UPDATE[1:2], UPDATE[0]) if seam.broken_at == seam.at else UPDATE
        return Check("loss", "failed", what, causes, 3.0)
    if len(after[0]) < FEW_AFTER:
        return Check("loss", "unknown", f"{len(after[0])} rows after the seam say nothing yet")
    if not after[1].any() and before[1].all():
        return Check("loss", "failed", "loss is exactly 0 from the load on", NO_LOSS, 3.0)
    curve = Curve.of(before, after)
    if paired := _paired_loss(seam):
        return paired
    fresh = _fresh(seam, curve)
    fine = seam.spacing[1] == 1 and seam.begin - seam.last <= 1 + seam.spacing[0]
    first = curve.move(*FIRST, LOSS_FLOOR) if fine else None
    soon = curve.move(*SOON, LOSS_FLOOR)
    begun = curve.move(*BEGUN, LOSS_FLOOR) if len(after[0]) >= 6 else None
    later = curve.move(*LATER, LOSS_FLOOR) if len(after[0]) >= 8 else None
    if soon is None:
        return fresh or Check(
            "loss", "unknown", f"{len(curve.x)} rows before the seam are too few to know where it was heading"
        )
    if counted := _counted_otherwise(seam, curve, begun or soon):
        # a model that learns nothing any more stays at its first loss as well
        if fresh and not len(seam.sides("grad_norm")[0][0]):
            return replace(fresh, causes=(*fresh.causes, *counted.causes))
        return replace(counted, causes=(*counted.causes[:1], *fresh.causes)) if fresh else counted
    if fresh:
        return fresh
    at_once = first if first and first.up else soon
    if at_once.up and not (first and not _half_up(first)):
        return _risen(seam, at_once, later, certain=fine)
    for move in (first, soon, begun):
        if move and move.down and len(curve.x) >= FALL_ROWS and _stays_down(move, later) and not _rate_fell(seam):
            what = (
                f"loss falls to {move.value:.4g} at the load, {move.level:.4g} was to be expected: samples seen before?"
            )
            return Check("loss", "failed", what, DATA, 2.0)
    spans = (
        (soon, "the first rows"),
        (begun, f"the first {min(BEGUN[1], len(after[0]))} rows"),
        (later, "the next rows"),
    )
    for move, text in spans:
        if move and move.up:
            return _higher(move, text, first)
    sharpest = min((move for move in (soon, begun, later) if move), key=lambda move: move.bar)
    seen = curve.value((np.log(sharpest.level) if curve.log else sharpest.level) + sharpest.bar)
    what = f"{soon.value:.4g}, expected {soon.level:.4g}; a lasting step to {seen:.4g} would be seen"
    if sharpest.bar > BLUNT and seen - sharpest.level > SMALL_SHARE * max(_start(curve) - sharpest.level, 0.0):
        return Check("loss", "unknown", f"{what}, a smaller one not: the rows before it are too few, noisy or steep")
    return Check("loss", "ok", what)


def _start(curve: Curve) -> float:
    return curve.value(float(np.median(curve.x[:3])))


def _higher(move: Move, text: str, first: Move | None) -> Check:
    """A rise that shows over several rows: the update, where the first row is known to be right, else one of many."""
    found = f"{move.value:.4g} over {text}, {move.level:.4g} was to be expected"
    if first and first.bar < move.shift and first.shift < 0.4 * move.shift:
        return Check("loss", "failed", f"loss is right at the load, then {found}", UPDATE, 2.0)
    causes = (WEIGHTS[0], UPDATE[0], *SMALL_STEP[:1], *SMALL_STEP[2:], *UPDATE[1:2]) if move.shift > LARGE else _MANY
    return Check("loss", "failed", f"loss is {found}; the rows do not tell whether from the first one on", causes, 2.0)


_MANY = (UPDATE[0], *SMALL_STEP[:3], *UPDATE[1:])


def _half_up(move: Move) -> bool:
    return move.shift > 0.5 * move.bar


def _stays_down(move: Move, later: Move | None) -> bool:
    """One low row is luck, and a steep descent may become steeper; what is seen again stays far below a slow one."""
    far = abs(move.shift) > 1.5 * move.pace
    return far and (later is None or later.shift < -0.3 * later.bar or move.shift < -2 * move.bar)


def _rate_fell(seam: Seam) -> bool:
    """A planned drop of the rate takes the loss down."""
    (_, past), (_, next_) = seam.sides("lr")
    return bool(len(past) and len(next_) and next_[0] < 0.6 * past[-1])


def _fresh(seam: Seam, curve: Curve) -> Check | None:
    """The loss of a model that was never trained: back where the run before began."""
    if len(curve.x) < 6 or not len(curve.later):
        return None
    start, level = float(np.median(curve.x[:2])), float(np.median(curve.x[-5:]))
    first = float(curve.later[0]) if seam.spacing[1] == 1 else float(np.max(curve.later[:2]))
    spread = max(noise(curve.x), 1e-9)
    fell = start - level
    if fell > max(0.1, 8 * spread) and abs(start - first) < NEAR_FRESH * fell and first - level > 6 * spread:
        value, begin, was = (curve.value(v) for v in (first, start, level))
        what = f"loss {value:.4g} after the load is that of a fresh model ({begin:.4g} at first, {was:.4g} at the end)"
        return Check("loss", "failed", what, WEIGHTS[:2], 3.0)
    return None


def _counted_otherwise(seam: Seam, curve: Curve, move: Move) -> Check | None:
    """Another level that stays while the gradient norm is what it was: another count, not another model.

    Without a gradient norm only an exact factor says so.
    """
    rows = curve.later[:100]
    if not curve.log or not (move.up or move.down) or len(rows) < 8 or abs(move.shift) < np.log(1.8):
        return None
    error = 1.25 * max(noise(rows), noise(curve.x[-64:])) / np.sqrt(min(len(rows), len(curve.x)) / 2)
    halves = float(np.median(rows[len(rows) // 2 :])) - float(np.median(rows[: len(rows) // 2]))
    if abs(halves) > max(0.05, min(3 * error, 0.25)):
        return None
    (_, g), (_, h) = seam.sides("grad_norm")
    known = len(g) >= 8 and len(h) >= 8 and min(g.min(), h.min()) > 0
    if known and abs(np.log(_ratio(g[-64:], h[:64]))) > 0.25:
        return None
    ratio = float(np.median(rows)) - (float(np.log(move.level)))
    close = min(max(0.03, 2.5 * error), 0.1)
    if abs(ratio) < np.log(1.8):
        return None
    exact = next((f for f in FACTORS if abs(abs(ratio) - np.log(f)) < close), None)
    if exact is None and not known:
        return None
    times = f"{exact}" if exact else f"{float(np.exp(abs(ratio))):.1f}"
    size = f"{'' if exact else 'about '}{times if ratio > 0 else f'1/{times}'} times"
    what = f"loss is {size} what was to be expected and stays so"
    what += ", the gradient norm is as before" if known else ""
    return Check(
        "loss", "failed", f"{what}: counted otherwise, not worse", _counting(len(rows), exact is not None), 3.0
    )


def _counting(rows: int, exact: bool) -> tuple[str, ...]:
    """A model that does not learn keeps its level as well: few rows, or no exact factor, leave that open."""
    if rows >= MANY_ROWS:
        return ("loss-logged-wrongly", "log-averaging")
    return ("loss-logged-wrongly", *WEIGHTS[:2]) if exact else (*WEIGHTS[:2], "loss-logged-wrongly")


def _ratio(past: np.ndarray, next_: np.ndarray) -> float:
    return max(float(np.median(next_)), 1e-30) / max(float(np.median(past)), 1e-30)


def _risen(seam: Seam, move: Move, later: Move | None, certain: bool) -> Check:
    (steps, values), _ = seam.sides("loss")
    what = f"loss {move.value:.4g} right after the load, {move.level:.4g} was to be expected"
    if older := _level_of(steps, values, move.value):
        what += f"; that is the level of about step {older}"
    # what was learned once is learned again soon, other data stay other data
    large = move.shift > LARGE or (later is not None and later.shift < 0.4 * move.shift)
    causes: tuple[str, ...] = (*WEIGHTS, *SMALL_STEP[:1]) if large else SMALL_STEP
    if not certain:
        # the first row already holds updates
        causes = (*causes[:2], UPDATE[0], *causes[2:]) if large else (UPDATE[0], *causes)
    return Check("loss", "failed", what, causes, 2.5)


def _level_of(steps: np.ndarray, values: np.ndarray, value: float) -> int | None:
    """The last step at which the smoothed loss was at a level."""
    width = min(15, len(values) // 4)
    if width < 3:
        return None
    smooth = np.array([np.median(values[k : k + width]) for k in range(len(values) - width + 1)])
    above = np.flatnonzero(smooth >= value)
    return int(steps[above[-1] + width // 2]) if len(above) and above[-1] < len(smooth) - width else None


def _paired_loss(seam: Seam) -> Check | None:
    """Steps trained twice on the same samples: the losses can be held against each other one by one."""
    steps, a, b = seam.repeated("loss")
    if len(steps) < PAIRED or seam.shift or seam.spacing[0] != seam.spacing[1] or min(a.min(), b.min()) <= 0:
        return None
    off = np.log(b / a)
    tied = correlation(np.log(a), np.log(b))
    exact = _first_is_equal(seam, off, noise(np.log(a)))
    if tied < SAME_DATA and not exact:
        return None
    sure = f"{len(steps)} steps were trained twice"
    if exact and seam.spacing[1] == 1 and int(steps[0]) == seam.begin:
        soon = float(np.max(np.abs(off[1:6])))
        rounded = bool(np.all(np.round(a, 5) == a))
        if soon <= (UPDATE_EQUAL if rounded or abs(float(off[0])) > 1e-6 else UPDATE_EXACT):
            return Check(
                "loss", "ok", f"{sure}: the same first loss and the next ones equal within {max(soon, 1e-6):.1g}"
            )
        what = f"{sure}: the first loss is the same ({b[0]:.5g}), the next ones are off by up to {soon:.1%}"
        return Check(
            "loss", "failed", f"{what}: weights and samples are right, the update is not", (*UPDATE, MASTER), 3.0
        )
    for part in (off[: max(PAIRED, len(off) // 2)], off[len(off) // 2 :]):
        mean = float(np.mean(part))
        if mean > max(6 * max(float(np.std(part)), 1e-4) / np.sqrt(len(part)), 0.02):
            start, causes = _beginning(off, mean)
            what = (
                f"{sure} on the same samples: the loss is {np.expm1(min(mean, 50)):.1%} higher the second time, {start}"
            )
            return Check("loss", "failed", what, causes, 2.5)
    return Check("loss", "ok", f"{sure} on the same samples: {float(np.mean(off)):+.1%} on average")


def _beginning(off: np.ndarray, mean: float) -> tuple[str, tuple[str, ...]]:
    """Whether a difference is there before the first update, and who does that."""
    first = float(off[0])
    if abs(first) <= 20 * FIRST_EQUAL or float(np.median(off[:4])) < 0.1 * mean:
        return f"at first it is not ({np.expm1(first):+.2%})", UPDATE
    if float(np.median(off[:5])) > 0.4 * mean:
        return "from the first rows on", (*WEIGHTS[:2], MASTER, UPDATE[0])
    return "whether from the first row on is not to be told", (WEIGHTS[0], UPDATE[0], *WEIGHTS[1:2], *UPDATE[1:])


def _first_is_equal(seam: Seam, off: np.ndarray, spread: float) -> bool:
    """The first step trained twice has one loss and, where it is logged, one gradient norm."""
    if abs(float(off[0])) > FIRST_EQUAL or spread < 20 * FIRST_EQUAL:
        return False
    steps, g, h = seam.repeated("grad_norm")
    return not len(steps) or abs(float(h[0] - g[0])) <= 2e-3 * abs(float(g[0]))


def grad_norm(seam: Seam) -> Check:
    before, after = seam.sides("grad_norm")
    if not len(before[0]) or not len(after[0]):
        return Check("gradient norm", "unknown", "not logged")
    curve = Curve.of(before, after)
    if not curve.enough or len(curve.later) < 3:
        return Check("gradient norm", "unknown", "too few rows at the seam")
    if not curve.log:
        return Check("gradient norm", "unknown", "zero or negative values")
    whole = curve.move(0, 20, NORM_FLOOR)
    if whole is None:
        return Check("gradient norm", "unknown", "too few rows before the seam")
    ratio = float(np.exp(np.clip(whole.shift, -50, 50)))
    if whole.up or whole.down:
        if seam.other_batch:
            return Check("gradient norm", "changed", f"{ratio:.2f} times what was to be expected, with another batch")
        what = (
            f"gradient norm is {ratio:.2f} times what was to be expected (from {whole.level:.3g} to {whole.value:.3g})"
        )
        return Check("gradient norm", "failed", what, _norm_causes(seam, curve, whole), 1.5)
    return Check("gradient norm", "ok", f"{ratio:.2f} times what was to be expected")


def _norm_causes(seam: Seam, curve: Curve, whole: Move) -> tuple[str, ...]:
    first = curve.move(0, 3, NORM_FLOOR)
    rows = curve.later[:20]
    error = 1.25 * max(noise(curve.x[-64:]), noise(rows)) / np.sqrt(len(rows))
    exact = any(abs(abs(whole.shift) - np.log(f)) < min(max(0.03, 2 * error), 0.1) for f in FACTORS)
    if exact and first is not None and abs(first.shift - whole.shift) < 0.1 + 3 * error:
        return ("gradient-scaled-by-world-size", "accumulation-not-normalised", "layout-changed-at-resume")
    if whole.down or (first is not None and (first.up or first.down)):
        return ("data-version-changed-at-resume", "layout-changed-at-resume", "optimizer-state-lost", WEIGHTS[0])
    return ("optimizer-state-lost", "layout-changed-at-resume", "data-version-changed-at-resume", WEIGHTS[0])


def data(seam: Seam) -> Check:
    """The noise of the loss is a fingerprint of the samples: the same noise again means the same samples again."""
    if seam.spacing[0] != seam.spacing[1]:
        return Check("data", "unknown", "the two runs log at other intervals: no row stands for the same samples")
    if seam.other_batch:
        return Check("data", "unknown", "a step takes another number of samples: no row stands for the same ones")
    steps, a, b = seam.repeated("loss")
    tied = None
    if len(steps) >= PAIRED and not seam.shift:
        a, b = _domain(a), _domain(b)
        tied = correlation(a, b)
        if abs(float(np.median(b) - np.median(a))) > max(LARGE, 3 * noise(a)):
            return Check("data", "unknown", "the losses are too far off to recognise samples by")
        if tied >= SAME_DATA or _first_is_equal(seam, b - a, noise(a)):
            return Check("data", "ok", f"the {len(steps)} repeated steps see the same samples (correlation {tied:.2f})")
    if echo := _echo(seam):
        old, strength, count = echo
        what = f"the losses follow those from step {old} on (correlation {strength:.2f} over {count} rows)"
        return Check("data", "failed", f"{what}: samples are seen again", ("sampler-not-restored",), 4.0)
    if tied is None:
        return Check("data", "unknown", "no step was trained twice, and no earlier stretch of losses comes again")
    if len(steps) >= ECHO_ROWS and tied < OTHER_DATA:
        what = f"the {len(steps)} repeated steps see other samples than the first time (correlation {tied:.2f})"
        return Check("data", "failed", what, ("sampler-not-restored", *DATA[1:]), 3.0)
    return Check("data", "unknown", f"{len(steps)} repeated steps do not tell (correlation {tied:.2f})")


def _domain(values: np.ndarray) -> np.ndarray:
    return np.log(values) if len(values) and values.min() > 0 else values


def _echo(seam: Seam) -> tuple[int, float, int] | None:
    """(step, correlation, rows) of an earlier stretch whose noise comes again, where that is no habit of the run."""
    (steps, values), _ = seam.whole("loss")
    _, (_, later) = seam.sides("loss")
    if len(later) < ECHO_ROWS or len(values) < ECHO_ROWS + 4:
        return None
    a, b = changes(_domain(values)), changes(_domain(later[:300]))
    b = b[: len(a)]
    strength = _strengths(a, b)
    if seam.begin <= seam.last:
        # its own place is no repetition
        own = int(np.searchsorted(steps, seam.begin))
        strength[max(0, own - 1) : own + 2] = 0.0
    # rows of changes are not independent: neighbours share a value
    free = float(np.sqrt(max(len(b) * 2 / 3 - 3, 1.0)))
    start, best = int(np.argmax(strength[:3])), int(np.argmax(strength))
    for place, bar in ((start, 4.5), (best, float(np.sqrt(2 * np.log(max(len(strength), 2)))) + 3.0)):
        r = min(float(strength[place]), 0.999999)
        if np.arctanh(r) * free > bar and r > 0.3 and not _habit(a, len(b), r):
            return int(steps[place]), r, len(b)
    return None


def _strengths(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Correlation of b with every stretch of a of its length."""

    def over(values: np.ndarray) -> np.ndarray:
        """Sums of each stretch."""
        total = np.concatenate([[0.0], np.cumsum(values)])
        return total[len(b) :] - total[: -len(b)]

    sums, product = over(a), np.correlate(a, b, "valid")
    spread = np.sqrt(np.maximum(over(a**2) - sums**2 / len(b), 0)) * float(b.std()) * np.sqrt(len(b))
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.where(spread > 1e-12, (product - sums * b.mean()) / spread, 0.0)


def _habit(a: np.ndarray, size: int, strength: float) -> bool:
    """The rows before the seam had come before as well: one order of the data in each epoch."""
    size = min(size, len(a) // 2)
    if size < ECHO_ROWS:
        return False
    return bool(np.max(_strengths(a[:-size], a[-size:])) > max(0.3, 0.6 * strength))
