"""What the dialects call a setting: one line a thing, the dotted ends of its names, the surest first."""

from __future__ import annotations


def words(text: str) -> tuple[str, ...]:
    return tuple(text.split())


NAMES: dict[str, tuple[str, ...]] = {
    "lr": words(
        """
        optimizer.params.lr optimizer.init_args.lr optim_wrapper.optimizer.lr optimizer.lr optim.lr
        optimizer.learning_rate optimization.lr learning_rate max_lr peak_lr solver.base_lr lr
        """
    ),
    "min_lr": words("min_lr min_decay_lr lr_scheduler.min_lr end_learning_rate optim.sched.min_lr"),
    "min_lr_ratio": words("min_lr_ratio alpha_f min_lr_factor min_lr_rate cosine_learning_rate_final_fraction"),
    "optimizer": words(
        """
        optimizer.type optimizer.name optimizer._name optimizer.class_path optimizer._component_
        optimizer._target_ optim_wrapper.optimizer.type optimizer_factory.name optim.name optim.optimizer
        opt_type optimizer optim opt optimizer_name optimizer_type
        """
    ),
    "beta2": words("adam_beta2 beta2 adam_b2 adamw_beta2"),
    "betas": words(
        """
        optimizer.params.betas optimizer.betas optim.betas adam_betas betas opt_betas
        optimizer.init_args.betas
        """
    ),
    "eps": words(
        """
        optimizer.params.eps optimizer.init_args.eps optimizer.eps optim.eps adam_epsilon adam_eps opt_eps
        optimizer.epsilon optim.epsilon
        """
    ),
    "weight_decay": words(
        """
        optimizer.params.weight_decay optimizer.init_args.weight_decay optimizer.weight_decay
        optim.weight_decay optim_wrapper.optimizer.weight_decay adam_weight_decay weight_decay wd
        """
    ),
    "clip": words(
        """
        max_grad_norm gradient_clipping clip_grad grad_clip clip_grad_norm gradient_clip_val clip_norm
        max_norm gradient_clipping_threshold gradient_clipping.clipping_threshold grad_clip_norm
        grad_norm_clip optim_wrapper.clip_grad.max_norm
        """
    ),
    "warmup_steps": words(
        """
        warmup_steps num_warmup_steps lr_warmup_iters lr_warmup_steps warmup_iters warmup_num_steps
        warmup_updates t_warmup
        """
    ),
    "warmup_share": words(
        """
        warmup_ratio lr_warmup_fraction warmup_steps_fraction warmup_fraction warmup_proportion pct_start
        lr_warmup_steps_ratio warmup
        """
    ),
    "warmup_samples": words("lr_warmup_samples"),
    "warmup_epochs": words("warmup_epochs lr_warmup_epochs"),
    "steps": words(
        """
        max_steps train_iters max_train_steps train.steps trainer.steps num_train_steps total_steps train_steps
        max_iters max_update max_iter training.steps total_training_steps max_steps_per_run max_duration steps
        num_training_steps
        """
    ),
    "samples": words("train_samples"),
    "epochs": words("num_train_epochs num_epochs max_epochs total_epochs max_epoch epochs"),
    "decay_steps": words(
        """
        lr_decay_iters learning_rate_scheduler.lr_decay_steps total_num_steps total_num_update
        learning_rate_schedule_steps
        """
    ),
    "decay_samples": words("lr_decay_samples"),
    "schedule": words(
        """
        lr_scheduler_type lr_decay_style lr_scheduler.name lr_scheduler._name scheduler.name scheduler.type
        lr_scheduler lr_schedule sched
        """
    ),
    "scheduler_lr": words("scheduler.params.warmup_max_lr"),
    "micro_batch": words(
        """
        train_micro_batch_size_per_gpu per_device_train_batch_size micro_batch_size
        device_train_microbatch_size micro_train_batch_size local_batch_size per_device_batch_size
        """
    ),
    "accumulation": words(
        """
        gradient_accumulation_steps accumulate_grad_batches grad_accum_steps accum_iter update_freq
        batch_accumulation_per_replica accum_freq
        """
    ),
    "global_batch": words("global_batch_size global_train_batch_size train_batch_size"),
    "seq_len": words(
        """
        seq_length seq_len max_seq_len max_seq_length sequence_length sequence_len cutoff_len
        max_sequence_length encoder_seq_length block_size tokens_per_sample max_target_length
        """
    ),
    "positions": words("max_position_embeddings max_positions n_positions max_source_positions n_ctx"),
    "layers": words("num_layers n_layers num_hidden_layers n_layer base_num_decoder_layers"),
    "hidden": words("hidden_size d_model n_embd hidden_dim base_emb_dim"),
    "heads": words("num_attention_heads n_heads n_head num_heads base_num_query_heads"),
    "kv_heads": words("num_key_value_heads num_query_groups n_kv_heads base_num_kv_heads"),
    "vocab": words("padded_vocab_size pad_vocab_size_to vocab_size"),
    "tp": words(
        """
        tensor_model_parallel_size tensor_parallel_size tensor_parallel_degree model_parallel_size
        parallelism.tp tp_size tp
        """
    ),
    "pp": words(
        """
        pipeline_model_parallel_size pipeline_parallel_size pipeline_parallel_degree pipe_parallel_size
        parallelism.pp pp_size pp
        """
    ),
    "cp": words("context_parallel_size context_parallel_degree cp_size"),
    "zero_stage": words("zero_optimization.stage zero_stage"),
    "loss_scale": words("fp16.loss_scale loss_scale"),
    "model": words(
        """
        model_name_or_path base_model model.name_or_path pretrained_model_name_or_path model.path model_name
        model.name model.flavor flavor model_size checkpoint_dir pretrain model._component_ model.class_path
        arch model_config_name model.model_name wandb_run_name run_name job.description description model
        """
    ),
}
# Frameworks that divide layers over stages by themselves.
UNEVEN_STAGES = words(
    """
    pp_partition_method decoder_first_pipeline_num_layers decoder_last_pipeline_num_layers pp_engine
    account_for_embedding_in_pipeline_split pipeline_model_parallel_layout pipeline_parallel_degree
    num_layers_per_virtual_pipeline_stage pipe_partition_method num_layers_in_first_pipeline_stage
    """
)
# Positions that reach beyond the table on purpose.
STRETCHED = words(
    """
    rope_scaling rope_scaling.type rope_scaling.factor rope_scaling.rope_type yarn_factor rope_factor alibi
    position_embedding_type rope_scaling_factor seq_len_interpolation_factor use_rope_scaling
    """
)
