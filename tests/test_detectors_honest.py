"""What a log cannot show is not claimed, what contradicts itself is not said, and first aid fits what was seen."""

from __future__ import annotations

import warnings
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from playbook import readers
from playbook.detectors import scan
from playbook.findings import Evidence, Finding
from playbook.series import Run
from playbook.workflow.ingest import look
from playbook.workflow.session import Session
from tests import runs
from tests.lab import judge

BOOK = judge.library().book
N = 1200


def states(made: Run) -> dict[str, Evidence]:
    return {e.signal: e for e in look(made, BOOK).evidence}


def found(made: Run, detector: str) -> dict[str, Finding]:
    (answer,) = scan(made, [detector])
    return {f.kind: f for f in answer.findings}


def first_aid(made: Run) -> tuple[str, ...]:
    session = Session(BOOK, judge.library().tables)
    session.observe(look(made, BOOK).evidence)
    return session.diagnosis(explained=False).first_aid


def ranked(fault: str, ranks: int = 8, seed: int = 0) -> Run:
    rng = np.random.default_rng(seed)
    base = runs.descent(N)
    losses = {r: base + rng.normal(0, 0.04, N) for r in range(ranks)}
    if fault == "apart":
        losses[5][700:] *= 1.8
    elif fault == "nan":
        losses[5][700:] = np.nan
    elif fault == "jump-of-all":
        for values in losses.values():
            values[700:] += 4.0
    return runs.run(np.arange(N), {}, {"loss": losses})


# --- one bad rank ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("fault", ["apart", "nan"])
def test_one_bad_rank_is_isolated_first(fault: str) -> None:
    made = ranked(fault)
    seen = states(made)
    assert seen["ranks-affected"].state == "one" and seen["ranks-affected"].rank == 5
    assert seen["loss-looks-normal"].state == "no"
    aid = first_aid(made)
    assert aid[0] == "isolate-the-node"
    assert not {"wait-two-hundred-steps-then-decide", "trial-at-a-third-of-the-rate", "roll-back-with-lower-rate"} & {
        *aid
    }


def test_a_jump_of_all_ranks_isolates_nobody() -> None:
    made = ranked("jump-of-all")
    assert states(made)["ranks-affected"].state == "all"
    assert "isolate-the-node" not in first_aid(made)


# --- a plain file without restarts ----------------------------------------------------------------------------------


def spiked(lr: np.ndarray | None = None, at: int = 700) -> Run:
    rng = np.random.default_rng(3)
    loss = runs.descent(N) + rng.normal(0, 0.04, N)
    loss[at:] += 4.0
    metrics = {"loss": loss, "grad_norm": np.exp(rng.normal(0, 0.2, N))}
    return runs.run(np.arange(N), metrics if lr is None else metrics | {"lr": lr})


def test_a_file_without_restarts_hardly_clears_a_resume() -> None:
    """The whole run from its first step on in one piece is a weak sign, a part of it is none."""
    whole = states(spiked())["begins-at-resume"]
    assert whole.state == "no" and whole.confidence <= 0.6
    made = spiked()
    later = Run({k: runs.series(k[0], s.steps + 40_000, s.values) for k, s in made.series.items()})
    assert "begins-at-resume" not in states(later)
    jump = np.full(N, 1e-4)
    jump[690:] = 1e-3
    seen = states(spiked(jump))
    assert seen["change-point"].state == "lr" and seen["begins-at-resume"].confidence <= 0.6


# --- the learning rate before the onset -----------------------------------------------------------------------------


@pytest.mark.parametrize("warm", [2, 5, 20, 60, 400])
@pytest.mark.parametrize("every", [1, 10])
def test_a_row_of_a_warm_up_is_no_change_point(warm: int, every: int) -> None:
    for at in (8, 12, 30):
        made = spiked(runs.cosine(N, 3e-4, warm), at)
        kept = {key: runs.series(key[0], s.steps[::every], s.values[::every]) for key, s in made.series.items()}
        assert "lr" not in found(Run(kept), "change_point"), at


def test_the_tail_of_a_decay_is_no_change_point() -> None:
    for rate in (np.linspace(3e-4, 0, N), 3e-4 * 0.5 * (1 + np.cos(np.pi * np.arange(N) / (N - 1)))):
        for at in (N - 30, N - 12):
            assert "lr" not in found(spiked(rate, at), "change_point")


@pytest.mark.parametrize("ratio", [0.1, 2.0, 10.0])
def test_a_leap_of_the_rate_is_a_change_point(ratio: float) -> None:
    for base in (np.full(N, 3e-4), runs.cosine(N, 3e-4, 100)):
        rate = base.copy()
        rate[680:] *= ratio
        assert found(spiked(rate), "change_point")["lr"].step == 680
    inside = runs.cosine(N, 3e-4, 400)  # in the middle of a warm-up
    inside[200:] *= 5.0
    assert found(spiked(inside, 210), "change_point")["lr"].step == 200


# --- evaluation -----------------------------------------------------------------------------------------------------


def overfitted(last: float) -> Run:
    """The evaluation has its minimum of 1.1 at a third of the run."""
    rng = np.random.default_rng(1)
    t = np.arange(N)
    made = runs.run(t, {"loss": 2.5 * np.exp(-t / 300) + 0.3 + np.abs(rng.normal(0, 0.01, N))})
    every = np.arange(49, N, 50)
    values = np.interp(every, [0, N // 3, N], [2.4, 1.1, last]) + rng.normal(0, 0.004, len(every))
    made.series["eval_loss", None] = runs.series("eval_loss", every, values)
    return made


def test_verdict_and_evaluation_say_the_same() -> None:
    """Better or level: healthy. A little worse: healthy, and nobody says that it follows. Much worse: not decided."""
    for last, verdict, state in ((0.9, "healthy", "follows"), (1.3, "healthy", None), (2.2, "undecided", "eval-worse")):
        made = look(overfitted(last), BOOK)
        seen = {e.signal: e.state for e in made.evidence}
        assert (made.verdict, seen.get("eval-vs-train")) == (verdict, state), last
    assert seen["loss-shape"] == "silent-degradation"


# --- names of vocabularies ------------------------------------------------------------------------------------------


def standing(level: float, config: dict[str, int] | None = None) -> Run:
    rng = np.random.default_rng(2)
    return runs.run(np.arange(300) * 10, {"loss": level + rng.normal(0, 0.004, 300)}, config=config)


def test_one_vocabulary_is_named_only_where_it_is_known() -> None:
    for vocabulary in (50257, 50304, 50432):
        known, guessed = (standing(np.log(vocabulary), c) for c in ({"vocab_size": vocabulary}, None))
        for detector in ("plateau", "first_loss"):
            assert all(f"ln({vocabulary})" in f.because for f in found(known, detector).values())
            told = found(guessed, detector)
            assert told and all("usual vocabularies (V = " in f.because for f in told.values()), told
            assert not any("ln(5" in f.because for f in told.values())
    (binary,) = found(standing(np.log(2)), "plateau").values()
    assert "ln(2)" in binary.because


def test_what_stands_from_the_first_row_on_begins_there() -> None:
    """Also where the last rows happen to be alike to the third digit."""
    rng = np.random.default_rng(2)
    loss = np.log(50304) + rng.normal(0, 0.006, 300)
    loss[-7:] = np.log(50304) + 3e-4
    (stands,) = found(
        runs.run(np.arange(300) * 10, {"loss": loss, "grad_norm": np.full(300, 1e-12)}), "plateau"
    ).values()
    assert (stands.kind, stands.step) == ("uniform-output", 0)


# --- kinds of losses ------------------------------------------------------------------------------------------------


def named(raw: str, metrics: dict[str, np.ndarray]) -> Run:
    """A run whose loss was logged under a name of its own."""
    made = runs.run(np.arange(len(metrics["loss"])), metrics)
    made.series["loss", None] = replace(made.series["loss", None], raw=raw)
    return made


def test_the_loss_of_an_adversary_swings() -> None:
    for seed in range(8):
        rng = np.random.default_rng(seed)
        loss = np.abs(2.5 + runs.smooth(rng, N, 1.0, 0.97) + rng.normal(0, 0.3, N))
        for raw in ("g_loss", "train/loss_D", "G_GAN", "Loss_G", "generator_loss"):
            assert look(named(raw, {"loss": loss}), BOOK).verdict == "healthy", (seed, raw)
    broken = np.full(N, 2.0)
    broken[800:] = np.nan
    assert look(named("g_loss", {"loss": broken}), BOOK).verdict == "incident"


def test_a_kl_alone_does_not_hide_a_jump() -> None:
    """An autoencoder logs its KL, too; only a policy makes the loss say nothing."""
    rng = np.random.default_rng(0)
    t = np.arange(N)
    loss = 90 + 300 * np.exp(-t / 30) + rng.normal(0, 1, N)
    kl = 20 * (1 - np.exp(-t / 60))
    assert look(named("loss", {"loss": loss, "kl": kl}), BOOK).verdict == "healthy"
    annealed = loss + 14 * np.clip(t / 400, 0, 1)  # the weight of the term grows: so does the loss
    assert look(named("loss", {"loss": annealed, "kl": kl}), BOOK).verdict == "healthy"
    loss[700:] *= 4
    jumped = look(named("loss", {"loss": loss, "kl": kl}), BOOK)
    assert jumped.verdict == "incident" and jumped.symptom is not None and jumped.symptom.step == 700


def test_a_modest_climb_that_has_ended_is_no_incident() -> None:
    """A term is phased in and the KL was not logged: nobody can tell, so nobody is woken. One that goes on is told."""
    rng = np.random.default_rng(0)
    t = np.arange(600)
    loss = 180 * np.exp(-t / 25) + 80 + rng.normal(0, 1, 600)
    ended = look(runs.run(t, {"loss": loss + 22 * np.clip(t / 200, 0, 1) * (1 - np.exp(-t / 100))}), BOOK)
    assert ended.verdict == "undecided"
    goes_on = look(runs.run(t, {"loss": loss + 22 * np.clip((t - 150) / 450, 0, 1)}), BOOK)
    assert goes_on.verdict == "incident" and goes_on.symptom is not None and goes_on.symptom.state == "slow-climb"


def test_a_squared_error_may_start_anywhere_and_end_at_nothing() -> None:
    rng = np.random.default_rng(0)
    loss = 10 ** (1 - 6 * (1 - np.exp(-np.arange(N) / 400))) * np.exp(rng.normal(0, 0.2, N))
    assert look(runs.run(np.arange(N), {"loss": loss}), BOOK).verdict == "healthy"


def test_a_late_fall_of_the_evaluation_leaves_noise_near_nothing() -> None:
    """Grokking: the evaluation falls to a hundredth and scatters there by multiples."""
    rng = np.random.default_rng(0)
    t = np.arange(400)
    made = runs.run(t, {"loss": 4.6 * np.exp(-t / 30) + 0.002})
    late = 4.6 * np.exp(-np.maximum(t - 260, 0) / 15) + 0.01
    made.series["eval_loss", None] = runs.series("eval_loss", t, np.abs(late + rng.normal(0, 0.02, 400)))
    assert look(made, BOOK).verdict == "healthy"


def test_a_running_mean_begins_anew_with_each_epoch() -> None:
    for seed in range(8):
        rng = np.random.default_rng(seed)
        t = np.arange(1000)
        raw = 0.4 + 2 * np.exp(-t / 200) + rng.normal(0, 0.15, 1000)
        loss = np.concatenate([np.cumsum(raw[e : e + 100]) / np.arange(1, 101) for e in range(0, 1000, 100)])
        assert look(runs.run(t, {"loss": loss, "epoch": t // 100}), BOOK).verdict == "healthy", seed


def test_even_spikes_begin_with_the_first_of_them() -> None:
    """The first one stands in the steep descent, where no level is known yet; the period tells its place."""
    rng = np.random.default_rng(4)
    loss = runs.descent(600, fast=24.0) + rng.normal(0, 0.04, 600)
    loss[60::50] += 4
    shape = states(runs.run(np.arange(600), {"loss": loss}))["loss-shape"]
    assert (shape.state, shape.step) == ("transient-spike", 60)
    loss = runs.descent(600, fast=24.0) + rng.normal(0, 0.04, 600)
    loss[210::50] += 4
    assert states(runs.run(np.arange(600), {"loss": loss}))["loss-shape"].step == 210


def test_the_last_of_several_spikes_is_like_the_ones_before() -> None:
    rng = np.random.default_rng(0)
    loss = 2.0 * np.exp(rng.normal(0, 0.02, N))
    for at in (300, 500, 800, N - 8):
        loss[at : at + 20] += 8.0 * np.exp(-np.arange(len(loss[at : at + 20])) / 6)
    (answer,) = scan(runs.run(np.arange(N), {"loss": loss}), ["spike"])
    assert {f.kind for f in answer.findings if f.step == N - 8} == {"transient"}
    alone = 2.0 * np.exp(rng.normal(0, 0.02, N))
    alone[N - 8 :] += 8.0
    (answer,) = scan(runs.run(np.arange(N), {"loss": alone}), ["spike"])
    assert "persistent" in {f.kind for f in answer.findings}


# --- skipped steps --------------------------------------------------------------------------------------------------


def skipping(count: np.ndarray, loss_from: int | None = None, spacing: int = 1, scale: bool = False) -> Run:
    """A log with a counter of skipped steps; from a row on no loss is printed (Megatron: nothing was trained)."""
    n = len(count)
    rng = np.random.default_rng(0)
    steps = (np.arange(n) + 1) * spacing
    made = runs.run(steps, {"skipped_iters": count})
    kept = slice(0, loss_from)
    made.series["loss", None] = runs.series("loss", steps[kept], (runs.descent(n) + rng.normal(0, 0.04, n))[kept])
    if scale:
        halved = np.cumsum(count > 0)
        made.series["loss_scale", None] = runs.series("loss_scale", steps, 2.0 ** np.maximum(16.0 - halved, 0.0))
    return made


def test_endless_skipping_is_an_incident_although_no_loss_is_printed() -> None:
    for spacing in (1, 10):
        count = np.where(np.arange(200) >= 120, float(spacing), 0.0)
        for scale in (False, True):
            seen = look(skipping(count, 120, spacing, scale), BOOK)
            assert seen.verdict == "incident" and seen.symptom is not None
            assert (seen.symptom.state, seen.symptom.step) == ("instant-nan", 121 * spacing)


def test_a_count_since_the_start_is_no_endless_skipping() -> None:
    for total in (1.0, 3.0, 10.0):
        for spacing in (1, 10):
            count = np.where(np.arange(200) >= 120, total, 0.0)
            seen = look(skipping(count, None, spacing), BOOK)
            if total == spacing == 1:  # every step since then, or one: nobody can tell
                assert seen.verdict == "undecided"
                continue
            assert seen.verdict == "healthy", (total, spacing)
            assert {e.signal: e.state for e in seen.evidence}["skipped-steps"] == "few"


def test_the_search_for_a_first_scale_is_ordinary() -> None:
    for rows in (12, 20, 30):
        assert look(skipping(np.ones(rows), 0, 1, True), BOOK).verdict != "incident", rows


def test_a_zero_between_ordinary_losses_warns_nobody() -> None:
    """What numpy has to say about log(0) is nothing for the person at the terminal."""
    run = readers.read([str(Path(__file__).parent / "samples" / "formats" / "hf_print")])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert scan(run)


@pytest.mark.parametrize(("level", "begins"), [(2.315, 0), (1.595, 0), (2.3026, 1200), (1.6094, 40_000)])
def test_a_language_model_that_stands_near_the_logarithm_of_ten_is_no_uniform_guess(level: float, begins: int) -> None:
    """Trained models lose 1.6 and 2.3 nats a token; who begins in the middle of a run has learned before."""
    loss = level + np.random.default_rng(0).normal(0, 0.015, 60)
    made = runs.run(begins + 10 * np.arange(60), {"loss": loss})
    assert look(made, judge.library().book).verdict != "incident"


@pytest.mark.parametrize("classes", [3, 10])
def test_who_guesses_from_the_first_row_is_told(classes: int) -> None:
    loss = np.log(classes) + np.random.default_rng(0).normal(0, 0.005, 60)
    assert look(runs.run(10 * np.arange(60), {"loss": loss}), judge.library().book).verdict == "incident"
