"""The overview that `playbook --help` prints: the table of commands, without importing anything.

Newcomers type `--help` first; click alone would take several times as long to import as Python itself.
"""

from __future__ import annotations

from collections.abc import Mapping

# name -> (module, attribute, one line). In the order of the overview.
COMMANDS: dict[str, tuple[str, str, str]] = {
    "demo": ("playbook.faces.cli.demo", "demo", "See it work: a shipped run, diagnosed, recorded, published."),
    "ingest": ("playbook.faces.cli.ingest", "ingest", "Read metric files, logs and configs; say what is in them."),
    "diagnose": ("playbook.faces.cli.diagnose", "diagnose", "Walk from files and answers to a diagnosis."),
    "watch": ("playbook.faces.cli.watch", "watch", "Follow growing files; say when an incident begins."),
    "tui": ("playbook.faces.cli.tui", "tui", "The guided terminal, with files at once."),
    "fleet": ("playbook.faces.cli.fleet", "fleet", "Which of many ranks went wrong first? Files or a store."),
    "verify-resume": ("playbook.faces.cli.checks", "verify_resume", "Does a resumed run continue the run before it?"),
    "compare": ("playbook.faces.cli.checks", "compare", "Where does a run depart from a reference run?"),
    "preflight": ("playbook.faces.cli.checks", "preflight", "Check a run's configuration before it is started."),
    "evaluate": ("playbook.faces.cli.evaluate", "evaluate", "Play case files: how often is the true cause first?"),
    "knowledge": (
        "playbook.faces.cli.knowledge",
        "knowledge",
        "The book: lint, show, graph, coverage, schema, learn, fit.",
    ),
    "site": ("playbook.faces.cli.site", "site", "Build or serve the static site of playbooks."),
    "incident": ("playbook.faces.cli.incident", "incident", "The incident record: list, show, close, export ..."),
    "replay": ("playbook.faces.cli.replay", "replay", "Replay incidents and cases: which verdicts changed?"),
    "quiz": ("playbook.faces.cli.quiz", "quiz", "Learn the book: cards, interview practice, Anki."),
    "drill": ("playbook.faces.cli.drill", "drill", "Play a real incident against the engine's price."),
    "mcp": ("playbook.faces.cli.mcp", "mcp", "Serve the book to a language model (MCP)."),
}

_HEAD = """\
Usage: playbook [OPTIONS] [COMMAND] [ARGS]...

  Find the cause of a failed training run: NaN, loss spikes, plateaus, bad
  resumes, bad ranks, bad hardware. Everything works offline.

  Start here:
    playbook demo                     see it work on a shipped run
    playbook diagnose LOGS...         walk from files to a cause
    playbook                          the guided terminal

Options:
  --plain     The guided terminal as plain text, for screen readers.
  --serve     The guided terminal in the browser, on this machine only.
  --lang CODE Language: en or zh.
  --version   Show the version and exit.
  -h, --help  Show this message and exit.

Commands:
"""

_TAIL = """
Every command has its own --help. Commands that report take --json. --lang,
--json, --knowledge DIR and --db URL may stand before or after the command.
Shell completion: eval "$(_PLAYBOOK_COMPLETE=bash_source playbook)"
(or zsh_source; for fish: _PLAYBOOK_COMPLETE=fish_source playbook | source).
"""


def text(told: Mapping[str, str] | None = None) -> str:
    """The whole overview; `told` has its texts in another language, by their English with single spaces."""
    told = told or {}
    width = max(map(len, COMMANDS)) + 2
    lines = (f"  {name:{width}}{told.get(line, line)}\n" for name, (_, _, line) in COMMANDS.items())
    head, tail = (told.get(" ".join(part.split()), part) for part in (_HEAD, _TAIL))
    return head + "".join(lines) + tail
