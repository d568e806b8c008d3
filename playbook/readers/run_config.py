"""The configuration of a run: Hugging Face arguments, DeepSpeed JSON, torchtitan TOML; Hydra, Lightning, argparse YAML.

Fills no series, only the configuration: dotted lower-case names (`fp16.enabled`) with plain values. Also W&B's
`config.yaml` and `wandb-metadata.json`, whose command line counts as configuration.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from playbook.errors import PlaybookError
from playbook.readers import config_text
from playbook.readers.base import RunBuilder, number
from playbook.readers.config_tree import Table, entries
from playbook.readers.source import HEAD, Source

NAME = "config"
TITLE = "Run configuration (JSON, YAML, TOML)"

# Names that a training configuration has and a table of results has not.
KNOWN = frozenset(
    re.findall(
        r"\w+",
        """
        learning_rate lr max_lr min_lr base_lr peak_lr lr_scheduler lr_scheduler_type lr_decay_style
        warmup_steps warmup_ratio warmup_iters warmup_epochs lr_warmup_iters weight_decay adam_beta1 adam_beta2
        adam_epsilon adam_eps betas eps max_grad_norm clip_grad gradient_clipping gradient_clip_val clip_norm
        grad_clip optimizer optim optim_args scheduler batch_size train_batch_size eval_batch_size
        micro_batch_size global_batch_size train_micro_batch_size_per_gpu per_device_train_batch_size
        per_device_eval_batch_size gradient_accumulation_steps accumulate_grad_batches grad_accum_steps
        accum_iter max_steps train_iters total_steps num_train_epochs max_epochs num_epochs epochs steps fp16
        bf16 tf32 fp8 amp precision mixed_precision param_dtype reduce_dtype torch_dtype dtype loss_scale
        initial_scale_power seq_length seq_len max_seq_length max_seq_len max_position_embeddings block_size
        cutoff_len context_length hidden_size num_layers num_hidden_layers num_attention_heads n_layer n_head
        n_embd vocab_size model_type architectures intermediate_size rope_theta zero_optimization zero_stage
        offload_optimizer fsdp deepspeed ddp strategy num_nodes devices num_gpus world_size num_processes
        num_machines tensor_parallel_size tensor_model_parallel_size pipeline_parallel_size
        pipeline_model_parallel_size tensor_parallel_degree pipeline_parallel_degree data_parallel_shard_degree
        data_parallel_replicate_degree context_parallel_degree activation_checkpoint gradient_checkpointing
        compile attn_implementation flash_attn seed dataset data_path train_data dataset_path tokenizer
        tokenizer_path dataloader_num_workers num_workers save_steps eval_steps logging_steps save_interval
        checkpoint resume_from_checkpoint output_dir model_name_or_path finetuning_type lora_rank lora_alpha
        lora_r per_gpu_train_batch_size dropout num_experts num_local_experts distributed_type deepspeed_config
        fsdp_config gpu_count wall_clock_breakdown steps_per_print
        """,
    )
)
_PAIR = re.compile(r'"([\w.\-/]+)"\s*:\s*(?:"[^"\n]*"|[-\d.]|[Tt]rue|[Ff]alse|null|None|\{)')
_BRACED = re.compile(r"\s*(?:(?:#|//)[^\n]*\n\s*)*\{")
_YAML_KEY = re.compile(r"""^\s*(?:-\s+)?["']?([^\W\d][\w.\-/]*)["']?\s*:(?:\s|$)""")
_FLOW_KEY = re.compile(r"""[{,]\s*["']?([A-Za-z_][\w.\-/]*)["']?\s*:\s""")  # training: {lr: 3e-4, warmup_steps: 100}
_BROKEN = 2  # a file named .yaml that nobody else claims and that is none: it is read so that the fault is told
_TOML_PAIR = re.compile(r"""^\s*["']?([A-Za-z_][\w.\-]*)["']?\s*=\s*\S""")
_TOML_TABLE = re.compile(r"^\s*\[{1,2}[\w.\-\"']+\]{1,2}\s*(?:#.*)?$")
_CURVES = frozenset(("log_history",))


def sniff(head: bytes, path: Path) -> int:
    text = head.decode("utf-8", "replace")
    if _braced(text):
        if path.name == "wandb-metadata.json":
            return 85
        if any(f'"{name}"' in text for name in _CURVES):
            return 0
        return _score(_PAIR.findall(text), 2)
    lines = [line for line in text.split("\n")[:400] if line.strip() and not line.lstrip().startswith(("#", "---"))]
    if not lines:
        return 0
    if _is_toml("\n".join(lines)):
        return _toml_score(lines)
    if path.suffix.lower() == ".toml":
        return _score([hit[1] for line in lines if (hit := _TOML_PAIR.match(line))], 1)
    keys = [hit[1] for line in lines if (hit := _YAML_KEY.match(line))]
    keys += [key for line in lines if "{" in line for key in _FLOW_KEY.findall(line)]
    items = sum(line.lstrip().startswith(("-", "}", "]", "?", "!")) for line in lines)
    named = path.suffix.lower() in (".yaml", ".yml")
    if not _YAML_KEY.match(lines[0]) and not lines[0].startswith("- "):
        return 0  # a log that prints its configuration
    if len(keys) + items < (0.5 if named else 0.9) * len(lines) or not keys:
        return 0
    return _score(keys, 1 if named else 3) or (_BROKEN if named and _is_broken(text) else 0)


def _braced(text: str) -> bool:
    """JSON, perhaps after lines of comment (GPT-NeoX)."""
    return bool(_BRACED.match(text))


def _is_broken(text: str) -> bool:
    """True where the head is no YAML, whatever its keys; only the last lines may be cut by the look."""
    import yaml

    body = text if len(text) < HEAD else text[: text.rfind("\n") + 1]
    try:
        for _ in yaml.parse(body, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader)):
            pass
    except yaml.YAMLError:
        return True
    return False


def _is_toml(text: str) -> bool:
    lines = text.split("\n")
    return any(_TOML_TABLE.match(line) for line in lines) and any(_TOML_PAIR.match(line) for line in lines)


def _toml_score(lines: list[str]) -> int:
    keys = [hit[1] for line in lines if (hit := _TOML_PAIR.match(line))]
    tables = sum(bool(_TOML_TABLE.match(line)) for line in lines)
    return _score(keys, 1) if tables and (len(keys) + tables) * 2 > len(lines) else 0


def _score(keys: list[str], least: int) -> int:
    hits = len({_last(key) for key in keys} & KNOWN)
    return min(88, 40 + 6 * hits) if hits >= least else 0


def _last(key: str) -> str:
    return re.split(r"[./]", key)[-1].lower().replace("-", "_")


def read(source: Source, builder: RunBuilder) -> None:
    head = source.head().decode("utf-8", "replace")
    if _braced(head):
        table = config_text.from_json(source)
    elif _is_toml(head) or source.inner.suffix.lower() == ".toml":
        table = config_text.from_toml(source)
    else:
        table = config_text.from_yaml(source)
    if table is None:
        raise PlaybookError(
            source.name, "the configuration is no mapping of names to values", "name a configuration file"
        )
    builder.set_settings(entries(_unwrapped(table)))
    args = next((value for key, value, _ in table if key == "args"), None)
    if isinstance(args, list):
        builder.set_settings((name, value, None) for name, value in _command_line([str(arg) for arg in args]))


def _unwrapped(table: Table) -> Table:
    """W&B's `config.yaml` keeps each setting as `{desc: ..., value: ...}`."""
    names = {key for key, _, _ in table}
    if "wandb_version" not in names and "_wandb" not in names:
        return table
    plain = Table()
    for key, value, line in table:
        inner = [(item, at) for name, item, at in value if name == "value"] if isinstance(value, Table) else []
        if key not in ("_wandb", "wandb_version"):
            plain.append((key, inner[0][0] if inner else value, line))
    return plain


def _command_line(args: list[str]) -> Iterator[tuple[str, Any]]:
    """`--lr 1e-4 --fp16 --steps=10 trainer.x=1` as names and values."""
    for place, arg in enumerate(args):
        name, sign, value = arg.partition("=")
        if not name.startswith("-") and not sign:
            continue
        if not sign:
            following = args[place + 1] if place + 1 < len(args) else "--"
            value = "true" if following.startswith("--") else following
        plain: Any = {"true": True, "True": True, "false": False, "False": False}.get(value, value)
        if isinstance(plain, str) and (found := number(plain)) is not None:
            plain = int(plain) if plain.isdigit() else found
        yield name.lstrip("-").lower().replace("-", "_"), plain
