"""Opens the engine that a URL names, over files or over a table that is already there. The only door to Ibis backends.

`duckdb://` (the default) and `chdb://` read files in this process; every other URL goes to Ibis, which connects to
ClickHouse, Spark, PostgreSQL and others, and needs a table. A missing package is one line with the command that
installs it.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from playbook.errors import PlaybookError
from playbook.probes import fleet

if TYPE_CHECKING:
    import ibis.expr.types as ir

DEFAULT = "duckdb://"
MEMORY = "1GB"  # what duckdb may use; beyond it spills
INSTALL = "pip install 'playbook[fleet]'"
_EXTRAS = {"clickhouse": "clickhouse", "pyspark": "pyspark", "postgres": "postgres", "postgresql": "postgres"}


@dataclass(frozen=True, slots=True)
class File:
    """One file of the fleet. `rank` where its name carries it; `torn` is the step of a last line without an end."""

    path: str
    rank: int | None = None
    torn: int | None = None


@dataclass(frozen=True, slots=True)
class Rows:
    """Rows that were read already: steps and ranks int64[n], values float64[n], masked where nothing was logged."""

    step: np.ndarray
    rank: np.ndarray
    value: np.ndarray


@dataclass(frozen=True, slots=True)
class Files:
    """Files of one format with the same columns: `format` is parquet, csv or json.

    Of a csv: its `delimiter`, and the `header` where all files have the same one (then nothing is guessed). `rows`
    reads the files that are plain throughout, faster than an engine that must expect anything, and gives the others
    back.
    """

    files: tuple[File, ...]
    format: str
    step: str
    value: str
    rank: str | None = None
    delimiter: str = ","
    header: tuple[str, ...] = ()
    rows: Callable[[], Iterator[Rows | File]] | None = None


@dataclass(frozen=True, slots=True)
class Table:
    """A table of an engine and the names of its columns; rows are kept where `where` (column -> value) holds."""

    name: str
    step: str = "step"
    rank: str = "rank"
    value: str = "value"
    where: Mapping[str, str] | None = None


@contextmanager
def opened(url: str, data: Files | Table, scratch: str) -> Iterator[fleet.Engine]:
    """The engine of `url` over `data`. `scratch` is a folder for what duckdb spills; the caller removes it."""
    _need("ibis", "the fleet reduction needs Ibis", INSTALL)
    scheme = url.partition("://")[0]
    if scheme == "chdb":
        yield _chdb(url, data)
        return
    foreign = isinstance(data, Files) and scheme != "duckdb"
    if isinstance(data, Files) and foreign and (data.format != "parquet" or data.rank is None):
        what = "this engine reads no files but parquet with a column of ranks"
        raise PlaybookError(hidden(url), what, "name a table of it with --table, or use duckdb://")
    con = _connect(url, scheme)
    try:
        if scheme == "duckdb":
            con.raw_sql(f"SET memory_limit = '{MEMORY}'")
            con.raw_sql(f"SET temp_directory = {_text(scratch)}")
            con.raw_sql("SET preserve_insertion_order = false")
        if isinstance(data, Files) and foreign:
            rows = _guarded(url, lambda: _parquet(con, data))
        elif isinstance(data, Files):
            _guarded(url, lambda: _loaded(con, data))
            rows = con.table(fleet.NAME)
        else:
            rows = _named(url, con, data)

        def run(expression: ir.Table) -> fleet.Columns:
            # By the bare connection where it is duckdb: Ibis would import pandas (a second) to hand over numbers.
            fetch = _fetched if scheme == "duckdb" else _collected
            found: fleet.Columns = _guarded(url, lambda: fetch(con, expression))
            return found

        yield fleet.Engine(scheme, rows, run)
    finally:
        con.disconnect()


def _parquet(con: Any, data: Files) -> ir.Table:
    """Parquet files as the engine itself reads them, one by one: not every backend of Ibis takes a list."""
    import ibis

    read = [con.read_parquet(f.path) for f in data.files]
    parts = [t.select(step=t[data.step], rank=t[data.rank or ""], value=t[data.value]) for t in read]
    return ibis.union(*parts) if len(parts) > 1 else parts[0]


def _collected(con: Any, expression: ir.Table) -> fleet.Columns:
    return fleet.arrays(con.to_pyarrow(expression))


def _fetched(con: Any, expression: ir.Table) -> fleet.Columns:
    return fleet.filled(con.con.execute(con.compile(expression)).fetchnumpy())


def _loaded(con: Any, data: Files) -> None:
    """Text is parsed once, into a table that spills; parquet is read in place, range by range."""
    if data.rows is None:
        kind = "VIEW" if data.format == "parquet" else "TABLE"
        con.raw_sql(f"CREATE TEMP {kind} {fleet.NAME} AS {duckdb_rows(data)}")
        return
    con.raw_sql(f"CREATE TEMP TABLE {fleet.NAME} (step BIGINT, rank BIGINT, value DOUBLE)")
    left: list[File] = []
    for part in data.rows():
        if isinstance(part, File):
            left.append(part)
        else:
            _insert(con.con, part)
    if left:
        con.raw_sql(f"INSERT INTO {fleet.NAME} {duckdb_rows(replace(data, files=tuple(left)))}")


def _insert(con: Any, rows: Rows) -> None:
    """Rows from memory. duckdb takes a NaN of numpy for NULL: so they travel as a column of their own."""
    columns = {"step": rows.step, "rank": rows.rank, "value": rows.value}
    value = "value"
    if (lost := np.isnan(np.ma.getdata(rows.value))).any():
        columns["lost"] = lost & ~np.ma.getmaskarray(rows.value)
        value = "CASE WHEN lost THEN 'nan'::DOUBLE ELSE value END"
    con.register("playbook_rows", columns)
    con.execute(f"INSERT INTO {fleet.NAME} SELECT step, rank, {value} FROM playbook_rows")
    con.unregister("playbook_rows")


def duckdb_rows(data: Files) -> str:
    """The rows of files as duckdb reads them: step, rank, value. A cell that is no number is NULL."""
    paths = "[" + ", ".join(_text(f.path) for f in data.files) + "]"
    if data.format == "parquet":
        source = f"read_parquet({paths}, filename = 'playbook_file', union_by_name = true)"
    elif data.format == "json":
        columns = {data.step: "DOUBLE", data.value: "DOUBLE"} | ({data.rank: "DOUBLE"} if data.rank else {})
        kinds = ", ".join(f"{_text(name)}: '{kind}'" for name, kind in columns.items())
        source = (
            f"read_json({paths}, format = 'newline_delimited', columns = {{{kinds}}}, ignore_errors = true, "
            "filename = 'playbook_file')"
        )
    else:
        if data.header:
            kinds = ", ".join(f"{_text(name)}: 'VARCHAR'" for name in data.header)
            shape = f"header = true, auto_detect = false, columns = {{{kinds}}}"
        else:
            shape = "header = true, all_varchar = true, union_by_name = true"
        source = (
            f"read_csv({paths}, delim = {_text(data.delimiter)}, quote = '\"', {shape}, null_padding = true, "
            "strict_mode = false, ignore_errors = true, filename = 'playbook_file')"
        )
    rank = f"TRY_CAST(d.{_name(data.rank)} AS BIGINT)" if data.rank else "f.rank"
    rows = (
        f"SELECT TRY_CAST(d.{_name(data.step)} AS BIGINT) AS step, {rank} AS rank, "
        f"TRY_CAST(d.{_name(data.value)} AS DOUBLE) AS value FROM {source} AS d"
    )
    torn = [f for f in data.files if f.torn is not None]
    if data.rank and not torn:
        return rows
    table = ", ".join(
        f"({_text(f.path)}, {'NULL' if f.rank is None else f.rank}, {'NULL' if f.torn is None else f.torn})"
        for f in data.files
    )
    rows += f" JOIN (VALUES {table}) AS f(path, rank, torn) ON d.playbook_file = f.path"
    if torn:
        rows += f" WHERE f.torn IS NULL OR TRY_CAST(d.{_name(data.step)} AS BIGINT) IS DISTINCT FROM f.torn"
    return rows


def chdb_rows(data: Files) -> str:
    """The rows of files as ClickHouse reads them."""
    kind = {"parquet": "Parquet", "csv": "CSVWithNames", "json": "JSONEachRow"}[data.format]
    if any(f.torn is not None for f in data.files):
        raise PlaybookError(data.files[0].path, "a last line is cut, which chdb cannot leave out", "use duckdb://")
    rank = _tick(data.rank) if data.rank else f"toInt64({_choice(data.files)})"
    pattern = data.files[0].path
    if len(data.files) > 1:  # a pattern must begin with a folder
        top = os.path.commonpath([f.path for f in data.files])
        pattern = f"{top}/{{{','.join(os.path.relpath(f.path, top) for f in data.files)}}}"
    return (
        f"(SELECT toInt64({_tick(data.step)}) AS step, toInt64({rank}) AS rank, "
        f"toFloat64({_tick(data.value)}) AS value FROM file({_text(pattern)}, {kind}))"
    )


def chdb_sql(expression: ir.Table, rows: str) -> str:
    """An expression on `fleet.table()` as ClickHouse SQL over `rows`."""
    import ibis

    sql = str(ibis.to_sql(expression, dialect="clickhouse"))
    return sql.replace(f'"{fleet.NAME}"', rows)


def _chdb(url: str, data: Files | Table) -> fleet.Engine:
    _need("chdb", "chdb:// needs chdb", "pip install chdb")
    import chdb

    if isinstance(data, Table):
        raise PlaybookError(url, "chdb has no tables of its own here", "name files, or a clickhouse:// server")
    rows = chdb_rows(data)

    def run(expression: ir.Table) -> fleet.Columns:
        sql = chdb_sql(expression, rows) + " SETTINGS join_use_nulls = 1, aggregate_functions_null_for_empty = 1"
        found: fleet.Columns = _guarded(url, lambda: fleet.arrays(chdb.query(sql, "ArrowTable")))
        return found

    return fleet.Engine("chdb", fleet.table(), run)


def _named(url: str, con: Any, data: Table) -> ir.Table:
    """The table with its columns under our names."""
    t = _guarded(url, lambda: con.table(data.name))
    for column in (data.step, data.rank, data.value, *(data.where or {})):
        if column not in t.columns:
            have = ", ".join(t.columns[:12])
            raise PlaybookError(
                f"{hidden(url)} {data.name}", f"no column {column!r} (columns: {have})", "name it with --map"
            )
    for column, wanted in (data.where or {}).items():
        t = t.filter(t[column].cast("string") == wanted)
    return t.select(step=t[data.step], rank=t[data.rank], value=t[data.value])


def _connect(url: str, scheme: str) -> Any:
    import ibis

    if scheme == "duckdb":
        path = url.partition("://")[2]
        return _guarded(url, lambda: ibis.duckdb.connect(path or ":memory:", read_only=bool(path)))
    try:
        if scheme == "pyspark":  # pyspark://local[4], or the address of a master
            return _spark(url.partition("://")[2] or "local[*]")
        return ibis.connect(url)
    except ImportError:
        extra = _EXTRAS.get(scheme, scheme)
        raise PlaybookError(
            hidden(url), f"the {scheme} backend is not installed", f"pip install 'ibis-framework[{extra}]'"
        ) from None
    except Exception as error:
        raise PlaybookError(
            hidden(url), f"cannot be opened: {_first(url, error)}", "check the URL and the server"
        ) from None


def _spark(master: str) -> Any:
    """Ibis' own URL sets the warehouse of a running session, which Spark refuses."""
    import ibis
    from pyspark.sql import SparkSession

    address = master if master.startswith("local") or "://" in master else f"spark://{master}"
    builder = SparkSession.builder.master(address).appName("playbook").config("spark.ui.enabled", "false")
    return ibis.pyspark.connect(builder.getOrCreate())


def _guarded(url: str, work: Any) -> Any:
    """Run `work`; whatever an engine throws becomes one line."""
    try:
        return work()
    except PlaybookError:
        raise
    except Exception as error:  # backends have no common class of errors
        raise PlaybookError(
            hidden(url), f"the engine says: {_first(url, error)}", "check the table and its columns"
        ) from None


def hidden(url: str) -> str:
    """A URL without its password."""
    return re.sub(r"(://[^:/@]*):[^@/]*@", r"\1:***@", url)


def _first(url: str, error: Exception) -> str:
    """The first line of an error, without the password that a driver may repeat."""
    secret = re.search(r"://[^:/@]*:([^@/]+)@", url)
    text = str(error).replace(secret[1], "***") if secret else str(error)
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return (lines[0] if lines else type(error).__name__)[:200]


def _need(module: str, what: str, install: str) -> None:
    import importlib.util

    if importlib.util.find_spec(module) is None:
        raise PlaybookError("fleet", f"{what}, which is not installed", install)


def _choice(files: tuple[File, ...]) -> str:
    """The rank of a row by the file that it is in."""
    cases = ", ".join(f"endsWith(_path, {_text(f.path)}), {f.rank}" for f in files)
    return f"multiIf({cases}, NULL)"


def _name(text: str) -> str:
    return '"' + text.replace('"', '""') + '"'


def _tick(text: str) -> str:
    return "`" + text.replace("\\", "\\\\").replace("`", "\\`") + "`"


def _text(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"
