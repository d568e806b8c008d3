"""`playbook fleet`: one metric of many ranks, reduced where the data lies, and which rank was the first to go wrong."""

from __future__ import annotations

import click

from playbook.faces.cli import common, completing
from playbook.faces.cli.speech import current, say
from playbook.faces.words import number


@click.command(short_help="Which of many ranks went wrong first? On DuckDB, ClickHouse, Spark.")
@click.argument("paths", nargs=-1, metavar="[PATH]...", shell_complete=completing.files)
@click.option("--metric", default="loss", show_default=True, help="The metric to compare over ranks.")
@click.option("--engine", default="duckdb://", show_default=True, metavar="URL", help="Where the reduction runs.")
@click.option("--table", metavar="NAME", help="A table of the engine, instead of files.")
@click.option("--where", "filters", multiple=True, metavar="COLUMN=VALUE", help="Rows of the table (repeatable).")
@common.map_option
@common.lang_option
@common.json_option
@click.option("--check", is_flag=True, help="Exit with 1 when ranks depart from the others (for scripts and CI).")
def fleet(
    paths: tuple[str, ...],
    metric: str,
    engine: str,
    table: str | None,
    filters: tuple[str, ...],
    mapping: tuple[str, ...],
    as_json: bool,
    check: bool,
) -> int:
    """Reduce one metric of many ranks to a few numbers per step, and say which ranks are bad and which was first.

    PATH is a parquet, CSV or JSON-lines file, a folder or a glob: one file per rank, or with a column of ranks. With
    --engine and --table the same reduction runs in a store that is already there, such as
    --engine clickhouse://user@host/db --table metrics --where name=loss.

    Needs the extra: pip install 'playbook[fleet]'.
    """
    from playbook.errors import PlaybookError
    from playbook.workflow.fleet import judge

    if paths and table:
        raise PlaybookError("--table", "goes without PATH", "name files or a table, not both")
    where = dict(_pair(text) for text in filters)
    verdict = judge(paths, metric, engine, table, common.parse_mapping(mapping), where)
    departs = verdict.affected is not None
    extent = verdict.extent
    if as_json:
        common.emit(
            {
                "engine": verdict.engine,
                "metric": metric,
                "ranks": extent.ranks,
                "rows": extent.rows,
                "first_step": extent.first_step,
                "last_step": extent.last_step,
                "nonfinite": int(verdict.reduced.nonfinite.sum()),
                "onset_step": verdict.onset,
                "affected": verdict.affected,
                "step": verdict.step,
                "first_rank": verdict.first,
                "findings": [
                    {"kind": f.kind, "step": f.step, "rank": f.rank, "ranks": list(f.ranks), "because": f.because,
                     "confidence": f.confidence}
                    for f in verdict.findings
                ],
                "peaks": [
                    {"step": p.step, "rank": p.rank, "top": p.top, "median": p.median, "z": p.z} for p in verdict.peaks
                ],
                "problems": [{"where": p.where, "what": p.what} for p in verdict.problems],
            }
        )  # fmt: skip
        return int(check and departs)
    for problem in verdict.problems[:5]:
        click.echo(current().problem(problem), err=True)
    if len(verdict.problems) > 5:
        say(f"... and {len(verdict.problems) - 5} more of this kind", err=True)
    say(
        f"{metric} of {number(extent.ranks, 'rank')}, steps {extent.first_step}..{extent.last_step}, "
        f"{number(extent.rows, 'row')}, on {verdict.engine}"
    )
    for found in verdict.findings:
        click.echo(f"  {found.kind:10}{current().say(found.because)}")
    if not departs:
        say("  no rank departs from the others")
    for peak in verdict.peaks:
        say(f"  step {peak.step}: rank {peak.rank} has {peak.top:.4g}, the median of all is {peak.median:.4g}")
    return int(check and departs)


def _pair(text: str) -> tuple[str, str]:
    from playbook.errors import PlaybookError

    column, equals, value = text.partition("=")
    if not equals or not column:
        raise PlaybookError(f"--where {text}", "is not COLUMN=VALUE", "write for example --where name=loss")
    return column, value
