"""A rank that is slower than the others, or all of them slower than before.

What it sees
    Step time, compute time, data time or throughput of each rank: `one-slow` where a few ranks need at least 15 %
    more than the median of all for most of the last rows, and a step notices it; `all-slow` where no rank stands out
    and all have become slower.
Why it matters
    A synchronous step is as slow as its slowest rank. One slow rank is a GPU, a link or a disk to be taken out; all
    slow at once is the network, the file system or the program (D0-hw-3, D0-com-5).
Blind when
    Times were logged once for the whole job, or by ranks that wait for each other before the clock is read.
Easily mistaken for
    A rank 0 that writes logs and checkpoints; pipeline stages of unequal work.
"""

from __future__ import annotations

import numpy as np

from playbook.detectors import throughput
from playbook.detectors.onset import scanned
from playbook.detectors.shared import DOUBTFUL, Shared, answer, blind
from playbook.detectors.stats.ranks import Matrix, log_values, matrix, middle
from playbook.findings import Finding, Scan

NAME = "slow_rank"
NEEDS = (("step_time", "throughput", "data_time", "compute_time"),)
OPTIONAL = ()
KINDS = ("one-slow", "all-slow")

SLOW = np.log(1.15)
MOSTLY = 0.8  # of the last rows
LAST = 64  # rows, a quarter of a short log
LEAST = 8  # rows
FEW = 0.25  # of the ranks
TIMES = ("step_time", "compute_time", "data_time", "throughput")
OF_A_STEP = ("compute_time", "data_time")
PART, START = 0.1, 0.1  # of a step, and of the rows


def look(shared: Shared) -> Scan:
    if gap := shared.lacks(NEEDS):
        return blind(NAME, gap)
    metrics = [m for m in TIMES if len(shared.ranked.get(m, {})) >= 3]
    if not metrics:
        return blind(NAME, "no step time, compute time, data time or throughput by rank (three ranks and more)")
    known = [(metric, m) for metric in metrics if (m := matrix(shared.ranked[metric])) is not None]
    known = [(metric, m) for metric, m in known if m.values.shape[1] >= LEAST]
    if not known:
        return blind(NAME, f"fewer than {LEAST} steps of {metrics[0]} by rank")
    for metric, m in known:
        if found := _one_slow(shared, metric, m):
            return answer(NAME, [found], "")
    drops = [f for f in scanned(throughput, shared).findings if f.kind == "drops"]
    if drops:
        f = drops[0]
        text = f"no rank stands out and all are slower: {f.because}"
        return answer(
            NAME, [Finding(NAME, "all-slow", f.metric, f.step, text, min(f.confidence, 0.8), numbers=f.numbers)], ""
        )
    metric, m = known[0]
    return answer(NAME, [], f"{metric} of {len(m.ranks)} ranks, none slower than the others")


def _one_slow(shared: Shared, metric: str, m: Matrix) -> Finding | None:
    """The slowest of a few ranks that need longer than the middle one, and by so much that a step notices it."""
    x = log_values(m)
    off = (x - middle(x, 0)[None, :]) * (-1.0 if metric == "throughput" else 1.0)
    recent = min(LAST, max(2 * LEAST, off.shape[1] // 4))
    last = off[:, -recent:]
    with np.errstate(invalid="ignore"):
        share = np.mean(last > SLOW, axis=1)
    slow = np.flatnonzero((share >= MOSTLY) & (np.nan_to_num(middle(last, 1)) > SLOW))
    if not 0 < len(slow) <= max(1, FEW * len(m.ranks)):
        return None
    worst = int(slow[np.argmax(middle(last[slow], 1))])
    late = np.where(np.isfinite(off[worst]), off[worst], 0.0) > SLOW
    # the first row from which it is slow for most of the time
    ahead = np.cumsum(late[::-1])[::-1] / np.arange(len(late), 0, -1)
    begin = int(np.argmax(late & (ahead >= MOSTLY)))
    sure = 0.85
    if metric in OF_A_STEP:
        if not _noticed(shared, metric, m, worst):
            return None
        # from the first rows on: the stage of a pipeline that has more to do, a rank that reads for the others
        sure = 0.85 if begin > START * len(late) else DOUBTFUL
    step, times = int(m.steps[begin]), float(np.exp(middle(last[worst : worst + 1], 1)[0]))
    rank = int(m.ranks[worst])
    text = f"{metric} of rank {rank} is {times:.2f} times that of the middle rank from step {step} on"
    ranks = tuple(int(r) for r in m.ranks[slow][:32])
    numbers = {"times": times, "ranks": float(len(m.ranks)), "slow": float(len(slow))}
    return Finding(NAME, "one-slow", metric, step, text, sure, rank=rank, ranks=ranks, numbers=numbers)


def _noticed(shared: Shared, metric: str, m: Matrix, worst: int) -> bool:
    """True unless the step is known to take so long that what one rank needs more is nothing beside it."""
    own, step = shared.curve(metric), shared.curve("step_time")
    if own is None or step is None:
        return True
    last = m.values[:, -LAST:]
    more = float(middle(last[worst : worst + 1], 1)[0] - np.nanmedian(last)) * throughput.seconds(own.series)
    took = step.values[step.finite][-LAST:] * throughput.seconds(step.series)
    return not len(took) or more >= PART * float(np.median(took))
