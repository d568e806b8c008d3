"""The table of screens: one line each, imported when it is opened. A new screen is one file and one line here.

`key` opens it from every page and `command` names it in the palette (both may be empty); the class is made without
arguments and finds its state in `self.app`.
"""

from __future__ import annotations

import importlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from textual.screen import Screen


@dataclass(frozen=True, slots=True)
class Entry:
    """needs: "desk" is offered only while a diagnosis is open, "book" once the book is read."""

    name: str
    module: str
    attribute: str
    command: str = ""
    help: str = ""
    key: str = ""
    needs: str = ""


_HERE = "playbook.faces.tui"


def _own(name: str, attribute: str, command: str = "", help: str = "", key: str = "", needs: str = "") -> Entry:
    return Entry(name, f"{_HERE}.{name}", attribute, command, help, key, needs)


SCREENS: tuple[Entry, ...] = (
    _own("welcome", "Welcome"),
    _own("diagnosis", "DiagnosisPage"),
    _own("browse", "Browse", "Search the book", "symptoms, signals, causes, fixes, cases", "b", "book"),
    _own("history", "History", "Past incidents", "recorded incidents, open and closed", "H"),
    _own("curve_page", "CurvePage", "Curves", "several metrics over the same steps", "f", "desk"),
    _own("explain", "Explain", "Explain", "for, against, ruled out, what would change it", "e", "desk"),
    _own("whatif", "WhatIf", "What if", "try an answer without keeping it", "i", "desk"),
    _own("plan", "Plan", "Other questions", "everything that is worth asking, best first", "n", "desk"),
    _own("similar", "SimilarPage", "Looked like this before", "similar incidents and case studies", "S", "desk"),
    _own("watch", "Watch", "Watch a live file", "follow a metrics file or a log as it grows", "W", "book"),
    _own("quiz", "Quiz", "Quiz", "cards with spaced repetition, interview practice, progress", "t", "book"),
    _own("cards", "Cards"),
    _own("drill", "Drills", "Drill", "find the cause of a published incident, against the engine's price", "D", "book"),
    _own("play", "Play"),
    _own("help", "Help", "Keys", "the keys of this screen", "question_mark"),
)
BY_NAME = {entry.name: entry for entry in SCREENS}


def make(name: str, *arguments: Any) -> Screen[Any]:
    """Import the screen and make one."""
    entry = BY_NAME[name]
    made: Screen[Any] = getattr(importlib.import_module(entry.module), entry.attribute)(*arguments)
    return made
