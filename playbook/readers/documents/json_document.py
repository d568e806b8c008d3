"""One JSON document that holds curves: arrays by name, Megatron's golden values, lists of rows, W&B's summary.

Known shapes: {"loss": [..]}, {"lm loss": {"values": {"1": 10.9}}}, {"loss": {"0": 2.3, "1": 2.2}}, [{"step": 1, "loss":
2}], [[time, step, value]] (TensorBoard's download), and one flat row with a step (`wandb-summary.json`).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from playbook.errors import PlaybookError
from playbook.readers import tabular
from playbook.readers.base import RunBuilder, flat, number, whole_step
from playbook.readers.documents import json_lines, json_text
from playbook.readers.documents.json_rows import Rows, counts_rows
from playbook.readers.names import step_names
from playbook.readers.source import Source

NAME = "json"
TITLE = "JSON document with arrays or rows"

_DEEP = 6
_START = re.compile(rb'\s*(?:\{\s*["}]|\[\s*(?:[\[{"\]]|-?\d+(?:\.\d+)?(?:[eE][-+]?\d+)?\s*,))')  # "[2024-" is a log
_SUMMARY = "wandb-summary.json"


def sniff(head: bytes, path: Path) -> int:
    if not _START.match(head):
        return 0
    return 80 if path.name == _SUMMARY else 30 if path.suffix.lower() == ".json" else 20


def read(source: Source, builder: RunBuilder) -> None:
    if json_lines.long_lines(source):
        builder.reader = json_lines.NAME
        json_lines.read(source, builder)
        return
    value, _ = json_text.parse(source)
    found = False
    if source.inner.name != _SUMMARY:
        for table in _tables(value, ""):
            found = _fill(builder, table) or found
        if _pairs(value):
            table = {
                "step": [row[-2] for row in value],
                source.inner.stem.split("-tag-")[-1]: [row[-1] for row in value],
            }
            found = _fill(builder, table)
    if not found and isinstance(value, dict):
        found = _single(builder, value)
    if not found:
        raise PlaybookError(source.name, "no curve of a known metric in this JSON document", tabular.MAP_HINT)


def _tables(value: Any, prefix: str, depth: int = 0) -> Iterator[dict[str, Any] | list[Any]]:
    """The tables inside a document: {name: list or {step: value}} or a list of rows."""
    if depth > _DEEP:
        return
    if isinstance(value, list):
        if value and all(isinstance(row, dict) for row in value):
            yield value
        return
    if not isinstance(value, dict):
        return
    arrays: dict[str, Any] = {}
    for key, inner in value.items():
        name = f"{prefix}/{key}" if prefix else str(key)
        if isinstance(inner, list) and inner and _numeric(inner):
            arrays[name] = inner
        elif isinstance(inner, dict) and _by_step(inner):
            yield {"step": list(inner), name: list(inner.values())}
        elif isinstance(inner, dict) and isinstance(inner.get("values"), (dict, list)):
            yield _golden(name, inner)
        else:
            yield from _tables(inner, name, depth + 1)
    if arrays:
        yield from _by_length(arrays)


def _by_length(arrays: dict[str, list[Any]]) -> Iterator[dict[str, Any]]:
    """Arrays that belong together: those of one length, with a step array of that length where there is one."""
    for size in sorted({len(values) for values in arrays.values()}):
        same = {name: values for name, values in arrays.items() if len(values) == size}
        renamed = {
            name.rpartition("/")[2] if step_names([name.rpartition("/")[2]]) else name: v for name, v in same.items()
        }
        yield renamed


def _golden(name: str, node: Mapping[str, Any]) -> dict[str, Any]:
    """Megatron's golden values: {"start_step", "step_interval", "values": list or {step: value}}."""
    values = node["values"]
    if isinstance(values, dict):
        return {"step": list(values), name: list(values.values())}
    start, pace = whole_step(node.get("start_step")) or 0, whole_step(node.get("step_interval")) or 1
    return {"step": [start + pace * place for place in range(len(values))], name: values}


def _numeric(values: list[Any]) -> bool:
    return sum(number(value) is not None for value in values[:50]) * 2 > len(values[:50])


def _by_step(values: Mapping[str, Any]) -> bool:
    """{"1": 10.9, "2": 10.8}: keys count steps."""
    keys = list(values)[:50]
    return bool(keys) and all(whole_step(key) is not None for key in keys) and _numeric(list(values.values()))


def _pairs(value: Any) -> bool:
    """[[time, step, value], ...] or [[step, value], ...]."""
    return (
        isinstance(value, list)
        and bool(value)
        and all(isinstance(row, list) and len(row) in (2, 3) and whole_step(row[-2]) is not None for row in value)
    )


def _fill(builder: RunBuilder, table: dict[str, Any] | list[Any]) -> bool:
    """Add one table; False where it holds no known metric."""
    if isinstance(table, list):
        rows = Rows(builder)
        for row in table:
            rows.add(row, 0)
        columns = rows.columns()
    else:
        columns = {name: _masked(values) for name, values in table.items()}
    if not any(builder.wants(name) and not counts_rows(name, builder) for name in columns):
        builder.see(name for name in columns if not counts_rows(name, builder))
        return False
    tabular.fill(builder, columns)
    return True


def _masked(values: list[Any]) -> np.ma.MaskedArray:
    found = [number(value) for value in values]
    return np.ma.MaskedArray([0.0 if value is None else value for value in found], [value is None for value in found])


def _single(builder: RunBuilder, value: Mapping[str, Any]) -> bool:
    """One row of last values; only with a step, since a summary without one is no curve."""
    row = {name: inner for name, inner in flat(value) if number(inner) is not None}
    step = next((whole_step(row[name]) for name in step_names(row)), None)
    if step is None:
        return False
    metrics = {
        name: found for name, inner in row.items() if builder.wants(name) and (found := number(inner)) is not None
    }
    builder.see(name for name in row if name not in metrics)
    if not metrics:
        return False
    builder.add(step, metrics)
    builder.problem(
        None, "holds the last values only, no curve", "read the history (.wandb, CSV or JSON lines) as well", "summary"
    )
    return True
