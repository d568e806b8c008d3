"""What tells the kind of a training from its configuration: one entry a kind, by names that only such a run sets and by
what other names say."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from playbook.workflow.preflight.names import words


@dataclass(frozen=True, slots=True)
class Mark:
    """Marks of one kind of training; any of them is enough.

    named   settings that only such a run has, whatever they say
    on      switches that are on
    said    {setting: words}, one of which is its whole value
    holds   {setting: words}, one of which is a part of its value
    """

    named: tuple[str, ...] = ()
    on: tuple[str, ...] = ()
    said: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    holds: Mapping[str, tuple[str, ...]] = field(default_factory=dict)


_TUNERS = words("lora adapter ia3 dora freeze prompt prefix")
_POLICY = words("ppo dpo grpo kto rm orpo")

KINDS: dict[str, Mark] = {
    # Reinforcement learning and preferences.
    "policy": Mark(
        named=words("""
            adv_estimator num_generations ppo_epochs kl_loss_coef pref_beta rlhf_type dpo_beta
        """),
        said={"stage": _POLICY},
    ),
    # Only a part of the weights is trained.
    "adapter": Mark(
        on=words("""
            use_peft use_lora lora_enable load_in_4bit load_in_8bit tune_mm_mlp_adapter freeze_backbone
            freeze_llm freeze_language_model freeze_base_model
        """),
        holds={
            **dict.fromkeys(("adapter", "finetuning_type", "train_type", "tuner_type", "peft_type"), _TUNERS),
            "model": ("lora",),
        },
    ),
    # Images: other optimizers, other rates, and no clipping by habit.
    "images": Mark(
        named=words("""
            image_size img_size resolution input_size crop_size mixup smoothing drop_path warmup_lr
            backbone.type mask_ratio image_folder vision_tower imagenet_val center_crop random_flip aa
            data_preprocessor.type blr zeroshot_frequency
        """),
    ),
    # An optimizer of the Adam kind: its moments are named, or the trainer takes it unless another is said.
    "adam": Mark(
        named=words("""
            num_train_epochs lr_warmup_steps max_train_steps adam_beta1 adam_epsilon adam_eps
            per_device_train_batch_size lr_decay_style micro_batch_size
        """),
    ),
    # Pre-training that goes on from the weights of another.
    "continued": Mark(said={"stage": ("pt", "pretrain")}),
    # Tuning of what was trained, by the name of its stage.
    "tuning": Mark(said={"stage": ("sft", *_POLICY)}),
    # No decoder of language: losses and rates are others.
    "encoder": Mark(
        holds=dict.fromkeys(
            ("model", "task", "criterion"), words("bert masked electra deberta wav2vec clip whisper t5")
        ),
    ),
    # The configuration of a model: its dtype only says how the weights are stored.
    "stored": Mark(named=words("architectures transformers_version _name_or_path hidden_act initializer_range")),
}

# Where a run says what weights it starts from, with the words that mean none.
START_FROM = words(
    """
    model_name_or_path base_model pretrained_model_name_or_path checkpoint_dir pretrain initialize_from_hf
    restore_from_path load_path resume_from_checkpoint model.path load_from initial_checkpoint_dir
    finetune_from_model finetune resume pretrained resume_checkpoint_path load_parameters_path
    pretrained_checkpoint weights rlhf_type
    """
)
FROM_SCRATCH = words("pt pretrain scratch")
