"""Large JSON lines by duckdb: only the keys that can become metrics, NaN tokens and texts as numbers, damage as no row.

Keys are looked for in samples over the whole file. Rows that hold none of them (a rare validation row, a broken line)
are read again one by one, so that nothing depends on the luck of the samples.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np

from playbook.errors import PlaybookError
from playbook.readers import held_out, tabular
from playbook.readers.base import RunBuilder, flat, number
from playbook.readers.documents.json_lines import MAX_ROW, gather, objects
from playbook.readers.documents.json_rows import Rows, counts_rows
from playbook.readers.names import plain, step_names
from playbook.readers.source import Source

_KEY = re.compile(rb'"([^"\\]{1,100})"\s*:')
_SAMPLES = 64
_ROWS = 10  # rows of each sample that are parsed in any case
_SAMPLE_BYTES = 64 * 1024
_LONGEST = 1 << 20  # bytes of one object
_ODD = 0.3  # share of rows without any sampled key above which the file is read line by line


def read(source: Source, builder: RunBuilder) -> bool:
    """Fill the builder; False where the file is not of the simple kind, and then nothing was added."""
    from playbook.readers import columnar

    with source.as_plain_file() as file:
        rows, mean = _sampled(file)
        keys = _keys(rows, builder)
        if not keys:
            return False
        guess = int(1.2 * file.stat().st_size / mean) + 1000
        names = list(keys)
        counted = frozenset(name for name in names if step_names([name]) and not builder.wants(name))
        paths = [".".join(map(columnar.name, keys[name])) for name in names]
        terms = [columnar.whole(path) if name in counted else path for path, name in zip(paths, names, strict=True)]
        picked = ", ".join(f"{term} AS m{place}" for place, term in enumerate(terms))
        sql = (
            f"SELECT {picked} FROM read_json({columnar.literal(file)}, format = 'newline_delimited', "
            f"ignore_errors = true, maximum_object_size = {_LONGEST}, columns = {_typed(keys.values())})"
        )
        try:
            with ThreadPoolExecutor(1) as beside:
                count = beside.submit(source.line_count)
                columns = columnar.fetch(sql, names, guess, counted)
        except columnar.QueryError:
            return False
    size = len(columns[names[0]])
    masks = [np.ma.getmask(columns[name]) for name in names if not counts_rows(name, builder)]
    full = any(mask is np.ma.nomask for mask in masks)
    odd = np.zeros(size, bool) if full else np.logical_and.reduce(masks) if masks else np.ones(size, bool)
    if not size or np.mean(odd) > _ODD:
        return False
    lines = np.arange(1, size + 1, dtype=np.int64) if count.result() == size else None  # no line is blank
    if lines is None and odd.any():
        return False
    owner = tabular.fill(builder, columns, lines)
    if odd.any() and lines is not None:
        rest = Rows(builder)
        builder.rows -= int(odd.sum())
        chosen = frozenset(lines[odd].tolist())
        gather((item for item in source.marked_lines(MAX_ROW) if item[0] in chosen), rest)
        with suppress(PlaybookError):  # rows of other kinds need not hold a metric
            if rest.lines:
                tabular.fill(builder, rest.columns(), np.asarray(rest.lines, np.int64), rest.lines[0], owner)
    return True


def _sampled(path: Path) -> tuple[list[dict[str, Any]], float]:
    """(rows from all over the file, among them one with each key of the samples; bytes of a line)."""
    size = path.stat().st_size
    rows: list[dict[str, Any]] = []
    known: set[bytes] = set()
    seen, count = 0, 0
    with path.open("rb") as stream:
        for part in range(_SAMPLES):
            stream.seek(part * max(0, size - _SAMPLE_BYTES) // (_SAMPLES - 1))
            data = stream.read(_SAMPLE_BYTES)
            lines = data.split(b"\n")[1 if part else 0 : -1]
            seen, count = seen + len(data), count + data.count(b"\n")
            fresh = set(_KEY.findall(data)) - known
            known |= fresh
            for place, line in enumerate(lines):
                if place < _ROWS or (fresh and not fresh.isdisjoint(_KEY.findall(line))):
                    rows += objects(line.decode("utf-8", "replace"))
                    fresh.difference_update(_KEY.findall(line))
    return rows, max(1.0, seen / max(1, count))


def _keys(rows: list[dict[str, Any]], builder: RunBuilder) -> dict[str, tuple[str, ...]]:
    """raw name -> its path of keys; empty where rows need more than columns (labels, validation rows, twin names)."""
    found: dict[str, tuple[str, ...]] = {}
    plains: dict[tuple[str, ...], tuple[str, ...]] = {}
    for row in rows:
        if (
            any(plain(key) in held_out.SPLITS and isinstance(value, str) for key, value in row.items())
            or "value" in row
        ):
            return {}
        if "data_time" in row and "time" in row and "lr" not in row:
            return {}
        for name, value in flat(row):
            if name in found or number(value) is None:
                continue
            if not builder.wants(name) and not counts_rows(name, builder):
                builder.see([name])
                continue
            path = _path(row, name)
            lower = tuple(part.lower() for part in path)
            if path == () or plains.setdefault(lower, path) != path:
                return {}  # duckdb does not tell `Loss` from `loss`
            found[name] = path
    return found


def _path(row: Mapping[str, Any], name: str) -> tuple[str, ...]:
    """The keys that lead to a flat name (keys may hold a `/` themselves)."""
    if name in row:
        return (name,)
    for key, value in row.items():
        if isinstance(value, Mapping) and name.startswith(f"{key}/"):
            rest = _path(value, name[len(key) + 1 :])
            if rest:
                return (key, *rest)
    return ()


def _typed(paths: Any) -> str:
    """The `columns` argument: {'loss': 'DOUBLE', 'train': 'STRUCT("lr" DOUBLE)'}."""
    tree: dict[str, Any] = {}
    for path in paths:
        node = tree
        for part in path[:-1]:
            node = node.setdefault(part, {})
        node[path[-1]] = None

    def kind(node: dict[str, Any] | None) -> str:
        if node is None:
            return "DOUBLE"
        inner = ", ".join('"' + key.replace('"', '""') + '" ' + kind(value) for key, value in node.items())
        return f"STRUCT({inner})"

    def text(value: str) -> str:
        return "'" + value.replace("'", "''") + "'"

    return "{" + ", ".join(f"{text(key)}: {text(kind(value))}" for key, value in tree.items()) + "}"
