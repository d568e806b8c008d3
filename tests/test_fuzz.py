"""The fuzz run itself: its inputs are always the same, and it sees a traceback, a hang and a message of many lines."""

from __future__ import annotations

import random
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from playbook.errors import PlaybookError
from playbook.readers import readers
from tests.fuzz import __main__ as fuzz
from tests.fuzz.inputs import made, samples

NAMES = [reader.NAME for reader in readers()]


@pytest.fixture(autouse=True)
def _alarm(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    before = signal.signal(signal.SIGALRM, fuzz._alarm)
    monkeypatch.setattr(fuzz, "_SECONDS", 5)
    yield
    signal.signal(signal.SIGALRM, before)


def test_every_reader_has_its_turn_and_reads_or_refuses(tmp_path: Path) -> None:
    found = [fuzz._input(1, number, tmp_path / str(number), False) for number in range(2 * len(NAMES))]
    assert [name for name, _ in found] == 2 * NAMES
    assert {outcome for _, outcome in found} == {"read", "refused"}


def test_the_same_seed_gives_the_same_input() -> None:
    for name in NAMES:
        assert samples(name)
        one, other = (made(name, NAMES, random.Random(5)) for _ in range(2))
        assert one == other


def _raise(error: BaseException) -> None:
    raise error


@pytest.mark.parametrize(
    ("fault", "told"),
    [
        (lambda *_: _raise(IndexError("list index\nout of range")), "IndexError at test_fuzz.py"),
        (lambda *_: _raise(RecursionError("too deep")), "RecursionError at test_fuzz.py"),
        (lambda *_: _raise(PlaybookError("x", "first\nsecond")), "refused in many lines"),
        (lambda *_: time.sleep(30), "took too long"),
    ],
)
def test_what_must_not_be_is_seen(fault: object, told: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    reader = readers()[0]
    monkeypatch.setattr(reader, "read", fault)
    monkeypatch.setattr(fuzz, "_SECONDS", 1)
    found = [fuzz._input(1, number * len(NAMES), tmp_path / str(number), False)[1] for number in range(3)]
    assert any(outcome.startswith(told) and "\n" not in outcome for outcome in found), found
