"""The tables of the store. `incident` has what lists, searches and trends need; its children hold the rest in order.

Children hang on the number of their incident and die with it. Text columns that hold JSON are written and read by
`store.py` alone; they never hold NaN or NUL, which PostgreSQL refuses.
"""

from __future__ import annotations

from sqlalchemy import BigInteger, Column, ForeignKey, Integer, MetaData, Text, UniqueConstraint
from sqlmodel import Field, SQLModel

# Named constraints, so that a later migration can drop or change them on both databases.
NAMING = {
    "ix": "ix_%(column_0_label)s",
    "uq": "uq_%(table_name)s_%(column_0_name)s",
    "fk": "fk_%(table_name)s_%(column_0_name)s_%(referred_table_name)s",
    "pk": "pk_%(table_name)s",
}
METADATA = MetaData(naming_convention=NAMING)


class Table(SQLModel):
    metadata = METADATA


def _text() -> Column[str]:
    return Column(Text, nullable=False)


def _parent() -> Column[int]:
    return Column(Integer, ForeignKey("incident.number", ondelete="CASCADE"), nullable=False, index=True)


class IncidentRow(Table, table=True):
    """One incident; `facts` is JSON {signal: state}, `detail` the JSON rest, `words` what the search reads."""

    __tablename__ = "incident"
    number: int | None = Field(default=None, primary_key=True)
    id: str = Field(unique=True)
    title: str = Field(sa_column=_text())
    status: str = Field(index=True)
    opened_at: str = Field(index=True)
    closed_at: str | None = None
    symptom: str | None = Field(default=None, index=True)
    onset_step: int | None = Field(default=None, sa_column=Column(BigInteger))
    verdict: str
    decided: bool
    first_cause: str | None = None
    first_class: str | None = None
    first_layer: str | None = None
    first_probability: float | None = None
    cause: str | None = Field(default=None, sa_column=Column(Text, index=True))
    cause_class: str | None = None
    layer: str | None = Field(default=None, index=True)
    confirmed_by: str = ""
    gpus: int = 0
    hours_lost: float = 0.0
    cost_usd: float = 0.0
    minutes: float = 0.0
    gpu_hours: float = 0.0
    questions: int = 0
    facts: str = Field(sa_column=_text())
    words: str = Field(sa_column=_text())
    detail: str = Field(sa_column=_text())


class MoveRow(Table, table=True):
    """One move of the diagnosis; `belief` is JSON {top, unknown}, `extra` JSON with what only some moves have."""

    __tablename__ = "move"
    __table_args__ = (UniqueConstraint("incident", "position"),)
    key: int | None = Field(default=None, primary_key=True)
    incident: int = Field(sa_column=_parent())
    position: int
    kind: str
    signal: str = Field(index=True)
    state: str | None = None
    source: str = ""
    because: str = Field(sa_column=_text())
    step: int | None = Field(default=None, sa_column=Column(BigInteger))
    minutes: float = 0.0
    gpu_hours: float = 0.0
    belief: str = Field(sa_column=_text())
    extra: str = Field(sa_column=_text())


class TimelineRow(Table, table=True):
    """One line of the timeline."""

    __tablename__ = "timeline"
    __table_args__ = (UniqueConstraint("incident", "position"),)
    key: int | None = Field(default=None, primary_key=True)
    incident: int = Field(sa_column=_parent())
    position: int
    kind: str
    text: str = Field(sa_column=_text())
    step: int | None = Field(default=None, sa_column=Column(BigInteger))
    time: str | None = None
    extra: str = Field(sa_column=_text())


class TreatmentRow(Table, table=True):
    """First aid or a repair that was tried."""

    __tablename__ = "treatment"
    __table_args__ = (UniqueConstraint("incident", "position"),)
    key: int | None = Field(default=None, primary_key=True)
    incident: int = Field(sa_column=_parent())
    position: int
    fix: str = Field(index=True)
    outcome: str
    note: str = Field(sa_column=_text())
    at: str = ""


class LinkRow(Table, table=True):
    """Something elsewhere."""

    __tablename__ = "link"
    __table_args__ = (UniqueConstraint("incident", "position"),)
    key: int | None = Field(default=None, primary_key=True)
    incident: int = Field(sa_column=_parent())
    position: int
    url: str = Field(sa_column=_text())
    title: str = Field(sa_column=_text())


class ArtifactRow(Table, table=True):
    """A file kept with the incident; its bytes lie in the artifact folder under their hash."""

    __tablename__ = "artifact"
    __table_args__ = (UniqueConstraint("incident", "position"),)
    key: int | None = Field(default=None, primary_key=True)
    incident: int = Field(sa_column=_parent())
    position: int
    name: str = Field(sa_column=_text())
    kind: str
    sha256: str = Field(index=True)
    size: int = Field(sa_column=Column(BigInteger, nullable=False))
    note: str = Field(sa_column=_text())
