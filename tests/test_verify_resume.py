"""verify-resume on made runs: what a file can show is named, what it cannot show is left open, a good resume passes."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from playbook.errors import PlaybookError
from playbook.faces.cli import run as command
from playbook.series import Origin, Run, Series
from playbook.workflow.comparison.verify_resume import suspects, unseen, verdict, verify

N, SEAM = 2000, 1200
Table = dict[str, np.ndarray]


def table(order: int = 1, own: int = 1) -> Table:
    """2000 steps: `order` makes the hardness of the batches, `own` what else moves (0: nothing)."""
    steps = np.arange(N)
    hard = 0.04 * np.random.default_rng(order).normal(size=N)
    also = 0.01 * np.random.default_rng(own + 100).normal(size=N) if own else np.zeros(N)
    warm = np.minimum((steps + 1) / 100, 1.0)
    return {
        "step": steps,
        "loss": np.exp(0.7 + 1.2 * np.exp(-steps / 250) + hard + also),
        "grad_norm": np.exp(0.15 * np.random.default_rng(own + 200).normal(size=N)),
        "lr": 3e-4 * warm * 0.5 * (1 + np.cos(np.pi * steps / N)),
        "tokens": 4096.0 * (steps + 1),
    }


def part(data: Table, low: int, high: int, every: int = 1) -> Table:
    return {name: column[low:high:every].copy() for name, column in data.items()}


def run(*parts: Table, config: dict[str, object] | None = None) -> Run:
    whole = {name: np.concatenate([p[name] for p in parts]) for name in parts[0]}
    steps = whole.pop("step")
    series = {
        (name, None): Series(name, None, steps, values.astype(float), None, Origin("made.csv"))
        for name, values in whole.items()
    }
    return Run(series, config=config or {})


def judged(before: Run, after: Run) -> tuple[str, list[str]]:
    checks = verify(before, after)
    return verdict(checks), suspects(checks)


BEFORE = part(table(), 0, SEAM)


@pytest.mark.parametrize("every", [(1, 1), (10, 10), (10, 5), (1, 10), (10, 1)])
@pytest.mark.parametrize("at", [90, 300, 1200])
@pytest.mark.parametrize("rows", [8, 20, 400])
def test_a_good_resume_is_never_refused(every: tuple[int, int], at: int, rows: int) -> None:
    """In warm-up, in the steep part, late; logged at other intervals; few rows."""
    data = table(order=at)
    after = part(data, at, min(N, at + rows * every[1]), every[1])
    assert judged(run(part(data, 0, at, every[0])), run(after))[0] != "broken"


@pytest.mark.parametrize("missing", [5, 60])
def test_rows_that_a_dead_job_did_not_write_are_no_fault(missing: int) -> None:
    assert judged(run(part(table(), 0, SEAM - missing)), run(part(table(), SEAM, 1500)))[0] == "continues"


def test_few_rows_before_the_seam_leave_it_open() -> None:
    checks = verify(run(part(table(), 0, 90, 10)), run(part(table(), 90, 400, 10)))
    assert verdict(checks) == "undecided"
    assert any(line.startswith("loss:") for line in unseen(checks))


def test_the_file_that_was_appended_to_holds_both() -> None:
    good, again = part(table(), 0, SEAM), part(table(), SEAM - 50, 1500)
    for after in (run(good, part(table(), SEAM, 1500)), run(good, again)):
        assert judged(run(good), after)[0] == "continues"
    assert judged(run(good, again), run(good, again))[0] == "continues", "one name for both"
    late = part(table(), SEAM - 50, 1500)
    late["lr"] = part(table(), 0, 350)["lr"]
    assert judged(run(good, late), run(good, late))[1][0] == "schedule-not-restored"


def test_a_file_that_adds_nothing_is_refused_in_one_line() -> None:
    with pytest.raises(PlaybookError, match="no row that BEFORE does not hold"):
        verify(run(BEFORE), run(part(table(), 0, 600)))


def test_equal_first_loss_and_other_next_ones_clear_weights_and_samples() -> None:
    exact = table(own=0)
    again = part(exact, SEAM - 60, 1500)
    assert judged(run(part(exact, 0, SEAM)), run(again))[0] == "continues"
    again["loss"][1:] *= 1 + 0.008 * np.exp(-np.arange(len(again["loss"]) - 1) / 30)
    found, names = judged(run(part(exact, 0, SEAM)), run(again))
    assert (found, names[0]) == ("broken", "optimizer-state-lost")


def test_samples_of_the_first_steps_again() -> None:
    data, after = table(), part(table(), SEAM, 1500)
    after["loss"] = np.exp(np.log(after["loss"]) - 0.04 * np.random.default_rng(1).normal(size=N)[SEAM:1500])
    after["loss"] *= np.exp(0.04 * np.random.default_rng(1).normal(size=N)[:300])
    assert judged(run(part(data, 0, SEAM)), run(after)) == ("broken", ["sampler-not-restored"])


def test_one_order_in_every_epoch_is_no_repetition_at_the_resume() -> None:
    data = table()
    epoch = 0.04 * np.random.default_rng(3).normal(size=150)
    data["loss"] = np.exp(0.7 + 1.2 * np.exp(-np.arange(N) / 250) + np.resize(epoch, N))
    assert judged(run(part(data, 0, SEAM)), run(part(data, SEAM, 1500)))[0] == "continues"


def test_a_rate_that_falls_in_steps_is_followed_where_steps_repeat_and_told_where_not() -> None:
    data = table()
    data["lr"] = np.where(np.arange(N) < SEAM, 0.1, 0.01)
    assert judged(run(part(data, 0, SEAM + 40)), run(part(data, SEAM, 1500)))[0] == "continues"
    checks = verify(run(part(data, 0, SEAM)), run(part(data, SEAM, 1500)))
    assert [c.status for c in checks if c.name == "learning rate"] == ["changed"]


def test_a_schedule_that_is_counted_twice() -> None:
    data = table()
    data["lr"] = 1e-3 * (1 - np.arange(N) / (2 * N))
    after = part(data, SEAM, 1500)
    after["lr"] = after["lr"][0] - 2 * (after["lr"][0] - after["lr"])
    assert judged(run(part(data, 0, SEAM)), run(after))[1][0] == "schedule-stepped-too-often"


@pytest.mark.parametrize("witness", ["tokens", "lr"])
def test_a_counter_that_jumped_is_told_from_missing_rows(witness: str) -> None:
    data = {name: table()[name] for name in ("step", "loss", witness)}
    after = part(data, SEAM, 1500)
    after["step"] = after["step"] + 500
    assert judged(run(part(data, 0, SEAM)), run(after))[1][0] == "step-counter-reset"


@pytest.mark.parametrize("factor", [4.0, 1 / 8])
def test_another_count_is_told_from_another_model_by_the_gradient(factor: float) -> None:
    after = part(table(), SEAM, 1500)
    after["loss"] *= factor
    assert judged(run(BEFORE), run(after))[1][0] == "loss-logged-wrongly"
    after["grad_norm"] *= 3
    assert judged(run(BEFORE), run(after))[1][0] != "loss-logged-wrongly"


def test_a_level_that_is_that_of_a_fresh_model_leaves_both_open() -> None:
    """3.3 times the loss is about where the run began, and no exact factor: weights first, the log still named."""
    after = part(table(), SEAM, SEAM + 20)
    after["loss"] *= 3.3
    check = next(c for c in verify(run(BEFORE), run(after)) if c.name == "loss")
    assert check.causes == ("wrong-weights-loaded", "checkpoint-incomplete", "loss-logged-wrongly")
    assert "the gradient norm is as before" in check.because
    for column in (after, before := part(table(), 0, SEAM)):
        del column["grad_norm"]
    check = next(c for c in verify(run(before), run(after)) if c.name == "loss")
    assert check.causes[:2] == ("wrong-weights-loaded", "checkpoint-incomplete")
    assert len(set(check.causes)) == len(check.causes)


def test_another_batch_is_read_from_the_tokens() -> None:
    after = part(table(order=5), SEAM, 1500)
    after["tokens"] = BEFORE["tokens"][-1] + 1024.0 * (1 + np.arange(300))
    found, names = judged(run(BEFORE), run(after))
    assert (found, names[0]) == ("broken", "gpu-count-changed")


def test_twice_the_speed_on_twice_the_devices_is_no_fault() -> None:
    before, after = part(table(), 0, SEAM), part(table(), SEAM, 1500)
    speed = 1e5 * np.exp(0.05 * np.random.default_rng(0).normal(size=N))
    before["throughput"], after["throughput"] = speed[:SEAM], 2 * speed[SEAM:1500]
    config = {"global_batch_size": 64, "world_size": 8}
    assert judged(run(before, config=config), run(after, config={**config, "world_size": 16}))[0] == "continues"


@pytest.mark.parametrize(("first", "cause"), [(0, "checkpoint-corrupt"), (12, "optimizer-state-lost")])
def test_a_loss_that_is_no_number_is_a_broken_resume_not_a_bad_file(first: int, cause: str) -> None:
    after = part(table(), SEAM, 1300)
    after["loss"][first:] = np.nan
    found, names = judged(run(BEFORE), run(after))
    assert (found, names[0]) == ("broken", cause)


def test_a_loss_of_exactly_zero_is_not_progress() -> None:
    after = part(table(), SEAM, 1300)
    after["loss"][:] = 0.0
    assert judged(run(BEFORE), run(after))[1][0] == "loss-logged-wrongly"


def test_one_row_says_nothing_yet() -> None:
    assert judged(run(BEFORE), run(part(table(), SEAM, SEAM + 1)))[0] == "undecided"


def test_json_and_exit_codes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def write(name: str, data: Table) -> str:
        rows = [dict(zip(data, map(float, row), strict=True)) for row in zip(*data.values(), strict=True)]
        path = tmp_path / name
        path.write_text("\n".join(json.dumps({**row, "step": int(row["step"])}) for row in rows) + "\n")
        return str(path)

    bad = part(table(), SEAM, 1500)
    bad["lr"] = part(table(), 0, 300)["lr"]
    before = write("before.jsonl", BEFORE)
    answers = {}
    for name, data in (("good.jsonl", part(table(), SEAM, 1500)), ("bad.jsonl", bad)):
        code = command(["verify-resume", before, write(name, data), "--json"])
        answers[name] = (code, json.loads(capsys.readouterr().out))
    assert (answers["good.jsonl"][0], answers["good.jsonl"][1]["verdict"]) == (0, "continues")
    code, found = answers["bad.jsonl"]
    assert (code, found["ok"], found["verdict"], found["suspects"][0]) == (1, False, "broken", "schedule-not-restored")
    assert command(["verify-resume", before, before]) == 2
    assert len(capsys.readouterr().err.strip().splitlines()) == 1
