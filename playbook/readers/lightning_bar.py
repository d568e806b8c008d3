"""Progress bars and lines of Lightning and NeMo: `Epoch 0: 10%|..| 5/50 [..., loss=2.3, v_num=0, global_step=4]`.

A bar is drawn many times for one step: the last drawing counts. The step is `global_step` where the bar has it, else
the batches of all epochs.
"""

from __future__ import annotations

import re
from pathlib import Path

from playbook.readers import notable, printed_config, text
from playbook.readers.base import RunBuilder
from playbook.readers.rows import EpochSteps, Rows, Taker, walk
from playbook.readers.source import Source

NAME = "lightning_bar"
TITLE = "progress bar of Lightning or NeMo"

_BAR = re.compile(
    r"\bEpoch (\d+)(?:/\d+)?:?\s*:?\s*(?:\d{1,3}%\s*\|[^|]*\|"
    r"|[━╸╺\-─ ]{5,})\s*(\d+)/(\d+)\s*(?:\[[^\]\[]*?(?:,|it/s|s/it)|[\d:• ]+)([^\]]*[=:][^\]]*)"
)
_LINE = re.compile(r"\bTraining epoch (\d+), iteration (\d+)/(\d+) \| (.*)$")
_TIMING = re.compile(rf"\b(train_step_timing in s|train_backward_timing in s)[=:] ?({text.NUM})")
_STEPS = ("global_step", "step", "trainer/global_step")
_DROPPED = ("v_num", "global_step", "step", "iteration", "epoch")


def sniff(head: bytes, path: Path) -> int:
    return 66 if text.share(head, _BAR)[0] or text.share(head, _LINE)[0] else 0


def read(source: Source, builder: RunBuilder) -> None:
    walk(source, builder, (taker, printed_config.watch), notable.watch, (printed_config.watch,))


def taker(rows: Rows) -> Taker:
    """Takes bars; a step is handed on when the next one begins."""
    epochs = EpochSteps()
    pending: list[tuple[int, dict[str, float], int, int | None]] = []

    def put() -> None:
        if pending:
            step, values, place, rank = pending.pop()
            rows.add(step, values, place, rank)

    def take(place: int, shown: str | None) -> bool:
        if shown is None:
            put()
            return False
        hit = _BAR.search(shown) if "Epoch " in shown else _LINE.search(shown) if "Training epoch" in shown else None
        if hit is None:
            return False
        epoch, batch, length, rest = int(hit[1]), int(hit[2]), int(hit[3]), hit[4]
        values = text.pairs(_TIMING.sub("", rest))
        for name, found in _TIMING.findall(rest):
            values[name] = text.value(found)
        told = next((values[name] for name in _STEPS if name in values), None)
        if told is not None and told == told and abs(told) < 2**62:
            step = int(told)
        elif hit.re is _LINE:
            step = batch
        else:
            step = epochs.step(epoch, batch, length, restarts=True) if epoch else epochs.step(0, batch, length)
        for name in _DROPPED:
            values.pop(name, None)
        if not values:
            return True
        rank = text.split(shown).rank
        if pending and pending[0][0] != step:
            put()
        pending[:] = [(step, values, place, rank)]
        return True

    return take
