"""The rows of a fleet's plain CSV files, read by our own reader and handed to the engine in bulk.

A file goes this way only where the engine would read the same: one header, cells that are numbers, NaN, infinities or
nothing, an end to every line. Any other file is handed back for the engine to read.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

import numpy as np

from playbook.probes.fleet_engines import File, Files, Rows
from playbook.readers import pages
from playbook.readers.table_shape import Shape
from playbook.readers.tables import csv_many, csv_plain
from playbook.readers.tables.csv_rows import Column
from playbook.readers.walk import Found

_BLOCK = 1 << 20  # bytes read together
_ROWS = 500_000  # rows handed over at once: 12 MB
_SAME = re.compile(rb"[+-]?(?:nan|inf|infinity)|-?\d+(?:\.\d+)?(?:e[+-]?\d+)?", re.IGNORECASE)  # to us and to an engine


def fit(first: bytes, data: Files) -> bool:
    """Whether the first line of all files leaves no doubt about the columns."""
    plain = first.endswith(b"\n") and csv_plain.bare(first)
    return plain and data.format == "csv" and data.delimiter in csv_plain.DELIMITERS


def read(items: Sequence[Found], first: bytes, data: Files) -> Iterator[Rows | File]:
    """All rows of the files that are plain, and each file that is not. `items` and `data.files` go together."""
    pages.keep()
    wanted = list(dict.fromkeys(name for name in (data.step, data.value, data.rank) if name is not None))
    shape = Shape(data.delimiter, data.header, 2, True, frozenset(), 2)
    held: list[tuple[File, bytes]] = []
    rows: list[Rows] = []
    size = count = 0
    for item, file in [*zip(items, data.files, strict=True), (None, None)]:
        if item is not None and file is not None:
            text = csv_many.body(item, first) if file.torn is None else b""
            if text:
                held.append((file, text))
                size += len(text)
            else:
                yield file
        if held and (size >= _BLOCK or item is None):
            for part in _block(held, data, shape, wanted):
                if isinstance(part, File):
                    yield part
                else:
                    rows.append(part)
                    count += len(part.step)
            held, size = [], 0
        if rows and (count >= _ROWS or item is None):
            yield _joined(rows)
            rows, count = [], 0


def _block(held: list[tuple[File, bytes]], data: Files, shape: Shape, wanted: list[str]) -> Iterator[Rows | File]:
    reader = csv_plain.Reader(wanted, data.delimiter)
    found = csv_many.rows([text for _, text in held], shape, reader)
    strange = any(not _SAME.fullmatch(word) for word in reader.words)
    for (file, _), part in zip(held, found, strict=True):
        rows = None if part is None or strange else _rows(*part, file, data)
        yield file if rows is None else rows


def _rows(count: int, columns: dict[str, Column], file: File, data: Files) -> Rows | None:
    """The rows of one file; None where a step or a rank is no whole number."""
    steps, gaps = columns[data.step]
    if data.rank is None:
        ranks, unknown = np.full(count, file.rank, np.int64), None
    else:
        ranks, unknown = columns[data.rank]
    if steps.dtype.kind != "i" or ranks.dtype.kind != "i" or gaps is not None or unknown is not None:
        return None
    values, missing = columns[data.value]
    values = values.astype(np.float64, copy=False)
    if missing is not None and missing.any():
        values = np.ma.MaskedArray(values, missing, copy=False)
    return Rows(steps, ranks, values)


def _joined(rows: list[Rows]) -> Rows:
    masked = any(isinstance(part.value, np.ma.MaskedArray) for part in rows)
    together = np.ma.concatenate if masked else np.concatenate  # the former takes ten times as long
    return Rows(
        np.concatenate([part.step for part in rows]),
        np.concatenate([part.rank for part in rows]),
        together([part.value for part in rows]),
    )
