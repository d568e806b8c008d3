"""Folders of case files as people keep them: what is no case is named and passed over, a broken case is refused."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from playbook.faces.cli import run as command

CASE = """\
id: mine
causes: [lr_too_high]
split: development
answers: {loss-shape: persistent-spike, lower-lr-removes-it: yes, no-such-signal: yes, precision: fp12}
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "mine.yaml").write_text(CASE)
    return tmp_path


@pytest.mark.parametrize(
    "text",
    [
        "learning_rate: 3.0e-4\nmodel: {hidden: 4096, causes: none}\n",
        "- a\n- list\n",
        "just words\n",
        "broken: [yaml\n",
        "",
        b"\xff\xfe\x00\x01",
    ],
)
def test_what_is_no_case_is_named_and_passed_over(
    folder: Path, text: str | bytes, capsys: pytest.CaptureFixture[str]
) -> None:
    beside = folder / "runs" / "config.yaml"
    beside.parent.mkdir()
    beside.write_bytes(text if isinstance(text, bytes) else text.encode())
    assert command(["evaluate", str(folder), "--json"]) == 0
    said = capsys.readouterr()
    document = json.loads(said.out)
    assert document["cases"] == 1 and document["passed_over"] == [str(beside)]
    (line,) = said.err.splitlines()
    assert line.startswith(f"{beside}: is no case file and is passed over")
    assert command(["evaluate", str(folder), "--lang", "zh"]) == 0
    assert "不是案例文件，已跳过" in capsys.readouterr().err


@pytest.mark.parametrize(
    "text",
    [
        "id: x\nanswers: {loss-shape: plateau}\n",
        "causes: []\n",
        "causes: [a]\nanswers: [b]\n",
        "causes: [a\n",
        "{id: 1, causes: 3}",
    ],
)
def test_what_is_meant_as_a_case_and_broken_is_refused(
    folder: Path, text: str, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "other.yml").write_text(text)
    assert command(["evaluate", str(folder)]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert "other.yml" in line


def test_no_cases_is_a_fault(tmp_path: Path, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert command(["evaluate", str(folder), "--split", "test"]) == 2
    assert "no case of the half test" in capsys.readouterr().err
    (folder / "mine.yaml").rename(folder / "mine.txt")
    (folder / "config.yaml").write_text("lr: 1\n")
    assert command(["evaluate", str(folder)]) == 2
    assert "holds no case files" in capsys.readouterr().err.splitlines()[-1]


def test_a_diagnosis_from_a_case_says_what_it_could_not_use(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = str(folder / "mine.yaml")
    assert command(["diagnose", "--case", path, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["unmapped"] == ["no-such-signal", "precision"]
    assert command(["diagnose", "--case", path]) == 0
    assert "no-such-signal, precision: the case answers" in capsys.readouterr().err
    assert command(["evaluate", path, "--json"]) == 0
    (case,) = json.loads(capsys.readouterr().out)["per_case"]
    assert case["unmapped"] == ["no-such-signal", "precision"]


def test_learning_names_what_is_no_case(folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "config.yaml").write_text("lr: 1\n")
    pack = tmp_path / "pack"
    assert command(["knowledge", "learn", str(folder), "--pack", str(pack), "--dry-run", "--json"]) == 0
    (useless,) = json.loads(capsys.readouterr().out)["useless"]
    assert useless["id"].endswith("config.yaml") and "no case file" in useless["why"]


def test_cases_may_stand_one_a_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    lines = tmp_path / "cases.jsonl"
    one = '{"id": "%s", "causes": ["lr_too_high"], "answers": {"loss-shape": "plateau"}}'
    lines.write_text("\n".join([one % "a", "", one % "b"]), "utf-8")
    assert command(["evaluate", str(lines), "--json"]) == 0
    assert [case["id"] for case in json.loads(capsys.readouterr().out)["per_case"]] == ["a", "b"]
    lines.write_text(one % "a" + "\n{broken\n", "utf-8")
    assert command(["evaluate", str(lines)]) == 2
    told = capsys.readouterr().err.splitlines()
    assert len(told) == 1 and "cases.jsonl:2" in told[0]
