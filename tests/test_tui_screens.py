"""Golden screens as text, at 80x24 and 120x40, each reached by keys; `--update-golden` writes them anew."""

from __future__ import annotations

import difflib
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from playbook.errors import PlaybookError
from playbook.faces.tui.cards import Cards
from playbook.faces.tui.dialogs import ReadingDialog
from playbook.faces.tui.tail import Look, Tail, Told
from playbook.faces.tui.watch import Watch
from playbook.workflow.learning.quiz import Deck
from playbook.workflow.learning.quiz_cards import Ground
from playbook.workflow.records.similar import Similar
from tests.tui_kit import LARGE, SMALL, Memory, Terminal, run, small_found, terminal

GOLDEN = Path(__file__).parent / "golden" / "tui"
Walk = Callable[[Terminal], Awaitable[None]]


def keys(*pressed: str) -> Walk:
    async def walk(t: Terminal) -> None:
        await t.press(*pressed)

    return walk


def with_run(*pressed: str) -> Walk:
    """The run on the desk, then keys."""

    async def walk(t: Terminal) -> None:
        t.app.open_files(("run.csv",))
        await t.until(lambda: t.app.desk is not None)
        await t.settle()
        await t.press(*pressed)

    return walk


def with_experiment(*pressed: str) -> Walk:
    """The run on the desk and the experiment asked, wherever the plan has it; then keys."""

    async def walk(t: Terminal) -> None:
        await with_run()(t)
        await t.turn_to("lower-lr-removes-it")
        await t.press(*pressed)

    return walk


def investigated(*pressed: str) -> Walk:
    """The two experiments made and all else not known, in whatever order it is asked; then keys."""
    told = {"lower-lr-removes-it": "1", "tied-to-samples": "2"}

    async def walk(t: Terminal) -> None:
        await with_run()(t)
        assert t.app.desk is not None
        while t.app.desk.question is not None:
            await t.press(told.get(t.asked.id, "d"))
        await t.press(*pressed)

    return walk


async def kept(t: Terminal) -> None:
    await with_run("1", "q")(t)


async def problem(t: Terminal) -> None:
    t.app.problem(PlaybookError("run.csv", "row 12 has 3 cells, the header has 5", "mend the row", 12))
    await t.settle()


async def reading(t: Terminal) -> None:
    t.app.push_screen(ReadingDialog(("/data/metrics.jsonl", "/data/train.log")))
    await t.settle()


async def recorded(t: Terminal) -> None:
    await with_run("R", "enter", "q", "H")(t)


async def palette(t: Terminal) -> None:
    await with_run("ctrl+p")(t)
    await t.press(*"record")
    await t.pilot.pause(0.3)


ALIKE = (
    Similar("20260210-b", "incident", "Peak of 6e-4 on the 7B run", 0.71, "lr-peak", True, ("loss-shape",
            "grad-norm-before"), (("lower-lr-removes-it", "yes"),), ("lower-peak-lr",)),
    Similar("tiny-lr", "case", "A run whose peak was too high", 0.52, "lr-peak", True, ("loss-shape", "precision"), ()),
)  # fmt: skip


def with_past(*pressed: str) -> Walk:
    """The run on the desk, with incidents that look like it."""

    async def walk(t: Terminal) -> None:
        assert isinstance(t.app.shop, Memory)
        t.app.shop.alike = ALIKE
        await with_run(*pressed)(t)

    return walk


def card(item: str, *pressed: str) -> Walk:
    """One card of the quiz, then keys."""

    async def walk(t: Terminal) -> None:
        assert t.app.library is not None
        made = Deck(Ground(t.app.library, t.app.w)).card(item)
        assert made is not None
        t.app.push_screen(Cards([(made, False)]))
        await t.settle()
        await t.press(*pressed)

    return walk


async def watched(t: Terminal) -> None:
    """An incident in a file that grows."""
    assert t.app.library is not None
    page = Watch(())
    t.app.push_screen(page)
    await t.settle()
    page.paths = ("/data/run.csv",)
    page.tail = Tail((), t.app.library)
    told = (
        Told(
            "incident", 1, "Tiny persistent-spike", 200, "loss rises from 2.02 to 7.02 at step 200", ("stop-and-keep",)
        ),
    )
    page.paused = True
    page._begin()
    page.tail = Tail((), t.app.library)
    note = "run.csv: was replaced by a new file"
    page.post_message(Watch.Looked(page.tail, Look(small_found(), told, (note,), open=True, fresh=True), 0.0))
    await t.settle()


SCREENS: dict[str, Walk] = {
    "welcome": keys(),
    "welcome-kept": kept,
    "symptom": keys("2"),
    "question": with_run(),
    "trial": with_run("r"),
    "answered": with_experiment("1"),
    "where-it-leads": with_experiment("w"),
    "verdict": investigated("v"),
    "healthy": keys("3"),
    "evidence": with_run("E", "down", "enter"),
    "explain": with_run("e"),
    "whatif": with_experiment("i", "down"),
    "other-questions": with_run("n"),
    "curves": with_run("f", "g", "plus"),
    "cursor": with_run("V", "comma", "full_stop", "m"),
    "search": keys("b", *"overflow", "enter"),
    "fix": investigated("1"),
    "history": recorded,
    "record": with_run("R"),
    "close": with_run("C"),
    "help": with_run("question_mark"),
    "palette": palette,
    "problem": problem,
    "reading": reading,
    "similar": with_past("S"),
    "with-past": with_past(),
    "close-with-past": with_past("C"),
    "watch": watched,
    "quiz": keys("t"),
    "quiz-progress": card("price:tied-to-samples:0", *"30", "enter", "enter", "q", "t"),
    "card": card("curve:persistent-spike:0"),
    "card-told": card("next:tiny-data:0", "1"),
    "card-number": card("price:tied-to-samples:2"),
    "card-end": card("chance:tiny-lr:0", *"80", "enter", "enter"),
    "drills": keys("D"),
    "drill-alert": keys("D", "down", "enter"),
    "drill-looks": keys("D", "down", "enter", "1", "s", "enter"),
    "drill-score": keys("D", "down", "enter", "1", "enter", "X"),
}


async def settled(t: Terminal) -> str:
    """The screen once it stands still: a page behind a dialog may still be laid out anew on a busy machine."""
    shown, same = t.text, 0
    while same < 4:
        await t.pilot.pause(0.05)
        same = same + 1 if t.text == shown else 0
        shown = t.text
    return shown


@pytest.mark.parametrize("size", [SMALL, LARGE], ids=lambda s: f"{s[0]}x{s[1]}")
@pytest.mark.parametrize("name", SCREENS)
def test_screen(
    name: str, size: tuple[int, int], request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The screen is as it was looked at. Read the difference before you write it anew."""
    place = tmp_path / "runs"
    place.mkdir()
    for file in ("run.csv", "train.log"):
        (place / file).write_text("step,loss\n" * 120)
    monkeypatch.chdir(place)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("TZ", "UTC")
    time.tzset()
    monkeypatch.setattr("playbook.faces.tui.closing.me", lambda: "somebody")

    async def walk() -> str:
        async with terminal(size, Memory()) as t:
            await SCREENS[name](t)
            return await settled(t)

    shown = run(walk())
    assert all(len(line) <= size[0] for line in shown.splitlines())
    path = GOLDEN / f"{name}-{size[0]}x{size[1]}.txt"
    if request.config.getoption("--update-golden"):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(shown, "utf-8")
        return
    wanted = path.read_text("utf-8") if path.is_file() else ""
    if shown != wanted:
        rows = difflib.unified_diff(wanted.splitlines(), shown.splitlines(), "golden", "now", lineterm="")
        pytest.fail("\n".join([*rows, "if this is meant: pytest tests/test_tui_screens.py --update-golden"]))


def test_no_golden_file_is_left_over() -> None:
    wanted = {f"{name}-{w}x{h}.txt" for name in SCREENS for w, h in (SMALL, LARGE)}
    assert {p.name for p in GOLDEN.glob("*.txt")} == wanted


@pytest.mark.parametrize("size", [(79, 24), (80, 23), (40, 10), (20, 5)])
def test_small_terminals_are_told(size: tuple[int, int]) -> None:
    async def walk() -> None:
        async with terminal(size) as t:
            assert "playbook needs 80 x 24" in " ".join(t.text.split())
            await t.pilot.resize_terminal(80, 24)
            await t.settle()
            assert "needs" not in t.text and "What do you see?" in t.text
            await t.pilot.resize_terminal(*size)
            await t.settle()
            assert "needs" in t.text

    run(walk())


def test_what_an_answer_means_is_not_cut_short_on_a_small_terminal() -> None:
    async def walk() -> None:
        async with terminal(SMALL) as t:
            assert t.app.library is not None
            signals = t.app.library.book.signals
            for name, signal in signals.items():
                told = dict.fromkeys(signal.outcomes, "a meaning that is longer than its line, to the very end")
                signals[name] = signal.model_copy(update={"outcomes": told})
            t.app.open_files(("run.csv",))
            await t.until(lambda: t.app.desk is not None)
            await t.settle()
            assert "very end" in t.text

    run(walk())
