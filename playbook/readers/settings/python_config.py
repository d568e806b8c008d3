"""A configuration written in Python (nanoGPT, mmengine, detectron2's lazy files, `TrainingArguments(...)`).

The file is parsed, never run: literals, sums of known numbers (`5 * 8`, `1e-4 * gpus`), `dict(...)`, keyword arguments
of calls, fields of classes, defaults of `add_argument`. What only running it would tell is left out.
"""

from __future__ import annotations

import ast
import operator
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from playbook.errors import PlaybookError
from playbook.readers.base import RunBuilder
from playbook.readers.settings.config_tree import Table, entries
from playbook.readers.settings.known_settings import KNOWN
from playbook.readers.source import Source

NAME = "python"
TITLE = "Configuration in Python (parsed, never run)"

_SETS = re.compile(r"^[ \t]*(?:[A-Za-z_]\w*\.)*([A-Za-z_]\w*)(?:\s*:\s*[\w\[\], .|]+)?\s*=[^=]", re.MULTILINE)
_NAMED = re.compile(r"[(,\s]([a-z_]\w*)\s*=\s*[\w\[({\"'.-]")
_OPTION = re.compile(r"add_argument\(\s*[\"']--([\w-]+)")
_DEEP = 12
_NOTHING = object()
_BIG = 10**18
_SIGNS: dict[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv, ast.Mod: operator.mod, ast.Pow: operator.pow,
}  # fmt: skip


def sniff(head: bytes, path: Path) -> int:
    if path.suffix.lower() != ".py":
        return 0
    text = head.decode("utf-8", "replace")
    names = {hit.lower() for hit in (*_SETS.findall(text), *_NAMED.findall(text), *_OPTION.findall(text))}
    hits = len({name.replace("-", "_") for name in names} & KNOWN)
    return 88 if hits >= 2 else 4


def read(source: Source, builder: RunBuilder) -> None:
    try:
        tree = ast.parse(source.document())
    except SyntaxError as error:
        raise PlaybookError(source.name, f"not valid Python: {error.msg}", "mend the file", error.lineno) from None
    except (ValueError, RecursionError, MemoryError):
        raise PlaybookError(source.name, "is no Python that can be parsed", "mend the file") from None
    found = entries(Table(_statements(tree.body, {}, 0)))
    kept = [entry for entry in found if not entry[0].startswith("_")]
    if not any(name.rsplit(".", 1)[-1] in KNOWN for name, _, _ in kept):
        if any(name == "_base_" for name, _, _ in found):
            raise PlaybookError(
                source.name, "takes its settings from other files (_base_)", "name those too, the base files first"
            )
        raise PlaybookError(
            source.name,
            "sets nothing that we know of a training",
            "name a configuration (YAML, JSON, TOML, the log's head) or the job script with its options",
        )
    builder.set_settings(kept)


def _statements(body: list[ast.stmt], known: dict[str, Any], depth: int) -> Iterator[tuple[str, Any, int | None]]:
    """(name, value, line) of what a body sets; `known` collects plain values by their names."""
    for node in body:
        if isinstance(node, ast.Assign):
            value = _value(node.value, known, 0)
            for target in node.targets:
                if isinstance(target, ast.Tuple):  # n_layer, n_head = 12, 12
                    parts = value if isinstance(value, list) else []
                    for one, part in zip(target.elts, parts, strict=False):
                        if inner := _name(one):
                            known[inner] = part
                            yield inner, part, node.lineno
                    continue
                name = _name(target)
                if name and value is not _NOTHING:
                    known[name] = value
                    yield name, value, node.lineno
                elif name:
                    known.pop(name, None)
                    yield from _arguments(node.value, known)
        elif isinstance(node, ast.AnnAssign) and node.value is not None and (name := _name(node.target)):
            value = _value(node.value, known, 0)
            if value is not _NOTHING:
                known[name] = value
                yield name, value, node.lineno
            else:
                yield from _arguments(node.value, known)
        elif isinstance(node, ast.AugAssign) and (name := _name(node.target)):
            known.pop(name, None)
        elif isinstance(node, ast.Expr):
            yield from _arguments(node.value, known)
        elif isinstance(node, (ast.FunctionDef, ast.ClassDef)) and depth < 3:
            own = Table(_statements(node.body, dict(known), depth + 1))
            if own:
                yield node.name, own, node.lineno
        elif isinstance(node, ast.If) and depth < 3 and "__main__" in ast.dump(node.test):
            yield from _statements(node.body, known, depth + 1)


def _name(node: ast.expr) -> str:
    """`lr`, or `optim.lr` of `config.optim.lr = ...`."""
    if isinstance(node, ast.Name):
        return node.id
    parts: list[str] = []
    while isinstance(node, ast.Attribute):
        parts.append(node.attr)
        node = node.value
    return ".".join(reversed(parts)) if parts and isinstance(node, ast.Name) else ""


def _arguments(node: ast.expr, known: dict[str, Any]) -> Iterator[tuple[str, Any, int | None]]:
    """Keyword arguments of a call (`Trainer(args=TrainingArguments(lr=...))`), the default of an `add_argument`."""
    if not isinstance(node, ast.Call):
        return
    named = {key.arg: key for key in node.keywords if key.arg}
    if isinstance(node.func, ast.Attribute) and node.func.attr == "add_argument":
        flags = [arg.value for arg in node.args if isinstance(arg, ast.Constant) and isinstance(arg.value, str)]
        long = next((flag[2:] for flag in flags if flag.startswith("--")), "")
        value = _value(named["default"].value, known, 0) if "default" in named else _NOTHING
        if long and value is not _NOTHING and value is not None:
            yield long, value, node.lineno
        return
    for key in node.keywords:
        value = _value(key.value, known, 0)
        if key.arg and value is not _NOTHING:
            yield key.arg, value, key.value.lineno
        elif isinstance(key.value, ast.Call):
            yield from _arguments(key.value, known)


def _value(node: ast.expr, known: dict[str, Any], depth: int) -> Any:
    """The plain value of an expression, a Table for a dict; `_NOTHING` where it is not in the text."""
    if depth > _DEEP:
        return _NOTHING
    if isinstance(node, ast.Constant):
        return node.value if isinstance(node.value, (bool, int, float, str, type(None))) else _NOTHING
    if isinstance(node, ast.Name):
        return known.get(node.id, _NOTHING)
    if isinstance(node, (ast.List, ast.Tuple)):
        items = [_value(item, known, depth + 1) for item in node.elts[:200]]
        return _NOTHING if any(item is _NOTHING for item in items) else items
    if isinstance(node, ast.Dict):
        pairs = ((key, item) for key, item in zip(node.keys, node.values, strict=True) if isinstance(key, ast.Constant))
        return _table([(str(key.value), item) for key, item in pairs if isinstance(key, ast.Constant)], known, depth)
    if isinstance(node, ast.Call):
        simple = isinstance(node.func, ast.Name) and node.func.id in ("dict", "ConfigDict", "CN", "L")
        if simple or isinstance(node.func, ast.Call):  # `L(AdamW)(lr=...)` of detectron2's lazy files
            return _table([(key.arg, key.value) for key in node.keywords if key.arg], known, depth)
        return _NOTHING
    return _sum(node, known, depth)


def _table(pairs: list[tuple[str, ast.expr]], known: dict[str, Any], depth: int) -> Table:
    found = ((key, _value(item, known, depth + 1), item.lineno) for key, item in pairs)
    return Table([(key, value, line) for key, value, line in found if value is not _NOTHING])


def _sum(node: ast.expr, known: dict[str, Any], depth: int) -> Any:
    """`5 * 8`, `-1`, `2**16` of known numbers."""
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, (ast.USub, ast.UAdd)):
        value = _value(node.operand, known, depth + 1)
        return (-value if isinstance(node.op, ast.USub) else value) if _counts(value) else _NOTHING
    if not isinstance(node, ast.BinOp) or type(node.op) not in _SIGNS:
        return _NOTHING
    left, right = _value(node.left, known, depth + 1), _value(node.right, known, depth + 1)
    if not (_counts(left) and _counts(right)) or (isinstance(node.op, ast.Pow) and abs(right) > 64):
        return _NOTHING
    try:
        value = _SIGNS[type(node.op)](left, right)
    except (ArithmeticError, ValueError):
        return _NOTHING
    return value if _counts(value) and abs(value) < _BIG else _NOTHING


def _counts(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)
