"""The monitor inside a training: cheap, silent while all is well, loud once when not, and never in the way."""

from __future__ import annotations

import importlib
import json
import logging
import math
import os
import subprocess
import sys
import time
import types
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import playbook
from playbook import readers
from playbook.incidents.captured import read as read_capture
from playbook.monitor import Monitor, core
from playbook.monitor.inline import Inline
from playbook.monitor.look import Looker
from tests import live_kit as kit
from tests.test_watch import Hook, served


def trained(monitor: Monitor, losses: np.ndarray, **more: Any) -> None:
    for step, loss in enumerate(losses, 1):
        monitor.log(step, loss=float(loss), lr=3e-4, **more)


def test_a_healthy_run_is_silent_and_written_down(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with Monitor(tmp_path / "run", config={"bf16": True}) as monitor:
        trained(monitor, kit.losses(400))
    assert monitor.incident is None and not monitor.captures and not caplog.records
    run = readers.read(tmp_path / "run")
    assert run.series["loss", None].steps.tolist() == list(range(1, 401))
    seen = monitor.run()
    assert (
        seen is not None
        and seen.config == {"bf16": True}
        and np.array_equal(seen.series["loss", None].values, run.series["loss", None].values)
    )


def test_a_nan_alarms_once_and_its_batch_is_kept(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    values = kit.losses(300)
    values[200:] = np.nan
    alerts: list[dict[str, Any]] = []
    with Monitor(tmp_path, on_incident=alerts.append) as monitor:
        for step, loss in enumerate(values, 1):
            monitor.log(
                step, {"train/loss": float(loss)}, batch={"ids": np.full((2, 3), step)}, sample_ids=[step, -step]
            )
    assert len(alerts) == 1 and monitor.incident is alerts[0]
    assert alerts[0]["symptom"]["id"] == "instant-nan" and alerts[0]["symptom"]["onset_step"] == 201
    assert alerts[0]["first_aid"] and alerts[0]["causes"] and json.dumps(alerts[0])
    assert len(monitor.captures) == 3 and alerts[0]["captures"]
    kept = read_capture(monitor.captures[0])
    assert "201" in monitor.captures[0].name and kept
    assert np.load(monitor.captures[0] / "batch.npz")["ids"].tolist() == [[201] * 3] * 2
    assert [r.levelno for r in caplog.records].count(logging.ERROR) == 1


def test_a_bad_step_is_looked_at_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(core, "LOOK", 3600.0)  # no look comes by itself any more
    monitor = Monitor(tmp_path)
    trained(monitor, kit.losses(100))
    time.sleep(1.5)
    monitor.log(101, loss=math.nan)
    for _ in range(200):
        if monitor.incident is not None:
            break
        time.sleep(0.05)
    assert monitor.incident is not None
    monitor.close()


def test_what_a_step_is_kept_for() -> None:
    inline = Inline()
    assert [inline.look("loss", v) for v in kit.losses(300).tolist()] == [""] * 300
    assert inline.look("loss", 9.0).startswith("loss jumps from 2")
    assert inline.look("loss", 9.0) == ""  # one reason for one jump
    assert inline.look("loss", math.inf) == "non-finite loss"
    assert inline.look("val/loss", math.nan) == "" and inline.look("loss_scale", math.inf) == ""
    # an overflow of fp16 is skipped and no fault; two in a row may be one
    answers = [inline.look("grad_norm", v) for v in (1.0, math.inf, 1.0, math.nan, math.nan, math.nan)]
    assert answers == ["", "", "", "", "non-finite gradient norm twice in a row", ""]


def test_first_steps_and_noise_keep_nothing() -> None:
    inline = Inline()
    assert not any(inline.look("loss", v) for v in [2.0, 8.0, 30.0, 11.0, 9.0] + [8.0] * 40)
    rng = np.random.default_rng(0)
    heavy = Inline()
    assert sum(bool(heavy.look("loss", v)) for v in (2.0 + rng.gamma(2.0, 0.3, 5_000)).tolist()) == 0


class Awkward:
    """Something that breaks whoever touches it."""

    def __float__(self) -> float:
        raise RuntimeError("CUDA error: device-side assert triggered")

    def __getattr__(self, name: str) -> Any:
        raise RuntimeError(name)


@pytest.mark.parametrize(
    "call",
    [
        lambda m: m.log("not a step", loss=1.0),
        lambda m: m.log(3, loss=Awkward()),
        lambda m: m.log(4, loss="2.0", other=None, text=b"x", many=[1, 2], huge=10**400),
        lambda m: m.log(5, 17),
        lambda m: m.log(6, {1: 2.0, "loss": math.nan}, batch=Awkward(), sample_ids=Awkward()),
        lambda m: m.log(7, {"loss": math.nan}, batch={"x": Awkward()}),
        lambda m: m.configure(3),
    ],
)
def test_nothing_raises(call: Any, tmp_path: Path) -> None:
    monitor = Monitor(tmp_path, model=Awkward(), optimizer=Awkward())
    with _quiet():
        call(monitor)
        trained(monitor, kit.losses(50))
        monitor.close()
        monitor.close()
    assert len(readers.read(tmp_path / "metrics.jsonl").series["loss", None]) >= 50


def _quiet() -> Any:
    import warnings

    return warnings.catch_warnings(action="ignore")


def test_wrong_options_are_told_and_stop_nothing(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / "file").write_text("in the way")

    def broken(alert: dict[str, Any]) -> None:
        raise ValueError("my pager is broken")

    values = kit.losses(200)
    values[100:] = np.nan
    with _quiet(), Monitor(tmp_path / "file", command="nosuchprogram", config=3, on_incident=broken) as monitor:  # type: ignore[arg-type]
        trained(monitor, values, batch=[1.0])
    told = " ".join(r.getMessage() for r in caplog.records)
    assert "no such program" in told or "did not start" in told
    with _quiet(), Monitor(tmp_path / "file", command="nosuchprogram", on_incident=broken) as monitor:
        trained(monitor, values, batch=[1.0])
    told = " ".join(r.getMessage() for r in caplog.records)
    assert "no such program" in told and "my pager is broken" in told and monitor.incident is not None


def test_other_ranks_keep_batches_and_stay_silent(tmp_path: Path) -> None:
    values = kit.losses(150)
    values[100:] = np.nan
    with Monitor(tmp_path, rank=3) as monitor:
        trained(monitor, values)
    assert monitor.incident is None and len(monitor.captures) == 3
    assert (tmp_path / "metrics.rank3.jsonl").is_file()
    with Monitor(tmp_path, rank=3, everywhere=True) as monitor:
        trained(monitor, values)
    assert monitor.incident is not None and monitor.incident["rank"] == 3


def test_an_alert_is_posted() -> None:
    values = kit.losses(150)
    values[100:] = np.nan
    hook = Hook(200)
    with served(hook) as url, Monitor(webhook=url) as monitor:
        trained(monitor, values)
        monitor.close()
        assert [post["event"] for post in hook.posts] == ["incident"]


def test_memory_is_bounded(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    looker = Looker(1_024)
    for at in range(0, 50_000, 500):
        looker.take([(step, [("loss", 1.0), ("lr", 0.1)]) for step in range(at, at + 500)])
    assert all(len(track.steps) <= 1_024 for track in looker.history.tracks.values())
    monkeypatch.setattr(core, "BEHIND", 10)
    monkeypatch.setattr(core, "PAUSE", 30.0)
    with Monitor() as monitor:
        trained(monitor, kit.losses(200))
        assert len(monitor._pending) <= 10
    assert any("dropped" in record.getMessage() for record in caplog.records)


def test_a_step_costs_microseconds() -> None:
    monitor = Monitor()
    times = []
    for step, loss in enumerate(kit.losses(2_000), 1):
        begin = time.thread_time()
        monitor.log(step, loss=float(loss), grad_norm=1.0, lr=3e-4, throughput=1e5)
        times.append(time.thread_time() - begin)
    monitor.close()
    assert sorted(times)[len(times) // 2] < 250e-6  # half a percent of 50 ms; it takes some 50 us


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_a_forked_data_loader_is_no_trouble(tmp_path: Path) -> None:
    code = (
        "import os\nfrom playbook.monitor import Monitor\n"
        f"m = Monitor({str(tmp_path)!r})\nm.log(1, loss=2.0)\n"
        "child = os.fork()\n"
        "if child == 0:\n    m.log(2, loss=1.0); m.close(); os._exit(0)\n"
        "assert os.waitpid(child, 0)[1] == 0\n"
        "m.log(3, loss=1.5)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0 and done.stderr == ""
    steps = [json.loads(line)["step"] for line in (tmp_path / "metrics.jsonl").read_text().splitlines()]
    assert 1 in steps and 3 in steps  # also what was logged last before the interpreter ended


def test_training_code_loads_little() -> None:
    code = "import sys, playbook.monitor; print(*sorted({m.split('.')[0] for m in sys.modules}))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert not {"numpy", "yaml", "pydantic", "textual", "transformers", "lightning", "torch"} & set(done.stdout.split())
    assert playbook.monitor.Monitor is Monitor


# The callbacks, against modules of paper with the signatures of the real ones


@pytest.fixture
def paper(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    transformers = types.ModuleType("transformers")
    transformers.TrainerCallback = type("TrainerCallback", (), {})  # type: ignore[attr-defined]
    pytorch = types.ModuleType("pytorch_lightning")
    pytorch.Callback = type("Callback", (), {})  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "transformers", transformers)
    monkeypatch.setitem(sys.modules, "pytorch_lightning", pytorch)
    monkeypatch.setitem(sys.modules, "lightning", None)
    for name in ("hf", "lightning"):
        sys.modules.pop(f"playbook.monitor.{name}", None)
    yield
    for name in ("hf", "lightning"):
        sys.modules.pop(f"playbook.monitor.{name}", None)


def test_the_transformers_trainer(paper: None, tmp_path: Path) -> None:
    module = importlib.import_module("playbook.monitor.hf")
    callback = module.PlaybookCallback(tmp_path, stop=True)
    state = types.SimpleNamespace(is_world_process_zero=True, global_step=0)
    control = types.SimpleNamespace(should_training_stop=False)
    args = types.SimpleNamespace(to_dict=lambda: {"fp16": True, "learning_rate": 3e-4, "callbacks": [1]})
    model = types.SimpleNamespace(
        config=types.SimpleNamespace(vocab_size=32_000), named_parameters=lambda: iter(()), training=True, hooks=[]
    )
    model.register_forward_pre_hook = lambda hook, with_kwargs: model.hooks.append(hook) or model
    model.remove = model.hooks.clear
    callback.on_train_begin(args, state, control, model=model, optimizer=None)
    for state.global_step, loss in enumerate(kit.losses(120), 1):
        callback.on_log(args, state, control, {"loss": float(loss), "grad_norm": 1.0, "epoch": 0.1}, model=model)
    assert not control.should_training_stop
    callback.on_log(args, state, control, {"train_runtime": 3.0, "train_loss": 9.9})
    assert len(callback.monitor._pending) == 0 or callback.monitor._pending[-1][0] == 120
    state.global_step += 1
    model.hooks[0](model, (), {"input_ids": np.full((2, 3), 7)})
    model.training = False
    model.hooks[0](model, (), {"input_ids": np.full((2, 3), 8)})  # an evaluation is not the batch of the step
    callback.on_log(args, state, control, {"loss": math.nan})
    for _ in range(200):
        if callback.monitor.incident is not None:
            break
        time.sleep(0.05)
    callback.on_log(args, state, control, {"loss": math.nan})
    callback.on_train_end(args, state, control)
    assert control.should_training_stop and callback.monitor.incident["symptom"]["onset_step"] == 121
    kept = np.load(callback.monitor.captures[0] / "batch.npz")
    assert kept["input_ids"].tolist() == [[7] * 3] * 2 and not model.hooks
    run = callback.monitor.run()
    assert run.config == {"fp16": True, "learning_rate": 3e-4, "vocab_size": 32_000}
    assert 9.9 not in run.series["loss", None].values
    assert module.PlaybookCallback(tmp_path).on_log(args, state, control, {"loss": 1.0}) is None  # before the beginning


def test_lightning(paper: None, tmp_path: Path) -> None:
    module = importlib.import_module("playbook.monitor.lightning")
    callback = module.PlaybookCallback(tmp_path, every=2, stop=True)
    trainer = types.SimpleNamespace(
        global_rank=0,
        precision="bf16-mixed",
        global_step=0,
        log_every_n_steps=50,
        callback_metrics={},
        should_stop=False,
    )
    net = types.SimpleNamespace(hparams={"lr": 0.1, "layers": [1]}, named_parameters=lambda: iter(()))
    callback.on_train_start(trainer, net)
    values = kit.losses(240)
    values[200:] = np.nan
    for index, loss in enumerate(values, 1):
        trainer.global_step = index
        trainer.callback_metrics = {"train_loss": float(loss), "train_loss_epoch": 7.0} if index > 4 else {}
        callback.on_train_batch_end(trainer, net, {"loss": float(loss)}, {"x": np.ones(2)}, index)
    callback.on_train_end(trainer, net)
    run = callback.monitor.run()
    assert run.config == {"precision": "bf16-mixed", "lr": 0.1}
    assert callback.monitor.incident["symptom"]["id"] == "instant-nan" and len(callback.monitor.captures) == 3
    assert 7.0 not in run.series["loss", None].values


def test_without_the_framework_the_import_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("transformers", "lightning", "pytorch_lightning"):
        monkeypatch.setitem(sys.modules, name, None)
    for name in ("hf", "lightning"):
        sys.modules.pop(f"playbook.monitor.{name}", None)
        with pytest.raises(ImportError):
            importlib.import_module(f"playbook.monitor.{name}")
