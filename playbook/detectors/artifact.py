"""A logged loss that is an average and therefore comes late.

What it sees
    `average-lag`: neighbouring rows hang together so closely that the number must be a running mean: its departures
    from the local level die away over many rows instead of one.
Why it matters
    An average shows a spike late, low and long. The step at which it peaks is not the step of the fault, and a
    NaN stays in it for good: search before the onset, and log the raw value.
Blind when
    No loss was logged, or fewer than 100 rows.
Easily mistaken for
    A loss over the full data set or a very large batch, which is smooth by nature.
"""

from __future__ import annotations

import numpy as np

from playbook.detectors import stats
from playbook.detectors.stats_shared import Shared, answer, blind, finding
from playbook.findings import Scan
from playbook.series import Run

NAME = "artifact"
NEEDS = ("loss",)
OPTIONAL = ()
KINDS = ("average-lag",)

LEAST = 100  # rows
MOST = 8192  # rows, the last ones
TIED = 0.9  # correlation of neighbours around the local level
FAR_TIED = 0.5  # and of rows four apart


def look(shared: Shared) -> Scan:
    if gap := shared.lacks(NEEDS):
        return blind(NAME, gap)
    loss = shared.loss
    assert loss is not None
    line = max(shared.lineages, key=len, default=np.zeros(0, dtype=np.int64))
    if len(line) < LEAST:
        return blind(NAME, f"only {len(line)} rows of loss in one piece, {LEAST} are needed")
    part = line[len(line) // 5 :][-MOST:]
    x = shared.domain.x(loss.values[part])
    # the slow part: medians of windows wide against an average, joined by straight lines
    size = max(8, len(x) // 12)
    knots = stats.block_medians(x, size)
    centre = np.minimum(np.arange(len(knots)) * size + (size - 1) / 2.0, len(x) - 1)
    rest = x - np.interp(np.arange(len(x)), centre, knots)
    limit = 4.0 * stats.mad_sigma(rest)
    if limit <= 0:
        return answer(NAME, [], "the loss does not move")
    rest = np.clip(rest, -limit, limit)
    one, four = stats.lag_correlation(rest), stats.lag_correlation(rest, 4)
    looked = f"neighbouring rows of the loss correlate by {one:.2f}"
    if one < TIED or four < FAR_TIED:
        return answer(NAME, [], looked)
    text = f"{looked} around their level: the log shows a running average, which lags behind"
    numbers = {"neighbours": one, "four_apart": four}
    return answer(NAME, [finding(NAME, "average-lag", loss, int(part[0]), text, 0.6, numbers=numbers)], "")


def scan(run: Run) -> Scan:
    return look(Shared(run))
