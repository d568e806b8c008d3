"""A drill being played: first aid, then looks and suspicions, each with its price, then the repair and the score.

Left is what may be done, right what is known and who is suspected. A game that is left can be gone on with.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

import numpy as np
from textual import events, on, work
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, Vertical, VerticalScroll
from textual.content import Content
from textual.message import Message
from textual.widgets import Static

from playbook.engine.value import cost_of
from playbook.errors import PlaybookError
from playbook.faces.learning.drill_loop import aid_menu, repair_menu
from playbook.faces.learning.drill_screen import KIND_WORDS, alert_lines, fact, looks, price
from playbook.faces.tui import play_text, registry
from playbook.faces.tui.base import Page
from playbook.faces.tui.curve import CurveView
from playbook.faces.tui.widgets import Hint, Hints, Line, Rows, TopLine, hanging, pad, paragraphs, rule, wrap
from playbook.series import Origin, Run, Series
from playbook.workflow.learning.drill import Game, Step, trial_cost

if TYPE_CHECKING:
    from playbook.workflow.learning.drill_score import Better, Score
    from playbook.workflow.learning.quiz_cards import Picture

_ON = "on"
_LOOKING: tuple[Hint, ...] = (
    ("Enter", "look, or try", ""),
    ("/", "find a look", "type"),
    ("s", "suspects", "suspects"),
    ("X", "give up", "give_up"),
    ("?", "keys", "app.open('help')"),
    ("q", "leave", "leave"),
)
_CHOOSING: tuple[Hint, ...] = (("1-9", "choose", ""), ("?", "keys", "app.open('help')"), ("q", "leave", "leave"))
_OVER: tuple[Hint, ...] = (
    ("Enter", "read about it", ""),
    ("space", "read on", "scroll"),
    ("q", "leave", "leave"),
)


class Play(Page):
    """`phase` is aid, look, repair or over."""

    HINTS: ClassVar[tuple[Hint, ...]] = _LOOKING
    BINDINGS: ClassVar[list[BindingType]] = [
        *(Binding(str(n), f"digit({n})", f"Choice {n}", show=False) for n in range(1, 10)),
        Binding("slash", "type", "Find a look by its words", show=False),
        Binding("s", "suspects", "To the suspects", show=False),
        Binding("E", "looks", "To the looks", show=False),
        Binding("V", "curve", "To the curve", show=False),
        Binding("X", "give_up", "Give up", show=False),
        Binding("space", "scroll", "Read on", show=False),
        Binding("escape", "leave_line", "Back", show=False),
    ]
    AUTO_FOCUS = "#menu"

    class Scored(Message):
        def __init__(self, score: Score, replay: list[Better]) -> None:
            super().__init__()
            self.score, self.replay = score, replay

    def __init__(self, game: Game | None = None) -> None:
        super().__init__()
        self.game = game
        self.phase = _phase(game) if game is not None else "over"
        self.result: tuple[Score, list[Better]] | None = None

    def body(self) -> ComposeResult:
        yield CurveView(self.w, id="curve")
        with Horizontal(id="both"):
            with Vertical(id="deeds"):
                yield Line(placeholder=self.w("words of a look"), id="query")
                yield Rows(id="menu")
            with Vertical(id="facts"):
                with VerticalScroll(id="then", can_focus=False):
                    yield Static("", id="text", markup=False)
                yield Rows(id="suspects")

    def on_mount(self) -> None:
        curve = self.query_one(CurveView)
        run = self._run()
        curve.display = run is not None
        curve.show(run, ())
        self.call_after_refresh(self._draw)

    def on_resize(self, event: events.Resize) -> None:
        super().on_resize(event)
        self.call_after_refresh(self._draw)

    def _run(self) -> Run | None:
        from playbook.workflow.learning.quiz_curves import case_picture

        if self.game is None:
            return None
        try:
            picture = case_picture(self.game.drill.case.metrics, self.game.drill.folder)
        except PlaybookError:
            return None
        return run_of(picture) if picture is not None else None

    # drawing

    def _draw(self) -> None:
        game = self.game
        if game is None or not self.is_mounted:
            return
        over = self.phase == "over"
        left = [("playbook", "bold $accent"), (self.w("Drill"), "bold"), (game.drill.code, "")]
        cost = game.cost
        bill = self.w("so far {minutes:.0f} minutes, {hours:.1f} GPU-hours", minutes=cost.minutes, hours=cost.gpu_hours)
        self.query_one(TopLine).show(left, (bill, "bold"))
        self.query_one("#query").display = self.phase == "look"
        suspects = self.query_one("#suspects", Rows)
        suspects.display = not over
        self.query_one("#deeds").set_class(over, "-over")
        menu = self.query_one("#menu", Rows)
        menu.fill(self._menu(game, max(menu.room, 24)))
        rule(menu, self._menu_title())
        suspects.fill(self._suspects(game, max(suspects.room, 24)))
        rule(suspects, self.w("Suspects: Enter tries the repair"))
        pane = self.query_one("#then")
        pane.border_title = self.w("Score") if over else self.w("What is known")
        width = max(pane.scrollable_content_region.width - 1, 24)
        self.query_one("#text", Static).update(
            paragraphs(self._over(game, width) if over else self._known(game, width))
        )
        hints = _OVER if over else _LOOKING if self.phase == "look" else _CHOOSING
        self.query_one(Hints).show([(key, self.w(text), action) for key, text, action in hints])

    def _menu_title(self) -> str:
        return {
            "aid": self.w("What do you do first, before you look for the cause?"),
            "look": self.w("Look at"),
            "repair": self.w("What mends it for good?"),
            "over": self.w("Read about it"),
        }[self.phase]

    def _menu(self, game: Game, width: int) -> list[tuple[str, Content | str] | None]:
        if self.phase == "over":
            return play_text.links(game, self.w, width)
        if self.phase == "look":
            return self._looks(game, width)
        names = aid_menu(game.drill) if self.phase == "aid" else repair_menu(game.drill)
        rows: list[tuple[str, Content | str] | None] = [
            (name, hanging(Content.styled(f"{k}", "bold $accent"), game.drill.book.fixes[name].title, width, 3))
            for k, name in enumerate(names, 1)
        ]
        tried = {s.name for s in game.steps if s.kind == "repair"}
        rows = [row for row in rows if row is not None and row[0] not in tried]
        return [*rows, (_ON, Content.styled(f"   {self.w('none of these')}", "$foreground-muted"))]

    def _looks(self, game: Game, width: int) -> list[tuple[str, Content | str] | None]:
        rows: list[tuple[str, Content | str] | None] = []
        kind = ""
        for name in looks(game, self.query_one("#query", Line).value.strip()):
            signal = game.drill.book.signals[name]
            if signal.kind != kind:
                kind = signal.kind
                rows.append(("", Content.styled(self.w(KIND_WORDS[kind]), "bold $accent")))
            tail = price(cost_of(signal, game.drill.size, game.session.clusters_done))
            rows.append(
                (
                    name,
                    Content.assemble(pad(f"  {signal.title}", width - len(tail) - 1), " ", (tail, "$foreground-muted")),
                )
            )
        return rows or [("", Content.styled(self.w("nothing fits"), "$foreground-muted"))]

    def _suspects(self, game: Game, width: int) -> list[tuple[str, Content | str] | None]:
        tried = {s.name: s.state for s in game.steps if s.kind == "suspect"}
        rows: list[tuple[str, Content | str] | None] = []
        for name in game.drill.suspects:
            tail = price(trial_cost(game.drill.book, name, game.drill.size))
            sign = {"right": "✓ ", "wrong": "✗ "}.get(tried.get(name, ""), "  ")
            style = "$foreground-muted" if name in tried else ""
            title = game.drill.book.causes[name].title
            first, *more = wrap(title, width - len(tail) - 3) if self.has_class("-high") else [title]
            line = Content.assemble((pad(sign + first, width - len(tail) - 1), style), " ", (tail, "$foreground-muted"))
            rows.append((name, Content("\n").join([line, *(Content.styled(f"  {row}", style) for row in more)])))
        return rows

    def _known(self, game: Game, width: int) -> list[Content]:
        """What was done last on top, then the alert."""
        lines = [line for step in reversed(game.steps) for line in self._step(game, step, width)]
        size = game.drill.size
        job = self.w("The job: {gpus} GPUs, {seconds:g} s per step", gpus=size.gpus, seconds=size.step_seconds)
        lines.append(Content.styled(self.w("The alert"), "bold $error"))
        lines += [hanging(Content.styled("·", "$error"), text, width, 2) for text in alert_lines(game.drill)]
        return [*lines, hanging(Content.styled("·", "$error"), job, width, 2)]

    def _step(self, game: Game, step: Step, width: int) -> list[Content]:
        book = game.drill.book
        if step.kind == "look":
            if step.state == "unknown":
                text = f"{book.signals[step.name].title}: {self.w('nobody knows')}"
                return [hanging(Content.styled("?", "$warning"), text, width, 2, "$foreground-muted")]
            return [hanging(Content.styled("›", "bold $primary"), fact(game.drill, step.name, step.state), width, 2)]
        good = step.state == "right"
        sign = Content.styled("✓" if good else "✗", "$success" if good else "$error")
        if step.kind == "aid":  # whether it was right is told at the end
            return [hanging(Content.styled("☐", "$error"), book.fixes[step.name].title, width, 2)]
        if step.kind == "suspect":
            lines = [hanging(sign, book.causes[step.name].title, width, 2, "bold")]
            if good:
                return [*lines, Content.styled(f"  {self.w('The trial ends the incident: that was it.')}", "$success")]
            fixes = [f for f in book.fixes.values() if step.name in f.treats and f.kind == "repair"]
            why = f" {fixes[0].title}: {fixes[0].not_cured}" if fixes else ""
            return [
                *lines,
                hanging(Content(""), self.w("The trial did not help.") + why, width, 2, "$foreground-muted"),
            ]
        return [hanging(sign, book.fixes[step.name].title, width, 2)]

    def _over(self, game: Game, width: int) -> list[Content]:
        if self.result is None:
            return [Content.styled(self.w("the engine plays the same drill ..."), "$foreground-muted")]
        return play_text.score(game.drill, *self.result, self.w, width)

    # playing

    def action_digit(self, number: int) -> None:
        menu = self.query_one("#menu", Rows)
        if self.phase in ("aid", "repair") and number < menu.option_count:
            menu.highlighted = number - 1
            menu.action_select()

    @on(Rows.OptionSelected, "#menu")
    def _done(self, event: Rows.OptionSelected) -> None:
        game, name = self.game, event.option_id or ""
        if game is None or not self.query_one("#menu", Rows).holds(name):
            return
        if self.phase == "over":
            kind, _, entry = name.partition(":")
            self.app.push_screen(registry.make("browse", kind, entry))
        elif self.phase == "look":
            self._try(lambda: game.look(name))
        else:
            deed, after = (game.aid, "look") if self.phase == "aid" else (game.repair, "over")
            if name != _ON:
                self._try(lambda: deed(name))
            if name == _ON or self.phase == "aid" or game.mended:
                self._go(after)

    @on(Rows.OptionSelected, "#suspects")
    def _suspected(self, event: Rows.OptionSelected) -> None:
        game, name = self.game, event.option_id or ""
        if game is None or not name or any(s.kind == "suspect" and s.name == name for s in game.steps):
            return
        self._try(lambda: game.suspect(name))
        if game.solved:
            self._go("repair" if game.drill.repairs else "over")

    def _try(self, deed: object) -> None:
        """Do it, say what came of it."""
        assert callable(deed)
        try:
            deed()
        except PlaybookError as error:
            self.top.tell(f"{error.problem.where}: {self.w(error.problem.what)}", "warning")
        self._draw()
        self.query_one("#then").scroll_home(animate=False)

    def _go(self, phase: str) -> None:
        self.phase = phase
        game = self.game
        if phase == "over" and game is not None:
            self.top.game = None
            self._score(game)
        self._draw()
        menu = self.query_one("#menu", Rows)
        self.set_focus(menu)

    @work(thread=True, exit_on_error=False, description="score")
    def _score(self, game: Game) -> None:
        from playbook.workflow.learning.drill import par_game
        from playbook.workflow.learning.drill_score import replay, score

        self.post_message(self.Scored(score(game, par_game(game.drill)), replay(game)))

    @on(Scored)
    def _scored(self, event: Scored) -> None:
        self.result = event.score, event.replay
        self._draw()
        self.query_one("#then").scroll_home(animate=False)

    def action_give_up(self) -> None:
        if self.phase != "over":
            self._go("over")

    @on(Line.Changed)
    def _filter(self) -> None:
        self._draw()

    @on(Line.Submitted)
    def _entered(self) -> None:
        self.action_looks()

    def action_type(self) -> None:
        if self.phase == "look":
            self.set_focus(self.query_one("#query"))

    def action_suspects(self) -> None:
        if self.phase != "over":
            self.set_focus(self.query_one("#suspects"))

    def action_looks(self) -> None:
        self.set_focus(self.query_one("#menu"))

    def action_curve(self) -> None:
        if self.query_one(CurveView).display:
            self.set_focus(self.query_one(CurveView))

    def action_leave_line(self) -> None:
        if isinstance(self.focused, Line):
            self.action_looks()
        else:
            self.top.leave()

    def action_scroll(self) -> None:
        """A page down, and from the end back to the top."""
        pane = self.query_one("#then")
        if pane.scroll_offset.y >= pane.max_scroll_y:
            pane.scroll_home(animate=False)
        else:
            pane.scroll_page_down(animate=False)


def _phase(game: Game) -> str:
    """Where a game stands that was left."""
    if game.solved:
        return "over" if game.mended or not game.drill.repairs else "repair"
    return "look" if game.steps or not game.drill.aids else "aid"


def run_of(picture: Picture) -> Run:
    """The curves of a picture as a run that the curve widget draws."""
    made: dict[tuple[str, int | None], Series] = {}
    for panel in picture.panels:
        origin = Origin(panel.metric, None, "picture")
        steps, values = np.asarray(panel.steps, np.int64), np.asarray(panel.values, float)
        made[panel.metric, None] = Series(panel.metric, None, steps, values, None, origin, panel.metric)
    return Run(made)
