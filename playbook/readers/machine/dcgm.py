"""NVIDIA DCGM: `dcgmi dmon` as series (rank = GPU), `dcgmi diag` as an event for each test that did not pass."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from playbook.errors import PlaybookError
from playbook.readers import text
from playbook.readers.base import RunBuilder
from playbook.readers.machine.lines import whole_lines
from playbook.readers.source import Source

NAME = "dcgm"
TITLE = "DCGM (dcgmi dmon, dcgmi diag)"

_HEADER = re.compile(r"^#\s?Entity\s+(.*)$")
_ROW = re.compile(r"^(?:GPU|GPU-I)\s+(\d+)\s+(.*)$")
_DIAG = re.compile(r"^\|\s*(?P<test>[A-Za-z][\w /()\-]*?)\s*\|\s*(?P<result>Pass|Fail|Warn|Skip|Error)\b[^|]*\|")
_DETAIL = re.compile(r"^\|\s*(?:(?P<what>Warning|Error|Info)|)\s*\|\s*(?P<more>\S.*?)\s*\|\s*$")
_TITLE = re.compile(r"Successfully ran diagnostic|^\|\s*Diagnostic\s*\|\s*Result")
_JSON = re.compile(rb'"DCGM (?:GPU )?Diagnostic"\s*:|"test_categories"\s*:|"entity_group(?:_id)?"\s*:')
_BAD = ("Fail", "Warn", "Error")
_NAMES = {
    "TMPTR": "gpu_temp", "GPUTL": "gpu_util", "GRACT": "gpu_util", "POWER": "gpu_power", "SMCLK": "gpu_clock",
    "FBUSD": "gpu_mem", "MMTMP": "gpu_mem_temp", "EDVTL": "ecc_errors", "DBVTL": "ecc_errors", "XIDER": "xid",
    "XIDERR": "xid",
    "GTEMP": "gpu_temp", "GPUT": "gpu_temp", "POWR": "gpu_power",
    "PCIRP": "pcie_replays", "NVCRC": "nvlink_errors", "L0CRC": "nvlink_errors",
}  # fmt: skip
# Some columns are fractions of 1 and not percent.
_FRACTIONS = frozenset(("GRACT",))


def sniff(head: bytes, path: Path) -> int:
    lines = text.head_lines(head)
    if _JSON.search(head) and b'"results"' in head:
        return 91
    if any(_HEADER.match(line) for line in lines[:5]) and any(_ROW.match(line) for line in lines):
        return 91
    return 91 if any(_TITLE.search(line) for line in lines[:20]) and any(_DIAG.match(line) for line in lines) else 0


def read(source: Source, builder: RunBuilder) -> None:
    if _JSON.search(source.head()):
        _read_json(source, builder)
    else:
        _read_text(source, builder)


def _read_json(source: Source, builder: RunBuilder) -> None:
    """`dcgmi diag -j`, of DCGM 3 (tests in categories) and 4 (tests on top)."""
    shown = source.document()
    try:
        document = json.JSONDecoder().raw_decode(shown, shown.index("{"))[0]
    except (ValueError, RecursionError):
        raise PlaybookError(
            source.name, "the JSON of dcgmi diag is cut or damaged", "run dcgmi diag -j again"
        ) from None
    counts: dict[str, int] = {}
    for name, result in _results(document):
        status = str(result.get("status", "?")).capitalize()
        counts[status] = counts.get(status, 0) + 1
        builder.rows += 1
        if status in _BAD:
            where = result.get("gpu_ids") or result.get("gpu_id") or result.get("entity_id") or ""
            said = result.get("warnings") or result.get("info") or ""
            builder.event(
                f"| {name} | {status} - GPU: {where} | {json.dumps(said) if said else ''}".rstrip(), "gpu-diagnostic"
            )
    _all_well(counts, builder)


def _results(node: Any, depth: int = 0) -> Iterator[tuple[str, dict[str, Any]]]:
    """(test, one result) of every test in the document."""
    if isinstance(node, dict) and isinstance(node.get("results"), list):
        name = str(node.get("name", "test"))[:80]
        yield from ((name, result) for result in node["results"] if isinstance(result, dict))
    elif isinstance(node, (dict, list)) and depth < 8:
        for inner in node.values() if isinstance(node, dict) else node:
            yield from _results(inner, depth + 1)


def _all_well(counts: dict[str, int], builder: RunBuilder) -> None:
    if counts and not any(counts.get(bad) for bad in _BAD):
        skipped = f", {counts['Skip']} skipped" if counts.get("Skip") else ""
        builder.event(f"dcgmi diag: all {counts.get('Pass', 0)} tests passed{skipped}", "gpu-diagnostic")


def _read_text(source: Source, builder: RunBuilder) -> None:
    header: list[str] = []
    step, seen = 0, set[int]()
    results: dict[str, int] = {}
    failing: list[tuple[int, str]] = []  # the open test that did not pass, and what is said about it

    def close() -> None:
        if failing:
            builder.event(failing[0][1], "gpu-diagnostic", failing[0][0])
            failing.clear()

    for number, line in whole_lines(source, builder):
        if hit := _HEADER.match(line):
            header = hit[1].split()
        elif header and (hit := _ROW.match(line)):
            gpu = int(hit[1][:6])
            if gpu in seen:
                step, seen = step + 1, set()
            seen.add(gpu)
            row: dict[str, float] = {}
            for name, cell in zip(header, hit[2].split(), strict=False):
                try:
                    found = float(cell)
                except ValueError:
                    continue
                if name in _NAMES and _NAMES[name] not in row:
                    row[_NAMES[name]] = found * 100 if name in _FRACTIONS else found
            if row:
                builder.add(step, row, number, gpu)
        elif hit := _DIAG.match(line):
            close()
            results[hit["result"]] = results.get(hit["result"], 0) + 1
            builder.rows += 1
            if hit["result"] in _BAD:
                failing.append((number, f"| {hit['test']} | {' '.join(line.split('|')[2].split())} |"))
        elif failing and (hit := _DETAIL.match(line)):
            failing[0] = (failing[0][0], f"{failing[0][1]} {hit['more']}")
    close()
    _all_well(results, builder)
