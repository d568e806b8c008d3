"""What makes a run slow, by the times and the utilisation that its files hold: the input, one rank, or the GPUs."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from playbook import readers
from playbook.engine.diagnosis import Ranked
from playbook.readers.names import canonical
from playbook.workflow.ingest import Ingested, look
from playbook.workflow.session import Session
from tests.lab import judge

LIBRARY = judge.library()
T = np.arange(10, 4010, 10)
LATE = T > 2000
RNG = np.random.default_rng(4)
LOSS = 2.1 + 8.7 * np.exp(-T / 120) + RNG.normal(0, 0.02, len(T))
COMPUTE = 0.82 + RNG.normal(0, 0.01, len(T))
WAIT = np.where(LATE, 1.4 + RNG.normal(0, 0.3, len(T)), 0.02 + np.abs(RNG.normal(0, 0.004, len(T)))).clip(0.01)


def table(path: Path, **columns: np.ndarray) -> Path:
    columns = {"step": T, "loss": LOSS, **columns}
    rows = zip(*columns.values(), strict=True)
    text = "\n".join(",".join(f"{x:.8g}" for x in row) for row in rows)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(",".join(columns) + "\n" + text + "\n", encoding="utf-8")
    return path


def judged(path: Path) -> tuple[Ingested, Ranked | None]:
    found = look(readers.read([path]), LIBRARY.book)
    session = Session(LIBRARY.book, LIBRARY.tables)
    session.observe(found.evidence)
    return found, next(iter(session.diagnosis(explained=False).causes), None)


def states(found: Ingested) -> dict[str, str]:
    return {e.signal: e.state for e in found.evidence}


NAMES = {
    "data_time": (
        "data_time_s",
        "data_time_ms",
        "dataloader_time",
        "train/data_loading_time",
        "input_wait",
        "loader_time_s",
    ),
    "compute_time": ("compute_time", "forward_time", "fwd_time_ms", "timing/forward_backward_time", "backward_time_s"),
    "step_time": ("step_time_s", "iteration_time_seconds", "train/step_time_ms"),
}


def test_times_are_known_by_many_names() -> None:
    for metric, raws in NAMES.items():
        assert {raw: canonical([raw], {}).get(raw) for raw in raws} == dict.fromkeys(raws, metric)
    assert canonical(["eval_data_time", "time_to_first_token", "eval/forward_time"], {}) == {}


@pytest.mark.parametrize(
    "columns",
    [
        {"step_time_s": COMPUTE + WAIT, "data_time_s": WAIT, "gpu_util": 100 * COMPUTE / (COMPUTE + WAIT)},
        {"step_time": COMPUTE + WAIT, "dataloader_time_ms": 1000 * WAIT},
        {"tokens_per_sec": 2.6e5 / (COMPUTE + WAIT), "data_time": WAIT},
        {"tokens_per_sec": 2.6e5 / (COMPUTE + WAIT), "gpu_util": COMPUTE / (COMPUTE + WAIT)},
    ],
    ids=["all", "other units", "no step time", "utilisation alone"],
)
def test_a_run_that_waits_for_its_input_is_not_hot(columns: dict[str, np.ndarray], tmp_path: Path) -> None:
    found, first = judged(table(tmp_path / "run.csv", **columns))
    assert found.verdict == "incident" and states(found)["loss-shape"] == "throughput-drop"
    assert first is not None and first.class_ == "host_or_input_stall"


def test_no_worker_is_weak_evidence_and_only_where_the_gpus_wait(tmp_path: Path) -> None:
    speed = 2.6e5 / (COMPUTE + WAIT)
    for name, util, seen in (("a", 100 * COMPUTE / (COMPUTE + WAIT), "high"), ("b", np.full(len(T), 98.0), None)):
        table(tmp_path / name / "run.csv", tokens_per_sec=speed, gpu_util=util)
        (tmp_path / name / "config.yaml").write_text("num_workers: 0\nlearning_rate: 3.0e-4\n", encoding="utf-8")
        found, _ = judged(tmp_path / name)
        assert states(found).get("dataloader-wait") == seen
        assert states(found)["gpu-utilisation"] == ("all-idle" if seen else "all-busy")


@pytest.mark.parametrize("name", ["compute_time", "forward_time_ms"])
@pytest.mark.parametrize("slow", [6, None])
def test_one_slow_rank_shows_in_its_own_time(name: str, slow: int | None, tmp_path: Path) -> None:
    """The time of a step is the same on all ranks: the fast ones wait."""
    rng = np.random.default_rng(1)
    for rank in range(8):
        own = np.where(LATE & (rank == slow), 1.5, 0.8) + rng.normal(0, 0.01, len(T))
        step = np.where(LATE & (slow is not None), 1.7, 1.0) + rng.normal(0, 0.01, len(T))
        table(tmp_path / f"rank{rank}.csv", **{name: own * (1000 if name.endswith("ms") else 1), "step_time": step})
    found, first = judged(tmp_path)
    assert found.verdict == ("healthy" if slow is None else "incident")
    assert states(found)["slow-rank"] == ("none" if slow is None else "one-slow")
    assert (first.class_ if first is not None else None) == (None if slow is None else "slow_or_hot_gpu")


def test_a_rank_that_became_slow_in_the_middle_of_a_short_log_is_found(tmp_path: Path) -> None:
    rng = np.random.default_rng(5)
    for rank in range(8):
        own = np.where((T[:80] > 450) & (rank == 2), 1.5, 0.8) + rng.normal(0, 0.01, 80)
        rows = "".join(f"{t},{3 - t / 1e3},{x:.4f}\n" for t, x in zip(T[:80], own, strict=True))
        (tmp_path / f"rank{rank}.csv").write_text("step,loss,step_time\n" + rows, encoding="utf-8")
    found, _ = judged(tmp_path)
    assert [(e.state, e.rank) for e in found.evidence if e.signal == "slow-rank"] == [("one-slow", 2)]


def test_what_a_step_does_not_notice_and_unequal_stages_are_no_incident(tmp_path: Path) -> None:
    rng = np.random.default_rng(2)
    for rank in range(8):
        own = (0.8 if rank < 7 else 1.1) + rng.normal(0, 0.01, len(T))  # the last stage has the head of the model
        waits = (0.02 if rank else 0.05) + np.abs(rng.normal(0, 0.001, len(T)))  # rank 0 reads for the others
        step = 1.2 + rng.normal(0, 0.01, len(T))
        table(tmp_path / f"rank{rank}.csv", compute_time=own, data_time=waits, step_time=step)
    assert judged(tmp_path)[0].verdict == "healthy"


def test_utilisation_that_only_swings_is_no_waiting(tmp_path: Path) -> None:
    rng = np.random.default_rng(3)
    for name, util in (
        ("noise", rng.uniform(70, 100, len(T))),
        ("pauses", np.where(np.arange(len(T)) % 20 < 3, 0.0, 97.0)),
    ):
        found, _ = judged(table(tmp_path / f"{name}.csv", step_time=COMPUTE, gpu_util=util))
        assert found.verdict == "healthy" and "gpu-utilisation" not in states(found)


@pytest.mark.parametrize("unit", [1.0, 100.0], ids=["share", "per cent"])
def test_gpus_that_do_next_to_nothing_are_idle_in_either_unit(unit: float, tmp_path: Path) -> None:
    """One per cent is no share of 1: the unit is told by the rows in which they worked."""
    util = unit * np.where(LATE, 0.01, 0.97 + 0.01 * RNG.random(len(T)))
    speed = 2.6e5 * np.where(LATE, 0.1, 1.0) * np.exp(RNG.normal(0, 0.01, len(T)))
    found, _ = judged(table(tmp_path / "run.csv", tokens_per_sec=speed, gpu_util=util))
    assert states(found)["gpu-utilisation"] == "all-idle"
    for rank in range(4):
        table(tmp_path / "ranks" / f"rank{rank}.csv", tokens_per_sec=speed, gpu_util=util * (rank != 2))
    assert "one-idle" not in {
        f.kind for f in next(s for s in judged(tmp_path / "ranks")[0].scans if s.detector == "gpu").findings
    }
