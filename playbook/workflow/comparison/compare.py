"""Where a run departs from a reference run: the first step, the first metric, and what differs in the settings."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from playbook.errors import PlaybookError
from playbook.series import Run
from playbook.workflow.comparison.pairs import ConfigDifference, aligned, config_differences, noise

METRICS = ("loss", "grad_norm", "lr", "loss_scale", "throughput", "eval_loss")
# Two runs of one seed on one machine agree to this relative difference; beyond it they are different runs.
SAME = 1e-3
# What depends on the machine and its neighbours, not on the seed, is never equal for good.
OF_THE_MACHINE = frozenset({"throughput"})
# A departure is a difference of this many noise deviations ...
DEVIATIONS = 6.0
# ... that lasts for this many logged points (or to the end).
LASTING = 5
# Curves may differ by this share of the level whatever the noise: another seed does as much.
SEED_SHARE = 0.02


@dataclass(frozen=True, slots=True)
class Departure:
    """One metric: the first step at which it departs for good, by how much, and until when it was equal to `SAME`."""

    metric: str
    step: int | None
    reference: float | None
    run: float | None
    equal_until: int | None
    common: int
    because: str


@dataclass(frozen=True, slots=True)
class Comparison:
    """All metrics that both runs logged, in the order in which they depart."""

    departures: tuple[Departure, ...]
    same_seed: bool
    differences: tuple[ConfigDifference, ...]

    @property
    def first(self) -> Departure | None:
        """The earliest departure; at one step the metric that is nearest to the cause (lr before norm before loss)."""
        order = {"lr": 0, "loss_scale": 1, "grad_norm": 2, "loss": 3, "eval_loss": 4, "throughput": 5}
        real = [d for d in self.departures if d.step is not None]
        return min(real, key=lambda d: (d.step or 0, order.get(d.metric, 9))) if real else None


def compare(reference: Run, run: Run) -> Comparison:
    """Compare two runs. Raises `PlaybookError` where they share no metric at any step."""
    departures = []
    for name in METRICS:
        steps, a, b = aligned(reference.one(name), run.one(name))
        if len(steps):
            departures.append(_departure(name, steps, a, b))
    if not departures:
        raise PlaybookError(
            "compare", "the two runs share no metric at any step", "use --map to name the columns alike"
        )
    loss = next((d for d in departures if d.metric == "loss"), departures[0])
    same_seed = loss.equal_until is not None and (loss.step is None or loss.equal_until > 0)
    return Comparison(tuple(departures), same_seed, tuple(config_differences(reference.config, run.config)))


def _departure(name: str, steps: np.ndarray, a: np.ndarray, b: np.ndarray) -> Departure:
    scale = np.maximum(np.abs(a), np.finfo(float).tiny)
    equal = np.abs(a - b) <= SAME * scale
    head = len(equal) if equal.all() else int(np.argmin(equal))
    equal_until = int(steps[head - 1]) if head else None
    if head and name not in OF_THE_MACHINE:
        # Same seed: the first point that is not equal is the departure, however small it is.
        tolerance = SAME * scale
    else:
        spread = max(noise(a), noise(b)) * np.sqrt(2)
        tolerance = np.maximum(DEVIATIONS * spread, SEED_SHARE * scale)
    apart = np.abs(a - b) > tolerance
    index = _first_lasting(apart)
    if index is None:
        because = f"equal within {SAME:.1%}" if equal.all() else "within the noise of two seeds"
        because = "within its noise" if name in OF_THE_MACHINE and not equal.all() else because
        return Departure(name, None, None, None, equal_until, len(steps), f"{because} over {len(steps)} common steps")
    step = int(steps[index])
    because = f"{name} {b[index]:.6g} against {a[index]:.6g} at step {step}"
    if equal_until is not None and name not in OF_THE_MACHINE:
        because += f", equal within {SAME:.1%} until step {equal_until}"
    return Departure(name, step, float(a[index]), float(b[index]), equal_until, len(steps), because)


def _first_lasting(flags: np.ndarray) -> int | None:
    """First index from which at least `LASTING` points in a row (or all that are left) are True."""
    run = 0
    for index, flag in enumerate(flags):
        run = run + 1 if flag else 0
        if run >= LASTING:
            return index - run + 1
    return len(flags) - run if run else None
