"""`playbook evaluate`: play case files and print how often the true cause came first, and at what cost."""

from __future__ import annotations

import sys
from dataclasses import asdict
from pathlib import Path

import click

from playbook.errors import Problem
from playbook.faces.cli import common
from playbook.faces.cli.speech import current


@click.command(short_help="Play case files: how often is the true cause first?")
@click.argument("folder", type=click.Path(path_type=Path), metavar="DIR")
@click.option("--split", type=click.Choice(["development", "test"]), help="Only the cases of this half.")
@click.option(
    "--baselines",
    is_flag=True,
    help="Also judge the same cases by simpler methods, and hold the order of questions against the best possible one.",
)
@common.lang_option
@common.json_option
@common.knowledge_option
def evaluate(folder: Path, split: str | None, baselines: bool, as_json: bool, packs: tuple[Path, ...]) -> int:
    """Play every case file of DIR: start from what the case knows, ask as in a diagnosis, compare with the truth.

    What the book learned from a case is left out while that case is judged. YAML files that are no cases are named and
    passed over.
    """
    from playbook.workflow import evaluate as use_case
    from playbook.workflow.book import open_book

    library = open_book(packs)
    passed: list[Problem] = []
    scores = use_case.evaluate(folder, library, common.narrator(as_json), split, passed.append)
    common.hush()
    for problem in passed:
        print(current().problem(problem), file=sys.stderr)
    document = use_case.summary(scores) | {"passed_over": [problem.where for problem in passed]}
    if baselines:
        from playbook.workflow.baselines import baselines as judge_simply
        from playbook.workflow.optimum import compare

        document["baselines"] = [asdict(row) for row in judge_simply(folder, library, split, common.narrator(as_json))]
        common.hush()
        document["optimum"] = [asdict(row) for row in compare(library.book, library.tables)]
    if as_json:
        common.emit(document)
    else:
        from playbook.faces.report import print_evaluation

        print_evaluation(document, common.console(), current())
    return 0
