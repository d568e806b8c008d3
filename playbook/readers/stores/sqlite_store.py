"""SQLite stores of trackers, read without their packages: MLflow (`metrics`, `params`) and trackio (`metrics` as JSON).

MLflow stores a NaN as 0 with the flag `is_nan`, and an infinity as the largest double: both come back as what was
logged.
"""

from __future__ import annotations

import json
import sqlite3
from pathlib import Path
from typing import Any

import numpy as np

from playbook.errors import PlaybookError
from playbook.readers import tabular
from playbook.readers.base import RunBuilder, number, whole_step
from playbook.readers.documents.json_rows import Rows
from playbook.readers.source import Source

NAME = "sqlite"
TITLE = "MLflow or trackio database (SQLite)"

_LARGEST = 1.7976931348623157e308  # MLflow's stand-in for an infinity


def sniff(head: bytes, path: Path) -> int:
    return 99 if head.startswith(b"SQLite format 3\0") else 0


def read(source: Source, builder: RunBuilder) -> None:
    with source.as_plain_file(binary=True) as path:
        connection: sqlite3.Connection | None = None
        try:
            connection = _opened(path)
            tables = {name: _columns(connection, name) for name in ("metrics", "params", "runs")}
            if {"key", "value", "step", "run_uuid"} <= tables["metrics"]:
                _mlflow(connection, tables, source, builder)
            elif {"run_name", "step", "metrics"} <= tables["metrics"]:
                _trackio(connection, source, builder)
            else:
                raise PlaybookError(
                    source.name,
                    "an SQLite file without a table `metrics` of MLflow or trackio",
                    "export the metrics as CSV",
                )
        except (sqlite3.Error, UnicodeDecodeError, MemoryError) as error:  # a damaged page may ask for endless memory
            what = f"the SQLite file cannot be read: {' '.join(str(error).split()) or 'a page is damaged'}"
            raise PlaybookError(source.name, what, "copy it while nobody writes to it") from None
        finally:
            if connection is not None:
                connection.close()


def _opened(path: Path) -> sqlite3.Connection:
    """Read only; a store whose write-ahead log cannot be opened (read-only folder) is read as it lies on the disk."""
    for mode in ("mode=ro", "immutable=1"):
        connection = sqlite3.connect(f"{path.resolve().as_uri()}?{mode}", uri=True)
        connection.text_factory = _text
        try:
            connection.execute("SELECT name FROM sqlite_master LIMIT 1").fetchall()
            return connection
        except sqlite3.OperationalError:
            connection.close()
            if mode == "immutable=1":
                raise
    raise AssertionError("unreachable")


def _text(raw: bytes) -> str:
    return raw.decode("utf-8", "replace")


def _columns(connection: sqlite3.Connection, table: str) -> set[str]:
    return {str(row[1]) for row in connection.execute(f"PRAGMA table_info({table})")}


def _mlflow(connection: sqlite3.Connection, tables: dict[str, set[str]], source: Source, builder: RunBuilder) -> None:
    last = connection.execute("SELECT run_uuid, max(timestamp) FROM metrics GROUP BY run_uuid ORDER BY 2, 1").fetchall()
    if not last:
        raise PlaybookError(source.name, "no run in this MLflow store has logged a metric", "check the experiment")
    run = str(last[-1][0])
    _others(builder, run, [str(row[0]) for row in last[:-1]])
    builder.run, builder.run_time = run, (number(last[-1][1]) or 0.0) / 1000
    flag = "is_nan" if "is_nan" in tables["metrics"] else "0"
    points: dict[str, list[tuple[int, float]]] = {}
    rows = connection.execute(
        f"SELECT key, step, value, {flag} FROM metrics WHERE run_uuid = ? ORDER BY key, timestamp, step, rowid", (run,)
    )
    for key, step, value, nan in rows:
        found = float("nan") if nan else number(value)
        if found is not None:
            infinite = abs(found) >= _LARGEST
            points.setdefault(str(key), []).append(
                (whole_step(step) or 0, float(np.copysign(np.inf, found)) if infinite else found)
            )
    wanted = [key for key in points if builder.wants(key)]
    builder.see(key for key in points if key not in wanted)
    if not wanted:
        raise PlaybookError(source.name, f"no known metric (names: {', '.join(sorted(points)[:12])})", tabular.MAP_HINT)
    for key in wanted:
        steps, values = zip(*points[key], strict=True)
        builder.add_columns(np.asarray(steps, np.int64), {key: np.asarray(values, float)})
    if {"key", "value", "run_uuid"} <= tables["params"]:
        params = connection.execute("SELECT key, value FROM params WHERE run_uuid = ?", (run,)).fetchall()
        builder.set_config({str(key).lower(): _plain(value) for key, value in params})
    if {"status", "run_uuid"} <= tables["runs"]:
        status = connection.execute("SELECT status FROM runs WHERE run_uuid = ?", (run,)).fetchone()
        if status and status[0]:
            builder.set_config({"mlflow.status": str(status[0]).lower()})


def _trackio(connection: sqlite3.Connection, source: Source, builder: RunBuilder) -> None:
    last = connection.execute("SELECT run_name, max(timestamp) FROM metrics GROUP BY run_name ORDER BY 2, 1").fetchall()
    if not last:
        raise PlaybookError(source.name, "the trackio store holds no row", "check that the job has logged something")
    run = str(last[-1][0])
    _others(builder, run, [str(row[0]) for row in last[:-1]])
    rows = Rows(builder)
    query = "SELECT step, metrics FROM metrics WHERE run_name = ? ORDER BY timestamp, step, rowid"
    for count, (step, text) in enumerate(connection.execute(query, (run,)), 1):
        try:
            row: Any = json.loads(text)
        except (TypeError, ValueError, RecursionError):
            builder.problem(None, f"row {count} is no JSON; it is left out", "", "row")
            continue
        if isinstance(row, dict):
            rows.add({"step": step} | row, count)
    tabular.fill(builder, rows.columns())


def _others(builder: RunBuilder, run: str, others: list[str]) -> None:
    if others:
        named = ", ".join(others[:3]) + (", ..." if len(others) > 3 else "")
        text = f"run {run} is read; {len(others)} other runs are left out ({named})"
        builder.problem(None, text, "export another run as CSV to read it", "other-runs")


def _plain(value: object) -> object:
    found = number(value)
    if found is None or found != found:
        return value
    return int(found) if found == int(found) and abs(found) < 1e15 and "." not in str(value) else found
