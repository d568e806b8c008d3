"""The drills on offer, by code and without a word that tells the cause; a seed gives everybody the same one."""

from __future__ import annotations

import secrets
from typing import TYPE_CHECKING, ClassVar

from textual import events, on, work
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.content import Content
from textual.message import Message

from playbook.engine.tables import SHAPE
from playbook.errors import PlaybookError
from playbook.faces.tui import registry
from playbook.faces.tui.base import Page
from playbook.faces.tui.card_text import stars
from playbook.faces.tui.widgets import Hint, Line, Rows, TopLine, fit, pad, rule

if TYPE_CHECKING:
    from playbook.workflow.book import Library
    from playbook.workflow.learning.drill import Drill

_CONTEXT = ("precision", "parallelism", "task")
_BATCH = 40  # drills that are made before the list is drawn again


class Drills(Page):
    """Enter plays; a number typed is a seed, else a code, a case id or the path of a case file."""

    HINTS: ClassVar[tuple[Hint, ...]] = (
        ("Enter", "play", ""),
        ("/", "seed, code or file", "type"),
        ("t", "quiz", "app.open('quiz')"),
        ("?", "keys", "app.open('help')"),
        ("q", "leave", "leave"),
    )
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("slash,o", "type", "A seed, a code or a case file", show=False),
        Binding("escape", "leave_line", "Back", show=False),
    ]
    AUTO_FOCUS = "#drills"

    class Found(Message):
        def __init__(self, drills: list[tuple[int, Drill]], over: bool) -> None:
            super().__init__()
            self.drills, self.over = drills, over

    class Chosen(Message):
        def __init__(self, drill: Drill | None, error: PlaybookError | None = None) -> None:
            super().__init__()
            self.drill, self.error = drill, error

    def __init__(self) -> None:
        super().__init__()
        self.drills: list[tuple[int, Drill]] = []  # with their levels, easy ones first
        self.over = False  # whether all cases were looked at

    def body(self) -> ComposeResult:
        yield Line(placeholder=self.w("a seed, a code, a case id or a case file"), id="query")
        yield Rows(id="drills")

    def on_mount(self) -> None:
        self.query_one(TopLine).show([("playbook", "bold $accent"), (self.w("Drill"), "bold")])
        if self.top.library is not None:
            self._find(self.top.library)
        self.call_after_refresh(self._fill)

    def on_resize(self, event: events.Resize) -> None:
        super().on_resize(event)
        self.call_after_refresh(self._fill)

    def on_screen_resume(self) -> None:
        if self.is_mounted:
            self._fill()

    @work(thread=True, exit_on_error=False, description="find")
    def _find(self, library: Library) -> None:
        """Make every case a drill, a few at a time; those that are none are left out."""
        from playbook.workflow.learning import drill

        batch: list[tuple[int, Drill]] = []
        for case in drill.all_codes(library.book).values():
            if not self.is_attached:
                return
            try:
                made = drill.find(case, library)
                batch.append((drill.level(made), made))
            except PlaybookError:
                continue  # a case that does not hold is told by `playbook knowledge lint`, not here
            if len(batch) >= _BATCH:
                self.post_message(self.Found(batch, False))
                batch = []
        self.post_message(self.Found(batch, True))

    @on(Found)
    def _found(self, event: Found) -> None:
        self.drills = sorted([*self.drills, *event.drills], key=lambda row: (row[0], row[1].code))
        self.over = event.over
        self._fill()

    def _fill(self) -> None:
        if not self.is_mounted:
            return
        rows, w = self.query_one("#drills", Rows), self.w
        width = max(rows.room, 40)
        shown: list[tuple[str, Content | str] | None] = []
        if self.top.game is not None:
            text = w("go on with drill {code}", code=self.top.game.drill.code)
            shown.append(("go-on", Content.assemble(("◐ ", "$accent"), (text, "bold"))))
        shown.append(("any", Content.assemble(("▷ ", "$accent"), (w("any drill, by chance"), "bold"))))
        shown += [(drill.code, self._row(level, drill, width)) for level, drill in self.drills]
        rows.fill(shown)
        count = str(len(self.drills)) if self.over else w("looking through the cases ...")
        rule(rows, w("Drills"), count)

    def _row(self, level: int, drill: Drill, width: int) -> Content:
        alert = {e.signal: e.state for e in drill.alert}
        symptom = drill.book.symptoms.get(alert.get(SHAPE, ""))
        title = symptom.title if symptom is not None else self.w("find out how the loss behaves")
        context = [*(alert[name] for name in _CONTEXT if name in alert), f"{drill.size.gpus} GPU"]
        looks = self.w("{n} looks", n=len(set(drill.oracle) - set(alert)))
        head = Content.assemble((f"{drill.code} ", "$foreground-muted"), (stars(level), "$accent"), " ")
        room = width - head.cell_length
        body = pad(title, min(room * 3 // 5, room))
        tail = fit(f"  {', '.join(context)} · {looks}", room - Content(body).cell_length)
        return Content.assemble(head, body, (tail, "$foreground-muted"))

    # choosing

    @on(Rows.OptionSelected)
    def _picked(self, event: Rows.OptionSelected) -> None:
        name, game = event.option_id or "", self.top.game
        if name == "go-on" and game is not None:
            self.app.push_screen(registry.make("play", game))
        elif name == "any":
            self._make("", secrets.randbelow(100_000))
        elif name:
            self._make(name, 0)

    @on(Line.Submitted)
    def _typed(self, event: Line.Submitted) -> None:
        text = event.value.strip()
        known = {drill.code for _, drill in self.drills}
        if text.isdecimal() and text not in known:
            self._make("", int(text))
        elif text:
            self._make(text, 0)

    @work(thread=True, exclusive=True, group="make", exit_on_error=False, description="make")
    def _make(self, name: str, seed: int) -> None:
        from playbook.workflow.learning import drill

        library = self.top.library
        if library is None:
            return
        try:
            made = drill.find(name, library, seed) if name else drill.by_seed(seed, library)
        except PlaybookError as error:
            self.post_message(self.Chosen(None, error))
        except Exception as error:
            fault = PlaybookError(name, f"{type(error).__name__}: {error}", "choose another drill")
            self.post_message(self.Chosen(None, fault))
        else:
            self.post_message(self.Chosen(made))

    @on(Chosen)
    def _chosen(self, event: Chosen) -> None:
        if event.drill is None:
            if event.error is not None:
                self.top.problem(event.error)
            return
        from playbook.workflow.learning.drill import Game

        self.top.game = Game(event.drill)
        self.app.push_screen(registry.make("play", self.top.game))

    def action_type(self) -> None:
        self.set_focus(self.query_one("#query"))

    def action_leave_line(self) -> None:
        if isinstance(self.focused, Line):
            self.set_focus(self.query_one("#drills"))
        else:
            self.top.leave()
