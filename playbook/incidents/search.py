"""Search over incidents: every word must occur, be it inside a word, in any script; the same on both databases.

SQLite has trigrams (FTS5) for words of three characters and more; shorter ones (half of all Chinese words) and a SQLite
without FTS5 are searched by LIKE, and so is all of PostgreSQL, where `pg_trgm` speeds it up if it is installed. The
words are stored in lower case.
"""

from __future__ import annotations

from sqlalchemy import Connection, text

TRIGRAM = 3
MOST_WORDS = 16  # of a query; more would only slow it down


def split(query: str) -> list[str]:
    """The words of a query, without quotes."""
    return [w for w in query.replace('"', " ").replace("\x00", " ").split() if w][:MOST_WORDS]


def _like(word: str) -> str:
    for special in ("\\", "%", "_"):
        word = word.replace(special, "\\" + special)
    return f"%{word}%"


def has_index(connection: Connection) -> bool:
    """Whether this SQLite file has the trigram table."""
    found = connection.execute(text("SELECT 1 FROM sqlite_master WHERE name = 'incident_text'")).first()
    return found is not None


def condition(connection: Connection, query: str) -> tuple[str, dict[str, str]]:
    """(SQL condition over `incident`, parameters) that holds for incidents with every word of the query."""
    sqlite = connection.dialect.name == "sqlite"
    words = split(query.lower())
    long = [w for w in words if len(w) >= TRIGRAM] if sqlite and has_index(connection) else []
    clauses, values = [], {}
    if long:
        # Quoted phrases only: nothing of a query is taken for FTS5 syntax.
        values["match"] = " AND ".join(f'"{w}"' for w in long)
        clauses.append("number IN (SELECT rowid FROM incident_text WHERE incident_text MATCH :match)")
    for place, word in enumerate(w for w in words if w not in long):
        values[f"w{place}"] = _like(word)
        clauses.append(f"words LIKE :w{place} ESCAPE '\\'")
    return " AND ".join(clauses) or "1 = 1", values
