"""Folders of ranks that grow, are rotated, cut and begun anew: the last word of a watch is the verdict of ingest."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from playbook.workflow.book import Library
from playbook.workflow.ingest import Ingested, ingest
from playbook.workflow.watching.live import Follower
from playbook.workflow.watching.notify import Sender
from playbook.workflow.watching.watch import Options, _Watcher
from tests import live_kit as kit


def faulty(rng: random.Random, count: int, seed: int) -> np.ndarray:
    """A run that may have a spike, a NaN to the end, both or neither."""
    values = kit.losses(count, seed)
    if rng.random() < 0.6:
        at = rng.randrange(count // 3, count // 2)
        values[at : at + 4] = [14.0, 12.0, 9.0, 5.0]
    if rng.random() < 0.6:
        values[rng.randrange(count * 2 // 3, count - 10) :] = np.nan
    return values


def verdict(found: Ingested | None) -> tuple[Any, ...]:
    assert found is not None
    symptom = found.symptom
    return found.verdict, *((symptom.state, symptom.step, symptom.rank) if symptom is not None else ())


def evidence(found: Ingested) -> list[tuple[Any, ...]]:
    return sorted((e.signal, e.state, e.step, e.rank, round(e.confidence, 6)) for e in found.evidence)


class Writer:
    """One rank's file, and the bytes that a reader of everything would have seen since the run began."""

    def __init__(self, path: Path, rng: random.Random, kind: str) -> None:
        self.path, self.rng, self.kind = path, rng, kind
        self.parts = 0
        self.begin(rng.randrange(10_000))

    def begin(self, seed: int) -> None:
        make = {"csv": kit.csv_bytes, "jsonl": kit.jsonl_bytes, "log": kit.megatron_bytes}[self.kind]
        data = make(faulty(self.rng, 400, seed))
        self.head = data[: data.find(b"\n") + 1] if self.kind == "csv" else b""
        self.left, self.whole = data, b""
        self.path.write_bytes(b"")

    def write(self, count: int) -> None:
        piece, self.left = self.left[:count], self.left[count:]
        kit.append(self.path, piece)
        self.whole += piece

    def rotate(self) -> None:
        """A new file under the name, at the end of a line."""
        end = self.left.find(b"\n") + 1
        self.write(end)
        self.parts += 1
        self.path.rename(self.path.with_name(f"{self.path.name}.{self.parts}"))
        self.path.write_bytes(self.head)


@pytest.mark.parametrize("seed", range(16))
def test_the_last_word_is_the_verdict_of_ingest(seed: int, library: Library, tmp_path: Path) -> None:
    rng = random.Random(seed)
    live, offline = tmp_path / "live", tmp_path / "offline"
    live.mkdir()
    offline.mkdir()
    kind = rng.choice(["csv", "jsonl", "log"])
    names = [f"train.rank{rank}.{kind}" for rank in range(rng.randrange(1, 4))]
    writers = [Writer(live / name, random.Random(seed * 100 + k), kind) for k, name in enumerate(names)]
    rotates, restarts = rng.random() < 0.5, rng.random() < 0.4
    watcher = _Watcher(Follower([str(live)]), library, Options(), Sender(()))
    looks = 0
    while any(writer.left for writer in writers):
        for writer in rng.sample(writers, rng.randrange(1, len(writers) + 1)):
            writer.write(rng.randrange(1, 6_000))
            if rotates and writer.left and rng.random() < 0.1:
                if rng.random() < 0.5:
                    list(watcher.look())
                writer.rotate()
        if rng.random() < 0.7:
            list(watcher.look())
        looks += 1
        if restarts and looks == 6:  # the job is started again, with files of the same names
            list(watcher.look())
            for writer in writers:
                writer.begin(seed + 7)
    last = list(watcher.end("stopped"))[-1]
    for writer in writers:
        (offline / writer.path.name).write_bytes(writer.whole)
    expected = ingest([str(offline)], library.book)
    assert last.kind == "end" and verdict(last.found) == verdict(expected)
    assert last.found is not None and evidence(last.found) == evidence(expected)
