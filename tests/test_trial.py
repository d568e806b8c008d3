"""Asking against trying: expected minutes until mended, by hand and on the real book."""

from __future__ import annotations

import numpy as np
import pytest

from playbook.engine.belief import posterior
from playbook.engine.diagnosis import diagnose
from playbook.engine.tables import compile_book
from playbook.engine.trial import HAND_ON_MINUTES, HARMLESS, Repairs, minutes_to_mend, repairs_of, trial
from playbook.engine.value import RunSize, gains, outcome_beliefs
from playbook.findings import Evidence
from playbook.knowledge.loader import Book

SIZE = RunSize()


def repairs(*rows: tuple[float, list[int]], causes: int = 2, harmless: bool = True) -> Repairs:
    treats = np.zeros((len(rows), causes))
    for f, (_, treated) in enumerate(rows):
        treats[f, treated] = 1
    names = tuple(f"fix-{f}" for f in range(len(rows)))
    return Repairs(names, np.array([minutes for minutes, _ in rows]), treats, np.array([harmless] * len(rows)))


def test_repairs_are_tried_by_chance_per_minute() -> None:
    # 20 minutes for 60 %, then in 40 % of cases 30 minutes more: 20 + 0.4 * 30.
    assert minutes_to_mend(repairs((20, [0]), (30, [1])), np.array([0.6, 0.4])) == pytest.approx(32)


def test_what_no_repair_treats_is_handed_on() -> None:
    assert minutes_to_mend(repairs((20, [0])), np.array([0.6, 0.0])) == pytest.approx(20 + 0.4 * HAND_ON_MINUTES)
    assert minutes_to_mend(repairs(), np.array([0.6, 0.4])) == HAND_ON_MINUTES


def test_a_repair_that_costs_more_than_handing_on_is_not_tried() -> None:
    assert minutes_to_mend(repairs((400, [0])), np.array([0.1, 0.0])) == pytest.approx(HAND_ON_MINUTES)


def test_one_repair_may_treat_several_causes() -> None:
    assert minutes_to_mend(repairs((20, [0, 1])), np.array([0.6, 0.4])) == pytest.approx(20)


def test_beliefs_after_an_outcome_average_to_the_belief(real_book: Book) -> None:
    """Without tempering the posterior is a martingale; with it the classes after an outcome still sum to 1."""
    tables = compile_book(real_book)
    belief = posterior(tables, [Evidence("loss-shape", "instant-nan", "person")])
    chances, after = outcome_beliefs(tables, belief, {"loss-shape"}, "fp32-removes-it")
    assert chances.sum() == pytest.approx(1)
    assert np.allclose(after.sum(axis=0), 1)
    assert gains(tables, belief, {"loss-shape"})["fp32-removes-it"] > 0


def test_a_trial_is_harmless_likely_and_saves_time(real_book: Book) -> None:
    tables = compile_book(real_book)
    offered = 0
    for case in list(real_book.cases.values())[:60]:
        evidence = [
            Evidence(s, o, "case")
            for s, o in case.answers.items()
            if s in real_book.signals and o in real_book.signals[s].outcomes
        ]
        for known in range(1, len(evidence) + 1):
            found = diagnose(real_book, tables, evidence[:known]).trial
            if found is not None:
                offered += 1
                assert real_book.fixes[found.fix].risk in HARMLESS and found.chance >= 0.3
                assert found.if_tried < found.if_asked
    assert offered > 2


def test_no_trial_where_nothing_is_left_to_ask_or_nothing_is_known(real_book: Book) -> None:
    tables = compile_book(real_book)
    assert trial(real_book, tables, posterior(tables, []), [], SIZE) is None
    assert diagnose(real_book, tables, [Evidence("loss-shape", "instant-nan", "person")]).trial is None


def test_repairs_leave_out_what_treats_none_of_the_causes(real_book: Book) -> None:
    tables = compile_book(real_book)
    some = np.array([0, 1])
    found = repairs_of(real_book, tables, some, SIZE)
    names = {tables.causes[h] for h in some}
    assert found.ids and all(names & set(real_book.fixes[name].treats) for name in found.ids)
