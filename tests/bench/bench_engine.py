"""The engine and the start-up: one step of a diagnosis, the book ten times over, the load of the book, `--help`.

Figures are medians; ratios are against a named peer in the same run.
"""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from statistics import median

from playbook import places
from playbook.engine.belief import posterior
from playbook.engine.tables import Tables, compile_book
from playbook.engine.value import RunSize, options
from playbook.findings import Evidence
from playbook.knowledge.loader import Book, load

RUNS = 15
EVIDENCE = [
    Evidence("loss-shape", "persistent-spike", "metrics"),
    Evidence("grad-norm-before", "climbs", "metrics"),
    Evidence("lr-phase", "peak", "metrics"),
    Evidence("precision", "bf16", "config"),
    Evidence("lower-lr-removes-it", "yes", "person"),
]


def seconds(action: Callable[[], object], runs: int = RUNS) -> float:
    """Median wall time of one call."""
    action()
    times = []
    for _ in range(runs):
        began = time.perf_counter()
        action()
        times.append(time.perf_counter() - began)
    return median(times)


def step(tables: Tables, book: Book) -> None:
    """Posterior and the value of every observation: what happens after each answer."""
    belief = posterior(tables, EVIDENCE)
    options(tables, belief, book.signals, {e.signal for e in EVIDENCE}, set(), RunSize())


def larger(book: Book, times: int) -> Book:
    """The book with every cause `times` over, under other ids."""
    causes = {
        f"{name}-{k}": cause.model_copy(update={"id": f"{name}-{k}"})
        for k in range(times)
        for name, cause in book.causes.items()
    }
    return replace(book, entries={**book.entries, "causes": causes})


def main() -> None:
    book = load([places.knowledge()])
    tables = compile_book(book)
    print(f"book                      {len(book.causes)} causes, {len(book.signals)} signals")
    print(f"load the whole book       {seconds(lambda: load([places.knowledge()]), 5) * 1e3:8.1f} ms")
    print(f"compile the tables        {seconds(lambda: compile_book(book), 5) * 1e3:8.1f} ms")
    print(f"one step                  {seconds(lambda: step(tables, book)) * 1e3:8.1f} ms")
    many = larger(book, 10)
    print(
        f"one step, ten times over  {seconds(lambda: step(compiled, many)) * 1e3:8.1f} ms"
        if (compiled := compile_book(many))
        else ""
    )
    bare = seconds(lambda: subprocess.run([sys.executable, "-c", "pass"], check=True))
    helped = seconds(
        lambda: subprocess.run([sys.executable, "-m", "playbook", "--help"], check=True, capture_output=True)
    )
    print(f"--help / python -c pass   {helped / bare:8.2f} x")


if __name__ == "__main__":
    main()
