"""Shared by the tests of the readers: a run as plain data, and one reader on given bytes."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

from playbook.readers import readers
from playbook.readers.base import RunBuilder
from playbook.readers.source import Source
from playbook.series import Run, Series

FORMATS = Path(__file__).parent / "samples" / "formats"


def samples(*names: str) -> list[Path]:
    """The sample files of the named readers."""
    found = (path for name in names for path in sorted((FORMATS / name).rglob("*")))
    return [path for path in found if path.is_file() and not path.name.endswith(".expect.json")]


def reader_of(sample: Path) -> str:
    return sample.relative_to(FORMATS).parts[0]


def told(value: float) -> float | str:
    """A number for JSON: 10 digits, non-finite ones as text."""
    return float(f"{value:.10g}") if math.isfinite(value) else str(value)


def curve(series: Series) -> dict[str, Any]:
    return {
        "raw": series.raw,
        "points": [[int(step), told(value)] for step, value in zip(series.steps, series.values, strict=True)],
        "lines": series.lines.tolist() if series.lines is not None else None,
    }


def summary(run: Run) -> dict[str, Any]:
    """Everything that a run of one file says."""
    report = run.files[0]
    return {
        "format": report.format,
        "rows": report.rows,
        "series": {
            metric if rank is None else f"{metric} of {rank}": curve(series)
            for (metric, rank), series in sorted(run.series.items(), key=lambda item: (item[0][0], item[0][1] or 0))
        },
        "unmapped": list(run.unmapped),
        "events": [[e.kind, e.origin.line, e.step, e.rank, e.time, e.text] for e in run.events],
        "config": run.config,
        "problems": [[p.line, p.code, p.what] for p in report.problems],
    }


def parsed(data: bytes, path: Path, name: str) -> RunBuilder:
    """What one reader makes of bytes, whoever would claim them. Raises what the reader raises."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    reader = next(r for r in readers() if name == r.NAME)
    builder = RunBuilder("x", reader.NAME)
    reader.read(Source(path, "x"), builder)
    builder.finish()
    return builder


def logged(builder: RunBuilder) -> dict[tuple[str, int | None], list[tuple[int, float]]]:
    """(raw name, rank) -> the points in file order, before names become canonical."""
    found: dict[tuple[str, int | None], list[tuple[int, float]]] = {}
    for key, chunks in builder.chunks().items():
        for steps, values, _ in chunks:
            pairs = ((int(step), float(value)) for step, value in zip(steps, values, strict=True))
            found.setdefault(key, []).extend(pairs)
    return found
