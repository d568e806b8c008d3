"""The posterior: how probable is each cause, each pair of causes, and "not in the book", given the evidence.

A hypothesis is one cause, two causes at once, or a cause that the book does not know. Evidence enters as a ratio to
the signal's background, so an unknown cause stays at 1. Signals of one group are views of one fact and are discounted
together; what another signal has said already counts for less. Under a pair each observation is made by one of the two
faults (an even mixture). What was told is also judged by precedents, and both judgements are pooled.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from playbook.engine import precedents
from playbook.engine.tables import IMPOSSIBLE, Tables
from playbook.findings import Evidence

# n signals of one group count as n**(1 - DISCOUNT) independent ones. Judged on the development half of the cases.
DISCOUNT = 0.5
# Every log ratio is divided by this: words and raters are more careful than the world. Judged by cross-validation.
TEMPERATURE = 0.5
# What another observation has said already counts as this share of an observation.
TOLD = 0.4
UNKNOWN_PRIOR = 0.03  # incidents whose cause no book has
AUTHORED_PAIRS_PRIOR = 0.03  # two faults at once that the book names together
OTHER_PAIRS_PRIOR = 0.01  # any other two faults at once
PAIR_CANDIDATES = 24  # most probable single causes of which pairs are formed
PAIRS_NAMED, PAIR_NAMED = 20, 1e-3  # pairs that a belief names at most, and the probability above which it does
# A likelihood ratio below this comes only from a hard exclusion: authored words and slips never go so low.
RULES_OUT = 1e-6


@dataclass(frozen=True)
class Belief:
    """The state of knowledge after some evidence.

    single     float64[h], probability of each cause alone
    pairs      ((i, j, probability), ...), most probable first, those above `PAIR_NAMED`
    marginal   float64[h], single + half of each pair that holds the cause; with `unknown` it sums to 1
    unknown    probability of "not in the book"
    by_class   float64[c], sums of `marginal`
    ratios     float64[e, h], log P(evidence e | cause) / background after discount, for the explanation
    weights    float64[e], that discount: the exponent of each observation
    used       the evidence that the book could use, in the order of `ratios`
    unmapped   signals (or outcomes) that the book lacks
    judged     float64[c], what precedents say of what was told (sums to 1); None where nothing was
    """

    single: np.ndarray
    pairs: tuple[tuple[int, int, float], ...]
    marginal: np.ndarray
    unknown: float
    by_class: np.ndarray
    ratios: np.ndarray
    weights: np.ndarray
    used: tuple[Evidence, ...]
    unmapped: tuple[Evidence, ...]
    judged: np.ndarray | None = None


@dataclass(frozen=True)
class _Scores:
    """The graph before it is normed: weights float64[e], ratios float64[e, h], log mass of causes and pairs."""

    weights: np.ndarray
    ratios: np.ndarray
    single: np.ndarray
    ij: np.ndarray
    pairs: np.ndarray


def posterior(tables: Tables, evidence: Iterable[Evidence]) -> Belief:
    """The belief after `evidence`; its order does not matter, a signal counts once (the last word on it)."""
    used, unmapped = usable(tables, evidence)
    scores = _scores(tables, used)
    told = precedents.told(used) if tables.precedents else ()
    if not told or tables.precedents is None:
        return _normed(tables, scores, used, unmapped)
    judged = tables.precedents.judge(told, tables.classes)
    alone = _normed(tables, scores if told == used else _scores(tables, told), told, ())
    shifted = _shifted(tables, scores, precedents.pool(judged, alone.by_class))
    return replace(_normed(tables, shifted, used, unmapped), judged=judged)


def _scores(tables: Tables, used: tuple[Evidence, ...]) -> _Scores:
    likelihoods = _likelihoods(tables, used)  # [e, h], relative to the background
    weights = exponents(tables, used)
    ratios = np.log(likelihoods) * weights[:, None]
    possible = np.asarray((likelihoods > RULES_OUT).all(axis=0))
    single = np.log(tables.prior * (1 - UNKNOWN_PRIOR - AUTHORED_PAIRS_PRIOR - OTHER_PAIRS_PRIOR)) + ratios.sum(axis=0)
    single[~possible] = -np.inf
    return _Scores(weights, ratios, single, *_pairs(tables, likelihoods, weights, single, possible))


def _shifted(tables: Tables, scores: _Scores, shift: np.ndarray) -> _Scores:
    """`shift` float64[c] is added to the log mass of each class; a pair has the mean of its two."""
    own = np.repeat(shift, np.diff(np.append(tables.class_start, len(tables.causes))))
    return replace(scores, single=scores.single + own, pairs=scores.pairs + own[scores.ij].mean(axis=1))


def _normed(tables: Tables, scores: _Scores, used: tuple[Evidence, ...], unmapped: tuple[Evidence, ...]) -> Belief:
    everything = np.concatenate([scores.single, scores.pairs, [np.log(UNKNOWN_PRIOR)]])
    mass = np.exp(everything - everything.max())
    mass /= mass.sum()
    n, ij = len(tables.causes), scores.ij
    single, pair_mass, unknown = mass[:n], mass[n:-1], float(mass[-1])
    marginal = single.copy()
    np.add.at(marginal, ij[:, 0], pair_mass / 2)
    np.add.at(marginal, ij[:, 1], pair_mass / 2)
    order = np.argsort(-pair_mass, kind="stable")[:PAIRS_NAMED]
    pairs = tuple((int(ij[k, 0]), int(ij[k, 1]), float(pair_mass[k])) for k in order if pair_mass[k] > PAIR_NAMED)
    by_class = np.add.reduceat(marginal, tables.class_start) if n else marginal
    return Belief(single, pairs, marginal, unknown, by_class, scores.ratios, scores.weights, used, unmapped)


def usable(tables: Tables, evidence: Iterable[Evidence]) -> tuple[tuple[Evidence, ...], tuple[Evidence, ...]]:
    """(evidence by signal, sorted and with a known outcome; the rest)."""
    last: dict[str, Evidence] = {}
    unmapped: list[Evidence] = []
    for item in evidence:
        if tables.column(item.signal, item.state) is None:
            unmapped.append(item)
        else:
            last[item.signal] = item
    return tuple(last[key] for key in sorted(last)), tuple(unmapped)


def group_sizes(tables: Tables, signals: Iterable[str]) -> Counter[str]:
    """How many of each group are among `signals`; what the book does not have is no member."""
    return Counter(tables.groups[signal] for signal in signals if signal in tables.groups)


def group_weights(tables: Tables, signals: Sequence[str]) -> np.ndarray:
    """float64[e]: the share of its log ratio that each signal may bring, by how many of its group are known."""
    sizes = group_sizes(tables, signals)
    return np.array([sizes[tables.groups[s]] ** -DISCOUNT for s in signals], float)


def exponents(tables: Tables, used: Sequence[Evidence]) -> np.ndarray:
    """float64[e]: the power to which the likelihood ratio of each observation is raised."""
    told = told_columns(tables, used)
    own = [TOLD if tables.column(e.signal, e.state) in told else 1.0 for e in used]
    weights = group_weights(tables, [e.signal for e in used]) * own
    return np.asarray(np.minimum(weights, line_shares(tables, used)) / TEMPERATURE)


def line_shares(tables: Tables, used: Sequence[Evidence]) -> np.ndarray:
    """float64[e]: one line of a log is one observation, however many signals wait for it.

    The signal of which it says the most particular thing counts, the others count as told.
    """
    members: dict[tuple[str, int], list[int]] = {}
    for e, item in enumerate(used):
        if (line := line_of(item)) is not None:
            members.setdefault(line, []).append(e)
    shares = np.ones(len(used))
    for places in members.values():
        if len(places) > 1:
            lifts = _likelihoods(tables, [used[e] for e in places]).max(axis=1)  # of the cause that it speaks for most
            shares[places] = TOLD
            shares[places[int(np.argmax(lifts))]] = 1.0
    return shares


def line_of(item: Evidence) -> tuple[str, int] | None:
    """The line that the evidence was read from; None for what was measured, set or told."""
    if item.source not in ("log", "probe") or item.origin is None or item.origin.line is None:
        return None
    return item.origin.path, item.origin.line


def told_columns(tables: Tables, used: Iterable[Evidence]) -> frozenset[int]:
    """The outcomes k that are known from what other signals of `used` say."""
    known = {tables.column(e.signal, e.state) for e in used}
    return frozenset(k for k, others in tables.told_by.items() if not known.isdisjoint(others))


def told_signals(tables: Tables, used: Iterable[Evidence]) -> frozenset[str]:
    """The signals that `used` answers without naming them."""
    told = told_columns(tables, used)
    return frozenset(s for s, where in tables.columns.items() if any(where.start <= k < where.stop for k in told))


def _likelihoods(tables: Tables, used: Sequence[Evidence]) -> np.ndarray:
    rows = np.empty((len(used), len(tables.causes)))
    for e, item in enumerate(used):
        where = tables.columns[item.signal]
        weights = _outcome_weights(tables, item)
        rows[e] = (tables.likelihood[:, where] / tables.background[where]) @ weights
    return np.maximum(rows, IMPOSSIBLE)


def _outcome_weights(tables: Tables, item: Evidence) -> np.ndarray:
    """float64[outcomes], sums to 1: certain evidence is one outcome, unsure evidence is mixed with the background."""
    outcomes = tables.outcomes[item.signal]
    background = tables.background[tables.columns[item.signal]]
    weights = np.zeros(len(outcomes))
    if item.likelihood:
        for outcome, weight in item.likelihood:
            if outcome in outcomes:
                weights[outcomes.index(outcome)] += weight
        total = weights.sum()
        return weights / total if total > 0 else background
    weights[outcomes.index(item.state)] = item.confidence
    return weights + (1 - item.confidence) * background


def _pairs(
    tables: Tables, likelihoods: np.ndarray, weights: np.ndarray, log_single: np.ndarray, possible: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """(int[p, 2], float64[p]): the pairs worth a look and their unnormalised log posterior."""
    candidates = [int(h) for h in np.argsort(-log_single, kind="stable")[:PAIR_CANDIDATES] if possible[h]]
    plausible = {tuple(sorted((a, b))) for k, a in enumerate(candidates) for b in candidates[k + 1 :]}
    authored = [pair for pair in tables.couples if possible[pair[0]] and possible[pair[1]]]
    chosen = sorted(plausible | set(authored))
    if not chosen:
        return np.empty((0, 2), int), np.empty(0)
    ij = np.array(chosen, int)
    i, j = ij[:, 0], ij[:, 1]
    root = np.sqrt(tables.prior[i] * tables.prior[j])
    named = np.array([pair in tables.couples for pair in chosen])
    norm = sum(np.sqrt(tables.prior[a] * tables.prior[b]) for a, b in tables.couples) or 1.0
    all_pairs = (np.sqrt(tables.prior).sum() ** 2 - 1) / 2  # sum of sqrt(p_i p_j) over all i < j
    prior = np.where(named, AUTHORED_PAIRS_PRIOR * root / norm, OTHER_PAIRS_PRIOR * root / max(all_pairs, 1e-12))
    mixture = np.log((likelihoods[:, i] + likelihoods[:, j]) / 2)
    return ij, np.log(prior) + weights @ mixture
