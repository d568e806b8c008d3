"""CSV beyond the plain case, against pandas in one run: 100 columns, 17 digits, holes and NaN; growth with size.

    python tests/bench/bench_readers_tables.py [--full]

Each measurement is a process of its own, the median of three: processor time of all threads, and the memory needed
above that of the imports. Linear means that twice the rows take at most 2.6 times as long and 2.2 times the memory.
Only 100 columns and growth have a bar; the other ratios are there to be seen.
"""

from __future__ import annotations

import json
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median

import numpy as np

RUNS = 3
NEEDED = ("step", "loss", "grad_norm", "lr", "throughput")
COLUMNS = 100
STEPS = 5_000  # of each rank
LINEAR_TIME, LINEAR_MEMORY = 2.6, 2.2


def write_wide(path: Path, rows: int) -> None:
    """100 columns, of which five can become metrics."""
    rng = np.random.default_rng(6)
    names = [*NEEDED, *(f"histogram_bin_{n}" for n in range(COLUMNS - len(NEEDED)))]
    with path.open("w") as out:
        out.write(",".join(names) + "\n")
        fill = ["0.5,0.25,17,3.75,0.0625"] * ((COLUMNS - len(NEEDED)) // 5)
        for i, (a, b, c) in enumerate(rng.normal(2.5, 0.1, (rows, 3)).tolist()):
            out.write(f"{i},{a:.6f},{b:.6f},0.0003,{c:.4f},{','.join(fill)}\n")


def write_digits(path: Path, rows: int) -> None:
    """What `csv.writer` makes of Python's floats."""
    rng = np.random.default_rng(7)
    with path.open("w") as out:
        out.write("step,loss,grad_norm,lr\n")
        for i, (a, b, c) in enumerate(rng.normal(2.5, 0.1, (rows, 3)).tolist()):
            out.write(f"{i},{a!r},{b!r},{c * 1e-5!r}\n")


def write_holes(path: Path, rows: int) -> None:
    """Lightning's metrics.csv: a loss in one row, an evaluation in the next; NaN and infinities."""
    rng = np.random.default_rng(8)
    with path.open("w") as out:
        out.write("epoch,grad_norm,step,train_loss,val_loss\n")
        for i, (a, b) in enumerate(rng.normal(2.5, 0.1, (rows, 2)).tolist()):
            norm = "nan" if i % 97 == 0 else "inf" if i % 89 == 0 else f"{b:.5f}"
            out.write(f"{i // 1000},{norm},{i},{f'{a:.6f}' if i % 2 else ''},{'' if i % 2 else f'{a:.6f}'}\n")


def write_ranks(folder: Path, ranks: int) -> None:
    folder.mkdir()
    rng = np.random.default_rng(9)
    for rank in range(ranks):
        body = "".join(f"{i},{v:.6f},0.0003\n" for i, v in enumerate(rng.normal(2.5, 0.1, STEPS).tolist()))
        (folder / f"rank{rank}.csv").write_text("step,loss,lr\n" + body)


def ours(path: Path) -> Callable[[], object]:
    import playbook.readers.tables.csv_many  # noqa: F401 - imports are not timed, as those of the peer are not
    from playbook import readers
    from playbook.readers import names

    readers.readers()
    names.table()
    return lambda: len(readers.read([str(path)]).series)


def pandas_all(path: Path) -> Callable[[], object]:
    import pandas

    return lambda: len(pandas.read_csv(path))


def pandas_needed(path: Path) -> Callable[[], object]:
    import pandas

    return lambda: len(pandas.read_csv(path, usecols=list(NEEDED)))


WORK = {"ours": ours, "pandas": pandas_all, "pandas, usecols": pandas_needed}


def one(name: str, path: Path) -> None:
    work = WORK[name](path)
    before = peak()
    cpu = time.process_time()
    work()
    cpu = time.process_time() - cpu
    print(json.dumps({"cpu": cpu, "mb": (peak() - before) / 1024}))


def peak() -> int:
    """kB of memory at most so far. Not `ru_maxrss` where it can be had: that one starts with the parent's."""
    try:
        return int(Path("/proc/self/status").read_text().split("VmHWM:")[1].split()[0])
    except (OSError, IndexError):
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def measure(name: str, path: Path) -> dict[str, float] | None:
    """Medians; None where the measurement failed (pandas is not installed)."""
    found = []
    for _ in range(RUNS):
        command = [sys.executable, __file__, "--one", name, str(path)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            print(f"  {name:18} failed: {done.stderr.strip().splitlines()[-1][:150]}")
            return None
        found.append(json.loads(done.stdout.splitlines()[-1]))
    middle = {key: median(f[key] for f in found) for key in ("cpu", "mb")}
    print(f"  {name:18} {middle['cpu']:7.2f} s processor {middle['mb']:7.0f} MB   {path.name}", flush=True)
    return middle


def against(path: Path, peers: dict[str, float]) -> bool:
    """Ratios to peers, each with the one that is wanted (0 for none)."""
    mine, ok = measure("ours", path), True
    for peer, least in peers.items():
        its = measure(peer, path)
        if mine is not None and its is not None:
            ratio, less = its["cpu"] / max(mine["cpu"], 1e-3), its["mb"] / max(mine["mb"], 1.0)
            ok &= ratio >= least
            bar = f", wanted {least:g}{'' if ratio >= least else '  MISSED'}" if least else ""
            print(f"  {ratio:.1f} times as fast as {peer}, {less:.1f} times less memory{bar}", flush=True)
    return ok


def linear(small: Path, large: Path) -> bool:
    a, b = measure("ours", small), measure("ours", large)
    if a is None or b is None:
        return False
    slower, fuller = b["cpu"] / a["cpu"], b["mb"] / max(a["mb"], 1.0)
    ok = slower <= LINEAR_TIME and fuller <= LINEAR_MEMORY
    print(f"  twice the size: {slower:.1f} times the time, {fuller:.1f} times the memory{'' if ok else '  MISSED'}")
    return ok


def main() -> int:
    unit = 5 if "--full" in sys.argv else 1
    ok = True
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        print(f"CSV, {100_000 * unit} rows of {COLUMNS} columns, {len(NEEDED)} of them needed")
        write_wide(folder / "wide.csv", 100_000 * unit)
        ok &= against(folder / "wide.csv", {"pandas": 1, "pandas, usecols": 0})
        (folder / "wide.csv").unlink()
        print(f"CSV, {400_000 * unit} rows with all digits")
        write_digits(folder / "digits.csv", 400_000 * unit)
        ok &= against(folder / "digits.csv", {"pandas": 0})
        print(f"CSV, {400_000 * unit} rows with holes, NaN and infinities")
        write_holes(folder / "holes.csv", 400_000 * unit)
        ok &= against(folder / "holes.csv", {"pandas": 0})
        print("growth with size")
        write_digits(folder / "half.csv", 200_000 * unit)
        ok &= linear(folder / "half.csv", folder / "digits.csv")
        write_ranks(folder / "100", 100 * unit)
        write_ranks(folder / "200", 200 * unit)
        ok &= linear(folder / "100", folder / "200")
    print("all ratios as wanted" if ok else "a wanted figure was missed")
    return 0 if ok else 1


if __name__ == "__main__":
    if sys.argv[1:2] == ["--one"]:
        one(sys.argv[2], Path(sys.argv[3]))
    else:
        sys.exit(main())
