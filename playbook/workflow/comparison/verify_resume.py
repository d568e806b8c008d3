"""Does a resumed run continue the run before it? Steps, rate, loss scale, data, loss, gradient norm, speed, world size.

Each check is ok, failed, changed (another value that is no fault by itself) or unknown; a failed one names the causes
that do just this. What tells them apart: what is read off directly (rate, scale, counter) speaks for itself and
explains the loss behind it; the first loss after the load speaks for weights and data, the next ones for the update.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Literal

from playbook.errors import PlaybookError
from playbook.series import Run
from playbook.workflow.comparison import resume_curves as curves
from playbook.workflow.comparison import resume_samples as samples
from playbook.workflow.comparison import resume_state as state
from playbook.workflow.comparison.seam import Check, Seam, find

Verdict = Literal["continues", "broken", "undecided"]


# Of many ranks one stands out by chance: a noisy curve of a rank must do so by this times the bar of a curve alone. At
# 1 three of 1,920 good simulated ranks failed, at 1.5 none.
WIDE = 1.5


def verify(before: Run, after: Run) -> list[Check]:
    """All checks, of the whole job and where both files hold ranks of each one: what failed in a rank only names it.

    Raises `PlaybookError` where one of the runs has no loss or the second adds nothing to the first.
    """
    seam = find(before, after)
    whole = [check(seam) for check in CHECKS]
    ranks = sorted(set(before.by_rank("loss")) & set(after.by_rank("loss")))
    if len(ranks) < 2:
        return whole
    own = {rank: found for rank in ranks if (found := _of_rank(before, after, rank))}
    return [
        _with_ranks(check, {rank: checks[place] for rank, checks in own.items()}) for place, check in enumerate(whole)
    ]


def _of_rank(before: Run, after: Run, rank: int) -> list[Check]:
    """The checks of one rank; none where it has nothing to judge (its file ends at the resume)."""
    try:
        seam = replace(find(_view(before, rank), _view(after, rank)), wide=WIDE)
    except PlaybookError:
        return []
    return [check(seam) for check in CHECKS]


def _view(run: Run, rank: int) -> Run:
    """What one rank logged; what it did not log itself is that of the job."""
    own = {metric for metric, of in run.series if of == rank}
    chosen = {
        (metric, of): series
        for (metric, of), series in run.series.items()
        if of == rank or (of is None and metric not in own)
    }
    return replace(run, series=chosen)


def _with_ranks(check: Check, own: dict[int, Check]) -> Check:
    """The check of the job; where some ranks failed, and not just all together, the one of the first of them."""
    failed = tuple(rank for rank, of in own.items() if of.status == "failed")
    if not failed or (check.status == "failed" and len(failed) == len(own)):
        return check
    return replace(own[failed[0]], ranks=failed)


def verdict(checks: list[Check]) -> Verdict:
    """Broken where a check failed; undecided where nothing did, but the loss could not be judged."""
    if any(check.status == "failed" for check in checks):
        return "broken"
    return "continues" if any(c.name == "loss" and c.status == "ok" for c in checks) else "undecided"


def suspects(checks: list[Check]) -> list[str]:
    """Causes named by the failed checks: what was read off directly first, then what most of them name."""
    votes: dict[str, float] = {}
    for check in checks:
        if check.status == "failed":
            for place, cause in enumerate(check.causes):
                votes[cause] = votes.get(cause, 0.0) + check.weight / (1 + place)
    return sorted(votes, key=lambda c: -votes[c])


def unseen(checks: list[Check]) -> list[str]:
    """What the two files cannot show, and what would: one line each."""
    return [MEND[check.name] for check in checks if check.status == "unknown" and check.name in MEND]


MEND = {
    "loss": "loss: log every step around the resume, or keep more rows of the run before",
    "learning rate": "learning rate: log it",
    "gradient norm": "gradient norm: log it, lost optimizer moments show there first",
    "data": "samples and small faults of the update: resume from a checkpoint some dozen steps before the last logged "
    "one, at the same logging interval; steps trained twice show the same losses, or they do not",
    "exposure": "samples and tokens taken: log a count",
}

CHECKS: tuple[Callable[[Seam], Check], ...] = (
    state.steps,
    curves.loss,
    state.learning_rate,
    curves.grad_norm,
    state.loss_scale,
    state.exposure,
    samples.data,
    state.throughput,
    state.world,
)
