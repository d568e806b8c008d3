"""Quiz, interview and drill on the screen, and what looked like this before: by keys, against the same use cases."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from playbook.errors import PlaybookError
from playbook.faces.tui.cards import Cards
from playbook.faces.tui.play import Play
from playbook.faces.tui.similar import SimilarPane
from playbook.workflow.book import Library, open_book
from playbook.workflow.learning import drill as drills
from playbook.workflow.learning import interview
from playbook.workflow.learning.drill_score import score
from playbook.workflow.learning.progress import Progress
from playbook.workflow.learning.quiz import Deck
from playbook.workflow.learning.quiz_cards import Card, Ground
from playbook.workflow.records.record import record
from tests.tui_kit import LARGE, SMALL, Memory, Terminal, run, small_found, terminal, tiny_library


def first(deck: Deck, form: str) -> Card:
    """The first card of a form."""
    return next(c for s in deck.specs.values() if (c := deck.card(s.id)) is not None and c.form == form)


def told(t: Terminal) -> str:
    """Words in the corner."""
    return " ".join(note.message for note in t.app._notifications)


async def ask(t: Terminal, *cards: Card) -> Cards:
    page = Cards([(card, False) for card in cards])
    t.app.push_screen(page)
    await t.settle()
    return page


# the quiz


def test_a_sheet_is_asked_marked_and_kept() -> None:
    async def walk() -> None:
        async with terminal(LARGE) as t:
            await t.press("t", "enter")
            page = t.app.screen
            assert isinstance(page, Cards) and len(page.asked) == 10
            answered = 0
            while page.phase != "end":
                card = page.card
                if card.form in ("number", "percent"):
                    await t.press("5", "0", "enter")
                else:
                    await t.press(*(str(k) for k in range(1, len(card.options) + 1))) if card.form == "order" else None
                    if page.phase == "ask":
                        await t.press(str(card.best + 1))
                        assert "right" in t.text
                assert page.phase == "told"
                await t.press("enter")
                answered += 1
            assert answered == 10 and "comes back" in t.text
            await t.press("enter")
            assert t.page == "Quiz" and "10 answers, 10 of 37 cards met" in t.text

    run(walk())
    assert len(Progress().answers()) == 10, "the same progress as on the command line"


def test_an_order_is_built_step_by_step_and_taken_back(library: Library) -> None:
    card = first(Deck(Ground(library)), "order")
    right = [str(card.shown_steps.index(step) + 1) for step in card.steps]

    async def walk() -> None:
        async with terminal(SMALL, open_book=lambda: library) as t:
            page = await ask(t, card)
            await t.press(right[1], "backspace", *right[:-1])
            assert page.phase == "told" and page._said is not None and page._said.right
            await t.press(right[-1])
            assert page.phase == "told" and t.page == "Cards", "the digit too many does nothing"

    run(walk())


def test_what_is_no_answer_is_said_and_asked_again() -> None:
    async def walk() -> None:
        async with terminal() as t:
            assert t.app.library is not None
            page = await ask(t, first(Deck(Ground(t.app.library)), "percent"))
            await t.press(*"many", "enter")
            await t.until(lambda: "is no number" in told(t))
            assert page.phase == "ask"
            await t.press(*["backspace"] * 4, *"180", "enter")
            await t.until(lambda: "is no probability" in told(t))
            assert page.phase == "ask"
            await t.press(*["backspace"] * 3, *"30", "enter")
            assert page.phase == "told" and "Brier" in t.text

    run(walk())


def test_too_easy_and_taking_back() -> None:
    async def walk() -> None:
        async with terminal() as t:
            assert t.app.library is not None
            deck = Deck(Ground(t.app.library))
            page = await ask(t, *deck.sheet(seed=1, count=2, topic="curve"))
            best = str(page.card.best + 1)
            await t.press(best, "e")
            assert "too easy" in t.text
            await t.press("enter")
            assert [a.rating for a in Progress().answers()] == [4] and page.place == 1
            await t.press("u")
            assert page.place == 0 and page.phase == "ask" and Progress().answers() == []
            await t.press(best, "u")
            assert page.phase == "ask", "an answer that is only told is not kept yet"
            await t.press(best, "q")
            assert [a.rating for a in Progress().answers()] == [3], "who leaves keeps what is answered"

    run(walk())


def test_a_card_leads_into_the_book() -> None:
    async def walk() -> None:
        async with terminal() as t:
            assert t.app.library is not None
            await ask(t, first(Deck(Ground(t.app.library)), "choice"))
            await t.press("1", "down", "enter")
            assert t.page == "Browse"
            await t.press("escape", "escape", "q") if t.page == "Browse" else None

    run(walk())


def test_a_locked_store_costs_the_mark_not_the_sheet(monkeypatch: pytest.MonkeyPatch) -> None:
    def locked(self: Any, *_: Any) -> None:
        raise PlaybookError("incidents.db", "is locked", "try again")

    async def walk() -> None:
        async with terminal() as t:
            assert t.app.library is not None
            deck = Deck(Ground(t.app.library))
            page = await ask(t, *deck.sheet(seed=1, count=2, topic="curve"))
            monkeypatch.setattr(Progress, "record", locked)
            await t.press("1", "enter")
            assert t.page == "Problem" and "is locked" in t.text
            await t.press("escape")
            assert t.app.screen is page and page.place == 1
            monkeypatch.setattr(Progress, "answers", locked)
            await t.press("q", "t")
            assert "is locked" in t.text and "By kind of card" in t.text, "the quiz goes on without its progress"

    run(walk())


# the interview


def test_an_interview_hears_ticks_and_sums_up(library: Library) -> None:
    deck = Deck(Ground(library))
    asked = interview.plan(deck, count=2, seed=3)

    async def walk() -> None:
        async with terminal(LARGE, open_book=lambda: library) as t:
            page = Cards(asked, interview.frame(deck), interview=True)
            t.app.push_screen(page)
            await t.settle()
            assert "Interview" in t.text and "minutes" in t.text
            await t.press("ctrl+s")
            assert page.phase == "ask", "nothing was said yet"
            await t.press(*"stop the loss first", "ctrl+s")
            assert page.phase == "ticks" and "☐" in t.text
            await t.press("1")
            assert "☑" in t.text
            await t.press("ctrl+s")
            sat = page.sittings[0]
            assert page.phase == "told" and sat.mark.covered and sat.reply == "stop the loss first"
            await t.press("enter", *"I do not know", "ctrl+s", "ctrl+s", "enter")
            assert page.phase == "end" and f"{interview.total(page.sittings):.0f} %" in t.text
            assert Progress().answers() == [], "an interview is practice: nothing is due by it"

    run(walk())


# the drill


async def begin(t: Terminal, code: str) -> Play:
    await t.press("D", "slash", *code, "enter")
    await t.until(lambda: t.page == "Play")
    page = t.app.screen
    assert isinstance(page, Play)
    return page


@pytest.mark.parametrize("size", [SMALL, LARGE])
def test_a_drill_from_the_alert_to_the_score(size: tuple[int, int]) -> None:
    """Played by keys; the score is that of the use case for the same moves."""

    async def walk() -> None:
        async with terminal(size) as t:
            page = await begin(t, "a3a3a")
            game = page.game
            assert game is not None
            await t.press("1")
            assert page.phase == "look" and [s.kind for s in game.steps] == ["aid"]
            await t.press("slash", *"norm", "enter", "enter")
            assert [s.name for s in game.steps][1:] == ["grad-norm-before"] and "climbs" in t.text
            order = list(game.drill.suspects)
            wrong = next(c for c in order if not game.drill.is_true(c))
            for name in (wrong, game.drill.truth[0]):
                await t.press("s", "g", *["down"] * order.index(name), "enter")
            assert page.phase == "repair" and game.solved
            menu = [o.id for o in page.query_one("#menu").options]  # type: ignore[attr-defined]
            await t.press(str(menu.index(game.drill.repairs[0].id) + 1))
            await t.until(lambda: page.result is not None)
            assert page.phase == "over" and page.result is not None and page.result[0] == score(game)
            assert "What it was" in t.text and t.app.game is None
            await t.press("enter")
            assert t.page == "Browse"

    run(walk())


def test_a_drill_that_is_left_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    async def walk() -> None:
        async with terminal() as t:
            page = await begin(t, "7")  # a seed
            game = page.game
            assert game is not None and game.drill.seed == 7
            await t.press("1", "enter", "q")
            assert t.page == "Drills" and "go on with drill" in t.text
            await t.press("escape", "g", "enter")
            again = t.app.screen
            assert isinstance(again, Play) and again.game is game and again.phase == "look"
            await t.press("X")
            await t.until(lambda: again.result is not None)
            assert "not solved" in t.text

    run(walk())


def test_no_such_drill_is_one_line() -> None:
    async def walk() -> None:
        async with terminal() as t:
            await t.press("D", "slash", *"nothing-like-it", "enter")
            await t.until(lambda: t.page == "Problem")
            assert "is no drill" in t.text

    run(walk())


def test_the_list_of_drills_gives_nothing_away(library: Library) -> None:
    """No id, title or cause of a case stands in it."""

    async def walk() -> None:
        async with terminal(LARGE, open_book=lambda: library) as t:
            await t.press("D")
            await t.until(lambda: "looking through" not in t.text, 60)
            codes = drills.all_codes(library.book)
            shown = t.text
            assert sum(code in shown for code in codes) > 20
            for case in codes.values():
                assert library.book.cases[case].title not in shown and f" {case} " not in shown

    run(walk())


@pytest.mark.parametrize("size", [SMALL, LARGE])
def test_learning_in_chinese_fits(size: tuple[int, int]) -> None:
    library = open_book(lang="zh")

    async def walk() -> None:
        from rich.cells import cell_len

        async with terminal(size, lang="zh", open_book=lambda: library) as t:
            pages = [("t",), ("enter",), ("1",)]
            for keys in pages:
                await t.press(*keys)
                assert all(cell_len(line) <= size[0] for line in t.text.splitlines())
            t.app.pop_screen()
            await begin(t, "42")
            assert "已知情况" in t.text
            assert all(cell_len(line) <= size[0] for line in t.text.splitlines())

    run(walk())


# what looked like this before


def test_past_incidents_stand_beside_the_diagnosis_and_the_closing(tmp_path: Path) -> None:
    """With the real store: an incident that was closed is found again, with its cause, by the next one."""
    db = f"sqlite:///{tmp_path}/incidents.db"
    tiny = tiny_library()
    from playbook.workflow.records.incident import Closing, close
    from playbook.workflow.session import Session

    session = Session(tiny.book, tiny.tables)
    session.observe(small_found().evidence)
    session.answer("lower-lr-removes-it", "yes")
    past = record(session, small_found(), session.diagnosis(), db, "the same in spring")
    close(past, Closing(cause="lr-peak", by="somebody", fixes=("lower-peak-lr=cured",)), tiny.book, db)

    async def walk() -> None:
        async with terminal(LARGE, shop=RealShop(db)) as t:
            t.app.open_files(("run.csv",))
            await t.until(lambda: t.app.desk is not None and bool(t.app.desk.similar))
            await t.settle()
            assert t.app.screen.query_one(SimilarPane).display
            assert past in t.text and "✓ The learning rate" in t.text
            await t.press("C")
            assert f"{past}:" in t.text and "Fix lower-peak-lr" in t.text
            await t.press("escape", "S")
            assert "asked there, not here" in t.text and "Tiny lower-lr-removes-it: yes" in t.text
            await t.press("enter")
            await t.until(lambda: t.app.desk is not None and t.app.desk.incident == past)
            assert t.page == "DiagnosisPage" and past not in {s.id for s in t.app.desk.similar}  # type: ignore[union-attr]

    from playbook.faces.tui.shop import Shop as RealShop

    run(walk())


def test_a_store_that_does_not_answer_costs_no_diagnosis() -> None:
    class Broken(Memory):
        def similar(self, desk: Any) -> Any:
            raise OSError("the disk is gone")

    async def walk() -> None:
        async with terminal(shop=Broken()) as t:
            t.app.open_files(("run.csv",))
            await t.until(lambda: t.page == "DiagnosisPage")
            await t.settle()
            assert not t.app.screen.query_one(SimilarPane).display
            await t.press("S")
            assert "the disk is gone" in t.text

    run(walk())


def test_no_job_writes_its_arguments_out() -> None:
    """Textual describes a worker by the text of its arguments, and a book as text takes 60 ms of an answer's 50."""
    from playbook.faces.tui import registry

    for path in Path(registry.__file__).parent.glob("*.py"):
        for line in path.read_text("utf-8").splitlines():
            assert not line.strip().startswith("@work(") or "description=" in line, f"{path.name}: {line}"
