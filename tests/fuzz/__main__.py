"""Fuzz every reader: broken files in turn, each read as that reader's, as anybody's, or as part of a folder.

    python -m tests.fuzz [--inputs 100000] [--seed 0] [--jobs 2] [--only NUMBER]

An input is read, or refused in one line; anything else is a failure: another exception, a crash of the process, more
than 20 seconds, 400 MB of new memory. The same seed gives the same inputs; `--only` runs one again, with its traceback.
"""

from __future__ import annotations

import argparse
import random
import resource
import signal
import subprocess
import sys
import tempfile
import time
import traceback
from collections import Counter
from pathlib import Path

from tests.fuzz.inputs import made

_SECONDS = 20  # of one input
_MEMORY = 400 << 10  # KiB of new memory that one input may take
_BATCH = 1_000  # inputs of one process
_LARGE_WAYS = {
    "csv": ("tables.csv_table",),
    "jsonl": ("documents.json_lines",),
}  # readers with another way for large files


class Hang(BaseException):
    """An input took too long (no `except Exception` may swallow this)."""


def _alarm(*_: object) -> None:
    raise Hang


def batch(seed: int, first: int, count: int, only: bool) -> int:
    """Read some inputs; a line of result for each reader goes to standard output, failures as they come."""
    signal.signal(signal.SIGALRM, _alarm)
    with tempfile.TemporaryDirectory(prefix="playbook-fuzz-") as scratch:
        for number in range(first, first + count):
            print(f"at {number}", file=sys.stderr, flush=True)
            name, outcome = _input(seed, number, Path(scratch) / str(number), only)
            print(f"{name}\t{number}\t{outcome}", flush=True)
    return 0


def _input(seed: int, number: int, folder: Path, only: bool) -> tuple[str, str]:
    """(reader, outcome) of one input."""
    from playbook.errors import PlaybookError
    from playbook.readers import read, readers
    from playbook.readers.base import RunBuilder
    from playbook.readers.source import Source

    modules = readers()
    rng = random.Random(seed << 32 | number)
    reader = modules[number % len(modules)]
    data, inside = made(reader.NAME, [module.NAME for module in modules], rng)
    large = _other_way(reader.NAME, rng)
    way = rng.random()
    path = folder / inside
    path.parent.mkdir(parents=True)
    path.write_bytes(data)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    outcome = "read"
    signal.alarm(_SECONDS)
    try:
        if way < 0.7:
            assert 0 <= reader.sniff(data[: 64 << 10], path) <= 100
            builder = RunBuilder("x", reader.NAME)
            reader.read(Source(path, "x"), builder)
            builder.finish()
        else:
            read([path if way < 0.9 else folder])
    except PlaybookError as error:
        outcome = "refused" if str(error) and "\n" not in str(error) else f"refused in many lines: {error!r}"
    except Hang:
        outcome = "took too long"
    except Exception as error:
        last = traceback.extract_tb(error.__traceback__)[-1]
        place = f"{Path(last.filename).name}:{last.lineno}"
        outcome = f"{type(error).__name__} at {place}: {str(error)[:120]}".replace("\n", " ")
        if only:
            traceback.print_exc()
    finally:
        signal.alarm(0)
        _restore(large)
    path.unlink()
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    return reader.NAME, f"took {grown >> 10} MB" if grown > _MEMORY else outcome


def _other_way(name: str, rng: random.Random) -> list[tuple[object, str, int]]:
    """Sometimes a small file is read as a large one; what must be set back."""
    import importlib

    changed: list[tuple[object, str, int]] = []
    draw = rng.random()
    for module_name in _LARGE_WAYS.get(name, ()):
        module = importlib.import_module(f"playbook.readers.{module_name}")
        for limit in ("_LARGE", "_HUGE"):
            if draw < (0.5 if limit == "_LARGE" else 0.1) and hasattr(module, limit):
                changed.append((module, limit, getattr(module, limit)))
                setattr(module, limit, 0)
    return changed


def _restore(changed: list[tuple[object, str, int]]) -> None:
    for module, limit, value in changed:
        setattr(module, limit, value)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz")
    parser.add_argument("--inputs", type=int, default=100_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--only", type=int, help="the number of one input")
    parser.add_argument("--batch", type=int, nargs=2, help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.batch:
        return batch(asked.seed, *asked.batch, only=False)
    if asked.only is not None:
        return batch(asked.seed, asked.only, 1, only=True)
    began = time.monotonic()
    waiting = [(first, min(_BATCH, asked.inputs - first)) for first in range(0, asked.inputs, _BATCH)][::-1]
    running: list[tuple[subprocess.Popen[str], int, int, Path, Path]] = []
    counts: dict[str, Counter[str]] = {}
    failures: list[str] = []
    done = 0
    with tempfile.TemporaryDirectory(prefix="playbook-fuzz-") as scratch:
        while waiting or running:
            while waiting and len(running) < asked.jobs:
                first, count = waiting.pop()
                out, log = Path(scratch) / f"{first}.out", Path(scratch) / f"{first}.log"
                command = [
                    sys.executable,
                    "-m",
                    "tests.fuzz",
                    "--seed",
                    str(asked.seed),
                    "--batch",
                    str(first),
                    str(count),
                ]
                with out.open("w") as told, log.open("w") as errors:
                    running.append((subprocess.Popen(command, stdout=told, stderr=errors), first, count, out, log))
            time.sleep(0.2)
            for process, _, _, out, _ in running:
                if time.time() - out.stat().st_mtime > 10 * _SECONDS:
                    process.kill()  # stuck in a library, where no signal is heard
            for job in [job for job in running if job[0].poll() is not None]:
                running.remove(job)
                process, first, count, out, log = job
                lines = [line.split("\t", 2) for line in out.read_text().splitlines()]
                for name, number, outcome in lines:
                    counts.setdefault(name, Counter())[outcome if outcome in ("read", "refused") else "failed"] += 1
                    if outcome not in ("read", "refused"):
                        failures.append(f"input {number} ({name}): {outcome}")
                done += len(lines)
                if process.returncode:
                    last = [line for line in log.read_text("utf-8", "replace").splitlines() if line.startswith("at ")]
                    number = int(last[-1][3:]) if last else first
                    failures.append(f"input {number}: the process ended with {process.returncode}")
                    done += 1
                    if number + 1 < first + count:
                        waiting.append((number + 1, first + count - number - 1))
                print(
                    f"\r{done} of {asked.inputs} inputs, {len(failures)} failures", end="", file=sys.stderr, flush=True
                )
    print(file=sys.stderr)
    for name in sorted(counts):
        count = counts[name]
        told = "  ".join(f"{count[outcome]:6} {outcome}" for outcome in ("read", "refused", "failed"))
        print(f"{name:16} {count.total():6} inputs  {told}")
    for failure in failures[:200]:
        print(failure)
    total = sum(count.total() for count in counts.values())
    print(f"{total} inputs, {len(failures)} failures, {time.monotonic() - began:.0f} s")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
