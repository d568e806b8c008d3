"""Search reads one column, `words`: the title too, in lower case, so that no database folds case while it reads."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"


def upgrade() -> None:
    bind = op.get_bind()
    if bind.dialect.name == "sqlite":
        for name in ("ai", "ad", "au"):
            bind.exec_driver_sql(f"DROP TRIGGER IF EXISTS incident_text_{name}")
        bind.exec_driver_sql("DROP TABLE IF EXISTS incident_text")
        bind.exec_driver_sql("UPDATE incident SET words = lower(title || char(10) || words)")
        _trigrams(bind)
    else:
        bind.exec_driver_sql("DROP INDEX IF EXISTS incident_text")
        bind.exec_driver_sql("UPDATE incident SET words = lower(title || chr(10) || words)")
        if bind.exec_driver_sql("SELECT 1 FROM pg_extension WHERE extname = 'pg_trgm'").first():
            bind.exec_driver_sql("CREATE INDEX incident_text ON incident USING gin (words gin_trgm_ops)")


def _trigrams(bind: sa.engine.Connection) -> None:
    try:
        bind.exec_driver_sql(
            "CREATE VIRTUAL TABLE incident_text USING fts5"
            "(words, content='incident', content_rowid='number', tokenize='trigram')"
        )
    except sa.exc.OperationalError:
        return  # a SQLite without FTS5 or trigrams: the search reads the table itself
    new = "INSERT INTO incident_text(rowid, words) VALUES (new.number, new.words);"
    old = "INSERT INTO incident_text(incident_text, rowid, words) VALUES ('delete', old.number, old.words);"
    for name, when, body in (("ai", "INSERT", new), ("ad", "DELETE", old), ("au", "UPDATE", old + " " + new)):
        bind.exec_driver_sql(f"CREATE TRIGGER incident_text_{name} AFTER {when} ON incident BEGIN {body} END")
    bind.exec_driver_sql("INSERT INTO incident_text(incident_text) VALUES ('rebuild')")


def downgrade() -> None:
    raise NotImplementedError("a store only goes up; keep a copy of the file before you upgrade")
