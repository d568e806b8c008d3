"""Replay of recorded incidents and case studies: what changed is told, what did not is not; verdicts are accepted."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from playbook.errors import PlaybookError
from playbook.faces.cli import run as command
from playbook.knowledge.loader import Book, load
from playbook.workflow.book import Library
from playbook.workflow.ingest import look
from playbook.workflow.records.record import record as recorded
from playbook.workflow.records.record import verdict_of
from playbook.workflow.records.replay import (
    VERDICTS,
    accept,
    gone,
    read_verdicts,
    replay,
    replay_incident,
    sentence_of,
    session_of,
    write_verdicts,
)
from playbook.workflow.records.shelf import shelf
from tests.incidents_kit import kept, session_on, shape, spiked

TINY = Path(__file__).parent / "tiny_knowledge"


@pytest.fixture
def own(tmp_path: Path) -> Path:
    """A copy of the tiny book that a test may change."""
    return Path(shutil.copytree(TINY, tmp_path / "book"))


def changed_book(own: Path) -> Book:
    """The learning rate no longer explains a climbing norm or a cure by a lower rate; bad samples do."""
    for cause, links in (
        ("optimization/lr-peak", "{yes: almost_never, no: almost_always, because: [tiny-1]}"),
        ("data/bad-samples", "{yes: almost_always, because: [tiny-1]}"),
    ):
        path = own / "causes" / f"{cause}.yaml"
        text = path.read_text()
        lines = [x for x in text.splitlines() if "lower-lr-removes-it" not in x]
        at = next(k for k, x in enumerate(lines) if x.startswith("expects:"))
        lines.insert(at + 1, f"  lower-lr-removes-it: {links}")
        path.write_text("\n".join(lines) + "\n")
    book = load([own])
    assert not book.problems, [str(p) for p in book.problems]
    return book


@pytest.fixture
def answered(tiny: Book) -> str:
    """An incident from answers alone."""
    session = session_on(tiny)
    session.observe([shape()])
    session.answer("lower-lr-removes-it", "yes")
    session.answer("precision", "bf16?")
    session.answer("tied-to-samples", "unknown")
    return recorded(session, None, session.diagnosis())


def test_an_unchanged_book_says_the_same(answered: str, tiny: Book) -> None:
    found = replay_incident(kept(answered), Library(tiny), None)
    assert found.now == found.before and not found.changed and found.now is not None and found.now.cause == "lr-peak"


def test_the_session_of_a_record_is_the_one_that_was_recorded(tiny: Book) -> None:
    found = look(spiked(600, 480), tiny)
    session = session_on(tiny, found)
    session.answer("lower-lr-removes-it", "no")
    session.answer("tied-to-samples", "yes?")
    session.answer("tied-to-samples", "yes")
    session.retract("precision")
    again = session_of(kept(recorded(session, found, session.diagnosis())), Library(tiny))
    assert again.size == session.size
    assert [(m.kind, m.signal) for m in again.moves] == [(m.kind, m.signal) for m in session.moves]
    one, other = ([(e.signal, e.state, e.confidence) for e in s.evidence] for s in (again, session))
    assert one == other
    assert again.closed == session.closed and again.cost == session.cost
    assert verdict_of(again, again.diagnosis()) == verdict_of(session, session.diagnosis())


def test_a_change_of_the_knowledge_is_told(answered: str, own: Path) -> None:
    found = replay_incident(kept(answered), Library(changed_book(own)), None)
    assert found.changed and found.before is not None and found.now is not None
    assert (found.before.cause, found.now.cause) == ("lr-peak", "bad-samples")


def test_the_detectors_look_again_at_the_scene(tiny: Book, monkeypatch: pytest.MonkeyPatch) -> None:
    found = look(spiked(600, 480), tiny)
    session = session_on(tiny, found)
    name = recorded(session, found, session.diagnosis())
    with shelf() as store:
        assert not replay_incident(store.get(name), Library(tiny), store).changed
        monkeypatch.setattr("playbook.workflow.ingest.detectors.scan", lambda run: [])
        blind = replay_incident(store.get(name), Library(tiny), store)
    assert blind.changed and blind.now is not None and blind.now.verdict == "undecided"


def test_a_signal_that_the_book_lost_stops_nothing(answered: str, own: Path) -> None:
    (own / "signals" / "tied-to-samples.yaml").unlink()
    (own / "signals" / "lower-lr-removes-it.yaml").unlink()
    book = load([own])
    assert sentence_of(session_of(kept(answered), Library(book))).symptom == "persistent-spike"


def test_accepted_verdicts_are_what_is_expected_from_then_on(answered: str, own: Path) -> None:
    library = Library(changed_book(own))
    with shelf() as store:
        results = replay(library, store)
        assert [r.id for r in results if r.changed] == [answered]
        assert {r.id for r in results if r.kind == "case"} == set(library.book.cases)
        assert accept(results, library, store) == [own / VERDICTS]
        again = replay(library, store)
    assert not any(r.changed for r in again) and all(r.before is not None for r in again)
    assert kept(answered).verdict.causes[0].id == "lr-peak"  # what was said then stays on record
    accepted = kept(answered).accepted
    assert accepted is not None and accepted.cause == "bad-samples"


def test_a_case_study_that_is_judged_otherwise_is_told(own: Path, capsys: pytest.CaptureFixture[str]) -> None:
    library = Library(load([own]))
    write_verdicts({r.id: r.now for r in replay(library, None) if r.now is not None}, library.book)
    before = (own / VERDICTS).read_text()
    write_verdicts({r.id: r.now for r in replay(library, None) if r.now is not None}, library.book)
    assert (own / VERDICTS).read_text() == before  # the same bytes again
    (own / VERDICTS).write_text(before.replace("cause: lr-peak", "cause: bad-samples"))
    results = replay(library, None)
    assert [r.id for r in results if r.changed] == ["tiny-lr"]


def test_a_case_that_is_gone_is_told_until_it_is_accepted(own: Path) -> None:
    library = Library(load([own]))
    results = replay(library, None)
    accept(results, library, None)
    (own / "cases" / "tiny-lr.yaml").unlink()
    smaller = Library(load([own]))
    assert gone(smaller.book) == ["tiny-lr"]
    accept(replay(smaller, None), smaller, None)
    assert gone(smaller.book) == [] and set(read_verdicts(smaller.book)) == {"tiny-data"}


@pytest.mark.parametrize(
    "text",
    ["- a list\n", "tiny-lr: {verdict: odd}\n", "tiny-lr: [1]\n", "tiny-lr: {surprise: 1, verdict: incident}\n"],
)
def test_a_damaged_file_of_verdicts_is_one_line(own: Path, text: str) -> None:
    (own / VERDICTS).write_text(text)
    with pytest.raises(PlaybookError, match="verdict"):
        read_verdicts(load([own]))


def test_names_are_replayed_in_any_mixture(answered: str, tiny: Book) -> None:
    with shelf() as store:
        results = replay(Library(tiny), store, [answered[:12], "tiny-lr"])
        assert [(r.id, r.kind) for r in results] == [(answered, "incident"), ("tiny-lr", "case")]
        with pytest.raises(PlaybookError, match="no such incident"):
            replay(Library(tiny), store, ["nosuch"])
    with pytest.raises(PlaybookError, match="no store of incidents"):
        replay(Library(tiny), None, ["nosuch"])


# The command.


@pytest.fixture
def only_tiny(own: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The command with the tiny book as the built-in one."""
    monkeypatch.setattr("playbook.places.knowledge", lambda: own)
    return own


def test_the_command_exits_1_on_a_change_and_accepts(
    answered: str, only_tiny: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert command(["replay"]) == 0
    assert "have no accepted verdict yet" in capsys.readouterr().out
    assert command(["replay", "--accept", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["written"] == [str(only_tiny / VERDICTS)]
    assert command(["replay", "--all"]) == 0
    assert "0 verdicts changed" in capsys.readouterr().out
    changed_book(only_tiny)
    assert command(["replay"]) == 1
    told = capsys.readouterr().out
    assert f"incident {answered}" in told and "lr-peak (" in told and "now:" in told
    assert command(["replay", "--json"]) == 1
    document = json.loads(capsys.readouterr().out)
    assert answered in [c["id"] for c in document["changed"]] and document["replayed"] == 3
    assert command(["replay", "--accept"]) == 0
    assert command(["replay"]) == 0


@pytest.mark.parametrize(
    ("arguments", "what"),
    [
        (("nosuch",), "no case study"),
        (("--all", "tiny-lr"), "cannot go with IDs"),
        (("{tmp}",), "no regression artifact"),
    ],
)
def test_bad_usage_is_one_line_and_exit_2(
    arguments: tuple[str, ...], what: str, only_tiny: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert command(["replay", *(a.replace("{tmp}", str(tmp_path)) for a in arguments)]) == 2
    told = capsys.readouterr().err
    assert what in told and told.count("\n") == 1


def test_verdicts_that_cannot_be_written_are_told(
    only_tiny: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "write_text", refuse)
    assert command(["replay", "--accept"]) == 2
    assert "cannot be written: Permission denied" in capsys.readouterr().err
