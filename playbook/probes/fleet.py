"""Per-rank metrics of a whole fleet -> a dozen numbers a step, written once as an Ibis expression for every engine.

Input: a table with the columns of `SCHEMA`, one row a step and rank. A value that is NULL was not logged and counts
nowhere; NaN and the infinities count as non-finite and never reach a median, a maximum or a mean. A step that a rank
logged twice (a restart) counts twice: a store knows no order of files. Results hold no surprise of a dialect: what an
engine makes of a group without finite values is overwritten here. Memory is bounded, for steps are independent: the
reduction runs in ranges of steps.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    import ibis.expr.types as ir

NAME = "playbook_fleet"  # of the input table in the generated SQL
SCHEMA = {"step": "int64", "rank": "int64", "value": "float64"}
FINITE = 1e308  # |x| below it is finite. `isinf` is not portable: Ibis 12 compiles it to FALSE for Spark
ROWS = 12_500_000  # rows of one range: exact medians do not spill, and this many need about 0.3 GB in duckdb
NO_RANK = -1

Columns = dict[str, np.ndarray]  # one array a column; NULL is NaN in floats and NO_RANK in integers


@dataclass(frozen=True)
class Engine:
    """Where the rows are: the table of `SCHEMA` as Ibis sees it, and how an expression on it becomes arrays."""

    title: str
    table: ir.Table
    run: Callable[[ir.Table], Columns]


@dataclass(frozen=True, eq=False)
class Reduced:
    """The fleet step by step, in the order of steps. All arrays have one entry a step that any rank logged.

    count       int64, values logged (NULL is none)
    nonfinite   int64, how many of them are NaN or infinite
    median, mean, low, top   float64 over the finite ones; NaN where there are none
    top_rank    int64, the lowest rank that has `top`; NO_RANK without a finite value
    bad_rank    int64, the lowest rank with a non-finite value; NO_RANK without one
    """

    steps: np.ndarray
    count: np.ndarray
    nonfinite: np.ndarray
    median: np.ndarray
    mean: np.ndarray
    low: np.ndarray
    top: np.ndarray
    top_rank: np.ndarray
    bad_rank: np.ndarray

    def __len__(self) -> int:
        return len(self.steps)


@dataclass(frozen=True, slots=True)
class Extent:
    """What a table spans."""

    rows: int
    ranks: int
    first_step: int
    last_step: int


def table() -> ir.Table:
    """The input table as an unbound Ibis table: for dialects that get SQL as text."""
    import ibis

    return ibis.table(SCHEMA, name=NAME)


def judged(rows: ir.Table) -> ir.Table:
    """The rows with the value as float64 (`x`) and whether it is finite (`good`, then `y`) or not (`bad`)."""
    plain = rows.select(
        step=rows.step.cast("int64"), rank=rows.rank.cast("int64"), x=rows.value.cast("float64")
    ).filter(lambda t: t.step.notnull() & t.rank.notnull())
    # NULL is neither: `coalesce` says so on every engine, while `notnull` of a NaN is false where Ibis speaks to Spark.
    small = plain.x.abs() < FINITE  # NaN < y is false everywhere
    good = small.fill_null(False)
    return plain.mutate(good=good, bad=~small.fill_null(True), y=good.ifelse(plain.x, None))


def reduction(rows: ir.Table) -> ir.Table:
    """The reduction over ranks: one row a step. Ties for the maximum go to the lowest rank, on every engine."""
    each = judged(rows)
    by_step = each.group_by("step").agg(
        count=each.x.count(),
        nonfinite=each.x.count(where=each.bad),  # a boolean cast to a number is not portable
        median=each.y.median(),  # not `x.median(where=good)`: for Spark, Ibis 12 puts the condition on the 0.5 too
        mean=each.y.mean(),
        low=each.y.min(),
        top=each.y.max(),
        bad_rank=each["rank"].min(where=each.bad),
    )
    # `argmax` breaks ties as each engine likes: 904 on one, 271 on another. A second look is portable.
    peaks = each.filter(each.good).join(by_step.select("step", "top"), "step")
    leaders = peaks.filter(peaks.x == peaks.top).group_by("step").agg(top_rank=lambda t: t["rank"].min())
    return by_step.join(leaders, "step", how="left").select(*_FIELDS)


_FIELDS = ("step", "count", "nonfinite", "median", "mean", "low", "top", "top_rank", "bad_rank")


def extent(engine: Engine) -> Extent:
    """Rows, ranks and the span of steps; zeros for an empty table."""
    t = judged(engine.table)
    found = engine.run(
        t.agg(rows=t.count(), ranks=t["rank"].nunique(), first_step=t.step.min(), last_step=t.step.max())
    )
    rows, ranks = int(found["rows"][0]), int(found["ranks"][0])
    if not rows:
        return Extent(0, 0, 0, -1)
    return Extent(rows, ranks, int(found["first_step"][0]), int(found["last_step"][0]))


def reduce(engine: Engine, span: Extent, rows: int = ROWS) -> Reduced:
    """The whole table reduced, in ranges of steps of about `rows` rows each."""
    parts = [engine.run(reduction(part)) for part in _ranges(engine.table, span, rows)]
    names = _FIELDS
    joined = {n: np.concatenate([p[n] for p in parts]) if parts else np.zeros(0) for n in names}
    order = np.argsort(joined["step"], kind="stable")
    whole = {n: joined[n][order].astype(np.int64) for n in ("step", "count", "nonfinite", "top_rank", "bad_rank")}
    some = whole["count"] > whole["nonfinite"]
    real = {n: np.where(some, joined[n][order].astype(float), np.nan) for n in ("median", "mean", "low", "top")}
    return Reduced(
        whole["step"],
        whole["count"],
        whole["nonfinite"],
        real["median"],
        real["mean"],
        real["low"],
        real["top"],
        np.where(some, whole["top_rank"], NO_RANK),
        np.where(whole["nonfinite"] > 0, whole["bad_rank"], NO_RANK),
    )


def _ranges(t: ir.Table, span: Extent, rows: int) -> Iterator[ir.Table]:
    if not span.rows:
        return
    parts = max(1, -(-span.rows // max(1, rows)))
    width = max(1, -(-(span.last_step - span.first_step + 1) // parts))
    if parts == 1:
        yield t
        return
    for low in range(span.first_step, span.last_step + 1, width):
        yield t.filter((t.step >= low) & (t.step < low + width))


def window(engine: Engine, spans: list[tuple[int, int]]) -> Columns:
    """The logged rows of some ranges of steps (both ends included), ordered by rank and step: step, rank, x."""
    import ibis

    t = judged(engine.table)
    inside = ibis.or_(*((t.step >= low) & (t.step <= high) for low, high in spans))
    rows = t.filter(inside & (t.good | t.bad)).select("step", "rank", "x")
    found = engine.run(rows)
    order = np.lexsort((found["step"], found["rank"]))
    return {name: column[order] for name, column in found.items()}


def ranks(engine: Engine) -> set[int]:
    """The ranks that logged a value, finite or not."""
    t = judged(engine.table)
    return set(engine.run(t.filter(t.good | t.bad).select("rank").distinct())["rank"].tolist())


def arrays(answer: Any) -> Columns:
    """A pyarrow table as plain arrays; NULL becomes NaN or NO_RANK."""
    import pyarrow as pa
    import pyarrow.compute as pc

    result: Columns = {}
    for name in answer.column_names:
        column = answer[name].combine_chunks()
        if isinstance(column, pa.ChunkedArray):
            column = pa.concat_arrays(column.chunks) if column.num_chunks else pa.array([], column.type)
        floating = pa.types.is_floating(column.type)
        filled = pc.fill_null(
            pc.cast(column, pa.float64() if floating else pa.int64()), np.nan if floating else NO_RANK
        )
        result[str(name)] = filled.to_numpy(zero_copy_only=False)
    return result


def filled(columns: dict[str, Any]) -> Columns:
    """Masked columns (NULL is masked) as plain arrays."""
    result: Columns = {}
    for name, column in columns.items():
        floating = column.dtype.kind == "f"
        plain = np.ma.filled(column, np.nan if floating else NO_RANK)
        result[name] = plain.astype(np.float64 if floating else np.int64, copy=False)
    return result


def robust_z(steps: np.ndarray, values: np.ndarray, width: int = 101) -> np.ndarray:
    """How many robust deviations each value lies above the median of the `width` steps before it: float64[n].

    Steps that nobody logged are laid out as holes first, or the window would count rows instead of steps. NaN where
    fewer than eight values are known. The scale is never below a millionth of the level: a flat line has no noise.
    """
    if len(steps) < 2:
        return np.full(len(steps), np.nan)
    spacing = max(1, int(np.median(np.diff(steps))))
    place = (steps - steps[0]) // spacing
    if place[-1] >= 4 * len(steps) or np.any(np.diff(place) <= 0):
        place = np.arange(len(steps))  # no regular grid: rows it is
    grid = np.full(int(place[-1]) + 1, np.nan)
    grid[place] = np.where(np.isfinite(values), values, np.nan)
    z = np.full(len(grid), np.nan)
    padded = np.concatenate([np.full(width, np.nan), grid[:-1]])
    before = np.lib.stride_tricks.sliding_window_view(padded, width)
    for low in range(0, len(grid), 8192):
        part = before[low : low + 8192]
        known = np.isfinite(part).sum(axis=1)
        level = _middle(part, known)
        spread = 1.4826 * _middle(np.abs(part - level[:, None]), known)
        scale = np.maximum(spread, 1e-6 * np.maximum(np.abs(level), 1e-6))
        z[low : low + 8192] = np.where(known >= 8, (grid[low : low + 8192] - level) / scale, np.nan)
    return z[place]


def _middle(x: np.ndarray, known: np.ndarray) -> np.ndarray:
    """Medians along rows of which the first `known`, once sorted, are numbers (NaN sorts last)."""
    ordered = np.sort(x, axis=1)
    row = np.arange(len(x))
    low, high = np.maximum(known - 1, 0) // 2, np.minimum(known // 2, x.shape[1] - 1)
    return 0.5 * (ordered[row, low] + ordered[row, high])
