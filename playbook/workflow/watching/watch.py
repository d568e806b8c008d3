"""Watching a run: read what is new, look, and say once that an incident began, with its first aid.

`watch(...)` yields what happens until the time is up, somebody stops it or the first incident is there; it waits
between two looks and never raises for what is in the files. Its last word is the verdict that `playbook ingest` gives
on the same bytes.
"""

from __future__ import annotations

import platform
import shlex
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal

from playbook.engine.diagnosis import Diagnosis
from playbook.engine.tables import SHAPE
from playbook.errors import PlaybookError, Problem
from playbook.findings import Evidence
from playbook.workflow.book import Library
from playbook.workflow.ingest import Ingested, look
from playbook.workflow.session import Session
from playbook.workflow.watching.alarm import Alarm, News
from playbook.workflow.watching.live import Follower
from playbook.workflow.watching.memory import Memory, adapted
from playbook.workflow.watching.memory import read as read_memory
from playbook.workflow.watching.memory import write as write_memory
from playbook.workflow.watching.notify import Document, Sender

POLL = 1.0  # seconds between two looks
PATIENCE = 4.0  # times that the last look took: a look may cost a fifth of the time at most
CAUSES = 3  # named in an alert
AIDS = 3

REMEMBER = 30.0  # seconds after which the places in the files are written down also without news

# `known`: an earlier watch told it, and it still goes on.
Kind = Literal["waiting", "reading", "known", "incident", "changed", "again", "over", "problem", "end"]


@dataclass(frozen=True)
class Happening:
    """One thing that happened. `alert` is what an incident says as plain data; `found` the run as it was then.

    `incidents` are those that this watch told and those of an earlier one that still go on.
    """

    kind: Kind
    at: datetime
    found: Ingested | None = None
    news: News | None = None
    alert: Document = field(default_factory=dict)
    problem: Problem | None = None
    reason: str = ""  # of `waiting` and `end`
    incidents: int = 0


@dataclass(frozen=True, slots=True)
class Options:
    """How to watch. `seconds` None: until stopped; `from_now`: what is in the files at the start is no news.

    `memory` is the file in which is kept what was told (`memory.place`); None: every watch begins anew.
    """

    poll: float = POLL
    seconds: float | None = None
    until_incident: bool = False
    from_now: bool = False
    record: bool = False
    db: str | None = None
    title: str | None = None
    memory: Path | None = None


def watch(
    paths: Sequence[str],
    library: Library,
    options: Options = Options(),
    rename: Mapping[str, str] | None = None,
    sender: Sender | None = None,
    stop: threading.Event | None = None,
    clock: Callable[[], float] = time.monotonic,
) -> Iterator[Happening]:
    """Follow `paths`. Nothing is raised for their content; a fault is a `problem` and the watch goes on."""
    stop, sender = stop or threading.Event(), sender or Sender(())
    follower = Follower(paths, rename, patterns=library.book.patterns)
    watcher = _Watcher(follower, library, options, sender)
    begun, reason = clock(), ""
    yield from watcher.recall()
    while not reason:
        begin = clock()
        yield from watcher.look()
        if options.until_incident and watcher.alarm.fresh:
            reason = "an incident began"
        elif options.seconds is not None and clock() - begun >= options.seconds:
            reason = "the time is up"
        elif stop.is_set():
            reason = "stopped"
        elif not follower.behind:
            pause = max(options.poll, PATIENCE * (clock() - begin))
            if options.seconds is not None:
                pause = min(pause, max(0.0, begun + options.seconds - clock()))
            stop.wait(pause)
    yield from watcher.end(reason)


class _Watcher:
    """One watch: what was seen last, and what was told."""

    def __init__(self, follower: Follower, library: Library, options: Options, sender: Sender) -> None:
        self.follower, self.library, self.options, self.sender = follower, library, options, sender
        self.alarm = Alarm(library.book.signals[SHAPE])
        self.found: Ingested | None = None
        self._old = options.from_now  # while what is read was there when we came
        self._waiting: set[str] = set()
        self._told: set[str] = set()
        self._memory = Memory()
        self._written = (0.0, "")  # when and what was remembered last

    def recall(self) -> Iterator[Happening]:
        """Take up what an earlier watch left behind; to be called before the first look."""
        if self.options.memory is None:
            return
        try:
            self._memory = read_memory(self.options.memory)
            self.follower.resume(self._memory.positions or {})
        except PlaybookError as error:
            yield self._happening("problem", problem=error.problem)

    def look(self) -> Iterator[Happening]:
        """One look at the files."""
        fresh = self.follower.poll()
        for path, error in self.follower.waiting.items():
            if path not in self._waiting:
                self._waiting.add(path)
                yield self._happening("waiting", problem=error.problem, reason=error.problem.what)
        if fresh:
            yield from self._scan()
        self._old = self._old and self.follower.behind
        yield from self._remember()
        yield from self._faults()

    def end(self, reason: str) -> Iterator[Happening]:
        """The last look, at everything that is there, and the verdict."""
        if reason != "an incident began":
            self.follower.poll()
            while self.follower.behind:
                self.follower.poll()
            self.follower.settle()
            yield from self._scan(ended=True)
        self.sender.close()
        yield from self._remember(last=True)
        yield from self._faults()
        yield self._happening("end", self.found, reason=reason, incidents=self._incidents())

    def _incidents(self) -> int:
        """Those told by this watch, and older ones that are still open."""
        new = self.alarm.count - self.alarm.fresh
        return self.alarm.fresh + len({t.number for t in self.alarm.told if t.open and not t.again and t.number <= new})

    def _remember(self, last: bool = False) -> Iterator[Happening]:
        """Write down what was told, once all alerts are delivered, and now and then the places in the files."""
        if self.options.memory is None or self.found is None or not (last or self.sender.idle):
            return
        now, state = time.monotonic(), repr([(t.number, t.open, t.symptom, t.rolled_back) for t in self.alarm.told])
        if not last and state == self._written[1] and now - self._written[0] < REMEMBER:
            return
        self._written = now, state
        try:
            write_memory(self.options.memory, self.alarm.told, self.alarm.count, self.follower, self.found.run)
        except PlaybookError as error:
            yield from self._problem(error.problem.what, error.problem)

    def _scan(self, ended: bool = False) -> Iterator[Happening]:
        begun = self.found is not None
        try:
            run = self.follower.run()
            if run is None:
                return
            self.found = found = look(run, self.library.book, ended)
            anew = self.follower.begun_anew()
            if not begun:
                told, gone = adapted(self._memory.told, self.follower.fates, run)
                self.alarm.recall(told, self._memory.count)
                anew |= gone
            news = self.alarm.begin_anew(anew, found)
            if self._old:
                self.alarm.skip(found)
            older = [t for t in self.alarm.told if t.open and not begun]
            news += self.alarm.look(found, self.follower.known_from(run))
        except Exception as error:  # whatever a row holds: the next one is watched
            yield from self._problem(f"the look failed: {type(error).__name__}: {error}")
            return
        if not begun:
            yield self._happening("reading", found)
        for known_one in older:
            if known_one.open:
                item = News("known", known_one.number, known_one.evidence)
                alert = {"event": "known"} | alert_of(item, found, self.library, self.follower)
                yield Happening("known", datetime.now(UTC), found, item, alert, incidents=self._incidents())
        for item in news:
            yield from self._tell(item, found)

    def _tell(self, item: News, found: Ingested) -> Iterator[Happening]:
        at = datetime.now(UTC)
        alert: Document = {"event": item.kind, "time": at.isoformat(timespec="seconds")}
        alert |= alert_of(item, found, self.library, self.follower)
        alert["diagnose"] = shlex.join(["playbook", "diagnose", *self.follower.paths])
        if item.kind == "incident":
            session, diagnosis = diagnosed(item.evidence, found, self.library)
            alert |= advice(diagnosis, self.library)
            if self.options.record:
                try:
                    from playbook.workflow.records.record import record

                    alert["incident"] = record(session, found, diagnosis, self.options.db, self.options.title)
                except PlaybookError as error:
                    yield self._happening("problem", problem=error.problem)
                except Exception as error:
                    yield from self._problem(f"the incident was not recorded: {type(error).__name__}: {error}")
            self.sender.send(alert)
        yield Happening(item.kind, at, found, item, alert, incidents=self._incidents())

    def _faults(self) -> Iterator[Happening]:
        for note in self.follower.notes():
            yield self._happening("problem", problem=note)
        for fault in self.sender.faults():
            yield from self._problem(fault)

    def _problem(self, what: str, problem: Problem | None = None) -> Iterator[Happening]:
        if what not in self._told:
            self._told.add(what)
            yield self._happening("problem", problem=problem or Problem("watch", None, what))

    def _happening(
        self,
        kind: Kind,
        found: Ingested | None = None,
        problem: Problem | None = None,
        reason: str = "",
        incidents: int = 0,
    ) -> Happening:
        return Happening(kind, datetime.now(UTC), found, problem=problem, reason=reason, incidents=incidents)


def diagnosed(symptom: Evidence, found: Ingested, library: Library) -> tuple[Session, Diagnosis]:
    """The diagnosis at this moment, with the symptom that is told."""
    session = Session(library.book, library.tables, found.size)
    session.observe([*(e for e in found.evidence if e.signal != SHAPE), symptom])
    return session, session.diagnosis()


def alert_of(item: News, found: Ingested, library: Library, follower: Follower | None = None) -> Document:
    """What is seen, as plain data."""
    evidence, run = item.evidence, found.run
    entry = library.book.symptoms.get(evidence.state)
    place = evidence.origin
    line = place.line if place is not None else None
    if place is not None and line is not None and follower is not None:
        line = follower.line(place.path, line)
    document: Document = {
        "number": item.number,
        "symptom": {
            "id": evidence.state,
            "title": entry.title if entry is not None else evidence.state,
            "onset_step": evidence.step,
            "confidence": round(evidence.confidence, 3),
        },
        "because": item.because or evidence.because,
        "seen_at_step": _last_step(found),
        "rank": evidence.rank,
        "location": None if place is None else {"file": place.path, "line": line},
        "files": [f.path for f in run.files],
        "host": platform.node(),
    }
    return document


def advice(diagnosis: Diagnosis, library: Library) -> Document:
    """What to do first, what it may be, and what to look at next."""
    book = library.book
    aids = [book.fixes[fix] for fix in diagnosis.first_aid[:AIDS]]
    step = diagnosis.next
    return {
        "first_aid": [{"id": a.id, "title": a.title, "summary": a.summary, "steps": list(a.steps)} for a in aids],
        "causes": [
            {"id": c.id, "title": c.title, "layer": c.layer, "probability": round(c.probability, 4)}
            for c in diagnosis.causes[:CAUSES]
        ],
        "next": None if step is None else {"signal": step.signal, "question": book.signals[step.signal].question},
        "incident": None,
    }


def _last_step(found: Ingested) -> int | None:
    """The step that was logged last (not the highest: a job may have been rolled back)."""
    run = found.run
    lead: Any = run.one("loss") or max(run.series.values(), key=len, default=None)
    return None if lead is None or not len(lead) else int(lead.steps[-1])
