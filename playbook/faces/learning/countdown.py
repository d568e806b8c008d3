"""The clock of an interview: the time that is left, in the corner of the terminal and in its title, while one types.

Only on a real terminal. The corner is painted with the cursor saved and put back, so that typing is not disturbed; a
bell rings when the time is up, and then the time over it is counted.
"""

from __future__ import annotations

import math
import os
import threading
import time
from collections.abc import Callable
from contextlib import suppress

from rich.console import Console

_WIDTH = 8  # columns that are painted: a sign, minutes, seconds and a space on both sides
_SOON = 30.0  # seconds before the end that are shown in another colour
_SAVE, _BACK, _PLAIN = "\x1b7", "\x1b8", "\x1b[0m"
_COLOURS = {"calm": "\x1b[2m", "soon": "\x1b[33;1m", "over": "\x1b[31;1m"}


def clock(seconds: float) -> str:
    """`4:07`: minutes and whole seconds."""
    return f"{int(seconds) // 60}:{int(seconds) % 60:02d}"


class Countdown:
    """Counts `seconds` down while it is entered. `left` may be asked on any output."""

    def __init__(self, seconds: float, out: Console, clock: Callable[[], float] = time.monotonic) -> None:
        self._end, self._out, self._clock = clock() + seconds, out, clock
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None
        self._rung = False
        self.live = out.is_terminal and os.environ.get("TERM", "dumb") != "dumb"

    @property
    def left(self) -> float:
        """Seconds; negative over time."""
        return self._end - self._clock()

    def text(self) -> str:
        """`4:07`, or `+0:12` over time."""
        left = self.left
        return clock(math.ceil(left)) if left > 0 else f"+{clock(-left)}"

    def __enter__(self) -> Countdown:
        if self.live:
            self._thread = threading.Thread(target=self._run, name="countdown", daemon=True)
            self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        if self._thread is not None:
            self._thread.join(2.0)
            self._write(self._corner(" " * _WIDTH, "") + "\x1b]2;\x07")

    def _run(self) -> None:
        while not self._stop.is_set():
            self.paint()
            self._stop.wait(1.0 - self._clock() % 1.0 if self._clock is time.monotonic else 1.0)

    def paint(self) -> None:
        """One second."""
        left, text = self.left, self.text()
        tone = "calm" if left > _SOON else "soon" if left > 0 else "over"
        bell = ""
        if left <= 0 and not self._rung:
            self._rung, bell = True, "\a"
        colour = "" if self._out.no_color else _COLOURS[tone]
        self._write(bell + self._corner(text.center(_WIDTH), colour) + f"\x1b]2;{text}\x07")

    def _corner(self, text: str, colour: str) -> str:
        column = max(1, self._out.width - _WIDTH + 1)
        return f"{_SAVE}\x1b[1;{column}H{colour}{text}{_PLAIN}{_BACK}"

    def _write(self, text: str) -> None:
        """In one piece, so that it does not mix with what is typed; a terminal that is gone stops nothing."""
        with suppress(OSError, ValueError):
            self._out.file.write(text)
            self._out.file.flush()
