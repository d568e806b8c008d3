"""Notable lines of a text log -> events with a kind: crashes, communication, skipped steps, NaN, resumes, checkpoints.

Says what was written and when, never why. A Python traceback gives one event for its last exception line; what a
launcher writes after a worker died is an event only where nothing else in the log says how it died. Source code and
configuration that a log prints are no events.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace

from playbook.readers import text
from playbook.readers.logs import notable_words
from playbook.readers.logs.rows import Rows
from playbook.readers.signatures import SIGNATURE

_START = re.compile(r"^\s*(?:\+ )?(?:Exception Group )?Traceback \(most recent call last\)")
# What stands before the traceback of an exception that does not stop the program.
_IGNORED = re.compile(r"^Exception ignored (?:in|on)\b")
_THREAD = re.compile(r"^Exception in thread \S+")
_CHAINED = re.compile(r"During handling of the above exception|The above exception was the direct cause")
_CAUSE = "direct cause"
_EXCEPTION = re.compile(
    r"^(?P<name>(?:[A-Za-z_]\w*\.)*_?[A-Z]\w*(?:Error|Exception|Interrupt|Exit|Warning|Failure"
    r"|Timeout|Abort|Killed|Iteration|Fault|NotFound|Crash)\w*|KeyboardInterrupt|Exception|"
    r"(?:[A-Za-z_]\w*\.)+_?[A-Z]\w+|(?:[a-z_]\w*\.)+(?:error|timeout|gaierror|herror))(?::(?= |$)|$)"
)
_LAUNCHER_FRAME = re.compile(
    r"torch/distributed/(?:run|launch)\.py|torch/distributed/launcher/|elastic/agent/"
    r"|accelerate/commands/|deepspeed/launcher/|bin/torchrun|horovod/runner"
)
_LAUNCHER_NAME = re.compile(
    r"ChildFailedError|SignalException|CalledProcessError|ProcessExitedException|ProcessRaisedException|WorkerCrashed"
)
_LAUNCHER_LINE = re.compile(
    r"closing signal SIG|elastic/multiprocessing/api|elastic/agent|sigkill_handler"
    r"|Killing subprocess|launch\.py:\d+|exitcode|^\s*traceback : |srun: error"
    r"|mpirun|Sending process|failed \(exitcode|Root Cause|SignalException|prterun|task \d+: |Terminating job step",
)
_RANK_IN = re.compile(r"\[?\b[Rr]ank[ :=]{0,2}(\d{1,6})\b")
_RANK_ROW = re.compile(r"^\s*rank\s+: (\d+) \(local_rank")
_STEP_IN = re.compile(
    r"\b(?:global[_ ]step|steps?|iterations?|iter|updates?)[ =:_]{1,3}(\d{1,12})\b"
    r"|\bcheckpoint[-_/](?:step[-_])?0*(\d{1,12})\b"
)
_SCALE = re.compile(
    r"(?:reducing (?:loss scale )?to|setting loss scale to:?|reducing loss scale to"
    r"|dynamic loss scale from [\d.e+]+ to) ?([\d.]+(?:e[+-]?\d+)?)",
    re.IGNORECASE,
)
_FROM = re.compile(r"(?:[Aa]ttempted loss scale: ?|loss scale from )([\d.]+(?:e[+-]?\d+)?)")
_GROWN = re.compile(r"Increasing dynamic loss scale from [\d.e+]+ to (\d+(?:\.\d*)?)")
_AT = re.compile(r"^[Gg]rad overflow on iteration:? (\d+)")
_EXIT = re.compile(r"\bexitcode\s*:\s*-(\d+)")  # the signal that ended a worker
_FAILED = re.compile(r"^failed \(exitcode: |multiprocessing/api\.py:\d+\] failed \(exitcode: ")
_EXITS = {"9": "killed", "15": "killed", "11": "segfault", "7": "segfault", "6": "killed"}
_DIED = frozenset(("killed", "segfault"))  # what only the launcher knows of a rank that fell silent
_CAUTION = re.compile(r"\b(?:WARN(?:ING)?|INFO|DEBUG)\b")
_ALONE = re.compile(r"(?:Error|Exception|Interrupt|Failure)$")  # an exception that is told without its traceback
# Before a traceback it must be said that something failed: batches are skipped on purpose. Trackers retry their own.
_FAILED_AT = re.compile(
    r"\b(?:fail\w*|errors?|can(?:no|')t|could not|unable|corrupt\w*|broken|exception)\b", re.IGNORECASE
)
_TRACKER = re.compile(r"^(?:wandb|mlflow|neptune|comet|clearml|swanlab|aim)\b", re.IGNORECASE)
_HANDLED = re.compile(r"\b(?:[Rr]etry(?:ing)?|[Ss]kipping|[Ii]gnoring|[Cc]ontinuing with(?:out)?)\b")
_NEXT = 2  # lines from such a notice to its traceback, or from a traceback to the word that it was handled
_FRAMES = 400  # lines of one traceback: beyond that it is no longer one


class _Open:
    """A traceback that is being read."""

    __slots__ = ("aside", "launcher", "lines", "number", "said", "time")

    def __init__(self, time: str | None, aside: str = "") -> None:
        self.lines, self.number, self.said, self.launcher, self.time = 0, 0, "", False, time
        self.aside = aside  # "ignored" | "thread" | "handled"


def watch(rows: Rows) -> Callable[[int, str], None]:
    """A function that looks at lines (number, cleaned text) and adds events, and loss scales that such lines tell."""
    return _Watcher(rows).see


class _Watcher:
    """What is remembered between the lines of a log, so that every fault is told once and by whoever knows most."""

    def __init__(self, rows: Rows) -> None:
        self.rows = rows
        self.events = rows.builder.events
        self.hints = notable_words.hints(rows.builder.patterns)
        self.signatures = notable_words.signatures(rows.builder.patterns)
        self.opened: dict[int | None, _Open] = {}  # the traceback of each rank that is being read
        self.said: set[tuple[str, int | None, str]] = set()  # since the last row
        self.said_at = -1  # the pulse of that row; likewise below: -1 for none
        self.crashed_at = -1
        self.only_waited = False  # whether all that was told since that row is that ranks waited for others in vain
        self.grown_at = -1
        self.overflow_step = -1  # told in a line before the one that tells the scale
        self.root_rank = -1  # which rank failed first, as the launcher says
        self.aside = (0, "")  # the line that says that the next traceback stops nothing, and why
        self.launcher_event = -1  # index of the launcher's last event: its rank may be told later

    def see(self, number: int, raw: str) -> None:
        """Look at one line; number 0 is the end of the file."""
        if number == 0:
            for rank in list(self.opened):
                self._close(rank)
            return
        hinted = notable_words.hinted(raw, self.hints)
        if not hinted and not self.opened:
            return
        line = text.split(raw)
        if self.opened and self._inside(number, line):
            return
        if hinted:
            self._judge(number, raw, line)

    def _inside(self, number: int, line: text.Line) -> bool:
        """Whether the line belongs to an open traceback of its rank."""
        trace = self.opened.get(line.rank)
        if trace is None:
            return False
        body = line.body
        trace.lines += 1
        if _START.match(body):
            if trace.said:
                self._close(line.rank)
            self.opened[line.rank] = _Open(line.time)
            return True
        if trace.said:
            if _CHAINED.search(body):
                self._first_of_chain(trace, line.rank, body)
                return True
            if not body.strip():
                return True
            self._close(line.rank)
            return False
        if _LAUNCHER_FRAME.search(body):
            trace.launcher = True
        if body[:1] in (" ", "\t", "|", "+", "^", "~") or not body:
            return trace.lines < _FRAMES or self.opened.pop(line.rank, None) is None
        if _EXCEPTION.match(body):
            trace.said, trace.number = body, number
            return True
        if trace.lines > _FRAMES:
            self.opened.pop(line.rank, None)
        return False

    def _first_of_chain(self, trace: _Open, rank: int | None, link: str) -> None:
        """An exception of which another one came: an event of its own where it is the cause or tells by itself."""
        kind = notable_words.kind_of_exception(trace.said)
        if not trace.aside and not trace.launcher and (kind != "traceback" or _CAUSE in link):
            self._emit(kind, trace.said, trace.number, rank, trace.time, False)
        trace.said = ""

    def _close(self, rank: int | None) -> None:
        """The end of a traceback: its last exception is the event."""
        trace = self.opened.pop(rank, None)
        if trace is None or not trace.said or trace.aside == "ignored":
            return
        name = trace.said.split(":")[0]
        launcher = trace.launcher or _LAUNCHER_NAME.search(name) is not None
        kind = notable_words.kind_of_exception(trace.said)
        kind = "launcher" if launcher and kind == "traceback" else kind
        kind = trace.aside if trace.aside and kind == "traceback" else kind
        self._emit(kind, trace.said, trace.number, rank, trace.time, launcher)

    def _judge(self, number: int, raw: str, line: text.Line) -> None:
        """A line with a telling word, outside of tracebacks."""
        body = line.body
        if grown := _GROWN.search(body):
            if self.grown_at != self.rows.pulse:
                self.rows.point("loss_scale", float(grown[1]), number)
                self.grown_at = self.rows.pulse  # the other ranks say it too
            return
        if _START.match(body):
            self.opened[line.rank] = _Open(line.time, self.aside[1] if number - self.aside[0] <= _NEXT else "")
            return
        if _IGNORED.match(body) or _THREAD.match(body):
            self.aside = number, "ignored" if _IGNORED.match(body) else "thread"
            return
        if self._handles(number, body):
            self.aside = number, "handled"
        if hit := _RANK_ROW.match(body):
            self._blame(int(hit[1]))
            return
        if notable_words.HARMLESS.search(body):
            return
        launcher = _LAUNCHER_LINE.search(raw) is not None
        if launcher:  # the workers have spoken
            for waiting in [rank for rank, trace in self.opened.items() if trace.said]:
                self._close(waiting)
        if not launcher and notable_words.CODE.search(body):
            return
        if self.aside[1] == "ignored" and number - self.aside[0] <= _NEXT and _EXCEPTION.match(body):
            self.aside = (0, "")  # told without its traceback: the next one is another
            return
        kind, launcher = _kind(body, launcher)
        if kind == "traceback" and _CAUTION.search(raw[: len(raw) - len(body)]):
            return  # an exception that a program caught and logged as a warning
        if kind is None and self.signatures.fits(body, body.lower()):
            kind = SIGNATURE
        if kind is None:
            return
        rank = line.rank
        if rank is None and kind in notable_words.CRASHES and (hit := _RANK_IN.search(body)):
            rank = int(hit[1])
        if rank is None and launcher and self.root_rank >= 0:
            rank = self.root_rank
        self._emit(kind, body, number, rank, line.time, launcher)

    def _handles(self, number: int, body: str) -> bool:
        """Whether a line announces an exception that is handled; one just before it becomes one that stops nothing."""
        if not _HANDLED.search(body) or _TRACKER.match(body):
            return False
        last = self.events[-1] if self.events else None
        if last is None or last.kind not in ("traceback", "handled") or number - (last.origin.line or 0) > _NEXT:
            return _FAILED_AT.search(body) is not None
        self.events[-1] = replace(last, kind="handled")
        return False

    def _blame(self, rank: int) -> None:
        """The launcher names the rank that failed first: it is the rank of what the launcher has told."""
        self.root_rank = rank
        told = self.launcher_event
        if 0 <= told < len(self.events) and self.events[told].rank is None:
            self.events[told] = replace(self.events[told], rank=rank)

    def _emit(self, kind: str, body: str, number: int, rank: int | None, time: str | None, launcher: bool) -> None:
        """Add an event, unless it has been said since the last row; what a launcher says counts only before a crash."""
        pulse = self.rows.pulse
        if self.said_at != pulse:
            self.said_at = pulse
            self.said.clear()
        if launcher and self.crashed_at == pulse and not (self.only_waited and kind in _DIED):
            return
        step = self.rows.here
        key = body.strip()
        scale: float | None = None
        if kind == "overflow-skip":
            scale, before = _scale(_SCALE, body), _scale(_FROM, body)
            if scale is None and (hit := _AT.match(body)):
                self.overflow_step = int(hit[1])  # the next line says what became of the scale
                return
            if scale is not None or before is not None:
                key = f"{before}>{scale}"
            if self.overflow_step >= 0:
                step = max(self.overflow_step, step or 0)
            key += (time or "").split(".")[0].split(",")[0]  # the same scale a second later is another skip
            rank = None  # the scale is that of the job, whoever tells it
        elif kind in ("cuda-error", "segfault"):
            key = re.sub(r"\d+", "#", key)
        elif kind in ("resume", "checkpoint") and (hit := _STEP_IN.search(body)):
            step = int(hit[1] or hit[2])
        if (kind, rank, key) in self.said:
            return
        self.said.add((kind, rank, key))
        if kind in notable_words.CRASHES:
            self.only_waited = kind == "nccl" and (self.crashed_at != pulse or self.only_waited)
            self.crashed_at = pulse
        if scale is not None:
            self.rows.point("loss_scale", scale, number)
        if launcher:
            self.launcher_event = len(self.events)
        self.rows.builder.event(body.strip(), kind, number, step, rank, time)


def _kind(body: str, launcher: bool) -> tuple[str | None, bool]:
    """(the kind of a telling line, None for none; whether it is the launcher who speaks)."""
    kind = notable_words.kind_of(body)
    if kind is None and launcher and (hit := _EXIT.search(body)):
        kind = _EXITS.get(hit[1])
    if kind is None and _FAILED.search(body):
        kind = "launcher"
    if kind == "io-error" and (hit := _EXCEPTION.match(body)) and _ALONE.search(hit["name"]):
        return "traceback", launcher  # nobody caught it
    if kind is None and (hit := _EXCEPTION.match(body)) and not hit["name"].endswith("Warning"):
        launcher = launcher or _LAUNCHER_NAME.search(body) is not None
        kind = "launcher" if launcher else "traceback" if _ALONE.search(hit["name"]) else None
    return kind, launcher


def _scale(pattern: re.Pattern[str], body: str) -> float | None:
    hit = pattern.search(body)
    if hit is None:
        return None
    try:
        return float(hit[1].rstrip("."))
    except ValueError:
        return None
