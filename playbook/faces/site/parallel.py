"""The same work on several items, on several cores where the system can fork: the order of results never changes."""

from __future__ import annotations

import multiprocessing
import os
import sys
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from typing import Any, TypeVar

T = TypeVar("T")
R = TypeVar("R")

# What a child runs: it is inherited by the fork, so that neither the book nor a closure has to be pickled.
_jobs: list[tuple[Callable[[Any], Any], Sequence[Any]]] = []


def spread(work: Callable[[T], R], items: Sequence[T]) -> list[R]:
    """`[work(item) for item in items]`. Results are pickled; exceptions of `work` reach the caller."""
    cores = _cores()
    # A fork copies only the thread that asks for it; beside others it may inherit a lock that nobody opens.
    if len(items) < 2 or cores < 2 or sys.platform != "linux" or threading.active_count() > 1:
        return [work(item) for item in items]
    _jobs.append((work, items))
    try:
        context = multiprocessing.get_context("fork")
        with ProcessPoolExecutor(max_workers=min(cores, len(items)), mp_context=context) as pool:
            return list(pool.map(_run, range(len(items))))
    finally:
        _jobs.pop()


def _run(index: int) -> Any:
    work, items = _jobs[-1]
    return work(items[index])


def _cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
