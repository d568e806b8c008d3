"""The reduction over ranks: one expression, equal to numpy on every engine, and the verdict that it leads to."""

from __future__ import annotations

import importlib.util
import json
import math
from pathlib import Path

import numpy as np
import pytest

from playbook.errors import PlaybookError
from playbook.probes import fleet, fleet_engines
from playbook.probes.fleet_engines import File, Files

nan, inf = math.nan, math.inf


def have(module: str) -> bool:
    return importlib.util.find_spec(module) is not None


needs_ibis = pytest.mark.skipif(not have("ibis"), reason="Ibis is not installed: pip install 'playbook[fleet]'")
needs_chdb = pytest.mark.skipif(
    not (have("ibis") and have("chdb")), reason="chdb is not installed: pip install 'playbook[fleet]' chdb"
)

# step, rank, value. None was not logged; step 6 is missing, step 7 was logged twice, step 8 by one rank only.
ROWS: list[tuple[int, int, float | None]] = [
    *((0, r, 2.0) for r in range(5)),  # all equal: the tie goes to rank 0
    (1, 0, 1.0), (1, 1, 5.0), (1, 2, 5.0), (1, 3, 2.0), (1, 4, 3.0),  # a tie of two for the maximum
    (2, 0, 1.0), (2, 1, nan), (2, 2, 2.0), (2, 3, 4.0), (2, 4, 3.0),
    (3, 0, 1.0), (3, 1, 2.0), (3, 2, inf), (3, 3, -inf), (3, 4, 3.0),
    (4, 0, None), (4, 1, 2.0), (4, 2, None), (4, 3, 8.0), (4, 4, 9.0),
    *((5, r, v) for r, v in enumerate([nan, inf, -inf, nan, nan])),  # all ranks bad
    (7, 0, 1.0), (7, 1, 2.0), (7, 2, 3.0), (7, 0, 10.0), (7, 1, 20.0), (7, 2, 30.0),
    (8, 3, -0.5),
    *((9, r, None) for r in range(5)),  # nothing logged at all
    (10, 0, -1.0), (10, 1, -7.0), (10, 2, -1.0), (10, 3, 1e308), (10, 4, -2.0),  # as good as infinite
]  # fmt: skip


def by_numpy(rows: list[tuple[int, int, float | None]]) -> dict[str, list[float]]:
    """What the reduction promises, in plain numpy."""
    names = ("step", "count", "nonfinite", "median", "mean", "low", "top", "top_rank", "bad_rank")
    out: dict[str, list[float]] = {n: [] for n in names}
    for step in sorted({s for s, _, _ in rows}):
        logged = [(r, v) for s, r, v in rows if s == step and v is not None]
        good = [(r, v) for r, v in logged if abs(v) < 1e308]
        bad = [r for r, v in logged if not abs(v) < 1e308]
        x = np.array([v for _, v in good])
        row = (step, len(logged), len(bad)) + (
            (np.median(x), x.mean(), x.min(), x.max(), min(r for r, v in good if v == x.max()))
            if good
            else (nan, nan, nan, nan, fleet.NO_RANK)
        )
        for name, value in zip(names, (*row, min(bad, default=fleet.NO_RANK)), strict=True):
            out[name].append(value)
    return out


def check(found: fleet.Reduced, rows: list[tuple[int, int, float | None]] = ROWS) -> None:
    expected = by_numpy(rows)
    for name, column in expected.items():
        mine = getattr(found, "steps" if name == "step" else name)
        if name == "mean":  # engines add up in their own order
            np.testing.assert_allclose(mine, column, rtol=1e-12, err_msg=name)
        else:
            np.testing.assert_array_equal(mine, column, err_msg=name)


def parquet(folder: Path, rows: list[tuple[int, int, float | None]] = ROWS) -> Files:
    """One file with a rank column, half of the rows each in two files."""
    import duckdb

    con = duckdb.connect()
    files = []
    for part in (0, 1):
        path = folder / f"part{part}.parquet"
        con.execute("CREATE OR REPLACE TABLE t (step BIGINT, rank INTEGER, loss DOUBLE)")
        con.executemany("INSERT INTO t VALUES (?, ?, ?)", rows[part::2])
        con.execute(f"COPY t TO '{path}' (FORMAT parquet)")
        files.append(File(str(path)))
    return Files(tuple(files), "parquet", "step", "loss", "rank")


def text(value: float | None) -> str:
    return "" if value is None else str(value)


def csv(folder: Path) -> Files:
    """One file a rank, the rank only in the name."""
    files = []
    for rank in range(5):
        path = folder / f"rank{rank}.csv"
        body = "".join(f"{s},0.1,{text(v)}\n" for s, r, v in ROWS if r == rank)
        path.write_text("step,lr,loss\n" + body)
        files.append(File(str(path), rank))
    return Files(tuple(files), "csv", "step", "loss")


def json_lines(folder: Path) -> Files:
    files = []
    for rank in range(5):
        path = folder / f"rank{rank}.jsonl"
        path.write_text("".join(json.dumps({"step": s, "loss": v, "a": [1]}) + "\n" for s, r, v in ROWS if r == rank))
        files.append(File(str(path), rank))
    return Files(tuple(files), "json", "step", "loss")


@needs_ibis
@pytest.mark.parametrize("rows", [10**9, 7, 1])
@pytest.mark.parametrize("make", [parquet, csv, json_lines])
def test_duckdb_equals_numpy_whole_and_in_ranges(tmp_path: Path, make, rows: int) -> None:
    with fleet_engines.opened("duckdb://", make(tmp_path), str(tmp_path)) as engine:
        span = fleet.extent(engine)
        assert (span.rows, span.ranks, span.first_step, span.last_step) == (len(ROWS), 5, 0, 10)
        check(fleet.reduce(engine, span, rows))


@needs_chdb
@pytest.mark.parametrize("rows", [10**9, 7])
@pytest.mark.parametrize("make", [parquet, csv, json_lines])
def test_clickhouse_in_process_equals_numpy(tmp_path: Path, make, rows: int) -> None:
    with fleet_engines.opened("chdb://", make(tmp_path), str(tmp_path)) as engine:
        span = fleet.extent(engine)
        assert (span.rows, span.ranks, span.first_step, span.last_step) == (len(ROWS), 5, 0, 10)
        check(fleet.reduce(engine, span, rows))
