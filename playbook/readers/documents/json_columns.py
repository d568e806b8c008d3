"""Large JSON lines whose rows have few shapes: the fast way, in numpy, on two threads, piece by piece.

A piece is cut at commas and line ends; lines of a known shape are compared and their numbers turned a column at a time.
Every other line goes through the careful reader of small files, and so does the first line of each shape: it settles
names and their order. `read` gives up, before anything was added, where too many lines are of shapes of their own.
"""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np

from playbook.errors import PlaybookError
from playbook.readers import tabular
from playbook.readers.base import RunBuilder
from playbook.readers.documents.cells import TooOdd
from playbook.readers.documents.json_lines import gather
from playbook.readers.documents.json_pieces import ROOM, File, Left, keep_odd, lines_of, rest
from playbook.readers.documents.json_rows import Rows, counts_rows
from playbook.readers.source import Source, marked

_PIECE = 1 << 20  # bytes: enough to make numpy's calls cheap, and a column of it stays in a core's own cache
_THREADS = 2
_WAITING = 2_000  # lines that wait until they are worth a look at their commas
_SAMPLES = 16
_NONE = np.empty(0, np.int64)


def read(source: Source, builder: RunBuilder) -> bool:
    """Fill the builder; False where the file is not of this kind, and then nothing was added."""
    with source.as_plain_file() as path, path.open("rb", buffering=0) as stream:
        file = File(stream, _capacity(path), Rows(builder))
        try:
            with ThreadPoolExecutor(_THREADS) as threads:
                for done in [threads.submit(_work, file) for _ in range(_THREADS)]:
                    done.result()
        except TooOdd:
            return False
    if not file.shapes:
        return False
    _finish(source, builder, file)
    return True


def _capacity(path: Path) -> int:
    """Lines for which there is room: half as many again as samples make likely (untouched room costs no memory)."""
    size, seen, count = path.stat().st_size, 1, 0
    with path.open("rb") as stream:
        for sample in range(_SAMPLES):
            stream.seek(sample * max(0, size - 16384) // _SAMPLES)
            data = stream.read(16384)
            seen, count = seen + len(data), count + data.count(b"\n")
    return int(1.5 * size * (count + 1) / seen) + 1000


def _work(file: File) -> None:
    """Take pieces until there are none; whoever fails stops all."""
    text = np.empty(_PIECE + ROOM, np.uint8)
    ends = np.empty(_PIECE, bool)
    commas = np.empty(_PIECE, bool)
    left: Left = []
    try:
        while not file.stop:
            with file.lock:
                size, first, last = _next(file, text, ends)
            if not size:
                break
            left += lines_of(file, text, ends[:size], commas[:size], first, last)
            if len(left) > _WAITING:
                rest(file, left)
                left = []
        rest(file, left)
    except BaseException:
        file.stop = True
        raise


def _next(file: File, text: np.ndarray, ends: np.ndarray) -> tuple[int, int, np.ndarray]:
    """(bytes of whole lines that were read to `text`, lines before them, places of their ends, told by `ends` too)."""
    file.stream.seek(file.place)
    size = 0
    while size < _PIECE and (got := file.stream.readinto(text.data[size:_PIECE])):  # type: ignore[attr-defined]
        size += got
    if not size:
        return 0, file.lines, _NONE
    last = _places(np.equal(text[:size], 10, out=ends[:size]))
    if not len(last):
        if size == _PIECE:
            raise TooOdd  # a line longer than a piece
        keep_odd(file, file.lines + 1, text[:size].tobytes(), whole=False)
        file.place += size
        return 0, file.lines, _NONE
    size, first = int(last[-1]) + 1, file.lines
    file.place += size
    file.lines += len(last)
    if file.lines + 1 > file.capacity:
        raise TooOdd
    return size, first, last


def _places(flags: np.ndarray) -> np.ndarray:
    """`np.flatnonzero` of few flags: eight are looked at together."""
    whole = len(flags) // 8 * 8
    words = flags[:whole].view(np.uint64)
    which = np.flatnonzero(words != 0)
    set_ = words[which]
    below = set_ - np.uint64(1)
    if (set_ & below).any():  # two in one word
        return np.flatnonzero(flags)
    places = 8 * which + (np.bitwise_count(below & ~set_) >> 3)
    return np.concatenate([places, whole + np.flatnonzero(flags[whole:])])


def _finish(source: Source, builder: RunBuilder, file: File) -> None:
    """The odd lines and the first one of each shape by the careful reader; then all rows in the order of the file."""
    rows = file.rows
    firsts = {line + 1: file.shapes[number].line + b"\n" for number, line in file.firsts.items()}
    gather(_careful(file.odd | firsts), rows)
    size = file.lines
    fast = file.shape[:size] > 0
    count = int(np.count_nonzero(fast))
    whole = bool(fast[:count].all())  # nothing between the rows that were read fast
    lines = np.arange(1, count + 1, dtype=np.int64) if whole else np.flatnonzero(fast) + 1
    own = np.asarray(rows.lines, np.int64)
    slow = np.flatnonzero(~np.isin(own, np.asarray(sorted(firsts), np.int64)))
    where = np.searchsorted(lines, own[slow])
    if len(slow):
        lines = np.insert(lines, where, own[slow])
    columns: dict[str, np.ma.MaskedArray] = {}
    for name, careful in rows.columns().items():
        values, mask = _fast_column(file, name, fast, None if whole else np.flatnonzero(fast), count)
        if len(slow):
            values = np.insert(values, where, np.ma.getdata(careful)[slow])
            hidden = np.ma.getmaskarray(careful)[slow]
            if mask is not None or hidden.any():
                mask = np.insert(np.zeros(count, bool) if mask is None else mask, where, hidden)
        if mask is None and not builder.wants(name) and counts_rows(name, builder):
            values = _whole(values)
        columns[name] = np.ma.MaskedArray(values, np.ma.nomask if mask is None else mask, copy=False)
    del file
    if not len(lines):
        raise PlaybookError(source.name, "no line holds a JSON object", "write one object a line")
    tabular.fill(builder, columns, lines, int(lines[0]))


def _careful(lines: dict[int, bytes]) -> Iterator[tuple[int, str, bool]]:
    for line in sorted(lines):
        text = lines[line]
        yield from marked(line, text.removesuffix(b"\n"), text.endswith(b"\n"))


def _fast_column(
    file: File, name: str, fast: np.ndarray, which: np.ndarray | None, count: int
) -> tuple[np.ndarray, np.ndarray | None]:
    """(values, mask or None) of the rows that were read fast."""
    column = file.columns.pop(name, None)
    hole = file.holes.pop(name, None)
    if column is None:
        return np.zeros(count), np.ones(count, bool)
    having = [number + 1 for number, shape in enumerate(file.shapes) if name in shape.names.values()]
    mask: np.ndarray | None = None
    if len(having) < len(file.shapes):
        mask = ~np.isin(file.shape[: len(fast)], having)
        mask = mask[:count] if which is None else mask[which]
    if hole is not None:
        null = hole[:count] if which is None else hole[which]
        mask = null if mask is None else mask | null
    if mask is not None and not mask.any():
        mask = None
    if mask is None and column.values is None:
        return np.broadcast_to(column.value, count), None
    values = column.filled()
    values = values[:count] if which is None else values[which]
    if mask is not None:
        values[mask] = 0.0
    return values, mask


def _whole(values: np.ndarray) -> np.ndarray:
    """Counters as int64, in the same memory, where all of them are whole and of sane size."""
    step = 1 << 16
    for low in range(0, len(values), step):
        part = values[low : low + step]
        if not (np.isfinite(part) & (np.abs(part) < 2.0**53) & (part == np.floor(part))).all():
            return values
    if not values.flags.writeable:  # one number for all
        return values.astype(np.int64)
    result = values.view(np.int64)
    for low in range(0, len(values), step):
        result[low : low + step] = values[low : low + step].astype(np.int64)
    return result
