"""Logs of Megatron-LM and Megatron-DeepSpeed: ` iteration 100/ 500 | consumed samples: ... | lm loss: 6.1E+00 | ...`.

Takes the rows (also when a chronicle broke them over several lines), validation rows, the arguments block and the
memory of each rank. A row whose iterations were all skipped has no loss; it is left out there and not filled.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import numpy as np

from playbook.readers import text
from playbook.readers.base import RunBuilder, number
from playbook.readers.logs import megatron_columns, notable, printed_config
from playbook.readers.logs.rows import Rows, Taker, feeder
from playbook.readers.source import Source, decode

NAME = "megatron"
TITLE = "Megatron-LM and Megatron-DeepSpeed log"

ROW = re.compile(r"(?<!, )\biteration\s+(\d+)\s*/\s*(\d+)\s*\|")
_HEAD = re.compile(r"^-{8,} (?:end of )?arguments -{8,}|tensor-model-parallel size: |tensor_model_parallel_size \.{2,}")
_VALIDATION = re.compile(r"validation loss at (?:iteration (\d+)|the end of training)[^|]*\|(.*)")
_MEMORY = re.compile(r"\[Rank (\d+)\] \((?:after )?(\d+) iterations\) memory \(MB\) \|(.*)")
_WORLD = re.compile(r"using world size: (\d+)")
_SIZES = re.compile(r"(data|tensor-model|pipeline-model|context|expert-model)-parallel[- ]size: (\d+)")
_BATCHES = re.compile(r"(?:time \(ms\) \|.*?|^\s+)batch-generator[ .]*: \(?([\d.]+)(?:, ([\d.]+)\))?")
_LAST = "number of nan iterations:"  # the field that ends a row; without it the row may go on in the next line
_CONTINUED = re.compile(r"^(?:\[\w+\]:)?\s*(?:[a-zA-Z][\w ()/\-]*: +)?[-+\w.]+ *\|")
_LONGEST = 8 << 20  # bytes of a line that is still kept
_WRAPPED = 3  # lines over which a row may be broken


def sniff(head: bytes, path: Path) -> int:
    rows, _ = text.share(head, ROW)
    if rows:
        return 85
    return 60 if text.share(head, _HEAD)[0] else 0


def read(source: Source, builder: RunBuilder) -> None:
    rows = Rows(builder)
    take = taker(rows)
    feed = feeder(rows, (lambda _: take, printed_config.watch), notable.watch, (printed_config.watch,))
    number, tail = 0, b""
    for chunk in source.chunks():
        end = chunk.rfind(b"\n") + 1
        if end:
            number += _block(b"".join((tail, memoryview(chunk)[:end])), number, rows, take, feed)
            tail = chunk[end:]
        elif len(tail) < _LONGEST:
            tail += chunk
    if tail:
        _slowly(tail, number + 1, feed, False)
    builder.lines = number + bool(tail)
    feed(0, "", True)


def _block(data: bytes, before: int, rows: Rows, take: Taker, feed: Callable[[int, str, bool], None]) -> int:
    """Whole lines: rows of the usual shape go in as columns, everything else one by one. Returns how many lines."""
    lead = 0
    if not rows.count:  # the head of the log, up to its first row: settings are told from rows by standing before them
        end = megatron_columns.first_row(data)
        for raw in data[:end].split(b"\n")[:-1]:
            lead += 1
            _slowly(raw, before + lead, feed)
        before, data = before + lead, data[end:]
    found = megatron_columns.block(data) if rows.count else None
    if found is None:
        lines = data.split(b"\n")[:-1]
        for place, raw in enumerate(lines, before + 1):
            _slowly(raw, place, feed)
        return lead + len(lines)
    places = np.concatenate([part.lines for part in found.parts])
    steps = np.concatenate([part.steps for part in found.parts])
    order = np.argsort(places)
    places, steps = places[order], steps[order]
    met, extra, pulse = 0, 0, rows.pulse
    for place, raw in (*found.others, (int(places[-1]) + 1, b"")):  # each sees the last row before it
        if (now := int(np.searchsorted(places, place))) > met:
            take(0, None)  # a wrapped row ends where the next row begins
            rows.passed(steps[met:now])
            met = now
        rows.pulse = pulse + met + extra
        _slowly(raw, before + place + 1, feed)
        extra = rows.pulse - pulse - met
    rank = text.split(found.label.decode("utf-8", "replace") + " x").rank
    for part in found.parts:
        rows.columns(part.steps, part.values, part.lines + (before + 1), rank)
    return lead + found.lines


def _slowly(raw: bytes, number: int, feed: Callable[[int, str, bool], None], whole: bool = True) -> None:
    parts = decode(raw.replace(b"\0", b"").rstrip(b"\r")).split("\r")
    for part in parts[:-1]:
        feed(number, part, True)
    feed(number, parts[-1], whole)


def fields(shown: str) -> dict[str, float]:
    """`key: value | key: value |` -> numbers; what a torn line damaged is left out."""
    values: dict[str, float] = {}
    for part in shown.split("|"):
        key, _, value = part.rpartition(":")
        found = number(value)
        if found is not None and (key := key.strip()) and len(key) < 80:
            values.setdefault(key, found)
    return values


def taker(rows: Rows) -> Taker:
    """Takes Megatron rows line by line."""
    pending: list[str] = []
    place = [0]

    def put() -> None:
        shown = " ".join(pending)
        pending.clear()
        hit = text.last(ROW, shown)
        if hit is None:
            return
        values = fields(shown[hit.end() :])
        if rows.count == 0:
            rows.builder.set_config({"train_iters": int(hit[2])})
        if values:
            rows.add(int(hit[1]), values, place[0], text.split(shown).rank)

    def take(line_number: int, line: str | None) -> bool:
        if pending:
            if line is not None and _CONTINUED.search(line) and not ROW.search(line) and not _other(line):
                pending.append(line.strip())
                if _LAST in line or len(pending) >= _WRAPPED:
                    put()
                return True
            put()
        if line is None or "|" not in line:
            if line is not None and "-parallel" in line and (hit := _WORLD.search(line)):
                sizes = {f"{key.replace('-', '_')}_parallel_size": int(size) for key, size in _SIZES.findall(line)}
                rows.builder.set_config({"world_size": int(hit[1]), **sizes})
            if line is not None and "batch-generator" in line:
                return batches(line_number, line)
            return False
        if ROW.search(line):
            pending.append(line)
            place[0] = line_number
            if _LAST in line:
                put()
            return True
        if hit := _VALIDATION.search(line):
            values: dict[str, float] = {}
            for key, value in fields(hit[2]).items():
                name = "validation ppl" if key.upper().endswith("PPL") else f"validation {key.removesuffix(' value')}"
                values.setdefault(name, value)
            step = int(hit[1]) if hit[1] else rows.last_step
            if step is not None and values:
                rows.add(step, values, line_number)
            return True
        if hit := _MEMORY.search(line):
            found = fields(hit[3]).get("max allocated")
            if found is not None:
                rows.add(int(hit[2]), {"max memory allocated": found}, line_number, int(hit[1]))
            return True
        return batches(line_number, line)

    def batches(line_number: int, line: str) -> bool:
        hit = _BATCHES.search(line)
        if hit is None or rows.last_step is None:
            return False
        waited = number(hit[2] or hit[1])
        if waited is not None:
            rows.add(rows.last_step, {"batch-generator": waited}, line_number, None, line)
        return True

    return take


def _other(line: str) -> bool:
    """Lines with bars that are no continuation of a row."""
    start = line.lstrip()
    return start.startswith(("time (ms)", "[", "-----", "validation")) or "memory (MB)" in line
