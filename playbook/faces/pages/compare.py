"""What a fix changed: curves from before and after it laid over each other at the onset, and the same in numbers.

The axis counts steps from the onset. A run that goes on from a checkpoint counts as the one before it did, so the two
lie as their steps say; one that never comes near the onset by its own count has counted anew, and its first step is
laid at the onset.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from playbook.faces.pages.blocks import Block, Cell, Fold, Plain, Plot, Prose, Section, Table
from playbook.faces.pages.curve import number, plot
from playbook.faces.pages.shelf import Shelf
from playbook.workflow.records.published import Strip

Marks = Sequence[tuple[int, str, str]]


@dataclass(frozen=True, slots=True)
class Pair:
    """One metric before and after the fix; steps count from the onset. `anew`: the later run began to count again."""

    before: Strip
    after: Strip
    anew: bool


def pair(strips: Sequence[Strip], onset: int) -> Pair | None:
    """The curves of one metric at the onset, cut to what can be compared; None where one of the two is missing.

    Of the steps before the onset no more are kept than there are after it: a long calm run would press the rest
    against the edge.
    """
    before = next((s for s in strips if s.role == "before" and len(s.steps)), None)
    after = next((s for s in strips if s.role == "after" and len(s.steps)), None)
    if before is None or after is None:
        return None
    anew = int(after.steps.max()) < onset
    laid = [
        replace(before, steps=before.steps - onset),
        replace(after, steps=after.steps - (int(after.steps.min()) if anew else onset)),
    ]
    most = max(int(s.steps.max()) for s in laid)
    if most > 0:
        laid = [_from(s, -most) for s in laid]
    return Pair(laid[0], laid[1], anew)


def _from(strip: Strip, low: int) -> Strip:
    kept = strip.steps >= low
    return replace(strip, steps=strip.steps[kept], values=strip.values[kept])


def compared(shelf: Shelf, by_metric: dict[str, list[Strip]], onset: int, marks: Marks) -> Section | None:
    """The section, with the whole curves below a fold; None where nothing can be compared."""
    w = shelf.w
    pairs = {metric: found for metric, strips in by_metric.items() if (found := pair(strips, onset))}
    if not pairs:
        return None
    blocks: list[Block] = [Prose(w("Steps from the onset (step {n}).", n=onset))]
    if any(p.anew for p in pairs.values()):
        blocks.append(Prose(w("The run after the fix counts its steps anew: its first step is placed at the onset.")))
    blocks.append(_table(shelf, pairs))
    drawn = [plot(shelf, metric, (p.before, p.after), marks, onset) for metric, p in pairs.items()]
    blocks += [p for p in drawn if p is not None]
    whole = [plot(shelf, metric, strips, marks) for metric, strips in by_metric.items()]
    blocks.append(Fold(w("Whole curves"), tuple(p for p in whole if isinstance(p, Plot))))
    return Section("curves", w("Before and after the fix"), tuple(blocks))


def _table(shelf: Shelf, pairs: dict[str, Pair]) -> Table:
    """Metric by metric, from the onset on: highest, median, last, and how many steps had no finite number."""
    w = shelf.w
    rows: list[tuple[Cell, ...]] = []
    for metric, found in pairs.items():
        sides = [_after_onset(found.before), _after_onset(found.after)]
        for label, of in (
            (w("highest"), lambda v: number(float(v.max()))),
            (w("median"), lambda v: number(float(np.median(v)))),
            (w("last"), lambda v: number(float(v[-1]))),
        ):
            cells = [of(side[np.isfinite(side)]) if np.isfinite(side).any() else "–" for side in sides]
            rows.append(_row(metric, label, cells))
        missing = [int((~np.isfinite(side)).sum()) for side in sides]
        if any(missing):
            rows.append(_row(metric, w("NaN or Inf"), [str(n) for n in missing]))
    head = (w("From the onset on"), w("before the fix"), w("after the fix"))
    return Table(head, tuple(rows), compact=True)


def _row(metric: str, label: str, cells: Sequence[str]) -> tuple[Cell, ...]:
    return ((Plain(metric, code=True), Plain(f" {label}")), *(Plain(text) for text in cells))


def _after_onset(strip: Strip) -> np.ndarray:
    return np.asarray(strip.values[strip.steps >= 0])
