"""`Monitor`: what is logged goes into a list; a thread of its own writes it down, looks at it and raises the alarm."""

from __future__ import annotations

import atexit
import json
import logging
import math
import os
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from playbook.monitor.inline import Inline

if TYPE_CHECKING:
    from playbook.series import Run

Alert = dict[str, Any]
Row = tuple[int, list[tuple[str, float]]]  # step, (name, value) of all metrics

SHARE = 1 / 300  # of the time that the detectors may take
PAUSE = 1.0  # seconds between two rounds of the thread
LOOK = 2.0  # seconds between two looks of the detectors, at least
URGENT = 30.0  # seconds between two looks that a bad step asked for
ROWS = 8_192  # of one series that are remembered
MOST = 3  # captures
BEHIND = 100_000  # rows that may wait for the thread; above it they are dropped and told
_LOG = logging.getLogger("playbook.monitor")


class Monitor:
    """Watches one training process. No method raises; a fault of its own is told once through `logging`.

    folder       where `metrics.jsonl` and captures go; None: nothing is written
    model        anything with `named_parameters()`, for captures; `optimizer` likewise
    config       the run's configuration, for the diagnosis
    on_incident  called with the alert (a plain dict) in the monitor's thread
    command      a program that gets the alert as JSON on its standard input; `webhook` a URL it is posted to
    rank         this process; None: RANK of the environment. Only rank 0 (or `everywhere`) looks for incidents; every
                 rank keeps its own bad batches and writes its own file.
    """

    def __init__(
        self,
        folder: str | os.PathLike[str] | None = None,
        *,
        model: Any = None,
        optimizer: Any = None,
        config: Mapping[str, Any] | None = None,
        on_incident: Callable[[Alert], None] | None = None,
        command: str | None = None,
        webhook: str | None = None,
        rank: int | None = None,
        everywhere: bool = False,
        captures: int = MOST,
    ) -> None:
        self.incident: Alert | None = None  # the alert of the incident that is going on or was the last
        self.captures: list[Path] = []
        self._model, self._optimizer = model, optimizer
        self._config: dict[str, Any] = {}
        self._on_incident, self._most = on_incident, captures
        self._inline = Inline()
        self._pending: deque[Row] = deque()
        self._targets: list[Any] = []
        self._wake, self._closing = threading.Event(), threading.Event()
        self._urgent = False
        self._told: set[str] = set()
        self._dropped = 0
        self._folder: Path | None = None
        self._thread: threading.Thread | None = None
        self._looker: Any = None
        self._pid = os.getpid()
        try:
            self._rank = int(os.environ.get("RANK", "0") or 0) if rank is None else int(rank)
            self._looks = everywhere or self._rank == 0
            self._folder = None if folder is None else Path(folder)
            self._config = dict(config or {})
            self._thread = threading.Thread(target=self._work, name="playbook-monitor", daemon=True)
            self._thread.start()
            atexit.register(self.close, 2.0)
        except Exception as error:
            self._fault("the monitor did not start", error)
        try:
            self._targets = _targets(command, webhook)
        except Exception as error:
            self._fault("alerts are only logged", error)

    def log(
        self,
        step: int,
        metrics: Mapping[str, Any] | None = None,
        *,
        batch: Any = None,
        sample_ids: Sequence[Any] | None = None,
        **more: Any,
    ) -> None:
        """Note what was measured at a step. Tensors count as numbers, but cost a synchronisation: give floats.

        batch   kept (with `sample_ids`) when the step is bad; it is not looked at otherwise
        """
        try:
            values: list[tuple[str, float]] = []
            reason = ""
            for named in (metrics, more) if metrics else (more,):
                for name, value in named.items():
                    if type(value) is not float:
                        value = _number(value)
                        if value is None:
                            continue
                    values.append((name, value))
                    reason = self._inline.look(name, value) or reason
            if len(self._pending) < BEHIND:
                self._pending.append((int(step), values))
            else:
                self._dropped += 1
            if reason:
                self._bad(int(step), dict(values), reason, batch, sample_ids)
        except Exception as error:
            self._fault("a step was not noted", error)

    def close(self, patience: float = 30.0) -> None:
        """Look once more and write everything down; waits for `patience` seconds at most. May be called again."""
        try:
            if self._thread is None or self._pid != os.getpid():  # a forked data loader has no thread
                return
            self._closing.set()
            self._wake.set()
            self._thread.join(patience)
            atexit.unregister(self.close)
        except Exception as error:
            self._fault("the monitor did not close", error)

    def __enter__(self) -> Monitor:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def configure(self, config: Mapping[str, Any]) -> None:
        """Add to the run's configuration."""
        with suppress(Exception):
            self._config.update(config)

    def _bad(self, step: int, values: dict[str, float], reason: str, batch: Any, ids: Sequence[Any] | None) -> None:
        """Keep what made a step bad, and have the detectors look at once."""
        if self._folder is not None and len(self.captures) < self._most:
            from playbook.capture import capture

            kept = capture(
                self._folder / "captures",
                step=step,
                batch=batch,
                loss=next((v for k, v in values.items() if "loss" in k.lower() and "scale" not in k.lower()), None),
                grad_norm=next((v for k, v in values.items() if "norm" in k.lower()), None),
                model=self._model,
                optimizer=self._optimizer,
                sample_ids=ids,
                config=self._config,
                rank=self._rank,
                reason=reason,
                most=self._most,
            )
            if kept is None:
                self._most = 0  # the folder is full, or cannot be written: do not try at every step
            else:
                self.captures.append(kept)
                _LOG.warning("step %d: %s; kept in %s", step, reason, kept)
        self._urgent = True
        self._wake.set()

    # The thread

    def _work(self) -> None:
        next_look, next_urgent = 0.0, 0.0
        while True:
            closing = self._closing.is_set()
            if not closing:
                self._wake.wait(PAUSE)
                self._wake.clear()
            rows = [self._pending.popleft() for _ in range(len(self._pending))]
            try:
                self._write(rows)
            except Exception as error:
                self._fault("rows were not written down", error)
            try:
                if self._looks:
                    now = time.monotonic()
                    urgent = self._urgent and now >= next_urgent
                    self._take(rows)
                    if (now >= next_look or urgent or closing) and self._fresh():
                        if urgent:
                            self._urgent, next_urgent = False, now + URGENT
                        self._look()
                        cost = time.monotonic() - now
                        next_look = now + max(LOOK, cost / SHARE)
            except Exception as error:
                self._fault("a look failed", error)
            if closing and not self._pending:
                with suppress(Exception):
                    if self._looker is not None:
                        self._looker.sender.close(10.0)
                return

    def _write(self, rows: list[Row]) -> None:
        if self._folder is None or not rows:
            return
        name = "metrics.jsonl" if self._rank == 0 else f"metrics.rank{self._rank}.jsonl"
        self._folder.mkdir(parents=True, exist_ok=True)
        with (self._folder / name).open("a", encoding="utf-8") as file:
            file.write("".join(json.dumps({"step": step, **dict(values)}) + "\n" for step, values in rows))

    def _take(self, rows: list[Row]) -> None:
        if self._looker is None:
            from playbook.monitor.look import Looker

            self._looker = Looker(ROWS, self._targets)
        self._looker.take(rows)
        if self._dropped:
            self._fault(f"{self._dropped} rows were dropped: they came faster than they could be noted", None)

    def _fresh(self) -> bool:
        return self._looker is not None and self._looker.fresh

    def _look(self) -> None:
        for alert in self._looker.look(self._config, self._rank):
            alert["captures"] = [str(path) for path in self.captures]
            if alert["event"] != "incident":
                _LOG.info("%s: %s", alert["event"], alert["because"])
                continue
            self.incident = alert
            aid = "; ".join(fix["title"] for fix in alert["first_aid"])
            _LOG.error("incident: %s (%s). First aid: %s", alert["symptom"]["title"], alert["because"], aid)
            self._looker.sender.send(alert)
            if self._on_incident is not None:
                try:
                    self._on_incident(alert)
                except Exception as error:
                    self._fault("on_incident raised", error)
        for fault in self._looker.sender.faults():
            self._fault(fault, None)

    def _fault(self, what: str, error: Exception | None) -> None:
        text = what if error is None else f"{what}: {type(error).__name__}: {error}"
        with suppress(Exception):
            if text not in self._told and len(self._told) < 20:
                self._told.add(text)
                _LOG.warning("%s", text)

    def run(self) -> Run | None:
        """What is remembered of the run, as the detectors see it; None before the first look."""
        return None if self._looker is None else self._looker.run(self._config)


def _number(value: Any) -> float | None:
    """A number, a one-element tensor or array as float; None for anything else."""
    if value is None or isinstance(value, (str, bytes)):
        return None
    try:
        return float(value)
    except OverflowError:
        return math.inf
    except (TypeError, ValueError, RuntimeError):
        return None


def _targets(command: str | None, webhook: str | None) -> list[Any]:
    if command is None and webhook is None:
        return []
    from playbook.workflow.watching import notify

    targets: list[Any] = [notify.program(command)] if command else []
    return [*targets, notify.webhook(webhook)] if webhook else targets
