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
    --micro-batch-size 1 \
    --global-batch-size 1024 \
    --train-iters 143000 \
    --lr $LR --min-lr 1.2e-5 \
    --lr-decay-style cosine \
    --lr-decay-iters 130000 \
    --lr-warmup-iters 1430 \
    --clip-grad 1.0 --weight-decay 0.1 \
    --adam-beta1 0.9 --adam-beta2 0.95 --adam-eps 1e-8 \
    --fp16 \
"
torchrun --nproc_per_node $GPUS_PER_NODE --nnodes $NNODES pretrain_gpt.py \
    ${MODEL_ARGS[@]} $TRAINING_ARGS \
    --tensor-model-parallel-size 8 --pipeline-model-parallel-size 2 \
    --log-interval 100 --save-interval 10000 --save $OUT --load $OUT
