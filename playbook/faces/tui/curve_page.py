"""Several metrics over the same steps: one curve a metric, zoom and pan move all of them together."""

from __future__ import annotations

from typing import ClassVar

from textual import events, on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical

from playbook.faces.tui.base import Page
from playbook.faces.tui.curve import CurveView
from playbook.faces.tui.desk import marks
from playbook.faces.tui.widgets import Hint, TopLine

_ROWS = 9  # of the screen for one curve, so that it can be read
_MOST = 5


class CurvePage(Page):
    """Opens with what people look at first: loss, gradient norm, learning rate, loss scale."""

    HINTS: ClassVar[tuple[Hint, ...]] = (
        ("←→", "pan", ""),
        ("+-", "zoom", ""),
        ("g", "onset", "onset"),
        ("z", "whole run", "whole"),
        ("m", "metric", ""),
        ("q", "leave", "leave"),
    )
    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape", "leave", "Back", show=False)]
    AUTO_FOCUS = "CurveView"

    def body(self) -> ComposeResult:
        with Vertical(id="curves"):
            for place in range(_MOST):
                yield CurveView(self.w, id=f"curve{place}")

    def on_mount(self) -> None:
        desk = self.top.desk
        label = desk.label if desk is not None else ""
        self.query_one(TopLine).show([("playbook", "bold $accent"), (self.w("Curves"), "bold"), (label, "")])
        run = desk.run if desk is not None else None
        found = marks(run, desk.session.evidence) if desk is not None else []
        for place, view in enumerate(self.query(CurveView)):
            view.show(run, found)
            if place < len(self._first_of_each(view)):
                view.key = self._first_of_each(view)[place]
            view.action_whole()
        self._fit(self.size.height)

    @staticmethod
    def _first_of_each(view: CurveView) -> list[tuple[str, int | None]]:
        """One series a metric; further ranks come by `m`."""
        seen: dict[str, tuple[str, int | None]] = {}
        for key in view.keys:
            seen.setdefault(key[0], key)
        return list(seen.values())

    def on_resize(self, event: events.Resize) -> None:
        super().on_resize(event)
        self._fit(event.size.height)

    def _fit(self, height: int) -> None:
        views = list(self.query(CurveView))
        many = min(len(self._first_of_each(views[0])), max((height - 2) // _ROWS, 1), _MOST)
        for place, view in enumerate(views):
            view.display = place < max(many, 1)

    @on(CurveView.Moved)
    def _moved(self, event: CurveView.Moved) -> None:
        for view in self.query(CurveView):
            if view is not event.view:
                view.look_at(event.view.first, event.view.last, tell=False)

    def action_onset(self) -> None:
        self.query(CurveView).first().action_onset()

    def action_whole(self) -> None:
        self.query(CurveView).first().action_whole()
