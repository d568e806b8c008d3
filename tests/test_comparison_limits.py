"""Each limit of rates, levels and samples at a seam is where its name says: other answers inside and outside."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from playbook.detectors.stats import MAD_TO_SIGMA
from playbook.workflow.comparison import level, rate, resume_curves, resume_samples
from playbook.workflow.comparison.level import Curve, Move
from playbook.workflow.comparison.pairs import correlation

# --- the rate -------------------------------------------------------------------------------------------------------

T = np.arange(40)
FLAT = (T, np.full(40, 1e-3))
FALLS = (T, 1e-3 - 1e-6 * T)


@pytest.mark.parametrize(("times", "fits"), [(1.018, True), (0.982, True), (1.023, False), (0.977, False)])
def test_a_rate_may_be_off_by_two_per_cent(times: float, fits: bool) -> None:
    assert rate.continued(FLAT, (T + 40, times * FLAT[1])).fits is fits


@pytest.mark.parametrize(("times", "off"), [(1.009, False), (0.991, False), (1.011, True), (0.989, True)])
def test_a_rate_of_a_step_that_both_logged_may_be_off_by_one_per_cent(times: float, off: bool) -> None:
    assert rate.off_schedule(FLAT, (T[20:], times * FLAT[1][20:])).tolist() == [off] * 20


def steeper(times: float, rows: int, bend: int = 40) -> rate.Continued:
    """A falling rate that goes on `times` as fast for `rows` rows, and stands still behind the row `bend`."""
    at = np.arange(rows)
    return rate.continued(FALLS, (at + 40, 1e-3 - 1e-6 * (40 + times * np.minimum(at, bend))))


@pytest.mark.parametrize(("times", "found"), [(2.07, 2), (1.93, 2), (2.09, None), (1.91, None), (8.3, 8), (8.4, None)])
def test_a_factor_of_the_pace_is_known_to_four_per_cent(times: float, found: int | None) -> None:
    assert steeper(times, 40).times == found


@pytest.mark.parametrize(("rows", "found"), [(8, 2), (7, None)])
def test_eight_rows_tell_a_pace(rows: int, found: int | None) -> None:
    assert steeper(2.0, rows).times == found


@pytest.mark.parametrize(("bend", "found"), [(23, 2), (18, None)])
def test_the_pace_is_that_of_the_nearest_twenty_four_rows(bend: int, found: int | None) -> None:
    assert steeper(2.0, 40, bend).times == found


def test_the_tangent_is_that_of_four_steps_and_the_bend_that_of_the_next_four() -> None:
    v = np.cumsum([0.0, 1, 1, 9, 9, 3, 3, 5, 5, 100, 100])
    assert rate._slopes(np.arange(len(v)), v) == (5.0, 4.0)


@pytest.mark.parametrize(("rows", "steps"), [(5, True), (4, False)])
def test_five_flat_rows_are_a_step_of_a_schedule(rows: int, steps: bool) -> None:
    before = np.where(40 - rows > T, 1.2e-3, 1e-3)
    assert rate.continued((T, before), (T + 40, np.full(40, 4e-4))).step_down is steps


# --- the level ------------------------------------------------------------------------------------------------------


def curve(rows: int, noise: np.ndarray | None = None, after: np.ndarray | None = None) -> Curve:
    x = np.random.default_rng(1).normal(0, 0.01, rows) if noise is None else noise
    later = np.zeros(40) if after is None else after
    return Curve(np.arange(rows), x, rows + np.arange(len(later)), later, True)


def moved(made: Curve) -> Move:
    found = made.move(0, 1, 1e-6)
    assert found is not None
    return found


def test_a_trend_needs_eight_rows() -> None:
    assert curve(8).enough and not curve(7).enough


def test_a_scale_needs_twelve_places() -> None:
    assert curve(21).move(0, 1, 0.0) is not None and curve(20).move(0, 1, 0.0) is None


@pytest.mark.parametrize(("begin", "counts"), [(185, False), (155, True)])
def test_a_trend_is_that_of_the_last_hundred_and_sixty_rows(begin: int, counts: bool) -> None:
    x = np.zeros(1000)
    x[-begin : -begin + 24] = 1.0
    assert (level._expected(np.arange(1000), x, 1000.0) != 0.0) is counts


@pytest.mark.parametrize(("begin", "counts"), [(24, True), (60, False)])
def test_the_newest_noise_is_that_of_the_last_twenty_four_rows(begin: int, counts: bool) -> None:
    x = np.random.default_rng(2).normal(0, 0.01, 1000)
    x[-begin : len(x) - begin + 24] *= 2.5
    assert (curve(1000, x)._rising_noise() > 1.6) is counts


def test_at_most_a_hundred_and_sixty_places_are_asked() -> None:
    assert len(curve(2000)._elsewhere(1, 1, 2000.0)) == 160
    assert len(curve(100)._elsewhere(1, 1, 100.0)) < 100


@pytest.mark.parametrize(("deviations", "up"), [(4.9, False), (5.1, True)])
def test_a_level_stands_out_from_five_deviations_on(deviations: float, up: bool) -> None:
    x = np.random.default_rng(4).uniform(-0.01, 0.01, 800)  # the widest place is not much wider than others
    made = curve(800, x)
    answers = made._elsewhere(1, 1, 800.0)
    usual = float(np.median(answers))
    sigma = MAD_TO_SIGMA * float(np.median(np.abs(answers - usual)))
    expected = level._expected(made.steps, x, 800.0) + usual
    far = deviations * sigma * made._rising_noise()
    assert moved(curve(800, x, np.full(40, expected + far))).up is up


@pytest.mark.parametrize(("times", "up"), [(1.1, False), (1.2, True)])
def test_a_level_stands_out_beyond_the_widest_place(times: float, up: bool) -> None:
    x = np.tile([0.01, -0.01], 400)
    x[300:340] = 0.5
    answers = curve(800, x)._elsewhere(1, 1, 800.0)
    usual = float(np.median(answers))
    expected = level._expected(np.arange(800), x, 800.0) + usual
    far = float(np.abs(answers - usual).max())
    assert moved(curve(800, x, np.full(40, expected + times * far))).up is up


# --- the samples ----------------------------------------------------------------------------------------------------

LOSS = np.exp(0.7 + 0.05 * np.random.default_rng(3).normal(size=400))


def twice(off: np.ndarray, loss: np.ndarray = LOSS, norm: float | None = None) -> Any:
    """A seam at which the first rows of `loss` were trained twice, the second time `off` higher in the logarithm."""
    n = len(off)
    steps, a = np.arange(n), loss[:n]
    norms = (steps[:1], np.ones(1), np.full(1, norm)) if norm else (steps[:0], np.empty(0), np.empty(0))
    nothing = (np.empty(0, np.int64), np.empty(0))
    return SimpleNamespace(
        repeated=lambda name: (steps, a, a * np.exp(off)) if name == "loss" else norms,
        whole=lambda name: (nothing, nothing),
        sides=lambda name: (nothing, nothing),
        shift=0,
        spacing=(1, 1),
        begin=0,
        last=n - 1,
        other_batch=False,
    )


def status(off: np.ndarray, loss: np.ndarray = LOSS) -> str | None:
    check = resume_samples.trained_twice(twice(off, loss))
    return None if check is None else check.status


def test_eight_steps_trained_twice_are_compared() -> None:
    assert status(np.zeros(8)) == "ok" and status(np.zeros(7)) is None


@pytest.mark.parametrize(("first", "spread", "norm", "equal"), [
    (4.5e-5, 0.05, None, True), (5.5e-5, 0.05, None, False),
    (0.0, 1.1e-3, None, True), (0.0, 0.9e-3, None, False),
    (0.0, 0.05, 1.0015, True), (0.0, 0.05, 1.0025, False),
])  # fmt: skip
def test_the_first_loss_is_the_same_to_four_digits(
    first: float, spread: float, norm: float | None, equal: bool
) -> None:
    off = np.full(20, first)
    assert resume_samples._first_is_equal(twice(off, norm=norm), off, spread) is equal


@pytest.mark.parametrize(("first", "next_", "said"), [
    (2e-5, 2.8e-3, "ok"), (2e-5, 3.2e-3, "failed"), (0.0, 0.9e-3, "ok"), (0.0, 1.1e-3, "failed"),
])  # fmt: skip
def test_the_next_losses_may_differ_by_what_kernels_do(first: float, next_: float, said: str) -> None:
    off = np.zeros(20)
    off[0], off[3] = first, next_
    assert status(off) == said


@pytest.mark.parametrize(("rise", "said"), [(0.019, "ok"), (0.021, "failed"), (-0.1, "ok")])
def test_a_rise_of_two_per_cent_matters(rise: float, said: str) -> None:
    assert status(np.full(40, rise)) == said


def tied(strength: float, rows: int) -> np.ndarray:
    """Differences that leave the losses of two trainings correlated by `strength`."""
    x = np.log(LOSS[:rows])
    others = (0.7 + 0.05 * np.random.default_rng(seed).normal(size=rows) for seed in range(100))
    other = next(y for y in others if abs(correlation(x, y)) < 0.05)
    shares = np.linspace(0.0, 1.0, 2001)
    found = [correlation(x, share * x + (1 - share) * other) for share in shares]
    share = shares[int(np.argmin(np.abs(np.array(found) - strength)))]
    return np.asarray((share - 1) * x + (1 - share) * other)


@pytest.mark.parametrize(("strength", "rows", "said"), [
    (0.52, 60, "ok"), (0.48, 60, "unknown"), (0.22, 60, "unknown"), (0.18, 60, "failed"),
    (0.15, 20, "failed"), (0.15, 19, "unknown"),
])  # fmt: skip
def test_the_same_samples_are_known_by_their_noise(strength: float, rows: int, said: str) -> None:
    assert resume_samples.data(twice(tied(strength, rows))).status == said


@pytest.mark.parametrize(("off", "far"), [(0.21, False), (0.27, True)])
def test_losses_that_are_far_off_tell_no_samples(off: float, far: bool) -> None:
    quiet = np.exp(0.7 + 0.005 * np.random.default_rng(3).normal(size=400))
    near = 0.8 * off if not far else off  # 0.168 and 0.27: the limit is 0.2
    check = resume_samples.data(twice(np.full(60, near), quiet))
    assert ("too far off" in check.because) is far


# --- the curves -------------------------------------------------------------------------------------------------------


def fresh(x: np.ndarray, first: float) -> bool:
    """Whether a run of such logarithms, resumed at `first`, is told to have begun anew."""
    made = Curve(np.arange(len(x)), x, len(x) + np.arange(4), np.full(4, first), True)
    seam: Any = SimpleNamespace(spacing=(1, 1))
    return resume_curves._fresh(seam, made) is not None


def test_six_rows_tell_what_a_run_had_learned() -> None:
    x = np.array([2.0, 2.0, 1.0, 1.0, 1.0, 1.0])
    assert fresh(x, 2.0) and not fresh(x[:5], 2.0)


def falling(fell: float) -> tuple[np.ndarray, float]:
    """Logarithms that fall by `fell` times their own noise, and that noise."""
    x = np.random.default_rng(6).normal(0, 0.05, 200)
    x[-5:] = 0.0
    for _ in range(3):  # the fall itself is a part of the noise
        x[:2] = fell * level.noise(x)
    return x, level.noise(x)


@pytest.mark.parametrize(("fell", "learned"), [(8.4, True), (7.6, False)])
def test_a_run_has_learned_what_is_eight_times_its_noise(fell: float, learned: bool) -> None:
    x, noise = falling(fell)
    assert fresh(x, fell * noise) is learned


@pytest.mark.parametrize(("rows", "seen"), [(8, True), (7, False)])
def test_a_level_is_that_of_the_median_of_fifteen_rows(rows: int, seen: bool) -> None:
    values = np.linspace(3.0, 2.0, 400)
    values[200 : 200 + rows] = 9.0
    assert (resume_curves._level_of(np.arange(400), values, 8.0) is not None) is seen


@pytest.mark.parametrize(("rows", "counted"), [(8, True), (7, False)])
def test_eight_rows_tell_another_count(rows: int, counted: bool) -> None:
    x = 0.7 + 0.001 * np.tile([1.0, -1.0], 100)
    made = Curve(np.arange(200), x, 200 + np.arange(rows), x[:rows] + np.log(4), True)
    nothing = (np.empty(0, np.int64), np.empty(0))
    seam: Any = SimpleNamespace(sides=lambda name: (nothing, nothing), other_batch=False)
    move = Move(float(np.log(4)), 0.03, 0.0, float(np.exp(0.7)), 4 * float(np.exp(0.7)))
    assert (resume_curves._counted_otherwise(seam, made, move) is not None) is counted
