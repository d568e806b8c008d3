"""The hooks that put a fault into a run of the lab: on batch, loss, gradient, weights or the logged row."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor

from tests.lab.model import VOCAB, Model


def harder(step: int, x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
    """From step 300 on a tenth of the labels are replaced, slowly more: the level rises by a little, as planned."""
    share = min(0.04, max(0.0, (step - 300) / 4000))
    noise = torch.rand(y.shape, generator=torch.Generator().manual_seed(step)) < share
    return x, torch.where(noise, (y + 1) % VOCAB, y)


def at(step0: int, change: Callable[..., Any], length: int = 10**9) -> Callable[..., Any]:
    """A batch hook that acts from `step0` on for `length` steps."""

    def hook(step: int, x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
        return change(x, y) if step0 <= step < step0 + length else (x, y)

    return hook


def random_labels(x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
    return x, torch.randint(VOCAB, y.shape, generator=torch.Generator().manual_seed(int(y.sum())))


def masked(x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
    return x, torch.full_like(y, -100)


def mean(logits: Tensor, y: Tensor, each: Tensor) -> Tensor:
    return each.sum() / (y != -100).sum()


def log_of_zero(step: int, logits: Tensor, y: Tensor, each: Tensor) -> Tensor:
    """Softmax and logarithm apart, and one impossible label from step 250 on: log(0)."""
    p = torch.softmax(logits, -1).gather(-1, y.clamp(min=0)[..., None])[..., 0]
    if step >= 250:
        p = torch.where(p < p.min() + 1e-9, p * 0, p)
    return -(p.log()).mean()


def root_of_zero(step: int, logits: Tensor, y: Tensor, each: Tensor) -> Tensor:
    """An auxiliary distance whose root meets zero: finite forward, NaN gradient."""
    gap = logits[:, :1] - logits[:, :1].detach() * (1.0 if step >= 200 else 0.5)
    return mean(logits, y, each) + 1e-3 * gap.pow(2).sum(-1).sqrt().mean()


def zero_if_masked(step: int, logits: Tensor, y: Tensor, each: Tensor) -> Tensor:
    return each.sum() / max(1, int((y != -100).sum()))


def flip(at: int, size: float) -> Callable[..., None]:
    def hook(step: int, model: Model) -> None:
        if step == at:
            with torch.no_grad():
                model.blocks[0].up.weight[3, 5] = size
                model.head.weight[:, 7] *= 40

    return hook


def poison_row(at: int) -> Callable[..., None]:
    def hook(step: int, model: Model) -> None:
        if step == at:
            with torch.no_grad():
                model.embed.weight[11] = float("nan")

    return hook


def frozen(model: Model) -> None:
    for name, p in model.named_parameters():
        p.requires_grad_(name.startswith("place"))


def garbage_gradient(at: int) -> Callable[..., None]:
    def hook(step: int, grads: list[Tensor], scale: float) -> None:
        if step >= at and step % 3 == 0:
            for g in grads:
                g.add_(torch.randn(g.shape, generator=torch.Generator().manual_seed(step)) * 3)

    return hook


def bad_rank(at: int) -> Callable[..., Any]:
    """The last quarter of the batch (rank 3) reads a damaged shard."""

    def change(step: int, x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
        if step >= at:
            k = len(y) * 3 // 4
            y[k:] = torch.randint(VOCAB, y[k:].shape, generator=torch.Generator().manual_seed(step))
        return x, y

    return change


def overflow(at: int) -> Callable[..., None]:
    """Activations are driven up until they leave the range of fp16."""

    def hook(step: int, model: Model) -> None:
        if step >= at:
            with torch.no_grad():
                model.blocks[0].down.weight.mul_(1.15)

    return hook


def endless(at: int) -> Callable[..., None]:
    def hook(step: int, grads: list[Tensor], scale: float) -> None:
        if step >= at:
            grads[0].view(-1)[0] = float("inf")

    return hook


def scaled(parts: Callable[[Model], list[Tensor]], at: int, times: float) -> Callable[..., None]:
    """Weights that grow by a factor each step from a step on."""

    def hook(step: int, model: Model) -> None:
        if step >= at:
            with torch.no_grad():
                for part in parts(model):
                    part.mul_(times)

    return hook


def more_random(start: int, slope: float, most: float) -> Callable[..., Any]:
    """A share of random labels that grows slowly."""

    def hook(step: int, x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
        generator = torch.Generator().manual_seed(step)
        wrong = torch.rand(y.shape, generator=generator) < min(most, max(0.0, (step - start) * slope))
        return x, torch.where(wrong, torch.randint(VOCAB, y.shape, generator=generator), y)

    return hook


def embedding_bursts(at: int, every: int, times: float) -> Callable[..., None]:
    """The gradient of the embedding bursts now and then."""

    def hook(step: int, grads: list[Tensor], scale: float) -> None:
        if step >= at and step % every == 0:
            grads[0].mul_(times)

    return hook


def of_rank(ranks: int, rank: int, at: int, value: float) -> Callable[..., Tensor]:
    """The losses of one rank's samples become a value (NaN) at one step; all-reduce does the rest."""

    def hook(step: int, each: Tensor) -> Tensor:
        if step != at:
            return each
        size = len(each) // ranks
        mask = torch.zeros_like(each)
        mask[rank * size : (rank + 1) * size] = value
        return each + mask

    return hook


def uneven(step: int, salt: int, spread: float = 0.03) -> float:
    """A factor near 1 that looks like the jitter of a clock and is the same in every run."""
    return math.exp(spread * float(np.random.RandomState(7919 * salt + step).standard_normal()))


def times(
    step: int, found: dict[str, float], slow_from: int = 10**9, by: float = 1.0, wait: float = 0.0
) -> dict[str, float]:
    """Step time, speed and time spent waiting for data, as a trainer logs them (seconds, tokens a second)."""
    late = step >= slow_from
    data = (0.012 + (wait if late else 0.0)) * uneven(step, 2, 0.2)
    took = 0.42 * (by if late else 1.0) * uneven(step, 1) + data
    return {**found, "step_time": took, "data_time": data, "throughput": 16 * 24 / took}


def sensors(step: int, found: dict[str, float], hot_from: int = 10**9) -> dict[str, float]:
    """Temperature (degrees) and clock (MHz) of the GPU; from a step on its fan has stopped."""
    since = max(0, step - hot_from)
    heat = 61 + 31 * (1 - math.exp(-since / 25)) + uneven(step, 3, 0.5)
    clock = 1410 * (1.0 if heat < 84 else 0.68) * uneven(step, 4, 0.004)
    slow = {} if heat < 84 else {"slow_from": 0, "by": 1.45}
    return {**times(step, found, **slow), "gpu_temp": heat, "gpu_clock": clock}  # type: ignore[arg-type]


def rank_times(
    step: int, found: dict[str, float], ranks: int, slow: int | None = None, at: int = 0
) -> dict[str, float]:
    """Each rank's own time for forward and backward, without waiting for the others."""
    own = {r: 0.42 * uneven(step, 10 + r) * (1.6 if r == slow and step >= at else 1.0) for r in range(ranks)}
    return {**found, **{f"rank{r}/step_time": seconds for r, seconds in own.items()}}


def bursting(at: int, size: float) -> Callable[..., Tensor]:
    """One batch whose loss, and so its gradient, is a multiple of what it should be."""

    def hook(step: int, logits: Tensor, y: Tensor, each: Tensor) -> Tensor:
        return mean(logits, y, each) * (size if step == at else 1)

    return hook


def relabelled(x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
    """Labels of another code: damaged, though each one is legal."""
    return x, (y * 7 + 3) % VOCAB


def every(period: int, after: int, change: Callable[..., Any], phase: int = 0) -> Callable[..., Any]:
    """A batch hook that acts once in a period, behind a step."""

    def hook(step: int, x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
        return change(x, y) if step > after and step % period == phase else (x, y)

    return hook


def filtered(step: int, found: dict[str, float]) -> dict[str, float]:
    """A log that prints 0.0 where the loss is NaN."""
    return {**found, "loss": found["loss"] if found["loss"] == found["loss"] else 0.0}


def nan_from(at: int) -> Callable[..., Tensor]:
    """From a step on one row of each batch has nothing to attend to: its softmax is 0/0."""

    def hook(step: int, each: Tensor) -> Tensor:
        return torch.cat([each[:1] * float("nan"), each[1:]]) if step >= at else each

    return hook


def last_mlp(model: Model) -> list[Tensor]:
    return [model.blocks[1].down.weight]


def head(model: Model) -> list[Tensor]:
    return [model.head.weight]
