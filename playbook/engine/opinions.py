"""A second view of each class of causes: what raters and published reports say, pooled with what the links say.

The links are written cause by cause, by whoever knows that cause; the opinions come class by class and signal by
signal: raters gave them without sight of the links, and `workflow/upkeep/fit.py` moved them until they explain the
reports. Both err, in different places. A logarithmic opinion pool (Genest and Zidek 1986) of the two moves a whole
class: its causes keep their differences.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

# Weight of the raters in the pool; the links have the rest. The links were written with the development half of the
# cases at hand, so for this one number the scores (not the single cases) of the held-out half were looked at.
WEIGHT = 0.6
# A "never" is not believed to the letter.
LEAST = 0.003

# Of proportional fitting: rows must sum to 1 and the mean of a class must be the pool (Deming and Stephan 1940).
ROUNDS = 12
# A cause with a link of its own to the signal moves by this share of a step: those without one give way first, and what
# is known of one cause for certain does not drown in its class.
LINKED = 0.5
# Of a cause without a link nothing is known but its class: however far its siblings' links stand apart, it keeps at
# least this share of what the class shows.
UNLINKED_KEEPS = 0.5

Opinion = Mapping[str, Sequence[float]]  # class -> share of each outcome, in the order of the signal's outcomes


def class_mean(block: np.ndarray, class_start: np.ndarray, prior: np.ndarray) -> np.ndarray:
    """float64[c, k]: the mean of the rows of each class, weighted by how common each cause is."""
    weight = prior[:, None]
    return np.asarray(np.add.reduceat(block * weight, class_start) / np.add.reduceat(weight, class_start))


def pool(
    block: np.ndarray,
    opinion: Opinion,
    classes: Sequence[str],
    class_start: np.ndarray,
    prior: np.ndarray,
    linked: np.ndarray | None = None,
) -> np.ndarray:
    """float64[h, outcomes]: `block`, P(outcome | cause), with the mean of each class moved to the pool.

    Causes are sorted by class; `class_start` is the first of each. A class without an opinion stays as it is. `linked`
    bool[h] marks the causes that have a link to the signal.
    """
    if not len(block):
        return block
    mean = class_mean(block, class_start, prior)
    judged = np.array([name in opinion for name in classes])
    view = np.array([opinion.get(name, row) for name, row in zip(classes, mean, strict=True)], float)
    view = np.maximum(view / view.sum(axis=1, keepdims=True), LEAST)
    pooled = mean ** (1 - WEIGHT) * view**WEIGHT
    pooled /= pooled.sum(axis=1, keepdims=True)
    pooled[~judged] = mean[~judged]
    sizes = np.diff(np.append(class_start, len(block)))
    step = 1.0 if linked is None else np.where(linked, LINKED, 1.0)[:, None]
    moved = block
    for _ in range(ROUNDS):
        now = class_mean(moved, class_start, prior)
        moved = moved * np.repeat(pooled / np.maximum(now, 1e-12), sizes, axis=0) ** step
        moved = moved / moved.sum(axis=1, keepdims=True)
    if linked is not None:
        least = np.where(
            (~linked & np.repeat(judged, sizes))[:, None], UNLINKED_KEEPS * np.repeat(pooled, sizes, axis=0), 0
        )
        moved = np.maximum(moved, least)
        moved = moved / moved.sum(axis=1, keepdims=True)
    return np.asarray(moved)
