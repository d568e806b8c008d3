"""Logs of OLMo and OLMo-core: a head `[step=10/1000,epoch=0]`, then indented `key=value` lines that belong to it."""

from __future__ import annotations

import re
from pathlib import Path

from playbook.readers import text
from playbook.readers.base import RunBuilder, number
from playbook.readers.logs import notable, printed_config
from playbook.readers.logs.rows import Rows, Taker, walk
from playbook.readers.source import Source

NAME = "olmo"
TITLE = "OLMo log"

_HEAD = re.compile(r"\[(?:(eval)_)?step=(\d+)(?:/(\d+))?(?:,epoch=(\d+))?[^\]]*\]\s*$")
_PAIR = re.compile(r"^\s{2,}([A-Za-z][^=]{0,120})=(\S+)\s*$")


def sniff(head: bytes, path: Path) -> int:
    lines = text.head_lines(head)
    for place, line in enumerate(lines[:-1]):
        if "step=" in line and _HEAD.search(line) and _PAIR.match(lines[place + 1]):
            return 76
    return 40 if any("\tTrainConfig(" in line or "olmo.train:" in line for line in lines) else 0


def read(source: Source, builder: RunBuilder) -> None:
    walk(source, builder, (taker, printed_config.watch), notable.watch, (printed_config.watch,))


def taker(rows: Rows) -> Taker:
    """Takes a head and its indented lines as one row."""
    values: dict[str, float] = {}
    head: list[tuple[int, int, int | None]] = []  # step, line, rank of the open record

    def put() -> None:
        if head and values:
            step, place, rank = head[0]
            rows.add(step, dict(values), place, rank)
        head.clear()
        values.clear()

    def take(place: int, shown: str | None) -> bool:
        if shown is None:
            put()
            return False
        if head and (hit := _PAIR.match(shown)):
            found = number(hit[2].replace(",", ""))
            if found is not None:
                values[hit[1].strip()] = found
            return True
        if head:
            put()
        if "step=" not in shown or (hit := _HEAD.search(shown)) is None:
            return False
        step = rows.last_step or 0 if hit[1] else int(hit[2])
        if hit[3] and not hit[1] and rows.count == 0:
            rows.builder.set_config({"max_steps": int(hit[3])})
        head.append((step, place, text.split(shown).rank))
        return True

    return take
