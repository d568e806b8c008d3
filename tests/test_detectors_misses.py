"""Faults that passed for health: short and sparse logs, spikes behind a quiet start, rises of a middling speed."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from playbook.detectors import TABLE, scan
from playbook.findings import Finding
from playbook.knowledge.loader import Book
from playbook.series import Run
from tests.runs import run, series, smooth

INCIDENT = 0.7


def told(made: Run, *detectors: str) -> list[Finding]:
    """What the named detectors (all without a name) are sure of."""
    scans = scan(made, detectors or [m.NAME for m in TABLE])
    return [f for s in scans for f in s.findings if f.confidence >= INCIDENT]


def kinds(made: Run, *detectors: str) -> set[str]:
    return {f.kind for f in told(made, *detectors)}


def falling(rows: int, noise: float = 0.01, seed: int = 0, high: float = 10.8, low: float = 3.0) -> np.ndarray:
    t = np.arange(rows)
    e = np.random.default_rng(seed).normal(0, noise, rows)
    return np.asarray((low + (high - low) * np.exp(-t / (0.12 * rows))) * np.exp(e))


# --- spikes --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("every", [1, 10, 100, 500])
def test_a_spike_behind_a_quiet_start_of_few_rows_is_found(every: int) -> None:
    for rows, at, times, wide in itertools.product((64, 120), (25, 40), (2.5, 4.0), (1, 4)):
        loss = falling(rows, seed=rows + at)
        loss[at : at + wide] *= times
        (found,) = [f for f in told(run(np.arange(rows) * every, {"loss": loss}), "spike") if f.kind == "transient"]
        assert found.step == at * every, (rows, at, times, wide)


def test_the_bump_of_the_first_steps_stays_health() -> None:
    for seed in range(20):
        loss = falling(300, seed=seed)
        loss[3:25] *= 1.0 + 0.9 * np.exp(-np.arange(22) / 6.0)
        assert not told(run(np.arange(300), {"loss": loss}), "spike", "explosion")


def test_wander_before_a_spike_is_no_part_of_it() -> None:
    """A spike of one row over noise that hangs together: back in the next row, not after the rows before it."""
    for seed in range(20):
        rng = np.random.default_rng(seed)
        t = np.arange(1500)
        loss = (4.0 + 5.0 * np.exp(-t / 500.0)) * np.exp(smooth(rng, 1500, 0.014, 0.85))
        at = rng.choice(np.arange(300, 1450, 50), 6, replace=False)
        loss[at] *= 4.5
        found = told(run(t * 10, {"loss": loss}), "spike")
        assert {f.kind for f in found} <= {"transient", "repeated", "growing"}, seed
        assert {f.step for f in found if f.kind == "transient"} == set((at * 10).tolist()), seed


def test_what_rises_late_in_a_short_sparse_log_is_not_early() -> None:
    loss = falling(64)
    loss[40:] *= 3.5
    assert kinds(run(np.arange(64) * 100, {"loss": loss}), "explosion") == {"late"}
    loss = falling(64)
    loss[8:] = loss[8] * 3.5
    assert kinds(run(np.arange(64) * 100, {"loss": loss}), "explosion") == {"early"}


# --- rises of a middling speed -------------------------------------------------------------------------------------


@pytest.mark.parametrize("tau", [30, 60, 100])
def test_a_rise_over_some_hundred_rows_is_found(tau: int) -> None:
    """Too slow for a jump, too swift for a climb that takes a tenth of the run."""
    for rows, at in ((2400, 1200), (3000, 2200)):
        t = np.arange(rows)
        up = np.where(t >= at, np.log(2.0) * (1 - np.exp(-(t - at + 1) / tau)), 0.0)
        made = run(t, {"loss": falling(rows) * np.exp(up)})
        found = told(made, "slow_climb", "spike", "level_shift", "explosion")
        assert found and abs(min(f.step or 0 for f in found) - at) <= 0.03 * rows, (rows, at)


def test_a_loss_that_wanders_does_not_rise() -> None:
    for seed in range(30):
        loss = falling(1500, low=5.0) * np.exp(smooth(np.random.default_rng(seed), 1500, 0.25, 0.95))
        assert not kinds(run(np.arange(1500), {"loss": loss}), "slow_climb"), seed


# --- rows and cells that are missing -------------------------------------------------------------------------------


def test_a_loss_that_stops_while_its_rows_go_on_is_a_nan() -> None:
    loss, lr = falling(300), np.full(300, 3e-4)
    made = run(np.arange(300), {"loss": loss, "lr": lr})
    made.series["loss", None] = series("loss", np.arange(200), loss[:200])
    (found,) = told(made, "nonfinite")
    assert (found.kind, found.step) == ("nan", 200)
    # a loss in every tenth row, a learning rate that is a few rows longer
    made.series["loss", None] = series("loss", np.arange(0, 200, 10), loss[:200:10])
    assert not told(made, "nonfinite")
    made.series["loss", None] = series("loss", np.arange(292), loss[:292])
    assert not told(made, "nonfinite")


# --- nothing moves any more ----------------------------------------------------------------------------------------


def plunging(every: int, at: int = 400) -> np.ndarray:
    t = np.arange(800)
    return 65536.0 / 2.0 ** np.clip((t - at + 1) * min(every, 8), 0, 16)


@pytest.mark.parametrize("every", [1, 10])
def test_a_loss_scale_that_plunges_to_its_floor_and_a_loss_that_stands_skip_for_good(every: int) -> None:
    t = np.arange(800)
    loss = falling(800)
    loss[400:] = 3.3 * np.exp(np.random.default_rng(1).normal(0, 0.01, 400))
    (found,) = told(run(t * every, {"loss": loss, "loss_scale": plunging(every)}), "skipped")
    assert (found.kind, abs((found.step or 0) - 400 * every) <= every) == ("endless", True)


def test_a_loss_scale_at_its_floor_under_a_loss_that_falls_is_no_endless_skipping() -> None:
    loss = falling(800) * np.linspace(1.0, 0.5, 800)
    assert "endless" not in kinds(run(np.arange(800), {"loss": loss, "loss_scale": plunging(1)}), "skipped")


def test_a_gradient_that_vanishes_on_the_way_leaves_a_loss_that_is_stuck() -> None:
    rng, t = np.random.default_rng(0), np.arange(600)
    loss, norm = falling(600), np.exp(rng.normal(0, 0.3, 600))
    loss[150:] = loss[150] * np.exp(rng.normal(0, 0.02, 450))
    (found,) = told(run(t, {"loss": loss, "grad_norm": np.where(t >= 150, 1e-12, norm)}), "plateau")
    assert (found.kind, found.step) == ("stuck", 150)
    assert not told(run(t, {"loss": loss, "grad_norm": norm}), "plateau")
    assert not told(run(t, {"loss": falling(600), "grad_norm": np.where(t >= 150, 1e-12, norm)}), "plateau")


# --- speed ---------------------------------------------------------------------------------------------------------


def speed(shape: np.ndarray, seed: int = 0) -> Run:
    e = np.random.default_rng(seed).normal(0, 0.04, len(shape))
    return run(np.arange(len(shape)), {"throughput": 5e4 * shape * np.exp(e)})


def test_a_speed_that_declines_little_by_little_is_found() -> None:
    t = np.arange(1500)
    (found,) = [f for f in told(speed(0.45 ** (np.maximum(t - 500, 0) / 1000.0)), "throughput") if f.kind == "drops"]
    assert abs((found.step or 0) - 500) <= 90
    # a running average that comes down from a first value, and a little less at the end
    assert "drops" not in kinds(speed(1.0 + 1.5 / (1.0 + t / 40.0)), "throughput")
    assert "drops" not in kinds(speed(0.85 ** (np.maximum(t - 500, 0) / 1000.0)), "throughput")


def test_stalls_that_set_in_are_found_and_pauses_are_not() -> None:
    rng, t = np.random.default_rng(0), np.arange(1500)
    stalled = (t >= 600) & (rng.random(1500) < 0.15)
    (found,) = [f for f in told(speed(np.where(stalled, 0.1, 1.0)), "throughput") if f.kind == "drops"]
    assert abs((found.step or 0) - 600) <= 30
    assert "drops" not in kinds(speed(np.where((t >= 600) & (t % 10 == 0), 0.1, 1.0)), "throughput")  # evaluations
    assert "drops" not in kinds(speed(np.where(rng.random(1500) < 0.01, 0.1, 1.0)), "throughput")


# --- ranks and resumes ---------------------------------------------------------------------------------------------


def test_the_bad_one_of_two_ranks_is_the_one_that_leaves_its_course() -> None:
    rng, t = np.random.default_rng(0), np.arange(400)
    both = {r: falling(400, low=2.0) * np.exp(rng.normal(0, 0.02, 400)) for r in (0, 1)}
    assert not told(run(t, {}, {"loss": both}), "ranks")
    for bad in (0, 1):
        ranked = {r: v * np.where((t >= 250) & (r == bad), 1.5, 1.0) for r, v in both.items()}
        (found,) = told(run(t, {}, {"loss": ranked}), "ranks")
        assert (found.kind, found.rank) == ("one", bad) and abs((found.step or 0) - 250) <= 3
    apart = {0: both[0], 1: both[1] * 1.5}  # other data from the start on
    assert not told(run(t, {}, {"loss": apart}), "ranks")


def test_a_sampler_that_begins_anew_thousands_of_rows_later_is_found() -> None:
    rng = np.random.default_rng(0)
    hard = rng.normal(0, 0.03, 3600)
    order = np.concatenate([np.arange(3300), np.arange(3280, 3800)])
    base = 2.0 + 6.0 * np.exp(-order / 500.0)
    again = np.concatenate([hard[:3300], hard[:520]]) + rng.normal(0, 0.004, len(order))
    assert "repeated-samples" in kinds(run(order, {"loss": base * np.exp(again)}), "resume")
    fresh = np.concatenate([hard[:3300], rng.normal(0, 0.03, 520)])
    assert "repeated-samples" not in kinds(run(order, {"loss": base * np.exp(fresh)}), "resume")


# --- where it begins -----------------------------------------------------------------------------------------------


def test_a_jump_at_once_keeps_its_row() -> None:
    for seed in range(10):
        loss = falling(600, noise=0.02, seed=seed)
        loss[350:] *= 3.0
        found = told(run(np.arange(600), {"loss": loss}), "explosion", "spike")
        assert {f.step for f in found if f.kind in ("late", "persistent")} == {350}


def test_a_rise_to_a_multiple_is_a_fault_whatever_came_before() -> None:
    t = np.arange(1400)
    loss = 6.2 * np.exp(-t / 9000.0) * 11.0 ** (np.maximum(t - 400, 0) / 1000.0)
    found = told(run(t, {"loss": loss * np.exp(np.random.default_rng(0).normal(0, 0.02, 1400))}))
    assert "climb" in {f.kind for f in found} or {"late", "persistent"} & {f.kind for f in found}


def test_a_collapse_to_next_to_nothing_needs_few_rows() -> None:
    loss = falling(60)
    loss[30:] = 2e-5 * np.exp(np.random.default_rng(0).normal(0, 0.05, 30))
    (found,) = told(run(np.arange(60) * 10, {"loss": loss}), "abnormally_low")
    assert (found.kind, found.step) == ("too-low", 300)
    learned = 5.0 * np.exp(-np.arange(60) / 4.0) + 1e-5  # through the decades, row by row
    assert not told(run(np.arange(60) * 10, {"loss": learned}), "abnormally_low")


def test_a_router_that_collapses_under_a_healthy_loss_is_an_incident(real_book: Book) -> None:
    from playbook.workflow.ingest import look

    t = np.arange(600)
    even = 0.2 * np.exp(np.random.default_rng(0).normal(0, 0.03, 600))
    for load, verdict in ((even, "healthy"), (np.where(t >= 300, 4.5 * even, even), "incident")):
        made = run(t, {"loss": falling(600), "expert_load_max": np.minimum(load, 1.0)}, config={"num_experts": 8})
        found = look(made, real_book)
        assert found.verdict == verdict
    assert found.symptom and (found.symptom.state, found.symptom.step) == ("silent-degradation", 300)
