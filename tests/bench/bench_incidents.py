"""Lists and searches over 10,000 incidents, on SQLite and on a real PostgreSQL where one is installed.

    python tests/bench/bench_incidents.py [INCIDENTS]        (10,000 incidents, one to two minutes, mostly storing)

Wall time, the best of five of each; every question must be answered below `LIMIT` seconds.
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent))

from playbook.incidents.record import Record
from playbook.incidents.store import Filter, Store, open_store
from tests import pgserver
from tests.incidents_kit import record

LIMIT = 0.2  # seconds
WORDS = ("gradient overflow", "plateau after warm-up", "梯度爆炸 after resume", "one bad rank")
QUESTIONS = {
    "all of them": Filter(),
    "newest 50": Filter(limit=50),
    "open, by cause": Filter(status="open", cause="lr-peak", limit=50),
    "one by its words": Filter(query="incident 9876", limit=50),
    "a quarter by a word": Filter(query="overflow", limit=50),
    "a Chinese word of four": Filter(query="梯度爆炸", limit=50),
    "a Chinese word of two": Filter(query="爆炸", limit=50),
    "a word that is not there": Filter(query="zygote", limit=50),
    "two letters that are not there": Filter(query="zq", limit=50),
}


def incidents(number: int) -> Iterator[Record]:
    base = record(1)
    for k in range(number):
        yield base.model_copy(
            update={
                "id": f"20260304-{k:06}",
                "title": f"Incident {k}: {WORDS[k % len(WORDS)]}",
                "opened_at": f"2026-{k % 12 + 1:02}-{k % 28 + 1:02}T00:00:00Z",
                "notes": [f"a note of some length that a person wrote, number {k}. " * 6],
            }
        )


def best(store: Store, wanted: Filter) -> tuple[float, int]:
    times = []
    for _ in range(5):
        started = time.perf_counter()
        rows = store.summaries(wanted)
        store.count(wanted)
        times.append(time.perf_counter() - started)
    return min(times), len(rows)


def main(number: int = 10_000) -> int:
    slow = 0
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        urls = [f"sqlite:///{folder}/x.db"]
        if (binaries := pgserver.binaries()) is not None:
            urls.append(stack.enter_context(pgserver.running(binaries)).new_database())
        for url in urls:
            store = open_store(url, folder)
            started = time.perf_counter()
            store.put(incidents(number))
            print(f"{url.split(':')[0]}: {number} incidents stored in {time.perf_counter() - started:.1f} s")
            for name, wanted in QUESTIONS.items():
                seconds, rows = best(store, wanted)
                slow += seconds > LIMIT
                print(f"  {seconds * 1000:7.1f} ms  {rows:6} rows  {name}{'  TOO SLOW' if seconds > LIMIT else ''}")
            store.close()
    print("all below" if not slow else f"{slow} above", f"{LIMIT} s")
    return 1 if slow else 0


if __name__ == "__main__":
    sys.exit(main(*map(int, sys.argv[1:])))
