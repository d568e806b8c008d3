"""The fences of the house: what a command may load, how long a module may be, and that the tables hold."""

from __future__ import annotations

import ast
import importlib
import re
import subprocess
import sys
from pathlib import Path

import pytest

import playbook
from playbook import readers
from playbook.faces.overview import COMMANDS, text

PACKAGE = Path(playbook.__file__).parent
MODULES = sorted(PACKAGE.rglob("*.py"))
LONGEST = 400  # lines
HEAVY = ("textual", "sqlmodel", "sqlalchemy", "networkx", "jinja2", "duckdb", "pandas", "torch", "alembic", "rich")
CLOCKS = {"time.time", "time.monotonic", "datetime.now", "datetime.utcnow", "date.today", "random.random", "os.urandom"}
BELOW_WORKFLOW = ("engine", "readers", "detectors", "knowledge")


def loaded(code: str) -> set[str]:
    """Top-level packages that a piece of code loads in a fresh interpreter."""
    program = f"{code}\nimport sys; print(' '.join(sorted({{m.split('.')[0] for m in sys.modules}})))"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    return set(done.stdout.split())


@pytest.mark.parametrize("path", MODULES, ids=lambda p: str(p.relative_to(PACKAGE)))
def test_modules_are_short_and_say_what_they_promise(path: Path) -> None:
    source = path.read_text("utf-8")
    assert source.count("\n") <= LONGEST, f"{path.name} has more than {LONGEST} lines"
    if source.strip():
        assert ast.get_docstring(ast.parse(source)), f"{path.name} has no docstring"


@pytest.mark.parametrize(
    ("code", "may_load"),
    [
        ("import playbook.__main__, playbook.faces.overview", set()),
        ("import playbook.faces.cli", set()),
        ("import playbook.engine.diagnosis", set()),
        ("import playbook.readers, playbook.detectors", set()),
        ("import playbook.workflow.ingest, playbook.workflow.session, playbook.workflow.evaluate", set()),
        ("import playbook.faces.report", {"rich"}),
    ],
)
def test_heavy_imports_stay_behind_their_door(code: str, may_load: set[str]) -> None:
    assert loaded(code) & set(HEAVY) <= may_load


def test_the_overview_loads_nothing_at_all() -> None:
    assert not loaded("import playbook.faces.overview") & {"click", "numpy", "pydantic", "yaml"}


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_has_help(command: str) -> None:
    from click.testing import CliRunner

    from playbook.faces.cli import playbook as group

    result = CliRunner().invoke(group, [command, "--help"])
    assert result.exit_code == 0, result.output
    assert len(result.output.split()) > 15 and command in text()


@pytest.mark.parametrize("path", MODULES, ids=lambda p: str(p.relative_to(PACKAGE)))
def test_what_is_read_as_a_number_is_asked_for_decimals(path: Path) -> None:
    """`"²".isdigit()` is true, and `int("²")` raises: what `int` can read is what `isdecimal` says."""
    assert ".isdigit(" not in path.read_text("utf-8")


def test_every_command_that_a_text_names_is_there() -> None:
    """In hints, comments, the book, the site and the README: `playbook WORD` and, of a group, `playbook WORD WORD`."""
    import click

    from playbook.faces.cli import playbook as group

    context = click.Context(group)
    commands = {name: group.get_command(context, name) for name in group.list_commands(context)}
    root = PACKAGE.parent
    texts = [*MODULES, *(root / "knowledge").rglob("*.yaml"), *(root / "site").glob("*/*.[hj]*"), root / "README.md"]
    wrong = set()
    for path in texts:
        for named in re.finditer(r"`playbook ([a-z][a-z-]*)(?: ([a-z][a-z-]*))?", path.read_text("utf-8")):
            command = commands.get(named[1])
            inner = command.list_commands(context) if isinstance(command, click.Group) and named[2] else None
            if command is None or (inner is not None and named[2] not in inner):
                wrong.add(f"{path.relative_to(root)}: {named[0]}`")
    assert not wrong


def test_the_table_of_readers_names_modules_with_the_contract() -> None:
    for name in readers.TABLE:
        module = importlib.import_module(f"playbook.readers.{name}")
        assert module.NAME and module.TITLE and callable(module.sniff) and callable(module.read), name
    assert {importlib.import_module(f"playbook.readers.{n}").NAME for n in readers.TABLE} >= readers.SYSTEM


@pytest.mark.parametrize("room", BELOW_WORKFLOW)
def test_no_clock_and_no_chance_below_the_workflow(room: str) -> None:
    for path in (PACKAGE / room).rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
                assert ast.unparse(node.func) not in CLOCKS, f"{path.name}:{node.lineno}"
