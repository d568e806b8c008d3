"""The scene of an incident: the run as plain text (JSON lines), full around the onset and thinned elsewhere; and back.

First line: what this is. Then one line a series, one an event, and one with the configuration. NaN and infinities are
text, every number comes back as it was, and the same run gives the same bytes.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable
from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np

from playbook.errors import PlaybookError
from playbook.series import Event, FileReport, Origin, Run, Series

FORMAT = 1
EVENTS = 5_000  # lines of the log kept in a scene; more are cut in the middle


def thin(run: Run, onset: int | None, around: int, buckets: int) -> Run:
    """Keep all points within `around` points of the onset, and of each of `buckets` stretches elsewhere first, last,
    least, greatest and non-finite ones. Without an onset the end of the run counts as such.
    """
    if onset is None:
        onset = run.step_range()[1]
    return replace(run, series={key: _thin(s, onset, around, buckets) for key, s in run.series.items()})


def _thin(series: Series, onset: int | None, around: int, buckets: int) -> Series:
    n = len(series)
    if n <= 4 * buckets or onset is None:
        return series
    at = np.flatnonzero(series.steps >= onset)
    keep = np.abs(np.arange(n) - (at[0] if len(at) else n - 1)) <= around
    keep |= ~series.finite
    keep[[0, -1]] = True
    keep[series.restarts] = True
    keep[np.maximum(series.restarts - 1, 0)] = True
    seams = np.array(series.seams, dtype=np.int64)
    keep[seams] = keep[seams - 1] = True
    edges = np.linspace(0, n, buckets + 1).astype(int)
    for low, high in pairwise(edges):
        if high <= low:
            continue
        part = np.where(series.finite[low:high], series.values[low:high], np.nan)
        keep[low] = keep[high - 1] = True
        if not np.isnan(part).all():
            keep[low + int(np.nanargmin(part))] = keep[low + int(np.nanargmax(part))] = True
    chosen = np.flatnonzero(keep)
    lines = None if series.lines is None else series.lines[chosen]
    places = tuple(np.searchsorted(chosen, seams).tolist())
    return replace(series, steps=series.steps[chosen], values=series.values[chosen], lines=lines, seams=places)


def freeze(run: Run, **told: Any) -> bytes:
    """Run -> bytes. `told` goes into the first line."""
    lines = [json.dumps({"scene": FORMAT, **told}, sort_keys=True)]
    for (metric, rank), series in sorted(
        run.series.items(), key=lambda item: (item[0][0], item[0][1] or 0, item[0][1] is None)
    ):
        lines.append(
            _dump(
                {
                    "metric": metric,
                    "rank": rank,
                    "raw": series.raw,
                    "origin": _origin(series.origin),
                    "steps": series.steps.tolist(),
                    "values": [v if math.isfinite(v) else repr(v) for v in series.values.tolist()],
                    "lines": None if series.lines is None else series.lines.tolist(),
                    **({"seams": list(series.seams)} if series.seams else {}),
                }
            )
        )
    events = list(run.events)
    if len(events) > EVENTS:
        events = events[: EVENTS // 2] + events[-EVENTS // 2 :]
    for item in events:
        lines.append(
            _dump({"event": item.text, "kind": item.kind, "origin": _origin(item.origin), "step": item.step,
                   "rank": item.rank, "time": item.time})
        )  # fmt: skip
    files = [
        {"path": f.path, "format": f.format, "rows": f.rows, **({"lines": f.lines} if f.lines else {})}
        for f in run.files
    ]
    lines.append(_dump({"config": run.config, "files": files, "unmapped": list(run.unmapped)}))
    return ("\n".join(lines) + "\n").encode("utf-8", "replace")


def _dump(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"), default=str)


def _origin(origin: Origin) -> list[Any]:
    return [origin.path, origin.line, origin.reader]


def thaw(data: bytes, where: str = "scene") -> Run:
    """Bytes -> Run. Raises `PlaybookError` with the line that is wrong."""
    series: dict[tuple[str, int | None], Series] = {}
    events: list[Event] = []
    rest: dict[str, Any] = {}
    number = 1
    try:
        lines = data.decode("utf-8").split("\n")  # not splitlines: a log line may hold other line ends of Unicode
        head = json.loads(lines[0]) if lines else {}
        if not isinstance(head, dict) or head.get("scene") != FORMAT:
            raise PlaybookError(where, "is no scene of an incident", f"its first line says scene: {FORMAT}", 1)
        for number, line in enumerate(lines[1:], 2):  # noqa: B007
            item = json.loads(line) if line else {}
            if "metric" in item:
                one = _series(item)
                series[one.metric, one.rank] = one
            elif "event" in item:
                events.append(
                    Event(
                        str(item["event"]),
                        item["kind"],
                        Origin(*item["origin"]),
                        item["step"],
                        item["rank"],
                        item["time"],
                    )
                )
            elif "config" in item:
                rest = item
    except PlaybookError:
        raise
    except (ValueError, KeyError, TypeError, OverflowError, AttributeError, RecursionError) as error:
        what = f"is damaged: {type(error).__name__} {error}".splitlines()[0]
        raise PlaybookError(where, what[:200], "restore the file", number) from None
    files = tuple(FileReport(f["path"], f["format"], f["rows"], lines=f.get("lines", 0)) for f in rest.get("files", ()))
    return Run(series, tuple(events), rest.get("config", {}), files, tuple(rest.get("unmapped", ())))


def _series(item: dict[str, Any]) -> Series:
    steps = np.array(item["steps"], dtype=np.int64)
    values = np.array([float(v) for v in item["values"]], dtype=np.float64)
    lines = None if item["lines"] is None else np.array(item["lines"], dtype=np.int64)
    if len(steps) != len(values) or (lines is not None and len(lines) != len(steps)):
        raise ValueError(f"series {item['metric']} has columns of different length")
    seams = tuple(int(row) for row in item.get("seams", ()))
    if any(not 0 < row < len(steps) for row in seams):
        raise ValueError(f"series {item['metric']} has a seam outside its rows")
    origin = Origin(*item["origin"])
    return Series(str(item["metric"]), item["rank"], steps, values, lines, origin, str(item["raw"]), seams)


def points(runs: Iterable[Run]) -> int:
    return sum(len(s) for run in runs for s in run.series.values())
