"""The GPUs' own numbers: heat, clock, load, memory, error counters.

What it sees
    `hot`, `reduced-clock`, `one-idle` (one GPU does nothing while the others are busy), `all-idle` (all of them wait
    for a part of the time in which they used to work), `all-busy` (they do not, though the run has become slow),
    `memory-growth`, `ecc-rising`, `xid`, `network-rising`: up to the onset of the loss fault, or over the whole run
    without one. Each value may be logged by rank or once.
Why it matters
    Hardware and network leave marks in counters that no loss curve has (D0-hw-1, D0-hw-2, D0-hw-3, D0-com-5). A GPU
    at 0 % beside seven at 100 % and idle power is the one that is missing in the collective.
Blind when
    None of these metrics and no Xid event was logged.
Easily mistaken for
    Counters that only carry old errors (level, not rise); heat without a lower clock; memory that grows in the
    first steps and then stays; pauses for evaluation.
"""

from __future__ import annotations

import re

import numpy as np

from playbook.detectors import stats
from playbook.detectors.onset import Onset, onset_of, scanned
from playbook.detectors.shared import DOUBTFUL, Shared, answer, blind
from playbook.detectors.stats.curve import Curve, fold
from playbook.findings import Finding, Scan
from playbook.series import Event

NAME = "gpu"
NEEDS = (("gpu_util", "gpu_temp", "gpu_clock", "gpu_power", "gpu_mem", "ecc_errors", "xid", "network_errors"),)
OPTIONAL = ("loss",)
KINDS = (
    *("hot", "reduced-clock", "one-idle", "all-idle", "all-busy", "memory-growth", "ecc-rising", "xid"),
    "network-rising",
)

HOT = 85.0  # degrees Celsius: data-centre GPUs slow down between 83 and 92
CLOCK = 0.85  # of the usual clock
IDLE, BUSY = 10.0, 80.0  # per cent
# Per cent of the time that they work at first, share that is left of it, and points that are lost.
WORKED, LESS, FALL = 60.0, 0.75, 20.0
GROWTH, TAU = 1.15, 0.7  # of the memory from the second quarter on
LAST = 16  # rows
# Xid of an event after which a run goes on: a row set aside, a note of the driver.
_GOES_ON = re.compile(r"Xid \([^)]*\): (?:(?:63|106|107|154)\b|\d+, Non-fatal)")
BACKGROUND = 5.0  # times the usual rate of network errors


def look(shared: Shared) -> Scan:
    xids = shared.events("xid")
    if (gap := shared.lacks(NEEDS)) and not xids:
        return blind(NAME, gap)
    begin = onset_of(shared)
    out: list[Finding] = []
    out += _hot(parts_of(shared, "gpu_temp", begin))
    idle = _idle(parts_of(shared, "gpu_util", begin))
    resting = {f.rank for f in idle}  # a GPU without work lowers its clock by itself
    out += [f for f in _clock(parts_of(shared, "gpu_clock", begin)) if f.rank is None or f.rank not in resting]
    out += idle or _together(shared, parts_of(shared, "gpu_util", begin))
    out += _memory(parts_of(shared, "gpu_mem", begin))
    out += _rising(parts_of(shared, "ecc_errors", begin), "ecc-rising", "ECC error counter")
    out += _rising(parts_of(shared, "network_errors", begin), "network-rising", "network error counter")
    out += _xid(parts_of(shared, "xid", begin), xids)
    return answer(NAME, out, "the GPUs' numbers are ordinary")


Part = tuple[int | None, Curve, np.ndarray]


def parts_of(shared: Shared, metric: str, begin: Onset | None) -> list[Part]:
    """(rank, curve, indices of its finite rows up to a little behind the onset) of each series of a metric."""
    out: list[Part] = []
    series = dict(shared.ranked.get(metric, {}).items())
    lone = shared.run.get(metric)
    for rank, s in [(None, lone), *series.items()]:
        if s is None or not len(s):
            continue
        curve = fold(s)
        index = np.flatnonzero(curve.finite)
        if begin is not None:
            index = index[curve.steps[index] <= begin.step + max(10, 2 * curve.spacing)]
        if len(index):
            out.append((rank, curve, index))
    return out


def _told(kind: str, rank: int | None, curve: Curve, row: int, text: str, sure: float, **numbers: float) -> Finding:
    who = f"rank {rank}: " if rank is not None else ""
    ranks = (rank,) if rank is not None else ()
    step = int(curve.steps[row])
    return Finding(
        NAME,
        kind,
        curve.metric,
        step,
        who + text,
        sure,
        rank=rank,
        ranks=ranks,
        numbers=numbers,
        origin=curve.origin(row),
    )


def _hot(parts: list[Part]) -> list[Finding]:
    out = []
    for rank, curve, index in parts:
        v = curve.values[index]
        level = float(np.median(v[-LAST:]))
        if level >= HOT:
            row = int(index[np.argmax(v >= HOT)])
            out.append(_told("hot", rank, curve, row, f"{level:.0f} degrees at the end", 0.85, degrees=level))
    return out[:32]


def _clock(parts: list[Part]) -> list[Finding]:
    out = []
    levels = [float(np.median(curve.values[index[-LAST:]])) for _, curve, index in parts]
    others = float(np.median(levels)) if len(levels) >= 3 else None
    for (rank, curve, index), level in zip(parts, levels, strict=True):
        v = curve.values[index]
        usual = float(np.quantile(v, 0.75)) if len(v) >= 2 * LAST else level
        reference = max(usual, others or 0.0)
        if reference > 0 and level < CLOCK * reference:
            row = int(index[np.argmax(v < 0.5 * (1 + CLOCK) * reference)])
            starts, _ = stats.runs(v < 0.5 * (1 + CLOCK) * reference)
            row = int(index[starts[-1]]) if len(starts) else row
            text = f"clock is {level:.0f} MHz, {reference:.0f} is usual"
            out.append(_told("reduced-clock", rank, curve, row, text, 0.8, clock=level, usual=reference))
    return out[:32]


def _idle(parts: list[Part]) -> list[Finding]:
    if len(parts) < 2:
        return []
    levels = np.array([float(np.median(curve.values[index[-5:]])) for _, curve, index in parts])
    scale = _to_percent(parts)
    idle = np.flatnonzero(levels * scale < IDLE)
    if (
        not len(idle)
        or len(idle) > max(1, len(levels) // 4)
        or float(np.median(np.delete(levels, idle))) * scale < BUSY
    ):
        return []
    out = []
    for k in idle.tolist():
        rank, curve, index = parts[k]
        starts, _ = stats.runs(curve.values[index] * scale < IDLE)
        busy = float(np.median(np.delete(levels, idle))) * scale
        text = f"utilisation {levels[k] * scale:.0f} % while the others are at {busy:.0f} %"
        out.append(
            _told("one-idle", rank, curve, int(index[starts[-1]]), text, 0.9, utilisation=float(levels[k] * scale))
        )
    return out


def _together(shared: Shared, parts: list[Part]) -> list[Finding]:
    """Whether all GPUs work for less of the time than they did, or as before in a run that has become slow."""
    from playbook.detectors import throughput

    if found := all_idle(parts):
        return [found]
    slow = [f for f in scanned(throughput, shared).findings if f.kind == "drops"]
    after = [curve.values[index[curve.steps[index] >= f.step]] for f in slow[:1] for _, curve, index in parts if f.step]
    levels = [_to_percent(parts) * float(np.median(v)) for v in after if len(v) >= LAST]
    if not levels or min(levels) < BUSY:
        return []
    _, curve, index = parts[0]
    text = f"utilisation stays at {min(levels):.0f} % while the run is slower"
    return [_told("all-busy", None, curve, int(index[-1]), text, 0.75, utilisation=min(levels))]


def all_idle(parts: list[Part]) -> Finding | None:
    """All GPUs work for a smaller part of the time at the end than at first: they wait for something."""
    if not parts or any(len(index) < 2 * LAST for _, _, index in parts):
        return None
    scale = _to_percent(parts)
    first = [scale * float(np.median(curve.values[index[: len(index) // 3]])) for _, curve, index in parts]
    last = [scale * float(np.median(curve.values[index[-LAST:]])) for _, curve, index in parts]
    if any(a < WORKED or b > LESS * a or a - b < FALL for a, b in zip(first, last, strict=True)):
        return None
    _, curve, index = parts[0]
    smooth = np.median(np.lib.stride_tricks.sliding_window_view(scale * curve.values[index], 5), axis=1)
    high = np.flatnonzero(smooth > (first[0] + last[0]) / 2.0)
    row = int(index[min(int(high[-1]) + 3, len(index) - 1)])
    text = f"utilisation of all falls from {np.median(first):.0f} % to {np.median(last):.0f} %"
    return _told("all-idle", None, curve, row, text, 0.85, before=float(np.median(first)), after=float(np.median(last)))


def _to_percent(parts: list[Part]) -> float:
    """100 where shares were logged. All rows of all GPUs tell: the last ones of idle GPUs are small in either unit."""
    return 100.0 if max(float(curve.values[index].max()) for _, curve, index in parts) <= 1.0 else 1.0


def _memory(parts: list[Part]) -> list[Finding]:
    out = []
    for rank, curve, index in parts:
        v = curve.values[index[len(index) // 4 :]]
        if len(v) < 12 or v[0] <= 0:
            continue
        blocks = stats.block_medians(v, max(1, len(v) // 24))
        first, last = float(blocks[0]), float(blocks[-1])
        in_one_place = float(np.max(np.diff(blocks))) >= 0.6 * (last - first)
        if last >= GROWTH * first and stats.trend(blocks) >= TAU and not in_one_place:
            text = f"memory grows from {stats.number(first)} to {stats.number(last)} without a break"
            row = int(index[len(index) // 4])
            out.append(_told("memory-growth", rank, curve, row, text, 0.8, first=first, last=last))
    return out[:32]


def _rising(parts: list[Part], kind: str, name: str) -> list[Finding]:
    out = []
    for rank, curve, index in parts:
        v = curve.values[index]
        if len(v) < 2:
            continue
        step = np.maximum(np.diff(v), 0.0)
        counter = bool(np.mean(np.diff(v) >= 0) > 0.95)
        if not counter:
            continue
        up = np.flatnonzero(step > 0)
        if not len(up):
            continue
        rate = step / np.maximum(np.diff(curve.steps[index]), 1)
        usual = float(np.median(rate))
        # a counter that always rises evenly is the background of a busy network
        first = up[np.argmax(rate[up] > BACKGROUND * usual)] if usual > 0 else up[0]
        if usual > 0 and (rate[up] <= BACKGROUND * usual).all():
            continue
        row = int(index[first + 1])
        total = float(v[-1] - v[0])
        text = f"{name} rises by {stats.number(total)}, first at step {int(curve.steps[row])}"
        out.append(_told(kind, rank, curve, row, text, 0.85, rise=total))
    return out[:32]


def _xid(parts: list[Part], events: list[Event]) -> list[Finding]:
    out = []
    for rank, curve, index in parts:
        hit = index[curve.values[index] > 0]
        if len(hit):
            code = float(curve.values[hit[0]])
            out.append(_told("xid", rank, curve, int(hit[0]), f"Xid {code:.0f} is reported", 0.9, code=code))
    for event in events[:32]:
        ranks = (event.rank,) if event.rank is not None else ()
        sure = 0.9 if _GOES_ON.search(event.text) is None else DOUBTFUL
        text = f"the log reports an Xid: {event.text.strip()[:120]}"
        out.append(
            Finding(NAME, "xid", "xid", event.step, text, sure, rank=event.rank, ranks=ranks, origin=event.origin)
        )
    return out[:32]
