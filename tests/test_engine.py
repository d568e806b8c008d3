"""The engine on the tiny book: hand-computed posteriors, order, undo, exclusion, value, explanation."""

from __future__ import annotations

import itertools
import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from playbook.engine import belief as belief_module
from playbook.engine import diagnosis as diagnosis_module
from playbook.engine import value as value_module
from playbook.engine.belief import posterior
from playbook.engine.diagnosis import IDLE_GAIN, diagnose
from playbook.engine.explain import contradiction, leader, rests_on_a_line
from playbook.engine.observe import flatten, from_config, lookup, observe
from playbook.engine.tables import SLIP, Tables, compile_book
from playbook.engine.value import RunSize, cost_of, gains, options
from playbook.errors import PlaybookError
from playbook.findings import Evidence, Finding, Scan
from playbook.knowledge.loader import Book
from playbook.series import Event, Origin
from playbook.workflow.session import Session


def ev(signal: str, state: str, confidence: float = 1.0) -> Evidence:
    return Evidence(signal, state, "person", confidence=confidence)


LR = [ev("loss-shape", "persistent-spike"), ev("grad-norm-before", "climbs"), ev("lower-lr-removes-it", "yes")]


def test_links_become_distributions(tiny: Book) -> None:
    tables = compile_book(tiny, {})
    for where in tables.columns.values():
        assert np.allclose(tables.likelihood[:, where].sum(axis=1), 1, atol=1e-6)
        assert np.isclose(tables.background[where].sum(), 1)
    h, k = tables.index("lr-peak"), tables.column("grad-norm-before", "climbs")
    assert k is not None
    assert tables.likelihood[h, k] == pytest.approx((1 - SLIP) * 0.72 + SLIP * tables.background[k])


def test_prior_is_published_incidents_of_the_class(tiny: Book) -> None:
    tables = compile_book(tiny, {})
    by = dict(zip(tables.causes, tables.prior, strict=True))
    assert by["lr-peak"] / by["fp16-overflow"] == pytest.approx((5 + 1.5) / (3 + 1.5))


def test_posterior_by_hand(tiny: Book, monkeypatch: pytest.MonkeyPatch) -> None:
    """With pairs and discount out of the way it is Bayes' rule: prior x product of likelihood / background."""
    monkeypatch.setattr(belief_module, "OTHER_PAIRS_PRIOR", 1e-12)
    monkeypatch.setattr(belief_module, "AUTHORED_PAIRS_PRIOR", 1e-12)
    monkeypatch.setattr(belief_module, "TEMPERATURE", 1.0)
    tables = compile_book(tiny, {})
    weights = []
    for h in range(len(tables.causes)):
        value = tables.prior[h] * (1 - belief_module.UNKNOWN_PRIOR)
        for item in LR:
            k = tables.column(item.signal, item.state)
            assert k is not None
            value *= tables.likelihood[h, k] / tables.background[k]
        weights.append(value)
    weights.append(belief_module.UNKNOWN_PRIOR)
    expected = np.array(weights) / sum(weights)
    found = posterior(tables, LR)
    assert np.allclose(found.marginal, expected[:-1], atol=1e-6)
    assert found.unknown == pytest.approx(expected[-1], abs=1e-6)


def test_probabilities_sum_to_one_and_order_does_not_matter(tiny: Book) -> None:
    tables = compile_book(tiny, {})
    evidence = [*LR, ev("precision", "fp16"), ev("tied-to-samples", "no", 0.6)]
    first = posterior(tables, evidence)
    assert first.marginal.sum() + first.unknown == pytest.approx(1)
    for order in itertools.permutations(evidence):
        assert np.allclose(posterior(tables, order).marginal, first.marginal)


@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_more_evidence_for_a_cause_never_lowers_it_alone(tiny: Book, data: st.DataObject) -> None:
    """Adding an outcome that a cause makes likelier than any other hypothesis does cannot make it less probable.

    Of a fact that was not looked at yet: a second view of a known one takes weight from the first. And of the cause by
    itself: its pairs with causes that do not show the outcome lose, and so may `marginal` by a little.
    """
    tables = compile_book(tiny, {})
    signals = data.draw(st.lists(st.sampled_from(tables.signals), unique=True, max_size=4))
    known = [ev(s, data.draw(st.sampled_from(tables.outcomes[s]))) for s in signals]
    h = data.draw(st.integers(0, len(tables.causes) - 1))
    for signal, where in tables.columns.items():
        if tables.groups[signal] in {tables.groups[s] for s in signals}:
            continue
        for k, outcome in enumerate(tables.outcomes[signal]):
            column = tables.likelihood[:, where.start + k]
            if column[h] == column.max() and column[h] >= tables.background[where.start + k]:
                before = posterior(tables, known).single[h]
                assert posterior(tables, [*known, ev(signal, outcome)]).single[h] >= before - 1e-9


def test_hard_fact_excludes(tiny: Book) -> None:
    tables = compile_book(tiny, {})
    found = posterior(
        tables, [ev("loss-shape", "instant-nan"), ev("precision", "bf16"), ev("loss-scale-before", "collapses")]
    )
    assert found.marginal[tables.index("fp16-overflow")] == 0
    assert all(tables.index("fp16-overflow") not in pair[:2] for pair in found.pairs)


def test_two_faults_explain_conflicting_evidence(tiny: Book) -> None:
    diagnosis = diagnose(tiny, compile_book(tiny, {}), [*LR, ev("tied-to-samples", "yes")])
    assert ("bad-samples", "lr-peak") in [(a, b) for a, b, _ in diagnosis.coupled]


def test_evidence_that_nothing_explains_is_not_in_the_book(tiny: Book) -> None:
    tables = compile_book(tiny, {})
    strange = [
        ev("grad-norm-before", "surges"),
        ev("lower-lr-removes-it", "no"),
        ev("tied-to-samples", "no"),
        ev("precision", "bf16"),
    ]
    assert posterior(tables, strange).unknown > 2 * belief_module.UNKNOWN_PRIOR


def test_unsure_evidence_moves_less(tiny: Book) -> None:
    tables = compile_book(tiny, {})
    h = tables.index("lr-peak")
    none, half, sure = (
        posterior(tables, e).marginal[h] for e in ([], [ev(*("lower-lr-removes-it", "yes"), 0.5)], LR[2:])
    )
    assert none < half < sure


def test_unknown_signal_and_outcome_are_reported_not_raised(tiny: Book) -> None:
    found = posterior(compile_book(tiny, {}), [ev("no-such-signal", "yes"), ev("precision", "fp4"), *LR])
    assert {e.signal for e in found.unmapped} == {"no-such-signal", "precision"}


def test_correlated_signals_are_discounted(tiny: Book) -> None:
    tables = compile_book(tiny, {})
    same = dict(tables.groups) | {"lower-lr-removes-it": "norms"}
    grouped = type(tables)(**{f: getattr(tables, f) for f in tables.__dataclass_fields__} | {"groups": same})
    h = tables.index("lr-peak")
    assert posterior(grouped, LR).marginal[h] < posterior(tables, LR).marginal[h]


def _told(tiny: Book, outcome: str) -> Tables:
    """The tables of a book where the shape of LR tells an outcome of grad-norm-before."""
    told = {outcome: {"loss-shape": [LR[0].state]}}
    entry = tiny.signals["grad-norm-before"].model_copy(update={"told_by": told})
    signals = {**tiny.entries["signals"], "grad-norm-before": entry}
    return compile_book(replace(tiny, entries={**tiny.entries, "signals": signals}), {})


def test_what_another_signal_has_said_counts_for_less(tiny: Book) -> None:
    plain, told = compile_book(tiny, {}), _told(tiny, "climbs")
    h = plain.index("lr-peak")
    before, after = posterior(plain, LR[:2]), posterior(told, LR[:2])
    assert LR[0].signal == "loss-shape" and LR[1].state == "climbs"
    assert posterior(plain, LR[:1]).marginal[h] < after.marginal[h] < before.marginal[h]
    assert posterior(told, LR[1::-1]).marginal[h] == pytest.approx(after.marginal[h])


def test_what_contradicts_another_signal_counts_in_full(tiny: Book) -> None:
    plain, told = compile_book(tiny, {}), _told(tiny, "normal")
    assert posterior(told, LR[:2]).marginal == pytest.approx(posterior(plain, LR[:2]).marginal)


def test_what_is_told_already_is_hardly_worth_a_question(tiny: Book) -> None:
    plain, told = compile_book(tiny, {}), _told(tiny, "climbs")
    known = {"loss-shape"}
    before, after = (gains(t, posterior(t, LR[:1]), known) for t in (plain, told))
    assert after["grad-norm-before"] == pytest.approx(value_module.OTHER_THAN_TOLD * before["grad-norm-before"])
    assert {k: v for k, v in after.items() if k != "grad-norm-before"} == pytest.approx(
        {k: v for k, v in before.items() if k != "grad-norm-before"}
    )


def test_learned_counts_move_the_words(tiny: Book) -> None:
    plain = compile_book(tiny, {})
    learned = compile_book(tiny, {"lr_too_high": {"grad-norm-before": {"surges": 20}}})
    k = plain.column("grad-norm-before", "surges")
    h = plain.index("lr-peak")
    assert learned.likelihood[h, k] > 3 * plain.likelihood[h, k]


def test_gain_without_temperature_is_expected_entropy_drop(tiny: Book, monkeypatch: pytest.MonkeyPatch) -> None:
    """Brute force: for a signal in a group of its own, the mean entropy after each outcome, by the single causes."""
    monkeypatch.setattr(value_module, "TEMPERATURE", 1.0)
    tables = compile_book(tiny, {})
    now = posterior(tables, LR[:2])
    weights = np.append(now.marginal, now.unknown)
    table = np.vstack([tables.likelihood, tables.background])
    where = tables.columns["tied-to-samples"]

    def entropy(p: np.ndarray) -> float:
        return -sum(x * math.log2(x) for x in p if x > 0)

    expected = entropy(weights)
    for k in range(where.start, where.stop):
        joint = weights * table[:, k]
        expected -= joint.sum() * entropy(joint / joint.sum())
    assert gains(tables, now, {"loss-shape", "grad-norm-before"})["tied-to-samples"] == pytest.approx(
        expected, abs=1e-9
    )


def test_what_would_upset_a_sure_belief_is_worth_asking_for(real_book: Book) -> None:
    """A loss that drifts after a resume while the rate leaves its schedule: was the schedule restored at all?

    The graph alone: precedents leave that belief less sure.
    """
    tables = compile_book(real_book).graph()
    seen = [ev("loss-shape", "resume-drift"), ev("lr-leaves-schedule", "yes"), ev("present-at-first-step", "no")]
    now = posterior(tables, [*seen, ev("precision", "fp16"), ev("task", "fine-tuning")])
    assert now.by_class.max() > 0.7
    check = "resume-scheduler-restored"
    assert gains(tables, now, {e.signal for e in now.used})[check] > IDLE_GAIN
    plan = diagnose(real_book, tables, now.used).plan
    assert check in [option.signal for option in plan]


def test_cost_grows_with_the_run(tiny: Book) -> None:
    signal = tiny.signals["lower-lr-removes-it"]
    small, large = cost_of(signal, RunSize(8, 2.0)), cost_of(signal, RunSize(1024, 10.0))
    assert small.gpu_hours == pytest.approx(500 * 2 / 3600 * 8, abs=1e-3)
    assert large.total > 50 * small.total
    assert cost_of(signal, RunSize(1024, 10.0), {"rerun-lr"}).gpu_hours == 0


def test_closed_signals_are_not_asked_again(tiny: Book) -> None:
    tables = compile_book(tiny, {})
    now = posterior(tables, LR[:1])
    names = [o.signal for o in options(tables, now, tiny.signals, {"loss-shape"}, {"precision"}, RunSize())]
    assert "precision" not in names and "loss-shape" not in names and names


def test_tipping_really_tips(tiny: Book) -> None:
    tables = compile_book(tiny, {})
    diagnosis = diagnose(tiny, tables, LR[:1])
    tip = diagnosis.tipping
    assert tip is not None
    after = posterior(tables, [*LR[:1], ev(tip.signal, tip.outcome)])
    assert leader(tables, after) == tip.cause != diagnosis.causes[0].id


def test_reasons_have_the_sign_of_the_evidence(tiny: Book) -> None:
    diagnosis = diagnose(tiny, compile_book(tiny, {}), [*LR, ev("tied-to-samples", "no")])
    top = diagnosis.causes[0]
    assert top.id == "lr-peak" and {"lower-lr-removes-it", "grad-norm-before"} <= {r.signal for r in top.pro}
    data = next(r for r in diagnosis.causes if r.id == "bad-samples")
    assert "tied-to-samples" in {r.signal for r in data.con}


def test_healthy_has_no_causes(tiny: Book) -> None:
    diagnosis = diagnose(tiny, compile_book(tiny, {}), [Evidence("loss-shape", "healthy", "metrics")])
    assert diagnosis.healthy and not diagnosis.causes and diagnosis.next is None


@pytest.mark.parametrize(
    ("signal", "state", "healthy"),
    [
        ("grad-norm-before", "normal", True),
        ("crash-tail", "none", True),
        ("precision", "fp16", True),  # how a run is set up is no fault
        ("crash-tail", "oom", False),
        ("tied-to-samples", "yes", False),
    ],
)
def test_a_healthy_curve_does_not_outshout_a_told_fault(tiny: Book, signal: str, state: str, healthy: bool) -> None:
    curve = Evidence("loss-shape", "healthy", "metrics")
    assert diagnose(tiny, compile_book(tiny, {}), [curve, ev(signal, state)]).healthy is healthy


def test_answers_that_contradict_each_other_decide_nothing(tiny: Book, monkeypatch: pytest.MonkeyPatch) -> None:
    tables = compile_book(tiny, {})
    told = [*LR, ev("tied-to-samples", "no"), ev("precision", "bf16")]
    assert diagnose(tiny, tables, told).decided
    against = contradiction(posterior(tables, told), tables.index("lr-peak"))
    monkeypatch.setattr(diagnosis_module, "CONTRADICTED", against + 0.01)
    assert diagnose(tiny, tables, told).decided
    monkeypatch.setattr(diagnosis_module, "CONTRADICTED", against - 0.01)
    torn = diagnose(tiny, tables, told)
    assert not torn.decided and torn.causes[0].id == "lr-peak" and "contradicts itself" in torn.why_undecided


def test_who_does_not_know_after_all_takes_back_what_was_told(tiny: Book) -> None:
    session = Session(tiny, compile_book(tiny, {}))
    session.observe([Evidence("precision", "bf16", "config")])
    for signal, state in (("tied-to-samples", "yes"), ("tied-to-samples", "unknown"), ("precision", "cannot")):
        session.answer(signal, state)
    assert [(e.signal, e.state) for e in session.evidence] == [("precision", "bf16")], "a file is not unread"
    assert session.closed == {"tied-to-samples", "precision"}


def test_session_undo_redo_retract(tiny: Book) -> None:
    session = Session(tiny, compile_book(tiny, {}))
    session.observe(LR[:1])
    before = session.diagnosis().belief.marginal
    session.answer("lower-lr-removes-it", "yes")
    after = session.diagnosis().belief.marginal
    session.undo()
    assert np.array_equal(session.diagnosis().belief.marginal, before)
    session.redo()
    assert np.array_equal(session.diagnosis().belief.marginal, after)
    session.retract("lower-lr-removes-it")
    assert np.array_equal(session.diagnosis().belief.marginal, before)


def test_session_refuses_what_the_book_lacks(tiny: Book) -> None:
    session = Session(tiny, compile_book(tiny, {}))
    with pytest.raises(PlaybookError, match="did you mean lower-lr-removes-it"):
        session.answer("lower-lr-removes", "yes")
    with pytest.raises(PlaybookError, match="one of yes, no"):
        session.answer("lower-lr-removes-it", "maybe")


def test_a_cluster_is_paid_once(tiny: Book) -> None:
    session = Session(tiny, compile_book(tiny, {}))
    session.answer("lower-lr-removes-it", "yes")
    assert session.clusters_done == {"rerun-lr"} and session.cost.gpu_hours > 0


def test_observe_takes_findings_logs_and_config(tiny: Book) -> None:
    scans = [
        Scan("nonfinite", "clear"),
        Scan("spike", "found", (Finding("spike", "persistent", "loss", 100, "jumps", 0.9),)),
        Scan("grad_norm", "blind", because="no grad_norm"),
    ]
    event = Event("torch.OutOfMemoryError: CUDA out of memory. Tried", "oom", Origin("a.log", 7))
    found = {e.signal: e for e in observe(tiny.signals, scans, [event], {"Training": {"FP16": True}})}
    assert found["loss-shape"].state == "persistent-spike" and found["loss-shape"].step == 100
    assert found["crash-tail"].state == "oom" and found["crash-tail"].origin == Origin("a.log", 7)
    assert found["precision"].state == "fp16" and found["precision"].source == "config"
    assert "grad-norm-before" not in found, "blind is no evidence"


def test_clear_is_evidence_only_where_the_signal_says_so(tiny: Book) -> None:
    found = observe(tiny.signals, [Scan("nonfinite", "clear"), Scan("spike", "clear")], [], {})
    assert [(e.signal, e.state) for e in found] == [("loss-shape", "healthy")]
    assert (
        observe(tiny.signals, [Scan("spike", "found", (Finding("spike", "persistent", "loss", 1, "", 0.2),))], [], {})
        == []
    )


def test_a_fault_of_the_machine_implies_a_symptom_where_no_curve_shows_one(tiny: Book) -> None:
    crash = tiny.signals["crash-tail"].model_copy(update={"implies": {"oom": "instant-nan"}})
    signals = {**tiny.signals, "crash-tail": crash}
    event = Event("CUDA out of memory", "oom", Origin("a.log", 7))
    alone = {e.signal: e.state for e in observe(signals, [], [event], {})}
    assert alone["loss-shape"] == "instant-nan"
    spike = Scan("spike", "found", (Finding("spike", "persistent", "loss", 100, "jumps", 0.9),))
    assert {e.signal: e.state for e in observe(signals, [spike], [event], {})}["loss-shape"] == "persistent-spike"
    assert "loss-shape" not in {e.signal for e in observe(signals, [], [], {})}


def test_config_lookup_by_last_component(tiny: Book) -> None:
    flat = flatten({"a": {"BF16": "True"}})
    assert lookup(flat, "bf16") == ("a.bf16", "True")
    found = from_config(tiny.signals["precision"], flat)
    assert found is not None and found.state == "bf16"


def read_at(signal: str, state: str, line: int) -> Evidence:
    return Evidence(signal, state, "log", confidence=0.9, origin=Origin("train.log", line, "text_log"))


def test_what_several_signals_read_from_one_line_is_one_observation(tiny: Book) -> None:
    tables = compile_book(tiny, {})
    names = [name for name in ("loss-shape", "grad-norm-before", "lower-lr-removes-it") if name in tables.columns]
    states = {e.signal: e.state for e in LR}
    apart = posterior(tables, [read_at(name, states[name], place) for place, name in enumerate(names)])
    one = posterior(tables, [read_at(name, states[name], 7) for name in names])
    lines = belief_module.line_shares(tables, one.used)
    assert sorted(lines) == [belief_module.TOLD, belief_module.TOLD, 1.0]
    full = np.abs(posterior(tables, [one.used[int(np.argmax(lines))]]).ratios).max()
    assert np.abs(one.ratios).max() == pytest.approx(full)  # the most particular one keeps its weight
    assert one.by_class.max() < apart.by_class.max()
    assert belief_module.line_shares(tables, apart.used).tolist() == [1.0] * len(names)


def test_what_a_person_tells_shares_no_line(tiny: Book) -> None:
    tables = compile_book(tiny, {})
    told = [replace(read_at(e.signal, e.state, 7), source="person") for e in LR]
    assert belief_module.line_shares(tables, posterior(tables, told).used).tolist() == [1.0] * len(LR)


def test_one_line_has_to_be_surer_than_several(tiny: Book, monkeypatch: pytest.MonkeyPatch) -> None:
    tables = compile_book(tiny, {})
    monkeypatch.setattr(diagnosis_module, "DECIDE_EVIDENCE", 1)
    for place in (7, None):
        evidence = [read_at(e.signal, e.state, place or n) for n, e in enumerate(LR)]
        found = diagnose(tiny, tables, evidence)
        belief, first = found.belief, found.causes[0]
        assert rests_on_a_line(belief, tables.index(first.id)) is (place is not None)
        monkeypatch.setattr(diagnosis_module, "DECIDE", first.probability - 0.01)
        monkeypatch.setattr(diagnosis_module, "DECIDE_ON_A_LINE", first.probability + 0.01)
        monkeypatch.setattr(diagnosis_module, "ALONE", 1e9)
        assert diagnose(tiny, tables, evidence).decided is (place is None)
        monkeypatch.setattr(diagnosis_module, "ALONE", 1.0)  # no other class comes near
        assert diagnose(tiny, tables, evidence).decided
