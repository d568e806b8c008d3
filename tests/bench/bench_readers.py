"""Readers and detectors against named peers in one run: JSON lines, TensorBoard, CSV, many ranks; all detectors.

    python -m tests.bench readers [--full] [--peers PYTHON]

`--full` takes 5M JSON lines, 2M scalars, 5M CSV rows and 1000 rank files; without it a tenth of the lines and scalars,
1M CSV rows and 200 rank files, and a little less is asked of JSON lines (what each file costs alike counts for more).
`--peers` is an interpreter that has the peers which are not installed here.

Each measurement is a process of its own, the median of three: processor time (all threads), wall time, and the memory
that it needed above that of its imports. Wanted ratios are printed beside those found and fail the run only where they
are missed in processor time. A peer that is installed nowhere is named as such: pip install pandas tensorboard.
"""

from __future__ import annotations

import contextlib
import importlib.util
import json
import os
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

RUNS = 3
STEPS = 5_000  # of each rank
_CUT = '{{"step": {rows}, "loss": 2.5, "grad_n'


def write_json(path: Path, rows: int) -> None:
    """Eight numbers a row with six decimals, bare NaN tokens, and a last line that is cut."""
    rng = np.random.default_rng(1)
    with path.open("w") as out:
        for low in range(0, rows, 50_000):
            x = rng.normal(2.5, 0.1, (min(50_000, rows - low), 5))
            for i, (loss, norm, mfu, took, ev) in enumerate(x.tolist(), low):
                text = "NaN" if i % 997 == 0 else f"{loss:.6f}"
                out.write(
                    f'{{"step": {i}, "loss": {text}, "grad_norm": {norm:.6f}, "lr": 0.0003, "loss_scale": 65536.0, '
                    f'"throughput": {mfu:.5f}, "step_time": {took:.6f}, "eval_loss": {ev:.6f}}}\n'
                )
        out.write(_CUT.format(rows=rows))


def write_digits(path: Path, rows: int) -> None:
    """The same keys as `json.dumps` prints them: all digits of each number, so that lines differ in length."""
    rng = np.random.default_rng(6)
    keys = ("loss", "grad_norm", "throughput", "step_time", "eval_loss")
    with path.open("w") as out:
        for low in range(0, rows, 50_000):
            for i, row in enumerate(rng.normal(2.5, 0.1, (min(50_000, rows - low), 5)).tolist(), low):
                values = {"step": i, "lr": 3e-4 * (1 - i / rows), "loss_scale": 65536.0}
                out.write(json.dumps(values | dict(zip(keys, row, strict=True))) + "\n")


def write_events(path: Path, scalars: int) -> None:
    """One tag, the bytes that TensorFlow writes (steps of three varint bytes, so that all records are alike)."""
    from playbook.readers.stores.tfrecord import masked_crc

    rows = min(scalars, 2_000_000)
    steps = np.arange(20_000, 20_000 + rows, dtype=np.uint32)
    values = np.random.default_rng(2).normal(2.5, 0.1, rows).astype("<f4")
    tag = b"loss"
    value = bytes([0x0A, len(tag)]) + tag + bytes([0x15])
    summary = bytes([0x2A, 2 + len(value) + 4, 0x0A, len(value) + 4]) + value
    head = b"\x09" + np.float64(1.7e9).tobytes() + b"\x10"
    width = len(head) + 3 + len(summary) + 4
    payload = np.empty((rows, width), np.uint8)
    payload[:, : len(head)] = np.frombuffer(head, np.uint8)
    for place in range(3):
        payload[:, len(head) + place] = (steps >> (7 * place)) & 0x7F | (0x80 if place < 2 else 0)
    payload[:, len(head) + 3 : width - 4] = np.frombuffer(summary, np.uint8)
    payload[:, width - 4 :] = values.view(np.uint8).reshape(rows, 4)
    size = np.frombuffer(np.uint64(width).tobytes(), np.uint8)
    frame = np.empty((rows, width + 16), np.uint8)
    frame[:, :8] = size
    frame[:, 8:12] = masked_crc(size[None, :]).view(np.uint8)
    frame[:, 12:-4] = payload
    frame[:, -4:] = masked_crc(payload).view(np.uint8).reshape(rows, 4)
    path.write_bytes(frame.tobytes())


def write_csv(path: Path, rows: int) -> None:
    rng = np.random.default_rng(3)
    with path.open("w") as out:
        out.write("step,loss,grad_norm,lr,throughput\n")
        for low in range(0, rows, 50_000):
            x = rng.normal(2.5, 0.1, (min(50_000, rows - low), 3)).tolist()
            out.write("".join(f"{i},{a:.6f},{b:.6f},0.0003,{c:.4f}\n" for i, (a, b, c) in enumerate(x, low)))


def write_ranks(folder: Path, ranks: int) -> None:
    """One file a rank; rank 17 leaves at 60 % of the run."""
    folder.mkdir()
    rng = np.random.default_rng(4)
    base = 2 + 8 * np.exp(-np.arange(STEPS) / 800)
    for rank in range(ranks):
        x = base * np.exp(rng.normal(0, 0.02, STEPS))
        if rank == 17:
            x[STEPS * 3 // 5 :] *= 2
        body = "".join(f"{step},{v:.6f},0.0003\n" for step, v in enumerate(x.tolist()))
        (folder / f"rank{rank}.csv").write_text("step,loss,lr\n" + body)


def warm() -> None:
    """Imports and the table of names are not timed, as those of the peers are not."""
    import duckdb  # noqa: F401

    from playbook import readers
    from playbook.readers import columnar, names  # noqa: F401

    readers.readers()
    names.table()


def ours(path: Path) -> Callable[[], object]:
    from playbook import readers

    warm()
    return lambda: len(readers.read([str(path)]).series)


def loads(path: Path) -> Callable[[], object]:
    def work() -> int:
        total = 0
        with path.open() as lines, contextlib.suppress(ValueError):  # the cut line
            for line in lines:
                total += len(json.loads(line))
        return total

    return work


def pandas_json(path: Path) -> Callable[[], object]:
    import pandas

    return lambda: len(pandas.read_json(path, lines=True))


def pandas_csv(path: Path) -> Callable[[], object]:
    import pandas

    return lambda: len(pandas.read_csv(path))


def accumulator(path: Path) -> Callable[[], object]:
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    def work() -> int:
        events = EventAccumulator(str(path), size_guidance={"scalars": 0}).Reload()
        return len(events.Scalars("loss"))

    return work


def our_ranks(path: Path) -> Callable[[], object]:
    from playbook import detectors, readers

    warm()

    def work() -> object:
        scans = detectors.scan(readers.read([str(path)]), only=["ranks"])
        return [(f.rank, f.step) for scan in scans for f in scan.findings][:1]

    return work


def fleet_ranks(path: Path) -> Callable[[], object]:
    import ibis

    from playbook.workflow.fleet import judge

    warm()
    ibis.duckdb.connect().disconnect()

    def work() -> object:
        verdict = judge([str(path)])
        return [(verdict.first, verdict.step)]

    return work


def pandas_parts(path: Path) -> list[Any]:
    """One table a rank, as people read them."""
    import pandas

    parts = []
    for file in sorted(path.glob("rank*.csv")):
        part = pandas.read_csv(file)
        part["rank"] = int(file.stem[4:])
        parts.append(part)
    return parts


def pandas_ranks(path: Path) -> Callable[[], object]:
    """What people write: a loop with concat, a pivot, and the first rank that leaves the median of all for good."""
    import pandas

    def work() -> object:
        table = pandas.concat(pandas_parts(path)).pivot(index="step", columns="rank", values="loss")
        off = table.sub(table.median(axis=1), axis=0)
        spread = 1.4826 * off.abs().median(axis=1)
        far = (off.div(spread, axis=0) > 8).rolling(20).sum() == 20
        rank = far.any().idxmax()
        return [(int(rank), int(far[rank].idxmax()) - 19)]

    return work


def pandas_reduction(path: Path) -> Callable[[], object]:
    """The same numbers a step as the reduction has, and the verdict from them."""
    import pandas

    def work() -> object:
        table = pandas.concat(pandas_parts(path), ignore_index=True)
        table["finite"] = np.isfinite(table["loss"])
        good = table[table["finite"]]
        by_step = good.groupby("step")["loss"].agg(["median", "mean", "min", "max", "idxmax"])
        by_step["count"] = table.groupby("step")["loss"].size()
        by_step["bad"] = (~table["finite"]).groupby(table["step"]).sum()
        by_step["rank"] = table["rank"].to_numpy()[by_step["idxmax"]]
        off = by_step["max"] / by_step["median"] - 1
        level = off.rolling(101).median().shift(1)
        spread = 1.4826 * (off - level).abs().rolling(101).median().shift(1)
        step = ((off - level) / spread > 8).idxmax()
        return [(int(by_step["rank"][step]), int(step))]

    return work


def detect(path: Path) -> Callable[[], object]:
    """All detectors on six metrics of a run of one million steps (`path` carries the number)."""
    from playbook import detectors
    from playbook.series import Origin, Run, Series

    rows = int(path.name)
    rng = np.random.default_rng(5)
    steps = np.arange(rows, dtype=np.int64)
    loss = (2 + 8 * np.exp(-steps / (rows / 20))) * np.exp(rng.normal(0, 0.02, rows))
    loss[rows * 3 // 5 : rows * 3 // 5 + 500] *= 2.5
    metrics = {
        "loss": loss,
        "grad_norm": np.exp(rng.normal(-0.5, 0.2, rows)),
        "lr": 3e-4 * np.minimum(1, steps / 2000) * (0.55 + 0.45 * np.cos(np.pi * steps / rows)),
        "loss_scale": np.full(rows, 65536.0),
        "throughput": rng.normal(1000, 20, rows),
        "step_time": rng.normal(1.0, 0.02, rows),
    }
    run = Run({(name, None): Series(name, None, steps, x, None, Origin("bench")) for name, x in metrics.items()})
    return lambda: sum(len(scan.findings) for scan in detectors.scan(run))


WORK: dict[str, tuple[Callable[[Path], Callable[[], object]], str]] = {
    "ours": (ours, ""),
    "json.loads": (loads, ""),
    "pandas.read_json": (pandas_json, "pandas"),
    "pandas.read_csv": (pandas_csv, "pandas"),
    "EventAccumulator": (accumulator, "tensorboard"),
    "ranks": (our_ranks, ""),
    "fleet": (fleet_ranks, "ibis"),
    "pandas-ranks": (pandas_ranks, "pandas"),
    "pandas-reduction": (pandas_reduction, "pandas"),
    "detect": (detect, ""),
}


def peak() -> int:
    """The most memory so far in KiB; `ru_maxrss` of a new program begins with that of the one that started it."""
    with contextlib.suppress(OSError, StopIteration), Path("/proc/self/status").open() as status:
        return next(int(line.split()[1]) for line in status if line.startswith("VmHWM:"))
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def one(name: str, path: Path) -> None:
    """One measurement, in a process of its own; the answer is a line of JSON."""
    work = WORK[name][0](path)
    before = peak()
    wall, cpu = time.perf_counter(), time.process_time()
    result = work()
    wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    grown = (peak() - before) / 1024
    print(json.dumps({"wall": wall, "cpu": cpu, "mb": grown, "result": str(result)}))


def measure(name: str, path: Path) -> dict[str, float] | None:
    """Medians of a measurement; None where the peer is not installed."""
    package, python = WORK[name][1], sys.executable
    if package and importlib.util.find_spec(package) is None:
        if "--peers" not in sys.argv:
            print(f"  {name:18} peer not installed: {package}")
            return None
        python = sys.argv[sys.argv.index("--peers") + 1]
    found = []
    for _ in range(RUNS):
        done = subprocess.run([python, __file__, "--one", name, str(path)], capture_output=True, text=True, check=False)
        if done.returncode:
            print(f"  {name:18} failed: {done.stderr.strip().splitlines()[-1][:150]}")
            return None
        found.append(json.loads(done.stdout.splitlines()[-1]))
    middle = {key: median(f[key] for f in found) for key in ("wall", "cpu", "mb")}
    print(
        f"  {name:18} {middle['cpu']:7.2f} s processor {middle['wall']:7.2f} s wall {middle['mb']:7.0f} MB"
        f"   -> {found[0]['result'][:60]}",
        flush=True,
    )
    return middle


def compare(title: str, path: Path, mine: str, peer: str, key: str, least: float, other: Path | None = None) -> bool:
    """Print both and their ratio; False where a wanted ratio was missed. `other` is what the peer reads instead."""
    a, b = measured(mine, path), measured(peer, other or path)
    if a is None or b is None:
        return True
    ratio = b[key] / max(a[key], 1e-3)
    ok = ratio >= least
    wall = "" if key == "mb" else f" (wall {b['wall'] / a['wall']:.1f})"
    unit = "less memory" if key == "mb" else "faster"
    print(
        f"  {title}: {ratio:.1f} times {unit} than {peer}{wall}, wanted {least:g}{'' if ok else '  MISSED'}",
        flush=True,
    )
    return ok


_CACHE: dict[tuple[str, Path], dict[str, float] | None] = {}


def measured(name: str, path: Path) -> dict[str, float] | None:
    if (name, path) not in _CACHE:
        _CACHE[name, path] = measure(name, path)
    return _CACHE[name, path]


def main() -> int:
    full = "--full" in sys.argv
    ok = True
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        rows = 5_000_000 if full else 500_000
        print(f"JSON lines, {rows} x 8 with NaN tokens and a cut line")
        write_json(folder / "log.jsonl", rows)
        ok &= compare("time", folder / "log.jsonl", "ours", "json.loads", "cpu", 12 if full else 10)
        whole = folder / "whole.jsonl"  # pandas refuses a file with a cut line
        shutil.copyfile(folder / "log.jsonl", whole)
        os.truncate(whole, whole.stat().st_size - len(_CUT.format(rows=rows)))
        ok &= compare("memory", folder / "log.jsonl", "ours", "pandas.read_json", "mb", 20 if full else 16, whole)
        (folder / "log.jsonl").unlink()
        whole.unlink()
        rows //= 10
        print(f"JSON lines, {rows} x 8 with all digits")
        write_digits(folder / "digits.jsonl", rows)
        ok &= compare("time", folder / "digits.jsonl", "ours", "json.loads", "cpu", 2)
        scalars = 2_000_000 if full else 200_000
        print(f"TensorBoard, {scalars} scalars")
        events = folder / "events.out.tfevents.1700000000.host"
        write_events(events, scalars)
        ok &= compare("time", events, "ours", "EventAccumulator", "cpu", 60)
        rows = 5_000_000 if full else 1_000_000
        print(f"CSV, {rows} rows of 5 columns")
        write_csv(folder / "metrics.csv", rows)
        ok &= compare("time", folder / "metrics.csv", "ours", "pandas.read_csv", "cpu", 1)
        ok &= compare("memory", folder / "metrics.csv", "ours", "pandas.read_csv", "mb", 2)
        ranks = 1000 if full else 200
        print(f"{ranks} rank files x {STEPS} steps with the verdict")
        write_ranks(folder / "ranks", ranks)
        ok &= compare("read and scan", folder / "ranks", "ranks", "pandas-ranks", "cpu", 4)
        ok &= compare("reduction on duckdb", folder / "ranks", "fleet", "pandas-ranks", "cpu", 4)
        ok &= compare("the same numbers", folder / "ranks", "fleet", "pandas-reduction", "cpu", 4)
    print("all detectors on six metrics of 1 000 000 steps")
    took = measured("detect", Path("1000000"))
    ok &= took is not None and took["cpu"] < 1.0
    print("all ratios as wanted" if ok else "a wanted figure was missed")
    return 0 if ok else 1


if __name__ == "__main__":
    if sys.argv[1:2] == ["--one"]:
        one(sys.argv[2], Path(sys.argv[3]))
    else:
        sys.exit(main())
