"""Any text log of a training job: rows of every family that we know, rows of any logger, and notable lines.

The fallback of the text formats. It claims what looks like a log; the families claim more where their own rows are seen
in the first 64 KiB.
"""

from __future__ import annotations

import re
from pathlib import Path

from playbook.errors import PlaybookError
from playbook.readers import text
from playbook.readers.base import RunBuilder
from playbook.readers.logs import (
    blocks,
    boosting,
    console_table,
    deepspeed,
    fairseq,
    headed,
    hf_print,
    lightning_bar,
    litgpt,
    loose,
    megatron,
    mm_text,
    nanogpt,
    notable,
    olmo,
    printed_config,
    toolkits,
    torchtitan,
)
from playbook.readers.logs.rows import Rows, walk
from playbook.readers.source import Source

NAME = "text_log"
TITLE = "text log of any logger"

FAMILIES = (
    loose.quick,
    megatron.taker,
    fairseq.taker,
    hf_print.taker,
    torchtitan.taker,
    litgpt.taker,
    olmo.taker,
    mm_text.taker,
    lightning_bar.taker,
    deepspeed.taker,
    nanogpt.taker,
    printed_config.watch,
    toolkits.taker,
    boosting.taker,
    blocks.taker,
    console_table.taker,
    headed.taker,
    loose.taker,
)
_LOGGED = re.compile(
    r"\d{2}:\d{2}:\d{2}|\b(?:INFO|WARN(?:ING)?|ERROR|DEBUG)\b|Traceback \(most|Error:|\b\w+Error\b"
    r"|^\[rank\d+\]|\d+%\||NCCL|Warning:|CUDA|epoch|\bstep\b|loss",
    re.IGNORECASE,
)
_NAMES = re.compile(
    r"\.(?:log|out|err|txt|stdout|stderr)(?:\.\d+)?(?:\.gz|\.zst)?$|^(?:stdout|stderr|output|console|slurm)",
    re.IGNORECASE,
)
_STRUCTURED = re.compile(r"\s*[{\[]\s*(?:$|[\"\]}{])")
_READABLE = 0.97  # share of printable characters of a text
_ROWS = 3  # rows in the first look that make it a training log for sure


def sniff(head: bytes, path: Path) -> int:
    lines = text.head_lines(head)
    if not lines or not _readable(head):
        return 0
    rows = sum(1 for line in lines[:3_000] if _row(line))
    structured = _STRUCTURED.match(lines[0]) is not None
    if rows >= _ROWS:
        return 10 if structured else 30
    logged = sum(1 for line in lines[:3_000] if _LOGGED.search(line))
    if rows or (logged >= max(1, len(lines[:3_000]) // 20) and not structured):
        return 6
    return 2 if _NAMES.search(path.name) and not structured else 0


def read(source: Source, builder: RunBuilder) -> None:
    refuse_silence(source, builder, walk(source, builder, FAMILIES, notable.watch, (printed_config.watch,)))


def refuse_silence(source: Source, builder: RunBuilder, rows: Rows) -> None:
    """Raises `PlaybookError` for a log that tells nothing of a run."""
    if not rows.count and not builder.events and not builder.config:
        raise PlaybookError(
            source.name,
            "holds no row with a step and a metric and no notable line",
            "name the log that the training script writes, or its metrics file",
        )


def _row(line: str) -> bool:
    body = text.split(line).body
    if toolkits.found(body.lstrip()) or toolkits.found(line) or boosting.found(line):
        return True
    if not text.may_hold_metric(line):
        return False
    place = loose.found(body)
    return place is not None and any(map(text.is_metric, text.pair_spans(body, place.row)))


def _readable(head: bytes) -> bool:
    sample = head[:8192].replace(b"\0", b"")
    odd = sum(byte < 8 or 13 < byte < 27 or 27 < byte < 32 for byte in sample)  # a backspace draws a bar anew
    return bool(sample) and odd <= len(sample) * (1 - _READABLE)
