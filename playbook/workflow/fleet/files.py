"""Paths -> the files of a fleet as an engine can read them: their format, their columns, whose rank each one is.

Only formats that an engine reads in parallel: parquet, CSV with a header line, JSON lines. All else is for `ingest`.
"""

from __future__ import annotations

import codecs
import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

from playbook.errors import PlaybookError, Problem
from playbook.probes.fleet_engines import File, Files
from playbook.readers import columnar, names, walk
from playbook.readers.source import Source
from playbook.readers.table_shape import split
from playbook.workflow.fleet import rows

INGEST = "`playbook ingest` reads it"
_DELIMITERS = ",\t;|"
_TAIL = 1 << 14  # bytes looked at for the last line, and for the first
_LINES = 2  # a table of thousands of columns is looked at more closely
_PACKED = {".gz": b"\x1f\x8b", ".zst": b"\x28\xb5\x2f\xfd"}  # an engine unpacks what is named so
_UTF16 = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)


def describe(paths: Sequence[str], metric: str, rename: Mapping[str, str]) -> tuple[Files, list[Problem]]:
    """The files of `paths` and what is wrong with some of them. Raises `PlaybookError` where no rank can be told."""
    found = walk.files(paths)
    kinds: dict[str, list[walk.Found]] = {}
    firsts: dict[str, bytes] = {}
    for item in found:
        head = _head(item)
        kinds.setdefault(_format(head), []).append(item)
        firsts[item.name] = head[: head.find(b"\n") + 1]
    fit = {kind: items for kind, items in kinds.items() if kind}
    if not fit:
        what = "is not parquet, CSV or JSON lines in UTF-8 (packed: named .gz or .zst)"
        raise PlaybookError(found[0].name, what, INGEST)
    kind, items = max(fit.items(), key=lambda pair: len(pair[1]))
    problems = [
        Problem(item.name, None, f"left out: the fleet is read from {kind} files", INGEST)
        for other, left in kinds.items()
        if other != kind
        for item in left
    ]
    columns, delimiter = _columns(items[0], kind)
    step, rank, value = _chosen(items[0].name, columns, metric, rename)
    if rank is None and len(bare := [item for item in items if item.rank is None]):
        what = f"no column of ranks (columns: {', '.join(columns[:12])}) and no rank in the file's name"
        raise PlaybookError(
            bare[0].name, what, "name the column with --map rank=COLUMN, or the files rank0, rank1, ..."
        )
    files = []
    for item in items:
        torn = _torn(item.path, step, columns, delimiter) if kind == "csv" else None
        if torn is not None:
            problems.append(Problem(item.name, None, f"the last line (step {torn}) is cut; it is left out", "", "cut"))
        files.append(File(str(item.path), item.rank, torn))
    first = firsts[items[0].name]
    alike = kind == "csv" and all(
        firsts[item.name] == first or _columns(item, kind) == (columns, delimiter) for item in items[1:]
    )
    header = tuple(columns) if alike and len(set(columns)) == len(columns) else ()
    data = Files(tuple(files), kind, step, value, rank, delimiter, header)
    if header and rows.fit(first, data):
        data = replace(data, rows=partial(rows.read, items, first, data))
    return data, problems


def _head(item: walk.Found) -> bytes:
    """The first bytes of a file, unpacked; nothing of what no engine reads, such as standard input or UTF-16."""
    if item.name == "-":
        return b""
    try:
        with item.path.open("rb", buffering=0) as stream:
            head = stream.read(_TAIL)
    except OSError:
        head = b""
    if len(head) < _TAIL or head.count(b"\n") > _LINES:
        start = head[:4]
        if start.isascii() and start[:1] not in (b"\0", b"\x1f", b"(", b""):  # not packed, no mark
            return head
    packed = next((suffix for suffix, mark in _PACKED.items() if head.startswith(mark)), None)
    if head.startswith(_UTF16) or (packed is not None and item.path.suffix.lower() != packed):
        return b""
    return Source(item.path, item.name).head(_TAIL)


def _format(head: bytes) -> str:
    """parquet, json, csv or nothing, by content."""
    if head.startswith(b"PAR1"):
        return "parquet"
    first = head.split(b"\n", 1)[0].strip()
    if first.startswith(b"{"):
        return "json" if first.endswith(b"}") else ""
    return "csv" if b"\0" not in head and any(d.encode() in first for d in _DELIMITERS) else ""


def _columns(item: walk.Found, kind: str) -> tuple[list[str], str]:
    """The names of the columns, and the delimiter of a CSV."""
    if kind == "parquet":
        try:
            sql = f"SELECT * FROM read_parquet({columnar.literal(item.path)})"
            return [name for name, _ in columnar.table_columns(sql)], ","
        except columnar.QueryError as error:
            raise PlaybookError(item.name, f"the parquet file cannot be read: {error}", "fetch it again") from None
    first = Source(item.path, item.name).head(_TAIL).decode("utf-8-sig", "replace").splitlines()[0]
    if kind == "json":
        try:
            return list(json.loads(first)), ","
        except ValueError:
            raise PlaybookError(item.name, "the first line is no JSON object", INGEST, 1) from None
    delimiter = max(_DELIMITERS, key=lambda sign: len(split(first, sign)))
    return split(first, delimiter), delimiter


def _chosen(where: str, columns: list[str], metric: str, rename: Mapping[str, str]) -> tuple[str, str | None, str]:
    """The columns of the step, the rank and the metric."""
    asked = {meaning: raw for raw, meaning in rename.items()}
    for meaning, raw in asked.items():
        if meaning in ("step", "rank", metric) and raw not in columns:
            raise PlaybookError(where, f"no column {raw!r} (columns: {', '.join(columns[:12])})", "correct the --map")
    steps = names.step_names(columns)
    step = asked.get("step") or (steps[0] if steps else None)
    rank = asked.get("rank") or names.rank_name(columns)
    value = asked.get(metric) or next(
        (raw for raw, known in names.canonical(columns, {}).items() if known == metric), None
    )
    for meaning, name in (("step", step), (metric, value)):
        if name is None:
            what = f"no column of the {meaning} (columns: {', '.join(columns[:12])})"
            raise PlaybookError(where, what, f"name it with --map {meaning}=COLUMN")
    assert step is not None and value is not None
    return step, rank, value


def _torn(path: Path, step: str, columns: list[str], delimiter: str) -> int | None:
    """The step of a last line without an end: its last number may have lost digits. None for a whole file."""
    if path.suffix.lower() in _PACKED:
        return None
    with path.open("rb", buffering=0) as stream:
        size = os.fstat(stream.fileno()).st_size
        stream.seek(max(0, size - 1))
        if not size or stream.read(1) in (b"\n", b"\r"):
            return None
        stream.seek(max(0, size - _TAIL))
        tail = stream.read(_TAIL)
    cells = split(tail.rsplit(b"\n", 1)[-1].decode("utf-8", "replace"), delimiter)
    try:
        return int(float(cells[columns.index(step)]))
    except (IndexError, ValueError, OverflowError):
        return None  # no step, no row: the engine leaves it out itself
