"""Logs of torchtitan: `[titan] ... step:  1  loss:  8.0  grad_norm:  1.2  memory:  3.30GiB(3.6%)  tps: 1,234`."""

from __future__ import annotations

import re
from pathlib import Path

from playbook.readers import text
from playbook.readers.base import RunBuilder
from playbook.readers.logs import notable, printed_config
from playbook.readers.logs.rows import Rows, Taker, walk
from playbook.readers.source import Source

NAME = "torchtitan"
TITLE = "torchtitan log"

_ROW = re.compile(r"\bstep: {1,10}(\d[\d,]{0,14}) {1,10}(?=(?:loss|global_avg_loss|validation_loss|\w+_loss): )")
_VALIDATE = re.compile(rf"\bvalidate step: {{1,10}}(\d[\d,]{{0,14}}) {{1,10}}loss: {{1,10}}({text.NUM})")
_JOB = re.compile(r"\[titan\]|torchtitan")


def sniff(head: bytes, path: Path) -> int:
    if text.share(head, _ROW)[0]:
        return 74
    return 45 if text.share(head, _JOB)[0] else 0


def read(source: Source, builder: RunBuilder) -> None:
    walk(source, builder, (taker, printed_config.watch), notable.watch, (printed_config.watch,))


def taker(rows: Rows) -> Taker:
    """Takes rows of torchtitan."""

    def take(place: int, shown: str | None) -> bool:
        if shown is None or "step: " not in shown or "loss: " not in shown:
            return False
        if hit := _VALIDATE.search(shown):
            rows.add(
                int(hit[1].replace(",", "")), {"validation loss": text.value(hit[2])}, place, text.split(shown).rank
            )
            return True
        hit = text.last(_ROW, shown)
        if hit is None:
            return False
        values = text.pairs(shown[hit.end() :])
        rows.add(int(hit[1].replace(",", "")), values, place, text.split(shown).rank, shown[hit.start() :])
        return True

    return take
