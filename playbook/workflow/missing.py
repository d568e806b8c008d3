"""What the run did not log and what it would have told: the blind spots, most telling first."""

from __future__ import annotations

from dataclasses import dataclass

from playbook.engine.value import gains
from playbook.workflow.ingest import Ingested
from playbook.workflow.session import Session

_WORTH = 0.01  # bits
_PROBABLY = 0.5


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
    rows = []
    for name, bits in gain.items():
        if not _has_it(session, name):
            continue
        signal = session.book.signals[name]
        silent = [s.detector for s in signal.seen_by if s.detector in blind]
        if bits >= _WORTH and silent and len(silent) == len(signal.seen_by):
            why = signal.log_next_time.rstrip(".") or blind[silent[0]]
            rows.append(Missing(name, why, bits))
    return sorted(rows, key=lambda m: (-m.gain, m.signal))


def _has_it(session: Session, name: str) -> bool:
    """Whether the run has, or usually would have, what a signal is about.

    Nobody is told to log the ratios of a policy on the chance that it trains one.
    """
    tables, known = session.tables, {e.signal: e.state for e in session.evidence}
    for other, outcomes in tables.needs.get(name, {}).items():
        if other in known:
            if known[other] not in outcomes:
                return False
            continue
        shares = zip(tables.outcomes[other], tables.background[tables.columns[other]], strict=True)
        if sum(share for outcome, share in shares if outcome in outcomes) < _PROBABLY:
            return False
    return True
