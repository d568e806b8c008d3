"""Where each entry is written, and the day its file last changed by the history of the repository that it lies in."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from playbook.knowledge.loader import Book

_SECONDS = 20  # git is given up on: a page without a date is better than none


@dataclass(frozen=True, slots=True)
class Origin:
    """`path` begins with the name of the folder of the book: knowledge/causes/data/x.yaml. `day`: 2026-03-04 or ""."""

    path: str
    day: str = ""


def origins(book: Book) -> dict[tuple[str, str], Origin]:
    """(kind, id) -> origin. Without git, or outside a repository, nothing is dated."""
    days = {folder: _days(folder) for folder in book.folders}
    found = {}
    for key, path in book.files.items():
        folder = next((f for f in reversed(book.folders) if path.is_relative_to(f)), None)
        if folder is not None:
            inside = path.relative_to(folder).as_posix()
            found[key] = Origin(f"{folder.name}/{inside}", days[folder].get(inside, ""))
    return found


def _days(folder: Path) -> Mapping[str, str]:
    """File within the folder -> day of the last commit that touched it, newest first as git tells it."""
    git = ["git", "-C", str(folder), "-c", "core.quotepath=off"]
    command = [*git, "log", "--format=%x01%cs", "--name-only", "--relative", "--", "."]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=_SECONDS, check=False)
    except (OSError, subprocess.SubprocessError):
        return {}
    if done.returncode != 0:
        return {}
    days: dict[str, str] = {}
    for commit in done.stdout.split("\x01")[1:]:
        day, *names = commit.splitlines()
        for name in filter(None, names):
            days.setdefault(name, day)
    return days
