"""Faults that passed for health: short and sparse logs, spikes behind a quiet start, rises of a middling speed."""

from __future__ import annotations

import itertools
from dataclasses import replace

import numpy as np
import pytest

from playbook.detectors import TABLE, scan
from playbook.findings import Finding
from playbook.knowledge.loader import Book
from playbook.series import Run
from playbook.workflow.ingest import look
from tests.lab import judge
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


# --- what really trained runs of other kinds taught ------------------------------------------------------------------


def test_a_learning_rate_that_runs_out_before_the_run_is_a_plateau() -> None:
    t = np.arange(900)
    rng = np.random.default_rng(0)
    lr = np.clip(2e-3 * (1 - t / 450), 0.0, None)
    loss = (2.5 + 2.3 * np.exp(-t / 60)) * np.exp(rng.normal(0, 0.05, 900))
    (stuck,) = [f for f in told(run(t, {"loss": loss, "lr": lr}), "plateau") if f.kind == "stuck"]
    assert abs((stuck.step or 0) - 450) <= 1
    assert [f.step for f in told(run(t, {"loss": loss, "lr": lr}), "lr_value") if f.kind == "zero"] == [450]


def test_a_schedule_that_is_stepped_at_each_batch_has_run_out_long_before_its_rate_is_zero() -> None:
    t = np.arange(900)
    loss = (2.5 + 2.3 * np.exp(-t / 60)) * np.exp(np.random.default_rng(1).normal(0, 0.05, 900))
    lr = 3e-3 * 0.965**t
    (stuck,) = [f for f in told(run(t, {"loss": loss, "lr": lr}), "plateau") if f.kind == "stuck"]
    assert 380 <= (stuck.step or 0) <= 400 and "0" in stuck.because
    assert "stuck" not in kinds(run(t, {"loss": loss, "lr": 3e-3 * 0.99**t}), "plateau"), "down to a ten thousandth"


@pytest.mark.parametrize("decimals", [3, 4, 5, 6])
def test_a_rate_that_is_only_printed_as_zero_is_health(decimals: int) -> None:
    t = np.arange(900)
    loss = (2.5 + 2.3 * np.exp(-t / 60)) * np.exp(np.random.default_rng(1).normal(0, 0.05, 900))
    lr = np.round(3e-4 * 0.5 * (1 + np.cos(np.pi * t / 900)), decimals)
    assert not kinds(run(t, {"loss": loss, "lr": lr}), "plateau", "lr_value") & {"stuck", "zero"} or decimals == 3
    last = np.where(t < 890, 2e-3 * (1 - t / 890), 0.0)  # the last rows of a decay
    assert not kinds(run(t, {"loss": loss, "lr": last}), "plateau", "lr_value") & {"stuck", "zero"}


def test_a_frozen_first_group_is_no_spent_rate_while_the_loss_falls() -> None:
    t = np.arange(900)
    loss = (0.5 + 4.0 * np.exp(-t / 300)) * np.exp(np.random.default_rng(2).normal(0, 0.03, 900))
    lr = np.where(t < 300, 1.2345e-3 * (1 - t / 301), 0.0)
    assert "stuck" not in kinds(run(t, {"loss": loss, "lr": lr}), "plateau")


@pytest.mark.parametrize(("classes", "sure"), [(8, True), (7, True), (8.4, False)])
def test_a_loss_that_is_never_better_than_its_first_rows(classes: float, sure: bool) -> None:
    t = np.arange(1, 346)
    rng = np.random.default_rng(3)
    loss = np.log(classes) + rng.normal(0, 0.008, 345)
    made = run(t, {"loss": loss, "lr": 0.02 * 0.5 * (1 + np.cos(np.pi * t / 345))})
    (scanned,) = scan(made, ["plateau"])
    assert [f.confidence >= INCIDENT for f in scanned.findings] == [sure] and scanned.findings[0].confidence >= 0.5


def test_training_that_goes_on_flat_or_settles_soon_is_health() -> None:
    t = np.arange(400)
    for seed in range(20):
        rng = np.random.default_rng(seed)
        trained = 2.0794 + rng.normal(0, 0.03, 400)  # trained weights, a rate of fine-tuning
        assert not told(run(t, {"loss": trained, "lr": np.full(400, 2e-5)}), "plateau")
        settled = 2.0794 + 4.0 * np.exp(-t / 6) + rng.normal(0, 0.03, 400)  # a small problem, solved at once
        assert not [
            f
            for s in scan(run(t, {"loss": settled, "lr": np.full(400, 0.05)}), ["plateau"])
            for f in s.findings
            if f.confidence >= 0.5
        ]
        noisy = rng.chisquare(4, 400) / 4.0  # a regression at its noise floor
        assert not [
            f
            for s in scan(run(t, {"loss": noisy, "lr": np.full(400, 0.05)}), ["plateau"])
            for f in s.findings
            if f.confidence >= 0.5
        ]


def test_attention_logits_that_run_away_under_a_calm_loss_are_sure() -> None:
    t = np.arange(1200)
    loss = falling(1200, 0.03)
    runs_away = 7.0 * np.exp(np.maximum(t - 400, 0) * 0.011)
    levels_off = 7.0 + 60.0 * (1 - np.exp(-t / 500))
    assert "logit-grows" in kinds(run(t, {"loss": loss, "attention_logit_max": runs_away}), "norms")
    assert "logit-grows" not in kinds(run(t, {"loss": loss, "attention_logit_max": levels_off}), "norms")
    assert "output-grows" not in kinds(run(t, {"loss": loss, "logit_norm": runs_away}), "norms")


def test_a_term_that_is_phased_in_lifts_the_loss_by_plan() -> None:
    t = np.arange(1500)
    weight = np.minimum(4.0, t / 200)
    rng = np.random.default_rng(5)
    loss = (18.0 + 34.0 * np.exp(-t / 40) + 2.0 * weight) * np.exp(rng.normal(0, 0.03, 1500))
    assert "climb" in kinds(run(t, {"loss": loss}), "slow_climb")
    assert not kinds(run(t, {"loss": loss, "loss_weight": weight}), "slow_climb")
    assert "climb" in kinds(run(t, {"loss": loss, "loss_weight": np.full(1500, 4.0)}), "slow_climb")


def test_a_burst_of_decades_that_never_falls_below_the_start_is_an_explosion() -> None:
    t = np.arange(200)
    rng = np.random.default_rng(6)
    loss = (1.9 + 1600.0 * np.exp(-t / 12)) * np.exp(rng.normal(0, 0.15, 200))
    loss[0] = 1.4
    assert [f.kind for f in told(run(t, {"loss": loss}), "explosion")] == ["early"]
    learned = loss * np.where(t > 80, 0.3, 1.0)  # comes down below its start: it went on
    assert not told(run(t, {"loss": learned}), "explosion")
    for seed in range(20):  # squared errors of single samples scatter over decades
        noise = np.random.default_rng(seed).chisquare(1, 400)
        assert not told(run(np.arange(400), {"loss": noise}), "explosion")


def test_a_reward_that_rose_to_the_fall_and_fell_at_once() -> None:
    t = np.arange(390)
    reward = np.where(t < 150, 24.0 + 0.44 * t, 9.6 + 80.0 * np.exp(-np.maximum(t - 150, 0) / 6.0))
    reward = reward + np.random.default_rng(7).normal(0, 0.1, 390)
    (fell,) = told(run(t, {"loss": np.abs(reward), "reward": reward}), "policy")
    assert fell.kind == "reward-falls" and abs((fell.step or 0) - 152) <= 6


def test_where_the_steps_are_epochs_few_of_them_are_a_long_time() -> None:
    t = np.arange(1, 31)
    loss = np.where(t < 13, 1.6 * np.exp(-t / 3.0), 1.7 + 0.4 * np.exp(-(t - 13) / 3.0))
    assert "early" in kinds(run(t, {"loss": loss}), "explosion")
    for first in (1, 0):  # the logged epoch may be one behind the count of rows
        (found,) = told(run(t, {"loss": loss, "epoch": t - 1 + first}), "explosion")
        assert (found.kind, found.step) == ("late", 13)
    flat = np.log(128) - 0.03 + np.random.default_rng(8).normal(0, 0.003, 30)
    (scanned,) = scan(run(t, {"loss": flat, "epoch": t}, config={"vocab_size": 128}), ["plateau"])
    assert [f.kind for f in scanned.findings if f.confidence >= INCIDENT] == ["uniform-output"]
    (scanned,) = scan(run(t, {"loss": flat}, config={"vocab_size": 128}), ["plateau"])
    assert not scanned.findings, "thirty updates of a warm-up"


def test_a_regression_with_an_exact_answer_falls_through_the_decades_in_health() -> None:
    t = np.arange(600)
    for seed in range(10):
        loss = 12.0 * np.exp(-t / 14.0 + np.random.default_rng(seed).normal(0, 0.3, 600))
        made = run(t, {"loss": loss, "grad_norm": 7.0 * np.sqrt(loss / 12.0)})
        assert all(
            f.confidence < 0.5 for s in scan(made, ["abnormally_low", "plateau", "loss_zero"]) for f in s.findings
        )
        ended = run(t, {"loss": np.maximum(loss, 3e-31), "grad_norm": np.maximum(np.sqrt(loss), 1e-15)})
        assert all(f.confidence < 0.7 for s in scan(ended, ["abnormally_low", "plateau"]) for f in s.findings)
    leak = np.where(t < 300, 2.0, 0.02) * np.exp(np.random.default_rng(9).normal(0, 0.05, 600))
    assert "too-low" in kinds(run(t, {"loss": leak}), "abnormally_low")


@pytest.mark.parametrize("beside", ["disc", "loss/disc", "D_real", "D(x)", "discriminator/total"])
def test_a_column_beside_the_loss_tells_that_it_is_one_of_two_adversaries(beside: str) -> None:
    t = np.arange(2000)
    loss = (0.9 + 2.0 * (t > 600)) * np.exp(smooth(np.random.default_rng(4), 2000, 0.1, 0.9))
    alone = run(t, {"loss": loss})
    assert told(alone, "spike", "level_shift", "explosion")
    assert not told(replace(alone, unmapped=(beside,)), "spike", "level_shift", "explosion", "slow_climb")
    assert told(replace(alone, unmapped=("discount", "disk", "d_model")), "spike", "level_shift", "explosion")


def test_an_evaluation_that_never_was_better_than_at_first_leaves_the_run_undecided() -> None:
    t = np.arange(1, 26)
    train, held_out = 2.1 - 0.032 * t, 2.1 + 0.026 * t
    for rows, told_ in ((25, True), (8, False)):  # three epochs of fine-tuning end like that in health
        made = run(t[:rows], {"loss": train[:rows], "eval_loss": held_out[:rows]})
        (scanned,) = scan(made, ["eval_gap"])
        assert any(f.kind == "eval-worse" and f.confidence >= 0.5 for f in scanned.findings) is told_
    later = np.where(t < 6, 2.4 - 0.06 * t, 2.06 + 0.03 * (t - 5))
    (scanned,) = scan(run(t, {"loss": train, "eval_loss": later}), ["eval_gap"])
    assert all(f.confidence < 0.5 for f in scanned.findings)


def test_an_evaluation_that_swings_and_comes_back_is_health() -> None:
    t = np.arange(1, 61)
    train = 0.85 * np.exp(-t / 2.5) + 3e-4
    swings = np.where((t >= 9) & (t < 14), 0.18, 0.09 + 0.4 * np.exp(-t / 2.0))
    stays = np.where(t >= 9, 0.18, 0.09 + 0.4 * np.exp(-t / 2.0))
    really = [0.55, 0.30, 0.36, 0.24, 0.39, 0.22, 0.32, 0.37, 0.26, 0.29, 0.28, 0.42, 0.32, 0.31, 0.28]
    noisy = np.array(really + 45 * [0.272])
    for held_out, found in ((swings, False), (stays, True), (noisy, False)):
        (scanned,) = scan(run(t, {"loss": train, "eval_loss": held_out}), ["eval_gap"])
        assert any(f.kind == "eval-jump" and f.confidence >= 0.5 for f in scanned.findings) is found


@pytest.mark.parametrize(("raw", "doubted"), [("loss", True), ("contrastive_loss", False), ("train/mse", False)])
def test_a_loss_near_zero_is_judged_by_its_kind(raw: str, doubted: bool) -> None:
    t = np.arange(1200)
    loss = (0.017 + 8.3 * np.exp(-t / 20.0)) * np.exp(np.random.default_rng(1).normal(0, 0.1, 1200))
    made = run(t, {"loss": loss})
    made = replace(made, series={key: replace(one, raw=raw) for key, one in made.series.items()})
    (scanned,) = scan(made, ["abnormally_low"])
    assert any(f.confidence >= 0.5 for f in scanned.findings) is doubted


@pytest.mark.parametrize(("optimizer", "absurd"), [("AdamW", True), ("DAdaptAdam", False), ("prodigy", False)])
def test_a_rate_of_one_is_usual_where_the_optimizer_finds_it_by_itself(optimizer: str, absurd: bool) -> None:
    t = np.arange(400)
    made = run(t, {"loss": falling(400), "lr": np.ones(400)}, config={"optimizer": optimizer})
    assert ("absurd" in kinds(made, "lr_value")) is absurd


# --- learned by heart -----------------------------------------------------------------------------------------------


def evaluated(train: np.ndarray, evaluation: np.ndarray, seed: int) -> Run:
    rng = np.random.default_rng(seed)
    t = 5 * np.arange(1, len(train) + 1)
    made = run(t, {"loss": train + np.abs(rng.normal(0, 0.004, len(t)))})
    values = (evaluation + rng.normal(0, 0.02, len(t)))[9::10]
    made.series["eval_loss", None] = series("eval_loss", t[9::10], values)
    return made


@pytest.mark.parametrize("seed", range(4))
def test_what_is_learned_by_heart_and_shared_with_no_evaluation_is_not_healthy(seed: int) -> None:
    k = np.arange(300)
    train = 0.02 + 1.5 * np.exp(-k / 8)
    found = look(evaluated(train, 2.3 + k / 600, seed), judge.library().book)
    assert found.verdict == "undecided" and found.symptom is not None
    assert found.symptom.state == "silent-degradation" and "evaluation loss" in found.symptom.because
    # what the evaluation shares, or only keeps, is health
    assert (
        look(evaluated(train, 0.25 + 2.0 * np.exp(-k / 20) + k / 4000, seed), judge.library().book).verdict == "healthy"
    )
    assert look(evaluated(train, 2.3 + 0 * k, seed), judge.library().book).verdict == "healthy"
