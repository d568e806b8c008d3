"""Tables of text with any delimiter: Lightning and Keras CSV, Ultralytics results.csv, SB3 progress.csv, exports.

Cells may be padded, empty (not logged) or carry a unit; NaN and infinities are kept. Small tables are read line by line
without heavy imports, those above 5 MB by duckdb and only in the columns that can become metrics.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from playbook.errors import PlaybookError
from playbook.readers import held_out, tabular
from playbook.readers.base import CERTAIN, RunBuilder
from playbook.readers.names import epoch_name, plain, rank_name, step_names
from playbook.readers.source import HEAD, Source
from playbook.readers.table_shape import Shape, base_name, column_names, detect, split
from playbook.readers.tables import csv_bulk, csv_plain
from playbook.readers.tables.csv_rows import LAST, Rows, cut

NAME = "csv"
TITLE = "Table of metrics (CSV, TSV, any delimiter)"

_CURVES = frozenset(("loss", "train loss", "training loss", "eval loss", "val loss", "grad norm"))
_LARGE = 5 << 20  # bytes; below, duckdb's import (0.1 s) costs more than it saves


def sniff(head: bytes, path: Path) -> int:
    if head[:1] in (b"{", b"["):
        return 0
    shape = detect(head, path, len(head) < HEAD)
    if shape is None:
        return 0
    known = [name for name in shape.names if step_names([name]) or epoch_name([name])]
    if not shape.headed:
        return 8 if shape.rows > 1 else 2
    plains = {base_name(name) for name in shape.names}
    if known and shape.rows > 1 and shape.delimiter in ",\t;" and not plains.isdisjoint(_CURVES):
        return CERTAIN
    score = 35 + 15 * bool(known) + 5 * (path.suffix.lower() in (".csv", ".tsv"))
    if shape.rows:
        return score
    return 20 if known or not plains.isdisjoint(_CURVES) else 4  # two lines of an error are no header


def read(source: Source, builder: RunBuilder) -> None:
    head = source.head()
    shape = detect(head, source.inner, len(head) < HEAD)
    if shape is None:
        raise PlaybookError(source.name, "no table with a header and rows of numbers", tabular.MAP_HINT)
    if not shape.rows:
        raise PlaybookError(
            source.name,
            "the table has a header and no rows",
            "check that the job has logged something",
            shape.first - 1,
        )
    builder.columns = shape.names
    wanted = [name for name in shape.names if needed(name, builder)]
    labels = held_out.label_columns(shape.names)
    if not labels and not any(builder.wants(name) for name in wanted):
        what = f"no column of a known metric (columns: {tabular.shown(shape.names)})"
        raise PlaybookError(source.name, what, tabular.MAP_HINT, shape.first - 1 or 1)
    if (
        source.size > _LARGE
        and (shape.delimiter not in csv_plain.DELIMITERS or b'"' in head[head.find(b"\n") :])
        and shape.rough.isdisjoint(wanted)
        and not labels
        and _read_large(source, builder, shape, wanted)
    ):
        return
    table = _rows(source, builder, shape, wanted, labels)
    if not table.columns.size:
        raise PlaybookError(
            source.name,
            "the table has a header and no whole row",
            "check that the job has logged something",
            shape.first,
        )
    _tell_of_words(source, builder, shape, table)
    columns = held_out.spread(table.columns.masked(), table.labels)
    builder.see(name for name in shape.names if name not in wanted and name not in labels)
    tabular.fill(builder, columns, table.columns.lines(), shape.first - 1 or 1)


def _tell_of_words(source: Source, builder: RunBuilder, shape: Shape, table: Rows) -> None:
    """Name the columns of numbers that hold something else in a few of their cells: a damaged row looks like that."""
    if source.size > _LARGE:
        return
    lines = table.columns.lines()
    odd: dict[int, list[str]] = {}
    for name, column in table.columns.masked().items():
        gaps = np.ma.getmaskarray(column)
        if tabular.seldom(int(gaps.sum()), len(gaps)):
            for row in np.flatnonzero(gaps).tolist():
                odd.setdefault(int(lines[row]), []).append(name)
    found: dict[str, list[tuple[int, str]]] = {}
    for number, text, _ in source.marked_lines() if odd else ():
        cells = split(text, shape.delimiter) if number in odd else []
        if len(cells) == len(shape.names):
            for name in odd[number]:
                said = cells[shape.names.index(name)].strip().strip('"').strip()
                if said.lower() not in tabular.BLANK:
                    found.setdefault(name, []).append((number, said))
    for name, told in found.items():
        tabular.tell_of_words(builder, name, told)


def needed(name: str, builder: RunBuilder) -> bool:
    """Columns that are parsed: metrics, and what may count steps, epochs or ranks."""
    if builder.wants(name) or step_names([name]) or epoch_name([name]) or rank_name([name]) or plain(name) == "value":
        return True
    return builder.step_column is not None and plain(builder.step_column) == plain(name)


def _rows(source: Source, builder: RunBuilder, shape: Shape, wanted: list[str], labels: list[str]) -> Rows:
    """All rows: plain lines by the megabyte, the others one by one."""
    if shape.delimiter in csv_plain.DELIMITERS and not labels:
        rows, told = Rows(builder, shape, wanted, labels, source.inner), len(builder.problems)
        if csv_bulk.read(source, rows):
            rows.finish()
            return rows
        del builder.problems[told:]
    return one_by_one(source, builder, shape, wanted, labels)


def one_by_one(source: Source, builder: RunBuilder, shape: Shape, wanted: list[str], labels: list[str]) -> Rows:
    """All rows, each line looked at for itself."""
    rows = Rows(builder, shape, wanted, labels, source.inner)
    for number, text, whole in source.marked_lines():
        rows.line(number, text, whole)
    rows.finish()
    return rows


def _read_large(source: Source, builder: RunBuilder, shape: Shape, wanted: list[str]) -> bool:
    """Read by duckdb; False where it cannot (then the lines are read one by one)."""
    from playbook.readers import columnar

    if shape.delimiter == " ":
        return False
    kinds = ", ".join(f"'c{place}': 'VARCHAR'" for place in range(len(shape.names)))
    chosen = [(name, place) for place, name in enumerate(shape.names) if name in wanted]
    counted = frozenset(name for name, _ in chosen if step_names([name]) and not builder.wants(name))
    # Without `trim` duckdb moves the cast into the scan, and drops the whole row of a cell that is no number.
    terms = [(f"TRY_CAST(trim(c{place}) AS DOUBLE)", name in counted) for name, place in chosen]
    picked = ", ".join(columnar.whole(term) if whole else term for term, whole in terms)
    with source.as_plain_file() as path:
        size = path.stat().st_size
        with path.open("rb") as stream:
            start = stream.read(HEAD)
            stream.seek(max(0, size - HEAD))
            end = stream.read()
        guess = int(1.2 * size / max(1, len(start) / max(1, start.count(b"\n")))) + 1000
        sql = (
            f"SELECT {picked} FROM read_csv({columnar.literal(path)}, delim = '{shape.delimiter}', quote = '\"', "
            f"escape = '\"', header = false, auto_detect = false, columns = {{{kinds}}}, "
            f"skip = {shape.first - 1}, null_padding = true, strict_mode = false, ignore_errors = true)"
        )
        try:
            read = columnar.fetch(sql, [name for name, _ in chosen], guess, counted)
        except columnar.QueryError:
            return False
        lines = source.line_count()
    size = len(read[chosen[0][0]])
    last = [split(text.decode("utf-8", "replace"), shape.delimiter) for text in end.split(b"\n")[-LAST:]]
    before = [cells[-1] for cells in last[1:-1] if cells]
    if not end.endswith(b"\n") and cut(last[-1], len(shape.names), before):
        builder.problem(lines, "the last line is cut; it is left out", "", "cut")
        read, size, lines = {name: column[:-1] for name, column in read.items()}, size - 1, lines - 1
    numbered = np.arange(shape.first, shape.first + size, dtype=np.int64) if lines - shape.first + 1 == size else None
    masks = [np.ma.getmask(column) for column in read.values()]
    if not any(mask is np.ma.nomask for mask in masks) and (odd := np.logical_and.reduce(masks)).any():
        if numbered is None or not _same_header(source, shape, frozenset(numbered[odd].tolist())):
            return False  # another header, a marker of a merge: the slow way knows what to do
        read, numbered = {name: column[~odd] for name, column in read.items()}, numbered[~odd]
    if numbered is None:
        left = lines - shape.first + 1 - size
        builder.problem(None, f"{left} lines are blank or no rows of this table", "", "cells")
    builder.see(name for name in shape.names if name not in wanted)
    tabular.fill(builder, read, numbered, shape.first - 1 or 1)
    return True


def _same_header(source: Source, shape: Shape, lines: frozenset[int]) -> bool:
    """Whether the lines without any number are the table's own header again (a job that began anew)."""
    return all(
        tuple(column_names(split(text, shape.delimiter), source.inner)) == shape.names
        for line, text in source.lines()
        if line in lines
    )
