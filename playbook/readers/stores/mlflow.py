"""MLflow's file store: `metrics/<name>` with lines of `time value step`, `params/<name>`, `meta.yaml`.

The metric's name is the path below `metrics`; the run is the folder above it. Several runs in one `mlruns` folder are
kept apart: the one that was written last is read.
"""

from __future__ import annotations

import math
import re
from pathlib import Path

import numpy as np

from playbook.errors import PlaybookError
from playbook.readers.base import RunBuilder, number, whole_step
from playbook.readers.source import Source

NAME = "mlflow"
TITLE = "MLflow file store"

_LINE = re.compile(r"^(\d{12,14}) (\S+) (-?\d+)$")  # milliseconds since 1970, value, step
_META = re.compile(rb"^(?:artifact_uri|run_uuid|run_id|lifecycle_stage|experiment_id):", re.MULTILINE)
_STATUS = {"1": "running", "2": "scheduled", "3": "finished", "4": "failed", "5": "killed"}
_PARTS = ("metrics", "params", "tags")


def sniff(head: bytes, path: Path) -> int:
    part = _part(path)
    if part in ("params", "tags") and (path.parents[len(_below(path, part)) - 1].parent / "meta.yaml").is_file():
        return 95
    if path.name == "meta.yaml" and len(_META.findall(head)) >= 2:
        return 95
    lines = head.decode("utf-8", "replace").split("\n")[:20]
    whole = [line.strip("\r") for line in lines[: len(lines) - 1] or lines if line.strip()]
    return 90 if whole and all(_LINE.match(line) and number(line.split()[1]) is not None for line in whole) else 0


def read(source: Source, builder: RunBuilder) -> None:
    path = source.inner
    part = _part(path)
    if part is not None:
        below = _below(path, part)
        builder.run = path.parents[len(below)].name or None
    if path.name == "meta.yaml":
        _meta(source, builder)
    elif part == "params":
        text = " ".join(line for _, line in source.lines()).strip()
        builder.set_config({".".join(_below(path, "params")).lower(): _value(text)})
    elif part == "tags":
        return
    else:
        _metric(source, builder, "/".join(_below(path, "metrics")) if part == "metrics" else path.name)


def _part(path: Path) -> str | None:
    """`metrics`, `params` or `tags` where the file is inside such a folder."""
    return next((name for name in reversed(path.parts[:-1]) if name in _PARTS), None)


def _below(path: Path, part: str) -> tuple[str, ...]:
    """The parts of the path after its last folder `part`."""
    place = len(path.parts) - 1 - tuple(reversed(path.parts[:-1])).index(part) - 1
    return path.parts[place + 1 :]


def _metric(source: Source, builder: RunBuilder, raw: str) -> None:
    steps: list[int] = []
    values: list[float] = []
    lines: list[int] = []
    for line, text, whole in source.marked_lines():
        hit = _LINE.match(text.strip())
        value = number(hit[2]) if hit else None
        step = whole_step(hit[3]) if hit else None
        if hit is None or value is None or step is None or not whole:
            if text.strip():
                builder.problem(
                    line, "the last line is cut; it is left out" if not whole else "not `time value step`", "", "line"
                )
            continue
        steps.append(step)
        values.append(value)
        lines.append(line)
        builder.run_time = max(builder.run_time, int(hit[1]) / 1000)
    if not steps:
        raise PlaybookError(source.name, "no line `time value step`", "name the folder of an MLflow run")
    if not builder.wants(raw):
        builder.see([raw])
        builder.rows += len(steps)
        return
    builder.add_columns(np.asarray(steps, np.int64), {raw: np.asarray(values)}, np.asarray(lines, np.int64))


def _meta(source: Source, builder: RunBuilder) -> None:
    """`meta.yaml` of a run (its id and how it ended) or of an experiment (nothing that we need)."""
    found = {}
    for _, line in source.lines():
        key, _, value = line.partition(":")
        found[key.strip()] = value.strip().strip("'\"")
    run = found.get("run_id") or found.get("run_uuid")
    if run:
        builder.run = run
        ended = number(found.get("end_time"))
        builder.run_time = ended / 1000 if ended else 0.0
        builder.set_config({"mlflow.status": _STATUS.get(found.get("status", ""), found.get("status", ""))})


def _value(text: str) -> object:
    found = number(text)
    if found is None or found != found:
        return {"True": True, "False": False, "None": None}.get(text, text)
    whole = math.isfinite(found) and found == int(found) and "." not in text and "e" not in text.lower()
    return int(found) if whole else found
