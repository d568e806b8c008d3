"""A learning rate is followed over a seam through every usual schedule, and through none that is another one."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from playbook.workflow.comparison.rate import continued, off_schedule, starts_at

PEAK, END = 1e-3, 4000


def _cosine(t: np.ndarray) -> np.ndarray:
    return PEAK * 0.5 * (1 + np.cos(np.pi * t / END))


SCHEDULES: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "constant": lambda t: np.full(len(t), PEAK),
    "linear": lambda t: PEAK * (1 - t / END),
    "cosine": _cosine,
    "warm-up, then inverse root": lambda t: PEAK * np.minimum((t + 1) / 400, np.sqrt(400 / (t + 1))),
    "warm-up, then linear": lambda t: PEAK * np.minimum((t + 1) / 400, (END - t) / (END - 399)),
    "stable, then decay": lambda t: PEAK * np.minimum(1, (END - t) / 1000),
    "exponential": lambda t: PEAK * np.exp(-t / 900),
    "cycles": lambda t: _cosine((t % 800) * 5),
}
Points = tuple[np.ndarray, np.ndarray]


def rows(schedule: str, low: int, high: int, every: int = 1) -> Points:
    steps = np.arange(low, high, every)
    return steps, SCHEDULES[schedule](steps)


@pytest.mark.parametrize("every", [1, 10])
@pytest.mark.parametrize("gap", [1, 10])
@pytest.mark.parametrize("at", [200, 400, 1200, 3000])
@pytest.mark.parametrize("schedule", SCHEDULES)
def test_a_schedule_that_goes_on_fits(schedule: str, at: int, gap: int, every: int) -> None:
    before, after = rows(schedule, 0, at, every), rows(schedule, at + gap - 1, at + 300, every)
    found = continued(before, after)
    assert found.fits and found.times is None and not found.step_down


@pytest.mark.parametrize("schedule", ["linear", "cosine", "exponential", "stable, then decay"])
@pytest.mark.parametrize("times", [0.1, 0.9, 1.2, 10])
def test_another_rate_does_not_fit(schedule: str, times: float) -> None:
    steps, rate = rows(schedule, 1200, 1500)
    assert not continued(rows(schedule, 0, 1200), (steps, times * rate)).fits
    again = SCHEDULES[schedule](steps - 1200)
    assert schedule.startswith("stable") or not continued(rows(schedule, 0, 1200), (steps, again)).fits


@pytest.mark.parametrize("times", [2, 4])
def test_a_schedule_that_is_stepped_more_often_changes_as_many_times_as_fast(times: int) -> None:
    steps = np.arange(1200, 1500)
    after = SCHEDULES["linear"](1200 + times * (steps - 1200))
    assert continued(rows("linear", 0, 1200), (steps, after)).times == times


def test_a_step_down_is_told_from_a_fall() -> None:
    flat = np.arange(100), np.full(100, PEAK)
    assert continued(flat, (np.arange(100, 200), np.full(100, PEAK / 10))).step_down
    assert not continued(flat, (np.arange(100, 200), np.full(100, PEAK * 10))).step_down
    assert not continued(flat, (np.arange(100, 200), PEAK * np.linspace(0.1, 0.01, 100))).step_down
    known = np.arange(300), PEAK * np.repeat([1.0, 0.1, 0.01], 100)
    assert continued(known, (np.arange(300, 400), np.full(100, PEAK / 1000))).fits, "it fell so before"


def test_a_counter_that_jumped_is_behind_the_last_step() -> None:
    before, (steps, rate) = rows("cosine", 0, 1200), rows("cosine", 1200, 1500)
    assert starts_at(before, (steps + 700, rate))
    assert not starts_at(before, (steps + 700, SCHEDULES["cosine"](steps + 700)))


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_the_same_schedule_is_recognised_at_other_steps(schedule: str) -> None:
    """A row of BEFORE about there is enough: within two steps, or within a row of a run that logs more seldom."""
    for before, after in ((1, 7), (10, 1), (10, 7)):
        steps, rate = rows(schedule, 3, 1990, after)
        past = rows(schedule, 0, 2000, before)
        assert not off_schedule(past, (steps, rate)).any(), (before, after)
        inner = np.abs(np.gradient(rate)) < 1e-3 * rate  # the rate itself does not move within two rows
        if schedule == "cycles":
            inner &= np.abs((steps + 400) % 800 - 400) > 20
        assert off_schedule(past, (steps, 1.05 * rate))[inner].all()
        assert off_schedule(past, (steps, 0.95 * rate))[inner].all()


def test_one_row_is_a_schedule_of_one_rate() -> None:
    past = np.array([100]), np.array([PEAK])
    at = np.array([100, 100]), np.array([PEAK, 1.2 * PEAK])
    assert off_schedule(past, at).tolist() == [False, True]
