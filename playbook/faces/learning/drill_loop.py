"""Playing a drill: first aid, then looks and suspicions until the cause stands, then the repair."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from rich.console import Console
from rich.text import Text

from playbook.errors import PlaybookError
from playbook.faces.learning.drill_screen import (
    HELP,
    fact,
    looks,
    print_alert,
    print_bill,
    print_kinds,
    print_looks,
    print_suspects,
)
from playbook.faces.learning.replies import ask
from playbook.faces.words import Words
from playbook.workflow.learning.drill import MENU, Drill, Game
from playbook.workflow.learning.quiz_cards import dice

_LEAVE = ("g", "give up", "q", "quit", "exit")


def from_moves(drill: Drill, moves: Iterable[tuple[str, str]]) -> Game:
    """Play the moves of a file: aid, look, suspect, repair. Raises `PlaybookError` for a move that is none."""
    game = Game(drill)
    deeds = {"aid": game.aid, "look": game.look, "suspect": game.suspect, "repair": game.repair}
    for verb, name in moves:
        if verb not in deeds:
            raise PlaybookError(f"{verb} {name}".strip(), "is no move", f"one of {', '.join(deeds)}")
        deeds[verb](name)
    return game


def play(drill: Drill, out: Console, w: Words) -> Game:
    """A person plays."""
    game = Game(drill)
    print_alert(drill, out, w)
    _aid(game, out, w)
    out.print(Text(w(HELP), style="dim"))
    print_kinds(game, out, w)
    print_suspects(drill, out)
    shown: list[str] = []
    while not game.solved:
        reply = ask(out, w("look, suspect or ?"))
        if reply is None or reply.lower() in _LEAVE:
            return game
        verb, _, rest = reply.partition(" ")
        rest = rest.strip()
        try:
            if verb == "?" or not reply:
                out.print(Text(w(HELP), style="dim"))
                print_kinds(game, out, w)
            elif verb == "l":
                shown = looks(game, rest)
                print_looks(game, shown, out, w)
            elif verb == "e":
                for item in game.session.evidence:
                    out.print(Text(f"  · {fact(drill, item.signal, item.state)}"))
                print_bill(game, out, w)
            elif verb == "s" and not rest:
                print_suspects(drill, out)
            elif verb == "s":
                _suspect(game, rest, out, w)
            else:
                _look(game, reply, shown, out, w)
        except PlaybookError as error:
            told = error.problem
            out.print(Text(f"{told.where}: {w(told.what)} ({w.say(told.hint)})", style="yellow"))
    _repair(game, out, w)
    return game


def menu(right: list[str], others: list[str], drill: Drill, what: str) -> list[str]:
    """The right ones (two at most) among others of their kind, in an order that belongs to the drill and its seed."""
    rng = dice(drill.case.id, what, str(drill.seed))
    rest = [o for o in others if o not in right]
    few = right[:2]
    chosen = few + rng.sample(rest, min(MENU - len(few), len(rest)))
    rng.shuffle(chosen)
    return chosen


def aid_menu(drill: Drill) -> list[str]:
    others = sorted(
        f.id for f in drill.book.fixes.values() if f.kind == "first-aid" and drill.symptom not in f.symptoms
    )
    return menu(list(drill.aids), others, drill, "aid")


def repair_menu(drill: Drill) -> list[str]:
    """Repairs of the cause among repairs of the other suspects."""
    right = [f.id for f in drill.repairs]
    rivals = [
        f.id
        for f in drill.book.fixes.values()
        if f.kind == "repair" and set(f.treats) & set(drill.suspects) and f.id not in right
    ]
    return menu(right, sorted(rivals), drill, "repair")


def _numbered(reply: str, listed: Sequence[str]) -> str:
    """The id that a number of a list stands for; any other reply as it is."""
    return listed[int(reply) - 1] if reply.isdecimal() and 1 <= int(reply) <= len(listed) else reply


def _choose(choices: list[str], game: Game, out: Console, w: Words, question: str) -> str | None:
    out.print(Text(question, style="bold"))
    for number, name in enumerate(choices, 1):
        out.print(Text(f"  {number} {game.drill.book.fixes[name].title}"))
    while True:
        reply = ask(out, w("a number, or nothing to go on"))
        if not reply:
            return None
        chosen = _numbered(reply, choices)
        if chosen in game.drill.book.fixes:
            return chosen


def _aid(game: Game, out: Console, w: Words) -> None:
    choices = aid_menu(game.drill)
    if not game.drill.aids or not choices:
        return
    chosen = _choose(choices, game, out, w, w("What do you do first, before you look for the cause?"))
    if chosen is not None:
        game.aid(chosen)


def _look(game: Game, reply: str, shown: list[str], out: Console, w: Words) -> None:
    name = _numbered(reply, shown)
    if name not in game.drill.book.signals:
        near = looks(game, reply)
        if len(near) != 1:
            raise PlaybookError(reply, "is nothing to look at", "l lists what there is")
        name = near[0]
    state = game.look(name)
    if state == "unknown":
        out.print(Text(f"  {game.drill.book.signals[name].title}: {w('nobody knows')}", style="yellow"))
    else:
        out.print(Text(f"  {fact(game.drill, name, state)}", style="green"))
    print_bill(game, out, w)


def _suspect(game: Game, rest: str, out: Console, w: Words) -> None:
    name = _numbered(rest, game.drill.suspects)
    if game.suspect(name):
        out.print(Text(w("The trial ends the incident: that was it."), style="bold green"))
        return
    fixes = [f for f in game.drill.book.fixes.values() if name in f.treats and f.kind == "repair"]
    out.print(Text(w("The trial did not help."), style="bold red"))
    if fixes:
        out.print(Text(f"  {fixes[0].title}: {fixes[0].not_cured}"))
    print_bill(game, out, w)


def _repair(game: Game, out: Console, w: Words) -> None:
    choices = repair_menu(game.drill)
    while game.drill.repairs and not game.mended:
        chosen = _choose(choices, game, out, w, w("What mends it for good?"))
        if chosen is None:
            return
        if not game.repair(chosen):
            out.print(Text(w("That is not it."), style="red"))
