"""Every path the product knows: the book, the site's templates, the store. Works from a checkout and from a wheel.

`PLAYBOOK_HOME` moves what is written (store, artifacts, quiz progress); `PLAYBOOK_KNOWLEDGE` adds knowledge packs.
"""

from __future__ import annotations

import os
from pathlib import Path

_PACKAGE = Path(__file__).resolve().parent


def _data(name: str) -> Path:
    packaged = _PACKAGE / "_data" / name
    return packaged if packaged.is_dir() else _PACKAGE.parent / name


def knowledge() -> Path:
    """The built-in book."""
    return _data("knowledge")


def site_source() -> Path:
    """Templates and assets of the static site."""
    return _data("site")


def packs() -> list[Path]:
    """Further knowledge packs named by `PLAYBOOK_KNOWLEDGE` (separated like PATH)."""
    return [Path(part) for part in os.environ.get("PLAYBOOK_KNOWLEDGE", "").split(os.pathsep) if part]


def home() -> Path:
    """The folder for everything that we write: `PLAYBOOK_HOME`, else the user's data folder."""
    if named := os.environ.get("PLAYBOOK_HOME"):
        return Path(named)
    import platformdirs

    return Path(platformdirs.user_data_dir("playbook", appauthor=False))


def store_url() -> str:
    """The database of incidents unless `--db` names another: `PLAYBOOK_DB`, else SQLite in `home()`."""
    return os.environ.get("PLAYBOOK_DB") or f"sqlite:///{home() / 'playbook.db'}"
