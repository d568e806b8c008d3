"""Cards on a terminal: the question, the mark with its reasons, a spoken answer checked, the progress."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime

from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from playbook.faces.learning.countdown import clock
from playbook.faces.learning.curves import as_text
from playbook.faces.report import bar
from playbook.faces.words import Words
from playbook.knowledge.entries import LAYERS, SYMPTOMS
from playbook.workflow.learning.interview import DEPTHS, MINUTES, Sat, total
from playbook.workflow.learning.progress import BINS, RATINGS, Answer, brier, calibration, weak_spots
from playbook.workflow.learning.quiz import TEMPLATES
from playbook.workflow.learning.quiz_cards import Card
from playbook.workflow.learning.quiz_marks import Mark

# What to type, by the form of the card.
HELP = {
    "choice": "a number",
    "order": "the numbers in the right order, such as 3 1 2 4",
    "number": "a number",
    "percent": "a percentage, 0 to 100",
    "free": "your answer; a line with a single dot ends it",
}
_PARTLY = 0.1  # less than this share of the best is not worth a word
_MARKS = {True: ("right", "bold green"), False: ("not right", "bold red")}


def print_card(card: Card, out: Console, w: Words, place: int = 1, of: int = 1) -> None:
    """The question with its facts, picture and choices; nothing that gives the answer away."""
    title = w(TEMPLATES[card.spec.template].title)
    stars = "★" * card.spec.level + "☆" * (4 - card.spec.level)
    out.rule(f"[bold]{place}/{of}[/]  {title}  [yellow]{stars}[/]", align="left", style="dim")
    out.print(Text(card.ask, style="bold"))
    for fact in card.facts:
        out.print(Padding(Text(f"· {fact}"), (0, 0, 0, 2)))
    if card.picture is not None:
        for line in as_text(card.picture, min(out.width, 90)):
            out.print(line)
    for number, option in enumerate(card.options, 1):
        out.print(_numbered(number, option.text))
    for number, step in enumerate(card.shown_steps if card.form == "order" else (), 1):
        out.print(_numbered(number, step))
    if card.number is not None and card.number.unit:
        out.print(Padding(Text(w("in {unit}", unit=card.number.unit), style="dim"), (0, 0, 0, 2)))


def _numbered(number: int, text: str) -> Padding:
    """A number, and the text hanging beside it."""
    grid = Table.grid(padding=(0, 1))
    grid.add_column(style="bold", no_wrap=True)
    grid.add_column(overflow="fold")
    grid.add_row(f"{number}", Text(text))
    return Padding(grid, (0, 0, 0, 2))


def print_mark(card: Card, marked: Mark, out: Console, w: Words, due: datetime | None = None) -> None:
    """Right or not, why, when every other choice would be right, and where to read on."""
    out.print(_judgement(card, marked, w))
    if card.form == "choice":
        _print_choices(card, marked, out)
    elif card.form == "order":
        for number, step in enumerate(card.steps, 1):
            out.print(_numbered(number, step))
    elif card.number is not None:
        out.print(f"  {w.lead('answer')}[bold]{card.number.value:g}[/] {card.number.unit}")
    elif card.chance is not None:
        truth = w("it was so") if card.chance.truth else w("it was not so")
        out.print(
            f"  {truth}; Brier {marked.brier:.3f}, {w('the engine')} {marked.engine_brier:.3f}"
            f" ({card.chance.engine:.0%})"
        )
    if card.form == "free":
        print_points(card, marked, out, w)
    elif card.form != "choice":
        out.print(Padding(Text(card.explain), (0, 0, 0, 2)))
    _print_links(card, out)
    if due is not None:
        out.print(Text(w("comes back {when}", when=_day(due)), style="dim"))
    out.print()


def _judgement(card: Card, marked: Mark, w: Words) -> Text:
    """Right, partly or not, with the score where it says more; a probability is neither, it is noted."""
    word, style = _MARKS[marked.right]
    partly = _PARTLY <= marked.score < 1 and not marked.right
    if card.form == "percent":
        head = Text(w("noted"), style="bold cyan")
    else:
        head = Text(w("partly right") if partly else w(word), style=style)
    if card.form != "choice" or partly:
        head.append(f"  {marked.score:.0%}", "bold")
    return head


def _print_links(card: Card, out: Console) -> None:
    out.print(Text("→ " + "  ".join(card.about), style="dim"), soft_wrap=True)


def _print_choices(card: Card, marked: Mark, out: Console) -> None:
    for number, option in enumerate(card.options, 1):
        best = number - 1 == card.best
        mine = option.text == marked.said
        sign, style = ("✓", "green") if best else ("✗", "red") if mine else ("·", "dim")
        grid = Table.grid(padding=(0, 1))
        grid.add_column(no_wrap=True)
        grid.add_column(overflow="fold")
        credit = f" ({option.credit:.0%})" if 0 < option.credit < 1 else ""
        grid.add_row(Text(f"{sign} {number}", style=style), Text(option.text + credit, style=style))
        grid.add_row("", Text(option.why))
        grid.add_row("", Text("→ " + "/".join(option.link), style="dim"))
        out.print(Padding(grid, (0, 0, 0, 2)))


def print_points(card: Card, marked: Mark, out: Console, w: Words) -> None:
    """Key points with those that were said, and the traps."""
    for point in card.points:
        said = point.label in marked.covered
        line = Text("  ✓ " if said else "  · ", style="green" if said else "yellow")
        line.append(f"[{point.depth}] {point.label}: ", "bold")
        line.append(point.text)
        out.print(line)
    for trap in card.traps:
        out.print(Text(f"  ! {w.lead('trap')}{trap}", style="red"))
    out.print(Text(f"  {w.lead('depth reached')}{w(DEPTHS[marked.depth])}", style="bold"))


def _day(moment: datetime) -> str:
    return moment.astimezone().strftime("%Y-%m-%d %H:%M")


def print_end(marks: Sequence[Mark], out: Console, w: Words) -> None:
    """The sum of a sheet."""
    if not marks:
        out.print(w("nothing answered"))
        return
    share = sum(m.score for m in marks) / len(marks)
    right = sum(m.right for m in marks)
    out.print(f"[bold]{w('{right} of {n} right', right=right, n=len(marks))}[/]  {bar(share)} {share:.0%}")
    told = [(m.brier, m.engine_brier) for m in marks if m.brier is not None and m.engine_brier is not None]
    if told:
        mine, engine = (sum(x) / len(told) for x in zip(*told, strict=True))
        out.print(w("Brier {mine:.3f}, the engine on the same evidence {engine:.3f}", mine=mine, engine=engine))


def print_interview_question(card: Card, opening: bool, out: Console, w: Words, place: int, of: int) -> None:
    """A question as an interviewer puts it: no hints, the time."""
    kind = w("Question") if opening else w("Follow-up")
    stars = "★" * card.spec.level
    minutes = w("{n:g} minutes", n=MINUTES[card.spec.level])
    out.rule(f"[bold]{place}/{of}  {kind}[/]  [yellow]{stars}[/]  [dim]{minutes}[/]", align="left", style="dim")
    out.print(Text(card.ask, style="bold"))


def print_sat(sat: Sat, parts: int, out: Console, w: Words) -> None:
    """One spoken answer checked."""
    over = f" [red]({w('over time')})[/]" if sat.over_time else ""
    out.print(f"{bar(sat.mark.score)} [bold]{sat.mark.score:.0%}[/]  {clock(sat.seconds)}{over}")
    print_points(sat.card, sat.mark, out, w)
    if sat.opening and parts:
        heard = " → ".join(sat.frame) or w("none")
        out.print(Text(f"  {w('frame of the answer')} ({len(sat.frame)}/{parts}): {heard}", style="dim"))
    _print_links(sat.card, out)
    out.print()


def print_interview_end(sittings: Sequence[Sat], out: Console, w: Words) -> None:
    share = total(sittings)
    out.print(f"[bold]{w('Interview')}[/]  {bar(share / 100)} [bold]{share:.0f} %[/]")


def print_progress(answers: Sequence[Answer], due: int, known: int, every: int, out: Console, w: Words) -> None:
    """How it goes: due cards, weak spots, calibration."""
    head = w.count(len(answers), "1 answer", "{n} answers")
    head += w(", {known} of {every} cards met, {due} due", known=known, every=every, due=due)
    out.print(f"[bold]{head}[/]")
    if not answers:
        out.print(w("start with `playbook quiz`"))
        return
    for title, among in (("layer", LAYERS), ("symptom", SYMPTOMS), ("kind of card", tuple(TEMPLATES))):
        spots = weak_spots(answers, among)
        if spots:
            out.print(f"\n[bold]{w('Weak spots by {what}', what=w(title))}[/]")
            for spot in spots[:6]:
                name = w(TEMPLATES[spot.topic].title) if spot.topic in TEMPLATES else w(spot.topic)
                out.print(Text(f"  {bar(spot.score)} {spot.score:4.0%}  {name}  ({spot.answers})"))
    score = brier(answers)
    if score is not None:
        out.print(f"\n[bold]{w('Stated probabilities')}[/]  Brier {score:.3f}")
        for row in calibration(answers):
            low, high = row["from"], row["from"] + 1 / BINS
            out.print(
                f"  {w('said')} {low:.0%}-{high:.0%}  {bar(row['came_true'])}"
                f" {w('came true')} {row['came_true']:.0%} ({row['answers']:.0f})"
            )


def print_topics(counts: Mapping[str, int], out: Console, w: Words) -> None:
    for name, count in counts.items():
        title = w(TEMPLATES[name].title) if name in TEMPLATES else w(name)
        out.print(Text(f"{name:20} {count:5}  {title if title != name else ''}".rstrip()))


def mark_document(card: Card, marked: Mark | None) -> dict[str, object]:
    """A card (and its mark) as JSON; without a mark the key is part of it."""
    document: dict[str, object] = {
        "id": card.id,
        "template": card.spec.template,
        "level": card.spec.level,
        "form": card.form,
        "ask": card.ask,
        "facts": list(card.facts),
        "about": list(card.about),
        "sources": list(card.sources),
        "explain": card.explain,
    }
    if card.options:
        document["choices"] = [
            {"text": o.text, "credit": o.credit, "why": o.why, "link": "/".join(o.link)} for o in card.options
        ]
    if card.form == "order":
        document["shown"], document["order"] = list(card.shown_steps), list(card.steps)
    if card.number is not None:
        document["answer"] = {"value": card.number.value, "unit": card.number.unit, "within": card.number.within}
    if card.chance is not None:
        document["chance"] = {"truth": card.chance.truth, "engine": card.chance.engine}
    if card.points:
        document["key_points"] = [{"label": p.label, "text": p.text, "depth": p.depth} for p in card.points]
        document["traps"] = list(card.traps)
    if marked is not None:
        document |= {"said": marked.said, "score": marked.score, "right": marked.right, "why": marked.why}
        document["rating"] = RATINGS[marked.rating]
        if marked.brier is not None:
            document |= {"brier": marked.brier, "engine_brier": marked.engine_brier}
        if card.points:
            document |= {"covered": list(marked.covered), "depth": marked.depth}
    return document
