"""What a restart of the steps did to the loss: a clean resume, a jump, a fresh start, a second writer.

What it sees
    Each place where the steps go back, an event tells of a resume, another file of the run begins, or the learning
    rate goes back to the beginning of its course in the middle of it. The first rows behind it are compared with the
    rows of a lower step that they continue: `clean`, `jump` (above them), `to-initial` (back at the first loss of
    all). A segment that begins where the run began is `restart-from-init`; one that repeats the values of the same
    steps is `two-writers`; one that repeats the noise of other steps is `repeated-samples`. Where the last steps
    before the end were trained again, rows are compared with themselves: `same-batches` or `other-batches` at the same
    steps by the noise of the rows, `update-differs` where the first row is the same and the next ones are not.
Why it matters
    What is not restored (optimizer, scheduler, sampler, random state, weights) shows in the first steps after a
    resume and nowhere else so clearly (D2-sym-4, D2-resume-1). A first row that is the same clears weights and data;
    what then departs is what the update is made of. Told only where gradient norm and learning rate are the same, too,
    so that the moments remain (D2-res-4).
Blind when
    No loss was logged, or nothing tells of a resume: the log begins with it.
Easily mistaken for
    Several runs in one file, a counter that begins again each epoch, a rollback after a fault (the replaced tail is
    worse, not better), a warm-up of the learning rate after the resume.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from playbook.detectors import stats
from playbook.detectors.shared import DOUBTFUL, MENTION, Shared, answer, blind, finding
from playbook.detectors.stats.curve import Curve, at_steps, since
from playbook.detectors.stats.seam import ROWS, normal, step_up, tied
from playbook.detectors.stats.segments import Segment, overlap
from playbook.findings import Finding, Scan

NAME = "resume"
NEEDS = ("loss",)
OPTIONAL = ("lr",)
KINDS = (
    *("jump", "clean", "restart-from-init", "two-writers", "to-initial", "repeated-samples", "update-differs"),
    *("same-batches", "other-batches"),
)

BEFORE, AFTER, LATER = 32, 8, 64  # rows compared
Z = 5.0  # of the difference of the two medians
RISE = math.log(1.03)
STEP = math.log(1.06)  # of a step that only the fit of a few rows finds
LARGE, LASTS = math.log(1.2), math.log(1.4)  # the latter also where it stays, as the level of other data does
SWITCH, PLAN = math.log(1.6), 100  # a planned switch of the data stays below it, and steps to what tells of one
NEAR_FIRST = 0.1  # relative distance to the first loss of all that counts as being back there
ECHO_ROWS, ECHO, ECHO_SHORT = 32, 0.75, 0.9  # correlation of the noise with that of other steps, long and short
FAR = 4.0  # sigma
NEIGHBOURS, ANYWAY = 512, 0.75  # rows around a jump, and share of it that is an ordinary rise among them
NEAR = 4096  # rows before a resume among which they are looked for
PAIRS, PAIRS_MOST = 6, 64  # steps trained twice that are compared
PAIRED, UNPAIRED, UNPAIRED_ROWS = 0.6, 0.2, 24  # correlation of the rows of steps trained twice: same, other batches
EQUAL = 2e-3  # relative: the first row of the same weights and batch (kernels and reductions may differ in order)


def look(shared: Shared) -> Scan:
    if gap := shared.lacks(NEEDS):
        return blind(NAME, gap)
    loss = shared.loss
    assert loss is not None
    found: list[Finding] = []
    if loss.mixed:
        text = "steps go back every few rows: several writers in one file, sorted by step here"
        found.append(finding(NAME, "two-writers", loss, 0, text, 0.6))
    for seg in shared.segments[1:]:
        found += _judged(shared, seg)
    restarts = sum(seg.by != "rate" for seg in shared.segments[1:])
    if not found and not restarts:
        return blind(NAME, "no restart of the steps and no resume event in this run")
    return answer(NAME, found, f"{restarts} restarts")


def _judged(shared: Shared, seg: Segment) -> list[Finding]:
    """What one restart of the steps did."""
    loss = shared.loss
    assert loss is not None
    own = seg.lo + np.flatnonzero(shared.good[seg.lo : seg.hi])
    if not len(own):
        return []
    index, step = int(own[0]), int(loss.steps[own[0]])
    back = float(int(loss.steps[seg.lo - 1]) - step)
    if seg.kind == "rewrite":
        text = f"steps from {step} on are written again with the same values: a second writer or a copy of the log"
        return [finding(NAME, "two-writers", loss, index, text, 0.85, numbers={"steps_back": back})]
    if seg.kind == "init":
        text = f"steps begin again at {step} with a loss of {stats.number(float(loss.values[index]))}: a fresh start"
        return [finding(NAME, "restart-from-init", loss, index, text, 0.6, numbers={"steps_back": back})]
    if len(seg.before) < 3:
        return []
    pairs = _paired(shared, seg, own)
    change = _change(shared, seg, own, pairs)
    numbers = {"level_before": change.before, "level_after": change.after, "z": change.z, "steps_back": back}
    numbers |= {"rise": change.rise, "times": change.after / change.before if change.before else 0.0}
    if found := _back_at_first(shared, seg, own, change, numbers):
        return [found]
    out = _level(shared, seg, own, change, pairs, numbers)
    if pairs is not None:
        if found := _other_update(shared, seg, index, pairs, numbers):
            out.append(found)
        out += _batches(loss, index, pairs)
    if echo := None if seg.by == "rate" else _echo(shared, seg, own):
        lag, strength = echo
        text = f"{_where(seg, step)} the noise repeats that of {lag} steps before (correlation {strength:.2f})"
        more = {**numbers, "lag": float(lag), "correlation": strength}
        # a file an epoch, each in the order of the first, repeats itself, too
        sure = 0.75 if seg.by in ("steps", "event") else DOUBTFUL
        out.append(finding(NAME, "repeated-samples", loss, index, text, sure, numbers=more))
    return out


@dataclass(frozen=True, slots=True)
class Change:
    """Levels of the loss: before a resume (what it would be by now) and after it; the rise in x, its z, rows after."""

    before: float
    after: float
    rise: float
    z: float
    rows: int


def _change(shared: Shared, seg: Segment, own: np.ndarray, pairs: Pairs | None) -> Change:
    """The levels on both sides by their medians; where those tell nothing, by a fit to the nearest rows."""
    loss, dom = shared.loss, shared.domain
    assert loss is not None
    x_before, x_after = dom.x(loss.values[seg.before[-BEFORE:]]), dom.x(loss.values[own[:AFTER]])
    old, new = float(np.median(x_before)), float(np.median(x_after))
    # rows that go on falling: what the level would be by now, but not below the last ones of a fall that slows down
    drift = stats.slope(x_before) * len(x_before) / 2.0 if len(x_before) >= 8 else 0.0
    replaced = _replaced(shared, seg)
    parts = [seg.before[-256:], *((replaced, own[: 2 * AFTER]) if len(seg.before) < BEFORE else ())]
    changes = np.concatenate([np.diff(dom.x(loss.values[part])) for part in parts])
    quick = max(stats.mad_sigma(changes) / math.sqrt(2.0), 1e-4)
    sigma = max(quick, stats.mad_sigma(x_before))
    expected = old + min(drift, 0.0)
    if drift < -2.0 * quick:  # a fall is no noise
        last = x_before[-BEFORE // 2 :]
        sigma = max(quick, stats.mad_sigma(last - stats.slope(last) * np.arange(len(last))))
    if drift < -sigma:
        expected = max(expected, min(old, float(np.median(x_before[-AFTER:]))))
    rise = new - expected
    z = rise / (1.25 * sigma * math.sqrt(1.0 / len(x_before) + 1.0 / len(x_after)))
    if len(own) >= 2 * AFTER and not _same_rate(shared, seg):
        # another learning rate shows in the rows that follow, not in the first ones
        later = dom.x(loss.values[own[AFTER : AFTER + LATER]])
        rise = max(rise, float(np.median(later)) - expected)
        z = rise / (1.25 * sigma * math.sqrt(1.0 / len(x_before) + 1.0 / len(later)))
        new = expected + rise
    z /= tied(dom.x(loss.values[seg.before[-LATER:]]))
    if len(x_before) < AFTER:
        z = normal(z, len(changes) / 2.0)  # so few rows hardly tell their own scatter
    if z <= Z or rise <= RISE:
        rows = np.concatenate([seg.before[-ROWS:], replaced])[-ROWS:]
        sides = [(loss.steps[part], dom.x(loss.values[part])) for part in (rows, own[:ROWS])]
        step, sure = step_up(*sides)
        if sure > Z and step > STEP:
            rise, z, new = step, sure, expected + step
    if pairs is not None and pairs.same_batches and (pairs.rise > 0) == (rise > 0) and abs(pairs.z) > abs(z):
        rise, z = pairs.rise, pairs.z
    return Change(dom.value(expected), dom.value(new), rise, z, len(x_after))


def _replaced(shared: Shared, seg: Segment) -> np.ndarray:
    """The last rows of the dead job at steps that were trained again: what the level was there."""
    loss = shared.loss
    assert loss is not None
    lo = max(0, seg.lo - BEFORE)
    rows = lo + np.flatnonzero(shared.good[lo : seg.lo])
    steps = loss.steps[rows]
    own = np.flatnonzero(np.diff(steps) < 0)
    rows = rows[own[-1] + 1 :] if len(own) else rows
    return rows[loss.steps[rows] >= loss.steps[seg.lo]]


def _back_at_first(
    shared: Shared, seg: Segment, own: np.ndarray, change: Change, numbers: dict[str, float]
) -> Finding | None:
    """The weights of the beginning: a loss that had come down is back at the first one of all."""
    loss = shared.loss
    assert loss is not None
    begin = seg.before[0] if len(seg.before) < 4096 else int(np.argmax(shared.good))
    first = float(loss.values[begin])
    came_down = abs(first) > 0 and (first - change.before) > 0.2 * abs(first) and change.z > Z
    near = float(np.median(loss.values[own[:3]])) > first - NEAR_FIRST * abs(first)
    told = seg.by in ("steps", "event") or change.z > 2 * Z
    if not (came_down and near and told and change.rise > LARGE) or _rises_anyway(shared, seg, own, change.rise):
        return None
    n = stats.number
    text = f"{_where(seg, int(loss.steps[own[0]]))} the loss is {n(change.after)}, near its first {n(first)}"
    return finding(NAME, "to-initial", loss, int(own[0]), f"{text} (before {n(change.before)})", 0.93, numbers=numbers)


def _level(
    shared: Shared, seg: Segment, own: np.ndarray, change: Change, pairs: Pairs | None, numbers: dict[str, float]
) -> list[Finding]:
    """Whether the loss goes on at its level or jumps above it."""
    loss = shared.loss
    assert loss is not None
    n, index, step = stats.number, int(own[0]), int(loss.steps[own[0]])
    rise, z = change.rise, change.z
    where = _where(seg, step)
    if z > Z and rise > RISE and (rise > LARGE or z > 2 * Z or rise > math.log(1.06)):
        text = f"{where} the loss is {n(change.after)}, before it {n(change.before)}"
        sure = 0.9 if rise > LARGE and z > 2 * Z else 0.76 if change.rows >= 4 else 0.65
        if seg.by in ("file", "rate"):
            sure = min(sure, _unsaid(shared, seg, own, change))
        elif _rate_again(shared, seg) and shared.lr_restarts(step, 200.0, change.after):
            sure = min(sure, MENTION)  # a restart of the schedule, by plan: the rate was restored
        tied = pairs is not None and pairs.same_batches
        if shared.no_measure or not shared.domain.log or (not tied and _rises_anyway(shared, seg, own, rise)):
            sure = min(sure, MENTION)
        return [finding(NAME, "jump", loss, index, f"{text} ({z:.0f} sigma)", sure, numbers=numbers)]
    if seg.by == "rate":
        return []  # a new stage by plan, as far as the loss tells
    text = f"{where} the loss goes on at {n(change.after)} (before {n(change.before)})"
    return [finding(NAME, "clean", loss, index, text, 0.9 if len(own) >= 3 else 0.6, numbers=numbers)]


def _where(seg: Segment, step: int) -> str:
    if seg.by == "file":
        return f"where another file of the run begins at step {step}"
    if seg.by == "rate":
        return f"where the learning rate begins its course again at step {step}"
    return f"after the resume at step {step}"


def _unsaid(shared: Shared, seg: Segment, own: np.ndarray, change: Change) -> float:
    """The most that a jump is trusted where no event and no step that goes back says that the run was resumed."""
    loss = shared.loss
    assert loss is not None
    step = int(loss.steps[own[0]])
    anew = step in shared.begins_anew
    sure = change.z > (1.5 * Z if change.rise > LASTS else 2 * Z) or (anew and change.rise > LARGE)
    if not sure or shared.lr_restarts(step, 200.0, change.after):
        return MENTION
    if change.rise < SWITCH and any(shared.changes(metric, step) for metric in ("seq_len", "batch_size")):
        return MENTION
    told = any(e.step is not None and abs(e.step - step) <= PLAN for e in shared.events("data", "stage", "mixture"))
    if change.rise < SWITCH and (told or shared.near_epoch(step)):
        return DOUBTFUL
    # a smaller one that goes away again, or where the rate says the same, is no new level of new data
    later = shared.domain.x(loss.values[own[min(2 * LATER, len(own) // 2) :][: 2 * LATER]])
    expected = math.log(change.before) if shared.domain.log else 0.0
    relaxes = len(later) >= AFTER and float(np.median(later)) < expected + 0.3 * change.rise
    if change.rise > LASTS or (change.rise > LARGE and (relaxes or anew)):
        return 0.8
    if relaxes and anew:
        return 0.76
    return MENTION if seg.by == "rate" else DOUBTFUL  # a little more that stays, in one file: a new stage


def _rises_anyway(shared: Shared, seg: Segment, own: np.ndarray, rise: float) -> bool:
    """True where the loss rises by nearly as much from some rows to the next in other places: it wanders."""
    loss = shared.loss
    assert loss is not None
    for rows in (seg.before[-NEIGHBOURS:-AFTER], own[AFTER:NEIGHBOURS]):
        x = shared.domain.x(loss.values[rows])
        if len(x) < BEFORE + 2 * AFTER:
            continue
        levels = np.median(np.lib.stride_tricks.sliding_window_view(x, BEFORE), axis=1)[:-AFTER]
        after = np.median(np.lib.stride_tricks.sliding_window_view(x, AFTER), axis=1)[BEFORE:]
        if float((after - levels).max()) > ANYWAY * rise:
            return True
    return False


def _other_update(shared: Shared, seg: Segment, index: int, pairs: Pairs, numbers: dict[str, float]) -> Finding | None:
    """The first step after the resume is the same as before, and the ones that follow are not."""
    loss = shared.loss
    assert loss is not None
    step = int(loss.steps[index])
    departs = pairs.first <= EQUAL and pairs.rise > RISE / 2 and pairs.z > Z
    if not (departs and _same_rate(shared, seg) and _same_gradient(shared, step)):
        return None
    text = f"step {step} gives the same loss as before the resume, the {pairs.count - 1} steps after it are off by"
    text += f" {math.expm1(min(pairs.rise, 50.0)):.1%} (median): the update differs"
    return finding(NAME, "update-differs", loss, index, text, 0.8, numbers={**numbers, "rise": pairs.rise})


@dataclass(frozen=True, slots=True)
class Pairs:
    """Steps trained twice, before and after a resume: median rise in x, its z, relative gap of the first pair."""

    count: int
    rise: float
    z: float
    first: float
    tied: float
    same_batches: bool


def _batches(loss: Curve, index: int, pairs: Pairs) -> list[Finding]:
    """Whether steps trained twice had the same batches: what hardness they have shows in the noise of both."""
    numbers = {"steps": float(pairs.count), "correlation": pairs.tied}
    text = f"the noise of the {pairs.count} steps trained twice correlates by {pairs.tied:.2f}"
    if pairs.same_batches:
        return [finding(NAME, "same-batches", loss, index, f"{text}: the same batches", 0.8, numbers=numbers)]
    if pairs.count >= UNPAIRED_ROWS and pairs.tied < UNPAIRED:
        return [finding(NAME, "other-batches", loss, index, f"{text}: other batches", 0.65, numbers=numbers)]
    return []


def _paired(shared: Shared, seg: Segment, own: np.ndarray) -> Pairs | None:
    """The rows behind a resume against those of the same steps that the dead job had already logged."""
    loss, dom = shared.loss, shared.domain
    assert loss is not None
    lo = max(0, seg.lo - NEAR)
    old = lo + np.flatnonzero(shared.good[lo : seg.lo])[-4 * PAIRS_MOST :]
    seen, again = overlap(loss, old, own[:PAIRS_MOST])
    if len(seen) < PAIRS or int(loss.steps[own[0]]) not in set(loss.steps[old].tolist()):
        return None
    first = abs(float(again[0] - seen[0])) / max(abs(float(seen[0])), 1e-12)
    x, y = dom.x(seen), dom.x(again)
    off = (y - x)[1:]
    scale = 1.25 * max(stats.mad_sigma(off), 1e-4) / math.sqrt(len(off))
    a, b = np.diff(x), np.diff(y)
    size = math.sqrt(float(a @ a) * float(b @ b))
    tied = float(a @ b) / size if size > 0 else 0.0
    rise = float(np.median(off))
    same = tied > PAIRED or (first <= EQUAL and tied > UNPAIRED)
    return Pairs(len(seen), rise, rise / scale, first, tied, same)


def _same_gradient(shared: Shared, step: int) -> bool:
    """True unless the gradient norm of a step trained twice is logged and is another one the second time."""
    grad = shared.curve("grad_norm")
    norms = grad.values[(grad.steps == step) & grad.finite] if grad is not None else np.empty(0)
    return len(norms) < 2 or abs(float(norms[-1] - norms[-2])) <= 0.05 * abs(float(norms[-2]))


def _same_rate(shared: Shared, seg: Segment) -> bool:
    """True unless the learning rate is logged and is another one than at the same steps before."""
    return _rate_again(shared, seg) is not False


def _rate_again(shared: Shared, seg: Segment) -> bool | None:
    """Whether the learning rate is that of the same steps before; None where no step has two."""
    loss, lr = shared.loss, shared.curve("lr")
    assert loss is not None
    if lr is None:
        return None
    again = lr.restarts[lr.steps[lr.restarts] == loss.steps[seg.lo]]
    if not len(again):
        return None
    k = int(again[-1])
    steps, values = lr.steps[k:][:PAIRS], lr.values[k:][:PAIRS]
    near = slice(since(lr, k, int(steps[0]), int(steps.max())), k)
    before = at_steps(Curve("lr", lr.steps[near], lr.values[near], lr.rows[near], lr.series), steps)
    return bool(np.all(np.abs(values - before) <= 0.05 * np.abs(before)))


def _echo(shared: Shared, seg: Segment, own: np.ndarray) -> tuple[int, float] | None:
    """Same losses in the same order at other steps: (lag in steps, correlation), or None."""
    # the rows just before, and those of the beginning: a sampler that is not restored starts there
    first = np.flatnonzero(shared.good[: min(seg.lo, 1024)])
    return _echo_in(shared, seg.before[-2048:], own[:256]) or (
        _echo_in(shared, first, own[:256]) if len(seg.before) > 2048 else None
    )


def _echo_in(shared: Shared, old: np.ndarray, new: np.ndarray) -> tuple[int, float] | None:
    loss, dom = shared.loss, shared.domain
    assert loss is not None
    if len(new) < 24 or len(old) < 32:
        return None
    a, b = _noise(dom.x(loss.values[old])), _noise(dom.x(loss.values[new]))
    size = min(len(b), len(a))
    b = b[:size] - b[:size].mean()
    windows = np.lib.stride_tricks.sliding_window_view(a, size)
    centred = windows - windows.mean(axis=1, keepdims=True)
    scale = np.sqrt((centred**2).sum(axis=1) * (b @ b))
    with np.errstate(invalid="ignore", divide="ignore"):
        strength = np.where(scale > 0, centred @ b / scale, 0.0)
    best = int(np.argmax(strength))
    lag = int(loss.steps[new[0]] - loss.steps[old[best]])
    if lag > 0 and _repeats_anyway(a, len(a) - best):
        return None
    least = ECHO if size >= ECHO_ROWS else ECHO_SHORT
    # a slope, or a bend that a schedule repeats, is no noise: it goes with the second differences
    with np.errstate(invalid="ignore", divide="ignore"):
        bends = float(np.corrcoef(np.diff(windows[best]), np.diff(b))[0, 1]) if strength[best] > least else 0.0
    return (lag, float(strength[best])) if min(float(strength[best]), bends) > least and lag > 0 else None


def _repeats_anyway(a: np.ndarray, rows: int) -> bool:
    """True where the rows before the resume already repeat at this distance: one order of the data each epoch."""
    return len(a) >= rows + 24 and stats.lag_correlation(a, rows) > 0.5


def _noise(x: np.ndarray) -> np.ndarray:
    """The rows without their slow part; one that is far off may not speak for all."""
    step = np.diff(x)
    limit = FAR * stats.mad_sigma(step)
    return np.clip(step, -limit, limit) if limit > 0 else step
