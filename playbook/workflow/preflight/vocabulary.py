"""Names of settings that are right although they look like a slip of another name."""

from __future__ import annotations

import re

WORDS = frozenset(
    re.findall(
        r"\w+",
        """
        batch_sizes clip_gradient clip_gradients clip_grads epoch eval_step eval_steps grad_clipping
        gradient_clip head_dim hidden_dim hidden_dims hidden_sizes learning_rates log_steps logging_step
        lr_decay lr_end lr_max lr_min lr_mult lr_scheduler lr_schedulers max_epoch max_grad max_len max_length
        max_norms max_seqlen max_step min_epochs min_iters min_length min_steps model_max_length n_heads
        n_layers num_epoch num_head num_heads num_iters num_layer num_steps num_worker optimizers param_dtype
        save_step schedulers train_epochs train_iter train_step train_steps warmup_epoch warmup_step
        weight_decays weights_decay
        content_length n_embed optimize scheduled train_sampler batchsize blocksize seqlen
        """,
    )
)
