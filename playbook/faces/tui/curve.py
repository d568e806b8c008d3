"""The curve as a widget on the line API: zoom, pan, a cursor that reads points, several metrics and ranks.

What it looks like is in `curve_draw.py`, how points become dots in `raster.py`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, ClassVar

import numpy as np
from textual import events
from textual.binding import Binding, BindingType
from textual.message import Message
from textual.reactive import reactive
from textual.strip import Strip
from textual.widget import Widget

from playbook.faces.tui import raster
from playbook.faces.tui.curve_draw import GUTTER, STYLES, Frame, draw
from playbook.faces.tui.desk import Mark
from playbook.faces.tui.widgets import rule
from playbook.faces.words import Words

if TYPE_CHECKING:
    from playbook.series import Run

_ORDER = ("loss", "grad_norm", "lr", "loss_scale", "eval_loss")  # what people look at first
_CLOSEST = 8  # steps that fill the view at the deepest zoom
_LINEAR = ("lr",)  # a ramp from zero would fill an axis in powers of ten

Key = tuple[str, int | None]  # metric and rank, as in Run.series


def order(keys: Sequence[Key]) -> list[Key]:
    """Metrics in the order in which people look at them."""
    place = {name: k for k, name in enumerate(_ORDER)}
    return sorted(keys, key=lambda k: (place.get(k[0], len(_ORDER)), k[0], -1 if k[1] is None else k[1]))


class CurveView(Widget, can_focus=True):
    """`show(run, marks)` puts a run in; `first`..`last` are the steps in view."""

    COMPONENT_CLASSES: ClassVar[set[str]] = {f"curve--{name}" for name in STYLES}
    DEFAULT_CSS = """
    CurveView { height: 8; border-top: solid $border-blurred; border-title-color: $text-muted;
 background: $background; }
    CurveView:focus { border-top: heavy $accent; border-title-color: $foreground; }
    CurveView > .curve--line { color: $primary; }
    CurveView > .curve--after { color: $warning; }
    CurveView > .curve--bad { background: $error 60%; color: $foreground; }
    CurveView > .curve--axis { color: $text-muted; }
    CurveView > .curve--onset { color: $error; text-style: bold; }
    CurveView > .curve--resume { color: $secondary; }
    CurveView > .curve--lr { color: $success; }
    CurveView > .curve--cursor { color: $accent; text-style: bold; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("left,h", "pan(-1)", "Pan left", show=False),
        Binding("right,l", "pan(1)", "Pan right", show=False),
        Binding("plus,equals_sign,up", "zoom(1)", "Zoom in", show=False),
        Binding("minus,down", "zoom(-1)", "Zoom out", show=False),
        Binding("z,home", "whole", "Whole run", show=False),
        Binding("g", "onset", "Go to the onset", show=False),
        Binding("m", "metric(1)", "Next metric", show=False),
        Binding("M", "metric(-1)", "Previous metric", show=False),
        Binding("L", "log", "Powers of ten or linear", show=False),
        Binding("comma", "cursor(-1)", "Read the point before", show=False),
        Binding("full_stop", "cursor(1)", "Read the point after", show=False),
    ]

    first: reactive[float] = reactive(0.0, init=False)
    last: reactive[float] = reactive(1.0, init=False)
    key: reactive[Key | None] = reactive(None, init=False)
    cursor: reactive[int | None] = reactive(None, init=False)
    log_axis: reactive[bool | None] = reactive(None, init=False)

    class Moved(Message):
        """The steps in view changed by hand."""

        def __init__(self, view: CurveView) -> None:
            super().__init__()
            self.view = view

    def __init__(self, w: Words, id: str | None = None) -> None:
        super().__init__(id=id)
        self.w = w
        self.run: Run | None = None
        self.marks: Sequence[Mark] = ()
        self._lines: dict[Key, raster.Line] = {}
        self._drawn: tuple[object, list[Strip]] | None = None
        self._drag: tuple[int, float, float] | None = None

    def show(self, run: Run | None, marks: Sequence[Mark], whole: bool = True) -> None:
        """Put a run in. `whole=False` keeps zoom and metric (a file that grows)."""
        same_run = run is self.run
        self.run, self.marks = run, marks
        if not same_run:
            self._lines.clear()
        keys = self.keys
        if self.key not in keys:
            self.key = keys[0] if keys else None
        if whole or self.key is None:
            self.first, self.last = self._span()
        self._changed()

    @property
    def keys(self) -> list[Key]:
        return order([k for k, s in self.run.series.items() if len(s)]) if self.run is not None else []

    @property
    def line(self) -> raster.Line | None:
        """The points of the metric in view, sorted once."""
        if self.run is None or self.key is None or self.key not in self.run.series:
            return None
        if self.key not in self._lines:
            series = self.run.series[self.key]
            self._lines[self.key] = raster.prepare(series.steps, series.values)
        return self._lines[self.key]

    def _span(self) -> tuple[float, float]:
        line = self.line
        return line.span if line is not None else (0.0, 1.0)

    def _changed(self) -> None:
        self._drawn = None
        rule(self, self._title(), self._readout())
        self.refresh()

    def watch_first(self) -> None:
        self._changed()

    def watch_last(self) -> None:
        self._changed()

    def watch_log_axis(self) -> None:
        self._changed()

    def watch_cursor(self) -> None:
        self._changed()

    def watch_key(self, before: Key | None) -> None:
        self.cursor = None
        self._changed()

    def on_resize(self) -> None:
        self._changed()

    # what the person does

    def look_at(self, first: float, last: float, tell: bool = True) -> None:
        """Show these steps, kept inside the run."""
        low, high = self._span()
        width = min(max(last - first, min(_CLOSEST, high - low)), high - low)
        middle = (first + last) / 2
        begin = min(max(middle - width / 2, low), high - width)
        if (begin, begin + width) != (self.first, self.last):
            self.set_reactive(CurveView.first, begin)
            self.last = begin + width
            self._changed()
            if tell:
                self.post_message(self.Moved(self))

    def action_pan(self, direction: int) -> None:
        shift = direction * (self.last - self.first) / 4
        self.look_at(self.first + shift, self.last + shift)

    def action_zoom(self, direction: int, about: float | None = None) -> None:
        width = self.last - self.first
        focus = about if about is not None else self._focus_step()
        share = (focus - self.first) / width
        new = width / 2 if direction > 0 else width * 2
        self.look_at(focus - share * new, focus + (1 - share) * new)

    def _focus_step(self) -> float:
        """Zoom goes to the cursor, else to the onset, else to the middle, if it is in view."""
        onset = next((m.step for m in self.marks if m.kind == "onset"), None)
        at = self._cursor_step()
        for step in (at, onset):
            if step is not None and self.first <= step <= self.last:
                return float(step)
        return (self.first + self.last) / 2

    def action_whole(self) -> None:
        low, high = self._span()
        self.look_at(low, high)

    def action_onset(self) -> None:
        onset = next((m.step for m in self.marks if m.kind == "onset"), None)
        low, high = self._span()
        if onset is not None:
            room = max((high - low) / 20, _CLOSEST)
            self.look_at(onset - room, onset + room)

    def action_metric(self, direction: int) -> None:
        keys = self.keys
        if keys:
            here = keys.index(self.key) if self.key in keys else 0
            self.key = keys[(here + direction) % len(keys)]

    def action_log(self) -> None:
        self.log_axis = not self._axis(self._columns()).log

    def action_cursor(self, direction: int) -> None:
        """Walk over the points; the first press reads the onset or the middle of the view."""
        line = self.line
        if line is None or not len(line.steps):
            return
        if self.cursor is None:
            at = int(np.searchsorted(line.steps, self._focus_step()))
        else:
            at = self.cursor + direction
        self.cursor = min(max(at, 0), len(line.steps) - 1)
        step = float(line.steps[self.cursor])
        if not self.first <= step <= self.last:
            width = self.last - self.first
            self.look_at(step - width / 2, step + width / 2)

    def point_at(self, step: int) -> None:
        """Put the cursor on a step and bring it into view."""
        line = self.line
        if line is None or not len(line.steps):
            return
        self.cursor = min(int(np.searchsorted(line.steps, step)), len(line.steps) - 1)
        if not self.first <= step <= self.last:
            width = self.last - self.first
            self.look_at(step - width / 2, step + width / 2)

    def _cursor_step(self) -> float | None:
        line = self.line
        if self.cursor is None or line is None or self.cursor >= len(line.steps):
            return None
        return float(line.steps[self.cursor])

    def on_mouse_scroll_up(self, event: events.MouseScrollUp) -> None:
        self.action_zoom(1, self._step_at(event.x))
        event.stop()

    def on_mouse_scroll_down(self, event: events.MouseScrollDown) -> None:
        self.action_zoom(-1, self._step_at(event.x))
        event.stop()

    def on_mouse_down(self, event: events.MouseDown) -> None:
        self._drag = (event.x, self.first, self.last)
        self.capture_mouse()

    def on_mouse_move(self, event: events.MouseMove) -> None:
        if self._drag is not None:
            x, first, last = self._drag
            shift = (x - event.x) * (last - first) / max(self._plot_width, 1)
            self.look_at(first + shift, last + shift)

    def on_mouse_up(self, event: events.MouseUp) -> None:
        drag, self._drag = self._drag, None
        self.release_mouse()
        line = self.line
        if drag is not None and drag[0] == event.x and line is not None and len(line.steps):
            nearest = int(np.abs(line.steps - self._step_at(event.x)).argmin())
            self.cursor = nearest

    def _step_at(self, x: int) -> float:
        share = (x - GUTTER + 0.5) / max(self._plot_width, 1)
        return self.first + min(max(share, 0.0), 1.0) * (self.last - self.first)

    # drawing

    @property
    def _plot_width(self) -> int:
        return max(self.content_size.width - GUTTER - 1, 0)

    @property
    def _plot_rows(self) -> int:
        return max(self.content_size.height - 2, 0)

    def _columns(self) -> raster.Columns:
        line = self.line or raster.Line(np.empty(0), np.empty(0))
        return raster.columns(line, self.first, self.last, 2 * self._plot_width)

    def _axis(self, cut: raster.Columns) -> raster.Axis:
        log = self.log_axis
        if log is None and self.key is not None and self.key[0] in _LINEAR:
            log = False
        return raster.axis(cut.limits, log)

    def _title(self) -> str:
        if self.key is None:
            return self.w("no metrics")
        keys = self.keys
        metric, rank = self.key
        name = metric if rank is None else f"{metric} [{self.w('rank')} {rank}]"
        return f"{name}  {keys.index(self.key) + 1}/{len(keys)}"

    def _readout(self) -> str:
        line = self.line
        if line is None or not len(line.steps):
            return ""
        if (step := self._cursor_step()) is not None and self.cursor is not None:
            return f"{self.w('step')} {step:,.0f}: {raster.number(float(line.values[self.cursor]))}"
        begin, end = np.searchsorted(line.steps, [self.first, self.last])
        bad = int(line.bad_before[min(end + 1, len(line.steps))] - line.bad_before[begin])
        return self.w("✗ {n} not finite", n=bad) if bad else ""

    def render_line(self, y: int) -> Strip:
        wanted = (self.content_size, self.key, self.first, self.last, self.cursor, self.log_axis, self.marks)
        if self._drawn is None or self._drawn[0] != wanted:
            self._drawn = (wanted, self._draw())
        strips = self._drawn[1]
        return strips[y] if y < len(strips) else Strip.blank(self.content_size.width, self.rich_style)

    def _draw(self) -> list[Strip]:
        width, rows = self._plot_width, self._plot_rows
        if width < 8 or rows < 1 or self.line is None:
            return []
        cut = self._columns()
        styles = {name: self.get_component_rich_style(f"curve--{name}") for name in STYLES}
        frame = Frame(
            width, rows, self.content_size.width, self.first, self.last, self.marks, self._cursor_step(), cut,
            self._axis(cut), styles | {"": self.rich_style}, self.w,
        )  # fmt: skip
        return draw(frame)
