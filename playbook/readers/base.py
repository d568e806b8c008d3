"""What every reader of a format is made of: the source it reads from and the builder it fills.

A reader is a module with four names: `NAME`, `TITLE`, `sniff(head, path)` and `read(source, builder)`; no class, no state.
`sniff` judges by content and gets at most the first 64 KiB, already decompressed. A reader steps over what is damaged
and says so with `builder.problem`; it raises `PlaybookError` only where nothing in the file can be used.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from playbook.errors import Problem
from playbook.readers.names import canonical
from playbook.readers.source import Source
from playbook.series import Event, FileReport, Origin, Series

_MAX_EVENTS = 5_000  # of one file: a log that repeats one warning a million times must not fill the memory
_MAX_PROBLEMS = 50


class Reader(Protocol):
    """The contract of a reader module."""

    NAME: str  # short id, `format` of the JSON
    TITLE: str  # for people

    def sniff(self, head: bytes, path: Path) -> int:
        """0 = not mine; 1..100 = how specific the match is (the highest one claims)."""

    def read(self, source: Source, builder: RunBuilder) -> None:
        """Fill `builder` from `source`."""


class RunBuilder:
    """Collects what one file holds; names become canonical here and nowhere else."""

    def __init__(
        self, path: str, reader: str, rank: int | None = None, rename: Mapping[str, str] | None = None
    ) -> None:
        self.path, self.reader, self.rank = path, reader, rank
        self.rename = dict(rename or {})  # raw name -> canonical, from `--map`
        self.rows = 0
        self.config: dict[str, Any] = {}
        self.events: list[Event] = []
        self.problems: list[Problem] = []
        self._points: dict[tuple[str, int | None], tuple[list[int], list[float], list[int]]] = {}
        self._columns: list[tuple[str, int | None, np.ndarray, np.ndarray, np.ndarray | None]] = []
        self._last_step: int | None = None
        self._dropped = 0

    def add(self, step: int, values: Mapping[str, float], line: int | None = None, rank: int | None = None) -> None:
        """One logged row. A metric that the row does not have is left out, never filled."""
        rank = self.rank if rank is None else rank
        self.rows += 1
        self._last_step = step
        for raw, value in values.items():
            key = (raw, rank)
            points = self._points.get(key)
            if points is None:
                points = self._points[key] = ([], [], [])
            points[0].append(step)
            points[1].append(value)
            points[2].append(line if line is not None else -1)

    def add_columns(
        self,
        steps: np.ndarray,
        columns: Mapping[str, np.ndarray],
        lines: np.ndarray | None = None,
        rank: int | None = None,
    ) -> None:
        """Many rows at once. A masked entry (`np.ma`) was not logged; NaN was logged as NaN.

        steps int64[n]; columns float64[n] each; lines int64[n] or None.
        """
        rank = self.rank if rank is None else rank
        self.rows += len(steps)
        if len(steps):
            self._last_step = int(steps[-1])
        for raw, column in columns.items():
            if isinstance(column, np.ma.MaskedArray):
                keep = ~np.ma.getmaskarray(column)
                self._columns.append(
                    (
                        raw,
                        rank,
                        steps[keep],
                        np.asarray(column.data[keep], float),
                        None if lines is None else lines[keep],
                    )
                )
            else:
                self._columns.append((raw, rank, steps, np.asarray(column, float), lines))

    def event(
        self,
        text: str,
        kind: str,
        line: int | None = None,
        step: int | None = None,
        rank: int | None = None,
        time: str | None = None,
    ) -> None:
        """A line worth keeping (cut to 500 characters). `step` defaults to that of the last row before it."""
        if len(self.events) >= _MAX_EVENTS:
            self._dropped += 1
            return
        origin = Origin(self.path, line, self.reader)
        step = self._last_step if step is None else step
        self.events.append(Event(text[:500], kind, origin, step, self.rank if rank is None else rank, time))

    def problem(self, line: int | None, what: str, hint: str = "", code: str = "") -> None:
        if len(self.problems) < _MAX_PROBLEMS:
            self.problems.append(Problem(self.path, line, what, hint, code))

    def set_config(self, values: Mapping[str, Any]) -> None:
        """The run's configuration as found (later values win)."""
        self.config.update(values)

    def report(self) -> FileReport:
        problems = list(self.problems)
        if self._dropped:
            problems.append(Problem(self.path, None, f"{self._dropped} further notable lines were not kept"))
        return FileReport(self.path, self.reader, self.rows, tuple(problems))

    def finish(self) -> tuple[dict[tuple[str, int | None], Series], list[str]]:
        """The series by (canonical metric, rank), and the raw names that no canonical name covers."""
        parts: dict[tuple[str, int | None], list[tuple[np.ndarray, np.ndarray, np.ndarray | None]]] = {}
        for (raw, rank), (steps, values, lines) in self._points.items():
            where = np.asarray(lines, np.int64)
            parts.setdefault((raw, rank), []).append(
                (np.asarray(steps, np.int64), np.asarray(values, float), None if (where < 0).all() else where)
            )
        for raw, rank, steps, column, lines in self._columns:
            parts.setdefault((raw, rank), []).append((np.asarray(steps, np.int64), column, lines))
        return self._name(parts)

    def _name(
        self, parts: dict[tuple[str, int | None], list[tuple[np.ndarray, np.ndarray, np.ndarray | None]]]
    ) -> tuple[dict[tuple[str, int | None], Series], list[str]]:
        raws = sorted({raw for raw, _ in parts})
        metric_of = canonical(raws, self.rename)
        series: dict[tuple[str, int | None], Series] = {}
        for (raw, rank), chunks in parts.items():
            metric = metric_of.get(raw)
            if metric is None:
                continue
            steps = np.concatenate([c[0] for c in chunks]) if len(chunks) > 1 else chunks[0][0]
            values = np.concatenate([c[1] for c in chunks]) if len(chunks) > 1 else chunks[0][1]
            has_lines = all(c[2] is not None for c in chunks)
            lines = np.concatenate([c[2] for c in chunks if c[2] is not None]) if has_lines else None
            series[metric, rank] = Series(metric, rank, steps, values, lines, Origin(self.path, None, self.reader), raw)
        return series, [raw for raw in raws if raw not in metric_of]
