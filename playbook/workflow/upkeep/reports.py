"""Published reports and imagined scenarios as case files, one JSON object a line, and what raters judged of each.

`elicited/` of a knowledge folder holds what the opinions are fitted to:

    reports.jsonl       case files of public threads with a confirmed cause (contract: case file), each with its source;
                        `inferred` holds what a second reader inferred from the mechanism that the report describes
    unseen.jsonl        reports that no fit reads: found later, to judge with (`playbook evaluate`)
    scenarios.jsonl     case files that raters imagined, class by class, for what the published ones seldom show
    judgements.json     id of a report, scenario or case -> class -> probability, judged from its answers alone
    raters.json         signal -> {outcomes, classes: class -> share of each outcome}: judged without any report
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import Field

from playbook.errors import PlaybookError, reason
from playbook.workflow.cases import CaseFile, read_cases, read_lines

FOLDER = "elicited"
_MEND = "see the head of workflow/upkeep/reports.py"


class Report(CaseFile):
    """A case file to learn from. `inferred` holds further answers: what the report does not say in so many words and an
    investigator who knew its cause would answer."""

    inferred: dict[str, str] = Field(default_factory=dict)

    def read_twice(self) -> Report:
        """With what was inferred among its answers."""
        return self.model_copy(update={"answers": {**self.inferred, **self.answers}})


@dataclass(frozen=True, slots=True)
class Elicited:
    """What a knowledge folder offers to a fit.

    real        published reports and the development half of the case studies
    imagined    scenarios
    judged      id -> class -> probability
    raters      signal -> class -> outcome -> share, each row above 0
    """

    real: tuple[Report, ...]
    imagined: tuple[Report, ...]
    judged: dict[str, dict[str, float]]
    raters: dict[str, dict[str, dict[str, float]]]


def read_elicited(knowledge: Path) -> Elicited:
    """All of it. Raises `PlaybookError` where a file is missing or broken (with its line) or no report is held."""
    folder = knowledge / FOLDER
    cases = [case for _, case in read_cases(knowledge / "cases")]
    studies = [Report.model_validate(case.model_dump()) for case in cases if case.split == "development"]
    real = (*studies, *read_lines(folder / "reports.jsonl", Report))
    if not real:
        raise PlaybookError(str(folder), "holds no reports, and no case is of the development half", _MEND)
    imagined = read_lines(folder / "scenarios.jsonl", Report)
    judged = _mapping(folder / "judgements.json")
    raters = {
        name: {c: dict(zip(view["outcomes"], map(float, row), strict=True)) for c, row in view["classes"].items()}
        for name, view in _mapping(folder / "raters.json").items()
    }
    return Elicited(real, imagined, judged, raters)


def write_opinions(knowledge: Path, opinions: dict[str, dict[str, dict[str, float]]]) -> Path:
    """`opinions.json` of a knowledge folder: one row a line, so that a change can be read. Raises `PlaybookError`."""
    blocks = []
    for signal, rows in sorted(opinions.items()):
        outcomes = list(next(iter(rows.values())))
        lines = ",\n".join(
            f"  {json.dumps(name)}: {json.dumps([row[o] for o in outcomes])}" for name, row in rows.items()
        )
        blocks.append(f'{json.dumps(signal)}: {{"outcomes": {json.dumps(outcomes)}, "classes": {{\n{lines}}}}}')
    return _write(knowledge / "opinions.json", blocks)


def write_precedents(knowledge: Path, net: dict[str, Any]) -> Path:
    """`precedents.json` of a knowledge folder: one feature or unit a line. Raises `PlaybookError`."""
    blocks = []
    for name, value in net.items():
        if isinstance(value, list) and isinstance(value[0], list):
            rows = ",\n".join("  " + json.dumps(row, separators=(",", ":")) for row in value)
            blocks.append(f"{json.dumps(name)}: [\n{rows}]")
        else:
            blocks.append(f"{json.dumps(name)}: {json.dumps(value, separators=(',', ':'))}")
    return _write(knowledge / "precedents.json", blocks)


def _write(path: Path, blocks: list[str]) -> Path:
    try:
        path.write_text("{\n" + ",\n".join(blocks) + "\n}\n", "utf-8")
    except OSError as error:
        raise PlaybookError(str(path), f"cannot be written: {reason(error)}", "name a folder of your own") from None
    return path


def _mapping(path: Path) -> dict[str, Any]:
    try:
        data = json.loads(_text(path))
    except ValueError as error:
        raise PlaybookError(str(path), f"is no JSON: {error}", _MEND) from None
    if not isinstance(data, dict):
        raise PlaybookError(str(path), "is no mapping", _MEND)
    return data


def _text(path: Path) -> str:
    try:
        return path.read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise PlaybookError(str(path), f"cannot be read: {reason(error)}", _MEND) from None
