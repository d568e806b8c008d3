"""Small parts of the book solved exactly: by hand, and the engine's order held against the best one."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from playbook.engine.tables import compile_book
from playbook.knowledge.loader import Book
from playbook.workflow import optimum
from playbook.workflow.optimum import WRONG_MINUTES, Part, best_cost, compare, cut, engine_choice, policy_cost


@pytest.fixture(scope="module")
def part(real_book: Book) -> Part:
    found = cut(real_book, compile_book(real_book), "instant-nan")
    assert found is not None
    return found


def test_a_part_holds_signals_of_different_groups(part: Part) -> None:
    assert len({part.tables.groups[name] for name in part.tables.signals}) == len(part.tables.signals)
    assert part.tables.prior.sum() == pytest.approx(1)
    for where in part.tables.columns.values():
        assert np.allclose(part.tables.likelihood[:, where].sum(axis=1), 1, atol=1e-6)


def test_nothing_to_ask_costs_a_guess(part: Part) -> None:
    blind = replace(part, tables=replace(part.tables, signals=()))
    guess = WRONG_MINUTES * (1 - np.add.reduceat(part.tables.prior, part.tables.class_start).max())
    assert best_cost(blind) == pytest.approx(guess)
    assert policy_cost(part, lambda state: None) == pytest.approx(guess)


def test_one_question_by_hand(part: Part) -> None:
    name = part.tables.signals[0]
    one = replace(part, tables=replace(part.tables, signals=(name,)))
    where = part.tables.columns[name]
    joint = part.tables.prior[:, None] * part.tables.likelihood[:, where]
    right = np.add.reduceat(joint, part.tables.class_start, axis=0).max(axis=0).sum()
    asked = one.minutes((), name) + WRONG_MINUTES * (1 - right)
    guess = policy_cost(one, lambda state: None)
    assert best_cost(one) == pytest.approx(min(asked, guess))


def test_no_strategy_beats_the_best(part: Part, real_book: Book) -> None:
    best = best_cost(part)
    assert best <= policy_cost(part, engine_choice(real_book, part, stops=False), free_stop=True) + 1e-9
    assert best <= policy_cost(part, engine_choice(real_book, part)) + 1e-9


def test_the_order_of_the_engine_is_near_the_best(real_book: Book, monkeypatch: pytest.MonkeyPatch) -> None:
    """A look two steps ahead could win at most this: the measure of whether it would pay."""
    monkeypatch.setattr(optimum, "SIGNALS", 4)
    rows = compare(real_book, compile_book(real_book))
    assert len(rows) >= 10
    best = sum(row.best for row in rows)
    assert sum(row.order for row in rows) <= 1.03 * best
    assert sum(row.fixed for row in rows) > sum(row.order for row in rows)
