"""Shared pieces of the tests: the tiny book, and a home of one's own for everything that is written."""

from __future__ import annotations

from pathlib import Path

import pytest

from playbook.knowledge.loader import Book, load
from playbook.workflow.book import Library
from tests import the_book

TESTS = Path(__file__).parent


@pytest.fixture(autouse=True)
def _own_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No test touches the user's store, packs or language."""
    monkeypatch.setenv("PLAYBOOK_HOME", str(tmp_path / "home"))
    for name in ("PLAYBOOK_KNOWLEDGE", "PLAYBOOK_DB", "PLAYBOOK_LANG"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture(scope="session")
def tiny() -> Book:
    """Ten entries with hand-checkable numbers; golden files are built from it, so knowledge edits do not churn them."""
    book = load([TESTS / "tiny_knowledge"])
    assert not book.problems, [str(p) for p in book.problems]
    return book


@pytest.fixture(scope="session")
def real_book() -> Book:
    """The built-in book."""
    return the_book.book()


@pytest.fixture(scope="session")
def library() -> Library:
    """The built-in book with its tables."""
    return the_book.library()


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--update-golden", action="store_true", help="Write the golden files anew instead of comparing.")
