"""Each limit of a relation between settings, a little below it and a little above: what is sound stays unremarked."""

from __future__ import annotations

from typing import Any

import pytest

from playbook.series import Origin, Setting
from playbook.workflow.preflight import RELATIONS
from playbook.workflow.preflight.recipe import Recipe, settings_of

LM = {"num_layers": 32, "hidden_size": 4096, "seq_length": 4096, "adam_beta1": 0.9}  # 6.4B parameters from scratch
BIG = {**LM, "global_batch_size": 1024}  # 4M tokens an update
SMALL_LM = {**LM, "global_batch_size": 64}  # 262k tokens an update
ADAM = {"optimizer": "adamw"}
BEST = {"load_best_model_at_end": True}


def states(relation: str, config: dict[str, Any]) -> list[str]:
    return [found.state for found in RELATIONS[relation](Recipe(settings_of(config, ())))]


# (relation, settings, what is said of them)
LIMITS: list[tuple[str, dict[str, Any], list[str]]] = [
    ("learning-rate", {**ADAM, "lr": 0.01}, ["ok"]),
    ("learning-rate", {**ADAM, "lr": 0.011}, ["bad"]),
    ("learning-rate", {"optimizer": "sgd", "lr": 10}, ["ok"]),
    ("learning-rate", {"optimizer": "sgd", "lr": 10.1}, ["bad"]),
    ("learning-rate", {"optimizer": "lion", "lr": 0.0031}, ["bad"]),
    ("learning-rate", {"lr": 50}, ["ok"]),
    ("learning-rate", {"lr": 51}, ["bad"]),
    ("learning-rate", {"lr": 0}, ["ok"]),
    ("learning-rate", {"lr": 1e-10}, ["bad"]),
    ("learning-rate", {"lr": -1e-4}, ["bad"]),
    ("learning-rate", {"lr": "3e--4"}, ["bad"]),
    ("learning-rate", {**LM, "lr": 8.9e-4}, ["ok"]),
    ("learning-rate", {**LM, "lr": 9e-4}, ["bad"]),
    ("learning-rate", {**LM, "lr": 9e-4, "use_mup": True}, ["ok"]),
    ("learning-rate", {**LM, "lr": 9e-4, "optimizer": "muon"}, ["ok"]),
    ("learning-rate", {**LM, "base_model": "x", "lr": 0.9e-4}, ["ok"]),
    ("learning-rate", {**LM, "base_model": "x", "lr": 1e-4}, ["warn"]),
    ("learning-rate", {**LM, "base_model": "x", "lr": 3e-4}, ["bad"]),
    ("learning-rate", {**BIG, "base_model": "x", "lr": 3e-4}, ["ok"]),  # so large a batch goes on with pre-training
    ("learning-rate", {**LM, "lora_r": 8, "lr": 9e-4}, ["ok"]),
    ("learning-rate", {**LM, "lora_r": 8, "lr": 1.1e-3}, ["warn"]),
    ("learning-rate", {**LM, "lora_r": 8, "lr": 1.6e-3}, ["bad"]),
    ("learning-rate", {**LM, "dpo_beta": 0.1, "lr": 9e-6}, ["ok"]),
    ("learning-rate", {**LM, "dpo_beta": 0.1, "lr": 2e-5}, ["warn"]),
    ("learning-rate", {**LM, "dpo_beta": 0.1, "lr": 6e-5}, ["bad"]),
    ("learning-rate", {"model_name_or_path": "a-1b", "dpo_beta": 0.1, "lr": 2e-5}, ["ok"]),  # smaller ones take more
    ("rate-floor", {"lr": 1e-3, "min_lr": 1e-3}, ["ok"]),
    ("rate-floor", {"lr": 1e-3, "min_lr": 1.1e-3}, ["bad"]),
    ("rate-floor", {"min_lr_ratio": 1.0}, []),
    ("rate-floor", {"min_lr_ratio": 1.5}, ["bad"]),
    ("warm-up-fits", {"max_steps": 1000, "warmup_steps": 500}, ["ok"]),
    ("warm-up-fits", {"max_steps": 1000, "warmup_steps": 501}, ["warn"]),
    ("warm-up-fits", {"max_steps": 90, "warmup_steps": 60}, ["ok"]),  # a trial run
    ("warm-up-fits", {"max_steps": 1000, "warmup_steps": 1001}, ["bad"]),
    ("warm-up-fits", {"epochs": 10, "warmup_epochs": 11}, ["bad"]),
    ("warm-up-fits", {"warmup_ratio": 0.5}, []),
    ("warm-up-fits", {"warmup_ratio": 0.6}, ["warn"]),
    ("warm-up-fits", {"warmup_ratio": 1.1}, ["bad"]),
    ("warm-up-there", {**BIG, "lr": 3e-4, "lr_scheduler": "cosine"}, ["bad"]),
    ("warm-up-there", {**BIG, "lr": 3e-4}, []),  # a schedule may be elsewhere
    ("warm-up-there", {**BIG, "lr": 3e-4, "lr_scheduler": "cosine", "warmup_steps": 100}, []),
    ("warm-up-there", {**BIG, "lr": 3e-4, "warmup_steps": 0}, ["bad"]),
    ("warm-up-there", {**SMALL_LM, "lr": 3e-4, "warmup_steps": 0}, []),
    ("warm-up-there", {**BIG, "base_model": "x", "warmup_steps": 0}, []),
    ("warm-up-there", {"global_batch_size": 4096, "warmup_steps": 0}, ["bad"]),
    ("warm-up-there", {"global_batch_size": 4095, "warmup_steps": 0}, []),
    ("schedule-fits", {"max_steps": 1000, "lr_decay_iters": 970, "min_lr": 0}, ["bad"]),
    ("schedule-fits", {"max_steps": 1000, "lr_decay_iters": 990, "min_lr": 0}, ["ok"]),
    ("schedule-fits", {"max_steps": 1000, "lr_decay_iters": 600, "min_lr": 1e-5}, ["ok"]),
    ("schedule-fits", {"max_steps": 1000, "lr_decay_iters": 490, "min_lr": 1e-5}, ["bad"]),
    ("schedule-fits", {"max_steps": 1000, "lr_decay_iters": 3000}, ["ok"]),
    ("schedule-fits", {"max_steps": 1000, "lr_decay_iters": 3001}, ["bad"]),
    ("second-moment", {"adam_beta2": 1.0}, ["bad"]),
    ("second-moment", {"adam_beta2": 0.49}, ["bad"]),
    ("second-moment", {"adam_beta2": 0.9999}, ["ok"]),
    ("second-moment", {"adam_beta2": 0.99999}, ["warn"]),
    ("second-moment", {"betas": "(0.9, 0.95)"}, ["ok"]),
    ("second-moment", {"betas": [0.9, 1.0]}, ["bad"]),
    ("second-moment", {**BIG, "adam_beta2": 0.999}, ["bad"]),
    ("second-moment", {**SMALL_LM, "adam_beta2": 0.999}, ["ok"]),
    ("second-moment", {**BIG, "adam_beta2": 0.999, "optimizer": "lion"}, ["ok"]),
    ("epsilon", {**ADAM, "adam_epsilon": 1e-8}, ["ok"]),
    ("epsilon", {**ADAM, "adam_epsilon": 0}, ["bad"]),
    ("epsilon", {**ADAM, "adam_epsilon": 1e-8, "precision": "16-true"}, ["bad"]),
    ("epsilon", {**ADAM, "adam_epsilon": 1e-6, "precision": "16-true"}, ["ok"]),
    ("epsilon", {**ADAM, "adam_epsilon": 9e-10, "fp16": True}, ["bad"]),
    ("epsilon", {**ADAM, "adam_epsilon": 9e-10, "bf16": True}, ["ok"]),
    ("epsilon", {**ADAM, "adam_epsilon": 2e-3}, ["bad"]),
    ("epsilon", {**ADAM, "adam_epsilon": 1e-3}, ["ok"]),
    ("epsilon", {"optimizer": "sgd", "optimizer.eps": 2e-3}, []),
    ("scaler", {"fp16": True, "use_grad_scaler": False}, ["bad"]),
    ("scaler", {"fp16": True, "use_grad_scaler": False, "loss_scale": 1}, ["bad"]),
    ("scaler", {"fp16": True, "use_grad_scaler": False, "loss_scale": 128}, ["warn"]),
    ("scaler", {"fp16": True, "loss_scale": 0}, []),
    ("scaler", {"bf16": True, "loss_scale": 1}, []),
    ("scaler", {"fp16": True, "torch_dtype": "bfloat16"}, ["bad"]),
    ("scaler", {"precision": "16-true"}, ["bad"]),
    ("weights-dtype", {"torch_dtype": "float16"}, ["bad"]),
    ("weights-dtype", {"torch_dtype": "float16", "lora_r": 8}, []),
    ("weights-dtype", {"torch_dtype": "float16", "architectures": ["x"]}, []),
    ("clipping", {**LM, "clip_grad": 0}, ["bad"]),
    ("clipping", {**LM, "clip_grad": 100}, ["ok"]),
    ("clipping", {**LM, "clip_grad": 101}, ["bad"]),
    ("clipping", {"clip_grad": 0}, []),
    ("clipping", {"clip_grad": -2}, ["bad"]),
    ("clipping", {"clip_grad": -1}, ["ok"]),
    ("clipping", {"max_grad_norm": 0, "per_device_train_batch_size": 8}, ["bad"]),
    ("clipping", {"max_grad_norm": 0, "per_device_train_batch_size": 8, "image_size": 224}, []),
    ("weight-decay", {**ADAM, "weight_decay": 1.0}, ["ok"]),
    ("weight-decay", {**ADAM, "weight_decay": 1.1}, ["bad"]),
    ("weight-decay", {"optimizer": "lion", "weight_decay": 1.1}, ["ok"]),
    ("weight-decay", {"optimizer": "sgd", "weight_decay": 0.02}, ["bad"]),
    ("weight-decay", {"optimizer": "sgd", "weight_decay": 0.01}, ["ok"]),
    ("weight-decay", {"weight_decay": -0.01}, ["bad"]),
    ("weight-decay", {"weight_decay_norm": 0.1}, ["warn"]),
    ("batch-product", {"micro_batch_size": 4, "global_batch_size": 30}, ["bad"]),
    ("batch-product", {"micro_batch_size": 4, "global_batch_size": 32}, ["ok"]),
    ("batch-product", {"micro_batch_size": 0, "global_batch_size": 32}, ["bad"]),
    ("batch-product", {"micro_batch_size": 4, "global_batch_size": 32, "world_size": 16}, ["bad"]),
    ("batch-product", {"micro_batch_size": 4, "global_batch_size": 32, "world_size": 16, "tp_size": 2}, ["ok"]),
    ("divides", {"tp_size": 4, "num_attention_heads": 30}, ["bad"]),
    ("divides", {"tp_size": 4, "num_attention_heads": 32}, ["ok"]),
    ("divides", {"tp_size": 4, "num_attention_heads": 32, "num_key_value_heads": 2}, ["ok"]),
    ("divides", {"tp_size": 4, "num_attention_heads": 32, "num_key_value_heads": 3}, ["bad"]),
    ("divides", {"pp_size": 4, "num_layers": 30}, ["bad"]),
    ("divides", {"pp_size": 4, "num_layers": 30, "pp_engine": "x"}, []),
    ("divides", {"hidden_size": 100, "num_attention_heads": 12}, ["bad"]),
    ("divides", {"hidden_size": 100, "num_attention_heads": 12, "head_dim": 64}, []),
    ("divides", {"a.hidden_size": 100, "b.num_attention_heads": 12}, []),
    ("vocabulary", {"tp_size": 4, "vocab_size": 50257}, ["bad"]),
    ("vocabulary", {"tp_size": 4, "vocab_size": 50304}, ["ok"]),
    ("vocabulary", {"tensor_model_parallel_size": 4, "vocab_size": 50257}, []),  # this framework pads
    ("vocabulary", {"tensor_model_parallel_size": 4, "padded_vocab_size": 50257}, ["bad"]),
    ("vocabulary", {"tp_size": 1, "vocab_size": 50257}, []),
    ("positions", {"seq_length": 2048, "max_position_embeddings": 2048}, ["ok"]),
    ("positions", {"seq_length": 2049, "max_position_embeddings": 2048}, ["bad"]),
    ("positions", {"seq_length": 2049, "max_position_embeddings": 2048, "rope_theta": 1e4}, ["warn"]),
    ("positions", {"seq_length": 2049, "max_position_embeddings": 2048, "rope_scaling.factor": 2.0}, []),
    ("positions", {"seq_length": 2049, "max_position_embeddings": 2048, "position_embedding_type": "alibi"}, []),
    ("positions", {"seq_length": 2049, "max_position_embeddings": 2048, "position_embedding_type": "rope"}, ["bad"]),
    ("zero-options", {"zero_stage": 4}, ["bad"]),
    ("zero-options", {"zero_stage": 3, "offload_param_device": "cpu"}, ["ok"]),
    ("zero-options", {"zero_stage": 2, "offload_param_device": "cpu"}, ["bad"]),
    ("zero-options", {"zero_stage": 2, "offload_optimizer_device": "cpu"}, ["ok"]),
    ("zero-options", {"zero_stage": 2, "offload_optimizer_device": "nvme"}, ["bad"]),
    ("zero-options", {"zero_stage": 0, "offload_optimizer_device": "cpu"}, ["bad"]),
    ("zero-options", {"zero_stage": 2, "pp_size": 2}, ["bad"]),
    ("zero-options", {"zero_stage": 1, "pp_size": 2}, ["ok"]),
    ("one-sharder", {"fsdp": "full_shard", "deepspeed": "ds.json"}, ["bad"]),
    ("one-sharder", {"fsdp": "", "deepspeed": "ds.json"}, []),
    ("one-sharder", {"fsdp": "full_shard", "deepspeed": False}, []),
    ("trains-something", {"do_train": False, "do_eval": True}, ["bad"]),
    ("trains-something", {"do_train": False}, []),
    ("trains-something", {"mode": "test"}, ["bad"]),
    ("trains-something", {"mode": "train"}, []),
    ("trains-something", {"eval_only": True}, ["bad"]),
    ("trains-something", {"num_train_epochs": 0}, ["bad"]),
    ("trains-something", {"num_train_epochs": 0, "max_steps": 100}, []),
    ("best-model", {**BEST, "eval_strategy": "no"}, ["bad"]),
    ("best-model", {**BEST, "eval_strategy": "epoch", "save_strategy": "steps"}, ["bad"]),
    ("best-model", {**BEST, "eval_strategy": "epoch", "save_strategy": "best"}, []),
    ("best-model", {**BEST, "eval_strategy": "steps", "eval_steps": 100, "save_steps": 200}, []),
    ("best-model", {**BEST, "eval_strategy": "steps", "eval_steps": 100, "save_steps": 150}, ["bad"]),
    ("saves-something", {"enable_checkpoint": False, "max_steps": 10_000}, ["warn"]),
    ("saves-something", {"enable_checkpoint": False, "max_steps": 9_999}, ["ok"]),
    ("saves-something", {"enable_checkpoint": True, "max_steps": 10_000}, []),
    ("set-twice", {"lr": 1}, []),
]  # fmt: skip


@pytest.mark.parametrize(
    ("relation", "config", "said"), LIMITS, ids=[f"{name}-{k}" for k, (name, *_) in enumerate(LIMITS)]
)
def test_a_limit_holds_on_both_sides(relation: str, config: dict[str, Any], said: list[str]) -> None:
    assert states(relation, config) == said


def test_every_relation_that_has_a_limit_is_tried_on_both_sides() -> None:
    quiet = {name for name, _, said in LIMITS if set(said) <= {"ok"}}
    loud = {name for name, _, said in LIMITS if set(said) - {"ok"}}
    elsewhere = {"set-twice", "two-owners", "misspelt", "one-half-precision"}  # tried in whole files
    assert set(RELATIONS) - elsewhere == quiet & loud


@pytest.mark.parametrize(
    ("config", "world"),
    [
        ({"world_size": 16}, 16),
        ({"nnodes": 4, "nproc_per_node": 8}, 32),
        ({"nproc_per_node": 8}, 8),
        ({"nnodes": 4}, None),
        ({"nnodes": "auto", "nproc_per_node": 8}, None),
        ({"world_size": "auto", "nproc_per_node": 2}, 2),
        ({}, None),
    ],
)
def test_the_processes_of_a_run(config: dict[str, Any], world: int | None) -> None:
    assert Recipe(settings_of(config, ())).world == world


@pytest.mark.parametrize(
    ("layout", "size"), [({}, 256), ({"tp_size": 4}, 64), ({"tp_size": 4, "pp_size": 2}, 32), ({"tp_size": 3}, None)]
)
def test_ranks_that_share_a_model_take_the_same_samples(layout: dict[str, int], size: int | None) -> None:
    product = {"per_device_train_batch_size": 4, "gradient_accumulation_steps": 4, "world_size": 16}
    batch = Recipe(settings_of({**product, **layout}, ())).global_batch
    assert (batch and batch[0]) == size


def written(*settings: tuple[str, Any, str, int], reader: str = "config") -> Recipe:
    """A recipe of (name, value, file, line)."""
    return Recipe(tuple(Setting(name, value, Origin(file, line, reader)) for name, value, file, line in settings))


def said(relation: str, recipe: Recipe) -> list[str]:
    return [found.text for found in RELATIONS[relation](recipe)]


def test_a_setting_stands_once_in_a_file() -> None:
    twice = (("lr", 1e-4, "a.yaml", 1), ("lr", 3e-4, "a.yaml", 9))
    assert said("set-twice", written(*twice)) == [
        "lr = 0.0003, lr = 0.0001 (line 1): set twice, one of them is not used"
    ]
    assert said("set-twice", written(*twice, reader="megatron")) == [], "a log prints them again after a resume"
    assert said("set-twice", written(("lr", 1e-4, "a.yaml", 1), ("lr", 3e-4, "b.yaml", 1))) == [], (
        "one overrides the other"
    )
    assert said("set-twice", written(("lr", 1e-4, "a.yaml", 1), ("lr", "0.0001", "a.yaml", 2))) == []
    assert said("set-twice", written(("color", 1, "a.yaml", 1), ("color", 2, "a.yaml", 2))) == [], "of no training"


@pytest.mark.parametrize(
    ("trainer", "engine", "fault"),
    [
        (("max_grad_norm", 1.0), ("gradient_clipping", 0.5), True),
        (("max_grad_norm", 1.0), ("gradient_clipping", 1.0), False),
        (("max_grad_norm", 1.0), ("gradient_clipping", "auto"), False),
        (("max_grad_norm", 0), ("gradient_clipping", 0.5), False),  # not set by the trainer
        (("warmup_steps", -1), ("scheduler.params.warmup_num_steps", 100), False),
        (("bf16", False), ("bf16.enabled", True), True),
        (("bf16", True), ("bf16.enabled", True), False),
        (("training_args.lr", 1e-4), ("deepspeed.optimizer.params.lr", 2e-4), True),
    ],
)
def test_trainer_and_engine_agree_or_leave_it_open(
    trainer: tuple[str, Any], engine: tuple[str, Any], fault: bool
) -> None:
    recipe = written((*trainer, "a.yaml", 1), (*engine, "ds.json", 2), ("zero_optimization.stage", 2, "ds.json", 3))
    assert bool(said("two-owners", recipe)) == fault


def test_one_half_precision_at_a_time() -> None:
    assert states("one-half-precision", {"fp16": True, "bf16": True}) == ["bad"]
    assert states("one-half-precision", {"fp16": True, "bf16": False}) == ["ok"]
    assert states("one-half-precision", {"fp16": False}) == []
    assert states("one-half-precision", {"precision": "bf16-mixed"}) == ["ok"]


def test_a_misspelt_name_is_told_once() -> None:
    recipe = written(
        ("learing_rate", 1, "a.yaml", 1), ("model.learing_rate", 2, "a.yaml", 2), ("learning_rate", 3, "a.yaml", 3)
    )
    assert said("misspelt", recipe) == ["learing_rate = 1: no trainer knows this name; learning_rate is one"]
