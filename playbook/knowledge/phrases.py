"""Short texts outside of the entries or in many, in another language: expected outputs, facts, remarks, classes.

`languages/<code>/phrases.yaml` maps English -> other text in the lists `expect`, `ledger`, `remarks` and `classes`. The
English text is the key, so one that changes is simply missing again. A row of the ledger may begin with "(1 of 4) ": the
list knows the fact without it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from playbook.errors import PlaybookError, Problem
from playbook.knowledge.entries import Cause, Command, Entry
from playbook.knowledge.loader import Book, parse_yaml

FILE = "phrases.yaml"
CLASS_TEXTS = ("title", "meaning")  # of a row of `classes.yaml`
_PART = re.compile(r"^\((\d+) of (\d+)\) ")
_WORD = re.compile(r"[A-Za-z]{3}")  # without a word there is nothing to translate: 0.0, {"a": 1}
# How a language puts the number of a part before a fact.
_PART_WORDS = {"zh": "（第 {0} 项，共 {1} 项）"}


@dataclass(frozen=True)
class Phrases:
    """The phrases of one language."""

    code: str
    expect: Mapping[str, str] = field(default_factory=dict)
    ledger: Mapping[str, str] = field(default_factory=dict)
    remarks: Mapping[str, str] = field(default_factory=dict)
    classes: Mapping[str, str] = field(default_factory=dict)

    def class_(self, info: dict[str, Any]) -> dict[str, Any]:
        """A row of `classes.yaml` with its title and meaning in words of the language."""
        return info | {key: self.classes[str(info[key])] for key in CLASS_TEXTS if str(info.get(key)) in self.classes}

    def fact(self, text: str) -> str:
        """A row of the ledger; one that is not translated stays English."""
        part = _PART.match(text)
        other = self.ledger.get(text[part.end() :] if part else text)
        if other is None:
            return text
        return _PART_WORDS.get(self.code, "({0}/{1}) ").format(*part.groups()) + other if part else other

    def entry(self, entry: Entry) -> Entry:
        """An entry with its note, what its commands are expected to say, and the reasons at the links of a cause."""
        changes: dict[str, Any] = {}
        if entry.note and (note := self.remarks.get(_line(entry.note))):
            changes["note"] = note
        commands: list[Command] = getattr(entry, "commands", [])
        if any(c.expect in self.expect for c in commands):
            changes["commands"] = [
                c.model_copy(update={"expect": self.expect.get(c.expect, c.expect)}) for c in commands
            ]
        if isinstance(entry, Cause):
            changes["expects"] = {signal: self._reason(link) for signal, link in entry.expects.items()}
            changes["excludes"] = [self._reason(link) for link in entry.excludes]
            changes["couples"] = [self._reason(link) for link in entry.couples]
        return entry.model_copy(update=changes) if changes else entry

    def _reason(self, link: Any) -> Any:
        other = self.remarks.get(_line(link.why))
        return link.model_copy(update={"why": other}) if other else link


def _line(text: str) -> str:
    """A text in one line, as it is a key."""
    return " ".join(text.split())


def _remarks(entry: Entry) -> set[str]:
    links: list[Any] = [*entry.expects.values(), *entry.excludes, *entry.couples] if isinstance(entry, Cause) else []
    return {_line(text) for text in (entry.note, *(link.why for link in links)) if text}


def read(folders: list[Path], code: str) -> tuple[Phrases, list[Problem]]:
    """The phrases of all packs, later over earlier, and what is wrong with the files."""
    found: dict[str, dict[str, str]] = {"expect": {}, "ledger": {}, "remarks": {}, "classes": {}}
    problems = []
    for folder in folders:
        path = folder / "languages" / code / FILE
        if not path.is_file():
            continue
        try:
            data: Any = parse_yaml(path.read_text("utf-8"), str(path))
        except (PlaybookError, UnicodeDecodeError) as error:
            what = error.problem if isinstance(error, PlaybookError) else Problem(str(path), None, str(error))
            problems.append(what)
            continue
        for name, table in found.items():
            rows = data.get(name) if isinstance(data, dict) else None
            if isinstance(rows, dict):
                table.update({str(k): str(v) for k, v in rows.items()})
    return Phrases(code, **found), problems


def check(book: Book, code: str) -> Iterator[Problem]:
    """Phrases that the language lacks, and those that the book no longer has. A pack without it owes it nothing."""
    phrases, problems = read(book.folders, code)
    yield from problems
    where = f"languages/{code}/{FILE}"
    homes = [folder for folder in book.folders if (folder / "languages" / code).is_dir()]
    said: dict[str, set[str]] = {"expect": set(), "remarks": set()}
    owed: dict[str, set[str]] = {"expect": set(), "remarks": set()}
    for kind, entries in book.entries.items():
        for entry in entries.values():
            mine = any(book.files[kind, entry.id].is_relative_to(home) for home in homes)
            expected = {c.expect for c in getattr(entry, "commands", []) if _WORD.search(c.expect)}
            for name, texts in (("expect", expected), ("remarks", _remarks(entry))):
                said[name] |= texts
                owed[name] |= texts if mine else set()
    facts = {_PART.sub("", text) for text in book.ledger.values()}
    all_owe = all(folder in homes for folder in book.folders if (folder / "ledger.yaml").is_file())
    said["ledger"], owed["ledger"] = facts, facts if all_owe else set()
    rows = [info for info in book.classes.values() if isinstance(info, dict)]
    texts = {str(info[key]) for info in rows for key in CLASS_TEXTS if key in info}
    all_owe = all(folder in homes for folder in book.folders if (folder / "classes.yaml").is_file())
    said["classes"], owed["classes"] = texts, texts if all_owe else set()
    for name in ("expect", "ledger", "remarks", "classes"):
        texts, must, known = said[name], owed[name], getattr(phrases, name)
        for text in sorted(must - known.keys()):
            yield Problem(where, None, f"{name} lacks {text!r}", "add it", f"missing-{code}")
        for text in sorted(text for text in known.keys() - texts if _WORD.search(text)):
            yield Problem(where, None, f"{name} has {text!r}, the book has not", "drop it", f"stale-{code}")
