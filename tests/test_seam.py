"""Resumes that have left few rows: what jumps is seen, what goes on is left alone, a smoothed log included."""

from __future__ import annotations

import numpy as np
import pytest

from playbook.detectors.stats.seam import step_up, tied
from playbook.series import Run, Series
from playbook.workflow.ingest import look
from tests import runs
from tests.lab import judge

BOOK = judge.library().book


def resumed(
    seed: int,
    rise: float = 1.0,
    noise: float = 0.01,
    rows: int = 10,
    again: int = 4,
    slow: bool = True,
    tie: float = 0.0,
    seam: bool = False,
) -> Run:
    """`rows` rows before and after a resume that trains the last `again` logged steps once more, with other noise."""
    rng = np.random.default_rng(seed)
    steps = 10 * np.concatenate([np.arange(rows), np.arange(rows - again, 2 * rows)])
    level = 2.2 + 2.0 * np.exp(-steps / (30.0 * rows)) if slow else np.full(len(steps), 2.5)
    rows_of = [runs.smooth(rng, n, noise, tie) for n in (rows, rows + again)]
    loss = level * np.exp(np.concatenate(rows_of)) * np.where(np.arange(len(steps)) < rows, 1.0, rise)
    made = runs.series("loss", steps, loss)
    if seam:
        made = Series("loss", None, made.steps, made.values, None, made.origin, "loss", (rows,))
    return Run({("loss", None): made})


def verdicts(count: int, **made: object) -> list[str]:
    return [look(resumed(seed, **made), BOOK).verdict for seed in range(count)]  # type: ignore[arg-type]


@pytest.mark.parametrize("slow", [False, True])
@pytest.mark.parametrize(("rise", "noise"), [(1.1, 0.01), (1.2, 0.02), (1.3, 0.03), (1.6, 0.08)])
@pytest.mark.parametrize("seam", [False, True])
def test_a_jump_is_seen_in_ten_rows_a_file(rise: float, noise: float, slow: bool, seam: bool) -> None:
    said = verdicts(12, rise=rise, noise=noise, slow=slow, seam=seam)
    assert said.count("incident") >= 10, said


@pytest.mark.parametrize("rows", [8, 10, 20, 40])
@pytest.mark.parametrize("again", [0, 3, 5])
def test_a_resume_that_goes_on_is_left_alone(rows: int, again: int) -> None:
    for noise in (0.01, 0.03, 0.08):
        for slow in (False, True):
            assert "incident" not in verdicts(12, rows=rows, again=again, noise=noise, slow=slow, seam=not again)


def test_a_smoothed_log_is_held_against_its_own_wandering() -> None:
    """Two smoothed halves are two levels; hardly one in a hundred may look like a jump."""
    said = [v for noise in (0.01, 0.05) for v in verdicts(100, rows=20, noise=noise, tie=0.8)]
    assert said.count("incident") <= 4


def test_the_step_is_that_of_the_level_and_not_of_the_slope() -> None:
    t = np.arange(12.0)
    wiggle = 0.002 * np.tile([1.0, -1.0, -1.0, 1.0], 6)
    before, after = (t, -0.03 * t + wiggle[:12]), (t + 12, -0.03 * (t + 12) + wiggle[12:])
    assert step_up(before, after)[1] < 2
    rise, z = step_up(before, (after[0], after[1] + 0.2))
    assert abs(rise - 0.2) < 0.01 and z > 6
    assert step_up(before, (after[0], after[1] - 0.2)) == (0.0, 0.0)
    assert step_up((t[:3], before[1][:3]), after) == (0.0, 0.0)


def test_rows_that_jump_elsewhere_as_well_tell_of_no_step() -> None:
    rng = np.random.default_rng(39)
    t = np.arange(32)
    wanders = 0.01 * rng.standard_normal(32) + np.cumsum(0.01 * rng.standard_normal(32)) + np.where(t >= 16, 0.15, 0.0)
    assert step_up((t[:16], wanders[:16]), (t[16:], wanders[16:])) == (0.0, 0.0)
    once = np.where(t >= 16, 0.15, 0.0) + 0.01 * np.random.default_rng(39).standard_normal(32)
    assert step_up((t[:16], once[:16]), (t[16:], once[16:]))[1] > 5


def test_rows_that_hang_together_count_for_fewer() -> None:
    rng = np.random.default_rng(0)
    free, smooth = (np.median([tied(runs.smooth(rng, 64, 1.0, tie)) for _ in range(50)]) for tie in (0.0, 0.8))
    assert free < 1.2 and smooth > 1.8
    assert tied(np.zeros(20)) == tied(np.arange(3.0)) == 1.0
