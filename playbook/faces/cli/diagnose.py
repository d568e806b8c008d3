"""`playbook diagnose`: from files and answers to a diagnosis that can be justified."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from playbook.errors import PlaybookError
from playbook.faces.cli import common, completing

if TYPE_CHECKING:
    from rich.console import Console

    from playbook.faces.words import Words
    from playbook.workflow.session import Session


@click.command(short_help="Walk from files and answers to a diagnosis.")
@click.argument("paths", nargs=-1, metavar="[PATH...]", shell_complete=completing.files)
@click.option("--no-input", is_flag=True, help="Never ask; say what would be asked next.")
@click.option(
    "--answer",
    "answers",
    multiple=True,
    metavar="SIGNAL=STATE",
    shell_complete=completing.answers,
    help="A known answer (repeatable); STATE? is unsure.",
)
@click.option("--case", "case_file", type=click.Path(path_type=Path), metavar="FILE", help="Answer from a case file.")
@click.option("--record", is_flag=True, help="Store the incident.")
@click.option("--title", help="Title of the recorded incident.")
@click.option("--gpus", type=click.IntRange(1), help="GPUs of the run, for the cost of control runs.")
@click.option("--step-seconds", type=common.Finite(0, min_open=True), help="Seconds of one step, likewise.")
@click.option("--allow-commands", is_flag=True, help="Run read-only commands here: nvidia-smi, dmesg, ethtool ...")
@click.option("--show-commands", is_flag=True, help="Print these commands, to be run on another machine, and exit.")
@click.option("--prometheus", "server", metavar="URL", help="Ask a Prometheus or VictoriaMetrics server.")
@click.option(
    "--since", metavar="TIME", help="Start of the time asked about: 2h or 90m ago, or ISO 8601.  [default: 6h]"
)
@click.option("--until", metavar="TIME", help="End of that time, likewise.  [default: now]")
@click.option("--lang", metavar="CODE", help="Language: en or zh.")
@common.map_option
@common.json_option
@common.knowledge_option
@common.db_option
@click.option("--check", is_flag=True, help="Exit with 1 when an incident was found.")
def diagnose(
    paths: tuple[str, ...],
    no_input: bool,
    answers: tuple[str, ...],
    case_file: Path | None,
    record: bool,
    title: str | None,
    gpus: int | None,
    step_seconds: float | None,
    allow_commands: bool,
    show_commands: bool,
    server: str | None,
    since: str | None,
    until: str | None,
    lang: str | None,
    mapping: tuple[str, ...],
    as_json: bool,
    packs: tuple[Path, ...],
    db: str | None,
    check: bool,
) -> int:
    """Read what there is, fetch what can be fetched, ask for the rest (always what is most worth its cost), and say
    which cause explains it, with reasons for and against.

    \b
    playbook diagnose logs/                                 ask on the terminal
    playbook diagnose run.csv --no-input --json             for scripts
    playbook diagnose --answer loss-shape=persistent-spike  without any file
    playbook diagnose logs/ --allow-commands --prometheus http://mon:9090

    Nothing is run on other machines: --show-commands prints what to run there; name its output as PATH.
    """
    if show_commands:
        from playbook.workflow.watching.fetch import script

        click.echo(script(), nl=False)
        return 0
    from dataclasses import replace

    from playbook.faces.words import words
    from playbook.workflow.book import open_book
    from playbook.workflow.cases import play, read_case, start, unmapped
    from playbook.workflow.ingest import ingest
    from playbook.workflow.session import Session

    w = words(lang)
    library = open_book(packs, lang=w.code)
    found = ingest(paths, library.book, common.parse_mapping(mapping), common.narrator(as_json)) if paths else None
    common.hush()
    session = Session(library.book, library.tables)
    case, beside = None, []
    if case_file is not None:
        case = read_case(case_file)
        beside = unmapped(case, library.book)
        session = start(case, library.book, library.tables, case_file.parent)
    if found is not None:
        session.size = found.size
        session.observe(found.evidence)
    _fetch(session, allow_commands, server, since, until, w)
    session.size = replace(
        session.size, gpus=gpus or session.size.gpus, step_seconds=step_seconds or session.size.step_seconds
    )
    for pair in answers:
        signal, equals, state = pair.partition("=")
        if not equals or not signal.strip():
            raise PlaybookError(f"--answer {pair}", "is not SIGNAL=STATE", "write for example --answer precision=fp16")
        session.answer(signal.strip(), state.strip(), free=True)
    if case is not None:
        play(session, case)
    interactive = not (no_input or as_json or case) and sys.stdin.isatty()
    if not as_json and found is not None:
        from playbook.faces.report import print_read

        print_read(found, session, common.console(), w)
    leave_out = (case.id,) if case is not None else ()
    if interactive:
        from playbook.faces.prompts import walk

        _say_similar(session, db, leave_out, w)
        walk(session, common.console(), w)
    if beside and not as_json:
        names = ", ".join(beside)
        text = f"{names}: the case answers what the book has no signal or outcome for; passed over"
        print(w.say(text), file=sys.stderr)
    return _conclude(session, found, record, title, db, leave_out, beside, as_json, check, w)


def _fetch(
    session: Session, commands: bool, server: str | None, since: str | None, until: str | None, w: Words
) -> None:
    """Evidence that the product gets itself; what does not answer is told and stops nothing."""
    if not commands and server is None:
        if since or until:
            raise PlaybookError("--since, --until", "go with --prometheus URL", "name the server")
        return
    from playbook.workflow.watching.fetch import fetch, weightier

    got = fetch(session.book, commands, server, since, until)
    session.observe(weightier(session.evidence, got.evidence))
    for problem in got.problems:
        print(w.problem(problem), file=sys.stderr)


def _conclude(
    session: Session,
    found: object,
    record: bool,
    title: str | None,
    db: str | None,
    leave_out: tuple[str, ...],
    beside: list[str],
    as_json: bool,
    check: bool,
    w: Words,
) -> int:
    from playbook.faces.documents import diagnose_document
    from playbook.workflow.ingest import Ingested

    read = found if isinstance(found, Ingested) else None
    diagnosis = session.diagnosis()
    incident = None
    if record:
        from playbook.workflow.records.record import record as store

        incident = store(session, read, diagnosis, db, title)
    document = diagnose_document(read, session, diagnosis, incident, beside)
    known = (*leave_out, *([incident] if incident else []))
    if as_json:
        from playbook.faces.record_report import similar_document
        from playbook.workflow.records.similar import similar

        common.emit(document | {"similar": similar_document(similar(session, db, known)[0])})
    else:
        _print(session, diagnosis, common.console(), w)
        _say_similar(session, db, known, w)
        if incident:
            print(w("recorded as incident {id}", id=incident))
    return 1 if check and document["verdict"] == "incident" else 0


def _say_similar(session: Session, db: str | None, leave_out: tuple[str, ...], w: Words) -> None:
    """Past incidents and case studies that look alike; a store that cannot be opened is told and stops nothing."""
    from playbook.faces.record_report import print_similar
    from playbook.workflow.records.similar import similar

    found, problem = similar(session, db, leave_out)
    if problem:
        print(w.say(problem), file=sys.stderr)
    print_similar(found, common.console(), w)


def _print(session: Session, diagnosis: object, out: Console, w: Words) -> None:
    from playbook.engine.diagnosis import Diagnosis
    from playbook.faces.report import print_diagnosis

    assert isinstance(diagnosis, Diagnosis)
    print_diagnosis(session, diagnosis, out, w)
