"""The configuration of a run: Hugging Face arguments, DeepSpeed JSON, torchtitan TOML; Hydra, Lightning, argparse YAML.

Fills no series, only the configuration: dotted lower-case names (`fp16.enabled`) with plain values. Also W&B's
`config.yaml` and `wandb-metadata.json`, whose command line counts as configuration.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from playbook.errors import PlaybookError
from playbook.readers import json_text
from playbook.readers.base import RunBuilder, number
from playbook.readers.source import HEAD, Source

NAME = "config"
TITLE = "Run configuration (JSON, YAML, TOML)"

_MOST = 20_000  # entries of one configuration
_LONG = 64  # items of a list that are kept
# Names that a training configuration has and a table of results has not.
_KNOWN = frozenset(
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
_PAIR = re.compile(r'"([\w.\-/]+)"\s*:\s*(?:"[^"\n]*"|[-\d.]|true|false|null|\{)')
_YAML_KEY = re.compile(r"""^\s*(?:-\s+)?["']?([A-Za-z_][\w.\-/]*)["']?\s*:(?:\s|$)""")
_FLOW_KEY = re.compile(r"""[{,]\s*["']?([A-Za-z_][\w.\-/]*)["']?\s*:\s""")  # training: {lr: 3e-4, warmup_steps: 100}
_BROKEN = 2  # a file named .yaml that nobody else claims and that is none: it is read so that the fault is told
_TOML_PAIR = re.compile(r"""^\s*["']?([A-Za-z_][\w.\-]*)["']?\s*=\s*\S""")
_TOML_TABLE = re.compile(r"^\s*\[{1,2}[\w.\-\"']+\]{1,2}\s*(?:#.*)?$")
_POWER = re.compile(r"[-+]?(?:\d+\.?\d*|\.\d+)[eE][-+]?\d+")  # YAML 1.1 takes 1e-5 for a text
_CURVES = frozenset(("log_history",))


def sniff(head: bytes, path: Path) -> int:
    text = head.decode("utf-8", "replace")
    if text.lstrip()[:1] == "{":
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
    keys = [hit[1] for line in lines if (hit := _YAML_KEY.match(line))]
    keys += [key for line in lines if "{" in line for key in _FLOW_KEY.findall(line)]
    items = sum(line.lstrip().startswith(("-", "}", "]", "?", "!")) for line in lines)
    named = path.suffix.lower() in (".yaml", ".yml")
    if not _YAML_KEY.match(lines[0]) and not lines[0].startswith("- "):
        return 0  # a log that prints its configuration
    if len(keys) + items < (0.5 if named else 0.9) * len(lines) or not keys:
        return 0
    return _score(keys, 1 if named else 3) or (_BROKEN if named and _is_broken(text) else 0)


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
    hits = len({_last(key) for key in keys} & _KNOWN)
    return min(88, 40 + 6 * hits) if hits >= least else 0


def _last(key: str) -> str:
    return re.split(r"[./]", key)[-1].lower().replace("-", "_")


def read(source: Source, builder: RunBuilder) -> None:
    head = source.head().decode("utf-8", "replace")
    if head.lstrip()[:1] == "{":
        value, _ = json_text.parse(source)
    elif _is_toml(head):
        value = _toml(source)
    else:
        value = _yaml(source)
    if not isinstance(value, Mapping):
        raise PlaybookError(
            source.name, "the configuration is no mapping of names to values", "name a configuration file"
        )
    if isinstance(value.get("_wandb"), Mapping) or "wandb_version" in value:
        value = {
            key: inner.get("value") if isinstance(inner, Mapping) and "value" in inner else inner
            for key, inner in value.items()
        }
        value = {key: inner for key, inner in value.items() if key not in ("_wandb", "wandb_version")}
    entries = dict(_flat(value, "", 0, [_MOST]))
    if isinstance(value.get("args"), list):
        entries |= dict(_command_line([str(arg) for arg in value["args"]]))
    builder.set_config(entries)


def _flat(value: Mapping[str, Any], prefix: str, depth: int, left: list[int]) -> Iterator[tuple[str, Any]]:
    """(dotted lower-case name, plain value); `auto` says nothing and is left out."""
    for key, inner in value.items():
        name = f"{prefix}{key}".lower().replace("-", "_").replace("/", ".")
        if isinstance(inner, Mapping):
            if depth < 20:
                yield from _flat(inner, name + ".", depth + 1, left)
            continue
        left[0] -= 1
        if left[0] < 0:
            return
        if isinstance(inner, str):
            if inner == "auto":
                continue
            yield name, float(inner) if _POWER.fullmatch(inner) else inner
        elif inner is None or isinstance(inner, (bool, int, float)):
            yield name, inner
        elif isinstance(inner, (list, tuple)):
            if len(inner) <= _LONG and all(item is None or isinstance(item, (bool, int, float, str)) for item in inner):
                yield name, list(inner)
            elif len(inner) <= _LONG:
                rows = {str(place): item for place, item in enumerate(inner) if isinstance(item, Mapping)}
                yield from _flat(rows, name + ".", depth + 1, left) if depth < 20 else ()
        else:
            yield name, str(inner)[:200]


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


def _toml(source: Source) -> Any:
    import tomllib

    try:
        return tomllib.loads(source.document())
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        hit = re.search(r"at line (\d+)", str(error))
        what = f"not valid TOML: {re.sub(r' [(]at .*', '', str(error))}"
        raise PlaybookError(source.name, what, "mend the file", int(hit[1]) if hit else None) from None


def _yaml(source: Source) -> Any:
    import yaml

    base: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)

    class Loader(base):
        """Safe; objects of foreign classes (`!!python/object`) become their plain content."""

    def foreign(loader: Any, suffix: str, node: Any) -> Any:
        if isinstance(node, yaml.MappingNode):
            return loader.construct_mapping(node, deep=True)
        if isinstance(node, yaml.SequenceNode):
            return loader.construct_sequence(node, deep=True)
        return loader.construct_scalar(node) or suffix

    Loader.add_multi_constructor("", foreign)
    try:
        documents = list(yaml.load_all(source.document(), Loader=Loader))
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        raise PlaybookError(
            source.name, f"not valid YAML: {error.problem}", "mend the file", mark.line + 1 if mark else None
        ) from None
    except (yaml.YAMLError, ValueError, TypeError, RecursionError) as error:
        raise PlaybookError(source.name, f"not valid YAML: {str(error).splitlines()[0]}", "mend the file") from None
    merged: dict[Any, Any] = {}
    for document in documents:
        if isinstance(document, Mapping):
            merged.update(document)
    return merged or (documents[0] if documents else None)
