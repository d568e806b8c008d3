"""Why: what speaks for and against a cause, what was ruled out by what, and what would change the verdict."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from playbook.engine.belief import Belief, group_sizes, posterior, told_signals
from playbook.engine.tables import Tables
from playbook.engine.value import exponent
from playbook.findings import Evidence

# A log ratio (nats, after discount) below this says too little to be called a reason.
REASON = 0.25
# An observation that makes a cause e**1.5 = 4.5 times less likely than the background counts as ruling out.
RULED_OUT = -1.5
IMPLAUSIBLE = 0.02
# Between near equals every trifle changes who is first: an observation that puts the other ahead by this factor is told
# before one that only tips the scales.
CLEARLY = 1.5


@dataclass(frozen=True, slots=True)
class Reason:
    """One piece of evidence and its weight for a cause: nats, positive speaks for it."""

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


def reasons(belief: Belief, cause: int) -> tuple[list[Reason], list[Reason]]:
    """(for, against), strongest first."""
    column = belief.ratios[:, cause]
    telling = [(belief.used[k], float(column[k])) for k in np.flatnonzero(np.abs(column) >= REASON)]
    rows = [Reason(e.signal, e.state, weight, e.because) for e, weight in telling]
    pro = sorted((r for r in rows if r.weight >= REASON), key=lambda r: (-r.weight, r.signal))
    con = sorted((r for r in rows if r.weight <= -REASON), key=lambda r: (r.weight, r.signal))
    return pro, con


def contradiction(belief: Belief, cause: int) -> float:
    """What speaks against a cause as a share of what speaks for it, in nats over all evidence."""
    column = belief.ratios[:, cause]
    pro, con = float(column[column > 0].sum()), -float(column[column < 0].sum())
    return con / pro if pro > 0 else float(con > 0)


def ruled_out(tables: Tables, belief: Belief, most: int = 6) -> list[RuledOut]:
    """Causes that all other evidence would have kept, strongest first."""
    if not belief.used:
        return []
    worst = belief.ratios.argmin(axis=0)
    drop = belief.ratios.min(axis=0)
    without = np.log(tables.prior) + belief.ratios.sum(axis=0) - drop
    found = []
    for h in np.argsort(-without, kind="stable"):
        if belief.marginal[h] < IMPLAUSIBLE and drop[h] <= RULED_OUT:
            item = belief.used[int(worst[h])]
            hard = int(h) in tables.excluded.get((item.signal, item.state), ())
            found.append(RuledOut(tables.causes[h], item.signal, item.state, hard))
        if len(found) == most:
            break
    return found


def tipping(
    tables: Tables, belief: Belief, evidence: tuple[Evidence, ...], closed: frozenset[str] = frozenset()
) -> Tipping | None:
    """The most probable outcome of one further observation after which another class comes first, clearly if may be."""
    if not len(tables.classes):
        return None
    known = {e.signal for e in belief.used}
    sizes = group_sizes(tables, known)
    settled = known | closed | told_signals(tables, belief.used)
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
