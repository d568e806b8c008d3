"""The configuration that a log prints at its start -> flat {dotted name: value}.

Understands dotted argument lists (Megatron-LM, DeepSpeed), `Namespace(...)`, Python dict prints, dataclass prints
(`TrainConfig(model=ModelConfig(...))`), JSON blocks and statements such as `optimizer = dict(type='SGD', lr=0.1)`.
Nothing is evaluated: text is parsed and literals are taken.
"""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Callable, Mapping
from typing import Any

from playbook.readers import text
from playbook.readers.logs.rows import Rows, Taker

_ARGUMENT = re.compile(r"^\s{0,4}(?P<key>[A-Za-z_][\w.]*) ?\.{2,} ?(?P<value>\S.*)$")
_DEEPSPEED = re.compile(r"config\.py:\d+:print\w*\]\s+(?P<key>[a-z_]\w*) (?:\.{2,}| ) ?(?P<value>\S.*)$")
_ECHO = re.compile(r"(?<![\w.])(?:[A-Za-z_]\w*)\((?=[A-Za-z_]\w*=)")
_BLOCK = re.compile(r"(?:^|[\s=:])\{\s*$")
_YAML_HEAD = re.compile(r"(?:[Ff]ull config|[Cc]onfig(?:uration)?|CONFIG)[^:\n]{0,40}:\s*$")
_YAML_LINE = re.compile(r"\s*(?:- |[\w.]+:(?:\s|$)|[)\]}]|$)")
_OPAQUE = re.compile(r"<[^<>]{1,120}>")  # <ShardingStrategy.FULL_SHARD: 1>
_STATEMENT = re.compile(r"^(?P<key>[A-Za-z_]\w*) = (?P<value>.+)$")
_OPTION = re.compile(r"(?<=\s)--([A-Za-z][\w\-.]*)(?:[ =](?!-{1,2}[A-Za-z])('[^']*'|\"[^\"]*\"|[^\s\\]+))?")
_COMMAND = re.compile(r"\bcmd = |\b(?:python[\d.]*|torchrun|deepspeed|accelerate launch|srun|mpirun)\b")
_FEW_OPTIONS = 4  # of a command line that is a training job's
_MAX_TEXT = 200_000  # characters of one printed configuration
_MAX_LINES = 2_000  # of one block
_IN_JSON = re.compile(r"\s*(?:[\"'{}\[\]]|-?[\d.]+(?:e[+-]?\d+)?,?\s*$|(?:true|false|null|True|False|None),?\s*$)")
_IN_CALL = re.compile(r"\s+\S|[)\]}]")
_MAX_KEYS = 4_000
_MAX_VALUES = 100_000  # of one printed YAML document, its aliases written out
_MAX_DEPTH = 12


def scalar(shown: str) -> Any:
    """The Python value that a printed setting stands for; the text itself where it is no literal."""
    shown = shown.strip()
    if len(shown) > 2_000:
        return shown[:2_000]
    try:
        found = ast.literal_eval(shown)
    except (ValueError, SyntaxError, RecursionError, MemoryError):
        return {"true": True, "false": False, "null": None}.get(shown, shown)
    return found if isinstance(found, (int, float, str, bool, type(None))) else _plain(found)


def _plain(found: Any) -> Any:
    if isinstance(found, (list, tuple)) and all(
        isinstance(item, (int, float, str, bool, type(None))) for item in found
    ):
        return list(found)
    if isinstance(found, dict):
        return {str(key): _plain(item) for key, item in found.items()}
    return found if isinstance(found, (int, float, str, bool, type(None))) else str(found)


def flat(values: Mapping[str, Any], prefix: str = "", depth: int = 0) -> dict[str, Any]:
    """Nested settings under dotted names."""
    result: dict[str, Any] = {}
    for key, value in values.items():
        name = f"{prefix}{key}"
        if isinstance(value, Mapping) and depth < _MAX_DEPTH:
            result.update(flat(value, f"{name}.", depth + 1))
        else:
            result[name] = value
        if len(result) > _MAX_KEYS:
            break
    return result


def expression(shown: str) -> dict[str, Any] | None:
    """The settings of a printed dict, Namespace or dataclass; None where the text is none of them."""
    if len(shown) > _MAX_TEXT:
        return None
    try:
        tree = ast.parse(_OPAQUE.sub(lambda hit: repr(hit[0]), shown.strip()), mode="eval")
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None
    found = _value(tree.body, 0)
    return found if isinstance(found, dict) else None


def _value(node: ast.expr, depth: int) -> Any:
    if depth > _MAX_DEPTH:
        return None
    if isinstance(node, ast.Call):
        named = {key.arg: _value(key.value, depth + 1) for key in node.keywords if key.arg}
        return named or (_value(node.args[0], depth + 1) if len(node.args) == 1 else None)
    if isinstance(node, ast.Dict):
        return {
            str(key.value): _value(item, depth + 1)
            for key, item in zip(node.keys, node.values, strict=True)
            if isinstance(key, ast.Constant)
        }
    if isinstance(node, (ast.List, ast.Tuple)):
        items = [_value(item, depth + 1) for item in node.elts[:50]]
        return (
            items if all(isinstance(item, (int, float, str, bool, type(None))) for item in items) else str(items)[:500]
        )
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub) and isinstance(node.operand, ast.Constant):
        number = node.operand.value
        return -number if isinstance(number, (int, float)) else None
    if isinstance(node, ast.Constant):
        return node.value if isinstance(node.value, (int, float, str, bool, type(None))) else str(node.value)
    if isinstance(node, (ast.Name, ast.Attribute)):
        return ast.unparse(node)
    return None


def watch(rows: Rows) -> Taker:
    """A taker of configuration lines; the settings go to the builder as they come (a resumed run prints them again)."""
    return _Printed(rows).take


class _Printed:
    """The printed configuration that is being read: a YAML outline, or a block with open brackets, or neither."""

    def __init__(self, rows: Rows) -> None:
        self.rows = rows
        self.line: int | None = None  # of the file: where the settings that are being read begin
        self.outline: list[str] = []
        self.block: list[str] = []
        self.depth = 0  # brackets of the block that are open
        self.json_like = True  # else the block is a call

    def use(self, found: Mapping[str, Any]) -> None:
        self.rows.builder.set_settings((name, value, self.line) for name, value in found.items())

    def take(self, number: int, line: str | None) -> bool:
        if not self.outline and not self.block:
            self.line = number
        if line is None:
            self._close_outline()
            return False
        if self.outline:
            if (_YAML_LINE.match(line) or line[:1] == " ") and len(self.outline) < _MAX_LINES:
                self.outline.append(line)
                return True
            self._close_outline()
        if self.rows.count == 0 and line.rstrip().endswith(":") and _YAML_HEAD.search(line):
            self.outline.append(line)
            return False
        return self._goes_on(line) or self._begins(line)

    def _close_outline(self) -> None:
        if self.outline:
            _take_yaml("\n".join(self.outline[1:]), self.use)
            self.outline.clear()

    def _goes_on(self, line: str) -> bool:
        """Whether a line belongs to the block that is open; the last one of the block gives its settings."""
        if self.block and not (_IN_JSON if self.json_like else _IN_CALL).match(line):
            self.block.clear()  # a row or a message: the block was none, or was torn
        if not self.block:
            return False
        self.block.append(line)
        self.depth += line.count("{") - line.count("}") + line.count("(") - line.count(")")
        if self.depth <= 0:
            _take_block("\n".join(self.block), self.use)
        if self.depth <= 0 or len(self.block) > _MAX_LINES:
            self.block.clear()
        return True

    def _begins(self, line: str) -> bool:
        """Whether a line holds settings, or opens a block of them."""
        if hit := _DEEPSPEED.search(line):
            if _BLOCK.search(hit["value"]):
                self._open(line[line.index(hit["key"]) :])
            else:
                self.use({hit["key"]: scalar(hit["value"])})
            return True
        if "=" not in line and "..." not in line and "{" not in line and " --" not in line:
            return False
        body = text.split(line).body
        at_start = self.rows.count == 0
        if at_start and _BLOCK.search(body) and len(body) < 120 and "if " not in body and "class " not in body:
            self._open(body)
            return True
        if at_start and (hit := _STATEMENT.match(body)) and "dict(" in hit["value"]:
            depth = body.count("(") - body.count(")")
            if depth > 0:
                self._open(body, depth, json_like=False)
                return True
            return _take_block(body, self.use)
        return self._one_line(body)

    def _open(self, body: str, depth: int = 1, json_like: bool = True) -> None:
        self.block.append(body)
        self.depth, self.json_like = depth, json_like

    def _one_line(self, body: str) -> bool:
        """Settings that stand in one line: of a command, an argument list, a printed dict or a dataclass."""
        if self.rows.count == 0 and " --" in body and _COMMAND.search(body):
            options = _OPTION.findall(body[:_MAX_TEXT])
            if len(options) >= _FEW_OPTIONS:
                self.use({key.replace("-", "_"): scalar(shown) if shown else True for key, shown in options})
                return False  # a launcher's line may be notable as well
        if ("...." in body or ".. " in body) and (hit := _ARGUMENT.match(body)):
            self.use({hit["key"]: scalar(hit["value"])})
            return True
        start = body.find("{'")
        if start >= 0 and body.rstrip().endswith("}") and len(body) > 200:
            found = expression(body[start:])
            settings = flat(found) if found else {}
            if found and len(settings) > _FEW_OPTIONS and _settings(found):
                self.use(settings)
                return True
        if (hit := _ECHO.search(body)) and body.rstrip().endswith(")") and body.count("=") > 3:
            found = expression(body[hit.start() :])
            if found and len(found) > 3:
                self.use(flat(found))
                return True
        return False


def _settings(found: Mapping[str, Any]) -> bool:
    """A printed dict of settings and not one of metrics: it is nested, or holds words and switches."""
    return any(isinstance(value, (dict, bool)) or value is None for value in found.values())


def _take_yaml(shown: str, use: Callable[[Mapping[str, Any]], None]) -> None:
    """A printed YAML configuration (detectron2, Hydra); what is none is left alone."""
    if not shown.strip() or len(shown) > _MAX_TEXT:
        return
    import yaml

    loader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    try:
        if _written_out(yaml.compose(shown, Loader=loader), {}) > _MAX_VALUES:
            return
        found = yaml.load(shown, Loader=loader)
    except (yaml.YAMLError, ValueError, RecursionError):
        return
    if isinstance(found, dict) and len(found) > 1:
        use({key: _plain(value) for key, value in flat({str(key): value for key, value in found.items()}).items()})


def _written_out(node: Any, known: dict[int, int]) -> int:
    """How many values a YAML node stands for: a few aliases of aliases may stand for billions."""
    if id(node) not in known:
        known[id(node)] = 1  # for a node that holds itself
        parts = node.value if node is not None and isinstance(node.value, list) else ()
        inner = (item for part in parts for item in (part if isinstance(part, tuple) else (part,)))
        known[id(node)] = 1 + sum(_written_out(item, known) for item in inner)
    return known[id(node)]


def _take_block(shown: str, use: Callable[[Mapping[str, Any]], None]) -> bool:
    """A JSON block (`json = {...}`), or a statement with `dict(...)`."""
    start = shown.find("{")
    if start >= 0:
        name = re.search(r"([A-Za-z_]\w*)\s*(?:=|\.{2,}|:)?\s*$", shown[:start])
        try:
            found = json.loads(shown[start : shown.rindex("}") + 1])
        except (ValueError, RecursionError):
            found = expression(shown[start : shown.rfind("}") + 1])
        if isinstance(found, dict):
            prefix = f"{name[1]}." if name and name[1] not in ("json", "config", "Config", "args", "CONFIG") else ""
            use(flat(found, prefix))
            return True
    if (hit := re.match(r"\s*(?P<key>[A-Za-z_]\w*) = (?P<value>.+)\Z", shown, re.DOTALL)) and (
        found := expression(hit["value"])
    ):
        use(flat(found, f"{hit['key']}."))
        return True
    return False
