"""Curves for a page: lowest and highest value per pixel column; non-finite steps are painted, never bridged."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise

import numpy as np

from playbook.faces.pages.plots import Line, Mark, Plot
from playbook.faces.pages.shelf import Shelf
from playbook.workflow.records.published import Strip

WIDTH = 720
HEIGHT = 220
# A curve whose largest value is this many times its median is drawn on a logarithmic axis (all values positive).
LOG_FROM = 12.0
TICKS = 5
HUGE = 1e300  # beyond it differences overflow; a curve up there is off the chart either way


def plot(
    shelf: Shelf,
    title: str,
    strips: Sequence[Strip],
    marks: Sequence[tuple[int, str, str]] = (),
    origin: int | None = None,
) -> Plot | None:
    """One metric, one or more lines (before and after the fix). marks: (step, label, kind). None without a point.

    With an `origin` the steps of the strips count from it; marks are given and named by the steps of the run.
    """
    strips = [s for s in strips if len(s.steps)]
    if not strips:
        return None
    steps = np.concatenate([s.steps for s in strips]).astype(float)
    strips = [
        replace(s, values=np.where(np.isfinite(s.values), np.clip(s.values, -HUGE, HUGE), s.values)) for s in strips
    ]
    values = np.concatenate([s.values for s in strips])
    finite = values[np.isfinite(values)]
    low_x, high_x = float(steps.min()), float(steps.max())
    span_x = (high_x - low_x) or 1.0
    log = bool(len(finite) and finite.min() > 0 and finite.max() > LOG_FROM * float(np.median(finite)))
    low_y, high_y = _limits(finite, log)

    def x_of(step: float) -> float:
        return round((step - low_x) / span_x * WIDTH, 1)

    def y_of(value: float) -> float:
        value = math.log10(value) if log else value
        return round(HEIGHT - (value - low_y) / ((high_y - low_y) or 1.0) * HEIGHT, 1)

    lines = tuple(Line(s.metric, _segments(s, low_x, span_x, y_of), s.role) for s in strips)
    bad = tuple(band for s in strips if s.role != "after" for band in _bands(s, low_x, span_x))
    shift = origin or 0
    placed = tuple(
        Mark(x_of(step - shift), step, label, kind) for step, label, kind in marks if low_x <= step - shift <= high_x
    )
    sign = "+" if origin is not None else ""
    x_ticks = tuple((x_of(t), (sign if t > 0 else "") + number(t)) for t in nice(low_x, high_x, TICKS))
    y_ticks = tuple((y_of(10**t if log else t), number(10**t if log else t)) for t in nice(low_y, high_y, TICKS, log))
    return Plot(
        title=title,
        description=_describe(shelf, strips, placed),
        width=WIDTH,
        height=HEIGHT,
        lines=lines,
        bad=bad,
        marks=placed,
        x_ticks=x_ticks,
        y_ticks=y_ticks,
        x_range=(low_x, high_x),
        log=log,
        numbers=_numbers(shelf, strips),
        relative=origin is not None,
    )


def _limits(finite: np.ndarray, log: bool) -> tuple[float, float]:
    if not len(finite):
        return 0.0, 1.0
    low, high = float(finite.min()), float(finite.max())
    if log:
        low, high = math.log10(low), math.log10(high)
    pad = (high - low) * 0.06 or abs(high) * 0.1 or 1.0
    return low - pad, high + pad


def _segments(strip: Strip, low_x: float, span_x: float, y_of: object) -> tuple[tuple[tuple[float, float], ...], ...]:
    """Runs of finite points; a restart (the step goes back) and a non-finite value end a run."""
    finite = np.isfinite(strip.values)
    cut = np.flatnonzero(np.diff(strip.steps) < 0) + 1
    bounds = sorted({0, len(strip.steps), *cut.tolist(), *(np.flatnonzero(np.diff(finite.astype(int))) + 1).tolist()})
    segments = []
    for start, stop in pairwise(bounds):
        if finite[start]:
            segments.append(_reduced(strip.steps[start:stop], strip.values[start:stop], low_x, span_x, y_of))
    return tuple(segments)


def _reduced(
    steps: np.ndarray, values: np.ndarray, low_x: float, span_x: float, y_of: object
) -> tuple[tuple[float, float], ...]:
    """At most two points (lowest and highest, in the order of their steps) for each pixel column."""
    assert callable(y_of)
    column = np.floor((steps.astype(float) - low_x) / span_x * WIDTH).astype(np.int64)
    if len(steps) <= 2 * WIDTH and len(np.unique(column)) == len(column):
        chosen = np.arange(len(steps))
    else:
        starts = np.concatenate([[0], np.flatnonzero(np.diff(column)) + 1])
        picks: set[int] = set()
        for start, stop in zip(starts, [*starts[1:], len(column)], strict=True):
            part = values[start:stop]
            picks |= {int(start), int(start + part.argmin()), int(start + part.argmax()), int(stop - 1)}
        chosen = np.array(sorted(picks))
    return tuple((round(float(steps[i] - low_x) / span_x * WIDTH, 1), y_of(float(values[i]))) for i in chosen)


def _bands(strip: Strip, low_x: float, span_x: float) -> list[tuple[float, float]]:
    """Where the log has no finite number: from the last finite step before to the first one after."""
    bad = ~np.isfinite(strip.values)
    edges = np.flatnonzero(np.diff(np.concatenate([[0], bad.astype(int), [0]])))
    bands = []
    for start, stop in zip(edges[::2], edges[1::2], strict=True):
        left = (float(strip.steps[start]) - low_x) / span_x * WIDTH
        right = (float(strip.steps[stop - 1]) - low_x) / span_x * WIDTH
        bands.append((round(min(left, WIDTH - 2), 1), round(max(right, left + 2), 1)))
    return bands


def nice(low: float, high: float, most: int, whole: bool = False) -> list[float]:
    """Round numbers between two limits, at most `most` + 1 of them."""
    span = high - low
    if span <= 0 or not math.isfinite(span):
        return [low]
    step = 10.0 ** math.floor(math.log10(span / most))
    for factor in (1, 2, 5, 10):
        if span / (step * factor) <= most:
            step *= factor
            break
    if whole:
        step = max(1.0, round(step))
    first = math.ceil(low / step)
    return [round(k * step, 12) for k in range(first, math.floor(high / step) + 1)]


def number(value: float) -> str:
    if value == 0:
        return "0"
    if abs(value) >= 1e6 or abs(value) < 1e-3:
        mantissa, _, exponent = f"{value:.3e}".partition("e")
        return f"{mantissa.rstrip('0').rstrip('.')}e{int(exponent)}"
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.4g}"


def _numbers(shelf: Shelf, strips: Sequence[Strip]) -> tuple[tuple[str, str], ...]:
    """The plot in figures, for those who cannot see it."""
    w = shelf.w
    rows: list[tuple[str, str]] = []
    for strip in strips:
        name = f"{strip.metric} ({_role(shelf, strip.role)})" if len(strips) > 1 else strip.metric
        finite = strip.values[np.isfinite(strip.values)]
        rows.append(
            (f"{name}: {w('steps')}", f"{int(strip.steps.min())} – {int(strip.steps.max())}, {len(strip.steps)}")
        )
        if len(finite):
            median, highest, lowest = (number(float(f(finite))) for f in (np.median, np.max, np.min))
            rows.append((f"{name}: {w('lowest, median, highest')}", f"{lowest}, {median}, {highest}"))
        missing = len(strip.values) - len(finite)
        if missing:
            rows.append((f"{name}: {w('NaN or Inf')}", str(missing)))
    return tuple(rows)


def _role(shelf: Shelf, role: str) -> str:
    w = shelf.w
    return {"before": w("before the fix"), "after": w("after the fix")}.get(role, w("run"))


def _describe(shelf: Shelf, strips: Sequence[Strip], marks: Sequence[Mark]) -> str:
    parts = [f"{label}: {value}" for label, value in _numbers(shelf, strips)]
    parts += [f"{m.label}: {shelf.w('step {n}', n=m.step)}" for m in marks]
    return "; ".join(parts)
