"""Two curves side by side: their finite points, the steps they share, and whether their noise is the same."""

from __future__ import annotations

import numpy as np

from playbook.detectors.stats import MAD_TO_SIGMA
from playbook.series import Series


def clean(series: Series | None) -> tuple[np.ndarray, np.ndarray]:
    """(steps, values) of the finite points; of a step that was logged twice the last value; sorted by step."""
    if series is None:
        return np.empty(0, np.int64), np.empty(0)
    steps, values = series.steps[series.finite], series.values[series.finite]
    _, first_of_reversed = np.unique(steps[::-1], return_index=True)
    keep = len(steps) - 1 - first_of_reversed
    return steps[keep], values[keep]


def aligned(a: Series | None, b: Series | None) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(steps, values of a, values of b) at the steps that both logged."""
    (sa, va), (sb, vb) = clean(a), clean(b)
    steps, ia, ib = np.intersect1d(sa, sb, assume_unique=True, return_indices=True)
    return steps, va[ia], vb[ib]


def correlation(a: np.ndarray, b: np.ndarray) -> float:
    """Correlation of the row-to-row changes, so that a common trend does not count; clipped against single spikes."""
    da, db = changes(a), changes(b)
    if len(da) < 3 or da.std() == 0 or db.std() == 0:
        return 0.0
    return float(np.corrcoef(da, db)[0, 1])


def changes(values: np.ndarray) -> np.ndarray:
    """Row-to-row changes without their trend, single spikes clipped."""
    d = np.diff(values)
    if len(d) < 3:
        return d
    width = min(25, len(d))
    kernel = np.ones(width)
    d = d - np.convolve(d, kernel, "same") / np.convolve(np.ones(len(d)), kernel, "same")
    limit = 5 * MAD_TO_SIGMA * float(np.median(np.abs(d)))
    return np.clip(d, -limit, limit) if limit > 0 else d
