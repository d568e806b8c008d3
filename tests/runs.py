"""Runs made by hand, with a seed: healthy families that no detector may call an incident.

`HEALTHY[name](seed) -> Run`; the faults are in `faults.py`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from playbook.series import Event, Origin, Run, Series

Values = Any  # what becomes a float array
ORIGIN = Origin("made.csv", None, "made")


def series(metric: str, steps: Values, values: Values, rank: int | None = None) -> Series:
    s, v = np.asarray(steps, dtype=np.int64), np.asarray(values, dtype=np.float64)
    return Series(metric, rank, s, v, np.arange(2, len(v) + 2), ORIGIN)


def run(
    steps: Values,
    metrics: Mapping[str, Values],
    ranked: Mapping[str, Mapping[int, Values]] | None = None,
    events: tuple[Event, ...] = (),
    config: dict[str, Any] | None = None,
) -> Run:
    """A run whose metrics share their steps; `ranked` is metric -> rank -> values."""
    found = {(m, None): series(m, steps, v) for m, v in metrics.items()}
    for metric, ranks in (ranked or {}).items():
        found |= {(metric, rank): series(metric, steps, v, rank) for rank, v in ranks.items()}
    return Run(found, events, config or {})


def cosine(n: int, peak: float = 3e-4, warm: int | None = None, floor: float = 0.1) -> np.ndarray:
    warm = warm or max(1, n // 50)
    t = np.arange(n)
    down = floor + (1 - floor) * 0.5 * (1 + np.cos(np.pi * np.clip((t - warm) / max(n - warm, 1), 0, 1)))
    return peak * np.where(t < warm, (t + 1) / warm, down)


def descent(n: int, first: float = 10.8, last: float = 2.1, fast: float = 40.0) -> np.ndarray:
    """A language model's loss without noise: fast at first, a power law later."""
    t = np.arange(n)
    return last + (first - last) * (0.75 * np.exp(-t / fast) + 0.25 * (1 + t / fast) ** -0.5)


def grads(rng: np.random.Generator, n: int, level: float = 1.0, spread: float = 0.25) -> np.ndarray:
    """Gradient norms: large at first, log-normal, a few outliers that mean nothing."""
    g = level * np.exp(rng.normal(0, spread, n)) * (1 + 8 * np.exp(-np.arange(n) / 30))
    for at in rng.integers(0, n, max(1, n // 400)):
        g[at] *= rng.uniform(5, 60)
    return g


def smooth(rng: np.random.Generator, n: int, sigma: float, tie: float) -> np.ndarray:
    """Noise whose neighbours hang together (AR 1)."""
    e = rng.normal(0, sigma, n)
    out = np.empty(n)
    out[0] = e[0]
    for i in range(1, n):
        out[i] = tie * out[i - 1] + math.sqrt(1 - tie * tie) * e[i]
    return out


# --- healthy -------------------------------------------------------------------------------------------------------


def plain(seed: int, n: int = 2000, noise: float = 0.04) -> Run:
    rng = np.random.default_rng(seed)
    loss = descent(n) + rng.normal(0, noise, n)
    return run(np.arange(n), {"loss": loss, "grad_norm": grads(rng, n), "lr": cosine(n)})


def _restarts(seed: int, lr_logged: bool) -> Run:
    """Cosine with warm restarts: the loss jumps up with the learning rate and comes down deeper each time."""
    rng = np.random.default_rng(seed)
    n, period = 3000, int(rng.integers(400, 800))
    t = np.arange(n)
    phase = (t % period) / period
    lr = 0.05 * 0.5 * (1 + np.cos(np.pi * phase)) + 1e-5
    hot = np.zeros(n)
    for i in range(1, n):  # the loss follows the learning rate with some delay
        hot[i] = hot[i - 1] + 0.05 * (lr[i] / 0.05 - hot[i - 1])
    loss = (0.35 + 1.8 * np.exp(-t / 500)) * (1 + 0.45 * hot) * np.exp(rng.normal(0, 0.05, n))
    metrics = {"loss": loss, "lr": lr} if lr_logged else {"loss": loss}
    return run(t, metrics)


def epoch_steps(seed: int) -> Run:
    rng = np.random.default_rng(seed)
    per, epochs = int(rng.integers(250, 450)), 4
    n = per * epochs
    t = np.arange(n)
    level = np.array([1.1, 0.74, 0.42, 0.2])[t // per]
    inside = (t % per) / per
    loss = level * (1 + 0.12 * inside * (t // per > 0)) + 0.4 * np.exp(-t / 20)
    loss *= np.exp(rng.normal(0, 0.06, n))
    return run(t + 1, {"loss": loss, "lr": cosine(n, 2e-5), "epoch": (t + 1) / per, "grad_norm": grads(rng, n, 0.8)})


def curriculum(seed: int) -> Run:
    """A planned switch to harder data: a few tenths up at once, then down again as it learns."""
    rng = np.random.default_rng(seed)
    n = 4000
    at = int(rng.integers(1500, 2500))
    loss = descent(n, last=1.9)
    t = np.arange(n)
    loss += np.where(t >= at, rng.uniform(0.2, 0.45) * (0.5 + 0.5 * np.exp(-(t - at).clip(0) / 600)), 0.0)
    loss += rng.normal(0, 0.04, n)
    return run(t, {"loss": loss, "lr": cosine(n), "grad_norm": grads(rng, n)})


def sparse(seed: int) -> Run:
    rng = np.random.default_rng(seed)
    n = int(rng.integers(40, 160))
    t = np.arange(1, n + 1) * 200
    loss = descent(n, first=8.0, fast=4.0) + rng.normal(0, 0.07, n)
    if n > 60:
        loss[int(rng.integers(20, n - 5))] += 0.6  # one hard batch
    return run(t, {"loss": loss, "lr": cosine(n), "grad_norm": grads(rng, n, 1.5)})


def small_batches(seed: int) -> Run:
    """Batch 1: log-normal noise of half a nat and more."""
    rng = np.random.default_rng(seed)
    n = 1000
    loss = (2.3 + 9 * np.exp(-np.arange(n) / 15)) * np.exp(rng.normal(0, 0.5, n) - 0.1)
    return run(np.arange(n), {"loss": loss})


def heavy_tails(seed: int) -> Run:
    """Student-t noise with three degrees of freedom around a language model's loss."""
    rng = np.random.default_rng(seed)
    n = 3000
    loss = descent(n, last=2.5) * np.exp(0.03 * np.clip(rng.standard_t(3, n), -7, 7))
    return run(np.arange(n), {"loss": loss, "grad_norm": grads(rng, n)})


def reinforcement(seed: int) -> Run:
    """PPO: a value loss over three orders of magnitude, rewards that climb."""
    rng = np.random.default_rng(seed)
    n = 500
    t = np.arange(n)
    loss = 300 * np.exp(-t / 150) * np.exp(rng.normal(0, 1.2, n)) + 3
    return run(
        2048 * (t + 1),
        {
            "loss": loss,
            "reward": -1200 + 2200 * (1 - np.exp(-t / 200)) + rng.normal(0, 80, n),
            "kl": np.abs(rng.normal(0.005, 0.003, n)),
            "entropy": -2.8 + t / n,
        },
    )


def policy_loss(seed: int) -> Run:
    """GRPO: a loss around zero, zero by construction in the first rows."""
    rng = np.random.default_rng(seed)
    n = 400
    loss = rng.normal(0, 0.02, n) + 0.01 * np.arange(n) / n
    loss[:3] = 0.0
    return run(np.arange(n), {"loss": loss, "reward": np.tanh(np.arange(n) / 200), "kl": 1e-4 * np.arange(n)})


def separation(seed: int) -> Run:
    """SI-SNR: a negative loss with single samples that are far off."""
    rng = np.random.default_rng(seed)
    n = 4000
    loss = -3 - 9 * (1 - np.exp(-np.arange(n) / 900)) + rng.normal(0, 3.5, n)
    for at in rng.integers(100, n, 12):
        loss[at] += rng.uniform(20, 120)
    return run(np.arange(n) * 100, {"loss": loss, "lr": np.full(n, 1e-3)})


def near_zero(seed: int) -> Run:
    """A small net that learns its data by heart: 1e-1 to 1e-5 with a noise of several times the level."""
    rng = np.random.default_rng(seed)
    n = 150
    loss = (0.2 * np.exp(-np.arange(n) / 8) + 4e-4) * np.exp(rng.normal(0, 2.0, n))
    return run(np.arange(1, n + 1), {"loss": loss})


def warm_up_bump(seed: int) -> Run:
    """The optimizer's first steps: up to twice the first loss, down again before the tenth row."""
    rng = np.random.default_rng(seed)
    n = 600
    loss = descent(n, first=6.94) + rng.normal(0, 0.05, n)
    loss[1:9] += rng.uniform(3, 9) * np.array([1.0, 0.7, 0.5, 0.3, 0.25, 0.2, 0.1, 0.05])
    return run(np.arange(n), {"loss": loss, "grad_norm": grads(rng, n)})


def trained_already(seed: int) -> Run:
    """Goes on from trained weights: flat, with a little drift up at first."""
    rng = np.random.default_rng(seed)
    n = 900
    t = np.arange(n)
    loss = 0.155 * (1 + 0.08 * np.exp(-(((t - 60) / 40.0) ** 2))) * np.exp(smooth(rng, n, 0.03, 0.6))
    return run(t * 20 + 19, {"loss": loss, "lr": np.full(n, 0.02)})


def clean_resume(seed: int) -> Run:
    """Three resumes; each repeats some steps and goes on as before."""
    rng = np.random.default_rng(seed)
    n = 1500
    base = descent(n, last=2.2)
    steps: list[int] = []
    begin = 0
    for stop in sorted(rng.integers(200, n - 100, 3).tolist()):
        steps += list(range(begin, stop))
        begin = max(0, stop - int(rng.integers(5, 80)))
    steps += list(range(begin, n))
    at = np.array(steps)
    return run(at, {"loss": base[at] + rng.normal(0, 0.05, len(at)), "lr": cosine(n)[at]})


def several_runs(seed: int) -> Run:
    """Four runs, one after the other, in one file."""
    rng = np.random.default_rng(seed)
    n = 300
    at = np.tile(np.arange(n), 4)
    return run(at, {"loss": np.tile(descent(n, fast=15), 4) + rng.normal(0, 0.06, 4 * n)})


def scaler_saw_tooth(seed: int) -> Run:
    """fp16: a search from 65536, then 1 % of the steps back off and the scale grows again each 100 good steps."""
    rng = np.random.default_rng(seed)
    n = 2000
    scale, good, scales, grad = 65536.0, 0, [], grads(rng, n)
    for i in range(n):
        if (i < 6) or (scale >= 65536 and rng.random() < 0.02):
            scale, good = scale / 2, 0
            grad[i] = np.inf if i % 3 else np.nan
        else:
            good += 1
            if good >= 100:
                scale, good = min(scale * 2, 65536.0), 0
        scales.append(scale)
    return run(np.arange(n), {"loss": descent(n) + rng.normal(0, 0.05, n), "loss_scale": scales, "grad_norm": grad})


def averaged(seed: int) -> Run:
    """A log of running means: smooth, slow, with a wander."""
    rng = np.random.default_rng(seed)
    n = 1500
    return run(np.arange(n), {"loss": descent(n, first=7.0) * np.exp(smooth(rng, n, 0.02, 0.98))})


def overfit(seed: int) -> Run:
    rng = np.random.default_rng(seed)
    n = 800
    t = np.arange(n)
    loss = 2.5 * np.exp(-t / 250) + 0.05 + np.abs(rng.normal(0, 0.02, n))
    evaluation = np.interp(t, [0, 250, 800], [2.4, 1.1, 2.0])
    every = np.arange(49, n, 50)
    made = run(t, {"loss": loss})
    made.series["eval_loss", None] = series("eval_loss", every, evaluation[every] + rng.normal(0, 0.01, len(every)))
    return made


def many_ranks(seed: int) -> Run:
    rng = np.random.default_rng(seed)
    n, ranks = 300, 16
    base = descent(n, fast=15)
    losses = {r: base + rng.normal(0, 0.12, n) for r in range(ranks)}
    times = {r: 1.0 + np.abs(rng.normal(0, 0.05, n)) for r in range(ranks)}
    return run(np.arange(n), {}, {"loss": losses, "step_time": times})


def steady_speed(seed: int) -> Run:
    """Slow first rows, pauses for evaluation, noise of a tenth."""
    rng = np.random.default_rng(seed)
    n = 1200
    speed = 50_000 * np.exp(rng.normal(0, 0.08, n))
    speed[:20] *= np.linspace(0.1, 1.0, 20)
    speed[99::100] *= 0.3
    return run(np.arange(n), {"loss": descent(n) + rng.normal(0, 0.05, n), "throughput": speed})


def step_decay(seed: int) -> Run:
    """An image classifier: the learning rate goes down by ten twice, and the loss with it."""
    rng = np.random.default_rng(seed)
    n = 3000
    t = np.arange(n)
    lr = np.where(t < 1200, 0.1, np.where(t < 2100, 0.01, 0.001))
    level = np.where(t < 1200, 1.6, np.where(t < 2100, 1.05, 0.92)) + 5.3 * np.exp(-t / 120)
    return run(t * 100, {"loss": level * np.exp(rng.normal(0, 0.02, n)), "lr": lr})


HEALTHY: dict[str, Callable[[int], Run]] = {
    "plain": plain,
    "warm_restarts": lambda seed: _restarts(seed, True),
    "warm_restarts_without_lr": lambda seed: _restarts(seed, False),
    "epoch_steps": epoch_steps,
    "curriculum": curriculum,
    "sparse": sparse,
    "small_batches": small_batches,
    "heavy_tails": heavy_tails,
    "reinforcement": reinforcement,
    "policy_loss": policy_loss,
    "separation": separation,
    "near_zero": near_zero,
    "warm_up_bump": warm_up_bump,
    "trained_already": trained_already,
    "clean_resume": clean_resume,
    "several_runs": several_runs,
    "scaler_saw_tooth": scaler_saw_tooth,
    "averaged": averaged,
    "overfit": overfit,
    "many_ranks": many_ranks,
    "steady_speed": steady_speed,
    "step_decay": step_decay,
}


@dataclass(frozen=True, slots=True)
class Fault:
    """A kind that a detector must find in what `make(seed)` returns, and the step where it begins (None: any)."""

    detector: str
    kind: str
    make: Callable[[int], tuple[Run, int | None]]
