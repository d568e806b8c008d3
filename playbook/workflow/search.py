"""Search over the book: every word must occur in an entry; a hit in its title or id counts more than one in its text.

The book is in memory, so this is the same whatever database the incidents are in; `incidents/search.py` searches those
by the same rule.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from playbook.knowledge.loader import Book

MOST = 20
# What a hit is worth by the field it is in; texts not named count 1.
WORTH = {"id": 8.0, "title": 8.0, "summary": 3.0, "question": 3.0, "ask": 3.0, "mechanism": 2.0, "match": 2.0}
# A log line that a signal hears is told by its examples: a pattern is no text, and what it must not match is not meant.
_SKIP = frozenset({"sources", "because", "status", "layer", "pattern", "no_match"})


@dataclass(frozen=True, slots=True)
class Hit:
    """One entry, with the line that fits best."""

    kind: str
    id: str
    title: str
    score: float
    line: str


def search(book: Book, query: str, most: int = MOST) -> list[Hit]:
    """Entries in which every word of the query occurs, best first."""
    words = [w.casefold() for w in query.split()]
    if not words:
        return []
    hits = []
    for kind, entries in book.entries.items():
        for entry in entries.values():
            hit = _hit(kind, entry, words)
            if hit is not None:
                hits.append(hit)
    return sorted(hits, key=lambda h: (-h.score, h.kind, h.id))[:most]


def _hit(kind: str, entry: Any, words: list[str]) -> Hit | None:
    best: dict[str, float] = dict.fromkeys(words, 0.0)
    line, worth_of_line = "", 0.0
    for name, text in _texts(entry.model_dump(by_alias=True)):
        low = text.casefold()
        worth = WORTH.get(name, 1.0)
        found = [w for w in words if w in low]
        for word in found:
            # A whole title is about the word, a long text only mentions it.
            best[word] = max(best[word], worth * (1.5 if word in low.replace("-", " ").split() else 1.0))
        if len(found) * worth > worth_of_line and name not in ("id", "title"):
            line, worth_of_line = _around(text, low, found[0]), len(found) * worth
    if not all(best.values()):
        return None
    return Hit(kind, entry.id, entry.title, round(sum(best.values()), 3), line)


def _texts(value: Any, name: str = "") -> Iterator[tuple[str, str]]:
    if isinstance(value, str):
        yield name, value
    elif isinstance(value, dict):
        for key, item in value.items():
            if key not in _SKIP:
                if key not in WORTH and isinstance(item, dict):
                    yield name or str(key), str(key)
                yield from _texts(item, str(key))
    elif isinstance(value, (list, tuple)):
        for item in value:
            yield from _texts(item, name)


def _around(text: str, low: str, word: str, width: int = 100) -> str:
    at = max(0, low.find(word) - width // 3)
    part = " ".join(text[at : at + width].split())
    return f"{'... ' if at else ''}{part}{' ...' if at + width < len(text) else ''}"
