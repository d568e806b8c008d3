"""What a training job logged: series of numbers, events of text, the run's configuration.

A series keeps file order and every value as logged. A step that goes back is a restart, not an error; NaN, an
infinity and a value that was not logged are three different things (the last one has no point at all).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from playbook.errors import Problem


@dataclass(frozen=True, slots=True)
class Origin:
    """Where something was read: file, line (from 1) and the reader that read it."""

    path: str
    line: int | None = None
    reader: str = ""


@dataclass(frozen=True, eq=False)
class Series:
    """One metric of one rank, in file order.

    steps   int64[n], as logged, may go back (a restart)
    values  float64[n], as logged, non-finite kept
    lines   int64[n], line in the file (from 1), or None where the format has no lines
    rank    None for a value that the job logged once for all ranks
    raw     the name in the file
    seams   rows at which another file of the run begins
    """

    metric: str
    rank: int | None
    steps: np.ndarray
    values: np.ndarray
    lines: np.ndarray | None
    origin: Origin
    raw: str = ""
    seams: tuple[int, ...] = ()

    def __len__(self) -> int:
        return len(self.values)

    @cached_property
    def restarts(self) -> np.ndarray:
        """Indices of points whose step is lower than that of the point before: int64[k]."""
        return np.flatnonzero(np.diff(self.steps) < 0) + 1

    @cached_property
    def finite(self) -> np.ndarray:
        """bool[n]: True where the value is a finite number."""
        return np.isfinite(self.values)

    def line_at(self, index: int) -> int | None:
        return int(self.lines[index]) if self.lines is not None else None


@dataclass(frozen=True, slots=True)
class Event:
    """A line of text worth keeping: a traceback, an Xid, an NCCL warning, a skipped step, a resume.

    `step` is that of the last metric row before the line where the line names none; `time` is text as logged.
    """

    text: str
    kind: str
    origin: Origin
    step: int | None = None
    rank: int | None = None
    time: str | None = None


@dataclass(frozen=True, slots=True)
class Setting:
    """One assignment of a configuration as it stands in a file, under its dotted lower-case name.

    A name that is set twice is two settings; `Run.config` keeps the last.
    """

    name: str
    value: Any
    origin: Origin


@dataclass(frozen=True, slots=True)
class FileReport:
    """What became of one file: `rows` counts the rows or log lines with numbers that were taken.

    `lines` is the length of a text log, 0 for any other file.
    """

    path: str
    format: str
    rows: int
    problems: tuple[Problem, ...] = ()
    lines: int = 0


@dataclass(frozen=True)
class Run:
    """Everything read from one training job."""

    series: dict[tuple[str, int | None], Series] = field(default_factory=dict)
    events: tuple[Event, ...] = ()
    config: dict[str, Any] = field(default_factory=dict)
    files: tuple[FileReport, ...] = ()
    unmapped: tuple[str, ...] = ()
    settings: tuple[Setting, ...] = ()

    def get(self, metric: str, rank: int | None = None) -> Series | None:
        """The series of a metric logged for the whole job (or for one rank)."""
        return self.series.get((metric, rank))

    def one(self, metric: str) -> Series | None:
        """The series of the job where there is one, else that of the lowest rank."""
        if (metric, None) in self.series:
            return self.series[metric, None]
        per_rank = self.by_rank(metric)
        return per_rank[min(per_rank)] if per_rank else None

    def by_rank(self, metric: str) -> dict[int, Series]:
        """The series of a metric by rank, without the one of the whole job."""
        return {
            rank: s for (name, rank), s in sorted(self.series.items(), key=_key) if name == metric and rank is not None
        }

    @property
    def metrics(self) -> list[str]:
        return sorted({metric for metric, _ in self.series})

    @property
    def ranks(self) -> list[int]:
        return sorted({rank for _, rank in self.series if rank is not None})

    def step_range(self) -> tuple[int | None, int | None]:
        """First and last step of the training metrics (None, None without any)."""
        chosen: Iterable[Series] = [s for s in self.series.values() if len(s)]
        lows = [int(s.steps.min()) for s in chosen]
        highs = [int(s.steps.max()) for s in chosen]
        return (min(lows), max(highs)) if lows else (None, None)


def _key(item: tuple[tuple[str, int | None], Series]) -> tuple[str, int]:
    (metric, rank), _ = item
    return metric, -1 if rank is None else rank
