"""A database by URL: SQLite (a file of one's own) or PostgreSQL (a team's), opened so that writers queue up politely.

SQLite: WAL except on network file systems (its shared memory does not work there), foreign keys, a busy timeout, and
`BEGIN IMMEDIATE` for writers: a reader that turns writer half-way fails at once in spite of any timeout. Every foreseen
fault of a driver becomes a `PlaybookError` that never shows a password.
"""

from __future__ import annotations

import os
import re
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote

from sqlalchemy import Connection, Engine, create_engine, event, text
from sqlalchemy.engine import make_url
from sqlalchemy.exc import ArgumentError, DBAPIError, OperationalError, SQLAlchemyError
from sqlalchemy.pool import NullPool

from playbook.errors import PlaybookError

BUSY_SECONDS = 10.0  # how long a writer waits for another one
CONNECT_SECONDS = 8  # PostgreSQL: a host that is not there must not hang a diagnosis
# File systems whose locks or shared memory WAL must not rely on (sqlite.org/wal.html: "all processes ... on the same
# host").
NETWORK = re.compile(
    r"^(nfs\d?|cifs|smb\w*|lustre|gpfs|beegfs\w*|ceph|glusterfs|afs|9p|fuse\..*|pvfs2|orangefs|wekafs)$"
)
_MIGRATION_LOCK = 0x706C6179  # any fixed number: one migration at a time on PostgreSQL


@dataclass(frozen=True)
class Database:
    """An open database. `name` is the URL as it may be shown; `read_only` where nothing can be written."""

    engine: Engine
    name: str
    file: Path | None
    read_only: bool = False

    @property
    def is_sqlite(self) -> bool:
        return self.file is not None

    @contextmanager
    def reading(self) -> Iterator[Connection]:
        with faults(self.name), self.engine.connect() as connection:
            yield connection

    @contextmanager
    def writing(self) -> Iterator[Connection]:
        """One transaction, committed at the end or not at all."""
        if self.read_only:
            raise PlaybookError(
                self.name, "cannot be written", "the file or its folder is read-only; name another --db"
            )
        with faults(self.name), self.engine.execution_options(write=True).begin() as connection:
            yield connection


def open_database(url: str, busy_seconds: float = BUSY_SECONDS) -> Database:
    """Open (SQLite: create) the database of `url` and bring its tables up to date. Raises `PlaybookError`."""
    from playbook.incidents.schema import ensure

    try:
        parsed = make_url(url)
        backend = parsed.get_backend_name()
    except (ArgumentError, ValueError):
        raise PlaybookError("--db", "is no database URL", "sqlite:///FILE or postgresql://USER@HOST/NAME") from None
    if backend == "sqlite":
        database = _sqlite(parsed.database, busy_seconds)
    elif backend in ("postgresql", "postgres"):
        database = _postgresql(url)
    else:
        raise PlaybookError(f"--db {backend}://...", "no such kind of store", "sqlite:///FILE or postgresql://...")
    ensure(database)
    return database


def _sqlite(name: str | None, busy_seconds: float) -> Database:
    if not name or name == ":memory:":
        raise PlaybookError("--db sqlite://", "names no file", "write sqlite:///relative.db or sqlite:////absolute.db")
    path = Path(name).expanduser()
    shown = str(path)
    try:
        folder, exists = path.is_dir(), path.exists()
    except OSError as error:  # in a folder that may not be entered
        raise PlaybookError(shown, f"cannot be opened: {error.strerror}", "check its permissions") from None
    if folder:
        raise PlaybookError(shown, "is a folder", "name a file: sqlite:///FILE")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise PlaybookError(shown, f"its folder cannot be made: {error.strerror}", "name another --db") from None
    writable = _writable(path.parent) and (not exists or _writable(path))
    if not writable and not exists:
        raise PlaybookError(shown, "cannot be made: the folder is read-only", "name another --db or PLAYBOOK_HOME")
    journal = "DELETE" if on_network(path) else "WAL"
    uris = [f"file:{quote(str(path))}"] if writable else [f"file:{quote(str(path))}?mode=ro"]
    if not writable:
        # Without a writable folder there is no shared memory for WAL; the file itself can still be read.
        uris.append(f"file:{quote(str(path))}?mode=ro&immutable=1")

    def connect() -> sqlite3.Connection:
        return _connect(uris, busy_seconds, journal if writable else None)

    engine = create_engine("sqlite://", creator=connect, poolclass=NullPool)
    event.listen(engine, "begin", _begin)
    return Database(engine, shown, path, not writable)


def _writable(path: Path) -> bool:
    return os.access(path, os.W_OK, effective_ids=os.access in os.supports_effective_ids)


def _connect(uris: list[str], busy_seconds: float, journal: str | None) -> sqlite3.Connection:
    for place, uri in enumerate(uris):
        connection = sqlite3.connect(uri, uri=True, timeout=busy_seconds, isolation_level=None, check_same_thread=False)
        try:
            connection.execute(f"PRAGMA busy_timeout={int(busy_seconds * 1000)}")
            connection.execute("PRAGMA foreign_keys=ON")
            if journal is not None:
                _set_journal(connection, journal)
                # FULL: an incident is written seldom and must outlive a power cut.
                connection.execute("PRAGMA synchronous=FULL")
            connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
        except sqlite3.OperationalError as error:
            connection.close()
            if place + 1 < len(uris) and any(sign in str(error) for sign in ("unable to open", "readonly")):
                continue
            raise
        except sqlite3.Error:
            connection.close()
            raise
        return connection
    raise AssertionError("no URI to open")


def _set_journal(connection: sqlite3.Connection, journal: str) -> None:
    if connection.execute("PRAGMA journal_mode").fetchone()[0].upper() != journal:
        try:
            connection.execute(f"PRAGMA journal_mode={journal}")
        except sqlite3.OperationalError as error:
            # Somebody else is at work: the mode stays as it is, and the next one sets it.
            if "locked" not in str(error) and "busy" not in str(error):
                raise


def _begin(connection: Connection) -> None:
    write = connection.get_execution_options().get("write", False)
    connection.exec_driver_sql("BEGIN IMMEDIATE" if write else "BEGIN")


def _postgresql(url: str) -> Database:
    try:
        import psycopg  # noqa: F401
    except ImportError:
        raise PlaybookError(
            "--db postgresql://...", "needs the package psycopg", "pip install 'playbook[postgres]'"
        ) from None
    parsed = make_url(re.sub(r"^postgres(ql)?(\+\w+)?:", "postgresql+psycopg:", url))
    engine = create_engine(parsed, connect_args={"connect_timeout": CONNECT_SECONDS}, pool_pre_ping=False)
    return Database(engine, parsed.set(drivername="postgresql").render_as_string(hide_password=True), None)


def migration_lock(database: Database, connection: Connection) -> None:
    """Only one process migrates; SQLite has its lock from `BEGIN IMMEDIATE`."""
    if not database.is_sqlite:
        connection.execute(text("SELECT pg_advisory_xact_lock(:key)"), {"key": _MIGRATION_LOCK})


def on_network(path: Path, mounts: Path = Path("/proc/self/mounts")) -> bool:
    """Whether a path lies on a network file system; False where the system does not tell."""
    try:
        lines = mounts.read_text("utf-8", "replace").splitlines()
    except OSError:
        return False
    target = path.resolve()
    best, kind = -1, ""
    for line in lines:
        parts = line.split(" ")
        if len(parts) < 3:
            continue
        point = Path(parts[1].replace("\\040", " "))
        if target.is_relative_to(point) and len(point.parts) >= best:
            best, kind = len(point.parts), parts[2]
    return bool(NETWORK.match(kind))


@contextmanager
def faults(name: str) -> Iterator[None]:
    """Turn what the drivers throw into one clear line."""
    try:
        yield
    except SQLAlchemyError as error:
        raise _translated(name, error) from None
    except sqlite3.Error as error:
        raise _translated(name, error) from None


def _translated(name: str, error: Exception) -> PlaybookError:
    cause: Any = error.orig if isinstance(error, DBAPIError) and error.orig is not None else error
    message = str(cause).strip().splitlines()[0] if str(cause).strip() else type(cause).__name__
    low = message.lower()
    for sign, what, hint in (
        ("locked", "is locked by another process", "wait until it is done, then try again"),
        ("disk is full", "cannot be written: the disk is full", "make room; nothing that was stored is lost"),
        ("no space left", "cannot be written: the disk is full", "make room; nothing that was stored is lost"),
        ("readonly", "cannot be written: it is read-only", "name another --db"),
        ("not a database", "is no SQLite database", "name another file: --db sqlite:///FILE"),
        ("malformed", "is a damaged SQLite database", "restore a copy, or `sqlite3 FILE .recover`"),
        ("unable to open", "cannot be opened", "check the path and its permissions"),
    ):
        if sign in low:
            return PlaybookError(name, what, hint)
    if isinstance(error, OperationalError) and "psycopg" in type(cause).__module__:
        return PlaybookError(name, f"no connection: {message}", "is the server running, and are name and user right?")
    return PlaybookError(name, f"the database refused: {message}", "the store may be newer or damaged")
