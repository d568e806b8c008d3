"""`playbook drill`: a real incident played against the engine's own price."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from playbook.errors import PlaybookError
from playbook.faces.cli import common, completing

if TYPE_CHECKING:
    from playbook.workflow.book import Library


@click.command(short_help="Play a real incident against the engine's price.")
@click.argument("case", required=False, metavar="[CASE]", shell_complete=completing.cases)
@click.option("--seed", type=int, help="Everybody who gives the same number gets the same drill and the same lists.")
@click.option("--list", "listed", is_flag=True, help="List the drills by code, without giving anything away.")
@click.option(
    "--leader-notes",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Write the leader's page (.html or .md) instead of playing.",
)
@click.option(
    "--answers", type=click.Path(path_type=Path), metavar="FILE", help="Take the moves from a file (YAML or JSON)."
)
@click.option("--par", is_flag=True, help="Let the engine play.")
@click.option("--lang", metavar="CODE", help="Language: en or zh.")
@common.json_option
@common.knowledge_option
def drill(
    case: str | None,
    seed: int | None,
    listed: bool,
    leader_notes: Path | None,
    answers: Path | None,
    par: bool,
    lang: str | None,
    as_json: bool,
    packs: tuple[Path, ...],
) -> int:
    """Find the cause of a published incident. Every look costs minutes and GPU-hours, a wrong suspicion costs its
    trial; the score compares you with the engine on the same incident.

    CASE is a code of --list, a case id, or the path of a case file (a run of your own). Without it the seed chooses.

    \b
    playbook drill --seed 42                             everybody gets the same
    playbook drill --seed 42 --leader-notes notes.html   what the leader prints
    """
    from playbook.faces.words import words
    from playbook.workflow.book import open_book
    from playbook.workflow.learning import drill as use_case

    w = words(lang)
    library = open_book(packs, lang=w.code)
    if listed:
        return _list(library, as_json, w)
    number = seed if seed is not None else 0 if case else _fresh_seed()
    chosen = use_case.find(case, library, number) if case else use_case.by_seed(number, library)
    if leader_notes is not None:
        from playbook.faces.learning.quiz_pages import leader_notes as notes
        from playbook.faces.printable import write
        from playbook.workflow.learning.drill_score import score

        engine = use_case.par_game(chosen)
        title = w("Drill {code}, notes for the leader", code=chosen.code)
        write(leader_notes, title, notes(chosen, engine, score(engine, engine), w), w.code)
        click.echo(w("written: {path}", path=leader_notes))
        return 0
    return _play(chosen, answers, par, as_json, w)


def _fresh_seed() -> int:
    import secrets

    return secrets.randbelow(100_000)


def _play(chosen: Any, answers: Path | None, par: bool, as_json: bool, w: Any) -> int:
    from playbook.faces.learning import drill_loop, drill_screen
    from playbook.faces.learning.replies import moves
    from playbook.workflow.learning.drill import par_game
    from playbook.workflow.learning.drill_score import replay, score

    out = common.console()
    if answers is None and not par and not (sys.stdin.isatty() and not as_json):
        if as_json:
            raise PlaybookError("drill --json", "needs the moves", "give --answers FILE, or --par")
        drill_screen.print_alert(chosen, out, w)
        drill_screen.print_suspects(chosen, out)
        return 0
    engine = par_game(chosen)
    if par:
        game = engine
    elif answers is not None:
        game = drill_loop.from_moves(chosen, moves(answers))
    else:
        game = drill_loop.play(chosen, out, w)
    result = score(game, engine)
    rows = replay(game)
    if as_json:
        common.emit(drill_screen.document(game, result, engine, rows))
    else:
        if par or answers is not None:
            drill_screen.print_alert(chosen, out, w)
        drill_screen.print_score(chosen, result, rows, out, w)
    return 0


def _list(library: Library, as_json: bool, w: Any) -> int:
    from playbook.faces.learning.drill_screen import print_list
    from playbook.workflow.learning.drill import all_codes, find, level

    say = common.narrator(as_json)
    rows = []
    for code, case_id in all_codes(library.book).items():
        if say is not None:
            say(code)
        try:
            chosen = find(case_id, library)
        except PlaybookError as error:
            click.echo(w.error(error), err=True)
            continue
        alert = next((e.state for e in chosen.alert if e.signal == "loss-shape"), "?")
        context = {e.signal: e.state for e in chosen.alert if e.signal in ("precision", "parallelism", "task")}
        row = {
            "code": code, "level": level(chosen), "alert": alert,
            "context": {**context, "gpus": chosen.size.gpus}, "looks": len(set(chosen.oracle) - _known(chosen)),
        }  # fmt: skip
        rows.append({**row, "case": case_id} if as_json else row)
    common.hush()
    if as_json:
        common.emit({"drills": rows})
    else:
        print_list(sorted(rows, key=lambda r: (r["level"], r["code"])), common.console(), w)
    return 0


def _known(chosen: Any) -> set[str]:
    return {e.signal for e in chosen.alert}
