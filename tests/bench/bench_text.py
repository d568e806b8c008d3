"""How fast Megatron rows are read, against one compiled regular expression a line in the same run.

    python tests/bench/bench_text.py [ROWS]        (500 000 rows, about a minute)

Processor time, the best of three of each; both results must be equal to the last bit.
"""

from __future__ import annotations

import random
import re
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

from playbook.readers.base import RunBuilder
from playbook.readers.logs import megatron, text_log
from playbook.readers.source import Source

RATIO = 3.0  # at least this much faster
KEYS = (
    "consumed samples",
    "elapsed time per iteration (ms)",
    "learning rate",
    "global batch size",
    "lm loss",
    "loss scale",
    "grad norm",
    "number of skipped iterations",
    "number of nan iterations",
)
ROW = re.compile(
    r"iteration\s+(\d+)/\s*\d+ \|" + "".join(rf" {re.escape(key)}:\s+(\S+) \|" for key in KEYS),
)


def write(path: Path, rows: int) -> None:
    rng = random.Random(rows)
    loss = 11.0
    with path.open("w") as out:
        for i in range(1, rows + 1):
            loss = max(1.5, loss * 0.99999 + rng.gauss(0, 0.01))
            out.write(
                f" iteration {i:8d}/{rows:8d} | consumed samples: {i * 1024:12d} |"
                f" elapsed time per iteration (ms): {rng.gauss(1200, 60):.1f} |"
                f" learning rate: {3e-4 * min(1, i / 2000):.6E} | global batch size: {1024:5d} |"
                f" lm loss: {loss:.6E} | loss scale: {131072.0 if i < rows // 2 else 65536.0:.1f} |"
                f" grad norm: {abs(rng.gauss(0.6, 0.2)):.3f} |"
                f" number of skipped iterations: {0:3d} | number of nan iterations: {0:3d} |\n"
            )


def by_expression(path: Path) -> list[np.ndarray]:
    columns: list[list[float]] = [[] for _ in range(len(KEYS) + 1)]
    with path.open() as lines:
        for line in lines:
            if hit := ROW.search(line):
                for column, number in zip(columns, hit.groups(), strict=True):
                    column.append(float(number))
    return [np.array(column) for column in columns]


def by_reader(path: Path, module: object = megatron) -> RunBuilder:
    builder = RunBuilder(path.name, "bench")
    module.read(Source(path, path.name), builder)  # type: ignore[attr-defined]
    return builder


def best(work: Callable[[], object]) -> tuple[float, object]:
    times, result = [], None
    for _ in range(3):
        result = None  # the lists of the last round would slow the collector down in this one
        start = time.process_time()
        result = work()
        times.append(time.process_time() - start)
    return min(times), result


def main() -> int:
    rows = int(sys.argv[1]) if len(sys.argv) > 1 else 500_000
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "megatron.log"
        write(path, rows)
        ours, builder = best(lambda: by_reader(path))
        plain, columns = best(lambda: by_expression(path))
        assert isinstance(builder, RunBuilder) and isinstance(columns, list)
        logged = {raw: [values for _, values, _ in chunks] for (raw, _), chunks in builder.chunks().items()}
        for key, column in zip(KEYS, columns[1:], strict=True):
            assert np.array_equal(np.concatenate(logged[key]), column), key
        few = min(rows, 20_000)
        write(path, few)
        loose, _ = best(lambda: by_reader(path, text_log))
    ratio = plain / ours
    print(f"{rows} rows: a regular expression a line {plain:.2f} s, the reader {ours:.2f} s, ratio {ratio:.1f}")
    print(f"the fallback for any logger: {loose / few * 1e6:.0f} microseconds a row")
    return 0 if ratio >= RATIO else 1


if __name__ == "__main__":
    sys.exit(main())
