"""What several files say about one job -> one Run.

Two views of one curve (a CSV and a log) give the longer one; parts of one curve (a resumed job) are joined by their
first steps, in the order of the files where they cover the same steps or a counter begins again; files of ranks become
series of ranks; another run in the same folder is left out and named.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np

from playbook.readers import walk
from playbook.readers.base import COUNTED, Reader, RunBuilder
from playbook.series import Event, FileReport, Origin, Run, Series, Setting

_SAME = 0.5  # share of the shorter file's steps that the other has too: above it the two cover the same stretch
_EQUAL = 0.99  # share of common steps with equal values: above it the two are copies of one curve
_IDENTITY = "loss"  # the metric by which two files are known as one run or two
_LATER = 0.02  # share of the rows: a file that begins later than that does not begin with the run
# A loss this near to where the file before ended, by the way that it had come down there, goes on under a new counter.
_GOES_ON, _CAME_DOWN, _EDGE = 0.3, 0.2, 8  # share of the way, share of the first level, rows at an edge

Key = tuple[str, int | None]
Part = tuple[walk.Found, RunBuilder, Reader]
Finished = tuple[dict[Key, Series], list[str]]  # what a file holds, and the raw names that nothing covers
Placed = tuple[int, Series]  # what a file holds under one key, and the place of the file


def merged(parts: list[Part], refused: list[FileReport]) -> Run:
    """One Run of all builders. `refused` are the reports of files that could not be read."""
    parts = _latest_run(parts)
    _one_script(parts)
    finished = [builder.finish() for _, builder, _ in parts]
    moved = _by_epoch(parts, finished)
    for place, (series, unmapped) in enumerate(finished):
        if offset := moved.get(parts[place][1].path):
            finished[place] = {key: replace(one, steps=one.steps + offset) for key, one in series.items()}, unmapped
    foreign = _foreign(parts, [series for series, _ in finished])
    dropped = [parts[place][1].report() for place in sorted(foreign) if parts[place][1].problems]
    finished = [one for place, one in enumerate(finished) if place not in foreign]
    parts = [part for place, part in enumerate(parts) if place not in foreign]
    result: dict[Key, Series] = {}
    gathered = _gathered(parts, [series for series, _ in finished])
    kept = {key: _kept(candidates, parts) for key, candidates in gathered.items()}
    when = _order({key: own for key, (own, _) in kept.items()})
    for (metric, rank), candidates in gathered.items():
        own, others = kept[metric, rank]
        _tell(parts, others, metric, candidates)
        one = _joined(own, when)
        if one.rank != rank:
            one = replace(one, rank=rank)
        result[metric, rank] = one
    config: dict[str, Any] = {}
    settings: list[Setting] = []
    events: list[Event] = []
    slots = sorted(when)
    order = dict(zip(slots, sorted(slots, key=lambda place: (when[place], place)), strict=True))
    for place in range(len(parts)):
        _, builder, _ = parts[order.get(place, place)]
        config.update(builder.config)
        settings += builder.settings
        events += builder.events
    used = {one.raw for series, _ in finished for one in series.values()}
    unmapped = sorted({raw for _, names in finished for raw in names} - used)
    reports = [builder.report() for _, builder, _ in parts] + dropped + refused
    return Run(result, tuple(events), config, tuple(reports), tuple(unmapped), tuple(settings))


def _by_epoch(parts: list[Part], finished: list[Finished]) -> dict[str, int]:
    """Steps that were only counted begin at one in each file: how far a file is moved whose epochs begin later."""
    counted = [place for place, part in enumerate(parts) if any(p.code == COUNTED for p in part[1].problems)]
    epochs = {place: own for place in counted if (own := finished[place][0].get(("epoch", None))) is not None}
    epochs = {place: own for place, own in epochs.items() if len(own) > 2 and own.finite.all()}
    if len(epochs) < 2:
        return {}
    lead = epochs[min(epochs, key=lambda place: (float(epochs[place].values[0]), place))]
    rate = float(lead.steps[-1] - lead.steps[0]) / max(float(lead.values[-1] - lead.values[0]), 1e-12)
    out: dict[str, int] = {}
    for place, own in epochs.items():
        begin = int(lead.steps[0]) + round((float(own.values[0]) - float(lead.values[0])) * rate)
        if (offset := begin - int(own.steps[0])) > max(2, _LATER * len(lead)):
            out[parts[place][1].path] = offset
    return out


def _one_script(parts: list[Part]) -> None:
    """Of several job scripts in a folder none is known to be that of the run: their settings are left out."""
    scripts = [builder for found, builder, _ in parts if found.inside and builder.reader == "script"]
    for builder in scripts if len(scripts) > 1 else ():
        builder.config.clear()
        builder.settings.clear()
        what = f"one of {len(scripts)} job scripts here: its settings are left out"
        builder.problem(None, what, "name the script that started the run beside its folder", "several-scripts")


def _gathered(parts: list[Part], finished: list[dict[Key, Series]]) -> dict[Key, list[Placed]]:
    """What the files hold by metric and owner: (place of the file, series)."""
    ranks = _file_ranks(parts, finished)
    several = len({rank for rank in ranks if rank is not None}) > 1
    gathered: dict[Key, list[Placed]] = {}
    for place, series in enumerate(finished):
        for (metric, rank), one in series.items():
            owner = rank
            if rank is not None and rank == parts[place][1].rank and not several:
                owner = None  # a lone rank0.jsonl is the run
            if rank is None and several:
                owner = ranks[place]
            gathered.setdefault((metric, owner), []).append((place, one))
    return gathered


def _foreign(parts: list[Part], finished: list[dict[Key, Series]]) -> set[int]:
    """Files of another run: their loss contradicts the fullest one; what lies in their folder goes with them."""
    foreign: set[int] = set()
    for (metric, _), candidates in _gathered(parts, finished).items():
        if metric == _IDENTITY:
            _, others = _kept(candidates, parts)
            _tell(parts, others, metric, candidates)
            foreign |= others
    judged = {place for place, series in enumerate(finished) if any(metric == _IDENTITY for metric, _ in series)}
    homes = {parts[place][0].path.parent for place in judged - foreign}
    left = {parts[place][0].path.parent for place in foreign}
    left = {folder for folder in left if not any(home.is_relative_to(folder) for home in homes)}
    beside = {place for place, part in enumerate(parts) if any(part[0].path.is_relative_to(f) for f in left)}
    return foreign | (beside - judged)


def _tell(parts: list[Part], others: set[int], metric: str, candidates: list[Placed]) -> None:
    fullest = max((c for c in candidates if c[0] not in others), key=lambda c: (len(c[1]), -c[0]))[0]
    for place in sorted(others):
        text = f"{metric} has other values for the steps that {parts[fullest][0].name} covers; left out as another run"
        parts[place][1].problem(None, text, "read it by itself, or use `playbook compare`", "another-run")


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


def _joined(kept: list[Placed], when: dict[int, int]) -> Series:
    """One series of the parts of a curve; `when` is the order of the files where it is known."""
    if len(kept) == 1:
        return kept[0][1]
    known = all(place in when for place, _ in kept)
    ordered = [one for _, one in (sorted(kept, key=lambda item: when[item[0]]) if known else _by_step(kept))]
    head = ordered[0]
    names = [one.origin.path for one in ordered]
    origin = Origin(f"{names[0]} .. {names[-1]}", None, head.origin.reader)
    steps = np.concatenate([one.steps for one in ordered])
    values = np.concatenate([one.values for one in ordered])
    seams = tuple(np.cumsum([len(one) for one in ordered[:-1]]).tolist())
    return Series(head.metric, head.rank, steps, values, None, origin, head.raw, seams)


def _kept(candidates: list[Placed], parts: list[Part]) -> tuple[list[Placed], set[int]]:
    """(the parts of one curve in the order of the files, places of the files that contradict them)."""
    kept: list[Placed] = []
    others: set[int] = set()
    ends = {place: (one.steps.min(), one.steps.max()) for place, one in candidates if len(one)}
    for place, one in sorted(candidates, key=lambda c: (-len(c[1]), c[0])):  # the fullest first: it sets the reader
        found, builder, reader = parts[place]
        if kept and builder.reader != parts[kept[0][0]][1].reader:
            continue
        beside = getattr(reader, "PARTS", False) and all(found.path.parent == parts[p][0].path.parent for p, _ in kept)
        # a log in hundreds of pieces: only those are compared that share steps
        met = [other for p, other in kept if len(one) and len(other) and _meet(ends[place], ends[p])]
        if not beside and any(_copies(one, other) for other in met):
            continue
        if beside or all(_overlap(one, other) <= _SAME for other in met):
            kept.append((place, one))
        else:
            others.add(place)
    return sorted(kept, key=lambda item: item[0]), others


def _meet(one: tuple[int, int], other: tuple[int, int]) -> bool:
    return one[0] <= other[1] and other[0] <= one[1]


def _order(curves: dict[Key, list[Placed]]) -> dict[int, int]:
    """The files that hold parts of one loss -> their order, the same for all that they hold."""
    when: dict[int, int] = {}
    for (metric, _), kept in curves.items():
        if metric == _IDENTITY and len(kept) > 1:
            goes_on = any(_goes_on(a[1], b[1]) for a, b in pairwise(kept))
            when |= {place: k for k, (place, _) in enumerate(kept if goes_on else _by_step(kept))}
    return when


def _by_step(kept: list[Placed]) -> list[Placed]:
    """Parts of one curve by their first steps; as they came where two cover the same steps, for which of them was
    written later is not known."""
    ends = {place: (int(one.steps.min()), int(one.steps.max())) for place, one in kept if len(one)}
    ranked = sorted((item for item in kept if len(item[1])), key=lambda item: (*ends[item[0]], item[0]))
    for (a, _), (b, _) in pairwise(ranked):
        (first, last), (begin, end) = ends[a], ends[b]
        if min(last, end) - begin > _SAME * min(last - first, end - begin):
            return kept
    return ranked or kept


def _goes_on(before: Series, after: Series) -> bool:
    """True where a counter goes back and the loss, which had come down, is near its end and not where it began."""
    x, y = before.values[before.finite], after.values[after.finite]
    if min(len(x), len(y)) < 2 * _EDGE or int(after.steps[0]) >= int(before.steps[0]):
        return False
    born, tail = float(np.median(x[:3])), float(np.median(x[-_EDGE:]))
    came_down = born - tail > _CAME_DOWN * abs(born)
    return came_down and abs(float(np.median(y[:3])) - tail) < _GOES_ON * (born - tail)
