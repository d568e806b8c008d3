"""The score of a drill, held against par: what the engine did, knew and paid on the same drill.

The par player gets 100 %. Who guesses may name the cause, but has no grounds for it and so no credit for thrift.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from playbook.engine.diagnosis import DECIDE
from playbook.engine.value import Cost
from playbook.workflow.learning.drill import Drill, Game, Step, par_game

# What the parts of the score weigh. A part that a drill does not have (no first aid in the book) falls out.
WEIGHTS = {"first-aid": 0.15, "cause": 0.30, "grounds": 0.25, "economy": 0.15, "repair": 0.15}
LATE = 0.5  # first aid after the first look: the loss went on meanwhile
BETTER = 0.6  # a look with less than this share of the best value for its cost is shown a better one in the replay


@dataclass(frozen=True)
class Score:
    """Shares 0..1 by part, the total in percent, and both bills. `par_looks` counts the engine's own questions."""

    parts: dict[str, float]
    total: float
    cost: Cost
    par: Cost
    solved: bool
    under_par: bool
    par_looks: int
    par_suspects: int
    par_chance: float


def score(game: Game, par: Game | None = None) -> Score:
    """Score a game that is over."""
    drill = game.drill
    par = par or par_game(drill)
    grounds = _grounds(game, par)
    parts = {
        "cause": _cause(game, par),
        "grounds": grounds,
        # A lucky guess is no thrift.
        "economy": min(1.0, par.cost.total / max(game.cost.total, 1e-9)) * grounds if game.solved else 0.0,
    }
    if drill.aids:
        parts["first-aid"] = _first_aid(game)
    if drill.repairs:
        parts["repair"] = _repair(game)
    parts = {name: round(parts[name], 4) for name in WEIGHTS if name in parts}
    whole = sum(WEIGHTS[name] for name in parts)
    total = sum(WEIGHTS[name] * share for name, share in parts.items()) / whole
    return Score(
        parts,
        round(100 * total, 1),
        game.cost,
        par.cost,
        game.solved,
        game.solved and game.cost.total < par.cost.total,
        len(_kind(par, "look")),
        len(_kind(par, "suspect")),
        _last_chance(par),
    )


def _kind(game: Game, kind: str) -> list[Step]:
    return [s for s in game.steps if s.kind == kind]


def _first_aid(game: Game) -> float:
    for step in game.steps:
        if step.kind == "aid":
            seen_before = game.steps.index(step) > 0 and game.steps[0].kind != "aid"
            return 0.0 if step.state != "right" else LATE if seen_before else 1.0
    return 0.0


def _cause(game: Game, par: Game) -> float:
    """Full for no more suspicions than the engine needed, half of it for each one more."""
    if not game.solved:
        return 0.0
    tried = [s.state for s in _kind(game, "suspect")].index("right") + 1
    return float(0.5 ** max(0, tried - len(_kind(par, "suspect"))))


def _repair(game: Game) -> float:
    tried = [s.state for s in _kind(game, "repair")]
    return float(0.5 ** tried.index("right")) if "right" in tried else 0.0


def _grounds(game: Game, par: Game) -> float:
    """How well the verdict is founded: certainty reached, or what was learned, against par."""
    drill = game.drill
    at_start = _chance_at_start(drill)
    mine, led = _at_verdict(game)
    theirs = _last_chance(par)
    if led and mine >= min(DECIDE, theirs) and mine > at_start and theirs > at_start:
        return 1.0
    gain, par_gain = (sum(s.gain for s in _kind(g, "look")) for g in (game, par))
    shares = [gain / par_gain if par_gain > 0 else 0.0]
    if theirs > at_start:
        shares.append((_odds(mine) - _odds(at_start)) / (_odds(theirs) - _odds(at_start)))
    return float(min(1.0, max(0.0, *shares)))


def _chance_at_start(drill: Drill) -> float:
    from playbook.engine.belief import posterior

    return drill.chance(posterior(drill.tables, drill.alert))[0]


def _at_verdict(game: Game) -> tuple[float, bool]:
    """(probability of the truth, whether it led) on the evidence that was bought before the right suspicion."""
    from playbook.engine.belief import posterior

    session = Game(game.drill).session
    for step in game.steps:
        if step.kind == "look":
            session.answer(step.name, step.state, source="case")
        elif step.kind == "suspect" and step.state == "right":
            break
    return game.drill.chance(posterior(game.drill.tables, session.evidence))


def _last_chance(game: Game) -> float:
    looks = _kind(game, "look")
    return looks[-1].chance if looks else _chance_at_start(game.drill)


def _odds(p: float) -> float:
    p = min(max(p, 1e-4), 1 - 1e-4)
    return math.log(p / (1 - p))


@dataclass(frozen=True, slots=True)
class Better:
    """A look of the replay, with the better one at that moment and what it would have shown ("" where none was)."""

    step: Step
    signal: str
    state: str


def replay(game: Game) -> list[Better]:
    """Every step; where a look was weak, the check that was most worth its cost then, and its answer."""
    rows = []
    for step in game.steps:
        weak = step.kind == "look" and step.best not in ("", step.name) and step.share < BETTER
        answer = game.drill.oracle.get(step.best, "unknown") if weak else ""
        rows.append(Better(step, step.best if weak else "", answer))
    return rows
