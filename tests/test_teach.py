"""Learning from confirmed incidents: counted once, shown before it is written, undone in a step; and the search."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from playbook.errors import PlaybookError
from playbook.faces.cli import run as command
from playbook.knowledge.loader import Book, load
from playbook.workflow.book import Library
from playbook.workflow.records.incident import Closing, close
from playbook.workflow.records.record import record as recorded
from playbook.workflow.search import search
from playbook.workflow.upkeep.teach import BACKGROUND, BEFORE, FILE, as_case, lesson, read_learned, undo, write
from tests.incidents_kit import session_on, shape

TINY = Path(__file__).parent / "tiny_knowledge"


def confirmed(book: Book, cause: str | None, **answers: str) -> str:
    """A recorded incident, closed with a cause where one is given."""
    session = session_on(book)
    session.observe([shape()])
    for signal, state in answers.items():
        session.answer(signal.replace("_", "-"), state)
    name = recorded(session, None, session.diagnosis())
    if cause is not None:
        close(name, Closing(cause, note="x"), book)
    return name


def test_only_confirmed_incidents_are_counted_and_each_once(tiny: Book, tmp_path: Path) -> None:
    first = confirmed(tiny, "lr-peak", lower_lr_removes_it="yes", precision="bf16")
    confirmed(tiny, None, precision="fp16")
    odd = confirmed(tiny, "other", precision="fp32")
    library = Library(tiny)
    found = lesson(library, tmp_path, incidents=True)
    assert found.new == (first,) and [i for i, _ in found.useless] == [odd]
    assert found.learned["counts"] == {
        "lr_too_high": {
            "loss-shape": {"persistent-spike": 1.0},
            "lower-lr-removes-it": {"yes": 1.0},
            "precision": {"bf16": 1.0},
        }
    }
    write(tmp_path, found.learned)
    again = lesson(library, tmp_path, incidents=True)
    assert again.new == () and again.known == (first,) and again.shifts == ()
    second = confirmed(tiny, "lr-peak", lower_lr_removes_it="no")
    more = lesson(library, tmp_path, incidents=True)
    assert more.new == (second,) and more.learned["cases"] == sorted([first, second])
    assert more.learned["counts"]["lr_too_high"]["lower-lr-removes-it"] == {"yes": 1.0, "no": 1.0}


def test_what_was_learned_moves_the_book_as_it_was_shown(tiny: Book, tmp_path: Path) -> None:
    """P(yes | lr-peak) = (words x 4 + 1) / (4 + 1), and the loaded pack says the same."""
    confirmed(tiny, "lr-peak", lower_lr_removes_it="no")
    found = lesson(Library(tiny), tmp_path / "pack", incidents=True)
    shift = next(
        s for s in found.shifts if (s.class_, s.signal, s.state) == ("lr_too_high", "lower-lr-removes-it", "no")
    )
    write(tmp_path / "pack", found.learned)
    taught = Library(load([TINY, tmp_path / "pack"])).tables
    before = Library(tiny).tables
    k = before.column("lower-lr-removes-it", "no")
    assert k is not None
    h = before.index("lr-peak")
    assert shift.before == pytest.approx(before.likelihood[h, k], abs=1e-4)
    assert shift.after == pytest.approx(taught.likelihood[h, k], abs=1e-4)
    assert shift.after > shift.before
    assert any(s.class_ == BACKGROUND for s in found.shifts)
    assert abs(found.shifts[0].after - found.shifts[0].before) >= abs(found.shifts[-1].after - found.shifts[-1].before)


def test_case_files_teach_too(tiny: Book, tmp_path: Path) -> None:
    found = lesson(Library(tiny), tmp_path / "pack", [TINY / "cases"])
    assert found.new == ("tiny-data", "tiny-lr")
    with pytest.raises(PlaybookError, match="no such folder"):
        lesson(Library(tiny), tmp_path / "pack", [tmp_path / "nosuch"])


def test_undo_puts_back_what_was_there(tiny: Book, tmp_path: Path) -> None:
    pack = tmp_path / "pack"
    with pytest.raises(PlaybookError, match="nothing to undo"):
        undo(pack)
    write(pack, {"cases": ["a"], "counts": {}})
    write(pack, {"cases": ["a", "b"], "counts": {}})
    assert undo(pack) and read_learned(pack)["cases"] == ["a"]
    write(pack, {"cases": ["c"], "counts": {}})
    assert undo(pack) and read_learned(pack)["cases"] == ["a"]
    fresh = tmp_path / "fresh"
    write(fresh, {"cases": ["a"], "counts": {}})
    assert not undo(fresh)
    assert not (fresh / FILE).exists() and not (fresh / BEFORE).exists()


@pytest.mark.parametrize("text", ["- list\n", "counts: 7\n"])
def test_a_damaged_learned_file_is_told(tmp_path: Path, text: str) -> None:
    (tmp_path / FILE).write_text(text)
    with pytest.raises(PlaybookError, match="holds no counts"):
        read_learned(tmp_path)


def test_an_open_incident_is_no_case(tiny: Book) -> None:
    from playbook.workflow.records.shelf import shelf

    name = confirmed(tiny, None, precision="bf16")
    with shelf() as store:
        assert as_case(store.get(name), tiny) is None


def test_the_command_dry_run_write_and_undo(tiny: Book, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    name = confirmed(tiny, "lr-peak", lower_lr_removes_it="yes")
    base = ["knowledge", "learn", "--incidents", "--knowledge", str(TINY), "--pack", str(tmp_path / "ours")]
    assert command([*base, "--dry-run"]) == 0
    told = capsys.readouterr().out
    assert "P(loss-shape = persistent-spike | lr_too_high)" in told and "nothing written" in told
    assert not (tmp_path / "ours").exists()
    assert command([*base, "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["new"] == [name] and document["written"] == str(tmp_path / "ours" / FILE)
    assert command([*base, "--undo"]) == 0
    assert not (tmp_path / "ours" / FILE).exists()


@pytest.mark.parametrize(
    ("arguments", "what"),
    [((), "names no pack"), (("--pack", "x"), "nothing to learn from"), (("--pack", "x", "--undo"), "nothing to undo"),
     (("--pack", "x", "nosuch"), "no such folder")],
)  # fmt: skip
def test_bad_usage_is_one_line_and_exit_2(
    arguments: tuple[str, ...],
    what: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("playbook.places.knowledge", lambda: TINY)
    assert command(["knowledge", "learn", *arguments]) == 2
    told = capsys.readouterr().err
    assert what in told and told.count("\n") == 1


# Search.


@pytest.mark.parametrize(
    ("query", "first"),
    [
        ("lr-peak", "lr-peak"),
        ("LOWER peak", "lower-peak-lr"),
        ("out of memory", "crash-tail"),
        ("tiny-data", "tiny-data"),
    ],
)
def test_search_finds_what_is_about_the_words_first(tiny: Book, query: str, first: str) -> None:
    assert search(tiny, query)[0].id == first


def test_every_word_must_occur(tiny: Book) -> None:
    assert search(tiny, "peak zygote") == [] and search(tiny, "  ") == []
    assert len(search(tiny, "tiny", most=3)) == 3


def test_search_on_the_command_line_finds_incidents_too(tiny: Book, capsys: pytest.CaptureFixture[str]) -> None:
    name = confirmed(tiny, "lr-peak", precision="bf16")
    assert command(["knowledge", "search", "lr-peak", "--json", "--knowledge", str(TINY)]) == 0
    document = json.loads(capsys.readouterr().out)
    assert [i["id"] for i in document["incidents"]] == [name]
    assert "lr-peak" in [e["id"] for e in document["entries"]]
    assert command(["knowledge", "search", "zygote-nowhere"]) == 0
    assert "nothing holds" in capsys.readouterr().out
