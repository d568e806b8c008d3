"""Small sound configurations in the dialects that trainers are started with: (file name, text)."""

from __future__ import annotations

SOUND: dict[str, tuple[str, str]] = {
    "hf": (
        "args.yaml",
        """\
model_name_or_path: some-org/Base-7B
torch_dtype: bfloat16
bf16: true
learning_rate: 2.0e-05
lr_scheduler_type: cosine
warmup_ratio: 0.1
weight_decay: 0.0
max_grad_norm: 1.0
adam_beta2: 0.999
adam_epsilon: 1e-8
per_device_train_batch_size: 16
gradient_accumulation_steps: 1
max_steps: -1
num_train_epochs: 1
max_seq_length: 2048
eval_strategy: steps
save_strategy: steps
eval_steps: 100
save_steps: 100
save_total_limit: 1
logging_steps: 5
seed: 42
gradient_checkpointing: true
gradient_checkpointing_kwargs:
  use_reentrant: false
""",
    ),
    "hf dump": (
        "training_args.json",
        """\
{
  "do_train": false,
  "do_eval": true,
  "per_device_train_batch_size": 8,
  "gradient_accumulation_steps": 1,
  "learning_rate": 5e-05,
  "weight_decay": 0.0,
  "adam_beta2": 0.999,
  "adam_epsilon": 1e-08,
  "max_grad_norm": 1.0,
  "num_train_epochs": 3.0,
  "max_steps": -1,
  "lr_scheduler_type": "linear",
  "warmup_ratio": 0.0,
  "warmup_steps": 0,
  "logging_steps": 500,
  "logging_nan_inf_filter": true,
  "bf16": false,
  "fp16": true,
  "dataloader_num_workers": 0
}
""",
    ),
    "deepspeed": (
        "ds_config.json",
        """\
{
  "train_batch_size": 256,
  "train_micro_batch_size_per_gpu": 4,
  "gradient_accumulation_steps": 8,
  "gradient_clipping": 1.0,
  "fp16": {
    "enabled": true,
    "loss_scale": 0,
    "initial_scale_power": 16,
    "hysteresis": 2
  },
  "zero_optimization": {
    "stage": 3,
    "offload_param": {"device": "cpu"},
    "offload_optimizer": {"device": "cpu"},
    "sub_group_size": 1e9
  },
  "optimizer": {
    "type": "AdamW",
    "params": {
      "lr": 3e-5,
      "betas": [0.8, 0.999],
      "eps": 1e-8,
      "weight_decay": 3e-7
    }
  },
  "scheduler": {
    "type": "WarmupLR",
    "params": {"warmup_min_lr": 0, "warmup_max_lr": 3e-5, "warmup_num_steps": 500}
  }
}
""",
    ),
    "deepspeed auto": (
        "zero2.json",
        """\
{
  "bf16": {"enabled": "auto"},
  "optimizer": {"type": "AdamW", "params": {"lr": "auto", "eps": "auto"}},
  "zero_optimization": {"stage": 2, "offload_optimizer": {"device": "none"}},
  "gradient_clipping": "auto",
  "train_batch_size": "auto",
  "train_micro_batch_size_per_gpu": "auto"
}
""",
    ),
    "accelerate": (
        "accelerate.yaml",
        """\
compute_environment: LOCAL_MACHINE
distributed_type: DEEPSPEED
deepspeed_config:
  gradient_accumulation_steps: 4
  offload_optimizer_device: none
  zero3_init_flag: true
  zero_stage: 3
mixed_precision: bf16
num_machines: 1
num_processes: 8
""",
    ),
    "megatron": (
        "pretrain.sh",
        """\
#!/bin/bash
GPUS_PER_NODE=8
NNODES=${SLURM_NNODES:-16}
LR=1.2e-4
SEQ_LEN=2048
WORLD_SIZE=$(($GPUS_PER_NODE*$NNODES))
MODEL_ARGS=(
    --num-layers 32
    --hidden-size 4096   # 6.7B
    --num-attention-heads 32
    --seq-length $SEQ_LEN
    --max-position-embeddings $SEQ_LEN
)
TRAINING_ARGS="
    --micro-batch-size 1 \\
    --global-batch-size 1024 \\
    --train-iters 143000 \\
    --lr $LR --min-lr 1.2e-5 \\
    --lr-decay-style cosine \\
    --lr-decay-iters 130000 \\
    --lr-warmup-iters 1430 \\
    --clip-grad 1.0 --weight-decay 0.1 \\
    --adam-beta1 0.9 --adam-beta2 0.95 --adam-eps 1e-8 \\
    --fp16 \\
"
torchrun --nproc_per_node $GPUS_PER_NODE --nnodes $NNODES pretrain_gpt.py \\
    ${MODEL_ARGS[@]} $TRAINING_ARGS \\
    --tensor-model-parallel-size 8 --pipeline-model-parallel-size 2 \\
    --log-interval 100 --save-interval 10000 --save $OUT --load $OUT
""",
    ),
    "slurm": (
        "job.slurm",
        """\
#!/bin/bash
#SBATCH --nodes=4
#SBATCH --gres=gpu:8
ZERO=1
cat <<EOT > ds.json
{
  "train_micro_batch_size_per_gpu": 2,
  "train_batch_size": 2048,
  "gradient_clipping": 1.0,
  "zero_optimization": {"stage": $ZERO},
  "bf16": {"enabled": true}
}
EOT
export CMD=" pretrain_gpt.py \\
  --num-layers 24 --hidden-size 2048 --num-attention-heads 16 \\
  --seq-length 2048 --max-position-embeddings 2048 \\
  --train-samples 220_000_000 --lr-decay-samples 200_000_000 --lr-warmup-samples 183_105 \\
  --lr 3e-4 --min-lr 3e-5 --lr-decay-style cosine --bf16 --clip-grad 1.0 \\
  --deepspeed --deepspeed_config ds.json --zero-stage $ZERO"
srun bash -c "python -u $CMD" 2>&1 | tee log.txt
""",
    ),
    "nanogpt": (
        "train_gpt2.py",
        """\
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
""",
    ),
    "torchtitan": (
        "llama.toml",
        """\
[model]
name = "llama3"
flavor = "8B"

[optimizer]
name = "AdamW"
lr = 3e-4
eps = 1e-8

[lr_scheduler]
warmup_steps = 200

[training]
local_batch_size = 1
seq_len = 8192
max_norm = 1.0
steps = 1000

[parallelism]
data_parallel_shard_degree = -1
tensor_parallel_degree = 1

[checkpoint]
enable = false
interval = 500

[profiling]
warmup_steps = 3
""",
    ),
    "neox": (
        "6-7B.yml",
        """\
# parallelism, then the model
{
   "pipe-parallel-size": 1,
   "model-parallel-size": 2,
   "num-layers": 32,
   "hidden-size": 4096,
   "num-attention-heads": 32,
   "seq-length": 2048,
   "max-position-embeddings": 2048,
   "optimizer": {
     "type": "Adam",
     "params": {"lr": 0.00012, "betas": [0.9, 0.95], "eps": 1.0e-8, }
   },
   "min_lr": 0.000012,
   "zero_optimization": {"stage": 1, "overlap_comm": True},
   "train_micro_batch_size_per_gpu": 8,
   "gradient_accumulation_steps": 2,
   "gradient_clipping": 1.0,
   "weight-decay": 0.1,
   "fp16": {"enabled": true, "loss_scale": 0, "initial_scale_power": 12},
   "train-iters": 143000,
   "lr-decay-iters": 143000,
   "lr-decay-style": "cosine",
   "warmup": 0.01,   # a share
}
""",
    ),
    "axolotl": (
        "qlora.yml",
        """\
base_model: some-org/Base-7B-v0.1
load_in_4bit: true
adapter: qlora
lora_r: 32
lora_alpha: 16
sequence_len: 8192
gradient_accumulation_steps: 4
micro_batch_size: 2
num_epochs: 1
optimizer: adamw_bnb_8bit
lr_scheduler: cosine
learning_rate: 0.0002
bf16: auto
fp16:
warmup_steps: 10
weight_decay: 0.0
deepspeed:
""",
    ),
    "llamafactory": (
        "sft.yaml",
        """\
model_name_or_path: some-org/Base-8B-Instruct
stage: sft
do_train: true
finetuning_type: full
deepspeed: examples/ds_z3_config.json
cutoff_len: 2048
per_device_train_batch_size: 1
gradient_accumulation_steps: 2
learning_rate: 1.0e-5
num_train_epochs: 3.0
lr_scheduler_type: cosine
warmup_ratio: 0.1
bf16: true
ddp_timeout: 180000000
""",
    ),
    "olmo": (
        "OLMo-7B.yaml",
        """\
run_name: small-7B
seed: 6198
model:
  d_model: 4096
  n_heads: 32
  n_layers: 32
  max_sequence_length: 2048
  vocab_size: 50280
optimizer:
  name: adamw
  learning_rate: 3.0e-4
  weight_decay: 0.1
  eps: 1e-8
  betas:
  - 0.9
  - 0.95
scheduler:
  name: linear_with_warmup
  t_warmup: 5000
  alpha_f: 0.1
max_duration: 2e12T
global_train_batch_size: 2048
device_train_microbatch_size: 2
precision: amp_bf16
max_grad_norm: 1.0
load_path: null
eval_interval: ${save_interval}
save_interval: 1000
evaluators:
  - label: ppl
    data:
      num_workers: 0
""",
    ),
    "composer": (
        "mpt.yaml",
        """\
max_seq_len: 2048
global_seed: 17
model:
  name: mpt_causal_lm
  d_model: 4096
  n_heads: 32
  n_layers: 32
  max_seq_len: ${max_seq_len}
scheduler:
  name: cosine_with_warmup
  t_warmup: 100ba
  alpha_f: 0.1
optimizer:
  name: decoupled_adamw
  lr: 1.2e-4
  betas: [0.9, 0.95]
  eps: 1.0e-08
  weight_decay: 0.0
algorithms:
  gradient_clipping:
    clipping_type: norm
    clipping_threshold: 1.0
max_duration: 63900ba
global_train_batch_size: 1024
device_train_microbatch_size: 8
precision: amp_bf16
""",
    ),
    "fairseq": (
        "roberta.yaml",
        """\
# @package _group_
common:
  fp16: true
  log_interval: 200
task:
  _name: masked_lm
  data: ???
  tokens_per_sample: 512
criterion: masked_lm
dataset:
  batch_size: 16
optimizer:
  _name: adam
  weight_decay: 0.01
  adam_betas: (0.9,0.98)
  adam_eps: 1e-06
lr_scheduler:
  _name: polynomial_decay
  warmup_updates: 10000
optimization:
  clip_norm: 0
  lr: [0.0005]
  max_update: 125000
  update_freq: [16]
model:
  _name: roberta
  max_positions: 512
""",
    ),
    "nemo": (
        "megatron_gpt.yaml",
        """\
trainer:
  devices: 8
  num_nodes: 1
  precision: 16
  max_epochs: 1000
  max_steps: 100000
  gradient_clip_val: 1.0
  log_every_n_steps: 10
  enable_checkpointing: False
exp_manager:
  create_checkpoint_callback: True
model:
  micro_batch_size: 4
  global_batch_size: 8
  tensor_model_parallel_size: 4
  encoder_seq_length: 512
  max_position_embeddings: ${.encoder_seq_length}
  num_layers: 12
  hidden_size: 768
  num_attention_heads: 12
  resume_from_checkpoint: null
  data:
    seq_length: ${model.encoder_seq_length}
    data_prefix: ???
  optim:
    name: fused_adam
    lr: 2e-4
    weight_decay: 0.01
    betas:
    - 0.9
    - 0.98
    sched:
      name: CosineAnnealing
      warmup_steps: 500
      min_lr: 2e-5
""",
    ),
    "lightning": (
        "config.yaml",
        """\
seed_everything: 42
trainer:
  devices: 8
  precision: 16-mixed
  max_epochs: 90
  gradient_clip_val: 0.5
  callbacks:
  - class_path: lightning.pytorch.callbacks.ModelCheckpoint
    init_args:
      save_top_k: 3
optimizer:
  class_path: torch.optim.AdamW
  init_args:
    lr: 0.001
    weight_decay: 0.01
""",
    ),
    "litgpt": (
        "tinyllama.yaml",
        """\
model_name: tiny-1.1b
precision: bf16-mixed
initial_checkpoint_dir:
resume: false
train:
  global_batch_size: 512
  micro_batch_size: 4
  lr_warmup_steps: 2000
  max_tokens: 3000000000000
  max_steps:
  max_seq_length: 2048
  max_norm: 1.0
  min_lr: 4.0e-05
optimizer:
  class_path: torch.optim.AdamW
  init_args:
    lr: 4e-4
    weight_decay: 0.1
    betas:
      - 0.9
      - 0.95
""",
    ),
    "mmengine": (
        "faster_rcnn.py",
        """\
lr = 0.02
auto_scale_lr = dict(enable=False, base_batch_size=16)
optim_wrapper = dict(
    type='OptimWrapper',
    optimizer=dict(type='SGD', lr=lr, momentum=0.9, weight_decay=0.0001),
    clip_grad=None)
param_scheduler = [
    dict(type='LinearLR', start_factor=0.001, by_epoch=False, begin=0, end=500),
    dict(type='MultiStepLR', begin=0, end=12, by_epoch=True, milestones=[8, 11], gamma=0.1)
]
train_cfg = dict(type='EpochBasedTrainLoop', max_epochs=12, val_interval=1)
default_hooks = dict(checkpoint=dict(type='CheckpointHook', interval=1))
train_dataloader = dict(batch_size=2, num_workers=2)
""",
    ),
    "timm": (
        "args.yaml",
        """\
amp: true
batch_size: 256
clip_grad: null
epochs: 300
lr: 0.001
min_lr: 1.0e-05
model: deit_small_patch16_224
opt: adamw
opt_eps: 1.0e-08
sched: cosine
seed: 42
warmup_epochs: 5
warmup_lr: 1.0e-06
weight_decay: 0.05
smoothing: 0.1
""",
    ),
    "open_clip": (
        "clip.sh",
        """\
torchrun --nproc_per_node 8 -m open_clip_train.main \\
    --train-data '/data/{000..100}.tar' \\
    --lr "2.048e-3" --beta1 0.9 --beta2 0.95 \\
    --warmup 782 \\
    --wd 0.2 \\
    --batch-size 8192 \\
    --epochs=6 \\
    --precision 'amp_bf16' \\
    --imagenet-val '/data/val'
""",
    ),
    "diffusers": (
        "train.sh",
        """\
export MODEL_NAME="some-org/stable-diffusion-v1-4"
accelerate launch --mixed_precision="fp16"  train_text_to_image.py \\
  --pretrained_model_name_or_path=$MODEL_NAME \\
  --resolution=512 --center_crop --random_flip \\
  --train_batch_size=1 \\
  --gradient_accumulation_steps=4 \\
  --max_train_steps=15000 \\
  --learning_rate=1e-05 \\
  --max_grad_norm=1 \\
  --lr_scheduler="constant" --lr_warmup_steps=0
""",
    ),
    "verl": (
        "grpo.sh",
        """\
set -x
python3 -m verl.trainer.main_ppo \\
    algorithm.adv_estimator=grpo \\
    data.train_batch_size=1024 \\
    actor_rollout_ref.model.path=some-org/Base-7B-Instruct \\
    actor_rollout_ref.actor.optim.lr=1e-6 \\
    actor_rollout_ref.actor.kl_loss_coef=0.001 \\
    actor_rollout_ref.rollout.tensor_model_parallel_size=2 \\
    trainer.n_gpus_per_node=8 \\
    trainer.nnodes=1 \\
    trainer.total_epochs=15 $@
""",
    ),
    "maxtext": (
        "base.yml",
        """\
model_name: "default"
dtype: "bfloat16"
base_emb_dim: 2048
base_num_decoder_layers: 16
vocab_size: 32_000
per_device_batch_size: 12.0
steps: 150_001
learning_rate: 3.e-5
cosine_learning_rate_final_fraction: 0.1
warmup_steps_fraction: 0.1
learning_rate_schedule_steps: -1
max_target_length: 2048
gradient_clipping_threshold: 1.0
opt_type: "adamw"
adam_b1: 0.9
adam_b2: 0.95
adam_eps: 1.e-8
adam_weight_decay: 0.1
""",
    ),
    "levanter": (
        "gpt2.yaml",
        """\
model:
  type: gpt2
  hidden_dim: 768
  num_heads: 12
  num_layers: 12
  seq_len: 1024
trainer:
  mp: p=f32,c=bfloat16
  train_batch_size: 512
  num_train_steps: 20000
optimizer:
  learning_rate: 6E-4
  weight_decay: 0.1
  min_lr_ratio: 0.1
  warmup: 0.01
""",
    ),
    "nanotron": (
        "tiny.yaml",
        """\
model:
  dtype: bfloat16
  make_vocab_size_divisible_by: 1
  model_config:
    hidden_size: 1024
    max_position_embeddings: 2048
    num_attention_heads: 16
    num_hidden_layers: 24
    num_key_value_heads: 16
    vocab_size: 50257
optimizer:
  clip_grad: 1.0
  learning_rate_scheduler:
    learning_rate: 0.0003
    lr_decay_steps: 14000
    lr_decay_style: cosine
    lr_warmup_steps: 1000
    min_decay_lr: 1.0e-05
  optimizer_factory:
    adam_beta1: 0.9
    adam_beta2: 0.95
    adam_eps: 1.0e-08
    name: adamW
  weight_decay: 0.01
  zero_stage: 0
parallelism:
  dp: 2
  pp: 2
  tp: 2
tokens:
  batch_accumulation_per_replica: 4
  micro_batch_size: 8
  sequence_length: 2048
  train_steps: 15000
""",
    ),
    "torchtune": (
        "8B_full.yaml",
        """\
output_dir: /out/llama3_1_8b
model:
  _component_: torchtune.models.llama3_1.llama3_1_8b
checkpointer:
  _component_: torchtune.training.FullModelHFCheckpointer
  checkpoint_dir: /in/Base-8B-Instruct/
resume_from_checkpoint: False
seed: null
batch_size: 2
epochs: 1
optimizer:
  _component_: torch.optim.AdamW
  lr: 2e-5
  fused: True
clip_grad_norm: null
gradient_accumulation_steps: 1
dtype: bf16
output: ${output_dir}/logs
profiler:
  warmup_steps: 3
  wait_steps: 5
""",
    ),
    "swift": (
        "train.sh",
        """\
# 76GiB
CUDA_VISIBLE_DEVICES=0 \\
swift sft \\
    --model some-org/Base-7B-Instruct \\
    --train_type lora --lora_rank 8 \\
    --torch_dtype bfloat16 \\
    --num_train_epochs 1 \\
    --per_device_train_batch_size 1 \\
    --learning_rate 1e-4 \\
    --gradient_accumulation_steps 16 \\
    --save_total_limit 2 \\
    --warmup_ratio 0.05
""",
    ),
    "detectron2": (
        "mask_rcnn.yaml",
        """\
_BASE_: "../Base-RCNN-FPN.yaml"
MODEL:
  WEIGHTS: "detectron2://R-50.pkl"
  MASK_ON: True
SOLVER:
  IMS_PER_BATCH: 16
  BASE_LR: 0.02
  STEPS: (210000, 250000)
  MAX_ITER: 270000
""",
    ),
    "opennmt": (
        "transformer.yml",
        """\
seed: 3435
train_steps: 500000
warmup_steps: 8000
hidden_size: 512
layers: 6
optim: adam
adam_beta2: 0.998
decay_method: noam
learning_rate: 2.0
max_grad_norm: 0.0
batch_size: 4096
batch_type: tokens
""",
    ),
    "big_vision": (
        "vit.py",
        """\
import ml_collections as mlc


def get_config():
  config = mlc.ConfigDict()
  config.batch_size = 1024
  config.num_epochs = 90
  config.grad_clip_norm = 1.0
  config.optax_name = 'scale_by_adam'
  config.lr = 0.001
  config.wd = 0.0001
  config.schedule = dict(warmup_steps=10_000, decay_type='cosine')
  return config
""",
    ),
    "speechbrain": (
        "ctc.yaml",
        """\
seed: 1986
__set_seed: !apply:torch.manual_seed [!ref <seed>]
number_of_epochs: 1
lr: 0.9
batch_size: 6
precision: fp32
model_opt_class: !name:torch.optim.Adadelta
   lr: !ref <lr>
   rho: 0.95
   eps: 1.e-8
""",
    ),
    "torchvision": (
        "resnet.sh",
        """\
torchrun --nproc_per_node=8 train.py\\
    --model resnet50 --batch-size 128 --lr 0.5 --lr-scheduler cosineannealinglr --lr-warmup-epochs 5\\
    --epochs 600 --weight-decay 0.00002 --norm-weight-decay 0.0 --mixup-alpha 0.2
""",
    ),
    "ldm": (
        "latent.yaml",
        """\
model:
  base_learning_rate: 1.0e-06
  target: ldm.LatentDiffusion
  params:
    timesteps: 1000
    image_size: 32
data:
  params:
    batch_size: 48
    num_workers: 4
lightning:
  trainer:
    max_epochs: -1
""",
    ),
}
