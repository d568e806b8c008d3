"""Published reports -> the network of `engine/precedents.py`: what incidents that tell the same turned out to be.

Trained on the reports and scenarios of `elicited/` against the targets of the fit (the confirmed class, softened by
what a rater judged from the answers alone). Each time a report is shown, a random part of its answers is hidden, as a
diagnosis meets it half way. People tell more or less of the same incident: every other time a part of what a second
reader inferred from the report stands beside its answers. A diagnosis also asks for more than a report tells: every
other time further answers are added, drawn as the class would give them, so that an answer which was only given because
we asked is no news. A random part of the hidden layer is hidden too, and weights decay, so that the network does not
learn single reports by heart. One seed: the same reports give the same network.

Sources: Srivastava et al., JMLR 15 (2014), dropout; Loshchilov and Hutter, ICLR (2017, 2019), cosine schedule and
decoupled decay; Kingma and Ba, ICLR (2015).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from playbook.engine.precedents import Precedents
from playbook.engine.tables import Tables
from playbook.knowledge.loader import Book
from playbook.workflow.cases import CaseFile
from playbook.workflow.upkeep.learn import facts

# Chosen by cross-validation over the reports.
UNITS = 256
EPOCHS, BATCH, RATE, DECAY = 100, 64, 2e-3, 0.18
HIDDEN_ANSWERS = 0.6  # up to this share of the answers of a report is hidden, anew each time; half of it in the mean
HIDDEN_UNITS = 0.5
INFERRED_OFTEN = 0.5  # how often a report is shown with a part of what was inferred from it
FURTHER, FURTHER_OFTEN = 12, 0.5  # up to so many further answers are added, and how often
IMAGINED = 0.4  # weight of a scenario against a report
SEEN_AT_LEAST = 3  # an outcome that fewer reports tell is left out
SCALE = 100  # weights are written as whole hundredths
_SEED = 0
_START = 1 / 6  # variance of the first layer at the start: a report has about twelve answers


@dataclass(frozen=True, slots=True)
class Examples:
    """Reports as numbers.

    x         float64[n, f], 1 where the outcome is told
    inferred  float64[n, f], 1 where it was inferred
    target    float64[n, c]
    worth     float64[n]
    truth     int[n], class of the truth
    """

    x: np.ndarray
    inferred: np.ndarray
    target: np.ndarray
    worth: np.ndarray
    truth: np.ndarray


@dataclass(frozen=True, slots=True)
class Askable:
    """Signals that people are asked for, with what each class answers.

    weight   float64[s], how often an investigator can tell
    feature  int[s, o], input of each outcome; the last input (which is thrown away) where it is none
    share    float64[c, s, o], cumulative P(outcome | class); 1 beyond the last outcome
    """

    weight: np.ndarray
    feature: np.ndarray
    share: np.ndarray


def askable(tables: Tables, log_share: np.ndarray, signals: Iterable[str], names: Sequence[tuple[str, str]]) -> Askable:
    """`log_share` float64[c, k] over the columns of `tables`."""
    chosen = sorted(signals)
    place = {name: k for k, name in enumerate(names)}
    widest = max(len(tables.outcomes[s]) for s in chosen)
    feature = np.full((len(chosen), widest), len(names))
    share = np.ones((len(log_share), len(chosen), widest))
    for i, signal in enumerate(chosen):
        for o, outcome in enumerate(tables.outcomes[signal]):
            feature[i, o] = place.get((signal, outcome), len(names))
        share[:, i, : len(tables.outcomes[signal])] = np.exp(log_share[:, tables.columns[signal]]).cumsum(axis=1)
    return Askable(np.array([tables.answered[s] for s in chosen]), feature, share)


def features(book: Book, cases: Sequence[CaseFile]) -> tuple[tuple[str, str], ...]:
    """(signal, outcome) pairs that enough of `cases` tell, sorted."""
    seen: dict[tuple[str, str], int] = {}
    for case in cases:
        for told in facts(case, book).items():
            seen[told] = seen.get(told, 0) + 1
    return tuple(sorted(pair for pair, n in seen.items() if n >= SEEN_AT_LEAST))


def inputs(book: Book, cases: Sequence[CaseFile], names: Sequence[tuple[str, str]]) -> np.ndarray:
    """float64[n, f]: 1 where a case tells the outcome."""
    place = {name: k for k, name in enumerate(names)}
    x = np.zeros((len(cases), len(names)))
    for i, case in enumerate(cases):
        known = [place[told] for told in facts(case, book).items() if told in place]
        x[i, known] = 1.0
    return x


def train(
    examples: Examples,
    names: tuple[tuple[str, str], ...],
    classes: tuple[str, ...],
    asked: Askable | None = None,
    progress: Callable[[str], None] | None = None,
) -> Precedents:
    """The network after `EPOCHS` passes over `examples`."""
    draw = np.random.default_rng(_SEED)
    n, f = examples.x.shape
    c = examples.target.shape[1]
    weights = {
        "hidden": draw.normal(0, np.sqrt(_START), (f, UNITS)),
        "hidden_bias": np.zeros(UNITS),
        "out": draw.normal(0, 1 / np.sqrt(UNITS), (UNITS, c)),
        "out_bias": np.zeros(c),
    }
    descent = _Descent(weights, EPOCHS * max(n // BATCH, 1))
    for epoch in range(EPOCHS):
        if progress and epoch % 10 == 0:
            progress(f"epoch {epoch} of {EPOCHS}")
        order = draw.permutation(n)
        for first in range(0, max(n - BATCH, 0) + 1, BATCH):
            batch = order[first : first + BATCH]
            x = _told_more(examples.x[batch], examples.inferred[batch], draw)
            if asked is not None:
                x = _asked_on(asked, x, examples.truth[batch], draw)
            hide = HIDDEN_ANSWERS * draw.random((len(batch), 1))
            x = x * (draw.random((len(batch), f)) > hide)
            kept = (draw.random((len(batch), UNITS)) > HIDDEN_UNITS) / (1 - HIDDEN_UNITS)
            descent.step(_slope(weights, x, examples.target[batch], examples.worth[batch], kept))
    return Precedents(names, classes, **weights)


def _told_more(x: np.ndarray, inferred: np.ndarray, draw: np.random.Generator) -> np.ndarray:
    """`x` float64[n, f] with a part of `inferred`, anew each time."""
    part = (draw.random((len(x), 1)) < INFERRED_OFTEN) * draw.random((len(x), 1))
    return np.maximum(x, inferred * (draw.random(x.shape) < part))


def _asked_on(asked: Askable, x: np.ndarray, truth: np.ndarray, draw: np.random.Generator) -> np.ndarray:
    """`x` float64[n, f] with further answers: signals drawn by their weight without return, outcomes by the class."""
    n, s = len(x), len(asked.weight)
    wide = np.hstack([x, np.zeros((n, 1))])
    known = (wide[:, asked.feature] > 0).any(axis=2)
    keys = np.where(known, -np.inf, np.log(asked.weight) + draw.gumbel(size=(n, s)))
    place = (-keys).argsort(axis=1, kind="stable").argsort(axis=1, kind="stable")
    many = np.where(draw.random(n) < FURTHER_OFTEN, draw.integers(1, FURTHER + 1, n), 0)
    rows, signals = np.nonzero((place < many[:, None]) & ~known)
    outcome = (asked.share[truth[rows], signals] < draw.random(len(rows))[:, None]).sum(axis=1)
    wide[rows, asked.feature[signals, np.minimum(outcome, asked.feature.shape[1] - 1)]] = 1.0
    return wide[:, :-1]


def _slope(
    weights: Mapping[str, np.ndarray], x: np.ndarray, target: np.ndarray, worth: np.ndarray, kept: np.ndarray
) -> dict[str, np.ndarray]:
    """Gradient of the mean cross entropy."""
    raw = x @ weights["hidden"] + weights["hidden_bias"]
    gate = (raw > 0) * kept
    active = raw * gate
    z = active @ weights["out"] + weights["out_bias"]
    p = np.exp(z - z.max(axis=1, keepdims=True))
    p /= p.sum(axis=1, keepdims=True)
    error = (p - target) * worth[:, None] / len(x)
    back = (error @ weights["out"].T) * gate
    return {
        "hidden": x.T @ back,
        "hidden_bias": back.sum(axis=0),
        "out": active.T @ error,
        "out_bias": error.sum(axis=0),
    }


class _Descent:
    """Adam with decoupled decay on a cosine schedule; moves `weights` in place."""

    def __init__(self, weights: dict[str, np.ndarray], steps: int) -> None:
        self._weights, self._steps, self._done = weights, steps, 0
        self._mean = {name: np.zeros_like(w) for name, w in weights.items()}
        self._square = {name: np.zeros_like(w) for name, w in weights.items()}

    def step(self, slope: Mapping[str, np.ndarray]) -> None:
        self._done += 1
        rate = RATE * 0.5 * (1 + np.cos(np.pi * self._done / self._steps))
        for name, g in slope.items():
            mean, square, weight = self._mean[name], self._square[name], self._weights[name]
            mean *= 0.9
            mean += 0.1 * g
            square *= 0.99
            square += 0.01 * g * g
            weight *= 1 - rate * DECAY
            weight -= rate * (mean / (1 - 0.9**self._done)) / (np.sqrt(square / (1 - 0.99**self._done)) + 1e-8)


def rounded(net: Precedents) -> dict[str, Any]:
    """As it is written: whole numbers, `scale` of them are 1; empty where too few reports tell the same of anything."""
    if not net.features:
        return {}

    def whole(values: np.ndarray) -> Any:
        return np.rint(values * SCALE).astype(int).tolist()

    return {
        "scale": SCALE,
        "classes": list(net.classes),
        "features": [list(pair) for pair in net.features],
        "hidden": whole(net.hidden),
        "hidden_bias": whole(net.hidden_bias),
        "out": whole(net.out),
        "out_bias": whole(net.out_bias),
    }
