"""Incidents out of the house and in again: redacted bundles, and everything as JSON or CSV."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from playbook import __version__
from playbook.errors import PlaybookError, Problem
from playbook.workflow.records.shelf import shelf

if TYPE_CHECKING:
    from playbook.incidents.bundle import Bundle
    from playbook.incidents.record import ArtifactRef, Record
    from playbook.incidents.redact import Redactor
    from playbook.incidents.store import Store

CSV_COLUMNS = (
    "id", "title", "status", "opened_at", "closed_at", "symptom", "onset_step", "verdict", "decided", "first_cause",
    "first_class", "first_layer", "first_probability", "cause", "cause_class", "layer", "confirmed_by", "gpus",
    "hours_lost", "cost_usd", "minutes", "gpu_hours", "questions",
)  # fmt: skip
# Samples are somebody's text, also as token ids: they leave only when asked for.
_PRIVATE = ("batch", "capture")


@dataclass(frozen=True)
class Exported:
    """What an export wrote: incidents, what was removed (by rule), files left out with the reason."""

    path: Path
    incidents: list[str]
    removed: list[dict[str, Any]] = field(default_factory=list)
    left_out: list[str] = field(default_factory=list)


def export(
    ids: Sequence[str],
    out: Path,
    db: str | None = None,
    redacted: bool = True,
    rules: Sequence[Path] = (),
    with_batch: bool = False,
) -> Exported:
    """Write the named incidents (none named: all) as a bundle. Raises `PlaybookError`."""
    from playbook.incidents import bundle

    with shelf(db) as store:
        records = list(store.records(ids or None))
        if not records:
            raise PlaybookError("incident export", "the store holds no incidents", "record one first")
        made = redact(store, records, rules, with_batch) if redacted else _as_is(store, records)
    bundle.write(out, made)
    return Exported(out, [r.id for r in made.records], list(made.removed), list(made.left_out))


def _as_is(store: Store, records: Sequence[Record]) -> Bundle:
    from playbook.incidents.bundle import Bundle

    left_out: list[str] = []
    artifacts: dict[str, bytes] = {}
    done = []
    for record in records:
        whole = list(_fetched(store, record, left_out))
        artifacts |= {ref.sha256: data for ref, data in whole}
        done.append(record.model_copy(update={"artifacts": [ref for ref, _ in whole]}))
    return Bundle(tuple(done), artifacts, [], left_out, __version__)


def _fetched(store: Store, record: Record, left_out: list[str]) -> Iterator[tuple[ArtifactRef, bytes]]:
    """The artifacts that are there and whole; the others are told."""
    for ref in record.artifacts:
        try:
            yield ref, store.fetch(ref.sha256, ref.name)
        except PlaybookError as error:
            left_out.append(f"{record.id}/{ref.kind}: {error.problem.what}")


def verify(db: str | None = None) -> tuple[int, list[str]]:
    """(files that are whole, what is wrong with the others): every artifact read, every row put together."""
    problems: list[Problem] = []
    wrong: list[str] = []
    whole = 0
    with shelf(db) as store:
        for record in store.records(None, problems):
            whole += sum(1 for _ in _fetched(store, record, wrong))
    return whole, [str(p) for p in problems] + wrong


def redact(store: Store, records: Sequence[Record], rules: Sequence[Path] = (), with_batch: bool = False) -> Bundle:
    """Incidents and artifacts without what must not leave; the scene replays as before."""
    from playbook.incidents.bundle import Bundle
    from playbook.incidents.record import Record
    from playbook.incidents.redact import Redactor, read_rules

    redactor = Redactor(read_rules(*rules))
    left_out: list[str] = []
    kept: dict[str, list[tuple[ArtifactRef, bytes]]] = {}
    for record in records:
        redactor.learn_all(record.model_dump(mode="json", by_alias=True))
        kept[record.id] = []
        for ref, data in _fetched(store, record, left_out):
            reason = _held_back(ref, data, with_batch)
            if reason:
                left_out.append(f"{record.id}/{ref.kind}: {reason}")
                continue
            if (text := _text(data)) is not None:
                redactor.learn(text)
            kept[record.id].append((ref, data))
    artifacts: dict[str, bytes] = {}
    done = []
    for record in records:
        refs = []
        for ref, data in kept[record.id]:
            clean = _clean(ref, data, redactor)
            sha = _digest(clean)
            artifacts[sha] = clean
            refs.append({**ref.model_dump(), "sha256": sha, "size": len(clean), "name": redactor.text(ref.name)})
        document = redactor.document(record.model_dump(mode="json", by_alias=True))
        # Who confirmed it and how the answers were worded went through the rules; the files are those just cleaned.
        done.append(Record.model_validate({**document, "artifacts": refs}))
    return Bundle(tuple(done), artifacts, redactor.removed(), left_out, __version__)


def _held_back(ref: ArtifactRef, data: bytes, with_batch: bool) -> str:
    if ref.kind in _PRIVATE:
        return "" if with_batch else "samples of the training data stay here; --with-batch takes them along"
    return "" if _text(data) is not None else "no text, so nothing could be removed from it"


def _text(data: bytes) -> str | None:
    if b"\x00" in data[:65_536]:
        return None
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError:
        text = data.decode("utf-8", "replace")
        return text if text.count("�") <= len(text) // 100 else None


def _clean(ref: ArtifactRef, data: bytes, redactor: Redactor) -> bytes:
    text = _text(data)
    if text is None:
        return data  # a batch that was asked for
    try:
        if ref.kind == "scene":
            lines = [_scene_line(json.loads(line), redactor) for line in text.split("\n") if line]
            dumped = (json.dumps(x, ensure_ascii=False, separators=(",", ":")) for x in lines)
            return "".join(f"{x}\n" for x in dumped).encode("utf-8", "replace")
        if ref.name.endswith(".json"):
            clean = redactor.document(json.loads(text))
            return (json.dumps(clean, ensure_ascii=False, indent=1) + "\n").encode("utf-8", "replace")
    except (ValueError, RecursionError):
        pass  # not what its name says: a text like any other
    return redactor.text(text).encode("utf-8", "replace")


def _scene_line(line: Any, redactor: Redactor) -> Any:
    """One line of a scene; numbers are let alone, the file that a series came from is a path."""
    if not isinstance(line, dict):
        return redactor.document(line)
    numbers = {name: line[name] for name in ("steps", "values", "lines") if name in line}
    rest = redactor.document({k: v for k, v in line.items() if k not in numbers and k != "origin"})
    origin = line.get("origin")
    if isinstance(origin, list) and origin:
        rest["origin"] = [redactor.document({"file": origin[0]})["file"], *origin[1:]]
    return {name: numbers.get(name, rest.get(name)) for name in line}


def _digest(data: bytes) -> str:
    from playbook.incidents.artifacts import digest

    return digest(data)


@dataclass(frozen=True)
class Imported:
    """What an import did."""

    added: list[str]
    replaced: list[str]
    already: list[str]
    removed: list[dict[str, Any]]


def import_bundle(path: Path, db: str | None = None, replace: bool = False) -> Imported:
    """Check a bundle whole, then store it. An incident that is here already and differs needs `replace`."""
    from playbook.incidents.bundle import read

    bundle = read(path)
    with shelf(db) as store:
        here = {record.id: store.find(record.id) for record in bundle.records}
        differs = [r.id for r in bundle.records if here[r.id] not in (None, r)]
        if differs and not replace:
            raise PlaybookError(differs[0], "is here already and differs", "import with --replace to take the new one")
        for data in bundle.artifacts.values():
            store.keep(data)
        fresh = [r for r in bundle.records if here[r.id] != r]
        replaced = store.put(fresh) if fresh else []
    added = [r.id for r in fresh if r.id not in replaced]
    already = [r.id for r in bundle.records if here[r.id] == r]
    return Imported(added, replaced, already, bundle.removed)


def as_csv(db: str | None = None) -> str:
    """All incidents as CSV, oldest first. A cell never begins like a formula of a spreadsheet."""
    buffer = io.StringIO()
    writer = csv.writer(buffer, lineterminator="\n")
    writer.writerow(CSV_COLUMNS)
    with shelf(db) as store:
        for row in reversed(store.summaries()):
            writer.writerow([_cell(row[name]) for name in CSV_COLUMNS])
    return buffer.getvalue()


def _cell(value: Any) -> Any:
    if isinstance(value, str) and value[:1] in ("=", "+", "-", "@", "\t"):
        return "'" + value
    return value


def as_json(db: str | None = None) -> list[dict[str, Any]]:
    """All incidents as documents, oldest first."""
    from playbook.incidents.record import document

    with shelf(db) as store:
        return [document(record) for record in store.records()]
