"""`playbook incident`: the record of what happened, what it was, what helped and what it cost."""

from __future__ import annotations

import getpass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from playbook.errors import PlaybookError
from playbook.faces.cli import common, completing, incident_files
from playbook.faces.cli.speech import current, say

if TYPE_CHECKING:
    from playbook.incidents.record import Record


def as_document(record: Record) -> dict[str, Any]:
    from playbook.incidents.record import document

    return document(record)


@click.group(cls=common.Group, short_help="The incident record: list, show, close, export ...")
@common.lang_option
def incident() -> None:
    """Recorded incidents: SQLite in the data folder, another database by --db or PLAYBOOK_DB.

    An ID may be shortened as long as it fits one incident only.
    """


@incident.command("list")
@click.option("--status", type=click.Choice(["open", "closed", "false-alarm"]), help="Only incidents of this state.")
@click.option("--symptom", metavar="ID", help="Only incidents with this symptom.")
@click.option("--cause", metavar="ID", help="Only incidents with this (confirmed or leading) cause or class.")
@click.option("--layer", metavar="NAME", help="Only incidents of this layer.")
@click.option("--search", "query", default="", metavar="WORDS", help="Only incidents in which every word occurs.")
@click.option("--limit", type=click.IntRange(1), default=50, show_default=True, help="At most so many, newest first.")
@common.lang_option
@common.json_option
@common.db_option
def list_(
    status: str | None,
    symptom: str | None,
    cause: str | None,
    layer: str | None,
    query: str,
    limit: int,
    as_json: bool,
    db: str | None,
) -> int:
    """List incidents, newest first."""
    from playbook.workflow.records.shelf import is_there, named, shelf

    wanted = {"status": status, "symptom": symptom, "cause": cause, "layer": layer, "query": query}
    total, found = 0, []
    if is_there(db):
        from playbook.incidents.store import Filter

        with shelf(db) as store:
            total = store.count(Filter(**wanted))  # type: ignore[arg-type]
            found = store.summaries(Filter(**wanted, limit=limit))  # type: ignore[arg-type]
    if as_json:
        common.emit({"total": total, "incidents": [{k: v for k, v in row.items() if k != "number"} for row in found]})
        return 0
    from playbook.faces.record_report import print_list

    print_list(found, total, common.console(), current(), named(db))
    return 0


@incident.command(short_help="Show one incident whole.")
@click.argument("incident_id", metavar="ID", shell_complete=completing.incidents)
@click.option("--markdown", is_flag=True, help="The post-mortem as Markdown.")
@common.lang_option
@common.json_option
@common.knowledge_option
@common.db_option
def show(incident_id: str, markdown: bool, as_json: bool, packs: tuple[Path, ...], db: str | None) -> int:
    """Show one incident: verdict, what was asked and at what price, timeline, fixes tried, bill."""
    from playbook.workflow.records.shelf import shelf

    with shelf(db) as store:
        record = store.get(incident_id)
        if markdown:
            from playbook.workflow.book import open_book
            from playbook.workflow.records.postmortem import markdown as write
            from playbook.workflow.records.postmortem import postmortem

            w = current()
            book = open_book(packs, strict=False, lang=w.code).book
            click.echo(write(postmortem(record, book, store, w.say), w.say), nl=False)
            return 0
    if as_json:
        common.emit(as_document(record))
    else:
        from playbook.faces.record_report import print_record

        print_record(record, common.console(), current())
    return 0


@incident.command("open", short_help="Open one by hand: files, answers or a title.")
@click.argument("paths", nargs=-1, metavar="[PATH...]", shell_complete=completing.files)
@click.option("--title", help="What happened, in a line.")
@click.option(
    "--answer",
    "answers",
    multiple=True,
    metavar="SIGNAL=STATE",
    shell_complete=completing.answers,
    help="A known answer (repeatable).",
)
@common.map_option
@common.lang_option
@common.json_option
@common.knowledge_option
@common.db_option
def open_(
    paths: tuple[str, ...],
    title: str | None,
    answers: tuple[str, ...],
    mapping: tuple[str, ...],
    as_json: bool,
    packs: tuple[Path, ...],
    db: str | None,
) -> int:
    """Open an incident by hand: from files, from answers, or from a title alone."""
    if not (paths or title or answers):
        raise PlaybookError("incident open", "says nothing about the incident", "give files, --title or --answer")
    from playbook.workflow.book import open_book
    from playbook.workflow.ingest import ingest
    from playbook.workflow.records.record import record as store
    from playbook.workflow.session import Session

    library = open_book(packs, lang=current().code)
    session = Session(library.book, library.tables)
    found = None
    if paths:
        found = ingest(paths, library.book, common.parse_mapping(mapping), common.narrator(as_json))
        common.hush()
        session.size = found.size
        session.observe(found.evidence)
    for pair in answers:
        signal, equals, state = pair.partition("=")
        if not equals or not signal.strip():
            raise PlaybookError(f"--answer {pair}", "is not SIGNAL=STATE", "write for example --answer precision=fp16")
        session.answer(signal.strip(), state.strip(), free=True)
    name = store(session, found, session.diagnosis(), db, title)
    if as_json:
        common.emit({"incident": name})
    else:
        say(f"opened incident {name}")
    return 0


@incident.command(short_help="Close it with its cause, what helped, what it cost.")
@click.argument("incident_id", metavar="ID", shell_complete=completing.incidents)
@click.option("--cause", metavar="ID", help="The confirmed cause (or class) of the book, or `other` with --note.")
@click.option("--false-alarm", is_flag=True, help="Nothing was wrong.")
@click.option("--by", metavar="NAME", help="Who confirmed it (default: the user of this machine).")
@click.option("--fix", "fixes", multiple=True, metavar="FIX=OUTCOME", help="What was tried: cured, not-cured, unclear.")
@click.option("--lost-hours", "hours", type=common.Finite(0), help="Hours of the run that were lost.")
@click.option(
    "--lost-steps",
    "steps",
    type=click.IntRange(0),
    help="Steps that were lost, if that is better known than the hours.",
)
@click.option("--gpus", type=click.IntRange(0), help="GPUs of the run.")
@click.option("--step-seconds", type=common.Finite(0, min_open=True), help="Seconds of one step.")
@click.option("--gpu-price", type=common.Finite(0), metavar="USD", help="Price of one GPU-hour (default 2).")
@click.option(
    "--answer",
    "answers",
    multiple=True,
    metavar="QUESTION=TEXT",
    help="Your own words for symptom, trigger, root-cause, earlier, fix, regression or affected.",
)
@click.option("--note", default="", help="Anything that the next person should know.")
@common.lang_option
@common.json_option
@common.knowledge_option
@common.db_option
def close(
    incident_id: str,
    cause: str | None,
    false_alarm: bool,
    by: str | None,
    fixes: tuple[str, ...],
    hours: float | None,
    steps: int | None,
    gpus: int | None,
    step_seconds: float | None,
    gpu_price: float | None,
    answers: tuple[str, ...],
    note: str,
    as_json: bool,
    packs: tuple[Path, ...],
    db: str | None,
) -> int:
    """Close an incident with its confirmed cause, what helped, and what it cost.

    \b
    playbook incident close 20260304-k3f --cause lr-overshoot-at-peak \\
        --fix lower-peak-lr=cured --lost-steps 500
    """
    from playbook.workflow.book import open_book
    from playbook.workflow.records.incident import Closing
    from playbook.workflow.records.incident import close as use_case

    told = {}
    for pair in answers:
        question, equals, words = pair.partition("=")
        if not equals:
            raise PlaybookError(
                f"--answer {pair}", "is not QUESTION=TEXT", "write for example --answer trigger='new data'"
            )
        told[question.strip()] = words.strip()
    said = Closing(
        cause,
        by if by is not None else _user(),
        false_alarm,
        fixes,
        hours,
        steps,
        gpus,
        step_seconds,
        gpu_price,
        told,
        note,
    )
    record = use_case(incident_id, said, open_book(packs, lang=current().code).book, db)
    if as_json:
        common.emit(as_document(record))
    else:
        bill = f", {record.losses.usd:,.0f} USD" if record.losses.usd else ""
        say(f"{record.id} closed: {record.cause or 'false alarm'}{bill}")
    return 0


def _user() -> str:
    try:
        return getpass.getuser()
    except (OSError, KeyError):
        return ""


@incident.command(short_help="Open a closed incident again.")
@click.argument("incident_id", metavar="ID", shell_complete=completing.incidents)
@click.option("--note", default="", help="Why.")
@common.db_option
@common.lang_option
def reopen(incident_id: str, note: str, db: str | None) -> int:
    """Open a closed incident again: it came back, or the cause was wrong."""
    from playbook.workflow.records.incident import reopen as use_case

    say(f"{use_case(incident_id, db, note=note).id} is open again")
    return 0


@incident.command(short_help="Add files, links, tried fixes or a note.")
@click.argument("incident_id", metavar="ID", shell_complete=completing.incidents)
@click.argument("files", nargs=-1, type=click.Path(path_type=Path), metavar="[FILE...]")
@click.option(
    "--kind",
    type=click.Choice(["log", "config", "batch", "capture", "metrics", "other"]),
    help="What FILE is (default: by its name).",
)
@click.option("--link", "links", multiple=True, metavar="URL", help="A ticket, a dashboard, a pull request.")
@click.option("--fix", "fixes", multiple=True, metavar="FIX[=OUTCOME]", help="A fix that was tried.")
@click.option("--note", default="", help="A line of text.")
@common.lang_option
@common.json_option
@common.knowledge_option
@common.db_option
def attach(
    incident_id: str,
    files: tuple[Path, ...],
    kind: str | None,
    links: tuple[str, ...],
    fixes: tuple[str, ...],
    note: str,
    as_json: bool,
    packs: tuple[Path, ...],
    db: str | None,
) -> int:
    """Add files (a capture's folder whole), links, tried fixes or a note to an incident."""
    from playbook.workflow.book import open_book
    from playbook.workflow.records.incident import Attached
    from playbook.workflow.records.incident import attach as use_case

    record = use_case(incident_id, Attached(files, kind, links, fixes, note), open_book(packs).book, db)
    if as_json:
        common.emit(as_document(record))
    else:
        say(f"{record.id}: {len(record.artifacts)} files, {len(record.links)} links, {len(record.treatments)} fixes")
    return 0


for _command in (
    incident_files.export,
    incident_files.import_,
    incident_files.regression,
    incident_files.trends,
    incident_files.verify,
):
    incident.add_command(_command)
