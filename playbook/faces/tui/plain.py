"""The diagnosis without a screen: one question after the other as text, for screen readers, dumb terminals and pipes.

Nothing is drawn over, no colour carries a meaning, and the session is kept after every answer as in the terminal.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from playbook.engine.tables import SHAPE
from playbook.errors import PlaybookError
from playbook.faces.tui import Options
from playbook.faces.words import Words, words
from playbook.workflow.records import kept
from playbook.workflow.session import Session

if TYPE_CHECKING:
    from rich.console import Console

    from playbook.workflow.ingest import Ingested


def run(options: Options, out: Console, now: Callable[[], datetime] = lambda: datetime.now(UTC)) -> int:
    """Ask for files or a symptom, then walk to the diagnosis; returns the exit code."""
    from playbook.faces.prompts import walk
    from playbook.faces.report import print_diagnosis, print_read
    from playbook.workflow.book import open_book
    from playbook.workflow.ingest import ingest

    w = words(options.lang)
    library = open_book(options.packs, lang=w.code)
    session = Session(library.book, library.tables)
    paths, name = tuple(options.paths), f"{now():%Y%m%dT%H%M%S}-{os.getpid()}-plain"
    found: Ingested | None = None
    if not paths and (before := _go_on(out, w)) is not None:
        kept.restore(before, session)
        paths, name = before.paths, before.name
    elif paths:
        found = ingest(paths, library.book)
    else:
        while found is None and (paths := _paths(out, w)):
            try:
                found = ingest(paths, library.book)
            except PlaybookError as error:
                out.print(w.error(error), markup=False)
        if found is None:
            _symptom(session, out, w)
    if found is not None:
        session.size = found.size
        session.observe(found.evidence)
        print_read(found, session, out, w)

    def keep(after: Session) -> None:
        if options.remember and after.moves:
            saved = now().strftime("%Y-%m-%dT%H:%M:%SZ")
            whole = tuple(os.path.abspath(p) for p in paths)  # noqa: PTH100 a glob stays a glob
            moves, undone = tuple(after.moves), tuple(after.undone)
            kept.write(kept.Kept(name, saved, "", whole, moves=moves, undone=undone, size=after.size))

    keep(session)
    walk(session, out, w, after=keep, plain=True)
    diagnosis = session.diagnosis()
    print_diagnosis(session, diagnosis, out, w, plain=True)
    if session.evidence and _yes(out, w("record the incident? y or n")):
        from playbook.workflow.records.record import record

        incident = record(session, found, diagnosis, options.db)
        kept.drop(name)
        out.print(w("recorded as incident {id}", id=incident))
    return 0


def _go_on(out: Console, w: Words) -> kept.Kept | None:
    """The last unfinished diagnosis, if the person wants it."""
    sessions = kept.listing()[0]
    if not sessions:
        return None
    last = sessions[0]
    what = last.title or ", ".join(os.path.basename(p) for p in last.paths) or w("without files")  # noqa: PTH119
    question = w("go on with {what}, {n} answered? y or n", what=what, n=last.answers)
    return last if _yes(out, question) else None


def _paths(out: Console, w: Words) -> tuple[str, ...]:
    text = _ask(out, w("path of a metrics file, a log or a folder (empty: none)"))
    return (os.path.expanduser(text),) if text else ()  # noqa: PTH111


def _symptom(session: Session, out: Console, w: Words) -> None:
    """What does the person see: by number or by id."""
    entry = session.book.signals.get(SHAPE)
    if entry is None:
        return
    names = list(entry.outcomes)
    out.print(w("What do you see?"), style="bold")
    for place, name in enumerate(names, 1):
        symptom = session.book.symptoms.get(name)
        out.print(
            f"  {place}. {symptom.title if symptom else name}: {entry.outcomes[name]}", highlight=False, markup=False
        )
    while True:
        text = _ask(out, w("number or id (empty: not known)"))
        if not text:
            return
        try:
            chosen = names[int(text) - 1] if text.isdecimal() and 0 < int(text) <= len(names) else text
            session.answer(SHAPE, chosen, free=True)
            return
        except PlaybookError as error:
            out.print(w.error(error), markup=False)


def _yes(out: Console, question: str) -> bool:
    return _ask(out, question).lower() in ("y", "yes", "是")


def _ask(out: Console, question: str) -> str:
    out.print(f"{question} > ", end="", markup=False, highlight=False)
    try:
        return input().strip()
    except EOFError:
        out.print()
        return ""
