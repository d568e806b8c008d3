"""A reason that is shown is one that somebody who knows the cause would give: linked to it, and telling."""

from __future__ import annotations

from collections.abc import Iterator
from math import log

import numpy as np
import pytest

from playbook.engine import explain
from playbook.engine.belief import posterior
from playbook.engine.diagnosis import Diagnosis, diagnose
from playbook.engine.explain import CLEAR, REASON, weigh
from playbook.engine.tables import compile_book
from playbook.findings import Evidence
from playbook.knowledge.loader import Book
from playbook.workflow.book import Library
from playbook.workflow.session import Session


def told(library: Library, **answers: str) -> Diagnosis:
    session = Session(library.book, library.tables)
    session.observe(Evidence(name.replace("_", "-"), state, "person") for name, state in answers.items())
    return session.diagnosis()


def walks(library: Library) -> Iterator[Diagnosis]:
    """All that is known at the end of each published incident of the development half."""
    for case in library.book.cases.values():
        if case.split == "development":
            known = [Evidence(s, str(o), "case") for s, o in case.answers.items()]
            yield diagnose(library.book, library.tables, known)


def test_a_number_format_is_no_reason_where_the_book_links_nothing_to_it(library: Library) -> None:
    said = told(library, loss_shape="instant-nan", precision="bf16", feature_off_removes_it="yes")
    assert said.causes
    for ranked in said.causes:
        for reason in (*ranked.pro, *ranked.con):
            if reason.signal == "precision":
                assert reason.signal in library.book.causes[ranked.id].expects, ranked.id
    against = [r.id for r in said.causes if any(x.signal == "precision" for x in r.con)]
    assert not {"fused-kernel-wrong", "compiler-miscompiles", "tensor-parallel-gradient-missing"} & set(against)
    out = [r for r in said.ruled_out if r.signal == "precision"]
    assert all("precision" in library.book.causes[r.cause].expects or r.hard for r in out)


def test_a_number_format_is_a_reason_where_it_is_the_mechanism(library: Library) -> None:
    said = told(library, loss_shape="instant-nan", precision="fp16", first_bad_layer="attention")
    overflow = next(r for r in said.causes if r.class_ == "fp16_overflow")
    assert "precision" in {r.signal for r in overflow.pro}


def test_what_is_usual_is_no_reason(library: Library) -> None:
    said = told(library, loss_shape="throughput-drop", throughput="drops", warmup_length="usual", weight_decay="usual")
    hot = next(r for r in said.causes if r.id == "thermal-throttling")
    assert {r.signal for r in hot.pro} == {"loss-shape", "throughput"}


def test_what_is_trained_is_no_reason(library: Library) -> None:
    said = told(library, loss_shape="silent-degradation", eval_vs_train="eval-worse", task="detection")
    assert not [r for ranked in said.causes[:8] for r in (*ranked.pro, *ranked.con) if r.signal == "task"]


def test_every_reason_of_the_cases_is_linked_or_clear_for_its_class(library: Library) -> None:
    book, tables, seen = library.book, library.tables, 0
    for said in walks(library):
        for ranked in said.causes[:3]:
            linked = {*book.causes[ranked.id].expects, "loss-shape"}
            for reason in (*ranked.pro, *ranked.con):
                seen += 1
                assert reason.signal in linked or abs(reason.weight) > CLEAR - log(1.5), (ranked.id, reason)
            for reason in ranked.pro:
                assert reason.weight >= REASON
                assert reason.signal not in tables.circumstances or reason.weight >= log(4)
    assert seen > 300


def test_a_decided_cause_has_a_reason(library: Library) -> None:
    bare = [r.causes[0].id for r in walks(library) if r.decided and r.causes and not r.causes[0].pro]
    assert not bare


def test_ruled_out_was_plausible_and_is_not(library: Library) -> None:
    found = 0
    for said in walks(library):
        for row in said.ruled_out:
            found += 1
            h = library.tables.index(row.cause)
            without = posterior(library.tables, [e for e in said.belief.used if e.signal != row.signal])
            least = explain.PLAUSIBLE_ENOUGH if row.hard else explain.PLAUSIBLE
            assert said.belief.marginal[h] < explain.PLAUSIBLE and without.marginal[h] >= least, row
            linked = row.signal in library.book.causes[row.cause].expects or row.signal == "loss-shape"
            assert row.hard or linked or row.signal not in library.tables.circumstances
    assert found > 20


def test_a_healthy_run_has_nothing_to_rule_out(library: Library) -> None:
    said = diagnose(library.book, library.tables, [Evidence("loss-shape", "healthy", "metrics")])
    assert said.healthy and not said.ruled_out


def test_weights_are_against_the_causes_of_other_classes(tiny: Book) -> None:
    """By hand: each cause of the tiny book is a class of its own."""
    tables = compile_book(tiny, {})
    belief = posterior(tables, [Evidence("grad-norm-before", "climbs", "person")])
    k = tables.column("grad-norm-before", "climbs")
    shares, prior = tables.likelihood[:, k], tables.prior
    power = 2.0  # 1 / temperature
    for h in range(len(tables.causes)):
        others = [i for i in range(len(tables.causes)) if i != h]
        mean = np.average(shares[others], weights=prior[others])
        assert weigh(tables, belief).weights[0, h] == pytest.approx(power * log(shares[h] / mean))
