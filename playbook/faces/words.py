"""The words of one language: English is the source, `knowledge/languages/<code>/ui.yaml` maps English -> other words.

What is made below the faces (what a detector saw, why a file is refused) comes as a finished English sentence and is
looked up by its pattern: see sentences.py. A text that has no translation is shown in English.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, lru_cache

from playbook import places
from playbook.errors import PlaybookError, Problem
from playbook.faces.sentences import Sentences
from playbook.findings import Evidence

ENGLISH = "en"


@dataclass(frozen=True)
class Words:
    """`words("First aid")` in the language `code`; `{name}` fields are filled from keyword arguments."""

    code: str = ENGLISH
    table: Mapping[str, str] = field(default_factory=dict)

    def __call__(self, text: str, **values: object) -> str:
        found = self.table.get(text, text)
        return found.format(**values) if values else found

    def count(self, n: int, one: str, many: str) -> str:
        """`count(1, "1 file", "{n} files")`: English has a form for one; `many` is what is translated."""
        return one if n == 1 and self.code == ENGLISH else self(many, n=n)

    @property
    def colon(self) -> str:
        """What stands between a word and what it introduces."""
        return ": " if self.code == ENGLISH else "："

    @property
    def comma(self) -> str:
        """What stands between the members of a list."""
        return ", " if self.code == ENGLISH else "、"

    def lead(self, text: str) -> str:
        """A word and the colon behind it."""
        return f"{self(text)}{self.colon}"

    def healthy(self, beside: Sequence[Evidence] = ()) -> str:
        """The verdict on a healthy run; `beside` is what speaks of a fault all the same, for it may show later."""
        if not beside:
            return self("healthy: nothing to report")
        told = self.comma.join(f"{item.signal} = {item.state}" for item in beside)
        return self("healthy so far: the loss shows nothing, but look at {told}", told=told)

    def say(self, sentence: str) -> str:
        """A finished English sentence (of a detector, a reader, a check) in this language."""
        return sentence if self.code == ENGLISH or not sentence else self._sentences(sentence)

    def problem(self, problem: Problem) -> str:
        """Where, what and the mend in one line."""
        if self.code == ENGLISH:
            return str(problem)
        place = f"{problem.where}:{problem.line}" if problem.line is not None else problem.where
        code = f" [{problem.code}]" if problem.code else ""
        hint = f"（{self.say(problem.hint)}）" if problem.hint else ""
        return f"{place}：{self.say(problem.what)}{code}{hint}"

    def error(self, error: Exception) -> str:
        """What went wrong, in one line where it was foreseen."""
        return self.problem(error.problem) if isinstance(error, PlaybookError) else str(error)

    @cached_property
    def _sentences(self) -> Sentences:
        return Sentences(_read(self.code, "sentences/*.yaml"))

    @cached_property
    def help(self) -> Mapping[str, str]:
        """The texts of `--help`, by their English with single spaces."""
        return _read(self.code, "help.yaml") if self.code != ENGLISH else {}


def number(n: int, one: str, many: str = "") -> str:
    """`number(1, "page")` is 1 page, `number(2, "page")` 2 pages: for lines that are English in every language."""
    return f"{n} {one if n == 1 else many or one + 's'}"


def words(code: str | None = None) -> Words:
    """The words of `code`, or of PLAYBOOK_LANG. Raises `PlaybookError` for a language that the book does not have."""
    return _words(code or os.environ.get("PLAYBOOK_LANG") or ENGLISH)


@lru_cache
def _words(code: str) -> Words:
    if code == ENGLISH:
        return Words()
    if not (places.knowledge() / "languages" / code / "ui.yaml").is_file():
        have = sorted(p.name for p in (places.knowledge() / "languages").glob("*") if p.is_dir())
        raise PlaybookError(f"--lang {code}", "no such language", f"one of {', '.join([ENGLISH, *have])}")
    return Words(code, _read(code, "ui.yaml"))


def _read(code: str, names: str) -> dict[str, str]:
    """The tables of a language that a glob names, as one; an empty one where there is no such file."""
    from playbook.knowledge.loader import parse_yaml

    found: dict[str, str] = {}
    for path in sorted((places.knowledge() / "languages" / code).glob(names)):
        data = parse_yaml(path.read_text("utf-8"), str(path))
        if isinstance(data, dict):
            found |= {str(k): str(v) for k, v in data.items()}
    return found
