"""One incident as a document: what `show --json` prints, what a bundle carries, what the tables store and give back.

Plain values only (pydantic, because bundles come from strangers). Times are UTC text such as `2026-03-04T05:06:07Z`, so
that both databases keep and sort them alike; order inside an incident is that of the lists, never that of the clock.
"""

from __future__ import annotations

import math
import re
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from playbook.errors import PlaybookError

FORMAT = 1  # of the document; a bundle of a higher one is refused
ID_PATTERN = r"^[A-Za-z0-9][A-Za-z0-9._-]{0,79}$"

Status = Literal["open", "closed", "false-alarm"]
Outcome = Literal["cured", "not-cured", "unclear", "pending"]
ArtifactKind = Literal["scene", "log", "config", "batch", "capture", "metrics", "other"]
_Share = Annotated[float, Field(ge=0, le=1)]
_Amount = Annotated[float, Field(ge=0, le=1e12)]
_Int64 = Annotated[int, Field(ge=-(2**63), lt=2**63)]


class _Doc(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


class Place(_Doc):
    """File and line that something was read from."""

    file: str
    line: _Int64 | None = None


class MoveDoc(_Doc):
    """One step of the diagnosis with its price, and the belief after it: `top` holds [cause, probability] pairs."""

    kind: Literal["observed", "answered", "closed", "retracted", "tried"]  # tried: a repair in vain, `signal` names it
    signal: str
    state: str | None = None
    source: str = ""
    because: str = ""
    step: _Int64 | None = None
    rank: _Int64 | None = None
    confidence: _Share = 1.0
    likelihood: list[tuple[str, _Share]] | None = None
    minutes: _Amount = 0.0
    gpu_hours: _Amount = 0.0
    total: _Amount = 0.0
    paid: bool = False  # whether the move has a price at all
    at: Place | None = None
    top: list[tuple[str, float]] = []
    unknown: float | None = None


class Happening(_Doc):
    """One line of the timeline: a finding, an event of the log, a change point, something that a person did."""

    kind: Literal["finding", "event", "change", "note", "action"]
    text: str
    step: _Int64 | None = None
    last_step: _Int64 | None = None
    time: str | None = None
    rank: _Int64 | None = None
    source: str = ""  # the detector, or the kind of the event
    by: str = ""  # who did it
    numbers: dict[str, float] = {}
    place: Place | None = None


class Treatment(_Doc):
    """First aid or a repair that was tried, and what became of it."""

    fix: str
    outcome: Outcome = "pending"
    note: str = ""
    at: str = ""


class Link(_Doc):
    """Something elsewhere: a ticket, a dashboard, a pull request."""

    url: str
    title: str = ""


class ArtifactRef(_Doc):
    """A file kept with the incident, by the hash of its bytes."""

    name: str
    kind: ArtifactKind
    sha256: Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
    size: Annotated[int, Field(ge=0, lt=2**63)]
    note: str = ""


class Ranking(_Doc):
    """A cause in the verdict, with the probability of its class."""

    id: str
    title: str
    layer: str
    class_: str = Field(alias="class")
    probability: _Share
    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False, populate_by_name=True)


class Verdict(_Doc):
    """What was said when the incident was recorded."""

    word: Literal["incident", "healthy", "undecided"]
    symptom: str | None = None
    onset_step: _Int64 | None = None
    decided: bool = False
    why_undecided: str = ""
    causes: list[Ranking] = []
    coupled: list[tuple[str, str, float]] = []
    unknown: float = 0.0
    first_aid: list[str] = []
    fixes: list[str] = []

    @property
    def first(self) -> Ranking | None:
        return self.causes[0] if self.causes else None

    @property
    def sentence(self) -> Sentence:
        first = self.first
        return Sentence.model_validate(
            {
                "verdict": self.word,
                "symptom": self.symptom,
                "onset_step": self.onset_step,
                "decided": self.decided,
                "cause": first.id if first else None,
                "class": first.class_ if first else None,
            }
        )


class Sentence(_Doc):
    """The verdict in a few words: what a replay compares, and what a regression test keeps byte for byte."""

    verdict: Literal["incident", "healthy", "undecided"]
    symptom: str | None = None
    onset_step: _Int64 | None = None
    decided: bool = False
    cause: str | None = None
    class_: str | None = Field(None, alias="class")
    model_config = ConfigDict(extra="forbid", frozen=True, populate_by_name=True)


class Losses(_Doc):
    """The bill: GPUs x price x hours lost. `estimated` until a person has said how much was lost."""

    gpus: Annotated[int, Field(ge=0, lt=2**31)] = 0
    step_seconds: _Amount = 0.0
    usd_per_gpu_hour: _Amount = 0.0
    hours: _Amount = 0.0
    estimated: bool = True

    @property
    def usd(self) -> float:
        return round(self.gpus * self.usd_per_gpu_hour * self.hours, 2)


class Record(_Doc):
    """The whole incident."""

    format: Literal[1] = 1
    id: Annotated[str, Field(pattern=ID_PATTERN)]
    title: str
    status: Status = "open"
    opened_at: str
    closed_at: str | None = None
    verdict: Verdict
    accepted: Sentence | None = None  # another verdict that a later replay was accepted with
    cause: str | None = None  # confirmed: a cause id, a class, or words of one's own where the book lacks it
    cause_class: str | None = None
    layer: str | None = None
    confirmed_by: str = ""
    context: dict[str, str | int | float | bool | None] = {}
    run: dict[str, Any] = {}
    losses: Losses = Losses()
    answers: dict[str, str] = {}  # own words for the seven questions of a playbook
    notes: list[str] = []
    versions: dict[str, str] = {}
    moves: list[MoveDoc] = []
    timeline: list[Happening] = []
    treatments: list[Treatment] = []
    links: list[Link] = []
    artifacts: list[ArtifactRef] = []

    @property
    def minutes(self) -> float:
        """A person's minutes that the answers have cost."""
        return round(sum(m.minutes for m in self.moves), 2)

    @property
    def gpu_hours(self) -> float:
        return round(sum(m.gpu_hours for m in self.moves), 3)

    @property
    def asked(self) -> list[MoveDoc]:
        """What was asked and paid for, in order."""
        return [m for m in self.moves if m.kind in ("answered", "closed")]

    @property
    def facts(self) -> dict[str, str]:
        """signal -> state as known at the end."""
        known: dict[str, str] = {}
        for move in self.moves:
            if move.state is not None and move.kind in ("observed", "answered"):
                known[move.signal] = move.state
            elif move.kind == "retracted":
                known.pop(move.signal, None)
        return dict(sorted(known.items()))

    def artifact(self, kind: str) -> ArtifactRef | None:
        """The first artifact of a kind."""
        return next((a for a in self.artifacts if a.kind == kind), None)


# Terminal sequences, then every other control character but line feed and tab: no text of ours may steer a terminal.
_CONTROL = re.compile(r"\x1b\[[0-?]*[ -/]*[@-~]|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)?|[\x00-\x08\x0b-\x1f\x7f-\x9f]")


def tidy(value: Any) -> Any:
    """Plain JSON values that both databases take: no control characters or lone surrogates, NaN as text."""
    if isinstance(value, str):
        return _CONTROL.sub("", value).encode("utf-8", "replace").decode("utf-8")
    if isinstance(value, bool) or value is None or isinstance(value, int):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else repr(value)
    if isinstance(value, dict):
        return {tidy(str(k)): tidy(v) for k, v in value.items()}
    if isinstance(value, (list, tuple, set, frozenset)):
        return [tidy(v) for v in (sorted(value, key=str) if isinstance(value, (set, frozenset)) else value)]
    if hasattr(value, "item"):
        return tidy(value.item())
    return tidy(str(value))


def parse(data: Any, where: str) -> Record:
    """A document from outside -> Record. Raises `PlaybookError` with the field that is wrong."""
    number = data.get("format") if isinstance(data, dict) else None
    if not isinstance(data, dict) or number is None:
        raise PlaybookError(where, "is no incident document", "it is JSON with format, id, title, verdict ...")
    if number != FORMAT:
        raise PlaybookError(where, f"incident document of format {number!r}", f"this playbook reads format {FORMAT}")
    try:
        # The sums of `document` are worked out anew, never taken over.
        return Record.model_validate(tidy({k: v for k, v in data.items() if k not in ("cost", "facts")}))
    except ValidationError as error:
        fault = error.errors()[0]
        place = ".".join(str(part) for part in fault["loc"])
        raise PlaybookError(
            where, f"{place}: {fault['msg']}", "the document was changed by hand or is damaged"
        ) from None
    except RecursionError:
        raise PlaybookError(where, "nested too deeply", "no playbook writes such a document") from None


def document(record: Record) -> dict[str, Any]:
    """Record -> JSON values, with the sums that readers of the file want to see."""
    sums = {"minutes": record.minutes, "gpu_hours": record.gpu_hours, "usd": record.losses.usd}
    return record.model_dump(mode="json", by_alias=True) | {"cost": sums, "facts": record.facts}
