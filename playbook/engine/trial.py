"""Ask first or try a repair: both in one currency, the minutes that are expected to pass until the run is mended.

Repairs are tried in the order of probability per cost until handing the incident on is cheaper (decision-theoretic
troubleshooting, Heckerman, Breese and Rommelse 1995). A question is worth its cost when it shortens that series by
more; else a safe and cheap repair is its own experiment.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

import numpy as np

from playbook.engine.advice import fix_cost
from playbook.engine.belief import Belief
from playbook.engine.tables import Tables
from playbook.engine.value import TIE, Option, RunSize, outcome_beliefs
from playbook.knowledge.loader import Book

# Handing the incident on: what a working day of somebody who knows more costs, in minutes.
HAND_ON_MINUTES = 480.0
# Only what can do no harm is tried before the cause is known.
HARMLESS = ("safe", "low")
# Questions that are weighed against a trial: the first of the plan.
ASKED = 4
# A repair is tried unasked only when it probably enough mends and saves this share of the time.
LIKELY, SAVES = 0.3, 0.05
# Causes below this are left to whoever the incident is handed on to.
NEGLIGIBLE = 0.002


@dataclass(frozen=True, slots=True)
class Trial:
    """A repair that is worth trying before anything else is asked.

    chance    that it mends the incident
    minutes   what trying it costs
    if_tried  expected minutes until mended when it is tried now; if_asked: when the best question comes first
    """

    fix: str
    chance: float
    minutes: float
    if_tried: float
    if_asked: float


@dataclass(frozen=True)
class Repairs:
    """Repairs as arrays: ids, float64[f] minutes, float64[f, causes] 1 where it treats, bool[f] harmless."""

    ids: tuple[str, ...]
    minutes: np.ndarray
    treats: np.ndarray
    harmless: np.ndarray


def repairs_of(book: Book, tables: Tables, causes: np.ndarray, size: RunSize, tried: Collection[str] = ()) -> Repairs:
    """The repairs in force that treat one of `causes` (indices), which are the columns of `treats`; no `tried` ones."""
    place = {tables.causes[h]: column for column, h in enumerate(causes)}
    chosen = [
        fix
        for _, fix in sorted(book.fixes.items())
        if fix.kind == "repair"
        and fix.status != "deprecated"
        and fix.id not in tried
        and any(cause in place for cause in fix.treats)
    ]
    treats = np.zeros((len(chosen), len(causes)))
    for f, fix in enumerate(chosen):
        treats[f, [place[cause] for cause in fix.treats if cause in place]] = 1.0
    return Repairs(
        tuple(fix.id for fix in chosen),
        np.array([fix_cost(fix, size) for fix in chosen], float),
        treats,
        np.array([fix.risk in HARMLESS for fix in chosen], bool),
    )


def minutes_to_mend(repairs: Repairs, weights: np.ndarray) -> float:
    """Expected minutes until mended. weights: float64[causes], what is missing to 1 no repair of the book treats."""
    left, rest = weights.copy(), 1.0
    total = 0.0
    while len(repairs.ids):
        chance = repairs.treats @ left
        best = int(np.argmax(np.round(chance / repairs.minutes, TIE)))
        if chance[best] * HAND_ON_MINUTES <= repairs.minutes[best] * rest:
            break
        total += float(repairs.minutes[best]) * rest
        left[repairs.treats[best] > 0] = 0.0
        rest -= float(chance[best])
    return total + HAND_ON_MINUTES * max(rest, 0.0)


def trial(
    book: Book, tables: Tables, belief: Belief, plan: Sequence[Option], size: RunSize, tried: Collection[str] = ()
) -> Trial | None:
    """The repair that is better tried than anything asked; None where a question comes first (or nothing is to ask).

    `tried` are repairs that did not mend it.
    """
    if not plan:
        return None
    causes = np.flatnonzero(belief.marginal >= NEGLIGIBLE)
    repairs = repairs_of(book, tables, causes, size, tried)
    if not repairs.ids:
        return None
    weights = belief.marginal[causes]
    chance = repairs.treats @ weights
    worth = [
        f
        for f in np.argsort(-np.round(chance / repairs.minutes, TIE), kind="stable")
        if repairs.harmless[f] and chance[f] >= LIKELY
    ]
    if not worth:
        return None
    known = {e.signal for e in belief.used}
    now = minutes_to_mend(repairs, weights)
    asked = min(_if_asked(tables, belief, known, option, repairs, causes, now) for option in plan[:ASKED])
    minutes = [float(repairs.minutes[f]) + _if_failed(repairs, weights, f) for f in worth]
    best = int(np.argmin(np.round(minutes, 9)))
    if minutes[best] > (1 - SAVES) * asked:
        return None
    f = worth[best]
    return Trial(repairs.ids[f], float(chance[f]), float(repairs.minutes[f]), minutes[best], asked)


def _if_failed(repairs: Repairs, weights: np.ndarray, f: int) -> float:
    """Minutes from the failure of a trial on, times the chance that it fails."""
    left = np.where(repairs.treats[f] > 0, 0.0, weights)
    fails = 1.0 - float(weights.sum() - left.sum())
    return fails * minutes_to_mend(repairs, left / fails) if fails > 1e-9 else 0.0


def _if_asked(
    tables: Tables,
    belief: Belief,
    known: set[str],
    option: Option,
    repairs: Repairs,
    causes: np.ndarray,
    now: float,
) -> float:
    """Expected minutes until mended when one question is asked first (and the answer may not be had)."""
    chances, beliefs = outcome_beliefs(tables, belief, known, option.signal)
    after = sum(p * minutes_to_mend(repairs, w) for p, w in zip(chances, beliefs[causes].T, strict=True))
    had = tables.answered[option.signal] ** 0.5
    return option.cost.total + had * float(after) + (1 - had) * now
