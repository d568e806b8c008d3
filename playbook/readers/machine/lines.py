"""The lines of what a tool of the machine printed, without terminal colours; half a line is told and not given."""

from __future__ import annotations

from collections.abc import Iterator

from playbook.readers import text
from playbook.readers.base import RunBuilder
from playbook.readers.source import Source


def whole_lines(source: Source, builder: RunBuilder) -> Iterator[tuple[int, str]]:
    """(number, line). A last line without a line end may be cut in the middle of a number."""
    for number, raw, ended in source.marked_lines():
        line = text.clean(raw).rstrip()
        if ended:
            yield number, line
        elif line:
            builder.problem(
                number, "the last line has no line end and may be cut; no number of it was taken", code="cut"
            )
