"""A drill on a terminal: the alert, the prices, the bill, the score against par, the replay with better questions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rich.console import Console, Group
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from playbook.engine.value import Cost, cost_of
from playbook.faces.learning.curves import as_text
from playbook.faces.prices import price
from playbook.faces.report import bar
from playbook.faces.words import Words
from playbook.workflow.learning.drill import Drill, Game, Step
from playbook.workflow.learning.drill_score import WEIGHTS, Better, Score
from playbook.workflow.learning.quiz_curves import case_picture

# Kinds of looks in the order of the price list, and what one does.
KIND_WORDS = {
    "metrics": "read a curve",
    "log": "search the logs",
    "config": "read the configuration",
    "ask": "look into it yourself",
    "experiment": "make a control run",
    "probe": "ask the machines",
}
KINDS = tuple(KIND_WORDS)
_NOT_THERE = ("no", "none", "absent")
HELP = (
    "l [WORD] = what can be looked at (WORD: a kind or part of a name), ID or number = look there, e = evidence so far,"
    " s = suspects, s NUMBER or s ID = try the repair of a suspect, g = give up"
)


def print_alert(drill: Drill, out: Console, w: Words) -> None:
    """What is known at once; no title, since that would tell the cause."""
    facts: list[Any] = [Text(f"· {line}") for line in alert_lines(drill)]
    size = drill.size
    facts.append(Text(w("The job: {gpus} GPUs, {seconds:g} s per step", gpus=size.gpus, seconds=size.step_seconds)))
    title = w("Drill {code}, seed {seed}", code=drill.code, seed=drill.seed)
    out.print(Panel(Group(*facts), title=title, title_align="left", border_style="red"))
    picture = case_picture(drill.case.metrics, drill.folder)
    if picture is not None:
        for line in as_text(picture, min(out.width, 90)):
            out.print(line)


def alert_lines(drill: Drill) -> list[str]:
    """The evidence of the alert in the book's words: the shape of the loss first, what is not there last."""
    known = sorted(drill.alert, key=lambda e: (e.signal != "loss-shape", e.state in _NOT_THERE, e.signal))
    return [fact(drill, e.signal, e.state) for e in known]


def fact(drill: Drill, signal: str, state: str) -> str:
    entry = drill.book.signals[signal]
    meaning = entry.outcomes.get(state, "")
    return f"{entry.title}: {state}" + (f" ({meaning})" if meaning else "")


def looks(game: Game, word: str = "") -> list[str]:
    """Signals that can still be looked at, by kind, then price; with `word` only fitting ones."""
    book = game.drill.book
    known = {e.signal for e in game.session.evidence} | set(game.session.closed)
    found = [s for s in book.signals.values() if s.id not in known]
    if word in KINDS:
        found = [s for s in found if s.kind == word]
    elif word:
        low = word.lower()
        found = [s for s in found if low in s.id or low in s.title.lower() or low in s.question.lower()]
    order = sorted(found, key=lambda s: (KINDS.index(s.kind), _cost(game, s.id).total, s.id))
    return [s.id for s in order]


def _cost(game: Game, signal: str) -> Cost:
    return cost_of(game.drill.book.signals[signal], game.drill.size, game.session.clusters_done)


def print_looks(game: Game, shown: Sequence[str], out: Console, w: Words) -> None:
    """The price list, numbered."""
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="bold")
    table.add_column("", justify="right", no_wrap=True)
    table.add_column(w("look"), overflow="fold", ratio=1)
    table.add_column(w("signal"), no_wrap=True, style="dim")
    table.add_column(w("price"), no_wrap=True)
    kind = ""
    for number, name in enumerate(shown, 1):
        signal = game.drill.book.signals[name]
        if signal.kind != kind:
            kind = signal.kind
            table.add_row("", Text(w(KIND_WORDS[kind]) + f" ({kind})", style="bold cyan"), "", "")
        table.add_row(str(number), Text(signal.title), name, price(_cost(game, name)))
    out.print(table)


def print_kinds(game: Game, out: Console, w: Words) -> None:
    """What there is to look at, in six words."""
    for kind in KINDS:
        names = looks(game, kind)
        if names:
            costs = [_cost(game, n) for n in names]
            low, high = (price(f(costs, key=lambda c: c.total)) for f in (min, max))
            out.print(Text(f"  l {kind:12} {w(KIND_WORDS[kind]):28} {len(names):3}  {low} - {high}"))


def print_suspects(drill: Drill, out: Console) -> None:
    for number, cause in enumerate(drill.suspects, 1):
        line = Text(f"  s {number}  ", style="bold")
        line.append(drill.book.causes[cause].title)
        line.append(f"  {drill.book.causes[cause].layer}/{cause}", "dim")
        out.print(line)


def print_bill(game: Game, out: Console, w: Words) -> None:
    cost = game.cost
    out.print(
        Text(
            w("so far {minutes:.0f} minutes, {hours:.1f} GPU-hours", minutes=cost.minutes, hours=cost.gpu_hours),
            style="dim",
        )
    )


def print_score(drill: Drill, result: Score, rows: Sequence[Better], out: Console, w: Words) -> None:
    """The score by parts, both bills, the replay, the story."""
    book = drill.book
    out.rule(f"[bold]{w('Score')}[/]", align="left", style="dim")
    for name, share in result.parts.items():
        out.print(f"  {w(name):12} {bar(share)} {share:4.0%}  [dim]× {WEIGHTS[name]:.0%}[/]")
    verdict = w("under par") if result.under_par else w("solved") if result.solved else w("not solved")
    out.print(f"  [bold]{result.total:.0f} %[/]  {verdict}")
    mine, par = result.cost, result.par
    out.print(
        w(
            "you: {minutes:.0f} min, {hours:.1f} GPU-h, together {total:.0f} min; the engine: {pm:.0f} min,"
            " {ph:.1f} GPU-h, together {pt:.0f} min, {looks} looks, {suspects} suspicions",
            minutes=mine.minutes, hours=mine.gpu_hours, total=mine.total, pm=par.minutes, ph=par.gpu_hours,
            pt=par.total, looks=result.par_looks, suspects=result.par_suspects,
        )
    )  # fmt: skip
    _print_replay(drill, rows, out, w)
    case, entry = drill.case, book.cases.get(drill.case.id)
    out.rule(f"[bold]{w('What it was')}[/]", align="left", style="dim")
    out.print(Text(f"{drill.title} ({case.id})", style="bold"))
    for cause in drill.truth[:2]:
        out.print(Text(f"  {book.causes[cause].title}  → causes/{cause}"))
    if entry is not None and entry.story:
        out.print(Text(entry.story))
    if drill.repairs:
        out.print(Text(f"{w.lead('repair')}{drill.repairs[0].title}  → fixes/{drill.repairs[0].id}"))


def _print_replay(drill: Drill, rows: Sequence[Better], out: Console, w: Words) -> None:
    if not rows:
        return
    out.rule(f"[bold]{w('Replay')}[/]", align="left", style="dim")
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="bold")
    for name in ("step", "what", "finds", "price", "value", "true cause"):
        table.add_column(w(name), overflow="fold", no_wrap=name in ("price", "value", "true cause"))
    for row in rows:
        step = row.step
        value = f"{step.share:.0%}" if step.kind == "look" else ""
        table.add_row(w(step.kind), step.name, outcome(step, w), price(step.cost), value, f"{step.chance:.0%}")
        if row.signal:
            better = w("better: {signal} (would have shown {state})", signal=row.signal, state=row.state)
            if row.state == "unknown":
                better = w("better: {signal} (though here nobody knew)", signal=row.signal)
            table.add_row("", Text(better, style="yellow"), "", "", "", "")
    out.print(table)


def outcome(step: Step, w: Words) -> str:
    """What came of a step; the outcomes of signals are ids."""
    return w(step.state) if step.state in ("right", "wrong", "unknown") else step.state


def print_list(rows: Sequence[dict[str, Any]], out: Console, w: Words) -> None:
    """The drills on offer, by code, without a word that tells the cause."""
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="bold")
    for name in ("drill", "level", "alert", "context", "looks"):
        table.add_column(w(name), overflow="fold", justify="right" if name == "looks" else "left")
    for row in rows:
        context = ", ".join(f"{k} {v}" for k, v in row["context"].items())
        table.add_row(row["code"], "★" * row["level"], row["alert"], Text(context), str(row["looks"]))
    out.print(table)


def document(game: Game, result: Score, par: Game, rows: Sequence[Better]) -> dict[str, Any]:
    """The drill as JSON."""
    drill = game.drill
    return {
        "drill": drill.code,
        "case": drill.case.id,
        "seed": drill.seed,
        "truth": list(drill.truth),
        "alert": {e.signal: e.state for e in drill.alert},
        "held_back": list(drill.held),
        "suspects": list(drill.suspects),
        "solved": result.solved,
        "score": result.total,
        "parts": result.parts,
        "you": _bill(result.cost),
        "par": {
            **_bill(result.par),
            "looks": result.par_looks,
            "suspicions": result.par_suspects,
            "chance": result.par_chance,
            "moves": [{s.kind: s.name, "finds": s.state} for s in par.steps],
        },
        "replay": [
            {
                "step": r.step.kind, "what": r.step.name, "finds": r.step.state, **_bill(r.step.cost),
                "share_of_best": r.step.share, "true_cause": r.step.chance,
                "better": {"signal": r.signal, "would_have_shown": r.state} if r.signal else None,
            }
            for r in rows
        ],
    }  # fmt: skip


def _bill(cost: Cost) -> dict[str, float]:
    return {"minutes": cost.minutes, "gpu_hours": cost.gpu_hours, "total_minutes": cost.total}
