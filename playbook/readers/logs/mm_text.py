"""Logs of mmcv, mmengine, detectron2, YOLOX: `Epoch [1][100/5005]  lr: ..`, `Iter(train) [ 50/1000]`, `iter: 19  ..`.

Batches of an epoch become steps of the run. Validation rows stand at the last training step.
"""

from __future__ import annotations

import re
from pathlib import Path

from playbook.readers import text
from playbook.readers.base import RunBuilder
from playbook.readers.logs import notable, printed_config
from playbook.readers.logs.rows import EpochSteps, Rows, Taker, walk
from playbook.readers.source import Source

NAME = "mm_text"
TITLE = "mmcv, mmengine or detectron2 log"

_EPOCH = re.compile(r"\bEpoch(?:\((train|val|test)\))?\s+\[\s*(\d+)\]\[\s*(\d+)(?:/(\d+))?\]\s*(?=[A-Za-z])(.*)$")
_ITER = re.compile(r"\bIter(?:\((train|val|test)\))?\s+\[\s*(\d+)/(\d+)\]\s*(?=[A-Za-z])(.*)$")
_D2 = re.compile(r"(?:^|\s)(?:eta: \S.*? )?iter: (\d+)  (?=[a-z_]\w*: )(.*)$")
_YOLOX = re.compile(r"\bepoch: (\d+)/(\d+), iter: (\d+)/(\d+), (.*)$")
_MINE = re.compile("|".join(pattern.pattern for pattern in (_EPOCH, _ITER, _D2, _YOLOX)))
_TIMES = re.compile(r"\beta: (?:\d+ days?, )?[\d:]+,?|\bETA: .*$")


def sniff(head: bytes, path: Path) -> int:
    if text.share(head, _MINE)[0]:
        return 75
    # below a log of any logger with rows: many projects borrow the logger and print rows of their own
    return 25 if text.share(head, re.compile(r" - (?:mm\w+) - INFO - |detectron2 INFO: "))[0] else 0


def read(source: Source, builder: RunBuilder) -> None:
    walk(source, builder, (taker, printed_config.watch), notable.watch, (printed_config.watch,))


def taker(rows: Rows) -> Taker:
    """Takes rows of the OpenMMLab family, detectron2 and YOLOX."""
    epochs = EpochSteps()

    def take(place: int, shown: str | None) -> bool:
        if shown is None or ("[" not in shown and "iter: " not in shown):
            return False
        if hit := _EPOCH.search(shown):
            kind, epoch, batch, length, rest = hit.groups()
            if kind in ("val", "test") or not length:
                return held_out(place, rest, kind, epochs.end(int(epoch)))
            return put(place, epochs.step(int(epoch), int(batch), int(length), restarts=True), rest, shown)
        if hit := _ITER.search(shown):
            kind, step, _, rest = hit.groups()
            if kind in ("val", "test"):
                return held_out(place, rest, kind, None)
            return put(place, int(step), rest, shown)
        if hit := _D2.search(shown):
            return put(place, int(hit[1]), hit[2], shown)
        if hit := _YOLOX.search(shown):
            return put(place, epochs.step(int(hit[1]), int(hit[3]), int(hit[4]), restarts=True), hit[5], shown)
        return False

    def put(place: int, step: int, rest: str, shown: str) -> bool:
        values = text.pairs(_TIMES.sub("", rest))
        if values:
            line = text.split(shown)
            rows.add(step, values, place, line.rank, f"{line.time} {line.body}")
        return bool(values)

    def held_out(place: int, rest: str, kind: str | None, step: int | None) -> bool:
        values = text.pairs(_TIMES.sub("", rest))
        subset = "test" if kind == "test" else "val"
        named = {key if key.startswith("coco") else f"{subset}_{key}": value for key, value in values.items()}
        if named:
            rows.add(step or rows.last_step or 0, named, place)
        return bool(named)

    return take
