"""A diagnosis into the record: moves with their price and the belief after each, timeline, verdict, bill, scene.

The files are kept first and the rows last, in one transaction: an incident that is in the store is whole.
"""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from playbook import __version__
from playbook.engine.diagnosis import Diagnosis
from playbook.findings import Evidence
from playbook.knowledge.loader import Book
from playbook.workflow.ingest import Ingested
from playbook.workflow.records.shelf import shelf, utc
from playbook.workflow.session import Move, Session
from playbook.workflow.verdict import symptom, word

if TYPE_CHECKING:
    from playbook.incidents.record import ArtifactRef, Happening, Losses, MoveDoc, Place, Record, Verdict

TOP = 5  # causes kept of the belief after each move
VERDICT_CAUSES = 10
USD_PER_GPU_HOUR = 2.0  # ledger D3-cost-1: what a rented GPU costs, until a person says otherwise
EVENTS = 200  # lines of the log kept in the timeline
TRIES = 8  # ids drawn before we give up
_LETTERS = "abcdefghjkmnpqrstvwxyz23456789"  # none that are taken for one another


def record(
    session: Session,
    found: Ingested | None,
    diagnosis: Diagnosis,
    db: str | None = None,
    title: str | None = None,
    now: datetime | None = None,
) -> str:
    """Store the diagnosis as an open incident; returns its id. Raises `PlaybookError` where it cannot be stored."""
    from playbook.incidents.store import Taken
    from playbook.workflow.records.scenes import keep

    with shelf(db) as store:
        refs = keep(store, found, session.book) if found is not None else []
        made = build(session, found, diagnosis, new_id(now), title, utc(now), refs)
        for _ in range(TRIES):
            try:
                store.add(made)
                return made.id
            except Taken:
                made = made.model_copy(update={"id": new_id(now)})
        store.add(made)
        return made.id


def new_id(now: datetime | None = None) -> str:
    """A short id that sorts by day and that two laptops do not draw both."""
    day = (now or datetime.now(UTC)).astimezone(UTC).strftime("%Y%m%d")
    return f"{day}-{''.join(secrets.choice(_LETTERS) for _ in range(6))}"


def build(
    session: Session,
    found: Ingested | None,
    diagnosis: Diagnosis,
    incident: str,
    title: str | None,
    opened_at: str,
    artifacts: Sequence[ArtifactRef] = (),
) -> Record:
    """The document of an incident, without storing it: same input, same document."""
    from playbook.incidents.record import Record, tidy

    verdict = verdict_of(session, diagnosis)
    context = {e.signal: e.state for e in session.evidence if e.source in ("config", "case")}
    data = {
        "id": incident,
        "title": title or default_title(verdict, session.book),
        "opened_at": opened_at,
        "verdict": verdict.model_dump(by_alias=True),
        "context": context,
        "run": run_of(found, session),
        "losses": losses_of(session, found, verdict).model_dump(),
        "versions": {"playbook": __version__, "book": fingerprint(session)},
        "moves": [m.model_dump() for m in moves_of(session)],
        "timeline": [h.model_dump() for h in timeline_of(found)],
        "artifacts": [a.model_dump() for a in artifacts],
    }
    return Record.model_validate(tidy(data))


def fingerprint(session: Session) -> str:
    """A short hash of all that a verdict hangs on: the tables, and how signals are read off. Texts do not count."""
    tables, state = session.tables, hashlib.sha256()
    state.update(repr((tables.causes, tables.class_of, sorted(tables.outcomes.items()))).encode())
    for numbers in (tables.prior, tables.likelihood, tables.background):
        state.update(numbers.round(9).tobytes())
    for name in sorted(session.book.signals):
        state.update(session.book.signals[name].model_dump_json(include={"group", "seen_by", "log", "config"}).encode())
    return state.hexdigest()[:16]


def default_title(verdict: Verdict, book: Book) -> str:
    """The symptom and where it began, in the words of the book."""
    if verdict.symptom is None:
        return "Nothing found yet" if verdict.word != "healthy" else "Healthy run"
    entry = book.symptoms.get(verdict.symptom)
    step = f" from step {verdict.onset_step}" if verdict.onset_step is not None else ""
    return f"{entry.title if entry else verdict.symptom}{step}"


def verdict_of(session: Session, diagnosis: Diagnosis) -> Verdict:
    """What is said now, from the moves alone (a replay has no more)."""
    from playbook.incidents.record import Ranking, Verdict

    trouble = symptom(session)
    return Verdict(
        word=word(session, diagnosis),  # type: ignore[arg-type]
        symptom=trouble.state if trouble is not None else None,
        onset_step=trouble.step if trouble is not None else None,
        decided=diagnosis.decided and not diagnosis.healthy,
        why_undecided=diagnosis.why_undecided,
        causes=[
            Ranking.model_validate(
                {
                    "id": r.id,
                    "title": r.title,
                    "layer": r.layer,
                    "class": r.class_,
                    "probability": round(r.probability, 6),
                }
            )
            for r in diagnosis.causes[:VERDICT_CAUSES]
        ],
        coupled=[(a, b, round(p, 6)) for a, b, p in diagnosis.coupled[:5]],
        unknown=round(diagnosis.unknown, 6),
        first_aid=list(diagnosis.first_aid),
        fixes=list(diagnosis.fixes),
    )


def run_of(found: Ingested | None, session: Session) -> dict[str, Any]:
    """The size of the run, and what was read: files, steps, metrics."""
    size = {"gpus": session.size.gpus, "step_seconds": session.size.step_seconds, "known": session.size.known}
    if found is None:
        return {"size": size}
    first, last = found.run.step_range()
    return {
        "size": size,
        "files": [{"path": f.path, "format": f.format, "rows": f.rows} for f in found.run.files],
        "first_step": first,
        "last_step": last,
        "ranks": len(found.run.ranks),
        "metrics": found.run.metrics,
    }


def losses_of(session: Session, found: Ingested | None, verdict: Verdict) -> Losses:
    """A first bill: the steps that were trained after the onset are lost. A person corrects it on closing."""
    from playbook.incidents.record import Losses

    size = session.size
    hours = 0.0
    if found is not None and verdict.onset_step is not None:
        last = found.run.step_range()[1]
        if last is not None and last > verdict.onset_step:
            hours = (last - verdict.onset_step) * size.step_seconds / 3600
    return Losses(
        gpus=size.gpus, step_seconds=size.step_seconds, usd_per_gpu_hour=USD_PER_GPU_HOUR, hours=round(hours, 4)
    )


def moves_of(session: Session) -> list[MoveDoc]:
    """Every move with its price, and after each one of a person the belief."""
    docs = []
    replayed = replace(session, moves=[], undone=[])
    for place, move in enumerate(session.moves):
        replayed.moves.append(move)
        following = session.moves[place + 1] if place + 1 < len(session.moves) else None
        # What was read came all at once: one belief stands for it.
        told = move.kind != "observed" or following is None or following.kind != "observed"
        docs.append(_move(move, replayed.diagnosis(explained=False) if told else None))
    return docs


def _move(move: Move, belief: Diagnosis | None) -> MoveDoc:
    from playbook.incidents.record import MoveDoc, tidy

    item, cost = move.evidence, move.cost
    data: dict[str, Any] = {"kind": move.kind, "signal": move.signal}
    if item is not None:
        data |= {
            "state": item.state,
            "source": item.source,
            "because": item.because,
            "step": item.step,
            "rank": item.rank,
            "confidence": item.confidence,
            "likelihood": item.likelihood,
            "at": _place(item),
        }
    if cost is not None:
        data |= {"minutes": cost.minutes, "gpu_hours": cost.gpu_hours, "total": cost.total, "paid": True}
    if belief is not None:
        data |= {
            "top": [(r.id, round(r.probability, 6)) for r in belief.causes[:TOP]],
            "unknown": round(belief.unknown, 6),
        }
    return MoveDoc.model_validate(tidy(data))


def _place(item: Evidence) -> dict[str, Any] | None:
    return None if item.origin is None else {"file": item.origin.path, "line": item.origin.line}


def timeline_of(found: Ingested | None) -> list[Happening]:
    """Findings and events in the order of steps; what has no step comes first."""
    from playbook.incidents.record import Happening, Place, tidy

    if found is None:
        return []

    def place(origin: Any) -> Place | None:
        return None if origin is None else Place(file=tidy(origin.path), line=origin.line)

    happenings = [
        Happening.model_validate(
            tidy({"kind": "change" if f.detector.startswith("change") else "finding", "text": f.because, "step": f.step,
             "last_step": f.last_step, "rank": f.rank, "source": f"{f.detector}/{f.kind}"})
            | {"numbers": {k: v for k, v in tidy(f.numbers).items() if isinstance(v, (int, float))},
               "place": place(f.origin)}
        )
        for f in found.findings
    ]  # fmt: skip
    seen: set[str] = set()
    for item in found.run.events:
        if item.text in seen or len(seen) >= EVENTS:
            continue
        seen.add(item.text)
        happenings.append(
            Happening.model_validate(
                tidy({"kind": "event", "text": item.text[:500], "step": item.step, "rank": item.rank, "time": item.time,
                 "source": item.kind}) | {"place": place(item.origin)}
            )
        )  # fmt: skip
    return sorted(happenings, key=lambda h: (h.step is not None, h.step or 0))
