"""Boxes over a page: a problem, a reading in progress, one piece of evidence, files to add, record and attach."""

from __future__ import annotations

import time
from pathlib import Path, PurePath
from typing import ClassVar

from textual import events, on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.content import Content
from textual.widgets import Label, Static

from playbook.errors import PlaybookError
from playbook.faces.tui import files
from playbook.faces.tui.base import Dialog
from playbook.faces.tui.panes import source_of
from playbook.faces.tui.widgets import Hint, Hints, Line, Rows, fit, paragraphs


class Problem(Dialog[None]):
    """One fault: where it is, what it is, how to mend it."""

    HINTS: ClassVar[tuple[Hint, ...]] = (("Esc", "close", "close"), ("y", "copy", "copy"))
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("enter,q", "close", "Close", show=False),
        Binding("y", "copy", "Copy the message", show=False),
    ]

    def __init__(self, error: PlaybookError) -> None:
        super().__init__()
        self.error = error

    def compose(self) -> ComposeResult:
        problem = self.error.problem
        place = f"{problem.where}:{problem.line}" if problem.line is not None else problem.where
        with Vertical(classes="box -error"):
            yield Static(
                paragraphs(
                    [
                        Content.styled(place, "bold"),
                        Content(self.w.say(problem.what)),
                        Content.styled(f"→ {self.w.say(problem.hint)}", "$success") if problem.hint else None,
                    ]
                ),
                id="text",
            )
            yield Hints(self.hints())

    def on_mount(self) -> None:
        self.query_one(".box").border_title = self.w("This did not work")

    def action_copy(self) -> None:
        self.app.copy_to_clipboard(self.w.error(self.error))
        self.top.tell(self.w("copied"))


class ReadingDialog(Dialog[None]):
    """A reading in progress; Esc gives up, the screen answers all the time."""

    HINTS: ClassVar[tuple[Hint, ...]] = (("Esc", "stop waiting", "close"),)

    def __init__(self, paths: tuple[str, ...]) -> None:
        super().__init__()
        self.paths = paths
        self.file = ", ".join(PurePath(p).name for p in paths[:3])
        self.begin = time.monotonic()
        self.total = _total(paths)

    def compose(self) -> ComposeResult:
        with Vertical(classes="box"):
            yield Static("", id="now", markup=False)
            yield Hints(self.hints())

    def on_mount(self) -> None:
        self.query_one(".box").border_title = self.w("Reading")
        self._draw()
        self.set_interval(0.2, self._draw)

    def now(self, name: str) -> None:
        """Another file has begun."""
        self.file = PurePath(name).name
        self._draw()

    def _draw(self) -> None:
        seconds = time.monotonic() - self.begin
        turn = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"[int(seconds * 5) % 10]
        size = f"  {files.size(self.total)}" if self.total else ""
        took = f"  {seconds:.0f} s" if seconds >= 1 else ""
        self.query_one("#now", Static).update(
            Content.assemble((f"{turn} ", "$accent"), fit(self.file, 44), (size + took, "$foreground-muted"))
        )

    def action_close(self) -> None:
        self.top.cancel_reading()
        self.dismiss(None)


def _total(paths: tuple[str, ...]) -> int:
    """Bytes of the files that are named; a folder or a glob counts nothing."""
    total = 0
    for path in paths:
        try:
            total += Path(path).stat().st_size if Path(path).is_file() else 0
        except OSError:
            continue
    return total


class EvidenceDialog(Dialog[None]):
    """One signal: what is known, where it was read, and the other outcomes to change it to."""

    HINTS: ClassVar[tuple[Hint, ...]] = (
        ("Enter", "change the answer", ""),
        ("x", "take it back", "retract"),
        ("b", "read", "read"),
        ("Esc", "close", "close"),
    )
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("x,delete", "retract", "Take it back", show=False),
        Binding("b", "read", "Read about the signal", show=False),
        Binding("q", "close", "Close", show=False),
    ]

    def __init__(self, signal: str) -> None:
        super().__init__()
        self.signal = signal

    def compose(self) -> ComposeResult:
        with Vertical(classes="box"):
            yield Static("", id="text", markup=False)
            yield Rows(id="states")
            yield Hints(self.hints())

    def on_mount(self) -> None:
        desk = self.top.desk
        assert desk is not None
        entry = desk.session.book.signals.get(self.signal)
        known = next((e for e in desk.session.evidence if e.signal == self.signal), None)
        self.query_one(".box").border_title = entry.title if entry else self.signal
        lines: list[Content | None] = [Content(entry.question) if entry else None]
        if known is not None:
            sure = "" if known.confidence >= 0.95 else f"  ({self.w('confidence')} {known.confidence:.2f})"
            lines += [
                Content.assemble((known.state, "bold $primary"), sure),
                Content.styled(source_of(known, self.w, file=True), "$foreground-muted"),
                Content.styled(known.origin.path, "$foreground-muted")
                if known.origin and "/" in known.origin.path
                else None,
                Content(self.w.say(known.because)) if known.because else None,
            ]
        else:
            lines.append(Content.styled(self.w("not known"), "$foreground-muted"))
        self.query_one("#text", Static).update(paragraphs(lines))
        rows: list[tuple[str, Content | str] | None] = []
        for place, (name, meaning) in enumerate((entry.outcomes if entry else {}).items(), 1):
            mark = "●" if known is not None and known.state == name else " "
            digit = str(place) if place <= 9 else "·"
            body = Content.assemble(
                (f"{digit} {mark} ", "$accent"), (name, "bold"), (f"  {meaning}", "$foreground-muted")
            )
            rows.append((name, body))
        states = self.query_one(Rows)
        states.fill(rows)
        if known is not None and entry is not None and known.state in entry.outcomes:
            states.highlighted = list(entry.outcomes).index(known.state)

    @on(Rows.OptionSelected)
    def _change(self, event: Rows.OptionSelected) -> None:
        self.dismiss(None)
        if event.option_id:
            self.top.answer(self.signal, event.option_id)

    def on_key(self, event: events.Key) -> None:
        if event.character and event.character in "123456789":
            self._digit(int(event.character) - 1)

    def _digit(self, place: int) -> None:
        rows = self.query_one(Rows)
        if place < rows.option_count:
            rows.highlighted = place
            rows.action_select()

    def action_retract(self) -> None:
        self.dismiss(None)
        self.top.retract(self.signal)

    def action_read(self) -> None:
        from playbook.faces.tui import registry

        self.dismiss(None)
        self.app.push_screen(registry.make("browse", "signals", self.signal))


class AddFiles(Dialog[tuple[str, ...]]):
    """Further files of the same run: a log beside the metrics, a configuration, the kernel log."""

    HINTS: ClassVar[tuple[Hint, ...]] = (("Enter", "read it", ""), ("Esc", "close", "close"))

    def compose(self) -> ComposeResult:
        from playbook.faces.tui.welcome import _Paths

        with Vertical(classes="box"):
            yield Label(self.w("A log, a configuration, a kernel log of the same run:"))
            yield Line(placeholder=self.w("path of a metrics file, a log or a folder"), suggester=_Paths())
            yield Hints(self.hints())

    def on_mount(self) -> None:
        self.query_one(".box").border_title = self.w("Add a file")

    @on(Line.Submitted)
    def _typed(self, event: Line.Submitted) -> None:
        self.dismiss((event.value.strip(),) if event.value.strip() else None)


class RecordDialog(Dialog[None]):
    """Store the diagnosis as an incident, or write it into the one that it came from."""

    HINTS: ClassVar[tuple[Hint, ...]] = (("Enter", "record", ""), ("Esc", "close", "close"))

    def compose(self) -> ComposeResult:
        with Vertical(classes="box"):
            yield Label(self.w("Title of the incident"))
            yield Line(id="title")
            yield Static("", id="text", markup=False)
            yield Hints(self.hints())

    def on_mount(self) -> None:
        desk = self.top.desk
        assert desk is not None
        self.query_one(".box").border_title = self.w("Record the incident")
        title = self.query_one("#title", Line)
        title.value = desk.title
        title.placeholder = desk.symptom_title or self.w("without a title")
        where = (
            self.w("It is written into incident {id}.", id=desk.incident)
            if desk.incident
            else self.w("Evidence, questions, costs, verdict and the scene around the onset are kept.")
        )
        self.query_one("#text", Static).update(Content.styled(where, "$foreground-muted"))

    @on(Line.Submitted)
    def _record(self, event: Line.Submitted) -> None:
        desk = self.top.desk
        self.dismiss(None)
        if desk is not None:
            desk.title = event.value.strip() or desk.title
            self.top.record_desk(desk.copy(), desk.title or None)


class AttachDialog(Dialog[None]):
    """A file, a link or a note for the recorded incident."""

    HINTS: ClassVar[tuple[Hint, ...]] = (("Enter", "attach", ""), ("Tab", "next field", ""), ("Esc", "close", "close"))

    def compose(self) -> ComposeResult:
        from playbook.faces.tui.welcome import _Paths

        with Vertical(classes="box"):
            yield Label(self.w("File or folder"))
            yield Line(id="file", suggester=_Paths())
            yield Label(self.w("Link (ticket, dashboard)"))
            yield Line(id="link", placeholder="https://")
            yield Label(self.w("Note"))
            yield Line(id="words")
            yield Hints(self.hints())

    def on_mount(self) -> None:
        self.query_one(".box").border_title = self.w("Attach")

    @on(Line.Submitted)
    def _store(self) -> None:
        path, link, note = (self.query_one(f"#{name}", Line).value.strip() for name in ("file", "link", "words"))
        desk = self.top.desk
        if desk is None or desk.incident is None or not (path or link or note):
            return
        self.dismiss(None)
        found = [Path(path).expanduser()] if path else []
        self.top.attach(desk.incident, found, [link] if link else [], note, desk.session.book)
