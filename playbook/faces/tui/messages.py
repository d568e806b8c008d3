"""What workers tell the app. A worker never touches a widget: it posts one of these, and a handler changes state."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from textual.message import Message

if TYPE_CHECKING:
    from datetime import datetime

    from playbook.errors import PlaybookError
    from playbook.workflow.book import Library
    from playbook.workflow.ingest import Ingested
    from playbook.workflow.records.similar import Similar


class BookReady(Message):
    """The book is loaded and compiled."""

    def __init__(self, library: Library) -> None:
        super().__init__()
        self.library = library


class Failed(Message):
    """Something could not be done. `job` is book, read, store or listing; `token` that of the reading."""

    def __init__(self, job: str, error: PlaybookError, token: int = 0) -> None:
        super().__init__()
        self.job, self.error, self.token = job, error, token


class Reading(Message):
    """A file is about to be read."""

    def __init__(self, name: str, token: int) -> None:
        super().__init__()
        self.name, self.token = name, token


class ReadDone(Message):
    """The files were read and looked at."""

    def __init__(self, found: Ingested, paths: tuple[str, ...], token: int, seconds: float = 0.0) -> None:
        super().__init__()
        self.found, self.paths, self.token, self.seconds = found, paths, token, seconds


class Listed(Message):
    """Open incidents, for the first page, the palette and the history."""

    def __init__(self, rows: list[dict[str, Any]]) -> None:
        super().__init__()
        self.rows = rows


class Alike(Message):
    """Incidents and cases that look like the desk as it was with these `facts`; `fault` of the store."""

    def __init__(self, facts: Any, found: tuple[Similar, ...], fault: str) -> None:
        super().__init__()
        self.facts, self.found, self.fault = facts, found, fault


class Learned(Message):
    """An answer of the quiz is kept, and `due` says when its card comes back; without it: is taken back, or (not
    `gone`) stays, because the card was answered elsewhere since then."""

    def __init__(self, item: str, due: datetime | None, gone: bool = False) -> None:
        super().__init__()
        self.item, self.due, self.gone = item, due, gone


class Stored(Message):
    """The store took it. `what` is recorded, updated, attached, closed or taken-up."""

    def __init__(self, what: str, incident: str, payload: Any = None) -> None:
        super().__init__()
        self.what, self.incident, self.payload = what, incident, payload


class Waiting(Message):
    """The store does not answer at once: somebody else writes."""
