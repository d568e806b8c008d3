"""The contract's JSON documents: ingest and diagnose. Every face that reports builds on these."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from playbook.engine.diagnosis import Diagnosis, precedents_of
from playbook.engine.explain import Reason
from playbook.engine.value import cost_of
from playbook.findings import Evidence
from playbook.series import Origin
from playbook.workflow.ingest import Ingested
from playbook.workflow.missing import missing
from playbook.workflow.session import UNKNOWN, Session
from playbook.workflow.verdict import HEALTHY, noted, symptom, what_to_do, word

_MISSING = 8  # signals named as worth logging
# the ingest part of a diagnosis that was walked from answers alone
_NOTHING_READ: dict[str, Any] = {
    "run": {"files": [], "first_step": None, "last_step": None, "ranks": [], "metrics": [], "unmapped": []},
    "findings": [],
    "missing": [],
}


def ingest_document(found: Ingested, session: Session) -> dict[str, Any]:
    """`ingest --json`."""
    run = found.run
    first, last = run.step_range()
    return {
        "run": {
            "files": [
                {
                    "path": f.path,
                    "format": f.format,
                    "rows": f.rows,
                    "problems": [{"line": p.line, "what": p.what} for p in f.problems],
                }
                for f in run.files
            ],
            "first_step": first,
            "last_step": last,
            "ranks": run.ranks,
            "metrics": run.metrics,
            "unmapped": list(run.unmapped),
        },
        "verdict": found.verdict,
        "symptom": _symptom(found.symptom),
        "notes": _notes(session, found.verdict),
        "findings": [_finding(e) for e in found.evidence],
        "missing": [
            {"signal": m.signal, "why": m.why, "gain": round(m.gain, 4)} for m in missing(found, session)[:_MISSING]
        ],
    }


def _symptom(item: Evidence | None) -> dict[str, Any] | None:
    if item is None:
        return None
    return {"id": item.state, "onset_step": item.step, "confidence": round(item.confidence, 3)}


def _finding(item: Evidence) -> dict[str, Any]:
    return {
        "signal": item.signal,
        "state": item.state,
        "step": item.step,
        "rank": item.rank,
        "confidence": round(item.confidence, 3),
        "because": item.because,
        "location": location(item.origin),
    }


def _notes(session: Session, verdict: str) -> list[dict[str, Any]]:
    """What speaks of a fault beside a healthy verdict, and how to look at it."""
    return [
        {
            "signal": e.signal,
            "state": e.state,
            "step": e.step,
            "because": e.because,
            "how": what_to_do(session, e),
        }
        for e in (noted(session) if verdict == HEALTHY else ())
    ]


def location(origin: Origin | None) -> dict[str, Any] | None:
    return None if origin is None else {"file": origin.path, "line": origin.line}


def diagnose_document(
    found: Ingested | None,
    session: Session,
    diagnosis: Diagnosis,
    incident: str | None,
    unmapped: Collection[str] = (),
) -> dict[str, Any]:
    """`diagnose --json`: the ingest document and the diagnosis; `unmapped`: answers of a case that no signal takes."""
    base = ingest_document(found, session) if found is not None else _NOTHING_READ
    book = session.book
    verdict = word(session, diagnosis, found)
    return base | {
        "verdict": verdict,
        "symptom": _symptom(symptom(session)),
        "notes": _notes(session, verdict),
        "evidence": [
            {"signal": e.signal, "state": e.state, "source": e.source, "step": e.step, "because": e.because}
            for e in session.evidence
        ],
        "causes": [
            {
                "id": r.id,
                "title": r.title,
                "layer": r.layer,
                "class": r.class_,
                "probability": round(r.probability, 6),
                "for": [_reason(x) for x in r.pro],
                "against": [_reason(x) for x in r.con],
                "variants": [{"id": v, "probability": round(p, 6)} for v, p in r.variants],
            }
            for r in diagnosis.causes
        ],
        "precedents": [
            {"class": name, "title": session.book.class_title(name), "probability": round(p, 6)}
            for name, p in precedents_of(diagnosis, session.tables)
        ],
        "not_in_the_book": round(diagnosis.unknown, 6),
        "coupled": [{"ids": [a, b], "probability": round(p, 6)} for a, b, p in diagnosis.coupled],
        "decided": diagnosis.decided,
        "why_undecided": diagnosis.why_undecided or None,
        "ruled_out": [
            {"id": r.cause, "signal": r.signal, "state": r.state, "hard": r.hard} for r in diagnosis.ruled_out
        ],
        "would_change": None
        if diagnosis.tipping is None
        else {"signal": diagnosis.tipping.signal, "state": diagnosis.tipping.outcome, "to": diagnosis.tipping.cause},
        "first_aid": list(diagnosis.first_aid),
        "fixes": list(diagnosis.fixes),
        "asked": [
            {
                "signal": m.signal,
                "state": m.evidence.state if m.evidence else UNKNOWN,
                "cost_minutes": m.cost.minutes if m.cost else 0.0,
                "gpu_hours": m.cost.gpu_hours if m.cost else 0.0,
            }
            for m in session.asked
        ],
        "next": None
        if diagnosis.next is None
        else {
            "signal": diagnosis.next.signal,
            "question": book.signals[diagnosis.next.signal].question,
            "how": book.signals[diagnosis.next.signal].how,
            "outcomes": list(book.signals[diagnosis.next.signal].outcomes),
            "cost_minutes": cost_of(book.signals[diagnosis.next.signal], session.size, session.clusters_done).minutes,
            "gpu_hours": diagnosis.next.cost.gpu_hours,
            "gain": round(diagnosis.next.gain, 4),
        },
        "trial": trial_document(diagnosis),
        "unmapped": sorted({*(e.signal for e in diagnosis.unmapped), *unmapped}),
        "incident": incident,
    }


def trial_document(diagnosis: Diagnosis) -> dict[str, Any] | None:
    """The repair that is better tried at once than asked about; None where a question comes first."""
    trial = diagnosis.trial
    return (
        None
        if trial is None
        else {
            "fix": trial.fix,
            "chance": round(trial.chance, 4),
            "cost_minutes": round(trial.minutes, 1),
            "minutes_if_tried": round(trial.if_tried, 1),
            "minutes_if_asked": round(trial.if_asked, 1),
        }
    )


def _reason(reason: Reason) -> dict[str, Any]:
    return {
        "signal": reason.signal,
        "state": reason.state,
        "weight": round(reason.weight, 3),
        "because": reason.because,
    }
