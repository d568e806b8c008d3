"""The log of the NVIDIA fabric manager: lines of level ERROR, WARNING and above become events (NVSwitch, NVLink)."""

from __future__ import annotations

import re
from pathlib import Path

from playbook.readers import text
from playbook.readers.base import RunBuilder
from playbook.readers.source import Source

NAME = "fabric_manager"
TITLE = "NVIDIA fabric manager log"

_LINE = re.compile(
    r"^\[(?P<time>[A-Z][a-z]{2} \d{1,2} \d{4} \d{2}:\d{2}:\d{2})\] \[(?P<level>[A-Z]+)\] \[tid \d+\] (?P<text>.*)$"
)
_QUIET = frozenset(("INFO", "DEBUG", "NOTICE", "TRACE"))


def sniff(head: bytes, path: Path) -> int:
    found, lines = text.share(head, _LINE, 200)
    return 90 if (found > 1 and found >= lines * 0.2) or (found and lines < 3) else 0


def read(source: Source, builder: RunBuilder) -> None:
    for number, raw in source.lines():
        hit = _LINE.match(text.clean(raw))
        if hit is None:
            continue
        builder.rows += 1
        if hit["level"] not in _QUIET:
            builder.event(hit["text"], "fabric", number, None, None, hit["time"])
