"""What the engine says about the book itself: per symptom, cause, signal and case. Computed once, in no language.

Everything is deterministic; nothing here is shown as it is, the pages put words to it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from playbook.engine.belief import Belief, posterior
from playbook.engine.diagnosis import Diagnosis, diagnose
from playbook.engine.explain import leader
from playbook.engine.tables import SHAPE, Tables, compile_book
from playbook.engine.value import Cost, Option, RunSize, cost_of, options
from playbook.findings import Evidence
from playbook.knowledge.entries import Case
from playbook.knowledge.loader import Book
from playbook.workflow.cases import MAX_QUESTIONS, CaseFile, hits, start
from playbook.workflow.session import UNKNOWN
from playbook.workflow.upkeep.learn import counts_without

MOST_CHECKS = 10  # observations shown for a symptom
MOST_CAUSES = 12  # classes of causes shown for a symptom
TELLING = 0.02  # bits: below this a link hardly says anything
SPEAKS = 1.5  # P(outcome | cause) / P(outcome) from which an outcome speaks for a cause


@dataclass(frozen=True, slots=True)
class CheckNumbers:
    """One observation: its value now, and for each outcome the leading cause, its class's probability, the chance."""

    option: Option
    leads: tuple[tuple[str, str, float, float], ...]  # (outcome, cause, probability, chance of the outcome)


@dataclass(frozen=True, slots=True)
class SymptomNumbers:
    """What is known when nothing but the symptom is. apart: cause -> the (signal, outcome) that single it out."""

    diagnosis: Diagnosis
    checks: tuple[CheckNumbers, ...]
    apart: dict[str, tuple[tuple[str, str], ...]]


@dataclass(frozen=True, slots=True)
class WalkMove:
    signal: str
    state: str
    cost: Cost
    top: tuple[tuple[str, float], ...]
    truth: float


@dataclass(frozen=True, slots=True)
class WalkNumbers:
    """How the engine walks a case: what it starts from, its moves, where it stops."""

    start: tuple[tuple[str, str], ...]
    start_top: tuple[tuple[str, float], ...]
    start_truth: float
    moves: tuple[WalkMove, ...]
    decided: bool
    rank: int  # of the true cause at the end; 0 where it is not in the list
    why_undecided: str


@dataclass
class Numbers:
    """The engine's tables of a book, and what follows from them."""

    book: Book

    @cached_property
    def tables(self) -> Tables:
        return compile_book(self.book)

    def prepare(self) -> None:
        """Compute what all languages share, before the work is spread over processes."""
        _ = self.symptoms, self.telling

    @cached_property
    def symptoms(self) -> dict[str, SymptomNumbers]:
        if SHAPE not in self.book.signals:
            return {}
        known = self.book.signals[SHAPE].outcomes
        return {name: self._symptom(name) for name in sorted(self.book.symptoms) if name in known}

    def _symptom(self, name: str) -> SymptomNumbers:
        evidence = (Evidence(SHAPE, name, "person"),)
        diagnosis = diagnose(self.book, self.tables, evidence)
        belief = diagnosis.belief
        plan = options(self.tables, belief, self.book.signals, {SHAPE}, set(), RunSize())
        checks = tuple(self._check(o, evidence, belief) for o in _varied(plan, self.book)[:MOST_CHECKS])
        apart = {r.id: self.apart(r.id, belief, {SHAPE}) for r in diagnosis.causes[:MOST_CAUSES]}
        return SymptomNumbers(diagnosis, checks, apart)

    def _check(self, option: Option, evidence: tuple[Evidence, ...], belief: Belief) -> CheckNumbers:
        tables = self.tables
        where = tables.columns[option.signal]
        chance = belief.marginal @ tables.likelihood[:, where] + belief.unknown * tables.background[where]
        leads = []
        for k, outcome in enumerate(tables.outcomes[option.signal]):
            after = posterior(tables, (*evidence, Evidence(option.signal, outcome, "person")))
            leads.append((outcome, leader(tables, after), float(after.by_class.max()), float(chance[k])))
        return CheckNumbers(option, tuple(leads))

    def apart(self, cause: str, belief: Belief, known: Iterable[str], most: int = 3) -> tuple[tuple[str, str], ...]:
        """(signal, outcome) pairs that this cause shows and its rivals do not: chance x log ratio, one a group."""
        tables = self.tables
        h = tables.index(cause)
        rivals = belief.marginal.copy()
        rivals[[i for i, c in enumerate(tables.class_of) if c == tables.class_of[h]]] = 0.0
        total = rivals.sum() + belief.unknown
        if total <= 0:
            return ()
        others = (rivals @ tables.likelihood + belief.unknown * tables.background) / total
        weight = tables.likelihood[h] * np.log2(tables.likelihood[h] / np.maximum(others, 1e-12))
        closed = set(known)
        found = [
            (-round(float(weight[tables.columns[s].start + k]), 6), s, outcome)
            for i, s in enumerate(tables.signals)
            if s not in closed and tables.linked[h, i]
            for k, outcome in enumerate(tables.outcomes[s])
        ]
        chosen: list[tuple[str, str]] = []
        groups: set[str] = set()
        for score, signal, outcome in sorted(found):
            if -score >= TELLING and tables.groups[signal] not in groups:
                groups.add(tables.groups[signal])
                chosen.append((signal, outcome))
        return tuple(chosen[:most])

    @cached_property
    def telling(self) -> dict[str, tuple[tuple[str, float], ...]]:
        """cause -> its linked signals by how far they depart from the background (bits), most first."""
        tables = self.tables
        result: dict[str, tuple[tuple[str, float], ...]] = {}
        ratio = np.log2(np.maximum(tables.likelihood, 1e-12) / tables.background[None, :])
        share = tables.likelihood * ratio
        for h, cause in enumerate(tables.causes):
            rows = [
                (s, round(float(share[h, tables.columns[s]].sum()), 6))
                for i, s in enumerate(tables.signals)
                if tables.linked[h, i]
            ]
            result[cause] = tuple(sorted(rows, key=lambda row: (-row[1], row[0])))
        return result

    def speaks(self, signal: str, outcome: str) -> tuple[list[tuple[str, float]], list[tuple[str, float]], list[str]]:
        """(causes that the outcome speaks for, against, and rules out) with the factor on their odds."""
        tables = self.tables
        k = tables.column(signal, outcome)
        if k is None:
            return [], [], []
        factor = tables.likelihood[:, k] / (tables.prior @ tables.likelihood[:, k])
        out = set(tables.excluded.get((signal, outcome), ()))
        rows = [
            (round(float(factor[h]), 4), round(float(tables.prior[h]), 6), tables.causes[h])
            for h in _named(tables, signal)
            if h not in out
        ]
        pro = [(c, f) for f, p, c in sorted(rows, key=lambda r: (-r[0], -r[1], r[2])) if f >= SPEAKS]
        con = [(c, f) for f, p, c in sorted(rows, key=lambda r: (r[0], -r[1], r[2])) if f <= 1 / SPEAKS]
        return pro, con, [tables.causes[h] for h in sorted(out)]

    def walk(self, case: Case, cache: dict[str, list[Evidence]] | None = None) -> WalkNumbers:
        """Play a case as an investigator who knows it would; what was learned from the case itself is left out."""
        file = CaseFile.model_validate(case.model_dump(by_alias=True))
        path = self.book.files["cases", case.id]
        without = counts_without(self.book, file)
        tables = self.tables if without is None else compile_book(self.book, without)
        session = start(file, self.book, tables, path.parent, cache)
        first = tuple((e.signal, e.state) for e in session.evidence if e.signal in self.book.signals)
        diagnosis = session.diagnosis(explained=False)
        begin, truth = _top(diagnosis), _truth(file, diagnosis)
        moves: list[WalkMove] = []
        while diagnosis.next is not None and len(moves) < MAX_QUESTIONS:
            # A question asked in vain is only closed, so the plan goes on as it was; but where one rerun answers
            # several signals, closing one of them changes what the others are worth.
            for option in diagnosis.plan[: MAX_QUESTIONS - len(moves)]:
                signal = self.book.signals[option.signal]
                state = str(file.answers.get(signal.id, UNKNOWN))
                state = state if state in signal.outcomes else UNKNOWN
                cost = cost_of(signal, session.size, session.clusters_done)
                session.answer(signal.id, state, source="case")
                changed = state != UNKNOWN or signal.cluster is not None
                if changed:
                    diagnosis = session.diagnosis(explained=False)
                moves.append(WalkMove(signal.id, state, cost, _top(diagnosis), _truth(file, diagnosis)))
                if changed:
                    break
            else:
                diagnosis = session.diagnosis(explained=False)
        ranks = [n for n, r in enumerate(diagnosis.causes, 1) if hits(file, r.id, r.class_)]
        return WalkNumbers(
            first, begin, truth, tuple(moves), diagnosis.decided, ranks[0] if ranks else 0, diagnosis.why_undecided
        )


def _varied(plan: list[Option], book: Book) -> list[Option]:
    """The plan with at most two signals of one group: a page of ten questions about one fact helps nobody."""
    seen: dict[str, int] = {}
    chosen = []
    for option in plan:
        group = book.signals[option.signal].group
        seen[group] = seen.get(group, 0) + 1
        if seen[group] <= 2:
            chosen.append(option)
    return chosen


def _named(tables: Tables, signal: str) -> list[int]:
    """The causes with a link to the signal; of a class that has none, the most common cause stands for all of it."""
    linked = tables.linked[:, tables.signals.index(signal)]
    named = []
    for c in range(len(tables.classes)):
        members = list(tables.members(c))
        own = [h for h in members if linked[h]]
        named += own or [max(members, key=lambda h: (tables.prior[h], -h))]
    return named


def _top(diagnosis: Diagnosis) -> tuple[tuple[str, float], ...]:
    return tuple((r.id, r.probability) for r in diagnosis.causes[:3])


def _truth(case: CaseFile, diagnosis: Diagnosis) -> float:
    """Probability of the true classes together."""
    return float(sum(r.probability for r in diagnosis.causes if hits(case, r.id, r.class_)))
