"""What CatBoost leaves in `catboost_info`: `learn_error.tsv`, `test_error.tsv` and `catboost_training.json`.

The first metric that is minimised is the loss of its data set; the others keep their names.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

from playbook.errors import PlaybookError
from playbook.readers.base import RunBuilder, number, whole_step
from playbook.readers.minimised import is_loss
from playbook.readers.source import Source

NAME = "catboost"
TITLE = "CatBoost's catboost_info"

_TABLE = re.compile(rb"iter\t[^\r\n]+\r?\n\d+\t")
_SETS = {"learn": "loss", "test": "eval_loss"}


def sniff(head: bytes, path: Path) -> int:
    if path.name.endswith(("learn_error.tsv", "test_error.tsv")) and _TABLE.match(head):
        return 94
    return 94 if head.lstrip()[:1] == b"{" and b'"learn_metrics"' in head and b'"iteration_count"' in head else 0


def read(source: Source, builder: RunBuilder) -> None:
    if source.head().lstrip()[:1] == b"{":
        _document(source, builder)
    else:
        _table(source, builder)
    if not builder.rows:
        raise PlaybookError(source.name, "holds no iteration", "check that the training has begun")


def _names(metrics: list[str], data: str) -> list[str]:
    """The metrics of a data set as they are called here."""
    first = next((k for k, metric in enumerate(metrics) if is_loss(metric)), -1)
    return [_SETS[data] if k == first else f"{data}/{metric}" for k, metric in enumerate(metrics)]


def _table(source: Source, builder: RunBuilder) -> None:
    data = "learn" if "learn" in source.inner.name else "test"
    names: list[str] = []
    for line, said, whole in source.marked_lines():
        cells = said.split("\t")
        if line == 1:
            names = _names(cells[1:], data)
            continue
        step, values = whole_step(cells[0]), [number(cell) for cell in cells[1:]]
        if not whole or step is None or len(values) != len(names):
            if said.strip():
                builder.problem(line, "no whole row of the table; it is left out", "", "cells")
            continue
        builder.add(step, {n: v for n, v in zip(names, values, strict=True) if v is not None}, line)


def _document(source: Source, builder: RunBuilder) -> None:
    try:
        found: Any = json.loads(source.document())
        meta, rows = found["meta"], found["iterations"]
        names = {
            data: _names([str(metric["name"]) for metric in meta.get(f"{data}_metrics", ())], data) for data in _SETS
        }
        for row in rows:
            values: dict[str, float | None] = {}
            for data in _SETS:
                values |= dict(zip(names[data], map(number, row.get(data, ())), strict=False))
            if (step := whole_step(row.get("iteration"))) is not None:
                builder.add(step, {name: value for name, value in values.items() if value is not None})
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        raise PlaybookError(
            source.name, "is no whole JSON document of CatBoost", "wait for its next write, or use learn_error.tsv"
        ) from None
