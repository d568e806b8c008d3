"""Where AFTER begins to go on from BEFORE: the rows of either run on their side of the resume, whatever the files hold.

AFTER may hold BEFORE's rows as well (a job that appends to its file, a trainer state that carries its history), or
both names may be one file: the rows that AFTER repeats from its beginning on are BEFORE's. A counter that begins at
zero again is kept apart from a run that does: the rows are moved to where they would go on.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import Literal

import numpy as np

from playbook.errors import PlaybookError
from playbook.series import Run, Series
from playbook.workflow.comparison.pairs import clean, correlation

Points = tuple[np.ndarray, np.ndarray]  # steps int64[n] and values float64[n], sorted by step

COPIED = 3  # leading rows that AFTER shares with BEFORE, step and value, before they count as BEFORE's
SAME_VALUE = 1e-9  # relative: a row that was copied, not computed again
BATCH_CLOSE = 0.04  # relative: token counts of packed batches vary
WHOLE_SEGMENT = 8  # rows up to AFTER's own next restart that are enough to judge by


@dataclass(frozen=True, slots=True)
class Check:
    """One property of the seam.

    status   ok; failed; changed (other than before, and not a fault by itself); unknown (not logged, too few rows)
    causes   what is known to break just this, most probable first
    weight   how directly a failure points at its causes: a rate that was read off says more than a loss that rose
    ranks    the ranks that failed, where it did not fail in the whole job
    """

    name: str
    status: Literal["ok", "failed", "changed", "unknown"]
    because: str
    causes: tuple[str, ...] = ()
    weight: float = 1.0
    ranks: tuple[int, ...] = ()


@dataclass(frozen=True)
class Seam:
    """The two runs around the resume.

    at       first step of the run after it, as logged
    last     last step of the run before it
    spacing  (before, after): steps from one logged loss to the next
    shift    what is added to AFTER's steps where its counter began again at zero, else 0
    broken_at  first step of AFTER whose loss is no number, as logged, where that begins at once or is never mended
    mended   a loss that was broken at once is a number again later
    wide     how many times as far as usual a noisy curve must stand out
    """

    before: Run
    after: Run
    at: int
    last: int
    spacing: tuple[int, int]
    shift: int = 0
    broken_at: int | None = None
    mended: bool = False
    pieces: dict[str, tuple[Points, Points]] = field(default_factory=dict)
    wide: float = 1.0

    def sides(self, name: str) -> tuple[Points, Points]:
        """The rows before the seam and those from it on (steps, values), steps on one axis."""
        (steps, values), later = self.whole(name)
        keep = steps < self.begin
        return (steps[keep], values[keep]), later

    def whole(self, name: str) -> tuple[Points, Points]:
        """All rows of the run before, those that were trained again included, and those after the seam."""
        return self.pieces.get(name, _EMPTY)

    @property
    def begin(self) -> int:
        """First step after the seam on BEFORE's axis."""
        return self.at + self.shift

    @cached_property
    def gap(self) -> int:
        """Steps that neither run logged between the two, in excess of the usual distance; 0 where steps repeat."""
        return max(0, self.begin - self.last - max(self.spacing))

    @cached_property
    def batch_ratio(self) -> float | None:
        """How many times the tokens (or samples) of a step the run after takes; None where neither is logged."""
        past, next_ = self.sides("tokens")
        if len(past[0]) >= 4 and len(next_[0]) >= 4:
            was, now = per_step((past[0][-50:], past[1][-50:])), per_step((next_[0][:50], next_[1][:50]))
            if was > 0 and now > 0:
                return now / was
        (_, old), (_, new) = self.sides("batch_size")
        return float(new[0] / old[-1]) if len(old) and len(new) and old[-1] > 0 and new[0] > 0 else None

    @property
    def other_batch(self) -> bool:
        return self.batch_ratio is not None and abs(self.batch_ratio - 1) > BATCH_CLOSE

    def repeated(self, name: str) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """(steps, before, after) at the steps that both logged."""
        (sa, va), (sb, vb) = self.whole(name)
        steps, ia, ib = np.intersect1d(sa, sb, assume_unique=True, return_indices=True)
        return steps, va[ia], vb[ib]


_EMPTY: tuple[Points, Points] = (
    (np.empty(0, np.int64), np.empty(0)),
    (np.empty(0, np.int64), np.empty(0)),
)


def per_step(points: Points) -> float:
    """How much a counter grows a step (median)."""
    steps, values = points
    growth = np.diff(values) / np.maximum(np.diff(steps), 1)
    return float(np.median(growth)) if len(growth) else 0.0


def find(before: Run, after: Run) -> Seam:
    """The seam of two runs. Raises `PlaybookError` where one has no loss or the second adds nothing to the first."""
    old, new = _loss("BEFORE", before), _loss("AFTER", after)
    copied = _copied(old, new)
    # BEFORE's rows up to `end` are before the resume, AFTER's from `start` on behind it
    end, start = len(old), copied
    if copied == len(new):
        if not len(new.restarts):
            raise PlaybookError(
                _where("AFTER", after),
                "holds no row that BEFORE does not hold, and no step goes back in it",
                "name the file of the resumed part",
            )
        end = start = int(new.restarts[-1])
    pieces = {}
    for name in sorted(set(before.metrics) & set(after.metrics)):
        one, two = before.one(name), after.one(name)
        assert one is not None and two is not None
        pieces[name] = (
            clean(_rows(one, 0, _place(one, old, end))),
            clean(_first_segment(_rows(two, _place(two, new, start), len(two)))),
        )
    (sb, _), (sa, _) = pieces["loss"]
    own = _first_segment(_rows(new, start, len(new)))
    bad = _not_finite(own)
    if not len(sb) or (not len(sa) and bad is None):
        raise PlaybookError(
            _where("AFTER", after), "has no finite loss after the resume", "look at it with `playbook ingest`"
        )
    at, last = int(own.steps.min()), int(sb[-1])
    spacing = (_spacing(sb), _spacing(sa))
    over = _starts_over(sb, at, spacing) and not _trained_again(pieces["loss"])
    shift = last + spacing[1] - at if over else 0
    if shift:
        pieces = {name: (one, (two[0] + shift, two[1])) for name, (one, two) in pieces.items()}
    return Seam(before, after, at, last, spacing, shift, bad, bool(own.finite[-1]), pieces)


def _loss(side: str, run: Run) -> Series:
    series = run.one("loss")
    if series is None:
        raise PlaybookError(_where(side, run), "has no loss", "name its column with --map loss=COLUMN")
    # an AFTER that is no number throughout is no bad file but a broken resume
    if not len(series) or (side == "BEFORE" and not series.finite.any()):
        raise PlaybookError(_where(side, run), "has no finite loss", "look at it with `playbook ingest`")
    return series


def _copied(old: Series, new: Series) -> int:
    """How many leading rows of `new` are rows of `old`, step and value: 0 unless it begins where `old` begins."""
    size = min(len(old), len(new))
    same = old.steps[:size] == new.steps[:size]
    a, b = old.values[:size], new.values[:size]
    with np.errstate(invalid="ignore"):
        same &= (np.abs(a - b) <= SAME_VALUE * np.abs(a)) | (np.isnan(a) & np.isnan(b)) | (a == b)
    count = size if same.all() else int(np.argmin(same))
    return count if count >= COPIED else 0


def _place(series: Series, loss: Series, index: int) -> int:
    """The row of a series that stands where row `index` of the loss stands."""
    if index >= len(loss):
        return len(series)
    if index == 0 or len(series) == 0:
        return 0
    if series.lines is not None and loss.lines is not None and series.origin.path == loss.origin.path:
        return int(np.searchsorted(series.lines, loss.lines[index]))
    segment = int(np.searchsorted(loss.restarts, index, side="right"))
    edges = [0, *series.restarts.tolist(), len(series)]
    if segment + 1 >= len(edges):
        segment = len(edges) - 2
    low, high = edges[segment], edges[segment + 1]
    return low + int(np.searchsorted(series.steps[low:high], loss.steps[index]))


def _rows(series: Series, low: int, high: int) -> Series:
    lines = series.lines[low:high] if series.lines is not None else None
    return Series(
        series.metric, series.rank, series.steps[low:high], series.values[low:high], lines, series.origin, series.raw
    )


def _not_finite(series: Series) -> int | None:
    """The step at which the loss is no number any more: at once, whatever comes then, or until the end."""
    good = np.flatnonzero(series.finite)
    if not len(series) or (len(good) == len(series)):
        return None
    if not series.finite[0]:
        return int(series.steps[0])
    return int(series.steps[good[-1] + 1]) if good[-1] + 1 < len(series) else None


def _first_segment(series: Series) -> Series:
    """The rows up to the next restart in the same file: a later resume is another seam."""
    restarts = series.restarts
    if len(restarts) and restarts[0] >= WHOLE_SEGMENT:
        return _rows(series, 0, int(restarts[0]))
    return series


def _spacing(steps: np.ndarray) -> int:
    return max(1, int(np.median(np.diff(steps)))) if len(steps) > 1 else 1


def _starts_over(steps: np.ndarray, at: int, spacing: tuple[int, int]) -> bool:
    """The run after begins where a counter begins, the run before had left that behind."""
    return at <= spacing[1] and int(steps[-1]) > at + 4 * max(spacing) and at <= int(steps[0]) + max(spacing)


def _trained_again(sides: tuple[Points, Points]) -> bool:
    """The repeated steps have the losses that they had: no new count, the first rows were trained once more."""
    (sa, va), (sb, vb) = sides
    _, i, j = np.intersect1d(sa, sb, assume_unique=True, return_indices=True)
    a, b = va[i], vb[j]
    if not len(a):
        return False
    close = np.abs(b - a) <= 1e-4 * np.abs(a)
    return bool(close[: min(3, len(a))].all() or (len(a) >= 8 and correlation(a, b) > 0.8))


def _where(side: str, run: Run) -> str:
    """How a message calls one of the two runs: by its file, where it is one."""
    return f"{side}, {run.files[0].path}" if len(run.files) == 1 else side
