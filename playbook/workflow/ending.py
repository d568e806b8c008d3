"""How a log ends: with the exception that stopped the run, or otherwise; and whether a run went on after an error.

A curve that looks healthy up to its last row says nothing of what came then. An error that stands behind the last row
of its file, at the last step of the run, is the end of it, unless the trainer had said before that it was done; so is
one among the last lines of a log whose rows the curve does not hold, where no later attempt follows. A key, a time
limit or a scheduler that ends a run is no fault of it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from pathlib import PurePath

import numpy as np

from playbook import readers
from playbook.engine.observe import from_scans, quoted
from playbook.engine.tables import SHAPE
from playbook.findings import Evidence, Scan
from playbook.knowledge.loader import Book
from playbook.series import Event, FileReport, Run

STOPS = frozenset(("traceback", "oom", "cuda-error", "nccl", "segfault", "aborted"))
STOPPED = "hang-or-crash"
# An incident, though not for sure: a program may catch what it prints.
CONFIDENCE = 0.75
ROWS = 10  # that a run must log behind an error to have gone on
TAIL = 60  # lines that may follow the last words of a crash: other ranks, the launcher, trackers that say goodbye
NEAR = 30  # that may follow an exception where no curve says that the run had ended: the block of a launcher
_NO_FAULT = re.compile(
    r"^(?:SystemExit|GeneratorExit|BrokenPipeError|KeyboardInterrupt)\b|Exception ignored|\b[A-Z]\w+Warning: "
    r"|NCCL WARN(?!.*Got completion from peer)"  # a failed transfer ends the communicator, other warnings do not
    r"|\b(?:[Rr]etry(?:ing)?|[Ss]kipping|[Ii]gnoring|[Ff]alling back)\b"
)
# Whoever ends a run from outside; what the ranks cry then is no fault of theirs.
_ORDERED = re.compile(
    r"^KeyboardInterrupt|TIME LIMIT|PREEMPT|\b(?:was|been|being) preempted|CANCELLED AT(?!.*FAILURE)"
    r"|\bSIG(?:TERM|INT)\b|[Ss]ignal:? ?(?:15|2)\b|^\s*Terminated\s*$"
    r"|Preempted by|longer than the specified deadline|deletion due to NoExecute taint"
)
# Who is killed without having been told to end; by whom is not said.
_KILLED = re.compile(
    r"exitcode\s*:\s*-9\b|\bsignal 9\b|return code = -9\b|\bexit code:? +137\b"
    r"|\bOUT_OF_ME|signal: Killed|^\s*Killed\s*$|: \d+ Killed\b|low on resource: |limit of containers|EmptyDir volume"
)
# After these a process has no GPU any more: whatever it still prints is no training.
_STICKY = re.compile(
    r"CUDA error: (?:an illegal|device-side assert|unspecified launch|misaligned|uncorrectable)|CUDA_ERROR_ILLEGAL"
)
DONE = "end"  # the kind of what a trainer says when it is through
_SPOKEN = STOPS | {"launcher", "killed"}  # kinds of the last words of a job
_STREAMS = re.compile(r"std(?:out|err)|out(?:put)?|errors?|err|log", re.IGNORECASE)


def with_end(book: Book, run: Run, scans: Mapping[str, Scan], evidence: list[Evidence], ended: bool) -> list[Evidence]:
    """`evidence` without a crash that the run survived or that somebody ordered; and with the one that stopped it,
    where it has `ended` and the curve alone would be called healthy, or there is none."""
    evidence = [e for e in evidence if e.signal == SHAPE or not _cried(run, e)]
    shape = next((e for e in evidence if e.signal == SHAPE), None)
    if SHAPE not in book.signals or STOPPED not in book.signals[SHAPE].outcomes:
        return evidence
    if shape is None:
        fault = last_error(run) if ended and not run.series else None
        near = fault is not None and any(_is_near(file, fault) for file in run.files)
        return sorted([*evidence, _stopped(fault)], key=lambda e: e.signal) if fault and near else evidence
    now = shape
    if shape.state == STOPPED and (place := _place(shape)) is not None:
        quiet = from_scans(book.signals[SHAPE], scans)
        ordered = _ordered(run, *place)
        if ordered and quiet is None:
            return [e for e in evidence if e is not shape]
        if ordered or went_on(run, *place) or _through(run, *place) or _words_went_on(run, *place):
            now = quiet or shape
    event = last_error(run) if ended else None
    if event is not None and now.state == "healthy":
        now = _stopped(event)
    if event is not None and now.source == "log" and now.state == STOPPED:
        step = run.step_range()[1] if now.step is None else now.step
        now = replace(now, step=step, confidence=max(now.confidence, CONFIDENCE))
    return [now if e is shape else e for e in evidence]


def _is_near(file: FileReport, fault: Event) -> bool:
    return file.path == fault.origin.path and file.lines - _line(fault) <= NEAR


def _place(item: Evidence) -> tuple[str, int] | None:
    """File and line of what a log says; None for anything else."""
    if item.source != "log" or item.origin is None or item.origin.line is None:
        return None
    return item.origin.path, item.origin.line


def _line(event: Event) -> int:
    return event.origin.line or 0


def _stopped(event: Event) -> Evidence:
    return Evidence(SHAPE, STOPPED, "log", quoted(event.text), event.step, event.rank, CONFIDENCE, event.origin)


def _cried(run: Run, item: Evidence) -> bool:
    """Whether a line is what a rank cries after somebody had ended the run."""
    place = _place(item)
    if place is None or _ORDERED.search(item.because):
        return False
    said = (event.kind for event in run.events if event.origin == item.origin)
    return any(kind in STOPS for kind in said) and _ordered(run, *place)


def _through(run: Run, path: str, line: int) -> bool:
    """Whether the trainer had said that it was done when the line was written: who leaves badly has trained well."""
    return _done_at(run).get(path, np.inf) < line


def _done_at(run: Run) -> dict[str, int]:
    """The line of each file where the trainer says that it is done; a word behind which rows follow is of a stage."""
    last: dict[str, int] = {}
    for series in run.series.values():
        if series.lines is not None and len(series.lines):
            path = series.origin.path
            last[path] = max(last.get(path, 0), int(series.lines.max()))
    found: dict[str, int] = {}
    for event in run.events:
        path, line = event.origin.path, _line(event)
        if event.kind == DONE and line >= last.get(path, 0):
            found[path] = min(line, found.get(path, line))
    return found


def _words_went_on(run: Run, path: str, line: int) -> bool:
    """Whether a log without rows goes on long behind the line, and ends in no error: a program caught it."""
    file = next((file for file in run.files if file.path == path), None)
    if file is None or file.rows or file.format in readers.SYSTEM or file.lines - line <= 2 * TAIL:
        return False
    after = [e for e in run.events if e.origin.path == path and _line(e) >= line]
    again = any(e.kind in ("resume", "launcher") or (_line(e) == line and _STICKY.search(e.text)) for e in after)
    return not again and _fault_at_the_end(run, file) is None


def last_error(run: Run) -> Event | None:
    """The first error behind the last row, where nothing of the run comes after it; None where there is none."""
    if _done_at(run):
        return None
    last = _last_rows(run)
    behind = [event for event in run.events if last.get(event.origin.path, np.inf) < _line(event)]
    return _first_fault(behind) or _fault_beside(run, set(last))


def _first_fault(events: list[Event]) -> Event | None:
    """The first error of the last words of a log; None where there is none, or where somebody ended the run before."""
    for event in sorted((e for e in events if e.origin.line is not None), key=_line):
        if _is_order(event):
            return None
        if (event.kind in STOPS or _KILLED.search(event.text)) and not _NO_FAULT.search(event.text):
            return event
    return None


def _is_order(event: Event) -> bool:
    return event.kind == "killed" and _ORDERED.search(event.text) is not None


def _ordered(run: Run, path: str, line: int) -> bool:
    """Whether somebody had ended the run when the line was written: what the ranks cry then is no fault of theirs."""
    words = _last_words([e for e in run.events if e.origin.path == path and _line(e) < line], line)
    return any(map(_is_order, words)) and _first_fault(words) is None


def _last_words(events: list[Event], end: int) -> list[Event]:
    """What a job says before the line `end` while it goes down, the last word first."""
    words: list[Event] = []
    for event in sorted(events, key=lambda event: -_line(event)):
        if event.kind == "resume" or (event.kind in _SPOKEN and end - _line(event) > TAIL):
            break
        if event.kind in _SPOKEN:
            words.append(event)
            end = _line(event)
    return words


def _fault_beside(run: Run, judged: set[str]) -> Event | None:
    """The error in the last lines of a log that lies beside the curve (its rows are none, or a copy of the curve's)."""
    if any(len(series.seams) or len(series.restarts) for series in run.series.values()):
        return None  # which of the attempts the log is of is not known
    logs = [file for file in run.files if file.lines and file.format not in readers.SYSTEM and file.path not in judged]
    faults = {file.path: fault for file in logs if (fault := _fault_at_the_end(run, file)) is not None}
    for path, fault in faults.items():
        if not any(_attempt_after(run, path, other.path) for other in run.files if other.path not in faults):
            return fault
    return None


def _fault_at_the_end(run: Run, file: FileReport) -> Event | None:
    """The first of the last words of a log, where they end with it, and where the log went as far as the curve."""
    fault = _first_fault(_last_words([event for event in run.events if event.origin.path == file.path], file.lines))
    low, high = run.step_range()
    if fault is None or fault.step is None or not file.rows or low is None or high is None:
        return fault
    between = max(1.0, (fault.step - low) / file.rows)  # steps from row to row of the log
    return fault if high - fault.step <= 2 * between else None


def _attempt_after(run: Run, path: str, other: str) -> bool:
    """Whether the log `other` is of a later attempt: it says that it resumes, or has the same name with a higher
    number, and is no other stream of the same attempt."""
    here, there = PurePath(path).name, PurePath(other).name
    if _STREAMS.sub("", here) == _STREAMS.sub("", there):
        return False
    if any(event.kind == "resume" and event.origin.path == other for event in run.events):
        return True
    mine, its = re.findall(r"\d+", here), re.findall(r"\d+", there)
    alike = re.sub(r"\d+", "#", here) == re.sub(r"\d+", "#", there)
    return alike and [int(n) for n in its] > [int(n) for n in mine]


def went_on(run: Run, path: str, line: int) -> bool:
    """Whether rows of the same file go on behind the line, at further steps and without a restart."""
    if any(e.kind in ("resume", "launcher") and e.origin.path == path and _line(e) > line for e in run.events):
        return False
    for series in run.series.values():
        if series.lines is None or series.seams or series.origin.path != path or series.metric != "loss":
            continue
        at = int(np.searchsorted(series.lines, line))
        before, after = series.steps[:at], series.steps[at:]
        if len(after) < ROWS:
            return False
        again = bool((np.diff(after) < 0).any()) or bool(len(before) and after[0] < before[-1])
        return not again
    return False


def _last_rows(run: Run) -> dict[str, float]:
    """The line of the last row of each file that holds the last step of the run."""
    found: dict[str, float] = {}
    reached: set[str] = set()
    high = run.step_range()[1]
    for series in run.series.values():
        if series.lines is None or series.seams or not len(series.lines):
            continue
        line = float(series.lines.max())
        found[series.origin.path] = max(found.get(series.origin.path, 0.0), line)
        if int(series.steps[-1]) == high:
            reached.add(series.origin.path)
    return {path: line for path, line in found.items() if path in reached}
