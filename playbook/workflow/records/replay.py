"""Recorded incidents and case studies against today's detectors and knowledge: which verdicts would be others now?

An incident is replayed from its scene (the detectors look again) and the answers that people gave. A case study is
played as `evaluate` plays it; what was said last is kept in `verdicts.yaml` of its pack, written by `replay --accept`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from playbook.engine.value import Cost, RunSize
from playbook.errors import PlaybookError, Problem
from playbook.findings import Evidence
from playbook.knowledge.loader import Book, parse_yaml
from playbook.series import Origin, Run
from playbook.workflow.book import Library
from playbook.workflow.cases import play, read_case, start
from playbook.workflow.ingest import look
from playbook.workflow.records.record import verdict_of
from playbook.workflow.records.scenes import scene_of
from playbook.workflow.session import Move, Session

if TYPE_CHECKING:
    from playbook.incidents.record import MoveDoc, Record, Sentence
    from playbook.incidents.store import Store

VERDICTS = "verdicts.yaml"
_HEAD = (
    "# What the book says about each of its case studies, as last accepted. `playbook replay` compares,\n"
    "# `playbook replay --accept` writes this file: read the difference before you keep it.\n"
)
_SEEN_AGAIN = ("metrics", "log", "config")  # sources that a scene answers anew


@dataclass(frozen=True, slots=True)
class Replayed:
    """One replay. `before` is None for a case study without an accepted verdict; `problem` says what is missing."""

    id: str
    kind: str  # incident | case
    before: Sentence | None
    now: Sentence | None
    problem: str = ""

    @property
    def changed(self) -> bool:
        return self.before is not None and self.before != self.now


def session_of(record: Record, library: Library, run: Run | None = None) -> Session:
    """The session of a record, to be replayed or gone on with. With `run`, the detectors look at it again."""
    session = Session(library.book, library.tables, size_of(record))
    if run is not None:
        session.observe(look(run, library.book).evidence)
    for doc in record.moves:
        if run is not None and doc.kind == "observed" and doc.source in _SEEN_AGAIN:
            continue
        session.moves.append(_move(doc))
    return session


def size_of(record: Record) -> RunSize:
    """GPUs and step time that the diagnosis reckoned with; ordinary ones where the record does not say."""
    told: Any = record.run.get("size")
    default = RunSize()
    try:
        gpus, seconds = int(told["gpus"]), float(told["step_seconds"])
        if gpus < 1 or not 0 < seconds < 1e6:
            return default
        return RunSize(gpus, seconds, bool(told.get("known", False)))
    except (TypeError, ValueError, KeyError, AttributeError, OverflowError):
        return default


def _move(doc: MoveDoc) -> Move:
    evidence = None
    if doc.state is not None:
        origin = Origin(doc.at.file, doc.at.line) if doc.at is not None else None
        likelihood = tuple(doc.likelihood) if doc.likelihood is not None else None
        evidence = Evidence(
            doc.signal,
            doc.state,
            doc.source,  # type: ignore[arg-type]
            doc.because,
            doc.step,
            doc.rank,
            doc.confidence,
            origin,
            likelihood,
        )
    cost = Cost(doc.minutes, doc.gpu_hours, doc.total) if doc.paid else None
    return Move(doc.kind, doc.signal, evidence, cost)


def sentence_of(session: Session) -> Sentence:
    """What the session says now."""
    return verdict_of(session, session.diagnosis(explained=False)).sentence


def replay_incident(record: Record, library: Library, store: Store | None) -> Replayed:
    """One incident again; a missing or damaged scene is told, and the evidence as recorded is taken instead."""
    run, problem = None, ""
    ref = record.artifact("scene")
    if ref is not None and store is not None:
        try:
            run = scene_of(store, ref)
        except PlaybookError as error:
            problem = f"{error}; replayed from the recorded evidence"
    now = sentence_of(session_of(record, library, run))
    return Replayed(record.id, "incident", record.accepted or record.verdict.sentence, now, problem)


def replay_case(case_id: str, library: Library, accepted: dict[str, Sentence]) -> Replayed:
    """One case study of the book again."""
    path = library.book.files["cases", case_id]
    case = read_case(path)
    session = play(start(case, library.book, library.tables, path.parent), case)
    return Replayed(case_id, "case", accepted.get(case_id), sentence_of(session))


def replay(
    library: Library,
    store: Store | None,
    ids: Sequence[str] = (),
    progress: Callable[[str], None] | None = None,
) -> list[Replayed]:
    """Replay the named incidents and case studies; without names, all. Raises `PlaybookError` for an unknown id."""
    accepted = read_verdicts(library.book)
    cases = [i for i in ids if i in library.book.cases] if ids else sorted(library.book.cases)
    named = [i for i in ids if i not in library.book.cases]
    results = []
    if store is None and named:
        raise PlaybookError(
            named[0], "is no case study, and there is no store of incidents", "see `playbook incident list`"
        )
    if store is not None and (named or not ids):
        damaged: list[Problem] = []
        for record in store.records(named or None, damaged):
            if progress is not None:
                progress(record.id)
            results.append(replay_incident(record, library, store))
        results += [Replayed(p.where, "incident", None, None, f"cannot be replayed: {p.what}") for p in damaged]
    for case_id in cases:
        if progress is not None:
            progress(case_id)
        results.append(replay_case(case_id, library, accepted))
    return results


def gone(book: Book) -> list[str]:
    """Case studies with an accepted verdict that the book no longer has."""
    return sorted(set(read_verdicts(book)) - set(book.cases))


def read_verdicts(book: Book) -> dict[str, Sentence]:
    """The accepted verdicts of all packs, later over earlier."""
    from pydantic import ValidationError

    from playbook.incidents.record import Sentence

    found: dict[str, Sentence] = {}
    for folder in book.folders:
        path = folder / VERDICTS
        if not path.is_file():
            continue
        data = parse_yaml(path.read_text("utf-8"), str(path)) or {}
        if not isinstance(data, dict):
            raise PlaybookError(str(path), "is no table of verdicts", "write it anew: `playbook replay --accept`")
        for case_id, said in data.items():
            try:
                found[str(case_id)] = Sentence.model_validate(said)
            except ValidationError:
                raise PlaybookError(
                    str(path), f"{case_id}: is no verdict", "write it anew: `playbook replay --accept`"
                ) from None
    return found


def accept(results: Iterable[Replayed], library: Library, store: Store | None) -> list[Path]:
    """Keep what was said now as what is expected. Returns the files of verdicts that were written."""
    done = [r for r in results if r.now is not None]
    for result in done:
        if result.kind == "incident" and result.changed and store is not None:
            store.change(result.id, lambda record, now=result.now: record.model_copy(update={"accepted": now}))  # type: ignore[misc]
    return write_verdicts({r.id: r.now for r in done if r.kind == "case" and r.now is not None}, library.book)


def write_verdicts(said: dict[str, Sentence], book: Book) -> list[Path]:
    """Each verdict into the pack that its case study lives in; verdicts of cases that are gone are dropped."""
    kept = read_verdicts(book)
    written = []
    for folder in book.folders:
        own = [c for c in sorted(book.cases) if book.files["cases", c].is_relative_to(folder)]
        rows = {c: said.get(c) or kept.get(c) for c in own}
        lines = [f"{c}: {_flow(s)}\n" for c, s in rows.items() if s is not None]
        path = folder / VERDICTS
        if not lines or not any(c in said for c in own):
            continue
        try:
            path.write_text(_HEAD + "".join(lines), "utf-8")
        except OSError as error:
            raise PlaybookError(str(path), f"cannot be written: {error.strerror}", "accept in a checkout") from None
        written.append(path)
    return written


def _flow(said: Sentence) -> str:
    """One verdict in one line of YAML, without what is empty."""
    data: dict[str, Any] = said.model_dump(by_alias=True)
    parts = [
        f"{key}: {str(v).lower() if isinstance(v, bool) else v}" for key, v in data.items() if v not in (None, False)
    ]
    return "{" + ", ".join(parts) + "}"
