# 76GiB
CUDA_VISIBLE_DEVICES=0 \
swift sft \
    --model some-org/Base-7B-Instruct \
    --train_type lora --lora_rank 8 \
    --torch_dtype bfloat16 \
    --num_train_epochs 1 \
    --per_device_train_batch_size 1 \
    --learning_rate 1e-4 \
    --gradient_accumulation_steps 16 \
    --save_total_limit 2 \
    --warmup_ratio 0.05
