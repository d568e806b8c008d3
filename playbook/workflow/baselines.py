"""What the engine must beat: the same cases judged by simpler methods, in the same table.

no precedents    the engine without its second judgement of what was told
most frequent    always the class with the most published incidents; asks nothing
fixed order      the engine's own posterior, but the questions in a fixed order of layers, data first (D0-order-1)
naive Bayes      all of the case's answers, every signal counted in full, no pairs, no "not in the book"
decision tree    trained on the development half (ID3 over the answers), judged on the others
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from playbook.engine.diagnosis import CERTAIN
from playbook.engine.tables import Tables
from playbook.findings import Evidence
from playbook.knowledge.loader import Book
from playbook.workflow.book import Library
from playbook.workflow.cases import MAX_QUESTIONS, CaseFile, has_outcome, read_cases, start
from playbook.workflow.evaluate import Score, judge, score
from playbook.workflow.session import UNKNOWN, Session
from playbook.workflow.upkeep.learn import class_of, facts

LAYER_ORDER = ("data", "numerics", "communication", "hardware", "optimization", "model", "implementation", "checkpoint")
TREE_DEPTH = 6  # levels; the development half has about sixty cases


@dataclass(frozen=True, slots=True)
class Row:
    """One line of the table."""

    method: str
    cases: int
    top1: float
    top3: float
    questions: float
    minutes: float


def baselines(
    folder: Path, library: Library, split: str | None = None, progress: Callable[[str], None] | None = None
) -> list[Row]:
    """The baselines on the cases of a folder. The tree learns from the development half of the book's own cases."""
    chosen = read_cases(folder, split)
    cache: dict[str, list[Evidence]] = {}
    ranks: dict[str, list[int]] = {"most frequent": [], "naive Bayes": [], "decision tree": []}
    asked: list[Score] = []
    bare, alone = Library(replace(library.book, precedents={})), []
    tree = grow(_training(library.book, {case.id for _, case in chosen if case.split != "development"}), TREE_DEPTH)
    order = fixed_order(library.tables, library.book)
    for path, case in chosen:
        if progress is not None:
            progress(case.id)
        truth = {c for name in case.causes if (c := class_of(library.book, name))}
        known = facts(case, library.book)
        ranks["most frequent"].append(_rank(_by_prior(library.tables), truth))
        ranks["naive Bayes"].append(_rank(_naive(library.tables, known), truth))
        ranks["decision tree"].append(_rank(tree_classes(tree, known), truth))
        alone.append(judge(case, path.parent, bare, cache))
        asked.append(_fixed(case, path.parent, library, order, cache))
    rows = [_row(name, found) for name, found in ranks.items()]
    return [_played("no precedents", alone), *rows, _played("fixed order", asked)]


def _played(name: str, scores: Sequence[Score]) -> Row:
    return Row(
        name,
        len(scores),
        _share([s.rank == 1 for s in scores]),
        _share([1 <= s.rank <= 3 for s in scores]),
        round(float(np.mean([s.questions for s in scores])), 2) if scores else 0.0,
        round(float(np.mean([s.minutes for s in scores])), 2) if scores else 0.0,
    )


def _row(name: str, ranks: Sequence[int]) -> Row:
    return Row(name, len(ranks), _share([r == 1 for r in ranks]), _share([1 <= r <= 3 for r in ranks]), 0.0, 0.0)


def _share(flags: Sequence[bool]) -> float:
    return round(sum(flags) / len(flags), 4) if flags else 0.0


def _rank(order: Sequence[str], truth: set[str]) -> int:
    return next((place for place, name in enumerate(order, 1) if name in truth), 0)


def _by_prior(tables: Tables) -> list[str]:
    mass = np.add.reduceat(tables.prior, tables.class_start)
    return [tables.classes[c] for c in np.argsort(-mass, kind="stable")]


def _naive(tables: Tables, known: Mapping[str, str]) -> list[str]:
    weight = np.log(tables.prior)
    for signal, state in known.items():
        column = tables.column(signal, state)
        if column is not None:
            weight = weight + np.log(tables.likelihood[:, column])
    mass = np.add.reduceat(np.exp(weight - weight.max()), tables.class_start)
    return [tables.classes[c] for c in np.argsort(-mass, kind="stable")]


def fixed_order(tables: Tables, book: Book) -> list[str]:
    """Layer by layer; within a layer the signals that say most about its causes, whatever they cost."""
    ratio = np.abs(np.log(tables.likelihood / tables.background))
    layers = np.array([book.causes[name].layer for name in tables.causes])
    order: list[str] = []
    for layer in LAYER_ORDER:
        says = ratio[layers == layer].mean(axis=0) if (layers == layer).any() else np.zeros(ratio.shape[1])
        strength = {s: float(says[where].max()) for s, where in tables.columns.items()}
        weakest = float(np.quantile(list(strength.values()), 0.75))
        order += [
            s for s in sorted(strength, key=lambda s: (-strength[s], s)) if strength[s] >= weakest and s not in order
        ]
    return order + [s for s in tables.signals if s not in order]


def _fixed(
    case: CaseFile, folder: Path, library: Library, order: Sequence[str], cache: dict[str, list[Evidence]]
) -> Score:
    session: Session = start(case, library.book, library.tables, folder, cache)
    for signal in order:
        diagnosis = session.diagnosis(explained=False)
        sure = diagnosis.causes and diagnosis.causes[0].probability >= CERTAIN
        if sure or diagnosis.next is None or len(session.asked) >= MAX_QUESTIONS:
            break
        if signal in {e.signal for e in session.evidence}:
            continue
        state = str(case.answers.get(signal, UNKNOWN))
        session.answer(signal, state if has_outcome(library.book, signal, state) else UNKNOWN, source="case")
    return score(case, session.diagnosis(explained=False), len(session.asked), session.cost.total)


@dataclass(frozen=True, slots=True)
class Tree:
    """A node: the signal asked, the branch of each outcome, and the classes seen here, most frequent first."""

    classes: tuple[str, ...]
    signal: str = ""
    branches: tuple[tuple[str, Tree], ...] = ()


Sample = tuple[dict[str, str], str]  # what a case settles, its class


def _training(book: Book, held_out: set[str]) -> list[Sample]:
    samples: list[Sample] = []
    for entry in book.cases.values():
        if entry.split != "development" or entry.id in held_out:
            continue
        case = CaseFile.model_validate(entry.model_dump(include={"id", "context", "answers", "causes", "given"}))
        samples += [(facts(case, book), c) for name in entry.causes[:1] if (c := class_of(book, name))]
    return samples


def grow(samples: Sequence[Sample], depth: int) -> Tree:
    """ID3: split by the signal with the most information; cases that do not know it form a branch of their own."""
    classes = tuple(name for name, _ in sorted(Counter(c for _, c in samples).items(), key=lambda x: (-x[1], x[0])))
    if depth == 0 or len(classes) < 2:
        return Tree(classes)
    signals = sorted({s for known, _ in samples for s in known})
    gains = [(_information(samples, s), s) for s in signals]
    best, signal = max(gains, key=lambda g: (g[0], g[1]), default=(0.0, ""))
    if best <= 1e-9:
        return Tree(classes)
    states = sorted({known.get(signal, "") for known, _ in samples})
    parts = {state: [x for x in samples if x[0].get(signal, "") == state] for state in states}
    return Tree(classes, signal, tuple((state, grow(part, depth - 1)) for state, part in parts.items()))


def _information(samples: Sequence[Sample], signal: str) -> float:
    parts: dict[str, list[str]] = {}
    for known, name in samples:
        parts.setdefault(known.get(signal, ""), []).append(name)
    after = sum(len(part) / len(samples) * _entropy(part) for part in parts.values())
    return _entropy([name for _, name in samples]) - after


def _entropy(names: Sequence[str]) -> float:
    return -sum(n / len(names) * math.log2(n / len(names)) for n in Counter(names).values())


def tree_classes(tree: Tree, known: Mapping[str, str]) -> list[str]:
    """The classes of the leaf that a case falls into, then those of the nodes above it."""
    path = [tree]
    while path[-1].branches:
        branch = dict(path[-1].branches).get(known.get(path[-1].signal, ""))
        if branch is None:
            break
        path.append(branch)
    return list(dict.fromkeys(name for node in reversed(path) for name in node.classes))
