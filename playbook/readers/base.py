"""What every reader of a format is made of: the source it reads from and the builder it fills.

A reader is a module with four names: `NAME`, `TITLE`, `sniff(head, path)` and `read(source, builder)`; no class, no state.
`sniff` judges by content and gets at most the first 64 KiB, already decompressed. A reader steps over what is damaged
and says so with `builder.problem`; it raises `PlaybookError` only where nothing in the file can be used.
"""

from __future__ import annotations

from pathlib import Path
from typing import Protocol


class Reader(Protocol):
    """The contract of a reader module."""

    NAME: str  # short id, `format` of the JSON
    TITLE: str  # for people

    def sniff(self, head: bytes, path: Path) -> int:
        """0 = not mine; 1..100 = how specific the match is (the highest one claims; a tie is an error of ours)."""

    def read(self, source: object, builder: object) -> None:
        """Fill `builder` (a `RunBuilder`) from `source` (a `Source`)."""
