"""What published incidents that tell the same turned out to be: pooled, learned, written, read and refused."""

from __future__ import annotations

import copy
import io
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from rich.console import Console

from playbook import places
from playbook.engine.belief import posterior
from playbook.engine.diagnosis import PRECEDENT_NAMED, PRECEDENTS_NAMED, named_precedents
from playbook.engine.precedents import GRAPH, PRECEDENTS, Precedents, pool
from playbook.engine.tables import Tables, compile_book
from playbook.faces.report import print_diagnosis
from playbook.faces.words import words
from playbook.findings import Evidence
from playbook.knowledge.lint import precedents_fit
from playbook.knowledge.loader import Book, load
from playbook.knowledge.overlay import translate
from playbook.workflow.session import Session
from playbook.workflow.upkeep import fit
from playbook.workflow.upkeep import precedents as learning
from playbook.workflow.upkeep.learn import class_of
from playbook.workflow.upkeep.reports import Elicited, Report, read_elicited, write_precedents

RATE, DATA = "lr_too_high", "data_bad_content"
TOLD = ("lower-lr-removes-it", "yes")


def net(weight: float) -> Precedents:
    """One unit that is on where TOLD is told; it speaks for DATA by `weight` nats."""
    return Precedents((TOLD,), (DATA, RATE), np.array([[1.0]]), np.zeros(1), np.array([[weight, 0.0]]), np.zeros(2))


def with_net(book: Book, weight: float) -> Tables:
    return replace(compile_book(book), precedents=net(weight))


def said(source: Any, **further: Any) -> tuple[Evidence, ...]:
    return (Evidence("loss-shape", "persistent-spike", source), Evidence(*TOLD, source, **further))


def test_the_pool_by_hand() -> None:
    view, graph = np.array([0.9, 0.1]), np.array([0.2, 0.6])
    log = PRECEDENTS * np.log(view) + (GRAPH - 1) * np.log(graph / 0.8)
    after = graph * np.exp(pool(view, graph))
    assert after == pytest.approx(0.8 * (graph * np.exp(log)) / (graph * np.exp(log)).sum())
    assert pool(view, np.zeros(2)).tolist() == [0, 0]


def test_precedents_move_what_is_told_and_nothing_else(tiny: Book) -> None:
    plain, pooled = compile_book(tiny), with_net(tiny, 5.0)
    c = plain.classes.index(DATA)
    for source in ("metrics", "log", "config", "probe"):
        assert np.array_equal(posterior(plain, said(source)).marginal, posterior(pooled, said(source)).marginal)
    before, after = posterior(plain, said("case")), posterior(pooled, said("case"))
    assert after.by_class[c] > 2 * before.by_class[c]
    assert np.array_equal(after.marginal, posterior(pooled, said("person")).marginal), "whoever tells it"
    shape = said("person")[:1]
    assert np.array_equal(posterior(plain, shape).marginal, posterior(pooled, shape).marginal), "no more than the shape"
    seen = (Evidence("loss-shape", "persistent-spike", "metrics"), said("person")[1])
    assert np.array_equal(posterior(pooled, seen).judged, after.judged, equal_nan=True), (
        "the shape counts, whoever saw it"
    )
    assert after.unknown + after.marginal.sum() == pytest.approx(1)
    members = list(plain.members(c))
    assert after.single[members] / after.single[members].sum() == pytest.approx(
        before.single[members] / before.single[members].sum()
    ), "causes of a class keep their shares"


def test_what_files_show_beside_it_counts_in_full(tiny: Book) -> None:
    """The pool is over what both have judged: what files show moves the odds as it does without precedents."""
    plain, pooled = compile_book(tiny), with_net(tiny, 3.0)
    case = said("case")
    other = next(s for s in tiny.signals if s not in {e.signal for e in case})
    later = Evidence(other, next(iter(tiny.signals[other].outcomes)), "metrics")
    odds = [(posterior(t, (*case, later)).single / posterior(t, case).single)[[0, -1]] for t in (plain, pooled)]
    assert odds[0][0] / odds[0][1] == pytest.approx(odds[1][0] / odds[1][1])


def test_unsure_evidence_enters_with_its_weight(tiny: Book) -> None:
    sure, unsure = said("case"), said("case", likelihood=(("yes", 0.6), ("no", 0.4)))
    one, other = (net(5.0).judge(told, (DATA, RATE)) for told in (sure, unsure))
    assert one[0] == pytest.approx(1 / (1 + np.exp(-5))) and other[0] == pytest.approx(1 / (1 + np.exp(-3)))


def test_a_class_without_precedents_keeps_its_share() -> None:
    view = replace(net(5.0), classes=(DATA, "of another book")).judge(said("case"), (RATE, DATA))
    assert np.isnan(view[0]) and view[1] == 1
    assert pool(view, np.array([0.3, 0.6])).tolist() == [0, 0], "one class that both know: nothing to pool"
    moved = np.exp(pool(np.array([np.nan, 0.8, 0.2]), np.array([0.5, 0.2, 0.2])))
    assert moved[0] == 1 and 0.2 * moved[1] + 0.2 * moved[2] == pytest.approx(0.4) and moved[1] > 1 > moved[2]


def _cases(pairs: list[tuple[str, str]]) -> list[Report]:
    """DATA where both answers are alike, RATE where they differ: no answer alone tells anything."""
    return [
        Report(
            id=f"c{i}",
            answers={"loss-shape": "plateau", "lower-lr-removes-it": a, "fp32-removes-it": b},
            causes=[DATA if a == b else RATE],
        )
        for i, (a, b) in enumerate(pairs)
    ]


def _learned(book: Book, cases: list[Report]) -> Precedents:
    twice = [case.read_twice() for case in cases]
    names = learning.features(book, twice)
    classes = (DATA, RATE)
    target = np.array([[float(c in case.causes) for c in classes] for case in cases])
    told = learning.inputs(book, cases, names)
    inferred = learning.inputs(book, twice, names) - told
    examples = learning.Examples(told, inferred, target, np.ones(len(cases)), target.argmax(1))
    return learning.train(examples, names, classes)


def test_facts_that_mean_something_only_together_are_learned(real_book: Book, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(learning, "EPOCHS", 40)
    four = [(a, b) for a in ("yes", "no") for b in ("yes", "no")]
    cases = _cases(four * 60)
    found = _learned(real_book, cases)
    x = learning.inputs(real_book, cases[:4], found.features)
    assert [bool(p[0] > 0.75) for p in found.probabilities(x)] == [True, False, False, True]
    assert np.array_equal(found.hidden, _learned(real_book, cases).hidden), "the same reports, the same network"


def test_which_question_was_answered_is_learned(real_book: Book, monkeypatch: pytest.MonkeyPatch) -> None:
    """Half and half yes and no in either class: only that the question is answered at all tells them apart."""
    monkeypatch.setattr(learning, "EPOCHS", 40)
    cases = []
    for i in range(240):
        signal, cause = (("lower-lr-removes-it", RATE), ("tied-to-samples", DATA))[i % 2]
        answers = {"loss-shape": "plateau", signal: ("yes", "no")[i // 2 % 2]}
        cases.append(Report(id=f"c{i}", answers=answers, causes=[cause]))
    found = _learned(real_book, cases)
    p = found.probabilities(learning.inputs(real_book, cases[:4], found.features))
    assert (p[[1, 3], 0] > 0.85).all() and (p[[0, 2], 1] > 0.85).all()


def test_what_was_inferred_is_learned_beside_what_is_told(real_book: Book, monkeypatch: pytest.MonkeyPatch) -> None:
    """No report tells what the classes differ in; a second reader inferred it of each."""
    monkeypatch.setattr(learning, "EPOCHS", 40)

    def cases(yes: str) -> list[Report]:
        pairs = ((yes, DATA), ("no", RATE)) * 60
        told = {"loss-shape": "plateau"}
        return [
            Report(id=f"c{i}", answers=told, inferred={"tied-to-samples": state}, causes=[cause])
            for i, (state, cause) in enumerate(pairs)
        ]

    asked = [case.read_twice() for case in cases("yes")[:2]]
    for yes, tells in (("yes", True), ("no", False)):
        found = _learned(real_book, cases(yes))
        first = found.probabilities(learning.inputs(real_book, asked, found.features))[:, 0]
        assert bool(first[0] > 0.7 and first[1] < 0.3) is tells


def test_further_answers_are_drawn_as_the_class_would_give_them(real_book: Book) -> None:
    tables = compile_book(real_book)
    share = np.full((2, len(tables.background)), 1e-9)
    for c, outcome in enumerate(("yes", "no")):
        share[c, tables.column("fp32-removes-it", outcome)] = 1.0
    names = (TOLD, ("fp32-removes-it", "yes"), ("fp32-removes-it", "no"))
    asked = learning.askable(tables, np.log(share), ["fp32-removes-it"], names)
    x = np.zeros((400, 3))
    x[:, 0] = 1.0
    x[:100, 1] = 1.0
    after = learning._asked_on(asked, x, np.arange(400) % 2, np.random.default_rng(0))
    assert np.array_equal(after[:100], x[:100]), "what was told already stays"
    assert (after[:, 0] == 1).all()
    added = after[100:, 1:].sum(axis=1)
    assert added.mean() == pytest.approx(learning.FURTHER_OFTEN, abs=0.1)
    assert (after[100:, 1:].argmax(axis=1)[added > 0] == (np.arange(100, 400) % 2)[added > 0]).all()


def test_seldom_told_outcomes_are_no_features(real_book: Book) -> None:
    cases = _cases([("yes", "no")] * 4 + [("no", "no")] * 2)
    assert ("lower-lr-removes-it", "yes") in learning.features(real_book, cases)
    assert ("lower-lr-removes-it", "no") not in learning.features(real_book, cases)


def test_what_is_written_is_read_again(tmp_path: Path) -> None:
    document = learning.rounded(net(1.237))
    write_precedents(tmp_path, document)
    book = load([tmp_path])
    assert book.problems == [] and book.precedents == document
    read = compile_book(book).precedents
    assert read is not None and read.out[0, 0] == 1.24 and read.features == (TOLD,)


def test_too_few_reports_are_no_network(tmp_path: Path, real_book: Book, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(learning, "EPOCHS", 1)
    document = learning.rounded(_learned(real_book, _cases([("yes", "no")])))
    assert document == {}
    write_precedents(tmp_path, document)
    book = load([tmp_path])
    assert book.problems == [] and book.precedents == {} and compile_book(book).precedents is None
    assert fit.precedents_apart(document, book, Elicited((), (), {}, {})) == 0


BROKEN: dict[str, Any] = {
    "scale": 0,
    "classes": [],
    "features": [["a"]],
    "hidden": [[1, 2]],
    "hidden_bias": [1.5],
    "out": [[1]],
    "out_bias": [1, 10**9],
}


@pytest.mark.parametrize("name", BROKEN)
def test_a_network_that_does_not_fit_itself_is_a_problem_of_the_book(tmp_path: Path, name: str) -> None:
    document = copy.deepcopy(learning.rounded(net(1.0)))
    document[name] = BROKEN[name]
    write_precedents(tmp_path, document) if name != "classes" else (tmp_path / "precedents.json").write_text(
        json.dumps(document), "utf-8"
    )
    book = load([tmp_path])
    assert [p.where.endswith("precedents.json") for p in book.problems] == [True] and book.precedents == {}


@pytest.mark.parametrize("text", ["{", "[]", '{"scale": 1}', '"x"', "[" * 100_000])
def test_what_is_no_network_is_a_problem_of_the_book(tmp_path: Path, text: str) -> None:
    (tmp_path / "precedents.json").write_text(text, "utf-8")
    assert (len(load([tmp_path]).problems) > 0) is (text != "[]")


def test_the_written_network_fits_the_book(real_book: Book, tiny: Book) -> None:
    assert list(precedents_fit(real_book, None)) == []  # type: ignore[arg-type]
    assert list(precedents_fit(replace(tiny, precedents=real_book.precedents), None))  # type: ignore[arg-type]


def test_precedents_judge_reports_that_they_have_not_seen(real_book: Book, monkeypatch: pytest.MonkeyPatch) -> None:
    """Half of the reports that it has not learned from, or more, where raters and links put the class first in 44 %."""
    monkeypatch.setattr(learning, "EPOCHS", 50)
    elicited = read_elicited(places.knowledge())
    held, others = elicited.real[::5], [case for i, case in enumerate(elicited.real) if i % 5]
    begin = fit.start(real_book, elicited.raters)
    found = fit.network(begin, real_book, elicited, others, np.log(begin.share))
    p = found.probabilities(learning.inputs(real_book, held, found.features))
    right = [class_of(real_book, case.causes[0]) == found.classes[k] for case, k in zip(held, p.argmax(1), strict=True)]
    assert np.mean(right) > 0.48


def test_classes_are_shown_by_their_titles(real_book: Book) -> None:
    titles = [real_book.class_title(name) for name in real_book.classes]
    assert len(set(titles)) == len(titles) and all(5 < len(t) <= 40 and "_" not in t for t in titles)
    assert not [t for t in titles if "," in t], "a comma stands between the classes of a line"
    assert Book().class_title("their_own") == "their own"
    session = Session(real_book, compile_book(real_book))
    for signal, state in (("loss-shape", "resume-drift"), ("resume-optimizer-restored", "no")):
        session.answer(signal, state)
    found = session.diagnosis()
    named = named_precedents(found, session.tables)
    assert 0 < len(named) <= PRECEDENTS_NAMED and all(p >= PRECEDENT_NAMED for _, p in named)
    for code in ("en", "zh"):
        session.book, out = translate(real_book, code), io.StringIO()
        print_diagnosis(session, found, Console(file=out, width=200), words(code))
        shown = out.getvalue()
        assert not any(name in shown for name, _ in named if "_" in name)
        assert all(f"{session.book.class_title(name)} {p:.0%}" in shown for name, p in named)
