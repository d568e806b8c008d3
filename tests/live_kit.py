"""Shared by the tests of the live part: files that grow, and logs of any length made by a seed."""

from __future__ import annotations

import json
import math
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from playbook.readers import merge, walk
from playbook.readers.live.follow import Growing
from playbook.readers.live.history import LIMIT
from playbook.readers.live.pieces import HELD
from playbook.series import Run
from playbook.workflow.watching.live import Follower


def chunks(data: bytes, rng: random.Random, most: int = 12) -> Iterator[bytes]:
    """The bytes in pieces of any length, cut anywhere."""
    places = sorted(rng.randrange(len(data) + 1) for _ in range(min(most, len(data))))
    for start, end in zip([0, *places], [*places, len(data)], strict=True):
        yield data[start:end]


def append(path: Path, data: bytes) -> None:
    with path.open("ab") as file:
        file.write(data)


def followed(
    path: Path,
    data: bytes,
    rng: random.Random,
    held: int = HELD,
    limit: int = LIMIT,
    most: int = 12,
    step: str | None = None,
) -> Run:
    """What is known of one file that was written piece by piece."""
    path.write_bytes(b"")
    growing = Growing(walk.Found(path, str(path), False, walk.rank_of(path)), {}, step, limit, held)
    for piece in chunks(data, rng, most):
        append(path, piece)
        growing.poll()
        growing.part()
    while growing.behind:
        growing.poll()
        growing.part()
    growing.settle()
    part = growing.part()
    assert part is not None, growing.notes
    return merge.merged([part], [])


def told(run: Run) -> dict[str, Any]:
    """Everything that a verdict may hang on."""
    return {
        "series": {
            key: (
                s.raw,
                s.steps.tolist(),
                [repr(v) for v in s.values.tolist()],
                None if s.lines is None else s.lines.tolist(),
            )
            for key, s in run.series.items()
        },
        "events": [(e.kind, e.text, e.step, e.rank, e.time, e.origin.line) for e in run.events],
        "config": run.config,
        "unmapped": run.unmapped,
        "files": [(f.format, f.rows) for f in run.files],
    }


def losses(n: int, seed: int = 0, noise: float = 0.02) -> np.ndarray:
    """A healthy descent."""
    rng = np.random.default_rng(seed)
    steps = np.arange(1, n + 1)
    return 2.0 + 8.0 * np.exp(-steps / max(40.0, n / 12)) + rng.normal(0.0, noise, n)


def csv_bytes(values: np.ndarray, first: int = 1, every: int = 1) -> bytes:
    rows = [f"{first + i * every},{v:.6g},{1.0 + 0.1 * math.sin(i):.5g},{3e-4:g}" for i, v in enumerate(values)]
    return ("step,loss,grad_norm,lr\n" + "\n".join(rows) + "\n").encode()


def jsonl_bytes(values: np.ndarray, first: int = 1) -> bytes:
    rows = [json.dumps({"step": first + i, "loss": round(float(v), 6), "lr": 3e-4}) for i, v in enumerate(values)]
    return ("\n".join(rows) + "\n").encode()


def megatron_bytes(values: np.ndarray, first: int = 1) -> bytes:
    rows = [
        f" iteration {first + i:8d}/ 1000000 | consumed samples: {(first + i) * 512} | "
        f"elapsed time per iteration (ms): {500 + i % 7}.1 | learning rate: 3.000E-04 | "
        f"global batch size: 512 | lm loss: {v:.6E} | loss scale: 1.0 | grad norm: {1 + i % 3}.250 | "
        "number of skipped iterations: 0 | number of nan iterations: 0 |"
        for i, v in enumerate(values)
    ]
    return ("\n".join(rows) + "\n").encode()


def epoch_bytes(values: np.ndarray, per_epoch: int) -> bytes:
    """A log that counts batches from 0 in every epoch, with ordinary lines between."""
    lines = []
    for i, v in enumerate(values):
        lines.append(f"Epoch: [{i // per_epoch}][{i % per_epoch}/{per_epoch}]  Loss {v:.4f} ({v:.4f})  lr 0.0003")
        if i % 50 == 0:
            lines.append(f"saving nothing of note {i}")
    return ("\n".join(lines) + "\n").encode()


def polled(follower: Follower) -> Run:
    follower.poll()
    run = follower.run()
    assert run is not None
    return run
