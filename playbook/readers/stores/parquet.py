"""Parquet tables (W&B history exports, pandas, trackio): by duckdb, only the columns that can become metrics."""

from __future__ import annotations

from pathlib import Path

from playbook.errors import PlaybookError
from playbook.readers import tabular
from playbook.readers.base import RunBuilder
from playbook.readers.names import epoch_name, plain, rank_name, step_names
from playbook.readers.source import Source

NAME = "parquet"
TITLE = "Parquet table"

_NUMBERS = (
    "TINYINT",
    "SMALLINT",
    "INTEGER",
    "BIGINT",
    "HUGEINT",
    "UTINYINT",
    "USMALLINT",
    "UINTEGER",
    "UBIGINT",
    "FLOAT",
    "DOUBLE",
    "DECIMAL",
)


def sniff(head: bytes, path: Path) -> int:
    return 99 if head.startswith(b"PAR1") else 0


def read(source: Source, builder: RunBuilder) -> None:
    from playbook.readers import columnar

    with source.as_plain_file(binary=True) as path:
        table = f"read_parquet({columnar.literal(path)})"
        try:
            columns = columnar.table_columns(f"SELECT * FROM {table}")
            numbers = [name for name, kind in columns if kind.startswith(_NUMBERS)]
            texts = [name for name, kind in columns if kind == "VARCHAR" and builder.wants(name)]
            wanted = [name for name in numbers + texts if _needed(name, builder)]
            builder.see(name for name in numbers if name not in wanted)
            if not any(builder.wants(name) for name in wanted):
                shown = ", ".join(name for name, _ in columns[:12])
                raise PlaybookError(source.name, f"no column of a known metric (columns: {shown})", tabular.MAP_HINT)
            picked = ", ".join(
                f"TRY_CAST({columnar.name(name)} AS DOUBLE) AS m{place}" for place, name in enumerate(wanted)
            )
            rows = columnar.fetch(f"SELECT {picked} FROM {table}", wanted, 1 << 16)
        except columnar.QueryError as error:
            what = f"the parquet file cannot be read: {error}"
            raise PlaybookError(source.name, what, "it may be cut; fetch it again") from None
    tabular.fill(builder, rows)


def _needed(name: str, builder: RunBuilder) -> bool:
    if builder.step_column is not None and plain(builder.step_column) == plain(name):
        return True
    return bool(builder.wants(name) or step_names([name]) or epoch_name([name]) or rank_name([name]))
