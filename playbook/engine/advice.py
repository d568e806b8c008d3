"""What to do: first aid for the symptom, then repairs in the order of probability per cost."""

from __future__ import annotations

from playbook.engine.belief import Belief
from playbook.engine.tables import Tables
from playbook.engine.value import MINUTES_PER_GPU_HOUR, WAITING_WEIGHT, RunSize
from playbook.knowledge.entries import Fix
from playbook.knowledge.loader import Book

# What trying a fix may cost beyond its minutes, in minutes: the chance of harm times the harm.
RISK_MINUTES = {"safe": 0.0, "low": 5.0, "medium": 30.0, "high": 120.0}
# A repair is worth naming if it would mend the incident with at least this probability.
WORTH_NAMING = 0.05
MOST = 8
# First aid that would also mend the cause goes first when the cause is at least this probable.
LIKELY = 0.3
# First aid against one cause is not shown when that cause is less probable than this.
RULED_OUT = 0.01


def fix_cost(fix: Fix, size: RunSize) -> float:
    """Minutes, with the run that judges it and its GPU-hours weighed in."""
    hours = fix.gpu_steps * size.step_seconds / 3600
    return (
        fix.minutes
        + WAITING_WEIGHT * hours * 60
        + hours * size.gpus * MINUTES_PER_GPU_HOUR
        + RISK_MINUTES[fix.risk]
        + 1.0
    )


def repairs(book: Book, tables: Tables, belief: Belief, size: RunSize) -> tuple[str, ...]:
    """Repairs that treat a probable cause, best chance per cost first."""
    share = dict(zip(tables.causes, belief.marginal, strict=True))
    scored = []
    for fix in book.fixes.values():
        if fix.kind != "repair" or fix.status == "deprecated":
            continue
        chance = float(sum(share.get(cause, 0.0) for cause in fix.treats))
        if chance >= WORTH_NAMING:
            # The square root keeps a likely but laborious repair above an unlikely cheap one.
            scored.append((-chance / fix_cost(fix, size) ** 0.5, fix.id))
    return tuple(fix_id for _, fix_id in sorted(scored)[:MOST])


def first_aid(book: Book, shape: str | None, tables: Tables, belief: Belief) -> tuple[str, ...]:
    """First aid for the symptom: what treats a likely cause too comes first, then the safest and quickest.

    Saving the scene costs minutes and can be regretted by nobody, so it comes before what changes the run on a guess.
    What an observation calls for by itself (one bad rank: isolate it) comes before all, whatever the symptom.
    """
    share = dict(zip(tables.causes, belief.marginal, strict=True))
    seen = {e.signal: e.state for e in belief.used}
    found = []
    for fix in book.fixes.values():
        called = any(seen.get(signal) in outcomes for signal, outcomes in fix.called_by.items())
        if fix.kind != "first-aid" or fix.status == "deprecated" or not (called or shape in fix.symptoms):
            continue
        if any(seen.get(signal) in outcomes for signal, outcomes in fix.unless.items()):
            continue
        chance = float(sum(share.get(cause, 0.0) for cause in fix.treats))
        if fix.treats and chance < RULED_OUT:
            continue
        likely = chance >= LIKELY
        found.append((not called, not likely, RISK_MINUTES[fix.risk] + fix.minutes, fix.id))
    return tuple(name for *_, name in sorted(found)[:5])
