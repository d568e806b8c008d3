"""Runs with one fault each and its onset: at least one for every kind that a detector may find.

`FAULTS` is a list of `Fault(detector, kind, make)` with `make(seed) -> (Run, onset or None)`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from playbook.series import Event, Origin, Run
from tests import policies
from tests.runs import Fault, cosine, descent, grads, plain, run, series

Made = tuple[Run, int | None]
N = 2000


def _base(seed: int, n: int = N, last: float = 2.1) -> tuple[np.random.Generator, np.ndarray, np.ndarray, int]:
    """Generator, steps, a healthy loss and a step in the middle half where the fault begins."""
    rng = np.random.default_rng(seed)
    return rng, np.arange(n), descent(n, last=last) + rng.normal(0, 0.04, n), int(rng.integers(n * 2 // 5, n * 4 // 5))


def _with(metric: str, values: Any, seed: int = 0, onset: int | None = None, spoil: bool = True, **more: Any) -> Made:
    """A run with one further metric and, unless told otherwise, a persistent spike at the onset."""
    rng, t, loss, at = _base(seed)
    at = onset if onset is not None else at
    if spoil:
        loss[at:] += 5.0 * np.exp(-(t[at:] - at) / 300) + 0.8
    return run(t, {"loss": loss, metric: values(rng, t, at), **{k: v(rng, t, at) for k, v in more.items()}}), at


# --- nonfinite ------------------------------------------------------------------------------------------------------


def nan(seed: int) -> Made:
    rng, t, loss, at = _base(seed)
    loss[at:] = np.nan
    return run(t, {"loss": loss, "grad_norm": np.where(t >= at, np.nan, grads(rng, N))}), at


def infinity(seed: int) -> Made:
    _, t, loss, at = _base(seed)
    loss[at] = np.inf
    loss[at + 1 :] = np.nan
    return run(t, {"loss": loss}), at


def nan_at_the_end(seed: int) -> Made:
    _, t, loss, _ = _base(seed)
    loss[-1] = np.nan
    return run(t, {"loss": loss}), N - 1


def nan_from_start(seed: int) -> Made:
    return run(np.arange(10, 600, 10), {"loss": np.full(59, np.nan)}), 10


def nan_transient(seed: int) -> Made:
    _, t, loss, at = _base(seed)
    loss[at : at + 3] = np.nan
    return run(t, {"loss": loss}), at


def hidden_beside_norm(seed: int) -> Made:
    rng, t, loss, at = _base(seed)
    return run(
        t * 10, {"loss": np.where(t >= at, 0.0, loss), "grad_norm": np.where(t >= at, np.nan, grads(rng, N))}
    ), at * 10


def hidden_norm_gone(seed: int) -> Made:
    rng, t, loss, at = _base(seed)
    made = run(t, {"loss": np.where(t >= at, 0.0, loss)})
    made.series["grad_norm", None] = series("grad_norm", t[:at], grads(rng, at))
    return made, at


def hidden_alone(seed: int) -> Made:
    _, t, loss, at = _base(seed)
    return run(t, {"loss": np.where(t >= at, 0.0, loss)}), at


def grad_nan_once(seed: int) -> Made:
    rng, t, loss, at = _base(seed)
    return run(t, {"loss": loss, "grad_norm": np.where(t == at, np.nan, grads(rng, N))}), at


def grad_nan_lasting(seed: int) -> Made:
    rng, t, loss, at = _base(seed)
    return run(t, {"loss": loss, "grad_norm": np.where(t >= at, np.nan, grads(rng, N))}), at


def eval_nan(seed: int) -> Made:
    _, t, loss, at = _base(seed)
    made = run(t, {"loss": loss})
    every = np.arange(100, N, 100)
    made.series["eval_loss", None] = series("eval_loss", every, np.where(every >= at, np.nan, loss[every]))
    return made, int(every[every >= at][0])


# --- the shape of the loss ------------------------------------------------------------------------------------------


def transient(seed: int) -> Made:
    rng, t, loss, at = _base(seed)
    loss[at : at + 12] += 6.0 * np.exp(-np.arange(12) / 4)
    return run(t, {"loss": loss, "grad_norm": grads(rng, N)}), at


def transient_small(seed: int) -> Made:
    """A bad batch: one row, 1.35 times the level, 20 times the noise."""
    _, t, loss, at = _base(seed)
    loss[at] *= 1.4
    return run(t, {"loss": loss}), at


def persistent(seed: int) -> Made:
    """The 7B case: 1.62 to 8.73, some dozen steps at 4 to 6, back to about 2, never to 1.6."""
    rng, t, loss, at = _base(seed, last=1.55)
    loss[at] = 8.73
    loss[at + 1 : at + 40] = rng.uniform(4, 6, 39)
    loss[at + 40 :] += 0.4 + 2.5 * np.exp(-(t[at + 40 :] - at - 40) / 60)
    return run(t, {"loss": loss}), at


def persistent_jump(seed: int) -> Made:
    _, t, loss, at = _base(seed)
    loss[at:] += 4.5
    return run(t, {"loss": loss}), at


def repeated(seed: int) -> Made:
    rng, t, loss, _ = _base(seed)
    places = np.sort(rng.choice(np.arange(8, 19), 5, replace=False)) * 100 + rng.integers(0, 60, 5)
    for p in places:
        loss[p : p + 6] += rng.uniform(4, 7) * np.exp(-np.arange(6) / 2)
    return run(t, {"loss": loss}), int(places[0])


def growing(seed: int) -> Made:
    rng, t, loss, _ = _base(seed)
    places = np.array([820, 1050, 1260, 1500, 1640]) + rng.integers(0, 50, 5)
    for k, p in enumerate(places):
        loss[p : p + 6] += (2.5 + 3.0 * k) * np.exp(-np.arange(6) / 2)
    return run(t, {"loss": loss}), int(places[0])


def periodic_data(seed: int) -> Made:
    rng, t, loss, _ = _base(seed)
    period = int(rng.integers(150, 260))
    first = 300 + int(rng.integers(0, period))
    loss[first::period] += rng.uniform(2, 4, len(loss[first::period]))
    return run(t, {"loss": loss}), first


def periodic_epoch(seed: int) -> Made:
    rng, t, loss, _ = _base(seed)
    loss[330::250] += rng.uniform(2, 4, len(loss[330::250]))
    return run(t, {"loss": loss, "epoch": t / 250}), 330


def explosion_early(seed: int) -> Made:
    rng = np.random.default_rng(seed)
    n, at = 400, int(rng.integers(8, 30))
    loss = descent(n) + rng.normal(0, 0.05, n)
    loss[at:] = np.minimum(loss[at - 1] * 1.25 ** (np.arange(n - at) + 1), 60) * np.exp(rng.normal(0, 0.05, n - at))
    return run(np.arange(n), {"loss": loss, "lr": cosine(n, warm=100)}), at


def explosion_typo(seed: int) -> Made:
    """A learning rate of 5: 1.6, then 11.8, then the uniform guess for good."""
    loss = [1.637, 11.81, 10.61, 10.39, 10.3735, 10.3735, 10.3735, 10.3735, 10.3735, 10.3735]
    return run(np.arange(1, 11), {"loss": loss, "lr": np.full(10, 5.0)}), 2


def explosion_late(seed: int) -> Made:
    rng, t, loss, at = _base(seed)
    loss[at:] = np.minimum(loss[at - 1] * 1.06 ** (np.arange(N - at) + 1), 900) * np.exp(rng.normal(0, 0.03, N - at))
    return run(t, {"loss": loss}), at


def shift_up(seed: int) -> Made:
    """Twice the level in noise of half a nat: no single row shows it."""
    rng = np.random.default_rng(seed)
    n, at = 2000, int(rng.integers(800, 1500))
    loss = 2.4 * np.exp(rng.normal(0, 0.4, n))
    loss[at:] *= 2.4
    return run(np.arange(n), {"loss": loss}), at


def shift_down(seed: int) -> Made:
    _, t, loss, at = _base(seed)
    loss[at:] *= 0.7
    return run(t, {"loss": loss}), at


def climb(seed: int) -> Made:
    rng = np.random.default_rng(seed)
    n, at = 3000, int(rng.integers(1200, 2000))
    t = np.arange(n)
    loss = descent(n, fast=20) + rng.normal(0, 0.04, n)
    loss += 0.9 * np.maximum(t - at, 0) / (n - at)
    return run(t, {"loss": loss, "lr": cosine(n)}), at


def uniform(seed: int) -> Made:
    rng = np.random.default_rng(seed)
    loss = np.log(32000) + rng.normal(0, 0.01, 300)
    return run(np.arange(1, 301) * 10, {"loss": loss, "grad_norm": np.zeros(300)}), 10


def uniform_binary(seed: int) -> Made:
    rng = np.random.default_rng(seed)
    return run(np.arange(500), {"loss": np.log(2) + rng.normal(0, 0.004, 500)}), 0


def uniform_entropy(seed: int) -> Made:
    """A policy that falls apart: its entropy climbs to ln(vocabulary) at step 240, the loss shows nothing."""
    rng = np.random.default_rng(seed)
    t = np.arange(400)
    entropy = np.where(t < 240, 1.2 + 7 * (t / 240) ** 4, np.log(32000) - 0.002) + rng.normal(0, 0.002, 400)
    return run(t, {"loss": rng.normal(0, 0.02, 400), "reward": np.zeros(400), "entropy": entropy}), 240


def no_descent(seed: int) -> Made:
    """A learning rate far too high: stays around the first loss, noisily."""
    rng = np.random.default_rng(seed)
    return run(
        np.arange(800), {"loss": np.log(50257) + 0.4 + rng.normal(0, 0.25, 800)}, config={"vocab_size": 50257}
    ), 0


def stuck(seed: int) -> Made:
    _, t, loss, at = _base(seed)
    loss[at:] = 4.1234567
    return run(t, {"loss": loss}), at


def slow(seed: int) -> Made:
    rng = np.random.default_rng(seed)
    loss = np.linspace(10.83, 10.5, 1000) + rng.normal(0, 0.02, 1000)
    return run(np.arange(1000), {"loss": loss}, config={"vocab_size": 50257}), 0


def zero_from_start(seed: int) -> Made:
    return run(np.arange(1, 101), {"loss": np.zeros(100), "grad_norm": np.zeros(100)}), 1


def zero(seed: int) -> Made:
    rng, t, loss, at = _base(seed)
    return run(t, {"loss": np.where(t >= at, 0.0, loss), "grad_norm": np.where(t >= at, 0.0, grads(rng, N))}), at


def near_zero_from_start(seed: int) -> Made:
    rng = np.random.default_rng(seed)
    return run(np.arange(200), {"loss": 3e-8 * np.exp(rng.normal(0, 0.1, 200))}), 0


def leak(seed: int) -> Made:
    """The mask slips: within a few rows from 2.1 to 0.05."""
    rng, t, loss, at = _base(seed)
    loss[at:] = 0.05 * np.exp(rng.normal(0, 0.1, N - at))
    return run(t, {"loss": loss}), at


def first_above(seed: int) -> Made:
    rng = np.random.default_rng(seed)
    return run(
        np.arange(300), {"loss": descent(300, first=38.0) + rng.normal(0, 0.1, 300)}, config={"vocab_size": 32000}
    ), 0


def first_below(seed: int) -> Made:
    made = plain(seed)
    shifted = made.series["loss", None].values * 0.3
    return run(np.arange(N), {"loss": shifted}, config={"model": {"vocab_size": 50257}}), 0


def first_near(seed: int) -> Made:
    rng = np.random.default_rng(seed)
    loss = descent(300, first=10.82) + rng.normal(0, 0.02, 300)
    return run(np.arange(300), {"loss": loss}, config={"model.vocab_size": 50257}), 0


# --- the state before the onset -------------------------------------------------------------------------------------


def _g(shape: Callable[[np.random.Generator, np.ndarray, int], np.ndarray]) -> Callable[[int], Made]:
    def values(rng: np.random.Generator, t: np.ndarray, at: int) -> np.ndarray:
        quiet = 1.1 * np.exp(rng.normal(0, 0.15, len(t)))
        return quiet * shape(rng, t, at)

    return lambda seed: (_with("grad_norm", values, seed)[0], None)


def climbing(rng: np.random.Generator, t: np.ndarray, at: int) -> np.ndarray:
    """2 to 4 over 200 steps, 12 times at the spike."""
    return np.where(t >= at, 6.0 * np.exp(-np.maximum(t - at, 0) / 20) + 1, 1 + np.clip((t - at + 200) / 200, 0, 1))


def surging(rng: np.random.Generator, t: np.ndarray, at: int) -> np.ndarray:
    return np.where((t >= at - 3) & (t < at + 20), 25.0, 1.0)


def dying(rng: np.random.Generator, t: np.ndarray, at: int) -> np.ndarray:
    return np.where(t >= at - 60, 1e-4, 1.0)


def nonfinite_norm(seed: int) -> Made:
    made, at = _with("grad_norm", lambda r, t, a: np.where(t == a - 1, np.inf, grads(r, len(t))), seed)
    return made, (at or 0) - 1


def dead_gradient(seed: int) -> Made:
    made, _ = uniform(seed)
    return made, 10


def clipped_always(seed: int) -> Made:
    made = plain(seed)
    made.config["max_grad_norm"] = 0.05
    return made, None


def scale_collapse(rng: np.random.Generator, t: np.ndarray, at: int) -> np.ndarray:
    return 65536.0 / 2.0 ** np.clip((t - at + 40) // 5, 0, 10)


def scale_fall(rng: np.random.Generator, t: np.ndarray, at: int) -> np.ndarray:
    return 65536.0 / 2.0 ** np.clip((t - at + 40) // 12, 0, 3)


def scale_saw(rng: np.random.Generator, t: np.ndarray, at: int) -> np.ndarray:
    return np.where((t // 100) % 2 == 0, 65536.0, 32768.0)


def flat(value: float) -> Callable[[np.random.Generator, np.ndarray, int], np.ndarray]:
    return lambda rng, t, at: np.full(len(t), value)


def skips(rate: float, until_end: int = 0) -> Callable[[int], Made]:
    def make(seed: int) -> Made:
        rng, t, loss, _ = _base(seed)
        skipped = (rng.random(N) < rate).astype(float)
        if until_end:
            skipped[:] = 0.0
            skipped[-until_end:] = 1.0
        else:
            skipped[500] = 1.0
        return run(t, {"loss": loss, "skipped_iters": skipped}), N - until_end if until_end else None

    return make


def phase(kind: str) -> Callable[[int], Made]:
    """A persistent spike at the wanted place of a schedule."""

    def make(seed: int) -> Made:
        t = np.arange(N)
        lr, at = cosine(N, warm=200), 1500
        if kind == "warmup":
            lr, at = cosine(N, warm=900), 500
        elif kind == "peak":
            lr, at = cosine(N, warm=400), 450
        elif kind == "constant":
            lr = np.full(N, 1e-4)
        elif kind == "restart":
            lr = 3e-4 * 0.5 * (1 + np.cos(np.pi * (t % 1000) / 1000)) + 1e-6
            at = 1030
        made, _ = _with("lr", lambda r, s, a: lr, seed, onset=at)
        return made, at

    return make


def lr_only(values: Callable[[np.ndarray], np.ndarray], onset: int | None = None) -> Callable[[int], Made]:
    def make(seed: int) -> Made:
        _, t, loss, _ = _base(seed)
        return run(t, {"loss": loss, "lr": values(t)}), onset

    return make


def _resumed(seed: int, lift: float = 0.0, lr_wrong: bool = False, first: bool = False) -> Made:
    rng = np.random.default_rng(seed)
    stop, begin = 1200, 1100
    at = np.concatenate([np.arange(stop), np.arange(begin, N)])
    loss = descent(N)[at] + rng.normal(0, 0.04, len(at))
    if first:
        loss[stop:] = descent(N - begin) + rng.normal(0, 0.04, N - begin)
    loss[stop:] += lift * np.exp(-np.arange(N - begin) / 300)
    lr = cosine(N)[at]
    if lr_wrong:
        lr[stop:] = cosine(N - begin)
    return run(at, {"loss": loss, "lr": lr}), begin


def resumed_by_event(seed: int) -> Made:
    """No step goes back: only an event tells of the resume."""
    _, t, loss, at = _base(seed)
    loss[at:] += 0.5
    event = Event(f"Resumed at step {at}", "resume", Origin("made.log", 7), step=at)
    return run(t, {"loss": loss}, events=(event,)), at


def fresh_start(seed: int) -> Made:
    rng = np.random.default_rng(seed)
    at = np.concatenate([np.arange(700), np.arange(700)])
    return run(at, {"loss": descent(700)[at] + rng.normal(0, 0.04, 1400)}), 0


def two_writers(seed: int) -> Made:
    rng = np.random.default_rng(seed)
    loss = descent(500) + rng.normal(0, 0.04, 500)
    return run(np.tile(np.arange(500), 2), {"loss": np.tile(loss, 2)}), 0


def seen_again(seed: int) -> Made:
    """The sampler starts again: the hardness of the batches repeats that of 600 steps before."""
    rng = np.random.default_rng(seed)
    hardness = rng.normal(0, 0.15, 2000)
    at = np.concatenate([np.arange(1000), np.arange(900, 1400)])
    index = np.concatenate([np.arange(1000), np.arange(300, 800)])
    loss = descent(2000)[at] + hardness[index] + rng.normal(0, 0.02, len(at))
    return run(at, {"loss": loss}), 900


def slower(seed: int) -> Made:
    rng, t, loss, at = _base(seed)
    speed = 52_000 * np.exp(rng.normal(0, 0.06, N)) * np.where(t >= at, 0.55, 1.0)
    return run(t, {"loss": loss, "throughput": speed}), at


def slower_steps(seed: int) -> Made:
    rng, t, loss, at = _base(seed)
    return run(t, {"loss": loss, "step_time": 0.8 * np.exp(rng.normal(0, 0.1, N)) * np.where(t >= at, 1.6, 1.0)}), at


# --- ranks ----------------------------------------------------------------------------------------------------------


def rank_losses(bad: Callable[[int], tuple[int, ...]], ranks: int = 16, finite: bool = True) -> Callable[[int], Made]:
    def make(seed: int) -> Made:
        rng = np.random.default_rng(seed)
        n, at = 400, 250
        base = descent(n, fast=15)
        losses = {r: base + rng.normal(0, 0.1, n) for r in range(ranks)}
        for r in bad(ranks):
            losses[r][at:] = 40.0 if finite else np.nan
        for r in range(ranks):
            if not finite:
                losses[r][at + 1 :] = np.nan
        return run(np.arange(n), {}, {"loss": losses}), at

    return make


def one_of_many(seed: int) -> Made:
    """One of 500 ranks: the mean shows nothing."""
    rng = np.random.default_rng(seed)
    n, ranks = 200, 500
    losses = {r: 2.5 + rng.normal(0, 0.1, n) for r in range(ranks)}
    losses[137][120:] += 1.5
    return run(np.arange(n), {}, {"loss": losses}), 120


def slow_one(seed: int) -> Made:
    rng = np.random.default_rng(seed)
    n = 300
    times = {r: 1.0 + np.abs(rng.normal(0, 0.04, n)) for r in range(8)}
    times[5][180:] *= 1.5
    return run(np.arange(n), {"loss": descent(n) + rng.normal(0, 0.05, n)}, {"step_time": times}), 180


def slow_all(seed: int) -> Made:
    rng = np.random.default_rng(seed)
    n = 300
    times = {r: (1.0 + np.abs(rng.normal(0, 0.04, n))) * np.where(np.arange(n) >= 180, 1.7, 1.0) for r in range(8)}
    return run(np.arange(n), {"loss": descent(n) + rng.normal(0, 0.05, n)}, {"step_time": times}), 180


# --- changes, evaluation, norms, experts, fp8, GPUs, averages ---------------------------------------------------------


def changed_resume(seed: int) -> Made:
    made, begin = _resumed(seed, lift=1.0)
    return made, begin


def lr_jump(rng: np.random.Generator, t: np.ndarray, at: int) -> np.ndarray:
    return np.where(t >= at - 10, 1e-3, 1e-4)


def doubled(rng: np.random.Generator, t: np.ndarray, at: int) -> np.ndarray:
    return np.where(t >= at - 5, 2048.0, 1024.0)


def evaluated(make: Callable[[np.ndarray], np.ndarray], spike: int | None = None) -> Callable[[int], Made]:
    def build(seed: int) -> Made:
        rng, t, loss, _ = _base(seed)
        every = np.arange(99, N, 100)
        values = make(every / N) + rng.normal(0, 0.005, len(every))
        if spike is not None:
            loss[spike : spike + 10] += 8.0
        made = run(t, {"loss": loss})
        made.series["eval_loss", None] = series("eval_loss", every, values)
        return made, spike

    return build


def trained_only(seed: int) -> Made:
    """A spike of the training loss that the next evaluation does not know."""
    return evaluated(lambda x: 2.6 - 0.3 * x, spike=1230)(seed)[0], None


def grows(times: float) -> Callable[[np.random.Generator, np.ndarray, int], np.ndarray]:
    """Flat up to 600 steps before the onset, then exponentially to a multiple."""
    return lambda rng, t, at: (
        10.0 * times ** np.clip((t - at + 600) / 600, 0, 1.2) * np.exp(rng.normal(0, 0.02, len(t)))
    )


def hot_layer(seed: int) -> Made:
    made, _ = _with("activation_max/layers.0", flat(12.0), seed)
    for k in range(1, 8):
        made.series[f"activation_max/layers.{k}", None] = series(
            f"activation_max/layers.{k}", np.arange(N), np.full(N, 10.0 + k)
        )
    made.series["activation_max/layers.5", None] = series(
        "activation_max/layers.5", np.arange(N), np.linspace(10, 4000, N)
    )
    return made, None


def embedding(seed: int) -> Made:
    made, _ = _with("grad_norm", flat(2.0), seed, embedding_grad_norm=flat(1.9))
    return made, None


def collapsed_router(seed: int) -> Made:
    rng, t, loss, at = _base(seed)
    load = np.where(t >= at, 0.9, 0.15) + rng.normal(0, 0.01, N)
    return run(t, {"loss": loss, "expert_load_max": load}, config={"num_experts": 16}), at


def no_balance(seed: int) -> Made:
    rng, t, loss, _ = _base(seed)
    return run(t, {"loss": loss, "aux_loss": np.zeros(N), "expert_load_max": 0.2 + rng.normal(0, 0.01, N)}), None


def amax(kind: str) -> Callable[[int], Made]:
    def make(seed: int) -> Made:
        rng, t, loss, at = _base(seed)
        values = 20 * np.exp(rng.normal(0, 0.1, N))
        values[at:] = values[at] if kind == "stale" else 448.0
        return run(t, {"loss": loss, "amax": values}), at

    return make


def gpus(
    metric: str, usual: Callable[[np.random.Generator, int], np.ndarray], bad: Callable[[np.ndarray], np.ndarray]
) -> Callable[[int], Made]:
    """Eight GPUs, one of them with a fault in the last 40 %."""

    def make(seed: int) -> Made:
        rng = np.random.default_rng(seed)
        n = 500
        t = np.arange(n)
        made = {r: usual(rng, n) for r in range(8)}
        made[3] = np.where(t >= 300, bad(t), made[3])
        return run(t, {"loss": descent(n) + rng.normal(0, 0.05, n)}, {metric: made}), None

    return make


def slowed(level: float) -> Callable[[int], Made]:
    """Eight GPUs of a run that becomes slow at row 300, and the per cent of the time that they work from then on."""

    def make(seed: int) -> Made:
        rng = np.random.default_rng(seed)
        n = 500
        t = np.arange(n)
        speed = np.where(t >= 300, 0.4, 1.0) * 2.6e5 * np.exp(rng.normal(0, 0.01, n))
        util = {r: np.where(t >= 300, level, 97.0) + rng.normal(0, 1.0, n) for r in range(8)}
        return run(t, {"loss": descent(n) + rng.normal(0, 0.05, n), "throughput": speed}, {"gpu_util": util}), None

    return make


def counted(metric: str) -> Callable[[int], Made]:
    return gpus(metric, lambda r, n: np.zeros(n), lambda t: np.floor(np.maximum(t - 299, 0) / 10.0) + 1)


def memory(seed: int) -> Made:
    rng, t, loss, _ = _base(seed)
    return run(t, {"loss": loss, "gpu_mem": 30_000 + 8.0 * t + rng.normal(0, 50, N)}), None


def xid_event(seed: int) -> Made:
    _, t, loss, _ = _base(seed)
    event = Event(
        "NVRM: Xid (PCI:0000:38:00): 79, GPU has fallen off the bus", "xid", Origin("dmesg", 3), step=900, rank=2
    )
    return run(t, {"loss": loss}, events=(event,)), None


def hung(others: Callable[[int], dict[int, tuple[int, str, int]]]) -> Callable[[int], Made]:
    """Eight ranks that time out in one collective, except for `others`: rank -> number, operation, elements."""

    def make(seed: int) -> Made:
        t = np.arange(100)
        events = []
        for rank in range(8):
            number, operation, size = others(8).get(rank, (98231, "ALLREDUCE", 52428800))
            work = f"WorkNCCL(SeqNum={number}, OpType={operation}, NumelIn={size}, NumelOut={size}, Timeout(ms)=600000)"
            said = f"[Rank {rank}] Watchdog caught collective operation timeout: {work} ran for 600005 milliseconds"
            group = f"[PG ID 0 PG GUID 0(default_pg) Rank {rank}] Exception (either an error or timeout) detected by"
            at = f"{group} watchdog at work: {number}, last enqueued NCCL work: {number}, last completed NCCL work: 1."
            events += [
                Event(text, "nccl", Origin("train.log", 101 + 2 * rank + place), step=99, rank=rank)
                for place, text in enumerate((said, at))
            ]
        return run(t, {"loss": descent(100)}, events=tuple(events), config={"world_size": 8}), None

    return make


def averaged(seed: int) -> Made:
    rng = np.random.default_rng(seed)
    raw = descent(N) * np.exp(rng.normal(0, 0.15, N))
    out = np.empty(N)
    out[0] = raw[0]
    for i in range(1, N):
        out[i] = 0.97 * out[i - 1] + 0.03 * raw[i]
    return run(np.arange(N), {"loss": out}), None


FAULTS: list[Fault] = [
    Fault("nonfinite", "nan", nan),
    Fault("nonfinite", "nan", infinity),
    Fault("nonfinite", "nan", nan_at_the_end),
    Fault("nonfinite", "nan-from-start", nan_from_start),
    Fault("nonfinite", "nan-transient", nan_transient),
    Fault("nonfinite", "hidden-nan", hidden_beside_norm),
    Fault("nonfinite", "hidden-nan", hidden_norm_gone),
    Fault("nonfinite", "hidden-nan", hidden_alone),
    Fault("nonfinite", "grad-nan-once", grad_nan_once),
    Fault("nonfinite", "grad-nan-lasting", grad_nan_lasting),
    Fault("nonfinite", "eval-nan", eval_nan),
    Fault("spike", "transient", transient),
    Fault("spike", "transient", transient_small),
    Fault("spike", "persistent", persistent),
    Fault("spike", "persistent", persistent_jump),
    Fault("spike", "repeated", repeated),
    Fault("spike", "growing", growing),
    Fault("periodic", "data-cycle", periodic_data),
    Fault("periodic", "epoch", periodic_epoch),
    Fault("explosion", "early", explosion_early),
    Fault("explosion", "early", explosion_typo),
    Fault("explosion", "late", explosion_late),
    Fault("explosion", "late", persistent_jump),
    Fault("level_shift", "up", shift_up),
    Fault("level_shift", "down", shift_down),
    Fault("slow_climb", "climb", climb),
    Fault("plateau", "uniform-output", uniform),
    Fault("plateau", "uniform-output", uniform_binary),
    Fault("plateau", "uniform-output", uniform_entropy),
    Fault("plateau", "no-descent", no_descent),
    Fault("plateau", "stuck", stuck),
    Fault("plateau", "slow", slow),
    Fault("loss_zero", "zero-from-start", zero_from_start),
    Fault("loss_zero", "zero", zero),
    Fault("loss_zero", "near-zero-from-start", near_zero_from_start),
    Fault("abnormally_low", "too-low", leak),
    Fault("first_loss", "far-above", first_above),
    Fault("first_loss", "far-below", first_below),
    Fault("first_loss", "near", first_near),
    Fault("policy", "reward-falls", lambda s: policies.policy("negative: reward and KL", s)),
    Fault("policy", "kl-explodes", lambda s: policies.policy("group_relative: KL alone", s)),
    Fault("policy", "entropy-collapses", lambda s: policies.policy("control: all three", s)),
    Fault("policy", "entropy-explodes", lambda s: policies.policy("group_relative: gibberish", s)),
    Fault("grad_norm", "climbs", _g(climbing)),
    Fault("grad_norm", "surges", _g(surging)),
    Fault("grad_norm", "normal", _g(lambda r, t, a: np.where((t >= a) & (t < a + 9), 20.0, 1.0))),
    Fault("grad_norm", "vanishes", _g(dying)),
    Fault("grad_norm", "nonfinite", nonfinite_norm),
    Fault("grad_norm", "dead-from-start", dead_gradient),
    Fault("clipping", "always-active", clipped_always),
    Fault("loss_scale", "collapses", lambda s: (_with("loss_scale", scale_collapse, s)[0], None)),
    Fault("loss_scale", "falls", lambda s: (_with("loss_scale", scale_fall, s)[0], None)),
    Fault("loss_scale", "backoffs", lambda s: (_with("loss_scale", scale_saw, s)[0], None)),
    Fault("loss_scale", "steady", lambda s: (_with("loss_scale", flat(65536.0), s)[0], None)),
    Fault("skipped", "few", skips(0.003)),
    Fault("skipped", "many", skips(0.15)),
    Fault("skipped", "endless", skips(0.0, 60)),
    *(Fault("lr_phase", kind, phase(kind)) for kind in ("warmup", "peak", "decay", "restart", "constant")),
    Fault("lr_value", "absurd", lr_only(lambda t: np.full(len(t), 5.0))),
    Fault("lr_value", "zero", lr_only(lambda t: np.where(t < 300, 1e-4, 0.0), 300)),
    Fault("lr_value", "full-at-once", lr_only(lambda t: 3e-4 * (1 - t / (2 * N)), 0)),
    Fault("lr_value", "ramps", lr_only(lambda t: cosine(len(t)), 0)),
    Fault("schedule", "leaves", lambda s: _resumed(s, lr_wrong=True)),
    Fault("schedule", "leaves", lr_only(lambda t: np.where(t >= 900, 4.0, 1.0) * cosine(len(t)), 900)),
    Fault("schedule", "follows", lr_only(lambda t: cosine(len(t)))),
    Fault("resume", "jump", lambda s: _resumed(s, lift=0.5)),
    Fault("resume", "jump", resumed_by_event),
    Fault("resume", "clean", _resumed),
    Fault("resume", "to-initial", lambda s: _resumed(s, first=True)),
    Fault("resume", "restart-from-init", fresh_start),
    Fault("resume", "two-writers", two_writers),
    Fault("resume", "repeated-samples", seen_again),
    Fault("throughput", "drops", slower),
    Fault("throughput", "drops", slower_steps),
    Fault(
        "throughput", "steady", lambda s: (_with("step_time", lambda r, t, a: 1 + r.random(len(t)) / 10, s)[0], None)
    ),
    Fault("ranks", "one", rank_losses(lambda n: (5,))),
    Fault("ranks", "one", rank_losses(lambda n: (5,), finite=False)),
    Fault("ranks", "one", one_of_many),
    Fault("ranks", "some", rank_losses(lambda n: (1, 4, 6, 7))),
    Fault("ranks", "all", rank_losses(lambda n: tuple(range(n)))),
    Fault("ranks", "first-bad", rank_losses(lambda n: (5,), finite=False)),
    Fault("slow_rank", "one-slow", slow_one),
    Fault("slow_rank", "all-slow", slow_all),
    Fault("change_point", "resume", changed_resume),
    Fault("change_point", "unbroken", lambda s: (persistent(s)[0], None)),
    Fault("change_point", "lr", lambda s: (_with("lr", lr_jump, s)[0], None)),
    Fault("change_point", "batch-size", lambda s: (_with("batch_size", doubled, s)[0], None)),
    Fault("change_point", "data", lambda s: (_with("seq_len", doubled, s)[0], None)),
    Fault("eval_gap", "eval-worse", evaluated(lambda x: 2.6 - 2.0 * x + 3.5 * np.maximum(x - 0.3, 0))),
    Fault("eval_gap", "eval-jump", evaluated(lambda x: np.where(x > 0.6, 6.0, 2.6))),
    Fault("eval_gap", "train-only", trained_only),
    Fault("norms", "weight-grows", lambda s: (_with("param_norm", grows(3.0), s)[0], None)),
    Fault("norms", "logit-grows", lambda s: (_with("attention_logit_max", grows(20.0), s)[0], None)),
    Fault("norms", "output-grows", lambda s: (_with("logit_norm", grows(20.0), s)[0], None)),
    Fault("norms", "activation-extreme", hot_layer),
    Fault("norms", "update-large", lambda s: (_with("update_ratio", flat(0.2), s)[0], None)),
    Fault("norms", "update-tiny", lambda s: (_with("update_ratio", flat(1e-9), s)[0], None)),
    Fault("norms", "embedding-share", embedding),
    Fault("norms", "grad-before-loss", _g(climbing)),
    Fault("moe", "load-collapsed", collapsed_router),
    Fault("moe", "aux-zero", no_balance),
    Fault("fp8", "amax-stale", amax("stale")),
    Fault("fp8", "amax-saturated", amax("saturated")),
    Fault("gpu", "hot", gpus("gpu_temp", lambda r, n: 62 + r.normal(0, 1, n), lambda t: np.full(len(t), 91.0))),
    Fault(
        "gpu",
        "reduced-clock",
        gpus("gpu_clock", lambda r, n: 1400 + r.normal(0, 8, n), lambda t: np.full(len(t), 810.0)),
    ),
    Fault("gpu", "one-idle", gpus("gpu_util", lambda r, n: 99 + r.random(n), lambda t: np.zeros(len(t)))),
    Fault("gpu", "all-idle", slowed(40.0)),
    Fault("gpu", "all-busy", slowed(97.0)),
    Fault("gpu", "memory-growth", memory),
    Fault("gpu", "ecc-rising", counted("ecc_errors")),
    Fault("gpu", "network-rising", counted("network_errors")),
    Fault("gpu", "xid", gpus("xid", lambda r, n: np.zeros(n), lambda t: np.full(len(t), 79.0))),
    Fault("gpu", "xid", xid_event),
    Fault("collectives", "mismatch", hung(lambda n: {3: (98230, "_ALLGATHER_BASE", 1024)})),
    Fault("collectives", "mismatch", hung(lambda n: {1: (98231, "ALLREDUCE", 1024)})),
    Fault("collectives", "one-behind", hung(lambda n: {3: (98230, "ALLREDUCE", 52428800)})),
    Fault("collectives", "some-behind", hung(lambda n: dict.fromkeys((2, 3), (98230, "ALLREDUCE", 52428800)))),
    Fault("collectives", "together", hung(lambda n: {})),
    Fault("artifact", "average-lag", averaged),
]

# metrics that no detector of another room may react to
UNRELATED = {"train/accuracy": lambda n: np.linspace(0, 1, n), "lr_of_something": lambda n: np.full(n, np.nan)}


def unrelated(made: Run) -> Run:
    """The same run with two more metrics that no detector knows."""
    n = 50
    extra = {(m, None): series(m, np.arange(n), f(n)) for m, f in UNRELATED.items()}
    return Run({**extra, **made.series}, made.events, made.config)
