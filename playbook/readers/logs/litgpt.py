"""Logs of LitGPT, lit-gpt and TinyLlama: `Epoch 1 | iter 10 step 5 | loss train: 3.1, val: n/a | iter time: 123.45 ms`.

Counts by iteration: several iterations (micro-batches) make one optimizer step and each has its own loss.
"""

from __future__ import annotations

import re
from pathlib import Path

from playbook.readers import text
from playbook.readers.base import RunBuilder
from playbook.readers.logs import notable, printed_config
from playbook.readers.logs.rows import Rows, Taker, walk
from playbook.readers.source import Source

NAME = "litgpt"
TITLE = "LitGPT and TinyLlama log"

_N = rf"({text.NUM})"
_ROW = re.compile(rf"\biter (\d+) step (\d+) \| loss train: {_N}, val: (?:{_N}|n/a) \| iter time: {_N} ?(ms|s)")
_OLD = re.compile(
    rf"\biter (\d+)(?: step (\d+))?: (?:train )?loss {_N}, (?:(?:train|iter) )?(?:iter )?time: {_N} ?(ms|s)"
)
_VAL = re.compile(rf"\b(?:iter|step|Epoch) (\d+):? ?(?:\| )?val(?:idation)?[ _]loss:? {_N}")


def sniff(head: bytes, path: Path) -> int:
    return 76 if text.share(head, _ROW)[0] or text.share(head, _OLD)[0] else 0


def read(source: Source, builder: RunBuilder) -> None:
    walk(source, builder, (taker, printed_config.watch), notable.watch, (printed_config.watch,))


def taker(rows: Rows) -> Taker:
    """Takes rows of LitGPT and its forks."""

    def take(place: int, shown: str | None) -> bool:
        if shown is None or "loss" not in shown or (" time: " not in shown and "val" not in shown):
            return False
        if hit := _ROW.search(shown):
            values = {"loss": text.value(hit[3]), "iter time": text.value(hit[5], hit[6])}
            if hit[4]:
                values["val loss"] = text.value(hit[4])
            rows.add(int(hit[1]), values, place, text.split(shown).rank, hit[0])
            return True
        if hit := _OLD.search(shown):
            rows.add(
                int(hit[1]),
                {"loss": text.value(hit[3]), "iter time": text.value(hit[4], hit[5])},
                place,
                text.split(shown).rank,
                hit[0],
            )
            return True
        if rows.count and (hit := _VAL.search(shown)) and "train loss" not in shown:
            step = int(hit[1]) if hit[0].startswith("iter") else rows.last_step
            rows.add(step if step is not None else int(hit[1]), {"val loss": text.value(hit[2])}, place)
            return True
        return False

    return take
