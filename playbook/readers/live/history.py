"""The bounded memory of a file that grows without end: the last rows of every series as logged, older ones thinned.

Of the older rows one in 2, 4, 8, ... stays, evenly over the whole run and chosen by the step, so that series logged at
the same steps keep the same ones; the first rows of every non-finite stretch and the rows around a restart stay too,
because a verdict hangs on them.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from playbook.errors import Problem
from playbook.readers.base import RunBuilder
from playbook.series import Event

Key = tuple[str, int | None]  # raw name, rank

LIMIT = 32_768  # rows of one series: the newer half as logged, the older half thinned; 0.8 MB with steps and lines
LEAST = 1_024  # rows that every series may keep, however many there are
POINTS = 6_000_000  # of all series of a watch (24 bytes each)
_EVENTS = 5_000  # the first and the last halves of the notable lines
_PROBLEMS = 50
_FIRST = 3  # rows of a non-finite stretch that are never thinned


@dataclass(slots=True)
class Track:
    """The rows of one raw name and rank. steps int64[n], values float64[n], lines int64[n] or None.

    Of the first `older` rows one in `stride` is there: those whose step is a multiple of `stride` times `unit`.
    """

    steps: np.ndarray
    values: np.ndarray
    lines: np.ndarray | None
    logged: int = 0  # rows that there were in all
    older: int = 0
    stride: int = 1
    unit: int = 1

    def extend(self, steps: np.ndarray, values: np.ndarray, lines: np.ndarray | None, limit: int) -> None:
        """Append rows; thin the older ones where there are more than `limit`."""
        self.steps = np.concatenate([self.steps, steps])
        self.values = np.concatenate([self.values, values])
        known = self.lines is not None and lines is not None
        self.lines = np.concatenate([self.lines, lines]) if known else None
        self.logged += len(steps)
        if len(self.steps) <= limit:
            return
        half = limit // 2
        if self.stride == 1:
            ahead = np.diff(self.steps)
            ahead = ahead[ahead > 0]
            self.unit = max(1, int(np.median(ahead))) if len(ahead) else 1
        leaving = len(self.steps) - half  # rows that are no longer among the newest
        marked = _marked(self.steps[:leaving], self.values[:leaving])
        fresh = np.arange(leaving) >= self.older
        keep = ~fresh | self._even(leaving) | marked
        while self.stride == 1 or keep.sum() > half:
            self.stride *= 2
            keep = self._even(leaving) | (marked & (marked.sum() <= half // 4))
            if self.stride > max(self.logged, 2):  # steps that fit no grid
                keep = np.zeros(leaving, bool)
                keep[np.linspace(0, leaving - 1, half // 2).astype(int)] = True
                break
        self.older = int(keep.sum())
        keep = np.concatenate([keep, np.ones(half, bool)])
        self.steps, self.values = self.steps[keep], self.values[keep]
        self.lines = None if self.lines is None else self.lines[keep]

    def _even(self, count: int) -> np.ndarray:
        even: np.ndarray = (self.steps[:count] // self.unit) % self.stride == 0
        return even


def _marked(steps: np.ndarray, values: np.ndarray) -> np.ndarray:
    """bool[n]: the first rows of every non-finite stretch, and the rows on both sides of a restart."""
    odd = ~np.isfinite(values)
    starts = odd & ~np.concatenate([[False], odd[:-1]])
    marked = starts.copy()
    for behind in range(1, _FIRST):
        marked[behind:] |= starts[:-behind]
    marked &= odd
    turns = np.flatnonzero(np.diff(steps) < 0)
    marked[turns] = True
    marked[turns + 1] = True
    return marked


@dataclass
class History:
    """What the sealed part of a file said. `limit` is the most rows of one series."""

    limit: int = LIMIT
    tracks: dict[Key, Track] = field(default_factory=dict)
    events: list[Event] = field(default_factory=list)
    config: dict[str, Any] = field(default_factory=dict)
    problems: list[Problem] = field(default_factory=list)
    seen: set[str] = field(default_factory=set)
    rows: int = 0
    dropped: int = 0

    def add(self, key: Key, steps: np.ndarray, values: np.ndarray, lines: np.ndarray | None) -> None:
        if not len(steps):
            return
        track = self.tracks.get(key)
        if track is None:
            empty = np.zeros(0, np.int64)
            track = self.tracks[key] = Track(empty, np.zeros(0), empty)
        track.extend(steps, values, lines, self.limit)

    def owners(self, key: Key, fresh: Collection[Key]) -> list[Key]:
        """To whom rows of `key` belong, seen with what was known before.

        Ranks that log one value for all are one series; from the piece on in which they part each has its own, and its
        past is the common one. Where the piece knows only the common series they agree again.
        """
        raw, rank = key
        before = [r for name, r in self.tracks if name == raw]
        now = [r for name, r in fresh if name == raw]
        if rank is not None and before == [None] and None not in now and len(now) > 1:
            common = self.tracks.pop((raw, None))
            for own in now:
                self.tracks[raw, own] = replace(common)
        elif rank is None and now == [None] and None not in before and len(before) > 1:
            return [(raw, r) for r in before]
        return [key]

    def tell(self, events: Iterable[Event], problems: Iterable[Problem]) -> None:
        """Further notable lines and problems, in the order of the file."""
        self.events += events
        if (over := len(self.events) - _EVENTS) > 0:
            middle = _EVENTS // 2
            del self.events[middle : middle + over]
            self.dropped += over
        known = {(p.code, p.what) for p in self.problems}
        for problem in problems:
            if len(self.problems) < _PROBLEMS and (problem.code, problem.what) not in known:
                self.problems.append(problem)

    def thinned(self) -> bool:
        """Whether rows have been left out."""
        return any(track.logged > len(track.steps) for track in self.tracks.values())

    def into(self, builder: RunBuilder) -> None:
        """Put everything into a builder, as a reader would."""
        rows = builder.rows + self.rows
        for (raw, rank), track in self.tracks.items():
            _put(builder, raw, rank, track)
        builder.events += self.events
        builder.config.update(self.config)
        known = {(p.code, p.what) for p in builder.problems}
        builder.problems += [replace(p, where=builder.path) for p in self.problems if (p.code, p.what) not in known]
        builder.see(self.seen)
        builder.rows = rows  # rows of the file, and not of every series


def _put(builder: RunBuilder, raw: str, rank: int | None, track: Track) -> None:
    own, builder.rank = builder.rank, None  # `rank` is decided, also where it is nobody's
    builder.add_columns(track.steps, {raw: track.values}, track.lines, rank)
    builder.rank = own


def logged(builder: RunBuilder) -> dict[Key, tuple[np.ndarray, np.ndarray, np.ndarray | None]]:
    """What a reader put into a builder, before names become canonical: (raw, rank) -> steps, values, lines."""
    result = {}
    for key, pieces in builder.chunks().items():
        known_lines = [p[2] for p in pieces if p[2] is not None]
        result[key] = (
            np.concatenate([p[0] for p in pieces]),
            np.concatenate([p[1] for p in pieces]),
            np.concatenate(known_lines) if len(known_lines) == len(pieces) else None,
        )
    return result
