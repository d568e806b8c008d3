"""Does a resumed run continue the run before it? Steps, loss, gradient norm, learning rate, loss scale, speed, data.

Each check is ok, failed or unknown (not logged); a failed one names the causes that do just this. What tells them
apart: the first loss after the load speaks for weights and data, the next hundred for the optimizer, the rate for
the schedule.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import numpy as np

from playbook.engine.observe import flatten, lookup
from playbook.errors import PlaybookError
from playbook.series import Run
from playbook.workflow.comparison.pairs import aligned, clean, noise

WINDOW = 50  # logged points on either side of the seam that are compared
FIRST = 3  # points after the load that still show the weights, not yet the optimizer
DEVIATIONS = 5.0
SHARE = 0.05  # of the level: what a resume may move a smoothed loss without anything being wrong
FACTORS = (2, 3, 4, 5, 6, 8, 10, 12, 16, 24, 32, 48, 64, 128, 256, 512, 1024)
SAME_SAMPLES = 0.9  # correlation of the noise of two stretches above which they saw the same samples
SHORTEST_MATCH = 20  # logged points: below this a correlation says nothing


@dataclass(frozen=True, slots=True)
class Check:
    """One property of the seam. `causes`: what is known to break just this."""

    name: str
    status: Literal["ok", "failed", "unknown"]
    because: str
    causes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Seam:
    """The two runs around the resume: `at` is the first step of the run after it."""

    before: Run
    after: Run
    at: int

    def sides(self, name: str) -> tuple[np.ndarray, np.ndarray]:
        """The last points before the seam and the first ones after it (values)."""
        steps, values = clean(self.before.one(name))
        _, later = clean(self.after.one(name))
        return values[steps < self.at][-WINDOW:] if (steps < self.at).any() else values[-WINDOW:], later[:WINDOW]


def verify(before: Run, after: Run) -> list[Check]:
    """All checks. Raises `PlaybookError` where one of the runs has no loss."""
    for name, run in (("BEFORE", before), ("AFTER", after)):
        if run.one("loss") is None:
            raise PlaybookError(_where(name, run), "has no loss", "name its column with --map loss=COLUMN")
    later, _ = clean(after.one("loss"))
    if not len(later):
        raise PlaybookError(_where("AFTER", after), "has no finite loss", "look at it with `playbook ingest`")
    seam = Seam(before, after, int(later[0]))
    return [check(seam) for check in CHECKS]


def _where(side: str, run: Run) -> str:
    """How a message calls one of the two runs: by its file, where it is one."""
    return f"{side}, {run.files[0].path}" if len(run.files) == 1 else side


def suspects(checks: list[Check]) -> list[str]:
    """Causes named by the failed checks, those named first and most often first."""
    votes: dict[str, float] = {}
    for check in checks:
        if check.status == "failed":
            for place, cause in enumerate(check.causes):
                votes[cause] = votes.get(cause, 0.0) + 1 / (1 + place)
    return sorted(votes, key=lambda c: -votes[c])


def _steps(seam: Seam) -> Check:
    steps, _ = clean(seam.before.one("loss"))
    last = int(steps[-1])
    spacing = int(np.median(np.diff(steps))) if len(steps) > 1 else 1
    if seam.at <= int(steps[0]) < last and seam.at <= 2 * spacing:
        what = f"the step counter starts at {seam.at} again, the run before ended at {last}"
        return Check("steps", "failed", what, ("step-counter-reset", "schedule-not-restored"))
    if seam.at > last + 20 * spacing:
        return Check(
            "steps", "failed", f"steps {last + 1} to {seam.at - 1} are in neither run", ("step-counter-reset",)
        )
    overlap = f", {last - seam.at + 1} steps are repeated" if seam.at <= last else ""
    return Check("steps", "ok", f"continues at {seam.at} after {last}{overlap}")


def _loss(seam: Seam) -> Check:
    past, next_ = seam.sides("loss")
    if len(past) < 5 or len(next_) < FIRST:
        return Check("loss", "unknown", "too few points at the seam")
    level, spread = float(np.median(past)), max(noise(past), noise(next_))
    allowed = max(DEVIATIONS * spread / np.sqrt(FIRST), SHARE * abs(level))
    first = float(np.median(next_[:FIRST]))
    if factor := _exact_factor(first, level, spread):
        norms = [float(np.median(x)) if len(x) else 0.0 for x in seam.sides("grad_norm")]
        grads = _exact_factor(norms[1], norms[0], 0.0)
        if not grads:
            what = f"loss {first:.4g} is {factor} the level {level:.4g}: it is counted otherwise, not worse"
            return Check("loss", "failed", what, ("loss-logged-wrongly", "layout-changed-at-resume"))
    if first - level > allowed:
        fresh = float(clean(seam.before.one("loss"))[1][0])
        if abs(first - fresh) < 0.1 * abs(fresh - level):
            what = f"loss {first:.4g} after the load is that of a fresh model ({fresh:.4g})"
            return Check("loss", "failed", what, ("wrong-weights-loaded", "checkpoint-incomplete"))
        what = f"loss {first:.4g} right after the load against {level:.4g} before it"
        return Check(
            "loss", "failed", what, ("master-weights-lost", "checkpoint-corrupt", "data-version-changed-at-resume")
        )
    if level - first > allowed:
        what = f"loss falls to {first:.4g} right after the load, from {level:.4g}: samples may be seen again"
        return Check("loss", "failed", what, ("sampler-not-restored", "rng-not-restored"))
    peak = float(np.max(_smooth(next_))) if len(next_) >= 9 else first
    if peak - level > allowed:
        what = f"loss is right at the load ({first:.4g}), then rises to {peak:.4g}: weights are there, moments are not"
        return Check("loss", "failed", what, ("optimizer-state-lost", "schedule-not-restored", "scaler-not-restored"))
    return Check("loss", "ok", f"{first:.4g} after {level:.4g}, allowed {allowed:.2g}")


def _smooth(values: np.ndarray, width: int = 5) -> np.ndarray:
    return np.array([np.median(values[k : k + width]) for k in range(len(values) - width + 1)])


def _exact_factor(value: float, level: float, spread: float) -> str | None:
    """'4 times' or '1/4 of' where value / level is such a factor within the noise."""
    if not level or not value or value * level < 0:
        return None
    for factor in FACTORS:
        for ratio, text in ((factor, f"{factor} times"), (1 / factor, f"1/{factor} of")):
            close = max(0.02, 2 * spread / abs(level))
            if close < 0.15 and abs(value / level / ratio - 1) < close:
                return text
    return None


def _lr(seam: Seam) -> Check:
    steps, a, b = aligned(seam.before.one("lr"), seam.after.one("lr"))
    if len(steps):
        wrong = np.abs(a - b) > 1e-3 * np.maximum(np.abs(a), 1e-12)
        if wrong.any():
            k = int(np.argmax(wrong))
            what = f"learning rate {b[k]:.4g} at step {steps[k]}, it was {a[k]:.4g} there before"
            return Check(
                "learning rate", "failed", what, ("schedule-not-restored", "schedule-overridden-by-checkpoint")
            )
        return Check("learning rate", "ok", f"equal at {len(steps)} repeated steps")
    past, next_ = seam.sides("lr")
    if len(past) < 2 or not len(next_):
        return Check("learning rate", "unknown", "not logged")
    slope = float(np.median(np.diff(past[-10:])))
    allowed = max(10 * abs(slope), 0.02 * abs(past[-1]))
    if abs(next_[0] - past[-1]) > allowed:
        what = f"learning rate jumps from {past[-1]:.4g} to {next_[0]:.4g}"
        causes = (
            ("schedule-not-restored", "step-counter-reset")
            if next_[0] > past[-1] or slope <= 0
            else ("step-counter-reset",)
        )
        return Check("learning rate", "failed", what, (*causes, "schedule-overridden-by-checkpoint"))
    return Check("learning rate", "ok", f"{past[-1]:.4g} then {next_[0]:.4g}")


def _grad_norm(seam: Seam) -> Check:
    past, next_ = seam.sides("grad_norm")
    if len(past) < 5 or len(next_) < FIRST:
        return Check("gradient norm", "unknown", "not logged")
    ratio = float(np.median(next_[:20]) / max(float(np.median(past)), 1e-30))
    spread = noise(np.log(np.maximum(past, 1e-30)))
    allowed = float(np.exp(max(DEVIATIONS * spread / np.sqrt(min(20, len(next_))), np.log(1.5))))
    if factor := _exact_factor(ratio, 1.0, spread / 3):
        what = f"gradient norm is {factor} what it was"
        return Check("gradient norm", "failed", what, ("layout-changed-at-resume", "gradient-scaled-by-world-size"))
    if not 1 / allowed <= ratio <= allowed:
        what = f"gradient norm is {ratio:.2g} times what it was (allowed {allowed:.2g})"
        return Check("gradient norm", "failed", what, ("optimizer-state-lost", "data-version-changed-at-resume"))
    return Check("gradient norm", "ok", f"{ratio:.2f} times what it was")


def _scale(seam: Seam) -> Check:
    past, next_ = seam.sides("loss_scale")
    if not len(past) or not len(next_):
        return Check("loss scale", "unknown", "not logged")
    if next_[0] >= 4 * past[-1] or next_[0] <= past[-1] / 4:
        what = f"loss scale jumps from {past[-1]:.0f} to {next_[0]:.0f}"
        return Check("loss scale", "failed", what, ("scaler-not-restored",))
    return Check("loss scale", "ok", f"{past[-1]:.0f} then {next_[0]:.0f}")


def _throughput(seam: Seam) -> Check:
    for name, up in (("throughput", 1), ("step_time", -1)):
        past, next_ = seam.sides(name)
        if len(past) >= 5 and len(next_) >= 5:
            ratio = (float(np.median(next_)) / max(float(np.median(past)), 1e-30)) ** up
            if not 0.9 <= ratio <= 1.1:
                what = f"speed is {ratio:.2f} times what it was"
                return Check("throughput", "failed", what, ("layout-changed-at-resume", "thermal-throttling"))
            return Check("throughput", "ok", f"{ratio:.2f} times what it was")
    return Check("throughput", "unknown", "not logged")


def _data(seam: Seam) -> Check:
    """The noise of the loss is a fingerprint of the samples: the same noise again means the same samples again."""
    steps, a, b = aligned(seam.before.one("loss"), seam.after.one("loss"))
    if len(steps) >= SHORTEST_MATCH:
        r = _correlation(a, b)
        if r >= 0.5:
            return Check("data", "ok", f"the repeated steps see the same samples (correlation {r:.2f})")
        what = f"the repeated steps see other samples than the first time (correlation {r:.2f})"
        return Check(
            "data", "failed", what, ("sampler-not-restored", "rng-not-restored", "data-version-changed-at-resume")
        )
    _, past = clean(seam.before.one("loss"))
    _, next_ = clean(seam.after.one("loss"))
    length = min(len(next_), 100, len(past) // 2)
    if length < SHORTEST_MATCH:
        return Check("data", "unknown", "too few points to recognise samples by")
    window = next_[:length]
    best, where = 0.0, 0
    for start in range(len(past) - length + 1):
        r = _correlation(past[start : start + length], window)
        if r > best:
            best, where = r, start
    if best >= SAME_SAMPLES:
        old = int(clean(seam.before.one("loss"))[0][where])
        what = f"the losses repeat those from step {old} on (correlation {best:.2f}): samples are seen again"
        return Check("data", "failed", what, ("sampler-not-restored", "same-order-each-epoch"))
    return Check("data", "ok", "no stretch of losses is seen again")


def _correlation(a: np.ndarray, b: np.ndarray) -> float:
    """Correlation of the step-to-step changes, so that a common trend does not count."""
    da, db = np.diff(a), np.diff(b)
    if len(da) < 3 or da.std() == 0 or db.std() == 0:
        return 0.0
    return float(np.corrcoef(da, db)[0, 1])


def _world(seam: Seam) -> Check:
    a, b = flatten(seam.before.config), flatten(seam.after.config)
    for key in ("world_size", "num_gpus", "global_batch_size", "train_batch_size", "gradient_accumulation_steps"):
        one, two = lookup(a, key), lookup(b, key)
        if one and two and str(one[1]) != str(two[1]):
            what = f"{key} was {one[1]} and is {two[1]}"
            return Check("world size", "failed", what, ("layout-changed-at-resume", "gpu-count-changed"))
    if len(seam.before.ranks) != len(seam.after.ranks):
        what = f"{len(seam.before.ranks)} ranks before, {len(seam.after.ranks)} after"
        return Check("world size", "failed", what, ("layout-changed-at-resume", "gpu-count-changed"))
    return Check("world size", "ok" if a and b else "unknown", "the same" if a and b else "no configuration to compare")


CHECKS: tuple[Callable[[Seam], Check], ...] = (_steps, _loss, _lr, _grad_norm, _scale, _throughput, _data, _world)
