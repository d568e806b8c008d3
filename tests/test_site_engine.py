"""The browser's engine says what the engine says: posterior, plan, verdict, fixes, on every move of every case."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

from playbook import places
from playbook.engine.diagnosis import Diagnosis
from playbook.engine.tables import compile_book
from playbook.engine.trial import Trial
from playbook.faces.site.tables import numbers
from playbook.knowledge.loader import Book
from playbook.workflow.cases import CaseFile, start
from playbook.workflow.session import UNKNOWN, Session
from tests.browser_kit import NODE, needs_node

TOLERANCE = 1e-9
SCRIPT = Path(__file__).parent / "browser" / "parity.js"
WHY = {
    "": "",
    "the book has no causes": "noCauses",
    "too little is known": "tooLittle",
    "whether there is a fault at all is not sure": "weakSymptom",
    "nothing in the book explains this evidence well": "nothingExplains",
    "several causes explain the evidence": "several",
    "nothing that is left to look at would decide it": "nothingLeft",
    "nothing that was seen or told speaks for the first cause by itself": "noReason",
    "the evidence contradicts itself: one answer may be wrong, or two faults meet": "contradicts",
}


def moment(session: Session) -> dict[str, Any]:
    return {
        "evidence": [
            {
                "signal": e.signal,
                "state": e.state,
                "source": e.source,
                "confidence": e.confidence,
                "likelihood": [list(pair) for pair in e.likelihood] if e.likelihood else None,
            }
            for e in session.evidence
        ],
        "closed": sorted(session.closed),
        "clusters": sorted(session.clusters_done),
        "size": {"gpus": session.size.gpus, "stepSeconds": session.size.step_seconds},
    }


def moments(book: Book, most: int = 40) -> tuple[list[dict[str, Any]], list[Diagnosis], list[str]]:
    """Every state of every case's walk in which something new is known, with what the engine says of it."""
    tables = compile_book(book)
    states, said, names = [], [], []
    for case in book.cases.values():
        file = CaseFile.model_validate({**case.model_dump(by_alias=True), "metrics": []})
        session = start(file, book, tables, Path())
        news = True
        for _ in range(most):
            following = session.diagnosis(explained=False).next
            if news or following is None:
                states.append(moment(session))
                said.append(session.diagnosis())
                names.append(case.id)
            if following is None:
                break
            state = str(file.answers.get(following.signal, UNKNOWN))
            news = state in book.signals[following.signal].outcomes
            session.answer(following.signal, state if news else UNKNOWN, source="case")
    return states, said, names


def in_node(book: Book, states: list[dict[str, Any]]) -> list[dict[str, Any]]:
    document = json.dumps({"tables": numbers(book, compile_book(book)), "moments": states})
    engine = places.site_source() / "assets" / "engine.js"
    done = subprocess.run(
        [NODE, str(SCRIPT), str(engine)], input=document, capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode == 0, done.stderr
    answers: list[dict[str, Any]] = json.loads(done.stdout)
    return answers


def compare(book: Book) -> int:
    """The number of moments at which a repair is better tried than asked about."""
    states, said, names = moments(book)
    answers = in_node(book, states)
    assert len(answers) == len(said)
    for name, expected, got in zip(names, said, answers, strict=True):
        belief = expected.belief
        assert max(abs(a - b) for a, b in zip(belief.marginal, got["marginal"], strict=True)) < TOLERANCE, name
        assert max(abs(a - b) for a, b in zip(belief.by_class, got["byClass"], strict=True)) < TOLERANCE, name
        assert abs(belief.unknown - got["unknown"]) < TOLERANCE, name
        assert (expected.decided, WHY[expected.why_undecided]) == (got["decided"], got["why"]), name
        assert expected.healthy == got["healthy"], name
        _same_plan(name, expected, got)
        assert list(expected.first_aid) == got["firstAid"], name
        _same_reasons(name, expected, got)
        _same_order(name, [(r.id, r.probability) for r in expected.causes[:5]], got["top"])
        assert [sorted(p[:2]) for p in expected.coupled] == [sorted(p[:2]) for p in got["coupled"]], name
        _same_trial(name, expected.trial, got["trial"])
    return sum(d.trial is not None for d in said)


def _same_trial(name: str, ours: Trial | None, theirs: dict[str, Any] | None) -> None:
    assert (ours is None) == (theirs is None), name
    if ours is not None and theirs is not None:
        assert ours.fix == theirs["fix"], name
        mine = (ours.chance, ours.minutes, ours.if_tried, ours.if_asked)
        other = tuple(theirs[key] for key in ("chance", "minutes", "ifTried", "ifAsked"))
        assert all(abs(a - b) < TOLERANCE * max(1.0, a) for a, b in zip(mine, other, strict=True)), (name, mine, other)


def _same_reasons(name: str, expected: Diagnosis, got: dict[str, Any]) -> None:
    for place, ranked in enumerate(expected.causes[:3]):
        if ranked.id != got["top"][place][0]:
            continue  # two that are equally probable
        for ours, theirs in zip((ranked.pro, ranked.con), got["reasons"][place], strict=True):
            assert [r.signal for r in ours] == [signal for signal, _ in theirs], (name, ranked.id)
            assert all(abs(r.weight - w) < 1e-6 for r, (_, w) in zip(ours, theirs, strict=True)), (name, ranked.id)


def _same_plan(name: str, expected: Diagnosis, got: dict[str, Any]) -> None:
    ours, theirs = expected.plan, got["plan"]
    assert len(ours) == len(theirs), name
    for o, (signal, gain, rate, minutes, gpu_hours, total) in zip(ours, theirs, strict=True):
        assert abs(o.rate - rate) < TOLERANCE, (name, o.signal)
        if o.signal == signal:  # else two that are equally good: the last bit of a sum decides
            assert abs(o.gain - gain) < TOLERANCE, (name, signal)
            assert (o.cost.minutes, o.cost.gpu_hours, o.cost.total) == (minutes, gpu_hours, total), (name, signal)
    best = [o.rate for o in ours[:2]]
    if len(best) < 2 or best[0] - best[1] > TOLERANCE:
        assert (expected.next.signal if expected.next else None) == got["next"], name


def _same_order(name: str, ours: list[tuple[str, float]], theirs: list[tuple[str, float]]) -> None:
    for (a, p), (b, q) in zip(ours, theirs, strict=True):
        assert abs(p - q) < TOLERANCE, (name, a, b)
        assert a == b or any(abs(p - x) < TOLERANCE for y, x in ours if y != a), (name, a, b)


@needs_node
def test_tiny_book_in_node(tiny: Book) -> None:
    compare(tiny)


@needs_node
def test_real_book_in_node(real_book: Book) -> None:
    assert compare(real_book) > 20, "hardly a moment at which a repair is better tried: the trial is not compared"


@needs_node
def test_unsure_and_weighed_evidence(tiny: Book) -> None:
    """Answers such as "probably yes", and evidence that is spread over outcomes."""
    from playbook.engine.belief import posterior
    from playbook.findings import Evidence

    evidence = [
        Evidence("loss-shape", "persistent-spike", "metrics", confidence=0.8),
        Evidence("lower-lr-removes-it", "yes", "person", confidence=0.7),
        Evidence("grad-norm-before", "climbs", "metrics", likelihood=(("climbs", 0.6), ("surges", 0.3), ("odd", 1.0))),
        Evidence("precision", "fp64", "config"),
        Evidence("no-such-signal", "yes", "person"),
    ]
    session = Session(tiny, compile_book(tiny))
    session.observe(evidence)
    got = in_node(tiny, [moment(session)])[0]
    belief = posterior(compile_book(tiny), evidence)
    assert max(abs(a - b) for a, b in zip(belief.marginal, got["marginal"], strict=True)) < TOLERANCE
    assert abs(belief.unknown - got["unknown"]) < TOLERANCE


@needs_node
def test_a_wrong_number_would_be_noticed(tiny: Book) -> None:
    """The comparison can fail: one likelihood changed by a thousandth moves the posterior beyond the tolerance."""
    states, said, _ = moments(tiny)
    document = numbers(tiny, compile_book(tiny))
    document["signals"][3]["rows"][0][1] += 1e-3  # loss-shape = persistent-spike
    engine = places.site_source() / "assets" / "engine.js"
    done = subprocess.run(
        [NODE, str(SCRIPT), str(engine)],
        input=json.dumps({"tables": document, "moments": states}),
        capture_output=True, text=True, timeout=60, check=True,
    )  # fmt: skip
    answers = json.loads(done.stdout)
    worst = max(
        abs(a - b)
        for d, g in zip(said, answers, strict=True)
        for a, b in zip(d.belief.marginal, g["marginal"], strict=True)
    )
    assert worst > TOLERANCE
