"""The monitor's look at what was logged: the detectors over bounded series; the book only when there is an incident."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

import numpy as np

from playbook import detectors
from playbook.detectors import INCIDENT, LASTING, PASSING
from playbook.engine.tables import SHAPE
from playbook.readers.base import RunBuilder
from playbook.readers.live.history import History
from playbook.series import Run
from playbook.workflow.ingest import look
from playbook.workflow.watching.alarm import Alarm
from playbook.workflow.watching.notify import Sender, Target
from playbook.workflow.watching.watch import advice, alert_of, diagnosed

Rows = Sequence[tuple[int, Sequence[tuple[str, float]]]]


class Looker:
    """Takes rows, and says what is new in them as alerts (plain data)."""

    def __init__(self, limit: int, targets: Sequence[Target] = ()) -> None:
        self.history = History(limit)
        self.sender = Sender(targets)
        self.fresh = False
        self._alarm: Alarm | None = None
        self._library: Any = None

    def take(self, rows: Rows) -> None:
        """Remember rows: (step, [(name, value), ...])."""
        points: dict[str, tuple[list[int], list[float]]] = {}
        for step, values in rows:
            for name, value in values:
                known = points.setdefault(name, ([], []))
                known[0].append(step)
                known[1].append(value)
        for name, (steps, numbers) in points.items():
            self.history.add((name, None), np.asarray(steps, np.int64), np.asarray(numbers, float), None)
        self.fresh = self.fresh or bool(points)

    def run(self, config: Mapping[str, Any]) -> Run:
        """What is remembered, under canonical names."""
        builder = RunBuilder("monitor", "monitor")
        self.history.into(builder)
        series, unmapped = builder.finish()
        return Run(series, (), dict(config), (builder.report(),), tuple(unmapped))

    def look(self, config: Mapping[str, Any], rank: int = 0) -> list[dict[str, Any]]:
        """Alerts and other news since the last look."""
        self.fresh = False
        run = self.run(config)
        if self._library is None and not _confident(run):
            return []
        if self._library is None:
            from playbook.workflow.book import open_book

            self._library = open_book(strict=False)
            self._alarm = Alarm(self._library.book.signals[SHAPE])
        assert self._alarm is not None
        found = look(run, self._library.book, ended=False)
        told = []
        for item in self._alarm.look(found):
            alert: dict[str, Any] = {"event": item.kind, "time": datetime.now(UTC).isoformat(timespec="seconds")}
            alert |= alert_of(item, found, self._library)
            if alert["rank"] is None and rank:
                alert["rank"] = rank
            alert["diagnose"] = shlex.join(["playbook", "diagnose", "metrics.jsonl"])
            if item.kind == "incident":
                alert |= advice(diagnosed(item.evidence, found, self._library)[1], self._library)
            told.append(alert)
        return told


def _confident(run: Run) -> bool:
    """Whether a detector is sure of a fault: until then the book need not be read."""
    return any(
        finding.confidence >= INCIDENT
        for scan in detectors.scan(run)
        for finding in scan.findings
        if finding.kind in LASTING.get(finding.detector, ()) or finding.kind in PASSING.get(finding.detector, ())
    )
