"""How soon the terminal paints and answers, in a real pseudo-terminal: `python -m tests.bench.bench_tui`.

first paint   from the start of the process to the first page on the terminal (limit 0.8 s)
key           from a key to the first byte of the answer, with 100,000 points on the curve (limit 50 ms)
large file    with --large: from a key to the answer while 200 MB of metrics are being read (limit 150 ms)

Each is told as time on the clock and as time on the processor; where more is at work on this machine than it has
processors, the second one is judged.
"""

from __future__ import annotations

import fcntl
import json
import os
import pty
import select
import statistics
import struct
import subprocess
import sys
import tempfile
import termios
import time
from pathlib import Path

FIRST_PAINT, KEY, BUSY_KEY = 0.8, 0.050, 0.150  # seconds
Times = tuple[float, float]  # seconds on the clock, seconds on the processor
QUIET = 0.25  # seconds without output that end a paint
KEYS = ("plus", "+"), ("plus", "+"), ("plus", "+"), ("pan", "\x1b[C"), ("minus", "-"), ("metric", "m"), ("whole", "z")
ANSWERS = ("answer", "1"), ("undo", "u"), ("redo", "U"), ("why", "w"), ("what if", "i"), ("down", "j"), ("leave", "q")


class Hands:
    """A process on a pseudo-terminal of 120x40."""

    def __init__(self, arguments: list[str], home: str) -> None:
        self.begin = time.perf_counter()
        self.pid, self.master = pty.fork()
        if self.pid == 0:  # pragma: no cover - the child
            os.environ |= {"PLAYBOOK_HOME": home, "TERM": "xterm-256color", "COLORTERM": "truecolor"}
            os.execv(sys.executable, [sys.executable, "-m", "playbook", *arguments])
        fcntl.ioctl(self.master, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 120, 0, 0))
        self.seen = b""

    def read(self, seconds: float) -> bytes:
        """What comes within `seconds`, b"" for nothing."""
        ready, _, _ = select.select([self.master], [], [], seconds)
        if not ready:
            return b""
        try:
            part = os.read(self.master, 1 << 16)
        except OSError:
            return b""
        self.seen += part
        return part

    def until(self, text: bytes, seconds: float = 60.0) -> float:
        """Seconds since the start at which `text` was on the terminal."""
        while text not in self.seen:
            if not self.read(1.0) and time.perf_counter() - self.begin > seconds:
                raise TimeoutError(f"{text!r} never came")
        return time.perf_counter() - self.begin

    def calm(self, quiet: float = QUIET) -> None:
        """Wait until nothing moves."""
        while self.read(quiet):
            pass

    def worked(self) -> float:
        """Seconds that the main thread has been on a processor (Linux; elsewhere 0)."""
        try:
            return int(Path(f"/proc/{self.pid}/schedstat").read_text().split()[0]) / 1e9
        except OSError:
            return 0.0

    def press(self, key: str, seconds: float = 5.0) -> Times:
        """From a key to the first byte of the answer."""
        begin, worked = time.perf_counter(), self.worked()
        os.write(self.master, key.encode())
        if not self.read(seconds):
            raise TimeoutError(f"no answer to {key!r}")
        return time.perf_counter() - begin, self.worked() - worked

    def end(self) -> None:
        os.write(self.master, b"\x11")  # Ctrl+Q
        for _ in range(50):
            self.read(0.1)
            done, _ = os.waitpid(self.pid, os.WNOHANG)
            if done:
                break
        os.close(self.master)


def write_run(path: Path, rows: int) -> None:
    """A run with a jump of the loss at four fifths."""
    import numpy as np

    rng = np.random.default_rng(7)
    loss = 2 + 6 / (1 + np.arange(rows) / 500) + rng.normal(0, 0.02, rows)
    loss[rows * 4 // 5 :] += 3
    norm = 1 + np.abs(rng.normal(0, 0.1, rows))
    with path.open("w") as out:
        out.write("step,loss,grad_norm,lr\n")
        for start in range(0, rows, 100_000):
            stop = min(rows, start + 100_000)
            out.writelines(f"{k},{loss[k]:.6f},{norm[k]:.6f},0.0003\n" for k in range(start, stop))


def first_paint(home: str, runs: int = 5) -> list[Times]:
    found = []
    for _ in range(runs):
        hands = Hands([], home)
        found.append((hands.until(b"What do you see?"), hands.worked()))
        hands.calm()
        hands.end()
    return found


def keys(home: str, path: Path, rounds: int = 3) -> dict[str, list[Times]]:
    hands = Hands(["tui", str(path)], home)
    hands.until(b"Evidence", 120)
    hands.calm(1.0)
    found: dict[str, list[Times]] = {}
    for _ in range(rounds):
        for group, focus in ((ANSWERS, "Q"), (KEYS, "V")):
            os.write(hands.master, focus.encode())
            hands.calm()
            for name, key in group:
                found.setdefault(name, []).append(hands.press(key))
                hands.calm()
    hands.end()
    return found


def while_reading(home: str, path: Path, most: int = 40) -> list[float]:
    """From `?` to the list of keys on the terminal, while a large file is being read behind it."""
    hands = Hands(["tui", str(path)], home)
    hands.until(b"Reading", 120)
    time.sleep(0.3)
    found: list[float] = []
    while b"Evidence" not in hands.seen and len(found) < most:
        before, begin = len(hands.seen), time.perf_counter()
        os.write(hands.master, b"?")
        while b"On this page" not in hands.seen[before:]:
            hands.read(1.0)
        found.append(time.perf_counter() - begin)
        os.write(hands.master, b"?")
        rest = time.perf_counter() + 0.4  # the dialog below turns all the time: calm never comes
        while time.perf_counter() < rest:
            hands.read(0.05)
    hands.end()
    return found


def middle(times: list[Times]) -> Times:
    """The median of each of the two."""
    return statistics.median(t for t, _ in times), statistics.median(t for _, t in times)


def main() -> int:
    with tempfile.TemporaryDirectory() as folder:
        home = str(Path(folder) / "home")
        small, large = Path(folder) / "small.csv", Path(folder) / "large.csv"
        write_run(small, 100_000)
        subprocess.run([sys.executable, "-m", "playbook", "--help"], capture_output=True, check=True)
        paint = middle(first_paint(home))
        pressed = {name: middle(times) for name, times in keys(home, small).items()}
        load = os.getloadavg()[0]
        which = 1 if load > (os.cpu_count() or 1) else 0
        result: dict[str, object] = {
            "load": round(load, 1),
            "judged": ("clock", "processor")[which],
            "first_paint_s": [round(t, 3) for t in paint],
            "key_ms": {name: [round(1000 * t, 1) for t in times] for name, times in pressed.items()},
        }
        good = paint[which] < FIRST_PAINT and max(times[which] for times in pressed.values()) < KEY
        if "--large" in sys.argv:
            write_run(large, 6_000_000)
            busy = while_reading(home, large)
            slow = statistics.median(busy) if busy else None
            result["key_while_reading_ms"] = {"keys": len(busy), "median": slow and round(1000 * slow, 1)}
            good = good and slow is not None and slow < BUSY_KEY
        print(json.dumps(result, indent=1))
        print("within the limits" if good else "SLOWER THAN THE LIMITS")
        return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
