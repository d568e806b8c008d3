"""One input file: bytes, text lines and the first look at it, whatever it is packed or encoded in.

Reads .gz and .zst by content, UTF-8, UTF-16 with a mark, and GBK; drops NUL bytes; splits at \\n, \\r\\n and a lone \\r
(progress bars); never holds more than one line of bounded length.
"""

from __future__ import annotations

import gzip
import io
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from playbook.errors import PlaybookError

HEAD = 64 * 1024  # bytes that `sniff` sees
MAX_LINE = 1 << 20  # characters of one line that are kept


@dataclass(frozen=True)
class Source:
    """A file that exists and can be opened; `name` is how messages call it (`-` is standard input)."""

    path: Path
    name: str

    def open(self) -> BinaryIO:
        """The decompressed bytes."""
        raw = self.path.open("rb")
        magic = raw.read(4)
        raw.seek(0)
        if magic[:2] == b"\x1f\x8b":
            return gzip.GzipFile(fileobj=raw)  # type: ignore[return-value]
        if magic == b"\x28\xb5\x2f\xfd":
            import zstandard

            return io.BufferedReader(zstandard.ZstdDecompressor().stream_reader(raw, read_across_frames=True))
        return raw

    def head(self, size: int = HEAD) -> bytes:
        try:
            with self.open() as stream:
                return stream.read(size)
        except (OSError, EOFError) as error:
            raise PlaybookError(self.name, f"cannot be read: {error}", "check the file and its permissions") from None

    def lines(self) -> Iterator[tuple[int, str]]:
        """(line number from 1, text without the line end); undecodable bytes become U+FFFD."""
        with self.open() as stream:
            number = 0
            for raw in stream:
                number += 1
                text = raw.replace(b"\0", b"").decode("utf-8", "replace")[:MAX_LINE]
                for part in text.rstrip("\r\n").split("\r"):
                    yield number, part
