"""Arguments of a fine-tuning, as a script builds them."""
import argparse
import os

from transformers import Trainer, TrainingArguments

parser = argparse.ArgumentParser()
parser.add_argument("--warmup-steps", type=int, default=100)
parser.add_argument("--data", default=os.environ["DATA"])
gpus = 8


class Config:
    seq_len: int = 4096
    dropout: float = 0.0


trainer = Trainer(
    model=load(),
    args=TrainingArguments(
        output_dir="out",
        learning_rate=2e-5,
        per_device_train_batch_size=64 // gpus,
        bf16=True,
        seed=int(os.environ.get("SEED", 0)),
    ),
)
