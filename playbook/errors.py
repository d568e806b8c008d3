"""The one exception of the product, and problems as plain data.

A fault of an input that we can step over is a `Problem`; a fault that stops the work is a `PlaybookError`.
Both say where it is, what it is and what to do about it. Only `faces/cli.py` turns an error into text and exit code 2.
"""

from __future__ import annotations

import stat
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Problem:
    """Something wrong in a file that did not stop the work. `line` counts from 1; None where it has no line."""

    where: str
    line: int | None
    what: str
    hint: str = ""
    code: str = ""

    def __str__(self) -> str:
        place = f"{self.where}:{self.line}" if self.line is not None else self.where
        code = f" [{self.code}]" if self.code else ""
        hint = f" ({self.hint})" if self.hint else ""
        return f"{place}: {self.what}{code}{hint}"


def reason(error: Exception) -> str:
    """Why a file could not be read, without the words of the interpreter (`[Errno 21]`, `codec can't decode byte`)."""
    if isinstance(error, OSError):
        return (error.strerror or str(error)).lower()
    if isinstance(error, UnicodeDecodeError):
        return f"it is no UTF-8 text (byte {error.start + 1})"
    return str(error)


def only_file(path: Path) -> Path:
    """The path, unless a read or a write could wait there for ever: raises `OSError` for a pipe, a socket, a device."""
    mode = path.stat().st_mode if path.exists() else stat.S_IFREG
    if not (stat.S_ISREG(mode) or stat.S_ISDIR(mode)):  # a folder says by itself that it is one
        raise OSError(None, "it is a device, a pipe or a socket, not a file")
    return path


class PlaybookError(Exception):
    """We cannot go on. One line: where, what, how to mend it."""

    def __init__(self, where: str, what: str, hint: str = "", line: int | None = None) -> None:
        self.problem = Problem(where, line, what, hint)
        super().__init__(str(self.problem))
