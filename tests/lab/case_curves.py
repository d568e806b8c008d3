"""Curves of the two case studies that give figures but no log: writes their CSV files, the same bytes each time.

The figures are those of the source documents (D3-case, D0-case); what lies between them is noise around a smooth
line. `python tests/lab/case_curves.py [FOLDER]` writes into `knowledge/cases` unless a folder is named.
"""

from __future__ import annotations

import math
import sys
from pathlib import Path

import numpy as np

HERE = Path(__file__).resolve().parent
CASES = HERE.parents[1] / "knowledge" / "cases"
SEED = 13_500  # RandomState: its stream is frozen over numpy releases

# D3-case: peak rate, onset, losses and norms as told; the schedule's length and warm-up are the document's own example
# (100,000 steps, up to 2,000 of warm-up), since the case names neither.
PEAK_LR, WARMUP, TOTAL = 3e-4, 2_000, 100_000
FIRST, ONSET, LAST = 8_000, 13_500, 14_500
CLIMB = 200  # steps over which the gradient norm goes from 2.0 to 4.0
HIGH = 16  # "ten-odd" steps at 4 to 6

# D0-case: ten steps of climbing norm, then NaN. The document names no step, so these are our own.
NAN_FIRST, NAN_ONSET, NAN_LAST = 41_700, 42_000, 42_020
NAN_CLIMB = 10
OFF_SCALE = 500.0  # norm of the last finite step; the document says only that it leaves the scale

Row = tuple[float, ...]


def cosine_lr(step: int) -> float:
    """Learning rate of a cosine schedule to zero after linear warm-up."""
    if step < WARMUP:
        return PEAK_LR * step / WARMUP
    return PEAK_LR * 0.5 * (1 + math.cos(math.pi * (step - WARMUP) / (TOTAL - WARMUP)))


def lr_peak_hard_samples() -> list[Row]:
    """(step, loss, lr, grad_norm): every 10 steps, every step from 13,450 to 13,650."""
    noise = np.random.RandomState(SEED)
    steps = sorted({*range(FIRST, LAST + 1, 10), *range(ONSET - 50, ONSET + 151)})
    rows: list[Row] = []
    for step in steps:
        wobble, shake = noise.standard_normal(), noise.standard_normal()
        since = step - ONSET
        if since < 0:
            loss = 1.59 + 0.51 * math.exp(-(step - FIRST) / 1_400) + 0.012 * wobble
            norm = (2.0 + 2.0 * max(0.0, 1 + since / CLIMB)) * (1 + 0.05 * shake)
            if since == -1:
                loss, norm = 1.62, 4.0
        elif since == 0:
            loss, norm = 8.73, 23.6
        elif since <= HIGH:
            loss = float(np.clip(5.6 - 1.2 * since / HIGH + 0.3 * wobble, 4.05, 5.95))
            norm = (11.0 - 5.0 * since / HIGH) * (1 + 0.15 * shake)
        else:
            loss = 2.0 + 2.1 * math.exp(-(since - HIGH) / 60) + 0.02 * float(np.clip(wobble, -3, 3))
            norm = (2.6 + 3.0 * math.exp(-(since - HIGH) / 60)) * (1 + 0.06 * shake)
        rows.append((step, round(loss, 4), round(cosine_lr(step), 9), round(norm, 3)))
    return rows


def overlong_sample_nan() -> list[Row]:
    """(step, loss, grad_norm): every step; loss and norm are NaN from the onset on."""
    noise = np.random.RandomState(SEED)
    rows: list[Row] = []
    for step in range(NAN_FIRST, NAN_LAST + 1):
        wobble, shake = noise.standard_normal(), noise.standard_normal()
        before = NAN_ONSET - step
        if before <= 0:
            rows.append((step, math.nan, math.nan))
            continue
        loss = 2.14 + 0.015 * wobble
        climb = max(0, NAN_CLIMB + 1 - before) / NAN_CLIMB  # 0.1 .. 1 over the ten steps before
        norm = (0.9 + 5.0 * climb**2) * (1 + 0.05 * shake)
        rows.append((step, round(loss, 4), OFF_SCALE if before == 1 else round(norm, 3)))
    return rows


CURVES = {
    "lr-peak-hard-samples-7b.csv": ("step,loss,lr,grad_norm", lr_peak_hard_samples),
    "overlong-sample-nan-1000gpu.csv": ("step,loss,grad_norm", overlong_sample_nan),
}


def text(name: str) -> str:
    """The whole CSV file of that name."""
    header, make = CURVES[name]
    return "\n".join([header, *(",".join(f"{value:.9g}" for value in row) for row in make())]) + "\n"


def main(folder: Path) -> None:
    for name in CURVES:
        (folder / name).write_text(text(name), "utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else CASES)
