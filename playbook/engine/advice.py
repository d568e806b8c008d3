"""What to do: first aid for the symptom, then repairs in the order of probability per cost."""

from __future__ import annotations

from playbook.engine.belief import Belief
from playbook.engine.tables import Tables
from playbook.engine.value import MINUTES_PER_GPU_HOUR, Cost, RunSize, run_cost
from playbook.knowledge.entries import HOW_OFTEN, Fix
from playbook.knowledge.loader import Book

# What trying a fix may cost beyond its minutes, in minutes: the chance of harm times the harm.
RISK_MINUTES = {"safe": 0.0, "low": 5.0, "medium": 30.0, "high": 120.0}
# Every fix costs attention, however quick it is to try.
FIX_OVERHEAD_MINUTES = 1.0
# A repair is worth naming if it would mend the incident with at least this probability; so is first aid that is against
# one cause.
WORTH_NAMING = 0.05
MOST = 8
# First aid that would also mend the cause goes first when the cause is at least this probable.
LIKELY = 0.3
MOST_AIDS = 5
# What forbids a first aid must be more likely so than not.
SURE_ENOUGH = 0.5
# What is lost without first aid. A diagnosis takes about an hour, in which the GPUs run for nothing; a scene that is
# gone is reproduced in an hour of work; the way back to an older healthy state is some 500 steps (a usual distance of
# checkpoints, ledger D3-ckpt-1), run once more; a run that is meddled with without need is rolled back as well.
BURN_HOURS = 1.0
SCENE_MINUTES = 60.0
STATE_STEPS = 500


def fix_cost(fix: Fix, size: RunSize) -> float:
    """Minutes, with the run that judges it and its GPU-hours weighed in."""
    return trying(fix, size).total + RISK_MINUTES[fix.risk] + FIX_OVERHEAD_MINUTES


def repair_cost(fix: Fix, size: RunSize) -> Cost:
    """What trying a repair costs, in the currencies of a question."""
    run = trying(fix, size)
    return Cost(run.minutes, run.gpu_hours, fix_cost(fix, size)).rounded()


def trying(fix: Fix, size: RunSize) -> Cost:
    """Applying a fix and running until it can be judged, without its risk; not rounded."""
    return run_cost(fix.minutes, fix.gpu_steps, size.gpus, size)


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


def first_aid(book: Book, shape: str | None, tables: Tables, belief: Belief, size: RunSize) -> tuple[str, ...]:
    """First aid for the symptom by expected loss, before any cause is known.

    What an observation calls for by itself (one bad rank: isolate it) comes before all, whatever the symptom; then what
    treats a likely cause too; then what only looks and keeps, for it can be regretted by nobody and the next restart
    overwrites it; then what changes the run. Within these the expected loss decides: what the aid averts, times how
    often it does (and times the chance of the one cause that it is against), against what it costs. On a thousand GPUs
    an hour of waiting outweighs a risk that one node would not take.
    """
    share = dict(zip(tables.causes, belief.marginal, strict=True))
    seen = {e.signal: e.state for e in belief.used}
    sure = {e.signal: e.state for e in belief.used if e.confidence >= SURE_ENOUGH}
    found = []
    for fix in book.fixes.values():
        called = any(seen.get(signal) in outcomes for signal, outcomes in fix.called_by.items())
        if fix.kind != "first-aid" or fix.status == "deprecated" or not (called or shape in fix.symptoms):
            continue
        if any(sure.get(signal) in outcomes for signal, outcomes in fix.unless.items()):
            continue
        chance = float(sum(share.get(cause, 0.0) for cause in fix.treats))
        if fix.treats and chance < WORTH_NAMING:
            continue
        saved = averted(fix, size, chance if fix.treats else 1.0)
        found.append((not called, chance < LIKELY, fix.risk != "safe", round(-saved, 9), fix.id))
    return tuple(name for *_, name in sorted(found)[:MOST_AIDS])


def averted(fix: Fix, size: RunSize, chance: float = 1.0) -> float:
    """Minutes that a first aid is expected to save, less what it costs; below 0 it costs more than it saves.

    `chance` that what it is against is there.
    """
    lost = losses(size)
    return chance * sum(HOW_OFTEN[often] * lost[kind] for kind, often in fix.averts.items()) - fix_cost(fix, size)


def losses(size: RunSize) -> dict[str, float]:
    """What is lost without first aid, in minutes, GPU-hours weighed in."""
    state = run_cost(0.0, STATE_STEPS, size.gpus, size).total
    return {
        "burn": BURN_HOURS * size.gpus * MINUTES_PER_GPU_HOUR,
        "scene": SCENE_MINUTES,
        "state": state,
        "needless": state + RISK_MINUTES["medium"],
    }
