"""Learning: confirmed incidents and cases as counts beside the authored words, and what they move.

The counts live in `learned.yaml` of a pack; the engine adds them to the words as to a Dirichlet prior.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from playbook.knowledge.loader import Book
from playbook.workflow.cases import CaseFile, context_facts, has_outcome

Mutable = dict[str, dict[str, dict[str, float]]]


def class_of(book: Book, name: str) -> str | None:
    """The class of a cause id, or the class itself."""
    if name in book.causes:
        return book.causes[name].class_
    known = {cause.class_ for cause in book.causes.values()}
    return name if name in known else None


def facts(case: CaseFile, book: Book) -> dict[str, str]:
    """Every signal that the case settles: its context and its answers."""
    known = context_facts(case.context, book) | {k: str(v) for k, v in case.answers.items()}
    return {signal: state for signal, state in sorted(known.items()) if has_outcome(book, signal, state)}


def count(cases: Iterable[CaseFile], book: Book) -> Mutable:
    """class -> signal -> outcome -> number of cases; a coupled case counts for each of its classes by halves."""
    counts: Mutable = {}
    for case in cases:
        classes = sorted({c for name in case.causes if (c := class_of(book, name))})
        for name in classes:
            for signal, state in facts(case, book).items():
                row = counts.setdefault(name, {}).setdefault(signal, {})
                row[state] = round(row.get(state, 0.0) + 1 / len(classes), 4)
    return counts


def counts_without(book: Book, case: CaseFile) -> Mutable | None:
    """The book's learned counts less one case, where that case was counted; None where there is nothing to take out."""
    learned: Mapping[str, Any] = book.learned
    if case.id not in learned.get("cases", ()):
        return None
    counts: Mutable = {k: {s: dict(o) for s, o in row.items()} for k, row in learned.get("counts", {}).items()}
    for name, row in count([case], book).items():
        for signal, states in row.items():
            for state, n in states.items():
                left = counts.get(name, {}).get(signal, {})
                if state in left:
                    left[state] = max(0.0, round(left[state] - n, 4))
    return counts
