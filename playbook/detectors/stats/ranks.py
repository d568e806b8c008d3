"""Metrics of many ranks as one matrix, and which ranks stand apart, without a loop over ranks or steps."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from playbook.series import Series

MOST = 8_000_000  # cells: a larger matrix is cut to the columns that matter


@dataclass(frozen=True, eq=False)
class Matrix:
    """values float64[ranks, steps] (NaN where a rank logged nothing), logged bool of the same shape."""

    ranks: np.ndarray
    steps: np.ndarray
    values: np.ndarray
    logged: np.ndarray


def matrix(by_rank: dict[int, Series], around: int | None = None) -> Matrix | None:
    """The ranks' series side by side; None for fewer than two ranks. `around` is the step to keep where it is cut."""
    filled = {rank: s for rank, s in by_rank.items() if len(s)}
    if len(filled) < 2:
        return None
    series = list(filled.values())
    lead = series[0].steps
    aligned = all(len(s) == len(lead) and np.array_equal(s.steps, lead) for s in series[1:])
    aligned = aligned and bool((np.diff(lead) > 0).all())
    steps = lead if aligned else np.unique(np.concatenate([s.steps for s in series]))
    columns = slice(0, len(steps))
    if len(series) * len(steps) > MOST:
        width = max(64, MOST // len(series))
        centre = int(np.searchsorted(steps, around)) if around is not None else len(steps)
        low = max(0, min(centre - width * 3 // 4, len(steps) - width))
        columns = slice(low, low + width)
    steps = steps[columns]
    if aligned:
        values = np.stack([s.values[columns] for s in series])
        logged = np.ones(values.shape, dtype=bool)
    else:
        values = np.full((len(series), len(steps)), np.nan)
        logged = np.zeros(values.shape, dtype=bool)
        for row, s in enumerate(series):
            place = np.searchsorted(steps, s.steps)
            inside = (place < len(steps)) & (steps[np.minimum(place, len(steps) - 1)] == s.steps)
            values[row, place[inside]] = s.values[inside]
            logged[row, place[inside]] = True
    return Matrix(np.array(list(filled)), steps, values, logged)


def log_values(m: Matrix) -> np.ndarray:
    """x of the matrix: logarithms of positive values, values over their spread where some are not; NaN kept."""
    known = np.isfinite(m.values)
    if known.all():
        finite = m.values
        if finite.size and finite.min() > 0:
            return np.log(finite)
    else:
        finite = m.values[known]
    if not finite.size:
        return m.values
    with np.errstate(invalid="ignore", divide="ignore"):
        if finite.min() > 0:
            return np.where(known, np.log(np.where(m.values > 0, m.values, 1.0)), np.nan)
        low, high = np.quantile(finite, [0.1, 0.9])
        unit = max(abs(float(np.median(finite))), float(high - low), 1e-12)
        return np.where(known, m.values / unit, np.nan)


def middle(x: np.ndarray, axis: int) -> np.ndarray:
    """Median that skips NaN and is NaN, without a warning, where there is nothing else."""
    known = np.isfinite(x)
    if x.size and known.all():
        return _halfway(np.array(x if axis == 1 else x.T, order="C"))
    some = known.any(axis=axis)
    shape = np.expand_dims(some, axis)
    return np.where(some, np.nanmedian(np.where(shape, x, 0.0), axis=axis), np.nan)


def typical(x: np.ndarray) -> float:
    """The median size of all entries that are not NaN; NaN where there are none."""
    size = np.abs(x).ravel()
    if np.isnan(size).any():
        size = size[~np.isnan(size)]
    return float(_halfway(size[None, :])[0]) if len(size) else math.nan


def _halfway(x: np.ndarray) -> np.ndarray:
    """The median of each row of a matrix without NaN, which is put in another order for it.

    What `np.median` says, without its second pass for NaN.
    """
    count = x.shape[1]
    x.partition(count // 2, axis=1)
    upper = x[:, count // 2]
    return upper.copy() if count % 2 else 0.5 * (x[:, : count // 2].max(axis=1) + upper)
