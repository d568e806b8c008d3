"""YAML, JSON and TOML texts -> a `Table` with the line of every key. Raises `PlaybookError` for a text that is none.

Files of GPT-NeoX and many of DeepSpeed are JSON with comments, a comma too many or Python's `True`: what is no JSON is
tried as YAML, of which JSON is a part.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

from playbook.errors import PlaybookError
from playbook.readers.documents import json_text
from playbook.readers.settings.config_tree import MOST, Table
from playbook.readers.source import Source

_TOKEN = re.compile(r'"(?:\\.|[^"\\])*"|[{}\[\],:]|[^\s{}\[\],:"]+')
_DEEP = 100
_RELAXED = re.compile(r"^\s*(?:#|//)|,\s*[}\]]|\b(?:True|False|None)\b|[\"\d\]},]\s+#", re.MULTILINE)
_INI_PAIR = re.compile(r"^\s*([\w@.\-]+)\s*[=:]\s*(.*?)\s*$")
_REMARK = re.compile(r"(^|[,{\[\]}\d\"e])[ \t]*//[^\n]*", re.MULTILINE)  # of JavaScript; YAML knows `#` only
_TOML_HEAD = re.compile(r"^\s*\[{1,2}\s*([^\]\[]+?)\s*\]{1,2}\s*(?:#.*)?$")
_TOML_KEY = re.compile(r"""^\s*((?:["']?[\w\-]+["']?\s*\.\s*)*["']?[\w\-]+["']?)\s*=""")


def from_json(source: Source) -> Table | None:
    """A JSON document; None where it is no mapping."""
    try:
        value, text = json_text.parse(source)
    except PlaybookError:
        text = source.document()
        if _RELAXED.search(text):
            return of_text(_REMARK.sub(r"\1", text), source.name)
        raise
    return _pairs(text) if isinstance(value, dict) else None


def _pairs(text: str) -> Table:
    """A text that is known to be JSON, with lines: `json` itself keeps no places and the last of two equal keys."""
    tokens = _tokens(text)
    found = _json_value(next(tokens)[0], tokens, 0)
    return found if isinstance(found, Table) else Table()


def _tokens(text: str) -> Iterator[tuple[str, int]]:
    line, at = 1, 0
    for hit in _TOKEN.finditer(text):
        line += text.count("\n", at, hit.start())
        at = hit.start()
        yield hit[0], line


def _json_value(token: str, tokens: Iterator[tuple[str, int]], depth: int) -> Any:
    if token not in "{[" or depth > _DEEP:
        return json.loads(token) if token not in "{[" else None
    table, items = Table(), []
    for key, line in tokens:
        if key in "}]":
            break
        if key == ",":
            continue
        if token == "[":
            items.append(_json_value(key, tokens, depth + 1))
            continue
        next(tokens)  # the colon
        table.append((json.loads(key), _json_value(next(tokens)[0], tokens, depth + 1), line))
    return table if token == "{" else items


def from_toml(source: Source) -> Table | None:
    """A TOML document."""
    import tomllib

    text = source.document()
    try:
        value = tomllib.loads(text)
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        if source.inner.suffix.lower() in (".ini", ".cfg", ".conf"):
            return _from_ini(text)
        hit = re.search(r"at line (\d+)", str(error))
        what = f"not valid TOML: {re.sub(r' [(]at .*', '', str(error))}"
        raise PlaybookError(source.name, what, "mend the file", int(hit[1]) if hit else None) from None
    lines: dict[str, int] = {}
    head = ""
    for number, line in enumerate(text.split("\n"), 1):
        if hit := _TOML_HEAD.match(line):
            head = _toml_name(hit[1]) + "."
        elif hit := _TOML_KEY.match(line):
            lines.setdefault(head + _toml_name(hit[1]), number)
    return _with_lines(value, "", lines)


def _from_ini(text: str) -> Table:
    """`[section]` and `name = value` (spaCy, Darknet, configparser): literals where they are some, else text."""
    table = here = Table()
    for number, line in enumerate(text.split("\n"), 1):
        if hit := _TOML_HEAD.match(line):
            here = Table()
            table.append((hit[1], here, number))
        elif hit := _INI_PAIR.match(line):
            try:
                value = json.loads(hit[2])
            except ValueError:
                value = {"True": True, "False": False, "None": None}.get(hit[2], hit[2])
            here.append((hit[1], value if not isinstance(value, dict) else None, number))
    return table


def _toml_name(shown: str) -> str:
    return ".".join(part.strip().strip("\"'") for part in shown.split("."))


def _with_lines(value: Any, name: str, lines: Mapping[str, int]) -> Any:
    if isinstance(value, Mapping):
        found = ((key, f"{name}.{key}" if name else str(key), inner) for key, inner in value.items())
        return Table((key, _with_lines(inner, path, lines), lines.get(path)) for key, path, inner in found)
    return [_with_lines(item, name, lines) for item in value] if isinstance(value, list) else value


def from_yaml(source: Source) -> Table | None:
    """All documents of a YAML file, one after another; None where none is a mapping."""
    return of_text(source.document(), source.name)


def of_text(text: str, name: str) -> Table | None:
    """A YAML (or JSON) text; `name` is for messages."""
    import yaml

    base: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)

    class Loader(base):
        """Safe; objects of foreign classes (`!!python/object`) become their plain content."""

    def foreign(loader: Any, suffix: str, node: Any) -> Any:
        return loader.construct_scalar(node) or suffix if isinstance(node, yaml.ScalarNode) else suffix

    Loader.add_multi_constructor("", foreign)
    loader = Loader(text)
    table, mapped = Table(), False
    try:
        while loader.check_node():
            found = _Nodes(loader).value(loader.get_node(), 0)
            if isinstance(found, Table):
                mapped = True
                table += found
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        raise PlaybookError(
            name, f"not valid YAML: {error.problem}", _mend(str(error.problem)), mark.line + 1 if mark else None
        ) from None
    except (yaml.YAMLError, ValueError, TypeError, RecursionError) as error:
        raise PlaybookError(name, f"not valid YAML: {str(error).splitlines()[0]}", "mend the file") from None
    return table if mapped else None


def _mend(problem: str) -> str:
    return (
        "indent with blanks, YAML takes no tabs"
        if "tab character" in problem or r"'\t'" in problem
        else "mend the file"
    )


class _Nodes:
    """YAML nodes -> Table, lists and plain values. Aliases are shared nodes: the count of all of them is bounded."""

    def __init__(self, loader: Any) -> None:
        self.loader = loader
        self.left = 4 * MOST

    def value(self, node: Any, depth: int) -> Any:
        import yaml

        self.left -= 1
        if depth > _DEEP or self.left < 0:
            return None
        if isinstance(node, yaml.MappingNode):
            return self._mapping(node, depth)
        if isinstance(node, yaml.SequenceNode):
            return [self.value(item, depth + 1) for item in node.value]
        return self.loader.construct_object(node, deep=True)

    def _mapping(self, node: Any, depth: int) -> Table:
        import yaml

        own, merged = Table(), Table()
        for key, inner in node.value:
            if key.tag == "tag:yaml.org,2002:merge":
                for source in inner.value if isinstance(inner, yaml.SequenceNode) else [inner]:
                    found = self.value(source, depth + 1)
                    merged += [item for item in found if isinstance(found, Table)]
            elif isinstance(key, yaml.ScalarNode):
                own.append((key.value, self.value(inner, depth + 1), key.start_mark.line + 1))
        names = {name for name, _, _ in own}
        return Table([item for item in merged if item[0] not in names] + own)
