"""A file that is followed: what was written since the last look is read once, and what it says so far is a builder.

Lines and TensorBoard records are taken piece by piece (`pieces`), by the very reader that `read` chooses; documents,
databases and packed files are read again when they change. A renamed file is finished and its successor goes on where
it ended; one that begins anew (the same first lines, or steps that start over) takes the place of what was said.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from typing import BinaryIO

from playbook import readers
from playbook.errors import PlaybookError, Problem
from playbook.readers import refuse, walk
from playbook.readers.base import Reader, RunBuilder
from playbook.readers.live.pieces import HELD, Records, Text
from playbook.readers.live.tap import Tap
from playbook.readers.source import HEAD, Source
from playbook.readers.stores import tfrecord

# Formats of one row a line, whose lines may be read in pieces.
LINES = frozenset((
    "csv", "jsonl", "megatron", "hf_print", "fairseq", "torchtitan", "litgpt", "olmo", "mm_text", "lightning_bar",
    "deepspeed", "nanogpt", "kernel_log", "nvidia_smi", "dcgm", "nccl_log", "fabric_manager", "text_log",
    "wrapped_log",
))  # fmt: skip
RECORDS = frozenset(("tensorboard",))

STILL = 3  # looks without a change after which an unfinished last line is taken as it stands
_FRESH = 256 << 10  # bytes of a new file that decide whether it goes on or begins anew
_DOCUMENT = 256 << 20  # bytes of a file that is read whole again and again
_PACKED = (b"\x1f\x8b", b"\x28\xb5\x2f\xfd", b"\xff\xfe", b"\xfe\xff")  # gzip, zstd and UTF-16 have no lines to cut at


@dataclass(frozen=True)
class Held(Source):
    """Bytes in memory, read as a file is."""

    data: bytes = b""

    def open(self) -> BinaryIO:
        return BytesIO(self.data)

    @property
    def size(self) -> int:
        return len(self.data)

    @contextmanager
    def as_plain_file(self, binary: bool = False) -> Iterator[Path]:
        """A temporary copy, for tools that open files."""
        handle, name = tempfile.mkstemp(prefix="playbook-")
        try:
            with os.fdopen(handle, "wb") as copy:
                copy.write(self.data if binary else self.data.replace(b"\0", b""))
            yield Path(name)
        finally:
            Path(name).unlink(missing_ok=True)


class Growing:
    """One file. `poll` takes what is new, `part` is what it says; `notes` collects what happened to it."""

    def __init__(
        self,
        found: walk.Found,
        rename: Mapping[str, str],
        step: str | None,
        limit: int,
        held: int = HELD,
        patterns: tuple[str, ...] = (),
    ) -> None:
        self.found, self.notes, self.behind = found, list[Problem](), False
        self.tap = Tap(found.path)
        self.turned_at = 0  # lines before the first one of the file as it is now
        self.anew = 0  # how often another run took the place of the one that was known
        self._rename, self._step, self._limit, self._held = rename, step, limit, held
        self._patterns = patterns
        self._told: set[str] = set()
        self._fresh: bytes | None = None  # the beginning of a successor, until it is known what it is
        self._looks = 0  # since the last change
        self._begin()

    def _begin(self, data: bytes = b"") -> None:
        self.reader: Reader | None = None
        self._text = Text(self._new, self._parse, self._limit, self._held)
        self._records: Records | None = None
        self._whole = False
        self._start = b""  # the first bytes, by which the reader is chosen
        self._part: RunBuilder | None = None
        self._dirty = False
        self.turned_at = 0
        self._add(data)

    def poll(self) -> bool:
        """Take what was written since the last look; True where there is something new to say."""
        self.behind = False
        try:
            fresh = self.tap.changed() if self._whole else self._take()
        except OSError as error:
            self._note(f"cannot be read: {error.strerror or error}", "check the file and its permissions", "unreadable")
            return False
        self._looks = 0 if fresh else self._looks + 1
        if self._looks == STILL and (self._part is None or self._text.unfinished):
            fresh = True
        self._dirty = self._dirty or fresh
        return fresh

    def settle(self) -> None:
        """Nothing more will come: take an unfinished last line as it stands, and tell what kept the file unread."""
        if self._part is None or self._text.unfinished or self._fresh:
            if self._fresh:
                fresh, self._fresh = self._fresh, None
                self._add(fresh)
            self._looks, self._dirty = STILL, True

    def _take(self) -> bool:
        took = self.tap.more()
        self.behind = took.behind
        if took.turn:
            self._turn(took.turn)
        if self._fresh is not None:
            self._fresh += took.data
            return self._decide(self._fresh)
        self._add(took.data)
        return bool(took.data or took.turn)

    def _add(self, data: bytes) -> None:
        self._start += data[: HEAD - len(self._start)]
        if self._records is not None:
            self._records.add(data)
        else:
            self._text.add(data)

    def _turn(self, what: str) -> None:
        """Another content is behind the name now."""
        lines = self.reader is not None and self.reader.NAME in LINES
        if self.reader is not None:
            self._note(what, "", "turned", always=True)
        if lines:
            self._text.end_line()
            self._update(False)  # the end of the old content
            self._fresh = b""
        else:
            self.anew += 1
            self._begin()

    def _decide(self, fresh: bytes) -> bool:
        """Does the successor go on where the old file ended, or is it a run from its beginning?"""
        whole = fresh[: fresh.rfind(b"\n") + 1]
        if whole.count(b"\n") < 2:
            return False
        anew = whole.split(b"\n", 2)[:2] == self._text.head().split(b"\n", 2)[:2]
        if not anew:
            first, known = self._text.first_step_of(whole), self._text.first_step
            if first is None and len(fresh) < _FRESH:
                return False
            anew = first is not None and known is not None and first <= known
        self._fresh = None
        if anew:
            self.anew += 1
            self._begin(fresh)
        else:
            self.turned_at = self._text.lines
            self._add(fresh)
        return True

    def part(self) -> tuple[walk.Found, RunBuilder, Reader] | None:
        """What the file says so far; None where it says nothing yet."""
        if self._dirty:
            self._dirty = False
            self._update(self._looks >= STILL)
        return None if self._part is None or self.reader is None else (self.found, self._part, self.reader)

    def _update(self, still: bool) -> None:
        try:
            if not self._whole:
                self._claim(still)
            if self._whole:
                self._read_whole()
            elif self._records is not None:
                self._part = self._records.builder()
            elif self.reader is not None:
                self._part = self._text.builder(still)
        except PlaybookError as error:
            if still or self._looks >= STILL:  # else it may have been caught between two writes
                self._note(error.problem.what, error.problem.hint, "unusable", error.problem.line)
        except OSError as error:
            self._note(f"cannot be read: {error.strerror or error}", "check the file and its permissions", "unreadable")
        except Exception as error:  # a reader that a line was too much for must not end the watch
            self._note(f"the reader failed: {type(error).__name__}: {error}", "report it with the file", "reader")

    def _claim(self, still: bool) -> None:
        """Choose the reader by the first 64 KiB, as `read` does. Once they are full the choice stays."""
        if self.reader is not None and (self.tap.offset > 2 * HEAD or self._text.history.tracks):
            return
        start = self._start
        if start[:2] in _PACKED or start[:4] in _PACKED:
            self._whole = True
            return
        one_line = b"\n" in start or b"\r" in start or len(start) >= HEAD
        if not (one_line or still or start[:1] in (b"{", b"[") or tfrecord.is_frame(start)):
            return  # not even one line
        source = Held(self.found.path, self.found.name, data=start)
        head = source.head()
        refuse.unusable(source, head)
        self.reader = readers.claim(head, source.inner)
        if self.reader is None:
            raise refuse.unknown(source, head)
        if self.reader.NAME in RECORDS and self._records is None:
            self._records = Records(self._new, self._parse, self._limit)
            self._restart()
        elif self.reader.NAME not in LINES | RECORDS:
            self._whole = True

    def _restart(self) -> None:
        """Take the file from its first byte again, as what it is known to be now."""
        self.tap.restart()
        self._start = b""
        self._text = Text(self._new, self._parse, self._limit, self._held)
        self._take()

    def _read_whole(self) -> None:
        """Read a document, a database or a packed file again."""
        size = self.found.path.stat().st_size
        if size > _DOCUMENT:
            what = f"more than {_DOCUMENT >> 20} MB of a format that has to be read whole"
            raise PlaybookError(self.found.name, what, "follow a CSV, JSON lines or a log instead")
        self.reader, self._part = readers.read_one(self.found, self._rename, self._step, None, self._patterns)
        self._text = Text(self._new, self._parse, self._limit, self._held)
        if self.reader.NAME in LINES and size <= 2 * HEAD and self._start[:2] not in _PACKED:
            self._whole = False  # it looked like a document while it had one line
            self._restart()

    def _new(self) -> RunBuilder:
        name = self.reader.NAME if self.reader is not None else "unknown"
        return RunBuilder(self.found.name, name, self.found.rank, self._rename, self._step, self._patterns)

    def _parse(self, data: bytes) -> RunBuilder:
        assert self.reader is not None
        builder = self._new()
        self.reader.read(Held(self.found.path, self.found.name, data=data), builder)
        return builder

    def _note(self, what: str, hint: str, code: str, line: int | None = None, always: bool = False) -> None:
        if always or what not in self._told:
            self._told.add(what)
            self.notes.append(Problem(self.found.name, line, what, hint, code))

    def recent(self) -> int:
        """The first line from which on every row is known as it was logged."""
        return self._text.recent()
