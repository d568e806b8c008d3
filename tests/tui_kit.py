"""A terminal for tests: the tiny book, a run made by hand, a store that lies in memory, a clock that stands still."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
from textual.pilot import Pilot

from playbook.errors import PlaybookError
from playbook.faces.tui import Options
from playbook.faces.tui.app import PlaybookApp
from playbook.faces.tui.shop import Shop, Taken
from playbook.faces.tui.widgets import Rows
from playbook.findings import Evidence
from playbook.knowledge.entries import Signal
from playbook.knowledge.loader import Book, load
from playbook.series import Event, FileReport, Origin, Run, Series
from playbook.workflow.book import Library
from playbook.workflow.ingest import Ingested
from playbook.workflow.records.similar import Similar

TESTS = Path(__file__).parent
CLOCK = datetime(2026, 3, 4, 5, 6, 7, tzinfo=UTC)
SMALL, LARGE = (80, 24), (120, 40)


def tiny_library() -> Library:
    book = load([TESTS / "tiny_knowledge"])
    assert not book.problems
    return Library(book)


def series(metric: str, values: Sequence[float], start: int = 0, rank: int | None = None) -> Series:
    steps = np.arange(start, start + len(values), dtype=np.int64)
    lines = np.arange(2, 2 + len(values), dtype=np.int64)
    return Series(metric, rank, steps, np.asarray(values, float), lines, Origin("run.csv", None, "csv"), metric)


def small_run() -> Run:
    """300 steps: warm-up, a jump of the loss at 200, one NaN at 280, a resume at 240 as the log tells."""
    k = np.arange(300.0)
    loss = 2.0 + 3.0 * np.exp(-k / 40) + 0.02 * np.sin(k * 1.7)
    loss[200:] += 4.0 * np.exp(-(k[200:] - 200) / 30) + 1.0
    loss[280] = np.nan
    norm = 1.0 + 0.1 * np.sin(k / 3) + np.where(k > 170, (k - 170) / 15, 0)
    rate = np.where(k < 50, k / 50, 1 - (k - 50) / 400) * 3e-4
    made = {("loss", None): series("loss", loss), ("grad_norm", None): series("grad_norm", norm),
            ("lr", None): series("lr", rate)}  # fmt: skip
    events = (Event("resuming from checkpoint", "resume", Origin("run.log", 12, "text"), 240),)
    return Run(made, events, {"bf16": "true"}, (FileReport("run.csv", "csv", 300),))


def small_found(run: Run | None = None) -> Ingested:
    """What the detectors would say of `small_run`, written down so that a change of theirs changes no golden file."""
    evidence = (
        Evidence("loss-shape", "persistent-spike", "metrics", "loss rises from 2.02 to 7.02 at step 200", 200, None,
                 0.95, Origin("run.csv", 202, "csv")),
        Evidence("grad-norm-before", "climbs", "metrics", "gradient norm climbs from 1.0 to 3.0 before step 200", 185,
                 None, 0.6, Origin("run.csv", 187, "csv")),
        Evidence("precision", "bf16", "config", "bf16 = true", confidence=0.97, origin=Origin("run.yaml", 3, "yaml")),
    )  # fmt: skip
    return Ingested(run if run is not None else small_run(), (), evidence)


@dataclass
class Memory(Shop):
    """A store in memory; `fault` makes every call fail."""

    fuzz: bool = False
    rows: dict[str, dict[str, Any]] = field(default_factory=dict)
    taken: dict[str, Taken] = field(default_factory=dict)
    closed: list[tuple[str, str | None, str, list[str], str]] = field(default_factory=list)
    attached: list[tuple[str, list[str], list[str], str]] = field(default_factory=list)
    fault: PlaybookError | None = None

    def _check(self) -> None:
        if self.fault is not None:
            raise self.fault

    def listing(self, query: str = "", status: str | None = None, limit: int = 200) -> list[dict[str, Any]]:
        self._check()
        found = [r for r in self.rows.values() if status is None or r["status"] == status]
        return [r for r in found if query.lower() in r["title"].lower()]

    alike: tuple[Similar, ...] = ()

    def similar(self, desk: Any) -> tuple[list[Similar], str]:
        return list(self.alike), ""

    def record(self, desk: Any, title: str | None) -> str:
        self._check()
        name = desk.incident or f"20260304-{'abcdefgh'[len(self.rows)]}"
        first = desk.diagnosis.causes[0].id if desk.diagnosis.causes else None
        self.rows[name] = {"id": name, "title": title or desk.symptom_title, "status": "open", "cost_usd": 12.0,
                           "opened_at": "2026-03-04T05:06:07Z", "cause": None, "first_cause": first}  # fmt: skip
        self.taken[name] = Taken(
            name, title or "", "open", tuple(desk.session.moves), desk.aid_done, desk.session.size, desk.found
        )
        return name

    def take_up(self, incident: str) -> Taken:
        self._check()
        return self.taken[incident]

    def attach(self, incident: str, files: Sequence[Path], links: Sequence[str], note: str, book: Book) -> None:
        self._check()
        self.attached.append((incident, [str(f) for f in files], list(links), note))

    def close(self, incident: str, cause: str | None, by: str, fixes: Sequence[str], note: str, book: Book) -> None:
        self._check()
        self.closed.append((incident, cause, by, list(fixes), note))
        self.rows[incident]["status"] = "closed" if cause else "false-alarm"
        self.rows[incident]["cause"] = cause


@dataclass
class Terminal:
    """One running app with the hands on its keys."""

    app: PlaybookApp
    pilot: Pilot[None]

    async def press(self, *keys: str) -> None:
        for key in keys:
            await self.pilot.press(key)
        await self.settle()

    @property
    def asked(self) -> Signal:
        """What the page asks for now: which signal that is hangs on the numbers of the engine."""
        assert self.app.desk is not None and self.app.desk.question is not None
        return self.app.desk.question

    async def answer(self, place: int = 1) -> tuple[str, str]:
        """Press a digit; (signal, outcome) as they ought to be known after it."""
        given = self.asked.id, list(self.asked.outcomes)[place - 1]
        await self.press(str(place))
        return given

    async def turn_to(self, signal: str) -> None:
        """Have this one asked, by keys, wherever the plan has it."""
        await self.press("n", "tab", *signal, "enter")
        rows = self.app.screen.query_one("#questions", Rows)
        found = [rows.get_option_at_index(k).id for k in range(rows.option_count)]
        await self.press("g", *["down"] * found.index(signal), "enter")
        assert self.asked.id == signal

    async def settle(self, most: float = 5.0) -> None:
        """Until no worker is at work and all is drawn."""
        await self.pilot.pause()
        await asyncio.wait_for(self.app.workers.wait_for_complete(), most)
        await self.pilot.pause()
        await self.pilot.pause()

    async def until(self, what: Callable[[], bool], most: float = 30.0) -> None:
        async with asyncio.timeout(most):
            while not what():
                await self.pilot.pause(0.01)
        await self.pilot.pause()

    @property
    def page(self) -> str:
        return type(self.app.screen).__name__

    @property
    def text(self) -> str:
        return screen_text(self.app)


def screen_text(app: PlaybookApp) -> str:
    """The screen as plain text; what turns by itself stands still."""
    strips = app.screen._compositor.render_strips()
    lines = ["".join(segment.text for segment in strip).rstrip() for strip in strips]
    return re.sub("[⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏](?= \\S)", "⠋", "\n".join(lines)) + "\n"


@asynccontextmanager
async def terminal(size: tuple[int, int] = LARGE, shop: Shop | None = None, **changes: Any) -> AsyncIterator[Terminal]:
    """An app on the tiny book, with its own store in memory, ready for keys."""
    options = replace(Options(), **{k: changes.pop(k) for k in list(changes) if k in Options.__slots__})
    parts: dict[str, Any] = {"ingest": lambda paths, book, progress=None: small_found(), "open_book": tiny_library}
    app = PlaybookApp(options, shop or Memory(), clock=lambda: CLOCK, **(parts | changes))
    app.animation_level = "none"
    async with app.run_test(size=size) as pilot:
        hands = Terminal(app, pilot)
        await hands.until(lambda: app.library is not None or app.book_error is not None)
        await hands.settle()
        yield hands


def run(job: Any) -> Any:
    """Run a coroutine of a test."""
    return asyncio.run(job)
