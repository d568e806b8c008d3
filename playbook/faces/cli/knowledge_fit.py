"""`playbook knowledge fit`: opinions and precedents of a knowledge folder, fitted to the published reports it holds."""

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
    """Fit opinions and precedents of DIR (default: the built-in book) to its reports; about a minute.

    Writes opinions.json (what each class shows) and precedents.json (what incidents that tell the same turned out to
    be).

    \b
    playbook knowledge fit --folds 5
    playbook knowledge fit --check
    """
    from playbook.knowledge.loader import load
    from playbook.workflow.upkeep import fit as fitting
    from playbook.workflow.upkeep.precedents import rounded
    from playbook.workflow.upkeep.reports import read_elicited, write_opinions, write_precedents

    root = folder or places.knowledge()
    elicited = read_elicited(root)
    book = load([root])
    begin = fitting.start(book, elicited.raters)
    sizes = {"reports": len(elicited.real), "scenarios": len(elicited.imagined)}
    if folds:
        scores = fitting.judge(begin, book, elicited, folds, common.narrator(as_json))
        common.hush()
        if as_json:
            rows = {name: _row(score) for name, score in zip(("before", "after", "pooled"), scores, strict=True)}
            common.emit({**sizes, "folds": folds, **rows})
        else:
            say(f"{sizes['reports']} reports and {sizes['scenarios']} scenarios, {folds} folds")
            names = ("raters and links", "fitted to the others", "with precedents of the others")
            for name, score in zip(names, scores, strict=True):
                say(
                    f"{name}: log loss {score.loss:.3f}, first {score.first:.1%}, first three {score.third:.1%}, "
                    f"calibration error {score.calibration:.3f}"
                )
        return 0
    fitted = fitting.fit(begin, fitting.taught(begin, book, elicited, elicited.real))
    found = fitting.opinions(begin, book, fitted)
    net = rounded(fitting.network(begin, book, elicited, elicited.real, fitted, common.narrator(as_json)))
    common.hush()
    if check:
        apart = fitting.largest_difference(found, book.opinions)
        other = fitting.precedents_apart(net, book, elicited)
        if as_json:
            common.emit({**sizes, "largest_difference": round(apart, 2), "precedents_difference": round(other, 2)})
        else:
            say(f"the written opinions differ from the fit by {apart:.1f} points at most")
            say(f"the written precedents judge reports by {other:.1f} points otherwise in the mean")
        return 1 if max(apart, other) > _TOLERANCE else 0
    paths = [str(write_opinions(root, found)), str(write_precedents(root, net))]
    if as_json:
        common.emit({**sizes, "written": paths})
    else:
        say(f"written: {', '.join(paths)} (`playbook replay` says which verdicts they change)")
    return 0


def _row(score: Score) -> dict[str, float]:
    return {
        "log_loss": round(score.loss, 4),
        "top1": round(score.first, 4),
        "top3": round(score.third, 4),
        "calibration_error": round(score.calibration, 4),
    }
