"""What learners have learned, in the same store as the incidents: when each card is due, and every answer ever given.

Two tables of their own; they touch nothing else. `memory` and `topics` are JSON texts without NaN. Only the answer that
was given last can be taken back, and only by who gave it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Column, Integer, Text, delete, insert, select, update
from sqlmodel import Field

from playbook.incidents.database import Database
from playbook.incidents.models import METADATA, Table


class QuizCardRow(Table, table=True):
    """One card of one learner; `memory` is the state of spaced repetition, `due` a moment in UTC."""

    __tablename__ = "quiz_card"
    learner: str = Field(primary_key=True)
    item: str = Field(sa_column=Column(Text, primary_key=True))
    digest: str
    due: str
    memory: str = Field(sa_column=Column(Text, nullable=False))


class QuizAnswerRow(Table, table=True):
    """One answer; never changed, and deleted only when it is taken back at once."""

    __tablename__ = "quiz_answer"
    key: int | None = Field(default=None, sa_column=Column(Integer, primary_key=True))
    learner: str = Field(index=True)
    at: str
    item: str = Field(sa_column=Column(Text, nullable=False))
    score: float
    rating: int
    level: int
    seconds: float
    topics: str = Field(sa_column=Column(Text, nullable=False))
    stated: float | None = None
    truth: float | None = None


_CARD, _ANSWER = METADATA.tables["quiz_card"], METADATA.tables["quiz_answer"]

Row = dict[str, Any]


@dataclass(frozen=True)
class Recorded:
    """An answer as it was stored: the card then, the card before (None: it was new), the key of the answer."""

    item: str
    card: Row
    before: Row | None
    answer: int


def cards(database: Database, learner: str) -> list[Row]:
    """Every card that a learner has met, longest overdue first."""
    query = select(_CARD).where(_CARD.c.learner == learner).order_by(_CARD.c.due, _CARD.c.item)
    with database.reading() as connection:
        return [dict(row) for row in connection.execute(query).mappings()]


def answers(database: Database, learner: str) -> list[Row]:
    """Every answer of a learner, oldest first."""
    query = select(_ANSWER).where(_ANSWER.c.learner == learner).order_by(_ANSWER.c.key)
    with database.reading() as connection:
        return [dict(row) for row in connection.execute(query).mappings()]


def record(
    database: Database, learner: str, item: str, change: Callable[[Row | None], Row], answer: Mapping[str, Any]
) -> Recorded:
    """Read a card, change it, write it and its answer in one transaction."""
    mine = (_CARD.c.learner == learner) & (_CARD.c.item == item)
    with database.writing() as connection:
        query = select(_CARD).where(mine)
        found = connection.execute(query if database.is_sqlite else query.with_for_update()).mappings().first()
        before = dict(found) if found is not None else None
        new = change(before)
        if found is None:
            connection.execute(insert(_CARD).values(learner=learner, item=item, **new))
        else:
            connection.execute(update(_CARD).where(mine).values(**new))
        stored = connection.execute(insert(_ANSWER).values(learner=learner, item=item, **answer))
        key = stored.inserted_primary_key
    assert key is not None
    return Recorded(item, new, before, int(key[0]))


def take_back(database: Database, learner: str, last: Recorded) -> bool:
    """Undo an answer: the card is again what it was. False where the card was answered anew since then."""
    mine = (_CARD.c.learner == learner) & (_CARD.c.item == last.item)
    with database.writing() as connection:
        query = select(_CARD).where(mine)
        found = connection.execute(query if database.is_sqlite else query.with_for_update()).mappings().first()
        if found is None or any(found[name] != value for name, value in last.card.items()):
            return False
        if last.before is None:
            connection.execute(delete(_CARD).where(mine))
        else:
            old = {name: last.before[name] for name in last.card}
            connection.execute(update(_CARD).where(mine).values(**old))
        connection.execute(delete(_ANSWER).where((_ANSWER.c.key == last.answer) & (_ANSWER.c.learner == learner)))
    return True
