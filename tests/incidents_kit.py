"""Shared pieces of the tests of the incident record: stores on both databases, records and runs made by hand."""

from __future__ import annotations

import math
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from playbook.findings import Evidence
from playbook.incidents.record import Record
from playbook.knowledge.loader import Book
from playbook.series import Event, FileReport, Origin, Run, Series
from playbook.workflow.book import Library
from playbook.workflow.ingest import Ingested
from playbook.workflow.records.shelf import shelf
from playbook.workflow.session import Session
from tests import pgserver


@pytest.fixture(params=["sqlite", "postgresql"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """A new, empty database of each kind."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path / 'store' / 'incidents.db'}"
    if pgserver.binaries() is None:
        if os.environ.get("CI"):
            pytest.fail("CI must have PostgreSQL installed (initdb and postgres)")
        pytest.skip("no PostgreSQL is installed here (initdb not found): the tests of it did not run")
    return pgserver.shared().new_database()


def record(number: int = 1, **changed: Any) -> Record:
    """A whole incident with one of everything."""
    data: dict[str, Any] = {
        "id": f"20260304-made{number}",
        "title": f"Loss leaves at step {number}",
        "opened_at": f"2026-03-04T05:{number // 60 % 60:02}:{number % 60:02}Z",
        "verdict": {
            "word": "incident",
            "symptom": "persistent-spike",
            "onset_step": 1000 + number,
            "decided": True,
            "causes": [
                {"id": "lr-peak", "title": "Peak too high", "layer": "optimization", "class": "lr_too_high",
                 "probability": 0.8}
            ],
            "coupled": [["lr-peak", "bad-samples", 0.1]],
            "unknown": 0.05,
            "first_aid": ["stop-and-keep"],
            "fixes": ["lower-peak-lr"],
        },
        "context": {"precision": "bf16"},
        "run": {"size": {"gpus": 64, "step_seconds": 2.0, "known": True}, "metrics": ["loss"]},
        "losses": {"gpus": 64, "step_seconds": 2.0, "usd_per_gpu_hour": 2.0, "hours": 0.5},
        "versions": {"playbook": "0.1.0", "book": "abc"},
        "moves": [
            {"kind": "observed", "signal": "loss-shape", "state": "persistent-spike", "source": "metrics", "step": 1000,
             "because": "loss rises", "at": {"file": "run.csv", "line": 7}, "confidence": 0.9},
            {"kind": "answered", "signal": "lower-lr-removes-it", "state": "yes", "source": "person", "minutes": 12.5,
             "gpu_hours": 17.8, "total": 35.0, "paid": True, "top": [["lr-peak", 0.8]], "unknown": 0.05},
            {"kind": "closed", "signal": "tied-to-samples", "minutes": 1.0, "total": 1.0, "paid": True},
        ],
        "timeline": [
            {"kind": "finding", "text": "loss rises from 1.6 to 8.7", "step": 1000, "source": "spike/persistent",
             "numbers": {"from": 1.6, "to": 8.7}, "place": {"file": "run.csv", "line": 7}},
            {"kind": "event", "text": "saved checkpoint", "time": "12:00", "step": 900},
        ],
        "treatments": [{"fix": "lower-peak-lr", "outcome": "cured", "note": "2e-4", "at": "2026-03-04T06:00:00Z"}],
        "links": [{"url": "https://example.org/1", "title": "ticket"}],
    }  # fmt: skip
    return Record.model_validate(data | changed)


def spiked(n: int = 3000, onset: int = 2400, seed: int = 3) -> Run:
    """A run whose loss leaps and stays, with a gradient norm that climbs before; two log lines and a configuration."""
    rng = np.random.default_rng(seed)
    steps = np.arange(n) * 10
    loss = 2.0 - 0.4 * np.arange(n) / n + rng.normal(0, 0.01, n)
    loss[onset:] += 0.9
    loss[onset : onset + 8] += np.linspace(6, 1, 8)
    norm = 0.4 + rng.normal(0, 0.01, n)
    norm[onset - 60 : onset] += np.linspace(0, 2, 60)
    norm[onset:] += 1.5
    lines = np.arange(2, n + 2)

    def series(metric: str, values: np.ndarray) -> Series:
        return Series(metric, None, steps, values, lines, Origin("/home/alice/exp/run.csv", None, "csv"), metric)

    events = (
        Event(
            "saved to /home/alice/exp/ckpt-7 on gpu-node-17",
            "checkpoint",
            Origin("/home/alice/exp/train.log", 12),
            23000,
        ),
        Event("grad norm watch: 1.9", "note", Origin("/home/alice/exp/train.log", 40), 23900, time="12:00:01"),
    )
    metrics = {"loss": loss, "grad_norm": norm, "lr": np.full(n, 3e-4)}
    return Run(
        {(name, None): series(name, values) for name, values in metrics.items()},
        events,
        {"bf16": True, "output_dir": "/home/alice/exp", "vocab_size": 100, "max_seq_len": 8},
        (FileReport("/home/alice/exp/run.csv", "csv", n),),
    )


def with_nan(run: Run, at: int = 2500) -> Run:
    """The same run with a NaN and an infinity in its loss."""
    old = run.series["loss", None]
    values = old.values.copy()
    values[at], values[at + 1] = math.nan, -math.inf
    changed = Series(old.metric, old.rank, old.steps, values, old.lines, old.origin, old.raw)
    return Run({**run.series, ("loss", None): changed}, run.events, run.config, run.files)


def kept(incident: str) -> Record:
    """An incident as the default store has it."""
    with shelf() as store:
        return store.get(incident)


def session_on(book: Book, found: Ingested | None = None) -> Session:
    library = Library(book)
    session = Session(book, library.tables)
    if found is not None:
        session.size = found.size
        session.observe(found.evidence)
    return session


def shape(state: str = "persistent-spike", step: int = 24000) -> Evidence:
    return Evidence("loss-shape", state, "metrics", "loss rises", step, confidence=0.9)


def write_csv(path: Path, run: Run) -> Path:
    """The metrics of a run as CSV."""
    names = run.metrics
    columns = [run.series[name, None] for name in names]
    lines = [",".join(["step", *names])]
    for k, step in enumerate(columns[0].steps.tolist()):
        lines.append(",".join([str(step), *(repr(float(c.values[k])) for c in columns)]))
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join(lines) + "\n", "utf-8")
    return path
