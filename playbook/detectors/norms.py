"""Norms of weights, logits, activations and updates, before the loss moves.

What it sees
    Up to the onset, or over the whole run without one: `weight-grows`, `logit-grows` (attention logits),
    `output-grows` (output logits), `activation-extreme` (one layer far above the others, or near the end of fp16),
    `update-large`, `update-tiny`, `embedding-share` (most of the gradient is in the embedding), `grad-before-loss`
    (the gradient norm rises at least 20 steps before the loss).
Why it matters
    Divergence is prepared long before it shows: logits and activations grow over thousands of steps, then the loss
    goes in one. What grows first names the place (D1-nan-3, D3-model-1, D2-mon-1).
Blind when
    None of these metrics was logged.
Easily mistaken for
    The growth of all norms in the first tenth of a healthy run; a weight norm under weight decay that settles
    slowly.
"""

from __future__ import annotations

import math

import numpy as np

from playbook.detectors import stats
from playbook.detectors.onset import Onset, onset_of, prior
from playbook.detectors.shared import Shared, answer, blind, finding
from playbook.detectors.stats.curve import Curve
from playbook.findings import Finding, Scan

NAME = "norms"
NEEDS = (
    (
        *("param_norm", "update_ratio", "activation_max", "attention_logit_max", "logit_norm"),
        *("embedding_grad_norm", "grad_norm"),
    ),
)
OPTIONAL = ("loss",)
KINDS = (
    *("weight-grows", "logit-grows", "output-grows", "activation-extreme", "update-large", "update-tiny"),
    *("embedding-share", "grad-before-loss"),
)

LEAST = 10  # rows
TREND = 0.7  # Kendall, of the last half
WEIGHT, WEIGHT_ALONE = math.log(1.3), math.log(4.0)  # growth in the last half, with and without an onset
LOGIT, LOGIT_ALONE = math.log(1.6), math.log(8.0)
ONE_HOT, RUNAWAY = math.log(1e3), math.log(20.0)  # of attention logits, and growth in the last half
FP16_NEAR = 3e4  # half of 65504 (D1-nan-1)
LAYER_TIMES = 20.0  # above the median layer
UPDATE_LARGE, UPDATE_TINY = 0.03, 1e-7  # |update| / |weight| a step; about 1e-3 is usual
SHARE = 0.8  # of the gradient norm
LEAD_STEPS = 20


def look(shared: Shared) -> Scan:
    if gap := shared.lacks(NEEDS):
        return blind(NAME, gap)
    begin = onset_of(shared)
    out: list[Finding] = []
    weight = shared.curve("param_norm")
    out += _grows(weight, begin, "weight-grows", WEIGHT if begin else WEIGHT_ALONE)
    for metric, kind in (("attention_logit_max", "logit-grows"), ("logit_norm", "output-grows")):
        out += _grows(shared.curve(metric), begin, kind, LOGIT if begin else LOGIT_ALONE)
    out += _activations(shared, begin)
    out += _updates(shared, begin)
    out += _embedding(shared, begin)
    if begin is not None:
        out += _gradient(shared, begin)
    return answer(NAME, out, "the norms that were logged keep their levels")


def _rows(curve: Curve | None, begin: Onset | None) -> np.ndarray:
    """Rows to look at: those before the onset, or all."""
    if curve is None:
        return np.zeros(0, dtype=np.int64)
    return prior(curve, begin) if begin is not None else np.flatnonzero(curve.finite)


def _grows(curve: Curve | None, begin: Onset | None, kind: str, least: float) -> list[Finding]:
    index = _rows(curve, begin)
    if curve is None or len(index) < LEAST:
        return []
    index = index[curve.values[index] > 0]
    if len(index) < LEAST:
        return []
    x = np.log(curve.values[index])
    half = x[len(x) // 2 :] if len(x) >= 2 * LEAST else x[len(x) // 4 :]
    blocks = stats.block_medians(half, max(1, len(half) // 24))
    growth = float(np.median(blocks[-2:]) - blocks[0])
    noise = stats.diff_sigma(blocks) if len(blocks) > 3 else 0.0
    if growth < max(least, 3.0 * noise) or stats.trend(blocks) < TREND:
        return []
    at = stats.hinge(stats.block_medians(x, max(1, len(x) // 48))) * max(1, len(x) // 48)
    row = int(index[min(at, len(index) - 1)])
    n = stats.number
    text = f"{curve.metric} grows from {n(math.exp(float(blocks[0])))} to {n(math.exp(float(blocks[-1])))}"
    text += f" up to step {int(curve.steps[index[-1]])}" + (", before the loss moves" if begin else "")
    # softmax over logits like these is one-hot: the loss need not have moved yet for it to be a fault
    runaway = kind == "logit-grows" and float(blocks[-1]) > ONE_HOT and growth > RUNAWAY
    sure = 0.8 if begin or runaway else 0.6
    numbers = {"times": math.exp(growth), "last": math.exp(float(blocks[-1]))}
    return [finding(NAME, kind, curve, row, text, sure, numbers=numbers)]


def _activations(shared: Shared, begin: Onset | None) -> list[Finding]:
    family = shared.family("activation_max")
    last: dict[str, tuple[float, int]] = {}
    for name, curve in family.items():
        index = _rows(curve, begin)
        if len(index):
            tail = np.abs(curve.values[index[-3:]])
            last[name] = (float(tail.max()), int(index[-1]))
    if not last:
        return []
    values = np.array([v for v, _ in last.values()])
    worst = max(last, key=lambda name: (last[name][0], name))
    value, row = last[worst]
    usual = float(np.median(values))
    apart = len(values) >= 4 and value > LAYER_TIMES * max(usual, 1e-12)
    if value < FP16_NEAR and not apart:
        return []
    text = f"{worst} reaches {stats.number(value)}"
    text += (
        f", {value / max(usual, 1e-12):.0f} times the median of {len(values)} layers"
        if apart
        else ", near the end of fp16 (65504)"
    )
    numbers = {"value": value, "median_layer": usual, "layers": float(len(values)), "one_layer": float(apart)}
    return [finding(NAME, "activation-extreme", family[worst], row, text, 0.8, numbers=numbers)]


def _updates(shared: Shared, begin: Onset | None) -> list[Finding]:
    curve = shared.curve("update_ratio")
    index = _rows(curve, begin)
    if curve is None or len(index) < 5:
        return []
    # the first tenth is the start of the run; the last rows count most
    v = np.abs(curve.values[index[len(index) // 10 :]])
    level = float(np.median(v[-max(5, len(v) // 5) :]))
    kind = "update-large" if level > UPDATE_LARGE else "update-tiny" if level < UPDATE_TINY else None
    if kind is None:
        return []
    text = f"update-to-weight ratio is {stats.number(level)}, about 0.001 is usual"
    row = int(index[-max(5, len(v) // 5) :][0])
    return [finding(NAME, kind, curve, row, text, 0.8, numbers={"ratio": level})]


def _embedding(shared: Shared, begin: Onset | None) -> list[Finding]:
    part, whole = shared.curve("embedding_grad_norm"), shared.curve("grad_norm")
    if part is None or whole is None:
        return []
    index = _rows(part, begin)[-64:]
    if len(index) < 5:
        return []
    _, i, j = np.intersect1d(part.steps[index], whole.steps, return_indices=True)
    below, above = part.values[index[i]], whole.values[j]
    fine = np.isfinite(below) & np.isfinite(above) & (above > 0)
    if int(fine.sum()) < 5:
        return []
    share = below[fine] / above[fine]
    level = float(np.median(share[-16:]))
    if level < SHARE:
        return []
    text = f"the embedding has {level:.0%} of the gradient norm"
    return [
        finding(NAME, "embedding-share", part, int(index[-min(16, len(index))]), text, 0.75, numbers={"share": level})
    ]


def _gradient(shared: Shared, begin: Onset) -> list[Finding]:
    grad = shared.curve("grad_norm")
    index = _rows(grad, begin)
    if grad is None or len(index) < 3 * LEAST:
        return []
    index = index[grad.values[index] > 0][-2048:]
    x = np.log(grad.values[index])
    if len(x) < 3 * LEAST:
        return []
    smooth = np.median(np.lib.stride_tricks.sliding_window_view(x, 5), axis=1)
    usual, noise = float(np.median(x[: len(x) // 2])), max(stats.mad_sigma(x[: len(x) // 2]), 0.02)
    high = smooth > usual + max(math.log(1.3), 1.5 * noise)
    if not high[-1]:
        return []
    begin_row = len(high) - int(np.argmin(high[::-1])) if not high.all() else 0
    row = int(index[begin_row + 2])
    lead = begin.step - int(grad.steps[row])
    if lead < LEAD_STEPS or len(high) - begin_row < 3:
        return []
    text = f"gradient norm is above its level from step {int(grad.steps[row])} on, {lead} steps before the loss moves"
    numbers = {"lead_steps": float(lead), "times": math.exp(float(smooth[-1]) - usual)}
    return [finding(NAME, "grad-before-loss", grad, row, text, 0.8, numbers=numbers)]
