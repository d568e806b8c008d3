"""W&B run files (`run-<id>.wandb`): history, system metrics, configuration, console lines; no wandb package needed.

The file is a log of 32 KiB blocks after a head of 7 bytes, as LevelDB writes them: records are cut into fragments that
do not cross a block, each with CRC, length and type. A record is a protobuf message whose values are JSON text. A
killed run ends at a block with an open fragment; what is whole before it is read.
"""

from __future__ import annotations

import json
import struct
import zlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from playbook.errors import PlaybookError
from playbook.readers import tabular
from playbook.readers.base import RunBuilder, flat, number, whole_step
from playbook.readers.documents.json_rows import Rows
from playbook.readers.logs import notable
from playbook.readers.logs.rows import Rows as TextRows
from playbook.readers.names import canonical
from playbook.readers.source import Source
from playbook.readers.stores import protobuf
from playbook.readers.text import clean

NAME = "wandb"
TITLE = "W&B run file (.wandb)"

_HEAD = 7  # ":W&B", a magic number of 16 bits, a version
_BLOCK = 32 * 1024
_FRAGMENT = 7  # CRC (4), length (2), type (1)
_FULL, _FIRST, _MIDDLE, _LAST = 1, 2, 3, 4
_HISTORY, _OUTPUT, _CONFIG, _STATS, _OUTPUT_RAW, _RUN = 2, 4, 5, 7, 13, 17  # fields of Record
_ITEM, _STEP = 1, 2  # fields of HistoryRecord
_KEY, _NESTED, _JSON = 1, 2, 16  # fields of a history, config or stats item
_LONGEST = 4096  # characters of a console line that is not yet at its end
_STATS_ITEM, _RUN_ID, _RUN_CONFIG, _LINE = 3, 1, 4, 3


def sniff(head: bytes, path: Path) -> int:
    return 99 if head.startswith(b":W&B") else 0


def read(source: Source, builder: RunBuilder) -> None:
    with source.open() as stream:
        data = stream.read()
    rows, system, console = Rows(builder), _System(builder), _Console(builder)
    config: dict[str, Any] = {}
    count = 0
    for record in _records(data, builder):
        count += 1
        try:
            _take(record, count, rows, system, console, config)
        except (protobuf.BadMessage, UnicodeDecodeError):
            builder.problem(None, f"record {count} cannot be read; it is left out", "", "record")
    builder.set_config(config)
    if not count:
        raise PlaybookError(
            source.name, "the W&B file holds no whole record", "the run wrote nothing; look into its output.log"
        )
    console.finish()
    system.finish()
    columns = rows.columns()
    if any(builder.wants(name) for name in columns):
        tabular.fill(builder, columns)
    else:
        builder.problem(None, "no history of a known metric", tabular.MAP_HINT, "no-rows")
    builder.rows = len(rows.lines)


def _records(data: bytes, builder: RunBuilder) -> Iterator[bytes]:
    """The whole records, put together from their fragments."""
    place, size = _HEAD, len(data)
    open_parts: list[bytes] = []
    while place + _FRAGMENT <= size:
        left = _BLOCK - place % _BLOCK
        if left < _FRAGMENT:
            place += left  # padding
            continue
        stored, length, kind = struct.unpack_from("<IHB", data, place)
        start = place + _FRAGMENT
        if stored == 0 and length == 0 and kind == 0:
            place += left
            continue
        if length > left - _FRAGMENT or kind not in (_FULL, _FIRST, _MIDDLE, _LAST):
            builder.problem(None, f"damaged at byte {place}; the rest of this block is left out", "", "damaged")
            place, open_parts = place + left, []
            continue
        if start + length > size:
            break
        payload = data[start : start + length]
        place = start + length
        if zlib.crc32(payload, zlib.crc32(bytes([kind]))) != stored:
            builder.problem(None, f"a record with a wrong CRC at byte {start - _FRAGMENT} is left out", "", "crc")
            open_parts = []
            continue
        if kind == _FULL:
            open_parts = []
            yield payload
        elif kind == _FIRST:
            open_parts = [payload]
        elif open_parts:
            open_parts.append(payload)
            if kind == _LAST:
                yield b"".join(open_parts)
                open_parts = []
    if open_parts or place < size:
        builder.problem(None, "the last record is cut (the run was killed); it is left out", "", "cut")


def _take(record: bytes, count: int, rows: Rows, system: _System, console: _Console, config: dict[str, Any]) -> None:
    for field, kind, _, start, end in protobuf.fields(record, 0, len(record)):
        if kind != protobuf.BYTES:
            continue
        if field == _HISTORY:
            row = _items(record, start, end, _ITEM)
            step = _history_step(record, start, end)
            if step is not None:
                row.setdefault("_step", step)
            rows.add(row, count)
            rows.builder.run_time = number(row.get("_timestamp")) or rows.builder.run_time
            if (at := whole_step(row.get("_step"))) is not None:
                system.step = at
                console.step(at)
        elif field == _STATS:
            system.add(_items(record, start, end, _STATS_ITEM))
        elif field == _CONFIG:
            _configure(config, _items(record, start, end, 1))
        elif field == _RUN:
            for inner, _, _, first, last in protobuf.fields(record, start, end):
                if inner == _RUN_ID:
                    rows.builder.run = record[first:last].decode("utf-8", "replace")
                elif inner == _RUN_CONFIG:
                    _configure(config, _items(record, first, last, 1))
        elif field in (_OUTPUT_RAW, _OUTPUT):
            for inner, inner_kind, _, first, last in protobuf.fields(record, start, end):
                if inner == _LINE and inner_kind == protobuf.BYTES:
                    console.add(record[first:last].decode("utf-8", "replace"))


def _items(record: bytes, start: int, end: int, item: int) -> dict[str, Any]:
    """The items of a message as {key: value}; a nested key is joined by `/`."""
    result: dict[str, Any] = {}
    for field, kind, _, first, last in protobuf.fields(record, start, end):
        if field != item or kind != protobuf.BYTES:
            continue
        key, nested, text = "", [], ""
        for inner, inner_kind, _, begin, stop in protobuf.fields(record, first, last):
            if inner_kind != protobuf.BYTES:
                continue
            if inner == _KEY:
                key = record[begin:stop].decode("utf-8", "replace")
            elif inner == _NESTED:
                nested.append(record[begin:stop].decode("utf-8", "replace"))
            elif inner == _JSON:
                text = record[begin:stop].decode("utf-8", "replace")
        try:
            result[key or "/".join(nested)] = json.loads(text)
        except (ValueError, RecursionError):
            continue
    return result


def _history_step(record: bytes, start: int, end: int) -> int | None:
    for field, kind, _, first, last in protobuf.fields(record, start, end):
        if field == _STEP and kind == protobuf.BYTES:
            for inner, inner_kind, value, _, _ in protobuf.fields(record, first, last):
                if inner == 1 and inner_kind == protobuf.VARINT:
                    return protobuf.signed(value)
            return 0  # a message without its field holds the default
    return None


def _configure(config: dict[str, Any], items: Mapping[str, Any]) -> None:
    for name, value in flat({key: value for key, value in items.items() if key != "_wandb"}):
        config[name.replace("/", ".").lower()] = value


class _Console:
    """Console lines that speak of trouble become events, as in a text log; the rest is chatter."""

    def __init__(self, builder: RunBuilder) -> None:
        self.rows = TextRows(builder)
        self._see = notable.watch(self.rows)
        self._begun = ""
        self._count = 0

    def step(self, step: int) -> None:
        self.rows.last_step = step
        self.rows.pulse += 1

    def add(self, text: str) -> None:
        lines = (self._begun + text).replace("\r", "\n").split("\n")
        self._begun = lines.pop()[-_LONGEST:]
        for line in lines:
            if line.strip():
                self._count += 1
                self._see(self._count, clean(line))

    def finish(self) -> None:
        self.add("\n")
        self._see(0, "")
        self.rows.finish()


class _System:
    """System metrics come without a step: they belong to the last row of history before them."""

    def __init__(self, builder: RunBuilder) -> None:
        self.builder, self.step = builder, 0
        self._points: dict[str, tuple[list[int], list[float]]] = {}

    def add(self, items: Mapping[str, Any]) -> None:
        for name, value in flat(items):
            found = number(value)
            if found is not None and name.startswith(("gpu.", "system.gpu.")):
                steps, values = self._points.setdefault(name, ([], []))
                steps.append(self.step)
                values.append(found)

    def finish(self) -> None:
        useful = canonical(self._points, {})
        for name in useful:
            steps, values = self._points[name]
            self.builder.add_columns(np.asarray(steps, np.int64), {name: np.asarray(values)})
