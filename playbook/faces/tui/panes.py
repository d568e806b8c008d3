"""The panes of the diagnosis: first aid, evidence with its source, causes with bars that move."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import PurePath
from typing import TYPE_CHECKING, ClassVar

from rich.cells import cell_len
from textual import events
from textual.app import RenderResult
from textual.binding import Binding, BindingType
from textual.content import Content
from textual.message import Message
from textual.reactive import reactive
from textual.widget import Widget

from playbook.faces.tui.desk import Desk, trail
from playbook.faces.tui.widgets import Rows, bar, fit, paragraphs, percent, rule, wrap
from playbook.faces.words import Words
from playbook.workflow.verdict import noted

if TYPE_CHECKING:
    from playbook.engine.diagnosis import Ranked
    from playbook.findings import Evidence
    from playbook.knowledge.entries import Fix

_MOVE_SECONDS = 0.35  # how long a bar takes to its new place
_MOVED = 0.01  # a change below one per cent is not told
_SHOWN = 6  # causes
_WHOLE = 5  # causes that should have their whole titles before further ones are shown
SURE = 0.75  # evidence below this carries a question mark


class AidPanel(Widget):
    """First aid until it is ticked off: the next five minutes come before any question."""

    DEFAULT_CSS = """
    AidPanel { height: auto; background: $error 18%; border-left: outer $error; padding: 0 1; }
    """

    def __init__(self, w: Words) -> None:
        super().__init__(id="aid")
        self.w = w
        self.todo: Sequence[Fix] = ()

    def show(self, todo: Sequence[Fix]) -> None:
        """The fixes that are not ticked off, best first; nothing is shown where there are none."""
        self.todo = todo
        self.display = bool(todo)
        self.refresh(layout=True)

    def render(self) -> RenderResult:
        width = max(self.content_size.width or self.app.size.width - 3, 20)
        few = self.screen.has_class("-low")
        head = self.w("FIRST AID")
        lines = []
        for place, fix in enumerate(self.todo[: 1 if few else 3]):
            sign = f"{head}  " if place == 0 else " " * (cell_len(head) + 2)
            end = f"  {self.w('a: done')}" if place == 0 else ""
            room = width - cell_len(sign) - cell_len(end) - 2
            title = fit(fix.title, room)
            step = fit(f"{self.w.colon}{fix.steps[0]}", room - cell_len(title))
            gap = " " * (width - cell_len(sign) - 2 - cell_len(title) - cell_len(step) - cell_len(end))
            lines.append(
                Content.assemble((sign, "bold $text-error"), "☐ ", (title, "bold"), step, gap, (end, "bold $accent"))
            )
        return paragraphs(lines)

    def on_click(self) -> None:
        self.post_message(self.Pressed())

    class Pressed(Message):
        """Somebody wants to read the first aid."""


class EvidencePane(Rows):
    """Everything that is known, with where it came from; Enter opens it, x takes it back."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("x,delete", "retract", "Take this back", show=False),
    ]

    class Retract(Message):
        """Take back what is known about a signal."""

        def __init__(self, signal: str) -> None:
            super().__init__()
            self.signal = signal

    def __init__(self, w: Words) -> None:
        super().__init__(id="evidence")
        self.w = w

    def show(self, desk: Desk) -> None:
        width = max(self.room, 16)
        book = desk.session.book
        rows: list[tuple[str, Content | str] | None] = []
        for item in trail(desk.session):
            entry = book.signals.get(item.signal)
            rows.append((item.signal, evidence_row(item, entry.title if entry else item.signal, width, self.w)))
        for name in sorted(desk.session.closed):
            entry = book.signals.get(name)
            title = entry.title if entry else name
            rows.append((name, Content.styled(fit(f"· {title}: {self.w('not known')}", width), "$foreground-muted")))
        nothing = Content.styled(self.w("nothing is known yet"), "$foreground-muted")
        # What was said last stands on top: it must be in view, unless somebody is reading further down.
        self.fill(rows or [("", nothing)], keep=self.has_focus)
        if not self.has_focus:
            self.scroll_home(animate=False)
        rule(self, self.w("Evidence"), str(len(desk.session.evidence)) if desk.session.evidence else "")

    def action_retract(self) -> None:
        if self.current:
            self.post_message(self.Retract(self.current))


def evidence_row(item: Evidence, title: str, width: int, w: Words) -> Content:
    """Two lines: what was looked at; what is so and who says it."""
    state = fit(item.state + ("?" if item.confidence < SURE else ""), width - 2)
    source = fit(f"  {source_of(item, w)}", width - 2 - cell_len(state))
    return Content.assemble(fit(title, width), "\n  ", (state, "bold $primary"), (source, "$foreground-muted"))


def source_of(item: Evidence, w: Words, file: bool = False) -> str:
    """Who says so: `metrics · step 13500`, with `file` also where it was read: `run.csv:13502`."""
    parts = [w(item.source)]
    if item.step is not None:
        parts.append(f"{w('step')} {item.step:,}")
    if item.rank is not None:
        parts.append(f"{w('rank')} {item.rank}")
    if item.origin is not None and (file or item.source == "log"):
        line = f":{item.origin.line}" if item.origin.line is not None else ""
        parts.append(PurePath(item.origin.path).name + line)
    return " · ".join(parts)


class CausesPane(Widget, can_focus=True):
    """The most probable causes: number, bar, share, how far it moved; Enter explains one."""

    DEFAULT_CSS = """
    CausesPane { height: 1fr; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("down,j", "move(1)", "Down", show=False),
        Binding("up,k", "move(-1)", "Up", show=False),
        Binding("enter", "explain", "Explain", show=False),
    ]
    moved: reactive[float] = reactive(1.0)
    chosen: reactive[int] = reactive(0)

    class Explain(Message):
        """Somebody wants to know why."""

        def __init__(self, cause: str) -> None:
            super().__init__()
            self.cause = cause

    def __init__(self, w: Words) -> None:
        super().__init__(id="causes")
        self.w = w
        self.desk: Desk | None = None
        self._tops: list[int] = []

    def show(self, desk: Desk) -> None:
        self.desk = desk
        verdict = "healthy" if desk.diagnosis.healthy else "decided" if desk.diagnosis.decided else "undecided"
        rule(self, self.w("Causes"), self.w(verdict))
        self.chosen = min(self.chosen, max(len(self.rows) - 1, 0))
        if self.app.animation_level == "full" and any(
            abs(desk.shares.get(r.class_, 0.0) - r.probability) > _MOVED for r in self.rows
        ):
            self.set_reactive(CausesPane.moved, 0.0)
            self.animate("moved", 1.0, duration=_MOVE_SECONDS, easing="out_cubic")
        else:
            self.moved = 1.0
        self.refresh()

    @property
    def rows(self) -> list[Ranked]:
        if self.desk is None:
            return []
        causes = self.desk.diagnosis.causes
        return [r for r in causes if r.probability >= 0.01][:_SHOWN] or list(causes[:3])

    def render(self) -> RenderResult:
        desk = self.desk
        if desk is None:
            return Content("")
        width = max(self.content_size.width, 16)
        room = self.content_size.height
        if desk.diagnosis.healthy:
            return Content.styled(self.w.healthy(noted(desk.session)), "$success")
        two_lines = min(len(self.rows), _WHOLE) * 3 + 2 <= room and width >= 24
        lines: list[Content] = []
        self._tops = []
        for place, ranked in enumerate(self.rows):
            if len(lines) + (3 if two_lines else 2) > room:
                break
            self._tops.append(len(lines))
            lines += self._row(place, ranked, width, two_lines)
        if desk.diagnosis.unknown >= 0.03 and len(lines) < room:
            lines.append(self._unknown(width))
        for a, b, share in desk.diagnosis.coupled[:1]:
            if len(lines) + 2 <= room:
                both = f"{self.w('both at once')} {percent(share)}{self.w.colon.rstrip()}"
                lines.append(Content.styled(fit(both, width), "$foreground-muted"))
                lines.append(Content.styled(fit(f"  {a} + {b}", width), "$foreground-muted"))
        return paragraphs(lines)

    def _row(self, place: int, ranked: Ranked, width: int, two_lines: bool) -> list[Content]:
        assert self.desk is not None
        before = self.desk.shares.get(ranked.class_, ranked.probability)
        share = before + (ranked.probability - before) * self.moved
        move = ranked.probability - before
        arrow = "" if abs(move) < _MOVED else f" {'▲' if move > 0 else '▼'}{abs(move):.0%}"
        mark = "› " if self.has_focus and place == self.chosen else "  "
        style = "bold" if place == 0 else ""
        title = wrap_two(ranked.title, width - 2) if two_lines else [fit(ranked.title, width - 2)]
        lines = [Content.assemble((mark if k == 0 else "  ", "$accent"), (text, style)) for k, text in enumerate(title)]
        tail = f" {percent(share):>4}{arrow:<5}"
        colour = "$success" if move > _MOVED else "$foreground-muted" if move < -_MOVED else ""
        lines.append(
            Content.assemble(
                "  ",
                (bar(share, max(width - 2 - cell_len(tail), 4)), "$primary"),
                (tail[:5], "bold"),
                (tail[5:], colour),
            )
        )
        return lines

    def _unknown(self, width: int) -> Content:
        assert self.desk is not None
        tail = f" {percent(self.desk.diagnosis.unknown):>4}"
        text = fit(f"  {self.w('something that is not in the book')}", width - len(tail))
        return Content.assemble((text + " " * (width - cell_len(text) - len(tail)), "$foreground-muted"), tail)

    def action_move(self, by: int) -> None:
        self.chosen = min(max(self.chosen + by, 0), max(len(self.rows) - 1, 0))

    def action_explain(self) -> None:
        if self.rows:
            self.post_message(self.Explain(self.rows[self.chosen].id))

    def on_click(self, event: events.Click) -> None:
        y = event.y - self.gutter.top
        below = [k for k, top in enumerate(self._tops) if top <= y]
        if below:
            self.chosen = below[-1]
            self.action_explain()

    def on_focus(self) -> None:
        self.refresh()

    def on_blur(self) -> None:
        self.refresh()


def wrap_two(text: str, width: int) -> list[str]:
    """At most two lines."""
    rows = wrap(text, width)
    return rows if len(rows) <= 2 else [rows[0], fit(" ".join(rows[1:]), width)]
