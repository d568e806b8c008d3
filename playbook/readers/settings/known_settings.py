"""The names of settings by which a configuration of a training is known."""

from __future__ import annotations

import re

# Names that a training configuration has and a table of results has not.
KNOWN = frozenset(
    re.findall(
        r"\w+",
        """
        learning_rate lr max_lr min_lr base_lr peak_lr lr_scheduler lr_scheduler_type lr_decay_style
        warmup_steps warmup_ratio warmup_iters warmup_epochs lr_warmup_iters weight_decay adam_beta1 adam_beta2
        adam_epsilon adam_eps betas eps max_grad_norm clip_grad gradient_clipping gradient_clip_val clip_norm
        grad_clip optimizer optim optim_args scheduler batch_size train_batch_size eval_batch_size
        micro_batch_size global_batch_size train_micro_batch_size_per_gpu per_device_train_batch_size
        per_device_eval_batch_size gradient_accumulation_steps accumulate_grad_batches grad_accum_steps
        accum_iter max_steps train_iters total_steps num_train_epochs max_epochs num_epochs epochs steps fp16
        bf16 tf32 fp8 amp precision mixed_precision param_dtype reduce_dtype torch_dtype dtype loss_scale
        initial_scale_power seq_length seq_len max_seq_length max_seq_len max_position_embeddings block_size
        cutoff_len context_length hidden_size num_layers num_hidden_layers num_attention_heads n_layer n_head
        n_embd vocab_size model_type architectures intermediate_size rope_theta zero_optimization zero_stage
        offload_optimizer fsdp deepspeed ddp strategy num_nodes devices num_gpus world_size num_processes
        num_machines tensor_parallel_size tensor_model_parallel_size pipeline_parallel_size
        pipeline_model_parallel_size tensor_parallel_degree pipeline_parallel_degree data_parallel_shard_degree
        data_parallel_replicate_degree context_parallel_degree activation_checkpoint gradient_checkpointing
        compile attn_implementation flash_attn seed dataset data_path train_data dataset_path tokenizer
        tokenizer_path dataloader_num_workers num_workers save_steps eval_steps logging_steps save_interval
        checkpoint resume_from_checkpoint output_dir model_name_or_path finetuning_type lora_rank lora_alpha
        lora_r per_gpu_train_batch_size dropout num_experts num_local_experts distributed_type deepspeed_config
        fsdp_config gpu_count wall_clock_breakdown steps_per_print
        """,
    )
)
