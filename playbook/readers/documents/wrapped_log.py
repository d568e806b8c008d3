"""A text log whose lines are wrapped in JSON, as Docker, Kubernetes, cloud logging and JSON loggers write them.

`{"log": "step 10 loss 2.31", "stream": "stdout", "time": ...}`: what stands in the text is read as a text log is, and a
line that is not wrapped is read as it stands. Rows of numbers, one object a row, are another format.
"""

from __future__ import annotations

from pathlib import Path

from playbook.readers.base import RunBuilder
from playbook.readers.documents import json_words
from playbook.readers.names import step_names
from playbook.readers.source import Source

NAME = "wrapped_log"
TITLE = "text log wrapped in JSON lines (Docker, Kubernetes, cloud logging)"

_LEAST = 2  # rows in the first look ...
_NUMBERS = 20  # of which none may be a row of numbers
_MOST = 0.7  # ... and the share of them that must hold a text
_OURS = 68  # above what JSON lines claim of a file with the name of a metric in it


def sniff(head: bytes, path: Path) -> int:
    if not head.lstrip().startswith(b"{"):
        return 0
    rows = list(json_words.first_rows(head))
    if len(rows) < _LEAST or any("loss" in row and step_names(row) for row in rows[:_NUMBERS]):
        return 0
    return _OURS if sum(json_words.text_of(row) is not None for row in rows) >= _MOST * len(rows) else 0


def read(source: Source, builder: RunBuilder) -> None:
    from playbook.readers.logs import notable, printed_config, text_log
    from playbook.readers.logs.rows import Rows, feeder

    rows = Rows(builder)
    feed = feeder(rows, text_log.FAMILIES, notable.watch, (printed_config.watch,))
    for number, raw, whole in source.marked_lines():
        builder.lines = number
        row = json_words.row_of(raw)
        if row is None:
            feed(number, raw, whole)
            continue
        for part in (json_words.text_of(row) or "").splitlines():
            feed(number, part, True)
    feed(0, "", True)
    text_log.refuse_silence(source, builder, rows)
