"""Incidents as the site shows them: the record of each, newest first, and the curves kept with it."""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from playbook.engine.tables import SHAPE
from playbook.errors import PlaybookError
from playbook.findings import Evidence
from playbook.incidents.record import Record
from playbook.knowledge.entries import Case
from playbook.knowledge.loader import Book
from playbook.series import Run
from playbook.workflow.ingest import ingest
from playbook.workflow.records.shelf import is_there, shelf

if TYPE_CHECKING:
    from playbook.incidents.store import Store

# Metrics that a page draws, in this order; a run logs many more.
DRAWN = ("loss", "grad_norm", "lr", "loss_scale", "throughput", "step_time", "eval_loss")
MOST_DRAWN = 4


@dataclass(frozen=True, eq=False)
class Strip:
    """One metric of a kept scene. role: main, or before / after the fix where both were kept.

    steps int64[n], values float64[n] as logged, non-finite kept; `onset` is the step at which the trouble began.
    """

    metric: str
    steps: np.ndarray
    values: np.ndarray
    role: str = "main"
    onset: int | None = None


@dataclass(frozen=True, eq=False)
class Published:
    """One incident for the site."""

    record: Record
    strips: tuple[Strip, ...] = ()

    @property
    def cause(self) -> str | None:
        """The confirmed cause, else the leading one of the verdict."""
        record = self.record
        return record.cause or (record.verdict.first.id if record.verdict.first else None)

    @property
    def day(self) -> str:
        return self.record.opened_at[:10]

    @property
    def changed_at(self) -> str:
        return self.record.closed_at or self.record.opened_at


def published(db: str | None = None) -> tuple[Published, ...]:
    """Every incident of the store, newest first; none where there is no store. Raises `PlaybookError`."""
    if not is_there(db):
        return ()
    with shelf(db) as store:
        return newest_first(Published(record, tuple(_strips(store, record))) for record in store.records())


def _strips(store: Store, record: Record) -> Iterator[Strip]:
    """The scene, and metric files that were attached later: what the run did after the fix.

    A file that is gone or damaged costs its curve, not the page.
    """
    from playbook.workflow.records.scenes import scene_of

    scene = record.artifact("scene")
    later = [ref for ref in record.artifacts if ref.kind == "metrics"]
    onset = record.verdict.onset_step
    if scene is not None:
        try:
            yield from strips_of(scene_of(store, scene), onset, "before" if later else "main")
        except PlaybookError:
            scene = None
    for ref in later:
        try:
            yield from strips_of(_read(ref.name, store.fetch(ref.sha256, ref.name)), None, "after" if scene else "main")
        except PlaybookError:
            continue


def _read(name: str, data: bytes) -> Run:
    """Kept bytes through the readers, which go by the name of a file."""
    from playbook import readers

    with tempfile.TemporaryDirectory(prefix="playbook-") as folder:
        path = Path(folder) / (Path(name).name or "metrics")
        path.write_bytes(data)
        return readers.read([str(path)])


def summary(record: Record) -> dict[str, Any]:
    """What sums over incidents go by, as in a row of the store."""
    first = record.verdict.first
    return {
        "status": record.status,
        "verdict": record.verdict.word,
        "symptom": record.verdict.symptom,
        "cause": record.cause,
        "cause_class": record.cause_class,
        "first_class": first.class_ if first else None,
        "layer": record.layer,
        "opened_at": record.opened_at,
        "closed_at": record.closed_at,
        "cost_usd": record.losses.usd,
        "hours_lost": record.losses.hours,
        "minutes": record.minutes,
        "questions": len(record.asked),
    }


def newest_first(incidents: Iterable[Published]) -> tuple[Published, ...]:
    return tuple(sorted(incidents, key=lambda i: (i.record.opened_at, i.record.id), reverse=True))


def strips_of(run: Run, onset: int | None, role: str = "main") -> tuple[Strip, ...]:
    """The curves of a run that are worth a picture."""
    found = []
    for metric in DRAWN:
        series = run.one(metric)
        if series is not None and len(series) > 1:
            found.append(Strip(metric, series.steps, series.values, role, onset))
    return tuple(found[:MOST_DRAWN])


def case_strips(book: Book, case: Case) -> tuple[tuple[Strip, ...], list[Evidence]]:
    """Curves of a case that brings metrics, and what the detectors say about them. Raises `PlaybookError`."""
    if not case.metrics:
        return (), []
    folder = book.files["cases", case.id].parent.resolve()
    paths = [(folder / name).resolve() for name in case.metrics]
    for path in paths:
        if not path.is_relative_to(folder):
            raise PlaybookError(case.id, f"metrics file {path.name!r} lies outside", "put it beside the case file")
    found = ingest([str(path) for path in paths], book)
    shape = next((e for e in found.evidence if e.signal == SHAPE and e.state != "healthy"), None)
    return strips_of(found.run, shape.step if shape else None), list(found.evidence)
