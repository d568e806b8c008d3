"""Golden screens as text, at 80x24 and 120x40, each reached by keys; `--update-golden` writes them anew."""

from __future__ import annotations

import difflib
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from playbook.errors import PlaybookError
from playbook.faces.tui.dialogs import ReadingDialog
from tests.tui_kit import LARGE, SMALL, Memory, Terminal, run, terminal

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


async def fix_page(t: Terminal) -> None:
    await with_run("1", "2", "d", "d", "d", "d")(t)
    await t.press("1")


SCREENS: dict[str, Walk] = {
    "welcome": keys(),
    "welcome-kept": kept,
    "symptom": keys("2"),
    "question": with_run(),
    "answered": with_run("1"),
    "where-it-leads": with_run("w"),
    "verdict": with_run("1", "2", "d", "d", "d", "d"),
    "healthy": keys("3"),
    "evidence": with_run("E", "down", "enter"),
    "explain": with_run("e"),
    "whatif": with_run("i", "down"),
    "other-questions": with_run("n"),
    "curves": with_run("f", "g", "plus"),
    "cursor": with_run("V", "comma", "full_stop", "m"),
    "search": keys("b", *"overflow", "enter"),
    "fix": fix_page,
    "history": recorded,
    "record": with_run("R"),
    "close": with_run("C"),
    "help": with_run("question_mark"),
    "palette": palette,
    "problem": problem,
    "reading": reading,
}


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
    monkeypatch.setattr("playbook.faces.tui.closing._me", lambda: "somebody")

    async def walk() -> str:
        async with terminal(size, Memory()) as t:
            await SCREENS[name](t)
            return t.text

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
