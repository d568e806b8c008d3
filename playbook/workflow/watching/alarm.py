"""Which of the things that the detectors see in a growing run are news: one alert an incident, and no more.

An incident is open until the curve is back, the detectors take it back, or the job was rolled back before it; until
then whatever is seen belongs to it. What is seen behind its end is another incident, except that a passing fault which
comes again (the next spike that recovers) is told as such and alarms nobody a second time.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass, field
from typing import Literal

import numpy as np

from playbook.detectors import INCIDENT, LASTING, PASSING
from playbook.engine.tables import SHAPE
from playbook.findings import Evidence, Finding
from playbook.knowledge.entries import Signal
from playbook.series import Run, Series
from playbook.workflow.ingest import Ingested

CHAIN = 200  # steps: faults this close to one another are one incident (D3-stop-1), as in `detectors.onset`
CHAIN_SHARE = 0.02  # or this share of the run
CRASH = "hang-or-crash"
SPIKES = frozenset(("transient-spike", "persistent-spike"))  # which of the two it is shows only later
GOES_ON = 3  # rows behind the message of a crash that say the job runs again

Kind = Literal["incident", "changed", "again", "over", "known"]


@dataclass(frozen=True, slots=True)
class News:
    """`incident` alarms; `changed` (it became something else), `again`, `over` and `known` (told by an earlier watch)
    only inform."""

    kind: Kind
    number: int  # of the incident, from 1
    evidence: Evidence
    because: str = ""  # why it is over


@dataclass(frozen=True, slots=True)
class _Seen:
    """A fault as it looks now. `end`: last step of a passing one that is back, None for one that goes on."""

    evidence: Evidence
    passing: bool = False
    end: int | None = None

    @property
    def place(self) -> tuple[str, int] | None:
        origin = self.evidence.origin
        return None if origin is None or origin.line is None else (origin.path, origin.line)


@dataclass
class Told:
    """An incident that was told, and how far it reaches (steps, and lines of each file)."""

    number: int
    symptom: str
    onset: int | None
    passing: bool
    evidence: Evidence
    again: bool = False  # told as one more of its kind, and so far no alert of its own
    open: bool = True
    rolled_back: bool = False
    reach: int | None = None
    lines: dict[str, int] = field(default_factory=dict)
    restarts: int = 0  # of the run when it was told
    rows: int = 0  # likewise, of its longest series
    names: set[str] = field(default_factory=set)  # symptoms that it was told as


@dataclass(frozen=True, slots=True)
class _Now:
    """Where the run stands: last step of all, last line of each file, restarts, rows of the longest series."""

    high: int | None
    low: int | None
    lines: dict[str, int]
    lead: Series | None

    @property
    def slack(self) -> float:
        return max(CHAIN, CHAIN_SHARE * ((self.high or 0) - (self.low or 0)))


class Alarm:
    """Gets every look at the run in turn and says what is new in it. `shape` is the book's signal `loss-shape`."""

    def __init__(self, shape: Signal) -> None:
        self._state = {(seen.detector, kind): state for seen in shape.seen_by for kind, state in seen.kinds.items()}
        self._told: list[Told] = []
        self._count = 0
        self._at_start = 0  # incidents that an earlier watch told

    @property
    def count(self) -> int:
        """Incidents so far."""
        return self._count

    @property
    def open(self) -> bool:
        """Whether an incident is going on."""
        return any(told.open for told in self._told)

    @property
    def fresh(self) -> int:
        """Incidents that this watch told itself."""
        return self._count - self._at_start

    @property
    def told(self) -> tuple[Told, ...]:
        """All that is remembered, for the next watch."""
        return tuple(self._told)

    def recall(self, told: Iterable[Told], count: int) -> None:
        """What an earlier watch told is no news."""
        self._told, self._count, self._at_start = list(told), count, count

    def begin_anew(self, paths: Collection[str], found: Ingested) -> list[News]:
        """Another run has begun in these files: their incidents are over, and the same steps may fail once more."""
        if not paths:
            return []
        now = _now(found.run)
        lead = now.lead.origin.path if now.lead is not None else ""
        news: list[News] = []
        for told in self._told:
            place = told.evidence.origin
            if (place.path if place is not None else lead) not in paths:
                continue
            if told.open:
                news.append(News("over", told.number, told.evidence, "another run began"))
                self._end(told, now)
            told.rolled_back, told.passing, told.reach = True, False, None
            told.lines = {path: line for path, line in told.lines.items() if path not in paths}
        return news

    def look(self, found: Ingested, known_from: dict[str, int] | None = None) -> list[News]:
        """What is new. `known_from`: first line of each file from which on no row was thinned away."""
        now = _now(found.run)
        news: list[News] = []
        self._roll_back(now, news)
        matched: dict[int, list[_Seen]] = {}
        for seen in self._seen(found):
            told = self._owner(seen, now)
            if told is None:
                told = self._tell(seen, now, news)
            elif told.open or (not seen.passing and told.passing):
                self._change(told, seen, found, news)
            matched.setdefault(id(told), []).append(seen)
        for told in self._told:
            if told.open:
                self._close(told, matched.get(id(told), []), found, now, known_from or {}, news)
        return news

    def skip(self, found: Ingested) -> None:
        """Take everything that is there as known: only what begins later is news."""
        self.look(found)
        now = _now(found.run)
        for told in self._told:
            self._end(told, now)
        self._count = self._at_start

    def _seen(self, found: Ingested) -> list[_Seen]:
        """The symptom, and each confident fault of the loss, in the order in which they began."""
        findings = {(f.because, f.step): f for f in found.findings}
        seen: list[_Seen] = []
        symptom = found.symptom
        if symptom is not None and found.verdict == "incident":
            finding = findings.get((symptom.because, symptom.step))
            passing = finding is not None and finding.kind in PASSING.get(finding.detector, ())
            seen.append(_Seen(symptom, passing, finding.last_step if finding is not None and passing else None))
        for finding in found.findings:
            state = self._state.get((finding.detector, finding.kind))
            passing = finding.kind in PASSING.get(finding.detector, ())
            lasting = finding.kind in LASTING.get(finding.detector, ())
            if state is None or not (passing or lasting) or finding.confidence < INCIDENT:
                continue
            seen.append(_Seen(_evidence(state, finding), passing, finding.last_step if passing else None))
        # The symptom first among equals, for it is what the verdict names.
        return sorted(seen, key=lambda s: -1 if s.evidence.step is None else s.evidence.step)

    def _owner(self, seen: _Seen, now: _Now) -> Told | None:
        """The incident that a fault belongs to."""
        for told in self._told:
            if told.open:
                return told
        for told in reversed(self._told):
            if self._belongs(told, seen, now):
                return told
        return None

    @staticmethod
    def _belongs(told: Told, seen: _Seen, now: _Now) -> bool:
        step = seen.evidence.step
        if seen.place is not None and (last := told.lines.get(seen.place[0])) is not None and seen.place[1] <= last:
            return True
        if step is None:
            return seen.place is None
        if told.rolled_back and seen.place is not None:
            return False  # the same steps, run once more
        return told.reach is not None and step <= told.reach + now.slack

    def _tell(self, seen: _Seen, now: _Now, news: list[News]) -> Told:
        again = self._again(seen, now)
        if not again:
            self._count += 1
        told = Told(
            self._count,
            seen.evidence.state,
            seen.evidence.step,
            seen.passing,
            seen.evidence,
            again,
            restarts=_restarts(now.lead),
            rows=0 if now.lead is None else len(now.lead),
            names={seen.evidence.state},
        )
        if seen.end is not None:
            told.open = False
            told.reach = seen.end
            told.lines = {} if seen.place is None else dict([seen.place])
        self._told.append(told)
        news.append(News("again" if again else "incident", told.number, seen.evidence))
        return told

    def _again(self, seen: _Seen, now: _Now) -> bool:
        """One more of a kind that passes: also a spike that is too young to be called lasting."""
        state = seen.evidence.state
        if not seen.passing and not (state in SPIKES and self._young(seen.evidence, now)):
            return False
        kin = SPIKES if state in SPIKES else {state}
        return any(told.passing and told.symptom in kin for told in self._told)

    @staticmethod
    def _young(evidence: Evidence, now: _Now) -> bool:
        return evidence.step is not None and now.high is not None and now.high - evidence.step <= CHAIN

    def _change(self, told: Told, seen: _Seen, found: Ingested, news: list[News]) -> None:
        """A fault of an incident that is known: tell where the verdict has another name for it now."""
        told.open = told.open or not seen.passing
        main = found.symptom
        if main is None or seen.evidence is not main or main.state == told.symptom:
            return
        told.symptom, told.passing, told.evidence = main.state, seen.passing, main
        if main.state not in told.names:
            told.names.add(main.state)
            news.append(News("changed", told.number, main))

    def _close(
        self, told: Told, seen: list[_Seen], found: Ingested, now: _Now, known_from: dict[str, int], news: list[News]
    ) -> None:
        """Is an open incident over? And was one that was told as one more of its kind worse than that?"""
        because = ""
        if seen:
            told.passing = all(s.passing for s in seen)
        if told.again and seen and not told.passing:
            worst = next(s.evidence for s in seen if not s.passing)
            if worst.state not in SPIKES or not self._young(worst, now):
                self._count += 1
                told.again, told.number = False, self._count
                news.append(News("incident", told.number, worst))
        if not seen:
            origin = told.evidence.origin
            if origin is not None and origin.line is not None and origin.line < known_from.get(origin.path, 0):
                return  # its rows were thinned since: that nothing is seen of it says nothing
            because = "the detectors no longer see it" if found.verdict != "incident" else ""
        elif all(s.passing and s.end is not None for s in seen):
            because = "the curve is back"
        elif told.symptom == CRASH and _rows_behind(told, now) >= GOES_ON:
            because = "the job runs again"
        if because:
            self._end(told, now)
            news.append(News("over", told.number, told.evidence, because))

    def _roll_back(self, now: _Now, news: list[News]) -> None:
        """Close what the job was rolled back before."""
        for told in self._told:
            if not told.open or told.onset is None or now.lead is None or _restarts(now.lead) <= told.restarts:
                continue
            places = now.lead.restarts[told.restarts :]
            back = places[now.lead.steps[places] <= told.onset]
            if len(back):
                self._end(told, now)
                told.rolled_back = True
                if now.lead.lines is not None:
                    told.lines[now.lead.origin.path] = int(now.lead.lines[back[0] - 1])
                step = int(now.lead.steps[back[0]])
                news.append(News("over", told.number, told.evidence, f"the job goes on from step {step}"))

    @staticmethod
    def _end(told: Told, now: _Now) -> None:
        told.open = False
        told.reach, told.lines = now.high, dict(now.lines)


def _evidence(state: str, finding: Finding) -> Evidence:
    return Evidence(
        SHAPE, state, "metrics", finding.because, finding.step, finding.rank, finding.confidence, finding.origin
    )


def _now(run: Run) -> _Now:
    low, high = run.step_range()
    lines: dict[str, int] = {}
    for series in run.series.values():
        if series.lines is not None and len(series.lines):
            path = series.origin.path
            lines[path] = max(lines.get(path, 0), int(series.lines[-1]))
    for event in run.events:
        if event.origin.line is not None:
            lines[event.origin.path] = max(lines.get(event.origin.path, 0), event.origin.line)
    lead = run.one("loss") or max(run.series.values(), key=len, default=None)
    return _Now(high, low, lines, lead)


def _rows_behind(told: Told, now: _Now) -> int:
    """Rows of training that were logged behind what an incident was told by."""
    if now.lead is None:
        return 0
    origin = told.evidence.origin
    if origin is not None and origin.line is not None and origin.path == now.lead.origin.path:
        return 0 if now.lead.lines is None else int((now.lead.lines > origin.line).sum())
    return len(now.lead) - told.rows


def _restarts(series: Series | None) -> int:
    return 0 if series is None else int(np.size(series.restarts))
