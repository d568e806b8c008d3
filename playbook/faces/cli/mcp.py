"""`playbook mcp`: the book and the diagnosis as tools for a language model, over standard input and output."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from playbook.errors import PlaybookError
from playbook.faces.cli import common
from playbook.faces.cli.speech import say

if TYPE_CHECKING:
    from playbook.faces.tools import Tools

INSTALL = "pip install 'playbook[mcp]'"
INSTRUCTIONS = (
    "Diagnoses failures of deep-learning training runs. Start with `ingest` or `diagnose` on the metric files and logs "
    "of the run; do the first aid that `diagnose` names before anything else; then ask `next_question`, observe, and "
    "call `diagnose` again with all answers so far (signal -> outcome; `unknown` where it cannot be known, a trailing "
    "`?` where it is unsure) until it is decided. `search` and `entry` read the book. What is not decided is not to be "
    "told as a verdict."
)


@click.command(short_help="Serve the book to a language model (MCP).")
@click.option(
    "--root",
    "roots",
    multiple=True,
    metavar="DIR",
    type=click.Path(path_type=Path),
    help="Files below this folder may be read (repeatable).  [default: the current folder]",
)
@click.option("--allow-record", is_flag=True, help="Add a tool that stores incidents. Without it nothing is written.")
@common.knowledge_option
@common.db_option
@common.lang_option
def mcp(roots: tuple[Path, ...], allow_record: bool, packs: tuple[Path, ...], db: str | None) -> int:
    """Serve ingest, diagnose, next_question, search and entry as tools of the Model Context Protocol on standard input
    and output. Read-only; files are read below --root only. Needs the extra `mcp`.

    \b
    {"mcpServers": {"playbook": {"command": "playbook", "args": ["mcp", "--root", "/data/runs"]}}}
    """
    from playbook.faces.tools import Tools
    from playbook.workflow.book import open_book

    make = _server_class()  # first: without it nothing else is worth loading
    real = tuple(root.resolve() for root in roots or (Path(),))
    for root in real:
        if not root.is_dir():
            raise PlaybookError(f"--root {root}", "no such folder", "name a folder that is there")
    server = build(Tools(open_book(packs), real, db), allow_record, make)
    if sys.stdin.isatty():
        say("playbook mcp talks to a program, not to a person: end it with Ctrl-C", err=True)
    server.run()
    return 0


def _server_class() -> Any:
    """The server class of whichever release is installed. Raises `PlaybookError` where there is none."""
    for module, name in (("mcp.server", "MCPServer"), ("mcp.server.fastmcp", "FastMCP")):  # release 2, releases before
        try:
            return getattr(importlib.import_module(module), name)
        except (ImportError, AttributeError):
            continue
    raise PlaybookError("playbook mcp", "the package `mcp` is not installed", f"install it: {INSTALL}")


def build(tools: Tools, allow_record: bool = False, make: Any = None) -> Any:
    """The server with its tools."""
    from mcp.types import ToolAnnotations

    make = make or _server_class()
    server = make("playbook", instructions=INSTRUCTIONS)
    reads = ToolAnnotations.model_validate(
        {"readOnlyHint": True, "destructiveHint": False, "idempotentHint": True, "openWorldHint": False}
    )

    @server.tool(annotations=reads)
    def ingest(paths: list[str], mapping: dict[str, str] | None = None) -> dict[str, Any]:
        """Read metric files, logs, run configurations or folders of a training run: formats, steps, metrics, verdict
        (incident, healthy, undecided), symptom with its onset step, findings with file and line, and what was not
        logged. `mapping` names columns that are not recognised: {"loss": "my_loss", "step": "it"}."""
        return _told(lambda: tools.ingest(paths, mapping))

    @server.tool(annotations=reads)
    def diagnose(
        paths: list[str] | None = None,
        answers: dict[str, str] | None = None,
        mapping: dict[str, str] | None = None,
        gpus: int | None = None,
    ) -> dict[str, Any]:
        """Find the cause: ranked causes with probability and reasons for and against, whether it is decided, first aid,
        repairs, and the next question. `answers` are observations that the files do not show, signal -> outcome, such
        as {"lower-lr-removes-it": "yes"}; give all answers so far in every call. `gpus`: size of the run, for costs."""
        return _told(lambda: tools.diagnose(paths or (), answers, mapping, gpus))

    @server.tool(annotations=reads)
    def next_question(
        paths: list[str] | None = None,
        answers: dict[str, str] | None = None,
        mapping: dict[str, str] | None = None,
        gpus: int | None = None,
    ) -> dict[str, Any]:
        """The one observation that is most worth its cost now: question, how to make it, commands, possible outcomes,
        cost in minutes and GPU-hours, danger for the run. Takes what `diagnose` takes."""
        return _told(lambda: tools.next_question(paths or (), answers, mapping, gpus))

    @server.tool(annotations=reads)
    def search(query: str, most: int = 10) -> dict[str, Any]:
        """Search the book (symptoms, signals, causes, fixes, cases, questions, checklists); every word must occur."""
        return _told(lambda: {"hits": tools.search(query, most)})

    @server.tool(annotations=reads)
    def entry(id: str) -> dict[str, Any]:
        """One entry of the book by its id, whole."""
        return _told(lambda: tools.entry(id))

    if allow_record:
        writes = ToolAnnotations.model_validate(
            {"readOnlyHint": False, "destructiveHint": False, "idempotentHint": False, "openWorldHint": False}
        )

        @server.tool(annotations=writes)
        def record(
            paths: list[str] | None = None,
            answers: dict[str, str] | None = None,
            mapping: dict[str, str] | None = None,
            title: str | None = None,
        ) -> dict[str, Any]:
            """Store the diagnosis as an open incident; gives its id. Takes what `diagnose` takes."""
            return _told(lambda: tools.record(paths or (), answers, mapping, title))

    return server


def _told(call: Any) -> dict[str, Any]:
    """The answer without NaN; a foreseen fault as the protocol's tool error, in one line."""
    try:
        document = common.clean(call())
        assert isinstance(document, dict)
        return document
    except PlaybookError as error:
        raise _tool_error()(str(error)) from None


def _tool_error() -> Any:
    for module in ("mcp.server.mcpserver.exceptions", "mcp.server.fastmcp.exceptions"):
        try:
            return importlib.import_module(module).ToolError
        except ImportError:
            continue
    return RuntimeError
