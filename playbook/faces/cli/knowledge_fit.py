"""`playbook knowledge fit`: the opinions of a knowledge folder, fitted to the published reports that it holds."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from playbook import places
from playbook.faces.cli import common
from playbook.faces.cli.speech import say

if TYPE_CHECKING:
    from playbook.workflow.upkeep.fit import Score

# Per cent by which a share may differ from the written one: another machine adds in another order.
_TOLERANCE = 2.0


@click.command(short_help="Fit what is known of each class to published reports.")
@click.argument("folder", required=False, type=click.Path(path_type=Path), metavar="[DIR]")
@click.option("--folds", type=click.IntRange(2, 20), help="Only judge: fit to the other folds, score on each in turn.")
@click.option("--check", is_flag=True, help="Only compare with what is written; exit 1 where it differs.")
@common.lang_option
@common.json_option
def fit(folder: Path | None, folds: int | None, check: bool, as_json: bool) -> int:
    """Fit the opinions of DIR (default: the built-in book) to its reports and write opinions.json; half a minute.

    \b
    playbook knowledge fit --folds 5
    playbook knowledge fit --check
    """
    from playbook.knowledge.loader import load
    from playbook.workflow.upkeep import fit as fitting
    from playbook.workflow.upkeep.reports import read_elicited, write_opinions

    root = folder or places.knowledge()
    elicited = read_elicited(root)
    book = load([root])
    begin = fitting.start(book, elicited.raters)
    sizes = {"reports": len(elicited.real), "scenarios": len(elicited.imagined)}
    if folds:
        before, after = fitting.judge(begin, book, elicited, folds, common.narrator(as_json))
        common.hush()
        if as_json:
            common.emit({**sizes, "folds": folds, "before": _row(before), "after": _row(after)})
        else:
            say(f"{sizes['reports']} reports and {sizes['scenarios']} scenarios, {folds} folds")
            for name, score in (("raters and links", before), ("fitted to the others", after)):
                say(f"{name}: log loss {score.loss:.3f}, first {score.first:.1%}, first three {score.third:.1%}")
        return 0
    found = fitting.opinions(begin, book, fitting.fit(begin, fitting.taught(begin, book, elicited, elicited.real)))
    if check:
        apart = fitting.largest_difference(found, book.opinions)
        if as_json:
            common.emit({**sizes, "largest_difference": round(apart, 2)})
        else:
            say(f"the written opinions differ from the fit by {apart:.1f} points at most")
        return 1 if apart > _TOLERANCE else 0
    path = write_opinions(root, found)
    if as_json:
        common.emit({**sizes, "written": str(path)})
    else:
        say(f"written: {path} (`playbook replay` says which verdicts it changes)")
    return 0


def _row(score: Score) -> dict[str, float]:
    return {"log_loss": round(score.loss, 4), "top1": round(score.first, 4), "top3": round(score.third, 4)}
