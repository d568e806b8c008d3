"""The runs of the lab: healthy families that look alarming, and faults injected one by one, with their truth.

A fault says its class of the taxonomy, the step at which it begins to act (not when a curve shows it), and the symptoms
that are right names for what it shows (`healthy` among them: it may not show at all). Where metrics and configuration
alone cannot tell its class from others, `looks_like` names those, with the reason beside it: a person who sees no more
than the log could not do better, and what would decide is asked for, not guessed.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tests.lab import hooks as do
from tests.lab.model import VOCAB, Shape
from tests.lab.trainer import Plan

BASE = Plan()
FP16 = BASE.with_(precision="fp16", scale=65536.0, shape=Shape(half="fp16"))
ALL = ("layers", "logits", "embedding", "evaluation", "weights", "epoch")

# Classes whose mechanism gives NaN in the forward pass from one step to the next, without a sign in any logged number
# before: only a replay of the step with hooks tells them apart (first-nonfinite, first-bad-layer).
SUDDEN_NAN = (
    *("data_bad_content", "masked_softmax_nan", "norm_eps", "loss_domain_error", "token_or_embedding_mismatch"),
    *("label_mask_empty", "kernel_or_compiler_bug", "silent_hardware_corruption", "uninitialized_state"),
)
# From one step on other data come in, and no column of the log says which: new task, other order, wrong labels.
OTHER_DATA = ("data_distribution_shift", "data_order_shuffle", "data_bad_content")


@dataclass(frozen=True)
class Fault:
    """One injected fault. `onset` in steps; `symptoms` that are right names for what it shows."""

    plan: Plan
    class_: str
    onset: int | None  # None: it builds up, so that no single step is the right one
    symptoms: tuple[str, ...]
    looks_like: tuple[str, ...] = ()  # further classes that count as right


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
    "curriculum": BASE.with_(hooks={"batch": do.harder}, steps=700),
    "good-resume": BASE.with_(resume_at=300, resume=()),
    "all-logged": BASE.with_(extra=ALL, steps=400, hooks={"row": do.sensors}),
    "rank-clocks": BASE.with_(ranks=4, batch=32, steps=300, hooks={"row": lambda s, r: do.rank_times(s, r, 4)}),
}


def resumed(*lost: str, **changes: Any) -> Plan:
    """Step 299 is the last of the first job; the second goes on from the checkpoint of step 280."""
    return BASE.with_(resume_at=300, resume=lost, **changes)


def batch(hook: Any, **changes: Any) -> Plan:
    return BASE.with_(hooks={"batch": hook}, **changes)


# The optimizer's part: rates, schedules, settings that a configuration shows.
OPTIMIZATION: dict[str, Fault] = {
    "rate-absurd": Fault(
        BASE.with_(lr=3.0, warmup=0, clip=None, schedule="constant", optimizer="sgd"),
        "lr_too_high", None, ("early-explosion", "instant-nan", "plateau", "persistent-spike")),
    "rate-high-constant": Fault(
        BASE.with_(lr=0.3, warmup=0, schedule="constant", clip=None),
        "lr_too_high", 0, ("early-explosion", "plateau", "persistent-spike")),
    "rate-over-peak": Fault(  # 6e-1 where 6e-3 was meant, and no clipping: healthy until the ramp is too high
        BASE.with_(lr=0.6, warmup=300, clip=None, betas=(0.9, 0.95)),
        "lr_too_high", None, ("persistent-spike", "early-explosion", "slow-climb", "instant-nan")),
    "rate-over-peak-sgd": Fault(
        BASE.with_(lr=4.0, warmup=300, clip=None, optimizer="sgd", weight_decay=0.0),
        "lr_too_high", None, ("persistent-spike", "early-explosion", "slow-climb", "instant-nan")),
    "rate-hot-restart": Fault(
        BASE.with_(hooks={"lr": lambda step, lr: 0.2 if step >= 350 else lr}, clip=None),
        "lr_too_high", 350, ("persistent-spike", "transient-spike")),
    "rl-policy-collapses": Fault(
        BASE.with_(loss="reinforce", lr=0.3, clip=None, warmup=0, steps=400, config={"algorithm": "reinforce"}),
        "lr_too_high", None, ("loss-zero", "early-explosion", "plateau", "instant-nan")),
    "no-warm-up": Fault(
        BASE.with_(lr=0.05, warmup=0, clip=None, betas=(0.9, 0.999)),
        "warmup_missing", 0, ("early-explosion", "plateau", "transient-spike", "persistent-spike", "healthy")),
    "no-clipping-bad-batch": Fault(
        BASE.with_(clip=None, optimizer="sgd", lr=0.3, hooks={"loss": do.bursting(320, 60)}),
        "grad_clip_missing", 320, ("transient-spike", "persistent-spike", "instant-nan")),
    "clip-sees-scale": Fault(
        FP16.with_(optimizer="sgd", lr=0.15, clip_scaled=True), "grad_clip_broken", 0, ("plateau",)),
    "nothing-learned-rate-zero": Fault(
        BASE.with_(lr=0.0, schedule="constant"), "lr_schedule_wrong", 0, ("plateau",)),
    "rate-too-low": Fault(
        BASE.with_(lr=1e-6, schedule="constant"), "lr_schedule_wrong", 0, ("plateau",)),
    "rate-creeps-up": Fault(  # a schedule that grows ends in a rate that is too high: both names are right
        BASE.with_(hooks={"lr": lambda step, lr: lr * 1.025 ** max(0, step - 250)}, clip=None),
        "lr_schedule_wrong", None, ("slow-climb", "persistent-spike", "early-explosion"), ("lr_too_high",)),
    "rate-decays-early": Fault(
        BASE.with_(schedule="decay-early", lr=5e-4, steps=900),
        "lr_schedule_wrong", 250, ("plateau", "silent-degradation", "healthy")),
    "weight-decay-huge": Fault(BASE.with_(weight_decay=40.0), "weight_decay", 0, ("plateau", "slow-climb")),
    "eps-huge": Fault(BASE.with_(eps=1.0), "optimizer_eps_beta", 0, ("plateau",)),
    "batch-shrinks": Fault(
        BASE.with_(
            batch=32, lr=0.06, schedule="constant", clip=None,
            hooks={"batch": lambda s, x, y: (x[:1], y[:1]) if s >= 300 else (x, y),
                   "row": lambda s, r: {**r, "batch_size": 1 if s >= 300 else 32}}),
        "batch_lr_mismatch", 300, ("persistent-spike", "slow-climb", "transient-spike")),
    "gradient-dead": Fault(  # a gradient is there (of the positions); which parameters move is in no log
        BASE.with_(hooks={"model": do.frozen}, weight_decay=0.0),
        "setting_not_effective", 0, ("plateau",), ("init_scale", "data_bad_content", "model_code_bug")),
}  # fmt: skip

DATA: dict[str, Fault] = {
    "one-damaged-batch": Fault(
        batch(do.at(360, do.relabelled, 1)), "data_bad_content", 360, ("transient-spike",)),
    "damaged-batches": Fault(
        batch(do.every(90, 180, do.relabelled)), "data_bad_content", 270, ("transient-spike",)),
    "bad-samples-each-epoch": Fault(  # the same place of each epoch: the samples, or an order that brings them together
        batch(do.every(128, 0, do.relabelled, 70), order="fixed", data={"size": 2048}, steps=700, extra=("epoch",)),
        "data_bad_content", None, ("transient-spike",), ("data_order_shuffle",)),
    "shuffled-labels": Fault(  # labels that do not follow from the inputs: wrong, shifted, or the input gets lost
        batch(do.at(0, do.random_labels)), "data_bad_content", 0, ("plateau",),
        ("loss_mask_wrong", "model_code_bug")),
    "labels-go-wrong": Fault(
        batch(do.at(330, do.random_labels)), "data_bad_content", 330, ("persistent-spike",), OTHER_DATA),
    "no-label-in-batch": Fault(batch(do.at(280, do.masked, 1)), "label_mask_empty", 280, ("instant-nan",)),
    "nan-filtered-in-log": Fault(
        BASE.with_(hooks={"batch": do.at(280, do.masked, 1), "row": do.filtered}),
        "label_mask_empty", 280, ("loss-zero", "instant-nan")),
    "mask-covers-answer": Fault(
        BASE.with_(hooks={"batch": do.at(0, do.masked), "loss": do.zero_if_masked}),
        "label_mask_empty", 0, ("loss-zero",)),
    "mask-covers-answer-later": Fault(
        BASE.with_(hooks={"batch": do.at(250, do.masked), "loss": do.zero_if_masked}),
        "label_mask_empty", 250, ("loss-zero",)),
    "stage-change": Fault(
        batch(do.at(350, lambda x, y: ((x * 11 + 5) % VOCAB, (y * 11 + 5) % VOCAB))),
        "data_distribution_shift", 350, ("persistent-spike", "transient-spike"), OTHER_DATA),
    "mixture-drifts": Fault(
        batch(do.more_random(250, 1 / 700, 0.5)), "data_distribution_shift", 250, ("slow-climb",), OTHER_DATA),
    "sorted-by-difficulty": Fault(
        BASE.with_(order="sorted", data={"size": 9600, "hard_from": 6400}, steps=600),
        "data_order_shuffle", 400, ("persistent-spike",), OTHER_DATA),
    "one-bad-rank": Fault(
        BASE.with_(ranks=4, batch=32, hooks={"batch": do.bad_rank(300)}),
        "data_rank_mismatch", 300, ("persistent-spike",)),
}  # fmt: skip

NUMERICS_AND_MODEL: dict[str, Fault] = {
    "fp16-activations": Fault(
        FP16.with_(hooks={"state": do.overflow(200)}),
        "fp16_overflow", None, ("instant-nan", "persistent-spike", "slow-climb", "loss-zero")),
    "fp16-from-the-start": Fault(
        FP16.with_(shape=Shape(half="fp16", init=6.0)),
        "fp16_overflow", 0, ("instant-nan", "early-explosion", "plateau", "healthy")),
    "fp16-layer-grows": Fault(  # what grows is the cause, what it meets is the range of fp16: both are right
        FP16.with_(hooks={"state": do.scaled(do.last_mlp, 150, 1.03)}, extra=("layers",)),
        "activation_growth", None, ("instant-nan", "persistent-spike"), ("fp16_overflow",)),
    "logits-grow": Fault(
        BASE.with_(hooks={"state": do.scaled(do.head, 200, 1.02)}, extra=("logits",)),
        "activation_growth", None, ("slow-climb", "persistent-spike", "transient-spike", "early-explosion")),
    "embedding-bursts": Fault(  # without clipping a burst of any layer goes straight into the weights
        BASE.with_(
            hooks={"gradient": do.embedding_bursts(250, 41, 300.0)}, clip=None, optimizer="sgd", lr=0.15,
            extra=("embedding",)),
        "activation_growth", 287, ("persistent-spike", "transient-spike"), ("grad_clip_missing",)),
    "scale-collapse": Fault(
        FP16.with_(hooks={"gradient": do.endless(240)}),
        "loss_scaler_fault", 240, ("instant-nan", "plateau", "silent-degradation")),
    "log-of-zero": Fault(
        BASE.with_(hooks={"loss": do.log_of_zero}), "loss_domain_error", 250, ("instant-nan",)),
    "root-of-zero": Fault(
        BASE.with_(hooks={"loss": do.root_of_zero}), "loss_domain_error", 200, ("instant-nan",)),
    "fully-masked-row": Fault(
        BASE.with_(hooks={"each": do.nan_from(310)}), "masked_softmax_nan", 310, ("instant-nan",), SUDDEN_NAN),
    "nan-in-a-row": Fault(
        BASE.with_(hooks={"state": do.poison_row(260)}),
        "token_or_embedding_mismatch", 260, ("instant-nan",), SUDDEN_NAN),
    "pure-bf16-weights": Fault(
        BASE.with_(precision="bf16-pure", lr=2e-5, schedule="constant", steps=900),
        "low_precision_state", 0, ("plateau", "healthy")),
    "init-too-large": Fault(
        BASE.with_(shape=Shape(init=2.5)), "init_scale", 0, ("plateau", "early-explosion", "silent-degradation")),
    "label-in-sight": Fault(  # wrong from the first step, but no loss is implausible before it is low
        batch(lambda s, x, y: (x, x.clone()), shape=Shape(leak=True), steps=1200, data={"size": 512}),
        "model_code_bug", None, ("loss-zero", "silent-degradation"), ("loss_mask_wrong",)),
}  # fmt: skip

SYSTEM: dict[str, Fault] = {
    "silent-corruption": Fault(  # one wrong value that is learned away: data, memory or a race may have brought it
        BASE.with_(hooks={"state": do.flip(340, 900.0)}),
        "silent_hardware_corruption", 340, ("persistent-spike", "transient-spike"),
        ("data_bad_content", "gpu_device_fault", "comm_overlap_race")),
    "garbage-gradient": Fault(  # the norm tells of a wild gradient, not of who made it; nothing is there to clip it
        BASE.with_(hooks={"gradient": do.garbage_gradient(300)}, clip=None, optimizer="sgd", lr=0.1),
        "comm_overlap_race", 300, ("persistent-spike", "slow-climb", "transient-spike", "plateau", "instant-nan"),
        ("grad_clip_missing", "silent_hardware_corruption")),
    "one-rank-first-nan": Fault(  # one rank alone, once: its GPU or its samples
        BASE.with_(ranks=4, batch=32, hooks={"each": do.of_rank(4, 2, 300, float("nan"))}),
        "silent_hardware_corruption", 300, ("instant-nan",),
        ("data_rank_mismatch", "data_bad_content", "gpu_device_fault")),
    "slow-rank": Fault(
        BASE.with_(ranks=4, batch=32, hooks={"row": lambda s, r: do.rank_times(s, r, 4, 2, 250)}),
        "slow_or_hot_gpu", 250, ("throughput-drop",), ("host_or_input_stall",)),
    "input-stalls": Fault(
        BASE.with_(hooks={"row": lambda s, r: do.times(s, r, 300, 1.0, 0.4)}),
        "host_or_input_stall", 300, ("throughput-drop",)),
    "all-slower": Fault(  # without a sensor or a wait that was logged: network, host or GPU
        BASE.with_(hooks={"row": lambda s, r: do.times(s, r, 300, 1.8)}),
        "network_or_p2p_fault", 300, ("throughput-drop",), ("host_or_input_stall", "slow_or_hot_gpu")),
    "hot-gpu": Fault(
        BASE.with_(hooks={"row": lambda s, r: do.sensors(s, r, 320)}), "slow_or_hot_gpu", None, ("throughput-drop",)),
    "loss-counted-otherwise": Fault(
        BASE.with_(hooks={"row": lambda s, r: {**r, "loss": r["loss"] * (4 if s >= 300 else 1)}}),
        "metric_artifact", 300, ("persistent-spike", "resume-drift")),
    "loss-summed": Fault(
        BASE.with_(
            hooks={"loss": lambda s, logits, y, e: do.mean(logits, y, e) * 8},
            config={"gradient_accumulation_steps": 8}),
        "grad_accum_normalization", 0, ("early-explosion", "plateau", "silent-degradation", "healthy")),
    "eval-jumps": Fault(  # the evaluation has another path, another mode or other data than the training: D3-def-2
        BASE.with_(
            extra=("evaluation",), hooks={"evaluate": lambda s, x, y: (x, y.roll(1, 1)) if s >= 400 else (x, y)}),
        "metric_artifact", 400, ("silent-degradation",), ("batchnorm_statistics", "data_bad_content")),
}  # fmt: skip

RESUME: dict[str, Fault] = {
    "resume-without-moments": Fault(
        resumed("optimizer", lr=0.06, betas=(0.9, 0.999), clip=None, schedule="constant", warmup=200),
        "resume_optimizer_state", 280, ("resume-drift", "transient-spike", "persistent-spike")),
    "resume-schedule-restarts": Fault(
        resumed("schedule", lr=0.08, warmup=8, steps=500).with_(resume_at=440),
        "resume_scheduler_state", 420, ("resume-drift", "transient-spike", "persistent-spike", "slow-climb")),
    "resume-data-again": Fault(
        resumed("sampler", order="fixed", data={"size": 2048}, steps=560),
        "resume_data_state", 280, ("resume-drift",)),
    "resume-fresh-weights": Fault(
        resumed("weights", "optimizer"),
        "checkpoint_damaged", 280, ("resume-drift", "persistent-spike", "transient-spike")),
    "resume-part-damaged": Fault(
        resumed("part"), "checkpoint_damaged", 280, ("resume-drift", "persistent-spike", "transient-spike")),
    "resume-scaler-restarts": Fault(
        FP16.with_(resume_at=300, resume=("scaler",)), "resume_optimizer_state", 280, ("healthy", "resume-drift")),
    "resume-gradient-summed": Fault(
        resumed("world size", optimizer="sgd", lr=0.2, clip=None, config={"world_size": 4}),
        "grad_accum_normalization", 280, ("resume-drift", "persistent-spike", "transient-spike")),
}  # fmt: skip

FAULTS = OPTIMIZATION | DATA | NUMERICS_AND_MODEL | SYSTEM | RESUME
