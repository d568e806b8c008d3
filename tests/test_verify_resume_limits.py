"""Each limit of verify-resume is where its name says: a seam just inside is judged otherwise than one just outside."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from playbook.series import Run
from playbook.workflow.comparison import resume_causes as cause
from playbook.workflow.comparison.seam import Check
from playbook.workflow.comparison.verify_resume import verify
from tests.test_verify_resume import Table, part, run

ROWS = 300
DEVICES: dict[str, object] = {"world_size": 8}


def quiet(fall: float = 1.2, speed: float = 250.0, noise: float = 1e-4) -> Table:
    """2000 steps of a run that hardly wavers: what moves at its seam is what the test moved."""
    steps = np.arange(2000)
    return {
        "step": steps,
        "loss": np.exp(0.7 + fall * np.exp(-steps / speed) + noise * np.random.default_rng(3).normal(size=2000)),
        "grad_norm": np.exp(1e-3 * np.random.default_rng(4).normal(size=2000)),
        "lr": np.full(2000, 1e-4),
        "tokens": 4096.0 * (steps + 1),
    }


Change = Callable[[Table, Table], None]


def seam(change: Change, name: str, at: int = 1200, rows: int = ROWS, data: Table | None = None) -> Check:
    """The check of a quiet run that is resumed at a step, after `change` has been made to its two parts."""
    whole = data or quiet()
    before, after = part(whole, 0, at), part(whole, at, at + rows)
    change(before, after)
    checks = verify(run(before, config=DEVICES), run(after, config=DEVICES))
    return next(check for check in checks if check.name == name)


def times(metric: str, factor: float) -> Change:
    def change(before: Table, after: Table) -> None:
        after[metric] = after[metric] * factor

    return change


def short(rows: int) -> Change:
    """BEFORE lacks its last rows."""

    def change(before: Table, after: Table) -> None:
        for name in before:
            before[name] = before[name][:-rows] if rows else before[name]

    return change


def counter_ahead(steps: int, trained: float) -> Change:
    """The counter jumps, the tokens say how many steps were trained."""

    def change(before: Table, after: Table) -> None:
        after["step"] = after["step"] + steps
        after["tokens"] = after["tokens"] + 4096.0 * (trained - 1)

    return change


def tokens_off(steps: float, missing: int = 0) -> Change:
    def change(before: Table, after: Table) -> None:
        short(missing)(before, after)
        after["tokens"] = after["tokens"] + 4096.0 * steps

    return change


def tokens_begin(share: float) -> Change:
    def change(before: Table, after: Table) -> None:
        after["tokens"] = after["tokens"] - after["tokens"][0] + share * before["tokens"][-1]

    return change


def batch_doubles(rate: float) -> Change:
    def change(before: Table, after: Table) -> None:
        before["batch_size"], after["batch_size"] = (
            np.full(len(before["step"]), 256.0),
            np.full(len(after["step"]), 512.0),
        )
        after["lr"] = after["lr"] * rate
        del before["tokens"], after["tokens"]

    return change


def scale(past: list[float], first: float) -> Change:
    """The last values of a loss scale and its first one after the load."""

    def change(before: Table, after: Table) -> None:
        before["loss_scale"] = np.full(len(before["step"]), 65536.0)
        before["loss_scale"][-len(past) :] = past
        after["loss_scale"] = np.full(len(after["step"]), first)

    return change


def speed(past: np.ndarray, later: np.ndarray) -> tuple[Run, Run]:
    whole = quiet()
    before, after = part(whole, 1200 - len(past), 1200), part(whole, 1200, 1200 + len(later))
    before["throughput"], after["throughput"] = past, later
    return run(before, config=DEVICES), run(after, config=DEVICES)


STATE = [
    # (what is changed, the check, the status inside the limit, outside)
    ("MISSING_ROWS", "steps", short(20), "ok", short(21), "unknown"),
    ("JUMPED_ROWS", "steps", counter_ahead(2, 0), "ok", counter_ahead(3, 0), "failed"),
    ("HARDLY_TRAINED", "steps", counter_ahead(99, 29), "failed", counter_ahead(99, 31), "unknown"),
    ("HARDLY_TRAINED, back", "steps", counter_ahead(99, -29), "failed", counter_ahead(99, -31), "unknown"),
    ("SCALE_JUMP", "loss scale", scale([32768.0] * 9, 65536.0), "ok", scale([32768.0] * 9, 131072.0), "failed"),
    ("SCALE_BEYOND", "loss scale", scale([16384.0] * 9, 65536.0), "ok", scale([16384.0] * 9, 131072.0), "failed"),
    ("EXPOSED_LEAST", "exposure", tokens_off(23), "ok", tokens_off(25), "failed"),
    ("EXPOSED_SHARE", "exposure", tokens_off(29, 260), "ok", tokens_off(31, 260), "failed"),
    ("RATE_FOLLOWS", "exposure", batch_doubles(2**0.28), "failed", batch_doubles(2**0.32), "changed"),
    ("LOSS_FLOOR", "loss", times("loss", 1.028), "ok", times("loss", 1.033), "failed"),
    ("NORM_FLOOR", "gradient norm", times("grad_norm", np.exp(0.24)), "ok", times("grad_norm", np.exp(0.27)), "failed"),
]  # fmt: skip


@pytest.mark.parametrize(("limit", "name", "inside", "one", "outside", "other"), STATE, ids=[row[0] for row in STATE])
def test_a_limit_is_where_it_says(limit: str, name: str, inside: Change, one: str, outside: Change, other: str) -> None:
    assert (seam(inside, name).status, seam(outside, name).status) == (one, other)


def test_tokens_may_be_off_by_three_rows_early_on() -> None:
    assert seam(tokens_off(3), "exposure", at=100).status == "ok"
    assert seam(tokens_off(3.3), "exposure", at=100).status == "failed"


def test_less_than_a_tenth_of_the_tokens_was_counted_anew() -> None:
    assert "from the start" in seam(tokens_begin(0.09), "exposure").because
    assert "seen twice" in seam(tokens_begin(0.11), "exposure").because


STEADY = np.full(200, 100.0)
WAVY = np.repeat(100.0 * np.exp([0.1, -0.1] * 5), 20)  # moves by 0.2 between its tenths
NOISY = 100 * np.exp(0.4 * np.random.default_rng(0).normal(size=25))


@pytest.mark.parametrize(
    ("past", "later", "status"),
    [
        (STEADY, np.full(20, 91.0), "ok"),
        (STEADY, np.full(20, 89.0), "changed"),
        (STEADY, np.full(20, 81.0), "changed"),
        (STEADY, np.full(20, 79.0), "failed"),
        (STEADY, np.full(4, 50.0), "unknown"),
        (STEADY, np.full(5, 50.0), "failed"),
        # the median of the last 50 rows is that of their middle
        (WAVY, np.full(20, 90.5 * np.exp(-0.28)), "ok"),
        (WAVY, np.full(20, 90.5 * np.exp(-0.32)), "failed"),
        # two rows settle; of five that count two are slow
        (STEADY, np.array([10.0] * 4 + [100.0] * 3), "ok"),
        (STEADY, np.array([10.0] * 5 + [100.0] * 2), "failed"),
    ],
)
def test_a_speed_is_judged_by_what_it_moved_before(past: np.ndarray, later: np.ndarray, status: str) -> None:
    found = next(check for check in verify(*speed(past, later)) if check.name == "throughput")
    assert found.status == status, found


def test_the_noise_of_a_short_history_is_four_times_its_error() -> None:
    """Without the rows that tell how a run moves, the median of the rows after has the error of its noise."""
    from playbook.detectors.stats import diff_sigma

    bar = 4.0 * diff_sigma(np.log(NOISY)) / 4  # 16 rows
    for factor, status in ((0.9, "ok"), (1.1, "failed")):
        later = np.full(18, float(np.median(NOISY)) * np.exp(-factor * bar))
        found = next(check for check in verify(*speed(NOISY, later)) if check.name == "throughput")
        assert found.status == status, (factor, found)


def test_three_rows_after_the_seam_say_something() -> None:
    def nothing(before: Table, after: Table) -> None: ...

    assert "say nothing yet" in seam(nothing, "loss", rows=2).because
    assert "say nothing yet" not in seam(nothing, "loss", rows=3).because


def back_to(share: float) -> Change:
    """The loss goes this share of the way back to the first losses."""

    def change(before: Table, after: Table) -> None:
        start, level = float(np.log(before["loss"][0])), float(np.log(before["loss"][-1]))
        after["loss"] = after["loss"] * np.exp(share * (start - level))
        del before["grad_norm"], after["grad_norm"]

    return change


@pytest.mark.parametrize(
    ("share", "data", "rows", "fresh"),
    [
        (0.82, quiet(), ROWS, True),
        (0.78, quiet(), ROWS, False),
        (1.0, quiet(fall=0.12), ROWS, True),
        (1.0, quiet(fall=0.09), ROWS, False),
    ],
)
def test_a_fresh_model_is_near_its_first_loss_and_had_left_it(
    share: float, data: Table, rows: int, fresh: bool
) -> None:
    assert ("fresh model" in seam(back_to(share), "loss", data=data, rows=rows).because) is fresh


@pytest.mark.parametrize(
    ("loss", "norm", "counted"),
    [(1.85, 1.0, True), (1.75, 1.0, False), (1.85, np.exp(0.22), True), (1.85, np.exp(0.28), False)],
)
def test_another_count_is_nearly_double_with_the_same_gradient(loss: float, norm: float, counted: bool) -> None:
    def change(before: Table, after: Table) -> None:
        after["loss"], after["grad_norm"] = after["loss"] * loss, after["grad_norm"] * norm

    assert ("counted otherwise" in seam(change, "loss").because) is counted


@pytest.mark.parametrize(("factor", "counted"), [(4 * np.exp(0.028), True), (4 * np.exp(0.032), False)])
def test_without_a_gradient_norm_only_an_exact_factor_is_another_count(factor: float, counted: bool) -> None:
    def change(before: Table, after: Table) -> None:
        after["loss"] = after["loss"] * factor
        del before["grad_norm"], after["grad_norm"]

    assert ("counted otherwise" in seam(change, "loss", data=quiet(fall=0.3)).because) is counted


@pytest.mark.parametrize(("rows", "weights"), [(39, True), (40, False)])
def test_a_level_that_is_kept_for_forty_rows_is_no_model_that_does_not_learn(rows: int, weights: bool) -> None:
    found = seam(times("loss", 4.0), "loss", rows=rows, data=quiet(fall=0.3))
    assert "counted otherwise" in found.because and (cause.WRONG_WEIGHTS in found.causes) is weights


@pytest.mark.parametrize(("rise", "large"), [(0.18, False), (0.22, True)])
def test_a_large_rise_is_blamed_on_the_weights(rise: float, large: bool) -> None:
    found = seam(times("loss", np.exp(rise)), "loss")
    assert found.causes[0] == (cause.WRONG_WEIGHTS if large else cause.OTHER_DATA)


@pytest.mark.parametrize(("left", "relearned"), [(0.38, True), (0.42, False)])
def test_what_is_soon_learned_again_was_learned_once(left: float, relearned: bool) -> None:
    def change(before: Table, after: Table) -> None:
        after["loss"] = after["loss"] * np.exp(0.15 * np.where(np.arange(len(after["loss"])) < 3, 1.0, left))

    assert (seam(change, "loss").causes[0] == cause.WRONG_WEIGHTS) is relearned


@pytest.mark.parametrize(
    ("rate", "at", "samples"), [(0.62, 1200, True), (0.58, 1200, False), (1, 64, True), (1, 63, False)]
)
def test_a_fall_is_no_fault_after_a_drop_of_the_rate_or_early_on(rate: float, at: int, samples: bool) -> None:
    def change(before: Table, after: Table) -> None:
        after["loss"], after["lr"] = after["loss"] * 0.7, after["lr"] * rate

    data = quiet(fall=0.01)
    assert ("seen before" in seam(change, "loss", at=at, data=data).because) is samples


def loss_moves(*rows: float, then: float = 0.0, data: Table | None = None) -> Check:
    """The logarithm of the loss is off by `rows`, row by row, and by `then` behind them."""

    def change(before: Table, after: Table) -> None:
        off = np.full(len(after["loss"]), then)
        off[: len(rows)] = rows
        after["loss"] = after["loss"] * np.exp(off)

    return seam(change, "loss", data=data or quiet(fall=0.01))


@pytest.mark.parametrize(("first", "words"), [(0.0155, "right after the load"), (0.0145, "over the first rows")])
def test_the_load_is_blamed_where_its_first_row_has_half_of_what_is_needed(first: float, words: str) -> None:
    assert words in loss_moves(first, 0.05, 0.05, then=0.05).because


@pytest.mark.parametrize(("first", "cleared"), [(0.0138, True), (0.0149, False)])
def test_the_load_is_cleared_where_its_first_row_has_little_of_the_rise(first: float, cleared: bool) -> None:
    assert ("right at the load" in loss_moves(first, 0.036, 0.036, then=0.036).because) is cleared


@pytest.mark.parametrize(
    ("deep", "then", "samples"),
    [(-0.05, -0.011, True), (-0.05, -0.007, False), (-0.062, 0.0, True), (-0.058, 0.0, False)],
)
def test_a_fall_that_does_not_last_must_be_deep(deep: float, then: float, samples: bool) -> None:
    assert ("seen before" in loss_moves(deep, deep, deep, then=then).because) is samples


@pytest.mark.parametrize(("deep", "samples"), [(-0.14, False), (-0.16, True)])
def test_a_fall_is_held_against_the_pace_of_the_run(deep: float, samples: bool) -> None:
    """The run falls by 0.1 from the first to the last third of 128 rows."""
    data = quiet()
    data["loss"] = np.exp(3.0 - 0.1 / 86 * np.arange(2000))
    data["loss"] *= np.exp(1e-4 * np.random.default_rng(3).normal(size=2000))
    assert ("seen before" in loss_moves(then=deep, data=data).because) is samples


@pytest.mark.parametrize(
    ("begin", "drift", "counted"), [(50, 0.047, True), (50, 0.054, False), (76, 0.3, True), (74, 0.3, False)]
)
def test_another_count_keeps_its_level_over_a_hundred_rows(begin: int, drift: float, counted: bool) -> None:
    """The middle of rows 50 to 99 is off from row 75 on."""
    off = np.where(np.arange(ROWS) < begin, 0.0, drift) + np.log(4.0)
    assert ("counted otherwise" in loss_moves(*off, data=quiet(fall=0.01)).because) is counted


def rates(again: np.ndarray) -> Check:
    """BEFORE has a warm-up; AFTER shows its first rates, each times `again`, and then others."""

    def change(before: Table, after: Table) -> None:
        before["lr"] = 1e-4 * np.minimum((before["step"] + 1.0) / 200, 1.0)
        after["lr"] = np.full(len(after["lr"]), 9e-5)
        after["lr"][: len(again)] = before["lr"][: len(again)] * again

    return seam(change, "learning rate")


@pytest.mark.parametrize(
    ("off", "factor", "begins"), [(20, 1.045, True), (20, 1.06, False), (3, 9.0, True), (4, 9.0, False)]
)
def test_a_schedule_begins_again_where_most_of_twenty_rates_are_its_first(
    off: int, factor: float, begins: bool
) -> None:
    again = np.where(np.arange(20) < off, factor, 1.0)
    assert ("begins again" in rates(again).because) is begins


@pytest.mark.parametrize(("rows", "status"), [(30, "ok"), (29, "changed")])
def test_a_speed_is_held_against_its_own_moves_from_thirty_rows_on(rows: int, status: str) -> None:
    past = np.repeat(100.0 * np.exp([0.1, -0.1] * 5), 3)[-rows:]
    found = next(c for c in verify(*speed(past, np.full(20, 100.0 * np.exp(-0.28)))) if c.name == "throughput")
    assert found.status == status, found


def test_the_speed_before_is_that_of_its_last_fifty_rows() -> None:
    past = np.full(600, 100.0)
    past[-24:] = 200.0
    found = next(c for c in verify(*speed(past, np.full(20, 100.0))) if c.name == "throughput")
    assert found.status == "ok", found
