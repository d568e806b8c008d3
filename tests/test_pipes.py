"""A pipe in the place of a file: every option that reads or writes one refuses it in one line and never waits."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from playbook.errors import only_file
from playbook.faces.cli import run

pytestmark = pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no named pipes here")
PATIENCE = 60  # seconds after which a command counts as waiting for ever


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.chdir(tmp_path)

    def late(*_: object) -> None:
        raise TimeoutError("it waits for the pipe")

    before = signal.signal(signal.SIGALRM, late)
    signal.alarm(PATIENCE)
    yield tmp_path
    signal.alarm(0)
    signal.signal(signal.SIGALRM, before)


@pytest.mark.parametrize(
    "arguments",
    [
        ["diagnose", "--case", "PIPE.yaml"],
        ["diagnose", "PIPE.csv", "--no-input"],
        ["ingest", "PIPE.log"],
        ["drill", "./PIPE.yaml", "--par"],
        ["drill", "--seed", "1", "--answers", "PIPE.yaml"],
        ["drill", "--seed", "1", "--leader-notes", "PIPE.html"],
        ["quiz", "--seed", "1", "--answers", "PIPE.yaml"],
        ["quiz", "--interview", "--seed", "1", "--answers", "PIPE.json"],
        ["quiz", "--seed", "1", "--count", "1", "--report", "PIPE.md"],
        ["quiz", "export", "--topic", "published", "--out", "PIPE.apkg"],
        ["incident", "import", "PIPE.zip"],
        ["incident", "open", "PIPE.csv"],
        ["incident", "export", "--all", "--out", "b.zip", "--rules", "PIPE.yaml"],
        ["evaluate", "PIPE.yaml"],
        ["preflight", "PIPE.yaml"],
        ["compare", "PIPE.csv", "PIPE.csv"],
        ["verify-resume", "PIPE.csv", "PIPE.csv"],
        ["fleet", "PIPE.csv"],
        ["watch", "PIPE.csv", "--max-seconds", "0"],
        ["site", "build", "--out", "PIPE"],
        ["demo", "--out", "PIPE"],
        ["knowledge", "new", "signals", "mine", "--out", "PIPE"],
        ["ingest", "PIPE.csv", "--knowledge", "PIPE"],
        ["replay", "PIPE"],
    ],
)
def test_a_pipe_is_refused_in_one_line(here: Path, arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    for name in arguments:
        if "PIPE" in name and not Path(name).exists():
            os.mkfifo(here / name)
    if "export" in arguments and "incident" in arguments:
        assert run(["incident", "open", "--title", "one to export"]) == 0
    assert run(arguments) == 2
    said = capsys.readouterr().err.strip().splitlines()
    assert said[-1].startswith("error: ") and "PIPE" in said[-1], said
    assert "Errno" not in said[-1] and not any("Traceback" in line for line in said)


def test_pipes_in_a_pack_and_beside_a_case_are_passed_over(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pack = here / "pack"
    (pack / "signals").mkdir(parents=True)
    for name in ("signals/x.yaml", "learned.yaml", "classes.yaml", "sources.yaml", "verdicts.yaml"):
        os.mkfifo(pack / name)
    (here / "m.csv").write_text("step,loss\n" + "".join(f"{k},2.0\n" for k in range(50)))
    assert run(["ingest", "m.csv", "--knowledge", str(pack)]) == 0
    os.mkfifo(here / "metrics.csv")
    (here / "case.yaml").write_text("answers: {loss-shape: plateau}\nmetrics: [metrics.csv]\ncauses: [optimization]\n")
    assert run(["diagnose", "--case", "case.yaml", "--no-input"]) == 2
    assert "metrics.csv: is a device, a pipe or a socket" in capsys.readouterr().err


def test_files_folders_and_what_is_not_there_pass(here: Path) -> None:
    (here / "file").write_text("x")
    assert only_file(here / "file") == here / "file"
    assert only_file(here) == here and only_file(here / "new") == here / "new"
    os.mkfifo(here / "pipe")
    (here / "link").symlink_to(here / "pipe")
    for name in ("pipe", "link", "/dev/null"):
        with pytest.raises(OSError, match="not a file"):
            only_file(here / name)
