"""What a shell offers after TAB: ids of the book, answers, recorded incidents, the shell's own files."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.shell_completion import ShellComplete

from playbook.faces.cli import playbook, run


def offered(args: list[str], incomplete: str) -> list[str]:
    found = ShellComplete(playbook, {}, "playbook", "_PLAYBOOK_COMPLETE").get_completions(args, incomplete)
    return [item.value if item.type == "plain" else f"<{item.type}>" for item in found]


@pytest.mark.parametrize(
    ("args", "incomplete", "one", "never"),
    [
        (["knowledge", "show"], "lr-too", "lr-too-high-constant", "grad-norm-before"),
        (["knowledge", "graph"], "grad-norm", "grad-norm-before", "lr-too-high-constant"),
        (["knowledge", "show", "--kind", "symptoms"], "", "persistent-spike", "lr-too-high-constant"),
        (["knowledge", "show", "--kind"], "ca", "causes", "signals"),
        (["diagnose", "--answer"], "grad-norm-before=", "grad-norm-before=climbs", "precision=fp16"),
        (["incident", "open", "--answer"], "precision=f", "precision=fp16", "grad-norm-before=climbs"),
        (["drill"], "lr-peak", "lr-peak-hard-samples-7b", "lr-too-high-constant"),
        (["replay"], "lr-peak", "lr-peak-hard-samples-7b", "lr-too-high-constant"),
    ],
)
def test_ids_of_the_book_are_offered(args: list[str], incomplete: str, one: str, never: str) -> None:
    found = offered(args, incomplete)
    assert one in found and never not in found
    assert all(value.startswith(incomplete) for value in found)


@pytest.mark.parametrize("command", ["diagnose", "ingest", "watch", "fleet", "verify-resume", "compare", "preflight"])
def test_paths_are_left_to_the_shell(command: str) -> None:
    assert offered([command], "log") == ["<file>"]


def test_recorded_incidents_are_offered_and_a_broken_database_offers_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    db = f"sqlite:///{tmp_path / 'playbook.db'}"
    assert offered(["incident", "show", "--db", db], "") == []
    assert not (tmp_path / "playbook.db").exists(), "to look is not to make one"
    assert run(["diagnose", "--no-input", "--answer", "loss-shape=plateau", "--record", "--db", db, "--json"]) == 0
    (found,) = offered(["incident", "show", "--db", db], "")
    assert found in capsys.readouterr().out
    assert offered(["incident", "export", "--db", db], "x") == []
    (tmp_path / "broken.db").write_text("no database")
    assert offered(["incident", "show", "--db", f"sqlite:///{tmp_path / 'broken.db'}"], "") == []
    assert offered(["knowledge", "show", "--knowledge", str(tmp_path / "absent")], "lr-") == []
