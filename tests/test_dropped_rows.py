"""What a reader leaves out is told: rows with too few cells, words where numbers belong, holes of NUL bytes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from playbook import readers
from playbook.series import FileReport

HEAD = "step,loss,grad_norm,lr\n"
ROWS = [f"{k},{3 - k / 100:.4f},1.{k % 5},0.001" for k in range(60)]
OBJECTS = [json.dumps({"step": k, "loss": 3 - k / 100}) for k in range(60)]
LINES = [f"step {k} loss {3 - k / 100:.4f}" for k in range(60)]


def told(folder: Path, name: str, rows: list[str], odd: bytes, head: str = "") -> FileReport:
    """The report of a file with `odd` as its 31st row."""
    parts = [head.encode(), "\n".join(rows[:30]).encode(), b"\n", odd, b"\n", "\n".join(rows[30:]).encode(), b"\n"]
    path = folder / name
    path.write_bytes(b"".join(parts))
    run = readers.read([path])
    series = run.one("loss")
    assert series is not None and len(series) >= 60
    return run.files[0]


ODD = {
    "a row of NUL": (b"\0\0\0\0", "4 NUL bytes"),
    "a cell of NUL": (b"30,\0\0,1.0,0.001", "2 NUL bytes"),
    "too few cells": (b"30,2.5", "2 cells where the header has 4"),
    "two rows in one": (b"30,2.531,2.49,1.0,0.001", "5 cells where the header has 4"),
    "words": (b"a,b,c,d", "holds no number"),
    "a line of a log": (b"killed by signal 9", "1 cells where"),
    "a step that is none": (b"3x,2.5,1.0,0.001", "a cell of `step` holds no number but `3x`"),
    "a loss that is none": (b"30,oops,1.0,0.001", "a cell of `loss` holds no number but `oops`"),
    "bytes of no text": (b"30,\xff\xfe\xfd,1.0,0.001", "a cell of `loss` holds no number"),
}


@pytest.mark.parametrize(("odd", "what"), ODD.values(), ids=ODD)
def test_what_a_table_leaves_out_is_told_in_one_line(tmp_path: Path, odd: bytes, what: str) -> None:
    (problem,) = told(tmp_path, "run.csv", ROWS, odd, HEAD).problems
    assert what in problem.what


SOUND = [b"30,2.5,,", b"30,nan,1.0,0.001", b"30,2.5,-,n/a", HEAD.strip().encode(), b"# a note", b""]


@pytest.mark.parametrize("odd", SOUND)
def test_gaps_headers_and_notes_are_no_loss(tmp_path: Path, odd: bytes) -> None:
    assert not told(tmp_path, "run.csv", ROWS, odd, HEAD).problems


def test_many_rows_that_are_left_out_are_counted(tmp_path: Path) -> None:
    rows = [f"{k},{3 - k / 1000:.4f},1.0,0.001" for k in range(900)]
    path = tmp_path / "run.csv"
    path.write_text(HEAD + "\n".join([*rows[:800], *["x,y"] * 70, *rows[800:]]) + "\n")
    problems = readers.read([path]).files[0].problems
    assert problems[-1].what == "70 rows in all are left out" and len(problems) <= 12


@pytest.mark.parametrize(("name", "rows"), [("run.jsonl", OBJECTS), ("run.log", LINES)])
def test_a_hole_in_other_files_is_told_too(tmp_path: Path, name: str, rows: list[str]) -> None:
    assert not told(tmp_path, name, rows, b"").problems
    (problem,) = told(tmp_path, name, rows, b"\0" * 40).problems
    assert "40 NUL bytes" in problem.what


def test_a_column_that_is_mostly_words_is_no_damage(tmp_path: Path) -> None:
    rows = [f"{row},{'good' if k % 3 else 'bad'}" for k, row in enumerate(ROWS)]
    assert not told(tmp_path, "run.csv", rows, b"60,2.4,1.0,0.001,good", HEAD.strip() + ",reward\n").problems


WORDS = {
    "a step": (b'{"step": "3x", "loss": 2.5}', "a cell of `step` holds no number but `3x`"),
    "a loss": (b'{"step": 30, "loss": "oops"}', "a cell of `loss` holds no number but `oops`"),
}


@pytest.mark.parametrize(("odd", "what"), WORDS.values(), ids=WORDS)
def test_words_where_a_row_of_json_has_a_number_are_told(tmp_path: Path, odd: bytes, what: str) -> None:
    (problem,) = told(tmp_path, "run.jsonl", OBJECTS, odd).problems
    assert what in problem.what and problem.line == 31


@pytest.mark.parametrize("odd", [b'{"step": 30, "loss": "NaN"}', b'{"step": 30, "loss": null}', b'{"epoch": "1/10"}'])
def test_what_is_left_empty_in_json_is_no_damage(tmp_path: Path, odd: bytes) -> None:
    assert not told(tmp_path, "run.jsonl", OBJECTS, odd).problems
