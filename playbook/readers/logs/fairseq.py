"""Logs of fairseq, text and JSON, with Hydra or fairseq prefixes; numbers may be strings ("3.924").

Inner rows (`train_inner`) keep their names; the average of an epoch is `train_loss`, validation is `valid_loss`, both
at `num_updates`.
"""

from __future__ import annotations

import json
import re
from pathlib import Path

from playbook.readers import text
from playbook.readers.base import RunBuilder, number
from playbook.readers.logs import notable, printed_config
from playbook.readers.logs.rows import Rows, Taker, walk
from playbook.readers.source import Source

NAME = "fairseq"
TITLE = "fairseq log"

_SUBSET = re.compile(r"[\[| ](?:train_inner|train|valid|test|\w{1,40}_test)[\]| ]")
_RECORD = '{"epoch": '
_INNER = re.compile(r"\bepoch (\d{3,}):\s+(\d+) / (\d+) (?=[a-z_]\w*=)(.*)$")
_BLOCK = re.compile(r"\| (?:INFO \| )?(train|valid|test|\w+_test)\s*\| epoch (\d{3,}) \|(.*)$")
_OLD = re.compile(r"^\s*\| epoch (\d{3,}) \| ((?:valid on )?)(.*)$")
_MINE = re.compile(rf"(?:{_INNER.pattern})|(?:{_BLOCK.pattern})|(?:{_SUBSET.pattern}.{{0,40}}{re.escape(_RECORD)})")
_ENGINE = re.compile(r"\bfairseq(?:_cli)?[.\w]*(?:\]|\s\|)")
_COUNTS = ("num_updates", "train_num_updates", "valid_num_updates", "test_num_updates", "updates")


def sniff(head: bytes, path: Path) -> int:
    if text.share(head, _MINE)[0]:
        return 78
    return 50 if text.share(head, _ENGINE)[0] else 0


def read(source: Source, builder: RunBuilder) -> None:
    walk(source, builder, (taker, printed_config.watch), notable.watch, (printed_config.watch,))


def taker(rows: Rows) -> Taker:
    """Takes rows of fairseq, text and JSON."""

    def put(values: dict[str, float], place: int, rank: int | None, otherwise: int | None = None) -> bool:
        count = next((values.pop(name) for name in _COUNTS if name in values), None)
        step = count if count is not None else otherwise if otherwise is not None else rows.last_step
        for name in _COUNTS:
            values.pop(name, None)
        if step is None or not values:
            return False
        rows.add(step, values, place, rank)
        return True

    def take(place: int, shown: str | None) -> bool:
        if shown is None or "epoch" not in shown:
            return False
        start = shown.find(_RECORD)
        if start > 0 and _SUBSET.search(shown[max(0, start - 200) : start]):
            try:
                said = json.loads(shown[start:])
            except (ValueError, RecursionError):
                return False
            return put({key: found for key, value in said.items() if (found := number(value)) is not None}, place, None)
        if hit := _INNER.search(shown):
            count = (int(hit[1]) - 1) * int(hit[3]) + int(hit[2])
            return put(_equals(hit[4]), place, text.split(shown).rank, count)
        if hit := _BLOCK.search(shown):
            values = _bars(hit[3], hit[1])
            values["epoch"] = float(hit[2])
            return put(values, place, text.split(shown).rank)
        if (hit := _OLD.match(shown)) and "|" in hit[3]:
            values = _bars(hit[3], "valid" if hit[2] else "train")
            values["epoch"] = float(hit[1])
            return put(values, place, None)
        return False

    return take


def _equals(shown: str) -> dict[str, float]:
    return {
        key.strip(): found
        for part in shown.split(",")
        for key, _, value in [part.partition("=")]
        if (found := number(value.split()[0] if value.strip() else None)) is not None
    }


def _bars(shown: str, subset: str) -> dict[str, float]:
    """`loss 7.1 | nll_loss 6.9 | num_updates 491` -> names with the subset in front, except the count."""
    values: dict[str, float] = {}
    for part in shown.split("|"):
        key, _, value = part.strip().rpartition(" ")
        found = number(value)
        if found is not None and key and " " not in key:
            values[key if key in _COUNTS else f"{subset}_{key}"] = found
    return values
