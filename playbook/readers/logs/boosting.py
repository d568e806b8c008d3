"""Lines of boosted trees: XGBoost, LightGBM and CatBoost print an iteration and the metrics of each data set.

    [10]    train-logloss:0.41+0.01    test-logloss:0.47+0.02        XGBoost; a deviation in cross-validation
    [10]    training's l2: 0.21        valid_1's l2: 0.24            LightGBM
    [LightGBM] [Info] Iteration:10, valid_1 l2 : 0.24                its command line
    10:     learn: 0.41    test: 0.47    best: 0.46 (8)    total: 3s CatBoost

The first metric that is minimised becomes the loss of the training set and the held-out loss of the last other set, so
that both can be compared; scores that are to rise are left out.
"""

from __future__ import annotations

import re

from playbook.readers import text
from playbook.readers.logs.rows import Rows, Taker
from playbook.readers.minimised import is_loss

_N = text.NUM
_ROW = re.compile(r"(?:^|(?<=\s))\[(?P<step>\d{1,9})\]\s+(?P<rest>\S.*)$")
# Names are bounded: a long line of words must not be gone through from each of its places to the end.
_PAIR = re.compile(
    r"(?P<set>[\w.\- ]{1,80}?)(?:-(?P<of>(?:\w{1,20}-(?=nloglik|deviance))?[\w@.]{1,40}(?:=\w{1,40})?)"
    r"|'s (?:(?P<part>train|valid) )?(?P<named>[\w@. ]{1,60}?)): ?"
    rf"(?P<number>{_N})(?: ?\+ ?{_N})?(?=\s|$)"
)
_LINE = re.compile(rf"Iteration: ?(?P<step>\d{{1,9}}), (?P<set>\w+) (?P<of>[\w@]+) : (?P<number>{_N})\s*$")
_CATBOOST = re.compile(
    rf"^(?P<step>\d{{1,9}}):\s+learn: (?P<learn>{_N})(?:\s+test\d*: (?P<test>{_N}))?.*\stotal: [\d.]+\w+"
)
_AGAIN = re.compile(r"[Bb]est iteration(?: is)?:\s*$")
_TRAIN = frozenset(("train", "training", "learn", "fit", "dtrain", "validation_0"))


def taker(rows: Rows) -> Taker:
    """Takes such lines."""

    again = False  # the next row is the best one, told once more

    def take(number: int, shown: str | None) -> bool:
        nonlocal again
        if shown is not None and "est iteration" in shown and _AGAIN.search(shown):
            again = True
            return False
        if shown is None or not ("[" in shown or "learn: " in shown or "Iteration:" in shown):
            return False
        told = found(shown)
        if told is None:
            return False
        step, values = told
        if again:
            again = False
        elif values:
            rows.add(step, values, number, None, shown)
        return True

    return take


def found(shown: str) -> tuple[int, dict[str, float]] | None:
    """(iteration, what its line tells); None for any other line."""
    if (hit := _CATBOOST.match(shown)) is not None:
        values = {"loss": float(hit["learn"])}
        return int(hit["step"]), values | ({"eval_loss": float(hit["test"])} if hit["test"] else {})
    if (hit := _LINE.search(shown)) is not None:
        name = "loss" if hit["set"] in _TRAIN else "eval_loss"
        return int(hit["step"]), {name: float(hit["number"])} if is_loss(hit["of"]) else {}
    if (row := _ROW.search(shown)) is None or not (pairs := list(_PAIR.finditer(row["rest"]))):
        return None
    if pairs[0].start() or any(not (p["of"] or p["named"]) for p in pairs):
        return None
    told = [(p["part"] or p["set"].strip(), p["of"] or p["named"], float(p["number"])) for p in pairs]
    return int(row["step"]), _losses([(name, metric, value) for name, metric, value in told if is_loss(metric)])


def _losses(told: list[tuple[str, str, float]]) -> dict[str, float]:
    """The first metric of (data set, metric, value): the loss of the training set, the held-out one of the last other.

    XGBoost calls the sets of its scikit-learn interface by their place: a single one is the held-out set.
    """
    first = {name: value for name, metric, value in told if metric == told[0][1]}
    training = [name for name in first if name in _TRAIN and (name != "validation_0" or len(first) > 1)]
    held_out = [name for name in first if name not in training]
    values = {"loss": first[training[0]]} if training else {}
    return values | ({"eval_loss": first[held_out[-1]]} if held_out else {})
