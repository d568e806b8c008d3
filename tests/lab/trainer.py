"""One training run: an ordinary loop with the places where faults are put in.

`Plan` says how the run is made; hooks change the loss, the batch, the gradient or the state at a step. Logged per step:
loss, grad_norm (before clipping), lr, and where there is one the loss scale; with `ranks` the local loss of each rank;
with `extra` what else a careful job would log. Clocks and sensors are not those of the machine but made up by the row
hook, so that a run made twice is the same.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from copy import deepcopy
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from tests.lab.model import FP16_MAX, Chain, Model, Shape


@dataclass(frozen=True)
class Plan:
    """How a run is made. Steps are optimizer steps; `schedule`: constant, cosine, restart, staircase, decay-early."""

    steps: int = 600
    batch: int = 16
    lr: float = 3e-3
    warmup: int = 30
    schedule: str = "cosine"
    optimizer: str = "adamw"
    betas: tuple[float, float] = (0.9, 0.98)
    eps: float = 1e-8
    weight_decay: float = 0.01
    clip: float | None = 1.0
    shape: Shape = field(default_factory=Shape)
    precision: str = "fp32"
    scale: float = 0.0  # initial loss scale; 0 = none
    data: dict[str, Any] = field(default_factory=dict)
    order: str = "shuffled"  # shuffled | sorted | few (a small set, many epochs) | hard-block
    log_every: int = 1
    ranks: int = 0
    loss: str = "cross-entropy"  # or reinforce
    hooks: dict[str, Callable[..., Any]] = field(default_factory=dict)
    resume_at: int | None = None
    resume: tuple[str, ...] = ()  # what is lost at the resume
    extra: tuple[str, ...] = ()  # layers | logits | embedding | evaluation | weights | epoch
    clip_scaled: bool = False  # the clip sees the gradient with the loss scale still in it
    config: dict[str, Any] = field(default_factory=dict)

    def with_(self, **changes: Any) -> Plan:
        return replace(self, **changes)


EVALUATE = 20  # steps between two evaluations
LOST = 20  # steps between the last checkpoint and the end of a job that is resumed


@dataclass
class Saved:
    """A checkpoint, and whether it was used."""

    model: dict[str, Any]
    optimizer: dict[str, Any]
    generator: Tensor
    scale: float
    used: bool = False

    @classmethod
    def of(cls, model: Model, optimizer: torch.optim.Optimizer, generator: torch.Generator, scale: float) -> Saved:
        return cls(deepcopy(model.state_dict()), deepcopy(optimizer.state_dict()), generator.get_state(), scale)

    def restore(
        self, plan: Plan, model: Model, optimizer: torch.optim.Optimizer, generator: torch.Generator, seed: int
    ) -> torch.optim.Optimizer:
        """Load what the plan does not lose."""
        self.used = True
        fresh = Model(plan.shape, seed + 5).state_dict()
        model.load_state_dict(fresh if "weights" in plan.resume else self.model)
        if "part" in plan.resume:
            with torch.no_grad():
                model.blocks[1].down.weight.copy_(torch.randn_like(model.blocks[1].down.weight))
        if "optimizer" in plan.resume:
            optimizer = optimizer_of(plan, model)
        else:
            optimizer.load_state_dict(self.optimizer)
        if "sampler" not in plan.resume:
            generator.set_state(self.generator)
        return optimizer


def rate(plan: Plan, step: int) -> float:
    """The learning rate of a step by the plan's schedule."""
    if step < plan.warmup:
        return plan.lr * (step + 1) / plan.warmup
    t = (step - plan.warmup) / max(1, plan.steps - plan.warmup)
    if plan.schedule == "cosine":
        return plan.lr * (0.1 + 0.45 * (1 + math.cos(math.pi * t)))
    if plan.schedule == "restart":
        return plan.lr * (0.05 + 0.475 * (1 + math.cos(math.pi * ((3 * t) % 1))))
    if plan.schedule == "decay-early":
        return plan.lr * max(0.0, 1 - 4 * t)
    if plan.schedule == "staircase":
        return plan.lr * 0.3 ** int(3 * t)
    return plan.lr


def optimizer_of(plan: Plan, model: Model) -> torch.optim.Optimizer:
    params = [p for p in model.parameters() if p.requires_grad]
    if "params" in plan.hooks:
        params = plan.hooks["params"](model)
    if plan.optimizer == "sgd":
        return torch.optim.SGD(params, lr=plan.lr, momentum=0.9, weight_decay=plan.weight_decay)
    if plan.optimizer == "rmsprop":
        return torch.optim.RMSprop(params, lr=plan.lr, weight_decay=plan.weight_decay)
    kind = torch.optim.Adam if plan.optimizer == "adam" else torch.optim.AdamW
    return kind(params, lr=plan.lr, betas=plan.betas, eps=plan.eps, weight_decay=plan.weight_decay)


def numbers(plan: Plan, step: int, chain: Chain, generator: torch.Generator, shift: int) -> Tensor:
    """Sample numbers of a step. `shift` moves the place in a fixed order (a lost sampler goes back to 0)."""
    k = step - shift
    if plan.order == "sorted":
        return torch.arange(k * plan.batch, (k + 1) * plan.batch)
    if plan.order == "few":
        order = torch.randperm(chain.size, generator=torch.Generator().manual_seed(k * plan.batch // chain.size))
        return order[torch.arange(k * plan.batch, (k + 1) * plan.batch) % chain.size]
    if plan.order == "fixed":
        order = torch.randperm(chain.size, generator=torch.Generator().manual_seed(5))
        return order[torch.arange(k * plan.batch, (k + 1) * plan.batch) % chain.size]
    return torch.randint(chain.size, (plan.batch,), generator=generator)


def train(plan: Plan, seed: int) -> list[dict[str, float]]:
    """The rows that the run logs. A NaN goes on being logged, as in life."""
    torch.set_num_threads(1)
    chain = Chain(**{"seed": 7, **plan.data})
    model = Model(plan.shape, seed)
    if "model" in plan.hooks:
        plan.hooks["model"](model)
    optimizer = optimizer_of(plan, model)
    generator = torch.Generator().manual_seed(seed + 1000)
    scale, good, shift, offset, rows = plan.scale, 0, 0, 0, []
    step, saved = -1, None
    while step < plan.steps - 1:
        step += 1
        if plan.resume_at is not None and step == plan.resume_at - LOST and saved is None:
            saved = Saved.of(model, optimizer, generator, scale)
        elif step == plan.resume_at and saved is not None and not saved.used:
            # The job died here and goes on from its last checkpoint, some steps earlier: those are logged twice.
            step -= LOST
            optimizer = saved.restore(plan, model, optimizer, generator, seed)
            scale = 65536.0 if "scaler" in plan.resume else saved.scale
            shift = step if "sampler" in plan.resume else shift
            offset = step if "schedule" in plan.resume else offset
        lr = plan.hooks.get("lr", lambda _, value: value)(step, rate(plan, step - offset))
        for group in optimizer.param_groups:
            group["lr"] = lr
        tokens, labels = chain.batch(numbers(plan, step, chain, generator, shift))
        if "batch" in plan.hooks:
            tokens, labels = plan.hooks["batch"](step, tokens, labels)
        if "state" in plan.hooks:
            plan.hooks["state"](step, model)
        loss, per_sample = loss_of(plan, model, tokens, labels, step)
        optimizer.zero_grad()
        if loss.requires_grad:
            (loss * (scale or 1.0)).backward()
        skipped, norm = _unscale(plan, model, scale, step, saved is not None and saved.used)
        limit = plan.clip
        if plan.clip_scaled and limit is not None:
            norm = norm * scale  # as logged and as compared
        if plan.scale:
            if skipped:
                scale, good = max(scale / 2, 1.0), 0
            else:
                good += 1
                if good >= 100:
                    scale, good = scale * 2, 0
        if not skipped:
            if limit is not None and math.isfinite(norm) and norm > limit:
                for p in model.parameters():
                    if p.grad is not None:
                        p.grad.mul_(limit / norm)
            optimizer.step()
            if plan.precision == "bf16-pure":
                with torch.no_grad():
                    for p in model.parameters():
                        p.copy_(p.bfloat16().float())
        if step % plan.log_every == 0:
            row = {"step": step, "loss": float(loss.detach()), "grad_norm": norm, "lr": lr}
            if plan.scale:
                row["loss_scale"] = scale
            if plan.ranks:
                for r, part in enumerate(per_sample.detach().chunk(plan.ranks)):
                    row[f"rank{r}/loss"] = float(part.mean())
            row |= _extra(plan, model, chain, step)
            rows.append(plan.hooks.get("row", lambda _, x: x)(step, row))
    return rows


def _extra(plan: Plan, model: Model, chain: Chain, step: int) -> dict[str, float]:
    """What a careful job logs besides."""
    row: dict[str, float] = model.extremes() if "layers" in plan.extra else {}
    if "logits" in plan.extra:
        row["logit_norm"] = model.logits
    if "embedding" in plan.extra and model.embed.weight.grad is not None:
        row["embedding_grad_norm"] = float(model.embed.weight.grad.norm())
    if "weights" in plan.extra:
        row["param_norm"] = math.sqrt(sum(float((p.detach() ** 2).sum()) for p in model.parameters()))
    if "epoch" in plan.extra:
        row["epoch"] = step * plan.batch / chain.size
    if "evaluation" in plan.extra and step % EVALUATE == 0:
        held_out = torch.arange(chain.size - 256, chain.size)
        tokens, labels = chain.batch(held_out)
        if "evaluate" in plan.hooks:
            tokens, labels = plan.hooks["evaluate"](step, tokens, labels)
        model.eval()
        with torch.no_grad():
            row["eval_loss"] = float(F.cross_entropy(model(tokens).flatten(0, 1), labels.flatten()))
        model.train()
    return row


def loss_of(plan: Plan, model: Model, tokens: Tensor, labels: Tensor, step: int) -> tuple[Tensor, Tensor]:
    logits = model(tokens)
    if plan.loss == "reinforce":
        policy = torch.log_softmax(logits, -1)
        action = torch.distributions.Categorical(logits=logits).sample()
        reward = (action == labels).float()
        chosen = policy.gather(-1, action[..., None])[..., 0]
        loss = -(chosen * (reward - reward.mean())).mean()
        return loss, loss[None]
    each = F.cross_entropy(logits.flatten(0, 1), labels.flatten(), reduction="none", ignore_index=-100).view(
        labels.shape
    )
    if "each" in plan.hooks:
        each = plan.hooks["each"](step, each)
    if "loss" in plan.hooks:
        loss = plan.hooks["loss"](step, logits, labels, each)
    else:
        loss = each.sum() / (labels != -100).sum()
    return loss, each.mean(1)


def _unscale(plan: Plan, model: Model, scale: float, step: int, resumed: bool) -> tuple[bool, float]:
    """(was the step skipped, gradient norm); under fp16 the scaled gradient must fit the format."""
    grads = [p.grad for p in model.parameters() if p.grad is not None]
    if not grads:
        return False, 0.0
    if plan.scale:
        for g in grads:
            g[g.abs() > FP16_MAX] = float("inf")
            g[g.abs() < 6e-8] = 0.0
            g.div_(scale)
    if resumed and "world size" in plan.resume:  # four processes instead of one, and the sum is not divided
        for g in grads:
            g.mul_(4.0)
    if "gradient" in plan.hooks:
        plan.hooks["gradient"](step, grads, scale)
    norm = float(torch.sqrt(sum((g.double() ** 2).sum() for g in grads)))
    return bool(plan.scale) and not math.isfinite(norm), norm
