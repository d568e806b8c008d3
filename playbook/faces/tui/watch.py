"""Follow a live file: read it again as it grows, show the curve, and say the moment an incident begins.

A reading waits at least a few times as long as the last one took, so that a large file does not keep a core busy.
"""

from __future__ import annotations

import os
import threading
import time
from pathlib import PurePath
from typing import TYPE_CHECKING, ClassVar

from textual import on, work
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.content import Content
from textual.message import Message
from textual.widgets import Static

from playbook.errors import PlaybookError
from playbook.faces.tui.base import Page
from playbook.faces.tui.curve import CurveView
from playbook.faces.tui.desk import marks
from playbook.faces.tui.widgets import Hint, Line, TopLine, paragraphs

if TYPE_CHECKING:
    from playbook.knowledge.loader import Book
    from playbook.workflow.ingest import Ingested

EVERY = 1.0  # seconds between two looks at the size of the file
PATIENCE = 4.0  # a reading may take a fifth of the time at most


class Watch(Page):
    """`Watch()` asks for a path (or takes the files of the desk), `Watch(paths)` begins at once."""

    HINTS: ClassVar[tuple[Hint, ...]] = (
        ("Enter", "diagnose now", "diagnose"),
        ("space", "pause", "pause"),
        ("m", "metric", ""),
        ("z", "whole run", ""),
        ("q", "leave", "leave"),
    )
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("enter", "diagnose", "Diagnose what is there now", show=False),
        Binding("space", "pause", "Pause", show=False),
        Binding("escape", "leave", "Back", show=False),
    ]
    AUTO_FOCUS = ""

    class Read(Message):
        def __init__(self, found: Ingested | None, fault: str, seconds: float) -> None:
            super().__init__()
            self.found, self.fault, self.seconds = found, fault, seconds

    def __init__(self, paths: tuple[str, ...] = ()) -> None:
        super().__init__()
        self.paths = paths
        self.found: Ingested | None = None
        self.fault = ""
        self.paused = False
        self.alarmed = False
        self._seen: tuple[int, ...] = ()
        self._stop = threading.Event()
        self._busy = False
        self._not_before = 0.0

    def body(self) -> ComposeResult:
        yield Line(placeholder=self.w("path of a file that grows"), id="path")
        yield Static("", id="verdict", markup=False)
        yield CurveView(self.w, id="curve")

    def on_mount(self) -> None:
        if not self.paths and self.top.desk is not None:
            self.paths = self.top.desk.paths
        self.query_one(TopLine).show([("playbook", "bold $accent"), (self.w("Watch"), "bold")])
        self._begin()
        self.set_interval(EVERY, self.look)

    def _begin(self) -> None:
        line = self.query_one("#path", Line)
        line.display = not self.paths
        if self.paths:
            names = ", ".join(PurePath(p).name for p in self.paths)
            self.query_one(TopLine).show([("playbook", "bold $accent"), (self.w("Watch"), "bold"), (names, "")])
            self.set_focus(self.query_one(CurveView))
            self.look()
        else:
            self.set_focus(line)
        self._draw()

    @on(Line.Submitted)
    def _typed(self, event: Line.Submitted) -> None:
        if event.value.strip():
            self.paths = (os.path.abspath(os.path.expanduser(event.value.strip())),)  # noqa: PTH100, PTH111
            self._begin()

    def look(self) -> None:
        """Read again where something has changed."""
        if self.paused or self._busy or not self.paths or self.top.library is None:
            return
        sizes = tuple(_size(p) for p in self.paths)
        if sizes == self._seen or time.monotonic() < self._not_before:
            return
        self._seen, self._busy = sizes, True
        self._read(self.top.library.book)

    @work(thread=True, exit_on_error=False)
    def _read(self, book: Book) -> None:
        begin = time.perf_counter()
        found, fault = None, ""
        try:
            found = self.top.ingest_files(self.paths, book, None, self._stop)
        except PlaybookError as error:
            fault = str(error)
        except Exception as error:
            fault = f"{type(error).__name__}: {error}"
        self.post_message(self.Read(found, fault, time.perf_counter() - begin))

    @on(Read)
    def _read_done(self, event: Read) -> None:
        self._busy = False
        self._not_before = time.monotonic() + PATIENCE * event.seconds
        self.fault = event.fault
        if event.found is not None:
            whole = self.found is None or self._at_end()
            self.found = event.found
            self.query_one(CurveView).show(event.found.run, marks(event.found.run, event.found.evidence), whole=whole)
            if event.found.verdict == "incident" and not self.alarmed:
                self.alarmed = True
                self.app.bell()
        self._draw()

    def on_unmount(self) -> None:
        self._stop.set()

    def _at_end(self) -> bool:
        """Whether the whole run is in view, so that it should stay whole."""
        view = self.query_one(CurveView)
        return view.line is None or (view.first, view.last) == view.line.span

    def _draw(self) -> None:
        found, lines = self.found, []
        if self.fault:
            lines.append(Content.styled(f"! {self.fault}", "$warning"))
        if found is not None:
            symptom = found.symptom
            style = {"incident": "bold $error", "healthy": "bold $success", "undecided": "bold $warning"}[found.verdict]
            step = found.run.step_range()[1]
            head = Content.assemble((self.w(found.verdict), style))
            if step is not None:
                head = head + Content.styled(f"  {self.w('step')} {step:,}", "$foreground-muted")
            lines.append(head)
            if symptom is not None and self.top.library is not None:
                book = self.top.library.book
                entry = book.symptoms.get(symptom.state)
                at = f" {self.w('from step {step}', step=symptom.step)}" if symptom.step is not None else ""
                lines.append(Content.styled(f"{entry.title if entry else symptom.state}{at}", "bold"))
                lines.append(Content(symptom.because))
        elif self.paths and not self.fault:
            lines.append(Content.styled(self.w("waiting for the first lines"), "$foreground-muted"))
        if self.paused:
            lines.append(Content.styled(self.w("paused"), "$warning"))
        self.query_one("#verdict", Static).update(paragraphs(lines))

    def action_pause(self) -> None:
        self.paused = not self.paused
        self._draw()

    def action_diagnose(self) -> None:
        if self.paths:
            self.top.leave()
            self.top.open_files(self.paths)


def _size(path: str) -> int:
    """Bytes, and the time of the last change where the size stays (a file that is written anew)."""
    try:
        stat = os.stat(path)  # noqa: PTH116
    except OSError:
        return -1
    return stat.st_size ^ (stat.st_mtime_ns << 1)
