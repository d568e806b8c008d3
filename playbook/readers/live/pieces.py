"""A text or a record file that grows, parsed piece by piece with bounded memory.

`Text` holds the head of the file and its last rows, gives both to the reader, and seals older rows into a `History`.
Rows that were met in two pieces show by how much a reader that counts (epochs, prints) is off in the later one. While
nothing is sealed the builder is the reader's own. `Records` decodes every record of a TensorBoard file once.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import replace

import numpy as np

from playbook.errors import PlaybookError
from playbook.readers.base import RunBuilder
from playbook.readers.live.history import History, logged
from playbook.readers.source import HEAD
from playbook.readers.stores import tfrecord

HELD = 2 << 20  # bytes of text that are held and parsed again when more comes
_OVERLAP = 8  # the part of them that stays unsealed, and again the part before it that stays to be compared with
_RECORD = 200  # lines over which one row may be spread by what other threads write between
_KNOWN = 4096  # last rows of a series among which those of both pieces are sought

Parse = Callable[[bytes], RunBuilder]  # raises PlaybookError where nothing can be used


class Text:
    """Rows of one line each. `new` makes an empty builder of the file, `parse` reads bytes into one."""

    def __init__(self, new: Callable[[], RunBuilder], parse: Parse, limit: int, held: int = HELD) -> None:
        self._new, self._parse, self._held = new, parse, held
        self.history = History(limit)
        self.first_step: int | None = None
        self._head: bytes | None = None  # whole lines of the beginning, once rows are sealed
        self._tail = b""  # everything behind the first `_base` lines
        self._base = 0
        self._sealed = 0  # lines that the history covers

    def add(self, data: bytes) -> None:
        self._tail += data

    def end_line(self) -> None:
        """No more will come of the unfinished last line."""
        self._tail = self._tail[: self._tail.rfind(b"\n") + 1]

    @property
    def unfinished(self) -> bool:
        return self._end() < len(self._tail)

    @property
    def lines(self) -> int:
        """Whole lines that were taken so far."""
        return self._base + self._tail.count(b"\n")

    def head(self) -> bytes:
        """The whole lines among the first bytes of the file."""
        head = self._tail[:HEAD] if self._head is None else self._head
        return head[: head.rfind(b"\n") + 1]

    def builder(self, still: bool) -> RunBuilder:
        """What the file says. An unfinished last line counts only where the file stands `still`."""
        whole = self._tail[: self._end()]
        if still and self.unfinished:
            whole = self._tail
        if not self._base and not self.history.tracks and len(whole) <= self._held:
            builder = self._parse(whole)
        else:
            builder = self._pieced(whole)
        if self.first_step is None:
            self.first_step = first_step(builder)
        return builder

    def first_step_of(self, data: bytes) -> int | None:
        """The first step in further lines of the file, None where they have none."""
        head = self.head()
        try:
            return first_step(self._parse(head + data), head.count(b"\n"))
        except PlaybookError:
            return None

    def recent(self) -> int:
        """The first line from which on every row is known as it was logged."""
        half = self.history.limit // 2
        thinned = [t.lines for t in self.history.tracks.values() if t.logged > len(t.steps) and t.lines is not None]
        return max((int(lines[-half]) for lines in thinned if len(lines) >= half), default=0)

    def _end(self) -> int:
        return max(self._tail.rfind(b"\n"), self._tail.rfind(b"\r")) + 1

    def _pieced(self, whole: bytes) -> RunBuilder:
        """The history and, behind it, the rows of the piece that is held."""
        if self._head is None:
            head = self._tail[: min(HEAD, self._held // 4)]
            self._head = head[: head.rfind(b"\n") + 1]
        lead = self._head.count(b"\n") if self._base else 0
        try:
            builder = self._parse(self._head + whole if self._base else whole)
        except PlaybookError:
            if not self.history.tracks:
                raise
            builder = self._new()
        if len(whole) > self._held:
            self._put(builder, lead, self.history, self._seal(whole))
        fresh = History(self.history.limit)
        self._put(builder, lead, fresh)
        self._cut(whole)
        made = self._new()
        self.history.into(made)
        fresh.into(made)
        return made

    def _put(self, builder: RunBuilder, lead: int, into: History, until: int | None = None) -> None:
        """The rows behind the sealed ones up to line `until`, which are sealed then if it is given.

        `lead` lines of the parse are those of the head.
        """
        shift = self._shift(builder, lead)
        found = logged(builder)
        last = until or sys.maxsize
        kept: list[np.ndarray] = []
        for key, (steps, values, lines) in found.items():
            if lines is None:
                continue
            places = self._places(lines, lead)
            new = (places > self._sealed) & (places <= last)
            kept.append(places[new])
            for own in self.history.owners(key, found):
                into.add(own, steps[new] + shift, values[new], places[new])
        events = []
        for event in builder.events:
            line = int(self._places(np.asarray(event.origin.line or 0), lead))
            if self._sealed < line <= last:
                step = None if event.step is None else event.step + shift
                events.append(replace(event, step=step, origin=replace(event.origin, line=line)))
        problems = [
            p if p.line is None else replace(p, line=int(self._places(np.asarray(p.line), lead)))
            for p in builder.problems
        ]
        into.tell(events, [p for p in problems if p.line is None or self._sealed < p.line <= last])
        into.config.update(builder.config)
        into.seen |= builder.seen
        # A log without a series: its lines are what was read.
        into.rows += _different(kept, self._sealed) if found else builder.rows if not self._base else 1
        if until is not None:
            self._sealed = until

    def _places(self, lines: np.ndarray, lead: int) -> np.ndarray:
        """Lines of a parse -> lines of the file."""
        return np.where(lines <= lead, lines, lines - lead + self._base)

    def _shift(self, builder: RunBuilder, lead: int) -> int:
        """What the steps of a parse lack against those of the history, by the rows that both know."""
        if not self._base:
            return 0
        found: list[int] = []
        for key, (steps, _, lines) in logged(builder).items():
            track = self.history.tracks.get(key)
            if lines is None or track is None or track.lines is None:
                continue
            mine = (lines > lead) & (self._places(lines, lead) <= self._sealed)
            _, here, there = np.intersect1d(self._places(lines[mine], lead), track.lines[-_KNOWN:], return_indices=True)
            found += (track.steps[-_KNOWN:][there] - steps[mine][here]).tolist()
        return int(np.median(found)) if found else 0

    def _seal(self, whole: bytes) -> int:
        """The line up to which rows are sealed: some lines before the end, for a record may have more than one line."""
        return self._base + whole.count(b"\n", 0, len(whole) - self._held // _OVERLAP)

    def _cut(self, whole: bytes) -> None:
        """Keep some lines before the last one that is sealed, with a row among them where one is near."""
        if len(whole) <= self._held:
            return
        at = len(whole) - 2 * (self._held // _OVERLAP)
        at = whole.find(b"\n", at) + 1 or whole.rfind(b"\r") + 1 or len(whole)
        passed = whole.count(b"\n", 0, at)
        last = max((int(t.lines[-1]) for t in self.history.tracks.values() if t.lines is not None), default=0)
        last -= _RECORD
        if self._base < last <= self._base + passed:
            row = at
            for _ in range(self._base + passed - last + 1):
                row = whole.rfind(b"\n", 0, row - 1) + 1
            if len(whole) - row <= self._held * 3 // 4:
                at, passed = row, last - self._base - 1
        self._base += passed
        self._tail = self._tail[at:]


def _different(lines: list[np.ndarray], behind: int) -> int:
    """How many different lines there are, all of them behind a line."""
    last = max((int(part.max()) for part in lines if len(part)), default=behind)
    met = np.zeros(last - behind + 1, bool)
    for part in lines:
        met[part[part <= last] - behind] = True
    return int(met.sum())


class Records:
    """TensorBoard records: independent of each other, decoded when they are complete."""

    def __init__(self, new: Callable[[], RunBuilder], parse: Parse, limit: int) -> None:
        self._new, self._parse = new, parse
        self.history = History(limit)
        self._tail = b""
        self._fault: PlaybookError | None = None

    def add(self, data: bytes) -> None:
        self._tail += data

    def builder(self) -> RunBuilder:
        """All records so far; raises `PlaybookError` while none of them is a scalar."""
        starts, sizes, _ = tfrecord.frames(self._tail)
        if len(starts):
            end = int(starts[-1] + sizes[-1]) + 4
            complete, self._tail = self._tail[:end], self._tail[end:]
            try:
                builder = self._parse(complete)
            except PlaybookError as error:
                self._fault = error  # graphs and images only, so far
            else:
                for key, (steps, values, _) in logged(builder).items():
                    self.history.add(key, steps, values, None)
                self.history.tell([], builder.problems)
                self.history.seen |= builder.seen
                self.history.rows += builder.rows
        elif len(self._tail) >= tfrecord.FRAME and not tfrecord.is_frame(self._tail):
            raise PlaybookError(self._new().path, "is damaged; no further record can be read", "fetch it again")
        if not self.history.tracks:
            raise self._fault or PlaybookError(
                self._new().path, "the event file holds no record yet", "check that the job has logged something"
            )
        made = self._new()
        self.history.into(made)
        return made


def first_step(builder: RunBuilder, behind: int = 0) -> int | None:
    """The first step that was logged, or that of the first row behind a line."""
    firsts: list[int] = []
    for steps, _, lines in logged(builder).values():
        at = 0 if not behind or lines is None else int(np.searchsorted(lines, behind, "right"))
        if at < len(steps):
            firsts.append(int(steps[at]))
    return min(firsts, default=None)
