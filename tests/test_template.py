"""Templates are valid entries, and land where the loader finds them."""

from __future__ import annotations

from pathlib import Path

import pytest

from playbook.errors import PlaybookError
from playbook.knowledge.entries import KINDS
from playbook.knowledge.loader import load
from playbook.workflow.template import place_of, template


@pytest.mark.parametrize("kind", KINDS)
def test_a_template_loads_as_it_is(kind: str, tmp_path: Path) -> None:
    entry_id = "data/my-entry" if kind == "causes" else "my-entry"
    path = place_of(tmp_path, kind, entry_id)
    path.parent.mkdir(parents=True)
    path.write_text(template(kind, entry_id))
    book = load([tmp_path])
    assert not book.problems, [str(p) for p in book.problems]
    assert list(book.entries[kind]) == ["my-entry"]


@pytest.mark.parametrize(
    ("kind", "entry_id"), [("things", "a"), ("causes", "a"), ("fixes", "data/a"), ("fixes", "../a"), ("fixes", "a b")]
)
def test_what_is_no_place_is_refused(kind: str, entry_id: str) -> None:
    with pytest.raises(PlaybookError):
        template(kind, entry_id)
