"""Two runs side by side: aligned series, the noise of a curve, and how their configurations differ."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from playbook.engine.observe import flatten
from playbook.series import Series

# Parts of a configuration by how often a difference there explains a difference of the curves; the first that a name
# holds decides. What is not listed comes last. Names are matched as parts of the dotted key.
RELEVANCE: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("precision", ("fp16", "bf16", "fp8", "precision", "dtype", "autocast", "loss_scale", "amp")),
    ("learning rate", ("learning_rate", "lr", "warmup", "schedule", "decay_steps", "max_steps", "min_lr")),
    ("batch", ("batch", "accumulation", "world_size", "num_gpus", "micro")),
    ("optimizer", ("optim", "beta", "eps", "weight_decay", "momentum", "clip", "grad_norm")),
    ("parallelism", ("parallel", "zero", "fsdp", "shard", "pipeline", "tensor")),
    ("data", ("data", "seed", "shuffle", "tokenizer", "sequence", "seq_len", "max_length", "packing", "split")),
    ("model", ("layers", "hidden", "heads", "init", "norm", "dropout", "attention", "vocab", "model")),
    ("kernels and releases", ("flash", "fused", "compile", "kernel", "version", "cuda", "nccl", "checkpointing")),
)
_IGNORED = ("path", "dir", "output", "name", "time", "date", "host", "wandb", "log_", "report", "run_id")


@dataclass(frozen=True, slots=True)
class ConfigDifference:
    """One setting that differs; `relevance` counts from 0 (most likely to matter)."""

    key: str
    reference: Any
    run: Any
    area: str
    relevance: int


def config_differences(reference: Mapping[str, Any], run: Mapping[str, Any]) -> list[ConfigDifference]:
    """Settings that differ, those that most often explain a departure first."""
    a, b = flatten(reference), flatten(run)
    found = []
    for key in sorted(set(a) | set(b)):
        if _same(a.get(key), b.get(key)) or (not a or not b):
            continue
        place, area = _area(key)
        found.append(ConfigDifference(key, a.get(key), b.get(key), area, place))
    return sorted(found, key=lambda d: (d.relevance, d.key))


def _same(a: Any, b: Any) -> bool:
    if a == b or str(a).strip().lower() == str(b).strip().lower():
        return True
    try:
        return float(a) == float(b)
    except (TypeError, ValueError):
        return False


def _area(key: str) -> tuple[int, str]:
    if not any(word in key for word in _IGNORED):
        for place, (area, words) in enumerate(RELEVANCE):
            if any(word in key for word in words):
                return place, area
    return len(RELEVANCE), "other"


def clean(series: Series | None) -> tuple[np.ndarray, np.ndarray]:
    """(steps, values) of the finite points; of a step that was logged twice the last value; sorted by step."""
    if series is None:
        return np.empty(0, np.int64), np.empty(0)
    steps, values = series.steps[series.finite], series.values[series.finite]
    _, first_of_reversed = np.unique(steps[::-1], return_index=True)
    keep = len(steps) - 1 - first_of_reversed
    return steps[keep], values[keep]


def aligned(a: Series | None, b: Series | None) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(steps, values of a, values of b) at the steps that both logged."""
    (sa, va), (sb, vb) = clean(a), clean(b)
    steps, ia, ib = np.intersect1d(sa, sb, assume_unique=True, return_indices=True)
    return steps, va[ia], vb[ib]


def noise(values: np.ndarray) -> float:
    """Standard deviation of the step-to-step noise: 1.4826 x MAD of the differences / sqrt(2); 0 for under 3 points."""
    if len(values) < 3:
        return 0.0
    differences = np.diff(values)
    return float(1.4826 * np.median(np.abs(differences - np.median(differences))) / np.sqrt(2))
