"""JSON lines: one object a logged row (Detectron2, mmengine, DETR, LLaMA-Factory, fairseq, W&B history, own loops).

Bare NaN and Infinity, numbers as texts, nested objects, rows of other kinds in between, merge-conflict markers and a
cut last line are all met in the wild. Large files are read a column at a time, with the same result.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from playbook.errors import PlaybookError
from playbook.readers import tabular
from playbook.readers.base import CERTAIN, RunBuilder
from playbook.readers.documents.json_rows import Rows
from playbook.readers.documents.json_words import listen
from playbook.readers.names import epoch_name, step_names, wanted
from playbook.readers.source import HEAD, Source
from playbook.readers.table_shape import MARKERS

NAME = "jsonl"
TITLE = "JSON lines"

MAX_ROW = 32 << 20  # bytes of one row: a table of samples or a long text may stand beside its numbers
_LARGE = 1 << 20  # bytes above which columns are read at once ...
_HUGE = 8 << 20  # ... and by duckdb where the rows have too many shapes for that
_DECODER = json.JSONDecoder()


def sniff(head: bytes, path: Path) -> int:
    lines = [line.strip() for line in head.decode("utf-8", "replace").split("\n")]
    lines = [line for line in lines if line and not line.startswith(MARKERS)]
    if not lines or not lines[0].startswith("{"):
        return 0
    cut = len(head) >= HEAD
    found = [row for line in lines[:20] if line.startswith("{") for row in objects(line)]
    if not found:
        return 0
    if len(found) == 1 and not cut:  # one object is rather a document
        row = found[0]
        rowlike = any(step_names([key]) or epoch_name([key]) for key in row) and any(wanted(key, {}) for key in row)
        lines_named = path.suffix.lower() in (".jsonl", ".ndjson", ".jl")
        return 70 if rowlike and lines_named else 45 if rowlike and len(lines) <= 2 else 15 if lines_named else 0
    if len(found) > 1 and any(step_names(row) and "loss" in row for row in found):
        return CERTAIN
    known = any(wanted(key, {}) for row in found for key in _keys(row))
    return 65 if known else 40


def long_lines(source: Source) -> bool:
    """Whether the file holds an object a line, but the first one is longer than what `sniff` sees."""
    if b"\n" in source.head():
        return False
    lines = source.marked_lines(MAX_ROW)
    _, first, whole = next(lines, (0, "", False))
    return whole and next(lines, None) is not None and any(objects(first))


def read(source: Source, builder: RunBuilder) -> None:
    _rows(source, builder)
    listen(source, builder)


def _rows(source: Source, builder: RunBuilder) -> None:
    if source.size > _LARGE:
        from playbook.readers.documents import json_columns

        if json_columns.read(source, builder):
            return
    if source.size > _HUGE:
        from playbook.readers.documents import json_large

        if json_large.read(source, builder):
            return
    rows = Rows(builder)
    gather(source.marked_lines(MAX_ROW), rows)
    if not rows.lines:
        raise PlaybookError(source.name, "no line holds a JSON object", "write one object a line")
    rows.tell_of_words()
    tabular.fill(builder, rows.columns(), np.asarray(rows.lines, np.int64), rows.lines[0])


def gather(lines: Iterable[tuple[int, str, bool]], rows: Rows) -> None:
    """Take the rows of (line number, text, whether it has its end), telling of what is no row."""
    builder = rows.builder
    conflict, broken = False, 0
    for line, text, whole in lines:
        text = text.strip()
        if not text:
            continue
        found = list(objects(text)) if text[0] in "{[" else []
        for row in found:
            rows.add(row, line)
        if found:
            continue
        if text.startswith(MARKERS):
            if not conflict:
                builder.problem(line, "git merge-conflict marker; the rows of both sides are read", "resolve the merge")
            conflict = True
        elif len(text) == MAX_ROW:
            builder.problem(line, f"a row of more than {MAX_ROW >> 20} MB; it is left out", "", "too-long")
        elif not whole:
            builder.problem(line, "the last line is cut; it is left out", "", "cut")
        else:
            broken += 1
            if broken <= 3:
                builder.problem(line, "not a JSON object; the line is left out", "", "not-json")
    if broken > 3:
        builder.problem(None, f"{broken} lines in all are no JSON objects", "", "not-json")


def objects(text: str) -> Iterator[dict[str, Any]]:
    """The objects of one line (several writers may have glued theirs together); nothing where it is broken."""
    place = 0
    while place < len(text):
        try:
            value, place = _DECODER.raw_decode(text, place)
        except (ValueError, RecursionError):
            return
        if isinstance(value, dict):
            yield value
        while place < len(text) and text[place] in " \t,\r":
            place += 1


def _keys(row: dict[str, Any]) -> Iterator[str]:
    for key, value in row.items():
        yield key
        if isinstance(value, dict):
            yield from (f"{key}/{inner}" for inner in value)
        elif isinstance(value, str) and len(value) < 60:
            yield value  # {"metric": "loss", "value": 2.3}
