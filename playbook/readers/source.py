"""One input file: bytes, text lines and the first look at it, whatever it is packed or encoded in.

Reads .gz and .zst by content, UTF-8 (with a mark or without), UTF-16 with a mark, and GBK line by line; drops NUL
bytes; splits at \\n, \\r\\n and a lone \\r (progress bars); never holds more than one line of bounded length; stops at
a file that unpacks to a multiple of its size that no log has (a decompression bomb).
"""

from __future__ import annotations

import codecs
import gzip
import io
import os
import shutil
import stat
import tempfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO

from playbook.errors import PlaybookError

HEAD = 64 * 1024  # bytes that `sniff` sees
_HEAD_LINES = 3  # a header and two rows: of a table of thousands of columns as many bytes are looked at as these take
MAX_LINE = 1 << 20  # characters of one line that are kept
_WIDE = 3 * MAX_LINE  # bytes in which those lines must end
MAX_DOCUMENT = 512 << 20  # bytes of one JSON or YAML document that are read whole
_CHUNK = 1 << 20
_HOLE = 1 << 30  # bytes of a NUL hole at the head that are skipped in search of text (a sparse hole costs no disk)
_BOMB_BYTES = 256 << 20  # below this much unpacked data nobody is harmed ...
_BOMB_RATIO = 200  # ... and logs pack by 10 to 60, a bomb by 1000 and more
_TRIAL = 8 << 20  # bytes unpacked to see how a file shrank
_SUSPECT = 50
_UTF16 = {codecs.BOM_UTF16_LE: "utf-16-le", codecs.BOM_UTF16_BE: "utf-16-be"}


class _Guarded(io.RawIOBase):
    """A decompressed stream: damage ends it (and is noted), a bomb raises `PlaybookError`."""

    def __init__(self, inner: BinaryIO, packed: BinaryIO, source: Source) -> None:
        self._inner, self._packed, self._source, self._seen = inner, packed, source, 0
        self._limit = max(_BOMB_BYTES, _BOMB_RATIO * os.fstat(packed.fileno()).st_size)

    def readable(self) -> bool:
        return True

    def shrank(self, unpacked: int) -> bool:
        """Whether so many bytes came out of hardly any packed ones (a decoder reads some ahead)."""
        return unpacked >= _TRIAL and self._packed.tell() * _SUSPECT < unpacked

    def readinto(self, buffer: Any) -> int:
        try:
            data = self._inner.read1(len(buffer))  # type: ignore[attr-defined]
        except (OSError, EOFError, zlib.error, ValueError) as error:
            return self._damaged(error)
        except Exception as error:  # zstandard has its own exception class, and is not imported here
            if type(error).__name__ != "ZstdError":
                raise
            return self._damaged(error)
        self._seen += len(data)
        if self._seen > self._limit:
            raise PlaybookError(
                self._source.name,
                f"unpacks to more than {_BOMB_RATIO} times its size",
                "unpack it yourself and look at it first",
            )
        buffer[: len(data)] = data
        return len(data)

    def _damaged(self, error: Exception) -> int:
        note = f"the packed data is cut or damaged ({str(error).rstrip('.') or type(error).__name__})"
        if note not in self._source.damage:
            self._source.damage.append(note)
        return 0

    def close(self) -> None:
        if not self.closed:
            self._packed.close()
        super().close()


@dataclass(frozen=True)
class Source:
    """A file that exists and can be opened; `name` is how messages call it (`-` is standard input)."""

    path: Path
    name: str
    damage: list[str] = field(default_factory=list, compare=False)  # filled while reading a packed file
    nuls: list[int] = field(default_factory=list, compare=False)  # of each piece that was read and has some
    _heads: dict[int, bytes] = field(default_factory=dict, compare=False, repr=False)  # looked at once

    def open(self) -> BinaryIO:
        """The decompressed bytes; they end where a packed file is damaged, and `damage` says so."""
        try:
            raw = _open_regular(self.path)
        except OSError as error:
            raise PlaybookError(
                self.name, f"cannot be read: {error.strerror or error}", "check the file and its permissions"
            ) from None
        magic = raw.read(4)
        raw.seek(0)
        inner: BinaryIO
        if magic[:2] == b"\x1f\x8b":
            inner = gzip.GzipFile(fileobj=raw)  # type: ignore[assignment]
        elif magic == b"\x28\xb5\x2f\xfd":
            import zstandard

            inner = zstandard.ZstdDecompressor().stream_reader(raw, read_across_frames=True)
        else:
            return raw
        return io.BufferedReader(_Guarded(inner, raw, self), _CHUNK)

    @property
    def inner(self) -> Path:
        """The path without `.gz` or `.zst`: what the content is called."""
        return self.path.with_suffix("") if self.path.suffix.lower() in (".gz", ".zst") else self.path

    def refuse_bomb(self) -> None:
        """Raise `PlaybookError` where a packed file that shrank beyond belief unpacks to more than is sane.

        Only such files are unpacked once for this: parsing would take minutes until the limit is met.
        """
        with self.open() as stream:
            inner = getattr(stream, "raw", None)
            if isinstance(inner, _Guarded) and inner.shrank(len(stream.read(_TRIAL))):
                while stream.read(_CHUNK):
                    pass

    @property
    def size(self) -> int:
        """Bytes on disk (packed)."""
        return self.path.stat().st_size

    def head(self, size: int = HEAD) -> bytes:
        """The first bytes as a reader should see them: unpacked, UTF-8, without mark and without a NUL hole before."""
        if size not in self._heads:
            self._heads[size] = self._head(size)
        return self._heads[size]

    def _head(self, size: int) -> bytes:
        with self.open() as stream:
            data = _some(stream, size)
            skipped = len(data)
            while data and not data.strip(b"\0") and skipped < _HOLE:
                data = _some(stream, _CHUNK)
                skipped += len(data)
            more = b""
            if len(data) >= size and data.count(b"\n") < _HEAD_LINES and data[:2] not in _UTF16:
                more = _some(stream, max(0, _WIDE - len(data)))
        if not data and skipped:
            return b"\0"  # nothing but a hole
        if data[:64] == b"\0" * 64:
            data = data.lstrip(b"\0")
        if (code := _UTF16.get(data[:2])) is not None:
            return data[2 : len(data) - len(data) % 2].decode(code, "replace").encode()[:size]
        data = data.removeprefix(codecs.BOM_UTF8)
        return _whole_lines(data, more) or data[:size]

    def lines(self) -> Iterator[tuple[int, str]]:
        """(line number from 1, text without the line end); undecodable bytes become U+FFFD."""
        for number, text, _ in self.marked_lines():
            yield number, text

    def marked_lines(self, limit: int = MAX_LINE) -> Iterator[tuple[int, str, bool]]:
        """As `lines`, and whether the line has its end: False only for a last line without one (perhaps cut)."""
        for number, raw, whole in self.raw_lines(limit):
            text = decode(raw)
            if "\r" in text:
                yield from _parts(number, text, whole)
            else:
                yield number, text, whole

    def raw_lines(self, limit: int = MAX_LINE) -> Iterator[tuple[int, bytes, bool]]:
        """(line number, bytes without NUL and line end, whole) in UTF-8 or GBK; a line beyond `limit` is cut."""
        number, tail, cut = 0, b"", False
        for chunk in self.chunks():
            if b"\n" not in chunk:
                if len(tail) < limit:
                    tail += chunk
                elif (end := tail.rfind(b"\r")) > 0:  # an endless line of a progress bar is many short ones
                    yield number + 1, _clean(tail[:end], limit), True
                    tail = tail[end + 1 :] + chunk
                else:
                    cut = True
                continue
            pieces = chunk.split(b"\n")
            pieces[0] = tail[:limit] if cut else tail + pieces[0]
            cut = False
            for piece in pieces[:-1]:
                number += 1
                yield number, _clean(piece, limit), True
            tail = pieces[-1]
        if tail:
            yield number + 1, _clean(tail, limit), False

    def chunks(self) -> Iterator[bytes]:
        """The decompressed bytes piece by piece, UTF-16 turned into UTF-8, without mark. Ends silently at damage.

        `nuls` counts those that are NUL, anew each time.
        """
        self.nuls.clear()
        for data in self._chunks():
            if b"\0" in data:
                self.nuls.append(data.count(b"\0"))
            yield data

    def _chunks(self) -> Iterator[bytes]:
        with self.open() as stream:
            decoder: codecs.IncrementalDecoder | None = None
            first = True
            while True:
                try:
                    data = stream.read(_CHUNK)
                except OSError as error:
                    raise PlaybookError(self.name, f"cannot be read: {error}", "check the disk and the file") from None
                if first:
                    first = False
                    if (code := _UTF16.get(data[:2])) is not None:
                        decoder, data = codecs.getincrementaldecoder(code)("replace"), data[2:]
                    data = data.removeprefix(codecs.BOM_UTF8)
                if decoder is not None:
                    yield decoder.decode(data, not data).encode()
                elif data:
                    yield data
                if not data and not first:
                    return

    def line_count(self) -> int:
        """Lines of the text, a last one without an end included."""
        import numpy as np  # three times as fast as bytes.count, which a gigabyte of metrics notices

        count, last = 0, b"\n"
        for chunk in self.chunks():
            count += int(np.count_nonzero(np.frombuffer(chunk, np.uint8) == 10))
            last = chunk[-1:]
        return count + (last != b"\n")

    def document(self) -> str:
        """The whole text of a JSON or YAML document; raises `PlaybookError` beyond `MAX_DOCUMENT`."""
        parts: list[bytes] = []
        total = 0
        for chunk in self.chunks():
            total += len(chunk)
            if total > MAX_DOCUMENT:
                raise PlaybookError(
                    self.name, f"one document of more than {MAX_DOCUMENT >> 20} MB", "write one record a line (.jsonl)"
                )
            parts.append(chunk)
        return decode(b"".join(parts).replace(b"\0", b""))

    @contextmanager
    def as_plain_file(self, binary: bool = False) -> Iterator[Path]:
        """A path to the same content unpacked (a text in UTF-8, without mark and NUL), for tools that open files."""
        with self.open() as stream:
            packed = isinstance(getattr(stream, "raw", None), _Guarded)
            start = b"" if packed else stream.read(4)
        odd = start[:2] in _UTF16 or start[:1] == b"\0" or start[:3] == codecs.BOM_UTF8
        if not packed and (binary or not odd):
            yield self.path
            return
        handle, name = tempfile.mkstemp(prefix="playbook-")
        try:
            with os.fdopen(handle, "wb") as copy:
                if binary:
                    with self.open() as stream:
                        shutil.copyfileobj(stream, copy, _CHUNK)
                else:
                    for chunk in self.chunks():
                        copy.write(chunk.replace(b"\0", b""))
            yield Path(name)
        finally:
            Path(name).unlink(missing_ok=True)


def marked(number: int, raw: bytes, whole: bool) -> Iterator[tuple[int, str, bool]]:
    """What `Source.marked_lines` makes of one line: that of a progress bar is several."""
    return _parts(number, decode(_clean(raw)), whole)


def _parts(number: int, text: str, whole: bool) -> Iterator[tuple[int, str, bool]]:
    parts = text.split("\r")
    for part in parts[:-1]:
        if part:
            yield number, part, True
    if parts[-1] or len(parts) == 1:
        yield number, parts[-1], whole


def decode(raw: bytes) -> str:
    """UTF-8, else GBK where the whole line is good GBK, else UTF-8 with marks for what is broken."""
    try:
        return raw.decode("utf-8")
    except UnicodeDecodeError:
        with suppress(UnicodeDecodeError):
            return raw.decode("gbk")
        return raw.decode("utf-8", "replace")


def spool_stdin(stream: BinaryIO) -> Path:
    """Standard input copied to a temporary file; the caller removes it."""
    handle, name = tempfile.mkstemp(prefix="playbook-stdin-")
    with os.fdopen(handle, "wb") as copy:
        while chunk := stream.read(_CHUNK):
            copy.write(chunk)
    return Path(name)


def _open_regular(path: Path) -> BinaryIO:
    """Open without waiting for a FIFO's writer, and only a regular file."""
    descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0))
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise OSError(None, "not a regular file")
    return os.fdopen(descriptor, "rb")


def _whole_lines(head: bytes, more: bytes) -> bytes:
    """`head` and so much of what follows as its `_HEAD_LINES`th line takes; nothing where it does not end there."""
    longer, end = head + more, 0
    for _ in range(_HEAD_LINES if more else 0):
        end = longer.find(b"\n", end) + 1
        if not end:
            return b""
    return longer[:end]


def _some(stream: BinaryIO, size: int) -> bytes:
    """Up to `size` bytes, fewer at the end of the file or where a packed file is damaged."""
    parts: list[bytes] = []
    with suppress(OSError):
        while size > 0 and (data := stream.read(min(size, 8192))):
            parts.append(data)
            size -= len(data)
    return b"".join(parts)


def _clean(piece: bytes, limit: int = MAX_LINE) -> bytes:
    if b"\0" in piece:
        piece = piece.replace(b"\0", b"")
    if len(piece) > limit and b"\r" not in piece:
        piece = piece[:limit]
    return piece.rstrip(b"\r")
