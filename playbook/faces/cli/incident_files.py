"""`playbook incident export / import / regression / trends`: incidents as files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from playbook.errors import PlaybookError
from playbook.faces.cli import common, completing
from playbook.faces.cli.speech import current, say
from playbook.faces.words import number


@click.command(short_help="Write a bundle that another team can import.")
@click.argument("ids", nargs=-1, metavar="[ID...]", shell_complete=completing.incidents)
@click.option("--all", "everything", is_flag=True, help="All incidents.")
@click.option("--out", type=click.Path(path_type=Path), metavar="FILE", help="The bundle (zip) to write.")
@click.option("--no-redact", is_flag=True, help="Keep paths, hosts, users and keys (for a copy of your own).")
@click.option(
    "--rules",
    multiple=True,
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Further rules of redaction (YAML, repeatable).",
)
@click.option("--with-batch", is_flag=True, help="Include captured batches; they are somebody's data.")
@click.option("--csv", "as_csv", is_flag=True, help="All incidents as CSV on standard output, one per line.")
@common.lang_option
@common.json_option
@common.db_option
def export(
    ids: tuple[str, ...],
    everything: bool,
    out: Path | None,
    no_redact: bool,
    rules: tuple[Path, ...],
    with_batch: bool,
    as_csv: bool,
    as_json: bool,
    db: str | None,
) -> int:
    """Write incidents as a bundle that another team can import and replay; secrets and names are removed from it.

    \b
    playbook incident export 20260304-k3f --out incident.zip
    playbook incident export --all --csv > incidents.csv
    playbook incident export --all --json > incidents.json
    """
    from playbook.workflow.records import exchange

    if out is None:
        if ids or not everything or as_csv == as_json:
            raise PlaybookError(
                "incident export", "says not what to write", "--out FILE.zip, or --all with --csv or --json"
            )
        if as_csv:
            click.echo(exchange.as_csv(db), nl=False)
        else:
            common.emit({"incidents": exchange.as_json(db)})
        return 0
    if bool(ids) == everything:
        raise PlaybookError("incident export", "names no incident", "give IDs, or --all (not both)")
    done = exchange.export(ids, out, db, not no_redact, rules, with_batch)
    if as_json:
        common.emit({"file": str(out), "incidents": done.incidents, "removed": done.removed, "left_out": done.left_out})
        return 0
    say(f"{out}: {number(len(done.incidents), 'incident')}")
    _say_removed(done.removed)
    for line in done.left_out:
        say(f"  left out  {line}")
    return 0


def _say_removed(removed: list[dict[str, Any]]) -> None:
    for item in removed:
        say(f"  removed  {item.get('count')} x {item.get('kind')} (rule {item.get('rule')})")


@click.command("import")
@click.argument("bundle", type=click.Path(path_type=Path), metavar="FILE")
@click.option("--replace", is_flag=True, help="Overwrite incidents that are here already and differ.")
@common.lang_option
@common.json_option
@common.db_option
def import_(bundle: Path, replace: bool, as_json: bool, db: str | None) -> int:
    """Import the bundle of another team. All of it is checked before anything is stored."""
    from playbook.workflow.records.exchange import import_bundle

    done = import_bundle(bundle, db, replace)
    if as_json:
        common.emit({"added": done.added, "replaced": done.replaced, "already": done.already, "removed": done.removed})
        return 0
    for word, ids in (("added", done.added), ("replaced", done.replaced), ("already here", done.already)):
        for name in ids:
            say(f"{word}: {name}")
    return 0


@click.command(short_help="Freeze one as a folder with a pytest test.")
@click.argument("incident_id", metavar="ID", shell_complete=completing.incidents)
@click.option("--out", type=click.Path(path_type=Path), metavar="DIR", help="Folder to write (default: regression/ID).")
@click.option(
    "--callable", "call", metavar="MODULE:FUNCTION", help="Your step: takes the captured batch, returns its loss."
)
@click.option("--data", metavar="MODULE:FUNCTION", help="Your data: called without arguments, yields batches to check.")
@click.option("--overwrite", is_flag=True, help="Overwrite an artifact that is there.")
@common.lang_option
@common.json_option
@common.knowledge_option
@common.db_option
def regression(
    incident_id: str,
    out: Path | None,
    call: str | None,
    data: str | None,
    overwrite: bool,
    as_json: bool,
    packs: tuple[Path, ...],
    db: str | None,
) -> int:
    """Freeze an incident as a folder of plain files with a pytest test."""
    from playbook.workflow.book import open_book
    from playbook.workflow.records import regression as use_case
    from playbook.workflow.records.shelf import shelf

    if out is None:
        with shelf(db) as store:
            out = Path("regression") / store.resolve(incident_id)
    done = use_case.freeze(incident_id, out, open_book(packs), db, call, data, overwrite)
    if as_json:
        common.emit({"folder": str(out), "parts": done.parts, "broken_rules": done.broken, "missing": done.missing})
        return 0
    say(f"{out}: test of {', '.join(done.parts)}")
    for line in done.broken:
        say(f"  would have been caught  {line}")
    for line in done.missing:
        say(f"  {line}")
    return 0


@click.command(short_help="What goes wrong most, and what it costs.")
@common.lang_option
@common.json_option
@common.db_option
def trends(as_json: bool, db: str | None) -> int:
    """What goes wrong most, what it costs, how long it takes to know."""
    from playbook.workflow.records.trends import trends as use_case

    document = use_case(db)
    if as_json:
        common.emit(document)
    else:
        from playbook.faces.record_report import print_trends

        print_trends(document, common.console(), current())
    return 0


@click.command(short_help="Is everything that was kept still whole?")
@common.lang_option
@common.json_option
@common.db_option
def verify(as_json: bool, db: str | None) -> int:
    """Read every incident and every file kept with it; exit 1 when one is missing or damaged."""
    from playbook.workflow.records.exchange import verify as use_case

    whole, wrong = use_case(db)
    if as_json:
        common.emit({"whole": whole, "problems": wrong})
    else:
        for line in wrong:
            say(line)
        say(f"{whole} files are whole, {len(wrong)} problems")
    return 1 if wrong else 0
