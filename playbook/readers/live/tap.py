"""The bytes behind a name, in order and each once, whatever becomes of the file: it grows, is renamed, cut, rewritten.

A renamed file is read to its end under its new name (same folder, same inode) before the new one is begun. That the
bytes before the place where we go on are still the same is checked each time.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

GULP = 16 << 20  # bytes taken at once
_PROOF = 64  # bytes before the place where we go on


@dataclass(frozen=True, slots=True)
class Took:
    """`turn` says what happened to the file, "" for nothing; `data` then begins the new content."""

    data: bytes = b""
    turn: str = ""
    behind: bool = False  # there is more than was taken


@dataclass(frozen=True, slots=True)
class Position:
    """How far a file was read: which file it was, up to where, and the bytes before that place."""

    device: int
    inode: int
    offset: int
    proof: bytes

    @property
    def identity(self) -> tuple[int, int]:
        return self.device, self.inode

    def holds(self, path: Path) -> bool:
        """Whether a file is this one and still begins with what was read of it."""
        try:
            status = path.stat()
            if (status.st_dev, status.st_ino) != self.identity or status.st_size < self.offset:
                return False
            with path.open("rb") as file:
                file.seek(self.offset - len(self.proof))
                return file.read(len(self.proof)) == self.proof
        except OSError:
            return False


class Tap:
    """One name that is read. Faults of the file system are raised as `OSError`, except that the file is not there."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.offset = 0
        self.identity: tuple[int, int] | None = None  # device and inode
        self.retired: set[tuple[int, int]] = set()  # files that had the name before
        self._stamp: tuple[int, int] | None = None  # size and time of the last change
        self._proof = b""

    def position(self) -> Position | None:
        """Where we are; None before anything was read."""
        return None if self.identity is None else Position(*self.identity, self.offset, self._proof)

    def begin_with(self, old: Position) -> bool:
        """Read first what had our name before and lies beside us now; False where it is not found."""
        try:
            with os.scandir(self.path.parent) as entries:
                there = any(e.inode() == old.inode and old.holds(Path(e.path)) for e in entries)
        except OSError:
            return False
        if there:
            self.identity = old.identity
        return there

    def changed(self) -> bool:
        """Whether size, time or identity are others than at the last call; nothing is read."""
        try:
            status = self.path.stat()
        except OSError:
            return False
        now = (status.st_size, status.st_mtime_ns)
        identity = (status.st_dev, status.st_ino)
        if (now, identity) == (self._stamp, self.identity):
            return False
        self._stamp, self.identity = now, identity
        return True

    def restart(self) -> None:
        """Begin at the first byte again."""
        self.offset, self._proof, self._stamp, self.identity = 0, b"", None, None

    def more(self) -> Took:
        """The next bytes."""
        try:
            status = self.path.stat()
        except FileNotFoundError:
            return Took()  # between two names, or gone for good
        identity = (status.st_dev, status.st_ino)
        if self.identity is not None and identity != self.identity:
            if rest := self._rest_of_old():
                return Took(rest, behind=True)
            turn = "was replaced by a new file"
            self.retired.add(self.identity)
        elif status.st_size < self.offset:
            turn = "was cut to fewer bytes"
        else:
            self.identity = identity
            if (status.st_size, status.st_mtime_ns) == self._stamp and self.offset == status.st_size:
                return Took()
            data = self._read(self.path, self.offset)
            if data is not None:
                self._stamp = (status.st_size, status.st_mtime_ns)
                return Took(data, behind=self.offset < status.st_size)
            turn = "was written anew"
        self.restart()
        self.identity = identity
        return Took(self._read(self.path, 0) or b"", turn, self.offset < status.st_size)

    def _read(self, path: Path, offset: int) -> bytes | None:
        """Up to `GULP` bytes from an offset; None where what lies before them is not what was read."""
        with path.open("rb") as file:
            file.seek(offset - len(self._proof))
            if file.read(len(self._proof)) != self._proof:
                return None
            data = file.read(GULP)
        self.offset = offset + len(data)
        self._proof = (self._proof + data)[-_PROOF:]
        return data

    def _rest_of_old(self) -> bytes:
        """What was still written to the file that had our name; b"" where it is not found or has no more."""
        assert self.identity is not None
        try:
            with os.scandir(self.path.parent) as entries:
                old = next((Path(e.path) for e in entries if e.inode() == self.identity[1]), None)
            return b"" if old is None else self._read(old, self.offset) or b""
        except OSError:
            return b""
