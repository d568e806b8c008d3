"""A configuration as a tree that remembers its lines, and the flat settings of it.

The readers of YAML, JSON, TOML and Python configurations each make a `Table`; here it becomes (dotted lower-case name,
plain value, line) in file order. A name that is set twice stays twice. `${a.b}` is replaced where the file itself says
what it is, and left out where only the environment or another file does.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

MOST = 20_000  # entries of one configuration
_LONG = 64  # items of a list that are kept
_DEEP = 20
_WIDE = 8_000  # characters of a text value; some hold a whole command
# YAML 1.1 takes 1e-5 for a text, JSON written by hand holds "3e-4".
_POWER = re.compile(r"[-+]?(?:\d+\.?\d*|\.\d+)[eE][-+]?\d+")
_REFERENCE = re.compile(r"\$\{(\.*)([A-Za-z_][\w.\-]*)\}")
_SILENT = "???"  # "must be given later" says nothing
_HOPS = 8  # references to references

Entry = tuple[str, Any, int | None]


class Table(list[tuple[str, Any, int | None]]):
    """A mapping in file order: (key, value, line). A value is a Table, a list or plain."""


def entries(table: Table) -> list[Entry]:
    """The settings of a tree, references resolved, in file order."""
    found = list(_flat(table, "", 0, [MOST]))
    known = {name: value for name, value, _ in found}
    settled = ((name, _settled(value, name, known), line) for name, value, line in found)
    return [(name, value, line) for name, value, line in settled if not (isinstance(value, str) and _open(value))]


def join(prefix: str, key: object) -> str:
    """The dotted name of a key: lower case, `-` as `_`, `/` as `.`."""
    return f"{prefix}{key}".lower().replace("-", "_").replace("/", ".")


def plain(text: str) -> Any:
    """A text value, or the number that it writes as a power of ten."""
    return float(text) if _POWER.fullmatch(text) else text[:_WIDE]


def _flat(table: Table, prefix: str, depth: int, left: list[int]) -> Iterator[Entry]:
    for key, value, line in table:
        name = join(prefix, key)
        left[0] -= 1  # a section counts too: sections that hold each other would never end
        if left[0] < 0:
            return
        if isinstance(value, Table):
            if depth < _DEEP:
                yield from _flat(value, f"{name}.", depth + 1, left)
            continue
        if isinstance(value, str):
            if value != _SILENT:
                yield name, plain(value), line
        elif value is None or isinstance(value, (bool, int, float)):
            yield name, value, line
        elif isinstance(value, (list, tuple)):
            yield from _listed(list(value), name, line, depth, left)
        else:
            yield name, str(value)[:200], line


def _listed(value: list[Any], name: str, line: int | None, depth: int, left: list[int]) -> Iterator[Entry]:
    options = sum(isinstance(item, str) and item.startswith("--") for item in value)
    if len(value) > (_LONG if options * 3 < len(value) else 8 * _LONG):
        return
    if all(item is None or isinstance(item, (bool, int, float, str)) for item in value):
        yield name, value, line
    elif depth < _DEEP:
        rows = Table((str(place), item, line) for place, item in enumerate(value) if isinstance(item, Table))
        yield from _flat(rows, f"{name}.", depth + 1, left)


def _settled(value: Any, name: str, known: dict[str, Any]) -> Any:
    """`${a.b}` -> the value of a.b; `${.x}` and `${..x}` count from where it stands, as OmegaConf does."""
    for _ in range(_HOPS):
        hit = _REFERENCE.fullmatch(value.strip()) if isinstance(value, str) else None
        if hit is None:
            return value
        dots, target = len(hit[1]), join("", hit[2])
        parents = name.split(".")[:-dots] if dots else []
        name = ".".join((*parents, target))
        if name not in known:
            return value
        value = known[name]
    return value


def _open(text: str) -> bool:
    """A text that is nothing but a reference nobody here resolves."""
    return text.startswith("${") and text.endswith("}")
