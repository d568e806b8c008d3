"""The end of a drill as text: the score by parts, both bills, the replay with better looks, what it was. No widget."""

from __future__ import annotations

from collections.abc import Sequence

from textual.content import Content

from playbook.faces.learning.drill_screen import price
from playbook.faces.tui.widgets import bar, fit, hanging, pad
from playbook.faces.words import Words
from playbook.workflow.learning.drill import Drill, Game
from playbook.workflow.learning.drill_score import WEIGHTS, Better, Score

_BAR = 16
_NAME = 14  # columns of a part of the score
_KINDS = {"look": "signals", "aid": "fixes", "repair": "fixes", "suspect": "causes"}


def links(game: Game, w: Words, width: int) -> list[tuple[str, Content | str] | None]:
    """Entries to read on: the causes that it was, the repair, the case."""
    book = game.drill.book
    found = [("causes", name) for name in game.drill.truth[:2]]
    found += [("fixes", game.drill.repairs[0].id)] if game.drill.repairs else []
    found += [("cases", game.drill.case.id)] if game.drill.case.id in book.cases else []
    rows: list[tuple[str, Content | str] | None] = []
    for kind, name in found:
        head = f"{w(kind)}  "
        text = fit(book.kind(kind)[name].title, width - Content(head).cell_length)
        rows.append((f"{kind}:{name}", Content.assemble((head, "$foreground-muted"), text)))
    return rows


def score(drill: Drill, result: Score, rows: Sequence[Better], w: Words, width: int) -> list[Content]:
    """Everything that is said when the game is over."""
    word = w("under par") if result.under_par else w("solved") if result.solved else w("not solved")
    style = "bold $success" if result.solved else "bold $warning"
    lines = [Content.assemble((f"{result.total:.0f} %  ", "bold"), (word, style))]
    for name, share in result.parts.items():
        tail = f" × {WEIGHTS[name]:.0%}"
        lines.append(
            Content.assemble(
                pad(w(name), _NAME), (bar(share, _BAR), "$primary"), f" {share:>4.0%}", (tail, "$foreground-muted")
            )
        )
    mine, par = result.cost, result.par
    lines += [
        Content(""),
        Content.assemble(pad(w("you"), _NAME), f"{price(mine)}  = {mine.total:.0f} min"),
        Content.assemble(pad(w("the engine"), _NAME), f"{price(par)}  = {par.total:.0f} min"),
        Content.styled(
            " " * _NAME
            + w("{looks} looks, {suspects} suspicions", looks=result.par_looks, suspects=result.par_suspects),
            "$foreground-muted",
        ),
    ]
    return [*lines, *_story(drill, w), *_replay(drill, rows, w, width)]


def _story(drill: Drill, w: Words) -> list[Content]:
    book, entry = drill.book, drill.book.cases.get(drill.case.id)
    lines = [Content(""), Content.styled(w("What it was"), "bold $accent"), Content.styled(drill.case.title, "bold")]
    lines += [Content.styled(book.causes[cause].title, "$primary") for cause in drill.truth[:2]]
    if entry is not None and entry.story:
        lines.append(Content(" ".join(entry.story.split())))
    if drill.repairs:
        lines.append(Content.assemble((f"{w.lead('repair')}", "$foreground-muted"), drill.repairs[0].title))
    return lines


def _replay(drill: Drill, rows: Sequence[Better], w: Words, width: int) -> list[Content]:
    if not rows:
        return []
    book = drill.book
    head = Content.styled(w("Replay: what was done, its value against the best look, the true cause after it"),
                          "bold $accent")  # fmt: skip
    lines = [Content(""), head]
    for place, row in enumerate(rows, 1):
        step = row.step
        title = book.kind(_KINDS[step.kind])[step.name].title
        value = f", {w('value')} {step.share:.0%}" if step.kind == "look" else ""
        tail = f"{w(step.state)} · {price(step.cost)}{value}, {w('true cause')} {step.chance:.0%}"
        lines.append(hanging(Content.styled(f"{place}", "bold $accent"), f"{w.lead(step.kind)}{title}", width, 3))
        lines.append(hanging(Content(""), tail, width, 3, "$foreground-muted"))
        if row.signal:
            better = w("better: {signal} (would have shown {state})", signal=row.signal, state=row.state)
            if row.state == "unknown":
                better = w("better: {signal} (though here nobody knew)", signal=row.signal)
            lines.append(hanging(Content(""), better, width, 3, "$warning"))
    return lines
