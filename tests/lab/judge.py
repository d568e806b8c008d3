"""How the whole chain judges the lab's runs: verdict, symptom, onset, and the place of the true class among the causes.

`python -m tests.lab.judge [NAME...] [-v]` prints the table; `judge()` is what the tests hold to their bars. Only the
metrics and the configuration of a run are known here, as in `playbook diagnose RUN --no-input`.
"""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from playbook.workflow.book import Library, open_book
from playbook.workflow.ingest import Ingested, ingest
from playbook.workflow.session import Session

RUNS = Path(__file__).parent / "runs"
NEAR = 0.02  # of the run's steps: how far a given onset may be missed
FIRST = 3  # causes of the ranking in which the true class must be


@dataclass(frozen=True)
class Judged:
    """One run and what was made of it. `rank` is the place (from 1) of the true class or a look-alike; 0 if healthy."""

    name: str
    verdict: str
    symptom: str
    step: int | None
    ranked: tuple[tuple[str, str, float], ...]
    decided: bool
    truth: dict[str, Any] = field(default_factory=dict)

    @property
    def visible(self) -> bool:
        return bool(self.truth) and "healthy" not in self.truth["symptoms"]

    @property
    def rank(self) -> int:
        right = {self.truth["class"], *self.truth.get("looks_like", ())}
        return next((k for k, (_, name, _) in enumerate(self.ranked, 1) if name in right), 0)

    @property
    def faults(self) -> list[str]:
        """What is wrong with the judgement, in words; empty where all is right."""
        if not self.truth:
            return [] if self.verdict == "healthy" else [f"{self.verdict}: {self.symptom} at {self.step}"]
        out = []
        if self.visible and self.verdict != "incident":
            out.append(f"verdict {self.verdict}")
        elif self.verdict != "healthy" and self.symptom not in self.truth["symptoms"]:
            out.append(f"symptom {self.symptom}")
        onset = self.truth["onset"]
        near = NEAR * self.truth["steps"]
        missed = onset is not None and (self.step is None or abs(self.step - onset) > near)
        if self.visible and self.verdict == "incident" and missed:
            out.append(f"onset {self.step}, not {onset}")
        return out


@cache
def library() -> Library:
    return open_book()


def look(folder: Path) -> Ingested:
    return ingest([str(folder)], library().book)


def judge(folder: Path, truth: dict[str, Any] | None = None) -> Judged:
    """Ingest and diagnose one run."""
    found = look(folder)
    session = Session(library().book, library().tables, size=found.size)
    session.observe(found.evidence)
    diagnosis = session.diagnosis(explained=False)
    shape = found.symptom
    ranked = tuple((c.id, c.class_, c.probability) for c in diagnosis.causes)
    return Judged(
        folder.name,
        found.verdict,
        shape.state if shape else "healthy",
        shape.step if shape else None,
        ranked,
        diagnosis.decided,
        dict(truth or {}),
    )


def truths() -> dict[str, dict[str, Any]]:
    found: dict[str, dict[str, Any]] = json.loads((RUNS / "truth.json").read_text())
    return found


def folders(only: list[str]) -> list[tuple[Path, dict[str, Any] | None]]:
    """Every stored run with its truth (None for a healthy one), or those of the named families or runs."""
    truth = truths()
    found: list[tuple[Path, dict[str, Any] | None]] = [(p, None) for p in sorted((RUNS / "healthy").iterdir())]
    found += [(p, truth[p.name]) for p in sorted((RUNS / "faulty").iterdir())]
    return [(p, t) for p, t in found if not only or p.name in only or p.name.rsplit("-", 1)[0] in only]


def main(args: list[str]) -> None:
    loud = "-v" in args
    judged = []
    for folder, truth in folders([a for a in args if not a.startswith("-")]):
        found = judge(folder, truth)
        judged.append(found)
        if not truth and not found.faults:
            continue
        tops = " ".join(f"{id_}:{p:.2f}" for id_, _, p in found.ranked[:3])
        place = "-" if not truth or not found.visible else str(found.rank)
        wrong = "; ".join(found.faults)
        print(f"{found.name:28} {found.symptom:18} {found.step!s:>6} {place:>3}  {wrong:34} {tops}")
        if loud:
            for e in look(folder).evidence:
                print(f"      {e.signal:28} {e.state:18} {e.confidence:.2f} {e.step!s:>6} {e.because[:130]}")
    told(judged)


def told(judged: list[Judged]) -> None:
    seen = [j for j in judged if j.visible]
    hits = [j for j in seen if 1 <= j.rank <= FIRST]
    firsts = [j for j in seen if j.rank == 1]
    healthy = [j for j in judged if not j.truth]
    print(f"{len(healthy)} healthy runs, {sum(bool(j.faults) for j in healthy)} with an alarm")
    if seen:
        print(
            f"{len(seen)} visible faults, {sum(bool(j.faults) for j in seen)} misjudged; true class first in "
            f"{len(firsts) / len(seen):.1%}, among the first {FIRST} in {len(hits) / len(seen):.1%}"
        )
        strict = [j for j in seen if j.truth["class"] in [name for _, name, _ in j.ranked[:FIRST]]]
        print(f"without look-alikes among the first {FIRST} in {len(strict) / len(seen):.1%}")


if __name__ == "__main__":
    main(sys.argv[1:])
