"""How two configurations differ: the settings, those that most often explain a departure of the curves first."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from playbook.engine.observe import flatten
from playbook.readers.base import same_value

# Parts of a configuration by how often a difference there explains a difference of the curves; the first that a name
# holds decides, what is not listed comes last. A word is a part of the dotted key between dots and underscores, or
# several in a row; one that ends in * begins a part. So `sampler` is no `amp`, `max_steps` no `eps`.
RELEVANCE: tuple[tuple[str, tuple[str, ...]], ...] = tuple(
    (area, tuple(words.split()))
    for area, words in {
        "precision": "fp16 bf16 fp8 fp32 tf32 precision dtype autocast loss_scale amp scaler half mixed*",
        "learning rate": "learning_rate lr warmup* schedul* decay_steps decay_iters max_steps train_iters total_steps "
        "num_train_epochs num_epochs epochs min_lr lr_*",
        "batch": "batch* bsz gbs mbs accum* grad_accum* gradient_accumulation* world_size num_gpus gpus nodes "
        "nnodes micro*",
        "optimizer": "optim optimizer* beta* adam* eps epsilon weight_decay wd momentum clip* max_grad_norm grad_norm "
        "gradient_clip* ema*",
        "parallelism": "parallel* zero* fsdp* shard* pipeline* tensor* tp pp dp cp ep ddp* deepspeed*",
        "data": "data* seed* shuffle* tokenizer* sequence* seq* max_length pack* split* mixture* block_size "
        "context_length mask*",
        "model": "model* layers n_layer* num_layers hidden* heads n_head* d_model n_embd init* norm* layernorm* "
        "rmsnorm* lora* loss* dropout* attention* attn* vocab* rope* activation* tie* width depth",
        "kernels and releases": "flash* fused* compile* kernel* version cuda* nccl* torch* transformers* checkpointing "
        "recompute* deterministic*",
    }.items()
)
# Where things are and what they are called explains no curve, unless it is the name of the model or of the data.
IGNORED = (
    "dir", "path", "file", "files", "output*", "run_name", "run_id", "name", "time", "date", "host*", "wandb*", "log*",
    "report*", "user", "port", "timestamp", "project", "entity", "tags", "notes", "save*", "eval_steps",
    "eval_interval",
)  # fmt: skip
CHOSEN_BY_NAME = frozenset({"model", "dataset", "data", "tokenizer", "train"})


@dataclass(frozen=True, slots=True)
class ConfigDifference:
    """One setting that differs; `relevance` counts from 0 (most likely to matter)."""

    key: str
    reference: Any
    run: Any
    area: str
    relevance: int


def config_differences(
    reference: Mapping[str, Any], run: Mapping[str, Any], first_area: str | None = None
) -> list[ConfigDifference]:
    """Settings that differ, those that most often explain a departure first; those of `first_area` before all others.

    In one area a value that changed comes before one that only one of the two configurations says.
    """
    a, b = flatten(reference), flatten(run)
    if not a or not b:
        return []
    keys = [key for key in sorted(set(a) | set(b)) if not same_value(a.get(key), b.get(key))]
    found = [ConfigDifference(key, a.get(key), b.get(key), *_area(key)) for key in keys]
    return sorted(found, key=lambda d: (d.area != first_area, d.relevance, d.reference is None or d.run is None, d.key))


def _area(key: str) -> tuple[str, int]:
    """The part of a configuration that a key belongs to, and its place in `RELEVANCE`."""
    parts = [part for part in re.split(r"[._]+", key) if part]
    named = _holds(parts, IGNORED) and not CHOSEN_BY_NAME & set(parts)
    if not named:
        for place, (area, words) in enumerate(RELEVANCE):
            if _holds(parts, words):
                return area, place
    return "other", len(RELEVANCE)


def _holds(parts: list[str], words: tuple[str, ...]) -> bool:
    """Whether one of the words stands among the parts of a key."""
    for word in words:
        wanted = word.rstrip("*").split("_")
        wanted = wanted[:-1] if not wanted[-1] else wanted
        for start in range(len(parts) - len(wanted) + 1):
            got = parts[start : start + len(wanted)]
            if got[:-1] != wanted[:-1]:
                continue
            if got[-1] == wanted[-1] or (word.endswith("*") and got[-1].startswith(wanted[-1])):
                return True
    return False
