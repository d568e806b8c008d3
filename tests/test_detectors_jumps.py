"""Jumps over a descent: the level that lags behind and the descent itself must not pass for noise, short runs too."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from playbook.detectors import INCIDENT, scan
from playbook.series import Run
from tests.runs import run

GRID = list(itertools.product((150, 400, 1200), (0.1, 0.35, 1.0), (0.005, 0.03), (1, 10, 100)))


def descending(rows: int, tau: float, noise: float, every: int, up: np.ndarray | float = 0.0) -> Run:
    t = np.arange(rows)
    rng = np.random.default_rng(rows * 1000 + int(1000 * tau) + every)
    loss = (2.0 + 6.0 * np.exp(-t / (tau * rows))) * np.exp(rng.normal(0, noise, rows)) * (1.0 + up)
    return run(t * every, {"loss": loss})


def told(made: Run) -> list[tuple[str, int]]:
    return [(f.kind, int(f.step or 0)) for f in scan(made, ["spike"])[0].findings if f.confidence >= INCIDENT]


@pytest.mark.parametrize(("place", "times"), [(0.4, 2.0), (0.8, 3.0), (0.6, 2.5)])
def test_a_lasting_jump_is_found_where_it_begins(place: float, times: float) -> None:
    missed = []
    for rows, tau, noise, every in GRID:
        at = int(place * rows)
        made = descending(rows, tau, noise, every, np.where(np.arange(rows) >= at, times - 1.0, 0.0))
        kinds = [k for k, step in told(made) if abs(step / every - at) <= max(2, 0.02 * rows)]
        if not {"persistent", "transient"} & set(kinds):
            missed.append((rows, tau, noise, every, told(made)))
    assert not missed


def test_a_rise_over_some_rows_at_the_end_of_the_warm_up_is_found() -> None:
    """The gradient of a learning rate that is too high: the loss leaves its descent within some ten rows, for good."""
    t = np.arange(400)
    up = np.where(t >= 200, 0.85 * (1 - np.exp(-(t - 199) / 6.0)), 0.0)
    loss = (2.9 + 10.8 * np.exp(-t / 70.0)) * (1.0 + up) * np.exp(np.random.default_rng(0).normal(0, 0.005, 400))
    (kind, step), *_ = [x for x in told(run(t * 10, {"loss": loss})) if x[0] == "persistent"]
    assert kind == "persistent" and abs(step - 2000) <= 40


def test_a_descent_alone_is_quiet() -> None:
    assert not [g for g in GRID if told(descending(*g))]


def test_spikes_of_one_height_over_a_sinking_level_do_not_grow() -> None:
    t = np.arange(700)
    loss = 2.5 + 1.2 * np.exp(-t / 120.0) + np.random.default_rng(1).normal(0, 0.02, 700)
    loss[70::128] = 5.2
    kinds = {f.kind for f in scan(run(t, {"loss": loss}), ["spike"])[0].findings}
    assert "repeated" in kinds and "growing" not in kinds
    loss[70::128] = 4.0 * 1.5 ** np.arange(5)
    assert "growing" in {f.kind for f in scan(run(t, {"loss": loss}), ["spike"])[0].findings}
