"""The command line as a stranger meets it: odd names, odd terminals, odd numbers; one clear line for each fault."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from playbook.faces.cli import playbook
from playbook.faces.cli import run as command
from playbook.faces.cli.common import late
from playbook.faces.wrapping import cells

TINY = Path(__file__).parent / "tiny_knowledge"
CURVE = "step,loss\n" + "".join(f"{step},{3 - step * 0.01:.3f}\n" for step in range(100))


def fresh(*args: str, **environment: str) -> tuple[int, str, str]:
    """A process of its own: what a shell or a script sees."""
    done = subprocess.run(
        [sys.executable, "-m", "playbook", *args],
        capture_output=True,
        env={**os.environ, "PLAYBOOK_KNOWLEDGE": "", "NO_COLOR": "1", **environment},
        timeout=60,
    )
    encoding = environment.get("PYTHONIOENCODING", "utf-8")
    return done.returncode, done.stdout.decode(encoding), done.stderr.decode(encoding)


@pytest.fixture
def odd(tmp_path: Path) -> Path:
    """A column that no encoding can write, under a name that is no UTF-8."""
    rows = "".join(json.dumps({"step": s, "loss": 2.0 - s * 0.01, "\ud800 ü": 3}) + "\n" for s in range(60))
    (tmp_path / os.fsdecode(b"bad\xff.jsonl")).write_text(rows)
    return tmp_path


@pytest.mark.parametrize("encoding", ["utf-8", "ascii", "latin-1"])
def test_what_the_terminal_cannot_write_is_escaped(odd: Path, encoding: str) -> None:
    code, out, err = fresh("ingest", str(odd), PYTHONIOENCODING=encoding)
    assert code == 0, err
    assert "Traceback" not in err and "healthy" in out and "\\ud800" in out


def test_numbers_at_the_end_of_the_range_are_no_noise_on_the_terminal(tmp_path: Path) -> None:
    rows = "".join(f"{s},{1.7e308 if s % 3 else -1.7e308},5e-324,1e308\n" for s in range(200))
    (tmp_path / "a.csv").write_text("step,loss,grad_norm,lr\n" + rows)
    code, out, err = fresh("ingest", str(tmp_path / "a.csv"))
    assert code == 0 and not err and "200 rows" in out


def test_a_name_without_end_is_shortened(tmp_path: Path) -> None:
    rows = (json.dumps({"step": step, "loss": 2 - step / 100, "x" * 50_000: 1}) for step in range(60))
    (tmp_path / "a.jsonl").write_text("\n".join(rows) + "\n")
    code, out, err = fresh("ingest", str(tmp_path / "a.jsonl"))
    assert code == 0, err
    assert len(out) < 10_000 and "not used: xxxx" in " ".join(out.split())  # not 50,000


@pytest.mark.parametrize("encoding", ["utf-8", "ascii"])
def test_json_is_json_on_every_terminal(odd: Path, encoding: str) -> None:
    code, out, err = fresh("ingest", "--json", str(odd), PYTHONIOENCODING=encoding)
    assert code == 0, err
    run = json.loads(out)["run"]
    assert run["unmapped"] == ["\ud800 ü"]
    assert run["files"][0]["path"].endswith("bad\udcff.jsonl")


def said(capsys: pytest.CaptureFixture[str], *args: str) -> str:
    """The one line of a command that ends with 2."""
    assert command(args) == 2
    out, err = capsys.readouterr()
    assert not out and err.count("\n") == 1 and "Traceback" not in err
    return err


def test_an_empty_path_is_no_folder(capsys: pytest.CaptureFixture[str]) -> None:
    assert "empty" in said(capsys, "ingest", "")


@pytest.mark.parametrize("content", [None, b"id: \xe9t\xe9\n"])
def test_a_file_that_cannot_be_read_is_told_in_plain_words(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], content: bytes | None
) -> None:
    pack = tmp_path / "pack" / "causes"
    pack.mkdir(parents=True)
    path = pack / "a.yaml"
    path.write_bytes(content) if content is not None else path.mkdir()
    for args in (("diagnose", "--no-input", "--case", str(path)), ("quiz", "--answers", str(path))):
        line = said(capsys, *args)
        assert "cannot be read: " in line and "Errno" not in line and "codec" not in line
    if content is not None:
        assert "no UTF-8 text" in said(capsys, "diagnose", "--no-input", "--knowledge", str(tmp_path / "pack"))


@pytest.mark.parametrize("pair", ["=x", "precision", ""])
def test_an_answer_without_signal_or_state_is_told(capsys: pytest.CaptureFixture[str], pair: str) -> None:
    assert "SIGNAL=STATE" in said(capsys, "diagnose", "--no-input", "--answer", pair)


@pytest.mark.parametrize("seconds", ["nan", "inf", "0"])
def test_seconds_of_a_step_are_a_number(capsys: pytest.CaptureFixture[str], seconds: str) -> None:
    assert "--step-seconds" in said(capsys, "diagnose", "--no-input", "--step-seconds", seconds)


@pytest.mark.parametrize("pair", ["los=loss", "my metric=loss"])
def test_a_map_to_no_metric_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str], pair: str) -> None:
    (tmp_path / "a.csv").write_text(CURVE)
    assert "is no metric" in said(capsys, "ingest", "--map", pair, str(tmp_path / "a.csv"))


def test_a_mapped_column_that_is_not_there_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "a.csv").write_text(CURVE)
    assert "my_loss" in said(capsys, "ingest", "--map", "loss=my_loss", str(tmp_path / "a.csv"))
    assert command(["ingest", "--map", "eval_loss=loss", str(tmp_path / "a.csv")]) == 0


SMI = """==============NVSMI LOG==============

Timestamp                                 : Mon Mar  3 11:02:11 2025
Driver Version                            : 535.129.03
Attached GPUs                             : 1
GPU 00000000:07:00.0
    Product Name                          : NVIDIA A100-SXM4-80GB
    GPU Link Info
        PCIe Generation
            Max                           : 4
            Current                       : 4
        Link Width
            Max                           : 16x
            Current                       : {width}x
    Utilization
        Gpu                               : 99 %
"""


@pytest.mark.parametrize(("width", "verdict"), [(16, "healthy"), (8, "undecided")])
def test_a_machine_file_with_a_fault_is_not_healthy(tmp_path: Path, width: int, verdict: str) -> None:
    """The tiny book knows no GPU signal: what nvidia-smi calls not in order still keeps it from `healthy`."""
    from playbook.knowledge.loader import load
    from playbook.workflow.ingest import ingest

    (tmp_path / "smi.txt").write_text(SMI.format(width=width))
    assert ingest([str(tmp_path / "smi.txt")], load([TINY])).verdict == verdict


@pytest.mark.parametrize(
    ("args", "meant"),
    [
        ("--lang zh diagnose run.csv --no-input", "diagnose run.csv --no-input --lang zh"),
        ("--json --lang=zh ingest run.csv", "ingest run.csv --json --lang=zh"),
        ("--knowledge a --knowledge b knowledge lint", "knowledge lint --knowledge a --knowledge b"),
        ("--port 80 --lang zh tui", "--port 80 tui --lang zh"),
        ("--lang zh ingest -- --json", "ingest --lang zh -- --json"),
        ("diagnose --lang zh", "diagnose --lang zh"),
        ("--lang zh", "--lang zh"),
        ("--lang", "--lang"),
        ("--lang zh -- x", "--lang zh -- x"),
        ("", ""),
    ],
)
def test_shared_options_may_stand_before_the_command(args: str, meant: str) -> None:
    assert late(args.split(), {"--port": 1, "--plain": 0, "--lang": 1}) == meant.split()


def test_every_group_takes_shared_options_before_its_command(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    db = f"sqlite:///{tmp_path / 'x.db'}"
    for args in (
        ["--knowledge", str(TINY), "--json", "--lang", "zh", "knowledge", "show", "lr-peak"],
        ["knowledge", "--json", "show", "lr-peak"],
        ["--db", db, "--json", "incident", "list"],
        ["incident", "--db", db, "--json", "list"],
        ["--json", "--lang", "zh", "diagnose", "--answer", "precision=fp16"],
    ):
        code = command(args)
        said = capsys.readouterr()
        if "knowledge" in args and "--knowledge" not in args:
            assert code == 2 and "lr-peak" in said.err  # the built-in book has no such cause
        else:
            assert code == 0 and json.loads(said.out) is not None, (args, said.err)
    assert command(["--lang", "zh", "diagnose", "no-such-file"]) == 2
    assert "没有这个文件" in capsys.readouterr().err
    assert command(["--json", "demo"]) == 2, "an option that the command does not have is refused as ever"


def _commands(command: click.Command, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], click.Command]]:
    yield path, command
    if isinstance(command, click.Group):
        with click.Context(command) as ctx:
            for name in command.list_commands(ctx):
                below = command.get_command(ctx, name)
                assert below is not None
                yield from _commands(below, (*path, name))


@pytest.mark.parametrize("language", ["en", "zh"])
def test_every_help_fits_into_eighty_columns(language: str, capsys: pytest.CaptureFixture[str]) -> None:
    """The one line that is no prose, a configuration to paste, stays whole."""
    seen = 0
    for path, _ in _commands(playbook):
        assert command([*path, "--help", "--lang", language] if path else ["--help"]) == 0
        for line in capsys.readouterr().out.splitlines():
            assert cells(line) <= 80 or "mcpServers" in line, (path, line)
            seen += 1
    assert seen > 300


@pytest.mark.parametrize(
    "words", ["ingest FILE --check", "diagnose FILE --no-input --json", "knowledge show", "--help"]
)
def test_a_reader_that_goes_away_is_neither_a_finding_nor_a_clean_bill(words: str, tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text(CURVE + "100,nan\n101,nan\n")
    args = words.replace("FILE", str(tmp_path / "a.csv")).split()
    reading, writing = os.pipe()
    os.close(reading)
    try:
        done = subprocess.run(
            [sys.executable, "-m", "playbook", *args],
            stdout=writing, stderr=subprocess.PIPE, env={**os.environ, "PLAYBOOK_KNOWLEDGE": ""}, timeout=60,
        )  # fmt: skip
    finally:
        os.close(writing)
    assert (done.returncode, done.stderr) == (141, b"")


def test_a_diagnosis_shows_first_aid_on_the_first_screen_and_where_its_reasons_stand(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text(CURVE + "".join(f"{step},nan\n" for step in range(100, 120)))
    code, out, err = fresh("diagnose", str(tmp_path / "a.csv"), "--no-input", COLUMNS="80")
    assert code == 0, err
    lines = out.splitlines()
    assert any("First aid" in line for line in lines[:12])
    assert "a.csv:102" in out.split("Causes")[1]


def test_commands_of_a_question_can_be_copied(tmp_path: Path) -> None:
    code, out, _ = fresh("diagnose", "--answer", "loss-shape=instant-nan", "--no-input", COLUMNS="60")
    assert code == 0
    ask = [
        line for line in out.splitlines() if "import " in line or "print(" in line or line.startswith(("grep", "dmesg"))
    ]
    assert ask and not any("│" in line for line in ask)


def test_narrow_terminals_break_no_names(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text(CURVE + "100,nan\n101,nan\n")
    code, out, _ = fresh("ingest", str(tmp_path / "a.csv"), COLUMNS="60")
    assert code == 0 and "present-at-first-step = no" in out


def test_an_empty_database_is_told_by_its_name(tmp_path: Path) -> None:
    code, out, _ = fresh("incident", "list", "--db", f"sqlite:///{tmp_path}/typo.db")
    assert code == 0 and f"{tmp_path}/typo.db" in out


def test_the_prompts_help_is_help_and_answers_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    import io

    from rich.console import Console

    from playbook.faces.prompts import walk
    from playbook.faces.words import Words
    from playbook.workflow.book import open_book
    from playbook.workflow.session import Session

    library = open_book()
    session = Session(library.book, library.tables)
    session.answer("loss-shape", "instant-nan", free=True)
    replies = iter(["?", "q"])
    monkeypatch.setattr(Console, "input", lambda *_, **__: next(replies))
    shown = io.StringIO()
    before = len(session.moves)
    walk(session, Console(file=shown, width=100), Words())
    assert len(session.moves) == before and "u = undo" in shown.getvalue()


def test_a_database_in_a_folder_that_may_not_be_entered_is_told_and_stops_no_diagnosis(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    look, locked = Path.stat, tmp_path / "locked" / "x.db"

    def stat(self: Path, **how: bool) -> os.stat_result:
        if self == locked:
            raise PermissionError(13, "Permission denied", str(self))
        return look(self, **how)

    monkeypatch.setattr(Path, "stat", stat)
    db = ["--db", f"sqlite:///{locked}"]
    for words, code in (("incident list", 2), ("diagnose --answer loss-shape=plateau --no-input", 0)):
        assert command([*words.split(), *db]) == code
        assert f"{locked}: cannot be opened: Permission denied" in capsys.readouterr().err
    assert command(["diagnose", "--answer", "loss-shape=plateau", "--no-input", "--record", *db]) == 2


def test_what_a_search_shows_is_text_and_no_pattern() -> None:
    from playbook.workflow.search import search
    from tests.lab import judge

    hits = {hit.id: hit for hit in search(judge.library().book, "CUDA out of memory", most=50)}
    assert "torch.OutOfMemoryError" in hits["loss-shape"].line
    assert not any(mark in hit.line for hit in hits.values() for mark in ("(?:", "\\.", "\\d"))
