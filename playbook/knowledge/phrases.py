"""Short texts that stand in many entries, in another language: expected outputs of commands, facts of the ledger.

`languages/<code>/phrases.yaml` maps English -> other text in two lists, `expect` and `ledger`. The English text is the
key, so one that changes is simply missing again. A row of the ledger may begin with "(1 of 4) ": the list knows the
fact without it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from playbook.errors import PlaybookError, Problem
from playbook.knowledge.entries import Command, Entry
from playbook.knowledge.loader import Book, parse_yaml

FILE = "phrases.yaml"
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

    def fact(self, text: str) -> str:
        """A row of the ledger; one that is not translated stays English."""
        part = _PART.match(text)
        other = self.ledger.get(text[part.end() :] if part else text)
        if other is None:
            return text
        return _PART_WORDS.get(self.code, "({0}/{1}) ").format(*part.groups()) + other if part else other

    def entry(self, entry: Entry) -> Entry:
        """An entry with what its commands are expected to say."""
        commands: list[Command] = getattr(entry, "commands", [])
        if not any(c.expect in self.expect for c in commands):
            return entry
        told = [c.model_copy(update={"expect": self.expect.get(c.expect, c.expect)}) for c in commands]
        return entry.model_copy(update={"commands": told})


def read(folders: list[Path], code: str) -> tuple[Phrases, list[Problem]]:
    """The phrases of all packs, later over earlier, and what is wrong with the files."""
    found: dict[str, dict[str, str]] = {"expect": {}, "ledger": {}}
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
    return Phrases(code, found["expect"], found["ledger"]), problems


def check(book: Book, code: str) -> Iterator[Problem]:
    """Phrases that the language lacks, and those that the book no longer has. A pack without it owes it nothing."""
    phrases, problems = read(book.folders, code)
    yield from problems
    where = f"languages/{code}/{FILE}"
    homes = [folder for folder in book.folders if (folder / "languages" / code).is_dir()]
    said, owed = set(), set()
    for kind in ("signals", "fixes"):
        for entry in book.entries[kind].values():
            texts = {c.expect for c in getattr(entry, "commands", []) if _WORD.search(c.expect)}
            said |= texts
            if any(book.files[kind, entry.id].is_relative_to(home) for home in homes):
                owed |= texts
    facts = {_PART.sub("", text) for text in book.ledger.values()}
    all_owe = all(folder in homes for folder in book.folders if (folder / "ledger.yaml").is_file())
    for name, texts, must, known in (
        ("expect", said, owed, phrases.expect),
        ("ledger", facts, facts if all_owe else set(), phrases.ledger),
    ):
        for text in sorted(must - known.keys()):
            yield Problem(where, None, f"{name} lacks {text!r}", "add it", f"missing-{code}")
        for text in sorted(text for text in known.keys() - texts if _WORD.search(text)):
            yield Problem(where, None, f"{name} has {text!r}, the book has not", "drop it", f"stale-{code}")
