"""`playbook demo`: a shipped run and a published incident, diagnosed, recorded and published, in a scratch folder."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import click

from playbook.errors import PlaybookError, reason
from playbook.faces.cli import common

if TYPE_CHECKING:
    from playbook.faces.words import Words
    from playbook.workflow.book import Library

CASE = "lr-peak-hard-samples-7b"
RUN = "demo"  # folder of the book with the shipped run


@click.command(short_help="See it work: a shipped run, diagnosed, recorded, published.")
@click.option(
    "--out", type=click.Path(path_type=Path), help="Where to put the database and the site (default: a new folder)."
)
@click.option("--lang", metavar="CODE", help="Language: en or zh.")
def demo(out: Path | None, lang: str | None) -> int:
    """Diagnose a really trained run that ships with the product, then a published 7B incident with its answers.

    Both are recorded in a scratch database and the site is built with them. Nothing outside the folder is touched.
    """
    from playbook.faces.words import words
    from playbook.workflow.book import open_book

    w = words(lang)
    folder = out or Path(tempfile.mkdtemp(prefix="playbook-demo-"))
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise PlaybookError(f"--out {folder}", f"cannot be made: {reason(error)}", "name a folder") from None
    db = f"sqlite:///{folder / 'playbook.db'}"
    library = open_book(lang=w.code)
    common.console().rule(f"[bold]1. {w('a run that was really trained')}[/]")
    first = _run(library, db, w)
    common.console().rule(f"[bold]2. {w('a published incident of a 7B run')}[/]")
    second = _case(library, db, w)
    common.console().rule(f"[bold]3. {w('what is left behind')}[/]")
    site = folder / "site"
    _publish(site, db)
    click.echo(f"{w('incidents')}   {first}  {second}")
    click.echo(f"{w('database')}    {folder / 'playbook.db'}")
    click.echo(f"{w('site')}        {site / 'index.html'}")
    program = sys.argv[0] if Path(sys.argv[0]).name == "playbook" else "playbook"
    click.echo(f"\n{w.lead('look at it with')} {program} incident list --db {db}")
    return 0


def _publish(out: Path, db: str) -> None:
    """The site in both languages, with the two incidents."""
    from playbook.faces.site.build import Edition, build
    from playbook.faces.words import words
    from playbook.workflow.book import open_book
    from playbook.workflow.records.published import published

    editions = [Edition(code, words(code), open_book(lang=code).book) for code in ("en", "zh")]
    build(out, editions, published(db), "http://127.0.0.1:8000/", common.narrator())
    common.hush()


def _run(library: Library, db: str, w: Words) -> str:
    """The shipped run, from its metrics alone."""
    from playbook import places
    from playbook.faces.report import print_diagnosis, print_read
    from playbook.workflow.ingest import ingest
    from playbook.workflow.records.record import record
    from playbook.workflow.session import Session

    found = ingest([str(places.knowledge() / RUN)], library.book)
    session = Session(library.book, library.tables, found.size)
    session.observe(found.evidence)
    diagnosis = session.diagnosis()
    print_read(found, session, common.console(), w)
    print_diagnosis(session, diagnosis, common.console(), w)
    return record(session, found, diagnosis, db, "Demo: a small run trained for the demo")


def _case(library: Library, db: str, w: Words) -> str:
    """The 7B post-mortem: its curve is read, its investigator answers."""
    from playbook import places
    from playbook.faces.report import print_diagnosis
    from playbook.workflow.cases import play, read_case, start
    from playbook.workflow.ingest import ingest
    from playbook.workflow.records.record import record

    path = places.knowledge() / "cases" / f"{CASE}.yaml"
    case = read_case(path)
    session = play(start(case, library.book, library.tables, path.parent), case)
    diagnosis = session.diagnosis()
    found = ingest([str(path.parent / name) for name in case.metrics], library.book)
    click.echo(case.title)
    for move in session.asked:
        if move.evidence is not None:
            click.echo(f"  {library.book.signals[move.signal].question}  ->  {move.evidence.state}")
    print_diagnosis(session, diagnosis, common.console(), w)
    return record(session, found, diagnosis, db, case.title)
