"""The word of a verdict (incident, healthy, undecided) and its symptom, from all that is known: files and answers."""

from __future__ import annotations

from dataclasses import replace

from playbook.engine.diagnosis import Diagnosis, tells_of_a_fault
from playbook.engine.precedents import TELLERS
from playbook.engine.tables import SHAPE
from playbook.findings import Evidence
from playbook.workflow.ingest import INCIDENT, Ingested
from playbook.workflow.session import Session

HEALTHY = "healthy"
# Read off a curve that the loss may not answer for a long while; all else that detectors see in a healthy run is how it
# is set up, or the curve of the loss itself.
NOTABLE = frozenset({"lr-leaves-schedule"})


def word(session: Session, diagnosis: Diagnosis, found: Ingested | None = None) -> str:
    """incident | healthy | undecided. Whoever tells of a fault is not answered that a curve looks healthy; and where a
    cause is decided there is an incident, though no curve shows it."""
    if diagnosis.decided and not diagnosis.healthy:
        return "incident"
    known = session.evidence
    shape = next((e for e in known if e.signal == SHAPE), None)
    if shape is None:
        told = any(tells_of_a_fault(session.book, session.tables, e) for e in known if e.source in TELLERS)
        return HEALTHY if found is not None and found.verdict == HEALTHY and not told else "undecided"
    if shape.state == HEALTHY:
        return HEALTHY if diagnosis.healthy else "undecided"
    return "incident" if shape.confidence >= INCIDENT else "undecided"


def symptom(session: Session) -> Evidence | None:
    """The shape of the trouble, with the step that was seen last: a person who names another shape does not move it."""
    shape = next((e for e in session.evidence if e.signal == SHAPE), None)
    if shape is None or shape.state == HEALTHY:
        return None
    seen = [m.evidence.step for m in session.moves if m.signal == SHAPE and m.evidence and m.evidence.step is not None]
    return shape if shape.step is not None or not seen else replace(shape, step=seen[-1])


def noted(session: Session) -> tuple[Evidence, ...]:
    """What is worth a look beside a healthy curve: the run's own log tells of a fault, its rate leaves the schedule, or
    a detector remarks on what is no fault by itself."""
    seen = (e for e in session.evidence if e.source == "log" or (e.source == "metrics" and e.signal in NOTABLE))
    faults = tuple(e for e in seen if tells_of_a_fault(session.book, session.tables, e))
    return faults + tuple(e for e in session.evidence if e.remark and e not in faults)


def what_to_do(session: Session, item: Evidence) -> str:
    """How to look at what is noted."""
    return item.remark or session.book.signals[item.signal].how
