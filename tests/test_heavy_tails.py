"""Rows far above the loss in noise that has such rows all along are no spikes; where the noise has none, they are."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from playbook.series import Run
from playbook.workflow.ingest import look
from tests import runs
from tests.lab import judge

BOOK = judge.library().book
Noise = Callable[[np.random.Generator, int], np.ndarray]
KINDS: dict[str, Noise] = {
    "hard batches": lambda rng, n: rng.normal(0, 0.05, n) * np.where(rng.random(n) < 0.03, 6.0, 1.0),
    "Student 4": lambda rng, n: 0.08 * rng.standard_t(4, n),
    "Student 3": lambda rng, n: 0.05 * rng.standard_t(3, n),
    "log-normal": lambda rng, n: 0.05 * (np.exp(rng.normal(0, 1, n)) - 1.65),
}
MOST = {"hard batches": 8, "Student 4": 12, "Student 3": 12, "log-normal": 14}  # of 40; 33, 26, 33, 34 without the gap


def made(noise: np.ndarray, spikes: tuple[tuple[int, float], ...] = ()) -> Run:
    loss = runs.descent(len(noise)) * np.exp(noise)
    for at, times in spikes:
        loss[at] *= times
    return runs.run(np.arange(len(noise)), {"loss": loss})


def alarms(count: int, noise: Noise, spikes: tuple[tuple[int, float], ...] = (), n: int = 2000) -> int:
    said = [look(made(noise(np.random.default_rng(seed), n), spikes), BOOK).verdict for seed in range(count)]
    return said.count("incident")


@pytest.mark.parametrize("kind", KINDS)
def test_the_tail_of_the_noise_is_hardly_ever_told_as_a_spike(kind: str) -> None:
    assert alarms(40, KINDS[kind]) <= MOST[kind]


@pytest.mark.parametrize("spikes", [((1200, 2.0),), ((1200, 3.0),), ((700, 2.0), (1100, 2.2), (1500, 2.1))])
def test_a_row_that_stands_apart_is_told(spikes: tuple[tuple[int, float], ...]) -> None:
    assert alarms(10, lambda rng, n: rng.normal(0, 0.05, n), spikes) == 10
    assert alarms(10, lambda rng, n: 0.02 * rng.exponential(1, n), spikes) == 10


def test_spikes_that_grow_are_told() -> None:
    spikes = tuple((300 + 200 * k, 1.5 + 0.3 * k) for k in range(6))
    assert alarms(10, lambda rng, n: rng.normal(0, 0.04, n), spikes) >= 9
