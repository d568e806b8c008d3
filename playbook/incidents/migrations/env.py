"""Alembic's entry: migrate inside the transaction that `schema.upgrade` has opened."""

from alembic import context

from playbook.incidents import progress  # noqa: F401  (its tables are among METADATA)
from playbook.incidents.models import METADATA

connection = context.config.attributes["connection"]


def ours(thing: object, name: str | None, kind: str, reflected: bool, compare_to: object) -> bool:
    """Leave the search tables alone: they are made by hand, and SQLite adds shadow tables of its own."""
    return not (kind == "table" and (name or "").startswith("incident_text"))


context.configure(
    connection=connection,
    target_metadata=METADATA,
    include_object=ours,
    render_as_batch=connection.dialect.name == "sqlite",
    compare_type=True,
)
with context.begin_transaction():
    context.run_migrations()
