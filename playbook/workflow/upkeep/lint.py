"""Lint of the whole book: the rules of the knowledge wing, with what the other wings have, and the cases replayed."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from playbook import detectors
from playbook.engine.belief import posterior
from playbook.engine.tables import Tables
from playbook.errors import Problem
from playbook.findings import Evidence
from playbook.knowledge import overlay
from playbook.knowledge.entries import Case
from playbook.knowledge.lint import Names, cited, lint
from playbook.knowledge.loader import Book
from playbook.workflow.book import Library
from playbook.workflow.cases import context_facts, has_outcome
from playbook.workflow.preflight import RELATIONS

# A case contradicts the graph when, with all its answers known, its true cause is not even among this many classes.
NOT_AMONG = 8


def names() -> Names:
    """What the detectors and the checks of a configuration offer."""
    return Names({module.NAME: frozenset(module.KINDS) for module in detectors.TABLE}, frozenset(RELATIONS))


def lint_book(library: Library) -> list[Problem]:
    """Every broken promise of the book, less the stated exceptions; an exception that no longer holds is a problem."""
    book = library.book
    found = [*lint(book, names()), *contradicting_cases(book, library.tables.graph()), *untranslated(book)]
    stated = {(code, name) for code, names_ in book.exceptions.items() for name in names_}
    broken = {(p.code, Path(p.where).stem) for p in found}
    idle = [
        Problem("exceptions.yaml", None, f"{code}: {name} holds by now", "drop the exception", "idle-exception")
        for code, name in sorted(stated - broken)
    ]
    return [p for p in found if (p.code, Path(p.where).stem) not in stated] + idle


def contradicting_cases(book: Book, tables: Tables) -> Iterator[Problem]:
    """A published case whose own evidence speaks against its confirmed cause."""
    for case in book.cases.values():
        place = _place_of_truth(case, book, tables)
        path = book.files.get(("cases", case.id))
        where = str(path) if path else case.id
        if place == 0:
            yield Problem(
                where, 1, f"no cause of the book is {' or '.join(case.causes)}", "mend `causes`", "case-truth"
            )
        elif place > NOT_AMONG:
            what = f"its evidence puts the true cause at place {place}"
            yield Problem(where, 1, what, "mend the links of the cause, or the answers", "case-contradicts")


def _place_of_truth(case: Case, book: Book, tables: Tables) -> int:
    known = context_facts(dict(case.context), book) | dict(case.answers)
    evidence = [Evidence(s, str(o), "case") for s, o in sorted(known.items()) if has_outcome(book, s, str(o))]
    by_class = posterior(tables, evidence).by_class
    truth = {tables.class_of[h] for h, name in enumerate(tables.causes) if name in case.causes} | set(case.causes)
    order = sorted(range(len(tables.classes)), key=lambda c: -by_class[c])
    return next((place for place, c in enumerate(order, 1) if tables.classes[c] in truth), 0)


def untranslated(book: Book) -> Iterator[Problem]:
    """Missing and stale texts of the languages that a pack has; a pack without a language owes it nothing."""
    for code in overlay.languages(book.folders):
        homes = [folder for folder in book.folders if (folder / "languages" / code).is_dir()]
        for problem in overlay.check(book, code):
            kind, _, name = "/".join(problem.where.split("/")[-2:]).partition("/")
            path = book.files.get((kind, name))
            if path is None or any(path.is_relative_to(home) for home in homes):
                yield problem


def coverage(book: Book) -> tuple[list[str], list[str]]:
    """(ledger rows that an entry cites, rows that nothing cites)."""
    used = {source for entries in book.entries.values() for entry in entries.values() for source in cited(entry)}
    rows = list(book.ledger)
    return [r for r in rows if r in used], [r for r in rows if r not in used]
