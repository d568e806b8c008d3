"""What the monitor costs a training of 50 ms steps: the processor time of the whole process over that of the steps.

    python tests/bench/bench_monitor.py [STEPS]        (600 steps, about a minute)

Prints one JSON line. `ratio` (limit 1.01) is the processor time of all threads over that of the steps alone, which a
busy machine does not change; `wall_ratio` compares the time on the clock with blocks of steps that log nothing (only of
use on a quiet machine). A step is pure Python for half of its time, the worst case for a second thread, then numpy.
"""

from __future__ import annotations

import json
import os
import statistics
import sys
import tempfile
import time

os.environ["OPENBLAS_NUM_THREADS"] = "1"  # threads of numpy would count as the monitor's

import numpy as np

from playbook.monitor import Monitor

STEP = 0.050  # seconds


def main(steps: int = 600) -> None:
    matrix = np.random.default_rng(0).normal(size=(160, 160))

    def work(turns: int) -> None:
        total = 0
        for i in range(turns * 400):
            total += i & 7
        for _ in range(turns // 4):
            matrix @ matrix

    begin, turns = time.perf_counter(), 100
    while time.perf_counter() - begin < 2.0:  # as much work as takes one step on this machine
        start = time.thread_time()
        work(turns)
        turns = max(1, round(turns * STEP / (time.thread_time() - start)))
    noise = np.random.default_rng(1).normal(0, 0.02, 5_000 + 2 * steps).tolist()
    losses = [2.3 + 6.0 / (1.0 + step / 300) + noise[step] for step in range(len(noise))]
    wall: dict[bool, list[float]] = {True: [], False: []}
    logs: list[float] = []
    working = 0.0
    with tempfile.TemporaryDirectory() as folder:
        monitor = Monitor(folder)
        for step in range(5_000):  # a run of some length: a look costs what it costs there
            monitor.log(step, loss=losses[step], grad_norm=1.0 + noise[step], lr=3e-4, throughput=1e5, mem=40.0)
        time.sleep(5.0)
        all_before, step = time.process_time(), 5_000
        for _ in range(steps):
            start, before = time.perf_counter(), time.thread_time()
            work(turns)
            middle = time.thread_time()
            monitor.log(step, loss=losses[step], grad_norm=1.0 + noise[step], lr=3e-4, throughput=1e5, mem=40.0)
            logs.append(time.thread_time() - middle)
            working += middle - before
            wall[True].append(time.perf_counter() - start)
            step += 1
        everything = time.process_time() - all_before
        monitor.close()
        for _ in range(steps):
            start = time.perf_counter()
            work(turns)
            wall[False].append(time.perf_counter() - start)
    print(
        json.dumps(
            {
                "ratio": round(everything / working, 4),
                "wall_ratio": round(statistics.median(wall[True]) / statistics.median(wall[False]), 4),
                "step_ms": round(1e3 * working / len(logs), 2),
                "log_us_median": round(1e6 * statistics.median(logs), 1),
                "log_us_worst": round(1e6 * max(logs), 1),
                "false_alarm": monitor.incident is not None,
            }
        )
    )


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
