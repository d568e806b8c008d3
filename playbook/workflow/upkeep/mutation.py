"""Would anybody notice? Each link of the book is dropped and inverted; a published case or a promise must react.

A link between a cause and a signal is noticed when, without it (or with its likelihoods turned round), the probability
that some case gives to its own true class changes, or when a `mistaken_for` of the book no longer holds because the
signal that is named to tell two causes apart does so no more.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

import numpy as np

from playbook.engine.belief import posterior
from playbook.engine.tables import Tables
from playbook.findings import Evidence
from playbook.knowledge.loader import Book
from playbook.workflow.cases import CaseFile
from playbook.workflow.upkeep.learn import class_of, facts

# A probability that moves by less than this would be lost in rounding.
NOTICED = 1e-4
# Total variation that a signal must leave between two causes that it is said to tell apart.
APART = 0.15


@dataclass(frozen=True, slots=True)
class Mutant:
    """One changed link. `by` names what noticed it, or is empty."""

    cause: str
    signal: str
    change: str  # dropped | inverted
    by: str


@dataclass(frozen=True, slots=True)
class _Case:
    id: str
    evidence: tuple[Evidence, ...]
    truth: frozenset[str]
    probability: float


def mutants(book: Book, tables: Tables, progress: Callable[[str], None] | None = None) -> Iterator[Mutant]:
    """Every link of every cause, dropped and inverted."""
    tables = tables.graph()
    cases = _cases(book, tables)
    by_signal: dict[str, list[_Case]] = {}
    for case in cases:
        for item in case.evidence:
            by_signal.setdefault(item.signal, []).append(case)
    for h, cause in enumerate(tables.causes):
        if progress is not None:
            progress(cause)
        for s, signal in enumerate(tables.signals):
            if not tables.linked[h, s]:
                continue
            where = tables.columns[signal]
            row = tables.likelihood[h, where]
            base = tables.background[where]
            turned = base**2 / np.maximum(row, 1e-9)
            for change, new in (("dropped", base), ("inverted", turned / turned.sum())):
                likelihood = tables.likelihood.copy()
                likelihood[h, where] = new
                yield Mutant(
                    cause,
                    signal,
                    change,
                    _noticed(book, tables, replace(tables, likelihood=likelihood), h, signal, by_signal),
                )


def _cases(book: Book, tables: Tables) -> list[_Case]:
    found = []
    for entry in book.cases.values():
        case = CaseFile.model_validate(entry.model_dump(include={"id", "context", "answers", "causes", "given"}))
        evidence = tuple(Evidence(s, o, "case") for s, o in facts(case, book).items())
        truth = frozenset(c for name in case.causes if (c := class_of(book, name)))
        found.append(_Case(case.id, evidence, truth, _probability(tables, evidence, truth)))
    return found


def _probability(tables: Tables, evidence: tuple[Evidence, ...], truth: frozenset[str]) -> float:
    by_class = posterior(tables, evidence).by_class
    return float(sum(p for p, name in zip(by_class, tables.classes, strict=True) if name in truth))


def _noticed(book: Book, tables: Tables, mutant: Tables, h: int, signal: str, by_signal: dict[str, list[_Case]]) -> str:
    own = tables.class_of[h]
    # Cases of the same class react most: they are asked first.
    for case in sorted(by_signal.get(signal, ()), key=lambda c: own not in c.truth):
        if abs(_probability(mutant, case.evidence, case.truth) - case.probability) > NOTICED:
            return case.id
    where = tables.columns[signal]
    for a, b in _told_apart(book, tables, h, signal):
        if 0.5 * np.abs(mutant.likelihood[a, where] - mutant.likelihood[b, where]).sum() < APART:
            return f"{tables.causes[a]} is mistaken for {tables.causes[b]}"
    return ""


def _told_apart(book: Book, tables: Tables, h: int, signal: str) -> Iterator[tuple[int, int]]:
    """Pairs of causes, one of them h, that the book says this signal tells apart."""
    index = {name: k for k, name in enumerate(tables.causes)}
    for name, cause in book.causes.items():
        for other in cause.mistaken_for:
            if (
                other.signal == signal
                and other.cause in index
                and name in index
                and h in (index[name], index[other.cause])
            ):
                yield index[name], index[other.cause]
