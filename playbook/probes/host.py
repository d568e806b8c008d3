"""Read-only commands of this machine, from an allow-list and as lists of arguments: what they print, and no more.

`run(command)` gives the text with its origin, or says why there is none. Nothing here is started by a shell, may write,
gets input, runs longer than its time or prints more than its limit; other machines are never reached.
"""

from __future__ import annotations

import os
import selectors
import shutil
import signal
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path

LIMIT = 8 << 20  # bytes of output that are kept
PAUSE = 5.0  # seconds between the two readings of counters


@dataclass(frozen=True, slots=True)
class Command:
    """One command of the allow-list.

    forms   argument lists in order of preference: the next one is tried where a program does not know an option
    reader  the reader of the format
    each    what `{}` in the arguments stands for: "" for nothing, `interface`, `process`
    twice   read again after a pause: counters tell by their rise
    """

    name: str
    forms: tuple[tuple[str, ...], ...]
    reader: str
    seconds: float = 20.0
    each: str = ""
    twice: bool = False


ALLOWED: tuple[Command, ...] = (
    Command("nvidia-smi", (("nvidia-smi", "-q"),), "nvidia_smi_q", 60.0),
    Command("dmesg", (("dmesg", "--color=never", "--time-format=iso"), ("dmesg",)), "kernel_log"),
    Command("ibstat", (("ibstat",),), "infiniband"),
    Command("perfquery", (("perfquery", "-x"),), "infiniband", twice=True),
    Command("ethtool", (("ethtool", "-S", "{}"),), "ethtool", each="interface", twice=True),
    Command("py-spy", (("py-spy", "dump", "--nonblocking", "--pid", "{}"),), "text_log", each="process"),
)


@dataclass(frozen=True, slots=True)
class Raw:
    """What one command printed. `problem` says why `text` is missing or not whole."""

    command: Command
    shown: str  # as a person would type it
    text: str = ""
    problem: str = ""


def run(command: Command, pause: float | None = None) -> list[Raw]:
    """The outputs of a command, one for each thing that it is asked about; empty where the program is not here."""
    if shutil.which(command.forms[0][0]) is None:
        return []
    first = [(target, _one(command, target)) for target in _targets(command)]
    if not command.twice or not any(raw.text for _, raw in first):
        return [raw for _, raw in first]
    time.sleep(PAUSE if pause is None else pause)
    return [_joined(raw, _one(command, target)) for target, raw in first]


def _joined(before: Raw, after: Raw) -> Raw:
    """Two readings of one thing as one text, in the order in which they were taken."""
    text = "".join(f"# {raw.shown}\n{raw.text.rstrip()}\n" for raw in (before, after) if raw.text)
    return Raw(before.command, before.shown, text, before.problem or after.problem)


def _one(command: Command, target: str) -> Raw:
    raw = Raw(command, " ".join(command.forms[0]))
    for form in command.forms:
        arguments = [part.replace("{}", target) for part in form]
        raw = _start(command, arguments)
        if not raw.problem or raw.text:
            return raw
    return raw


def _start(command: Command, arguments: list[str]) -> Raw:
    """Run one argument list within its time and limit."""
    shown = " ".join(arguments)
    try:
        process = subprocess.Popen(
            arguments,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=os.environ | {"LC_ALL": "C"},
            start_new_session=True,
        )
    except OSError as error:
        return Raw(command, shown, "", f"cannot be run: {error.strerror or error}")
    parts: dict[int, list[bytes]] = {0: [], 1: []}
    size, problem = 0, ""
    deadline = time.monotonic() + command.seconds
    with process, selectors.DefaultSelector() as waiting:
        assert process.stdout is not None and process.stderr is not None
        waiting.register(process.stdout, selectors.EVENT_READ, 0)
        waiting.register(process.stderr, selectors.EVENT_READ, 1)
        while waiting.get_map() and not problem:
            ready = waiting.select(max(0.0, deadline - time.monotonic()))
            if not ready:
                problem = f"took more than {command.seconds:g} s and was ended"
            for key, _ in ready:
                data = os.read(key.fd, 1 << 16)
                if not data:
                    waiting.unregister(key.fileobj)
                parts[key.data].append(data)
                size += len(data)
            if size > LIMIT:
                problem = f"printed more than {LIMIT >> 20} MB; the rest is left out"
        if problem:
            _end(process)
    text = b"".join(parts[0]).decode("utf-8", "replace")
    if not problem and process.returncode:
        said = b"".join(parts[1]).decode("utf-8", "replace").strip().splitlines()
        problem = f"left with code {process.returncode}" + (f": {said[-1][:200]}" if said else "")
        text = "" if not text.strip() else text
    return Raw(command, shown, text, problem)


def _end(process: subprocess.Popen[bytes]) -> None:
    """End the program and what it started."""
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except (OSError, AttributeError):
        process.kill()


def _targets(command: Command) -> list[str]:
    if command.each == "interface":
        return interfaces()
    if command.each == "process":
        return processes()
    return [""]


def interfaces(root: Path = Path("/sys/class/net")) -> list[str]:
    """Network cards with a device behind them: no loopback, bridge or container end."""
    try:
        return sorted(p.name for p in root.iterdir() if (p / "device").exists() and _plain(p.name))[:32]
    except OSError:
        return []


def processes() -> list[str]:
    """The processes that use a GPU of this machine."""
    command = Command("nvidia-smi", (("nvidia-smi", "--query-compute-apps=pid", "--format=csv,noheader"),), "")
    if shutil.which("nvidia-smi") is None:
        return []
    words = _start(command, list(command.forms[0])).text.split()
    return sorted({word for word in words if word.isdecimal()}, key=int)[:64]


def _plain(name: str) -> bool:
    """A name that cannot be taken for an option."""
    return name[:1].isalnum() and all(sign.isalnum() or sign in "._-@" for sign in name)
