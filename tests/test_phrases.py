"""Expected outputs and ledger facts in another language: what is there is shown, what is missing is told."""

from __future__ import annotations

from pathlib import Path

import pytest

from playbook.knowledge import phrases
from playbook.knowledge.entries import Command, Couple
from playbook.knowledge.loader import Book, load
from playbook.knowledge.overlay import translate

TINY = Path(__file__).parent / "tiny_knowledge"


@pytest.fixture
def book(tmp_path: Path) -> Book:
    """The tiny book with a ledger, one command with an expected output, and a pack of two phrases."""
    for path in TINY.rglob("*.yaml"):
        (tmp_path / path.relative_to(TINY)).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path.relative_to(TINY)).write_text(path.read_text("utf-8"), "utf-8")
    (tmp_path / "ledger.yaml").write_text('A-1: "(2 of 3) A fact"\nA-2: "A fact"\nA-3: "Another one"\n', "utf-8")
    home = tmp_path / "languages" / "zh"
    home.mkdir(parents=True)
    (home / "phrases.yaml").write_text(
        'expect:\n  "no line": "没有"\nledger:\n  "A fact": "一件事"\n  "Gone": "没了"\n', "utf-8"
    )
    found = load([tmp_path])
    signal = found.signals["precision"]
    found.entries["signals"]["precision"] = signal.model_copy(update={"commands": [Command(run="x", expect="no line")]})
    return found


def test_phrases_are_shown(book: Book) -> None:
    other = translate(book, "zh")
    assert [c.expect for s in other.signals.values() for c in s.commands if c.expect] == ["没有"]
    assert other.ledger == {"A-1": "（第 2 项，共 3 项）一件事", "A-2": "一件事", "A-3": "Another one"}


def test_reasons_and_notes_are_shown(book: Book) -> None:
    cause = book.causes["lr-peak"].model_copy(
        update={
            "note": "Folded\n  over lines.",
            "couples": [Couple(cause="bad-samples", why="Both at once.", because=["A-1"])],
        }
    )
    book.entries["causes"]["lr-peak"] = cause
    assert "remarks lacks 'Folded over lines.'" in [p.what for p in phrases.check(book, "zh")]
    path = book.folders[0] / "languages" / "zh" / "phrases.yaml"
    path.write_text('remarks:\n  "Folded over lines.": "折行"\n  "Both at once.": "同时"\n', "utf-8")
    other = translate(book, "zh").causes["lr-peak"]
    assert (other.note, other.couples[0].why) == ("折行", "同时")


def test_classes_say_what_they_mean(book: Book) -> None:
    assert "classes lacks 'wrong samples'" in [p.what for p in phrases.check(book, "zh")]
    path = book.folders[0] / "languages" / "zh" / "phrases.yaml"
    path.write_text('classes:\n  "wrong samples": "样本有误"\n', "utf-8")
    other = translate(book, "zh")
    assert other.classes["data_bad_content"]["meaning"] == "样本有误"
    assert book.classes["data_bad_content"]["meaning"] == "wrong samples"
    assert other.classes["fp16_overflow"] == book.classes["fp16_overflow"]


def test_the_english_book_is_left_alone(book: Book) -> None:
    translate(book, "zh")
    assert book.ledger["A-2"] == "A fact"
    assert [c.expect for s in book.signals.values() for c in s.commands if c.expect] == ["no line"]


def test_what_is_missing_and_what_is_left_over_is_told(book: Book) -> None:
    said = [(p.code, p.what) for p in phrases.check(book, "zh") if not {"remarks", "classes"} & set(p.what.split())]
    assert said == [
        ("missing-zh", "ledger lacks 'Another one'"),
        ("stale-zh", "ledger has 'Gone', the book has not"),
    ]


def test_a_pack_without_the_language_owes_it_nothing(book: Book, tmp_path: Path) -> None:
    signal = book.signals["crash-tail"]
    book.entries["signals"]["crash-tail"] = signal.model_copy(update={"commands": [Command(run="x", expect="a line")]})
    assert "expect lacks 'a line'" in [p.what for p in phrases.check(book, "zh")]
    book.files["signals", "crash-tail"] = tmp_path.parent / "pack" / "crash-tail.yaml"
    assert "expect lacks 'a line'" not in [p.what for p in phrases.check(book, "zh")]


def test_a_broken_file_is_a_problem_and_no_crash(book: Book) -> None:
    path = book.folders[0] / "languages" / "zh" / "phrases.yaml"
    path.write_text("expect: [\n", "utf-8")
    assert translate(book, "zh").ledger["A-2"] == "A fact"
    assert str(path) in str(next(iter(phrases.check(book, "zh"))))
    path.write_text("- a list\n", "utf-8")
    assert translate(book, "zh").ledger["A-2"] == "A fact"


def test_the_real_book_lacks_no_phrase(real_book: Book) -> None:
    assert [str(p) for p in phrases.check(real_book, "zh")] == []
