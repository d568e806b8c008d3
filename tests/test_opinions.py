"""Pooled judgements of classes: read with line and mend, linted, and moved into the tables class by class."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from playbook.engine import opinions
from playbook.engine.opinions import pool
from playbook.engine.tables import compile_book
from playbook.knowledge.lint import opinions_fit
from playbook.knowledge.loader import Book, load

CLASSES, START, PRIOR = ("a", "b"), np.array([0, 2]), np.array([0.3, 0.1, 0.6])
BLOCK = np.array([[0.9, 0.1], [0.7, 0.3], [0.2, 0.8]])


def test_the_mean_of_a_class_moves_to_the_geometric_pool(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(opinions, "WEIGHT", 0.5)
    moved = pool(BLOCK, {"b": [80, 20]}, CLASSES, START, PRIOR)
    by_hand = np.sqrt(np.array([0.2, 0.8]) * np.array([0.8, 0.2]))
    assert moved[2] == pytest.approx(by_hand / by_hand.sum())
    assert np.allclose(moved[:2], BLOCK[:2]), "a class without an opinion stays as it is"


def test_causes_of_a_class_keep_their_order(monkeypatch: pytest.MonkeyPatch) -> None:
    moved = pool(BLOCK, {"a": [10, 90]}, CLASSES, START, PRIOR)
    assert moved[0, 0] < BLOCK[0, 0] and moved[1, 0] < BLOCK[1, 0] and moved[0, 0] > moved[1, 0]
    assert np.allclose(moved.sum(axis=1), 1)


def test_never_is_not_believed_to_the_letter() -> None:
    moved = pool(BLOCK, {"b": [100, 0]}, CLASSES, START, PRIOR)
    assert moved[2, 1] > 0.01


def test_the_book_judges_every_class(real_book: Book) -> None:
    assert len(real_book.opinions) > 100
    for signal, rows in real_book.opinions.items():
        assert set(rows) == set(real_book.classes), signal
        for class_, row in rows.items():
            assert sum(row.values()) == pytest.approx(100, abs=1), (signal, class_)
            assert set(row) == set(real_book.signals[signal].outcomes), (signal, class_)


def test_opinions_move_the_tables_and_keep_exclusions(real_book: Book) -> None:
    with_them = compile_book(real_book)
    without = compile_book(replace(real_book, opinions={}))
    column = with_them.column("fp32-removes-it", "yes")
    assert not np.allclose(with_them.likelihood[:, column], without.likelihood[:, column])
    for (signal, outcome), causes in with_them.excluded.items():
        assert (with_them.likelihood[list(causes), with_them.column(signal, outcome)] < 1e-6).all()
    for where in with_them.columns.values():
        assert np.allclose(with_them.likelihood[:, where].sum(axis=1), 1, atol=1e-6)


def test_what_linked_causes_explain_speaks_a_little_against_the_others(real_book: Book) -> None:
    tables = compile_book(replace(real_book, opinions={}))
    name = "parameter-count-in-optimizer"
    column = tables.column(name, "differs")
    unlinked = ~tables.linked[:, tables.signals.index(name)]
    assert unlinked.any() and (tables.likelihood[unlinked, column] < tables.background[column]).all()


def test_a_circumstance_counts_less(real_book: Book) -> None:
    task = real_book.signals["task"]
    assert task.weight < 1
    full = {**real_book.signals, "task": task.model_copy(update={"weight": 1.0})}
    heavy = compile_book(replace(real_book, entries={**real_book.entries, "signals": full}, opinions={}))
    light = compile_book(replace(real_book, opinions={}))
    where = light.columns["task"]
    spread = [np.abs(np.log(t.likelihood[:, where] / t.background[where])).max() for t in (light, heavy)]
    assert spread[0] < 0.5 * spread[1]


HEAD = "signals:\n  fp32-removes-it:\n    outcomes: [yes, no]\n    classes:\n      fp16_overflow: "
BROKEN = {
    "signals:\n  fp32-removes-it: [1, 2]\n": "outcomes or classes is missing",
    HEAD + "[93]\n": "not 2 shares",
    HEAD + "[-1, 3]\n": "not 2 shares",
    HEAD + "[0, 0]\n": "not 2 shares",
}


@pytest.mark.parametrize("text", BROKEN)
def test_a_broken_file_is_told_in_one_line(tmp_path: Path, text: str) -> None:
    (tmp_path / "opinions.yaml").write_text(text, "utf-8")
    book = load([tmp_path])
    (problem,) = book.problems
    assert BROKEN[text] in problem.what and problem.where.endswith("opinions.yaml") and problem.line
    assert not book.opinions


def test_lint_names_what_the_book_lacks(tiny: Book) -> None:
    good = {"lower-lr-removes-it": {"lr_too_high": {"yes": 90.0, "no": 10.0}}}
    assert not list(opinions_fit(replace(tiny, opinions=good), None))  # type: ignore[arg-type]
    for bad in (
        {"no-such-signal": good["lower-lr-removes-it"]},
        {"lower-lr-removes-it": {"lr_too_high": {"yes": 100.0}}},
        {"lower-lr-removes-it": {"no_such_class": {"yes": 90.0, "no": 10.0}}},
    ):
        classes = tiny.classes or {"lr_too_high": {}}
        (problem,) = opinions_fit(replace(tiny, opinions=bad, classes=classes), None)  # type: ignore[arg-type]
        assert problem.where == "opinions"
