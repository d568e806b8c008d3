"""Spikes of the loss that come back at even distances.

What it sees
    Four and more peaks of the loss whose distances are multiples of one period. `epoch` where the period is that of
    the logged epochs, else `data-cycle`.
Why it matters
    What returns with the data is in the data: the same bad shard each epoch, a loader that repeats its order, a
    bucket of long samples (D0-data-1, D3-dist-2).
Blind when
    No loss was logged, or fewer than 100 rows.
Easily mistaken for
    The drop at the beginning of each epoch, which is health; warm restarts of the learning rate; a peak each
    evaluation or checkpoint, when the log averages over a pause.
"""

from __future__ import annotations

import numpy as np

from playbook.detectors.shared import Shared, answer, blind, finding
from playbook.detectors.stats.excursions import ordinary
from playbook.findings import Finding, Scan

NAME = "periodic"
NEEDS = ("loss",)
OPTIONAL = ("epoch", "lr")
KINDS = ("epoch", "data-cycle")

LEAST = 100  # rows
PEAKS = 4
OFF = 0.06  # of the period: a peak may miss its place by this much
FIT = 0.8  # share of the peaks in place


def look(shared: Shared) -> Scan:
    if gap := shared.lacks(NEEDS):
        return blind(NAME, gap)
    loss = shared.loss
    assert loss is not None
    rows = int(shared.good.sum())
    if rows < LEAST:
        return blind(NAME, f"only {rows} rows of loss, {LEAST} are needed to see a period")
    peaks = [e for seg, e in shared.excursions if not ordinary(seg, e) and not e.lasting]
    looked = f"{len(peaks)} spikes, no period"
    if len(peaks) < PEAKS:
        return answer(NAME, [], looked)
    at = np.array([int(loss.steps[e.start]) for e in peaks], dtype=np.float64)
    if (np.diff(at) <= 0).any():
        return answer(NAME, [], looked)
    period, fit = _period(at, 3.0 * loss.spacing)
    if period <= 4 * loss.spacing or fit < FIT:
        return answer(NAME, [], looked)
    epochs = np.diff(shared.epoch_starts)
    is_epoch = len(epochs) > 0 and abs(float(np.median(epochs)) - period) <= max(OFF * period, 3.0 * loss.spacing)
    kind = "epoch" if is_epoch else "data-cycle"
    text = f"{len(peaks)} spikes of the loss return every {period:.0f} steps"
    text += ", once an epoch" if is_epoch else ""
    sure = 0.5 if shared.lr_restarts(int(at[0]), 100.0) else 0.85
    numbers = {"period": period, "count": float(len(peaks)), "fit": fit}
    found: Finding = finding(NAME, kind, loss, peaks[0].start, text, sure, last_step=int(at[-1]), numbers=numbers)
    return answer(NAME, [found], looked)


def _period(at: np.ndarray, slack: float) -> tuple[float, float]:
    """The period of which all distances are multiples, and the share of peaks that keep to it."""
    gaps = np.diff(at)
    best = (0.0, 0.0)
    for whole in (1.0, 2.0, 3.0):
        guess = float(np.median(gaps)) / whole
        count = np.round(gaps / guess)
        count[count < 1] = 1
        guess = float(np.median(gaps / count))
        limit = max(OFF * guess, slack)
        if limit > 0.15 * guess:
            continue
        fit = float(np.mean(np.abs(gaps - np.round(gaps / guess) * guess) <= limit * np.maximum(1.0, np.sqrt(count))))
        fit = fit if float(np.mean(count)) <= 3.0 else 0.0  # every spacing fits a short enough period
        if fit > best[1] + 0.05:
            best = (guess, fit)
    return best
