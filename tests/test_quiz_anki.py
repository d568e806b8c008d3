"""The Anki deck: ids that never change, a time that grows, a deck for each language; and Anki itself takes it."""

from __future__ import annotations

import json
import re
import sqlite3
import sys
import zipfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from playbook.faces.cli import run
from playbook.faces.learning.anki import export
from playbook.faces.words import words
from playbook.workflow.book import open_book
from playbook.workflow.learning.quiz import Deck
from playbook.workflow.learning.quiz_cards import Card, Ground

MADE = 1_767_225_600.0  # seconds since 1970


def cards(code: str = "en", topic: str = "curve") -> list[Card]:
    w = words(code)
    deck = Deck(Ground(open_book(lang=w.code), w))
    return [card for spec in deck.matching(topic) if (card := deck.card(spec.id)) is not None]


def rows(path: Path, folder: Path) -> dict[str, Any]:
    with zipfile.ZipFile(path) as archive:
        media = json.loads(archive.read("media"))
        archive.extract("collection.anki2", folder)
    with sqlite3.connect(folder / "collection.anki2") as db:
        notes = db.execute("select guid, id, mod, flds from notes").fetchall()
        decks = json.loads(db.execute("select decks from col").fetchone()[0])
    names = {int(key): deck["name"] for key, deck in decks.items()}
    return {"notes": {n[0]: n[1:] for n in notes}, "decks": names, "media": media}


def test_ids_stay_and_the_time_grows(tmp_path: Path) -> None:
    pytest.importorskip("genanki")
    made = cards()
    found = []
    for place, now in enumerate((MADE, MADE + 3600)):
        path = tmp_path / f"{place}.apkg"
        assert export(made, path, words("en"), now) == len(made) >= 40
        found.append(rows(path, tmp_path / str(place)))
    first, later = found
    assert first["notes"].keys() == later["notes"].keys() and len(first["notes"]) == len(made)
    assert first["decks"] == later["decks"] and first["decks"][1706245002] == "playbook"
    assert len(first["media"]) == len(made) and all("<img src=" in fields for _, _, fields in first["notes"].values())
    # Anki knows no note 0, and updates a note only from one with a later time.
    assert all(note > 0 and time == int(MADE) for note, time, _ in first["notes"].values())
    assert all(time == int(MADE) + 3600 for _, time, _ in later["notes"].values())


def test_languages_lie_side_by_side(tmp_path: Path) -> None:
    pytest.importorskip("genanki")
    found = {}
    for code in ("en", "zh"):
        export(cards(code), tmp_path / f"{code}.apkg", words(code), MADE)
        found[code] = rows(tmp_path / f"{code}.apkg", tmp_path / code)
    assert not found["en"]["notes"].keys() & found["zh"]["notes"].keys()
    own = {code: set(said["decks"]) - {1} for code, said in found.items()}
    assert not own["en"] & own["zh"] and "playbook (zh)" in found["zh"]["decks"].values()
    assert all(re.search(r"[一-鿿]", fields) for _, _, fields in found["zh"]["notes"].values())


def test_the_command_writes_a_deck(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("genanki")
    assert run(["quiz", "export", "--topic", "curve", "--lang", "zh", "--out", str(tmp_path / "deck.apkg")]) == 0
    assert re.search(r"[一-鿿]", capsys.readouterr().out)
    assert run(["quiz", "export", "--out", str(tmp_path / "deck.zip")]) == 2
    assert "ends in .apkg" in capsys.readouterr().err


def test_export_without_genanki_says_how_to_get_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "genanki", None)
    assert run(["quiz", "export", "--out", str(tmp_path / "deck.apkg")]) == 2
    assert "playbook[anki]" in capsys.readouterr().err
    assert not (tmp_path / "deck.apkg").exists()


def test_anki_takes_it(tmp_path: Path) -> None:
    """With Anki's own library, where it is installed (`pip install anki`)."""
    pytest.importorskip("genanki")
    anki = pytest.importorskip("anki.collection")
    collection = anki.Collection(str(tmp_path / "collection.anki2"))

    def take(made: list[Card], code: str, now: float) -> tuple[int, int, int]:
        path = tmp_path / "deck.apkg"
        export(made, path, words(code), now)
        options = anki.ImportAnkiPackageOptions(with_scheduling=False)
        log = collection.import_anki_package(anki.ImportAnkiPackageRequest(package_path=str(path), options=options)).log
        assert not (log.conflicting or log.missing_notetype or log.missing_deck or log.empty_first_field)
        return len(log.new), len(log.updated), len(log.duplicate)

    english, chinese = cards("en", "written") + cards("en"), cards("zh", "written") + cards("zh")
    assert take(english, "en", MADE) == (len(english), 0, 0)
    assert take(chinese, "zh", MADE) == (len(chinese), 0, 0)
    # A later deck, in which one text is another: nothing is doubled, and the text is the new one.
    changed = [replace(c, ask="Another question?") if c.id == "written:stop-loss-window" else c for c in english]
    new, updated, _ = take(changed, "en", MADE + 3600)
    assert (new, updated) == (0, len(english)) and collection.note_count() == len(english) + len(chinese)
    hits = collection.find_notes("deck:playbook Id:written:stop-loss-window")
    assert [collection.get_note(n)["Ask"] for n in hits] == ["Another question?"]
    media = {p.name for p in Path(collection.media.dir()).iterdir()}
    for note_id in collection.find_notes(""):
        note = collection.get_note(note_id)
        (card,) = note.cards()
        assert card.question() and card.answer() and "{{" not in card.question() + card.answer(), note["Id"]
        assert set(re.findall(r'<img src="([^"]+)"', note["Picture"])) <= media, note["Id"]
    decks = {name.name for name in collection.decks.all_names_and_ids()}
    assert {"playbook", "playbook (zh)"} <= decks
    collection.close()
