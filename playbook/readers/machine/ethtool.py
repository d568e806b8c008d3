"""`ethtool -S`: the statistics of a network card, once or before and after; counters that rose become events."""

from __future__ import annotations

import re
from pathlib import Path

from playbook.readers import text
from playbook.readers.base import RunBuilder
from playbook.readers.machine import counters
from playbook.readers.machine.lines import whole_lines
from playbook.readers.source import Source

NAME = "ethtool"
TITLE = "ethtool -S"

_HEAD = re.compile(r"^\s*NIC statistics:\s*$")
_PAIR = re.compile(r"^\s+(?P<key>\S[^:\n]*?(?::[^:\n]*?)?)\s*:\s*(?P<value>-?\d{1,20})\s*$")
_PORT = re.compile(
    r"\bethtool\s+(?:-S|--statistics)\s+(\S+)|^(?:interface|dev(?:ice)?|nic|port)[ :=]+(\S+)"
    r"|^\W*([a-z]{2,}[\w.\-]*\d[\w.\-]*)\s*:?\W*$",
    re.IGNORECASE,
)


def sniff(head: bytes, path: Path) -> int:
    return 93 if any(_HEAD.match(line) for line in text.head_lines(head)[:60]) else 0


def read(source: Source, builder: RunBuilder) -> None:
    shots: list[counters.Snapshot] = []
    port = ""
    for number, line in whole_lines(source, builder):
        if _HEAD.match(line):
            shots.append(counters.Snapshot(port, number))
        elif shots and len(line) < 200 and (hit := _PAIR.match(line)):
            shots[-1].values.setdefault(hit["key"], (int(hit["value"]), number))
        elif len(line) < 200 and (hit := _PORT.search(line)):
            port = next(part for part in hit.groups() if part)
    counters.put(shots, builder)
