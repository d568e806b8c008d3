"""Rows below a heading of an epoch: `Epoch 3/25` alone in its line, then bars or values without a count of their own.

Keras draws `23/23 [=====] - 1s - loss: 0.3 - val_loss: 0.4` below it, tutorials print `train Loss: 0.3 Acc: 0.9`.
What stands below one heading is one row, at the number of the epoch; of a bar that is drawn many times the last
drawing counts. Below a heading whose rows count themselves nothing is taken. Blocks of a step: `blocks`.
"""

from __future__ import annotations

import re

from playbook.readers import text
from playbook.readers.logs import loose
from playbook.readers.logs.rows import Rows, Taker

_HEADING = re.compile(
    r"^(?:[a-z][\w.]{1,80} [-:|] )?"  # the name of the logger
    r"\W*(?:start(?:ing|ed)? |begin(?:ning)? |running |train(?:ing)? )?epoch\s*[:#]?"
    r"\s*[\[(]?(\d{1,9})[\])]?(?:\s*(?:/|of)\s*(\d{1,9}))?\W*$",
    re.IGNORECASE,
)
_BAR = re.compile(r"(?:^|\s)(\d{1,9})/(\d{1,9})\s*(?:\[[=>.\- ]{3,80}\]|[━╸╺╶ ]{5,100}|- (?=\d+m?s\b))(.*)$")
_BAR_FIRST = re.compile(r"^\s*\[[=>. ]{2,100}\]\s*\|?(.*?)\s(\d{1,9})/(\d{1,9})\s*$")  # Loss: 0.3 | Acc: 9 % 391/391
_ONE = re.compile(rf"^[\s:|>*]*([A-Za-z][\w ./()\-]{{0,60}}?)\s*[:=]\s*({text.NUM})\s*(?:%|[a-zA-Z/]{{1,12}})?\s*$")
_PLAIN = re.compile(rf"^[\s:|>*]*([A-Za-z][\w/]{{1,40}})\s+({text.NUM})\s*$")  # train_loss 0.7088
_HELD_OUT = re.compile(r"\b(?:val|valid|validation|eval|evaluation|test|dev)(?![a-z])", re.IGNORECASE)
_OTHER = re.compile(r"checkpoint|resum|\bsav(?:ed|ing)\b|\bbest\b|improve|\beta\b|==|\w\(", re.IGNORECASE)
_DROPPED = frozenset(("eta", "ETA", "epoch", "Epoch", "step", "iteration"))
_FAR = 60  # lines below a heading in which a value without a bar belongs to it
_EARLY = 40  # characters before the first value: more is a sentence that ends in a number
_LONGEST = 1000  # characters


class _Below:
    """The heading that is open and what was said below it."""

    def __init__(self) -> None:
        self.at: int | None = None
        self.only = False  # one heading for the whole run: the bars count
        self.lines, self.place, self.pulse = 0, 0, 0
        self.total: int | None = None
        self.values: dict[str, float] = {}


def taker(rows: Rows) -> Taker:
    """Takes what stands below headings; one row a heading."""
    below = _Below()

    def put() -> None:
        if below.at is not None and any(map(text.is_metric, below.values)):
            rows.add(below.at, below.values | {"epoch": float(below.at)}, below.place)
        below.values = {}

    def opened(at: int, all_: int | None) -> None:
        put()
        below.at, below.only, below.lines, below.total = at, all_ == 1, 0, None
        below.pulse = rows.pulse
        loose.headed(rows, at)

    def bar(number: int, shown: str) -> bool:
        hit = _BAR.search(shown)
        done, length, rest = (hit[1], hit[2], hit[3]) if hit else ("", "", "")
        if hit is None and (hit := _BAR_FIRST.match(shown)):
            rest, done, length = hit.groups()
        if hit is None or not text.may_hold_metric(rest):
            return False
        values = {key: value for key, value in text.pairs(rest).items() if key not in _DROPPED}
        if below.total is None:
            below.total = int(length)
        if int(length) != below.total and not any(map(_HELD_OUT.search, values)):
            values = {f"val_{key}": value for key, value in values.items()}  # a second bar below one heading
        if below.only:
            return rows.add(int(done), values, number) if any(map(text.is_metric, values)) else False
        below.values |= values
        below.place = number
        return True

    def value(number: int, shown: str) -> bool:
        below.lines += 1
        if below.lines > _FAR or len(shown) > 300 or _OTHER.search(shown):
            return False
        body = text.split(shown).body
        alone = _ONE.match(body) or _PLAIN.match(body)
        first = text.PAIR.search(body)
        if (first is None and alone is None) or (first and first.start() > _EARLY) or loose.found(body) is not None:
            return False  # a sentence, or it counts itself
        values = {alone[1]: text.value(alone[2])} if alone else text.pairs(body)
        if not any(map(text.is_metric, values)):
            return False
        if (hit := _HELD_OUT.match(body.lstrip())) and not any(map(_HELD_OUT.search, values)):
            values = {f"{hit[0]} {key}": number_ for key, number_ in values.items()}
        for key, one in values.items():
            below.values.setdefault(key, one)
        below.place = below.place if len(below.values) > len(values) else number
        return True

    def take(number: int, shown: str | None) -> bool:
        if shown is None:
            put()
            return False
        if len(shown) > _LONGEST:
            return False
        if ("poch" in shown or "POCH" in shown) and len(shown) < 120:
            body = text.split(shown).body
            if hit := _HEADING.match(body):
                opened(int(hit[1]), int(hit[2]) if hit[2] else None)
                return False  # it may be notable as well
        if below.at is None:
            return False
        if rows.pulse != below.pulse and not below.only:  # the rows below it count themselves
            below.at, below.values = None, {}
            return False
        if not text.may_hold_metric(shown):
            below.lines += 1
            return False
        taken = ("/" in shown and bar(number, shown)) or value(number, shown)
        below.pulse = rows.pulse
        return taken

    return take
