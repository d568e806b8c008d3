"""Why: what speaks for and against a cause, what was ruled out by what, and what would change the verdict."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import log

import numpy as np

from playbook.engine.belief import Belief, group_sizes, group_weights, line_of, posterior, told_signals
from playbook.engine.tables import SHAPE, Tables
from playbook.engine.value import exponent, moot
from playbook.findings import Evidence

# What an observation must do to the odds of a cause against its rivals (nats, as it enters the posterior) to be called
# a reason: a factor below 3 is "not worth more than a bare mention" (Kass and Raftery 1995).
REASON = log(3)
# An objection is told from 2 on: a word such as `usually` leaves a third to all other outcomes, so what speaks against
# a cause is bounded where what speaks for it is not. Nothing is told that does less.
OBJECTION = log(2)
# How a run is set up is shared by many incidents: it must tell more than what was seen of the fault.
CIRCUMSTANCE = log(4)
# What the book does not link to the cause is a reason only where the view of the whole class is clear: as clear as two
# reasons. So is a circumstance that says in what trainings a fault is met (its weight is below 1).
CLEAR = 2 * REASON
# An observation that makes a cause e**1.5 = 4.5 times less likely against its rivals counts as ruling out, where the
# cause would have been plausible without it and is not with it.
RULED_OUT = -1.5
PLAUSIBLE = 0.02
# What is impossible is worth telling of a less plausible cause too: nobody need think of it again.
PLAUSIBLE_ENOUGH = 0.005
# Share of what speaks for a cause that makes it rest on one line of a log.
MOSTLY = 0.75
# Between near equals every trifle changes who is first: an observation that puts the other ahead by this factor is told
# before one that only tips the scales.
CLEARLY = 1.5


@dataclass(frozen=True, slots=True)
class Reason:
    """One piece of evidence and its weight for a cause against the causes of other classes: nats, positive speaks for
    it."""

    signal: str
    state: str
    weight: float
    because: str


@dataclass(frozen=True, slots=True)
class RuledOut:
    """A cause that was plausible until `signal` turned out to be `state`; `hard` is impossible, not just unlikely."""

    cause: str
    signal: str
    state: str
    hard: bool


@dataclass(frozen=True, slots=True)
class Tipping:
    """An observation that would put another cause first; `chance` is how probable the outcome is today."""

    signal: str
    outcome: str
    cause: str
    chance: float


@dataclass(frozen=True)
class Weighed:
    """What each observation of a belief does to each cause, and what it would need to be told.

    weights  float64[e, h], the log ratio to the mean over the causes of all other classes, weighed by how common they
             are. The background would not do: it is no cause's, and where the causes of the book show an outcome more
             often than it says, the outcome would speak for each of them
    pro      bool[e, h]: it is a reason for the cause; con: against it
    """

    weights: np.ndarray
    pro: np.ndarray
    con: np.ndarray


def weigh(tables: Tables, belief: Belief) -> Weighed:
    names = [e.signal for e in belief.used]
    power = belief.weights[:, None]
    likelihoods = np.exp(belief.ratios / power) * tables.prior
    own = np.add.reduceat(likelihoods, tables.class_start, axis=1)
    share = np.add.reduceat(tables.prior, tables.class_start)
    rivals = (own.sum(axis=1, keepdims=True) - own) / np.maximum(1 - share, 1e-12)
    sizes = np.diff(np.append(tables.class_start, len(tables.causes)))
    weights = belief.ratios - power * np.log(np.maximum(np.repeat(rivals, sizes, axis=1), 1e-300))
    linked = tables.linked[:, [tables.signals.index(name) for name in names]].T
    needed = np.where(linked, *(np.array(x)[:, None] for x in _needed(tables, names)))
    # Views of one fact share what they do to the odds; whether one is a reason is asked as if it stood alone.
    shared = group_weights(tables, names)[:, None]
    pro = weights >= np.maximum(needed * shared, OBJECTION)
    return Weighed(weights, pro, -weights >= np.maximum((needed - REASON + OBJECTION) * shared, OBJECTION))


def _needed(tables: Tables, names: Sequence[str]) -> tuple[list[float], list[float]]:
    """The weight from which each signal is a reason: (of causes that it is linked to, of the others).

    How a run is set up is no reason at all where nothing links it to the cause.
    """
    return (
        [reason_from(tables, name) for name in names],
        [np.inf if name in tables.circumstances else CLEAR for name in names],
    )


def reasons(belief: Belief, weighed: Weighed, cause: int) -> tuple[list[Reason], list[Reason]]:
    """(for, against), strongest first: only what somebody who knows the cause would call a reason."""
    column = weighed.weights[:, cause]

    def rows(chosen: np.ndarray) -> list[Reason]:
        found = []
        for k in np.flatnonzero(chosen[:, cause]):
            item = belief.used[k]
            found.append(Reason(item.signal, item.state, float(column[k]), item.because))
        return sorted(found, key=lambda r: (-abs(r.weight), r.signal))

    return rows(weighed.pro), rows(weighed.con)


def has_reason(tables: Tables, belief: Belief, weighed: Weighed, cause: int) -> bool:
    """Whether anything beside the shape of the loss and how the run is set up is a reason for a cause.

    What is usual wherever one looks can leave one cause over by ruling out the others, and a cause that nobody has
    thought of is left over as well.
    """
    mere = tables.circumstances.keys() | {SHAPE}
    return any(weighed.pro[e, cause] for e, item in enumerate(belief.used) if item.signal not in mere)


def reason_from(tables: Tables, signal: str) -> float:
    """The weight from which a signal that is linked to a cause is a reason for it."""
    weight = tables.circumstances.get(signal)
    return REASON if weight is None else CIRCUMSTANCE if weight == 1 else CLEAR


def contradiction(belief: Belief, cause: int) -> float:
    """What speaks against a cause as a share of what speaks for it, in nats over all evidence."""
    column = belief.ratios[:, cause]
    pro, con = float(column[column > 0].sum()), -float(column[column < 0].sum())
    return con / pro if pro > 0 else float(con > 0)


def rests_on_a_line(belief: Belief, cause: int) -> bool:
    """Whether most of what speaks for a cause was read from one line of a log."""
    column = np.maximum(belief.ratios[:, cause], 0.0)
    by_line: dict[tuple[str, int], float] = {}
    for item, nats in zip(belief.used, column, strict=True):
        if (line := line_of(item)) is not None:
            by_line[line] = by_line.get(line, 0.0) + float(nats)
    return max(by_line.values(), default=0.0) > MOSTLY * float(column.sum())


def ruled_out(tables: Tables, belief: Belief, weighed: Weighed, most: int = 6) -> list[RuledOut]:
    """Causes that one observation brought down, most plausible first: a hard fact, or one that the book links."""
    if not belief.used:
        return []
    hard = np.zeros(belief.ratios.shape, bool)
    for k, item in enumerate(belief.used):
        hard[k, list(tables.excluded.get((item.signal, item.state), ()))] = True
    drop = np.where(hard | (weighed.con & (weighed.weights <= RULED_OUT)), belief.ratios, 0.0)
    worst, drop = drop.argmin(axis=0), drop.min(axis=0)
    without = np.log(tables.prior) + belief.ratios.sum(axis=0) - drop
    candidates = np.flatnonzero((drop < 0) & (belief.marginal < PLAUSIBLE))
    found: list[RuledOut] = []
    for h in sorted(candidates, key=lambda h: (-without[h], h))[: 2 * most]:
        item = belief.used[worst[h]]
        # The sum above leaves the group discounts as they are: only a real posterior may be promised.
        before = posterior(tables, (e for e in belief.used if e is not item))
        impossible = bool(hard[worst[h], h])
        if before.marginal[h] >= (PLAUSIBLE_ENOUGH if impossible else PLAUSIBLE) and len(found) < most:
            found.append(RuledOut(tables.causes[h], item.signal, item.state, impossible))
    return found


def tipping(
    tables: Tables, belief: Belief, evidence: tuple[Evidence, ...], closed: frozenset[str] = frozenset()
) -> Tipping | None:
    """The most probable outcome of one further observation after which another class comes first, clearly if may be."""
    if not len(tables.classes):
        return None
    known = {e.signal for e in belief.used}
    sizes = group_sizes(tables, known)
    settled = known | closed | told_signals(tables, belief.used) | moot(tables, belief.used)
    first = leading_class(belief)
    candidates = []
    for signal, where in tables.columns.items():
        if signal in settled:
            continue
        block = tables.likelihood[:, where]
        chance = belief.marginal @ block + belief.unknown * tables.background[where]
        ratio = (block / tables.background[where]) ** exponent(sizes[tables.groups[signal]])
        classes = np.add.reduceat(belief.marginal[:, None] * ratio, tables.class_start, axis=0)
        for k, outcome in enumerate(tables.outcomes[signal]):
            if int(classes[:, k].argmax()) != first:
                slight = bool(classes[:, k].max() < CLEARLY * classes[first, k])
                candidates.append((slight, -float(chance[k]), signal, outcome))
    for _, chance, signal, outcome in sorted(candidates)[:12]:
        # The estimate above leaves the pairs as they are: only a real posterior may be promised.
        after = posterior(tables, (*evidence, Evidence(signal, outcome, "person")))
        if leading_class(after) != first:
            return Tipping(signal, outcome, leader(tables, after), -chance)
    return None


def leading_class(belief: Belief) -> int:
    return int(belief.by_class.argmax())


def leader(tables: Tables, belief: Belief) -> str:
    """The most probable cause of the most probable class."""
    return tables.causes[leader_of(tables, belief, leading_class(belief))]


def leader_of(tables: Tables, belief: Belief, c: int) -> int:
    """Index of the most probable cause of a class."""
    members = tables.members(c)
    return members[int(belief.marginal[members.start : members.stop].argmax())]
