"""Whether a curve goes on where it was: a good seam is not seen, a step is, and the units are those of the log."""

from __future__ import annotations

import numpy as np
import pytest

from playbook.workflow.comparison.level import Curve

STEPS, SEAM = np.arange(700), 600
SEEDS = 30


def loss(seed: int, tail: bool = False) -> np.ndarray:
    """A falling loss with noise of 4 %, normal or with heavy tails."""
    rng = np.random.default_rng(seed)
    noise = rng.standard_t(3, len(STEPS)) if tail else rng.normal(size=len(STEPS))
    return np.exp(0.7 + 1.2 * np.exp(-STEPS / 120) + 0.04 * noise)


def curve(values: np.ndarray, step: float = 1.0, every: int = 1, coarse: int = 1) -> Curve:
    before = STEPS[:SEAM:coarse], values[:SEAM].reshape(-1, coarse).mean(axis=1)
    return Curve.of(before, (STEPS[SEAM::every], step * values[SEAM::every]))


@pytest.mark.parametrize("tail", [False, True], ids=["normal noise", "heavy tails"])
@pytest.mark.parametrize(("step", "least", "most"), [(1.0, 0, 0), (1.05, 0, 3), (1.22, 25, 30), (1 / 1.35, 29, 30)])
def test_how_many_steps_of_a_level_are_seen(tail: bool, step: float, least: int, most: int) -> None:
    seen = 0
    for seed in range(SEEDS):
        move = curve(loss(seed, tail), step).move(0, 12, 0.03)
        assert move is not None
        seen += move.up if step > 1 else move.down
        assert not (move.down if step >= 1 else move.up)
    assert least <= seen <= most


@pytest.mark.parametrize(("every", "coarse"), [(10, 1), (1, 10), (5, 10)])
def test_other_intervals_are_no_step(every: int, coarse: int) -> None:
    for seed in range(SEEDS):
        for stretch in ((0, 3), (0, 12), (3, 100)):
            move = curve(loss(seed), every=every, coarse=coarse).move(*stretch, 0.03)
            assert move is None or not (move.up or move.down), (seed, stretch)


def test_expectation_and_finding_are_in_the_units_of_the_log() -> None:
    falling = 2 + np.exp(-STEPS / 120) + 0.001 * np.random.default_rng(1).normal(size=len(STEPS))
    for shift in (0.0, -4.0):  # all positive: by its logarithm; with negative values as it is
        values = falling + shift
        curve_ = curve(values)
        assert curve_.log == (shift == 0)
        move = curve_.move(0, 12, 0.0)
        assert move is not None
        assert move.value == pytest.approx(np.median(values[SEAM : SEAM + 12]), abs=2e-3)
        assert move.level == pytest.approx(values[SEAM], abs=5e-3)
        raised = Curve.of((STEPS[:SEAM], values[:SEAM]), (STEPS[SEAM:], values[SEAM:] + 0.5)).move(0, 12, 0.0)
        assert raised is not None and raised.up and raised.value - raised.level == pytest.approx(0.5, abs=0.01)


def test_a_rise_is_not_drawn_on() -> None:
    """A loss that rose and stays where it is has not fallen."""
    rising = 2 + STEPS / 600 + 0.02 * np.random.default_rng(2).normal(size=len(STEPS))
    rising[SEAM:] = 3 + 0.02 * np.random.default_rng(3).normal(size=len(STEPS) - SEAM)
    move = curve(rising).move(0, 12, 0.0)
    assert move is not None and not move.down


def test_too_few_rows_say_nothing() -> None:
    values = loss(0)
    for rows in (0, 7, 12):
        before = STEPS[SEAM - rows : SEAM], values[SEAM - rows : SEAM]
        assert Curve.of(before, (STEPS[SEAM:], values[SEAM:])).move(0, 3, 0.03) is None
    assert Curve.of((STEPS[:SEAM], values[:SEAM]), (STEPS[:0], values[:0])).move(0, 3, 0.03) is None
