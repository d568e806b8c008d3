"""The verdict over many ranks of one job: reduce every step to a few numbers, then look closely where it matters.

The reduction runs where the data lies and sends a dozen numbers a step. They say when; only the rows of a few short
stretches are then fetched rank by rank, and the same detectors as for one machine say who was first.
"""

from __future__ import annotations

import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from playbook import detectors
from playbook.errors import PlaybookError, Problem
from playbook.findings import Finding
from playbook.probes import fleet, fleet_engines
from playbook.series import Origin, Run, Series
from playbook.workflow.fleet.files import describe

BEFORE, AFTER = 128, 8  # logged steps around an onset that are fetched rank by rank (the detector looks at 64 before)
LAST = 64  # logged steps at the end: who stands apart now
CELLS = 4_000_000  # values fetched at most: 64 MB
SURE = 8.0  # robust deviations from which a step is told
SHOWN = 3
LOOK = "look at it with `playbook ingest`"
# Kind of finding -> how many ranks it speaks of.
_AFFECTED = {"one": "one", "some": "some", "all": "all", "one-slow": "one", "all-slow": "all"}


@dataclass(frozen=True, slots=True)
class Peak:
    """A step at which the highest rank stands far above the median of all, as seldom before."""

    step: int
    rank: int
    top: float
    median: float
    z: float


@dataclass(frozen=True, slots=True)
class FleetVerdict:
    """What the ranks say together.

    onset      first step at which the metric of the job is bad; None where it is not
    affected   one, some, all or None: how many ranks leave their level
    step, first    where the first of them does, and which one it is, where it is one
    peaks      the steps at which one rank stands out the most, whatever the verdict
    """

    engine: str
    metric: str
    extent: fleet.Extent
    reduced: fleet.Reduced
    onset: int | None
    affected: str | None
    step: int | None
    first: int | None
    findings: tuple[Finding, ...]
    peaks: tuple[Peak, ...]
    problems: tuple[Problem, ...]


def judge(
    paths: Sequence[str],
    metric: str = "loss",
    url: str = fleet_engines.DEFAULT,
    table: str | None = None,
    rename: Mapping[str, str] | None = None,
    where: Mapping[str, str] | None = None,
    rows: int = fleet.ROWS,
) -> FleetVerdict:
    """Reduce the files of `paths`, or `table` of the engine `url`, and say which ranks are bad and which was first.

    rename     {column: step, rank or the metric}; where: {column: value} that rows of a table must have
    rows       that are reduced at once

    Raises `PlaybookError` where there is nothing to compare, and for what the engine cannot read.
    """
    problems: list[Problem] = []
    data: fleet_engines.Files | fleet_engines.Table
    if table is not None:
        asked = {meaning: raw for raw, meaning in (rename or {}).items()}
        value = asked.get(metric) or asked.get("value", "value")
        data = fleet_engines.Table(table, asked.get("step", "step"), asked.get("rank", "rank"), value, where)
    elif paths:
        data, problems = describe(paths, metric, rename or {})
    else:
        raise PlaybookError("fleet", "no path and no table", "name files, or a table with --engine URL --table NAME")
    place = table or paths[0]
    with (
        tempfile.TemporaryDirectory(prefix="playbook-") as scratch,
        fleet_engines.opened(url, data, scratch) as engine,
    ):
        extent = fleet.extent(engine)
        if extent.ranks < 2:
            what = f"{extent.rows} rows of {extent.ranks} rank{'s' * (extent.ranks != 1)}: nothing to compare"
            raise PlaybookError(place, what, "name the files of all ranks, or use `playbook ingest`")
        reduced = fleet.reduce(engine, extent, rows)
        if not reduced.count.any():
            raise PlaybookError(place, f"no rank has a value of {metric}", f"name it with --map {metric}=COLUMN")
        problems += _silent(engine, data, reduced, metric)
        return _verdict(engine, metric, extent, reduced, place, problems)


def _silent(
    engine: fleet.Engine, data: fleet_engines.Files | fleet_engines.Table, reduced: fleet.Reduced, metric: str
) -> list[Problem]:
    """Files of one rank each of which no value was read: another column or delimiter, or nothing was logged."""
    if isinstance(data, fleet_engines.Table) or data.rank is not None:
        return []
    if float(np.median(reduced.count)) >= len(data.files):
        return []  # as many values a step as files: nothing to look for
    there = fleet.ranks(engine)
    lost = [file for file in data.files if file.rank not in there]
    return [Problem(file.path, None, f"no value of {metric} was read from it", LOOK, "silent") for file in lost]


def _verdict(
    engine: fleet.Engine,
    metric: str,
    extent: fleet.Extent,
    reduced: fleet.Reduced,
    place: str,
    problems: list[Problem],
) -> FleetVerdict:
    origin = Origin(place, None, engine.title)
    # As for one machine: the job's value is the mean, and no number at a step where any rank has none.
    logged = reduced.count > 0
    mean = np.where(reduced.nonfinite > 0, np.nan, reduced.mean)[logged]
    job = Series(metric, None, reduced.steps[logged], mean, None, origin)
    begin = detectors.onset(Run({(metric, None): job}))
    bad = np.flatnonzero(reduced.nonfinite > 0)
    onset = begin.step if begin else int(reduced.steps[bad[0]]) if len(bad) else None
    positive = bool(np.nanmin(reduced.median, initial=np.inf) > 0)
    scale = reduced.median if positive else 1.0  # a level that moves must not look like a rank that leaves
    apart = fleet.robust_z(reduced.steps, (reduced.top - reduced.median) / scale)
    rows = fleet.window(engine, _stretches(reduced, apart, onset, extent.ranks))
    scans = detectors.scan(_run(job, rows), only=("ranks", "slow_rank"))
    findings = [f for scan in scans for f in scan.findings]
    if not findings and len(bad):
        findings = [_nonfinite(metric, reduced, int(bad[0]), extent.ranks)]
    lead = next((f for f in findings if f.kind in _AFFECTED), None)
    ahead = next((f for f in findings if f.kind == "first-bad"), lead)
    if (most := int(reduced.count.max())) > extent.ranks:
        again = int(np.sum(reduced.count > extent.ranks))
        what = f"{again} steps hold more values than there are ranks (up to {most} of {extent.ranks})"
        problems.append(Problem(place, None, what, "a resume wrote them again; both are counted", "repeated"))
    return FleetVerdict(
        engine.title,
        metric,
        extent,
        reduced,
        onset,
        _AFFECTED[lead.kind] if lead else None,
        ahead.step if ahead else None,
        ahead.rank if ahead else None,
        tuple(findings),
        _peaks(reduced, apart),
        tuple(problems),
    )


def _run(job: Series, rows: fleet.Columns) -> Run:
    """The metric of the job and, from rows ordered by rank and step, that of each rank."""
    series: dict[tuple[str, int | None], Series] = {(job.metric, None): job}
    ranks, starts, counts = np.unique(rows["rank"], return_index=True, return_counts=True)
    for rank, start, count in zip(ranks.tolist(), starts, counts, strict=True):
        own = slice(start, start + count)
        series[job.metric, rank] = Series(job.metric, rank, rows["step"][own], rows["x"][own], None, job.origin)
    return Run(series)


def _stretches(reduced: fleet.Reduced, apart: np.ndarray, onset: int | None, ranks: int) -> list[tuple[int, int]]:
    """The ranges of steps to fetch rank by rank: around the onset, or where one rank stands out, and the end."""
    rows = len(reduced)
    share = max(0.05, min(1.0, CELLS / max(1, ranks * 3 * (BEFORE + AFTER))))
    before, after, last = (max(3, int(n * share)) for n in (BEFORE, AFTER, LAST))
    if onset is not None:
        centres = [int(np.searchsorted(reduced.steps, onset))]
    else:
        centres = [int(np.nanargmax(apart))] if np.isfinite(apart).any() else []
        centres.append(_longest(reduced.top_rank))
    picked = [(max(0, c - before), min(rows - 1, c + after)) for c in centres]
    if onset is None:
        picked.append((max(0, rows - last), rows - 1))
    return [(int(reduced.steps[low]), int(reduced.steps[high])) for low, high in picked]


def _longest(leaders: np.ndarray) -> int:
    """Where the longest stretch begins in which one rank is the highest of all."""
    edges = np.flatnonzero(np.diff(leaders) != 0) + 1
    starts, ends = np.concatenate([[0], edges]), np.concatenate([edges, [len(leaders)]])
    return int(starts[np.argmax((ends - starts) * (leaders[starts] != fleet.NO_RANK))])


def _nonfinite(metric: str, reduced: fleet.Reduced, at: int, ranks: int) -> Finding:
    """The first step at which ranks have no number: for metrics whose onset no detector decides."""
    bad, step, rank = int(reduced.nonfinite[at]), int(reduced.steps[at]), int(reduced.bad_rank[at])
    kind = "one" if bad == 1 else "all" if bad >= reduced.count[at] else "some"
    text = f"{metric} of {bad} of {ranks} ranks is not finite at step {step}"
    text += "" if kind == "all" else f" (rank {rank})"
    first = rank if kind == "one" else None
    numbers = {"affected": float(bad), "ranks": float(ranks)}
    return Finding("ranks", kind, metric, step, text, 0.9, rank=first, numbers=numbers)


def _peaks(reduced: fleet.Reduced, apart: np.ndarray) -> tuple[Peak, ...]:
    """The steps at which the highest rank stands apart the most, in the order of steps."""
    z = np.where(np.isfinite(apart), apart, -np.inf)
    most = np.sort(np.argsort(-z, kind="stable")[:SHOWN])
    return tuple(
        Peak(
            int(reduced.steps[i]),
            int(reduced.top_rank[i]),
            float(reduced.top[i]),
            float(reduced.median[i]),
            float(z[i]),
        )
        for i in most
        if z[i] >= SURE
    )
