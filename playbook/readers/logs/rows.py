"""The rows of a text log on their way to the builder, and the loop over its lines that every text reader shares.

Many ranks may write into one log: a line that is repeated is taken once, a label decides whose row it is, and rows of
one step with other values and no label stay in file order and are told as a problem once.
"""

from __future__ import annotations

import re
from array import array
from collections.abc import Callable, Iterable, Mapping
from itertools import pairwise
from typing import Any

import numpy as np

from playbook.readers import text
from playbook.readers.base import RunBuilder, whole_step
from playbook.readers.source import Source

Taker = Callable[[int, "str | None"], bool]  # (line number, cleaned line or None at the end) -> True where it took it

_KEPT_STEPS = 2  # distinct steps back that a repeated line is looked for: more would swallow the replay of a resume
_REMEMBERED = 16  # rows after which nothing is left of what was said before them
_CLASHES = 3  # times that a step is logged twice in a row before it is told: once or twice is a restart
_CUT = 3  # points by which the ranks of one log may differ in length when it was cut in the middle of a step

_ROW = 4_000  # characters of the longest line that may be a row (Python refuses whole numbers of 4300 digits)
_NOTABLE = 2_000  # characters of a line that are searched for notable words
# The end of a progress bar of tqdm: `[00:21<1:09:10, 3.52s/it, loss=2.6]`.
_BAR_END = re.compile(r"\[(?:\d+ days?, )?[\d:]+<(?:\d+ days?, )?[\d:?]+,[^\]\[]{1,1000}\]")
_GOES_ON = re.compile(r"\s*(?:$|[|,:;]|[A-Za-z][\w /]{0,30}[:=]\s*[-+.\d])")  # what stands behind belongs to the bar

Piece = tuple[np.ndarray, np.ndarray, np.ndarray]  # steps, values, lines
_Points = tuple[array, array, array]  # steps, values, lines


class Rows:
    """Collects rows, then decides: one series for the job, or one a rank."""

    def __init__(self, builder: RunBuilder) -> None:
        self.builder = builder
        self.count = 0
        self.last_step: int | None = None
        self.open_step: int | None = None  # the step of a row that a reader still holds back
        self.pulse = 0  # grows with every row that was met, also where a reader holds it back until the end
        self.memo: dict[str, Any] = {}  # what the takers of one file share among them
        self.cut = False  # True in a last line without its end
        self._points: dict[str, dict[int | None, _Points]] = {}
        self._pieces: dict[str, dict[int | None, list[Piece]]] = {}  # rows that came as columns
        self._seen: dict[int, set[tuple[int | None, str]]] = {}
        self._losses: dict[tuple[str, int | None], float] = {}
        self._clashes = 0

    def add(
        self, step: float, values: Mapping[str, float], line: int, rank: int | None = None, said: str | None = None
    ) -> bool:
        """One row; `said` is the text that makes it equal to another one. False for a repetition or an absurd step."""
        whole = whole_step(step)
        if whole is None:
            return False
        key = (rank, said if said is not None else str(sorted(values.items())))
        seen = self._at(whole)
        if key in seen:
            return False
        seen.add(key)
        self._watch(whole, values, line, rank)
        self.count += 1
        self.pulse += 1
        self.last_step = whole
        for raw, number in values.items():
            by_rank = self._points.setdefault(raw, {})
            points = by_rank.get(rank)
            if points is None:
                points = by_rank[rank] = (array("q"), array("d"), array("q"))
            points[0].append(whole)
            points[1].append(number)
            points[2].append(line)
        return True

    def _at(self, step: int) -> set[tuple[int | None, str]]:
        """What was said at a step, while it is one of the last few."""
        if step not in self._seen:
            self._seen[step] = set()
            if len(self._seen) > _KEPT_STEPS:
                del self._seen[next(iter(self._seen))]
        return self._seen[step]

    def passed(self, steps: np.ndarray) -> None:
        """Rows that will come as columns stand here in the file."""
        if len(steps) > _REMEMBERED:
            self._seen.clear()
        for step in steps[-_REMEMBERED:].tolist():
            self._at(step)
        self.last_step = int(steps[-1])
        self._losses.clear()

    def point(self, raw: str, number: float, line: int) -> None:
        """A number that a notable line tells (the loss scale after an overflow): belongs to the last row."""
        if self.cut:
            return
        points = self._points.setdefault(raw, {}).setdefault(None, (array("q"), array("d"), array("q")))
        for column, entry in zip(points, (self.here or 0, number, line), strict=True):
            column.append(entry)

    @property
    def here(self) -> int | None:
        """The step at this place of the file."""
        return self.last_step if self.open_step is None else self.open_step

    def columns(
        self, steps: np.ndarray, columns: Mapping[str, np.ndarray], lines: np.ndarray, rank: int | None = None
    ) -> None:
        """Many rows with the same metrics at once; `passed` says where in the file they stand.

        steps int64[n], no step twice in a row; columns float64[n] each; lines int64[n].
        """
        self.count += len(steps)
        for raw, column in columns.items():
            self._pieces.setdefault(raw, {}).setdefault(rank, []).append((steps, column, lines))

    def _watch(self, step: int, values: Mapping[str, float], line: int, rank: int | None) -> None:
        """Tell once that several writers share the log without a label."""
        if self._clashes >= _CLASHES or rank is not None:
            return
        if step != self.last_step:
            self._losses.clear()
        for raw, number in values.items():
            if "loss" not in raw.lower() or "scale" in raw.lower():
                continue
            before = self._losses.setdefault((raw, rank), number)
            if before != number and not (before != before and number != number):
                self._clashes += 1
                if self._clashes < _CLASHES:
                    return
                self.builder.problem(
                    line,
                    f"step {step} is logged again with another {raw} and without a rank label; file order is kept",
                    "if several ranks write into this log, label them (srun --label, torchrun --tee) or log one rank",
                    "unlabelled-ranks",
                )
                return

    def finish(self) -> None:
        """Hand everything to the builder."""
        for raw in dict.fromkeys((*self._points, *self._pieces)):
            parts: dict[int | None, list[Piece]] = {}
            for rank, one in self._points.get(raw, {}).items():
                steps, lines = np.frombuffer(one[0], np.int64), np.frombuffer(one[2], np.int64)
                parts[rank] = [(steps, np.frombuffer(one[1]), lines)]
            for rank, pieces in self._pieces.get(raw, {}).items():
                parts.setdefault(rank, []).extend(pieces)
            for pieces in parts.values():
                pieces.sort(key=lambda piece: int(piece[2][0]))
            if len(parts) == 1 and all(
                one[2][-1] <= other[2][0] for one, other in pairwise(next(iter(parts.values())))
            ):
                for steps, values, lines in next(iter(parts.values())):  # the usual case: nothing to put in order
                    self.builder.add_columns(steps, {raw: values}, lines)
                continue
            by_rank = {rank: _in_file_order(pieces) for rank, pieces in parts.items()}
            for rank, (steps, values, lines) in _owners(by_rank).items():
                self.builder.add_columns(steps, {raw: values}, lines, rank)
        self.builder.rows = self.count


def _in_file_order(parts: list[Piece]) -> Piece:
    """All parts as one; rows that came as columns may have others between them."""
    if len(parts) == 1:
        return parts[0]
    steps, values, lines = (np.concatenate([part[column] for part in parts]) for column in range(3))
    if (lines[1:] < lines[:-1]).any():
        order = np.argsort(lines, kind="stable")
        return steps[order], values[order], lines[order]
    return steps, values, lines


def _owners(by_rank: dict[int | None, Piece]) -> dict[int | None, Piece]:
    """Who logged a metric: nobody in particular where one rank speaks, or where all ranks say the same."""
    labelled = sorted(rank for rank in by_rank if rank is not None)
    if len(labelled) > 1:
        longest = max(labelled, key=lambda rank: (len(by_rank[rank][0]), -rank))
        if all(_same(by_rank[rank], by_rank[longest]) for rank in labelled):
            for rank in labelled:
                if rank != longest:
                    del by_rank[rank]
            labelled = [longest]
    if len(labelled) == 1:
        points = by_rank.pop(labelled[0])
        by_rank[None] = _in_file_order([by_rank[None], points]) if None in by_rank else points
    return by_rank


def _same(one: Piece, other: Piece) -> bool:
    n = min(len(one[0]), len(other[0]))
    if not n or abs(len(one[0]) - len(other[0])) > _CUT:
        return False
    return np.array_equal(one[0][:n], other[0][:n]) and np.array_equal(one[1][:n], other[1][:n], equal_nan=True)


class EpochSteps:
    """Turns (epoch, batch of the epoch) into a step of the run. Epochs may have different lengths and start at 0 or 1.

    A count that goes on rising through the epochs is a step already and stays as it is.
    """

    def __init__(self) -> None:
        self._offsets: dict[int, int] = {}
        self._length: dict[int, int] = {}
        self._last = (0, 0)

    def step(self, epoch: int, batch: int, length: int | None = None, restarts: bool = False) -> int:
        """`length` of an epoch where the line says it; `restarts`: the format counts from 0 in each epoch."""
        if epoch not in self._offsets:
            self._offsets[epoch] = self._start(epoch, batch, length or 0, restarts)
        if length:
            self._length[epoch] = length
        self._last = (epoch, batch)
        return self._offsets[epoch] + batch

    def _start(self, epoch: int, batch: int, length: int, restarts: bool) -> int:
        """Steps before the first batch of an epoch that is met for the first time."""
        if not self._offsets:
            return max(0, epoch - 1) * length if restarts else 0
        before = epoch - 1 if epoch - 1 in self._offsets else max((e for e in self._offsets if e < epoch), default=None)
        if before is None:
            first = min(self._offsets)
            return max(0, self._offsets[first] - (first - epoch) * length) if restarts else 0
        if not restarts and batch >= self._last[1]:
            return self._offsets[before]
        lasted = self._length.get(before) or (self._last[1] if self._last[0] == before else 0)
        return self._offsets[before] + (epoch - before) * lasted

    def end(self, epoch: int) -> int | None:
        """The step at which an epoch ends, None where its batches were not seen."""
        if epoch not in self._offsets:
            return None
        return self._offsets[epoch] + (self._length.get(epoch) or (self._last[1] if self._last[0] == epoch else 0))


Maker = Callable[[Rows], Taker]
Watcher = Callable[[Rows], Callable[[int, str], None]]


def feeder(
    rows: Rows, makers: Iterable[Maker], otherwise: Watcher | None = None, long_lines: tuple[Maker, ...] = ()
) -> Callable[[int, str, bool], None]:
    """A function that offers a line (number, text, whole) to the takers in turn; number 0 says that the file ended.

    What none takes goes to `otherwise` (notable lines). Only `long_lines` are offered lines that are too long for a row
    (configurations). The row of a last line without its end is not taken: a cut number is a wrong number and not a
    missing one.
    """
    makers = tuple(makers)
    takers = [make(rows) for make in makers]
    wide = [take for make, take in zip(makers, takers, strict=True) if make in long_lines]
    see = otherwise(rows) if otherwise else None
    builder = rows.builder

    def feed(number: int, raw: str, whole: bool) -> None:
        line = text.clean(raw)
        if not line or line.isspace():
            return
        if not whole:
            rows.cut = True
            if see:
                see(number, line[:_NOTABLE])
            what = "the last line has no line end and may be cut; no number of it was taken"
            builder.problem(number, what, code="cut")
            return
        for part in _apart(line) if "%|" in line and "<" in line else (line,):
            if not any(take(number, part) for take in (takers if len(part) <= _ROW else wide)) and see:
                see(number, part[:_NOTABLE])

    def end_or_feed(number: int, raw: str, whole: bool) -> None:
        if number:
            feed(number, raw, whole)
            return
        for take in takers:
            take(0, None)
        if see:
            see(0, "")
        builder.events.sort(key=lambda event: event.origin.line or 0)  # a traceback is told when it ends
        rows.finish()

    return end_or_feed


def _apart(line: str) -> list[str]:
    """A line with progress bars, cut behind each bar: what another writer printed there has a line of its own."""
    parts, start = [], 0
    for hit in _BAR_END.finditer(line):
        if hit.end() < len(line) and not _GOES_ON.match(line, hit.end()):
            parts.append(line[start : hit.end()])
            start = hit.end()
    return [*parts, line[start:]]


def walk(
    source: Source,
    builder: RunBuilder,
    makers: Iterable[Maker],
    otherwise: Watcher | None = None,
    long_lines: tuple[Maker, ...] = (),
) -> Rows:
    """Feed every line of a file (see `feeder`) and hand the rows to the builder."""
    rows = Rows(builder)
    feed = feeder(rows, makers, otherwise, long_lines)
    for number, raw, whole in source.marked_lines():
        feed(number, raw, whole)
        builder.lines = number
    feed(0, "", True)
    return rows
