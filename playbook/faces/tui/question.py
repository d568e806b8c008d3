"""The middle of the diagnosis: the question with why and how, its outcomes by digit, don't know and cannot get it.

Where nothing is left to ask it shows the verdict and the repairs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.cells import cell_len
from textual.app import ComposeResult
from textual.containers import VerticalScroll
from textual.content import Content
from textual.message import Message
from textual.widgets import Static

from playbook.engine.value import cost_of
from playbook.faces.prices import price
from playbook.faces.tui.desk import Desk, outlook, why_asked
from playbook.faces.tui.widgets import Rows, fit, hanging, paragraphs, percent, rule, wrap
from playbook.faces.words import Words
from playbook.workflow.verdict import noted, what_to_do

if TYPE_CHECKING:
    from playbook.engine.trial import Trial
    from playbook.knowledge.entries import Signal

_LINES = 10  # of outcomes: more of them are cut to one line each, for how to look stands below
UNKNOWN, CANNOT = "unknown", "cannot"
_NOTES = 2  # remarks beside a healthy verdict


def chances(trial: Trial, w: Words) -> str:
    """How likely a trial mends, what it costs and what it is expected to save."""
    return w(
        "works with {chance}, takes {minutes} min; expected {tried} min in all, {asked} when asking first",
        chance=percent(trial.chance),
        minutes=f"{trial.minutes:.0f}",
        tried=f"{trial.if_tried:.0f}",
        asked=f"{trial.if_asked:.0f}",
    )


class QuestionPane(VerticalScroll):
    """`show(desk)` draws it; choosing a row posts `Answer` or `TryFix` (or `OpenFix` on the verdict)."""

    can_focus = False

    class Answer(Message):
        def __init__(self, signal: str, state: str) -> None:
            super().__init__()
            self.signal, self.state = signal, state

    class TryFix(Message):
        """The repair that is its own experiment."""

        def __init__(self, fix: str) -> None:
            super().__init__()
            self.fix = fix

    class OpenFix(Message):
        def __init__(self, fix: str) -> None:
            super().__init__()
            self.fix = fix

    def __init__(self, w: Words, why: bool = False) -> None:
        super().__init__(id="question")
        self.w = w
        self.why = why  # whether each outcome shows where it would lead
        self.probably = False
        self.verdict = False  # whether to show the verdict although there is something left to ask
        self.signal: Signal | None = None
        self.command = ""
        self._asked: str | None = None
        self._desk: Desk | None = None
        self._drawn = 0  # the width that the lines were cut for

    def compose(self) -> ComposeResult:
        yield Static("", id="ask", markup=False)
        yield Rows(id="outcomes")
        yield Static("", id="how", markup=False)
        yield Static("", id="command", markup=False)
        yield Static("", id="expect", markup=False)

    def show(self, desk: Desk) -> None:
        self._desk = desk
        self._drawn = self._width
        # A scroll bar that comes with the new lines, or a changed terminal, leaves them another width.
        self.call_after_refresh(self._fit)
        self.signal = None if self.verdict else desk.question
        if self.signal is not None:
            self._question(desk, self.signal)
        else:
            self._verdict(desk)
        if self._asked != (self.signal.id if self.signal else None):
            self.scroll_home(animate=False)
        self._asked = self.signal.id if self.signal else None

    def on_resize(self) -> None:
        self._fit()

    def _fit(self) -> None:
        if self._desk is not None and self._width != self._drawn:
            self.show(self._desk)

    @property
    def _width(self) -> int:
        return max(self.query_one("#outcomes", Rows).room, 24)

    # a question

    def _question(self, desk: Desk, signal: Signal) -> None:
        session = desk.session
        gain = next((o.gain for o in desk.diagnosis.plan if o.signal == signal.id), None)
        cost = cost_of(signal, session.size, session.clusters_done)
        rule(self, signal.title)
        danger = {
            "none": "",
            "slows": self.w("slows the run down"),
            "stops-the-run": self.w("stops the run"),
            "changes-the-run": self.w("changes the run"),
        }[signal.danger]
        self.query_one("#ask", Static).update(
            paragraphs(
                [
                    self._so_far(desk),
                    Content.styled(signal.question, "bold"),
                    Content.styled(f"! {danger}", "$warning") if danger else None,
                    self._why_line(desk, signal, gain),
                ]
            )
        )
        self._outcomes(desk, signal)
        self.query_one("#how", Static).update(
            Content.assemble(
                (self.w("how"), "bold $foreground-muted"),
                (f" ({price(cost, ' + ')})  ", "$foreground-muted"),
                " ".join(signal.how.split()),
            )
        )
        command = next(iter(signal.commands), None)
        self.command = command.run.rstrip() if command else ""
        shown = self.query_one("#command", Static)
        shown.display = bool(self.command)
        shown.update(Content.assemble(self.command, (f"  {self.w('y copies')}", "$foreground-muted")))
        shown.set_class(bool(command and command.mutates), "-mutates")
        expect = self.query_one("#expect", Static)
        expect.display = bool(command and command.expect)
        expect.update(Content.styled(f"→ {command.expect}" if command else "", "$foreground-muted"))

    def _so_far(self, desk: Desk) -> Content | None:
        """A verdict that stands while there is still something worth asking."""
        if not desk.diagnosis.decided or not desk.diagnosis.causes:
            return None
        first = desk.diagnosis.causes[0]
        head, tail = f"✓ {self.w.lead('decided')}", f" {percent(first.probability)}  {self.w('v: verdict')}"
        return Content.styled(head + fit(first.title, self._width - cell_len(head + tail)) + tail, "$success")

    def _why_line(self, desk: Desk, signal: Signal, gain: float | None) -> Content | None:
        """Why it is asked: what the leading causes would show."""
        rows = why_asked(desk, signal.id)
        if not rows:
            return None
        parts: list[str | tuple[str, str]] = [(self.w("why"), "bold $foreground-muted")]
        parts.append((f" ({gain:.2f} bit)  " if gain is not None else "  ", "$foreground-muted"))
        if len(rows) > 1 and len({r.outcome for r in rows}) == 1:
            text = self.w("{outcome} would speak for all of the leading causes, anything else against them",
                          outcome=rows[0].outcome)  # fmt: skip
            return Content.assemble(*parts, (text, "$foreground-muted"))
        room = 40 if self._width >= 56 else 22
        for place, row in enumerate(rows):
            parts += [
                ("; " if place else "", "$foreground-muted"),
                (row.outcome, "$primary"),
                (f" ← {fit(row.title, room)}", "$foreground-muted"),
            ]
        return Content.assemble(*parts)

    def _outcomes(self, desk: Desk, signal: Signal) -> None:
        width = self._width
        then = outlook(desk.session, signal.id) if self.why else {}
        rows: list[tuple[str, Content | str] | None] = []
        sure = "?" if self.probably else " "
        column = 5 + max((len(name) for name in signal.outcomes), default=0)
        aligned = width - column >= 24
        lines = sum(len(wrap(meaning, max(width - column, 8))) for meaning in signal.outcomes.values())
        whole = aligned and lines <= _LINES
        for place, (name, meaning) in enumerate(signal.outcomes.items(), 1):
            digit = str(place) if place <= 9 else "·"
            head = Content.assemble((f"{digit}{sure} ", "bold $accent"), (name, "bold"))
            start, indent = (column, column) if aligned else (5 + len(name), 3)
            text = meaning if whole else fit(meaning, width - start)
            body = hanging(head, text, width, start, "$foreground-muted")
            if name in then:
                title, share = then[name]
                text = f"→ {percent(share)} {title}" if title else f"→ {self.w('healthy')}"
                body = body + Content.styled(f"\n{' ' * indent}{fit(text, width - indent)}", "$secondary")
            rows.append((f"state:{name}", body))
        rows.append((UNKNOWN, Content.assemble(("d  ", "bold $accent"), self.w("don't know"))))
        rows.append((CANNOT, Content.assemble(("c  ", "bold $accent"), self.w("cannot get it"))))
        rows += self._trial(desk, width)
        same = self._asked == signal.id
        self.query_one("#outcomes", Rows).fill(rows, keep=same)

    def _trial(self, desk: Desk, width: int) -> list[tuple[str, Content | str] | None]:
        """A repair that is better tried at once than asked about."""
        trial = desk.diagnosis.trial
        if trial is None:
            return []
        head = f"{self.w.lead('try at once')}"
        title = fit(desk.session.book.fixes[trial.fix].title, width - 3 - cell_len(head))
        body = Content.assemble(("r  ", "bold $accent"), (head, "$success"), (title, "bold"))
        text = chances(trial, self.w)
        return [(f"try:{trial.fix}", body + "\n" + hanging(Content("   "), text, width, 3, "$foreground-muted"))]

    # nothing left to ask

    def _verdict(self, desk: Desk) -> None:
        d = desk.diagnosis
        rule(self, self.w("Verdict"))
        self.command = ""
        for name in ("#command", "#expect"):
            self.query_one(name).display = False
        rows: list[tuple[str, Content | str] | None] = []
        lines: list[Content | None] = []
        if desk.question is not None:
            lines.append(Content.styled(self.w("v: back to the question"), "bold $accent"))
        if d.healthy:
            beside = noted(desk.session)
            lines.append(Content.styled(self.w.healthy(beside), "bold $success"))
            for item in beside[:_NOTES]:
                title = desk.session.book.signals[item.signal].title
                step = f" {self.w('from step {step}', step=item.step)}" if item.step is not None else ""
                told = f"{step}{self.w.colon}{self.w.say(item.because)}"
                how = " ".join(self.w.say(what_to_do(desk.session, item)).split())
                lines.append(Content.assemble((title, "bold"), told))
                lines.append(Content.styled(f"{self.w.lead('how')}{how}", "$foreground-muted"))
        elif not d.causes:
            lines.append(Content.styled(self.w("the book has no causes"), "bold $warning"))
        else:
            first = d.causes[0]
            word = self.w("decided") if d.decided else f"{self.w.lead('undecided')}{self.w(d.why_undecided)}"
            style = "bold $success" if d.decided else "bold $warning"
            cause = desk.session.book.causes[first.id]
            lines += [
                Content.assemble((word, style)),
                Content.assemble((f"{percent(first.probability)} ", "bold"), (first.title, "bold")),
                Content.styled(f"{first.layer} / {first.id}", "$foreground-muted"),
                Content(" ".join(cause.summary.split())),
            ]
            if d.tipping is not None:
                tip = d.tipping
                text = self.w("would change the verdict: {signal} = {outcome} (then {cause})",
                              signal=tip.signal, outcome=tip.outcome, cause=tip.cause)  # fmt: skip
                lines.append(Content.styled(text, "$foreground-muted"))
            if d.fixes:
                lines.append(Content.styled(self.w("Repair"), "bold"))
            width = self._width
            for place, name in enumerate(d.fixes[:6], 1):
                fix = desk.session.book.fixes[name]
                tail = f"  {fix.minutes:.0f} min, {self.w('risk')} {self.w(fix.risk)}"
                title = fit(fix.title, width - 3 - cell_len(tail))
                rows.append(
                    (
                        f"fix:{name}",
                        Content.assemble((f"{place}  ", "bold $accent"), title, (tail, "$foreground-muted")),
                    )
                )
        self.query_one("#ask", Static).update(paragraphs(lines))
        outcomes = self.query_one("#outcomes", Rows)
        outcomes.display = bool(rows)
        outcomes.fill(rows, keep=False)
        hint = self.w("R records it, C closes it with a confirmed cause, n goes on asking, e explains")
        self.query_one("#how", Static).update(Content.styled("" if d.healthy else hint, "$foreground-muted"))

    def on_option_list_option_selected(self, event: Rows.OptionSelected) -> None:
        event.stop()
        self._choose(event.option_id or "")

    def digit(self, number: int) -> None:
        """Answer by digit."""
        if self.signal is not None:
            names = list(self.signal.outcomes)
            if 1 <= number <= min(len(names), 9):
                self._choose(f"state:{names[number - 1]}")
        elif self._desk is not None and 1 <= number <= len(self._desk.diagnosis.fixes[:6]):
            self._choose(f"fix:{self._desk.diagnosis.fixes[number - 1]}")

    def _choose(self, chosen: str) -> None:
        kind, _, name = chosen.partition(":")
        if kind == "fix":
            self.post_message(self.OpenFix(name))
        elif kind == "try":
            self.post_message(self.TryFix(name))
        elif self.signal is not None and chosen:
            unsure = "?" if self.probably and kind == "state" else ""
            self.probably = False
            self.post_message(self.Answer(self.signal.id, f"{name}{unsure}" if kind == "state" else kind))
