"""An open incident back on the desk, and what was learned since back into its record."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any

from playbook.engine.diagnosis import Diagnosis
from playbook.engine.value import Cost, RunSize
from playbook.errors import PlaybookError
from playbook.findings import Evidence
from playbook.series import Origin, Run
from playbook.workflow.ingest import Ingested
from playbook.workflow.records.shelf import shelf, utc
from playbook.workflow.session import Move, Session

if TYPE_CHECKING:
    from playbook.incidents.record import MoveDoc, Record


def moves_of_record(record: Record) -> list[Move]:
    """The moves of a diagnosis as they were recorded."""
    return [_move(doc) for doc in record.moves]


def size_of_record(record: Record) -> RunSize:
    """GPUs and step time as they were recorded."""
    default = RunSize()
    return RunSize(
        record.losses.gpus or default.gpus,
        record.losses.step_seconds or default.step_seconds,
        bool(record.losses.gpus),
    )


def take_up(incident: str, db: str | None = None) -> tuple[Record, Ingested | None]:
    """(the record, its kept scene). A scene that is missing or damaged is no reason not to go on."""
    from playbook.incidents.scene import thaw

    with shelf(db) as store:
        record = store.get(store.resolve(incident))
        kept = record.artifact("scene")
        run: Run | None = None
        if kept is not None:
            try:
                run = thaw(store.fetch(kept.sha256, kept.name))
            except PlaybookError:
                run = None
    if run is None:
        return record, None
    seen = tuple(m.evidence for m in moves_of_record(record) if m.kind == "observed" and m.evidence is not None)
    return record, Ingested(run, (), seen)


def update(
    incident: str,
    session: Session,
    diagnosis: Diagnosis,
    aid_done: Sequence[str] = (),
    db: str | None = None,
    now: datetime | None = None,
) -> Record:
    """Write the moves, the verdict and the first aid that was done into an incident that is on record."""
    from playbook.incidents.record import Treatment, tidy
    from playbook.incidents.record import Verdict as VerdictDoc
    from playbook.workflow.records.record import moves_of, verdict_of

    moves = [m.model_validate(tidy(m.model_dump())) for m in moves_of(session)]
    verdict = VerdictDoc.model_validate(tidy(verdict_of(session, diagnosis).model_dump(by_alias=True)))

    def edit(record: Record) -> Record:
        had = {t.fix for t in record.treatments}
        done = [Treatment(fix=name, outcome="unclear", at=utc(now)) for name in aid_done if name not in had]
        return record.model_copy(update={"moves": moves, "verdict": verdict, "treatments": [*record.treatments, *done]})

    with shelf(db) as store:
        return store.change(store.resolve(incident), edit)


def _move(doc: MoveDoc) -> Move:
    cost = Cost(doc.minutes, doc.gpu_hours, doc.total) if doc.paid else None
    if doc.state is None:
        return Move(doc.kind, doc.signal, None, cost)
    source: Any = doc.source or "person"
    origin = None if doc.at is None else Origin(doc.at.file, doc.at.line)
    likelihood = None if doc.likelihood is None else tuple((o, x) for o, x in doc.likelihood)
    item = Evidence(doc.signal, doc.state, source, doc.because, doc.step, doc.rank, doc.confidence, origin, likelihood)
    return Move(doc.kind, doc.signal, item, cost)
