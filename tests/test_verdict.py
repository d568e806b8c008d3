"""The word of a verdict: what a person tells counts beside what files show, in every document that says it."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from playbook.faces.cli import run as command
from playbook.findings import Evidence
from playbook.workflow.ingest import look
from playbook.workflow.records.record import verdict_of
from playbook.workflow.session import Session
from playbook.workflow.verdict import noted, symptom, word
from tests import runs
from tests.lab import judge

LIBRARY = judge.library()
QUIET = look(runs.plain(1), LIBRARY.book)


def said(**answers: str) -> tuple[str, str | None]:
    session = Session(LIBRARY.book, LIBRARY.tables)
    session.observe(QUIET.evidence)
    for signal, state in answers.items():
        session.answer(signal.replace("_", "-"), state)
    diagnosis = session.diagnosis(explained=False)
    trouble = symptom(session)
    assert verdict_of(session, diagnosis).word == word(session, diagnosis, QUIET)
    return word(session, diagnosis, QUIET), trouble.state if trouble else None


def test_a_healthy_curve_with_harmless_answers_is_healthy() -> None:
    assert said() == ("healthy", None)
    assert said(gpu_errors="none", eval_vs_train="follows") == ("healthy", None)


@pytest.mark.parametrize("answer", [("eval_vs_train", "eval-worse"), ("gpu_errors", "ecc"), ("ranks_disagree", "yes")])
def test_who_tells_of_a_fault_is_not_answered_with_a_healthy_curve(answer: tuple[str, str]) -> None:
    assert said(**dict([answer])) == ("undecided", None)


def test_a_shape_that_is_told_is_the_symptom() -> None:
    assert said(loss_shape="slow-climb") == ("incident", "slow-climb")


def test_the_terminal_and_the_document_say_the_same(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    loss = 2.0 + 6.0 * np.exp(-np.arange(400) / 60) + np.random.default_rng(0).normal(0, 0.02, 400)
    path = tmp_path / "run.csv"
    path.write_text("step,loss\n" + "".join(f"{k},{v:.4f}\n" for k, v in enumerate(loss)), encoding="utf-8")
    for answer, verdict, shown in (
        ("gpu-errors=none", "healthy", "healthy: nothing to report"),
        ("eval-vs-train=eval-worse", "undecided", "undecided: the files show nothing, what was told speaks of a fault"),
        ("loss-shape=plateau", "incident", "incident: "),
    ):
        assert command(["diagnose", str(path), "--no-input", "--json", "--answer", answer]) == 0
        assert json.loads(capsys.readouterr().out)["verdict"] == verdict
        assert command(["diagnose", str(path), "--no-input", "--answer", answer]) == 0
        printed = " ".join(capsys.readouterr().out.split())
        assert shown in printed


def test_a_healthy_curve_does_not_hide_what_the_log_says(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    noise = np.random.default_rng(1)
    loss = 2.6 + 4.0 * np.exp(-np.arange(800) / 60) + noise.normal(0, 0.05, 800)
    lines = [f"step {k} loss {v:.4f} lr 1.00e-04 grad_norm 0.4{k % 7}" for k, v in enumerate(loss)]
    lines.insert(400, "WARNING dataloader state not found, starting from the beginning of the dataset")
    path = tmp_path / "train.log"
    told = "resume-sampler-restored = no"
    for text, english, chinese in (
        (lines, f"the loss shows nothing, but look at {told}", f"请查看 {told}"),
        (lines[:400] + lines[401:], "healthy: nothing to report", "健康：没有异常"),
    ):
        path.write_text("\n".join(text) + "\n", encoding="utf-8")
        for code, shown in (("en", english), ("zh", chinese)):
            assert command(["diagnose", str(path), "--no-input", "--lang", code]) == 0
            assert shown in " ".join(capsys.readouterr().out.split())


def test_a_rate_that_begins_its_course_again_is_named_beside_a_healthy_loss() -> None:
    found = look(runs.plain(1), LIBRARY.book)
    session = Session(LIBRARY.book, LIBRARY.tables)
    session.observe(found.evidence)
    assert noted(session) == ()
    session.observe([Evidence("lr-leaves-schedule", "yes", "metrics")])
    assert [item.signal for item in noted(session)] == ["lr-leaves-schedule"]


def test_unsure_whether_it_is_unknown_is_unknown() -> None:
    session = Session(LIBRARY.book, LIBRARY.tables)
    session.answer("precision", "unknown?")
    assert session.evidence == () and "precision" in session.closed


WEAK = [
    Evidence("loss-shape", "resume-drift", "metrics", confidence=0.6),
    Evidence("begins-at-resume", "yes", "metrics"),
    Evidence("resume-optimizer-restored", "no", "log"),
    Evidence("loss-jump-size-at-resume", "slow-return", "metrics"),
    Evidence("change-point", "resume", "metrics"),
]


def test_no_cause_is_decided_of_a_symptom_that_is_not_sure() -> None:
    weak = Session(LIBRARY.book, LIBRARY.tables)
    weak.observe([e for e in WEAK if LIBRARY.tables.column(e.signal, e.state) is not None])
    found = weak.diagnosis()
    assert (found.decided, word(weak, found)) == (False, "undecided")
    assert found.why_undecided == "whether there is a fault at all is not sure"
    weak.answer("loss-shape", "resume-drift")
    found = weak.diagnosis()
    assert word(weak, found) == "incident" and found.why_undecided != "whether there is a fault at all is not sure"


@pytest.mark.parametrize(("shape", "expected"), [(None, "incident"), ("healthy", "undecided")])
def test_the_word_of_a_verdict_goes_with_whether_a_cause_is_decided(shape: str | None, expected: str) -> None:
    session = Session(LIBRARY.book, LIBRARY.tables)
    if shape is not None:
        session.observe([Evidence("loss-shape", shape, "metrics", confidence=0.8)])
    for signal, state in (
        ("gpu-errors", "ecc"),
        ("xid-code", "memory"),
        ("gpu-selftest", "fails"),
        ("fault-follows-node", "yes"),
    ):
        session.answer(signal, state)
    found = session.diagnosis()
    assert (found.decided, word(session, found)) == (expected == "incident", expected)
