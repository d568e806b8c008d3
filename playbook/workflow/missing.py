"""What the run did not log and what it would have told: the blind spots, most telling first."""

from __future__ import annotations

from dataclasses import dataclass

from playbook.engine.value import gains, moot
from playbook.workflow.ingest import Ingested
from playbook.workflow.session import Session

_WORTH = 0.01  # bits


@dataclass(frozen=True, slots=True)
class Missing:
    """A signal that the right metric would have answered for nothing; `gain` in bits."""

    signal: str
    why: str
    gain: float


def missing(found: Ingested, session: Session) -> list[Missing]:
    """Signals with a detector that was blind here, and what to log to have them next time."""
    diagnosis = session.diagnosis(explained=False)
    known = {e.signal for e in session.evidence}
    blind = {scan.detector: scan.because for scan in found.scans if scan.status == "blind"}
    gain = gains(session.tables, diagnosis.belief, known)
    beside = moot(session.tables, diagnosis.belief.used)
    rows = []
    for name, bits in gain.items():
        if name in beside:
            continue
        signal = session.book.signals[name]
        silent = [s.detector for s in signal.seen_by if s.detector in blind]
        if bits >= _WORTH and silent and len(silent) == len(signal.seen_by):
            why = signal.log_next_time.rstrip(".") or blind[silent[0]]
            rows.append(Missing(name, why, bits))
    return sorted(rows, key=lambda m: (-m.gain, m.signal))
