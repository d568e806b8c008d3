"""How a log ends: with the exception that stopped the run, or otherwise; and whether a run went on after an error.

A curve that looks healthy up to its last row says nothing of what came then. An error that stands behind the last row
of its file, at the last step of the run, is the end of it, unless the trainer had said before that it was done. A key,
a time limit or a scheduler that ends a run is no fault of it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

import numpy as np

from playbook.engine.observe import from_scans, quoted
from playbook.engine.tables import SHAPE
from playbook.findings import Evidence, Scan
from playbook.knowledge.loader import Book
from playbook.series import Event, Run

STOPS = frozenset(("traceback", "oom", "cuda-error", "nccl", "segfault"))
STOPPED = "hang-or-crash"
# An incident, though not for sure: a program may catch what it prints.
CONFIDENCE = 0.75
ROWS = 10  # that a run must log behind an error to have gone on
_NO_FAULT = re.compile(r"^(?:SystemExit|GeneratorExit|BrokenPipeError|KeyboardInterrupt)\b|NCCL WARN|Exception ignored")
DONE = "end"  # the kind of what a trainer says when it is through


def with_end(book: Book, run: Run, scans: Mapping[str, Scan], evidence: list[Evidence], ended: bool) -> list[Evidence]:
    """`evidence` without a crash that the run survived; and with the one that stopped it, where it has `ended` and the
    curve alone would be called healthy."""
    shape = next((e for e in evidence if e.signal == SHAPE), None)
    if shape is None or STOPPED not in book.signals[SHAPE].outcomes:
        return evidence
    now = shape
    if shape.state == STOPPED and shape.source == "log" and went_on(run, shape):
        now = from_scans(book.signals[SHAPE], scans) or shape
    if ended and now.state == "healthy" and (event := last_error(run)) is not None:
        step = event.step if event.step is not None else run.step_range()[1]
        now = Evidence(SHAPE, STOPPED, "log", quoted(event.text), step, event.rank, CONFIDENCE, event.origin)
    return [now if e is shape else e for e in evidence]


def last_error(run: Run) -> Event | None:
    """The first error behind the last row, where nothing of the run comes after it; None where there is none."""
    if any(event.kind == DONE for event in run.events):
        return None
    last = _last_rows(run)
    behind = [
        event
        for event in run.events
        if event.kind in STOPS
        and event.origin.line is not None
        and last.get(event.origin.path, np.inf) < event.origin.line
        and not _NO_FAULT.search(event.text)
    ]
    return min(behind, key=lambda event: event.origin.line or 0, default=None)


def went_on(run: Run, shape: Evidence) -> bool:
    """Whether rows of the same file go on behind the line, at further steps and without a restart."""
    if shape.origin is None or shape.origin.line is None:
        return False
    path, line = shape.origin.path, shape.origin.line
    if any(
        e.kind in ("resume", "launcher") and e.origin.path == path and (e.origin.line or 0) > line for e in run.events
    ):
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
