"""Case files: read, checked, and played as an investigator who knows the case would answer."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from playbook.engine.tables import Tables
from playbook.engine.value import RunSize
from playbook.errors import PlaybookError, Problem, only_file, reason
from playbook.findings import Evidence
from playbook.knowledge.loader import Book, parse_yaml
from playbook.workflow.ingest import ingest
from playbook.workflow.session import UNKNOWN, Session

# Circumstances that people name in passing: signal -> the parts of a context that may hold the word.
_IN_PASSING = {
    "batchnorm-in-model": ("framework", "model", "task"),
    "moe-in-model": ("framework", "model", "task"),
    "software": ("framework",),
    "task": ("task", "model", "framework"),
    "parallelism": ("framework",),
}

_MEND = "a case file is YAML with id, causes and answers"
_CASE = re.compile(r"""^(?:\{[^\n]*?)?["']?(?:answers|causes)["']?\s*:""", re.MULTILINE)

MAX_QUESTIONS = 300  # a bound, not a goal: the stop rule ends a diagnosis before, most answers being "unknown"


class CaseFile(BaseModel):
    """The contract's case file. Further keys are allowed: packs may tell more about a case."""

    model_config = ConfigDict(extra="ignore", frozen=True, coerce_numbers_to_str=True)

    id: str
    title: str = ""
    context: dict[str, Any] = {}
    given: list[str] = []
    answers: dict[str, str] = {}
    metrics: list[str] = []
    causes: list[str] = Field(min_length=1)
    sources: list[str] = []
    split: str | None = None


Told = TypeVar("Told", bound=CaseFile)


def read_case(path: Path) -> CaseFile:
    """One case file. Raises `PlaybookError` with file and line."""
    text = _text(path)
    data = parse_yaml(text, str(path))
    if not isinstance(data, dict):
        raise PlaybookError(str(path), "is no case file", _MEND, 1)
    data.setdefault("id", path.stem)
    try:
        return CaseFile.model_validate({key: value for key, value in data.items() if value is not None})
    except ValidationError as error:
        fault = error.errors()[0]
        place = ".".join(str(part) for part in fault["loc"])
        raise PlaybookError(
            str(path), f"{place}: {fault['msg']}", "see the case file format in the README", _line(text, place)
        ) from None


def _text(path: Path) -> str:
    try:
        return only_file(path).read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise PlaybookError(str(path), f"cannot be read: {reason(error)}", "name a case file (YAML)") from None


def _line(text: str, place: str) -> int | None:
    key = place.split(".")[0]
    return next((n for n, line in enumerate(text.splitlines(), 1) if line.startswith(f"{key}:")), 1)


def read_lines(path: Path, kind: type[Told]) -> tuple[Told, ...]:
    """Case files, one JSON object a line; an id stands once. Raises `PlaybookError` with file and line."""
    found: dict[str, Told] = {}
    for number, line in enumerate(_text(path).splitlines(), 1):
        if not line.strip():
            continue
        try:
            case = kind.model_validate(json.loads(line))
        except ValueError as error:
            what = str(error).splitlines()[0]
            mend = "a line holds one case as a JSON object with id, causes and answers"
            raise PlaybookError(str(path), f"is no case file: {what}", mend, number) from None
        if case.id in found:
            raise PlaybookError(str(path), f"{case.id!r} stands twice", "keep one of the two", number)
        found[case.id] = case
    return tuple(found.values())


def read_cases(
    folder: Path, split: str | None = None, passed: Callable[[Problem], None] = lambda problem: None
) -> list[tuple[Path, CaseFile]]:
    """All case files of a folder and below it (or one file, YAML or JSON lines), by name; `split`: only those of this
    half.

    A folder holds other YAML too (a configuration beside the metrics): `passed` is told of each. Raises `PlaybookError`
    for a file that is meant as a case and is none, and where there are no cases at all.
    """
    if folder.is_file():
        lines = folder.suffix == ".jsonl"
        found = [(folder, case) for case in read_lines(folder, CaseFile)] if lines else [(folder, read_case(folder))]
    elif folder.is_dir():
        found = []
        for path in sorted(p for p in (*folder.rglob("*.yaml"), *folder.rglob("*.yml")) if p.is_file()):
            if _meant_as_case(path):
                found.append((path, read_case(path)))
            else:
                passed(Problem(str(path), None, "is no case file and is passed over", _MEND))
    else:
        raise PlaybookError(str(folder), "no such folder", "name a folder of case files (*.yaml)")
    if not found:
        raise PlaybookError(str(folder), "holds no case files", _MEND)
    chosen = [(path, case) for path, case in found if split in (None, case.split)]
    if not chosen:
        raise PlaybookError(str(folder), f"holds no case of the half {split}", f"a case of it says `split: {split}`")
    return chosen


def _meant_as_case(path: Path) -> bool:
    """Whether a file has what only cases have at its top: answers or causes. The text may be no YAML at all."""
    try:
        return _CASE.search(_text(path)) is not None
    except PlaybookError:
        return False


def start(
    case: CaseFile, book: Book, tables: Tables, folder: Path, cache: dict[str, list[Evidence]] | None = None
) -> Session:
    """A session with what is known at the start: context, given answers, the detectors' findings."""
    session = Session(book, tables, _size(case))
    if case.metrics:
        session.observe(_from_metrics(case, book, folder, cache))
    session.observe(Evidence(s, o, "case", "context") for s, o in context_facts(case.context, book).items())
    known = [Evidence(s, str(case.answers[s]), "case", "known at the start") for s in case.given if s in case.answers]
    session.observe(e for e in known if has_outcome(book, e.signal, e.state))
    return session


def has_outcome(book: Book, signal: str, state: str) -> bool:
    entry = book.signals.get(signal)
    return entry is not None and state in entry.outcomes


def context_facts(context: dict[str, Any], book: Book) -> dict[str, str]:
    """The context of a case that the book has signals for, in the book's words.

    One GPU means no parallelism, and the number of nodes says whether a network takes part.
    """
    facts = {}
    for name, value in sorted(context.items()):
        entry = book.signals.get(name)
        outcome = entry.outcome(value) if entry is not None else None
        if outcome is not None:
            facts[name] = outcome
    if _count(context.get("gpus")) == 1 and has_outcome(book, "parallelism", "single"):
        facts.setdefault("parallelism", "single")
    if (nodes := _count(context.get("nodes"))) and has_outcome(
        book, "nodes", state := "one" if nodes == 1 else "several"
    ):
        facts["nodes"] = state
    for name, parts in _IN_PASSING.items():
        words = " ".join(str(context[part]) for part in parts if part in context)
        entry = book.signals.get(name)
        outcome = entry.outcome(words) if entry is not None and name not in facts else None
        if outcome is not None:
            facts[name] = outcome
    return facts


def _count(value: Any) -> int:
    """A number of GPUs or nodes as written in a context; 0 where it is none."""
    try:
        return max(0, int(float(value)))
    except (TypeError, ValueError, OverflowError):
        return 0


def unmapped(case: CaseFile, book: Book) -> list[str]:
    """Answers for signals (or with outcomes) that the book lacks: reported, no error."""
    return sorted(s for s, state in case.answers.items() if not has_outcome(book, s, str(state)))


def _size(case: CaseFile) -> RunSize:
    gpus = _count(case.context.get("gpus"))
    return replace(RunSize(), gpus=gpus, known=True) if gpus else RunSize()


def _from_metrics(case: CaseFile, book: Book, folder: Path, cache: dict[str, list[Evidence]] | None) -> list[Evidence]:
    if cache is not None and case.id in cache:
        return cache[case.id]
    root = folder.resolve()
    paths = []
    for name in case.metrics:
        path = (folder / name).resolve()
        if not path.is_relative_to(root):
            raise PlaybookError(
                case.id, f"metrics file {name!r} lies outside the case's folder", "put it beside the case file"
            )
        paths.append(str(path))
    found = list(ingest(paths, book).evidence)
    if cache is not None:
        cache[case.id] = found
    return found


def play(session: Session, case: CaseFile, most: int = MAX_QUESTIONS) -> Session:
    """Ask as in a diagnosis; the case answers where it can, `unknown` elsewhere; stop where a diagnosis stops."""
    for _ in range(most):
        option = session.diagnosis(explained=False).next
        if option is None:
            break
        state = str(case.answers.get(option.signal, UNKNOWN))
        if not has_outcome(session.book, option.signal, state):
            state = UNKNOWN
        session.answer(option.signal, state, source="case")
    return session


def hits(case: CaseFile, cause: str, class_: str) -> bool:
    """Whether a cause of the book is (one of) the case's true causes, by id or by class."""
    return cause in case.causes or class_ in case.causes
