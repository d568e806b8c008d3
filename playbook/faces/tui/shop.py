"""Where the terminal meets the incident store: one object, so that tests can put another in its place.

Everything is imported when it is called: a session without a store never loads a database.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from playbook.faces.tui.desk import Desk
    from playbook.knowledge.loader import Book
    from playbook.workflow.ingest import Ingested
    from playbook.workflow.learning.progress import Progress
    from playbook.workflow.learning.quiz_cards import Card
    from playbook.workflow.learning.quiz_marks import Mark
    from playbook.workflow.records.similar import Similar
    from playbook.workflow.session import Move


@dataclass(frozen=True)
class Taken:
    """A recorded incident, ready for the desk."""

    incident: str
    title: str
    status: str
    moves: tuple[Move, ...]
    aid_done: tuple[str, ...]
    size: Any
    found: Ingested | None


@dataclass
class Shop:
    """The store behind `--db`. Every method may raise `PlaybookError` and may take a while: call it in a worker."""

    db: str | None = None
    fuzz: bool = True  # spread the due dates of the quiz a little
    _progress: Progress | None = field(default=None, repr=False)

    def listing(self, query: str = "", status: str | None = None, limit: int = 200) -> list[dict[str, Any]]:
        """Summaries, newest first; nothing where no store was ever made."""
        from playbook.workflow.records.shelf import is_there, shelf

        if not is_there(self.db):
            return []
        from playbook.incidents.store import Filter

        with shelf(self.db) as store:
            return store.summaries(Filter(status=status, query=query, limit=limit))

    def similar(self, desk: Desk) -> tuple[list[Similar], str]:
        """(what looked like this before, a fault of the store in words)."""
        from playbook.workflow.records.similar import similar

        return similar(desk.session, self.db, [desk.incident] if desk.incident else [])

    def progress(self) -> Progress:
        """The learner's progress, always the same object: it knows which answers may be taken back."""
        from playbook.workflow.learning.progress import Progress

        self._progress = self._progress or Progress(self.db, fuzz=self.fuzz)
        return self._progress

    def learn(self, card: Card, said: Mark, now: datetime, seconds: float, easy: bool) -> datetime:
        """Keep an answer of the quiz; when the card comes back."""
        from playbook.workflow.learning.quiz import take

        return take(self.progress(), card, said, now, seconds, easy)

    def record(self, desk: Desk, title: str | None) -> str:
        """Store the desk as a new incident, or write it into the one that it came from."""
        from playbook.workflow.records import resume
        from playbook.workflow.records.record import record

        incident = desk.incident or record(desk.session, desk.found, desk.diagnosis, self.db, title)
        if desk.incident or desk.aid_done:
            resume.update(incident, desk.session, desk.diagnosis, desk.aid_done, self.db)
        return incident

    def take_up(self, incident: str) -> Taken:
        """An incident with its moves and its kept scene."""
        from playbook.workflow.records import resume

        record, found = resume.take_up(incident, self.db)
        aid = tuple(t.fix for t in record.treatments)
        moves = tuple(resume.moves_of_record(record))
        return Taken(record.id, record.title, record.status, moves, aid, resume.size_of_record(record), found)

    def attach(self, incident: str, files: Sequence[Path], links: Sequence[str], note: str, book: Book) -> None:
        from playbook.workflow.records.incident import Attached, attach

        attach(incident, Attached(files=tuple(files), links=tuple(links), note=note), book, self.db)

    def close(self, incident: str, cause: str | None, by: str, fixes: Sequence[str], note: str, book: Book) -> None:
        """`cause` None closes it as a false alarm."""
        from playbook.workflow.records.incident import Closing, close

        said = Closing(cause=cause, by=by, false_alarm=cause is None, fixes=tuple(fixes), note=note)
        close(incident, said, book, self.db)
