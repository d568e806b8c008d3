"""The diagnosis: the curve on top, first aid until it is done, evidence, the question, the causes."""

from __future__ import annotations

from typing import ClassVar

from rich.cells import cell_len
from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Container, Vertical
from textual.widgets import Static

from playbook.faces.prices import price
from playbook.faces.tui import registry
from playbook.faces.tui.base import Page
from playbook.faces.tui.curve import CurveView
from playbook.faces.tui.desk import Desk, marks
from playbook.faces.tui.panes import AidPanel, CausesPane, EvidencePane
from playbook.faces.tui.question import CANNOT, UNKNOWN, QuestionPane
from playbook.faces.tui.similar import SimilarPane
from playbook.faces.tui.widgets import Hint, Hints, Rows, TopLine, fit

_BREATH = 0.1  # seconds that an answer has for itself before past incidents are compared
_FEWEST = 5  # rows of the curve: rule, rail, two rows of the plot, axis
_ASKING: tuple[Hint, ...] = (
    ("1-9", "answer", ""),
    ("d", "don't know", "dont_know"),
    ("u", "undo", "undo"),
    ("e", "explain", "app.open('explain')"),
    ("i", "what if", "app.open('whatif')"),
    ("?", "keys", "app.open('help')"),
)
_HEALTHY: tuple[Hint, ...] = (
    ("u", "undo", "undo"),
    ("R", "record", "record"),
    ("b", "the book", "app.open('browse')"),
    ("?", "keys", "app.open('help')"),
    ("q", "back", "leave"),
)
_DONE: tuple[Hint, ...] = (
    ("1-9", "read the repair", ""),
    ("R", "record", "record"),
    ("C", "close", "close_incident"),
    ("n", "ask on", "app.open('plan')"),
    ("e", "explain", "app.open('explain')"),
    ("?", "keys", "app.open('help')"),
)


class DiagnosisPage(Page):
    """Reads the app's desk, posts what the person does, and draws again when the desk has changed."""

    BINDINGS: ClassVar[list[BindingType]] = [
        *(Binding(str(n), f"digit({n})", f"Outcome {n}", show=False) for n in range(1, 10)),
        Binding("d", "dont_know", "Don't know", show=False),
        Binding("c", "cannot", "Cannot get it", show=False),
        Binding("p", "probably", "Probably: the next digit is an unsure answer", show=False),
        Binding("w", "why", "Where each outcome would lead", show=False),
        Binding("r", "try_fix", "Try the repair at once", show=False),
        Binding("v", "verdict", "Verdict and repairs", show=False),
        Binding("y", "copy", "Copy the command", show=False),
        Binding("u", "undo", "Undo", show=False),
        Binding("U,ctrl+r", "redo", "Redo", show=False),
        Binding("a", "aid", "First aid is done", show=False),
        Binding("A", "read_aid", "Read the first aid", show=False),
        Binding("o", "add_files", "Add files of the same run", show=False),
        Binding("R", "record", "Record the incident", show=False),
        Binding("T", "attach", "Attach files, a link or a note", show=False),
        Binding("C", "close_incident", "Close with a confirmed cause", show=False),
        Binding("slash", "app.open('browse')", "Search the book", show=False),
        Binding("greater_than_sign", "curve_rows(2)", "Larger curve", show=False),
        Binding("less_than_sign", "curve_rows(-2)", "Smaller curve", show=False),
        Binding("space", "scroll_question", "Read on in the question", show=False),
        Binding("E", "focus_pane('evidence')", "To the evidence", show=False),
        Binding("Q", "focus_pane('outcomes')", "To the question", show=False),
        Binding("K", "focus_pane('causes')", "To the causes", show=False),
        Binding("V", "focus_pane('curve')", "To the curve", show=False),
    ]
    AUTO_FOCUS = "#outcomes"

    def __init__(self) -> None:
        super().__init__()
        self._seen: tuple[int, int | None] = (0, None)  # run and onset that the curve shows
        self._compared: object = None  # facts that were held against past incidents

    def body(self) -> ComposeResult:
        yield CurveView(self.w, id="curve")
        yield AidPanel(self.w)
        yield Static("", id="note", markup=False)
        with Container(id="panes"):
            yield EvidencePane(self.w)
            yield QuestionPane(self.w, self.top.settings.why)
            with Vertical(id="beside"):
                yield CausesPane(self.w)
                yield SimilarPane(self.w)

    def on_mount(self) -> None:
        self.top.desk_changed.subscribe(self, self.draw)
        self.top.alike.subscribe(self, self.query_one(SimilarPane).show)
        self.call_after_refresh(self._first)

    def _first(self) -> None:
        if self.top.desk is not None:
            self.draw(self.top.desk)

    def on_resize(self, event: object) -> None:
        super().on_resize(event)  # type: ignore[arg-type]
        self.call_after_refresh(self._first)

    def draw(self, desk: Desk) -> None:
        """Everything that hangs on the desk."""
        if not self.is_mounted:
            return
        curve = self.query_one(CurveView)
        curve.display = desk.run is not None and bool(desk.run.series)
        seen = (id(desk.run), desk.shape.step if desk.shape else None)
        if seen != self._seen:
            curve.show(desk.run, marks(desk.run, desk.session.evidence), whole=self._seen[0] != seen[0])
            self._seen = seen
        self.query_one(AidPanel).show(desk.aid)
        if self.top.settings.curve_rows:
            curve.styles.height = min(self.top.settings.curve_rows, self._most_rows())
        note = self.query_one("#note", Static)
        note.display = bool(desk.note)
        note.update(f"! {desk.note}")
        outcomes = self.query_one("#outcomes", Rows)
        outcomes.display = True
        self.query_one(EvidencePane).show(desk)
        self.query_one(QuestionPane).show(desk)
        self.query_one(CausesPane).show(desk)
        self.query_one(SimilarPane).show(desk)
        if desk.facts != self._compared:
            self._compared = desk.facts
            self.set_timer(_BREATH, self._compare)
        self._top_line(desk)
        asking = desk.question is not None and not self.query_one(QuestionPane).verdict
        hints = _ASKING if asking else _HEALTHY if desk.diagnosis.healthy else _DONE
        self.query_one(Hints).show([(k, self.w(t), a) for k, t, a in hints])
        if self.focused is None and outcomes.display:
            self.set_focus(outcomes)

    def _compare(self) -> None:
        """Hold the desk against past incidents, once the answer is on the screen."""
        if self.top.desk is not None:
            self.top.find_similar(self.top.desk.copy())

    def _top_line(self, desk: Desk) -> None:
        d = desk.diagnosis
        cost = desk.session.cost
        spent = f"{self.w('{n} asked', n=len(desk.session.asked))} · {price(cost, ' · ')}"
        if desk.incident:
            spent = f"{desk.incident} · {spent}"
        word = "healthy" if d.healthy else "decided" if d.decided else "undecided"
        sign = "✓" if d.decided or d.healthy else "…"
        right = f"{spent}  {sign} {self.w(word)}"
        shape = desk.shape
        symptom = ""
        if shape is not None and desk.symptom_title != desk.label:
            step = f" {self.w('from step {step}', step=f'{shape.step:,}')}" if shape.step is not None else ""
            symptom = desk.symptom_title + step
        # What happened matters more than the name of a file.
        room = self.size.width - 16 - cell_len(right) - cell_len(symptom)
        left = [("playbook", "bold $accent"), (fit(desk.label, max(room, 12)), "bold")]
        if shape is not None and symptom:
            left.append((symptom, "$success" if shape.state == "healthy" else "$error"))
        self.query_one(TopLine).show(left, (right, ""))

    # what the person does

    def action_digit(self, number: int) -> None:
        self.query_one(QuestionPane).digit(number)

    @on(QuestionPane.Answer)
    def _answer(self, event: QuestionPane.Answer) -> None:
        self.query_one(QuestionPane).verdict = False
        self.top.answer(event.signal, event.state)

    def action_dont_know(self) -> None:
        self._say(UNKNOWN)

    def action_cannot(self) -> None:
        self._say(CANNOT)

    def _say(self, state: str) -> None:
        desk = self.top.desk
        if desk is not None and desk.question is not None:
            self.top.answer(desk.question.id, state)

    def action_probably(self) -> None:
        pane = self.query_one(QuestionPane)
        pane.probably = not pane.probably
        self._first()

    def action_why(self) -> None:
        pane = self.query_one(QuestionPane)
        pane.why = not pane.why
        self.top.remember(why=pane.why)
        self._first()

    def action_verdict(self) -> None:
        pane = self.query_one(QuestionPane)
        pane.verdict = not pane.verdict
        self._first()

    def action_copy(self) -> None:
        if command := self.query_one(QuestionPane).command:
            self.app.copy_to_clipboard(command)
            self.top.tell(self.w("copied"))

    def action_curve_rows(self, by: int) -> None:
        """The height of the curve, remembered until it is changed again."""
        curve = self.query_one(CurveView)
        if curve.display:
            rows = min(max(curve.outer_size.height + by, _FEWEST), self._most_rows())
            self.top.remember(curve_rows=rows)
            curve.styles.height = rows

    def _most_rows(self) -> int:
        """At most half of the screen."""
        return max(self.size.height // 2, _FEWEST)

    def action_undo(self) -> None:
        self.top.undo()

    def action_redo(self) -> None:
        self.top.redo()

    def action_aid(self) -> None:
        desk = self.top.desk
        if desk is not None and desk.aid:
            self.top.tick_aid(desk.aid[0].id)

    @on(AidPanel.Pressed)
    def action_read_aid(self) -> None:
        desk = self.top.desk
        if desk is not None and desk.aid:
            self._read("fixes", desk.aid[0].id)

    @on(QuestionPane.OpenFix)
    def _fix(self, event: QuestionPane.OpenFix) -> None:
        self._read("fixes", event.fix)

    @on(QuestionPane.TryFix)
    def action_try_fix(self) -> None:
        from playbook.faces.tui.tryout import TryDialog

        desk = self.top.desk
        if desk is not None and desk.diagnosis.trial is not None:
            self.app.push_screen(TryDialog(desk.diagnosis.trial))
        else:
            self.top.tell(self.w("no repair is worth trying before asking on"))

    def _read(self, kind: str, entry: str) -> None:
        self.app.push_screen(registry.make("browse", kind, entry))

    @on(CausesPane.Explain)
    def _explain(self, event: CausesPane.Explain) -> None:
        self.app.push_screen(registry.make("explain", event.cause))

    @on(Rows.OptionSelected, "#similar")
    def _similar(self, event: Rows.OptionSelected) -> None:
        self.app.push_screen(registry.make("similar", event.option_id))

    @on(EvidencePane.Retract)
    def _retract(self, event: EvidencePane.Retract) -> None:
        self.top.retract(event.signal)

    @on(Rows.OptionSelected, "#evidence")
    def _evidence(self, event: Rows.OptionSelected) -> None:
        from playbook.faces.tui.dialogs import EvidenceDialog

        if event.option_id:
            self.app.push_screen(EvidenceDialog(event.option_id))

    @on(Rows.OptionHighlighted, "#evidence")
    def _evidence_step(self, event: Rows.OptionHighlighted) -> None:
        """The curve points at what the row is about."""
        desk, pane = self.top.desk, self.query_one(EvidencePane)
        if desk is None or not pane.has_focus:
            return
        item = next((e for e in desk.session.evidence if e.signal == event.option_id), None)
        if item is not None and item.step is not None:
            self.query_one(CurveView).point_at(item.step)

    def action_add_files(self) -> None:
        from playbook.faces.tui.dialogs import AddFiles

        desk = self.top.desk

        def add(paths: tuple[str, ...] | None) -> None:
            if paths and desk is not None:
                self.top.open_files((*desk.paths, *paths), into=desk)

        self.app.push_screen(AddFiles(), add)

    def action_record(self) -> None:
        from playbook.faces.tui.dialogs import RecordDialog

        self.app.push_screen(RecordDialog())

    def action_attach(self) -> None:
        from playbook.faces.tui.dialogs import AttachDialog

        desk = self.top.desk
        if desk is not None and desk.incident is None:
            self.top.tell(self.w("record it first (R)"), "warning")
            return
        self.app.push_screen(AttachDialog())

    def action_close_incident(self) -> None:
        from playbook.faces.tui.closing import CloseDialog

        self.app.push_screen(CloseDialog())

    def action_focus_pane(self, name: str) -> None:
        self.set_focus(self.query_one(f"#{name}"))

    def action_scroll_question(self) -> None:
        """A page down, and from the end back to the top."""
        pane = self.query_one(QuestionPane)
        if pane.scroll_offset.y >= pane.max_scroll_y:
            pane.scroll_home(animate=False)
        else:
            pane.scroll_page_down(animate=False)
