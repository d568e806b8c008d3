"""The version of the tables: checked whenever a store is opened, brought up to date by Alembic when it is older.

`VERSIONS` names every schema that ever was, oldest first; a test holds it against the migration files. Knowing the
newest one by name keeps Alembic (a slow import) out of the ordinary start.
"""

from __future__ import annotations

from pathlib import Path

from sqlalchemy import Connection, inspect, text
from sqlalchemy.exc import DBAPIError

from playbook.errors import PlaybookError
from playbook.incidents.database import Database, migration_lock

VERSIONS = ("0001", "0002", "0003")
HEAD = VERSIONS[-1]
MIGRATIONS = Path(__file__).parent / "migrations"


def version(connection: Connection) -> str | None:
    """The schema of an open database; None where it has no tables of ours. Refuses a database of something else."""
    tables = set(inspect(connection).get_table_names())
    if "alembic_version" in tables:
        found = connection.execute(text("SELECT version_num FROM alembic_version")).scalars().first()
        if found is not None and (found in VERSIONS or "incident" in tables):
            return str(found)
    if tables - {"alembic_version"}:
        raise PlaybookError("--db", "is the database of something else", "name an empty database, or another file")
    return None


def _quick(database: Database) -> bool:
    """Whether the newest schema is there; one small query."""
    try:
        with database.engine.connect() as connection:
            return connection.execute(text("SELECT version_num FROM alembic_version")).scalars().first() == HEAD
    except DBAPIError:
        return False  # no such table, or something worse: what follows finds out


def ensure(database: Database, target: str = "head") -> None:
    """Bring the tables to the newest schema (tests: to `target`). Raises `PlaybookError` for a newer or foreign one."""
    if target == "head" and _quick(database):
        return
    with database.reading() as connection:
        found = version(connection)
    if found == HEAD:
        return
    if found is not None and found not in VERSIONS:
        raise PlaybookError(database.name, f"was written by a newer playbook (schema {found})", "upgrade playbook")
    if database.read_only:
        what = f"has an older schema ({found}) and cannot be written" if found else "holds no incidents"
        raise PlaybookError(database.name, what, "open it once where it can be written")
    with database.writing() as connection:
        migration_lock(database, connection)
        if version(connection) != HEAD:
            upgrade(connection, target)


def upgrade(connection: Connection, target: str = "head") -> None:
    """Run the migrations inside the transaction of `connection`."""
    import logging

    from alembic import command
    from alembic.config import Config

    logging.getLogger("alembic").setLevel(logging.WARNING)
    config = Config()
    config.set_main_option("script_location", str(MIGRATIONS).replace("%", "%%"))
    config.attributes["connection"] = connection
    command.upgrade(config, target)
