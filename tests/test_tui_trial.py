"""A repair that is better tried than asked about: offered beside the question, closed with when it mended, undone."""

from __future__ import annotations

from pathlib import Path

import pytest

from playbook.engine.tables import compile_book
from playbook.engine.trial import Trial
from playbook.errors import PlaybookError
from playbook.faces.tui.tryout import TryDialog, mended_cause
from playbook.knowledge.loader import Book
from playbook.workflow.records import kept
from playbook.workflow.session import Move, Session
from tests.tui_kit import LARGE, Memory, Terminal, run, terminal, tiny_library

FIX = "lower-peak-lr"


def telling(book: Book) -> Book:
    """The book with a fix that is also an experiment."""
    book.fixes[FIX] = book.fixes[FIX].model_copy(update={"tests": {"lower-lr-removes-it": "yes", "precision": "fp16"}})
    return book


async def open_offer(t: Terminal, monkeypatch: pytest.MonkeyPatch) -> None:
    """The run on the desk, and the engine says that a repair is better tried (unless it was tried in vain)."""
    monkeypatch.setattr(
        "playbook.engine.diagnosis.trial",
        lambda book, tables, belief, plan, size, tried: None if FIX in tried else Trial(FIX, 0.6, 20.0, 90.0, 120.0),
    )
    assert t.app.library is not None
    telling(t.app.library.book)
    t.app.open_files(("run.csv",))
    await t.until(lambda: t.app.desk is not None)
    await t.settle()


def test_what_it_did_not_mend_is_known_and_undone(monkeypatch: pytest.MonkeyPatch) -> None:
    async def walk() -> None:
        async with terminal(LARGE) as t:
            await open_offer(t, monkeypatch)
            assert "try at once" in t.text and "works with 60" in t.text
            await t.press("r")
            assert t.page == "TryDialog"
            await t.press("2")
            assert t.app.desk is not None and t.page == "DiagnosisPage"
            session = t.app.desk.session
            assert {e.signal: e.state for e in session.evidence}["lower-lr-removes-it"] == "no"
            assert session.tried == {FIX} and session.cost.minutes > 0 and "try at once" not in t.text
            again = kept.listing()[0][0]
            assert [m.kind for m in again.moves[-2:]] == ["answered", "tried"]
            await t.press("u")
            assert "lower-lr-removes-it" not in {e.signal for e in session.evidence} and not session.tried
            assert "try at once" in t.text
            await t.press("U")
            assert session.tried == {FIX} and "lower-lr-removes-it" in {e.signal for e in session.evidence}

    run(walk())


def test_what_it_mended_is_closed_with_its_cause(monkeypatch: pytest.MonkeyPatch) -> None:
    shop = Memory()

    async def walk() -> None:
        async with terminal(LARGE, shop=shop) as t:
            await open_offer(t, monkeypatch)
            await t.press("r", "1")
            await t.until(lambda: bool(shop.closed))
            assert shop.closed[0][1] == "lr-peak" and shop.closed[0][3] == [f"{FIX}=cured"]

    run(walk())


def test_without_an_offer_it_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("playbook.engine.diagnosis.trial", lambda *_: None)

    async def walk() -> None:
        async with terminal(LARGE) as t:
            t.app.open_files(("run.csv",))
            await t.until(lambda: t.app.desk is not None)
            await t.press("r")
            assert t.page == "DiagnosisPage" and any("worth trying" in n.message for n in t.app._notifications)

    run(walk())


def test_what_was_seen_is_not_unseen_by_a_failure() -> None:
    book = telling(tiny_library().book)
    session = Session(book, compile_book(book))
    session.answer("loss-shape", "persistent-spike")
    session.answer("lower-lr-removes-it", "yes")
    before = session.evidence
    session.did_not_help(FIX)
    assert session.evidence == before and session.tried == {FIX}
    session.undo()
    assert session.evidence == before and not session.tried
    session.undo()
    assert {e.signal for e in session.evidence} == {"loss-shape"}
    session.redo()
    session.redo()
    assert session.evidence == before and session.tried == {FIX}


def test_an_unknown_fix_is_refused(tiny: Book) -> None:
    with pytest.raises(PlaybookError, match="is no fix"):
        Session(tiny, compile_book(tiny)).did_not_help("pray")


def test_a_trial_in_vain_goes_through_the_record(tmp_path: Path) -> None:
    from playbook.workflow.records.record import record
    from playbook.workflow.records.resume import moves_of_record, take_up

    book = telling(tiny_library().book)
    session = Session(book, compile_book(book))
    session.answer("loss-shape", "persistent-spike")
    session.did_not_help(FIX)
    db = f"sqlite:///{tmp_path / 'x.db'}"
    incident = record(session, None, session.diagnosis(), db, "x")
    moves = moves_of_record(take_up(incident, db)[0])
    assert [m.kind for m in moves] == [m.kind for m in session.moves]
    assert isinstance(moves[-1], Move) and moves[-1].signal == FIX


def test_the_cause_that_a_repair_mends_is_its_most_probable(tiny: Book) -> None:
    from playbook.faces.tui.desk import Desk

    session = Session(tiny, compile_book(tiny))
    session.answer("loss-shape", "persistent-spike")
    cause = mended_cause(Desk(session, "x"), FIX)
    assert cause in tiny.fixes[FIX].treats
    assert TryDialog.HINTS
