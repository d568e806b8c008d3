"""A `Record` apart into table rows, and rows together into a `Record`. Nothing is lost either way."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pydantic import ValidationError

from playbook.errors import PlaybookError
from playbook.incidents.record import Record, tidy

# What the search reads of one incident, at most: a log of a million lines would only slow it down.
WORDS_LIMIT = 6_000

_OWN = ("id", "title", "status", "opened_at", "closed_at", "cause", "cause_class", "layer", "confirmed_by")


@dataclass(frozen=True, slots=True)
class Split:
    """How one list of the document becomes rows of a table and back: field of `Record`, columns, JSON columns."""

    field: str
    columns: tuple[str, ...]
    packed: Mapping[str, tuple[str, ...]]  # JSON column -> fields in it

    def apart(self, record: Record) -> list[dict[str, Any]]:
        found = []
        for item in getattr(record, self.field):
            data = item.model_dump(mode="json", by_alias=True)
            row = {name: data[name] for name in self.columns}
            row |= {column: dumps({n: data[n] for n in names}) for column, names in self.packed.items()}
            found.append(row)
        return found

    def together(self, found: Sequence[Any]) -> list[dict[str, Any]]:
        items = []
        for row in found:
            data = {name: getattr(row, name) for name in self.columns}
            for column in self.packed:
                data |= json.loads(getattr(row, column))
            items.append(data)
        return items


CHILDREN: dict[str, Split] = {
    "move": Split(
        "moves",
        ("kind", "signal", "state", "source", "because", "step", "minutes", "gpu_hours"),
        {"belief": ("top", "unknown"), "extra": ("rank", "confidence", "likelihood", "total", "paid", "at")},
    ),
    "timeline": Split(
        "timeline",
        ("kind", "text", "step", "time"),
        {"extra": ("last_step", "rank", "source", "by", "numbers", "place")},
    ),
    "treatment": Split("treatments", ("fix", "outcome", "note", "at"), {}),
    "link": Split("links", ("url", "title"), {}),
    "artifact": Split("artifacts", ("name", "kind", "sha256", "size", "note"), {}),
}
_DETAIL = ("format", "verdict", "accepted", "context", "run", "losses", "answers", "notes", "versions")


def dumps(value: Any) -> str:
    """Canonical JSON text."""
    return json.dumps(tidy(value), ensure_ascii=False, sort_keys=True, separators=(",", ":"), allow_nan=False)


def incident(record: Record) -> dict[str, Any]:
    """The row of the incident itself."""
    first = record.verdict.first
    data = record.model_dump(mode="json", by_alias=True)
    return {name: data[name] for name in _OWN} | {
        "symptom": record.verdict.symptom,
        "onset_step": record.verdict.onset_step,
        "verdict": record.verdict.word,
        "decided": record.verdict.decided,
        "first_cause": first.id if first else None,
        "first_class": first.class_ if first else None,
        "first_layer": first.layer if first else None,
        "first_probability": first.probability if first else None,
        "gpus": record.losses.gpus,
        "hours_lost": record.losses.hours,
        "cost_usd": record.losses.usd,
        "minutes": record.minutes,
        "gpu_hours": record.gpu_hours,
        "questions": len(record.asked),
        "facts": dumps(record.facts),
        "words": words(record),
        "detail": dumps({name: data[name] for name in _DETAIL}),
    }


def words(record: Record) -> str:
    """What a search may find an incident by, in lower case."""
    verdict = record.verdict
    parts: list[str | None] = [
        record.title, record.id, verdict.symptom, record.cause, record.cause_class, record.layer, record.confirmed_by,
        *(f"{r.id} {r.title}" for r in verdict.causes[:3]),
        *record.answers.values(), *record.notes,
        *(f"{t.fix} {t.note}" for t in record.treatments),
        *(f"{x.title} {x.url}" for x in record.links),
        *(a.name for a in record.artifacts),
        *(f"{s} {o}" for s, o in record.facts.items()),
        *(m.because for m in record.moves),
        *(h.text for h in record.timeline),
    ]  # fmt: skip
    return "\n".join(dict.fromkeys(p for p in parts if p))[:WORDS_LIMIT].lower()


def record(parent: Any, children: Mapping[str, Sequence[Any]]) -> Record:
    """One row of `incident` and its children -> the document. Raises `PlaybookError` for rows changed by hand."""
    try:
        data = {name: getattr(parent, name) for name in _OWN} | json.loads(parent.detail)
        data |= {split.field: split.together(children[name]) for name, split in CHILDREN.items()}
        return Record.model_validate(data)
    except (ValidationError, ValueError, KeyError, TypeError) as error:
        what = str(error).splitlines()[0]
        raise PlaybookError(str(parent.id), f"its rows are damaged: {what}", "restore a copy of the store") from None
