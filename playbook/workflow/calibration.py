"""How far stated probabilities and observed shares can be trusted: the reliability diagram, and what chance alone does.

A calibration error over bins is never zero on few cases, however honest the probabilities are. So it is put beside
the error that a perfectly calibrated judge would show with the same probabilities; and a share of cases is put beside
the interval in which the true share lies.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

BINS = 10  # of the reliability diagram
DRAWS = 2000  # imagined repetitions behind `by_chance`
CHANCE = (5, 50, 95)  # per cent of the repetitions that lie below
Z_90 = 1.6449  # standard normal, two-sided 90 %


def reliability(stated: Sequence[float], right: Sequence[float], bins: int = BINS) -> list[dict[str, float]]:
    """The reliability diagram, by bins of equal width of the stated probability; empty ones are left out.

    from, cases    where the bin begins, and how many fall into it
    confidence, accuracy    the mean of what was stated for them, and the share that came true
    """
    chances, hits = np.array(stated, float), np.array(right, float)
    place = _bins(chances, bins)
    rows = []
    for k in np.unique(place).tolist():
        own = place == k
        confidence, accuracy = (round(float(values[own].mean()), 4) for values in (chances, hits))
        rows.append({"from": k / bins, "cases": int(own.sum()), "confidence": confidence, "accuracy": accuracy})
    return rows


def calibration_error(stated: Sequence[float], right: Sequence[float], bins: int = BINS) -> float:
    """Expected calibration error (Naeini et al. 2015) in [0, 1]; 0 without cases."""
    chances = np.array(stated, float)
    return float(_errors(chances, np.array(right, float)[None, :], bins)[0]) if len(chances) else 0.0


def by_chance(stated: Sequence[float], bins: int = BINS) -> dict[str, float]:
    """The calibration error of a judge whose probabilities are exactly right: {"p5", "p50", "p95"} of repetitions.

    The draws come from a fixed seed: the same probabilities give the same figures.
    """
    chances = np.array(stated, float)
    if not len(chances):
        return {f"p{share}": 0.0 for share in CHANCE}
    draws = np.random.default_rng(0).random((DRAWS, len(chances))) < chances
    errors = _errors(chances, draws.astype(float), bins)
    return {f"p{share}": round(float(np.percentile(errors, share)), 4) for share in CHANCE}


def interval(hits: int, n: int, z: float = Z_90) -> tuple[float, float]:
    """Where the true share lies, given `hits` of `n` (Wilson 1927); (0, 1) without cases."""
    if n == 0:
        return 0.0, 1.0
    share, room = hits / n, z * z / n
    middle = (share + room / 2) / (1 + room)
    half = z * np.sqrt(share * (1 - share) / n + room / (4 * n)) / (1 + room)
    return round(max(0.0, float(middle - half)), 4), round(min(1.0, float(middle + half)), 4)


def _bins(chances: np.ndarray, bins: int) -> np.ndarray[Any, np.dtype[np.int_]]:
    """int[n]: the bin of each probability; 1 belongs to the last one."""
    return np.minimum((chances * bins).astype(int), bins - 1)


def _errors(chances: np.ndarray, hits: np.ndarray, bins: int) -> np.ndarray:
    """float64[d]: the calibration error of each of d repetitions `hits[d, n]`."""
    place = _bins(chances, bins)
    member = (place[:, None] == np.arange(bins)).astype(float)  # [n, bins]
    return np.asarray(np.abs((hits - chances) @ member).sum(axis=1) / len(chances))
