"""When a verdict is given on the whole book, and when what is known is not enough for one."""

from __future__ import annotations

import pytest

from playbook.engine.diagnosis import DECIDE
from playbook.workflow.session import Session
from tests.lab import judge

NO_REASON = "nothing that was seen or told speaks for the first cause by itself"


def told(*answers: str) -> Session:
    book = judge.library()
    session = Session(book.book, book.tables)
    for answer in answers:
        signal, state = answer.split("=")
        session.answer(signal, state)
    return session


@pytest.mark.parametrize(
    "answers",
    [
        "loss-shape=resume-drift precision=fp8 task=other parallelism=data",
        "loss-shape=silent-degradation precision=fp16 task=detection parallelism=single batchnorm-in-model=yes",
        "loss-shape=throughput-drop precision=fp8 task=pretraining parallelism=sharded present-at-first-step=no "
        "loss-looks-normal=no crash-tail=none change-point=none slow-rank=none first-bad-layer=attention "
        "lr-value=usual",
    ],
)
def test_what_is_usual_and_how_a_run_is_set_up_decide_nothing(answers: str) -> None:
    """They leave one cause over by ruling out the others, and one that nobody has thought of is left over as well."""
    found = told(*answers.split()).diagnosis()
    assert not found.decided
    assert found.why_undecided == NO_REASON or found.causes[0].probability < DECIDE
    assert found.next is not None, "what would be a reason is still to be asked"


def test_one_reason_beside_the_set_up_is_enough() -> None:
    setting = ["loss-shape=resume-drift", "precision=bf16", "task=detection", "parallelism=data"]
    seen = ["present-at-first-step=no", "lr-phase=warmup", "resume-scheduler-restored=no"]
    assert told(*setting, *seen).diagnosis().decided
