"""The contract of every detector, its positive and negative runs, the onset, and real logs where they are at hand."""

from __future__ import annotations

import json
import os
import re
import warnings
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

from playbook import detectors
from playbook.detectors import INCIDENT, LASTING, PASSING, TABLE, onset, scan
from playbook.detectors.stats import diff_sigma
from playbook.findings import Finding, Scan
from playbook.series import Event, Run
from tests import faults, faults_numbers, runs, varied

FOLDER = Path(detectors.__file__).parent
HEADINGS = ("What it sees", "Why it matters", "Blind when", "Easily mistaken for")
# kinds, as the knowledge base names them: a detector that is renamed breaks signals
KINDS = {
    "nonfinite": "nan-from-start nan nan-transient hidden-nan grad-nan-once grad-nan-lasting eval-nan backward-first "
    "infinite-first",
    "spike": "transient persistent repeated growing one-row relaxes step builds-up",
    "periodic": "epoch data-cycle",
    "explosion": "early late",
    "level_shift": "up down",
    "slow_climb": "climb",
    "plateau": "no-descent stuck uniform-output slow",
    "loss_zero": "zero-from-start zero near-zero-from-start no-label",
    "abnormally_low": "too-low",
    "first_loss": "far-above far-below near",
    "policy": "reward-falls kl-explodes entropy-collapses entropy-explodes",
    "grad_norm": "surges climbs normal nonfinite vanishes dead-from-start alive",
    "clipping": "always-active scaled-norm",
    "loss_scale": "collapses falls steady backoffs reset",
    "skipped": "few many endless",
    "lr_phase": "warmup peak decay restart constant",
    "lr_value": "absurd high tiny zero full-at-once ramps ramp-usual ramp-short",
    "schedule": "leaves follows restored not-restored",
    "resume": "jump clean restart-from-init two-writers to-initial repeated-samples update-differs same-batches "
    "other-batches",
    "throughput": "drops steady data-bound data-fast",
    "ranks": "one some all first-bad",
    "slow_rank": "one-slow all-slow",
    "change_point": "resume lr batch-size data unbroken",
    "eval_gap": "eval-worse eval-jump train-only",
    "norms": "weight-grows logit-grows output-grows activation-extreme update-large update-tiny embedding-share "
    "grad-before-loss",
    "moe": "load-collapsed aux-zero",
    "fp8": "amax-stale amax-saturated",
    "gpu": "hot reduced-clock one-idle all-idle all-busy memory-growth ecc-rising xid network-rising",
    "collectives": "mismatch together one-behind some-behind",
    "artifact": "average-lag exact-factor logged-only",
}
# symptoms that are no fault of the training loss itself
OTHER_SYMPTOMS = {
    "throughput": ("drops",),
    "abnormally_low": ("too-low",),
    "eval_gap": ("eval-jump",),
    "plateau": ("slow",),
}
NOTICED = 0.5
SEEDS = range(20)
every = pytest.mark.parametrize("module", TABLE, ids=[m.NAME for m in TABLE])


def alarms(made: Run) -> list[Finding]:
    """The findings that make an incident, or leave its absence undecided: what the engine takes notice of."""
    return [f for s in scan(made) for f in s.findings if f.confidence >= NOTICED and _loss_fault(f)]


def _loss_fault(f: Finding) -> bool:
    if f.kind in OTHER_SYMPTOMS.get(f.detector, ()):
        return True
    return f.kind in LASTING.get(f.detector, ()) or f.kind in PASSING.get(f.detector, ())


def alone(module: ModuleType, made: Run) -> Scan:
    """The answer of one detector, asked without the others."""
    (answer,) = scan(made, only=[module.NAME])
    return answer


def by_name(made: Run) -> dict[str, Scan]:
    return {s.detector: s for s in scan(made)}


# --- contract -------------------------------------------------------------------------------------------------------


def test_the_table_is_the_folder_and_has_the_agreed_names() -> None:
    files = {p.stem for p in FOLDER.glob("*.py")} - {"__init__", "shared", "onset"}
    assert files == {m.NAME for m in TABLE} == set(KINDS)
    assert len({m.NAME for m in TABLE}) == len(TABLE)


@every
def test_the_module_says_what_it_promises(module: ModuleType) -> None:
    text = module.__doc__ or ""
    places = [text.find(f"\n{heading}\n") for heading in HEADINGS]
    assert all(p > 0 for p in places) and places == sorted(places), "four headings, in order"
    for begin, end in zip(places, [*places[1:], len(text)], strict=True):
        assert len(text[begin:end].split()) > 5, "a heading needs a text"
    assert KINDS[module.NAME].split() == list(module.KINDS)
    for kind in module.KINDS:
        assert f"`{kind}`" in text, f"{kind} is not explained"
    assert isinstance(module.NEEDS, tuple) and isinstance(module.OPTIONAL, tuple)


@every
def test_the_source_stays_pure(module: ModuleType) -> None:
    source = Path(str(module.__file__)).read_text()
    assert not re.search(r"\b(open\(|Path\(|import (time|os|random|datetime)\b|np\.random)", source)
    assert len(source.splitlines()) < 400


def _empty() -> Run:
    return Run()


def _one_point() -> Run:
    return runs.run([7], {m: [1.0] for m in METRICS})


def _all_nan() -> Run:
    return runs.run(np.arange(200), {m: np.full(200, np.nan) for m in METRICS})


def _constant() -> Run:
    return runs.run(np.arange(300), {m: np.full(300, 2.0) for m in METRICS})


def _zeros() -> Run:
    return runs.run(np.arange(300), {m: np.zeros(300) for m in METRICS})


def _one_step() -> Run:
    return runs.run(np.full(120, 5), {m: np.linspace(1, 2, 120) for m in METRICS})


def _doubled() -> Run:
    rng = np.random.default_rng(0)
    return runs.run(np.repeat(np.arange(200), 2), {m: np.exp(rng.normal(0, 0.1, 400)) for m in METRICS})


def _huge() -> Run:
    values = np.where(np.arange(300) > 200, 1e300, 1e-300)
    return runs.run(np.arange(300), dict.fromkeys(METRICS, values))


def _mixed_infinities() -> Run:
    rng = np.random.default_rng(1)
    values = rng.normal(0, 1, 300)
    values[rng.integers(0, 300, 60)] = np.nan
    values[rng.integers(0, 300, 20)] = np.inf
    values[rng.integers(0, 300, 20)] = -np.inf
    return runs.run(np.arange(300), dict.fromkeys(METRICS, values))


def _shuffled() -> Run:
    rng = np.random.default_rng(2)
    return runs.run(rng.integers(0, 100, 300), {m: np.exp(rng.normal(0, 0.3, 300)) for m in METRICS})


def _ragged_ranks() -> Run:
    rng = np.random.default_rng(3)
    found = {}
    for metric in METRICS:
        for rank in (0, 3, 900):
            steps = np.unique(rng.integers(0, 200, 80))
            found[metric, rank] = runs.series(metric, steps, np.exp(rng.normal(0, 0.1, len(steps))), rank)
    found["loss", 5] = runs.series("loss", [], [], 5)
    return Run(found)


def _tiny_restarts() -> Run:
    return runs.run([1, 2, 3, 1, 2, 1, 5, 6, 2, 3, 4, 1], {m: np.linspace(3, 2, 12) for m in METRICS})


METRICS = (
    *("loss", "eval_loss", "grad_norm", "lr", "loss_scale", "throughput", "step_time", "param_norm", "update_ratio"),
    *("activation_max", "activation_max/layers.1", "attention_logit_max", "logit_norm", "embedding_grad_norm"),
    *("skipped_iters", "nan_iters", "gpu_util", "gpu_temp", "gpu_clock", "gpu_power", "gpu_mem", "ecc_errors", "xid"),
    *("network_errors", "expert_load_max", "aux_loss", "amax", "batch_size", "epoch", "seq_len", "data_time", "tokens"),
    *("entropy", "reward", "kl"),
)
ODD: dict[str, Callable[[], Run]] = {
    f.__name__: f
    for f in (
        *(_empty, _one_point, _all_nan, _constant, _zeros, _one_step, _doubled, _huge, _mixed_infinities, _shuffled),
        *(_ragged_ranks, _tiny_restarts),
    )
}


@pytest.mark.parametrize("make", ODD.values(), ids=ODD)
def test_odd_runs_are_survived_and_answers_are_well_formed(make: Callable[[], Run]) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        made = make()
        for module in TABLE:
            _well_formed(alone(module, made), module)


def _well_formed(answer: Scan, module: ModuleType) -> None:
    assert answer.detector == module.NAME
    assert (answer.status == "found") == any(f.confidence >= NOTICED for f in answer.findings)
    assert answer.status == "found" or answer.because, "clear and blind say why"
    assert answer.status != "blind" or not answer.findings
    for f in answer.findings:
        assert f.detector == module.NAME and f.kind in module.KINDS
        assert 0.0 < f.confidence <= 1.0 and f.because
        assert all(np.isfinite(v) and type(v) is float for v in f.numbers.values()), f.numbers
        assert f.step is None or type(f.step) is int
        assert f.last_step is None or type(f.last_step) is int
        assert all(type(r) is int for r in f.ranks)
        json.dumps([f.numbers, f.step, f.ranks, f.confidence])


@every
def test_blind_without_what_it_needs(module: ModuleType) -> None:
    assert alone(module, Run()).status == "blind"
    needed = {m for need in module.NEEDS for m in ((need,) if isinstance(need, str) else need)}
    others = {m: np.exp(np.random.default_rng(0).normal(0, 0.1, 300)) for m in METRICS if m.split("/")[0] not in needed}
    assert alone(module, runs.run(np.arange(300), others)).status == "blind"


SAMPLES = [*faults.FAULTS, *faults_numbers.FAULTS]
IDS = [f"{f.detector}-{f.kind}-{k}" for k, f in enumerate(SAMPLES)]


def test_every_kind_has_a_positive_run() -> None:
    assert {(f.detector, f.kind) for f in SAMPLES} == {(n, k) for n, kinds in KINDS.items() for k in kinds.split()}


@pytest.mark.parametrize("fault", SAMPLES, ids=IDS)
def test_the_fault_is_found_where_it_begins(fault: runs.Fault) -> None:
    for seed in (0, 1, 2, 3):
        made, at = fault.make(seed)
        answer = by_name(made)[fault.detector]
        mine = [f for f in answer.findings if f.kind == fault.kind]
        assert mine, f"seed {seed}: {answer}"
        if mine[0].kind in LASTING.get(fault.detector, ()) or mine[0].kind in PASSING.get(fault.detector, ()):
            assert max(f.confidence for f in mine) >= INCIDENT
        if at is not None:
            low, high = made.step_range()
            assert low is not None and high is not None
            assert min(abs((f.step or 0) - at) for f in mine) <= max(0.02 * (high - low), 1), (seed, at, mine)


@pytest.mark.parametrize("fault", SAMPLES, ids=IDS)
def test_same_input_same_answer_whatever_else_is_logged(fault: runs.Fault) -> None:
    made, _ = fault.make(5)
    again, _ = fault.make(5)
    assert scan(made) == scan(again) == scan(faults.unrelated(made))
    assert [s.detector for s in scan(made)] == [m.NAME for m in TABLE]
    assert scan(made, only=[fault.detector]) == [by_name(made)[fault.detector]]


@pytest.mark.parametrize(
    "fault", faults_numbers.NOT, ids=[f"{f.detector}-{f.kind}-{k}" for k, f in enumerate(faults_numbers.NOT)]
)
def test_what_only_looks_like_it_is_left_alone(fault: runs.Fault) -> None:
    for seed in (0, 1, 2, 3):
        made, _ = fault.make(seed)
        told = [f for f in by_name(made)[fault.detector].findings if f.kind == fault.kind and f.confidence >= NOTICED]
        assert not told, (seed, told)


# --- healthy runs ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("family", runs.HEALTHY)
def test_healthy_runs_raise_no_alarm(family: str) -> None:
    for seed in SEEDS:
        made = runs.HEALTHY[family](seed)
        found = alarms(made)
        assert not found, (seed, found)
        assert onset(made) is None


@pytest.mark.parametrize("make", [varied.noisy, varied.structured])
def test_healthy_runs_drawn_at_random_are_quiet(make: Callable[[int], Run]) -> None:
    """Of 300 at most three: pure chance makes a spike now and then."""
    loud = {seed: found for seed in range(300) if (found := alarms(make(seed)))}
    assert len(loud) <= 3, loud


def test_slow_climbs_drawn_at_random_are_found_near_their_turn() -> None:
    """Of those that rise by a fifth and more; the turn of a climb that begins gently cannot be told to the step."""
    missed, errors = 0, []
    for seed in range(120):
        made, at, rise = varied.climbing(seed)
        if rise < 1.2:
            continue
        found = [f for f in by_name(made)["slow_climb"].findings if f.confidence >= INCIDENT]
        missed += not found
        low, high = made.step_range()
        assert low is not None and high is not None
        errors += [abs((f.step or 0) - at) / (high - low) for f in found[:1]]
    assert missed <= 0.05 * (missed + len(errors)), missed
    assert np.median(errors) <= 0.02 and np.quantile(errors, 0.9) <= 0.08, np.quantile(errors, [0.5, 0.9])


def test_a_bump_of_the_first_steps_and_noise_of_a_few_tenths_are_not_even_mentioned() -> None:
    for family in ("warm_up_bump", "plain", "heavy_tails", "small_batches", "near_zero"):
        for seed in SEEDS:
            answers = by_name(runs.HEALTHY[family](seed))
            assert answers["spike"].status == "clear", (family, seed, answers["spike"])
            assert answers["explosion"].status == "clear", (family, seed)


def test_outliers_of_the_gradient_norm_alone_are_no_incident() -> None:
    rng = np.random.default_rng(0)
    grad = np.exp(rng.normal(0, 0.2, 1000))
    grad[[100, 400, 800]] = 300.0
    made = runs.run(np.arange(1000), {"loss": runs.descent(1000) + rng.normal(0, 0.05, 1000), "grad_norm": grad})
    assert not alarms(made) and by_name(made)["grad_norm"].status == "clear"


# --- the onset ------------------------------------------------------------------------------------------------------


def test_the_onset_is_that_of_what_lasts_and_of_its_forerunner() -> None:
    rng = np.random.default_rng(0)
    loss = runs.descent(3000) + rng.normal(0, 0.04, 3000)
    loss[700:706] += 6.0  # recovers: another story
    loss[2400:2406] += 6.0  # the beginning of the end
    loss[2450:] = np.nan
    begin = onset(runs.run(np.arange(3000), {"loss": loss}))
    assert begin is not None and abs(begin.step - 2400) <= 2
    assert begin.finding.detector == "spike"


def test_all_states_are_read_before_the_same_onset() -> None:
    made, at = faults._with(
        "grad_norm",
        lambda r, t, a: np.exp(r.normal(0, 0.1, len(t))) * faults.climbing(r, t, a),
        seed=3,
        loss_scale=faults.scale_collapse,
        lr=lambda r, t, a: runs.cosine(len(t)),
        batch_size=faults.doubled,
    )
    answers = by_name(made)
    begin = onset(made)
    assert begin is not None and at is not None and abs(begin.step - at) <= 2
    assert [f.kind for f in answers["grad_norm"].findings] == ["climbs"]
    assert [f.kind for f in answers["loss_scale"].findings] == ["collapses"]
    assert [f.kind for f in answers["lr_phase"].findings] == ["decay"]
    assert "batch-size" in [f.kind for f in answers["change_point"].findings]
    for name in ("grad_norm", "loss_scale", "change_point"):
        assert all(f.step is not None and f.step <= begin.step for f in answers[name].findings)


def test_the_7b_post_mortem() -> None:
    """D3-case: 1.62 to 8.73 at step 13500, 4 to 6 for some dozen steps, then about 2; norm 2.0 to 4.0 in 200 steps."""
    rng = np.random.default_rng(7)
    t = np.arange(0, 16000, 10)
    loss = 1.6 + 0.5 * np.exp(-t / 4000) + 7 * np.exp(-t / 300) + rng.normal(0, 0.02, len(t))
    at = 1350
    loss[at], loss[at + 1 : at + 5] = 8.73, [5.9, 5.1, 4.6, 4.2]
    loss[at + 5 :] = 2.0 + 1.5 * np.exp(-(t[at + 5 :] - 13550) / 120) + rng.normal(0, 0.02, len(t) - at - 5)
    grad = 2.0 * np.exp(rng.normal(0, 0.05, len(t)))
    grad[at - 20 : at] *= np.linspace(1, 2, 20)
    grad[at] = 23.6
    answers = by_name(runs.run(t, {"loss": loss, "grad_norm": grad, "lr": np.full(len(t), 3e-4)}))
    spike = answers["spike"].findings
    assert [(f.kind, f.step) for f in spike] == [("persistent", 13500)] and spike[0].confidence > 0.8
    assert spike[0].numbers["peak"] == 8.73 and 1.9 < spike[0].numbers["level_after"] < 2.6
    assert [f.kind for f in answers["grad_norm"].findings] == ["climbs"]


def test_a_fault_in_the_first_of_two_runs_is_not_hidden_by_the_second() -> None:
    rng = np.random.default_rng(0)
    at = np.concatenate([np.arange(800), np.arange(800)])
    loss = runs.descent(800)[at] + rng.normal(0, 0.04, 1600)
    loss[600:800] = np.nan
    found = alarms(runs.run(at, {"loss": loss}))
    assert [(f.detector, f.kind, f.step) for f in found] == [("nonfinite", "nan", 600)]


def test_many_spikes_that_recover_are_told_once_and_the_first_is_the_onset() -> None:
    """Like the scale-up run with 69 spikes and a fine end."""
    rng = np.random.default_rng(0)
    n = 7000
    loss = runs.descent(n) + rng.normal(0, 0.03, n)
    places = np.sort(rng.choice(np.arange(300, n - 100, 20), 69, replace=False))
    for p in places:
        loss[p : p + 6] += rng.uniform(2.5, 7) * np.exp(-np.arange(6) / 2)
    answers = by_name(runs.run(np.arange(n), {"loss": loss}))
    many = [f for f in answers["spike"].findings if f.kind == "repeated"]
    assert len(many) == 1 and many[0].step == places[0] and 45 <= many[0].numbers["count"] <= 69
    assert len(answers["spike"].findings) < 30
    assert {s.detector for s in answers.values() if any(_loss_fault(f) for f in s.findings)} == {"spike"}


def test_a_spike_in_the_first_warm_up_is_not_excused_by_the_rising_learning_rate() -> None:
    rng = np.random.default_rng(0)
    loss = runs.descent(2000) + rng.normal(0, 0.04, 2000)
    loss[400:410] *= 4.0
    made = runs.run(np.arange(2000), {"loss": loss, "lr": runs.cosine(2000, warm=900)})
    assert [(f.detector, f.kind, f.step) for f in alarms(made)] == [("spike", "transient", 400)]
    assert [f.kind for f in by_name(made)["lr_phase"].findings] == ["warmup"]


def test_an_event_that_names_the_step_of_a_restart_is_no_second_resume() -> None:
    made, _ = faults._resumed(0)
    event = Event("Resumed at step 1100", "resume", runs.ORIGIN, step=1100)
    told = [f for f in by_name(Run(made.series, (event,)))["resume"].findings if not f.kind.endswith("-batches")]
    assert [(f.kind, f.step) for f in told] == [("clean", 1100)]


def test_an_idle_gpu_is_not_blamed_for_its_low_clock() -> None:
    ranked = {
        "gpu_util": {r: np.full(20, 0.0 if r == 0 else 100.0) for r in range(8)},
        "gpu_clock": {r: np.full(20, 1155.0 if r == 0 else 1410.0) for r in range(8)},
    }
    found = by_name(runs.run(np.arange(20), {}, ranked))["gpu"].findings
    assert [(f.kind, f.rank) for f in found] == [("one-idle", 0)]


def test_clear_may_mention_what_health_explains_better() -> None:
    """A negative loss with single samples far off: mentioned, but clear, so that it counts as absence of a fault."""
    answer = by_name(runs.HEALTHY["separation"](0))["spike"]
    assert answer.status == "clear" and answer.findings and all(f.confidence < NOTICED for f in answer.findings)


def test_findings_know_their_line() -> None:
    made, at = faults.transient(0)
    found = [f for f in by_name(made)["spike"].findings if f.kind == "transient"]
    assert at is not None and found[0].origin is not None
    assert found[0].origin.path == "made.csv" and found[0].origin.line == found[0].step + 2 == at + 2  # type: ignore[operator]


# --- size -----------------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_a_million_steps_of_four_metrics() -> None:
    n = 1_000_000
    rng = np.random.default_rng(0)
    loss = runs.descent(n, fast=20000) + rng.normal(0, 0.05, n)
    loss[600_000:600_020] *= 3.5
    metrics = {"loss": loss, "grad_norm": np.exp(rng.normal(0, 0.2, n)), "lr": runs.cosine(n)}
    made = runs.run(np.arange(n), {**metrics, "loss_scale": np.full(n, 65536.0)})
    answers = by_name(made)
    assert [(f.kind, f.step) for f in answers["spike"].findings] == [("transient", 600_000)]


@pytest.mark.slow
def test_the_noise_of_a_row_is_measured_below_a_trend_and_beside_jumps() -> None:
    values = np.linspace(5, 1, 500) + np.random.default_rng(0).normal(0, 0.1, 500)
    assert diff_sigma(values) == pytest.approx(0.1, rel=0.15)
    values[200:] += 9
    values[300] = 1e6
    assert diff_sigma(values) == pytest.approx(0.1, rel=0.15)
    assert diff_sigma(values[:2]) == 0 and diff_sigma(np.linspace(0, 1, 9)) == pytest.approx(0, abs=1e-12)


def test_a_thousand_ranks() -> None:
    rng = np.random.default_rng(0)
    n, ranks = 2000, 1000
    base = runs.descent(n)
    losses = {r: base + rng.normal(0, 0.1, n) for r in range(ranks)}
    losses[417][1500:] = np.nan
    made = runs.run(np.arange(n), {}, {"loss": losses})
    answers = by_name(made)
    assert [(f.kind, f.rank, f.step) for f in answers["ranks"].findings] == [
        ("one", 417, 1500),
        ("first-bad", 417, 1500),
    ]


# --- real logs ------------------------------------------------------------------------------------------------------

REAL = Path(os.environ.get("PLAYBOOK_REAL", FOLDER.parent.parent.parent / "shared" / "real"))
TRUTH = json.loads((REAL / "truth.json").read_text()) if (REAL / "truth.json").is_file() else []
# What the loss of the broken ones must show: detector and kind, step. The others are broken outside their metrics.
BROKEN = {
    "hf-qlora-diverged": ("explosion", "early", 2),
    "nanogpt-seedpair-b": ("spike", "transient", 919),
    "wordlm-nan-from-start": ("nonfinite", "nan-from-start", None),
    "olmo-20m-dead-gradient": ("plateau", "no-descent", 10),
}


@pytest.mark.skipif(not TRUTH, reason="no real logs at hand (PLAYBOOK_REAL)")
@pytest.mark.parametrize("item", TRUTH, ids=[t["name"] for t in TRUTH])
def test_real_logs(item: dict) -> None:  # type: ignore[type-arg]
    from playbook.errors import PlaybookError
    from playbook.readers import read

    name = item["name"]
    try:
        made = read(str(REAL / name))
    except PlaybookError:
        assert name not in BROKEN
        return
    found = alarms(made)
    if item["truth"]["healthy"]:
        assert not found, found
    if name in BROKEN:
        detector, kind, step = BROKEN[name]
        mine = [f for f in found if (f.detector, f.kind) == (detector, kind)]
        assert mine and (step is None or mine[0].step == step), found
