"""A job script (shell, Slurm) -> the configuration that its training command is given. Nothing is run.

The options of the command after its variables are put in (`--lr $LR`, arrays, `a.b=c` of Hydra), the `#SBATCH` lines,
and the DeepSpeed JSON that such scripts write with `cat <<EOF`. Where a script starts several trainings, the one with
the most settings is read and the others are named.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from playbook.errors import PlaybookError
from playbook.readers.base import RunBuilder, number
from playbook.readers.settings import config_text, shell_words
from playbook.readers.settings.config_tree import Entry, entries, join
from playbook.readers.settings.known_settings import KNOWN
from playbook.readers.settings.shell_words import Word, known
from playbook.readers.source import Source

NAME = "script"
TITLE = "Job script (shell, Slurm)"

_NAMED = frozenset((".sh", ".bash", ".slurm", ".sbatch", ".job", ".pbs", ".lsf", ".zsh"))
_SHEBANG = re.compile(r"^#!.*\b(?:ba|z|da)?sh\b")
_LAUNCHER = re.compile(
    r"^\s*(?:[A-Z_]+=\S*\s+)*(?:python[\d.]*|torchrun|deepspeed|accelerate|srun|mpirun|swift|fairseq-train|litgpt|tune"
    r"|axolotl|llamafactory-cli)\b"
)
_OPTION = re.compile(r"(?<![\w-])--?[A-Za-z][\w.-]+|(?<!\S)\+{0,2}[a-z]\w*(?:\.\w+)+=")
_DIRECTIVE = re.compile(r"^#SBATCH\s+--?([\w-]+)[= ]\s*([^\s#]+)")
_HYDRA = re.compile(r"\+{0,2}([A-Za-z_][\w.\-/]*)=(.*)", re.DOTALL)
_SWITCH = {"true": True, "false": False, "none": None, "null": None}
_SWITCHES = frozenset(  # options that take no value: what follows them is an argument of the command
    ("fp16", "bf16", "amp", "fp8", "tf32", "deepspeed", "gradient_checkpointing", "flash_attn", "memory_efficient_fp16",
     "sequence_parallel", "use_distributed_optimizer", "swiglu", "cpu", "lora", "eval")
)  # fmt: skip
_QUIET = frozenset(("echo", "printf", "cat", "mkdir", "cd", "ls", "cp", "rm", "source", "set"))
_LOOK = 400  # lines that are looked at
_MOST = 4_000_000  # characters of a script
_FEW = 3  # options of a command that is worth a look
_SHORT = {"-b": "batch_size", "-n": "", "-g": "", "-c": "", "-m": "", "-u": "", "-e": ""}
_SLURM = {"nodes": "nodes", "N": "nodes", "gpus_per_node": "gpus_per_node", "ntasks_per_node": "ntasks_per_node",
          "gpus": "gpus", "gres": "gres"}  # fmt: skip


def sniff(head: bytes, path: Path) -> int:
    text = head.decode("utf-8", "replace")
    lines = [line for line in text.split("\n", _LOOK)[:_LOOK] if line.strip()]
    if not lines or b"\0" in head[:1000]:
        return 0
    if path.suffix.lower() in _NAMED or _SHEBANG.match(lines[0]) or lines[0].startswith("#SBATCH"):
        return 90 if len(_OPTION.findall(text)) >= _FEW else 3
    pieces = [line.rstrip() for line in lines if not line.lstrip().startswith("#")]
    if not pieces or not _LAUNCHER.match(pieces[0]) or not all(line.endswith("\\") for line in pieces[:-1]):
        return 0
    return 80 if len(pieces) < _LOOK and len(_OPTION.findall(text)) >= _FEW else 0


def read(source: Source, builder: RunBuilder) -> None:
    text = source.document()
    if len(text) > _MOST:
        raise PlaybookError(
            source.name, "is too long for a job script", "name the log that it wrote, or the script itself"
        )
    script = shell_words.parse(text)
    rich = [words for words in script.commands if sum(_is_option(text) for text, _ in words) >= _FEW]
    found = [(_options(words), words) for words in rich if words[0][0] not in _QUIET]
    found = [(options, words) for options, words in found if _score(options)]
    if not found and not script.documents:
        raise PlaybookError(
            source.name, "holds no command with settings of a training", "name the script that starts the training"
        )
    builder.set_settings(_directives(text))
    for document, line in script.documents:
        builder.set_settings(_document(document, line, script, source))
    if found:
        best = max(found, key=lambda item: _score(item[0]))
        builder.set_settings(best[0])
        same = {(name, str(value)) for name, value, _ in best[0]}
        for options, words in found:
            other = {(name, str(value)) for name, value, _ in options}
            if not other <= same and _score(options) * 2 > _score(best[0]):
                what = f"starts another training; that of line {best[1][0][1]} is read"
                builder.problem(words[0][1], what, "put one training into one script to check both", "another-run")
    if not builder.config:
        raise PlaybookError(source.name, "holds no settings of a training", "name the script that starts the training")


def settings(text: str, line: int) -> list[Entry]:
    """The settings of the commands in a text that begins at `line` of its file."""
    words = shell_words.parse(text).commands
    found = max((_options(one) for one in words), key=_score, default=[])
    return [(name, value, (at or 1) + line) for name, value, at in found] if _score(found) else []


def _score(options: list[Entry]) -> int:
    return sum(name.rsplit(".", 1)[-1] in KNOWN for name, _, _ in options)


def _options(words: list[Word]) -> list[Entry]:
    """`--lr 1e-4 --fp16 --steps=10 trainer.x=1` as (name, value, line)."""
    found: list[Entry] = []
    at = 0
    while at < len(words):
        text, line = words[at]
        at += 1
        if text in _SHORT and at < len(words):
            if _SHORT[text]:
                _take(found, _SHORT[text], [words[at]], line)
            continue
        if text.startswith("--") and len(text) > 2 and text[2].isalpha():
            name, sign, value = text[2:].partition("=")
            values = [(value, line)] if sign else []
            while not sign and at < len(words) and not _is_option(words[at][0]):
                values.append(words[at])
                at += 1
            _take(found, name, values, line)
        elif (hit := _HYDRA.fullmatch(text)) and ("." in hit[1] or text.startswith("+")):
            _take(found, hit[1], [(hit[2], line)], line)
    return found


def _is_option(text: str) -> bool:
    """`--lr`, `-x` or `a.b=1`; a negative number is a value."""
    if text.startswith("-") and len(text) > 1:
        return number(text) is None
    return bool((hit := _HYDRA.fullmatch(text)) and "." in hit[1])


def _take(found: list[Entry], name: str, values: list[Word], line: int) -> None:
    shown = [known(text) for text, _ in values]
    if any(text is None for text in shown):
        return  # only the running shell knows it
    plain = [_plain(text) for text in shown if text is not None]
    line = values[0][1] if values else line
    if not plain:
        found.append((join("", name), True, line))
    elif len(plain) > 1 and all(isinstance(item, (int, float)) for item in plain):
        found.append((join("", name), plain, line))
    else:
        value = True if isinstance(plain[0], str) and join("", name) in _SWITCHES and "/" in plain[0] else plain[0]
        found.append((join("", name), value, line))


def _plain(text: str) -> Any:
    text = text.strip("\"'")
    if text.lower() in _SWITCH:
        return _SWITCH[text.lower()]
    if (value := number(text.replace("_", "") if re.fullmatch(r"\d[\d_]*", text) else text)) is not None:
        return int(value) if re.fullmatch(r"[-+]?\d[\d_]*", text) else value
    return text[:2_000]


def _directives(text: str) -> list[Entry]:
    found: list[Entry] = []
    for line, shown in enumerate(text.split("\n"), 1):
        if hit := _DIRECTIVE.match(shown):
            name = _SLURM.get(hit[1].replace("-", "_"), "")
            if name == "gres":
                name, value = "gpus_per_node", hit[2].rsplit(":", 1)[-1] if hit[2].startswith("gpu") else ""
            else:
                value = hit[2].rsplit(":", 1)[-1]
            if name and value.isdecimal():
                found.append((f"slurm.{name}", int(value), line))
    return found


def _document(text: str, line: int, script: shell_words.Script, source: Source) -> list[Entry]:
    """The JSON or YAML that the script writes for the trainer, variables put in; nothing where it is neither."""
    filled = "\n".join(
        "".join(word for word, _ in shell_words.expand([(row, 0)], script.variables)) if "$" in row else row
        for row in text.split("\n")
    )
    try:
        table = config_text.of_text(filled, source.name)
    except PlaybookError:
        return []
    found: list[Entry] = []
    for name, value, at in entries(table) if table is not None else []:
        if not isinstance(value, str) or known(value):
            found.append((name, value, (at or 1) + line - 1))
    return found if _score(found) else []
