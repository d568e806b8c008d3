"""Rows with named columns -> series: which column counts steps, which one names the rank, what becomes of gaps.

Shared by the readers of tables, JSON lines and parquet. A column is a masked float64 array; masked = not logged.
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Iterator, Mapping

import numpy as np

from playbook.errors import PlaybookError
from playbook.readers.base import RunBuilder
from playbook.readers.names import epoch_name, plain, rank_name, step_names

Columns = Mapping[str, np.ma.MaskedArray]

MAP_HINT = "name the columns: --map loss=my_col --map step=my_step"
ROW_NUMBER = "#"  # in `--map step=#`: the number of the row counts the steps
_BIGGEST = 2.0**62
_MAX_RANK = 1_000_000
_NOBODY = -1  # rank of rows that the job logged once for all
_FEW, _SELDOM = 20, 0.02  # cells, share of them: what is empty more often is left out on purpose
# what stands in a cell that is empty
BLANK = frozenset(("", "-", "--", "none", "null", "n/a", "na", "nil", "?", ".", "...", "<na>", "no log", "not logged"))
_FULL = 0.5  # a step column must be filled in at least this share of the rows that the fullest one has


def seldom(count: int, of: int) -> bool:
    """Whether so few cells of a column hold no number that they may be damage."""
    return 0 < count <= max(_FEW, _SELDOM * of)


def tell_of_words(builder: RunBuilder, name: str, told: list[tuple[int, str]]) -> None:
    """Name the cells of a column of numbers that hold something else: (line, what it says) of each, in their order."""
    said = told[0][1][:40]
    what = f"a cell of `{name}` holds no number but `{said}`; it is left out"
    if len(told) > 1:
        what = f"{len(told)} cells of `{name}` hold no number, the first `{said}`; they are left out"
    builder.problem(told[0][0], what, "", "cells")


def fill(
    builder: RunBuilder,
    columns: Columns,
    lines: np.ndarray | None = None,
    first_line: int = 1,
    owner: str | None = None,
) -> str | None:
    """Add all columns that can become metrics. Raises `PlaybookError` where none can.

    columns  name -> masked float64[n]
    lines    int64[n] or None; `first_line` is named in the error
    owner    the column of the rank where it is known already; it is looked for else, and returned
    """
    raws = [raw for raw in columns if builder.wants(raw) and columns[raw].count()]
    owner = owner if owner in columns else _rank_column(builder, columns)
    counter = _step_column(builder, columns)
    raws = [raw for raw in raws if raw not in (owner, counter)]
    builder.see(raw for raw in columns if raw not in (*raws, owner, counter))
    if not raws:
        what = f"no column of a known metric (columns: {shown(columns)})"
        raise PlaybookError(builder.path, what, MAP_HINT, first_line)
    size = len(columns[raws[0]])
    ranks = np.zeros(size, np.int64) if owner is None else columns[owner].filled(_NOBODY).astype(np.int64)
    steps, kept = _steps(builder, columns, counter, ranks, size)
    chosen = {raw: columns[raw] if kept is None else columns[raw][kept] for raw in raws}
    if kept is not None:
        ranks, lines = ranks[kept], None if lines is None else lines[kept]
    if owner is None:
        builder.add_columns(steps, chosen, lines)
        _tell_of_shared(builder, steps, chosen, lines)
        return None
    for rank, own in _by_rank(ranks):
        named = {raw: column[own] for raw, column in chosen.items()}
        whose = None if rank == _NOBODY else rank
        builder.add_columns(steps[own], named, None if lines is None else lines[own], whose)
    return owner


def shown(names: Iterable[str]) -> str:
    """The names of columns in a message: the first dozen, each of a length that can be read."""
    known = list(names)
    return ", ".join(textwrap.shorten(name, 60) for name in known[:12]) + (", ..." if len(known) > 12 else "")


def _all(builder: RunBuilder, columns: Columns) -> Iterable[str]:
    """The columns of the file as they stand there: those that were told with `see` were not even parsed."""
    return builder.columns or columns


def _tell_of_shared(builder: RunBuilder, steps: np.ndarray, columns: Columns, lines: np.ndarray | None) -> None:
    """Most steps logged twice in a row with other values, and nothing says by whom: several ranks share the file."""
    if (steps[1:] != steps[:-1]).all():
        return
    for raw, column in columns.items():
        if "loss" not in raw.lower() or "scale" in raw.lower():
            continue
        logged = ~np.ma.getmaskarray(column)
        own, values = steps[logged], np.ma.getdata(column)[logged]
        again = np.flatnonzero((own[1:] == own[:-1]) & (values[1:] != values[:-1])) + 1
        if len(again) >= 3 and len(again) >= 0.4 * len(own):
            line = None if lines is None else int(lines[logged][again[0]])
            text = f"{len(again)} rows log a step again with another {raw} and without a rank; file order is kept"
            hint = "if several ranks write into this file, add a column `rank` or log one rank"
            builder.problem(line, text, hint, "unlabelled-ranks")
            return


def unroll(steps: np.ndarray, epochs: np.ndarray) -> np.ndarray:
    """Steps that begin again in each epoch (epoch 2, batch 1) as one count; others are returned as they are.

    steps int64[n], epochs float64[n], both without gaps. A step back without a new epoch is a restart; it stays.
    """
    if len(steps) < 3:
        return steps
    down = np.diff(steps) < 0
    turn = np.diff(epochs) > 0
    if not down.any() or not turn[down].any() or np.mean(turn[down]) < 0.5:
        return steps
    if turn.any() and np.mean(down[turn]) < 0.9:
        return steps  # the step goes on through most new epochs
    length = int(steps.max()) + (1 if steps.min() == 0 else 0)
    return steps + np.floor(epochs - epochs.min()).astype(np.int64) * length


def _step_column(builder: RunBuilder, columns: Columns) -> str | None:
    if builder.step_column is not None and builder.step_column != ROW_NUMBER:
        asked = plain(builder.step_column)
        found = next((raw for raw in columns if raw == builder.step_column), None)
        found = found or next((raw for raw in columns if plain(raw) == asked), None)
        if found is None or not columns[found].count():
            what = f"no step column `{builder.step_column}` (columns: {shown(_all(builder, columns))})"
            raise PlaybookError(builder.path, what, MAP_HINT)
        return found
    names = [raw for raw in step_names(columns) if columns[raw].count()]
    if len(names) == 1 and np.isfinite(np.ma.getdata(columns[names[0]])[:1]).all():
        return names[0]
    counts = {raw: _whole(columns[raw]).sum() for raw in names}
    most = max(counts.values(), default=0)
    fit = [
        raw for raw, count in counts.items() if most and count >= _FULL * most and count >= _FULL * columns[raw].count()
    ]
    moving = [raw for raw in fit if len(columns[raw]) < 3 or np.ptp(columns[raw].compressed()) > 0]
    return next(iter(moving or fit), None)


def _rank_column(builder: RunBuilder, columns: Columns) -> str | None:
    """The column that says whose row it is: whole small numbers, at least two different ones."""
    queries = [
        raw for raw in columns if plain(raw).startswith(("utilization gpu", "temperature gpu", "power draw", "clocks"))
    ]
    names = [raw for raw in columns if not builder.wants(raw) or plain(raw) in ("rank", "gpu")]
    found = next((raw for raw in columns if plain(raw) == "index"), None) if queries else rank_name(names)
    if found is None:
        return None
    column = columns[found]
    values = column.compressed()
    if len(values) < _FULL * len(column) or not np.isfinite(values).all() or (values != np.floor(values)).any():
        return None
    if not len(values) or values.min() < 0 or values.max() > _MAX_RANK or values.min() == values.max():
        return None
    return found


def _whole(column: np.ma.MaskedArray) -> np.ndarray:
    """bool[n]: True where there is a whole number of sane size."""
    values = np.ma.getdata(column)
    if values.dtype.kind == "i":
        return ~np.ma.getmaskarray(column)
    with np.errstate(invalid="ignore"):
        good = np.isfinite(values) & (np.abs(values) < _BIGGEST) & (values == np.floor(values))
    return good & ~np.ma.getmaskarray(column)


def _steps(
    builder: RunBuilder, columns: Columns, counter: str | None, ranks: np.ndarray, size: int
) -> tuple[np.ndarray, np.ndarray | None]:
    """(steps int64[m], indices of the rows that are kept, or None for all)."""
    epoch = epoch_name(columns)
    if counter is not None:
        good = _whole(columns[counter])
        kept: np.ndarray | None = None
        if good.all():
            steps = np.ma.getdata(columns[counter]).astype(np.int64, copy=False)
        else:
            steps, kept = _carried(np.where(good, np.ma.getdata(columns[counter]), 0).astype(np.int64), good)
        if epoch is not None and epoch != counter and (steps[1:] < steps[:-1]).any():
            steps = _unrolled(steps, columns[epoch] if kept is None else columns[epoch][kept])
        return steps, kept
    if epoch is not None:
        good = _whole(columns[epoch])
        values = np.ma.getdata(columns[epoch])[good]
        turns = np.count_nonzero(np.diff(values)) + 1
        if good.sum() >= _FULL * size and len(values) <= max(3, 1.5 * turns * len(np.unique(ranks))):
            steps, kept = _carried(np.where(good, np.ma.getdata(columns[epoch]), 0).astype(np.int64), good)
            return steps, None if good.all() else kept
    if builder.reader == "csv" and epoch is None and builder.step_column != ROW_NUMBER:
        # The order of a table's rows may mean nothing: whoever knows better says so.
        names = shown(_all(builder, columns))
        hint = "name it with --map step=COLUMN, or take the row number with --map step=#"
        raise PlaybookError(builder.path, f"no column counts steps (columns: {names})", hint, 1)
    hint = MAP_HINT if epoch is None else ""
    builder.problem(None, "no column counts steps; rows are counted from 0", hint, "no-step")
    steps = np.zeros(size, np.int64)
    for _, own in _by_rank(ranks):
        steps[own] = np.arange(len(own))
    return steps, None


def _by_rank(ranks: np.ndarray) -> Iterator[tuple[int, np.ndarray]]:
    """(rank, its rows in file order), in one pass also for thousands of ranks."""
    order = np.argsort(ranks, kind="stable")
    for own in np.split(order, np.flatnonzero(np.diff(ranks[order])) + 1):
        if len(own):
            yield int(ranks[own[0]]), own


def _carried(steps: np.ndarray, good: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Rows without a step belong to the step before; rows before the first step are left out."""
    first = int(np.argmax(good))
    place = np.maximum.accumulate(np.where(good, np.arange(len(steps)), 0))
    kept = np.arange(first, len(steps))
    return steps[place][kept], kept


def _unrolled(steps: np.ndarray, epochs: np.ma.MaskedArray) -> np.ndarray:
    filled = ~np.ma.getmaskarray(epochs) & np.isfinite(np.ma.getdata(epochs))
    if not filled.any():
        return steps
    place = np.maximum.accumulate(np.where(filled, np.arange(len(steps)), int(np.argmax(filled))))
    return unroll(steps, np.ma.getdata(epochs)[place])
