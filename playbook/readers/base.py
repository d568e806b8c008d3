"""What every reader of a format is made of: the source it reads from and the builder it fills.

A reader is a module with four names: `NAME`, `TITLE`, `sniff(head, path)` and `read(source, builder)`; no class, no
state (and `PARTS = True` where several files in one folder are one run by convention). Heavy imports sit inside `read`.
`sniff` judges by content and gets at most the first 64 KiB, already decompressed. A reader steps over what is damaged
and says so with `builder.problem`; it raises `PlaybookError` only where nothing in the file can be used.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from playbook.errors import Problem
from playbook.readers.names import canonical, combines, plain, rank_in, shape, wanted
from playbook.readers.source import Source
from playbook.series import Event, FileReport, Origin, Series, Setting

CERTAIN = 95  # a score of `sniff` that leaves no doubt; only one reader may give it for one content

COUNTED = "counted-steps"  # the code of the problem that a file says no steps: its rows were counted

_MAX_EVENTS = 5_000  # of one file: a log that repeats one warning a million times must not fill the memory
_MAX_PROBLEMS = 50
_MAX_SETTINGS = 50_000
_BIGGEST_STEP = 2**62
_EPOCHS = 1e8  # seconds: no step lasts three years
_BY_LAYER = frozenset({"activation_max"})  # families whose members are kept beside their maximum
_MOST_LAYERS = 512
_CLOCK = 20  # points in a row that grow: durations vary

Chunk = tuple[np.ndarray, np.ndarray, np.ndarray | None]  # steps, values, lines

# How languages and libraries print the three special values (MSVC: 1.#QNAN, nan(ind)).
_WORDS = (
    dict.fromkeys(
        ("nan", "+nan", "-nan", "nan(ind)", "-nan(ind)", "1.#qnan", "-1.#qnan", "1.#ind", "-1.#ind"), math.nan
    )
    | dict.fromkeys(("inf", "+inf", "infinity", "+infinity", "1.#inf"), math.inf)
    | dict.fromkeys(("-inf", "-infinity", "-1.#inf"), -math.inf)
)


def number(value: object) -> float | None:
    """The number that a cell or a JSON value holds, None where it holds none. "NaN" and "Infinity" as text count."""
    if isinstance(value, (bool, type(None))):
        return None
    if isinstance(value, (int, float)):
        try:
            return float(value)
        except OverflowError:
            return math.inf if value > 0 else -math.inf
    if not isinstance(value, str) or len(value) > 64:
        return None
    text = value.strip()
    if not text:
        return None
    if text[0] in "0123456789.+-" and "_" not in text:
        try:
            return float(text)
        except ValueError:
            pass
    return _WORDS.get(text.lower())


def same_value(one: object, other: object) -> bool:
    """Whether two values of a configuration mean the same: numbers also as text or alone in a list, texts in any case.

    A NaN is the same as another one.
    """
    a, b = (number(value[0] if isinstance(value, list) and len(value) == 1 else value) for value in (one, other))
    if a is not None and b is not None and abs(a - b) <= 1e-9 * max(abs(a), abs(b)):
        return True
    return one == other or str(one).strip().lower() == str(other).strip().lower()


def whole_step(value: object) -> int | None:
    """A step count from a cell or a JSON value; None for NaN, a fraction, a text or something absurd."""
    found = number(value)
    if found is None or not math.isfinite(found) or abs(found) > _BIGGEST_STEP or found != int(found):
        return None
    return int(value) if isinstance(value, int) else int(found)


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
        self,
        path: str,
        reader: str,
        rank: int | None = None,
        rename: Mapping[str, str] | None = None,
        step_column: str | None = None,
        patterns: tuple[str, ...] = (),
    ) -> None:
        self.path, self.reader, self.rank = path, reader, rank
        self.patterns = patterns  # lines of a log that fit one are kept, whatever else they say
        self.rename = dict(rename or {})  # raw name -> canonical, from `--map`
        self.step_column = step_column  # raw name of the step, from `--map step=`
        self.run: str | None = None  # whose run the file belongs to, where the format says so (an MLflow run id)
        self.run_time = 0.0  # when that run was last written to, as logged (seconds since 1970): the latest is read
        self.rows = 0
        self.lines = 0  # of a text log
        self.config: dict[str, Any] = {}
        self.settings: list[Setting] = []
        self.events: list[Event] = []
        self.problems: list[Problem] = []
        self.columns: tuple[str, ...] = ()  # all columns of a table as they stand in the file, for messages
        self._points: dict[tuple[str, int | None], tuple[list[int], list[float], list[int]]] = {}
        self._columns: list[tuple[str, int | None, np.ndarray, np.ndarray, np.ndarray | None]] = []
        self._last_step: int | None = None
        self._dropped = 0
        self.seen: set[str] = set()  # raw names that the file has and that were not added

    def wants(self, raw: str) -> bool:
        """True where a raw name can become a metric; others need not be parsed, only told with `see`."""
        return wanted(raw, self.rename)

    def see(self, raws: Iterable[str]) -> None:
        """Raw names that the file has and that were not added: they count as unmapped."""
        self.seen.update(raws)

    def raws(self) -> set[str]:
        """Every raw name of the file, used or not."""
        return self.seen | {raw for raw, _ in self._points} | {column[0] for column in self._columns}

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
            mask = np.ma.getmask(column)
            if mask is not np.ma.nomask and mask.any():
                keep = ~mask
                self._columns.append(
                    (
                        raw,
                        rank,
                        steps[keep],
                        np.asarray(np.ma.getdata(column)[keep], float),
                        None if lines is None else lines[keep],
                    )
                )
            else:
                self._columns.append((raw, rank, steps, np.asarray(np.ma.getdata(column), float), lines))

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

    def set_settings(self, found: Iterable[tuple[str, Any, int | None]]) -> None:
        """(dotted name, plain value, line) in file order, a name set twice included: the configuration, with places.

        `auto` leaves a setting to the trainer: it is told, but is no value of the configuration.
        """
        for name, value, line in found:
            if len(self.settings) >= _MAX_SETTINGS:
                self.config[name] = value
                continue
            if value != "auto":
                self.config[name] = value
            known = name.lower().replace("-", "_")
            self.settings.append(Setting(known, value, Origin(self.path, line, self.reader)))

    def report(self) -> FileReport:
        problems = list(self.problems)
        if self._dropped:
            problems.append(Problem(self.path, None, f"{self._dropped} further notable lines were not kept"))
        return FileReport(self.path, self.reader, self.rows, tuple(problems), self.lines)

    def chunks(self) -> dict[tuple[str, int | None], list[Chunk]]:
        """What was added, in the order of the file: (raw name, rank) -> steps, values, lines (None: without)."""
        parts: dict[tuple[str, int | None], list[Chunk]] = {}
        for (raw, rank), (steps, values, lines) in self._points.items():
            where = np.asarray(lines, np.int64)
            parts.setdefault((raw, rank), []).append(
                (np.asarray(steps, np.int64), np.asarray(values, float), None if (where < 0).any() else where)
            )
        for raw, rank, logged, column, places in self._columns:
            if len(logged):
                parts.setdefault((raw, rank), []).append((np.asarray(logged, np.int64), column, places))
        return parts

    def finish(self) -> tuple[dict[tuple[str, int | None], Series], list[str]]:
        """The series by (canonical metric, rank), and the raw names that no canonical name covers."""
        return self._name(self.chunks())

    def _name(
        self, parts: dict[tuple[str, int | None], list[Chunk]]
    ) -> tuple[dict[tuple[str, int | None], Series], list[str]]:
        counts: dict[str, int] = {}
        for (raw, _), chunks in parts.items():
            counts[raw] = counts.get(raw, 0) + sum(len(chunk[0]) for chunk in chunks)
        metric_of = canonical(counts, self.rename, counts)
        members: dict[tuple[str, int | None], list[tuple[str, Chunk]]] = {}
        for (raw, rank), chunks in parts.items():
            if raw in metric_of:
                owner = rank_in(raw)[1] if rank is None else rank
                members.setdefault((metric_of[raw], owner), []).append((raw, _joined(chunks)))
        series: dict[tuple[str, int | None], Series] = {}
        for (metric, rank), named in members.items():
            raw, (steps, values, lines) = named[0]
            if len(named) > 1:
                raw, (steps, values, lines) = (
                    _highest(named) if combines(metric) else max(named, key=lambda n: len(n[1][0]))
                )
            if metric == "step_time" and _is_clock(values):
                metric_of.pop(raw, None)
                continue
            if raw not in self.rename and (how := shape(raw)) is not None:
                values, said = _shaped(how, values, raw, metric)
                if said:
                    self.problem(None, said, f"log the {metric} itself", "derived")
            origin = Origin(self.path, None, self.reader)
            series[metric, rank] = Series(metric, rank, steps, values, lines, origin, raw)
            if metric in _BY_LAYER and 1 < len(named) <= _MOST_LAYERS:
                for name, (steps, values, lines) in named:
                    member = f"{metric}/{_layer(name)}"
                    series[member, rank] = Series(member, rank, steps, values, lines, origin, name)
        return series, [raw for raw in sorted(counts.keys() | self.seen) if raw not in metric_of]


def _shaped(how: str, values: np.ndarray, raw: str, metric: str) -> tuple[np.ndarray, str]:
    """The metric from what was logged, and a sentence where it was turned into it."""
    finite = values[np.isfinite(values)]
    if not len(finite):
        return values, ""
    if how == "log_of" and finite.min() >= 0.99:  # a perplexity is at least 1
        with np.errstate(invalid="ignore"):
            return np.log(values), f"{metric} is taken as the logarithm of {raw}"
    if how == "minus" and finite[0] < 0:
        return -values, f"{metric} is taken as the negative of {raw}"
    return values, ""


def _is_clock(values: np.ndarray) -> bool:
    """A `time` that only grows, or counts from 1970, is a clock and no duration."""
    logged = np.isfinite(values)
    finite = values if logged.all() else values[logged]
    if len(finite) < 3:
        return False
    if 2 * np.count_nonzero(finite > _EPOCHS) > len(finite):
        return True
    return len(finite) >= _CLOCK and all(bool((part[1:] > part[:-1]).all()) for part in (finite[:_CLOCK], finite))


def _joined(chunks: list[Chunk]) -> Chunk:
    if len(chunks) == 1:
        return chunks[0]
    lines = [chunk[2] for chunk in chunks if chunk[2] is not None]
    return (
        np.concatenate([chunk[0] for chunk in chunks]),
        np.concatenate([chunk[1] for chunk in chunks]),
        np.concatenate(lines) if len(lines) == len(chunks) else None,
    )


def _layer(raw: str) -> str:
    """The part of a member's name that names the layer: `act/max layer 3 mlp` -> `layer.3.mlp`."""
    name = plain(raw)
    found = re.search(r"(?:layers?|blocks?|h) ?\d+.*$|\d+.*$", name)
    return (found[0] if found else name).replace(" ", ".")


def _highest(named: list[tuple[str, Chunk]]) -> tuple[str, Chunk]:
    """A family (layers, experts) as one series: its highest member at each step; a NaN wins."""
    steps = np.concatenate([chunk[0] for _, chunk in named])
    values = np.concatenate([chunk[1] for _, chunk in named])
    unique, place = np.unique(steps, return_inverse=True)
    best = np.full(len(unique), -np.inf)
    with np.errstate(invalid="ignore"):
        np.maximum.at(best, place, values)
    return f"{plain(named[0][0])} and {len(named) - 1} more", (unique, best, None)


def flat(values: Mapping[str, Any], prefix: str = "", depth: int = 0) -> Iterable[tuple[str, Any]]:
    """Nested mappings as (`a/b`, value); lists stay values. Depth is bounded."""
    for key, value in values.items():
        name = f"{prefix}/{key}" if prefix else str(key)
        if isinstance(value, Mapping) and depth < 20:
            yield from flat(value, name, depth + 1)
        else:
            yield name, value
