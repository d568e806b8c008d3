"""Hugging Face `trainer_state.json`: the `log_history` of a Trainer, with training and evaluation rows mixed.

Rows without a step (predictions) are no points; the summary at the end (`train_runtime`, mean `train_loss`) is no point
of the curve either. What the file says about the run (epochs, batch size, intervals) becomes configuration.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np

from playbook.errors import PlaybookError
from playbook.readers import tabular
from playbook.readers.base import RunBuilder, whole_step
from playbook.readers.documents import json_text
from playbook.readers.documents.json_rows import Rows
from playbook.readers.source import Source

NAME = "trainer_state"
TITLE = "Hugging Face trainer_state.json"

_STEP = re.compile(r'"step"\s*:')
_NOT_CONFIG = ("log_history", "stateful_callbacks", "trial_params", "trial_name")


def sniff(head: bytes, path: Path) -> int:
    if not head.lstrip().startswith(b"{"):
        return 0
    if b'"log_history"' in head:
        return 95
    return 90 if path.name == "trainer_state.json" and b'"global_step"' in head else 0


def read(source: Source, builder: RunBuilder) -> None:
    state, text = json_text.parse(source)
    history = state.get("log_history") if isinstance(state, dict) else None
    if not isinstance(history, list):
        raise PlaybookError(
            source.name, "has no list `log_history`", "take the trainer_state.json of a checkpoint folder"
        )
    builder.set_config({key: value for key, value in state.items() if key not in _NOT_CONFIG and _plain(value)})
    stepped = [row for row in history if isinstance(row, dict) and whole_step(row.get("step")) is not None]
    lines = _lines(text, len(stepped))
    rows = Rows(builder)
    for place, row in enumerate(stepped):
        if "train_runtime" not in row:
            rows.add(row, lines[place] if lines else 0)
        elif (loss := row.get("train_loss")) is not None:
            builder.set_config({"summary/train_loss": loss})
    if not rows.lines:
        builder.problem(
            None, "log_history holds no training row yet", "nothing to judge; wait for the first log step", "no-rows"
        )
        return
    tabular.fill(builder, rows.columns(), np.asarray(rows.lines, np.int64) if lines else None)


def _plain(value: Any) -> bool:
    return value is None or isinstance(value, (bool, int, float, str))


def _lines(text: str, rows: int) -> list[int]:
    """The line of each row's step, empty where that cannot be told (one long line, other objects with a step)."""
    start = text.find('"log_history"')
    places = [hit.start() for hit in _STEP.finditer(text, max(0, start))][: rows + 1]
    if len(places) != rows or "\n" not in text:
        return []
    lines, line, before = [], 1, 0
    for place in places:
        line += text.count("\n", before, place)
        before = place
        lines.append(line)
    return lines
