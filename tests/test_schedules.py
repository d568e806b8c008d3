"""Learning rates that go by plan are left alone; one that leaves its plan is told, with what to do, in every face."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from playbook import detectors
from playbook.faces.cli import run as command
from playbook.findings import Finding
from playbook.workflow.ingest import look
from tests import runs
from tests.lab import judge
from tests.tui_kit import LARGE, run, terminal

N = 2000
STEP = np.arange(N)
LIBRARY = judge.library()


def cosine(floor: float = 0.1, until: int = N, warm: int = 100) -> np.ndarray:
    part = np.clip((STEP - warm) / (until - warm), 0, 1)
    return 3e-4 * np.where(warm > STEP, (STEP + 1) / warm, floor + (1 - floor) * 0.5 * (1 + np.cos(np.pi * part)))


def linear(floor: float = 0.0, until: int = N, warm: int = 100) -> np.ndarray:
    down = np.clip((until - STEP) / (until - warm), 0, 1)
    return 3e-4 * np.where(warm > STEP, (STEP + 1) / warm, np.maximum(down, floor))


def leaves(lr: np.ndarray, every: int = 1) -> list[Finding]:
    loss = runs.descent(N) + np.random.default_rng(3).normal(0, 0.04, N)
    made = runs.run(STEP[::every], {"loss": loss[::every], "lr": lr[::every]})
    scan = next(scan for scan in detectors.scan(made) if scan.detector == "schedule")
    return [f for f in scan.findings if f.kind == "leaves"]


def plans() -> dict[str, np.ndarray]:
    found = {f"cosine to {f}, {w}": cosine(f, u, w) for f in (0.0, 0.1, 0.5) for u in (1200, N) for w in (1, 100)}
    found |= {f"linear to {f}, {u}": linear(f, u) for f in (0.0, 0.1, 0.3, 0.5) for u in (1200, N)}
    decay = np.maximum(1, STEP - 100)
    found |= {f"inverse root to {f}": 3e-4 * np.maximum(decay**-0.5, f) for f in (0.0, 0.04, 0.2)}
    found |= {f"exponential to {f}": 3e-4 * np.maximum(0.998**decay, f) for f in (0.0, 0.2, 0.5)}
    found |= {f"power {p} to {f}": 3e-4 * np.maximum((1 - STEP / N) ** p, f) for p in (0.9, 2.0) for f in (0.0, 0.2)}
    found["warm-up, stable, decay"] = 3e-4 * np.minimum(np.minimum(1, (STEP + 1) / 100), (N - STEP) / 400)
    found["decay, stable, decay"] = np.minimum(cosine(0.5, 800), 3e-4 * (N - STEP) / 800)
    found["staircase"] = 3e-4 * 0.5 ** (STEP // 300)
    found["by epoch"] = cosine()[STEP // 50 * 50]
    found["in few figures"] = np.array([float(f"{x:.1e}") for x in cosine()])
    found["in three figures"] = np.array([float(f"{x:.2e}") for x in linear()])
    found["constant"] = np.full(N, 1e-4)
    found["one cycle"] = 3e-4 * np.interp(STEP, [0, 600, 1800, N], [0.1, 1, 0.1, 0.001])
    return found


@pytest.mark.parametrize("every", [1, 10])
@pytest.mark.parametrize("lr", plans().values(), ids=plans())
def test_a_rate_that_goes_by_plan_is_left_alone(lr: np.ndarray, every: int) -> None:
    assert leaves(lr, every) == []


@pytest.mark.parametrize("every", [1, 10])
@pytest.mark.parametrize("plan", [cosine(), linear(), cosine(0.0)], ids=["cosine", "linear", "to nothing"])
@pytest.mark.parametrize("long", [200, 500])
def test_a_scheduler_that_stands_still_within_its_decay_is_told(plan: np.ndarray, long: int, every: int) -> None:
    held = np.concatenate([plan[:900], np.full(long, plan[900]), plan[900 : N - long]])
    (one,) = leaves(held, every)
    assert one.step is not None and abs(one.step - 900) <= every


def test_a_fall_that_stops_half_way_for_good_is_told() -> None:
    (one,) = leaves(np.where(STEP < 1100, cosine(), cosine()[1100]))
    assert one.step == 1100 or one.step == 1099


def test_what_is_noted_beside_a_healthy_loss_says_what_to_do(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rng = np.random.default_rng(4)
    lr = np.where(STEP < 1200, cosine(), 3e-4)
    loss = runs.descent(N) + rng.normal(0, 0.04, N)
    made = runs.run(STEP, {"loss": loss, "lr": lr})
    assert look(made, LIBRARY.book).verdict == "healthy"
    path = tmp_path / "run.csv"
    rows = [f"{step},{a:.4f},{b:.6g}\n" for step, a, b in zip(STEP, loss, lr, strict=True)]
    path.write_text("step,loss,lr\n" + "".join(rows))
    how = LIBRARY.book.signals["lr-leaves-schedule"].how
    for verb in (["diagnose", "--no-input"], ["ingest"]):
        assert command([*verb, str(path)]) == 0
        printed = " ".join(capsys.readouterr().out.split())
        assert "The learning rate leaves its schedule from step 1200: learning rate goes from" in printed
        assert f"how: {' '.join(how.split())}" in printed
        assert command([*verb, str(path), "--json"]) == 0
        (note,) = json.loads(capsys.readouterr().out)["notes"]
        assert (note["signal"], note["state"], note["step"], note["how"]) == ("lr-leaves-schedule", "yes", 1200, how)


def test_the_terminal_shows_what_is_noted() -> None:
    lr = np.where(STEP < 1200, cosine(), 3e-4)
    loss = runs.descent(N) + np.random.default_rng(4).normal(0, 0.04, N)
    found = look(runs.run(STEP, {"loss": loss, "lr": lr}), LIBRARY.book)

    async def walk() -> None:
        async with terminal(LARGE, open_book=lambda: LIBRARY, ingest=lambda paths, book, progress=None: found) as t:
            t.app.open_files(("run.csv",))
            await t.until(lambda: t.app.desk is not None)
            await t.settle()
            for said in ("The learning rate leaves its schedule from step ", "how: Compute the planned rate"):
                assert said in t.text

    run(walk())


def test_what_is_near_a_restart_tells_the_same_as_the_whole_run(monkeypatch: pytest.MonkeyPatch) -> None:
    starts = np.arange(0, 12_000, 300)
    steps = np.concatenate([np.arange(max(0, k - 40), k + 300) for k in starts.tolist()])
    lr = np.interp(steps, [0, 100, 12_300], [0.0, 3e-4, 3e-5])
    lr[9_000:] *= np.where(np.arange(len(lr) - 9_000) % 340 < 200, 1.0, 0.5)
    made = runs.run(steps, {"loss": 2.0 + 8.0 * np.exp(-steps / 500.0), "lr": lr})
    near = detectors.scan(made)
    monkeypatch.setattr("playbook.detectors.stats.curve._NEAR", ())
    assert near == detectors.scan(made)
    assert any(f.kind == "restored" for scan in near for f in scan.findings)
