"""The store: incidents in, incidents out, one transaction each; lists and searches load only what they show.

A `Record` is taken apart into rows here and put together again here, and nowhere else.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sqlalchemy import delete, func, insert, select, text, update
from sqlalchemy.engine import Connection, Row
from sqlalchemy.exc import IntegrityError

from playbook.errors import PlaybookError, Problem
from playbook.incidents import artifacts, rows, search
from playbook.incidents.database import BUSY_SECONDS, Database, open_database
from playbook.incidents.models import METADATA
from playbook.incidents.record import Record
from playbook.incidents.rows import CHILDREN

_INCIDENT = METADATA.tables["incident"]
_SUMMARY = [c for c in _INCIDENT.columns if c.name not in ("words", "detail", "facts")]
_NAMES = [c.name for c in _SUMMARY]
_CHUNK = 400  # incidents whose children are read at once


class Taken(PlaybookError):
    """An incident of that id is in the store already."""


@dataclass(frozen=True)
class Filter:
    """What to list; every field that is given must hold. `cause` is a confirmed or a leading cause, or a class."""

    status: str | None = None
    symptom: str | None = None
    cause: str | None = None
    layer: str | None = None
    query: str = ""
    since: str | None = None
    limit: int | None = None


@dataclass(frozen=True)
class Store:
    """An open store: a database and the folder of artifacts."""

    database: Database
    artifacts: Path

    @property
    def name(self) -> str:
        return self.database.name

    def close(self) -> None:
        self.database.engine.dispose()

    def keep(self, data: bytes) -> str:
        """Keep the bytes of an artifact; its hash."""
        if self.database.read_only:
            raise PlaybookError(self.name, "cannot be written", "the store is read-only; name another --db")
        return artifacts.put(self.artifacts, data)

    def fetch(self, sha256: str, name: str = "artifact") -> bytes:
        """The bytes of an artifact, verified."""
        return artifacts.get(self.artifacts, sha256, name)

    def add(self, record: Record) -> None:
        """Store a new incident. Raises `Taken` where its id is in use."""
        with self.database.writing() as connection:
            self._insert(connection, record)

    def _insert(self, connection: Connection, record: Record) -> None:
        try:
            number = connection.execute(
                insert(_INCIDENT).returning(_INCIDENT.c.number), rows.incident(record)
            ).scalar_one()
        except IntegrityError:
            raise Taken(record.id, "is in the store already", "show it, or import with --replace") from None
        _insert_children(connection, number, record)

    def change(self, incident: str, edit: Callable[[Record], Record]) -> Record:
        """Read, edit and write back in one transaction, so that two people at once lose nothing."""
        with self.database.writing() as connection:
            query = select(_INCIDENT).where(_INCIDENT.c.id == incident)
            found = connection.execute(query if self.database.is_sqlite else query.with_for_update()).first()
            if found is None:
                raise _unknown(incident)
            record = edit(_assemble(connection, [found])[0])
            self._overwrite(connection, found.number, record)
        return record

    def put(self, records: Iterable[Record]) -> list[str]:
        """Store incidents, over those of the same id, all or none; returns the ids that were there."""
        there = []
        with self.database.writing() as connection:
            for record in records:
                number = connection.execute(select(_INCIDENT.c.number).where(_INCIDENT.c.id == record.id)).scalar()
                if number is None:
                    self._insert(connection, record)
                else:
                    self._overwrite(connection, number, record)
                    there.append(record.id)
        return there

    def _overwrite(self, connection: Connection, number: int, record: Record) -> None:
        connection.execute(update(_INCIDENT).where(_INCIDENT.c.number == number), rows.incident(record))
        for name in CHILDREN:
            table = METADATA.tables[name]
            connection.execute(delete(table).where(table.c.incident == number))
        _insert_children(connection, number, record)

    def remove(self, incident: str) -> None:
        """Delete an incident (its artifacts stay until nothing refers to them)."""
        with self.database.writing() as connection:
            if not connection.execute(delete(_INCIDENT).where(_INCIDENT.c.id == incident)).rowcount:
                raise _unknown(incident)

    def get(self, incident: str) -> Record:
        """One incident, by id or by a beginning that no other id has. Raises `PlaybookError`."""
        with self.database.reading() as connection:
            found = connection.execute(
                select(_INCIDENT).where(_INCIDENT.c.id == self._whole(connection, incident))
            ).one()
            return _assemble(connection, [found])[0]

    def find(self, incident: str) -> Record | None:
        """One incident by its whole id; None where there is none."""
        with self.database.reading() as connection:
            found = connection.execute(select(_INCIDENT).where(_INCIDENT.c.id == incident)).first()
            return None if found is None else _assemble(connection, [found])[0]

    def resolve(self, incident: str) -> str:
        """The whole id."""
        with self.database.reading() as connection:
            return self._whole(connection, incident)

    def _whole(self, connection: Connection, incident: str) -> str:
        ids = _INCIDENT.c.id
        if connection.execute(select(ids).where(ids == incident)).first():
            return incident
        near = connection.execute(select(ids).where(ids.startswith(incident, autoescape=True)).limit(3)).scalars().all()
        near = [n for n in near if n.startswith(incident)]
        if len(near) == 1 and len(incident) >= 3:
            return str(near[0])
        if len(near) > 1:
            raise PlaybookError(incident, "fits several incidents", f"such as {', '.join(near)}")
        raise _unknown(incident)

    def summaries(self, wanted: Filter = Filter()) -> list[dict[str, Any]]:
        """Summaries, newest first."""
        with self.database.reading() as connection:
            clauses, values = _where(connection, wanted)
            query = select(*_SUMMARY).where(*clauses).order_by(_INCIDENT.c.opened_at.desc(), _INCIDENT.c.number.desc())
            if wanted.limit is not None:
                query = query.limit(wanted.limit)
            return [dict(zip(_NAMES, row, strict=True)) for row in connection.execute(query, values).fetchall()]

    def count(self, wanted: Filter = Filter()) -> int:
        with self.database.reading() as connection:
            clauses, values = _where(connection, wanted)
            return int(
                connection.execute(select(func.count()).select_from(_INCIDENT).where(*clauses), values).scalar_one()
            )

    def facts(self, symptom: str | None, most: int) -> list[dict[str, Any]]:
        """id, title, cause, status and facts of the newest incidents with a symptom (all without one)."""
        c = _INCIDENT.c
        query = select(c.id, c.title, c.cause, c.first_cause, c.status, c.opened_at, c.facts)
        if symptom is not None:
            query = query.where(c.symptom == symptom)
        query = query.order_by(c.number.desc()).limit(most)
        with self.database.reading() as connection:
            return [dict(r._mapping) | {"facts": json.loads(r.facts)} for r in connection.execute(query)]

    def records(self, ids: Iterable[str] | None = None, problems: list[Problem] | None = None) -> Iterator[Record]:
        """Whole incidents in the order of ids given, or all in the order in which they were stored.

        With `problems`, an incident whose rows are damaged is told there, and the rest comes all the same.
        """
        with self.database.reading() as connection:
            if ids is None:
                chosen = connection.execute(select(_INCIDENT.c.id).order_by(_INCIDENT.c.number)).scalars().all()
            else:
                chosen = [self._whole(connection, i) for i in ids]
            for start in range(0, len(chosen), _CHUNK):
                part = chosen[start : start + _CHUNK]
                found = connection.execute(select(_INCIDENT).where(_INCIDENT.c.id.in_(part))).all()
                by_id = {r.id: r for r in _assemble(connection, found, problems)}
                yield from (by_id[i] for i in part if i in by_id)


def open_store(url: str, folder: Path | None = None, busy_seconds: float = BUSY_SECONDS) -> Store:
    """Open a store. `folder` keeps the artifacts; for SQLite it is beside the file unless named."""
    database = open_database(url, busy_seconds)
    if folder is None:
        folder = (database.file.parent if database.file is not None else Path.cwd()) / "artifacts"
    return Store(database, folder)


def _unknown(incident: str) -> PlaybookError:
    return PlaybookError(incident, "no such incident", "see `playbook incident list`")


def _where(connection: Connection, wanted: Filter) -> tuple[list[Any], dict[str, str]]:
    c = _INCIDENT.c
    clauses: list[Any] = []
    for column, value in ((c.status, wanted.status), (c.symptom, wanted.symptom)):
        if value is not None:
            clauses.append(column == value)
    if wanted.layer is not None:
        clauses.append(func.coalesce(c.layer, c.first_layer) == wanted.layer)
    if wanted.cause is not None:
        confirmed = func.coalesce(c.cause, c.first_cause)
        kind = func.coalesce(c.cause_class, c.first_class)
        clauses.append((confirmed == wanted.cause) | (kind == wanted.cause))
    if wanted.since is not None:
        clauses.append(c.opened_at >= wanted.since)
    values: dict[str, str] = {}
    if wanted.query.strip():
        sql, values = search.condition(connection, wanted.query)
        clauses.append(text(sql))
    return clauses, values


def _insert_children(connection: Connection, number: int, record: Record) -> None:
    for name, split in CHILDREN.items():
        values = [row | {"incident": number, "position": place} for place, row in enumerate(split.apart(record))]
        if values:
            connection.execute(insert(METADATA.tables[name]), values)


def _assemble(connection: Connection, found: Iterable[Row[Any]], problems: list[Problem] | None = None) -> list[Record]:
    parents = list(found)
    numbers = [p.number for p in parents]
    children: dict[str, dict[int, list[Any]]] = {}
    for name in CHILDREN:
        table = METADATA.tables[name]
        query = select(table).where(table.c.incident.in_(numbers)).order_by(table.c.incident, table.c.position)
        children[name] = {}
        for row in connection.execute(query):
            children[name].setdefault(row.incident, []).append(row)
    made = []
    for parent in parents:
        try:
            made.append(rows.record(parent, {name: children[name].get(parent.number, []) for name in CHILDREN}))
        except PlaybookError as error:
            if problems is None:
                raise
            problems.append(error.problem)
    return made
