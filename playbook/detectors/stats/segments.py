"""Where a curve goes back in steps, and what follows what: resume, fresh start, a second writer, a counter set to zero.

A step that goes back is no error. The rows of a resumed segment are judged against the rows that they continue
(those of a lower step), never against the tail that they replace.
"""

from __future__ import annotations

import bisect
import itertools
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

import numpy as np

from playbook.detectors.stats.curve import Curve, Domain, noise

Kind = Literal["first", "resume", "init", "rewrite", "counter"]
By = Literal["steps", "event", "file", "rate"]
CONTEXT = 4096  # rows before a segment that are worth knowing
SAME = 1e-3  # relative: two values of one step that are this close were written by one computation


@dataclass(frozen=True, eq=False)
class Segment:
    """Rows lo..hi-1 of a curve, without a step that goes back.

    kind    first; resume (goes on from an earlier step); counter (goes on, steps count from zero again);
            init (starts anew); rewrite (the values of steps already seen, once more, and nothing behind them)
    before  indices of the finite rows that it continues, in order, at most CONTEXT; empty for first, init and rewrite
    by      what tells of it: the steps (they go back), else a mark: an event, the begin of a file, the learning rate
    """

    lo: int
    hi: int
    kind: Kind
    before: np.ndarray
    by: By = "steps"


def usable(curve: Curve) -> np.ndarray:
    """bool[n]: finite rows; a printed 0.0 in a curve that is otherwise well above zero is a hole, not a value."""
    good = curve.finite.copy()
    zero = good & (curve.values == 0.0)
    if zero.any():
        rest = curve.values[good & ~zero]
        if len(rest) and rest.min() > 0.0:
            good &= ~zero
    return good


def segments(curve: Curve, dom: Domain, good: np.ndarray, marks: Mapping[int, By] | None = None) -> list[Segment]:
    """The segments of a curve; `marks` are steps at which something else than the steps tells of a resume."""
    edges = [0, *curve.restarts.tolist(), len(curve)]
    out: list[Segment] = []
    lineage = np.empty(0, dtype=np.int64)
    for lo, hi in itertools.pairwise(edges):
        own = lo + np.flatnonzero(good[lo:hi])
        if not out:
            kind: Kind = "first"
        else:
            kind = _kind(curve, dom, lineage, own, int(curve.steps[lo]))
        if kind == "resume":
            before = lineage[curve.steps[lineage] < curve.steps[lo]]
        elif kind == "counter":
            before = lineage
        else:
            before = lineage[:0]
        out.append(Segment(lo, hi, kind, before[-CONTEXT:]))
        lineage = np.concatenate([before, own])[-4 * CONTEXT :]
    return _cut(out, curve, good, marks or {})


def _kind(curve: Curve, dom: Domain, old: np.ndarray, own: np.ndarray, start: int) -> Kind:
    if not len(old) or not len(own):
        return "resume" if len(old) and start > curve.steps[old[0]] else "init"
    seen, again = overlap(curve, old, own)
    first, last = int(curve.steps[old[0]]), int(curve.steps[old].max())
    later = start > first + max(2.0 * curve.spacing, 0.02 * (last - first))
    # a deterministic job that goes on from its checkpoint repeats the last rows, too, but then it goes further
    further = later and int(curve.steps[own].max()) > last + 2.0 * curve.spacing
    same = len(seen) >= 20 and np.mean(np.abs(again - seen) <= SAME * np.maximum(np.abs(seen), 1e-12)) > 0.8
    if same and not further:
        return "rewrite"
    if later:
        return "resume"
    x = dom.x(curve.values)
    sigma = noise(x[old])
    born, tail, now = np.median(x[old[:3]]), np.median(x[old[-16:]]), np.median(x[own[:3]])
    moved = born - tail > 5.0 * sigma and len(old) >= 16
    return "counter" if moved and abs(now - tail) < 0.3 * abs(now - born) else "init"


def overlap(curve: Curve, old: np.ndarray, own: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Values of the same steps before and after, as two arrays."""
    _, i, j = np.intersect1d(curve.steps[old], curve.steps[own], return_indices=True)
    return curve.values[old[i]], curve.values[own[j]]


def _cut(found: list[Segment], curve: Curve, good: np.ndarray, marks: Mapping[int, By]) -> list[Segment]:
    """Cut segments at the marks of a resume that no restart of the steps explains."""
    if not marks:
        return found
    near = 2 * curve.spacing
    # a mark at the step from which a restart goes on, or beside another one, tells nothing new
    known = sorted(int(curve.steps[seg.lo]) for seg in found[1:])
    fresh: list[tuple[int, By]] = []
    for step, by in marks.items():
        place = bisect.bisect_left(known, step)
        if all(abs(step - other) > near for other in known[max(0, place - 1) : place + 1]):
            known.insert(place, step)
            fresh.append((step, by))
    steps_of, kinds = [step for step, _ in sorted(fresh)], [by for _, by in sorted(fresh)]
    out: list[Segment] = []
    for seg in found:
        steps = curve.steps[seg.lo : seg.hi]
        cuts = dict(zip(np.searchsorted(steps, steps_of).tolist(), kinds, strict=True))
        begin, before, kind, by = seg.lo, seg.before, seg.kind, seg.by
        for cut in sorted(cut for cut in cuts if 0 < cut < len(steps)):
            out.append(Segment(begin, seg.lo + cut, kind, before, by))
            own = begin + np.flatnonzero(good[begin : seg.lo + cut])
            before = np.concatenate([before, own])[-CONTEXT:]
            begin, kind, by = seg.lo + cut, "resume", cuts[cut]
        out.append(Segment(begin, seg.hi, kind, before, by))
    return out


def lineages(curve: Curve, found: list[Segment], good: np.ndarray) -> list[np.ndarray]:
    """The curves that were really trained: for each fresh start the rows that led to its last state, as indices."""
    out: list[np.ndarray] = []
    group: list[Segment] = []
    for seg in [*found, None]:
        if group and (seg is None or seg.kind in ("init", "rewrite")):
            parts: list[np.ndarray] = []
            limit = np.inf
            for part in reversed(group):
                own = part.lo + np.flatnonzero(good[part.lo : part.hi])
                parts.append(own[curve.steps[own] < limit])
                limit = np.inf if part.kind == "counter" else min(limit, float(curve.steps[part.lo]))
            out.append(np.concatenate(parts[::-1]))
            group = []
        if seg is not None:
            group.append(seg)
    return out
