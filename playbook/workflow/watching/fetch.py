"""Evidence that the product gets itself, when it is allowed to: host commands and a Prometheus server.

The probes give raw text and samples; here the readers and detectors judge them as they judge saved files. Every answer
is evidence with source `probe` and the command or query that it came from. What fails is a problem and stops nothing.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import cast

import numpy as np

from playbook import readers
from playbook.engine.tables import SHAPE
from playbook.errors import PlaybookError, Problem
from playbook.findings import Evidence
from playbook.knowledge.loader import Book
from playbook.probes import host, prometheus
from playbook.probes.prometheus import Samples
from playbook.readers import merge, walk
from playbook.readers.base import Reader, RunBuilder
from playbook.readers.live.follow import Held
from playbook.workflow.ingest import look

BACK = 6 * 3600.0  # seconds before now that are asked for unless told otherwise
QUIET = 0.8  # confidence in a machine whose counters and log say nothing
_PERIOD = re.compile(r"(\d+(?:\.\d+)?)\s*([smhdw])")
_SECONDS = {"s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0, "w": 604800.0}
_STEPS = re.compile(r",? (?:first )?(?:at|from) step \d+")

Runner = Callable[[host.Command], list[host.Raw]]


@dataclass(frozen=True)
class Fetched:
    """What was learnt, what was asked (commands and queries), and what did not answer."""

    evidence: tuple[Evidence, ...] = ()
    asked: tuple[str, ...] = ()
    problems: tuple[Problem, ...] = ()


def fetch(
    book: Book, commands: bool = False, server: str | None = None, since: str | None = None, until: str | None = None
) -> Fetched:
    """Everything that is allowed. Raises `PlaybookError` only for wrong usage."""
    parts = [from_host(book)] if commands else []
    if server is not None:
        now = time.time()
        end = moment(until, now) if until else now
        start = moment(since, now) if since else end - BACK
        if start >= end:
            raise PlaybookError("--since", "is not before --until", "write for example --since 2h")
        parts.append(from_prometheus(book, server, start, end))
    return Fetched(
        tuple(e for part in parts for e in part.evidence),
        tuple(a for part in parts for a in part.asked),
        tuple(p for part in parts for p in part.problems),
    )


def weightier(known: Iterable[Evidence], found: Iterable[Evidence]) -> list[Evidence]:
    """Of what was fetched, that which tells more than what is known: a new signal, or one that was less sure.

    What a person said stays. The shape of the loss is not for a machine's counters to say where a curve tells it.
    """
    by_signal = {e.signal: e for e in known}
    kept: dict[str, Evidence] = {}
    for item in found:
        before = kept.get(item.signal) or by_signal.get(item.signal)
        if before is not None and (before.source in ("person", "case") or before.confidence >= item.confidence):
            continue
        if item.signal == SHAPE and before is not None:
            continue
        kept[item.signal] = item
    return list(kept.values())


def script() -> str:
    """The allow-list for another machine, to be copied there: nothing is run from here."""
    lines = [
        "# on the training node; then: playbook diagnose YOUR-LOGS *.probe.txt  (or paste into: playbook ingest -)"
    ]
    for command in host.ALLOWED:
        shown = " ".join(command.forms[-1])
        if command.each == "interface":
            shown = f"for i in 1 2; do {shown.replace('{}', 'eth0')}; sleep 60; done"
        elif command.each == "process":
            shown = f"for p in $(pgrep -f train.py); do {shown.replace('{}', '$p')}; done"
        elif command.twice:
            shown = f"for i in 1 2; do {shown}; sleep 60; done"
        lines.append(f"{shown} > {command.name}.probe.txt")
    return "\n".join(lines) + "\n"


# Host commands


def from_host(book: Book, run: Runner = host.run) -> Fetched:
    """Run the allow-list here and read what it prints."""
    parts: list[merge.Part] = []
    asked: list[str] = []
    problems: list[Problem] = []
    for command in host.ALLOWED:
        for raw in run(command):
            asked.append(raw.shown)
            if raw.problem:
                problems.append(Problem(raw.shown, None, raw.problem))
            if not raw.text.strip():
                continue
            try:
                parts.append(_read(raw, book))
            except PlaybookError as error:
                problems.append(replace(error.problem, where=raw.shown))
            except Exception as error:
                problems.append(Problem(raw.shown, None, f"cannot be read: {type(error).__name__}: {error}"))
    evidence = _judged(parts, book)
    odd = {problem.where for problem in problems}
    whole = {builder.reader for _, builder, _ in parts if builder.rows and builder.path not in odd}
    if {"nvidia_smi_q", "kernel_log"} <= whole:
        _quiet(evidence, book, "gpu-errors", "none", "nvidia-smi -q and the kernel log report nothing")
    return Fetched(tuple(evidence), tuple(asked), tuple(problems))


def _quiet(evidence: list[Evidence], book: Book, signal: str, outcome: str, because: str) -> None:
    """What was looked at and says nothing is evidence too."""
    entry = book.signals.get(signal)
    if entry is not None and outcome in entry.outcomes and all(e.signal != signal for e in evidence):
        evidence.append(Evidence(signal, outcome, "probe", because, confidence=QUIET))


def _read(raw: host.Raw, book: Book) -> merge.Part:
    """One output, by the reader of its format."""
    builder = RunBuilder(raw.shown, raw.command.reader, patterns=book.patterns)
    found = walk.Found(Path(raw.shown.replace("/", "_")), raw.shown, True)
    reader = readers.named(raw.command.reader)
    text = raw.text if raw.text.endswith("\n") else raw.text + "\n"
    reader.read(Held(found.path, raw.shown, data=text.encode("utf-8", "replace")), builder)
    return found, builder, reader


def _judged(parts: Sequence[merge.Part], book: Book, note: str = "") -> list[Evidence]:
    """What the detectors and patterns say about probes, as evidence of a probe. Steps of samples mean nothing here."""
    if not parts:
        return []
    found = look(merge.merged(list(parts), []), book, ended=False)
    seen = {finding.because for finding in found.findings}
    return [
        replace(item, source="probe", step=None, because=_STEPS.sub("", item.because) + note)
        for item in found.evidence
        # that a machine's counters hold no loss is no news
        if item.source != "metrics" or item.because in seen
    ]


# Prometheus


def from_prometheus(book: Book, server: str, start: float, end: float) -> Fetched:
    """Ask for everything that the exporters may know of a time, and judge it."""
    asked: list[str] = []
    problems: list[Problem] = []
    builder = RunBuilder(server.rpartition("@")[2], "prometheus")
    step = prometheus.step_of(start, end)

    def samples(query: prometheus.Query) -> list[Samples]:
        asked.append(query.expression)
        try:
            return prometheus.query_range(server, query.expression, start, end)
        except PlaybookError as error:
            problems.append(error.problem)
            return []

    first = samples(prometheus.GPUS[0])
    if problems:  # nobody there: do not ask twenty times
        return Fetched((), tuple(asked), tuple(problems))
    answers = {prometheus.GPUS[0].metric: first} | {q.metric: samples(q) for q in prometheus.GPUS[1:]}
    ranks = _ranks([s for series in answers.values() for s in series])
    for query in prometheus.GPUS:
        for one in answers[query.metric]:
            rank = ranks[_owner(one)]
            if query.metric == "xid":
                one = _recent_xids(one)
                _xids(builder, one, start, step, rank)
            _add(builder, query.metric, one, start, step, rank)
    totals: dict[str, list[Samples]] = {}
    for query in prometheus.NETWORK:
        for one in samples(query):
            totals.setdefault(one.label("instance"), []).append(one)
    for place, (_, several) in enumerate(sorted(totals.items())):
        _add(builder, "network_errors", _sum(several), start, step, place if len(totals) > 1 else None)
    for one in samples(prometheus.OOM_KILLS):
        _oom_kills(builder, one, start, step)
    if not builder.chunks() and not builder.events:
        problems.append(
            Problem(builder.path, None, "knows none of the metrics of DCGM exporter and node exporter in this time",
                    "check --since and --until, and what the server scrapes")
        )  # fmt: skip
        return Fetched((), tuple(asked), tuple(problems))
    found = walk.Found(Path("prometheus"), builder.path, True)
    note = f" ({_clock(start)} to {_clock(end)}, every {step:g} s)"
    judged = _judged([(found, builder, cast(Reader, prometheus))], book, note)
    if answers["xid"] and answers["ecc_errors"]:
        _quiet(judged, book, "gpu-errors", "none", f"no Xid and no uncorrectable error of {len(ranks)} GPUs{note}")
    if any(len(one.times) > 2 for several in totals.values() for one in several):
        _quiet(judged, book, "network-counters", "quiet", f"error counters of {len(totals)} hosts are flat{note}")
    return Fetched(tuple(judged), tuple(asked), tuple(problems))


def _owner(one: Samples) -> tuple[str, str]:
    """Host and GPU of a series of DCGM exporter."""
    return one.label("Hostname") or one.label("hostname") or one.label("instance"), one.label("gpu")


def _ranks(series: Sequence[Samples]) -> dict[tuple[str, str], int]:
    """Numbers of the GPUs: those of the host where there is one host, else host after host."""
    owners = sorted({_owner(one) for one in series}, key=lambda o: (o[0], int(o[1]) if o[1].isdecimal() else 0, o[1]))
    if len({name for name, _ in owners}) == 1 and all(gpu.isdecimal() for _, gpu in owners):
        return {owner: int(owner[1]) for owner in owners}
    return {owner: place for place, owner in enumerate(owners)}


def _add(builder: RunBuilder, metric: str, one: Samples, start: float, step: float, rank: int | None) -> None:
    for at, value in zip(one.times, one.values, strict=True):
        builder.add(round((at - start) / step), {metric: value}, None, rank)


def _sum(series: Sequence[Samples]) -> Samples:
    """Counters of one host, added where they were sampled."""
    total: dict[float, float] = {}
    for one in series:
        for at, value in zip(one.times, one.values, strict=True):
            total[at] = total.get(at, 0.0) + value
    times = tuple(sorted(total))
    return Samples(series[0].labels, times, tuple(total[at] for at in times))


def _rises(one: Samples) -> list[tuple[float, float, float]]:
    """(time, value before, value) wherever a series becomes greater."""
    values = np.asarray(one.values)
    with np.errstate(invalid="ignore"):
        places = np.flatnonzero(np.diff(values) > 0) + 1
    return [(one.times[p], float(values[p - 1]), float(values[p])) for p in places]


def _recent_xids(one: Samples) -> Samples:
    """DCGM exporter shows the last Xid of a GPU for ever: one that was there at the start is older than the time."""
    old = one.values[0] if one.values else 0.0
    new = np.cumsum(np.asarray(one.values) != old) > 0
    return replace(one, values=tuple(v if fresh else 0.0 for v, fresh in zip(one.values, new.tolist(), strict=True)))


def _xids(builder: RunBuilder, one: Samples, start: float, step: float, rank: int) -> None:
    """Every other value than 0 is one message of the driver."""
    before = 0.0
    for at, code in zip(one.times, one.values, strict=True):
        if code > 0 and code != before and np.isfinite(code):
            bus = one.label("pci_bus_id") or one.label("device") or f"GPU {one.label('gpu')}"
            text = f"NVRM: Xid (PCI:{bus}): {int(code)}, by DCGM exporter on {_owner(one)[0]}"
            builder.event(text, "xid", None, round((at - start) / step), rank, _clock(at))
        before = code


def _oom_kills(builder: RunBuilder, one: Samples, start: float, step: float) -> None:
    for at, before, now in _rises(one):
        text = f"Out of memory: Killed process, {int(now - before)} on {one.label('instance')} (node exporter)"
        builder.event(text, "oom-killer", None, round((at - start) / step), None, _clock(at))


def moment(text: str, now: float) -> float:
    """`2h`, `90m` (before now), seconds since 1970, or ISO 8601 -> seconds since 1970. Raises `PlaybookError`."""
    said = text.strip()
    if hit := _PERIOD.fullmatch(said):
        return now - float(hit[1]) * _SECONDS[hit[2]]
    try:
        return float(said)
    except ValueError:
        pass
    try:
        found = datetime.fromisoformat(said)
    except ValueError:
        raise PlaybookError(
            f"{text!r}", "is no time", "write 2h, 90m, or 2026-01-31T09:00 (UTC unless it says otherwise)"
        ) from None
    return (found if found.tzinfo is not None else found.replace(tzinfo=UTC)).timestamp()


def _clock(at: float) -> str:
    return datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
