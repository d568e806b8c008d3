"""The app: owns the one desk, changes it, keeps it on disk after every change, and opens pages from the table.

Workers post messages, the handlers here change state, pages listen to `desk_changed` and draw.
"""

from __future__ import annotations

import gc
import os
import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, ClassVar

from textual import on
from textual.app import get_system_commands_provider
from textual.binding import Binding, BindingType
from textual.signal import Signal

from playbook.errors import PlaybookError
from playbook.faces.tui import Options, registry, settings, themes
from playbook.faces.tui import messages as say
from playbook.faces.tui.jobs import Ingest, Jobs, OpenBook
from playbook.faces.tui.shop import Shop, Taken

if TYPE_CHECKING:
    from playbook.faces.tui.desk import Desk
    from playbook.workflow.book import Library
    from playbook.workflow.ingest import Ingested
    from playbook.workflow.records.kept import Kept


def _palette() -> Any:
    from playbook.faces.tui.palette import BookProvider

    return BookProvider


def _now() -> datetime:
    return datetime.now(UTC)


class PlaybookApp(Jobs):
    """`desk` is None until a run is opened or a symptom is named."""

    TITLE = "playbook"
    CSS_PATH = "style.tcss"
    COMMANDS: ClassVar[set[Any]] = {get_system_commands_provider, _palette}
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("ctrl+c", "copy_or_quit", "Copy the selection, else quit", show=False, priority=True),
        Binding("ctrl+q", "quit", "Quit", show=False, priority=True),
        *(
            Binding(f"{e.key},f1" if e.name == "help" else e.key, f"open('{e.name}')", e.command, show=False)
            for e in registry.SCREENS
            if e.key
        ),
    ]

    def __init__(
        self,
        options: Options = Options(),  # noqa: B008
        shop: Shop | None = None,
        ingest: Ingest | None = None,
        open_book: OpenBook | None = None,
        clock: Callable[[], datetime] = _now,
    ) -> None:
        super().__init__(options, shop, ingest, open_book)
        self.clock = clock
        self.settings = settings.load() if options.remember else settings.Settings(greeted=True)
        self.library: Library | None = None
        self.book_error: PlaybookError | None = None
        self.desk: Desk | None = None
        self.incidents: list[dict[str, Any]] = []
        self.kept_error = ""
        self.desk_changed: Signal[Desk] = Signal(self, "desk")
        self.book_changed: Signal[None] = Signal(self, "book")
        self.alike: Signal[Desk] = Signal(self, "alike")
        self.learned: Signal[say.Learned] = Signal(self, "learned")
        self.listed: Signal[None] = Signal(self, "listed")
        self._reading_for: Desk | None = None
        self._sessions = 0
        self._begun = False
        for theme in themes.OURS:
            self.register_theme(theme)
        wanted = options.theme or self.settings.theme
        self.theme = wanted if wanted in self.available_themes else settings.DEFAULT_THEME

    def on_mount(self) -> None:
        self.theme_changed_signal.subscribe(self, self._theme_changed)
        self.push_screen(registry.make("welcome"))

    def painted(self) -> None:
        """The first page is on the terminal: only now the book is read, so that the page does not wait for it."""
        if not self._begun:
            self._begun = True
            self.load_book()

    def _theme_changed(self, theme: Any) -> None:
        self.remember(theme=theme.name)

    def remember(self, **values: Any) -> None:
        """Change a setting and write it."""
        self.settings = replace(self.settings, **values)
        if self.options.remember:
            settings.save(self.settings)

    # pages

    def action_open(self, name: str) -> None:
        """Open a page of the table over this one."""
        entry = registry.BY_NAME[name]
        if entry.needs and self.library is None and self.book_error is None:
            self.later(lambda: self.action_open(name))
            return
        if (entry.needs == "desk" and self.desk is None) or (entry.needs and self.library is None):
            self.bell()
            return
        if type(self.screen).__name__ != entry.attribute:
            self.push_screen(registry.make(name))

    def leave(self) -> None:
        """One page back; from the first one, out."""
        if len(self.screen_stack) > 2:
            self.pop_screen()
        else:
            self.exit()

    def action_copy_or_quit(self) -> None:
        if text := self.screen.get_selected_text():
            self.copy_to_clipboard(text)
        else:
            self.exit()

    def tell(self, text: str, severity: Any = "information") -> None:
        """A word in the corner."""
        self.notify(text, severity=severity, markup=False, timeout=4)

    def problem(self, error: PlaybookError) -> None:
        """A fault that the person must see: where, what, how to mend it."""
        from playbook.faces.tui.dialogs import Problem

        self.push_screen(Problem(error))

    # jobs that ended

    @on(say.BookReady)
    def _book_ready(self, message: say.BookReady) -> None:
        self.library = message.library
        # The book never goes away: without it a collection of garbage takes no longer than a frame.
        gc.freeze()
        self.book_changed.publish(None)
        self.list_incidents(status="open")
        if self.options.paths and self.options.follow:
            self.push_screen(registry.make("watch", self.options.paths))
        elif self.options.paths:
            self.open_files(self.options.paths)
        else:
            self.do_later()

    @on(say.Failed)
    def _failed(self, message: say.Failed) -> None:
        if message.job == "listing":
            self.kept_error = str(message.error)
            self.listed.publish(None)
            return
        if message.job == "read":
            if message.token != self.read_token:
                return
            self._close_reading()
            desk = self._reading_for
            if desk is not None and desk is self.desk and desk.found is None and desk.session.moves:
                desk.note = str(message.error)
                self.desk_changed.publish(desk)
        if message.job == "book":
            self.book_error = message.error
            self.book_changed.publish(None)
        self.problem(message.error)

    @on(say.Reading)
    def _reading(self, message: say.Reading) -> None:
        from playbook.faces.tui.dialogs import ReadingDialog

        if message.token == self.read_token and isinstance(self.screen, ReadingDialog):
            self.screen.now(message.name)

    @on(say.ReadDone)
    def _read_done(self, message: say.ReadDone) -> None:
        if message.token != self.read_token or self.library is None:
            return
        self._close_reading()
        desk, fresh = self._reading_for, False
        if desk is None:
            desk, fresh = self._new_desk(), True
            self.remember(recent=settings.opened(self.settings, message.paths).recent)
        desk.put_observed(message.found, message.paths)
        desk.note = ""
        desk.judge()
        if fresh:
            desk.shares = desk.now()  # a first judgement is no movement
        if fresh or desk is self.desk:
            self.put_on_desk(desk)

    @on(say.Listed)
    def _listed(self, message: say.Listed) -> None:
        self.incidents, self.kept_error = message.rows, ""
        self.listed.publish(None)

    @on(say.Learned)
    def _learned(self, message: say.Learned) -> None:
        self.learned.publish(message)

    @on(say.Alike)
    def _alike(self, message: say.Alike) -> None:
        desk = self.desk
        if desk is not None and desk.facts == message.facts:
            desk.similar, desk.similar_fault = message.found, message.fault
            self.alike.publish(desk)

    @on(say.Stored)
    def _stored(self, message: say.Stored) -> None:
        desk = self.desk
        if message.what == "taken-up":
            self._take(message.payload)
            return
        if desk is not None and message.payload == desk.name:
            desk.incident = message.incident
            if message.what == "closed":
                self.forget(desk.name)
            else:
                self.keep()
            self.desk_changed.publish(desk)
        says = {
            "recorded": self.w("recorded as incident {id}", id=message.incident),
            "updated": self.w("written into incident {id}", id=message.incident),
            "attached": self.w("attached to incident {id}", id=message.incident),
            "closed": self.w("incident {id} is closed", id=message.incident),
        }
        self.tell(says[message.what])
        self.list_incidents(status="open")

    # the desk

    def open_files(
        self, paths: tuple[str, ...], into: Desk | None = None, quiet: bool = False, found: Ingested | None = None
    ) -> None:
        """Read files in a worker (unless `found` is there); they make a new desk, or say more about that of `into`."""
        if self.library is None:
            self.later(lambda: self.open_files(paths, into, quiet, found))
            return
        self.cancel_reading()
        self._reading_for = into
        whole = tuple(os.path.abspath(os.path.expanduser(p)) for p in paths)  # noqa: PTH100, PTH111 globs stay globs
        if found is not None:
            self.post_message(say.ReadDone(found, whole, self.read_token))
            return
        if not quiet:
            from playbook.faces.tui.dialogs import ReadingDialog

            self.push_screen(ReadingDialog(whole))
        self.read_files(whole, self.library.book, self.read_token, self.given_up)

    def cancel_reading(self) -> None:
        """A process that reads is ended; what a thread still brings is thrown away."""
        self.given_up.set()
        self.given_up = threading.Event()
        self.read_token += 1

    def _close_reading(self) -> None:
        from playbook.faces.tui.dialogs import ReadingDialog

        for screen in self.screen_stack[::-1]:
            if isinstance(screen, ReadingDialog) and screen is self.screen:
                self.pop_screen()

    def _new_desk(self) -> Desk:
        from playbook.faces.tui.desk import Desk
        from playbook.workflow.session import Session

        assert self.library is not None
        self._sessions += 1
        name = f"{self.clock():%Y%m%dT%H%M%S}-{os.getpid()}-{self._sessions}"
        return Desk(Session(self.library.book, self.library.tables), name)

    def start_with(self, symptom: str) -> None:
        """A diagnosis without files: from what a person sees."""
        from playbook.engine.tables import SHAPE

        if self.library is None:
            self.later(lambda: self.start_with(symptom))
            return
        desk = self._new_desk()
        try:
            desk.session.answer(SHAPE, symptom, free=True)
        except PlaybookError as error:
            self.problem(error)
            return
        desk.judge()
        desk.shares = desk.now()
        self.put_on_desk(desk)

    def put_on_desk(self, desk: Desk) -> None:
        """Show this diagnosis."""
        self.desk = desk
        self.keep()
        if any(type(s).__name__ == "DiagnosisPage" for s in self.screen_stack):
            self.desk_changed.publish(desk)
        else:
            self.push_screen(registry.make("diagnosis"))

    def go_on(self, kept: Kept) -> None:
        """An unfinished diagnosis from disk; its files are read again where they are still there."""
        from playbook.faces.tui import keeping

        desk = self._new_desk()
        missing = keeping.from_kept(desk, kept)
        if missing:
            names = ", ".join(missing[:3])
            desk.note = self.w("{names} is gone: what was seen in it is kept, the curve is not", names=names)
        self.put_on_desk(desk)
        if kept.paths and not missing:
            self.open_files(kept.paths, into=desk, quiet=True)

    def _take(self, taken: Taken) -> None:
        from playbook.faces.tui import keeping

        desk = self._new_desk()
        keeping.from_taken(desk, taken)
        self.put_on_desk(desk)

    def change(self, text: str, act: Callable[[Desk], object]) -> None:
        """Do something to the desk, think again, keep it, tell the pages."""
        desk = self.desk
        if desk is None:
            return
        try:
            act(desk)
        except PlaybookError as error:
            self.problem(error)
            return
        desk.judge(text)
        self.keep()
        self.desk_changed.publish(desk)

    def answer(self, signal: str, state: str, source: str = "person") -> None:
        self.change(f"{signal} = {state}", lambda desk: desk.session.answer(signal, state, source))

    def retract(self, signal: str) -> None:
        self.change(f"- {signal}", lambda desk: desk.session.retract(signal))

    def undo(self) -> None:
        if self.desk is None or all(m.kind == "observed" for m in self.desk.session.moves):
            self.tell(self.w("nothing to take back"))
            return
        self.change(self.w("undo"), lambda desk: desk.session.undo())

    def redo(self) -> None:
        if self.desk is None or not self.desk.session.undone:
            self.tell(self.w("nothing to do again"))
            return
        self.change(self.w("redo"), lambda desk: desk.session.redo())

    def ask(self, signal: str | None) -> None:
        """Put another question first."""
        desk = self.desk
        if desk is not None:
            desk.asked = signal
            self.keep()
            self.desk_changed.publish(desk)

    def tick_aid(self, fix: str) -> None:
        desk = self.desk
        if desk is not None and fix not in desk.aid_done:
            desk.aid_done = (*desk.aid_done, fix)
            self.keep()
            self.desk_changed.publish(desk)

    def keep(self) -> None:
        """Write the session to disk; a disk that refuses is told once."""
        desk = self.desk
        if desk is None or not self.options.remember:
            return
        from playbook.faces.tui import keeping

        try:
            keeping.write(desk, self.clock())
        except PlaybookError as error:
            if not self.kept_error:
                self.kept_error = self.w.error(error)
                self.tell(self.kept_error, "warning")

    def forget(self, name: str) -> None:
        """The session is finished: it need not be offered again."""
        from playbook.workflow.records import kept

        with suppress(OSError):
            kept.drop(name)
