torchrun --nproc_per_node=8 train.py\
    --model resnet50 --batch-size 128 --lr 0.5 --lr-scheduler cosineannealinglr --lr-warmup-epochs 5\
    --epochs 600 --weight-decay 0.00002 --norm-weight-decay 0.0 --mixup-alpha 0.2
