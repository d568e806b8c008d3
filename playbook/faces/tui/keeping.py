"""A desk as it lies on disk or in the store, and back: what a killed terminal finds again."""

from __future__ import annotations

import os
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

from playbook.workflow.records import kept as disk

if TYPE_CHECKING:
    from playbook.faces.tui.desk import Desk
    from playbook.faces.tui.shop import Taken

_GLOB = frozenset("*?[")


def write(desk: Desk, now: datetime) -> None:
    """Put the desk on disk. Raises `PlaybookError` where that cannot be done."""
    saved = now.strftime("%Y-%m-%dT%H:%M:%SZ")
    session = desk.session
    disk.write(
        disk.Kept(
            desk.name, saved, desk.title, desk.paths, desk.incident, desk.aid_done, desk.asked,
            tuple(session.moves), tuple(session.undone), session.size, os.getpid(),
        )
    )  # fmt: skip


def from_kept(desk: Desk, kept: disk.Kept) -> list[str]:
    """Fill an empty desk with a kept session; the files of it that are gone."""
    desk.name = kept.name
    disk.restore(kept, desk.session)
    desk.paths, desk.incident, desk.aid_done, desk.asked = kept.paths, kept.incident, kept.aid_done, kept.asked
    desk.title = kept.title
    _judge_first(desk)
    return [Path(p).name for p in kept.paths if not (_GLOB & set(p)) and not Path(p).exists()]


def from_taken(desk: Desk, taken: Taken) -> None:
    """Fill an empty desk with an incident of the store."""
    desk.session.moves = list(taken.moves)
    desk.session.size = taken.size
    desk.incident, desk.title, desk.found, desk.aid_done = taken.incident, taken.title, taken.found, taken.aid_done
    _judge_first(desk)


def _judge_first(desk: Desk) -> None:
    """A first judgement is no movement of the bars."""
    desk.judge()
    desk.shares = desk.now()
