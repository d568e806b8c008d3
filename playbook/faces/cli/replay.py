"""`playbook replay`: which earlier verdicts would be others with today's knowledge and detectors?"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from playbook.errors import PlaybookError
from playbook.faces.cli import common, completing
from playbook.faces.cli.speech import current, say
from playbook.faces.words import number

if TYPE_CHECKING:
    from playbook.incidents.record import Sentence
    from playbook.workflow.records.replay import Replayed


@click.command(short_help="Replay recorded incidents and case studies: which verdicts changed?")
@click.argument("ids", nargs=-1, metavar="[ID...]", shell_complete=completing.replayable)
@click.option("--all", "everything", is_flag=True, help="All incidents and case studies (the same as no ID).")
@click.option("--accept", is_flag=True, help="Accept what is said now as what is expected from now on.")
@common.lang_option
@common.json_option
@common.knowledge_option
@common.db_option
def replay(
    ids: tuple[str, ...], everything: bool, accept: bool, as_json: bool, packs: tuple[Path, ...], db: str | None
) -> int:
    """Replay incidents and case studies; exit 1 when a verdict has changed.

    ID is an incident, a case study, or the folder of a regression artifact.
    """
    from playbook.workflow.book import open_book
    from playbook.workflow.records import replay as use_case
    from playbook.workflow.records.shelf import is_there, shelf

    if ids and everything:
        raise PlaybookError("--all", "cannot go with IDs", "give one of the two")
    library = open_book(packs)
    folders = [Path(i) for i in ids if Path(i).is_dir()]
    named = [i for i in ids if not Path(i).is_dir()]
    results: list[Replayed] = []
    say = common.narrator(as_json)
    if folders:
        from playbook.workflow.records.regression import replay_folder

        results += [replay_folder(folder, library) for folder in folders]
    written: list[Path] = []
    if named or not ids:
        if is_there(db):
            with shelf(db) as store:
                results += use_case.replay(library, store, named, say)
                written = use_case.accept(results, library, store) if accept else []
        else:
            results += use_case.replay(library, None, named, say)
            written = use_case.accept(results, library, None) if accept else []
    common.hush()
    gone = [] if ids or accept else use_case.gone(library.book)
    changed = [] if accept else [r for r in results if r.changed]
    if as_json:
        common.emit(_document(results, changed, gone, written))
    else:
        _print(results, changed, gone, written)
    return 1 if changed or gone else 0


def _document(results: list[Replayed], changed: list[Replayed], gone: list[str], written: list[Path]) -> dict[str, Any]:
    return {
        "replayed": len(results),
        "changed": [{"id": r.id, "kind": r.kind, "before": _plain(r.before), "now": _plain(r.now)} for r in changed],
        "new": [r.id for r in results if r.before is None and r.now is not None],
        "gone": gone,
        "problems": [{"id": r.id, "what": r.problem} for r in results if r.problem],
        "written": [str(p) for p in written],
        "verdicts": {r.id: _plain(r.now) for r in results},
    }


def _plain(said: Sentence | None) -> dict[str, Any] | None:
    return None if said is None else said.model_dump(by_alias=True)


def _print(results: list[Replayed], changed: list[Replayed], gone: list[str], written: list[Path]) -> None:
    for r in results:
        if r.problem:
            click.echo(f"{r.id}: {current().say(r.problem)}", err=True)
    for r in changed:
        say(f"{r.kind} {r.id}\n  was: {words_of(r.before)}\n  now: {words_of(r.now)}")
    for case_id in gone:
        say(f"case {case_id} has an accepted verdict, but is no longer in the book (--accept drops it)")
    new = [r.id for r in results if r.before is None and r.now is not None]
    if new and not written:
        say(f"{len(new)} case studies have no accepted verdict yet: `playbook replay --accept`")
    for path in written:
        say(f"written: {path}")
    incidents = sum(r.kind == "incident" for r in results)
    cases = number(len(results) - incidents, "case study", "case studies")
    say(f"{number(incidents, 'incident')} and {cases} replayed: {number(len(changed), 'verdict')} changed")


def words_of(said: Sentence | None) -> str:
    """A verdict in a line."""
    if said is None:
        return "nothing"
    step = f" from step {said.onset_step}" if said.onset_step is not None else ""
    cause = f", {said.cause} ({said.class_})" if said.cause else ""
    return (
        f"{said.verdict}{f' {said.symptom}' if said.symptom else ''}{step}{cause}{', decided' if said.decided else ''}"
    )
