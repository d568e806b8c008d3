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
SCREENS: tuple[Entry, ...] = (
    Entry("welcome", f"{_HERE}.welcome", "Welcome"),
    Entry("diagnosis", f"{_HERE}.diagnosis", "DiagnosisPage"),
    Entry("browse", f"{_HERE}.browse", "Browse", "Search the book", "symptoms, signals, causes, fixes, cases", "b", "book"),
    Entry("history", f"{_HERE}.history", "History", "Past incidents", "recorded incidents and unfinished diagnoses", "H"),
    Entry("curve", f"{_HERE}.curve_page", "CurvePage", "Curves", "several metrics over the same steps", "f", "desk"),
    Entry("explain", f"{_HERE}.explain", "Explain", "Explain", "for, against, ruled out, what would change it", "e", "desk"),
    Entry("whatif", f"{_HERE}.whatif", "WhatIf", "What if", "try an answer without keeping it", "i", "desk"),
    Entry("plan", f"{_HERE}.plan", "Plan", "Other questions", "everything that is worth asking, best first", "n", "desk"),
    Entry("watch", f"{_HERE}.watch", "Watch", "Watch a live file", "follow a metrics file or a log as it grows", "W", "book"),
    Entry("help", f"{_HERE}.help", "Help", "Keys", "the keys of this screen", "question_mark"),
)  # fmt: skip
BY_NAME = {entry.name: entry for entry in SCREENS}


def make(name: str, *arguments: Any) -> Screen[Any]:
    """Import the screen and make one."""
    entry = BY_NAME[name]
    made: Screen[Any] = getattr(importlib.import_module(entry.module), entry.attribute)(*arguments)
    return made
