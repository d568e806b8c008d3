"""Where a run departs from a reference run: the first step, the first metric, and what differs in the settings."""

from __future__ import annotations

from dataclasses import dataclass, replace

from playbook.errors import PlaybookError
from playbook.series import Run
from playbook.workflow.comparison.departure import Departure, departure, same_seed
from playbook.workflow.comparison.settings import ConfigDifference, config_differences

METRICS = ("loss", "grad_norm", "lr", "loss_scale", "throughput", "eval_loss")  # in the order of the report
# The same by their distance from the cause: of what departs together the first one is told.
NEAREST = ("lr", "loss_scale", "grad_norm", "loss", "eval_loss", "throughput")
# Settings that explain best what departs first.
AREA_OF = {"lr": "learning rate", "loss_scale": "precision", "throughput": "parallelism"}


@dataclass(frozen=True, slots=True)
class Comparison:
    """All metrics that both runs logged, and how their settings differ.

    ends   (reference, run): the last step of each
    """

    departures: tuple[Departure, ...]
    same_seed: bool
    differences: tuple[ConfigDifference, ...]
    ends: tuple[int | None, int | None] = (None, None)

    @property
    def first(self) -> Departure | None:
        """The earliest departure; of those that are not told apart in time the metric nearest to the cause."""
        real = [(d.step, d) for d in self.departures if d.step is not None]
        if not real:
            return None
        earliest, blur = min(step for step, _ in real), max(d.blur for _, d in real)
        together = [(step, d) for step, d in real if step - earliest <= 2 * blur]
        return min(together, key=lambda one: (NEAREST.index(one[1].metric), one[0]))[1]


def compare(reference: Run, run: Run) -> Comparison:
    """Compare two runs. Raises `PlaybookError` where they share no metric at any step."""
    paired = same_seed(reference.one("loss"), run.one("loss"))
    departures = [found for metric in METRICS if (found := _of_metric(metric, reference, run, paired)) is not None]
    if not departures:
        raise PlaybookError("compare", *_nothing_shared(reference, run))
    ends = (reference.step_range()[1], run.step_range()[1])
    whole = Comparison(tuple(departures), paired, (), ends)
    area = AREA_OF.get(whole.first.metric) if whole.first else None
    return replace(whole, differences=tuple(config_differences(reference.config, run.config, area)))


def _nothing_shared(reference: Run, run: Run) -> tuple[str, str]:
    """Why two runs cannot be compared, and the mend."""
    if not set(reference.metrics) & set(run.metrics) & set(METRICS):
        return "the two runs share no metric", "use --map to name the columns alike"
    (low, high), (first, last) = reference.step_range(), run.step_range()
    what = f"the two runs share no metric at any step: REFERENCE has steps {low} to {high}, RUN {first} to {last}"
    return what, "a run that goes on from another is checked by `playbook verify-resume`"


def _of_metric(name: str, reference: Run, run: Run, paired: bool) -> Departure | None:
    """The departure of the job's series, or the earliest one of the ranks that both have."""
    ours, theirs = reference.by_rank(name), run.by_rank(name)
    both = sorted(set(ours) & set(theirs))
    if (name, None) in reference.series or (name, None) in run.series or len(both) < 2:
        a, b = reference.one(name), run.one(name)
        return departure(name, a, b, paired) if a is not None and b is not None else None
    found = [(rank, d) for rank in both if (d := departure(name, ours[rank], theirs[rank], paired)) is not None]
    real = [(rank, d) for rank, d in found if d.step is not None]
    if not real:
        return replace(found[0][1], because=f"{found[0][1].because}, on each of {len(found)} ranks") if found else None
    rank, first = min(real, key=lambda item: item[1].step or 0)
    where = f"rank {rank} first, {len(real)} of {len(found)} ranks depart"
    return replace(first, rank=rank, because=f"{first.because} ({where})")
