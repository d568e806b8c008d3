"""The tools for a language model: by the protocol's own client, only below the roots, read-only unless allowed."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from playbook.engine.diagnosis import Diagnosis
from playbook.errors import PlaybookError
from playbook.faces.tools import Tools
from playbook.workflow.book import Library
from playbook.workflow.session import Session
from tests import live_kit as kit

client = pytest.importorskip("mcp.client", reason="the extra `mcp` is not installed")
if not hasattr(client, "Client"):
    pytest.skip("the client of mcp 2 is needed", allow_module_level=True)

READ_ONLY = {"ingest", "diagnose", "next_question", "search", "entry"}


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """A folder with a run that goes NaN, beside a secret."""
    root = tmp_path / "runs"
    root.mkdir()
    values = kit.losses(200)
    values[150:] = np.nan
    (root / "run.csv").write_bytes(kit.csv_bytes(values))
    (tmp_path / "secret.csv").write_bytes(kit.csv_bytes(kit.losses(50)))
    return root


def asked(server: Any, talk: Callable[[Any], Awaitable[Any]]) -> Any:
    """What a client hears that talks to a server in this process."""

    async def session() -> Any:
        async with client.Client(server) as one:
            return await talk(one)

    return asyncio.run(session())


def served(library: Library, root: Path, **options: Any) -> Any:
    from playbook.faces.cli.mcp import build

    return build(Tools(library, (root,), options.pop("db", None)), **options)


def called(server: Any, name: str, **arguments: Any) -> Any:
    """The answer of one tool: a document, or the text of its error."""
    result = asked(server, lambda c: c.call_tool(name, arguments))
    text = result.content[0].text if result.content else ""
    return text if result.is_error else (result.structured_content or json.loads(text))


def test_all_tools_are_read_only_and_documented(library: Library, run: Path) -> None:
    listed = asked(served(library, run), lambda c: c.list_tools()).tools
    assert {tool.name for tool in listed} == READ_ONLY
    for tool in listed:
        assert tool.annotations.read_only_hint is True and tool.annotations.destructive_hint is False
        assert len(tool.description.split()) > 5 and tool.input_schema["type"] == "object"


def test_ingest_and_diagnose(library: Library, run: Path) -> None:
    server = served(library, run)
    seen = called(server, "ingest", paths=["run.csv"])
    assert seen["verdict"] == "incident" and seen["symptom"]["id"] == "instant-nan"
    found = called(server, "diagnose", paths=[str(run)], answers={"precision": "fp16", "fp32-removes-it": "yes"})
    assert found["symptom"]["onset_step"] == 151 and 1 <= len(found["causes"]) <= 6
    assert found["causes"][0]["layer"] == "numerics" and found["first_aid"][0]["title"]
    assert len(json.dumps(found)) < 40_000
    answers = called(server, "diagnose", answers={"loss-shape": "plateau"})
    assert answers["symptom"]["id"] == "plateau"


def test_the_next_question_changes_with_the_answers(library: Library, run: Path) -> None:
    server = served(library, run)
    first = called(server, "next_question", paths=["run.csv"])
    signal = first["next"]["signal"]
    assert first["next"]["question"] and first["next"]["how"] and first["next"]["cost_minutes"] >= 0
    second = called(server, "next_question", paths=["run.csv"], answers={signal: next(iter(first["next"]["outcomes"]))})
    assert second["next"] is None or second["next"]["signal"] != signal
    unknown = called(server, "next_question", paths=["run.csv"], answers={signal: "unknown"})
    assert unknown["next"] is None or unknown["next"]["signal"] != signal


def test_a_repair_that_is_better_tried_is_told(library: Library, run: Path) -> None:
    """With its title and how its success shows, by both tools alike."""
    answers = a_moment_with_a_trial(library)
    expected = diagnosed(library, answers).trial
    assert expected is not None
    server = served(library, run)
    for name in ("diagnose", "next_question"):
        told = called(server, name, answers=answers)["trial"]
        assert told["fix"] == expected.fix and {"title", "chance", "cost_minutes", "cured", "not_cured"} <= set(told)


def a_moment_with_a_trial(library: Library) -> dict[str, str]:
    """Answers after which the engine would rather try a repair: on the first walk along its own questions that has one.

    On a walk every question gets its first outcome, or its second, or its last.
    """
    signals = library.book.signals
    for shape in signals["loss-shape"].outcomes:
        for place in (0, 1, -1):
            answers = {"loss-shape": shape}
            while (now := diagnosed(library, answers)).trial is None and now.next is not None:
                answers[now.next.signal] = list(signals[now.next.signal].outcomes)[place]
            if now.trial is not None:
                return answers
    pytest.fail("nowhere is a repair better tried")


def diagnosed(library: Library, answers: dict[str, str]) -> Diagnosis:
    session = Session(library.book, library.tables)
    for signal, state in answers.items():
        session.answer(signal, state, free=True)
    return session.diagnosis()


def test_the_book_is_searched_and_read(library: Library, run: Path) -> None:
    server = served(library, run)
    hits = called(server, "search", query="loss scale", most=5)["hits"]
    assert 0 < len(hits) <= 5 and {"kind", "id", "title", "line"} == set(hits[0])
    entry = called(server, "entry", id=hits[0]["id"])
    assert entry["kind"] == hits[0]["kind"] and entry["title"] == hits[0]["title"]
    assert called(server, "search", query="qwertyuiop")["hits"] == []


@pytest.mark.parametrize(
    ("name", "arguments", "what"),
    [
        ("ingest", {"paths": ["nowhere.csv"]}, "no such file"),
        ("ingest", {"paths": ["-"]}, "not read here"),
        ("diagnose", {}, "nothing is known"),
        ("diagnose", {"answers": {"precission": "fp16"}}, "did you mean"),
        ("diagnose", {"answers": {"precision": "fp17"}}, "no outcome"),
        ("entry", {"id": "loss-shap"}, "did you mean"),
    ],
)
def test_faults_are_one_line(library: Library, run: Path, name: str, arguments: dict[str, Any], what: str) -> None:
    said = called(served(library, run), name, **arguments)
    assert isinstance(said, str) and what in said and "Traceback" not in said and "\n" not in said


def test_nothing_outside_the_roots_is_read(library: Library, run: Path) -> None:
    tools = Tools(library, (run,))
    secret = run.parent / "secret.csv"
    (run / "link.csv").symlink_to(secret)
    (run / "sub").mkdir()
    (run / "sub" / "out").symlink_to(run.parent)
    for path in (str(secret), "../secret.csv", "link.csv", str(run.parent), "../*.csv", "/etc/*", "sub", "sub/out", "*",
                 str(run / ".." / "secret.csv"), "/etc/passwd", "/no/such/file", "[l]ink.csv"):  # fmt: skip
        with pytest.raises(PlaybookError, match="is not below"):
            tools.ingest([path])
    assert tools.ingest(["run.csv"])["verdict"] == tools.ingest(["r*.csv"])["verdict"] == "incident"


def test_recording_needs_leave(library: Library, run: Path, tmp_path: Path) -> None:
    db = f"sqlite:///{tmp_path / 'store.db'}"
    assert "record" not in {t.name for t in asked(served(library, run, db=db), lambda c: c.list_tools()).tools}
    assert isinstance(called(served(library, run, db=db), "record", paths=["run.csv"]), str)
    server = served(library, run, db=db, allow_record=True)
    stored = called(server, "record", paths=["run.csv"], title="by a model")
    listed = asked(server, lambda c: c.list_tools()).tools
    assert next(t for t in listed if t.name == "record").annotations.read_only_hint is False
    shown = subprocess.run(
        [sys.executable, "-m", "playbook", "incident", "show", stored["incident"], "--db", db, "--json"],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert json.loads(shown.stdout)


def test_over_standard_input_and_output(run: Path) -> None:
    from mcp.client.stdio import StdioServerParameters, stdio_client

    parameters = StdioServerParameters(
        command=sys.executable,
        args=["-m", "playbook", "mcp", "--root", str(run)],
        env=dict(os.environ),
        cwd=str(Path.cwd()),
    )

    async def session() -> Any:
        async with client.Client(stdio_client(parameters)) as one:
            return await one.call_tool("ingest", {"paths": ["run.csv"]})

    result = asyncio.run(asyncio.wait_for(session(), 60))
    assert not result.is_error and "instant-nan" in result.content[0].text


def test_without_the_package_the_command_says_how_to_get_it(tmp_path: Path) -> None:
    code = (
        "import sys; sys.modules['mcp'] = None\n"
        "from playbook.faces.cli import run\n"
        f"sys.exit(run(['mcp', '--root', {str(tmp_path)!r}]))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 2 and "pip install 'playbook[mcp]'" in done.stderr and len(done.stderr.splitlines()) == 1


def test_a_root_that_is_not_there_is_told(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "playbook", "mcp", "--root", str(tmp_path / "no")],
        capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL,
    )  # fmt: skip
    assert done.returncode == 2 and "no such folder" in done.stderr
