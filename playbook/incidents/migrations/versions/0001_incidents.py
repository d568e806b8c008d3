"""Incidents with their moves, timeline, treatments, links and artifacts; search over title and words."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None


def _child(name: str, *columns: sa.Column) -> None:
    op.create_table(
        name,
        sa.Column("key", sa.Integer, nullable=False),
        sa.Column("incident", sa.Integer, nullable=False),
        sa.Column("position", sa.Integer, nullable=False),
        *columns,
        sa.PrimaryKeyConstraint("key", name=f"pk_{name}"),
        sa.ForeignKeyConstraint(
            ["incident"], ["incident.number"], ondelete="CASCADE", name=f"fk_{name}_incident_incident"
        ),
        sa.UniqueConstraint("incident", "position", name=f"uq_{name}_incident"),
    )
    op.create_index(f"ix_{name}_incident", name, ["incident"])


def _need(name: str, kind: type[sa.types.TypeEngine]) -> sa.Column:
    return sa.Column(name, kind, nullable=False)


def upgrade() -> None:
    op.create_table(
        "incident",
        _need("number", sa.Integer),
        _need("id", sa.String),
        _need("title", sa.Text),
        _need("status", sa.String),
        _need("opened_at", sa.String),
        sa.Column("closed_at", sa.String),
        sa.Column("symptom", sa.String),
        sa.Column("onset_step", sa.BigInteger),
        _need("verdict", sa.String),
        _need("decided", sa.Boolean),
        sa.Column("first_cause", sa.String),
        sa.Column("first_class", sa.String),
        sa.Column("first_layer", sa.String),
        sa.Column("first_probability", sa.Float),
        sa.Column("cause", sa.Text),
        sa.Column("cause_class", sa.String),
        sa.Column("layer", sa.String),
        _need("confirmed_by", sa.String),
        _need("gpus", sa.Integer),
        _need("hours_lost", sa.Float),
        _need("cost_usd", sa.Float),
        _need("minutes", sa.Float),
        _need("gpu_hours", sa.Float),
        _need("questions", sa.Integer),
        _need("facts", sa.Text),
        _need("words", sa.Text),
        _need("detail", sa.Text),
        sa.PrimaryKeyConstraint("number", name="pk_incident"),
        sa.UniqueConstraint("id", name="uq_incident_id"),
    )
    for column in ("status", "opened_at", "symptom", "cause", "layer"):
        op.create_index(f"ix_incident_{column}", "incident", [column])
    _child(
        "move",
        _need("kind", sa.String),
        _need("signal", sa.String),
        sa.Column("state", sa.String),
        _need("source", sa.String),
        _need("because", sa.Text),
        sa.Column("step", sa.BigInteger),
        _need("minutes", sa.Float),
        _need("gpu_hours", sa.Float),
        _need("belief", sa.Text),
        _need("extra", sa.Text),
    )
    op.create_index("ix_move_signal", "move", ["signal"])
    _child(
        "timeline",
        _need("kind", sa.String),
        _need("text", sa.Text),
        sa.Column("step", sa.BigInteger),
        sa.Column("time", sa.String),
        _need("extra", sa.Text),
    )
    _child(
        "treatment",
        _need("fix", sa.String),
        _need("outcome", sa.String),
        _need("note", sa.Text),
        _need("at", sa.String),
    )
    op.create_index("ix_treatment_fix", "treatment", ["fix"])
    _child("link", _need("url", sa.Text), _need("title", sa.Text))
    _child(
        "artifact",
        _need("name", sa.Text),
        _need("kind", sa.String),
        _need("sha256", sa.String),
        _need("size", sa.BigInteger),
        _need("note", sa.Text),
    )
    op.create_index("ix_artifact_sha256", "artifact", ["sha256"])
    _search()


def _search() -> None:
    bind = op.get_bind()
    if bind.dialect.name == "sqlite":
        try:
            bind.exec_driver_sql(
                "CREATE VIRTUAL TABLE incident_text USING fts5"
                "(title, words, content='incident', content_rowid='number', tokenize='trigram')"
            )
        except sa.exc.OperationalError:
            return  # a SQLite without FTS5 or trigrams: the search reads the table itself
        new = "INSERT INTO incident_text(rowid, title, words) VALUES (new.number, new.title, new.words);"
        old = (
            "INSERT INTO incident_text(incident_text, rowid, title, words) "
            "VALUES ('delete', old.number, old.title, old.words);"
        )
        for name, when, body in (("ai", "INSERT", new), ("ad", "DELETE", old), ("au", "UPDATE", old + " " + new)):
            bind.exec_driver_sql(f"CREATE TRIGGER incident_text_{name} AFTER {when} ON incident BEGIN {body} END")
    elif bind.dialect.name == "postgresql":
        try:
            with bind.begin_nested():
                bind.exec_driver_sql("CREATE EXTENSION IF NOT EXISTS pg_trgm")
                bind.exec_driver_sql(
                    "CREATE INDEX incident_text ON incident USING gin ((title || ' ' || words) gin_trgm_ops)"
                )
        except sa.exc.DBAPIError:
            pass  # not installed or not allowed: ILIKE reads the table


def downgrade() -> None:
    raise NotImplementedError("a store only goes up; keep a copy of the file before you upgrade")
