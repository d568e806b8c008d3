"""Debug logs of NCCL and the tables of nccl-tests: warnings as events, bus bandwidth as a series over message sizes.

Where NCCL writes into the log of the job, rows of training and notable lines are taken as in any text log.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

from playbook.readers import text
from playbook.readers.base import RunBuilder
from playbook.readers.logs import notable, printed_config, text_log
from playbook.readers.logs.rows import Rows, Taker, walk
from playbook.readers.source import Source

NAME = "nccl_log"
TITLE = "NCCL debug log or nccl-tests"

_LINE = re.compile(r"\S+:\d+:\d+ \[(?P<dev>\d+)\] (?:\S+ )?NCCL (?:INFO|WARN|TRACE|VERSION)\b")
_WARN = re.compile(r"(?:^|\s)(?P<who>\S+:\d+):\d+ \[(?P<dev>\d+)\] (?:(?P<where>\S+) )?NCCL WARN (?P<text>.*)$")
_RANK = re.compile(
    r"(?P<who>\S+:\d+):\d+ \[(?P<dev>\d+)\] NCCL INFO .*\brank (?P<rank>\d+) nranks (?P<nranks>\d+) cudaDev \d+"
)
_VERSION = re.compile(r"NCCL version (\d[\w.+]*)")
_SETTING = re.compile(r"NCCL INFO (NCCL_\w+) set by environment to (\S+)")
_VIA = re.compile(
    r"\[(?:send|receive)\] via (NET|P2P|SHM|COLLNET)"
    r"|: \d+\[\w+\] -> \d+\[\w+\](?: \[\d+\])? via (P2P|SHM|NET|COLLNET)"
    r"|Channel \d+(?:/\d+)? : .* via (P2P|SHM|NET)"
)
_TESTS = re.compile(
    r"^# (?:nThread \d+ nGpus|Collective test starting|\s*size\s+count\s+type)|^#\s+size\s+(?:\(B\)\s+)?count\s+type"
)
_SIZE = re.compile(r"^\s+(\d{1,15})\s+(\d{1,15})\s+(\w+)\s+(\w+)\s+(-?\d+)")
_TIMES = re.compile(r"^\s+[\d.]+\s+[\d.]+\s+(?P<bus>\d{1,9}(?:\.\d{1,9})?)\s+(?P<wrong>\d{1,12}|N/A)(?![\d.])")
_AVERAGE = re.compile(r"^# Avg bus bandwidth\s*: (\d{1,9}(?:\.\d{1,9})?)(?![\d.])")
_BOUNDS = re.compile(r"^# Out of bounds values : (\d+)")
_MOSTLY = 0.9  # share of lines of NCCL in the first look: below it the file is the log of a job


def sniff(head: bytes, path: Path) -> int:
    lines = text.head_lines(head)
    if any(_TESTS.match(line) or _AVERAGE.match(line) for line in lines[:4_000]):
        return 82
    mine = sum(1 for line in lines if _LINE.search(line))
    return 82 if lines and mine >= len(lines) * _MOSTLY else 0


def read(source: Source, builder: RunBuilder) -> None:
    ranks: dict[tuple[str, str], int] = {}
    makers: tuple[Callable[[Rows], Taker], ...] = (lambda rows: _nccl(rows, ranks), _tests, *text_log.FAMILIES)
    walk(source, builder, makers, notable.watch, (printed_config.watch,))


def _nccl(rows: Rows, ranks: dict[tuple[str, str], int]) -> Taker:
    """Takes NCCL's own lines: settings and channels are configuration, warnings are events of the rank that warns."""
    via: dict[str, int] = {}
    builder = rows.builder

    def take(number: int, line: str | None) -> bool:
        if line is None:
            if via:
                builder.set_config({f"nccl_channels_{kind.lower()}": count for kind, count in sorted(via.items())})
            return False
        if "NCCL " not in line:
            return False
        if hit := _WARN.search(line):
            rank = ranks.get((hit["who"], hit["dev"]))
            where = f"{hit['where']} " if hit["where"] else ""
            builder.event(
                f"NCCL WARN {where}{hit['text']}", "nccl", number, rows.last_step, rank, text.split(line).time
            )
            return True
        if _LINE.search(line) is None:
            return False
        if hit := _RANK.search(line):
            ranks[hit["who"], hit["dev"]] = int(hit["rank"][:9])
            builder.set_config({"world_size": int(hit["nranks"][:9])})
        elif hit := _VERSION.search(line):
            builder.set_config({"nccl_version": hit[1]})
        elif hit := _SETTING.search(line):
            builder.set_config({hit[1]: hit[2].rstrip(".")})
        elif hit := _VIA.search(line):
            kind = next(part for part in hit.groups() if part)
            via[kind] = via.get(kind, 0) + 1
        return not _glued(line)

    return take


def _glued(line: str) -> bool:
    """A row of nccl-tests that another thread's message ran into."""
    return _SIZE.match(line) is not None or _TIMES.match(line) is not None


def _tests(rows: Rows) -> Taker:
    """Takes the table of nccl-tests: one step a message size, out-of-place bus bandwidth."""
    builder = rows.builder
    state = {"step": -1, "open": 0}

    def times(rest: str, number: int) -> None:
        if hit := _TIMES.match(rest):
            rows.add(state["step"], {"nccl_busbw": float(hit["bus"])}, number)
            state["open"] = 0
            if hit["wrong"].isdecimal() and int(hit["wrong"]):
                builder.event(
                    f"nccl-tests: {hit['wrong']} wrong values: {rest.strip()}", "nccl-test", number, state["step"]
                )

    def take(number: int, line: str | None) -> bool:
        if line is None:
            return False
        if hit := _AVERAGE.match(line):
            rows.add(max(0, state["step"]), {"nccl_busbw_average": float(hit[1])}, number)
            builder.event(line.strip(), "nccl-test", number, max(0, state["step"]))
            return True
        if hit := _BOUNDS.match(line):
            if int(hit[1][:15]):
                builder.event(line.strip(), "nccl-test", number, max(0, state["step"]))
            return True
        if hit := _SIZE.match(line):
            state["step"] += 1
            state["open"] = 1
            times(line[hit.end() :], number)
            return True
        if state["open"]:
            times(line, number)
            return _TIMES.match(line) is not None
        return False

    return take
