"""Raw metric names -> canonical ones, by the table `knowledge/metrics.yaml`.

A file may log several names that mean one metric (`loss`, `train/loss`); the one that the table lists first wins.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping


def canonical(raws: Iterable[str], rename: Mapping[str, str]) -> dict[str, str]:
    """raw name -> canonical metric, at most one raw name a metric; `rename` (from `--map`) goes first."""
    result = {raw: rename[raw] for raw in raws if raw in rename}
    taken = set(result.values())
    for raw in raws:
        if raw not in result and raw not in taken:
            result[raw] = raw
            taken.add(raw)
    return result
