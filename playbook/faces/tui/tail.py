"""What the watch screen knows of files that grow: one look takes what is new, judges it and says what is news.

The same follower and alarm as `playbook watch`: each byte is read once, memory does not grow with the files, and an
incident is told once. No widget; a look blocks, so a worker makes it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from playbook.faces.words import Words

if TYPE_CHECKING:
    from playbook.workflow.book import Library
    from playbook.workflow.ingest import Ingested


@dataclass(frozen=True)
class Told:
    """One piece of news: `kind` is incident, changed, again or over; `aid` are ids of fixes, best first."""

    kind: str
    number: int
    title: str
    step: int | None
    because: str
    aid: tuple[str, ...] = ()


@dataclass(frozen=True)
class Look:
    """What a look brought. `found` is None while nothing was read; `share` of the bytes that were taken so far."""

    found: Ingested | None = None
    news: tuple[Told, ...] = ()
    faults: tuple[str, ...] = ()  # happened since the last look
    waiting: tuple[str, ...] = ()  # paths where nothing is read, and why
    share: float = 1.0
    open: bool = False  # an incident is going on
    fresh: bool = False  # something was read


@dataclass
class Tail:
    """`look()` may be called from one thread at a time."""

    paths: Sequence[str]
    library: Library
    w: Words = field(default_factory=Words)
    found: Ingested | None = None
    _told: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        from playbook.engine.tables import SHAPE
        from playbook.workflow.watching.alarm import Alarm
        from playbook.workflow.watching.live import Follower

        self.follower = Follower(self.paths, patterns=self.library.book.patterns)
        self.alarm = Alarm(self.library.book.signals[SHAPE])

    def look(self) -> Look:
        """Take what was written, some megabytes of it at most, and judge the run as it is now."""
        fresh = self.follower.poll()
        news: tuple[Told, ...] = ()
        faults = [self.w.problem(note) for note in self.follower.notes()]
        if fresh:
            try:
                news = self._judge()
            except Exception as error:  # whatever a row holds: the next one is watched
                faults.append(f"{type(error).__name__}: {error}")
        new = [fault for fault in faults if fault not in self._told]
        self._told.update(new)
        taken, whole = self.follower.taken()
        return Look(
            self.found,
            news,
            tuple(new),
            tuple(self.w.error(error) for error in self.follower.waiting.values()),
            taken / whole if self.follower.behind and whole else 1.0,
            self.alarm.open,
            fresh,
        )

    def _judge(self) -> tuple[Told, ...]:
        from playbook.workflow.ingest import look

        run = self.follower.run()
        if run is None:
            return ()
        self.found = found = look(run, self.library.book, ended=False)
        news = self.alarm.begin_anew(self.follower.begun_anew(), found)
        news += self.alarm.look(found, self.follower.known_from(run))
        return tuple(self._tell(item, found) for item in news)

    def _tell(self, item: Any, found: Ingested) -> Told:
        from playbook.workflow.watching.watch import diagnosed

        evidence = item.evidence
        entry = self.library.book.symptoms.get(evidence.state)
        aid: tuple[str, ...] = ()
        if item.kind in ("incident", "changed"):
            aid = tuple(diagnosed(evidence, found, self.library)[1].first_aid[:3])
        title = entry.title if entry is not None else evidence.state
        return Told(item.kind, item.number, title, evidence.step, item.because or evidence.because, aid)
