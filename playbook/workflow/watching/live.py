"""The files of a run as they grow: found, followed and put together, with memory that does not grow with them.

`Follower(paths).poll()` takes what was written since the last call; `run()` is what all files say now, as
`readers.read` would put it. New files of a folder (further ranks) join, a path that is not there yet is waited for.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from playbook.errors import PlaybookError, Problem
from playbook.readers import merge, walk
from playbook.readers.live.follow import Growing
from playbook.readers.live.history import LEAST, LIMIT, POINTS
from playbook.readers.live.pieces import HELD
from playbook.readers.live.tap import Position
from playbook.series import Run

BYTES = 32 << 20  # of text that is held, of all files together
_LEAST_HELD = 64 << 10  # bytes of one file
_METRICS = 16  # series of a file, for sharing the memory out
_MANY = 200  # files; folders with more are searched for new ones at every tenth poll only


class Follower:
    """`paths` are files, folders and globs; `rename` and `patterns` as in `readers.read`."""

    def __init__(
        self,
        paths: Sequence[str],
        rename: Mapping[str, str] | None = None,
        held: int = HELD,
        patterns: tuple[str, ...] = (),
    ) -> None:
        rename = rename or {}
        self.paths = tuple(paths)
        self.waiting: dict[str, PlaybookError] = {}  # path -> why nothing is read there yet
        self.behind = False  # more was written than one poll takes
        self._rename = {raw: metric for raw, metric in rename.items() if metric != "step"}
        self._step = next((raw for raw, metric in rename.items() if metric == "step"), None)
        self._held = held
        self._patterns = patterns
        self._files: dict[str, Growing] = {}
        self._polls = 0
        self.fates: dict[str, str] = {}  # file of an earlier watch -> its name now, "" where it is no longer there
        self._before: dict[str, Position] = {}
        self._anew: dict[str, int] = {}

    def poll(self) -> bool:
        """Take what is new; True where there is something to look at."""
        fresh = self._search()
        self.behind = False
        for growing in self._files.values():
            fresh = growing.poll() or fresh
            self.behind = self.behind or growing.behind
        return fresh

    def resume(self, before: Mapping[str, Position]) -> None:
        """Go on where an earlier watch ended; to be called before the first poll."""
        self._before = dict(before)

    def positions(self) -> dict[str, Position]:
        """How far every file was read."""
        found = {name: growing.tap.position() for name, growing in self._files.items()}
        return {name: position for name, position in found.items() if position is not None}

    def begun_anew(self) -> set[str]:
        """Files in which another run has begun since the last call."""
        now = {name: growing.anew for name, growing in self._files.items()}
        before, self._anew = self._anew, now
        return {name for name, count in now.items() if count > before.get(name, 0)}

    def turned(self, path: str) -> int:
        """Lines of older files under the same name that come before the first line of the file as it is now."""
        growing = self._files.get(path)
        return growing.turned_at if growing is not None else 0

    def settle(self) -> None:
        """Take every file as it stands: nothing more will come."""
        for growing in self._files.values():
            growing.settle()

    def run(self) -> Run | None:
        """What all files say so far; None while none of them says anything."""
        parts = [part for growing in self._files.values() if (part := growing.part()) is not None]
        if not parts:
            return None
        told = [len(builder.problems) for _, builder, _ in parts]
        run = merge.merged(parts, [])
        for (_, builder, _), count in zip(parts, told, strict=True):
            del builder.problems[count:]  # the merge tells its own at each call
        return run

    def notes(self) -> list[Problem]:
        """What happened to the files since the last call."""
        found: list[Problem] = []
        for growing in self._files.values():
            found += growing.notes
            growing.notes.clear()
        return found

    def taken(self) -> tuple[int, int]:
        """(bytes taken so far, bytes that are there), of the files that are read piece by piece."""
        taken = whole = 0
        for growing in self._files.values():
            try:
                size = growing.found.path.stat().st_size
            except OSError:
                continue
            whole += size
            taken += min(growing.tap.offset, size)
        return taken, whole

    def line(self, path: str, line: int) -> int:
        """The line in the file as it is now: lines that were renamed away with an older file are taken off."""
        growing = self._files.get(path)
        return line - growing.turned_at if growing is not None and line > growing.turned_at else line

    def recent(self, path: str) -> int:
        """The first line of a file from which on every row is still known as logged."""
        growing = self._files.get(path)
        return growing.recent() if growing is not None else 0

    def known_from(self, run: Run) -> dict[str, int]:
        """`recent` of each file of a run, as `Alarm.look` wants it."""
        return {file.path: self.recent(file.path) for file in run.files}

    def _search(self) -> bool:
        """Look for files that are new; True where there are some."""
        self._polls += 1
        if len(self._files) > _MANY and self._polls % 10 != 1:
            return False
        found: dict[str, walk.Found] = {}
        self.waiting = {}
        for path in self.paths:
            try:
                found.update({item.name: item for item in walk.files([path])})
            except PlaybookError as error:
                self.waiting[path] = error
        new = [item for name, item in found.items() if name not in self._files]
        if not new:
            return False
        known = {i for g in self._files.values() for i in (*g.tap.retired, g.tap.identity) if i is not None}
        count = len(self._files) + len(new)
        limit = min(LIMIT, max(LEAST, POINTS // (count * _METRICS)))
        held = min(self._held, max(_LEAST_HELD, BYTES // count))
        joined = False
        for item in new:
            try:
                status = item.path.stat()
            except OSError:
                continue
            if (status.st_dev, status.st_ino) not in known:  # a file that was renamed is followed already
                self._files[item.name] = growing = Growing(item, self._rename, self._step, limit, held, self._patterns)
                self._take_up(item.name, growing, found)
                joined = True
        # In the order in which `read` takes them; files that are gone keep what they said.
        self._files = {name: self._files[name] for name in dict.fromkeys((*found, *self._files)) if name in self._files}
        return joined

    def _take_up(self, name: str, growing: Growing, found: Mapping[str, walk.Found]) -> None:
        """What became of a file of an earlier watch: still there, renamed, or gone."""
        old = self._before.pop(name, None)
        if old is None:
            return
        if old.holds(growing.found.path):
            self.fates[name] = name
            return
        now = next((other for other, item in found.items() if old.holds(item.path)), "")
        # A file that was renamed is read first, unless it is one of ours under its new name.
        self.fates[name] = now or (name if growing.tap.begin_with(old) else "")
