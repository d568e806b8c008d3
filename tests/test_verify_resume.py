"""verify-resume on made runs: what a file can show is named, what it cannot show is left open, a good resume passes."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from playbook.errors import PlaybookError
from playbook.faces.cli import run as command
from playbook.knowledge.loader import Book
from playbook.series import Origin, Run, Series
from playbook.workflow.comparison import resume_causes
from playbook.workflow.comparison.seam import Check
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


R = np.arange(300.0)
SOON = np.minimum(R, 1)  # nothing in the first row, all behind it
# (metric, what it is multiplied by, words of the check, causes that it names first)
FAULTS: dict[str, tuple[str, np.ndarray, str, tuple[str, ...]]] = {
    "much higher": ("loss", 1.4 + 0 * R, "loss 2.849 right after the load", ("wrong-weights-loaded",)),
    "a little higher": ("loss", 1.15 + 0 * R, "right after the load", ("data-version-changed-at-resume",)),
    "higher behind the first row": ("loss", 1 + 0.6 * SOON, "right at the load, then", ("optimizer-state-lost",)),
    "lower": ("loss", 0.75 + 0 * R, "samples seen before?", ("sampler-not-restored",)),
    "an eighth": ("loss", 0.125 + 0 * R, "loss is 1/8 times", ("loss-logged-wrongly", "log-averaging")),
    "eight gradients": ("grad_norm", 8.0 + 0 * R, "8.13 times", ("gradient-scaled-by-world-size",)),
    "gradients that grow": ("grad_norm", 1 + 0.4 * np.clip(R, 0, 5), "2.87 times", ("optimizer-state-lost",)),
    "smaller gradients": ("grad_norm", 0.38 + 0 * R, "0.39 times", ("data-version-changed-at-resume",)),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_what_moves_at_a_seam_is_named_with_its_causes(fault: str) -> None:
    metric, times, words, causes = FAULTS[fault]
    after = part(table(), SEAM, 1500)
    after[metric] *= times
    failed = [c for c in verify(run(BEFORE), run(after)) if c.status == "failed"]
    assert [c.name for c in failed] == [{"loss": "loss", "grad_norm": "gradient norm"}[metric]]
    assert words in failed[0].because and failed[0].causes[: len(causes)] == causes


def test_rows_of_many_steps_do_not_tell_weights_from_the_update() -> None:
    before = part(table(), 0, SEAM, 10)
    for times, place in ((1.4, 2), (1.15, 0)):
        after = part(table(), SEAM, N, 10)
        after["loss"] *= times
        check = next(c for c in verify(run(before), run(after)) if c.name == "loss")
        assert check.status == "failed" and check.causes[place] == "optimizer-state-lost"


def test_a_loss_that_falls_with_its_rate_has_seen_no_sample_before() -> None:
    data = table()
    data["lr"] = np.where(np.arange(N) < SEAM, 1e-3, 1e-4)
    after = part(data, SEAM, 1500)
    after["loss"] *= 0.75
    assert [c.status for c in verify(run(part(data, 0, SEAM)), run(after)) if c.name == "loss"] == ["ok"]


@pytest.mark.parametrize(
    ("times", "words", "causes"),
    [
        (1.1 + 0 * R, "10.0% higher the second time, from the first rows on", ("wrong-weights-loaded",)),
        (
            1 + 0.2 * (1 - np.exp(-R / 20)) + 0.001,
            "at first it is not",
            ("optimizer-state-lost", "scaler-not-restored"),
        ),
    ],
    ids=["at once", "later"],
)
def test_steps_trained_twice_tell_when_a_difference_begins(
    times: np.ndarray, words: str, causes: tuple[str, ...]
) -> None:
    after = part(table(), SEAM - 60, 1500)
    after["loss"] *= np.append(times, np.full(60, times[-1]))
    check = next(c for c in verify(run(BEFORE), run(after)) if c.name == "loss")
    assert check.status == "failed" and words in check.because and check.causes[: len(causes)] == causes


def test_the_two_halves_of_a_file_are_cut_where_its_steps_go_back() -> None:
    """A counter at 0 again, tokens and all: the rows are moved behind BEFORE, and nothing else is held against them."""
    after = part(table(), SEAM, 1500)
    after["step"] = after["step"] - SEAM
    checks = {c.name: c for c in verify(run(BEFORE), run(after))}
    assert checks["steps"].causes == ("step-counter-reset", "schedule-not-restored")
    assert [c.status for name, c in checks.items() if name in ("loss", "learning rate", "exposure")] == ["ok"] * 3


def one(before: Table, after: Table, name: str, **config: object) -> tuple[str, str, tuple[str, ...]]:
    """(status, words, causes) of one check."""
    return next(
        (c.status, c.because, c.causes)
        for c in verify(run(before, config=config), run(after, config=config))
        if c.name == name
    )


def with_column(name: str, past: np.ndarray, later: np.ndarray) -> tuple[Table, Table]:
    return {**part(table(), 0, SEAM), name: past}, {**part(table(), SEAM, 1500), name: later}


@pytest.mark.parametrize(("name", "slower"), [("throughput", 0.6), ("step_time", 1 / 0.6)])
def test_a_slower_run_is_a_fault_on_the_same_devices_only(name: str, slower: float) -> None:
    speed = 100 * np.exp(0.05 * np.random.default_rng(0).normal(size=N))
    same = with_column(name, speed[:SEAM], speed[SEAM:1500])
    assert one(*same, "throughput")[0] == "ok"
    slow = with_column(name, speed[:SEAM], slower * speed[SEAM:1500])
    status, words, causes = one(*slow, "throughput", world_size=8)
    assert (status, causes[0]) == ("failed", "thermal-throttling") and words.startswith(
        ("speed is 0.59", "speed is 0.61")
    )
    assert one(*slow, "throughput")[0] == "changed", "how many devices there are is not said"
    quick = with_column(name, speed[:SEAM], speed[SEAM:1500] / slower)
    assert one(*quick, "throughput", world_size=8)[0] == "changed"


def test_a_loss_scale_moves_as_it_did_before_or_has_jumped() -> None:
    scale = 2.0 ** (10 + np.arange(N) // 400)
    assert one(*with_column("loss_scale", scale[:SEAM], scale[SEAM:1500]), "loss scale")[:2] == ("ok", "4096 then 8192")
    reset = one(*with_column("loss_scale", scale[:SEAM], 1024 + 0 * R), "loss scale")
    assert "from 4096 to 1024, its first value" in reset[1] and reset[2] == ("scaler-not-restored",)
    scale[0] = 512
    older = one(*with_column("loss_scale", scale[:SEAM], 1024 + 0 * R), "loss scale")
    assert "its value at step 399: an older checkpoint?" in older[1] and "wrong-weights-loaded" in older[2]


@pytest.mark.parametrize(
    ("start", "words"), [(0.0, "counted from the start again"), (0.5, "seen twice or left out"), (2.0, "left out")]
)
def test_tokens_that_do_not_go_on(start: float, words: str) -> None:
    after = part(table(), SEAM, 1500)
    after["tokens"] = start * BEFORE["tokens"][-1] + 4096.0 * (1 + R)
    status, said, causes = one(BEFORE, after, "exposure")
    assert status == "failed" and words in said and causes == ("sampler-not-restored", "step-counter-reset")
    assert one(BEFORE, part(table(), SEAM, 1500), "exposure")[0] == "ok"


def test_a_schedule_that_begins_again_is_called_so() -> None:
    after = part(table(), SEAM, 1500)
    after["lr"] = part(table(), 0, 300)["lr"]
    assert "the schedule begins again" in one(BEFORE, after, "learning rate")[1]
    after["lr"] = 2 * part(table(), SEAM, 1500)["lr"]
    status, said, _ = one(BEFORE, after, "learning rate")
    assert status == "failed" and "begins again" not in said


def test_a_batch_that_is_kept_on_other_devices_is_said_to_be_kept() -> None:
    configs = {"world_size": 8, "micro_batch_size": 4}, {"world_size": 16, "micro_batch_size": 2}
    for extra, kept in (({}, "the global batch is kept"), ({"micro_batch_size": None}, "the global batch is kept")):
        a, b = (
            run(p, config={**c, **extra}) for p, c in zip((BEFORE, part(table(), SEAM, 1500)), configs, strict=True)
        )
        world = next(c for c in verify(a, b) if c.name == "world size")
        assert world.status == "changed" and world.because == f"world_size was 8 and is 16; {kept}"
    bare = [{k: v for k, v in p.items() if k != "tokens"} for p in (BEFORE, part(table(), SEAM, 1500))]
    a, b = (run(p, config={"world_size": n}) for p, n in zip(bare, (8, 16), strict=True))
    assert "is not said" in next(c for c in verify(a, b) if c.name == "world size").because


def sized(before: dict[str, object], after: dict[str, object]) -> list[Check]:
    """The checks of a good resume under two configurations, without tokens."""
    bare = [{k: v for k, v in p.items() if k != "tokens"} for p in (BEFORE, part(table(), SEAM, 1500))]
    return verify(run(bare[0], config=before), run(bare[1], config=after))


def test_each_check_is_made_once_under_its_own_name() -> None:
    checks = sized({"world_size": 8, "micro_batch_size": 4}, {"world_size": 16, "micro_batch_size": 4})
    names = [c.name for c in checks]
    assert len(set(names)) == len(names)
    assert [(c.name, c.causes[0]) for c in checks if c.status == "failed"] == [("world size", "gpu-count-changed")]


@pytest.mark.parametrize(
    ("before", "after", "kept"),
    [
        ({"world_size": 64}, {"nnodes": 8}, None),  # the same, told in other units
        (
            {"world_size": 64, "dp_size": 8},
            {"world_size": 64, "dp_size": 16},
            False,
        ),  # another layout of the same devices
        ({"world_size": 64, "dp_size": 8}, {"world_size": 128, "dp_size": 8}, True),
        ({"gpus": 8}, {"gpus": 4, "gradient_accumulation_steps": 2}, None),  # from what it grew is not said
        ({"gpus": 8, "grad_accum_steps": 2}, {"gpus": 4, "grad_accum_steps": 4}, True),
        ({"nnodes": 2}, {"nnodes": 4}, None),  # how many devices a node has is not said
    ],
)
def test_a_batch_is_the_product_of_what_both_runs_say(before: dict, after: dict, kept: bool | None) -> None:
    micro = {"micro_batch_size": 4}
    world = next(c for c in sized(micro | before, micro | after) if c.name == "world size")
    assert (world.status == "failed") == (kept is False), world
    assert ("; the global batch is kept" in world.because) == (kept is True), world
    if kept is False:
        assert "global batch was 32 and is 64" in world.because


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


def test_every_cause_that_a_check_can_name_is_in_the_book(real_book: Book) -> None:
    named = {
        cause
        for name, value in vars(resume_causes).items()
        if name.isupper()
        for cause in ([value] if isinstance(value, str) else value)
    }
    assert len(named) > 15 and named <= set(real_book.causes)


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
