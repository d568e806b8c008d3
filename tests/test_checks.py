"""verify-resume, compare and preflight on runs whose fault is known because the test put it there."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from playbook.errors import PlaybookError
from playbook.series import Origin, Run, Series
from playbook.workflow.comparison.compare import compare
from playbook.workflow.comparison.settings import config_differences
from playbook.workflow.comparison.verify_resume import suspects, verdict, verify
from playbook.workflow.preflight import preflight

STEPS = np.arange(0, 2000)


def curve(seed: int = 1, shuffle: int = 7) -> dict[str, np.ndarray]:
    """A healthy run of 2000 steps: the data noise depends on `shuffle`, the optimizer noise on `seed`."""
    data = np.random.default_rng(shuffle).normal(0, 0.03, len(STEPS))
    own = np.random.default_rng(seed).normal(0, 0.002, len(STEPS))
    loss = 2 + 6 * np.exp(-STEPS / 300) + data + own
    lr = 3e-4 * 0.5 * (1 + np.cos(np.pi * STEPS / 4000))
    norm = 1 + 0.1 * np.random.default_rng(seed + 100).normal(size=len(STEPS))
    return {
        "loss": loss,
        "lr": lr,
        "grad_norm": norm,
        "loss_scale": np.full(len(STEPS), 4096.0),
        "throughput": 1e5 + data,
    }


def run(metrics: dict[str, np.ndarray], steps: np.ndarray, config: dict[str, Any] | None = None) -> Run:
    series = {
        (name, None): Series(name, None, steps, values, None, Origin("made.csv")) for name, values in metrics.items()
    }
    return Run(series, config=config or {})


def cut(metrics: dict[str, np.ndarray], start: int, stop: int) -> tuple[dict[str, np.ndarray], np.ndarray]:
    return {name: values[start:stop].copy() for name, values in metrics.items()}, STEPS[start:stop].copy()


def before() -> Run:
    return run(*cut(curve(), 0, 1000))


def after(**changes: np.ndarray) -> Run:
    metrics, steps = cut(curve(seed=2), 1000, 1400)
    return run({**metrics, **changes}, steps)


def failed(a: Run, b: Run) -> dict[str, str]:
    return {c.name: c.because for c in verify(a, b) if c.status == "failed"}


def test_a_good_resume_passes() -> None:
    assert failed(before(), after()) == {}


@pytest.mark.parametrize("seed", range(20))
def test_a_good_resume_passes_whatever_the_noise(seed: int) -> None:
    metrics = curve(seed, shuffle=seed + 50)
    assert failed(run(*cut(metrics, 0, 900)), run(*cut(metrics, 900, 1200))) == {}


def test_a_good_resume_from_an_older_checkpoint_passes() -> None:
    metrics = curve(seed=2)
    assert failed(before(), run(*cut(metrics, 900, 1300))) == {}


def test_lost_moments_show_after_a_right_first_loss() -> None:
    bump = np.concatenate([np.zeros(4), 0.8 * np.exp(-np.arange(396) / 40)])
    checks = verify(before(), after(loss=cut(curve(2), 1000, 1400)[0]["loss"] + bump))
    assert [c.name for c in checks if c.status == "failed"] == ["loss"]
    assert suspects(checks)[0] == "optimizer-state-lost"


def test_fresh_weights_are_told_from_lost_moments() -> None:
    found = verify(before(), after(loss=2 + 6 * np.exp(-np.arange(400) / 300) + 0.01))
    assert suspects(found)[0] == "wrong-weights-loaded"


def test_schedule_that_starts_over() -> None:
    checks = verify(before(), after(lr=np.linspace(0, 3e-4, 400)))
    assert {c.name for c in checks if c.status == "failed"} == {"learning rate"}
    assert suspects(checks)[0] == "schedule-not-restored"


def test_scaler_that_starts_over() -> None:
    checks = verify(before(), after(loss_scale=np.full(400, 65536.0)))
    assert suspects(checks) == ["scaler-not-restored"]


def test_step_counter_that_starts_over() -> None:
    metrics, _ = cut(curve(2), 1000, 1400)
    checks = verify(before(), run(metrics, np.arange(400)))
    assert "steps" in {c.name for c in checks if c.status == "failed"}
    assert "step-counter-reset" in suspects(checks)[:2]


def test_samples_that_are_seen_again_are_recognised_by_their_noise() -> None:
    """The data order starts over: the loss noise of steps 1000... is that of steps 0..., at today's level."""
    data = np.random.default_rng(7).normal(0, 0.03, len(STEPS))
    metrics, steps = cut(curve(2), 1000, 1400)
    level = 2 + 6 * np.exp(-steps / 300)
    checks = verify(before(), run({**metrics, "loss": level + data[:400]}, steps))
    assert {c.name for c in checks if c.status == "failed"} == {"data"}
    assert suspects(checks)[0] == "sampler-not-restored"


def test_another_order_on_repeated_steps() -> None:
    metrics = curve(seed=2, shuffle=99)
    assert "data" in failed(before(), run(*cut(metrics, 900, 1300)))


def test_a_loss_that_is_only_counted_otherwise() -> None:
    checks = verify(before(), after(loss=4 * cut(curve(2), 1000, 1400)[0]["loss"]))
    assert suspects(checks)[0] == "loss-logged-wrongly"


def test_another_world_size_is_told_and_no_fault_by_itself() -> None:
    a = run(*cut(curve(), 0, 1000), config={"world_size": 64})
    b = run(*cut(curve(2), 1000, 1400), config={"world_size": 32})
    found = verify(a, b)
    assert [(c.name, c.status) for c in found if c.name == "world size"] == [("world size", "changed")]
    assert verdict(found) == "continues"


def test_another_world_size_that_takes_the_batch_along_is_a_fault_where_the_rate_stays() -> None:
    config = {"micro_batch_size": 4, "learning_rate": 3e-4}
    a = run(*cut(curve(), 0, 1000), config={**config, "world_size": 64})
    b = run(*cut(curve(2), 1000, 1400), config={**config, "world_size": 32})
    found = verify(a, b)
    assert verdict(found) == "broken" and suspects(found)[0] == "gpu-count-changed"
    kept = verify(a, run(*cut(curve(2), 1000, 1400), config={**config, "world_size": 32, "micro_batch_size": 8}))
    assert verdict(kept) == "continues"


def test_verify_needs_a_loss() -> None:
    with pytest.raises(PlaybookError, match="BEFORE: has no loss"):
        verify(run({"lr": STEPS.astype(float)}, STEPS), before())


def test_two_seeds_do_not_depart() -> None:
    found = compare(run(curve(1, 7), STEPS), run(curve(2, 8), STEPS))
    assert found.first is None and not found.same_seed


def test_same_seed_departs_at_the_first_unequal_step() -> None:
    other = curve()
    other["loss"] = other["loss"].copy()
    other["loss"][1200:] += 0.02
    found = compare(run(curve(), STEPS), run(other, STEPS))
    assert found.same_seed and found.first is not None
    assert (found.first.metric, found.first.step) == ("loss", 1200)


def test_other_seed_departs_beyond_the_noise() -> None:
    other = curve(3, 9)
    other["loss"] = other["loss"].copy()
    other["loss"][1500:] += 1.0
    found = compare(run(curve(), STEPS), run(other, STEPS))
    assert found.first is not None and found.first.step == 1500


def test_the_metric_nearest_to_the_cause_comes_first() -> None:
    other = curve()
    for name in ("lr", "loss"):
        other[name] = other[name].copy()
        other[name][800:] *= 1.5
    found = compare(run(curve(), STEPS), run(other, STEPS))
    assert found.first is not None and found.first.metric == "lr"


def test_compare_needs_common_steps() -> None:
    with pytest.raises(PlaybookError, match=r"share no metric at any step.*0 to 1999.*10000.*verify-resume"):
        compare(run(curve(), STEPS), run(curve(), STEPS + 10_000))
    with pytest.raises(PlaybookError, match=r"share no metric .*--map"):
        compare(run({"loss": STEPS + 1.0}, STEPS), run({"lr": STEPS + 1.0}, STEPS))


def test_settings_are_ranked_by_relevance() -> None:
    found = config_differences(
        {"bf16": True, "output_dir": "a", "model": {"layers": 12}, "lr": 1e-4, "same": "1.0"},
        {"bf16": False, "output_dir": "b", "model": {"layers": 24}, "lr": 2e-4, "same": 1},
    )
    assert [d.key for d in found] == ["bf16", "lr", "model.layers", "output_dir"]


def test_preflight_needs_settings(tiny: Any) -> None:
    with pytest.raises(PlaybookError, match="holds no settings"):
        preflight(before(), tiny)


def test_the_speed_of_a_machine_is_never_the_same_twice() -> None:
    """Speed is no function of the seed: its noise is none of the run's departures, a slower machine is one."""
    metrics, steps = cut(curve(), 0, 1000)
    speed = np.random.default_rng(5).normal(40_000, 200, (2, 1000))
    speed[1, :3] = speed[0, :3]  # equal by chance for some rows
    quick = run({**metrics, "throughput": speed[0]}, steps)
    alike = compare(quick, run({**metrics, "throughput": speed[1]}, steps))
    assert alike.first is None and alike.same_seed
    slow = compare(quick, run({**metrics, "throughput": np.where(steps < 500, speed[1], 0.8 * speed[1])}, steps))
    assert slow.first is not None and slow.first.metric == "throughput" and slow.first.step == 500


def test_what_lacks_a_loss_is_named_by_its_file() -> None:
    from playbook.series import FileReport

    dark = Run({}, files=(FileReport("logs/dmesg.txt", "kernel_log", 3, ()),))
    with pytest.raises(PlaybookError, match=r"logs/dmesg\.txt.*loss"):
        verify(dark, after())


def test_two_seeds_that_begin_alike_or_learn_at_another_pace_do_not_depart() -> None:
    """The first losses of two seeds are ln(classes) alike, and one of them learns a tenth earlier."""
    for seed in range(6):
        one, two = curve(seed, seed), curve(seed + 50, seed + 50)
        two["loss"] = two["loss"] + 6 * (np.exp(-STEPS / 270) - np.exp(-STEPS / 300))
        one["loss"][:1] = two["loss"][:1] = 8.0
        for every in (1, 10):
            a, b = ({n: v[::k] for n, v in m.items()} for m, k in ((one, every), (two, 1)))
            found = compare(run(a, STEPS[::every]), run(b, STEPS))
            assert found.first is None and not found.same_seed, found.first


def test_equal_runs_that_drift_apart_by_rounding_do_not_depart() -> None:
    metrics, other = curve(), curve()
    drift = np.minimum(1e-7 * np.exp(STEPS / 60), 3e-3) * np.random.default_rng(4).normal(size=len(STEPS))
    other["loss"] = metrics["loss"] * (1 + drift)
    found = compare(run(metrics, STEPS), run(other, STEPS))
    assert found.same_seed and found.first is None
    assert found.departures[0].equal_until is not None and "rounding" in found.departures[0].because


def test_what_is_no_number_any_more_departs() -> None:
    other = curve(5, 6)
    other["loss"] = np.where(STEPS >= 700, np.nan, other["loss"])
    found = compare(run(curve(), STEPS), run(other, STEPS))
    assert found.first is not None and (found.first.metric, found.first.step) == ("loss", 700)


def test_runs_that_log_at_other_steps_are_compared_all_the_same() -> None:
    a, b = ({n: v[k::10] for n, v in curve(s, s).items()} for s, k in ((1, 0), (2, 3)))
    assert compare(run(a, STEPS[0::10]), run(b, STEPS[3::10])).first is None
    b["loss"] = np.where(STEPS[3::10] > 1200, 2 * b["loss"], b["loss"])
    first = compare(run(a, STEPS[0::10]), run(b, STEPS[3::10])).first
    assert first is not None and abs((first.step or 0) - 1203) <= 60


def test_the_rank_that_departs_is_named() -> None:
    def ranked(bad: int | None) -> Run:
        series = {}
        for rank in range(4):
            loss = curve(shuffle=rank)["loss"].copy()
            if rank == bad:
                loss[900:] += 1
            series["loss", rank] = Series("loss", rank, STEPS, loss, None, Origin("made.csv"))
        return Run(series)

    assert compare(ranked(None), ranked(None)).first is None
    first = compare(ranked(None), ranked(2)).first
    assert first is not None and (first.rank, first.step) == (2, 900)


def test_a_setting_is_known_by_its_words_not_by_its_letters() -> None:
    a = {"sampler_seed": 1, "allreduce_bucket": 1, "timesteps": 1, "optimizer": {"lr": 1}, "run_name": "x", "bf16": 1}
    found = config_differences(a, {key: 2 if key != "optimizer" else {"lr": 2} for key in a})
    assert [(d.key, d.area) for d in found][:3] == [
        ("bf16", "precision"),
        ("optimizer.lr", "learning rate"),
        ("sampler_seed", "data"),
    ]
    assert {d.area for d in found[3:]} == {"other"}
    assert config_differences(a, {**a, "bf16": 2, "optimizer": {"lr": 2}}, "learning rate")[0].key == "optimizer.lr"


def test_a_hole_that_the_reference_has_as_well_is_no_departure() -> None:
    metrics = curve()
    metrics["loss"][500] = np.nan
    metrics["grad_norm"][[20, 1990]] = np.inf
    assert compare(run(metrics, STEPS), run(metrics, STEPS)).first is None
    ended = curve()
    ended["loss"][1200:] = np.nan
    later = curve()
    later["loss"][1500:] = np.nan
    assert compare(run(ended, STEPS), run(later, STEPS)).first is None, "the reference was lost before"


def test_one_loss_that_is_no_number_is_not_told_as_the_end() -> None:
    other = curve()
    other["loss"][500] = np.nan
    first = compare(run(curve(), STEPS), run(other, STEPS)).first
    assert first is not None and first.step == 500
    assert "from step" not in first.because and "nan at step 500" in first.because


def test_the_rank_that_departs_is_found_among_many() -> None:
    def ranked(bad: int | None) -> Run:
        loss = curve()["loss"][:100]
        values = {rank: loss + (rank == bad) * (np.arange(100) >= 60) for rank in range(100)}
        return Run({("loss", r): Series("loss", r, STEPS[:100], v, None, Origin("m.csv")) for r, v in values.items()})

    first = compare(ranked(None), ranked(80)).first
    assert first is not None and (first.rank, first.step) == (80, 60)
    assert "1 of 100 ranks" in first.because


@pytest.mark.parametrize(("bad", "said"), [([0], "at step 1000"), ([0, 1], "at step 1000"), ([0, 300], "at step 1000")])
def test_a_first_loss_that_is_no_number_speaks_of_what_was_loaded(bad: list[int], said: str) -> None:
    """It is computed before any update; that it mends itself is no reason to say that it lasts."""
    loss = cut(curve(2), 1000, 1400)[0]["loss"]
    loss[bad] = np.nan
    check = next(c for c in verify(before(), after(loss=loss)) if c.name == "loss")
    assert check.status == "failed" and check.causes[0] == "checkpoint-corrupt"
    assert said in check.because and "from step" not in check.because


@pytest.mark.parametrize(
    ("one", "other", "differs"),
    [("1e-4", 0.0001, False), (True, "true", False), (" Adam", "adam", False), (None, "none", False), (1, "1.5", True),
     ("a", "b", True), (0, None, True), ([1], [1], False), ([1], [2], True), ([1], 1.0, False),
     (True, 1, False), (float("nan"), "NaN", False), ("inf", float("inf"), False), (1, True, False), (2, True, True)],
)  # fmt: skip
def test_values_are_compared_by_what_they_mean(one: Any, other: Any, differs: bool) -> None:
    assert bool(config_differences({"x": one, "y": 1}, {"x": other, "y": 1})) == differs


@pytest.mark.parametrize(
    ("key", "area"),
    [
        ("model.name", "model"), ("model_path", "model"), ("n_layers", "model"), ("n_things", "other"),
        ("dataset.path", "data"), ("data.path", "data"), ("block_size", "data"), ("size_block", "other"),
        ("lr_decay_style", "learning rate"), ("max_lr", "learning rate"), ("warmup_ratio", "learning rate"),
        ("decay_steps", "learning rate"), ("weight_decay", "optimizer"), ("eps", "optimizer"), ("steps", "other"),
        ("gradient_clipping", "optimizer"), ("gradient_accumulation_steps", "batch"), ("grad_accum_steps", "batch"),
        ("deepspeed_config", "parallelism"),
        ("run_name", "other"), ("output_dir", "other"), ("wandb.project", "other"), ("save_steps", "other"),
    ],
)  # fmt: skip
def test_the_area_of_a_setting(key: str, area: str) -> None:
    (found,) = config_differences({key: 1, "y": 1}, {key: 2, "y": 1})
    assert found.area == area


def test_a_value_that_changed_comes_before_one_that_only_one_side_has() -> None:
    found = config_differences({"adam_beta1": 1, "beta2": 0.9}, {"beta2": 0.95, "eps": 1e-8})
    assert [d.key for d in found] == ["beta2", "adam_beta1", "eps"]
    assert config_differences({}, {"lr": 1}) == [], "a run without a configuration differs in nothing that is known"


def test_a_single_gradient_that_overflows_is_the_business_of_the_loss_scaler() -> None:
    other = curve()
    other["grad_norm"][[300, 301, 900]] = np.inf
    found = compare(run(curve(), STEPS), run(other, STEPS))
    assert found.first is None
    other["grad_norm"][1500:] = np.nan
    first = compare(run(curve(), STEPS), run(other, STEPS)).first
    assert first is not None and (first.metric, first.step) == ("grad_norm", 1500)
    assert "from step 1500 on" in first.because


def test_a_schedule_is_the_same_whatever_the_seed_and_the_interval() -> None:
    other = curve(3, 9)
    seldom = {name: values[::7] for name, values in other.items()}
    found = compare(run(curve(), STEPS), run(seldom, STEPS[::7]))
    lr = next(d for d in found.departures if d.metric == "lr")
    assert lr.step is None and lr.because.startswith("the same schedule")
    seldom["lr"] = np.where(STEPS[::7] >= 1400, 0.9, 1.0) * seldom["lr"]
    first = compare(run(curve(), STEPS), run(seldom, STEPS[::7])).first
    assert first is not None and (first.metric, first.step, first.equal_until) == ("lr", 1400, 1393)


def test_of_what_departs_together_the_nearest_to_the_cause_is_told() -> None:
    """Two seeds are compared in stretches of steps: what lies within two of them is not told apart in time."""
    other = curve(3, 9)
    other["loss"][1490:] += 1.0
    other["loss_scale"][1500:] = 64
    first = compare(run(curve(), STEPS), run(other, STEPS)).first
    assert first is not None and first.metric == "loss_scale" and abs((first.step or 0) - 1500) <= 20
    other["loss_scale"][:] = 4096
    other["grad_norm"][1800:] *= 10
    first = compare(run(curve(), STEPS), run(other, STEPS)).first
    assert first is not None and (first.metric, first.step) == ("loss", 1490)


@pytest.mark.parametrize("rows", [3, 6, 40])
def test_short_runs_of_one_seed_are_compared_row_by_row(rows: int) -> None:
    metrics = {name: values[:rows] for name, values in curve().items()}
    assert compare(run(metrics, STEPS[:rows]), run(metrics, STEPS[:rows])).first is None
    other = {**metrics, "loss": metrics["loss"] * np.where(np.arange(rows) >= rows - 1, 1.5, 1.0)}
    first = compare(run(metrics, STEPS[:rows]), run(other, STEPS[:rows])).first
    assert first is not None and (first.step, first.equal_until) == (rows - 1, rows - 2)


def test_a_growing_difference_of_one_seed_is_told_where_it_is_more_than_rounding() -> None:
    metrics, other = curve(), curve()
    other["loss"] = metrics["loss"] * (1 + np.clip((STEPS - 600) / 4000, 0, 0.2))
    found = compare(run(metrics, STEPS), run(other, STEPS))
    assert found.first is not None and found.first.step is not None and 605 <= found.first.step <= 760
    assert found.first.equal_until is not None and 600 <= found.first.equal_until <= 605
