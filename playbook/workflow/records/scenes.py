"""The scene and the files of an incident: thinned as far as the detectors still say the same, then kept by hash."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from playbook.findings import Evidence
from playbook.incidents.scene import freeze, points, thaw, thin
from playbook.knowledge.loader import Book
from playbook.series import Run
from playbook.workflow.ingest import Ingested, look

if TYPE_CHECKING:
    from playbook.incidents.record import ArtifactRef
    from playbook.incidents.store import Store

# (points kept whole around the onset, stretches elsewhere), tried in this order; then the whole run.
LEVELS = ((500, 200), (5_000, 2_000), (50_000, 10_000))
POINTS = 2_000_000  # of all series together, some 40 MB of text
FILE_LIMIT = 2_000_000  # bytes of a log or configuration that are kept; a longer log loses its middle
FILES = 20
_TEXT = {".log", ".txt", ".out", ".err", ".json", ".yaml", ".yml", ".toml", ".cfg", ".ini"}


def freeze_scene(found: Ingested, book: Book) -> bytes:
    """The smallest scene on which the detectors say what they said about the run.

    Where only a scene beyond `POINTS` would do, the largest below it is kept: a replay then says what it sees in it.
    """
    wanted = said(found.evidence)
    onset = found.symptom.step if found.symptom is not None else None
    kept: bytes | None = None
    for around, buckets in LEVELS:
        small = thin(found.run, onset, around, buckets)
        if kept is not None and points([small]) > POINTS:
            return kept
        kept = freeze(small, around=around, buckets=buckets)
        if said(look(thaw(kept), book).evidence) == wanted:
            return kept
    return freeze(found.run) if kept is None or points([found.run]) <= POINTS else kept


def said(evidence: tuple[Evidence, ...]) -> list[tuple[str, str, int | None]]:
    """What a verdict hangs on: signal, state, step."""
    return [(e.signal, e.state, e.step) for e in evidence]


def keep(store: Store, found: Ingested, book: Book) -> list[ArtifactRef]:
    """Store the scene and the files that were read (logs cut to size); their references."""
    from playbook.incidents.record import ArtifactRef

    scene = freeze_scene(found, book)
    refs = [ArtifactRef(name="scene.jsonl", kind="scene", sha256=store.keep(scene), size=len(scene))]
    names: set[str] = {"scene.jsonl"}
    for report in found.run.files[:FILES]:
        path = Path(report.path)
        if path.suffix.lower() in _TEXT and path.is_file():
            refs.append(keep_file(store, path, "config" if _is_config(path) else "log", names))
    return refs


def _is_config(path: Path) -> bool:
    return path.suffix.lower() in (".json", ".yaml", ".yml", ".toml", ".cfg", ".ini")


def keep_file(store: Store, path: Path, kind: str, names: set[str], limit: int = FILE_LIMIT) -> ArtifactRef:
    """Store one file; a longer text loses its middle, with a line that says so."""
    from playbook.incidents.record import ArtifactRef, tidy

    data, cut = cut_to_size(path, limit)
    name = tidy(path.name)
    stem, place = name, 2
    while name in names:
        name, place = f"{place}-{stem}", place + 1
    names.add(name)
    note = f"{cut} bytes of the middle left out" if cut else ""
    return ArtifactRef(name=name, kind=kind, sha256=store.keep(data), size=len(data), note=note)  # type: ignore[arg-type]


def cut_to_size(path: Path, limit: int) -> tuple[bytes, int]:
    """(bytes, number of bytes left out): the head and the tail of a file that is longer than `limit`."""
    size = path.stat().st_size
    with path.open("rb") as file:
        if size <= limit:
            return file.read(limit), 0
        head = file.read(limit // 2)
        file.seek(size - limit // 2)
        tail = file.read(limit // 2)
    head = head[: head.rfind(b"\n") + 1] or head
    tail = tail[tail.find(b"\n") + 1 :] or tail
    cut = size - len(head) - len(tail)
    return head + f"... {cut} bytes left out ...\n".encode() + tail, cut


def scene_of(store: Store, ref: ArtifactRef) -> Run:
    """The run of a kept scene, verified."""
    return thaw(store.fetch(ref.sha256, ref.name), ref.name)
