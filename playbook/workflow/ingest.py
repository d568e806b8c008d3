"""Files -> what they say: read, scan, and turn into evidence. The first half of every diagnosis."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from playbook import detectors, readers
from playbook.engine.diagnosis import INCIDENT
from playbook.engine.observe import flatten, lookup, observe
from playbook.engine.tables import SHAPE
from playbook.engine.value import RunSize
from playbook.findings import Evidence, Finding, Scan
from playbook.knowledge.loader import Book
from playbook.series import Run
from playbook.workflow.ending import with_end
from playbook.workflow.preflight.recipe import Recipe, settings_of

_GPU_KEYS = ("world_size", "num_gpus", "n_gpus", "gpus")
# Kinds of events that readers write only for what is not in order, whether or not the book has a signal for it.
_FAULTS = frozenset(
    {
        "gpu",
        "xid",
        "oom-killer",
        "panic",
        "hung-task",
        "segfault",
        "mce",
        "pcie",
        "network",
        "storage",
        "thermal",
        "nccl",
    }
)
_STEP_TIME_SAMPLE = 200  # rows of which the median step time is taken


@dataclass(frozen=True)
class Ingested:
    """A run with what the detectors, the log patterns and the configuration say about it."""

    run: Run
    scans: tuple[Scan, ...]
    evidence: tuple[Evidence, ...]

    @property
    def findings(self) -> list[Finding]:
        return [finding for scan in self.scans for finding in scan.findings]

    @property
    def symptom(self) -> Evidence | None:
        """The evidence about the shape of the loss, where it is one of trouble."""
        shape = next((e for e in self.evidence if e.signal == SHAPE), None)
        return shape if shape is not None and shape.state != "healthy" else None

    @property
    def verdict(self) -> str:
        """incident | healthy | undecided."""
        shape = next((e for e in self.evidence if e.signal == SHAPE), None)
        if shape is None:
            return "healthy" if self._quiet_system() else "undecided"
        if shape.state == "healthy":
            return "healthy"
        return "incident" if shape.confidence >= INCIDENT else "undecided"

    def _quiet_system(self) -> bool:
        """Only files of the machine were read, and none of them reports a fault."""
        read = [f for f in self.run.files if f.rows]
        faults = any(event.kind in _FAULTS for event in self.run.events)
        return bool(read) and all(f.format in readers.SYSTEM for f in read) and not self.symptom and not faults

    @property
    def size(self) -> RunSize:
        return run_size(self.run)


def ingest(
    paths: Sequence[str],
    book: Book,
    rename: Mapping[str, str] | None = None,
    progress: Callable[[str], None] | None = None,
) -> Ingested:
    """Read `paths` (files, folders, globs, `-`) and look at them. Raises `PlaybookError` where nothing can be read."""
    run = readers.read(paths, rename=rename, progress=progress, patterns=book.patterns)
    return look(run, book)


def look(run: Run, book: Book, ended: bool = True) -> Ingested:
    """Scan a run that has been read. `ended`: nothing more will come, so that an error in the last line was the end."""
    import numpy as np

    with np.errstate(over="ignore", invalid="ignore"):  # 1e308 minus -1e308: the detectors reckon with infinities
        scans = tuple(detectors.scan(run))
    evidence = observe(book.signals, scans, run.events, run.config, run.settings)
    by_detector = {scan.detector: scan for scan in scans}
    return Ingested(run, scans, tuple(with_end(book, run, by_detector, evidence, ended)))


def run_size(run: Run) -> RunSize:
    """GPUs and seconds a step, from the configuration, the ranks and the logged step time."""
    import numpy as np

    from playbook.detectors import throughput

    flat = flatten(run.config)
    gpus = next((n for key in _GPU_KEYS if (n := _number(lookup(flat, key)))), 0)
    gpus = gpus or Recipe(settings_of(run.config, run.settings)).world or len(run.ranks)
    times = run.one("step_time")
    seconds = 0.0
    if times is not None and len(times):
        sample = times.values[times.finite][:_STEP_TIME_SAMPLE]
        seconds = float(np.median(sample)) if len(sample) else 0.0
        seconds *= throughput.seconds(times)
    default = RunSize()
    known = bool(gpus or seconds > 0)
    return RunSize(gpus or default.gpus, seconds if 0 < seconds < 3600 else default.step_seconds, known)


def _number(hit: tuple[str, Any] | None) -> int:
    """The value of a configuration key as a count; 0 where it is none."""
    try:
        return max(0, int(float(hit[1]))) if hit else 0
    except (TypeError, ValueError, OverflowError):
        return 0
