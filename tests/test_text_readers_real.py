"""Text and system files of a collection of real runs against what is known about them (`PLAYBOOK_REAL`)."""

from __future__ import annotations

import json
import os
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from playbook.readers import claim
from playbook.readers.base import RunBuilder
from playbook.readers.source import Source

REAL = Path(os.environ.get("PLAYBOOK_REAL", Path(__file__).parents[2] / "shared" / "real"))
pytestmark = pytest.mark.skipif(not (REAL / "truth.json").is_file(), reason="no collection of real runs here")

# run -> (reader, raw name of the main metric or None)
RUNS: dict[str, tuple[str, str | None]] = {
    "meg-ds-3d-off": ("megatron", "lm loss"),
    "fairseq-w2v2-overflow": ("fairseq", "train_loss"),
    "fairseq-moe-oom-multirank": ("fairseq", None),
    "ds-chat-step1-sft": ("deepspeed", None),
    "ds-chat-step2-reward": ("deepspeed", None),
    "ds-zero3-amd": ("deepspeed", "Loss"),
    "olmo-20m-dead-gradient": ("olmo", "train/CrossEntropyLoss"),
    "olmo-1b-anneal": ("olmo", "train/CrossEntropyLoss"),
    "nanogpt-seedpair-b": ("nanogpt", "train_loss"),
    "nanogpt-30runs-one-file": ("nanogpt", "val_loss"),
    "pgolf-naive-baseline": ("nanogpt", "train_loss"),
    "yarn-one-train-spike": ("nanogpt", "train_loss"),
    "buildnanogpt-log": ("nanogpt", None),
    "minimind-pretrain": ("text_log", "loss"),
    "d2-log-lr020": ("mm_text", "total_loss"),
    "mmengine-log-gbk": ("mm_text", "loss"),
    "mmcls-imagenet-log": ("mm_text", "loss"),
    "wordlm-nan-from-start": ("text_log", None),
    "mlperf-gnmt-dgx2": ("text_log", "Loss/tok"),
    "tse-speech-nul-resumes": ("text_log", None),
    "mamba-nan0-counter": ("text_log", None),
    "wandb-output-cuda-assert": ("text_log", None),
    "sys-nvsmi-q-8xa100": ("nvidia_smi_q", None),
    "sys-dmesg-xid13-oom-iso": ("kernel_log", None),
    "sys-kmsg-raw": ("kernel_log", None),
    "sys-pstore-dmesg": ("kernel_log", None),
    "sys-fabricmanager": ("fabric_manager", None),
    "sys-nccl-healthy": ("nccl_log", None),
    "sys-nccl-fault-sim": ("nccl_log", None),
}
_READ: dict[str, RunBuilder] = {}


def truth(name: str) -> dict[str, Any]:
    return next(entry for entry in json.loads((REAL / "truth.json").read_text("utf-8")) if entry["name"] == name)


def built(name: str) -> RunBuilder:
    if name not in _READ:
        path = next((REAL / name).iterdir())
        source = Source(path, path.name)
        reader = claim(source.head(), path)
        assert reader is not None and RUNS[name][0] == reader.NAME, reader and reader.NAME
        _READ[name] = RunBuilder(path.name, reader.NAME)
        reader.read(source, _READ[name])
    return _READ[name]


def raw(name: str, metric: str, rank: int | None = None) -> tuple[np.ndarray, np.ndarray]:
    """(steps, values) of a raw name in file order."""
    parts = [
        (steps, values) for found, owner, steps, values, _ in built(name)._columns if found == metric and owner == rank
    ]
    for (found, owner), (steps, values, _) in built(name)._points.items():
        if found == metric and owner == rank:
            parts.append((np.asarray(steps), np.asarray(values)))
    assert parts, (metric, sorted({column[0] for column in built(name)._columns}))
    return np.concatenate([p[0] for p in parts]), np.concatenate([p[1] for p in parts])


def kinds(name: str) -> Counter[str]:
    return Counter(event.kind for event in built(name).events)


@pytest.mark.parametrize("name", RUNS)
def test_claimed_by_its_reader_and_read(name: str) -> None:
    built(name)


@pytest.mark.parametrize("name", [name for name, (_, metric) in RUNS.items() if metric])
def test_main_metric(name: str) -> None:
    known = truth(name)["truth"]
    main = known["main"]
    steps, values = raw(name, RUNS[name][1] or "")
    assert len(values) == main["n"]
    for found, expected in (
        (values[0], main["first"]),
        (values[-1], main["last"]),
        (values.min(), main["min"]),
        (values.max(), main["max"]),
    ):
        assert found == pytest.approx(expected, rel=1e-5)
    assert np.isfinite(values).all()
    backward = int((np.diff(steps) < 0).sum())
    if name not in ("fairseq-w2v2-overflow",):
        assert backward == len(known["resume_steps"])


def test_megatron_gradient_and_counters() -> None:
    steps, values = raw("meg-ds-3d-off", "grad norm")
    assert (float(values.max()), int(steps[values.argmax()])) == (77.479, 3)
    assert raw("meg-ds-3d-off", "number of nan iterations")[1].max() == 0
    assert set(raw("meg-ds-3d-off", "loss scale")[1]) == {12.0}
    assert built("meg-ds-3d-off").config["tensor_model_parallel_size"] == 4
    assert "nan-line" not in kinds("meg-ds-3d-off")


def test_overflows_of_deepspeed() -> None:
    scale = raw("ds-chat-step1-sft", "loss_scale")[1]
    main = truth("ds-chat-step1-sft")["truth"]["main"]
    assert kinds("ds-chat-step1-sft")["overflow-skip"] == 139
    assert (len(scale), scale[0], scale[-1], scale.min()) == (main["n"], main["first"], main["last"], main["min"])
    events = [
        event
        for event in built("ds-chat-step2-reward").events
        if event.kind == "overflow-skip" and "rom " in event.text
    ]
    assert len(events) == 20  # each told by 16 ranks and three times by one
    scale = raw("ds-chat-step2-reward", "loss_scale")[1]
    assert (scale[0], scale.min()) == (32768.0, 8.0)
    assert raw("ds-chat-step2-reward", "skipped")[1][-1] == 20


def test_two_ranks_without_labels_are_told() -> None:
    assert [problem.code for problem in built("ds-zero3-amd").problems] == ["unlabelled-ranks"]


def test_fairseq_scale_and_memory() -> None:
    assert kinds("fairseq-w2v2-overflow")["overflow-skip"] == 19
    steps, _values = raw("fairseq-w2v2-overflow", "train_loss")
    assert (int(steps[0]), int(steps[-1])) == (479, 4791)
    assert kinds("fairseq-moe-oom-multirank")["oom"] >= 2


def test_restarts_of_appended_tries() -> None:
    steps, values = raw("buildnanogpt-log", "train_loss")
    back = np.flatnonzero(np.diff(steps) < 0) + 1
    assert [int(steps[at]) for at in back] == truth("buildnanogpt-log")["truth"]["resume_steps"]
    assert (values[0], values[-1], values.min(), values.max()) == (2.776329, 2.905877, 1.067127, 3.542893)


def test_nan_from_the_first_row() -> None:
    known = truth("wordlm-nan-from-start")["truth"]["nan_metrics"]
    for metric in ("loss", "ppl", "valid loss"):
        _steps, values = raw("wordlm-nan-from-start", metric)
        assert np.isnan(values).all() and len(values) == known[metric]["count"]
    assert int(raw("wordlm-nan-from-start", "loss")[0][0]) == known["loss"]["first_step"]
    assert (np.diff(raw("wordlm-nan-from-start", "loss")[0]) > 0).all()


def test_overflows_of_gnmt_are_one_a_step_and_not_one_a_rank() -> None:
    assert kinds("mlperf-gnmt-dgx2")["overflow-skip"] == 44
    assert (np.diff(raw("mlperf-gnmt-dgx2", "Loss/tok")[0]) >= 0).all()


def test_speech_run_with_negative_loss() -> None:
    _steps, values = raw("tse-speech-nul-resumes", "loss_G")
    main = truth("tse-speech-nul-resumes")["truth"]["main"]
    assert (values[0], values[-1], values.min(), values.max()) == (
        main["first"],
        main["last"],
        main["min"],
        main["max"],
    )
    assert kinds("tse-speech-nul-resumes")["segfault"] >= 1
    resumed = [
        event.step for event in built("tse-speech-nul-resumes").events if event.text.startswith("Resumed at step")
    ]
    assert resumed[:3] == [705000, 705000, 710000] and resumed[-1] == 1225000
    assert np.isnan(raw("tse-speech-nul-resumes", "loss_G")[1]).sum() == 0


def test_a_counter_of_nans_is_no_nan() -> None:
    steps, values = raw("mamba-nan0-counter", "loss")
    main = truth("mamba-nan0-counter")["truth"]["main"]
    assert (len(values), values[0], values[-1], values.min()) == (100, main["first"], main["last"], main["min"])
    assert steps.tolist() == list(range(1, 101))
    assert not built("mamba-nan0-counter").events


def test_crash_tails() -> None:
    assert kinds("wandb-output-cuda-assert") == {"cuda-error": 3}
    for name in ("olmo-20m-dead-gradient", "olmo-1b-anneal"):  # the launcher's traceback is no cause
        assert kinds(name)["killed"] == 1 and "traceback" not in kinds(name)
    assert not [kind for kind in kinds("pgolf-naive-baseline") if kind in ("nccl", "traceback", "killed")]


def test_dead_gradient() -> None:
    assert not raw("olmo-20m-dead-gradient", "optim/total_grad_norm")[1].any()


def test_kernel_logs() -> None:
    assert kinds("sys-dmesg-xid13-oom-iso") == {"xid": 17, "oom-killer": 7}
    assert not built("sys-kmsg-raw").events
    assert [event.origin.line for event in built("sys-pstore-dmesg").events if event.kind == "panic"] == [383]


def test_fabric_manager() -> None:
    (event,) = built("sys-fabricmanager").events
    assert "12028" in event.text and event.origin.line == 100


def test_the_gpu_that_waits_for_nobody() -> None:
    util = [float(raw("sys-nvsmi-q-8xa100", "gpu_util", gpu)[1][0]) for gpu in range(8)]
    assert util == [0.0] + [100.0] * 7
    assert not built("sys-nvsmi-q-8xa100").events


def test_bus_bandwidth_and_channels() -> None:
    assert raw("sys-nccl-healthy", "nccl_busbw_average")[1][0] == pytest.approx(178.078)
    assert raw("sys-nccl-fault-sim", "nccl_busbw_average")[1][0] == pytest.approx(28.2632)
    assert built("sys-nccl-healthy").config["nccl_channels_p2p"] == 48
    assert built("sys-nccl-fault-sim").config["nccl_channels_p2p"] == 4
    assert kinds("sys-nccl-fault-sim") == {"nccl-test": 1}
