"""A rank that is slower than the others, or all of them slower than before.

What it sees
    Step time, data time or throughput of each rank: `one-slow` where a few ranks need at least 15 % more than the
    median of all for most of the last rows; `all-slow` where no rank stands out and all have become slower.
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

from playbook.detectors.onset import scanned
from playbook.detectors.shared import Shared, answer, blind
from playbook.detectors.stats.ranks import log_values, matrix, middle
from playbook.findings import Finding, Scan

NAME = "slow_rank"
NEEDS = (("step_time", "throughput", "data_time"),)
OPTIONAL = ()
KINDS = ("one-slow", "all-slow")

SLOW = np.log(1.15)
MOSTLY = 0.8  # of the last rows
LAST = 64  # rows
LEAST = 8  # rows
FEW = 0.25  # of the ranks


def look(shared: Shared) -> Scan:
    from playbook.detectors import throughput

    if gap := shared.lacks(NEEDS):
        return blind(NAME, gap)
    metric = next((m for m in ("step_time", "data_time", "throughput") if len(shared.ranked.get(m, {})) >= 3), None)
    if metric is None:
        return blind(NAME, "no step time, data time or throughput by rank (three ranks and more)")
    m = matrix(shared.ranked[metric])
    if m is None or m.values.shape[1] < LEAST:
        return blind(NAME, f"fewer than {LEAST} steps of {metric} by rank")
    x = log_values(m)
    off = (x - middle(x, 0)[None, :]) * (-1.0 if metric == "throughput" else 1.0)
    last = off[:, -LAST:]
    with np.errstate(invalid="ignore"):
        share = np.mean(last > SLOW, axis=1)
    slow = np.flatnonzero((share >= MOSTLY) & (np.nan_to_num(middle(last, 1)) > SLOW))
    if 0 < len(slow) <= max(1, FEW * len(m.ranks)):
        worst = int(slow[np.argmax(middle(last[slow], 1))])
        late = np.where(np.isfinite(off[worst]), off[worst], 0.0) > SLOW
        # the first row from which it is slow for most of the time
        ahead = np.cumsum(late[::-1])[::-1] / np.arange(len(late), 0, -1)
        begin = int(np.argmax(late & (ahead >= MOSTLY)))
        step, times = int(m.steps[begin]), float(np.exp(middle(last[worst : worst + 1], 1)[0]))
        rank = int(m.ranks[worst])
        text = f"{metric} of rank {rank} is {times:.2f} times that of the middle rank from step {step} on"
        ranks = tuple(int(r) for r in m.ranks[slow][:32])
        numbers = {"times": times, "ranks": float(len(m.ranks)), "slow": float(len(slow))}
        found = Finding(NAME, "one-slow", metric, step, text, 0.85, rank=rank, ranks=ranks, numbers=numbers)
        return answer(NAME, [found], "")
    drops = [f for f in scanned(throughput, shared).findings if f.kind == "drops"]
    if drops:
        f = drops[0]
        text = f"no rank stands out and all are slower: {f.because}"
        return answer(
            NAME, [Finding(NAME, "all-slow", f.metric, f.step, text, min(f.confidence, 0.8), numbers=f.numbers)], ""
        )
    return answer(NAME, [], f"{metric} of {len(m.ranks)} ranks, none slower than the others")
