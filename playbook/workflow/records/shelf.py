"""Where incidents are kept: the store named by `--db`, `PLAYBOOK_DB` or the user's data folder, and its artifacts."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from playbook import places

if TYPE_CHECKING:
    from playbook.incidents.store import Store


def url_of(db: str | None) -> str:
    return db or places.store_url()


def artifact_folder(url: str) -> Path | None:
    """`PLAYBOOK_ARTIFACTS` (a folder that a team shares); else beside a SQLite file (None), else in `home()`."""
    if named := os.environ.get("PLAYBOOK_ARTIFACTS"):
        return Path(named).expanduser()
    return None if url.startswith("sqlite") else places.home() / "artifacts"


@contextmanager
def shelf(db: str | None = None) -> Iterator[Store]:
    """The open store. Raises `PlaybookError` where it cannot be opened."""
    from playbook.incidents import artifacts
    from playbook.incidents.store import open_store

    url = url_of(db)
    store = open_store(url, artifact_folder(url))
    try:
        if not store.database.read_only:
            artifacts.sweep(store.artifacts, time.time())
        yield store
    finally:
        store.close()


def is_there(db: str | None = None) -> bool:
    """Whether there may be incidents to look at, without opening anything (a SQLite file that was never made: no)."""
    url = url_of(db)
    if not url.startswith("sqlite:///"):
        return True
    try:
        return Path(url.removeprefix("sqlite:///").partition("?")[0]).expanduser().is_file()
    except OSError:  # who opens it is told why
        return True


def named(db: str | None = None) -> str:
    """The store as a person may read it: a file, or the kind of a server (its address may hold a password)."""
    kind, _, rest = url_of(db).partition(":///")
    return rest.partition("?")[0] if kind == "sqlite" and rest else kind.partition(":")[0]


def utc(now: datetime | None = None) -> str:
    """A moment (default: this one) as the store writes it."""
    moment = (now or datetime.now(UTC)).astimezone(UTC)
    return moment.isoformat(timespec="seconds").replace("+00:00", "Z")


def moment(text: str | None) -> datetime | None:
    """The other way round; None for what is no time. A time without a zone is UTC."""
    try:
        found = datetime.fromisoformat(text) if text else None
    except ValueError:
        return None
    return found.replace(tzinfo=UTC) if found is not None and found.tzinfo is None else found
