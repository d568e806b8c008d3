"""What several files say about one job -> one Run.

Two views of one curve (a CSV and a log) give the longer one; parts of one curve (a resumed job) are joined in file
order; files of ranks become series of ranks; another run in the same folder is left out and named.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from playbook.readers import walk
from playbook.readers.base import Reader, RunBuilder
from playbook.series import Event, FileReport, Origin, Run, Series

_SAME = 0.5  # share of the shorter file's steps that the other has too: above it the two cover the same stretch
_EQUAL = 0.99  # share of common steps with equal values: above it the two are copies of one curve

Key = tuple[str, int | None]
Part = tuple[walk.Found, RunBuilder, Reader]


def merged(parts: list[Part], refused: list[FileReport]) -> Run:
    """One Run of all builders. `refused` are the reports of files that could not be read."""
    parts = _latest_run(parts)
    finished = [builder.finish() for _, builder, _ in parts]
    ranks = _file_ranks(parts, [series for series, _ in finished])
    several = len({rank for rank in ranks if rank is not None}) > 1
    gathered: dict[Key, list[tuple[int, Series]]] = {}
    for place, (series, _) in enumerate(finished):
        for (metric, rank), one in series.items():
            owner = rank
            if rank is not None and rank == parts[place][1].rank and not several:
                owner = None  # a lone rank0.jsonl is the run
            if rank is None and several:
                owner = ranks[place]
            gathered.setdefault((metric, owner), []).append((place, one))
    result: dict[Key, Series] = {}
    for (metric, rank), candidates in gathered.items():
        one = _joined(candidates, parts)
        result[metric, rank] = (
            one if one.rank == rank else Series(metric, rank, one.steps, one.values, one.lines, one.origin, one.raw)
        )
    config: dict[str, Any] = {}
    events: list[Event] = []
    for _, builder, _ in parts:
        config.update(builder.config)
        events += builder.events
    used = {one.raw for series, _ in finished for one in series.values()}
    unmapped = sorted({raw for _, names in finished for raw in names} - used)
    reports = [builder.report() for _, builder, _ in parts] + refused
    return Run(result, tuple(events), config, tuple(reports), tuple(unmapped))


def _latest_run(parts: list[Part]) -> list[Part]:
    """Formats that know runs by id may bring several: keep the one that was written last, and name the others."""
    times: dict[str, float] = {}
    for _, builder, _ in parts:
        if builder.run is not None:
            times[builder.run] = max(times.get(builder.run, 0.0), builder.run_time)
    if len(times) < 2:
        return parts
    keep = max(times, key=lambda run: (times[run], run))
    others = sorted(run for run in times if run != keep)
    homes = {part[0].path.parent for part in parts if part[1].run == keep}
    left = {part[0].path.parent for part in parts if part[1].run not in (None, keep)}
    foreign = [folder for folder in left if not any(home.is_relative_to(folder) for home in homes)]
    kept = [
        part
        for part in parts
        if part[1].run == keep or (part[1].run is None and not any(part[0].path.is_relative_to(f) for f in foreign))
    ]
    named = ", ".join(others[:3]) + (", ..." if len(others) > 3 else "")
    note = f"run {keep} is read; {len(others)} other runs are left out ({named})"
    for _, builder, _ in kept:
        if builder.run == keep:
            builder.problem(None, note, "name one run's folder or file to read it", "other-runs")
            break
    return kept


def _file_ranks(parts: list[Part], finished: list[dict[Key, Series]]) -> list[int | None]:
    """The rank of each file: as named (`rank3.log`), or the number in `train.3.csv` where they cover the same steps."""
    ranks = [found.rank for found, _, _ in parts]
    groups: dict[tuple[str, str], list[tuple[int, int]]] = {}
    for place, (found, builder, _) in enumerate(parts):
        if ranks[place] is None and (hit := walk.numbered(found.name)) is not None:
            groups.setdefault((hit[0], builder.reader), []).append((hit[1], place))
    for members in groups.values():
        members.sort()
        if len(members) > 1 and _same_stretch([finished[place] for _, place in members]):
            for number, place in members:
                ranks[place] = number
    return ranks


def _same_stretch(group: list[dict[Key, Series]]) -> bool:
    first = next(iter(group[0].values()), None)
    if first is None:
        return False
    for other in group[1:]:
        twin = other.get((first.metric, None))
        if twin is None or _overlap(first, twin) < _SAME or _copies(first, twin):
            return False
    return True


def _overlap(one: Series, other: Series) -> float:
    mine, its = np.unique(one.steps), np.unique(other.steps)
    return len(np.intersect1d(mine, its, assume_unique=True)) / max(1, min(len(mine), len(its)))


def _copies(one: Series, other: Series) -> bool:
    """True where the shorter one is told again by the longer one (checkpoints that carry the log so far)."""
    _, mine, its = np.intersect1d(one.steps, other.steps, return_indices=True)
    if len(mine) < min(len(np.unique(one.steps)), len(np.unique(other.steps))) * _EQUAL or not len(mine):
        return False
    same = np.isclose(one.values[mine], other.values[its], rtol=1e-5, atol=1e-12, equal_nan=True)
    return bool(np.mean(same) >= _EQUAL)


def _joined(candidates: list[tuple[int, Series]], parts: list[Part]) -> Series:
    """One series of all that were read under one metric and rank."""
    kept: list[tuple[int, Series]] = []
    for place, one in sorted(candidates, key=lambda c: (-len(c[1]), c[0])):  # the fullest first: it sets the reader
        if not kept:
            kept.append((place, one))
            continue
        found, builder, reader = parts[place]
        if builder.reader != parts[kept[0][0]][1].reader:
            continue
        beside = getattr(reader, "PARTS", False) and all(found.path.parent == parts[p][0].path.parent for p, _ in kept)
        if not beside and any(_copies(one, other) for _, other in kept):
            continue
        if beside or all(_overlap(one, other) <= _SAME for _, other in kept):
            kept.append((place, one))
        else:
            first = parts[kept[0][0]][0].name
            text = f"{one.metric} has other values for the steps that {first} covers; left out as another run"
            builder.problem(None, text, "read it by itself, or use `playbook compare`", "another-run")
    if len(kept) == 1:
        return kept[0][1]
    kept.sort(key=lambda item: item[0])
    head = kept[0][1]
    names = [one.origin.path for _, one in kept]
    origin = Origin(f"{names[0]} .. {names[-1]}", None, head.origin.reader)
    steps = np.concatenate([one.steps for _, one in kept])
    values = np.concatenate([one.values for _, one in kept])
    return Series(head.metric, head.rank, steps, values, None, origin, head.raw)
