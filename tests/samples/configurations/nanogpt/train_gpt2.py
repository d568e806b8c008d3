# runs on 8 GPUs
batch_size = 12
block_size = 1024
gradient_accumulation_steps = 5 * 8
n_layer, n_head = 12, 12
n_embd = 768
learning_rate = 6e-4
max_iters = 600000
lr_decay_iters = 600000
warmup_iters = 2000
min_lr = learning_rate / 10
weight_decay = 1e-1
grad_clip = 1.0
dtype = 'bfloat16'
