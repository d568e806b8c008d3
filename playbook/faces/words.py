"""The words of one language: English is the source, `knowledge/languages/<code>/ui.yaml` maps English -> other words.

A text that has no translation is shown in English; `playbook knowledge lint` lists it.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache

from playbook import places
from playbook.errors import PlaybookError

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


def number(n: int, one: str, many: str = "") -> str:
    """`number(1, "page")` is 1 page, `number(2, "page")` 2 pages: for lines that are English in every language."""
    return f"{n} {one if n == 1 else many or one + 's'}"


@lru_cache
def words(code: str | None = None) -> Words:
    """The words of `code`, or of PLAYBOOK_LANG. Raises `PlaybookError` for a language that the book does not have."""
    code = code or os.environ.get("PLAYBOOK_LANG") or ENGLISH
    if code == ENGLISH:
        return Words()
    path = places.knowledge() / "languages" / code / "ui.yaml"
    if not path.is_file():
        have = sorted(p.name for p in (places.knowledge() / "languages").glob("*") if p.is_dir())
        raise PlaybookError(f"--lang {code}", "no such language", f"one of {', '.join([ENGLISH, *have])}")
    from playbook.knowledge.loader import parse_yaml

    data = parse_yaml(path.read_text("utf-8"), str(path))
    return Words(code, {str(k): str(v) for k, v in data.items()} if isinstance(data, dict) else {})
