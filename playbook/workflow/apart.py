"""Ingest in a process of its own: a large file neither holds up the screen nor fills its memory, and can be given up.

What comes back is the evidence and the run; a series of millions of points is thinned as a scene is (every extreme and
every value that is not finite is kept, and everything around the onset).
"""

from __future__ import annotations

import glob
import os
import threading
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from playbook.errors import PlaybookError
from playbook.workflow.ingest import Ingested

if TYPE_CHECKING:
    from multiprocessing.connection import Connection

LARGE = 16_000_000  # bytes from which the start of a process (about half a second) is worth it
POINTS = 2_000_000  # of one series that are handed over whole
AROUND, BUCKETS = 100_000, 20_000  # points kept around the onset, stretches elsewhere
_LOOK = 0.1  # seconds between two looks at whether the person has given up
_MOST_FILES = 20_000  # whose size is asked for


def size_of(paths: Sequence[str]) -> int:
    """Bytes of the files, the folders and the globs, as far as they can be seen."""
    total = 0
    for path in paths:
        for hit in glob.glob(path, recursive=True) or [path]:  # noqa: PTH207 absolute patterns
            for place, item in enumerate(_files(Path(hit))):
                if place >= _MOST_FILES:
                    return max(total, LARGE)
                try:
                    total += item.stat().st_size
                except OSError:
                    continue
    return total


def _files(path: Path) -> Any:
    return (p for p in path.rglob("*") if p.is_file()) if path.is_dir() else (path,)


def ingest_apart(
    paths: Sequence[str],
    packs: Sequence[Path] = (),
    lang: str = "en",
    progress: Callable[[str], None] | None = None,
    stop: threading.Event | None = None,
) -> Ingested:
    """As `ingest`, in another process. Raises `PlaybookError`, also where the process dies or `stop` is set."""
    import multiprocessing

    context = multiprocessing.get_context("spawn")
    here, there = context.Pipe(duplex=False)
    child = context.Process(target=_work, args=(there, list(paths), list(packs), lang), daemon=True)
    child.start()
    there.close()
    where = ", ".join(paths)
    try:
        while True:
            if stop is not None and stop.is_set():
                raise PlaybookError(where, "reading was given up", "open it again")
            if not here.poll(_LOOK):
                continue
            kind, payload = here.recv()
            if kind == "reading" and progress is not None:
                progress(payload)
            elif kind == "done":
                found: Ingested = payload
                return found
            elif kind == "failed":
                problem = payload
                raise PlaybookError(problem.where, problem.what, problem.hint, problem.line)
    except (EOFError, OSError):
        child.join(5)
        raise PlaybookError(
            where, f"the process that read it died (code {child.exitcode})", "free some memory, or cut the file"
        ) from None
    finally:
        here.close()
        if child.is_alive():
            child.terminate()


def _work(out: Connection, paths: list[str], packs: list[Path], lang: str) -> None:
    """The other process."""
    from playbook.workflow.book import open_book
    from playbook.workflow.ingest import ingest

    quiet = os.open(os.devnull, os.O_WRONLY)
    os.dup2(quiet, 1)  # nothing of ours may be written over the screen
    os.dup2(quiet, 2)
    try:
        book = open_book(packs, lang=lang).book
        found = ingest(paths, book, progress=lambda name: out.send(("reading", name)))
        out.send(("done", handy(found)))
    except PlaybookError as error:
        out.send(("failed", error.problem))
    except BrokenPipeError:
        return  # given up
    except MemoryError:
        out.send(("failed", PlaybookError(", ".join(paths), "is too large for the memory here", "cut it").problem))
    except Exception as error:
        text = f"cannot be read: {type(error).__name__}: {str(error).strip().splitlines()[:1]}"
        out.send(("failed", PlaybookError(", ".join(paths), text, "please report this file").problem))


def handy(found: Ingested) -> Ingested:
    """With the long series thinned."""
    from playbook.incidents.scene import thin

    long = {key: s for key, s in found.run.series.items() if len(s) > POINTS}
    if not long:
        return found
    onset = found.symptom.step if found.symptom is not None else None
    thinned = thin(replace(found.run, series=long), onset, AROUND, BUCKETS)
    return replace(found, run=replace(found.run, series={**found.run.series, **thinned.series}))
