"""The clock of an interview: live on a terminal, silent elsewhere, and never in the way of what is typed."""

from __future__ import annotations

import io
import os
import re
import select
import sys
import time
from pathlib import Path

import pytest
from rich.console import Console

from playbook.faces.learning.countdown import Countdown


class Hand:
    """A clock that is set by hand."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.mark.parametrize(
    ("passed", "text"),
    [(0, "5:00"), (0.5, "5:00"), (1, "4:59"), (240, "1:00"), (299.5, "0:01"), (300, "+0:00"), (372.9, "+1:12")],
)
def test_what_it_shows(passed: float, text: str) -> None:
    hand = Hand()
    clock = Countdown(300, Console(file=io.StringIO()), hand)
    hand.now += passed
    assert clock.text() == text


def test_it_paints_the_corner_puts_the_cursor_back_and_rings_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm-256color")
    hand, file = Hand(), io.StringIO()
    clock = Countdown(60, Console(file=file, force_terminal=True, width=80), hand)
    assert clock.live
    for _ in range(4):
        clock.paint()
        hand.now += 25
    painted = file.getvalue()
    assert painted.count("\x1b7\x1b[1;73H") == painted.count("\x1b8") == 4
    assert all(text in painted for text in ("1:00", "0:35", "0:10", "+0:15"))
    assert len(re.sub(r"\x1b\]2;[^\x07]*\x07", "", painted).split("\a")) == 2, "one bell"


@pytest.mark.parametrize("term", ["dumb", None])
def test_nothing_is_painted_where_there_is_no_terminal(term: str | None, monkeypatch: pytest.MonkeyPatch) -> None:
    for forced in (False, True):
        monkeypatch.delenv("TERM", raising=False)
        if term is not None:
            monkeypatch.setenv("TERM", term)
        file = io.StringIO()
        with Countdown(1, Console(file=file, force_terminal=forced)):
            pass
        assert file.getvalue() == ""


@pytest.mark.skipif(sys.platform == "win32", reason="no pseudo-terminals here")
def test_a_sitting_on_a_real_terminal(tmp_path: Path) -> None:
    """The clock runs while one types, and what was typed arrives whole."""
    import pty

    child, master = pty.fork()
    if child == 0:
        os.environ |= {"PLAYBOOK_HOME": str(tmp_path), "TERM": "xterm", "COLUMNS": "90", "LINES": "30"}
        os.execv(
            sys.executable, [sys.executable, "-m", "playbook", "quiz", "--interview", "--seed", "4", "--count", "1"]
        )
    seen = b""

    def until(text: bytes, patience: float = 60.0) -> None:
        nonlocal seen
        end = time.monotonic() + patience
        while text not in seen and time.monotonic() < end:
            if select.select([master], [], [], 0.2)[0]:
                try:
                    seen += os.read(master, 4096)
                except OSError:
                    break
        assert text in seen, seen[-400:]

    until(b"5:00 |")
    os.write(master, b"first I pause the run ")
    until(b"\x1b]2;4:58")
    os.write(master, b"and save the scene\n.\n")
    until(b"numbers, or nothing")
    os.write(master, b"\n")
    until(b"Interview")
    os.close(master)
    os.waitpid(child, 0)
    assert b"first I pause the run and save the scene" in re.sub(rb"\x07?\x1b7.*?\x1b8|\x1b\]2;[^\x07]*\x07", b"", seen)
