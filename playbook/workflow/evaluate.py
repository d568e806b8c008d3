"""How often is the true cause first, and at what cost: case files played through the engine, honestly scored.

What was learned from confirmed incidents is left out for the case that is being judged (leave one out).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from playbook.engine.diagnosis import Diagnosis
from playbook.errors import Problem
from playbook.findings import Evidence
from playbook.workflow import calibration
from playbook.workflow.book import Library
from playbook.workflow.cases import CaseFile, hits, play, read_cases, start, unmapped
from playbook.workflow.upkeep.learn import counts_without


@dataclass(frozen=True, slots=True)
class Score:
    """One case: rank of the truth (1 = first, 0 = not there), the probability given to it and to the first."""

    id: str
    truth: tuple[str, ...]
    rank: int
    probability: float
    first: str
    first_probability: float
    questions: int
    minutes: float
    decided: bool
    unmapped: tuple[str, ...]
    brier: float


def evaluate(
    folder: Path,
    library: Library,
    progress: Callable[[str], None] | None = None,
    split: str | None = None,
    passed: Callable[[Problem], None] = lambda problem: None,
) -> list[Score]:
    """Play every case file of a folder; `passed` is told of what is none. Raises `PlaybookError` for a broken case."""
    scores = []
    cache: dict[str, list[Evidence]] = {}
    for path, case in read_cases(folder, split, passed):
        if progress is not None:
            progress(case.id)
        scores.append(judge(case, path.parent, library, cache))
    return scores


def judge(case: CaseFile, folder: Path, library: Library, cache: dict[str, list[Evidence]] | None = None) -> Score:
    """Play one case and score it."""
    without = counts_without(library.book, case)
    tables = library.tables if without is None else library.tables_with(without)
    session = play(start(case, library.book, tables, folder, cache), case)
    return score(
        case, session.diagnosis(explained=False), len(session.asked), session.cost.total, unmapped(case, library.book)
    )


def score(case: CaseFile, diagnosis: Diagnosis, questions: int, minutes: float, missing: Sequence[str] = ()) -> Score:
    """Compare a diagnosis with the truth of the case."""
    ranked = diagnosis.causes
    right = [hits(case, r.id, r.class_) for r in ranked]
    rank = right.index(True) + 1 if True in right else 0
    chances = np.array([r.probability for r in ranked])
    target = np.array(right, float)
    brier = float(((chances - target / max(target.sum(), 1)) ** 2).sum() + diagnosis.unknown**2)
    return Score(
        id=case.id,
        truth=tuple(case.causes),
        rank=rank,
        probability=float(chances[target > 0].sum()) if len(ranked) else 0.0,
        first=ranked[0].id if ranked else "",
        first_probability=ranked[0].probability if ranked else 0.0,
        questions=questions,
        minutes=minutes,
        decided=diagnosis.decided and not diagnosis.healthy,
        unmapped=tuple(missing),
        brier=brier,
    )


def summary(scores: Sequence[Score]) -> dict[str, Any]:
    """The contract's document, with what chance alone does to its figures."""
    n = len(scores)
    decided = [s for s in scores if s.decided]
    stated = [s.first_probability for s in scores]
    first = [s.rank == 1 for s in scores]
    return {
        "cases": n,
        "top1": _share(s.rank == 1 for s in scores),
        "top3": _share(1 <= s.rank <= 3 for s in scores),
        "decided": _share(s.decided for s in scores),
        "right_when_decided": _share(s.rank == 1 for s in decided),
        "mean_questions": round(float(np.mean([s.questions for s in scores])), 3) if n else 0.0,
        "mean_cost_minutes": round(float(np.mean([s.minutes for s in scores])), 2) if n else 0.0,
        "brier": round(float(np.mean([s.brier for s in scores])), 4) if n else 0.0,
        "calibration_error": round(calibration.calibration_error(stated, first), 4),
        "calibration_error_by_chance": calibration.by_chance(stated),
        "reliability": calibration.reliability(stated, first),
        "intervals": {
            "top1": calibration.interval(sum(first), n),
            "top3": calibration.interval(sum(1 <= s.rank <= 3 for s in scores), n),
            "decided": calibration.interval(len(decided), n),
            "right_when_decided": calibration.interval(sum(s.rank == 1 for s in decided), len(decided)),
        },
        "per_case": [
            {
                "id": s.id,
                "truth": list(s.truth),
                "rank": s.rank,
                "probability": round(s.probability, 4),
                "questions": s.questions,
                "decided": s.decided,
                "first": s.first,
                "first_probability": round(s.first_probability, 4),
                "cost_minutes": round(s.minutes, 2),
                "unmapped": list(s.unmapped),
            }
            for s in scores
        ],
    }


def _share(flags: Any) -> float:
    values = list(flags)
    return round(sum(values) / len(values), 4) if values else 0.0
