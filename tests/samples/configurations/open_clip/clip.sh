torchrun --nproc_per_node 8 -m open_clip_train.main \
    --train-data '/data/{000..100}.tar' \
    --lr "2.048e-3" --beta1 0.9 --beta2 0.95 \
    --warmup 782 \
    --wd 0.2 \
    --batch-size 8192 \
    --epochs=6 \
    --precision 'amp_bf16' \
    --imagenet-val '/data/val'
