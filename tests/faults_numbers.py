"""Runs with one fault each, for kinds that hold numbers against each other: steps trained twice, factors, forms.

Like `faults.FAULTS`: `Fault(detector, kind, make)` with `make(seed) -> (Run, onset or None)`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from playbook.series import Run
from tests.faults import Made, N, _base, _with
from tests.runs import Fault, cosine, descent, grads, run


def backward_first(seed: int) -> Made:
    """The gradient of step `at` is not finite beside a sound loss; the next loss is what its update made of it."""
    rng, t, loss, at = _base(seed)
    norms = grads(rng, N)
    norms[at:] = np.nan
    loss[at + 1 :] = np.nan
    return run(t, {"loss": loss, "grad_norm": norms}), at


def infinite_first(seed: int) -> Made:
    rng, t, loss, at = _base(seed)
    norms = grads(rng, N)
    norms[at:] = np.nan
    loss[at], loss[at + 1 :] = np.inf, np.nan
    return run(t, {"loss": loss, "grad_norm": norms}), at


def empty_batch(value: float) -> Callable[[int], Made]:
    def make(seed: int) -> Made:
        rng, t, loss, at = _base(seed)
        norms = grads(rng, N)
        loss[at], norms[at] = value, 0.0
        return run(t, {"loss": loss, "grad_norm": norms}), at

    return make


def no_labels_any_more(seed: int) -> Made:
    rng, t, loss, at = _base(seed)
    norms = grads(rng, N)
    loss[at:], norms[at:] = 0.0, 0.0
    return run(t, {"loss": loss, "grad_norm": norms}), at


def form(shape: Callable[[np.ndarray], np.ndarray]) -> Callable[[int], Made]:
    """A jump whose height over the steps since the onset is `shape`."""

    def make(seed: int) -> Made:
        _, t, loss, at = _base(seed)
        loss[at:] += shape(t[at:] - at)
        return run(t, {"loss": loss}), at

    return make


def set_as(
    config: dict[str, Any], lr: Callable[[np.ndarray], np.ndarray], onset: int | None = None
) -> Callable[[int], Made]:
    def make(seed: int) -> Made:
        _, t, loss, _ = _base(seed)
        return run(t, {"loss": loss, "lr": lr(t)}, config=config), onset

    return make


def fresh_and_slow(seed: int) -> Made:
    rng = np.random.default_rng(seed)
    loss = np.log(50257) + rng.normal(0, 0.01, N)
    return run(np.arange(N), {"loss": loss, "lr": cosine(N) / 300}, config={**ADAM, "vocab_size": 50257}), 0


STOP, BEGIN = 1200, 1100  # the first job ends, the second begins


def twice(seed: int, same: bool = True, departs: float = 0.0, lr_wrong: bool = False, norm: float = 1.0) -> Made:
    """A resume with the same batches at the steps that are trained again: their hardness is in the loss of both."""
    rng = np.random.default_rng(seed)
    at = np.concatenate([np.arange(STOP), np.arange(BEGIN, N)])
    hardness = rng.normal(0, 0.05, N)
    loss = (descent(N) + hardness)[at]
    if not same:
        loss[STOP:] += rng.normal(0, 0.05, N - BEGIN) - hardness[BEGIN:]
    loss[STOP + 1 :] += departs * np.exp(-np.arange(N - BEGIN - 1) / 200)
    loss[1:STOP] += rng.normal(0, 0.002, STOP - 1) * (np.arange(1, STOP) != BEGIN)
    lr = cosine(N)[at]
    if lr_wrong:
        lr[STOP:] = cosine(N - BEGIN)
    size = np.exp(rng.normal(0, 0.1, N))[at]
    size[STOP:] *= norm
    scale = np.where(np.arange(len(at)) < STOP, 2.0**20, 65536.0)
    return run(at, {"loss": loss, "lr": lr, "grad_norm": size, "loss_scale": scale}), BEGIN


def times_four(gradient: float) -> Callable[[int], Made]:
    def make(seed: int) -> Made:
        rng, t, loss, at = _base(seed)
        factor = np.where(t >= at, 4.0, 1.0)
        return run(t, {"loss": loss * factor, "grad_norm": grads(rng, N) * factor**gradient}), at

    return make


def summed_from_the_start(seed: int) -> Made:
    rng = np.random.default_rng(seed)
    loss = 2.3 + 8.52 * np.exp(-np.arange(N) / 200) + rng.normal(0, 0.02, N)
    return run(np.arange(N), {"loss": 8 * loss}, config={"vocab_size": 50257}), 0


def with_the_scale(seed: int) -> Made:
    rng, t, loss, _ = _base(seed)
    scale = 65536.0 * 2.0 ** (t // 250)
    return run(t, {"loss": loss, "loss_scale": scale, "grad_norm": grads(rng, N) * np.roll(scale, 1)}), None


def waiting(share: float) -> Callable[[int], Made]:
    def make(seed: int) -> Made:
        rng, t, loss, _ = _base(seed)
        step = 0.5 * np.exp(rng.normal(0, 0.05, N))
        return run(t, {"loss": loss, "step_time": step, "data_time": share * step}), None

    return make


def alive_and_flat(seed: int) -> Made:
    """Nothing is learned from the first row on, though a gradient is there."""
    rng = np.random.default_rng(seed)
    loss = np.log(50257) + rng.normal(0, 0.01, N)
    return run(np.arange(N), {"loss": loss, "grad_norm": grads(rng, N)}, config={"vocab_size": 50257}), 0


def guess_of_a_small_vocabulary(seed: int) -> Made:
    rng = np.random.default_rng(seed)
    loss = np.log(64) + 0.1 * np.exp(-np.arange(N) / 100) + rng.normal(0, 0.02, N)
    return run(np.arange(N), {"loss": loss}, config={"vocab_size": 64}), 0


def blown_up_to_a_guess(seed: int) -> Made:
    _, t, loss, at = _base(seed)
    rng = np.random.default_rng(seed + 99)
    loss[at:] = np.log(64) + 1.5 * np.exp(-(t[at:] - at) / 8) + rng.normal(0, 0.02, N - at)
    return run(t, {"loss": loss}, config={"vocab_size": 64}), None  # it stands there only after a while


def leaps(seed: int) -> Made:
    """The learning rate leaps to a hundred times what it ever was, and the loss with it: no restart of a schedule."""
    _, t, loss, at = _base(seed, last=2.6)
    loss[at:] += 1.4 + 1.2 * np.exp(-(t[at:] - at) / 20)
    return run(t, {"loss": loss, "lr": np.where(t >= at, 0.2, cosine(N) * 10)}), at


def hump(seed: int) -> Made:
    """In the first warm-up the loss climbs to a height of which most stays."""
    _, t, loss, _ = _base(seed)
    loss *= 1 + 0.8 * np.clip((t - 500) / 400, 0, 1) - 0.1 * np.clip((t - 900) / 1100, 0, 1)
    return run(t, {"loss": loss, "lr": cosine(N, warm=1000)}), 500


def bad_evaluations(seed: int) -> Made:
    rng = np.random.default_rng(seed)
    t = np.arange(N)
    evaluation = np.where(t[::50] >= 1200, 6.0, descent(N)[::50]) * np.exp(rng.normal(0, 0.01, N // 50))
    made = run(t, {"loss": descent(N) + rng.normal(0, 0.04, N)})
    return Run({**made.series, **run(t[::50], {"eval_loss": evaluation}).series}), 1200


ADAM = {"optim": "adamw_torch", "max_steps": N}
FAULTS: list[Fault] = [
    Fault("nonfinite", "backward-first", backward_first),
    Fault("nonfinite", "infinite-first", infinite_first),
    Fault("loss_zero", "no-label", empty_batch(np.nan)),
    Fault("loss_zero", "no-label", empty_batch(0.0)),
    Fault("loss_zero", "no-label", no_labels_any_more),
    Fault("spike", "one-row", form(lambda u: 5.0 * (u == 0))),
    Fault("spike", "relaxes", form(lambda u: 5.0 * np.exp(-u / 30))),
    Fault("spike", "step", form(lambda u: np.full(len(u), 6.0))),
    Fault("spike", "builds-up", form(lambda u: 6.0 * np.minimum(u / 30, 1.0) * np.exp(-np.maximum(u - 30, 0) / 300))),
    Fault("spike", "persistent", leaps),
    Fault("slow_climb", "climb", hump),
    Fault("plateau", "uniform-output", guess_of_a_small_vocabulary),
    Fault("plateau", "uniform-output", blown_up_to_a_guess),
    Fault("grad_norm", "alive", alive_and_flat),
    Fault("clipping", "scaled-norm", with_the_scale),
    Fault("loss_scale", "reset", twice),
    Fault("lr_value", "high", set_as(ADAM, lambda t: 100 * cosine(len(t)))),
    Fault("lr_value", "absurd", set_as(ADAM, lambda t: 2000 * cosine(len(t)))),
    Fault("lr_value", "tiny", fresh_and_slow),
    Fault("lr_value", "ramp-usual", set_as(ADAM, lambda t: cosine(len(t), warm=100), 0)),
    Fault("lr_value", "ramp-short", set_as({"max_steps": 100_000}, lambda t: cosine(len(t), warm=20), 0)),
    Fault("schedule", "leaves", set_as({}, lambda t: cosine(len(t)) * 1.01 ** np.maximum(0, t - 1200), 1200)),
    Fault("schedule", "restored", twice),
    Fault("schedule", "not-restored", lambda s: twice(s, lr_wrong=True)),
    Fault("resume", "same-batches", twice),
    Fault("resume", "other-batches", lambda s: twice(s, same=False)),
    Fault("resume", "update-differs", lambda s: twice(s, departs=0.3)),
    Fault("throughput", "data-bound", waiting(0.5)),
    Fault("throughput", "data-fast", waiting(0.01)),
    Fault("eval_gap", "eval-jump", bad_evaluations),
    Fault("artifact", "exact-factor", times_four(0.0)),
    Fault("artifact", "exact-factor", times_four(1.0)),
    Fault("artifact", "exact-factor", summed_from_the_start),
    Fault("artifact", "exact-factor", lambda s: twice(s, norm=4.0)),
    Fault("artifact", "logged-only", times_four(0.0)),
]


# Runs on which a kind must not be found: its nearest look-alike.
NOT: list[Fault] = [
    Fault("artifact", "exact-factor", form(lambda u: np.full(len(u), 0.67))),
    Fault("artifact", "logged-only", times_four(1.0)),
    Fault("clipping", "scaled-norm", lambda s: _with("loss_scale", lambda r, t, a: 2.0 ** (16 + t // 250), s)),
    Fault("resume", "update-differs", twice),
    Fault("resume", "update-differs", lambda s: twice(s, departs=0.3, lr_wrong=True)),
    Fault("resume", "other-batches", twice),
    Fault("resume", "same-batches", lambda s: twice(s, same=False)),
    Fault("resume", "two-writers", twice),
    Fault("schedule", "not-restored", twice),
    Fault("schedule", "leaves", set_as({}, lambda t: 3e-4 * (1.1 + np.cos(np.pi * (t % 500) / 500)))),
    Fault("loss_zero", "no-label", lambda s: _zero_beside_a_gradient(s)),
    Fault("nonfinite", "infinite-first", backward_first),
    Fault("plateau", "no-descent", blown_up_to_a_guess),
    Fault("lr_value", "tiny", set_as({"optim": "adamw", "vocab_size": 512}, lambda t: cosine(len(t)) / 300)),
    Fault("lr_value", "absurd", set_as({"optim": "sgd"}, lambda t: 2000 * cosine(len(t)))),
]


def _zero_beside_a_gradient(seed: int) -> Made:
    """A 0.0 in the log beside an ordinary gradient norm is a hole."""
    rng, t, loss, at = _base(seed)
    loss[at] = 0.0
    return run(t, {"loss": loss, "grad_norm": grads(rng, N)}), at
