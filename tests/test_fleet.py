"""The reduction over ranks: one expression, equal to numpy on every engine, and the verdict that it leads to."""

from __future__ import annotations

import gzip
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
@pytest.mark.parametrize("make", [parquet, csv])
def test_clickhouse_in_process_equals_numpy(tmp_path: Path, make, rows: int) -> None:
    with fleet_engines.opened("chdb://", make(tmp_path), str(tmp_path)) as engine:
        span = fleet.extent(engine)
        assert (span.rows, span.ranks, span.first_step, span.last_step) == (len(ROWS), 5, 0, 10)
        check(fleet.reduce(engine, span, rows))


@needs_chdb
def test_clickhouse_refuses_what_it_cannot_read_in_one_line(tmp_path: Path) -> None:
    with (
        fleet_engines.opened("chdb://", json_lines(tmp_path), str(tmp_path)) as engine,
        pytest.raises(PlaybookError, match="the engine says") as caught,
    ):
        fleet.extent(engine)
    assert "\n" not in str(caught.value)


@needs_ibis
def test_postgresql_by_its_url_equals_numpy(tmp_path: Path) -> None:
    """A real server that Ibis connects to, as a fleet's store would be."""
    from tests import pgserver

    if pgserver.binaries() is None or not (have("psycopg") and have("pandas")):
        pytest.skip("no PostgreSQL here, or not installed: pip install 'ibis-framework[postgres]' pandas")
    import psycopg

    url = pgserver.shared().new_database()
    with psycopg.connect(url) as con:
        con.execute("CREATE TABLE metrics (run TEXT, step INT, worker SMALLINT, loss DOUBLE PRECISION)")
        con.cursor().executemany("INSERT INTO metrics VALUES ('a', %s, %s, %s)", ROWS)
        con.execute("INSERT INTO metrics SELECT 'b', step, worker, 1e9 FROM metrics")
    table = fleet_engines.Table("metrics", "step", "worker", "loss", {"run": "a"})
    with fleet_engines.opened(url, table, str(tmp_path)) as engine:
        for rows in (10**9, 7):
            check(fleet.reduce(engine, fleet.extent(engine), rows))


@needs_ibis
@pytest.mark.slow
def test_spark_on_this_machine_equals_numpy(tmp_path: Path) -> None:
    """Takes a minute, most of it the start of Spark."""
    import shutil

    if not have("pyspark") or shutil.which("java") is None:
        pytest.skip("no Java here, or not installed: pip install 'ibis-framework[pyspark]'")
    with fleet_engines.opened("pyspark://local[2]", parquet(tmp_path), str(tmp_path)) as engine:
        check(fleet.reduce(engine, fleet.extent(engine)))


SNAPSHOTS = Path(__file__).parent / "samples" / "fleet"


@needs_ibis
@pytest.mark.parametrize("dialect", ["duckdb", "clickhouse", "postgres"])
def test_the_sql_of_each_dialect_is_the_one_that_was_checked(dialect: str) -> None:
    """A newer Ibis or sqlglot may write other SQL: look at it, run the conformance tests, then renew the file."""
    import ibis

    if not ibis.__version__.startswith("12."):
        pytest.skip(f"the snapshots are of Ibis 12, this is {ibis.__version__}")
    sql = str(ibis.to_sql(fleet.reduction(fleet.table()), dialect=dialect)) + "\n"
    assert sql == (SNAPSHOTS / f"reduction.{dialect}.sql").read_text("utf-8")


def test_robust_z_is_numpys_and_counts_steps_not_rows() -> None:
    rng = np.random.default_rng(1)
    steps = np.delete(np.arange(0, 4000, 10), slice(100, 130))
    values = rng.normal(5, 1, len(steps))
    values[[7, 200]] = nan, inf
    width = 21
    expected = []
    for step, value in zip(steps, values, strict=True):
        near = values[(steps < step) & (steps >= step - 10 * width)]
        near = near[np.isfinite(near)]
        if len(near) < 8:
            expected.append(nan)
            continue
        level = np.median(near)
        z = (value - level) / (1.4826 * np.median(np.abs(near - level)))
        expected.append(z if np.isfinite(value) else nan)
    np.testing.assert_allclose(fleet.robust_z(steps, values, width), expected, rtol=1e-12)
    assert len(fleet.robust_z(steps[:0], values[:0])) == 0
    assert fleet.robust_z(np.arange(50), np.r_[np.ones(49), 2.0])[-1] > 1e5  # a flat line has no noise, nor a crash


def job(folder: Path, fault: str, ranks: int = 12, steps: int = 1200, column: str = "loss") -> int:
    """Files of one rank each, with a fault from the step returned on."""
    rng, onset = np.random.default_rng(7), steps * 3 // 5
    base = 2 + 8 * np.exp(-np.arange(steps) / 300)
    base = base if column == "loss" else np.full(steps, 0.5)
    for rank in range(ranks):
        x = base * np.exp(rng.normal(0, 0.02, steps))
        if fault == "leads":  # one rank first, all-reduce spreads it three steps later
            x[onset if rank == 5 else onset + 3 :] = nan
        elif fault == "all":
            x[onset:] *= 3
        elif fault == "apart" and rank == 5:
            x[onset:] *= 1.5
        body = "".join(f"{step},{value:.6f}\n" for step, value in enumerate(x))
        (folder / f"rank{rank}.csv").write_text(f"step,{column}\n{body}")
    return onset


@needs_ibis
@pytest.mark.parametrize("url", ["duckdb://", pytest.param("chdb://", marks=needs_chdb)])
@pytest.mark.parametrize(
    ("fault", "affected", "first"), [("leads", "one", 5), ("all", "all", None), ("apart", "one", 5), ("", None, None)]
)
def test_the_verdict_is_that_of_the_readers(tmp_path: Path, fault: str, affected, first, url: str) -> None:
    from playbook import detectors, readers
    from playbook.workflow.fleet import judge

    onset = job(tmp_path, fault)
    verdict = judge([str(tmp_path)], url=url)
    assert (verdict.affected, verdict.first) == (affected, first)
    assert verdict.step == (onset if affected else None)
    direct = next(iter(detectors.scan(readers.read([str(tmp_path)]), only=["ranks"])))
    assert [(f.kind, f.step, f.rank) for f in verdict.findings] == [(f.kind, f.step, f.rank) for f in direct.findings]


@needs_ibis
def test_a_slow_rank_and_a_gradient_norm_that_is_not_finite(tmp_path: Path) -> None:
    from playbook.workflow.fleet import judge

    onset = job(tmp_path, "apart", column="step_time")
    verdict = judge([str(tmp_path / "rank*.csv")], metric="step_time")
    assert (verdict.affected, verdict.first) == ("one", 5) and abs((verdict.step or 0) - onset) <= 140
    onset = job(tmp_path, "leads", column="grad_norm")
    verdict = judge([str(tmp_path)], metric="grad_norm")
    assert (verdict.affected, verdict.first, verdict.step) == ("one", 5, onset)


@needs_ibis
@pytest.mark.parametrize(
    ("metric", "said"), [("grad_norm", "leaves its level at step 720"), ("lr", "is not finite at step 720")]
)
@pytest.mark.parametrize(
    ("bad", "affected", "first", "named"),
    [((5,), "one", 5, " (rank 5)"), ((3, 8), "some", None, " (rank 3"), (tuple(range(12)), "all", None, "")],
)
def test_ranks_without_a_number_are_counted_at_the_first_step(
    tmp_path: Path, metric: str, said: str, bad, affected, first, named: str
) -> None:
    """Whether the detector of ranks knows the metric or not; of ranks that begin together none was first."""
    from playbook.workflow.fleet import judge

    onset = job(tmp_path, "", column=metric)
    for rank in bad:
        path = tmp_path / f"rank{rank}.csv"
        lines = path.read_text().splitlines()
        lines[1 + onset :] = [f"{step},nan" for step in range(onset, 1200)]
        path.write_text("\n".join(lines) + "\n")
    verdict = judge([str(tmp_path)], metric=metric)
    assert (verdict.affected, verdict.first, verdict.step, verdict.onset) == (affected, first, onset, onset)
    found = verdict.findings[0]
    assert found.because.startswith(f"{metric} of {len(bad)} of 12 ranks {said}{named}")
    assert bool(named) == ("(rank" in found.because) and found.numbers["ranks"] == 12


@needs_ibis
def test_a_rank_that_stands_out_once_is_shown_and_is_no_verdict(tmp_path: Path) -> None:
    from playbook.workflow.fleet import judge

    job(tmp_path, "")
    path = tmp_path / "rank7.csv"
    lines = path.read_text().splitlines()
    for step, factor in ((400, 2), (900, 3)):
        lines[1 + step] = f"{step},{factor * float(lines[1 + step].split(',')[1])}"
    path.write_text("\n".join(lines) + "\n")
    verdict = judge([str(tmp_path)])
    assert verdict.affected is None and verdict.onset is None
    assert [(p.step, p.rank) for p in verdict.peaks] == [(400, 7), (900, 7)]
    assert all(
        p.top / p.median == pytest.approx(factor, rel=0.1) for p, factor in zip(verdict.peaks, (2, 3), strict=True)
    )


@needs_ibis
@pytest.mark.parametrize(("cells", "before", "after"), [(4_000_000, 128, 8), (2400, 62, 3)])
def test_only_the_rows_about_the_onset_are_fetched(
    tmp_path: Path, monkeypatch, cells: int, before: int, after: int
) -> None:
    from playbook.workflow import fleet as room

    asked: list[list[tuple[int, int]]] = []
    window = fleet.window
    monkeypatch.setattr(room, "CELLS", cells)
    monkeypatch.setattr(fleet, "window", lambda engine, spans: asked.append(spans) or window(engine, spans))
    onset = job(tmp_path, "leads")
    verdict = room.judge([str(tmp_path)])
    assert asked == [[(onset - before, onset + after)]]
    assert (verdict.first, verdict.step) == (5, onset)
    for path in tmp_path.iterdir():
        path.unlink()
    asked.clear()
    job(tmp_path, "", steps=300)
    room.judge([str(tmp_path)])
    assert asked[0][-1][1] == 299 and len(asked[0]) == 3, "no onset: where one rank stands out, and the end"
    assert all(0 <= low <= high <= 299 for low, high in asked[0])


@needs_ibis
def test_a_table_of_an_existing_database_and_its_filter(tmp_path: Path) -> None:
    import duckdb

    from playbook.workflow.fleet import judge

    path = tmp_path / "fleet.db"
    with duckdb.connect(str(path)) as con:
        con.execute(
            "CREATE TABLE metrics AS SELECT s AS it, r AS worker, 'loss' AS name, 2e0 + 0.01 * ((s * 7 + r * 3) % 11) "
            "+ CASE WHEN r = 3 AND s >= 300 THEN 2.0 ELSE 0 END AS v FROM range(500) a(s), range(8) b(r)"
        )
        con.execute("INSERT INTO metrics SELECT it, worker, 'lr', 'nan'::DOUBLE FROM metrics")
    names = {"it": "step", "worker": "rank", "v": "value"}
    verdict = judge([], url=f"duckdb://{path}", table="metrics", rename=names, where={"name": "loss"})
    assert (verdict.affected, verdict.first, verdict.step, verdict.extent.rows) == ("one", 3, 300, 4000)
    with pytest.raises(PlaybookError, match="no column 'step'"):
        judge([], url=f"duckdb://{path}", table="metrics")
    with pytest.raises(PlaybookError, match="nothing"):
        judge([], url=f"duckdb://{path}", table="nothing")


@needs_ibis
def test_a_cut_line_and_a_step_logged_twice_are_told(tmp_path: Path) -> None:
    from playbook.workflow.fleet import judge

    job(tmp_path, "")
    torn = tmp_path / "rank3.csv"
    torn.write_text(torn.read_text() + "1200,9999")
    again = tmp_path / "rank4.csv"
    again.write_text(again.read_text() + "500,2.5\n")
    verdict = judge([str(tmp_path)])
    said = {p.code: p.what for p in verdict.problems}
    assert "step 1200" in said["cut"] and "1 steps hold more values" in said["repeated"]
    assert verdict.extent.last_step == 1199 and verdict.affected is None


def as_json_lines(path: Path) -> None:
    name, *rows = path.read_text().splitlines()
    keys = name.split(",")
    lines = (json.dumps(dict(zip(keys, map(float, row.split(",")), strict=True))) for row in rows)
    path.with_suffix(".jsonl").write_text("\n".join(lines) + "\n")
    path.unlink()


def as_parquet(path: Path) -> None:
    import duckdb

    duckdb.sql(f"COPY (FROM read_csv('{path}')) TO '{path.with_suffix('.parquet')}' (FORMAT parquet)")
    path.unlink()


@needs_ibis
@pytest.mark.parametrize("turned", [as_json_lines, as_parquet])
def test_the_verdict_does_not_depend_on_the_format(tmp_path: Path, turned) -> None:
    from playbook.workflow.fleet import judge

    onset = job(tmp_path, "leads", column="my_loss")
    names = {"my_loss": "loss"}
    as_csv = judge([str(tmp_path)], rename=names)
    for path in list(tmp_path.iterdir()):
        turned(path)
    verdict = judge([str(tmp_path)], rename=names)
    assert (verdict.affected, verdict.first, verdict.step) == ("one", 5, onset)
    assert verdict.findings == as_csv.findings and verdict.extent == as_csv.extent
    with pytest.raises(PlaybookError, match=r"no column 'other'.*step, my_loss"):
        judge([str(tmp_path)], rename={"other": "loss"})


@needs_ibis
def test_files_of_another_format_or_header_are_told_or_read_as_they_are(tmp_path: Path) -> None:
    from playbook.workflow.fleet import judge

    job(tmp_path, "")
    as_json_lines(tmp_path / "rank11.csv")
    swapped = tmp_path / "rank4.csv"
    rows = (line.split(",") for line in swapped.read_text().splitlines())
    swapped.write_text("".join(f"{value},{step}\n" for step, value in rows))
    verdict = judge([str(tmp_path)])
    assert verdict.extent.ranks == 11 and verdict.affected is None
    assert [p.what for p in verdict.problems] == ["left out: the fleet is read from csv files"]


@needs_ibis
@pytest.mark.parametrize(
    "change",
    [
        lambda text: text.replace(",", ";"),
        lambda text: text.replace("loss", "other"),
        lambda text: "step,loss\n",
        lambda text: "step,loss\n1,abc\n",
    ],
    ids=["another delimiter", "another column", "no row", "no number"],
)
def test_a_rank_of_which_nothing_is_read_is_told(tmp_path: Path, change) -> None:
    from playbook.workflow.fleet import judge

    job(tmp_path, "")
    assert judge([str(tmp_path)]).problems == ()
    silent = tmp_path / "rank3.csv"
    silent.write_text(change(silent.read_text()))
    verdict = judge([str(tmp_path)])
    assert [(p.where, p.what) for p in verdict.problems] == [(str(silent), "no value of loss was read from it")]
    late = tmp_path / "rank5.csv"
    late.write_text(
        "step,loss\n" + "".join(line for line in late.read_text().splitlines(True)[1:] if line.startswith("11"))
    )
    assert len(judge([str(tmp_path)]).problems) == 1, "a rank that joined late is there"


@needs_ibis
def test_cells_in_quotes_are_one_cell(tmp_path: Path) -> None:
    """A comma inside a name is no end of it, and a cut line is known by its step wherever its quotes are."""
    from playbook.workflow.fleet import judge

    job(tmp_path, "")
    for path in tmp_path.iterdir():
        path.write_text(path.read_text().replace("step,loss", '"step","loss","note, in words"'))
    torn = tmp_path / "rank3.csv"
    torn.write_text(torn.read_text() + '"1200","9999')
    verdict = judge([str(tmp_path)])
    assert verdict.affected is None and verdict.extent.last_step == 1199
    assert [p.code for p in verdict.problems] == ["cut"]


@needs_ibis
def test_a_column_without_a_number_is_one_clear_line(tmp_path: Path) -> None:
    from playbook.workflow.fleet import judge

    for rank in range(3):
        (tmp_path / f"rank{rank}.csv").write_text("step,loss\n" + "".join(f"{s},\n" for s in range(50)))
    with pytest.raises(PlaybookError, match="no rank has a value of loss"):
        judge([str(tmp_path)])


@pytest.mark.parametrize(
    ("name", "packed"),
    [("rank{}.csv", gzip.compress), ("rank{}.csv", lambda data: data.decode().encode("utf-16"))],
    ids=["packed under a plain name", "utf-16"],
)
def test_what_no_engine_reads_is_told_before_it_is_asked(tmp_path: Path, name: str, packed) -> None:
    from playbook.workflow.fleet import judge

    for rank in range(3):
        (tmp_path / name.format(rank)).write_bytes(packed(b"step,loss\n1,2\n2,2\n"))
    with pytest.raises(PlaybookError, match=r"not parquet, CSV or JSON lines.*UTF-8.*ingest"):
        judge([str(tmp_path)])


@pytest.mark.parametrize(
    ("name", "body", "what"),
    [
        ("rank0.csv", "step,thing\n1,2\n", "no column of the loss"),
        ("rank0.csv", "loss,thing\n1,2\n", "no column of the step"),
        ("a.csv", "step,loss\n1,2\n", "no rank in the file's name"),
        ("rank0.log", "iteration 1 loss 2\n", "is not parquet, CSV or JSON lines"),
        pytest.param("rank0.csv", "step,loss\n1,2\n", "nothing to compare", marks=needs_ibis),
    ],
)
def test_what_it_cannot_compare_is_one_line_on_standard_error(tmp_path: Path, name, body, what, capsys) -> None:
    from playbook.faces.cli import run

    (tmp_path / name).write_text(body)
    assert run(["fleet", str(tmp_path / name)]) == 2
    said = capsys.readouterr()
    assert not said.out and what in said.err and said.err.count("\n") == 1


def test_without_the_extra_it_names_the_command_that_installs_it(tmp_path: Path, monkeypatch, capsys) -> None:
    from playbook.faces.cli import run

    find = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name, *rest: None if name == "ibis" else find(name, *rest))
    for rank in (0, 1):
        (tmp_path / f"rank{rank}.csv").write_text("step,loss\n1,2\n")
    assert run(["fleet", str(tmp_path)]) == 2
    said = capsys.readouterr()
    assert "pip install 'playbook[fleet]'" in said.err and said.err.count("\n") == 1 and not said.out


@needs_ibis
def test_the_command_prints_one_json_document_and_checks(tmp_path: Path, capsys) -> None:
    from playbook.faces.cli import run

    onset = job(tmp_path, "leads")
    assert run(["fleet", str(tmp_path), "--json", "--check"]) == 1
    told = json.loads(capsys.readouterr().out)
    assert (told["affected"], told["first_rank"], told["step"], told["ranks"]) == ("one", 5, onset, 12)
    assert run(["fleet", str(tmp_path)]) == 0
    assert "rank 5 is the first" in capsys.readouterr().out


@pytest.mark.parametrize("url", ["clickhouse://me:secret@host:9/db", "nonsense://x"])
@needs_ibis
def test_a_password_is_never_printed(tmp_path: Path, url: str, capsys) -> None:
    from playbook.faces.cli import run

    assert run(["fleet", "--engine", url, "--table", "t"]) == 2
    said = capsys.readouterr().err
    assert "secret" not in said and said.count("\n") == 1
