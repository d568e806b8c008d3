"""Train all runs of the lab and store them: `python -m tests.lab.make` with torch installed (the product needs none).

    python -m venv /some/where && /some/where/bin/pip install torch numpy
    /some/where/bin/python -m tests.lab.make            # all; names of families make only those anew
    /some/where/bin/python -m tests.lab.make --configs  # write the config.json and the truth of all, train none

Each run becomes `runs/<healthy|faulty>/<name>-<seed>/metrics.csv.gz` with its `config.json`; the truth of the faulty
ones is in `runs/truth.json`. Numbers are rounded to six digits and archives carry no time, so that a run made twice on
one machine gives the same bytes.
"""

from __future__ import annotations

import csv
import gzip
import io
import json
import math
import sys
from pathlib import Path
from typing import Any

from tests.lab.faults import FAULTS, HEALTHY
from tests.lab.model import VOCAB
from tests.lab.trainer import Plan, train

RUNS = Path(__file__).parent / "runs"
SEEDS = (1, 2, 3)


def config_of(plan: Plan) -> dict[str, Any]:
    """What a user would have at hand: the settings, in the words of the common trainers."""
    return {
        "learning_rate": plan.lr,
        "warmup_steps": plan.warmup,
        "max_steps": plan.steps,
        "lr_scheduler_type": plan.schedule,
        "per_device_train_batch_size": plan.batch,
        "optim": plan.optimizer,
        "adam_beta2": plan.betas[1],
        "vocab_size": VOCAB,
        "world_size": plan.ranks or 1,
        "adam_epsilon": plan.eps,
        "weight_decay": plan.weight_decay,
        "max_grad_norm": plan.clip or 0.0,
        "fp16": plan.precision == "fp16",
        "bf16": plan.precision.startswith("bf16"),
        **plan.config,
    }


def configure(folder: Path, plan: Plan) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text(json.dumps(config_of(plan), indent=1) + "\n")


def write(folder: Path, plan: Plan, seed: int) -> None:
    rows = train(plan, seed)
    names = list(dict.fromkeys(name for row in rows for name in row))
    text = io.StringIO()
    out = csv.writer(text, lineterminator="\n")
    out.writerow(names)
    for row in rows:
        out.writerow([_number(row.get(name)) for name in names])
    configure(folder, plan)
    with (folder / "metrics.csv.gz").open("wb") as raw, gzip.GzipFile("", "wb", 9, raw, mtime=0) as packed:
        packed.write(text.getvalue().encode())


def _number(value: float | None) -> str:
    if value is None:
        return ""
    if not math.isfinite(value):
        return "nan" if value != value else "inf" if value > 0 else "-inf"
    return f"{value:.6g}"


def main(only: list[str]) -> None:
    truth = {}
    plans = {("healthy", name): plan for name, plan in HEALTHY.items()}
    plans |= {("faulty", name): fault.plan for name, fault in FAULTS.items()}
    for (kind, name), plan in plans.items():
        for seed in SEEDS:
            folder = RUNS / kind / f"{name}-{seed}"
            if only == ["--configs"]:
                configure(folder, plan)
            elif not only or name in only:
                print(folder.name, file=sys.stderr)
                write(folder, plan, seed)
    for name, fault in FAULTS.items():
        for seed in SEEDS:
            truth[f"{name}-{seed}"] = {
                "class": fault.class_,
                "looks_like": list(fault.looks_like),
                "onset": fault.onset,
                "symptoms": list(fault.symptoms),
                "steps": fault.plan.steps,
            }
    (RUNS / "truth.json").write_text(json.dumps(truth, indent=1, sort_keys=True) + "\n")


if __name__ == "__main__":
    main(sys.argv[1:])
