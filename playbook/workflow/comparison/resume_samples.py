"""Which samples a seam saw: steps trained twice are held against each other, earlier ones are known by their noise.

How hard a batch is moves the loss from row to row in the same way whenever it is trained on: the noise of the loss is
a fingerprint of the samples.
"""

from __future__ import annotations

import numpy as np

from playbook.detectors.stats import diff_sigma as noise
from playbook.workflow.comparison import resume_causes as cause
from playbook.workflow.comparison.pairs import changes, correlation
from playbook.workflow.comparison.seam import Check, Seam

PAIRED = 8  # steps trained twice that make a comparison
FIRST_EQUAL = 5e-5  # relative: the first loss is that of the same weights and samples (4 digits in a log)
UPDATE_EQUAL = 3e-3  # relative: what kernels and reductions may move the next losses ...
UPDATE_EXACT = 1e-3  # ... and where the first loss is the same to all its digits
RISE = 0.02  # mean logarithm of the loss ratio below which a rise is no matter
FAR_OFF = 0.2  # level at which the samples of two stretches can no longer be told
SAME_DATA, OTHER_DATA = 0.5, 0.2  # correlation of the noise of steps trained twice
ECHO_ROWS = 20  # fewer rows recognise no samples
ECHO_MOST = 300  # rows after the seam that are looked for
ECHO = 0.3  # a weaker correlation recognises none, however many rows bear it


def trained_twice(seam: Seam) -> Check | None:
    """The verdict on the loss of steps trained twice on the same samples, one by one; None where there are none."""
    steps, a, b = seam.repeated("loss")
    if len(steps) < PAIRED or seam.shift or seam.spacing[0] != seam.spacing[1] or min(a.min(), b.min()) <= 0:
        return None
    off = np.log(b / a)
    exact = _first_is_equal(seam, off, noise(np.log(a)))
    if correlation(np.log(a), np.log(b)) < SAME_DATA and not exact:
        return None
    sure = f"{len(steps)} steps were trained twice"
    if exact and seam.spacing[1] == 1 and int(steps[0]) == seam.begin:
        soon = float(np.max(np.abs(off[1:6])))
        rounded = bool(np.all(np.round(a, 5) == a))
        if soon <= (UPDATE_EQUAL if rounded or abs(float(off[0])) > 1e-6 else UPDATE_EXACT):
            what = f"{sure}: the same first loss and the next ones equal within {max(soon, 1e-6):.1g}"
            return Check("loss", "ok", what)
        what = f"{sure}: the first loss is the same ({b[0]:.5g}), the next ones are off by up to {soon:.1%}"
        what += ": weights and samples are right, the update is not"
        return Check("loss", "failed", what, (*cause.UPDATE, cause.MASTER_LOST), 3.0)
    for part in (off[: max(PAIRED, len(off) // 2)], off[len(off) // 2 :]):
        mean = float(np.mean(part))
        if mean > max(6 * max(float(np.std(part)), 1e-4) / np.sqrt(len(part)), RISE):
            start, causes = _beginning(off, mean)
            higher = f"{np.expm1(min(mean, 50)):.1%} higher"
            what = f"{sure} on the same samples: the loss is {higher} the second time, {start}"
            return Check("loss", "failed", what, causes, 2.5)
    return Check("loss", "ok", f"{sure} on the same samples: {float(np.mean(off)):+.1%} on average")


def _beginning(off: np.ndarray, mean: float) -> tuple[str, tuple[str, ...]]:
    """Whether a difference is there before the first update, and who does that."""
    first = float(off[0])
    if abs(first) <= 20 * FIRST_EQUAL or float(np.median(off[:4])) < 0.1 * mean:
        return f"at first it is not ({np.expm1(first):+.2%})", cause.UPDATE
    if float(np.median(off[:5])) > 0.4 * mean:
        weights = (cause.WRONG_WEIGHTS, cause.INCOMPLETE, cause.MASTER_LOST, cause.MOMENTS_LOST)
        return "from the first rows on", weights
    either = (cause.WRONG_WEIGHTS, cause.MOMENTS_LOST, cause.INCOMPLETE, cause.SCALER_LOST, cause.OTHER_LAYOUT)
    return "whether from the first row on is not to be told", either


def _first_is_equal(seam: Seam, off: np.ndarray, spread: float) -> bool:
    """The first step trained twice has one loss and, where it is logged, one gradient norm."""
    if abs(float(off[0])) > FIRST_EQUAL or spread < 20 * FIRST_EQUAL:
        return False
    steps, g, h = seam.repeated("grad_norm")
    return not len(steps) or abs(float(h[0] - g[0])) <= 2e-3 * abs(float(g[0]))


def data(seam: Seam) -> Check:
    """Whether the samples go on: the same noise of the loss means the same samples, at the same steps or again."""
    if seam.spacing[0] != seam.spacing[1]:
        return Check("data", "unknown", "the two runs log at other intervals: no row stands for the same samples")
    if seam.other_batch:
        return Check("data", "unknown", "a step takes another number of samples: no row stands for the same ones")
    steps, a, b = seam.repeated("loss")
    tied = None
    if len(steps) >= PAIRED and not seam.shift:
        a, b = _domain(a), _domain(b)
        tied = correlation(a, b)
        if abs(float(np.median(b) - np.median(a))) > max(FAR_OFF, 3 * noise(a)):
            return Check("data", "unknown", "the losses are too far off to recognise samples by")
        if tied >= SAME_DATA or _first_is_equal(seam, b - a, noise(a)):
            return Check("data", "ok", f"the {len(steps)} repeated steps see the same samples (correlation {tied:.2f})")
    if echo := _echo(seam):
        old, strength, count = echo
        what = f"the losses follow those from step {old} on (correlation {strength:.2f} over {count} rows)"
        return Check("data", "failed", f"{what}: samples are seen again", (cause.OTHER_ORDER,), 4.0)
    if tied is None:
        return Check("data", "unknown", "no step was trained twice, and no earlier stretch of losses comes again")
    if len(steps) >= ECHO_ROWS and tied < OTHER_DATA:
        what = f"the {len(steps)} repeated steps see other samples than the first time (correlation {tied:.2f})"
        return Check("data", "failed", what, cause.SAMPLES, 3.0)
    return Check("data", "unknown", f"{len(steps)} repeated steps do not tell (correlation {tied:.2f})")


def _domain(values: np.ndarray) -> np.ndarray:
    return np.log(values) if len(values) and values.min() > 0 else values


def _echo(seam: Seam) -> tuple[int, float, int] | None:
    """(step, correlation, rows) of an earlier stretch whose noise comes again, where that is no habit of the run."""
    (steps, values), _ = seam.whole("loss")
    _, (_, later) = seam.sides("loss")
    if len(later) < ECHO_ROWS or len(values) < ECHO_ROWS + 4:
        return None
    a, b = changes(_domain(values)), changes(_domain(later[:ECHO_MOST]))
    b = b[: len(a)]
    strength = _strengths(a, b)
    if seam.begin <= seam.last:
        # its own place is no repetition
        own = int(np.searchsorted(steps, seam.begin))
        strength[max(0, own - 1) : own + 2] = 0.0
    # rows of changes are not independent: neighbours share a value
    free = float(np.sqrt(max(len(b) * 2 / 3 - 3, 1.0)))
    # a run that begins again at its first samples is expected, another place has to stand out from all places
    start, best = int(np.argmax(strength[:3])), int(np.argmax(strength))
    for place, bar in ((start, 4.5), (best, float(np.sqrt(2 * np.log(max(len(strength), 2)))) + 3.0)):
        r = min(float(strength[place]), 0.999999)
        if np.arctanh(r) * free > bar and r > ECHO and not _habit(a, len(b), r):
            return int(steps[place]), r, len(b)
    return None


def _strengths(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """float64[len(a) - len(b) + 1]: correlation of b with every stretch of a of its length."""

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
    return bool(np.max(_strengths(a[:-size], a[-size:])) > max(ECHO, 0.6 * strength))
