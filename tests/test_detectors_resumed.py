"""A job that was resumed and does not say so: by a second file, or by a learning rate that begins again mid-course.

The same jump where a schedule restarts by plan, or where the data changes by plan, is no incident.
"""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from time import perf_counter

import numpy as np
import pytest

from playbook import readers
from playbook.detectors import scan
from playbook.detectors.stats import rate
from playbook.detectors.stats.curve import fold
from playbook.detectors.stats.segments import By, Segment, _cut, usable
from playbook.findings import Evidence
from playbook.series import Event, Run
from playbook.workflow.ingest import Ingested, look
from tests.lab import judge
from tests.runs import ORIGIN, run, series, smooth

BOOK = judge.library().book
T = np.arange(10, 8010, 10.0)
AT = 4000
LATE = T > AT
PEAK = 3e-4


def level(t: np.ndarray) -> np.ndarray:
    return 2.1 + 8.7 * np.exp(-t / 120) + 1.6 * np.exp(-t / 1200)


def noise(seed: int = 0, sigma: float = 0.02) -> np.ndarray:
    return np.random.default_rng(seed).normal(0, sigma, len(T))


def cosine(t: np.ndarray, total: float = 8000.0, warm: float = 500.0) -> np.ndarray:
    down = 0.5 * (1 + np.cos(np.pi * np.clip((t - warm) / (total - warm), 0, 1)))
    return PEAK * np.where(t < warm, t / warm, down)


def cycles(period: float, warm: float, floor: float) -> np.ndarray:
    x = T % period
    down = floor + (1 - floor) * 0.5 * (1 + np.cos(np.pi * (x - warm) / (period - warm)))
    return PEAK * np.where(x < warm, x / max(warm, 1.0), down)


def heat(lr: np.ndarray) -> np.ndarray:
    """What a learning rate adds to the level, with some delay."""
    out = np.zeros(len(lr))
    for i in range(1, len(lr)):
        out[i] = out[i - 1] + 0.1 * (lr[i] / PEAK - out[i - 1])
    return out


def jump(height: float, tau: float) -> np.ndarray:
    return np.where(LATE, height * np.exp(-(T - AT) / tau), 0.0)


def judged(loss: np.ndarray, lr: np.ndarray | None, **more: np.ndarray) -> Ingested:
    return look(run(T, {"loss": loss, **({} if lr is None else {"lr": lr}), **more}), BOOK)


def states(found: Ingested) -> dict[str, Evidence]:
    return {e.signal: e for e in found.evidence}


def files(folder: Path, loss: np.ndarray, names: tuple[str, str] = ("1.csv", "2.csv"), **more: np.ndarray) -> Run:
    columns = {"step": T, "loss": loss, **more}
    for name, own in zip(names, (~LATE, LATE), strict=True):
        rows = zip(*(values[own] for values in columns.values()), strict=True)
        text = "\n".join(",".join(f"{x:.8g}" for x in row) for row in rows)
        (folder / name).write_text(",".join(columns) + "\n" + text + "\n", encoding="utf-8")
    return readers.read([folder])


# --- the learning rate begins again ---------------------------------------------------------------------------------


@pytest.mark.parametrize("shift", [0.0, 190.0])  # into the warm-up
@pytest.mark.parametrize(("height", "tau"), [(0.45, 250.0), (0.9, 250.0), (0.9, 1e9), (2.5, 300.0)])
def test_a_jump_where_the_warm_up_begins_again_is_a_bad_resume(height: float, tau: float, shift: float) -> None:
    lr = np.where(LATE, cosine(T - AT + shift), cosine(T))
    found = judged(level(T) + jump(height, tau) + noise(), lr)
    assert found.verdict == "incident" and found.symptom is not None
    assert (found.symptom.state, found.symptom.step) == ("resume-drift", AT + 10)
    seen = states(found)
    assert seen["begins-at-resume"].state == "yes" and seen["lr-leaves-schedule"].state == "yes"


def test_a_schedule_without_a_warm_up_that_begins_again_is_one_too() -> None:
    lr = np.where(LATE, cosine(T - AT, warm=1), cosine(T, warm=1))
    found = judged(level(T) + jump(1.2, 400.0) + noise(), lr)
    assert found.symptom is not None and found.symptom.state == "resume-drift"


def test_a_schedule_that_begins_again_is_told_where_the_loss_does_nothing() -> None:
    found = judged(level(T) + noise(), np.where(LATE, cosine(T - AT), cosine(T)))
    assert found.verdict == "healthy" and states(found)["lr-leaves-schedule"].state == "yes"


def test_a_jump_far_above_what_the_rate_was_last_good_for_is_no_warm_restart() -> None:
    lr = np.where(LATE, PEAK, cosine(T))
    assert judged(level(T) + jump(2.5, 1e9) + noise(), lr).verdict == "incident"
    lasting = judged(
        (level(T) * (1 + 0.2 * heat(cycles(4000, 0, 0.01))) + jump(3.0, 1e9)) + noise(), cycles(4000, 0, 0.01)
    )
    assert lasting.verdict == "incident"


@pytest.mark.parametrize("floor", [0.0, 0.1, 0.25])
@pytest.mark.parametrize("warm", [0.0, 200.0])
@pytest.mark.parametrize("period", [1000.0, 2000.0, 4000.0])
def test_planned_restarts_are_healthy(period: float, warm: float, floor: float) -> None:
    lr = cycles(period, warm, floor)
    for amount in (0.1, 0.3, 0.6):
        found = judged(level(T) * (1 + amount * heat(lr)) * np.exp(noise()), lr)
        assert found.verdict == "healthy", (amount, found.symptom)


def test_planned_stages_are_healthy() -> None:
    """Each of two stages decays to its end; the second one has harder data, or the first was cut short."""
    whole = np.where(LATE, cosine(T - AT, AT), cosine(T, AT))
    assert judged(level(T) * np.where(LATE, 1.15, 1.0) + noise(), whole).verdict == "healthy"
    short = np.where(LATE, cosine(T - AT, AT), cosine(T))
    slow = np.where(LATE, 0.08 * (1 - np.exp(-(T - AT) / 500)), 0.0)
    assert judged(level(T) * (1 + slow) + noise(), short).verdict == "healthy"
    flat = PEAK * np.minimum(np.where(LATE, T - AT, T) / 500, 1)
    assert judged(level(T) * np.where(LATE, 1.05, 1.0) + noise(), flat).verdict == "healthy"


# --- a second file --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("names", [("1.csv", "2.csv"), ("b_before.csv", "a_after.csv")])
def test_a_jump_where_another_file_begins_is_a_bad_resume(names: tuple[str, str], tmp_path: Path) -> None:
    made = files(tmp_path, level(T) + jump(0.9, 250.0) + noise(), names)
    found = look(made, BOOK)
    assert found.verdict == "incident" and found.symptom is not None
    assert (found.symptom.state, found.symptom.step) == ("resume-drift", AT + 10)
    seen = states(found)
    assert seen["begins-at-resume"].state == "yes" and seen["change-point"].state == "resume"


@pytest.mark.parametrize("seed", range(3))
def test_a_second_file_by_itself_is_healthy(seed: int, tmp_path: Path) -> None:
    made = files(tmp_path, level(T) + noise(seed), lr=cosine(T))
    assert look(made, BOOK).verdict == "healthy"
    harder = files(tmp_path, level(T) * np.where(LATE, 1.25, 1.0) + noise(seed), seq_len=np.where(LATE, 2048.0, 512.0))
    assert look(harder, BOOK).verdict == "healthy"


def test_a_log_that_was_cut_into_pieces_tells_of_no_resume() -> None:
    made = run(T, {"loss": level(T) + jump(0.9, 250.0) + noise()})
    loss = made.series["loss", None]
    for seams, kinds in (((200, 400, 600), set()), ((150, 400), {"jump", "clean"})):
        cut = Run({("loss", None): type(loss)("loss", None, loss.steps, loss.values, None, loss.origin, "", seams)})
        assert {f.kind for f in scan(cut, ["resume"])[0].findings} == kinds


# --- health beside a resume that is told ----------------------------------------------------------------------------


def resumed(x: np.ndarray, at: int) -> dict[str, float]:
    """What the detector says of a resume that an event tells of: kind -> confidence."""
    made = run(np.arange(len(x)), {"loss": x}, events=(Event("resume", "resume", ORIGIN, at),))
    return {f.kind: f.confidence for f in scan(made, ["resume"])[0].findings}


@pytest.mark.parametrize("part", [0.02, 0.1, 0.4])
def test_a_resume_amid_a_fall_that_slows_down_is_clean(part: float) -> None:
    for rows in (120, 400, 1200):
        fall = 2.0 + 6.0 * np.exp(-np.arange(rows) / (part * rows))
        for at in range(20, rows - 20, rows // 20):
            rng = np.random.default_rng(rows + at)
            assert set(resumed(fall * np.exp(rng.normal(0, 0.02, rows)), at)) == {"clean"}


def test_a_loss_that_wanders_as_far_elsewhere_has_no_jump() -> None:
    for seed in range(40):
        rng = np.random.default_rng(seed)
        x = 2.5 * np.exp(smooth(rng, 1200, 0.15, 0.9))
        sure = [kind for kind, sure in resumed(x, int(rng.integers(100, 1100))).items() if sure >= 0.7]
        assert sure == ["clean"] or sure == []


def test_outliers_that_meet_are_no_repeated_samples() -> None:
    for seed in range(30):
        rng = np.random.default_rng(seed)
        x = 2.5 * np.exp(rng.normal(0, 0.02, 600))
        x[rng.choice(600, 6, replace=False)] *= 2.0
        x[310] *= 2.0
        assert "repeated-samples" not in resumed(x, 300)


def test_cycles_of_a_schedule_are_no_repeated_samples_and_no_jump() -> None:
    """The rate is restored, and what it does to the loss comes again each cycle: shape, not noise."""
    t = np.arange(1, 241)
    x = (t % 56) / 56
    lr = PEAK * np.where(x < 0.1, x / 0.1, 0.5 * (1 + np.cos(np.pi * (x - 0.1) / 0.9)))
    for back, at in ((0, 118), (8, 118), (8, 176), (0, 170)):
        for seed in range(5):
            steps = np.concatenate([t[:at], t[at - back :]])
            rows = steps - 1
            e = np.random.default_rng(seed).normal(0, 0.012, len(steps))
            loss = (2.0 + 2.0 * np.exp(-t / 20))[rows] * (1 + 0.27 * heat(lr)[rows]) * np.exp(e)
            events = (Event("resume", "resume", ORIGIN, at),) if not back else ()
            made = run(steps, {"loss": loss, "lr": lr[rows]}, events=events)
            sure = {f.kind for f in scan(made, ["resume"])[0].findings if f.confidence >= 0.7}
            assert not sure & {"repeated-samples", "to-initial"} and (not back or "jump" not in sure), (back, at, seed)


def test_a_climb_that_begins_where_the_run_was_resumed_is_dated_there(tmp_path: Path) -> None:
    climb = np.where(LATE, 0.002 * (T - AT), 0.0)
    found = look(files(tmp_path, level(T) + climb + noise(), lr=cosine(T)), BOOK)
    assert found.verdict == "incident"
    assert states(found)["change-point"].state == "resume" and states(found)["begins-at-resume"].state == "yes"


@pytest.mark.parametrize("warm", [1, 3])
def test_a_warm_up_of_few_rows_that_begins_again_explains_no_jump(warm: int) -> None:
    """The loss jumps in the row in which the rate is thrown down: what rises behind it did not lift it."""
    t = np.arange(1, 121)
    late = t > 60
    x = np.where(late, t - 60, t)
    lr = PEAK * np.clip(x / warm, 0, 1) * 0.5 * (1 + np.cos(np.pi * np.clip(x / 140, 0, 1)))
    loss = 2.2 + 6 * np.exp(-t / 8) + np.where(late, 2.2 * np.exp(-(t - 60) / 10), 0)
    made = run(t * 100, {"loss": loss * np.exp(np.random.default_rng(0).normal(0, 0.01, 120)), "lr": lr})
    found = look(made, BOOK)
    assert found.verdict == "incident" and found.symptom is not None
    assert (found.symptom.state, found.symptom.step) == ("resume-drift", 6100)


def test_a_jump_amid_a_fall_is_measured_against_its_noise() -> None:
    """The fall of the first rows is no noise: a run of a hundred rows shows the jump as well."""
    t = np.arange(1, 101)
    loss = (2.4 + 6 * np.exp(-t / 6) + np.where(t > 33, 1.4, 0)) * np.exp(np.random.default_rng(1).normal(0, 0.01, 100))
    assert resumed(loss, 33)["jump"] >= 0.7


# --- large inputs ---------------------------------------------------------------------------------------------------


def test_rates_of_several_groups_in_one_column_are_soon_known_for_no_course() -> None:
    t = np.arange(1_000_000)
    lr = np.where(t % 7 == 0, PEAK, 0.1 * PEAK) * (1 + t / len(t))
    begun = perf_counter()
    assert rate.begins_anew(fold(series("lr", t, lr))) == []
    assert perf_counter() - begun < 15  # each of them held against all rows before it takes a minute


def test_thousands_of_resume_events_are_soon_laid_beside_the_restarts() -> None:
    t = np.concatenate([np.arange(n, n + 12) for n in range(0, 200_000, 10)] + [np.arange(200_002, 200_020)])
    curve = fold(series("loss", t, 2 + np.random.default_rng(0).random(len(t))))
    found = [Segment(int(lo), int(hi), "resume", t[:0]) for lo, hi in pairwise([0, *curve.restarts, len(curve)])]
    # at a restart, beside one, far from all of them, beside another mark
    marks: dict[int, By] = dict.fromkeys(range(10, 200_000, 10), "event")
    marks |= {200_006: "file", 200_007: "rate"}
    begun = perf_counter()
    cut = _cut(found, curve, usable(curve), marks)
    assert perf_counter() - begun < 15
    assert [(int(curve.steps[seg.lo]), seg.by) for seg in cut if seg.by != "steps"] == [(200_006, "file")]
