"""Many small tables under one header (a file a rank): their rows are read together, a megabyte at a time.

To open and to look at a file of 5000 rows costs several times what its numbers do. A file is taken only where its
header is byte for byte that of the table before it and every line is plain: then its reader, its shape and its rows are
known, and it says what it would say alone. Any other file is left to be read by itself.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from playbook.errors import PlaybookError
from playbook.readers import held_out, refuse, tabular
from playbook.readers.base import CERTAIN, RunBuilder
from playbook.readers.source import HEAD, Source
from playbook.readers.table_shape import SAMPLE, Shape, column_names, detect, split
from playbook.readers.tables import csv_plain, csv_table
from playbook.readers.tables.csv_rows import Column
from playbook.readers.tables.digits import PAD
from playbook.readers.walk import Found

_SMALL = 1 << 20  # bytes of a file that is read whole
_BLOCK = 1 << 20  # bytes read together
_SHARE = 0.3  # of the columns that must be wanted, and so known to hold numbers: what `detect` asks of a table


@dataclass(frozen=True)
class Pattern:
    """The table before: its first line with its end, its shape, its wanted columns."""

    header: bytes
    shape: Shape
    wanted: tuple[str, ...]


def pattern(before: Found, builder: RunBuilder) -> Pattern | None:
    """What further files must look like to be read as `before` was; None where its own look says too little."""
    try:
        source = Source(before.path, before.name)
        head = source.head()
    except (OSError, PlaybookError):
        return None
    shape = detect(head, source.inner, len(head) < HEAD)
    header = head[: head.find(b"\n") + 1]
    if shape is None or shape.first != 2 or shape.delimiter not in csv_plain.DELIMITERS:
        return None
    if not csv_plain.bare(header) or held_out.label_columns(shape.names):
        return None
    earlier = ",\t;"[: ",\t;".index(shape.delimiter)]  # tried before this one
    wanted = tuple(name for name in shape.names if csv_table.needed(name, builder))
    enough = len(wanted) >= _SHARE * len(shape.names) and any(builder.wants(name) for name in wanted)
    if not enough or any(sign.encode() in header for sign in earlier) or csv_table.sniff(head, before.path) < CERTAIN:
        return None
    return Pattern(header, shape, wanted)


def read(
    items: Sequence[Found], like: Pattern, names: Mapping[str, str], step: str | None
) -> tuple[int, dict[int, RunBuilder]]:
    """(how many of `items` were looked at, the builders of those that could be read together)."""
    done: dict[int, RunBuilder] = {}
    held: list[tuple[int, bytes]] = []
    size = place = 0
    reader = csv_plain.Reader(like.wanted, like.shape.delimiter)
    known: dict[str, np.ndarray] = {}

    def together() -> None:
        blocks = [body for _, body in held]
        for (index, _), part in zip(held, rows(blocks, like.shape, reader), strict=True):
            if part is not None:
                builder = RunBuilder(items[index].name, csv_table.NAME, items[index].rank, names, step)
                if _filled(builder, like, part[0], _shared(*part, known), known[""]):
                    done[index] = builder
        held.clear()

    for place, item in enumerate(items):
        text = body(item, like.header) if item.name != "-" else None
        if text is None:
            break
        if text and _alone(item, text, like):
            held.append((place, text))
            size += len(text)
        if size >= _BLOCK:
            together()
            size = 0
    else:
        place = len(items)
    together()
    return place, done


def body(item: Found, header: bytes) -> bytes | None:
    """What stands below the header; nothing where the file must be read by itself, None where it is another table."""
    try:
        with item.path.open("rb", buffering=0) as stream:
            size = os.fstat(stream.fileno()).st_size
            data = stream.read(size + 1) if size <= _SMALL else stream.read(len(header))
    except OSError:
        return b""
    if not data.startswith(header):
        return None
    if len(data) > size or size > _SMALL or not data.endswith(b"\n"):
        return b""
    return data[len(header) :]


def _alone(item: Found, text: bytes, like: Pattern) -> bool:
    """Whether the file read by itself would be known as the same table."""
    if text.find(b"\n", text.find(b"\n") + 1, HEAD) < 0:
        return False
    if like.shape.delimiter == "\t":  # a look at a table strips its lines, and empty cells at their ends with them
        head = like.header + text[: HEAD - len(like.header)]
        seen = detect(head, item.path, len(head) < HEAD)
        return seen is not None and (seen.names, seen.delimiter, seen.first) == (like.shape.names, "\t", 2)
    try:
        refuse.unusable(Source(item.path, item.name), like.header + text[:512])
    except PlaybookError:
        return False
    names = column_names(split(like.header[:-1].decode(), like.shape.delimiter), item.path)
    return tuple(names) == like.shape.names


def rows(bodies: list[bytes], shape: Shape, reader: csv_plain.Reader) -> list[tuple[int, dict[str, Column]] | None]:
    """(count, columns) of each body; None where a line of it is not plain."""
    if not bodies:
        return []
    block = b"".join((b"\0" * PAD, *bodies))
    places = {name: place for place, name in enumerate(shape.names)}
    found = reader.lines(block, PAD, len(block), places, len(shape.names))
    if found is None or found.loose:
        return [None for _ in bodies]
    stops = np.searchsorted(found.ends, PAD + np.cumsum([len(body) for body in bodies]))
    if found.plain is None:
        kept = stops
    else:
        kept = np.searchsorted(found.plain, stops)
    result: list[tuple[int, dict[str, Column]] | None] = []
    start = begin = 0
    for stop, end in zip(stops.tolist(), kept.tolist(), strict=True):
        cut = slice(begin, end)
        if end - begin != stop - start:
            result.append(None)
        else:
            part = {name: (v[cut], None if m is None else m[cut]) for name, (v, m) in found.columns.items()}
            result.append((end - begin, part))
        start, begin = stop, end
    return result


def _shared(count: int, columns: dict[str, Column], known: dict[str, np.ndarray]) -> dict[str, Column]:
    """Columns that the file before has too (steps, a rate) become one array; so do the lines, under no name."""
    if len(known.get("", ())) != count:
        known[""] = np.arange(2, count + 2, dtype=np.int64)
    result = dict(columns)
    for name, (values, missing) in columns.items():
        before = known.get(name)
        if missing is not None:
            continue
        if before is not None and before.dtype == values.dtype and _equal(before, values):
            result[name] = before, None
        elif before is None or values.dtype.kind == "i":
            known[name] = values.copy()  # of its own: not to hold what was read together with it
            result[name] = known[name], None
    return result


def _equal(one: np.ndarray, other: np.ndarray) -> bool:
    """The same bits, so that -0 is not 0; told by a few entries for most pairs that differ."""
    if len(one) != len(other) or one[-1] != other[-1] or one[len(one) // 2] != other[len(other) // 2]:
        return False
    return bool((one.view(np.int64) == other.view(np.int64)).all())


def _filled(builder: RunBuilder, like: Pattern, count: int, columns: dict[str, Column], lines: np.ndarray) -> bool:
    """Hand the rows of one file to its builder; False where they are no run by themselves."""
    builder.columns = like.shape.names
    builder.see(name for name in like.shape.names if name not in like.wanted)
    sample = slice(0, SAMPLE)
    holes = sum(int(missing[sample].sum()) for _, missing in columns.values() if missing is not None)
    if len(columns) * min(count, SAMPLE) - holes < _SHARE * len(like.shape.names) * min(count, SAMPLE):
        return False
    if any(missing is not None and tabular.seldom(int(missing.sum()), len(missing)) for _, missing in columns.values()):
        return False  # perhaps damage: looked at more closely
    masked = {}
    for name, (values, missing) in columns.items():
        hidden = missing if missing is not None and missing.any() else np.ma.nomask
        masked[name] = np.ma.MaskedArray(values, hidden, copy=False)
    try:
        tabular.fill(builder, masked, lines, 1)
    except PlaybookError:
        return False
    return True
