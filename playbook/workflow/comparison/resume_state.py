"""What is read off directly at a seam: the step counter, the learning rate, the loss scale, tokens, speed, world size.

These are no noisy curves: a value that is not where it was to go on from is a fact, and it explains what the loss
does behind it.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from playbook.detectors.stats import diff_sigma as noise
from playbook.engine.observe import flatten, lookup
from playbook.workflow.comparison import resume_causes as cause
from playbook.workflow.comparison.rate import continued, off_schedule, starts_at
from playbook.workflow.comparison.seam import BATCH_CLOSE, Check, Points, Seam, per_step

MISSING_ROWS = 20  # rows that a dead job may not have written
JUMPED_ROWS = 3  # a shorter gap is no jump of the counter: a row or two are lost with any job
RECENT = 50  # rows that say how a counter grew, or how fast a run was, before the seam
# Steps that the tokens say were trained in a gap, as a share of those that the counter says: below it it jumped.
HARDLY_TRAINED = 0.3
BEGIN_ROWS, BEGIN_CLOSE, BEGIN_SHARE = 20, 0.05, 0.8  # rates that are, in most rows, those of the run's beginning
FIRST_SCALES = (2.0**16, 2.0**32)  # that scalers begin with
# A scaler doubles or halves one step at a time: two powers at once, and half of one more than it ever moved in as many
# rows, is another value that was loaded.
SCALE_JUMP, SCALE_BEYOND = 2.0, 0.5
SLOW = 0.8  # of the speed before: less on the same devices is a fault
# A change of speed that is no matter: a tenth, one and a half times what the run moved between tenths of its last rows,
# or four times the error of the median.
SPEED_CLOSE, SPEED_USUAL, SPEED_NOISE = 0.1, 1.5, 4.0
SPEED_SETTLES = 2  # first rows after a start that compile and fill caches
SPEED_ROWS, SPEED_BLOCKS, SPEED_WINDOW, SPEED_HISTORY = 5, 10, 500, 30
# Tokens that are off by more than three rows and a tenth of what was trained over the seam, and by a fiftieth of all:
# packed batches and a checkpoint between two rows move less.
EXPOSED_ROWS, EXPOSED_SHARE, EXPOSED_LEAST = 3, 0.1, 0.02
FROM_THE_START = 0.1  # of the tokens before: less was counted anew
RATE_FOLLOWS = 0.3  # of the exponent of the batch: square root scaling is 0.5, linear 1; less did not follow


def steps(seam: Seam) -> Check:
    if seam.shift:
        what = f"the step counter starts at {seam.at} again, the run before ended at {seam.last}"
        return Check("steps", "failed", what, (cause.COUNTER_RESET, cause.SCHEDULE_LOST), 3.0)
    ahead = _counter_ahead(seam)
    if ahead is not None:
        return Check("steps", "failed", ahead, (cause.COUNTER_RESET,), 4.0)
    if seam.begin <= seam.last:
        return Check(
            "steps", "ok", f"goes on at {seam.at} after {seam.last}: steps from {seam.at} on are trained again"
        )
    if seam.gap > MISSING_ROWS * max(seam.spacing):
        what = f"steps {seam.last + 1} to {seam.at - 1} are in neither run: rows are missing, or the counter jumped"
        return Check("steps", "unknown", what)
    missing = " (steps between are in neither run)" if seam.gap else ""
    return Check("steps", "ok", f"goes on at {seam.at} after {seam.last}{missing}")


def _counter_ahead(seam: Seam) -> str | None:
    """The counter jumped although what is bound to it went on as if it had not."""
    if seam.gap < JUMPED_ROWS * max(seam.spacing):
        return None
    (s, v), (s2, v2) = seam.sides("tokens")
    if len(s) >= 4 and len(s2) >= 2:
        rate = per_step((s[-RECENT:], v[-RECENT:]))
        trained = (v2[0] - v[-1]) / rate if rate > 0 else np.nan
        counted = float(s2[0] - s[-1])
        if np.isfinite(trained) and abs(trained) < HARDLY_TRAINED * counted:
            return (
                f"the counter jumps from {seam.last} to {seam.at}, the tokens say that {max(trained, 0):.0f} steps "
                f"were trained between"
            )
    (s, v), (s2, v2) = seam.sides("lr")
    verdict = continued((s, v), (s2, v2)) if len(s) >= 4 and len(s2) >= 3 else None
    if verdict is not None and not verdict.fits and starts_at((s, v), (s2, v2)):
        return f"the counter jumps from {seam.last} to {seam.at}, the learning rate goes on as if it had not"
    return None


def learning_rate(seam: Seam) -> Check:
    before, after = seam.whole("lr")
    if not len(after[0]) or not len(before[0]):
        return Check("learning rate", "unknown", "not logged")
    inside = _inside(before, after) if not seam.shift else np.empty(0, np.int64)
    if len(wrong := inside[off_schedule(before, (after[0][inside], after[1][inside]))]):
        k = wrong[0]
        was = float(np.interp(after[0][k], *before))
        what = f"learning rate {after[1][k]:.4g} at step {after[0][k]}, it was {was:.4g} there before"
        return Check("learning rate", "failed", what + _begins_again(before, after), cause.RATE, 4.0)
    if len(inside):
        return Check("learning rate", "ok", f"the same at the {len(inside)} steps trained twice")
    past, _ = seam.sides("lr")
    if len(past[0]) < 2:
        return Check("learning rate", "unknown", "too few rows before the seam")
    verdict = continued(past, after)
    if verdict.step_down:
        what = f"learning rate {past[1][-1]:.4g} until the seam, {after[1][0]:.4g} from it on: a planned step, or not"
        return Check("learning rate", "changed", what, cause.RATE)
    if not verdict.fits:
        what = f"learning rate {after[1][0]:.4g} at step {seam.at}, {verdict.expected:.4g} was to be expected"
        what += _begins_again(past, after)
        return Check("learning rate", "failed", what, cause.RATE, 4.0)
    if verdict.times:
        what = f"learning rate goes on from its value, but changes {verdict.times} times as fast a step"
        return Check("learning rate", "failed", what, tuple(dict.fromkeys((cause.STEPPED_TOO_OFTEN, *cause.RATE))), 4.0)
    return Check("learning rate", "ok", f"{past[1][-1]:.4g} then {after[1][0]:.4g}")


def _inside(before: Points, after: Points) -> np.ndarray:
    """Rows of AFTER that lie within BEFORE's steps."""
    (s, _), (s2, _) = before, after
    return np.flatnonzero((s2 >= s[0]) & (s2 <= s[-1])) if len(s) > 1 else np.empty(0, np.int64)


def _begins_again(before: Points, after: Points) -> str:
    """Said where AFTER shows the rates that BEFORE had at its beginning."""
    (s, v), (s2, v2) = before, after
    size = min(BEGIN_ROWS, len(v2))
    moved = s2[:size] - s2[0] + s[0]
    close = np.abs(np.interp(moved, s, v) - v2[:size]) <= BEGIN_CLOSE * np.maximum(np.abs(v2[:size]), 1e-12)
    return ": the schedule begins again" if size >= 2 and close.mean() > BEGIN_SHARE else ""


def loss_scale(seam: Seam) -> Check:
    (s, past), (s2, next_) = seam.sides("loss_scale")
    if not len(past) or not len(next_) or min(past.min(), next_.min()) <= 0:
        return Check("loss scale", "unknown", "not logged")
    if past.max() == past.min() == next_[0]:
        return Check("loss scale", "ok", f"{past[-1]:g} throughout")
    # a scaler doubles and halves: what it did before in as many rows is no jump
    jump = float(np.log2(next_[0] / past[-1]))
    rows = max(1, round((int(s2[0]) - int(s[-1])) / max(seam.spacing[0], 1)))
    usual = np.abs(np.log2(past[rows:] / past[:-rows])).max() if len(past) > rows else 0.0
    if abs(jump) >= SCALE_JUMP and abs(jump) > usual + SCALE_BEYOND:
        start = ", its first value" if next_[0] == past[0] or next_[0] in FIRST_SCALES else ""
        what = f"loss scale jumps from {past[-1]:g} to {next_[0]:g}{start}"
        causes: tuple[str, ...] = (cause.SCALER_LOST,)
        earlier = np.flatnonzero(past == next_[0])
        if not start and len(earlier):
            what += f", its value at step {s[earlier[-1]]}: an older checkpoint?"
            causes = (cause.SCALER_LOST, cause.WRONG_WEIGHTS, cause.INCOMPLETE)
        return Check("loss scale", "failed", what, causes, 4.0)
    return Check("loss scale", "ok", f"{past[-1]:g} then {next_[0]:g}")


def throughput(seam: Seam) -> Check:
    for name, up in (("throughput", 1), ("step_time", -1)):
        (_, past), (_, next_) = seam.sides(name)
        next_ = next_[SPEED_SETTLES:][:RECENT] if len(next_) >= SPEED_ROWS + SPEED_SETTLES else next_
        if min(len(past), len(next_)) < SPEED_ROWS or min(past.min(), next_.min()) <= 0:
            continue
        shift = up * (float(np.median(np.log(next_))) - float(np.median(np.log(past[-RECENT:]))))
        blocks = [
            float(np.median(np.log(part))) for part in np.array_split(past[-SPEED_WINDOW:], SPEED_BLOCKS) if len(part)
        ]
        usual = max(blocks) - min(blocks) if len(past) >= SPEED_HISTORY else 0.0
        ratio = float(np.exp(shift))
        if abs(shift) <= max(SPEED_CLOSE, SPEED_USUAL * usual, SPEED_NOISE * noise(np.log(past)) / np.sqrt(len(next_))):
            return Check("throughput", "ok", f"{ratio:.2f} times what it was")
        what = f"speed is {ratio:.2f} times what it was"
        if ratio < SLOW and _same_world(seam):
            return Check("throughput", "failed", what, (cause.HOT, cause.STARVED), 1.0)
        return Check("throughput", "changed", f"{what}: other or more devices, or something slows it")
    return Check("throughput", "unknown", "not logged")


def exposure(seam: Seam) -> Check:
    """Tokens and samples: the count goes on, and a step takes as many of them as before."""
    past, next_ = seam.sides("tokens")
    if len(past[0]) >= 4 and len(next_[0]) >= 1 and np.all(np.diff(past[1][-RECENT:]) > 0):
        was = per_step((past[0][-RECENT:], past[1][-RECENT:]))
        expected = past[1][-1] + was * (int(next_[0][0]) - int(past[0][-1]))
        row = was * max(seam.spacing)
        off = float(next_[1][0]) - expected
        near = EXPOSED_ROWS * row + EXPOSED_SHARE * abs(expected - past[1][-1])
        if abs(off) > max(near, EXPOSED_LEAST * past[1][-1]):
            what = f"tokens go on at {next_[1][0]:.6g}, {expected:.6g} was to be expected"
            back = (
                "counted from the start again"
                if next_[1][0] < FROM_THE_START * past[1][-1]
                else "seen twice or left out"
            )
            return Check("exposure", "failed", f"{what}: {back}", (cause.OTHER_ORDER, cause.COUNTER_RESET), 2.0)
        if len(next_[0]) >= 4 and seam.batch_ratio:
            now = was * seam.batch_ratio
            what = f"a step takes {now:.6g} tokens, it took {was:.6g}"
            if found := _batch("exposure", seam, seam.batch_ratio, what):
                return found
        if not _batches(seam):
            return Check("exposure", "ok", f"tokens go on at {next_[1][0]:.6g}, {was:.6g} a step")
    if pair := _batches(seam):
        was, now = pair
        other = _batch("exposure", seam, now / was, f"global batch {now:g}, it was {was:g}")
        return other or Check("exposure", "ok", f"batch {now:g}")
    return Check("exposure", "unknown", "neither tokens nor the batch are logged")


def _batches(seam: Seam) -> tuple[float, float] | None:
    (_, past), (_, next_) = seam.sides("batch_size")
    if len(past) and len(next_) and past[-1] > 0 and next_[0] > 0:
        return float(past[-1]), float(next_[0])
    return None


def _batch(name: str, seam: Seam, ratio: float, text: str) -> Check | None:
    """The check `name` of another global batch: a fault where the rate did not follow it; None for the same batch."""
    if abs(ratio - 1) <= BATCH_CLOSE:
        return None
    (_, past), (_, next_) = seam.sides("lr")
    lr = float(next_[0] / past[-1]) if len(past) and len(next_) and past[-1] > 0 else None
    if (
        lr is not None
        and abs(np.log(max(lr, 1e-12))) > RATE_FOLLOWS * abs(np.log(ratio))
        and (lr - 1) * (ratio - 1) > 0
    ):
        return Check(name, "changed", f"{text}; the learning rate moved with it ({lr:.2f} times)")
    kept = " and the learning rate is what it was" if lr is not None else ""
    return Check(name, "failed", f"{text}{kept}", (cause.OTHER_DEVICES, cause.BATCH_GREW), 3.0)


_WORLD = ("world_size", "num_gpus", "n_gpus", "gpus", "num_nodes", "nnodes", "data_parallel_size", "dp_size")
_RANKS = ("data_parallel_size", "dp_size", "world_size", "num_gpus", "n_gpus", "gpus")  # that take samples of their own
_BATCH = ("global_batch_size", "train_batch_size", "total_batch_size", "gbs")
_MICRO = ("micro_batch_size", "per_device_train_batch_size", "train_micro_batch_size_per_gpu", "batch_size_per_gpu")
_ACCUMULATE = ("gradient_accumulation_steps", "accumulate_grad_batches", "grad_accum_steps", "accumulation_steps")


def world(seam: Seam) -> Check:
    a, b = flatten(seam.before.config), flatten(seam.after.config)
    moved = [(key, x, y) for key in _WORLD if (x := _number(a, key)) and (y := _number(b, key)) and x != y]
    if not moved and len(seam.before.ranks) > 1 and len(seam.after.ranks) > 1:
        one_side, other = float(len(seam.before.ranks)), float(len(seam.after.ranks))
        moved = [("ranks", one_side, other)] if one_side != other else []
    batches = _global_batches(a, b)
    if batches and batches[0] != batches[1]:
        one, two = batches
        what = f"global batch was {one:g} and is {two:g}" + "".join(f", {k} {x:g} -> {y:g}" for k, x, y in moved[:1])
        return _batch("world size", seam, two / one, what) or Check("world size", "changed", what)
    if moved:
        key, x, y = moved[0]
        what = f"{key} was {x:g} and is {y:g}"
        kept = "; whether the global batch is kept is not said"
        if batches or (seam.batch_ratio is not None and not seam.other_batch):
            kept = "; the global batch is kept"
        return Check("world size", "changed", what + kept, (cause.OTHER_LAYOUT, cause.OTHER_DEVICES))
    if a and b:
        return Check("world size", "ok", "the same")
    return Check("world size", "unknown", "no configuration to compare")


def _same_world(seam: Seam) -> bool:
    a, b = flatten(seam.before.config), flatten(seam.after.config)
    said = [(x, y) for key in _WORLD if (x := _number(a, key)) and (y := _number(b, key))]
    return bool(said) and all(x == y for x, y in said)


def _number(flat: dict[str, Any], key: str) -> float | None:
    found = lookup(flat, key)
    try:
        return float(found[1]) if found and not isinstance(found[1], bool) else None
    except (TypeError, ValueError):
        return None


def _both(a: dict[str, Any], b: dict[str, Any], keys: tuple[str, ...]) -> tuple[float, float] | None:
    """What both configurations say under the first name that they share: numbers of one unit."""
    return next(((x, y) for key in keys if (x := _number(a, key)) and (y := _number(b, key))), None)


def _global_batches(a: dict[str, Any], b: dict[str, Any]) -> tuple[float, float] | None:
    """The global batch of both runs: said, or the product of what makes it."""
    if said := _both(a, b, _BATCH):
        return said
    micro, ranks = _both(a, b, _MICRO), _both(a, b, _RANKS)
    if micro is None or ranks is None:
        return None
    steps = _both(a, b, _ACCUMULATE)
    if steps is None:
        if any(_number(flat, key) for flat in (a, b) for key in _ACCUMULATE):
            return None  # one of them does not say
        steps = 1.0, 1.0
    return micro[0] * ranks[0] * steps[0], micro[1] * ranks[1] * steps[1]
