"""A step of the level at one place of a short, noisy, falling curve: rise and how sure it is.

The rows on both sides share one slope (steps that were trained twice lie on both sides, and tell it best); what is
left between the sides is the step. It is held against the scatter of the rows about that fit, with the freedom that so
few rows leave, and against the steps that the same fit finds at other places of the same rows, where nothing happened.
"""

from __future__ import annotations

import math

import numpy as np

ROWS = 16  # on either side
LEAST = 4
TOTAL = 12  # rows of both sides
BIAS = 3.0  # a fit to n rows takes about this over n from the correlation of neighbours
FAINT = 3.0  # a z that nobody acts upon
OTHERS = 1.5  # times the highest step at another place


def step_up(before: tuple[np.ndarray, np.ndarray], after: tuple[np.ndarray, np.ndarray]) -> tuple[float, float]:
    """(rise, z) of the rows after a place over those before it; each side is steps and x, x the loss or its logarithm.

    (0, 0) where there are too few rows, or where other places rise as well. Bent curves are fitted by their bend, too,
    where that speaks against the step.
    """
    (t, x), (u, y) = [part[-ROWS:] for part in before], [part[:ROWS] for part in after]
    if min(len(x), len(y)) < LEAST or len(x) + len(y) < TOTAL:
        return 0.0, 0.0
    steps = np.concatenate([t, u]).astype(np.float64)
    steps = (steps - steps.mean()) / max(float(np.ptp(steps)), 1.0)
    values = np.concatenate([x, y])
    side = np.concatenate([np.zeros(len(x)), np.ones(len(y))])
    found = [_fitted(values, side, *(steps**k for k in range(1, order + 1))) for order in (1, 2)]
    rise, z = min(found, key=lambda pair: pair[1])
    if z <= FAINT:
        return 0.0, 0.0
    return (rise, z) if z > OTHERS * _elsewhere(steps, values, len(x)) else (0.0, 0.0)


def _fitted(values: np.ndarray, side: np.ndarray, *trend: np.ndarray) -> tuple[float, float]:
    """(step, its z) of a fit by least squares."""
    design = np.column_stack([np.ones(len(values)), side, *trend])
    free = len(values) - design.shape[1]
    inverse = np.linalg.pinv(design.T @ design)
    fit = inverse @ design.T @ values
    left = values - design @ fit
    error = math.sqrt(max(float(left @ left) / free, 1e-12) * max(float(inverse[1, 1]), 1e-12)) * _tied(left, side)
    return float(fit[1]), normal(float(fit[1]) / error, free)


def normal(t: float, free: float) -> float:
    """Student's t of so many degrees of freedom as the normal deviate of the same probability (Wallace 1959)."""
    z = (8 * free + 1) / (8 * free + 3) * math.sqrt(free * math.log1p(t * t / free))
    return math.copysign(z, t)


def _tied(left: np.ndarray, side: np.ndarray, bias: float = BIAS) -> float:
    """By how much neighbours that hang together (a smoothed log) make the error of a level larger."""
    same = side[1:] == side[:-1]
    power = float(left @ left)
    tie = float((left[1:] * left[:-1])[same].sum()) / power + bias / len(left) if power > 0 else 0.0
    tie = min(max(tie, 0.0), 0.9)
    return math.sqrt((1 + tie) / (1 - tie))


def tied(x: np.ndarray) -> float:
    """The same of the rows of one side, below their trend."""
    if len(x) < 2 * LEAST:
        return 1.0
    t = np.linspace(-1.0, 1.0, len(x))
    design = np.column_stack([np.ones(len(x)), t, t * t])
    return _tied(x - design @ np.linalg.lstsq(design, x, rcond=None)[0], np.zeros(len(x)), 0.0)


def _elsewhere(steps: np.ndarray, values: np.ndarray, cut: int) -> float:
    """The highest z of a step up within one of the sides."""
    most = 0.0
    for lo, hi in ((0, cut), (cut, len(values))):
        for k in range(lo + 3, hi - 2):
            side = (np.arange(lo, hi) >= k).astype(np.float64)
            if hi - lo >= 7:
                most = max(most, _fitted(values[lo:hi], side, steps[lo:hi])[1])
    return most
