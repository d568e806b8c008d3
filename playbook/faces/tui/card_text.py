"""Quiz cards as text for the terminal: the question, the mark with its reasons, the sum of a sheet. No widget."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from textual.content import Content

from playbook.faces.learning.countdown import clock
from playbook.faces.learning.curves import as_text
from playbook.faces.tui.widgets import bar, hanging
from playbook.faces.words import Words
from playbook.workflow.learning.interview import DEPTHS, Sat
from playbook.workflow.learning.quiz_cards import Card, Link, Picture
from playbook.workflow.learning.quiz_marks import Mark

_PARTLY = 0.1  # less than this share of the best is not worth a word
_PICTURE = 90  # columns of a picture at most


def stars(level: int) -> str:
    return "★" * level + "☆" * (4 - level)


def question(card: Card, w: Words, width: int, rows: int) -> list[Content]:
    """The question with its facts and its picture; `rows` are those of the pane."""
    lines = [Content.styled(card.ask, "bold")]
    lines += [hanging(Content.styled("·", "$accent"), fact, width, 2) for fact in card.facts]
    if card.picture is not None:
        lines += picture(card.picture, width, rows - 3)
    if card.number is not None and card.number.unit:
        lines.append(Content.styled(w("in {unit}", unit=card.number.unit), "$foreground-muted"))
    return lines


def picture(drawn: Picture, width: int, rows: int) -> list[Content]:
    """As many rows a curve as there is room for, three at least."""
    each = min(max((rows - 1) // len(drawn.panels) - 1, 3), 7)
    return [Content.from_rich_text(line) for line in as_text(drawn, min(width, _PICTURE), each)]


def marked(card: Card, said: Mark, w: Words, width: int) -> list[Content]:
    """Right or not, why, and when every other choice would be right."""
    word, style = (w("right"), "bold $success") if said.right else (w("not right"), "bold $error")
    partly = _PARTLY <= said.score < 1 and not said.right
    if card.form == "percent":
        word, style = w("noted"), "bold $primary"
    elif partly:
        word, style = w("partly right"), "bold $warning"
    share = f"  {said.score:.0%}" if card.form != "choice" or partly else ""
    lines = [Content.assemble((word, style), (share, "bold"))]
    if card.form == "choice":
        return lines + _choices(card, said, width)
    if card.form == "free":
        return lines + points(card, said, w, width)
    if card.form == "order":
        lines += [hanging(Content.styled(f"{k}", "bold $accent"), s, width, 3) for k, s in enumerate(card.steps, 1)]
    elif card.number is not None:
        answer = f"{card.number.value:g} {card.number.unit}"
        lines.append(
            Content.assemble(f"{w.lead('answer')}", (answer, "bold"), (f"  ({said.said})", "$foreground-muted"))
        )
    elif card.chance is not None:
        truth = w("it was so") if card.chance.truth else w("it was not so")
        brier = f"Brier {said.brier:.3f}, {w('the engine')} {said.engine_brier:.3f} ({card.chance.engine:.0%})"
        lines.append(Content.assemble((truth, "bold"), f"; {brier}"))
    return [*lines, Content(card.explain)] if card.explain else lines


def _choices(card: Card, said: Mark, width: int) -> list[Content]:
    lines = []
    for place, option in enumerate(card.options):
        best, mine = place == card.best, option.text == said.said
        sign, style = ("✓", "$success") if best else ("✗", "$error") if mine else ("·", "$foreground-muted")
        credit = f" ({option.credit:.0%})" if 0 < option.credit < 1 else ""
        head = Content.styled(f"{sign} {place + 1}", style)
        lines.append(hanging(head, option.text + credit, width, 5, style if best or mine else ""))
        lines.append(hanging(Content(""), option.why, width, 5, "$foreground-muted"))
    return lines


def points(card: Card, said: Mark, w: Words, width: int) -> list[Content]:
    """Key points with those that were said, the traps, the depth that was reached."""
    lines = []
    for point in card.points:
        sign, style = ("✓", "$success") if point.label in said.covered else ("·", "$warning")
        lines.append(hanging(Content.styled(sign, style), f"[{point.depth}] {point.label}: {point.text}", width, 2))
    lines += [hanging(Content.styled("!", "$error"), f"{w.lead('trap')}{trap}", width, 2) for trap in card.traps]
    lines.append(Content.styled(f"{w.lead('depth reached')}{w(DEPTHS[said.depth])}", "bold"))
    return lines


def sat(one: Sat, parts: int, w: Words) -> list[Content]:
    """The clock and the frame of a spoken answer, above its key points."""
    over = Content.styled(f" ({w('over time')})", "$error") if one.over_time else Content("")
    lines = [
        Content.assemble((bar(one.mark.score, 20), "$primary"), f" {one.mark.score:.0%}  {clock(one.seconds)}", over)
    ]
    if one.opening and parts:
        heard = " → ".join(one.frame) or w("none")
        text = f"{w('frame of the answer')} ({len(one.frame)}/{parts}): {heard}"
        lines.append(Content.styled(text, "$foreground-muted"))
    return lines


def links(card: Card) -> list[Link]:
    """Where to read on, each once: what the card is about, then what its choices are about."""
    return list(dict.fromkeys([*card.links, *(option.link for option in card.options)]))


def ending(done: Sequence[tuple[Card, Mark, datetime | None]], asked: int, w: Words, width: int) -> list[Content]:
    """The sum of a sheet and a line for each card."""
    if not done:
        return [Content.styled(w("nothing answered"), "$foreground-muted")]
    share = sum(m.score for _, m, _ in done) / len(done)
    right = sum(m.right for _, m, _ in done)
    head = Content.styled(w("{right} of {n} right", right=right, n=len(done)), "bold")
    lines = [Content.assemble(head, "  ", (bar(share, 20), "$primary"), f" {share:.0%}")]
    if len(done) < asked:
        lines.append(Content.styled(w("{n} not answered", n=asked - len(done)), "$foreground-muted"))
    told = [(m.brier, m.engine_brier) for _, m, _ in done if m.brier is not None and m.engine_brier is not None]
    if told:
        mine, engine = (sum(x) / len(told) for x in zip(*told, strict=True))
        lines.append(
            Content(w("Brier {mine:.3f}, the engine on the same evidence {engine:.3f}", mine=mine, engine=engine))
        )
    lines.append(Content(""))
    for card, said, due in done:
        sign, style = ("✓", "$success") if said.right else ("·", "$warning") if said.score else ("✗", "$error")
        when = f"  → {w('comes back {when}', when=f'{due.astimezone():%Y-%m-%d %H:%M}')}" if due is not None else ""
        lines.append(hanging(Content.styled(f"{sign} {said.score:>4.0%}", style), card.ask + when, width, 7))
    return lines
