"""`playbook watch`: follow files that grow and say when an incident begins."""

from __future__ import annotations

import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import click

from playbook.faces.cli import common, completing


@click.command(short_help="Follow growing files; say when an incident begins.")
@click.argument("paths", nargs=-1, required=True, metavar="PATH...", shell_complete=completing.files)
@click.option(
    "--poll",
    default=1.0,
    show_default=True,
    type=click.FloatRange(0.05, 3600),
    metavar="SECONDS",
    help="Time between two looks.",
)
@click.option("--max-seconds", type=click.FloatRange(0), metavar="SECONDS", help="Stop after this time.")
@click.option("--until-incident", is_flag=True, help="Stop at the first incident.")
@click.option("--from-now", is_flag=True, help="Do not report what is in the files already.")
@click.option("--no-memory", is_flag=True, help="Do not remember what was reported; report it again after a restart.")
@click.option("--record", is_flag=True, help="Store each incident as it begins.")
@click.option("--title", help="Title of the recorded incidents.")
@click.option(
    "--exec", "command", metavar="CMD", help="Run CMD with the alert as JSON on its standard input; no shell."
)
@click.option(
    "--webhook",
    "url",
    metavar="URL",
    envvar="PLAYBOOK_WEBHOOK",
    help="Post the alert there (Slack, PagerDuty, or the JSON itself); also from PLAYBOOK_WEBHOOK.",
)
@click.option(
    "--webhook-format",
    "shape",
    type=click.Choice(["slack", "pagerduty", "json"]),
    help="Format of the post.  [default: by the host of the URL]",
)
@click.option("--lang", metavar="CODE", help="Language: en or zh.")
@common.map_option
@click.option("--json", "as_json", is_flag=True, help="One JSON document per line for everything that happens.")
@common.knowledge_option
@common.db_option
@click.option("--check", is_flag=True, help="Exit with 1 when there was an incident.")
def watch(
    paths: tuple[str, ...],
    poll: float,
    max_seconds: float | None,
    until_incident: bool,
    from_now: bool,
    no_memory: bool,
    record: bool,
    title: str | None,
    command: str | None,
    url: str | None,
    shape: str | None,
    lang: str | None,
    mapping: tuple[str, ...],
    as_json: bool,
    packs: tuple[Path, ...],
    db: str | None,
    check: bool,
) -> int:
    """Follow metric files, logs and folders of ranks as they grow, are rotated or begin anew; say within one logging
    interval that an incident began, with its first aid. Each incident is reported once, even across a restart
    of the watch; what happened meanwhile is reported, too. Memory does not grow with the files.

    \b
    playbook watch logs/                                     until Ctrl-C
    playbook watch run.csv --webhook https://hooks.slack.com/services/...
    playbook watch train.log --exec 'scancel 4711' --until-incident
    playbook watch train.log --max-seconds 0 --check --json  one look, for scripts
    """
    from playbook.errors import PlaybookError
    from playbook.faces.words import words
    from playbook.workflow.book import open_book
    from playbook.workflow.watching import memory, notify
    from playbook.workflow.watching.watch import Options
    from playbook.workflow.watching.watch import watch as follow

    if "-" in paths:
        raise PlaybookError("-", "standard input is not followed", "write it to a file (tee) and watch that")
    if shape is not None and url is None:
        raise PlaybookError("--webhook-format", "goes with --webhook URL", "name the URL")
    w = words(lang)
    targets = [notify.program(command)] if command else []
    targets += [notify.webhook(url, shape)] if url else []
    mapped = common.parse_mapping(mapping)
    receivers = [command or "", url or "", shape or "", f"record {db or ''}" if record else "", *sorted(mapping)]
    kept = None if no_memory else memory.place(paths, receivers)
    options = Options(poll, max_seconds, until_incident, from_now, record, db, title, kept)
    library = open_book(packs, lang=w.code)
    read = False
    last = None
    with _stopping() as (stop, caught):
        for item in follow(paths, library, options, mapped, notify.Sender(targets), stop):
            _say(item, as_json, w)
            read = read or item.found is not None
            last = item
    if caught:
        return 130
    if not read and last is not None:
        raise PlaybookError(
            ", ".join(paths), "nothing could be read while it was watched", "check the path, or watch for longer"
        )
    return 1 if check and last is not None and last.incidents else 0


def _say(item: object, as_json: bool, w: object) -> None:
    """One happening, at once: incidents and verdicts on standard output, problems on standard error."""
    import json

    from playbook.faces.watch_report import happening_document, happening_lines
    from playbook.faces.words import Words
    from playbook.workflow.watching.watch import Happening

    assert isinstance(item, Happening) and isinstance(w, Words)
    if as_json:
        print(json.dumps(common.clean(happening_document(item)), ensure_ascii=False, allow_nan=False), flush=True)
        return
    lines = happening_lines(item, w)
    if item.problem is not None:
        print("\n".join(lines), file=sys.stderr, flush=True)
        return
    if item.kind == "incident":
        sys.stdout.write("\a" if sys.stdout.isatty() else "")
        lines[0] = click.style(lines[0], fg="red", bold=True)
    click.echo("\n".join(lines))
    sys.stdout.flush()


@contextmanager
def _stopping() -> Iterator[tuple[threading.Event, list[int]]]:
    """The first Ctrl-C (or SIGTERM) ends the watch in order; `caught` holds Ctrl-C. The second one ends it at once."""
    stop, caught = threading.Event(), list[int]()
    if threading.current_thread() is not threading.main_thread():
        yield stop, caught
        return

    def handle(number: int, _: object) -> None:
        if stop.is_set():
            raise KeyboardInterrupt
        if number == signal.SIGINT:
            caught.append(number)
        stop.set()

    before = {number: signal.signal(number, handle) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield stop, caught
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
