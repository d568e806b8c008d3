"""Slow steps that come again: what they cost is told with their period, ordinary saves and evaluations are not."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from playbook.faces.cli import run as command
from playbook.findings import Evidence
from playbook.workflow.ingest import Ingested, look
from playbook.workflow.session import Session
from playbook.workflow.verdict import noted, what_to_do
from tests import runs
from tests.lab import judge

LIBRARY = judge.library()
N = 1200


def made(times: np.ndarray, every: int = 1, metric: str = "step_time") -> Ingested:
    rng = np.random.default_rng(8)
    loss = runs.descent(N) + rng.normal(0, 0.04, N)
    took = 0.5 * times * np.exp(rng.normal(0, 0.03, N))
    values = took if metric == "step_time" else 4096 / took
    return look(runs.run(np.arange(N) * every, {"loss": loss, metric: values}), LIBRARY.book)


def note(found: Ingested) -> Evidence | None:
    session = Session(LIBRARY.book, LIBRARY.tables)
    session.observe(found.evidence)
    return next(iter(noted(session)), None)


def slow(period: int, factor: float, begin: int = 0, width: int = 1) -> np.ndarray:
    rows = np.arange(N)
    return np.where((rows >= begin) & (rows % period < width) & (rows > 0), factor, 1.0)


@pytest.mark.parametrize("metric", ["step_time", "throughput"])
@pytest.mark.parametrize(("period", "factor", "width"), [(10, 21, 1), (50, 101, 1), (100, 60, 2), (8, 5, 1)])
def test_pauses_that_take_much_of_the_time_are_told(period: int, factor: float, width: int, metric: str) -> None:
    found = made(slow(period, factor, width=width), metric=metric)
    assert found.verdict == "healthy"
    said = note(found)
    share = width * (factor - 1) / (width * (factor - 1) + period)
    assert said is not None and said.signal == "throughput" and f"every {period} steps" in said.because
    told = float(said.because.split(": ")[-1].split("%")[0]) / 100
    assert abs(told - share) < 0.03
    session = Session(LIBRARY.book, LIBRARY.tables)
    assert what_to_do(session, said).startswith("see what runs at that distance")


@pytest.mark.parametrize("every", [1, 10])
@pytest.mark.parametrize(("period", "factor"), [(100, 20), (50, 10), (500, 200), (10, 3), (4, 2.2)])
def test_ordinary_pauses_are_not_told(period: int, factor: float, every: int) -> None:
    found = made(slow(period, factor), every)
    assert found.verdict == "healthy" and note(found) is None


def test_a_row_that_is_one_step_of_many_does_not_speak_for_all() -> None:
    """An evaluation of 30 steps each 2,000, logged each tenth step as one slow row in 200."""
    assert note(made(slow(200, 101), every=100)) is None


@pytest.mark.parametrize("period", [5, 20])
def test_stalls_that_set_in_and_triple_the_time_are_a_drop(period: int) -> None:
    found = made(slow(period, 1 + 2 * period, begin=600))
    shape = next(e for e in found.evidence if e.signal == "loss-shape")
    assert (found.verdict, shape.state) == ("incident", "throughput-drop")
    assert shape.step is not None and 580 <= shape.step <= 620


def test_evaluations_that_set_in_are_no_drop() -> None:
    assert made(slow(20, 11, begin=600)).verdict == "healthy"


def test_stalls_at_no_even_distance_are_told_too() -> None:
    rng = np.random.default_rng(2)
    times = np.where(rng.random(N) < 0.06, 15.0, 1.0)
    said = note(made(times))
    assert said is not None and "rows take" in said.because and "waiting for data" in said.remark


SHOWN = [("en", "of the time logged", "how: see"), ("zh", "记录的时间有", "看看")]


@pytest.mark.parametrize(("code", "text", "how"), SHOWN)
def test_they_are_told_in_every_face(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], code: str, text: str, how: str
) -> None:
    rng = np.random.default_rng(8)
    times = 0.5 * slow(10, 21) * np.exp(rng.normal(0, 0.03, N))
    loss = runs.descent(N) + rng.normal(0, 0.04, N)
    path = tmp_path / "run.csv"
    rows = [f"{k},{a:.4f},{b:.5f}\n" for k, (a, b) in enumerate(zip(loss, times, strict=True))]
    path.write_text("step,loss,step_time\n" + "".join(rows))
    assert command(["diagnose", "--no-input", str(path), "--lang", code]) == 0
    printed = capsys.readouterr().out
    assert text in "".join(printed.split("\n")) or text in " ".join(printed.split())
    assert how in " ".join(printed.split())
    assert command(["diagnose", "--no-input", str(path), "--json"]) == 0
    (told,) = json.loads(capsys.readouterr().out)["notes"]
    assert told["signal"] == "throughput" and told["state"] == "steady" and "rarer" in told["how"]
