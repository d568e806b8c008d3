"""What the curves say at a seam: the loss and the gradient norm against where they were heading.

The first row after a load is computed before any update and shows weights and data; the rows behind it show the
update. Where rows stand for many steps each, the two cannot be told apart and both are named.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from playbook.detectors.stats import diff_sigma as noise
from playbook.workflow.comparison import resume_causes as cause
from playbook.workflow.comparison.level import Curve, Move
from playbook.workflow.comparison.resume_samples import trained_twice
from playbook.workflow.comparison.seam import Check, Seam

# Rows after the seam: before any update, about the load, a dozen, and those behind the first updates.
FIRST, SOON, BEGUN, LATER = (0, 1), (0, 3), (0, 12), (3, 100)
FEW_AFTER, BEGUN_LEAST, LATER_LEAST = 3, 6, 8  # rows after the seam that say something about them
LOSS_FLOOR, NORM_FLOOR = 0.03, 0.25  # relative differences below which nothing is said
LARGE = 0.2  # a rise of the loss that other data or another layout do not make
BLUNT = 0.7  # a step that has to be larger than this to be seen leaves the question open ...
SMALL_SHARE = 0.15  # ... unless it is less than this share of all that the run has learned
NEAR_FRESH = 0.2  # of the way from the level to the first losses of all
FACTORS = (2, 3, 4, 5, 6, 8, 10, 12, 16, 20, 24, 25, 32, 48, 50, 64, 100, 128, 256, 512, 1024)
COUNTED = float(np.log(1.8))  # another count is a factor of 2 at least, as near as noise lets one see it
FALL_ROWS = 64  # a run that has just begun may fall at any pace
MANY_ROWS = 40  # rows after the seam over which a model that learns would have moved from its level
# A rise of the first rows is blamed on the load only where the very first row has half of what it would need alone; it
# is cleared where that row has less than this share of the rise.
FIRST_SUPPORTS, FIRST_CLEARED = 0.5, 0.4
RELEARNED = 0.4  # of a rise: less is left later on, so that it was learned once before
# A fall that is no luck and no steeper descent: beyond this many times the pace of the run, and kept (this share of the
# bar) or so deep that it need not be kept.
FALL_PACE, FALL_KEPT, FALL_DEEP = 1.5, 0.3, 2.0
RATE_DROP = 0.6  # of the rate: below it the loss falls by plan
# Of a fresh model: the run had learned this much (and this many times its noise), the loss is back at what it was at
# first, and above the last level by more than its noise.
FRESH_LEAST, FRESH_LEARNED, FRESH_ABOVE = 0.1, 8.0, 6.0
FRESH_ROWS = 6
# Counted otherwise: the level stays within this over the rows looked at, the gradient norm is what it was within a
# quarter, and the factor is as near to a whole one as the error of the medians lets it be.
COUNTED_ROWS, COUNTED_STAYS, COUNTED_DRIFT = 100, 0.05, 0.25
NORM_KEPT = 0.25
EXACT, EXACT_ERRORS, EXACT_MOST = 0.03, 2.5, 0.1
MEDIAN_ERROR = 1.25  # the error of a median is that of a mean times this (normal noise)
NORM_ROWS = 20  # rows after the seam over which a gradient norm is judged
SMOOTH_ROWS = 15  # rows of the median that says of which step a level is


def loss(seam: Seam) -> Check:
    """Does the loss go on where it was heading? What can be said without a trend is said first."""
    before, after = seam.sides("loss")
    if seam.broken_at is not None:
        return _broken(seam)
    if len(after[0]) < FEW_AFTER:
        return Check("loss", "unknown", f"{len(after[0])} rows after the seam say nothing yet")
    if not after[1].any() and before[1].all():
        causes = (cause.LOGGED_WRONGLY, cause.NO_LABEL, cause.OTHER_DATA)
        return Check("loss", "failed", "loss is exactly 0 from the load on", causes, 3.0)
    return trained_twice(seam) or _against_the_trend(seam, Curve.of(before, after, seam.wide))


def _broken(seam: Seam) -> Check:
    when = f"at step {seam.broken_at}" if seam.mended else f"from step {seam.broken_at} on"
    loaded = (cause.CORRUPT, cause.WRONG_WEIGHTS, cause.SCALER_LOST, cause.MOMENTS_LOST)
    causes = loaded if seam.broken_at == seam.at else cause.UPDATE
    return Check("loss", "failed", f"loss is no number {when}", causes, 3.0)


def _against_the_trend(seam: Seam, curve: Curve) -> Check:
    rows = len(curve.later)
    fresh = _fresh(seam, curve)
    fine = seam.spacing[1] == 1 and seam.begin - seam.last <= 1 + seam.spacing[0]
    first = curve.move(*FIRST, LOSS_FLOOR) if fine else None
    soon = curve.move(*SOON, LOSS_FLOOR)
    begun = curve.move(*BEGUN, LOSS_FLOOR) if rows >= BEGUN_LEAST else None
    later = curve.move(*LATER, LOSS_FLOOR) if rows >= LATER_LEAST else None
    if soon is None:
        what = f"{len(curve.x)} rows before the seam are too few to know where it was heading"
        return fresh or Check("loss", "unknown", what)
    if counted := _counted_otherwise(seam, curve, begun or soon):
        return _counted_or_fresh(seam, counted, fresh)
    if fresh:
        return fresh
    at_once = first if first and first.up else soon
    if at_once.up and (first is None or first.shift > FIRST_SUPPORTS * first.bar):
        return _risen(seam, at_once, later, certain=fine)
    if fallen := _fallen(seam, curve, (first, soon, begun), later):
        return fallen
    spans = (
        (soon, "the first rows"),
        (begun, f"the first {min(BEGUN[1], rows)} rows"),
        (later, "the next rows"),
    )
    for move, text in spans:
        if move and move.up:
            return _higher(move, text, first)
    return _goes_on(curve, soon, min((move for move in (soon, begun, later) if move), key=lambda move: move.bar))


def _goes_on(curve: Curve, soon: Move, sharpest: Move) -> Check:
    """Nothing is seen; whether that says anything depends on how small a step would have been."""
    seen = curve.value(curve.domain(sharpest.level) + sharpest.bar)
    what = f"{soon.value:.4g}, expected {soon.level:.4g}; a lasting step to {seen:.4g} would be seen"
    learned = max(curve.value(float(np.median(curve.x[:3]))) - sharpest.level, 0.0)
    if sharpest.bar > BLUNT and seen - sharpest.level > SMALL_SHARE * learned:
        return Check("loss", "unknown", f"{what}, a smaller one not: the rows before it are too few, noisy or steep")
    return Check("loss", "ok", what)


def _higher(move: Move, text: str, first: Move | None) -> Check:
    """A rise that shows over several rows: the update, where the first row is known to be right, else one of many."""
    found = f"{move.value:.4g} over {text}, {move.level:.4g} was to be expected"
    if first and first.bar < move.shift and first.shift < FIRST_CLEARED * move.shift:
        return Check("loss", "failed", f"loss is right at the load, then {found}", cause.UPDATE, 2.0)
    causes = _LARGE_RISE if move.shift > LARGE else _SMALL_RISE
    return Check("loss", "failed", f"loss is {found}; the rows do not tell whether from the first one on", causes, 2.0)


_LARGE_RISE = (
    cause.WRONG_WEIGHTS, cause.MOMENTS_LOST, cause.OTHER_DATA,
    cause.MASTER_LOST, cause.OTHER_LAYOUT, cause.SCALER_LOST,
)  # fmt: skip
_SMALL_RISE = (
    cause.MOMENTS_LOST, cause.OTHER_DATA, cause.WRONG_WEIGHTS,
    cause.MASTER_LOST, cause.SCALER_LOST, cause.OTHER_LAYOUT,
)  # fmt: skip


def _fallen(seam: Seam, curve: Curve, moves: tuple[Move | None, ...], later: Move | None) -> Check | None:
    """A loss below all that the descent before it explains: samples that were learned already."""
    if len(curve.x) < FALL_ROWS or _rate_fell(seam):
        return None
    for move in moves:
        if move and move.down and _stays_down(move, later):
            what = f"loss falls to {move.value:.4g} at the load, {move.level:.4g} was to be expected"
            return Check("loss", "failed", f"{what}: samples seen before?", cause.SAMPLES, 2.0)
    return None


def _stays_down(move: Move, later: Move | None) -> bool:
    """One low row is luck, and a steep descent may become steeper; what is seen again stays far below a slow one."""
    far = abs(move.shift) > FALL_PACE * move.pace
    return far and (later is None or later.shift < -FALL_KEPT * later.bar or move.shift < -FALL_DEEP * move.bar)


def _rate_fell(seam: Seam) -> bool:
    """A planned drop of the rate takes the loss down."""
    (_, past), (_, next_) = seam.sides("lr")
    return bool(len(past) and len(next_) and next_[0] < RATE_DROP * past[-1])


def _fresh(seam: Seam, curve: Curve) -> Check | None:
    """The loss of a model that was never trained: back where the run before began."""
    if len(curve.x) < FRESH_ROWS or not len(curve.later):
        return None
    start, level = float(np.median(curve.x[:2])), float(np.median(curve.x[-5:]))
    first = float(curve.later[0]) if seam.spacing[1] == 1 else float(np.max(curve.later[:2]))
    spread = max(noise(curve.x), 1e-9)
    fell = start - level
    learned = fell > max(FRESH_LEAST, FRESH_LEARNED * spread)
    if learned and abs(start - first) < NEAR_FRESH * fell and first - level > FRESH_ABOVE * spread:
        value, begin, was = (curve.value(v) for v in (first, start, level))
        what = f"loss {value:.4g} after the load is that of a fresh model ({begin:.4g} at first, {was:.4g} at the end)"
        return Check("loss", "failed", what, (cause.WRONG_WEIGHTS, cause.INCOMPLETE), 3.0)
    return None


def _counted_otherwise(seam: Seam, curve: Curve, move: Move) -> Check | None:
    """Another level that stays while the gradient norm is what it was: another count, not another model.

    Without a gradient norm only an exact factor says so.
    """
    rows = curve.later[:COUNTED_ROWS]
    if not curve.log or not (move.up or move.down) or len(rows) < LATER_LEAST or abs(move.shift) < COUNTED:
        return None
    error = MEDIAN_ERROR * max(noise(rows), noise(curve.x[-64:])) / np.sqrt(min(len(rows), len(curve.x)) / 2)
    halves = float(np.median(rows[len(rows) // 2 :])) - float(np.median(rows[: len(rows) // 2]))
    if abs(halves) > max(COUNTED_STAYS, min(3 * error, COUNTED_DRIFT)):
        return None
    (_, g), (_, h) = seam.sides("grad_norm")
    known = len(g) >= 8 and len(h) >= 8 and min(g.min(), h.min()) > 0
    if known and abs(np.log(_ratio(g[-64:], h[:64]))) > NORM_KEPT:
        return None
    ratio = float(np.median(rows)) - (float(np.log(move.level)))
    close = min(max(EXACT, EXACT_ERRORS * error), EXACT_MOST)
    if abs(ratio) < COUNTED:
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
        return (cause.LOGGED_WRONGLY, cause.LOGGED_ON_AVERAGE)
    weights = (cause.WRONG_WEIGHTS, cause.INCOMPLETE)
    return (cause.LOGGED_WRONGLY, *weights) if exact else (*weights, cause.LOGGED_WRONGLY)


def _counted_or_fresh(seam: Seam, counted: Check, fresh: Check | None) -> Check:
    """A model that learns nothing any more stays at its first loss as well; a gradient norm as before denies that."""
    if fresh is None:
        return counted
    sure = len(seam.sides("grad_norm")[0][0]) > 0
    causes = (*counted.causes[:1], *fresh.causes, cause.LOGGED_WRONGLY) if sure else (*fresh.causes, *counted.causes)
    return replace(counted if sure else fresh, causes=tuple(dict.fromkeys(causes)))


def _ratio(past: np.ndarray, next_: np.ndarray) -> float:
    return max(float(np.median(next_)), 1e-30) / max(float(np.median(past)), 1e-30)


def _risen(seam: Seam, move: Move, later: Move | None, certain: bool) -> Check:
    (steps, values), _ = seam.sides("loss")
    what = f"loss {move.value:.4g} right after the load, {move.level:.4g} was to be expected"
    if older := _level_of(steps, values, move.value):
        what += f"; that is the level of about step {older}"
    # what was learned once is learned again soon, other data stay other data
    large = move.shift > LARGE or (later is not None and later.shift < RELEARNED * move.shift)
    causes: tuple[str, ...] = (*cause.WEIGHTS, cause.OTHER_DATA) if large else cause.SMALL_STEP
    if not certain:
        # the first row already holds updates
        place = 2 if large else 0
        causes = (*causes[:place], cause.MOMENTS_LOST, *causes[place:])
    return Check("loss", "failed", what, causes, 2.5)


def _level_of(steps: np.ndarray, values: np.ndarray, value: float) -> int | None:
    """The last step at which the smoothed loss was at a level."""
    width = min(SMOOTH_ROWS, len(values) // 4)
    if width < 3:
        return None
    smooth = np.array([np.median(values[k : k + width]) for k in range(len(values) - width + 1)])
    above = np.flatnonzero(smooth >= value)
    return int(steps[above[-1] + width // 2]) if len(above) and above[-1] < len(smooth) - width else None


def grad_norm(seam: Seam) -> Check:
    before, after = seam.sides("grad_norm")
    if not len(before[0]) or not len(after[0]):
        return Check("gradient norm", "unknown", "not logged")
    curve = Curve.of(before, after, seam.wide)
    if not curve.enough or len(curve.later) < 3:
        return Check("gradient norm", "unknown", "too few rows at the seam")
    if not curve.log:
        return Check("gradient norm", "unknown", "zero or negative values")
    whole = curve.move(0, NORM_ROWS, NORM_FLOOR)
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
    first = curve.move(*SOON, NORM_FLOOR)
    rows = curve.later[:NORM_ROWS]
    error = MEDIAN_ERROR * max(noise(curve.x[-64:]), noise(rows)) / np.sqrt(len(rows))
    exact = any(abs(abs(whole.shift) - np.log(f)) < min(max(EXACT, EXACT_ERRORS * error), EXACT_MOST) for f in FACTORS)
    if exact and first is not None and abs(first.shift - whole.shift) < 0.1 + 3 * error:
        return (cause.SCALED_BY_WORLD, cause.NOT_NORMALISED, cause.OTHER_LAYOUT)
    if whole.down or (first is not None and (first.up or first.down)):
        return (cause.OTHER_DATA, cause.OTHER_LAYOUT, cause.MOMENTS_LOST, cause.WRONG_WEIGHTS)
    return (cause.MOMENTS_LOST, cause.OTHER_LAYOUT, cause.OTHER_DATA, cause.WRONG_WEIGHTS)
