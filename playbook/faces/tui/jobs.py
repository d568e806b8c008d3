"""The slow work, in threads: the book, reading files, the store. A job ends with one message and touches no widget.

Every job has a description: without one its arguments are written out as text, and that takes longer than an answer.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from textual import on, work
from textual.app import App

from playbook.errors import PlaybookError
from playbook.faces.tui import Options
from playbook.faces.tui import messages as say
from playbook.faces.tui.shop import Shop
from playbook.faces.words import words

if TYPE_CHECKING:
    from playbook.faces.tui.desk import Desk
    from playbook.knowledge.loader import Book
    from playbook.workflow.book import Library
    from playbook.workflow.ingest import Ingested
    from playbook.workflow.learning.drill import Game
    from playbook.workflow.learning.quiz import Deck
    from playbook.workflow.learning.quiz_cards import Card
    from playbook.workflow.learning.quiz_marks import Mark

WAIT = 0.7  # seconds after which a store that does not answer is spoken of
PATIENCE = 10  # seconds that the store itself waits for another writer (`incidents.database.BUSY_SECONDS`)

Ingest = Callable[..., "Ingested"]
OpenBook = Callable[[], "Library"]


class Jobs(App[None]):
    """`read_token` is the number of the latest reading: what an older one brings is thrown away."""

    def __init__(self, options: Options, shop: Shop | None, ingest: Ingest | None, open_book: OpenBook | None) -> None:
        super().__init__()
        self.options = options
        self.shop = shop or Shop(options.db)
        self.read_token = 0
        self.given_up = threading.Event()
        self.w = words(options.lang)
        self.deck: Deck | None = None  # of the quiz, made when it is first wanted
        self.game: Game | None = None  # the drill that was not played to its end
        self._ingest, self._open_book = ingest, open_book
        self._later: Callable[[], object] | None = None

    def later(self, act: Callable[[], object]) -> None:
        """What a key wanted before the book was there; the last wish is done once it is."""
        self._later = act
        self.notify(self.w("reading the book ..."), timeout=2)

    def do_later(self) -> None:
        """The book is there."""
        act, self._later = self._later, None
        if act is not None:
            self.call_after_refresh(act)

    @on(say.Waiting)
    def _waiting(self) -> None:
        text = self.w("the incident store is in use elsewhere: waiting for it, {n} s at most", n=PATIENCE)
        self.notify(text, severity="warning", markup=False, timeout=4)

    @work(thread=True, group="book", exit_on_error=False, description="load_book")
    def load_book(self) -> None:
        """Read and compile the book; then load what the first answer needs, while the person reads the first page."""
        try:
            if self._open_book is not None:
                library = self._open_book()
            else:
                from playbook.workflow.book import open_book

                library = open_book(self.options.packs, lang=self.w.code)
            _ = library.tables
            import playbook.workflow.session
        except PlaybookError as error:
            self.post_message(say.Failed("book", error))
            return
        self.post_message(say.BookReady(library))
        import playbook.faces.tui.diagnosis
        import playbook.workflow.ingest  # noqa: F401

    @work(thread=True, group="read", exit_on_error=False, description="read_files")
    def read_files(self, paths: tuple[str, ...], book: Book, token: int, stop: threading.Event) -> None:
        """Read and look; a fault of a file and a fault of ours both end as one line."""
        begin = time.perf_counter()
        where = ", ".join(paths)

        def began(name: str) -> None:
            self.post_message(say.Reading(name, token))

        try:
            found = self.ingest_files(paths, book, began, stop)
        except PlaybookError as error:
            self.post_message(say.Failed("read", error, token))
        except MemoryError:
            large = PlaybookError(where, "is too large for the memory of this machine", "cut it, or read a part")
            self.post_message(say.Failed("read", large, token))
        except Exception as error:
            ours = PlaybookError(where, f"cannot be read: {_line(error)}", "please report this file")
            self.post_message(say.Failed("read", ours, token))
        else:
            self.post_message(say.ReadDone(found, paths, token, time.perf_counter() - begin))

    def ingest_files(
        self, paths: tuple[str, ...], book: Book, progress: Callable[[str], None] | None, stop: threading.Event
    ) -> Ingested:
        """Here where it is quick; in a process of its own where it is not. Blocks: call it in a worker."""
        if self._ingest is not None:
            return self._ingest(paths, book, progress=progress)
        from playbook.workflow import apart
        from playbook.workflow.ingest import ingest

        if self._open_book is not None or apart.size_of(paths) < apart.LARGE:
            return ingest(paths, book, progress=progress)
        return apart.ingest_apart(paths, self.options.packs, self.w.code, progress, stop)

    @work(thread=True, group="listing", exclusive=True, exit_on_error=False, description="list_incidents")
    def list_incidents(self, query: str = "", status: str | None = None) -> None:
        self._store(lambda: say.Listed(self.shop.listing(query, status)), "listing")

    @work(thread=True, group="similar", exclusive=True, exit_on_error=False, description="find_similar")
    def find_similar(self, desk: Desk) -> None:
        """`desk` is a copy. A store that does not answer costs the incidents, not the diagnosis."""
        try:
            found, fault = self.shop.similar(desk)
        except Exception as error:
            found, fault = [], _line(error)
        self.post_message(say.Alike(desk.facts, tuple(found), fault))

    @work(thread=True, group="store", exit_on_error=False, description="record_desk")
    def record_desk(self, desk: Desk, title: str | None) -> None:
        self._store(lambda: self._recorded(desk, title))

    def _recorded(self, desk: Desk, title: str | None) -> say.Stored:
        what = "updated" if desk.incident else "recorded"
        return say.Stored(what, self.shop.record(desk, title), desk.name)

    @work(thread=True, group="learn", exit_on_error=False, description="learn")
    def learn(self, card: Card, said: Mark, now: datetime, seconds: float, easy: bool) -> None:
        self._store(lambda: say.Learned(card.id, self.shop.learn(card, said, now, seconds, easy)))

    @work(thread=True, group="learn", exit_on_error=False, description="unlearn")
    def unlearn(self, item: str) -> None:
        """Take the answer that was given last back."""
        self._store(lambda: say.Learned(item, None, self.shop.progress().take_back() is not None))

    @work(thread=True, group="store", exit_on_error=False, description="take_up")
    def take_up(self, incident: str) -> None:
        def job() -> say.Stored:
            taken = self.shop.take_up(incident)
            return say.Stored("taken-up", taken.incident, taken)

        self._store(job)

    @work(thread=True, group="store", exit_on_error=False, description="attach")
    def attach(self, incident: str, files: list[Path], links: list[str], note: str, book: Book) -> None:
        def job() -> say.Stored:
            self.shop.attach(incident, files, links, note, book)
            return say.Stored("attached", incident)

        self._store(job)

    @work(thread=True, group="store", exit_on_error=False, description="close_incident")
    def close_incident(
        self, desk: Desk, title: str | None, cause: str | None, by: str, fixes: list[str], note: str, book: Book
    ) -> None:
        """Record what is on the desk (a copy of the app's) and close it with its confirmed cause."""

        def job() -> say.Stored:
            recorded = self._recorded(desk, title)
            # Told before closing: a store that locks now must not lead to a second incident at the next try.
            self.post_message(recorded)
            self.shop.close(recorded.incident, cause, by, fixes, note, book)
            return say.Stored("closed", recorded.incident, desk.name)

        self._store(job)

    def _store(self, job: Callable[[], Any], name: str = "store") -> None:
        """Run a job of the store and say how it ended; and at once when it is not done at once."""
        watch = threading.Timer(WAIT, lambda: self.post_message(say.Waiting()))
        watch.daemon = True
        if name == "store":
            watch.start()
        try:
            self.post_message(job())
        except PlaybookError as error:
            self.post_message(say.Failed(name, error))
        except Exception as error:
            ours = PlaybookError(self.shop.db or "the incident store", _line(error), "the session is kept; try again")
            self.post_message(say.Failed(name, ours))
        finally:
            watch.cancel()


def _line(error: Exception) -> str:
    """The kind and the first line of an error that nobody foresaw."""
    text = str(error).strip().splitlines()
    return f"{type(error).__name__}: {text[0][:200]}" if text else type(error).__name__
