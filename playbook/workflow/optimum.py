"""How far the order of questions is from the best one: small parts of the book, solved exactly.

A part is the few most probable causes of one symptom and the few signals that tell them apart best, one of each group
(so that the book's independence holds). Its world is the book itself: the truth is drawn from the prior, an
observation from P(outcome | cause). Dynamic programming over every state of knowledge gives the strategy of least
expected cost: the minutes of what is asked, and `WRONG_MINUTES` where the cause that is named at the end is wrong. The
engine is played through the same world, state by state, so no sampling enters.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from playbook.engine.belief import posterior
from playbook.engine.diagnosis import CERTAIN, IDLE_GAIN, IDLE_RATE
from playbook.engine.explain import leader_of
from playbook.engine.tables import SHAPE, Tables
from playbook.engine.value import RunSize, cost_of, gains, options
from playbook.findings import Evidence
from playbook.knowledge.entries import Signal
from playbook.knowledge.loader import Book

CAUSES, SIGNALS = 6, 6  # of one part; its states grow as 3 ** signals
WRONG_MINUTES = 480.0  # a working day spent on the wrong repair
LEAST_GAIN = 0.02  # bits: a signal that tells less about the part is not worth a place in it

State = tuple[tuple[str, str], ...]  # what is known, by signal


@dataclass(frozen=True, slots=True)
class Part:
    """A small world: `tables` holds its causes and signals only, `signals` their entries."""

    symptom: str
    tables: Tables
    signals: Mapping[str, Signal]
    size: RunSize

    def minutes(self, state: State, signal: str) -> float:
        """What one more answer costs in a state of knowledge: a rerun that was made is only read off."""
        return cost_of(self.signals[signal], self.size, self.clusters(state)).total

    def clusters(self, state: State) -> frozenset[str]:
        return frozenset(c for signal, _ in state if (c := self.signals[signal].cluster))


@dataclass(frozen=True, slots=True)
class Row:
    """One part, in expected minutes.

    best    the best strategy there is
    engine  the engine's order and its own stop rule
    order   the engine's order, ended where that is best
    fixed   the order of the alphabet, ended where that is best
    """

    symptom: str
    best: float
    engine: float
    order: float
    fixed: float


def compare(book: Book, tables: Tables) -> list[Row]:
    """One row a symptom whose part has something to ask."""
    rows = []
    for symptom in tables.outcomes[SHAPE]:
        part = cut(book, tables, symptom)
        if part is None:
            continue
        rows.append(
            Row(
                symptom,
                best_cost(part),
                policy_cost(part, engine_choice(book, part)),
                policy_cost(part, engine_choice(book, part, stops=False), free_stop=True),
                policy_cost(part, alphabet(part), free_stop=True),
            )
        )
    return rows


def cut(book: Book, tables: Tables, symptom: str, size: RunSize | None = None) -> Part | None:
    """The part of a symptom: its most probable classes (by their most probable cause) and what tells them apart."""
    belief = posterior(tables, [Evidence(SHAPE, symptom, "person")])
    likely = np.argsort(-belief.by_class, kind="stable")[:CAUSES]
    leaders = sorted(leader_of(tables, belief, int(c)) for c in likely)
    weights = belief.marginal[leaders]
    small = restrict(tables, leaders, tables.signals, weights / weights.sum())
    gain = gains(small, posterior(small, []), {SHAPE})
    chosen: dict[str, str] = {}
    for name in sorted(gain, key=lambda s: (-round(gain[s], 9), s)):
        if gain[name] >= LEAST_GAIN and tables.groups[name] not in chosen and len(chosen) < SIGNALS:
            chosen[tables.groups[name]] = name
    if len(chosen) < 2:
        return None
    names = tuple(sorted(chosen.values()))
    entries = {name: book.signals[name] for name in names}
    return Part(symptom, restrict(small, range(len(small.causes)), names, small.prior), entries, size or RunSize())


def restrict(tables: Tables, causes: Sequence[int], signals: tuple[str, ...], prior: np.ndarray) -> Tables:
    """The same numbers over fewer causes (in order) and signals; couples are left out."""
    rows = list(causes)
    columns: dict[str, slice] = {}
    picked: list[int] = []
    for name in signals:
        where = tables.columns[name]
        columns[name] = slice(len(picked), len(picked) + where.stop - where.start)
        picked += range(where.start, where.stop)
    names = tuple(tables.class_of[h] for h in rows)
    classes = tuple(sorted(set(names)))
    return replace(
        tables,
        precedents=None,
        causes=tuple(tables.causes[h] for h in rows),
        classes=classes,
        class_of=names,
        class_start=np.array([names.index(name) for name in classes], int),
        prior=np.asarray(prior, float),
        signals=signals,
        columns=columns,
        outcomes={name: tables.outcomes[name] for name in signals},
        groups={name: tables.groups[name] for name in signals},
        answered=dict.fromkeys(signals, 1.0),
        likelihood=tables.likelihood[np.ix_(rows, picked)],
        background=tables.background[picked],
        linked=tables.linked[np.ix_(rows, [tables.signals.index(name) for name in signals])],
        excluded={},
        couples={},
    )


def exact(part: Part, state: State) -> np.ndarray:
    """float64[h]: P(cause and what is known) by the book's own numbers; not normalised."""
    joint = part.tables.prior.copy()
    for signal, outcome in state:
        joint = joint * part.tables.likelihood[:, part.tables.column(signal, outcome)]
    return joint


def _with(state: State, signal: str, outcome: str) -> State:
    return tuple(sorted((*state, (signal, outcome))))


def _stop(part: Part, joint: np.ndarray) -> float:
    by_class = np.add.reduceat(joint, part.tables.class_start)
    return float(WRONG_MINUTES * (joint.sum() - by_class.max()))


def best_cost(part: Part) -> float:
    """Expected minutes of the best strategy."""
    memo: dict[State, float] = {}

    def solve(state: State) -> float:
        if state not in memo:
            joint = exact(part, state)
            known = dict(state)
            best = _stop(part, joint)
            for signal in part.tables.signals:
                price = part.minutes(state, signal)
                # What an optimal strategy pays is at least the price of its next question.
                if signal in known or price * joint.sum() >= best:
                    continue
                outcomes = part.tables.outcomes[signal]
                best = min(best, price * float(joint.sum()) + sum(solve(_with(state, signal, o)) for o in outcomes))
            memo[state] = best
        return memo[state]

    return solve(())


def policy_cost(part: Part, choose: Callable[[State], str | None], free_stop: bool = False) -> float:
    """Expected minutes when `choose` says what to ask (None: stop); `free_stop`: earlier where better."""
    memo: dict[State, float] = {}

    def solve(state: State) -> float:
        if state not in memo:
            joint = exact(part, state)
            stop = _stop(part, joint)
            signal = choose(state)
            if signal is None:
                memo[state] = stop
            else:
                outcomes = part.tables.outcomes[signal]
                on = part.minutes(state, signal) * float(joint.sum()) + sum(
                    solve(_with(state, signal, o)) for o in outcomes
                )
                memo[state] = min(on, stop) if free_stop else on
        return memo[state]

    return solve(())


def alphabet(part: Part) -> Callable[[State], str | None]:
    """Every signal in turn, whatever it tells."""

    def choose(state: State) -> str | None:
        known = dict(state)
        return next((name for name in part.tables.signals if name not in known), None)

    return choose


def engine_choice(book: Book, part: Part, stops: bool = True) -> Callable[[State], str | None]:
    """What the engine would ask in a state of knowledge; None where it stops (`stops=False`: only at the end)."""

    def choose(state: State) -> str | None:
        belief = posterior(part.tables, [Evidence(signal, outcome, "person") for signal, outcome in state])
        if stops and float(belief.by_class.max()) >= CERTAIN:
            return None
        plan = options(part.tables, belief, book.signals, set(dict(state)), (), part.size, part.clusters(state))
        if stops:
            plan = [o for o in plan if o.gain >= IDLE_GAIN and o.rate >= IDLE_RATE]
        return plan[0].signal if plan else None

    return choose
