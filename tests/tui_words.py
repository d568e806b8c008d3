"""Every English text that the guided terminal shows: from its calls of `w`, its hints, bindings, tables of commands."""

from __future__ import annotations

import ast
import importlib
import inspect
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from textual.binding import Binding

from playbook.faces.learning.drill_screen import KIND_WORDS
from playbook.faces.tui import registry
from playbook.faces.tui.card_view import ASK
from playbook.faces.tui.curve import CurveView
from playbook.faces.tui.entry_text import KINDS
from playbook.faces.tui.palette import _ACTIONS
from playbook.faces.tui.panes import CausesPane, EvidencePane
from playbook.faces.tui.watch import _WORDS
from playbook.faces.tui.widgets import Rows
from playbook.knowledge.entries import LAYERS
from playbook.workflow.learning.drill_score import WEIGHTS
from playbook.workflow.learning.interview import DEPTHS
from playbook.workflow.learning.quiz import TEMPLATES

FOLDER = Path(inspect.getfile(registry)).parent
# Values that are put into `w` by name: states, kinds, reasons of the engine.
BY_NAME = (
    "healthy", "decided", "undecided", "incident", "open", "closed", "all", "false-alarm", "metrics", "log", "config",
    "probe", "person", "case", "safe", "low", "medium", "high", "first-aid", "repair", "prevention", "draft",
    "deprecated", "onset", "resume", "learning rate", "almost_always", "usually", "half", "seldom", "almost_never",
    "too little is known", "the book has no causes", "nothing in the book explains this evidence well",
    "the evidence contradicts itself: one answer may be wrong, or two faults meet",
    "nothing that was seen or told speaks for the first cause by itself",
    "whether there is a fault at all is not sure",
    "several causes explain the evidence", "nothing that is left to look at would decide it", "shows", "expects",
    "excludes", "mistaken", "mistaken-signal", "couple", "treats", "tests", "answers", "truth", "about",
    "Answer with this outcome", "On this page", "In the curve", "In a list", "Everywhere", "Choose", "Next pane",
    "Back", "Quit", "Every command, symptom and incident", *KINDS, "look", "aid", "suspect", "repair", "right", "wrong",
    "unknown", "By kind of card", "By layer", "By symptom", "layer", "symptom", "kind of card", "is no choice",
    "is no order", "is no number", "is no probability", "is known, or was asked in vain", "is nothing to look at",
)  # fmt: skip


def _called(path: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.Call) and node.args:
            name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
            first = node.args[0]
            if name == "w" and isinstance(first, ast.Constant) and isinstance(first.value, str):
                yield first.value


def _bound(bindings: Any) -> Iterator[str]:
    for item in bindings:
        binding = item if isinstance(item, Binding) else Binding(*item)
        if binding.description and not binding.action.startswith("digit("):
            yield binding.description


def texts() -> set[str]:
    """All of them."""
    found = set(BY_NAME)
    beside = ("report.py", "prompts.py", "learning/drill_screen.py", "learning/drill_loop.py")
    for path in (*FOLDER.glob("*.py"), *(FOLDER.parent / name for name in beside)):
        found |= set(_called(path))
    for part in (CurveView, Rows, CausesPane, EvidencePane):
        found |= set(_bound(part.BINDINGS))
    for module in (importlib.import_module(f"playbook.faces.tui.{p.stem}") for p in FOLDER.glob("*.py")):
        for value in vars(module).values():
            if inspect.isclass(value) and value.__module__ == module.__name__:
                found |= {words for _, words, _ in getattr(value, "HINTS", ())}
                found |= set(_bound(vars(value).get("BINDINGS", ())))
        for name in ("_ASKING", "_DONE", "_HEALTHY", "_LOOKING", "_CHOOSING", "_OVER"):
            found |= {words for _, words, _ in getattr(module, name, ())}
    found |= {words for hints in ASK.values() for _, words, _ in hints} | set(_WORDS.values())
    found |= {*KIND_WORDS.values(), *WEIGHTS, *DEPTHS.values(), *(t.title for t in TEMPLATES.values()), *LAYERS}
    for entry in registry.SCREENS:
        found |= {entry.command, entry.help}
    for words, help_, _ in _ACTIONS:
        found |= {words, help_}
    return found - {""}
