"""`playbook ingest`: what is in these files, and what is wrong with the run."""

from __future__ import annotations

from pathlib import Path

import click

from playbook.faces.cli import common, completing


@click.command(short_help="Read metric files, logs and configs; say what is in them.")
@click.argument("paths", nargs=-1, required=True, metavar="PATH...", shell_complete=completing.files)
@common.map_option
@common.json_option
@common.knowledge_option
@click.option("--lang", metavar="CODE", help="Language: en or zh.")
@click.option("--check", is_flag=True, help="Exit with 1 when an incident was found (for scripts and CI).")
def ingest(
    paths: tuple[str, ...],
    mapping: tuple[str, ...],
    as_json: bool,
    packs: tuple[Path, ...],
    lang: str | None,
    check: bool,
) -> int:
    """Read metric files, logs and run configurations, and print what was understood and found.

    PATH is a file, a folder, a glob, or - for standard input. The format is recognised by content, not by name.
    """
    from playbook.faces.documents import ingest_document
    from playbook.faces.words import words
    from playbook.workflow.book import open_book
    from playbook.workflow.ingest import ingest as read_and_look
    from playbook.workflow.session import Session

    w = words(lang)
    library = open_book(packs, lang=w.code)
    found = read_and_look(paths, library.book, common.parse_mapping(mapping), common.narrator(as_json))
    common.hush()
    session = Session(library.book, library.tables, found.size)
    session.observe(found.evidence)
    if as_json:
        common.emit(ingest_document(found, session))
    else:
        from playbook.faces.report import print_ingest

        print_ingest(found, session, common.console(), w)
    return 1 if check and found.verdict == "incident" else 0
