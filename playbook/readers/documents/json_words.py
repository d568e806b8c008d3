"""What is said in JSON lines beside the numbers: messages of loggers, with the traceback that stands next to them."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

from playbook.readers import text
from playbook.readers.base import RunBuilder
from playbook.readers.source import Source

# Where the text stands: Docker, JSON loggers, Google Cloud, Logstash, OpenTelemetry.
_TEXTS = ("log", "message", "msg", "textPayload", "@message", "body", "text", "line", "event")
_INSIDE = ("jsonPayload", "fields", "attributes", "record", "payload")
_TRACES = ("exc_info", "exception", "traceback", "stack_trace", "stack", "exc", "error")
_STEP = re.compile(r'"(?:global_?|train_?)?(?:step|iter|iteration|update)s?" *: *(\d{1,12})\b')
_LOOK = 50  # lines that show whether anything is said


def text_of(row: Mapping[str, Any]) -> str | None:
    """The text of one row, None where it has none; a traceback that stands beside the message follows it."""
    for part in (row, *(row[key] for key in _INSIDE if isinstance(row.get(key), dict))):
        said = next((part[key] for key in _TEXTS if isinstance(part.get(key), str)), None)
        if said is not None:
            return "\n".join((said, *(row[key] for key in _TRACES if isinstance(row.get(key), str))))
    return None


def row_of(line: str) -> dict[str, Any] | None:
    """The object of one line; None where it holds none."""
    line = line.strip()
    if not line.startswith("{"):
        return None
    try:
        row = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return row if isinstance(row, dict) else None


def first_rows(head: bytes) -> Iterator[dict[str, Any]]:
    """The rows in the first look at a file."""
    return (row for line in text.head_lines(head)[:_LOOK] if (row := row_of(line)) is not None)


def listen(source: Source, builder: RunBuilder) -> None:
    """Add what the messages of a file of rows tell as events, at the step of the last row before them."""
    if not any(map(text_of, first_rows(source.head()))):
        return
    from playbook.readers.logs import notable, notable_words, rows

    gathered = rows.Rows(builder)
    see = notable.watch(gathered)
    for number, raw, _ in source.marked_lines():
        if hit := _STEP.search(raw):
            gathered.last_step, gathered.pulse = int(hit[1]), gathered.pulse + 1
        if not notable_words.hinted(raw):
            continue
        for part in (text_of(row_of(raw) or {}) or "").splitlines():
            see(number, text.clean(part))
    see(0, "")
    builder.events.sort(key=lambda event: event.origin.line or 0)
