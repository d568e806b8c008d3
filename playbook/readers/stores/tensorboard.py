"""TensorBoard event files: every scalar, from TensorFlow 1, Keras, PyTorch and the Hugging Face Trainer.

Own reader: the frames are walked once, records of one layout (same tags, same lengths) are decoded together in numpy,
and the CRC of each is checked. Nothing is sampled. A step that is not stored is 0. Graphs, images and histograms are
stepped over.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

import numpy as np

from playbook.errors import PlaybookError
from playbook.readers import held_out
from playbook.readers.base import RunBuilder
from playbook.readers.source import Source
from playbook.readers.stores import protobuf, tfrecord

NAME = "tensorboard"
TITLE = "TensorBoard event file"
PARTS = True  # a resumed job adds a file to the folder

_LAYOUTS = 200  # different record layouts of one length that are decoded together; what is left goes one by one
_PIECE = 4 << 20  # bytes of records that are decoded at once
_LONG = 64 << 20  # bytes of a record above which it is stepped over unread
_KIND = 24  # bytes of a record that tell its kind
_WALL_TIME = 9  # first byte of an Event: field 1, eight bytes
_SHORT = 1 << 12  # bytes: longer records are few, and go one by one
_STEP, _SUMMARY, _VALUE = 2, 5, 1  # fields of Event and Summary
_TAG, _SIMPLE, _TENSOR, _METADATA = 1, 2, 8, 9  # fields of Summary.Value
_WHOLE = "varint"
_DTYPES = {1: "<f4", 2: "<f8", 3: "<i4", 9: "<i8", 19: "<f2", 6: "<i1", 4: "<u1", 5: "<i2", 22: "<u4", 23: "<u8"}
_LISTS = {5: "<f4", 6: "<f8", 7: _WHOLE, 10: _WHOLE}  # TensorProto: float_val, double_val, int_val, int64_val

Points = dict[str, tuple[list[np.ndarray], list[np.ndarray], list[np.ndarray]]]  # tag -> order, steps, values


def sniff(head: bytes, path: Path) -> int:
    return 99 if tfrecord.is_frame(head[:12]) else 97 if "tfevents" in path.name and b"brain.Event:" in head[:64] else 0


def read(source: Source, builder: RunBuilder) -> None:
    points: Points = {}
    broken = count = 0
    with source.open() as stream:
        for data, starts, sizes in _pieces(stream, builder):
            for size in np.unique(sizes[sizes <= _SHORT]):
                which = np.flatnonzero(sizes == size)
                broken += _same_length(data, which, starts[which], int(size), points, count)
            for place in np.flatnonzero(sizes > _SHORT):
                broken += _one(data, count + int(place), int(starts[place]), int(sizes[place]), points)
            count += len(starts)
    if broken:
        builder.problem(None, f"{broken} records with a wrong CRC are left out", "fetch the file again", "crc")
    if not points:
        what = "the event file holds no record yet" if count <= 1 else "the event file holds no scalar"
        raise PlaybookError(source.name, what, "check that the job has logged something")
    _add(builder, points, "val/" if held_out.is_held(source.inner.parent.name) else "")


def _pieces(stream: BinaryIO, builder: RunBuilder) -> Iterator[tuple[bytes, np.ndarray, np.ndarray]]:
    """(bytes, starts, sizes of the payloads in them) piece by piece; tells where the frames end too early."""
    tail, before = b"", 0  # bytes that are left of the last piece, bytes before them
    while True:
        more = stream.read(_PIECE)
        data = tail + more if tail else more
        starts, sizes, stop = tfrecord.frames(data)
        if len(starts):
            yield data, starts, sizes
        tail = b"" if stop is None else data[stop:]
        before += len(data) - len(tail)
        if not more:
            break
        if len(tail) >= tfrecord.FRAME and not tfrecord.is_frame(tail):
            break
        if len(tail) >= tfrecord.FRAME and (size := tfrecord.size(tail)) > _LONG:
            left = size - len(tail)
            while left > 0 and (skipped := stream.read(min(left, _PIECE))):  # a video: no scalar is so long
                left -= len(skipped)
            if left > 0:
                break
            before, tail = before + size, b""
    if tail:
        left = len(tail)
        while more := stream.read(_PIECE):
            left += len(more)
        cut = len(tail) < tfrecord.FRAME or tfrecord.is_frame(tail)
        what = "the last record is cut; it is left out" if cut else f"damaged: the last {left} bytes are not read"
        hint, code = ("", "cut") if cut else ("fetch the file again", "damaged")
        builder.problem(None, f"{what} (byte {before})", hint, code)


def _add(builder: RunBuilder, points: Points, prefix: str) -> None:
    """Hand the tags over, each in the order of its records."""
    wanted = [tag for tag in points if builder.wants(prefix + tag)]
    builder.see(prefix + tag for tag in points if tag not in wanted)
    if not wanted:
        tags = ", ".join(list(points)[:12])
        raise PlaybookError(builder.path, f"no scalar of a known metric (tags: {tags})", "name one: --map loss=my_tag")
    for tag in wanted:
        orders, steps, values = (np.concatenate(parts) for parts in points[tag])
        if (orders[1:] < orders[:-1]).any():
            order = np.argsort(orders, kind="stable")
            steps, values = steps[order], values[order]
        builder.add_columns(steps, {prefix + tag: values})
    builder.rows = sum(len(part) for orders, _, _ in points.values() for part in orders)


def _same_length(data: bytes, which: np.ndarray, starts: np.ndarray, size: int, points: Points, before: int) -> int:
    """Decode all records of one length; the number of those with a wrong CRC.

    which, starts  int64[n]: their numbers in the piece, which has `before` records before it, and their places
    """
    rows, order = tfrecord.payloads(data, starts, size), which + before
    columns = tfrecord.varying(rows)
    good = tfrecord.masked_crcs(rows, columns) == tfrecord.stored_crc(data, starts, size)
    broken = 0
    if not good.all():
        broken = int((~good).sum())
        rows, order = rows[good], order[good]
    for _ in range(_LAYOUTS if size else 0):
        if not len(rows):
            break
        taken = _layout(rows, order, points, columns)
        if taken.all():
            return broken
        rows, order = rows[~taken], order[~taken]
    for row, place in zip(rows, order, strict=True) if size else ():
        _record(row.tobytes(), int(place), points)
    return broken


def _layout(rows: np.ndarray, order: np.ndarray, points: Points, columns: np.ndarray) -> np.ndarray:
    """Decode the rows that are laid out like the first one; bool[n] tells which. `columns` are those that vary."""
    first = rows[0].tobytes()
    taken = np.zeros(len(rows), bool)
    taken[0] = True
    step, values = _scalars(first)
    if not values:  # a histogram, an image: what begins alike is of the same kind
        return taken | (rows[:, 9:_KIND] == rows[0, 9:_KIND]).all(axis=1) if rows.shape[1] > _KIND else taken
    if any(kind == _WHOLE for _, kind, _ in values):
        _record(first, int(order[0]), points)
        return taken
    free = np.zeros(rows.shape[1], bool)
    if first[0] == _WALL_TIME:
        free[1:9] = True
    taken[:] = True
    if step is not None:
        free[step[0] : step[1]] = True
        for place in range(*step):
            taken &= (rows[:, place] < 0x80) == (place == step[1] - 1)
    for _, kind, place in values:
        free[place : place + np.dtype(kind).itemsize] = True
    for place in columns[~free[columns]].tolist():
        taken &= rows[:, place] == rows[0, place]
    every = bool(taken.all())
    chosen, where = (rows, order) if every else (rows[taken], order[taken])
    steps = np.zeros(len(chosen), np.uint64)
    for shift, place in enumerate(range(*step) if step is not None else ()):
        digit = chosen[:, place].astype(np.uint64)
        digit &= np.uint64(0x7F)
        digit <<= np.uint64(7 * shift)
        steps |= digit
    for tag, kind, place in values:
        cells = np.ndarray((len(chosen),), kind, chosen, place, (chosen.shape[1],))
        _keep(points, tag, where, steps.view(np.int64), cells.astype(float))
    return taken


def _one(data: bytes, place: int, start: int, size: int, points: Points) -> int:
    """One long record; 1 where its CRC is wrong (checked only where it holds scalars: a graph has megabytes)."""
    record = data[start : start + size]
    if not _scalars(record)[1]:
        return 0
    if tfrecord.masked_crc_of(record) != struct.unpack_from("<I", data, start + size)[0]:
        return 1
    _record(record, place, points)
    return 0


def _record(record: bytes, place: int, points: Points) -> None:
    step, values = _scalars(record)
    count = protobuf.signed(protobuf.varint(record, step[0])[0]) if step else 0
    for tag, kind, offset in values:
        if kind == _WHOLE:
            value = float(protobuf.signed(protobuf.varint(record, offset)[0]))
        else:
            value = float(np.frombuffer(record, kind, 1, offset)[0])
        _keep(points, tag, np.array([place]), np.array([count], np.int64), np.array([value]))


def _keep(points: Points, tag: str, order: np.ndarray, steps: np.ndarray, values: np.ndarray) -> None:
    for known, new in zip(points.setdefault(tag, ([], [], [])), (order, steps, values), strict=True):
        known.append(new)


def _scalars(record: bytes) -> tuple[tuple[int, int] | None, list[tuple[str, str, int]]]:
    """(start and end of the step's digits or None, [(tag, dtype, place of the number)]) of one Event."""
    step: tuple[int, int] | None = None
    values: list[tuple[str, str, int]] = []
    try:
        for number, kind, _, start, end in protobuf.fields(record, 0, len(record)):
            if number == _STEP and kind == protobuf.VARINT:
                step = (start, end)
            elif number == _SUMMARY and kind == protobuf.BYTES:
                for inner, inner_kind, _, first, last in protobuf.fields(record, start, end):
                    if inner == _VALUE and inner_kind == protobuf.BYTES and (found := _value(record, first, last)):
                        values.append(found)
    except protobuf.BadMessage:  # the CRC was right: something that we do not know
        return None, []
    return step, values


def _value(record: bytes, start: int, end: int) -> tuple[str, str, int] | None:
    """One Summary.Value, where it is a scalar."""
    tag = ""
    found: tuple[str, int] | None = None
    for number, kind, _, first, last in protobuf.fields(record, start, end):
        if number == _TAG and kind == protobuf.BYTES:
            tag = record[first:last].decode("utf-8", "replace")
        elif number == _SIMPLE and kind == protobuf.FIXED32:
            found = ("<f4", first)
        elif number == _TENSOR and kind == protobuf.BYTES:
            found = _tensor(record, first, last)
        elif number == _METADATA and kind == protobuf.BYTES and _plugin(record, first, last) not in ("", "scalars"):
            return None
    return (tag, *found) if tag and found is not None else None


def _plugin(record: bytes, start: int, end: int) -> str:
    """SummaryMetadata.plugin_data.plugin_name."""
    for number, kind, _, first, last in protobuf.fields(record, start, end):
        if number == 1 and kind == protobuf.BYTES:
            for inner, inner_kind, _, begin, stop in protobuf.fields(record, first, last):
                if inner == 1 and inner_kind == protobuf.BYTES:
                    return record[begin:stop].decode("utf-8", "replace")
    return ""


def _tensor(record: bytes, start: int, end: int) -> tuple[str, int] | None:
    """(dtype, place) of a tensor with one element: raw content, or one number in a typed list (packed or not)."""
    dtype = 0
    found: tuple[str, int] | None = None
    for number, kind, value, first, last in protobuf.fields(record, start, end):
        if number == 1 and kind == protobuf.VARINT:
            dtype = value
        elif number == 4 and kind == protobuf.BYTES and dtype in _DTYPES:
            if last - first == np.dtype(_DTYPES[dtype]).itemsize:
                found = (_DTYPES[dtype], first)
        elif number in _LISTS:
            wanted = _LISTS[number]
            if wanted == _WHOLE:
                single = protobuf.varint(record, first)[1] == last
            else:
                single = last - first == np.dtype(wanted).itemsize
            found = (wanted, first) if single else None
    return found
