"""What lies on the desk: one session with its run, and what the screens want to know about it. No widget, no clock.

The app owns one `Desk` and is the only one who changes it; screens read it and post messages.
"""

from __future__ import annotations

from collections.abc import Mapping
from copy import copy
from dataclasses import dataclass, field, replace
from pathlib import PurePath
from typing import TYPE_CHECKING

import numpy as np

from playbook.engine.tables import SHAPE
from playbook.workflow.session import Session

if TYPE_CHECKING:
    from playbook.engine.diagnosis import Diagnosis
    from playbook.findings import Evidence
    from playbook.knowledge.entries import Fix, Signal
    from playbook.series import Run
    from playbook.workflow.ingest import Ingested
    from playbook.workflow.records.similar import Similar

# A learning rate that falls or rises by this factor from one logged point to the next was set anew.
LR_JUMP = 1.8
MOST_MARKS = 12  # of one kind; a run that was resumed a hundred times would be nothing but marks

# A cause below this is no reason for a question.
WORTH_A_WORD = 0.01


@dataclass
class Desk:
    """`shares` are the probabilities before the last change, so that the bars can move."""

    session: Session
    name: str  # of the kept file
    title: str = ""
    paths: tuple[str, ...] = ()
    found: Ingested | None = None
    incident: str | None = None
    aid_done: tuple[str, ...] = ()
    asked: str | None = None
    note: str = ""  # one line about the files, such as that they are gone
    diagnosis: Diagnosis = field(init=False)
    shares: Mapping[str, float] = field(init=False)
    last_change: str = ""
    similar: tuple[Similar, ...] = ()  # incidents and cases that look like this
    similar_fault: str = ""

    def __post_init__(self) -> None:
        self.diagnosis = self.session.diagnosis()
        self.shares = self.now()

    def copy(self) -> Desk:
        """What a worker may hold while a person goes on."""
        twin = copy(self)
        twin.session = replace(self.session, moves=list(self.session.moves), undone=[])
        return twin

    def judge(self, change: str = "") -> None:
        """Think again after a change."""
        self.shares = self.now()
        self.last_change = change
        self.diagnosis = self.session.diagnosis()
        known = {e.signal for e in self.session.evidence} | self.session.closed
        if self.asked in known:
            self.asked = None

    @property
    def facts(self) -> tuple[str, frozenset[tuple[str, str]]]:
        """What likeness to others hangs on."""
        return self.name, frozenset((e.signal, e.state) for e in self.session.evidence)

    def now(self) -> dict[str, float]:
        """Probability by class of cause."""
        return {r.class_: r.probability for r in self.diagnosis.causes}

    @property
    def question(self) -> Signal | None:
        """What is asked now: what a person picked, else what is most worth its cost."""
        signals = self.session.book.signals
        if self.asked in signals:
            picked: Signal = signals[self.asked]
            return picked
        return signals.get(self.diagnosis.next.signal) if self.diagnosis.next else None

    @property
    def aid(self) -> list[Fix]:
        """First aid that was not ticked off yet, at most three."""
        found = [self.session.book.fixes[name] for name in self.diagnosis.first_aid if name not in self.aid_done]
        return found[:3]

    @property
    def shape(self) -> Evidence | None:
        return next((e for e in self.session.evidence if e.signal == SHAPE), None)

    @property
    def run(self) -> Run | None:
        return self.found.run if self.found is not None else None

    @property
    def label(self) -> str:
        """What to call it: its title, else its files, else the symptom."""
        if self.title:
            return self.title
        if self.paths:
            names = [PurePath(path).name for path in self.paths]
            return names[0] if len(names) == 1 else f"{names[0]} + {len(names) - 1}"
        return self.symptom_title

    @property
    def symptom_title(self) -> str:
        shape = self.shape
        if shape is None:
            return ""
        entry = self.session.book.symptoms.get(shape.state)
        return entry.title if entry is not None else shape.state

    def put_observed(self, found: Ingested, paths: tuple[str, ...]) -> None:
        """Take what the files say. What they said before gives way, answers of people stay.

        Where an earlier file is not among `paths` (an incident from the store, a file that is gone), what was seen in
        it stays as far as the new files do not speak of it, and so does its curve.
        """
        from playbook.workflow.session import Move

        again = bool(self.paths) and set(self.paths) <= set(paths)
        new = {e.signal for e in found.evidence}
        kept = [
            m
            for m in self.session.moves
            if m.kind != "observed" or m.evidence is None or _told(m.evidence) or (not again and m.signal not in new)
        ]
        self.session.moves = [Move("observed", e.signal, e) for e in found.evidence] + kept
        if found.size.known or not self.session.size.known:
            self.session.size = found.size
        if again or self.found is None or found.run.series:
            self.found = found
        self.paths = paths


def _told(item: Evidence) -> bool:
    """Evidence that no file gave."""
    return item.source in ("person", "case", "probe")


def trail(session: Session) -> list[Evidence]:
    """Known evidence: what people said last first, then what the files show, the symptom on top."""
    known = {e.signal: e for e in session.evidence}
    order: list[str] = []
    for move in reversed(session.moves):
        if move.kind == "answered" and move.signal in known and move.signal not in order:
            order.append(move.signal)
    rest = sorted((n for n in known if n not in order), key=lambda n: (n != SHAPE, known[n].step is None, n))
    return [known[name] for name in (*order, *rest)]


@dataclass(frozen=True, slots=True)
class Expectation:
    """What one probable cause would show to a question."""

    cause: str
    title: str
    outcome: str
    chance: float


def why_asked(desk: Desk, signal: str, most: int = 3) -> list[Expectation]:
    """What each of the leading causes would show above the others; why the question tells them apart."""
    tables = desk.session.tables
    if signal not in tables.columns:
        return []
    where = tables.columns[signal]
    usual = tables.prior @ tables.likelihood[:, where]
    rows = []
    for ranked in desk.diagnosis.causes[:most]:
        if ranked.id in tables.causes and ranked.probability >= WORTH_A_WORD:
            chances = tables.likelihood[tables.causes.index(ranked.id), where]
            k = int(np.argmax(chances / np.maximum(usual, 1e-9)))
            rows.append(Expectation(ranked.id, ranked.title, tables.outcomes[signal][k], float(chances[k])))
    return rows


def outlook(session: Session, signal: str) -> dict[str, tuple[str, float]]:
    """outcome -> (title of the cause that would lead then, its probability)."""
    found = {}
    for outcome in session.book.signals[signal].outcomes:
        after = session.what_if(signal, outcome).diagnosis(explained=False)
        if after.healthy:
            found[outcome] = ("", 0.0)
        elif after.causes:
            found[outcome] = (after.causes[0].title, after.causes[0].probability)
    return found


@dataclass(frozen=True, slots=True)
class Mark:
    """A place on the curve: `kind` is onset, resume or lr."""

    kind: str
    step: int
    text: str = ""


def marks(run: Run | None, evidence: tuple[Evidence, ...]) -> list[Mark]:
    """Onset of the symptom, resumes (steps that go back, and what the log says), peak and jumps of the rate."""
    if run is None:
        return []
    found = [Mark("onset", e.step, e.because) for e in evidence if e.signal == SHAPE and e.step is not None]
    resumes = {int(e.step) for e in run.events if e.kind == "resume" and e.step is not None}
    loss = run.one("loss")
    if loss is not None:
        resumes |= {int(loss.steps[k]) for k in loss.restarts[:MOST_MARKS]}
    found += [Mark("resume", step) for step in sorted(resumes)[:MOST_MARKS]]
    rate = run.one("lr")
    if rate is not None and len(rate) > 2:
        found += _lr_marks(rate.steps, rate.values)
    return found


def _lr_marks(steps: np.ndarray, values: np.ndarray) -> list[Mark]:
    ok = np.isfinite(values) & (values > 0)
    steps, values = steps[ok], values[ok]
    if len(values) < 3 or float(values.max()) == float(values.min()):
        return []
    top = int(values.argmax())
    found = [Mark("lr", int(steps[top]), "peak")] if 0 < top < len(values) - 1 else []
    with np.errstate(divide="ignore", over="ignore"):
        ratio = values[1:] / values[:-1]
    jumps = np.flatnonzero((ratio > LR_JUMP) | (ratio < 1 / LR_JUMP)) + 1
    # The first ramp and the last steps of a decay multiply, too: only a jump near the top is a change of plan.
    jumps = jumps[np.maximum(values[jumps], values[jumps - 1]) > 0.2 * values[top]]
    falls = np.flatnonzero(np.diff(values) <= 0)
    ramp = int(falls[0]) if len(falls) else len(values)
    jumps = jumps[jumps > ramp]
    return found + [Mark("lr", int(steps[k]), "jump") for k in jumps[:MOST_MARKS] if abs(int(k) - top) > 1]
