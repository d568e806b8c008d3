"""A reason that is shown is one that somebody who knows the cause would give: linked to it, and telling."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from math import log
from pathlib import Path

import numpy as np
import pytest

from playbook.engine import explain
from playbook.engine.belief import group_weights, posterior
from playbook.engine.diagnosis import RIVALS, Diagnosis, diagnose
from playbook.engine.explain import CLEAR, OBJECTION, REASON, weigh
from playbook.engine.tables import compile_book
from playbook.engine.value import FREE, Option, RunSize, moot, options, trivial
from playbook.findings import Evidence
from playbook.knowledge.loader import Book
from playbook.workflow.book import Library
from playbook.workflow.ingest import ingest
from playbook.workflow.missing import missing
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
        names = [e.signal for e in said.belief.used]
        shares = dict(zip(names, group_weights(tables, names), strict=True))
        for ranked in said.causes[:3]:
            linked = {*book.causes[ranked.id].expects, "loss-shape"}
            for reason in (*ranked.pro, *ranked.con):
                seen += 1
                alone = abs(reason.weight) / shares[reason.signal]  # without the other views of the same fact
                assert reason.signal in linked or alone > CLEAR - log(1.5), (ranked.id, reason)
                assert abs(reason.weight) >= OBJECTION
            for reason in ranked.pro:
                alone = reason.weight / shares[reason.signal]
                assert alone >= (log(4) if reason.signal in tables.circumstances else REASON)
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


@pytest.mark.parametrize(
    ("known", "never"),
    [
        ({"precision": "fp16"}, {"fp8-amax-history"}),
        ({"precision": "bf16"}, {"fp8-amax-history", "loss-scale-before"}),
        ({"precision": "fp32"}, {"fp32-removes-it", "skipped-steps", "low-lr-updates-lost"}),
        ({"parallelism": "single"}, {"network-counters", "ranks-disagree", "slow-rank", "nccl-log", "ranks-affected"}),
        ({"ranks_affected": "single-process"}, {"single-device-removes-it", "same-batch-on-ranks"}),
        ({"nodes": "one"}, {"network-counters"}),
        ({"moe_in_model": "no"}, {"expert-load", "router-aux-loss"}),
        ({"grad_accum_on": "no"}, {"loss-depends-on-accumulation"}),
    ],
)
def test_what_the_run_does_not_have_is_not_asked_about(
    library: Library, known: dict[str, str], never: set[str]
) -> None:
    tables = library.tables
    evidence = [Evidence(name.replace("_", "-"), state, "person") for name, state in known.items()]
    for shape in library.book.symptoms:
        belief = posterior(tables, [Evidence("loss-shape", shape, "person"), *evidence])
        signals = {e.signal for e in belief.used}
        asked = {o.signal for o in options(tables, belief, library.book.signals, signals, set(), RunSize())}
        assert not asked & never and not moot(tables, ()), shape
    assert not moot(tables, [replace(e, confidence=0.7) for e in evidence]), "an unsure answer shuts nothing"


def test_a_moot_question_changes_no_verdict(library: Library) -> None:
    for case in list(library.book.cases.values())[::6]:
        evidence = [Evidence(s, str(o), "case") for s, o in case.answers.items()]
        said = diagnose(library.book, library.tables, evidence)
        assert said.tipping is None or said.tipping.signal not in moot(library.tables, said.belief.used)


def test_after_a_verdict_only_checks_of_it_are_asked(library: Library) -> None:
    decided = 0
    for said in walks(library):
        if said.decided and said.causes:
            decided += 1
            book = library.book
            linked = set().union(*(book.causes[r.id].expects for r in said.causes[: 1 + RIVALS]))
            assert {o.signal for o in said.plan} <= linked - library.tables.circumstances.keys()
    assert decided > 30


def test_what_tells_little_waits_for_what_tells_more(library: Library) -> None:
    for said in walks(library):
        low = [trivial(library.tables, o) for o in said.plan]
        assert low == sorted(low)


def test_trivial_is_less_for_what_was_seen_than_for_how_a_run_is_set_up(library: Library) -> None:
    def option(signal: str, gain: float) -> Option:
        return Option(signal, gain, FREE, 1.0)

    assert trivial(library.tables, option("task", 0.09)) and not trivial(library.tables, option("task", 0.1))
    assert trivial(library.tables, option("spike-form", 0.04)) and not trivial(
        library.tables, option("spike-form", 0.05)
    )


def test_blind_spots_are_of_what_the_run_has(library: Library, tmp_path: Path) -> None:
    rows = "".join(f"{s},{2 + (s >= 300) * 4 + 0.01 * (s % 7)},{0.5 + 0.001 * (s % 5)}\n" for s in range(400))
    (tmp_path / "run.csv").write_text("step,loss,grad_norm\n" + rows)
    found = ingest([str(tmp_path / "run.csv")], library.book)
    session = Session(library.book, library.tables)
    session.observe(found.evidence)
    never = {"fp8-amax-history", "rl-importance-ratio", "expert-load", "loss-jump-size-at-resume"}
    assert not {row.signal for row in missing(found, session)} & never
    session.observe([Evidence("moe-in-model", "yes", "person"), Evidence("precision", "fp8", "person")])
    assert {"fp8-amax-history", "expert-load"} & {row.signal for row in missing(found, session)}
