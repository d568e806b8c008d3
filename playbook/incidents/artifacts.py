"""Files kept with incidents, by the SHA-256 of their bytes: `sha256/ab/cdef...` under one folder.

Written to a temporary file, flushed to the disk, then renamed: a file under its hash is whole or not there. The same
bytes are kept once. Reading verifies the hash. A kill in between leaves a file in `tmp/`, swept away a day later.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Iterator
from contextlib import suppress
from itertools import count
from pathlib import Path

from playbook.errors import PlaybookError

_HASH = re.compile(r"^[0-9a-f]{64}$")
STALE_SECONDS = 86_400.0


def digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def path_of(folder: Path, sha256: str) -> Path:
    """Where the bytes of a hash lie. Raises `PlaybookError` for what is no hash (a path must not get in here)."""
    if not _HASH.match(sha256):
        raise PlaybookError(sha256[:80], "is no SHA-256", "64 hexadecimal digits")
    return folder / "sha256" / sha256[:2] / sha256[2:]


def put(folder: Path, data: bytes) -> str:
    """Keep `data`; returns its hash. Raises `PlaybookError` where the folder cannot be written or the disk is full."""
    sha256 = digest(data)
    target = path_of(folder, sha256)
    if _is_whole(target, data):
        return sha256
    temporary: Path | None = None
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        (folder / "tmp").mkdir(exist_ok=True)
        handle, temporary = _temporary(folder / "tmp", sha256)
        with os.fdopen(handle, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(target)
        temporary = None
        _sync_folder(target.parent)
    except OSError as error:
        raise PlaybookError(
            str(folder), f"an artifact cannot be written: {error.strerror or error}", "make room, or move PLAYBOOK_HOME"
        ) from None
    finally:
        if temporary is not None:
            with suppress(OSError):
                temporary.unlink()
    return sha256


def _temporary(folder: Path, sha256: str) -> tuple[int, Path]:
    """A new file with the rights that the user's mask gives: a team reads what one of them wrote."""
    for place in count():
        path = folder / f"{sha256[:16]}-{os.getpid()}-{place}"
        try:
            return os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o666), path
        except FileExistsError:
            continue
    raise AssertionError("count ended")


def _is_whole(target: Path, data: bytes) -> bool:
    """Whether these bytes lie there already (a damaged file is written anew)."""
    try:
        return target.stat().st_size == len(data) and target.read_bytes() == data
    except OSError:
        return False


def _sync_folder(folder: Path) -> None:
    """Make the new name durable; some file systems cannot, and lose no more than the name by it."""
    with suppress(OSError):
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def get(folder: Path, sha256: str, name: str = "artifact") -> bytes:
    """The bytes of a hash, verified. Raises `PlaybookError` where they are missing or damaged."""
    target = path_of(folder, sha256)
    try:
        data = target.read_bytes()
    except FileNotFoundError:
        raise PlaybookError(
            name,
            f"is not in the artifact folder ({sha256[:12]})",
            "set PLAYBOOK_ARTIFACTS to where the team keeps them",
        ) from None
    except OSError as error:
        raise PlaybookError(name, f"cannot be read: {error.strerror}", str(target)) from None
    if digest(data) != sha256:
        raise PlaybookError(name, f"is damaged: its bytes are not those of {sha256[:12]}", f"restore {target}")
    return data


def has(folder: Path, sha256: str) -> bool:
    return path_of(folder, sha256).is_file()


def every(folder: Path) -> Iterator[tuple[str, Path]]:
    """(hash, file) of everything that is kept."""
    root = folder / "sha256"
    for part in sorted(root.iterdir()) if root.is_dir() else []:
        for file in sorted(part.iterdir()) if part.is_dir() else []:
            yield part.name + file.name, file


def sweep(folder: Path, now: float) -> int:
    """Remove what killed writers left in `tmp/` more than a day ago (`now`: seconds since the epoch)."""
    removed = 0
    root = folder / "tmp"
    for file in root.iterdir() if root.is_dir() else []:
        with suppress(OSError):
            if now - file.stat().st_mtime > STALE_SECONDS:
                file.unlink()
                removed += 1
    return removed
