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
from playbook.readers.base import RunBuilder, number
from playbook.readers.settings import config_text
from playbook.readers.settings.config_tree import Entry, Table, entries
from playbook.readers.settings.known_settings import KNOWN
from playbook.readers.source import HEAD, Source

NAME = "config"
TITLE = "Run configuration (JSON, YAML, TOML)"

_PAIR = re.compile(r'"([\w.\-/]+)"\s*:\s*(?:"[^"\n]*"|[-\d.]|[Tt]rue|[Ff]alse|null|None|\{)')
_BRACED = re.compile(r"\s*(?:(?:#|//)[^\n]*\n\s*)*\{")
_YAML_KEY = re.compile(r"""^\s*(?:-\s+)?["']?([^\W\d][\w.\-/]*)["']?\s*:(?:\s|$)""")
_FLOW_KEY = re.compile(r"""[{,]\s*["']?([A-Za-z_][\w.\-/]*)["']?\s*:\s""")  # training: {lr: 3e-4, warmup_steps: 100}
_ARGUMENT = re.compile(r"""^\s*-\s+["']?--([A-Za-z][\w.\-]*)""")  # args: [--lr=1e-4] of a job of Kubernetes
_BROKEN = 2  # a file named .yaml that nobody else claims and that is none: it is read so that the fault is told
_TOML_PAIR = re.compile(r"""^\s*["']?([A-Za-z_][\w.\-]*)["']?\s*=\s*\S""")
_TOML_TABLE = re.compile(r"^\s*\[{1,2}[\w.\-\"']+\]{1,2}\s*(?:#.*)?$")
_FEW = 3  # options of a command that is a training's
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
    keys += [hit[1] for line in lines if (hit := _ARGUMENT.match(line))]
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
    found = entries(_unwrapped(table))
    builder.set_settings(found)
    for _, value, line in found:
        builder.set_settings(_inside(value, line))


def _inside(value: Any, line: int | None) -> list[Entry]:
    """The options of a command that is a value itself: the `args` of a job, the `run` of a launcher's file."""
    if isinstance(value, list) and sum(isinstance(item, str) and item.startswith("--") for item in value) >= _FEW:
        return [(name, inner, line) for name, inner in _command_line([str(item) for item in value])]
    if isinstance(value, str) and value.count(" --") >= _FEW:
        from playbook.readers.settings import job_script

        return job_script.settings(value, line or 1)
    return []


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
            plain = int(plain) if plain.isdecimal() else found
        yield name.lstrip("-").lower().replace("-", "_"), plain
