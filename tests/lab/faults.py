"""The runs of the lab: healthy families that look alarming, and faults injected one by one, with their truth.

A fault says its class of the taxonomy, the step at which it begins to act (not when a curve shows it), and the symptoms
that are right names for what it shows (`healthy` among them: it may not show at all).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from tests.lab.model import VOCAB, Model, Shape
from tests.lab.trainer import Plan

BASE = Plan()
FP16 = BASE.with_(precision="fp16", scale=65536.0, shape=Shape(half="fp16"))


@dataclass(frozen=True)
class Fault:
    """One injected fault. `onset` in steps; `symptoms` that are right names for what it shows."""

    plan: Plan
    class_: str
    onset: int | None  # None: it builds up, so that no single step is the right one
    symptoms: tuple[str, ...]


HEALTHY: dict[str, Plan] = {
    "adamw-cosine": BASE,
    "adamw-constant": BASE.with_(schedule="constant", lr=1e-3),
    "adam-low-rate": BASE.with_(optimizer="adam", lr=2e-4, schedule="constant"),
    "sgd-momentum": BASE.with_(optimizer="sgd", lr=0.15, clip=None),
    "rmsprop": BASE.with_(optimizer="rmsprop", lr=8e-4, warmup=60),
    "warm-restarts": BASE.with_(schedule="restart", lr=4e-3, steps=900),
    "staircase-rate": BASE.with_(schedule="staircase", lr=4e-3),
    "epochs-of-a-small-set": BASE.with_(order="few", data={"size": 256}, steps=800, weight_decay=0.0),
    "small-batch-noise": BASE.with_(batch=2, lr=1e-3),
    "large-batch": BASE.with_(batch=64, steps=300),
    "sparse-log": BASE.with_(steps=1200, log_every=40),
    "early-descent": BASE.with_(lr=8e-3, warmup=5, steps=400),
    "fp16-back-offs": FP16,
    "bf16": BASE.with_(precision="bf16", shape=Shape(half="bf16")),
    "dropout": BASE.with_(shape=Shape(dropout=0.2)),
    "rl-noise": BASE.with_(loss="reinforce", lr=5e-4, steps=500, clip=None),
    "four-ranks": BASE.with_(ranks=4, batch=32),
    "long-and-quiet": BASE.with_(steps=2400, lr=1.5e-3),
    "curriculum": BASE.with_(hooks={"batch": lambda step, x, y: _harder(step, x, y)}, steps=700),
    "good-resume": BASE.with_(resume_at=300, resume=()),
}


def _harder(step: int, x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
    """From step 300 on a tenth of the labels are replaced, slowly more: the level rises by a little, as planned."""
    share = min(0.04, max(0.0, (step - 300) / 4000))
    noise = torch.rand(y.shape, generator=torch.Generator().manual_seed(step)) < share
    return x, torch.where(noise, (y + 1) % VOCAB, y)


def _at(step0: int, change: Callable[..., Any], length: int = 10**9) -> Callable[..., Any]:
    """A batch hook that acts from `step0` on for `length` steps."""

    def hook(step: int, x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
        return change(x, y) if step0 <= step < step0 + length else (x, y)

    return hook


def _random_labels(x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
    return x, torch.randint(VOCAB, y.shape, generator=torch.Generator().manual_seed(int(y.sum())))


def _masked(x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
    return x, torch.full_like(y, -100)


def _mean(logits: Tensor, y: Tensor, each: Tensor) -> Tensor:
    return each.sum() / (y != -100).sum()


def _log_of_zero(step: int, logits: Tensor, y: Tensor, each: Tensor) -> Tensor:
    """Softmax and logarithm apart, and one impossible label from step 250 on: log(0)."""
    p = torch.softmax(logits, -1).gather(-1, y.clamp(min=0)[..., None])[..., 0]
    if step >= 250:
        p = torch.where(p < p.min() + 1e-9, p * 0, p)
    return -(p.log()).mean()


def _root_of_zero(step: int, logits: Tensor, y: Tensor, each: Tensor) -> Tensor:
    """An auxiliary distance whose root meets zero: finite forward, NaN gradient."""
    gap = logits[:, :1] - logits[:, :1].detach() * (1.0 if step >= 200 else 0.5)
    return _mean(logits, y, each) + 1e-3 * gap.pow(2).sum(-1).sqrt().mean()


def _zero_if_masked(step: int, logits: Tensor, y: Tensor, each: Tensor) -> Tensor:
    return each.sum() / max(1, int((y != -100).sum()))


def _flip(at: int, size: float) -> Callable[..., None]:
    def hook(step: int, model: Model) -> None:
        if step == at:
            with torch.no_grad():
                model.blocks[0].up.weight[3, 5] = size
                model.head.weight[:, 7] *= 40

    return hook


def _poison_row(at: int) -> Callable[..., None]:
    def hook(step: int, model: Model) -> None:
        if step == at:
            with torch.no_grad():
                model.embed.weight[11] = float("nan")

    return hook


def _frozen(model: Model) -> None:
    for name, p in model.named_parameters():
        p.requires_grad_(name.startswith("place"))


def _garbage_gradient(at: int) -> Callable[..., None]:
    def hook(step: int, grads: list[Tensor], scale: float) -> None:
        if step >= at and step % 3 == 0:
            for g in grads:
                g.add_(torch.randn(g.shape, generator=torch.Generator().manual_seed(step)) * 3)

    return hook


def _bad_rank(at: int) -> Callable[..., Any]:
    """The last quarter of the batch (rank 3) reads a damaged shard."""

    def change(step: int, x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
        if step >= at:
            k = len(y) * 3 // 4
            y[k:] = torch.randint(VOCAB, y[k:].shape, generator=torch.Generator().manual_seed(step))
        return x, y

    return change


def _overflow(at: int) -> Callable[..., None]:
    """Activations are driven up until they leave the range of fp16."""

    def hook(step: int, model: Model) -> None:
        if step >= at:
            with torch.no_grad():
                model.blocks[0].down.weight.mul_(1.15)

    return hook


def _endless(at: int) -> Callable[..., None]:
    def hook(step: int, grads: list[Tensor], scale: float) -> None:
        if step >= at:
            grads[0].view(-1)[0] = float("inf")

    return hook


def _row(change: Callable[[int, dict[str, float]], dict[str, float]]) -> dict[str, Any]:
    return {"row": change}


def _resumed(*lost: str, **changes: Any) -> Plan:
    return BASE.with_(resume_at=300, resume=lost, **changes)


FAULTS: dict[str, Fault] = {
    "rate-absurd": Fault(
        BASE.with_(lr=3.0, warmup=0, clip=None, schedule="constant", optimizer="sgd"), "lr_too_high", None,
        ("early-explosion", "instant-nan", "plateau", "persistent-spike")),
    "rate-high-constant": Fault(
        BASE.with_(lr=0.3, warmup=0, schedule="constant", clip=None), "lr_too_high", 0,
        ("early-explosion", "plateau", "persistent-spike")),
    "rate-over-peak": Fault(
        BASE.with_(lr=12.0, warmup=300, clip=None, optimizer="sgd", weight_decay=0.0), "lr_too_high", None,
        ("persistent-spike", "early-explosion", "slow-climb", "plateau", "instant-nan", "transient-spike")),
    "rate-hot-restart": Fault(
        BASE.with_(hooks={"lr": lambda step, lr: 0.2 if step >= 350 else lr}, clip=None), "lr_too_high", 350,
        ("persistent-spike", "transient-spike")),
    "no-warm-up": Fault(
        BASE.with_(lr=0.05, warmup=0, clip=None, betas=(0.9, 0.999)), "warmup_missing", 0,
        ("early-explosion", "plateau", "transient-spike", "persistent-spike", "healthy")),
    "no-clipping-bad-batch": Fault(
        BASE.with_(clip=None, optimizer="sgd", lr=0.3, hooks={"loss": lambda s, logits, y, e: _mean(logits, y, e) * (60 if s == 320 else 1)}),
        "grad_clip_missing", 320, ("transient-spike", "persistent-spike", "instant-nan")),
    "one-damaged-batch": Fault(
        BASE.with_(hooks={"batch": _at(360, lambda x, y: (x, (y * 7 + 3) % VOCAB), 1)}), "data_bad_content", 360, ("transient-spike",)),
    "damaged-batches": Fault(
        BASE.with_(hooks={"batch": lambda s, x, y: (x, (y * 7 + 3) % VOCAB) if s > 200 and s % 90 == 0 else (x, y)}),
        "data_bad_content", 270, ("transient-spike",)),
    "shuffled-labels": Fault(
        BASE.with_(hooks={"batch": _at(0, _random_labels)}), "data_bad_content", 0, ("plateau",)),
    "labels-go-wrong": Fault(
        BASE.with_(hooks={"batch": _at(330, _random_labels)}), "data_bad_content", 330, ("persistent-spike",)),
    "no-label-in-batch": Fault(
        BASE.with_(hooks={"batch": _at(280, _masked, 1)}), "label_mask_empty", 280, ("instant-nan",)),
    "mask-covers-answer": Fault(
        BASE.with_(hooks={"batch": _at(0, _masked), "loss": _zero_if_masked}), "label_mask_empty", 0, ("loss-zero",)),
    "mask-covers-answer-later": Fault(
        BASE.with_(hooks={"batch": _at(250, _masked), "loss": _zero_if_masked}), "label_mask_empty", 250, ("loss-zero",)),
    "label-in-sight": Fault(
        BASE.with_(shape=Shape(leak=True), steps=1200, data={"size": 512}, hooks={"batch": lambda s, x, y: (x, x.clone())}),
        "model_code_bug", 0, ("loss-zero", "silent-degradation")),
    "fp16-activations": Fault(
        FP16.with_(hooks={"state": _overflow(200)}), "fp16_overflow", None,
        ("instant-nan", "persistent-spike", "slow-climb", "loss-zero")),
    "fp16-from-the-start": Fault(
        FP16.with_(shape=Shape(half="fp16", init=6.0)), "fp16_overflow", 0, ("instant-nan", "early-explosion", "plateau", "healthy")),
    "scale-collapse": Fault(
        FP16.with_(hooks={"gradient": _endless(240)}), "loss_scaler_fault", 240, ("instant-nan", "plateau", "silent-degradation")),
    "log-of-zero": Fault(BASE.with_(hooks={"loss": _log_of_zero}), "loss_domain_error", 250, ("instant-nan",)),
    "root-of-zero": Fault(BASE.with_(hooks={"loss": _root_of_zero}), "loss_domain_error", 200, ("instant-nan",)),
    "init-too-large": Fault(
        BASE.with_(shape=Shape(init=2.5)), "init_scale", 0, ("early-explosion", "plateau", "silent-degradation", "healthy")),
    "gradient-dead": Fault(BASE.with_(hooks={"model": _frozen}, weight_decay=0.0), "setting_not_effective", 0, ("plateau",)),
    "nothing-learned-rate-zero": Fault(
        BASE.with_(lr=0.0, schedule="constant"), "lr_schedule_wrong", 0, ("plateau",)),
    "rate-decays-early": Fault(
        BASE.with_(schedule="decay-early", lr=5e-4, steps=900), "lr_schedule_wrong", 250, ("plateau", "silent-degradation", "healthy")),
    "weight-decay-huge": Fault(
        BASE.with_(weight_decay=40.0), "weight_decay", 0, ("plateau", "slow-climb")),
    "pure-bf16-weights": Fault(
        BASE.with_(precision="bf16-pure", lr=2e-5, schedule="constant", steps=900), "low_precision_state", 0, ("plateau", "healthy")),
    "silent-corruption": Fault(
        BASE.with_(hooks={"state": _flip(340, 900.0)}), "silent_hardware_corruption", 340, ("persistent-spike", "transient-spike")),
    "nan-in-a-row": Fault(
        BASE.with_(hooks={"state": _poison_row(260)}), "token_or_embedding_mismatch", 260, ("instant-nan",)),
    "garbage-gradient": Fault(
        BASE.with_(hooks={"gradient": _garbage_gradient(300)}, clip=None, optimizer="sgd", lr=0.1), "comm_overlap_race", 300,
        ("persistent-spike", "slow-climb", "transient-spike", "plateau", "instant-nan")),
    "stage-change": Fault(
        BASE.with_(hooks={"batch": _at(350, lambda x, y: ((x * 11 + 5) % VOCAB, (y * 11 + 5) % VOCAB))}), "data_distribution_shift", 350, ("persistent-spike", "transient-spike")),
    "sorted-by-difficulty": Fault(
        BASE.with_(order="sorted", data={"size": 9600, "hard_from": 6400}, steps=600), "data_order_shuffle", 400, ("persistent-spike",)),
    "one-bad-rank": Fault(
        BASE.with_(ranks=4, batch=32, hooks={"batch": _bad_rank(300)}), "data_rank_mismatch", 300, ("persistent-spike",)),
    "resume-without-moments": Fault(
        _resumed("optimizer", lr=0.06, betas=(0.9, 0.999), clip=None, schedule="constant", warmup=200), "resume_optimizer_state", 280,
        ("resume-drift", "transient-spike", "persistent-spike")),
    "resume-schedule-restarts": Fault(
        _resumed("schedule", lr=0.1, warmup=8, steps=500), "resume_scheduler_state", 280,
        ("resume-drift", "transient-spike", "persistent-spike", "healthy")),
    "resume-data-again": Fault(
        _resumed("sampler", order="fixed", data={"size": 2048}, steps=560), "resume_data_state", 280, ("resume-drift", "healthy")),
    "resume-fresh-weights": Fault(_resumed("weights", "optimizer"), "checkpoint_damaged", 280, ("resume-drift", "persistent-spike", "transient-spike")),
    "resume-part-damaged": Fault(_resumed("part"), "checkpoint_damaged", 280, ("resume-drift", "persistent-spike", "transient-spike")),
    "resume-scaler-restarts": Fault(
        FP16.with_(resume_at=300, resume=("scaler",)), "resume_optimizer_state", 280, ("healthy", "resume-drift")),
    "loss-counted-otherwise": Fault(
        BASE.with_(hooks=_row(lambda s, r: {**r, "loss": r["loss"] * (4 if s >= 300 else 1)})), "metric_artifact", 300, ("persistent-spike", "resume-drift")),
    "nan-filtered-in-log": Fault(
        BASE.with_(hooks={"batch": _at(280, _masked, 1), **_row(lambda s, r: {**r, "loss": r["loss"] if r["loss"] == r["loss"] else 0.0})}),
        "label_mask_empty", 280, ("loss-zero", "instant-nan")),
    "rl-policy-collapses": Fault(
        BASE.with_(loss="reinforce", lr=0.3, clip=None, warmup=0, steps=400), "lr_too_high", None,
        ("loss-zero", "early-explosion", "plateau", "instant-nan")),
}  # fmt: skip
