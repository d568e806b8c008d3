"""Opinions fitted to published reports: what raters say of each class, moved until it explains what reports show.

The start is the belief of the engine with the raters' shares. Unknown are shifts of log P(outcome | class): one a class
and outcome, one a layer and outcome (a class that is seldom reported borrows from its layer), and one stretch a signal
(a circumstance that tells less than the raters thought is drawn towards the mean of all classes). Wanted is the
greatest posterior under normal priors, which is ridge-penalised multinomial logistic regression with the engine's own
discounts as weights of the observations. Each report enters with its confirmed class and with what a rater judged from
its answers alone (a report may name the cause and hold little that tells it), once whole and again with a part of its
answers, as a diagnosis meets it half way.

Sources: genest-1986, ohagan-2006; Hoerl and Kennard, Technometrics 12 (1970); Kingma and Ba, Adam (2015).
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from playbook.engine.belief import exponents, posterior
from playbook.engine.opinions import WEIGHT, class_mean
from playbook.engine.precedents import Precedents, pool
from playbook.engine.tables import Tables, compile_book
from playbook.findings import Evidence
from playbook.knowledge.entries import SHAPE
from playbook.knowledge.loader import Book
from playbook.workflow.calibration import calibration_error
from playbook.workflow.upkeep import precedents
from playbook.workflow.upkeep.learn import class_of, facts
from playbook.workflow.upkeep.reports import Elicited, Report

Opinions = dict[str, dict[str, dict[str, float]]]

# Penalties (1 / variance of the priors, in nats) and weights, chosen on reports and development cases that a fit had
# not seen.
RIDGE_CLASS, RIDGE_LAYER, RIDGE_STRETCH = 8.0, 2.0, 20.0
CONFIRMED = 0.6  # share of the confirmed class in what a report teaches; the rater's judgement has the rest
IMAGINED = 0.3  # weight of a scenario against a report
PARTS, KEPT, PART_WEIGHT = 2, 0.65, 0.5  # further copies of a report with this share of its answers, and their weight
RATED_AT_LEAST = 1.0  # per cent: a rater's "never" is not believed to the letter
TWICE_WEIGHT = 0.5  # weight of a report with what a second reader inferred
# Who names the number format mostly had trouble with it: reports show when it is told, which precedents learn, and not
# how common it is in a class.
AS_RATED = frozenset({"precision"})
STEPS, RATE, SLOW_AFTER, SLOW = 250, 0.05, 0.6, 0.2


@dataclass(frozen=True, slots=True)
class Lessons:
    """Reports as numbers: n reports, c classes, k columns of the tables.

    offset  float64[n, c], log of the belief at the start
    weight  float64[n, k], exponent of each observation
    target  float64[n, c], sums to 1
    worth   float64[n]
    """

    offset: np.ndarray
    weight: np.ndarray
    target: np.ndarray
    worth: np.ndarray

    def __add__(self, other: Lessons) -> Lessons:
        pairs = ((getattr(self, name), getattr(other, name)) for name in self.__slots__)
        return Lessons(*(np.concatenate(pair) for pair in pairs))


@dataclass(frozen=True, slots=True)
class Start:
    """The engine before a fit, and the shape of its tables.

    share   float64[c, k], P(outcome | class)
    layer   int[c]
    rated   the signals that raters judged; what a log, a probe or a setting shows is left to the links of each cause
    moved   those that reports move: all but `AS_RATED`
    first   int[s], first column of each signal; width int[s]
    """

    tables: Tables
    share: np.ndarray
    layer: np.ndarray
    rated: frozenset[str]
    moved: frozenset[str]
    first: np.ndarray
    width: np.ndarray


def start(book: Book, raters: Opinions) -> Start:
    """Tables of the book with the raters' shares as its opinions."""
    rated = {
        signal: {c: {o: max(x, RATED_AT_LEAST) for o, x in row.items()} for c, row in rows.items()}
        for signal, rows in raters.items()
    }
    tables = compile_book(replace(book, opinions=rated, precedents={}))
    layer_of = {cause.class_: cause.layer for cause in book.causes.values()}
    layers = sorted(set(layer_of.values()))
    first = np.array(sorted(where.start for where in tables.columns.values()))
    return Start(
        tables,
        by_class(tables),
        np.array([layers.index(layer_of[name]) for name in tables.classes]),
        frozenset(raters),
        frozenset(raters) - AS_RATED,
        first,
        np.diff(np.append(first, len(tables.background))),
    )


def by_class(tables: Tables) -> np.ndarray:
    """float64[c, k]: P(outcome | class)."""
    return class_mean(tables.likelihood, tables.class_start, tables.prior)


def lessons(begin: Start, book: Book, cases: Sequence[Report], elicited: Elicited, part: int = 0) -> Lessons:
    """What `cases` teach; `part` 0 takes them whole, others keep a part of the answers that depends on it."""
    tables = begin.tables
    n = len(cases)
    offset, target = np.empty((n, len(tables.classes))), np.zeros((n, len(tables.classes)))
    weight = np.zeros((n, len(tables.background)))
    for i, case in enumerate(cases):
        known = facts(case, book).items()
        evidence = [Evidence(s, o, "case", "") for s, o in known if not part or s == SHAPE or _kept(case.id, s, part)]
        belief = posterior(tables, evidence)
        offset[i] = np.log(np.maximum(belief.by_class, 1e-9))
        for exponent, item in zip(exponents(tables, belief.used), belief.used, strict=True):
            weight[i, tables.column(item.signal, item.state)] = exponent * (item.signal in begin.moved)
        target[i] = _target(begin, book, case, elicited)
    return Lessons(offset, weight, target, np.full(n, PART_WEIGHT if part else 1.0))


def _kept(case: str, signal: str, part: int) -> bool:
    digest = hashlib.sha256(f"{case} {signal} {part}".encode()).digest()
    return int.from_bytes(digest[:4], "big") < KEPT * 2**32


def _truth(begin: Start, book: Book, case: Report) -> np.ndarray:
    truth = np.zeros(len(begin.tables.classes))
    for name in {c for cause in case.causes if (c := class_of(book, cause))}:
        truth[begin.tables.classes.index(name)] = 1.0
    return truth / max(truth.sum(), 1.0)


def _target(begin: Start, book: Book, case: Report, elicited: Elicited) -> np.ndarray:
    classes, truth = begin.tables.classes, _truth(begin, book, case)
    if case.id not in elicited.judged:
        return truth
    judged = np.array([elicited.judged[case.id].get(name, 0.0) for name in classes])
    judged += max(1 - judged.sum(), 0.02) / len(classes)  # what the rater left to the others
    return np.asarray(CONFIRMED * truth + (1 - CONFIRMED) * judged / judged.sum())


def fit(begin: Start, lesson: Lessons) -> np.ndarray:
    """float64[c, k]: fitted log P(outcome | class)."""
    c, k = begin.share.shape
    layers = int(begin.layer.max()) + 1
    log = np.log(begin.share)
    spread = log - np.log(begin.share.mean(axis=0))
    prior = np.log(np.add.reduceat(begin.tables.prior, begin.tables.class_start))
    seen = (lesson.target * lesson.worth[:, None]).sum(axis=0)
    # Reports were gathered class by class: their frequencies are no base rates and must not be learned as such.
    offset = lesson.offset + np.log((seen + 1) / (seen.sum() + c)) - prior

    def shares(x: np.ndarray) -> np.ndarray:
        own, shared, stretch = np.split(x, [c * k, c * k + layers * k])
        moved = log + own.reshape(c, k) + shared.reshape(layers, k)[begin.layer]
        return _normalised(begin, moved + spread * np.repeat(stretch, begin.width))

    def slope(x: np.ndarray) -> np.ndarray:
        now = shares(x)
        error = (_believed(offset, lesson.weight, now - log) - lesson.target) * lesson.worth[:, None]
        raw = error.T @ lesson.weight
        inner = np.repeat(np.add.reduceat(raw, begin.first, axis=1), begin.width, axis=1)
        grad = raw - np.exp(now) * inner
        shared = np.zeros((layers, k))
        np.add.at(shared, begin.layer, grad)
        stretch = np.add.reduceat((grad * spread).sum(axis=0), begin.first)
        ridge = np.repeat([RIDGE_CLASS, RIDGE_LAYER, RIDGE_STRETCH], [c * k, layers * k, len(begin.first)])
        return np.concatenate([grad.ravel(), shared.ravel(), stretch]) + ridge * x

    return shares(_descend(slope, np.zeros(c * k + layers * k + len(begin.first))))


def _descend(slope: Callable[[np.ndarray], np.ndarray], x: np.ndarray) -> np.ndarray:
    """Adam over the whole sample, with a smaller step in the last part."""
    mean, square = np.zeros_like(x), np.zeros_like(x)
    for step in range(1, STEPS + 1):
        g = slope(x)
        mean, square = 0.9 * mean + 0.1 * g, 0.99 * square + 0.01 * g * g
        rate = RATE if step < SLOW_AFTER * STEPS else RATE * SLOW
        x = x - rate * (mean / (1 - 0.9**step)) / (np.sqrt(square / (1 - 0.99**step)) + 1e-8)
    return x


def _normalised(begin: Start, log: np.ndarray) -> np.ndarray:
    top = np.repeat(np.maximum.reduceat(log, begin.first, axis=1), begin.width, axis=1)
    total = np.repeat(np.add.reduceat(np.exp(log - top), begin.first, axis=1), begin.width, axis=1)
    return np.asarray(log - top - np.log(total))


def _believed(offset: np.ndarray, weight: np.ndarray, shift: np.ndarray) -> np.ndarray:
    z = offset + weight @ shift.T
    z = np.exp(z - z.max(axis=1, keepdims=True))
    return np.asarray(z / z.sum(axis=1, keepdims=True))


def taught(begin: Start, book: Book, elicited: Elicited, cases: Sequence[Report]) -> Lessons:
    """The lessons of `cases` (whole, in parts, and read twice) and of all scenarios."""
    lesson = lessons(begin, book, cases, elicited)
    for part in range(1, PARTS + 1):
        lesson += lessons(begin, book, cases, elicited, part)
    twice = lessons(begin, book, [case.read_twice() for case in cases if case.inferred], elicited)
    lesson += replace(twice, worth=twice.worth * TWICE_WEIGHT)
    imagined = lessons(begin, book, elicited.imagined, elicited)
    return lesson + replace(imagined, worth=imagined.worth * IMAGINED)


def opinions(begin: Start, book: Book, fitted: np.ndarray) -> Opinions:
    """The opinions that, pooled with the links of `book`, come to `fitted` (see `engine/opinions.py`); per cent."""
    links = by_class(compile_book(replace(book, opinions={})))
    view = (fitted - (1 - WEIGHT) * np.log(links)) / WEIGHT
    share = 100 * np.exp(_normalised(begin, view))
    found: Opinions = {}
    for signal in sorted(begin.rated & set(begin.tables.columns)):
        where = begin.tables.columns[signal]
        rows = {name: share[i, where] for i, name in enumerate(begin.tables.classes)}
        names = begin.tables.outcomes[signal]
        found[signal] = {c: dict(zip(names, map(_rounded, row), strict=True)) for c, row in rows.items()}
    return found


def _rounded(x: float) -> float:
    return float(f"{max(float(x), 0.1):.3g}")


@dataclass(frozen=True, slots=True)
class Score:
    """Mean log loss in nats, the shares of reports whose class comes first or among the first three, calibration error
    of the first."""

    loss: float
    first: float
    third: float
    calibration: float


def network(
    begin: Start,
    book: Book,
    elicited: Elicited,
    cases: Sequence[Report],
    fitted: np.ndarray,
    narrate: Callable[[str], None] | None = None,
) -> Precedents:
    """The precedents learned from `cases` and all scenarios; further answers are drawn from `fitted`."""
    every = [*cases, *elicited.imagined]
    all_told = [case.read_twice() for case in every]
    names = precedents.features(book, all_told)
    # a fold may be all there is: no rows, but as many columns
    target = np.array([_target(begin, book, case, elicited) for case in every]).reshape(-1, len(begin.tables.classes))
    truth = np.array([_truth(begin, book, case).argmax() for case in every], dtype=np.int64)
    worth = np.append(np.ones(len(cases)), np.full(len(elicited.imagined), precedents.IMAGINED))
    told = precedents.inputs(book, every, names)
    twice = precedents.inputs(book, all_told, names)
    examples = precedents.Examples(told, np.maximum(twice - told, 0.0), target, worth, truth)
    people = {s for s in begin.rated if s != SHAPE and not book.signals[s].circumstance}
    asked = precedents.askable(begin.tables, fitted, people, names) if people else None
    return precedents.train(examples, names, begin.tables.classes, asked, narrate)


def judge(
    begin: Start, book: Book, elicited: Elicited, folds: int, narrate: Callable[[str], None] | None = None
) -> tuple[Score, Score, Score]:
    """(at the start, after a fit to the other folds, that pooled with precedents of the other folds) over all reports;
    each is judged by a fit that has not seen it."""
    log = np.log(begin.share)
    fold_of = np.array([int(hashlib.sha256(case.id.encode()).hexdigest(), 16) % folds for case in elicited.real])
    before, after, pooled = [], [], []
    for fold in range(folds):
        if narrate:
            narrate(f"fold {fold + 1} of {folds}")
        held = [case for case, f in zip(elicited.real, fold_of, strict=True) if f == fold]
        others = [case for case, f in zip(elicited.real, fold_of, strict=True) if f != fold]
        fitted = fit(begin, taught(begin, book, elicited, others))
        net = network(begin, book, elicited, others, fitted)
        lesson = lessons(begin, book, held, elicited)
        truth = [_truth(begin, book, case) for case in held]
        believed = _believed(lesson.offset, lesson.weight, fitted - log)
        views = net.probabilities(precedents.inputs(book, held, net.features))
        both = np.array([row * np.exp(pool(view, row)) for view, row in zip(views, believed, strict=True)])
        before += _ranks(_believed(lesson.offset, lesson.weight, np.zeros_like(log)), truth)
        after += _ranks(believed, truth)
        pooled += _ranks(both, truth)
    return _score(before), _score(after), _score(pooled)


def _ranks(belief: np.ndarray, truth: Sequence[np.ndarray]) -> list[tuple[float, int, float]]:
    """(probability of the true class, how many classes stand before it, probability of the first) of each report."""
    own = [float(row[right > 0].max()) for row, right in zip(belief, truth, strict=True)]
    return [(p, int((row > p).sum()), float(row.max())) for row, p in zip(belief, own, strict=True)]


def _score(ranks: Sequence[tuple[float, int, float]]) -> Score:
    probability, before, stated = np.array(ranks).T
    first = before == 0
    return Score(
        float(-np.log(np.maximum(probability, 1e-9)).mean()),
        float(first.mean()),
        float((before < 3).mean()),
        calibration_error(stated.tolist(), first.tolist()),
    )


def largest_difference(one: Opinions, other: Opinions) -> float:
    """Per cent: the largest difference of a share; 100 where a row is missing."""
    return max(
        (
            abs(share - other.get(signal, {}).get(name, {}).get(outcome, share + 100))
            for signal, rows in one.items()
            for name, row in rows.items()
            for outcome, share in row.items()
        ),
        default=0.0,
    )


def precedents_apart(net: dict[str, Any], book: Book, elicited: Elicited) -> float:
    """Per cent: by how much two written networks judge the reports otherwise, in the mean (half the L1 distance)."""
    if not net and not book.precedents:
        return 0.0
    if not net or not book.precedents:
        return 100.0
    one, other = (Precedents.read(x) for x in (net, book.precedents))
    if (one.classes, one.features) != (other.classes, other.features):
        return 100.0
    x = precedents.inputs(book, elicited.real, one.features)
    return float(50 * np.abs(one.probabilities(x) - other.probabilities(x)).sum(axis=1).mean())
