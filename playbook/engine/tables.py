"""The book as numbers: priors of the causes and P(outcome | cause) of every signal, compiled once for the engine.

Words become numbers by `HOW_OFTEN`. Outcomes that a link does not list share the rest by the signal's background. A
cause without a link to a signal has what the linked ones leave of the background: an outcome that others explain speaks
a little against it. The raters' view of each class is pooled in (`opinions`), counts from confirmed incidents
(`learned`) are added to the words as to a Dirichlet prior. Hard exclusions are (almost) zero.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from playbook.engine.opinions import pool
from playbook.engine.precedents import Precedents
from playbook.knowledge.entries import HOW_OFTEN, SHAPE, Cause, Signal
from playbook.knowledge.loader import Book

# Where nearly all causes have a link, what they leave is no estimate.
MOST_LINKED = 0.2
# Weight of a cause within its class.
_COMMON = {"very_common": 4.0, "common": 2.0, "occasional": 1.0, "rare": 0.4}
# A cause may fail to do what the book says, a person may read a curve wrongly: a link keeps this share of background.
SLIP = 0.2
# What the linked causes leave of the background is believed down to this share of it: not every link has been written.
UNLINKED = 0.3
IMPOSSIBLE = 1e-9
# Pseudo-counts behind an authored word, and behind an authored background: how many incidents it takes to move them.
WORD_STRENGTH = 16.0
BACKGROUND_STRENGTH = 12.0
# How often an investigator can get a signal at all, by kind, and how many published cases it takes to move that.
ANSWERED = {"config": 0.5, "metrics": 0.5, "log": 0.4, "probe": 0.3, "ask": 0.3, "experiment": 0.15}
ANSWERED_STRENGTH = 20.0
# Added to the published incidents of a class, so that a rare class is not ruled out by its rarity.
CLASS_SMOOTHING = 1.5

Counts = Mapping[str, Mapping[str, Mapping[str, float]]]  # class -> signal -> outcome -> incidents


@dataclass(frozen=True)
class Tables:
    """Arrays over causes h (sorted by class, then id) and columns k = (signal, outcome), signals in order of their ids.

    prior       float64[h], sums to 1
    columns     {signal: slice of k}; outcomes {signal: (outcome, ...)} in the order of the columns
    likelihood  float64[h, k], P(outcome | cause); sums to 1 over the columns of one signal
    background  float64[k]
    answered    {signal: how often an investigator can get it}, from its kind and the published cases
    class_start int[c], first cause of each class (for np.add.reduceat)
    couples     {(i, j): weight} authored pairs, i < j
    told_by     {k: other columns that say as much}
    circumstances {signal: its weight}, of how the run is set up: it tells where a fault is met and not that it is there
    needs       {signal: {other signal: outcomes}}: known to be another one, there is nothing to ask
    precedents  what judges what is told beside the graph; None where the book has none
    """

    causes: tuple[str, ...]
    classes: tuple[str, ...]
    class_of: tuple[str, ...]
    class_start: np.ndarray
    prior: np.ndarray
    signals: tuple[str, ...]
    columns: dict[str, slice]
    outcomes: dict[str, tuple[str, ...]]
    groups: dict[str, str]
    answered: dict[str, float]
    likelihood: np.ndarray
    background: np.ndarray
    linked: np.ndarray  # bool[h, signal]
    excluded: dict[tuple[str, str], tuple[int, ...]]  # (signal, outcome) -> causes that it rules out
    couples: dict[tuple[int, int], float]
    told_by: dict[int, frozenset[int]]
    circumstances: dict[str, float]
    needs: dict[str, dict[str, frozenset[str]]]
    precedents: Precedents | None = None

    def column(self, signal: str, outcome: str) -> int | None:
        """Index k of an outcome; None where the book has no such signal or outcome."""
        if signal not in self.columns or outcome not in self.outcomes[signal]:
            return None
        return self.columns[signal].start + self.outcomes[signal].index(outcome)

    def graph(self) -> Tables:
        """These tables without precedents, which would cover for a broken link."""
        return replace(self, precedents=None)

    def index(self, cause: str) -> int:
        return self.causes.index(cause)

    def members(self, c: int) -> range:
        """The causes h of class c."""
        stops = [*self.class_start[1:], len(self.causes)]
        return range(int(self.class_start[c]), int(stops[c]))


def compile_book(book: Book, learned: Counts | None = None) -> Tables:
    """Book -> Tables. `learned` defaults to the counts that the book carries."""
    counts: Counts = book.learned.get("counts", {}) if learned is None else learned
    causes: list[Cause] = sorted(
        (c for c in book.causes.values() if c.status != "deprecated"), key=lambda c: (c.class_, c.id)
    )
    signals: list[Signal] = [book.signals[key] for key in sorted(book.signals)]
    columns: dict[str, slice] = {}
    outcomes: dict[str, tuple[str, ...]] = {}
    start = 0
    for signal in signals:
        outcomes[signal.id] = tuple(signal.outcomes)
        columns[signal.id] = slice(start, start + len(signal.outcomes))
        start += len(signal.outcomes)
    background = np.empty(start)
    likelihood = np.empty((len(causes), start))
    linked = np.zeros((len(causes), len(signals)), bool)
    by_class: dict[str, list[int]] = {}
    for h, cause in enumerate(causes):
        by_class.setdefault(cause.class_, []).append(h)
    classes = sorted(by_class)
    class_start = np.array([by_class[name][0] for name in classes], int)
    prior = _prior(causes, by_class, book.classes)
    for s, signal in enumerate(signals):
        where = columns[signal.id]
        base = _background(signal, counts)
        background[where] = base
        block = np.tile(base, (len(causes), 1))
        for h, cause in enumerate(causes):
            words = _words(cause, signal)
            if words:
                linked[h, s] = True
                block[h] = (1 - SLIP) * _spread(words, outcomes[signal.id], base) + SLIP * base
        block[~linked[:, s]] = _unlinked(block, linked[:, s], prior, base)
        block = _weighed(block, base, signal.weight)
        if signal.id in book.opinions:
            shares = _shares(book.opinions[signal.id], outcomes[signal.id])
            block = pool(block, shares, classes, class_start, prior, linked[:, s])
        _add_counts(block, by_class, signal, counts, outcomes[signal.id])
        likelihood[:, where] = block
    excluded = _exclude(causes, likelihood, columns, outcomes)
    index = {cause.id: h for h, cause in enumerate(causes)}
    return Tables(
        causes=tuple(c.id for c in causes),
        classes=tuple(classes),
        class_of=tuple(c.class_ for c in causes),
        class_start=class_start,
        prior=prior,
        signals=tuple(s.id for s in signals),
        columns=columns,
        outcomes=outcomes,
        groups={s.id: s.group for s in signals},
        answered=_answered(book, signals),
        likelihood=likelihood,
        background=background,
        linked=linked,
        excluded=excluded,
        couples=_couples(causes, index),
        told_by=_told_by(signals, columns, outcomes),
        needs={s.id: {name: frozenset(o) for name, o in s.needs.items()} for s in signals if s.needs},
        circumstances={s.id: s.weight for s in signals if s.circumstance},
        precedents=Precedents.read(book.precedents) if book.precedents else None,
    )


def _answered(book: Book, signals: list[Signal]) -> dict[str, float]:
    """Published incidents say which observations people really came by."""
    counts: dict[str, int] = {}
    for case in book.cases.values():
        for name in {*case.answers, *case.context}:
            counts[name] = counts.get(name, 0) + 1
    total = len(book.cases) + ANSWERED_STRENGTH
    return {s.id: (counts.get(s.id, 0) + ANSWERED_STRENGTH * ANSWERED[s.kind]) / total for s in signals}


def _background(signal: Signal, counts: Counts) -> np.ndarray:
    unnamed = HOW_OFTEN["seldom"]
    words = np.array([HOW_OFTEN[signal.background[o]] if o in signal.background else unnamed for o in signal.outcomes])
    seen = np.array([sum(c.get(signal.id, {}).get(o, 0.0) for c in counts.values()) for o in signal.outcomes])
    return (words / words.sum() * BACKGROUND_STRENGTH + seen) / (BACKGROUND_STRENGTH + seen.sum())


def _words(cause: Cause, signal: Signal) -> Mapping[str, str]:
    if signal.id == SHAPE:
        return cause.shows
    link = cause.expects.get(signal.id)
    return link.states if link else {}


def _spread(words: Mapping[str, str], outcomes: tuple[str, ...], base: np.ndarray) -> np.ndarray:
    """Numbers for the named outcomes; the rest of the mass goes to the others in proportion to the background."""
    row = np.array([HOW_OFTEN[words[o]] if o in words else 0.0 for o in outcomes])
    named = np.array([o in words for o in outcomes])
    total = row.sum()
    if total <= 0:
        return base
    rest = float(base[~named].sum())
    if total >= 1 or rest <= 0:
        return row / total
    row[~named] = (1 - total) * base[~named] / rest
    return row


def _unlinked(block: np.ndarray, linked: np.ndarray, prior: np.ndarray, base: np.ndarray) -> np.ndarray:
    """float64[outcomes]: a cause without a link, so that all causes together come to the background."""
    share = float(prior[~linked].sum())
    if not linked.any() or share < MOST_LINKED:
        return base
    rest = np.maximum((base - prior[linked] @ block[linked]) / share, UNLINKED * base)
    return np.asarray(rest / rest.sum())


def _weighed(block: np.ndarray, base: np.ndarray, weight: float) -> np.ndarray:
    """A circumstance (what is trained, on what) tells where a fault is met and not that it is there: it counts less."""
    if weight == 1.0:
        return block
    less = (block / base) ** weight * base
    return np.asarray(less / less.sum(axis=1, keepdims=True))


def _shares(opinion: Mapping[str, Mapping[str, float]], outcomes: tuple[str, ...]) -> dict[str, list[float]]:
    """Rows in the order of the signal's outcomes; a row that does not fit them is left out."""
    return {name: [row[o] for o in outcomes] for name, row in opinion.items() if set(row) == set(outcomes)}


def _add_counts(
    block: np.ndarray, by_class: Mapping[str, list[int]], signal: Signal, counts: Counts, outcomes: tuple[str, ...]
) -> None:
    for name, members in by_class.items():
        seen = counts.get(name, {}).get(signal.id)
        if seen:
            row = np.array([seen.get(o, 0.0) for o in outcomes])
            block[members] = (block[members] * WORD_STRENGTH + row) / (WORD_STRENGTH + row.sum())


def _exclude(
    causes: list[Cause], likelihood: np.ndarray, columns: Mapping[str, slice], outcomes: Mapping[str, tuple[str, ...]]
) -> dict[tuple[str, str], tuple[int, ...]]:
    excluded: dict[tuple[str, str], list[int]] = {}
    for h, cause in enumerate(causes):
        for rule in cause.excludes:
            if rule.signal in columns and rule.outcome in outcomes[rule.signal]:
                where = columns[rule.signal]
                likelihood[h, where.start + outcomes[rule.signal].index(rule.outcome)] = 0.0
                rest = likelihood[h, where].sum()
                likelihood[h, where] = np.maximum(likelihood[h, where] / rest if rest > 0 else 0.0, IMPOSSIBLE)
                excluded.setdefault((rule.signal, rule.outcome), []).append(h)
    return {key: tuple(members) for key, members in sorted(excluded.items())}


def _prior(causes: list[Cause], by_class: Mapping[str, list[int]], classes: Mapping[str, Any]) -> np.ndarray:
    """Published incidents of the class, shared among its causes by how common each one is within it."""
    prior = np.zeros(len(causes))
    for name, members in by_class.items():
        info = classes.get(name, {})
        weight = float(info.get("published", 0) if isinstance(info, dict) else 0) + CLASS_SMOOTHING
        share = np.array([_COMMON[causes[h].common] for h in members])
        prior[members] = weight * share / share.sum()
    return prior / prior.sum() if len(prior) else prior


def _couples(causes: list[Cause], index: Mapping[str, int]) -> dict[tuple[int, int], float]:
    pairs: dict[tuple[int, int], float] = {}
    for h, cause in enumerate(causes):
        for couple in cause.couples:
            if couple.cause in index and couple.cause != cause.id:
                i, j = sorted((h, index[couple.cause]))
                pairs[i, j] = 1.0
    return pairs


def _told_by(
    signals: list[Signal], columns: Mapping[str, slice], outcomes: Mapping[str, tuple[str, ...]]
) -> dict[int, frozenset[int]]:
    def places(name: str, wanted: Iterable[str]) -> list[int]:
        return [columns[name].start + outcomes[name].index(o) for o in wanted if o in outcomes.get(name, ())]

    return {
        k: frozenset(other for name, wanted in others.items() for other in places(name, wanted))
        for signal in signals
        for outcome, others in signal.told_by.items()
        for k in places(signal.id, [outcome])
    }
