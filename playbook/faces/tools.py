"""What a language model may call: read files, diagnose, ask for the next question, look into the book. Plain functions.

Every function gives plain data of bounded size and raises `PlaybookError` with one line. Files are read only below the
given folders; nothing is written, except by `record` where that was allowed.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from playbook.errors import PlaybookError
from playbook.workflow.book import Library
from playbook.workflow.ingest import Ingested
from playbook.workflow.ingest import ingest as read_and_look
from playbook.workflow.session import Session

if TYPE_CHECKING:
    from playbook.engine.diagnosis import Diagnosis

CAUSES = 6  # with reasons
REASONS = 5  # for and against, of one cause
HITS = 20
FILES = 200  # told of
LINES = 60  # of a field of an entry; longer texts are cut

Document = dict[str, Any]


@dataclass(frozen=True)
class Tools:
    """The functions over one book. `roots` are the folders below which files may be read."""

    library: Library
    roots: tuple[Path, ...]
    db: str | None = None

    def ingest(self, paths: Sequence[str], mapping: Mapping[str, str] | None = None) -> Document:
        """What is in metric files, logs and configurations, and whether there is an incident."""
        from playbook.faces.documents import ingest_document

        found = self._read(paths, mapping)
        document = ingest_document(found, self._session(found))
        document["run"]["files"] = document["run"]["files"][:FILES]
        return document

    def diagnose(
        self,
        paths: Sequence[str] = (),
        answers: Mapping[str, str] | None = None,
        mapping: Mapping[str, str] | None = None,
        gpus: int | None = None,
    ) -> Document:
        """Ranked causes with reasons, first aid, repairs and the next question, from files and answers."""
        from playbook.faces.documents import diagnose_document

        found, session = self._walked(paths, answers, mapping, gpus)
        diagnosis = session.diagnosis()
        document = diagnose_document(found, session, diagnosis, None)
        document["run"]["files"] = document["run"]["files"][:FILES]
        document["causes"] = [
            cause
            | {"for": cause["for"][:REASONS], "against": cause["against"][:REASONS], "variants": cause["variants"][:3]}
            for cause in document["causes"][:CAUSES]
        ]
        document["ruled_out"] = document["ruled_out"][:HITS]
        document["first_aid"] = self._titled(document["first_aid"])
        document["fixes"] = self._titled(document["fixes"][:CAUSES])
        document["trial"] = self._trial(diagnosis)
        return document

    def _titled(self, fixes: Sequence[str]) -> list[Document]:
        known = self.library.book.fixes
        return [{"id": fix, "title": known[fix].title} for fix in fixes if fix in known]

    def _trial(self, diagnosis: Diagnosis) -> Document | None:
        """The repair that is better tried than asked about, with its title and how its success shows."""
        from playbook.faces.documents import trial_document

        found = trial_document(diagnosis)
        if found is None:
            return None
        fix = self.library.book.fixes[found["fix"]]
        return found | {"title": fix.title, "cured": fix.cured, "not_cured": fix.not_cured}

    def next_question(
        self,
        paths: Sequence[str] = (),
        answers: Mapping[str, str] | None = None,
        mapping: Mapping[str, str] | None = None,
        gpus: int | None = None,
    ) -> Document:
        """The observation that is most worth its cost now, how to make it, and what it may show."""
        _, session = self._walked(paths, answers, mapping, gpus)
        diagnosis = session.diagnosis()
        best = diagnosis.next
        leading = [{"id": c.id, "title": c.title, "probability": round(c.probability, 4)} for c in diagnosis.causes[:3]]
        if best is None:
            return {"next": None, "decided": diagnosis.decided, "healthy": diagnosis.healthy, "causes": leading}
        entry = session.book.signals[best.signal]
        return {
            "next": {
                "signal": best.signal,
                "question": entry.question,
                "how": entry.how,
                "commands": [{"run": c.run, "expect": c.expect, "mutates": c.mutates} for c in entry.commands],
                "outcomes": dict(entry.outcomes),
                "cost_minutes": round(best.cost.minutes, 1),
                "gpu_hours": round(best.cost.gpu_hours, 3),
                "danger": entry.danger,
                "gain_bits": round(best.gain, 3),
            },
            "then": [option.signal for option in diagnosis.plan[1:4]],
            "trial": self._trial(diagnosis),
            "decided": diagnosis.decided,
            "healthy": diagnosis.healthy,
            "causes": leading,
        }

    def search(self, query: str, most: int = 10) -> list[Document]:
        """Entries of the book in which every word of the query occurs, best first."""
        from playbook.workflow.search import search

        hits = search(self.library.book, query, max(1, min(most, HITS)))
        return [{"kind": h.kind, "id": h.id, "title": h.title, "line": h.line} for h in hits]

    def entry(self, id: str) -> Document:
        """One entry of the book, whole: a symptom, signal, cause, fix, case, question or checklist."""
        for kind, entries in self.library.book.entries.items():
            if id in entries:
                return {
                    "kind": kind,
                    **_short(entries[id].model_dump(by_alias=True, mode="json", exclude_defaults=True)),
                }
        from playbook.workflow.session import did_you_mean

        known = [name for entries in self.library.book.entries.values() for name in entries]
        raise PlaybookError(id, "is no entry of the book", did_you_mean(id, known))

    def record(
        self,
        paths: Sequence[str] = (),
        answers: Mapping[str, str] | None = None,
        mapping: Mapping[str, str] | None = None,
        title: str | None = None,
    ) -> Document:
        """Store the diagnosis as an open incident."""
        from playbook.workflow.records.record import record

        found, session = self._walked(paths, answers, mapping, None)
        return {"incident": record(session, found, session.diagnosis(), self.db, title)}

    def _walked(
        self,
        paths: Sequence[str],
        answers: Mapping[str, str] | None,
        mapping: Mapping[str, str] | None,
        gpus: int | None,
    ) -> tuple[Ingested | None, Session]:
        from dataclasses import replace

        if not paths and not answers:
            raise PlaybookError("diagnose", "nothing is known", "give paths, or answers such as loss-shape")
        found = self._read(paths, mapping) if paths else None
        session = self._session(found)
        if gpus:
            session.size = replace(session.size, gpus=gpus)
        for signal, state in (answers or {}).items():
            session.answer(str(signal).strip(), str(state).strip(), free=True)
        return found, session

    def _session(self, found: Ingested | None) -> Session:
        session = Session(self.library.book, self.library.tables)
        if found is not None:
            session.size = found.size
            session.observe(found.evidence)
        return session

    def _read(self, paths: Sequence[str], mapping: Mapping[str, str] | None) -> Ingested:
        """Read files below the roots. `mapping` is metric -> column, as in `--map`."""
        from playbook.readers import walk

        given = [str(path) for path in paths]
        for path in given:
            if path == "-":
                raise PlaybookError("-", "is not read here", "give the path of a file or folder")
        whole = [path if Path(path).is_absolute() else str(self.roots[0] / path) for path in given]
        for path in whole:
            # A file by where it really is, a pattern by the folder before its first sign.
            plain = re.split(r"[*?\[]", path, maxsplit=1)
            self._below(Path(path) if len(plain) == 1 else Path(plain[0]).parent / "x", path)
        for item in walk.files(whole):
            self._below(item.path, item.name)
        return read_and_look(whole, self.library.book, {column: metric for metric, column in (mapping or {}).items()})

    def _below(self, path: Path, shown: str) -> None:
        real = Path(os.path.realpath(path))
        if not any(real.is_relative_to(root) for root in self.roots):
            named = ", ".join(str(root) for root in self.roots)
            raise PlaybookError(shown, f"is not below {named}", "start `playbook mcp` with --root DIR for it")


def _short(value: Any) -> Any:
    """Texts cut to a sane length, everywhere inside."""
    if isinstance(value, dict):
        return {key: _short(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_short(item) for item in value[:100]]
    if isinstance(value, str) and value.count("\n") > LINES:
        return "\n".join(value.split("\n")[:LINES]) + "\n..."
    return value
