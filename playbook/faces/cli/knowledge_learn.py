"""`playbook knowledge learn / search`: teach the book from confirmed incidents; look for words in it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from playbook import places
from playbook.errors import PlaybookError
from playbook.faces.cli import common
from playbook.faces.cli.speech import current, say

if TYPE_CHECKING:
    from playbook.workflow.upkeep.teach import Lesson

_SHOWN = 25  # shifts on a terminal


@click.command(short_help="Count confirmed incidents and cases into a pack.")
@click.argument("cases", nargs=-1, type=click.Path(path_type=Path), metavar="[CASES...]")
@click.option("--incidents", is_flag=True, help="Learn from the confirmed incidents of the store.")
@click.option(
    "--pack",
    type=click.Path(path_type=Path),
    metavar="DIR",
    help="The pack whose learned.yaml is written (default: the last of --knowledge or PLAYBOOK_KNOWLEDGE).",
)
@click.option("--dry-run", is_flag=True, help="Only show what would change.")
@click.option("--undo", is_flag=True, help="Put back what was there before the last lesson.")
@common.lang_option
@common.json_option
@common.knowledge_option
@common.db_option
def learn(
    cases: tuple[Path, ...],
    incidents: bool,
    pack: Path | None,
    dry_run: bool,
    undo: bool,
    as_json: bool,
    packs: tuple[Path, ...],
    db: str | None,
) -> int:
    """Count confirmed incidents (--incidents) and case files into a pack, each once, and show what that changes.

    \b
    playbook knowledge learn --incidents --pack ours --dry-run
    playbook knowledge learn cases/ --pack ours
    playbook knowledge learn --pack ours --undo
    """
    from playbook.workflow.book import open_book
    from playbook.workflow.upkeep import teach

    chosen = pack or next(iter([*places.packs(), *packs][::-1]), None)
    if chosen is None:
        raise PlaybookError("knowledge learn", "names no pack", "--pack DIR, a folder of your own (it is made)")
    if undo:
        left = teach.undo(chosen)
        what = "is as before the last lesson" if left else "has no counts any more"
        if as_json:
            common.emit({"pack": str(chosen), "undone": True, "counts_left": left})
        else:
            say(f"{chosen} {what}")
        return 0
    if not cases and not incidents:
        raise PlaybookError("knowledge learn", "has nothing to learn from", "name case files, or --incidents")
    library = open_book(packs)
    lesson = teach.lesson(library, chosen, cases, incidents, db)
    written = None
    if lesson.new and not dry_run:
        written = teach.write(chosen, lesson.learned)
    if as_json:
        common.emit(_document(lesson, written))
    else:
        _print(lesson, written, dry_run)
    return 0


def _document(lesson: Lesson, written: Path | None) -> dict[str, object]:
    return {
        "new": lesson.new,
        "already_counted": lesson.known,
        "useless": [{"id": i, "why": why} for i, why in lesson.useless],
        "shifts": [
            {"class": s.class_, "signal": s.signal, "state": s.state, "before": s.before, "after": s.after}
            for s in lesson.shifts
        ],
        "written": str(written) if written else None,
    }


def _print(lesson: Lesson, written: Path | None, dry_run: bool) -> None:
    for name, why in lesson.useless:
        say(f"not counted: {name}: {why}", err=True)
    for s in lesson.shifts[:_SHOWN]:
        arrow = "up" if s.after > s.before else "down"
        click.echo(f"  {s.before:6.1%} -> {s.after:6.1%} {arrow:4}  P({s.signal} = {s.state} | {s.class_})")
    if len(lesson.shifts) > _SHOWN:
        say(f"  and {len(lesson.shifts) - _SHOWN} more: --json")
    known = f", {len(lesson.known)} counted before" if lesson.known else ""
    say(f"{len(lesson.new)} confirmed incidents to learn from{known}")
    if written:
        say(f"written: {written} (`playbook replay` says which verdicts it changes; --undo takes it back)")
    elif dry_run and lesson.new:
        say("nothing written (--dry-run)")


@click.command(short_help="Find entries and incidents by their words.")
@click.argument("words", nargs=-1, required=True)
@click.option("--limit", type=click.IntRange(1), default=20, show_default=True, help="At most so many of each.")
@common.lang_option
@common.json_option
@common.knowledge_option
@common.db_option
def search(words: tuple[str, ...], limit: int, as_json: bool, packs: tuple[Path, ...], db: str | None) -> int:
    """Find entries of the book and recorded incidents in which every word occurs."""
    from playbook.workflow.book import open_book
    from playbook.workflow.records.shelf import is_there, shelf
    from playbook.workflow.search import search as in_book

    query = " ".join(words)
    hits = in_book(open_book(packs, strict=False, lang=current().code).book, query, limit)
    rows = []
    if is_there(db):
        from playbook.incidents.store import Filter

        with shelf(db) as store:
            rows = store.summaries(Filter(query=query, limit=limit))
    if as_json:
        entries = [{"kind": h.kind, "id": h.id, "title": h.title, "score": h.score, "line": h.line} for h in hits]
        found = [{"id": r["id"], "title": r["title"], "status": r["status"], "cause": r["cause"]} for r in rows]
        common.emit({"query": query, "entries": entries, "incidents": found})
        return 0
    for row in rows:
        click.echo(f"{current()('incident'):10} {row['id']:42} {row['title']}")
    for hit in hits:
        click.echo(f"{hit.kind:10} {hit.id:42} {hit.title}")
        if hit.line:
            click.echo(f"{'':10} {click.style(hit.line, dim=True)}")
    if not hits and not rows:
        say(f"nothing holds {query!r}")
    return 0
