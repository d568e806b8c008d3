"""Follow files that grow: the curve as it is drawn, the verdict, and what is news, with first aid at once.

Looks are made in a worker, one after the other; a look waits a few times as long as the last one took, so that it
does not keep a core busy. What was seen stays on the screen when the file goes away.
"""

from __future__ import annotations

import os
import time
from datetime import datetime
from pathlib import PurePath
from typing import TYPE_CHECKING, Any, ClassVar

from rich.cells import cell_len
from textual import events, on, work
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.content import Content
from textual.message import Message
from textual.widgets import Static

from playbook.faces.tui import registry
from playbook.faces.tui.base import Page
from playbook.faces.tui.curve import CurveView
from playbook.faces.tui.desk import marks
from playbook.faces.tui.panes import AidPanel
from playbook.faces.tui.tail import Look, Tail, Told
from playbook.faces.tui.widgets import Hint, Line, Rows, TopLine, fit, paragraphs, rule

if TYPE_CHECKING:
    from playbook.knowledge.entries import Fix
    from playbook.workflow.ingest import Ingested

EVERY = 1.0  # seconds between two looks
PATIENCE = 4.0  # times that the last look took: a look may cost a fifth of the time at most
MOST = 200  # pieces of news that are kept
_WORDS = {"incident": "INCIDENT", "changed": "now it is", "again": "again", "over": "over", "fault": "note"}
_STYLES = {"incident": "bold $error", "changed": "bold $warning", "again": "$warning", "over": "$success"}


class Watch(Page):
    """`Watch()` asks for a path (or takes the files of the desk), `Watch(paths)` begins at once."""

    HINTS: ClassVar[tuple[Hint, ...]] = (
        ("Enter", "diagnose now", "diagnose"),
        ("space", "pause", "pause"),
        ("o", "another path", "path"),
        ("m", "metric", "metric"),
        ("?", "keys", "app.open('help')"),
        ("q", "leave", "leave"),
    )
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("enter", "diagnose", "Diagnose what is there now", show=False),
        Binding("space", "pause", "Pause", show=False),
        Binding("o,slash", "path", "Watch another path", show=False),
        Binding("a", "aid", "First aid is done", show=False),
        Binding("A", "read_aid", "Read the first aid", show=False),
        Binding("escape", "leave", "Back", show=False),
    ]
    AUTO_FOCUS = ""

    class Looked(Message):
        def __init__(self, tail: Tail, look: Look, seconds: float) -> None:
            super().__init__()
            self.tail, self.look, self.seconds = tail, look, seconds

    def __init__(self, paths: tuple[str, ...] = ()) -> None:
        super().__init__()
        self.paths = paths
        self.tail: Tail | None = None
        self.last = Look()
        self.news: list[tuple[datetime, Told]] = []
        self.aid: list[Fix] = []
        self.paused = False
        self._busy = False
        self._not_before = 0.0

    @property
    def found(self) -> Ingested | None:
        return self.last.found

    def body(self) -> ComposeResult:
        yield Line(placeholder=self.w("path of a file or a folder that grows"), id="path")
        yield AidPanel(self.w)
        yield Static("", id="verdict", markup=False)
        yield CurveView(self.w, id="curve")
        yield Rows(id="news")

    def on_mount(self) -> None:
        if not self.paths and self.top.desk is not None:
            self.paths = self.top.desk.paths
        self._begin()
        self.set_interval(EVERY, self.look)

    def on_resize(self, event: events.Resize) -> None:
        super().on_resize(event)
        self.call_after_refresh(self._draw)

    def _begin(self) -> None:
        self.tail, self.last, self.news, self.aid = None, Look(), [], []
        self.query_one("#path").display = not self.paths
        self.query_one(CurveView).show(None, ())
        if self.paths:
            self.set_focus(self.query_one(CurveView))
            self.look()
        else:
            self.set_focus(self.query_one("#path"))
        self._draw()

    @on(Line.Submitted)
    def _typed(self, event: Line.Submitted) -> None:
        if event.value.strip():
            self.paths = (os.path.abspath(os.path.expanduser(event.value.strip())),)  # noqa: PTH100, PTH111
            self._not_before = 0.0
            self._begin()

    # looking

    def look(self) -> None:
        """Send a worker to look, unless one is still there."""
        library = self.top.library
        if self.paused or self._busy or not self.paths or library is None or time.monotonic() < self._not_before:
            return
        if self.tail is None:
            self.tail = Tail(self.paths, library, self.w)
        self._busy = True
        self._look(self.tail)

    @work(thread=True, exit_on_error=False, description="look")
    def _look(self, tail: Tail) -> None:
        begin = time.perf_counter()
        try:
            look = tail.look()
        except Exception as error:
            look = Look(tail.found, faults=(f"{type(error).__name__}: {error}",))
        self.post_message(self.Looked(tail, look, time.perf_counter() - begin))

    @on(Looked)
    def _looked(self, event: Looked) -> None:
        self._busy = False
        if event.tail is not self.tail:  # of the path before
            self.look()
            return
        look, before = event.look, self.last
        self.last = look
        now = self.top.clock()
        told = [*(Told("fault", 0, fault, None, "") for fault in look.faults), *look.news]
        self.news = [*((now, item) for item in reversed(told)), *self.news][:MOST]
        if look.found is not None and look.fresh:
            whole = before.found is None or self._at_end()
            found = look.found
            self.query_one(CurveView).show(found.run, marks(found.run, found.evidence), whole=whole)
        for item in look.news:
            if item.aid and self.top.library is not None:
                self.aid = [self.top.library.book.fixes[name] for name in item.aid]
            if item.kind == "incident":
                self.app.bell()
        if not look.open and all(item.kind == "over" for item in look.news) and look.news:
            self.aid = []
        self._draw()
        if look.share < 1:
            self.look()
        else:
            self._not_before = time.monotonic() + PATIENCE * event.seconds

    def _at_end(self) -> bool:
        """Whether the whole run is in view, so that it should stay whole."""
        view = self.query_one(CurveView)
        return view.line is None or (view.first, view.last) == view.line.span

    # drawing

    def _draw(self) -> None:
        if not self.is_mounted:
            return
        self._top_line()
        self.query_one(AidPanel).show(self.aid)
        found, look = self.found, self.last
        lines: list[Content] = []
        if found is not None:
            style = {"incident": "bold $error", "healthy": "bold $success", "undecided": "bold $warning"}[found.verdict]
            symptom = found.symptom
            head = Content.styled(self.w(found.verdict), style)
            if symptom is not None and self.top.library is not None:
                entry = self.top.library.book.symptoms.get(symptom.state)
                at = f" {self.w('from step {step}', step=f'{symptom.step:,}')}" if symptom.step is not None else ""
                head = head + Content.styled(f"  {entry.title if entry else symptom.state}{at}", "bold")
            lines.append(head)
            if symptom is not None:
                lines.append(Content.styled(self.w.say(symptom.because), "$foreground-muted"))
        elif self.paths and not look.waiting:
            lines.append(Content.styled(self.w("waiting for the first lines"), "$foreground-muted"))
        lines += [Content.styled(f"! {why}", "$warning") for why in look.waiting[:3]]
        self.query_one("#verdict", Static).update(paragraphs(lines))
        self._show_news()

    def _top_line(self) -> None:
        names = ", ".join(PurePath(path).name for path in self.paths)
        look, right = self.last, []
        if self.paused:
            right.append(self.w("paused"))
        elif look.share < 1:
            right.append(self.w("{share} read", share=f"{look.share:.0%}"))
        if look.found is not None:
            count, step = len(look.found.run.files), look.found.run.step_range()[1]
            right += [self.w("{n} files", n=count)] if count > 1 else []
            right += [f"{self.w('step')} {step:,}"] if step is not None else []
        left = [("playbook", "bold $accent"), (self.w("Watch"), "bold"), (names, "")]
        self.query_one(TopLine).show(left, (" · ".join(right), "bold" if self.paused else ""))

    def _show_news(self) -> None:
        rows = self.query_one("#news", Rows)
        rows.display = bool(self.paths)
        width = max(self.size.width - 4, 40)  # the list has no size while it is hidden
        shown: list[tuple[str, Content | str] | None] = []
        for place, (moment, item) in enumerate(self.news):
            head = f"{moment.astimezone():%H:%M:%S} "
            word = self.w(_WORDS[item.kind])
            at = f" {self.w('from step {step}', step=f'{item.step:,}')}" if item.step is not None else ""
            body = f"  {item.title}{at}" if item.kind != "fault" else f"  {self._nearer(item.title)}"
            line = fit(body, width - len(head) - cell_len(word))
            because = self.w.say(item.because)
            why = (
                fit(f"{self.w.colon}{because}", width - len(head) - Content(word + line).cell_length) if because else ""
            )
            shown.append(
                (
                    f"{len(self.news) - place}",
                    Content.assemble(
                        (head, "$foreground-muted"),
                        (word, _STYLES.get(item.kind, "$foreground-muted")),
                        line,
                        (why, "$foreground-muted"),
                    ),
                )
            )
        rows.fill(shown or [("", Content.styled(self.w("nothing happened yet"), "$foreground-muted"))])
        count = self.tail.alarm.count if self.tail is not None else 0
        rule(rows, self.w("News"), self.w.count(count, "1 incident", "{n} incidents") if count else "")

    def _nearer(self, text: str) -> str:
        """A message without the folders above what is watched: a long path would push its end off the screen."""
        for path in self.paths:
            text = text.replace(f"{PurePath(path).parent}{os.sep}", "")
        return text

    # what the person does

    def action_pause(self) -> None:
        self.paused = not self.paused
        self._draw()

    def action_path(self) -> None:
        line = self.query_one("#path", Line)
        line.display = True
        self.set_focus(line)

    def action_metric(self) -> None:
        self.query_one(CurveView).action_metric(1)

    def action_aid(self) -> None:
        self.aid = self.aid[1:]
        self._draw()

    @on(AidPanel.Pressed)
    def action_read_aid(self) -> None:
        if self.aid:
            self.app.push_screen(registry.make("browse", "fixes", self.aid[0].id))

    @on(Rows.OptionSelected)
    def _chosen(self, event: Any) -> None:
        self.action_diagnose()

    def action_diagnose(self) -> None:
        """What is on the screen goes on the desk at once: nobody waits for a file to be read again."""
        if self.found is not None:
            self.top.leave()
            self.top.open_files(self.paths, found=self.found)
