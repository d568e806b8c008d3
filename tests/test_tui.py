"""The guided terminal by its keys: answers, undo, what-if; files that vanish, stores that lock, killed sessions."""

from __future__ import annotations

import inspect
import json
import re
import signal
import subprocess
import sys
import threading
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from rich.cells import cell_len
from textual.binding import Binding

from playbook.errors import PlaybookError
from playbook.faces.tui import registry, settings
from playbook.faces.tui.base import Page
from playbook.faces.tui.desk import outlook
from playbook.faces.tui.diagnosis import DiagnosisPage
from playbook.faces.tui.panes import CausesPane, EvidencePane
from playbook.faces.tui.question import QuestionPane
from playbook.faces.tui.widgets import Hints, Rows
from playbook.faces.words import Words
from playbook.findings import Evidence
from playbook.workflow.records import kept
from tests.tui_kit import LARGE, SMALL, Memory, Terminal, run, small_found, terminal, tiny_library


async def open_run(t: Terminal) -> None:
    t.app.open_files(("run.csv",))
    await t.until(lambda: t.app.desk is not None)
    await t.settle()


def known(t: Terminal) -> dict[str, str]:
    assert t.app.desk is not None
    return {e.signal: e.state for e in t.app.desk.session.evidence}


# answers


def test_a_digit_answers_and_undo_and_redo_go_back_and_forth() -> None:
    async def walk() -> None:
        async with terminal() as t:
            await open_run(t)
            desk = t.app.desk
            assert desk is not None and desk.question is not None
            asked = desk.question.id
            before = desk.now()
            await t.press("1")
            assert known(t)[asked] == next(iter(desk.session.book.signals[asked].outcomes))
            after = desk.now()
            assert after != before
            await t.press("u")
            assert asked not in known(t) and desk.now() == before
            await t.press("U")
            assert desk.now() == after
            await t.press("u", "u", "u", "u")
            assert len(known(t)) == 3, "what was observed stays"
            await t.press("ctrl+r", "ctrl+r")
            assert desk.now() == after

    run(walk())


def test_arrows_vim_keys_enter_and_the_mouse_answer_too() -> None:
    async def walk(*keys: str, click: bool = False) -> int:
        """Which outcome it gives, counted from 1."""
        async with terminal() as t:
            await open_run(t)
            asked = t.asked
            if click:
                await t.pilot.click("#outcomes", offset=(20, 1))
                await t.settle()
            else:
                await t.press(*keys)
            return list(asked.outcomes).index(known(t)[asked.id]) + 1

    assert run(walk("down", "enter")) == run(walk("j", "enter")) == run(walk("2")) == 2
    assert run(walk(click=True)) == 2
    assert run(walk("G", "k", "k", "g", "enter")) == 1


def test_unsure_and_missing_answers() -> None:
    async def walk() -> None:
        async with terminal() as t:
            await open_run(t)
            desk = t.app.desk
            assert desk is not None and desk.question is not None
            first = desk.question.id
            await t.press("p", "1")
            assert next(e for e in desk.session.evidence if e.signal == first).confidence == pytest.approx(0.7)
            await t.press("u", "d")
            assert first in desk.session.closed and desk.question is not None and desk.question.id != first
            second = desk.question.id
            await t.press("c")
            assert {first, second} <= desk.session.closed

    run(walk())


def test_retract_and_change_evidence() -> None:
    async def walk() -> None:
        async with terminal() as t:
            await open_run(t)
            pane = t.app.screen.query_one(EvidencePane)
            await t.press("E")
            assert pane.has_focus and pane.current == "loss-shape"
            await t.press("j", "x")
            assert "grad-norm-before" not in known(t)
            await t.press("u")
            assert known(t)["grad-norm-before"] == "climbs"
            await t.press("E", "G", "enter")
            assert t.page == "EvidenceDialog"
            await t.press("2")
            assert known(t)["precision"] == "fp16" and t.page == "DiagnosisPage"

    run(walk())


def test_what_if_keeps_nothing_unless_told() -> None:
    async def walk() -> None:
        async with terminal() as t:
            await open_run(t)
            desk = t.app.desk
            assert desk is not None
            before, moves, asked = desk.now(), list(desk.session.moves), t.asked
            await t.press("i", "down")
            assert t.page == "WhatIf" and "→" in t.text
            await t.press("up", "down", "q")
            assert desk.now() == before and desk.session.moves == moves
            await t.press("i", "down", "K")
            assert t.page == "DiagnosisPage" and len(desk.session.moves) == len(moves) + 1
            assert known(t)[asked.id] == list(asked.outcomes)[1]

    run(walk())


def test_first_aid_stands_until_it_is_ticked() -> None:
    async def walk() -> None:
        async with terminal(SMALL) as t:
            await open_run(t)
            assert "FIRST AID" in t.text and "Stop and keep the scene" in t.text
            await t.press("A")
            assert t.page == "Browse" and "Copy logs and checkpoint" in t.text
            await t.press("q", "a")
            assert "FIRST AID" not in t.text
            assert t.app.desk is not None and t.app.desk.aid_done == ("stop-and-keep",)

    run(walk())


def test_another_question_may_be_picked() -> None:
    async def walk() -> None:
        async with terminal() as t:
            await open_run(t)
            desk = t.app.desk
            assert desk is not None
            first, second = (option.signal for option in desk.diagnosis.plan[:2])
            assert t.asked.id == first and desk.asked is None
            await t.press("n", "down", "enter")
            assert t.asked.id == second == desk.asked
            signal, state = await t.answer(2)
            assert signal == second and known(t)[second] == state and desk.asked is None

    run(walk())


def test_a_question_may_be_found_by_words() -> None:
    async def walk() -> None:
        async with terminal() as t:
            await open_run(t)
            await t.press("n", "tab", *"crash", "enter", "enter")
            assert t.app.desk is not None and t.app.desk.asked == "crash-tail"
            assert "What about crash-tail?" in t.text

    run(walk())


def test_outcomes_tell_where_they_lead() -> None:
    async def walk() -> None:
        async with terminal() as t:
            await open_run(t)
            assert "→ " not in t.text
            await t.turn_to("lower-lr-removes-it")
            await t.press("w")
            assert t.app.desk is not None
            session = t.app.desk.session
            told = outlook(session, t.asked.id)
            assert list(told) == list(t.asked.outcomes)
            for state, (title, share) in told.items():
                first = session.what_if(t.asked.id, state).diagnosis().causes[0]
                assert (title, share) == (first.title, pytest.approx(first.probability))
                assert f"→ {share:.0%} {title}"[:36] in t.text
            assert told["yes"][1] > 0.9
            assert t.app.settings.why

    run(walk())


def test_bars_move_and_say_how_far() -> None:
    async def walk() -> None:
        async with terminal() as t:
            await open_run(t)
            await t.turn_to("lower-lr-removes-it")
            assert "▲" not in t.text, "the first judgement is no movement"
            t.app.animation_level = "full"
            await t.answer(2)
            await t.until(lambda: t.app.screen.query_one(CausesPane).moved == 1.0)
            assert "▲" in t.text and "▼" in t.text

    run(walk())


def test_evidence_from_a_log_names_file_and_line() -> None:
    found = small_found()
    from playbook.series import Origin

    item = Evidence("crash-tail", "oom", "log", "CUDA out of memory", 210, 3, 0.9, Origin("/x/train.log", 77, "text"))
    found = replace(found, evidence=(*found.evidence, item))

    async def walk() -> None:
        async with terminal(ingest=lambda paths, book, progress=None: found) as t:
            await open_run(t)
            t.app.screen.query_one(EvidencePane).highlighted = 0
            assert "rank 3" in t.text
            await t.press("E", "down", "enter")
            assert "train.log:77" in t.text and "CUDA out of memory" in t.text

    run(walk())


# files


def test_a_bad_file_is_one_line_and_the_terminal_goes_on() -> None:
    def broken(paths: Any, book: Any, progress: Any = None) -> Any:
        raise PlaybookError("run.csv", "row 12 has 3 cells", "mend the row", 12)

    async def walk() -> None:
        async with terminal(ingest=broken) as t:
            t.app.open_files(("run.csv",))
            await t.until(lambda: t.page == "Problem")
            assert "run.csv:12" in t.text and "mend the row" in t.text and "Traceback" not in t.text
            await t.press("escape")
            assert t.page == "Welcome" and t.app.desk is None

    run(walk())


@pytest.mark.parametrize("error", [RuntimeError("boom"), MemoryError(), RecursionError("deep"), ValueError("")])
def test_a_fault_of_ours_is_one_line_too(error: BaseException) -> None:
    def broken(paths: Any, book: Any, progress: Any = None) -> Any:
        raise error

    async def walk() -> None:
        async with terminal(ingest=broken) as t:
            t.app.open_files(("run.csv",))
            await t.until(lambda: t.page == "Problem")
            await t.press("enter")
            assert t.page == "Welcome"

    run(walk())


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    from playbook.workflow.ingest import ingest

    async def walk() -> None:
        async with terminal(ingest=ingest) as t:
            await t.press("o", *"nowhere.csv", "enter")
            await t.until(lambda: t.page == "Problem")
            assert "nowhere.csv" in t.text

    run(walk())


def test_reading_leaves_the_screen_free_and_can_be_given_up() -> None:
    go = threading.Event()

    def slow(paths: Any, book: Any, progress: Any = None) -> Any:
        progress("part-1.csv")
        go.wait(10)
        return small_found()

    async def walk() -> None:
        async with terminal(ingest=slow) as t:
            t.app.open_files(("run.csv",))
            await t.until(lambda: "part-1.csv" in t.text)
            begin = time.perf_counter()
            await t.pilot.press("escape")
            await t.pilot.pause()
            assert time.perf_counter() - begin < 5 and t.page == "Welcome"
            await t.pilot.press("3")
            await t.until(lambda: t.page == "DiagnosisPage")
            go.set()
            await t.settle()
            assert t.app.desk is not None and t.app.desk.found is None, "what came late is thrown away"

    run(walk())


def test_more_files_of_the_same_run_keep_the_answers() -> None:
    asked: list[tuple[str, ...]] = []

    def ingest(paths: Any, book: Any, progress: Any = None) -> Any:
        asked.append(tuple(Path(p).name for p in paths))
        return small_found()

    async def walk() -> None:
        async with terminal(ingest=ingest) as t:
            await open_run(t)
            signal, state = await t.answer()
            await t.press("o", *"run.log", "enter")
            await t.until(lambda: len(asked) == 2)
            await t.settle()
            assert asked[1] == ("run.csv", "run.log")
            assert known(t)[signal] == state
            assert t.app.desk is not None and len(t.app.desk.session.moves) == 4

    run(walk())


def test_the_file_list_opens_folders_and_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "runs").mkdir()
    (tmp_path / "runs" / "a.csv").write_text("step,loss\n1,2\n")
    (tmp_path / "notes.docx").write_text("x")
    monkeypatch.chdir(tmp_path)

    async def walk() -> None:
        async with terminal() as t:
            assert "notes.docx" not in t.text
            await t.press("full_stop")
            assert "notes.docx" in t.text
            await t.press("full_stop", "F")
            rows = t.app.screen.query_one("#files", Rows)
            ids = [rows.get_option_at_index(k).id for k in range(rows.option_count)]
            rows.highlighted = ids.index(str(tmp_path / "runs"))
            await t.press("enter")
            assert "a.csv" in t.text
            await t.press("j", "j", "enter")
            await t.until(lambda: t.app.desk is not None)
            assert t.app.desk is not None and t.app.desk.paths == (str(tmp_path / "runs" / "a.csv"),)

    run(walk())


# the session on disk


def test_a_session_is_kept_after_every_answer_and_offered_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def first() -> tuple[str, dict[str, str], dict[str, float]]:
        async with terminal() as t:
            await open_run(t)
            signal, _ = await t.answer()
            await t.press("a")
            assert t.app.desk is not None
            return signal, known(t), t.app.desk.now()

    async def second(signal: str) -> tuple[dict[str, str], dict[str, float]]:
        async with terminal() as t:
            assert "◐ run.csv" in t.text and "1 answered" in t.text
            Path("run.csv").write_text("step,loss\n")
            await t.press("r", "enter")
            await t.until(lambda: t.app.desk is not None and t.app.desk.found is not None)
            assert t.app.desk is not None and t.app.desk.aid_done == ("stop-and-keep",)
            assert signal in known(t)
            await t.press("u")
            assert signal not in known(t), "undo goes on where it was"
            await t.press("U")
            return known(t), t.app.desk.now()

    monkeypatch.chdir(tmp_path)
    signal, *before = run(first())
    assert before == list(run(second(signal)))
    assert len(kept.listing()[0]) == 1, "going on writes the same file"


def test_a_kept_session_whose_file_is_gone_goes_on_without_the_curve() -> None:
    async def first() -> None:
        async with terminal() as t:
            await open_run(t)

    async def second() -> None:
        async with terminal() as t:
            await t.press("r", "enter")
            await t.until(lambda: t.app.desk is not None)
            await t.settle()
            assert "run.csv is gone" in t.text and known(t)["loss-shape"] == "persistent-spike"
            signal, state = await t.answer()
            assert known(t)[signal] == state

    run(first())
    run(second())


def test_a_damaged_kept_file_hurts_nobody() -> None:
    place = kept.folder()
    place.mkdir(parents=True)
    good = kept.Kept("good", "2026-01-01T00:00:00Z", "A title")
    kept.write(good)
    for name, text in {"a": "", "b": "{", "c": "[]", "d": '{"format": 1}', "e": '{"format": 99}',
                       "f": '{"format":1,"saved_at":"x","title":"t","paths":[],"moves":[{"kind":"boom","signal":"s"}]}',
                       "g": "[" * 100_000}.items():  # fmt: skip
        (place / f"{name}.json").write_text(text)

    async def walk() -> None:
        async with terminal() as t:
            assert "A title" in t.text

    run(walk())
    sessions, faults = kept.listing()
    assert [s.name for s in sessions] == ["good"] and len(faults) == 7
    assert all(str(f).count("\n") == 0 for f in faults)


def test_keeping_is_exact(tiny: Any) -> None:
    library = tiny_library()
    from playbook.workflow.session import Session

    session = Session(library.book, library.tables)
    session.observe(small_found().evidence)
    session.answer("tied-to-samples", "no?")
    session.answer("lower-lr-removes-it", "unknown")
    session.retract("precision")
    session.answer("crash-tail", "oom")
    session.undo()
    row = kept.Kept("x", "2026-01-01T00:00:00Z", "t\udcff", ("/a b/*.csv",), "id-1", ("f",), "precision",
                    tuple(session.moves), tuple(session.undone), session.size, 1)  # fmt: skip
    path = kept.write(row)
    assert kept.read(path) == row
    again = kept.restore(row, Session(library.book, library.tables))
    assert again.diagnosis().belief.by_class.tolist() == session.diagnosis().belief.by_class.tolist()
    assert not list(path.parent.glob(".*")), "nothing half written is left"


def test_an_unwritable_disk_is_told_once_and_stops_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(row: Any, root: Any = None) -> Path:
        raise PlaybookError("/full", "cannot be written: No space left on device", "set PLAYBOOK_HOME")

    monkeypatch.setattr(kept, "write", refuse)

    async def walk() -> None:
        async with terminal() as t:
            await open_run(t)
            assert "No space left" in t.app.kept_error
            signal, state = await t.answer()
            assert known(t)[signal] == state

    run(walk())


def test_a_killed_process_loses_no_answer(tmp_path: Path) -> None:
    """SIGKILL right after a key: the next start has the answer."""
    script = """
import asyncio, os, sys
sys.path.insert(0, sys.argv[1])
from tests.tui_kit import terminal
async def main():
    async with terminal() as t:
        t.app.open_files(("run.csv",))
        await t.until(lambda: t.app.desk is not None)
        await t.settle()
        asked = t.asked
        await t.pilot.press("1")
        print("answered", asked.id, next(iter(asked.outcomes)), flush=True)
        await asyncio.sleep(60)
asyncio.run(main())
"""
    root = str(Path(__file__).parent.parent)
    with subprocess.Popen(
        [sys.executable, "-c", script, root], stdout=subprocess.PIPE, text=True, cwd=tmp_path
    ) as child:
        assert child.stdout is not None
        word, answered, state = child.stdout.readline().split()
        assert word == "answered"
        assert kept.alive(kept.listing()[0][0])
        child.send_signal(signal.SIGKILL)
    sessions, faults = kept.listing()
    assert not faults and len(sessions) == 1 and sessions[0].answers == 1
    assert not kept.alive(sessions[0])

    async def walk() -> None:
        async with terminal() as t:
            await t.press("r", "enter")
            await t.until(lambda: t.app.desk is not None)
            assert known(t)[answered] == state

    run(walk())


def test_a_kept_session_can_be_forgotten() -> None:
    async def walk() -> None:
        async with terminal() as t:
            await t.press("2", "q")
            assert "1 answered" in t.text
            await t.press("r", "x")
            assert "answered" not in t.text and not kept.listing()[0]

    run(walk())


# the store


def test_record_attach_close_and_take_up_again() -> None:
    shop = Memory()

    async def walk() -> None:
        async with terminal(shop=shop) as t:
            await open_run(t)
            await t.press("T")
            assert t.page == "DiagnosisPage", "nothing to attach to yet"
            await t.turn_to("lower-lr-removes-it")
            await t.answer(1)
            await t.press("R", *"Spike of the 7B", "enter")
            await t.until(lambda: t.app.desk is not None and t.app.desk.incident is not None)
            assert shop.rows["20260304-a"]["title"] == "Spike of the 7B"
            await t.press("d", "R", "enter")
            await t.settle()
            assert len(shop.rows) == 1, "written into the same incident"
            await t.press("T", *"/logs/x.log", "tab", *"https://t.example/1", "tab", *"seen", "enter")
            await t.settle()
            assert shop.attached == [("20260304-a", ["/logs/x.log"], ["https://t.example/1"], "seen")]
            await t.press("q")
            assert "20260304-a" in t.text
            await t.press("r", "j", "enter")
            await t.until(lambda: t.page == "DiagnosisPage")
            assert t.app.desk is not None and t.app.desk.incident == "20260304-a" and t.app.desk.run is not None
            assert known(t)["lower-lr-removes-it"] == "yes"
            await t.press("C", "enter", "down", "ctrl+s")
            await t.settle()
            assert shop.closed[0][:2] == ("20260304-a", "lr-peak") and shop.closed[0][3] == ["lower-peak-lr=cured"]
            assert all(k.incident != "20260304-a" or k.name != t.app.desk.name for k in kept.listing()[0])

    run(walk())


def test_other_causes_need_words_and_false_alarms_none() -> None:
    shop = Memory()

    async def walk() -> None:
        async with terminal(shop=shop) as t:
            await open_run(t)
            await t.press("C", "G", "k", "ctrl+s")
            assert t.page == "CloseDialog" and not shop.closed
            await t.press(*"bad cable", "ctrl+s")
            await t.settle()
            assert shop.closed[0][1] == "other" and shop.closed[0][4] == "bad cable"
            await t.press("C", "G", "ctrl+s")
            await t.settle()
            assert shop.closed[1][1] is None

    run(walk())


def test_a_locked_store_keeps_the_session_and_a_second_try_makes_one_incident() -> None:
    shop = Memory()
    shop.fault = PlaybookError("sqlite:///x.db", "is locked by another process", "try again")

    async def walk() -> None:
        async with terminal(shop=shop) as t:
            await open_run(t)
            signal, state = await t.answer()
            await t.press("R", "enter")
            await t.until(lambda: t.page == "Problem")
            assert "is locked" in t.text
            await t.press("escape")
            assert known(t)[signal] == state and kept.listing()[0][0].answers == 1
            shop.fault = None
            await t.press("R", "enter")
            await t.settle()
            assert len(shop.rows) == 1

    run(walk())


def test_no_store_at_all_is_no_reason_not_to_diagnose() -> None:
    class Broken(Memory):
        def listing(self, query: str = "", status: str | None = None, limit: int = 200) -> list[dict[str, Any]]:
            raise ImportError("no module named sqlalchemy")

    async def walk() -> None:
        async with terminal(shop=Broken()) as t:
            assert t.page == "Welcome"
            await t.press("H")
            assert t.page == "History" and "sqlalchemy" in t.text
            await t.press("q", "2")
            assert t.page == "DiagnosisPage"

    run(walk())


@pytest.mark.parametrize("closing", [False, True])
def test_the_real_store(tmp_path: Path, closing: bool) -> None:
    """Through `Shop` into SQLite and back."""
    from playbook.faces.tui.shop import Shop

    shop = Shop(f"sqlite:///{tmp_path / 'incidents.db'}")

    async def walk() -> None:
        async with terminal(shop=shop) as t:
            await open_run(t)
            await t.turn_to("lower-lr-removes-it")
            await t.answer(1)
            await t.press("a", "R", "enter")
            await t.until(lambda: t.app.desk is not None and t.app.desk.incident is not None)
            assert t.app.desk is not None
            name, before = t.app.desk.incident, known(t)
            await t.press("d", "R", "enter")
            await t.settle()
            rows = shop.listing()
            assert [r["id"] for r in rows] == [name] and rows[0]["questions"] == len(t.app.desk.session.asked)
            taken = shop.take_up(str(name))
            assert taken.aid_done == ("stop-and-keep",) and taken.found is not None
            assert taken.found.run.one("loss") is not None
            t.app.take_up(str(name))
            await t.until(lambda: t.app.desk is not None and t.app.desk.name.endswith("-2"))
            assert known(t) == before
            if closing:
                await t.press("C", "ctrl+s")
                await t.settle()
                assert shop.listing(status="closed")[0]["cause"] == "lr-peak"

    run(walk())


# the book


def test_search_finds_typos_and_words_and_walks_links() -> None:
    async def walk() -> None:
        async with terminal() as t:
            await t.press("b", *"lerning rate pek")
            rows = t.app.screen.query_one("#hits", Rows)
            ids = [rows.get_option_at_index(k).id for k in range(rows.option_count)]
            assert "causes:lr-peak" in ids[:3]
            await t.press("enter", "tab", "enter")
            first = t.app.screen.here
            await t.press("backspace")
            assert t.app.screen.here != first
            await t.press("right")
            assert t.app.screen.here == first
            await t.press("slash", "escape", "q")
            assert t.page == "Welcome"

    run(walk())


def test_a_broken_book_says_so_and_nothing_crashes() -> None:
    def broken() -> Any:
        raise PlaybookError("knowledge/causes/x.yaml", "class: no such class", "see the taxonomy", 3)

    async def walk() -> None:
        async with terminal(open_book=broken) as t:
            assert t.page == "Problem" and "x.yaml:3" in t.text
            await t.press("escape", "b", "1", "enter", "W", "H")
            assert t.app.desk is None

    run(walk())


# manners


def test_every_page_has_at_most_six_hints_and_their_actions_exist() -> None:
    async def walk() -> None:
        async with terminal() as t:
            await open_run(t)
            for entry in registry.SCREENS:
                if entry.name in ("welcome", "diagnosis"):
                    continue
                t.app.push_screen(registry.make(entry.name))
                await t.settle()
                assert t.page == entry.attribute
                hints = list(t.app.screen.query(Hints))
                assert hints and all(len(h.hints) <= 6 for h in hints), entry.name
                for _, _, action in hints[0].hints:
                    name = action.partition("(")[0]
                    if name and not name.startswith("app."):
                        assert hasattr(t.app.screen, f"action_{name}"), f"{entry.name}: {action}"
                t.app.pop_screen()
                await t.settle()

    run(walk())


def test_the_table_of_screens_is_the_folder() -> None:
    folder = Path(inspect.getfile(registry)).parent
    for entry in registry.SCREENS:
        assert (folder / f"{entry.module.rpartition('.')[2]}.py").is_file()
    others = [p for p in folder.glob("*.py") if p.stem != "base"]  # where the kinds of pages are
    page = re.compile(r"\((?:List)?Page\)|class Plan\(")
    pages = [p.stem for p in others if page.search(p.read_text())]
    assert {e.name for e in registry.SCREENS} >= set(pages)
    keys = [e.key for e in registry.SCREENS if e.key]
    assert len(keys) == len(set(keys))


def test_no_page_binds_a_key_twice() -> None:
    for entry in registry.SCREENS:
        made = registry.make(entry.name)
        keys = [
            key.strip() for b in type(made).BINDINGS for key in (b.key if isinstance(b, Binding) else b[0]).split(",")
        ]
        assert len(keys) == len(set(keys)), entry.name


def test_help_names_the_keys_of_the_page() -> None:
    async def walk() -> None:
        async with terminal(LARGE) as t:
            await open_run(t)
            await t.press("question_mark")
            text = t.text
            for word in ("Undo", "Redo", "Don't know", "Zoom in", "Record the incident"):
                assert word in text
            await t.press("question_mark")
            assert t.page == "DiagnosisPage"

    run(walk())


def test_q_leaves_and_ctrl_c_quits() -> None:
    async def walk() -> None:
        async with terminal() as t:
            await t.press("2", "e", "q")
            assert t.page == "DiagnosisPage"
            await t.press("q")
            assert t.page == "Welcome"
            await t.press("ctrl+c")
            assert not t.app.is_running

    run(walk())


def test_the_palette_lists_actions_symptoms_incidents_and_the_book() -> None:
    from playbook.faces.tui.palette import BookProvider

    shop = Memory()

    async def walk() -> None:
        async with terminal(shop=shop) as t:
            await open_run(t)
            await t.press("R", "enter")
            await t.settle()
            provider = BookProvider(t.app.screen)
            listed = [hit.display async for hit in provider.discover()]
            for wanted in (
                "Undo",
                "Search the book",
                "Start from: Tiny instant-nan",
                "20260304-a Tiny persistent-spike",
            ):
                assert wanted in listed
            found = [str(hit.text or hit.match_display) async for hit in provider.search("fp16")]
            assert any("fp16" in text for text in found)
            await t.press("ctrl+p", *"what if")
            await t.pilot.pause(0.4)
            await t.press("down", "enter")
            await t.until(lambda: t.page == "WhatIf")

    run(walk())


def test_theme_and_greeting_are_remembered() -> None:
    async def first() -> None:
        async with terminal() as t:
            assert "Find the cause of a failed training run" in t.text
            t.app.theme = "playbook-light"
            await t.press("2")

    async def second() -> None:
        async with terminal() as t:
            assert t.app.theme == "playbook-light" and "Find the cause of a failed" not in t.text

    run(first())
    run(second())


@pytest.mark.parametrize("text", ["", "[]", '{"theme": 3, "why": "x", "recent": 5}', '{"theme": "no-such-theme"}'])
def test_damaged_settings_are_the_defaults(text: str) -> None:
    settings.path().parent.mkdir(parents=True, exist_ok=True)
    settings.path().write_text(text)

    async def walk() -> None:
        async with terminal() as t:
            assert t.app.theme == settings.DEFAULT_THEME

    run(walk())


@pytest.mark.parametrize("theme", ["playbook-light", "ansi-dark", "ansi-light", "textual-light", "nord"])
def test_themes_draw_every_page(theme: str) -> None:
    async def walk() -> None:
        async with terminal(SMALL, theme=theme) as t:
            await open_run(t)
            assert t.app.theme == theme
            await t.press("e", "q", "f", "q", "b")
            assert "Entries" in t.text

    run(walk())


def test_no_color_is_honoured(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")

    async def walk() -> None:
        async with terminal() as t:
            await open_run(t)
            strips = t.app.screen._compositor.render_strips()
            from textual.filter import Monochrome

            assert t.app.no_color and any(isinstance(f, Monochrome) for f in t.app._filters)
            assert strips

    run(walk())


class Wide(Words):
    """Words of a language whose letters take two columns each."""

    def __init__(self) -> None:
        super().__init__("zh")

    def __call__(self, text: str, **values: object) -> str:
        found = text.format(**values) if values else text
        return "".join("汉" if c.isalpha() else c for c in found)


@pytest.mark.parametrize("size", [SMALL, LARGE])
def test_chinese_fits_the_columns(size: tuple[int, int], monkeypatch: pytest.MonkeyPatch) -> None:
    async def walk() -> None:
        async with terminal(size) as t:
            t.app.w = Wide()
            library = t.app.library
            assert library is not None
            for kind in ("signals", "causes", "symptoms", "fixes"):
                entries = library.book.entries[kind]
                for name, entry in list(entries.items()):
                    entries[name] = entry.model_copy(update={"title": "学习率峰值过高梯度范数先爬升然后损失跳变" * 2})
            await open_run(t)
            steps = ("", "1", "u w", "e", "q i", "q n", "escape f", "q R", "escape C", "escape question_mark",
                     "escape b", "q E enter")  # fmt: skip
            for keys in steps:
                await t.press(*keys.split())
                for line in t.text.splitlines():
                    assert cell_len(line) <= size[0], line
            assert "汉" in t.text

    run(walk())


def test_sizes_in_between_draw(tmp_path: Path) -> None:
    async def walk() -> None:
        async with terminal((80, 24)) as t:
            await open_run(t)
            for width, height in ((81, 25), (109, 31), (110, 32), (200, 60), (300, 24), (80, 100)):
                await t.pilot.resize_terminal(width, height)
                await t.settle()
                assert "Evidence" in t.text and "Causes" in t.text and t.asked.title in t.text
                assert max(map(cell_len, t.text.splitlines())) <= width

    run(walk())


def test_a_session_survives_a_change_of_the_book() -> None:
    """Evidence on a signal that the book no longer has stays, and weighs nothing."""
    row = kept.Kept("old", "2026-01-01T00:00:00Z", "Old", moves=(
        kept.Move("answered", "gone-signal", Evidence("gone-signal", "yes", "person")),
        kept.Move("answered", "loss-shape", Evidence("loss-shape", "instant-nan", "person")),
    ), asked="gone-too")  # fmt: skip
    kept.write(row)

    async def walk() -> None:
        async with terminal() as t:
            await t.press("r", "enter")
            await t.until(lambda: t.app.desk is not None)
            await t.settle()
            assert "gone-signal" in t.text and t.page == "DiagnosisPage"
            assert t.app.desk is not None and t.app.desk.question is not None
            await t.press("e")
            assert "gone-signal = yes" in t.text

    run(walk())


def test_pages_are_small_files() -> None:
    folder = Path(inspect.getfile(Page)).parent
    for path in folder.glob("*.py"):
        assert len(path.read_text("utf-8").splitlines()) <= 400, path.name
    assert issubclass(DiagnosisPage, Page) and QuestionPane.can_focus is False


def test_kept_files_hold_no_more_than_they_must() -> None:
    async def walk() -> None:
        async with terminal() as t:
            await open_run(t)

    run(walk())
    data = json.loads(next(kept.folder().glob("*.json")).read_text())
    assert set(data) == {"format", "saved_at", "title", "paths", "incident", "aid_done", "asked", "process", "size",
                         "moves", "undone"}  # fmt: skip
    assert len(json.dumps(data)) < 4000


def test_the_height_of_the_curve_is_remembered() -> None:
    from playbook.faces.tui.curve import CurveView

    async def first() -> int:
        async with terminal() as t:
            await open_run(t)
            before = t.app.screen.query_one(CurveView).outer_size.height
            await t.press("greater_than_sign", "greater_than_sign", "less_than_sign")
            after = t.app.screen.query_one(CurveView).outer_size.height
            assert after == before + 2
            for _ in range(30):
                await t.pilot.press("greater_than_sign")
            await t.settle()
            assert t.app.screen.query_one(CurveView).outer_size.height == 20, "at most half of the screen"
            for _ in range(30):
                await t.pilot.press("less_than_sign")
            await t.settle()
            return t.app.screen.query_one(CurveView).outer_size.height

    async def second() -> int:
        async with terminal() as t:
            await open_run(t)
            return t.app.screen.query_one(CurveView).outer_size.height

    assert run(first()) == run(second()) == 5


def test_files_opened_last_are_offered(tmp_path: Path) -> None:
    async def first() -> None:
        async with terminal() as t:
            t.app.open_files((str(tmp_path / "far-away.csv"),))
            await t.until(lambda: t.app.desk is not None)
            t.app.forget(t.app.desk.name if t.app.desk else "")

    async def second() -> None:
        async with terminal() as t:
            assert "↻ far-away.csv" in t.text
            await t.press("r", "enter")
            await t.until(lambda: t.app.desk is not None)
            assert t.app.desk is not None and t.app.desk.paths == (str(tmp_path / "far-away.csv"),)

    run(first())
    run(second())


def test_every_text_has_chinese_words() -> None:
    from playbook import places
    from playbook.knowledge.loader import parse_yaml
    from tests.tui_words import texts

    path = places.knowledge() / "languages" / "zh" / "ui.yaml"
    have = parse_yaml(path.read_text("utf-8"), str(path))
    assert sorted(text for text in texts() if text not in have) == []
    import string

    for english in texts():
        fields = {name for _, name, _, _ in string.Formatter().parse(english) if name}
        assert {name for _, name, _, _ in string.Formatter().parse(have[english]) if name} == fields, english


def test_a_log_added_to_an_incident_from_the_store_takes_nothing_away() -> None:
    from playbook.series import Run
    from playbook.workflow.ingest import Ingested

    log = Ingested(Run(), (), (Evidence("crash-tail", "oom", "log", "CUDA out of memory"),))
    shop = Memory()

    async def walk() -> None:
        found = [small_found(), log]
        async with terminal(shop=shop, ingest=lambda paths, book, progress=None: found.pop(0)) as t:
            await open_run(t)
            await t.press("R", "enter")
            await t.settle()
            t.app.take_up("20260304-a")
            await t.until(lambda: t.app.desk is not None and t.app.desk.name.endswith("-2"))
            assert t.app.desk is not None and t.app.desk.paths == ()
            await t.press("o", *"kern.log", "enter")
            await t.until(lambda: not found)
            await t.settle()
            assert set(known(t)) == {"crash-tail", "grad-norm-before", "loss-shape", "precision"}
            assert t.app.desk.run is not None and t.app.desk.run.one("loss") is not None

    run(walk())
