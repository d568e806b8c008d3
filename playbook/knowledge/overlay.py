"""The book in another language: an overlay of texts over the English entries; ids, links and code stay as they are.

`languages/<code>/<kind>/*.yaml` hold `id: {of: <hash>, title: ..., ...}`; the fields are those of `TEXTS`, shaped as in
the entry (lists of the same length, mappings with the same keys). `of` is the hash of the English texts that were
translated, so that a changed entry shows as stale; a text that is missing stays English. What stands in many entries is
in `phrases.yaml` beside them (see phrases.py).
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from copy import copy
from pathlib import Path
from typing import Any

from playbook.errors import PlaybookError, Problem
from playbook.knowledge import phrases
from playbook.knowledge.entries import Entry
from playbook.knowledge.loader import Book, parse_yaml

# kind -> fields that people read. A dotted field is taken from each element of a list, by place, or from the one part.
TEXTS: dict[str, tuple[str, ...]] = {
    "symptoms": ("title", "summary", "looks_like", "not_this", "impact", "stop_loss", "escalate"),
    "signals": ("title", "question", "outcomes", "how", "log_next_time"),
    "causes": ("title", "summary", "mechanism", "mistaken_for.tell", "earlier", "affects_results", "regression"),
    "fixes": ("title", "summary", "steps", "cured", "not_cured", "undo"),
    "cases": ("title", "story", "wrong_turns", "fix", "earlier"),
    "questions": ("title", "ask", "choices.text", "choices.why", "number.unit", "number.why", "key_points", "traps"),
    "checklists": ("title", "summary", "items.text", "items.why"),
}


def english(kind: str, entry: Entry) -> dict[str, Any]:
    """The texts of an entry that are translated, in the shape of the overlay; empty ones are left out."""
    found: dict[str, Any] = {}
    for field in TEXTS.get(kind, ()):
        name, _, part = field.partition(".")
        value = getattr(entry, name)
        if part:
            value = [getattr(item, part) for item in value] if isinstance(value, list) else getattr(value, part, "")
        if value:
            found[field] = dict(value) if isinstance(value, dict) else list(value) if isinstance(value, list) else value
    return found


def fingerprint(kind: str, entry: Entry) -> str:
    """Eight hex digits of the English texts: what a translation says it was made of."""
    return hashlib.sha256(repr(sorted(english(kind, entry).items())).encode()).hexdigest()[:8]


def read_overlay(folders: list[Path], code: str) -> tuple[dict[tuple[str, str], dict[str, Any]], list[Problem]]:
    """(kind, id) -> overlay, later packs over earlier ones, and what is wrong with the files."""
    found: dict[tuple[str, str], dict[str, Any]] = {}
    problems: list[Problem] = []
    for folder in folders:
        for kind in TEXTS:
            root = folder / "languages" / code / kind
            for path in sorted(root.rglob("*.yaml")) if root.is_dir() else []:
                try:
                    data = parse_yaml(path.read_text("utf-8"), str(path))
                except (PlaybookError, UnicodeDecodeError) as error:
                    what = error.problem if isinstance(error, PlaybookError) else Problem(str(path), None, str(error))
                    problems.append(what)
                    continue
                for entry_id, texts in (data or {}).items():
                    if isinstance(texts, dict):
                        found[kind, str(entry_id)] = texts
    return found, problems


def languages(folders: list[Path]) -> list[str]:
    """The languages that a book has an overlay for, English aside."""
    return sorted({p.name for folder in folders for p in (folder / "languages").glob("*") if p.is_dir()})


def translate(book: Book, code: str) -> Book:
    """A book with the texts of `code` where there are any. English gives the same book."""
    if code == "en":
        return book
    overlay, _ = read_overlay(book.folders, code)
    other = copy(book)
    other.entries = {
        kind: {i: _translated(kind, e, overlay[kind, i]) if (kind, i) in overlay else e for i, e in entries.items()}
        for kind, entries in book.entries.items()
    }
    said, _ = phrases.read(book.folders, code)
    other.entries = {kind: {i: said.entry(e) for i, e in entries.items()} for kind, entries in other.entries.items()}
    other.classes = {name: said.class_(info) for name, info in book.classes.items()}
    other.ledger = {key: said.fact(text) for key, text in book.ledger.items()}
    return other


def _translated(kind: str, entry: Entry, texts: dict[str, Any]) -> Entry:
    changes: dict[str, Any] = {}
    for field, source in english(kind, entry).items():
        name, _, part = field.partition(".")
        text = texts.get(field)
        if not text or type(text) is not type(source):
            continue
        if part and isinstance(source, str):
            changes[name] = changes.get(name, getattr(entry, name)).model_copy(update={part: str(text)})
        elif part:
            items = list(changes.get(name, getattr(entry, name)))
            for place, new in enumerate(text[: len(items)]):
                items[place] = items[place].model_copy(update={part: str(new)})
            changes[name] = items
        elif isinstance(source, dict):
            changes[name] = {key: str(text.get(key, value)) for key, value in source.items()}
        elif isinstance(source, list):
            changes[name] = [str(new) for new in text] if len(text) == len(source) else source
        else:
            changes[name] = str(text)
    if "key_points" in changes and getattr(entry, "synonyms", None):
        changes["synonyms"] = _labels(entry, changes["key_points"])
    return entry.model_copy(update=changes)


def _labels(entry: Any, points: list[str]) -> dict[str, list[str]]:
    """The other words of the key points under their translated labels, by place; an English label that says enough
    by itself (more than one word) stays a known word, and so does its translation."""
    found = {}
    for old, new in zip(map(_label, entry.key_points), map(_label, points), strict=True):
        words = entry.synonyms.get(old, [])
        found[new] = [*words, old, new] if " " in old and old != new else list(words)
    return found


def _label(point: str) -> str:
    """'[2] Label: text' -> 'Label', as the quiz reads it."""
    return point.partition("] ")[2].partition(": ")[0].strip()


def check(book: Book, code: str) -> Iterator[Problem]:
    """Missing and stale translations, texts of the wrong shape, and translations of entries that are gone."""
    overlay, problems = read_overlay(book.folders, code)
    yield from problems
    for kind in TEXTS:
        for entry in book.entries[kind].values():
            where = f"languages/{code}/{kind}/{entry.id}"
            texts = overlay.get((kind, entry.id))
            if texts is None:
                yield Problem(where, None, "is not translated", "add it", f"missing-{code}")
                continue
            if str(texts.get("of", "")) != fingerprint(kind, entry):
                what = f"was made of another text ({texts.get('of')}, the English is {fingerprint(kind, entry)})"
                yield Problem(where, None, what, "look at it again, then put the new hash", f"stale-{code}")
            yield from _shape(where, kind, entry, texts, code)
    yield from phrases.check(book, code)
    for kind, entry_id in sorted(overlay):
        if entry_id not in book.entries[kind]:
            yield Problem(f"languages/{code}/{kind}/{entry_id}", None, "translates nothing", "drop it", f"stale-{code}")


def _shape(where: str, kind: str, entry: Entry, texts: dict[str, Any], code: str) -> Iterator[Problem]:
    for field, source in english(kind, entry).items():
        text = texts.get(field)
        wrong = (
            not text
            or type(text) is not type(source)
            or (isinstance(source, list) and len(text) != len(source))
            or (isinstance(source, dict) and set(text) != set(source))
        )
        if wrong:
            yield Problem(where, None, f"{field} is missing or of another shape", "translate it", f"missing-{code}")


def template(kind: str, entry: Entry) -> dict[str, Any]:
    """What a translator starts from: the hash and the English texts."""
    return {"of": fingerprint(kind, entry), **english(kind, entry)}
