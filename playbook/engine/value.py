"""What to look at next: the observation that tells most about the cause for what it costs.

Value is how far the answer is expected to move the belief over classes of causes (bits, Lindley 1956); cost is a
person's minutes, the waiting time of a control run and its GPU-hours. One rerun answers every signal of its cluster; a
signal of a group that is already known is worth less, as in the posterior.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass

import numpy as np

from playbook.engine.belief import DISCOUNT, TEMPERATURE, Belief, group_sizes, told_signals
from playbook.engine.tables import Tables
from playbook.findings import Evidence
from playbook.knowledge.entries import Signal

# A GPU-hour in minutes of an engineer: about 2 USD (ledger D3-cost-1) against about 100 USD an hour.
MINUTES_PER_GPU_HOUR = 1.2
# Waiting for a control run costs less than working: people do something else meanwhile.
WAITING_WEIGHT = 0.5
# Every question costs attention, however quick it is to answer.
OVERHEAD_MINUTES = 0.5
# How often the answer differs from what another signal has told already: only then is something learned.
OTHER_THAN_TOLD = 0.1
DANGER_MINUTES = {"none": 0.0, "slows": 2.0, "stops-the-run": 15.0, "changes-the-run": 10.0}
# An observation of this confidence says what there is nothing to ask about.
PLAIN = 0.8
# Bits: a question that tells less is asked only when none is left that tells more, however quick it is to answer.
# How a run is set up tells where a fault is met and not that it is there: asked early only where it tells more.
TRIVIAL, TRIVIAL_CIRCUMSTANCE = 0.05, 0.1
# Digits of bits and rates: near ties must not hang on the last bit of a sum (another machine, the browser's engine).
TIE = 12
# What a further signal of a cluster costs once its rerun has been made.
READ_OFF_MINUTES = 1.0


@dataclass(frozen=True, slots=True)
class RunSize:
    """What a control run costs here. The defaults are one node at an ordinary pace."""

    gpus: int = 8
    step_seconds: float = 2.0
    known: bool = False


@dataclass(frozen=True, slots=True)
class Cost:
    """minutes of a person (with the waiting weighed in), GPU-hours, and both together in minutes."""

    minutes: float
    gpu_hours: float
    total: float

    def rounded(self) -> Cost:
        """As it is told and stored: hundredths of a minute, thousandths of a GPU-hour."""
        return Cost(round(self.minutes, 2), round(self.gpu_hours, 3), round(self.total, 2))


FREE = Cost(0.0, 0.0, 0.0)


@dataclass(frozen=True, slots=True)
class Option:
    """One observation that could be made next. `gain` in bits (with the chance to get it), `rate` in bits a minute."""

    signal: str
    gain: float
    cost: Cost
    rate: float


def run_cost(minutes: float, steps: int, gpus: int, size: RunSize) -> Cost:
    """A person's minutes and a run of `steps` on `gpus` GPUs, with the waiting for it; not rounded."""
    hours = steps * size.step_seconds / 3600
    waited = minutes + WAITING_WEIGHT * hours * 60
    gpu_hours = hours * gpus
    return Cost(waited, gpu_hours, waited + gpu_hours * MINUTES_PER_GPU_HOUR)


def sum_of(costs: Iterable[Cost]) -> Cost:
    """All of them together, rounded."""
    paid = list(costs)
    return Cost(sum(c.minutes for c in paid), sum(c.gpu_hours for c in paid), sum(c.total for c in paid)).rounded()


def cost_of(signal: Signal, size: RunSize, clusters_done: Collection[str] = ()) -> Cost:
    """The price of one observation for this run."""
    if signal.cluster and signal.cluster in clusters_done:
        return Cost(READ_OFF_MINUTES, 0.0, READ_OFF_MINUTES + OVERHEAD_MINUTES)
    run = run_cost(signal.minutes, signal.steps, {"none": 0, "one": 1, "all": size.gpus}[signal.gpus], size)
    total = run.total + DANGER_MINUTES[signal.danger] + OVERHEAD_MINUTES
    return Cost(run.minutes, run.gpu_hours, total).rounded()


def gains(tables: Tables, belief: Belief, known: Collection[str]) -> dict[str, float]:
    """Expected divergence of the classes after from before, in bits, for every signal that is not known.

    Without a temperature this is the expected drop of entropy. With one the two part: a surprise that unsettles a
    sure belief raises the entropy, and asking is worth most where such a belief is wrong.
    """
    weights = _weights(belief)  # [h + 1], the last one is "not in the book"
    before = np.append(belief.by_class, belief.unknown)[:, None]
    discount = _exponents(tables, known)
    table = np.vstack([tables.likelihood, tables.background[None, :]])
    predictive = weights @ table  # [k]
    tempered = table ** discount[None, :]
    joint = weights[:, None] * tempered
    classes = np.vstack([np.add.reduceat(joint[:-1], tables.class_start, axis=0), joint[-1:]])
    moved = _divergence(classes / np.maximum(classes.sum(axis=0), 1e-300), before)
    result: dict[str, float] = {}
    told = told_signals(tables, belief.used)
    for signal, where in tables.columns.items():
        if signal not in known:
            bits = max(0.0, float(predictive[where] @ moved[where]))
            result[signal] = OTHER_THAN_TOLD * bits if signal in told else bits
    return result


def moot(tables: Tables, used: Iterable[Evidence]) -> frozenset[str]:
    """Signals about something that this run does not have: no scale of fp8 in fp16, no ranks in one process."""
    known = {e.signal: e.state for e in used if e.confidence >= PLAIN}
    return frozenset(
        name
        for name, needs in tables.needs.items()
        if any(other in known and known[other] not in outcomes for other, outcomes in needs.items())
    )


def outcome_beliefs(
    tables: Tables, belief: Belief, known: Collection[str], signal: str
) -> tuple[np.ndarray, np.ndarray]:
    """(float64[o], float64[h + 1, o]): how probable each outcome of a signal is, and the causes after it.

    Pairs keep their share, as in `gains`; the last row is "not in the book".
    """
    where = tables.columns[signal]
    weights = _weights(belief)
    table = np.vstack([tables.likelihood[:, where], tables.background[None, where]])
    after = weights[:, None] * table ** exponent(group_sizes(tables, known)[tables.groups[signal]])
    return weights @ table, after / np.maximum(after.sum(axis=0), 1e-300)


def exponent(others: int) -> float:
    """The discount that a further signal of a group would have of which `others` are known."""
    return float((others + 1) ** -DISCOUNT / TEMPERATURE)


def _weights(belief: Belief) -> np.ndarray:
    return np.append(belief.marginal, belief.unknown)


def _exponents(tables: Tables, known: Collection[str]) -> np.ndarray:
    """float64[k]: `exponent` of the signal of each column."""
    sizes = group_sizes(tables, known)
    found = np.empty(len(tables.background))
    for signal, where in tables.columns.items():
        found[where] = exponent(sizes[tables.groups[signal]])
    return found


def _divergence(p: np.ndarray, q: np.ndarray) -> np.ndarray:
    """Of p from q in bits (Kullback and Leibler 1951), over axis 0."""
    return (p * (np.log2(np.maximum(p, 1e-300)) - np.log2(np.maximum(q, 1e-300)))).sum(axis=0)


def options(
    tables: Tables,
    belief: Belief,
    signals: dict[str, Signal],
    known: Collection[str],
    closed: Collection[str],
    size: RunSize,
    clusters_done: Collection[str] = (),
) -> list[Option]:
    """Every observation that could still be made, best first. `closed`: asked in vain, or cannot be got here."""
    shut = {*closed, *moot(tables, belief.used)}
    gain = {name: bits for name, bits in gains(tables, belief, known).items() if name not in shut}
    clusters: dict[str, list[str]] = {}
    for name in gain:
        if cluster := signals[name].cluster:
            clusters.setdefault(cluster, []).append(name)
    found = []
    for name, bits in gain.items():
        signal = signals[name]
        cost = cost_of(signal, size, clusters_done)
        worth = bits
        if signal.cluster and signal.cluster not in clusters_done:
            # The same rerun answers its cluster; what the others add overlaps, so they count half.
            worth += 0.5 * sum(gain[other] for other in clusters[signal.cluster] if other != name)
        # The root: a signal that few could tell is still worth asking for when it says much.
        chance = tables.answered[name] ** 0.5
        found.append(Option(name, bits * chance, cost, worth * chance / cost.total))
    return sorted(found, key=lambda o: (trivial(tables, o), -round(o.rate, TIE), o.signal))


def trivial(tables: Tables, option: Option) -> bool:
    """Whether it tells too little to be asked while something is left that tells more."""
    least = TRIVIAL_CIRCUMSTANCE if option.signal in tables.circumstances else TRIVIAL
    return round(option.gain, TIE) < least
