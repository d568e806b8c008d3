"""Curves drawn for reading practice: each symptom, and eight causes that look alike at a glance, with seeded noise.

Every picture is made from the same healthy run (loss from ln(50,000) down to about 2) and one fault, so that what
differs is the fault. The figures of the faults follow the sources named beside them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import numpy as np

from playbook.workflow.learning.quiz_cards import Panel, Picture

POINTS = 600
EVERY = 10  # steps between two points
_START, _END = 10.82, 2.0  # ln(50,000), and where an ordinary run of a few thousand steps stands

Columns: TypeAlias = "dict[str, np.ndarray]"
Shape: TypeAlias = "Callable[[np.random.Generator, np.ndarray, Columns], None]"


def healthy(rng: np.random.Generator, steps: np.ndarray) -> Columns:
    """An ordinary run: loss with noise of a few hundredths, gradient norm near 1, warm-up and cosine."""
    last = float(steps[-1])
    loss = _END + (_START - _END) * np.exp(-steps / (0.09 * last)) - 0.25 * steps / last
    noise = rng.normal(0, 0.035, len(steps))
    norm = 0.9 + 2.5 * np.exp(-steps / (0.03 * last)) + np.abs(rng.normal(0, 0.08, len(steps)))
    warm = np.minimum(1.0, steps / (0.02 * last))
    rate = 3e-4 * warm * (0.1 + 0.45 * (1 + np.cos(np.pi * steps / (1.15 * last))))
    return {"loss": loss + noise, "grad_norm": norm, "lr": rate}


def _at(rng: np.random.Generator, low: float = 0.45, high: float = 0.75) -> int:
    """Index of the onset."""
    return int(rng.uniform(low, high) * POINTS)


def _instant_nan(rng: np.random.Generator, steps: np.ndarray, run: Columns) -> None:
    k = _at(rng)
    run["loss"][k:] = np.nan
    run["grad_norm"][k:] = np.nan


def _early_explosion(rng: np.random.Generator, steps: np.ndarray, run: Columns) -> None:
    k = _at(rng, 0.015, 0.03)
    n = POINTS - k
    run["loss"][k:] = run["loss"][k] * np.exp(np.minimum(np.arange(n) * 0.09, 7)) * rng.uniform(0.9, 1.1, n)
    run["grad_norm"][k:] = run["grad_norm"][k] * np.exp(np.minimum(np.arange(n) * 0.12, 9)) * rng.uniform(0.8, 1.2, n)


def _transient_spike(rng: np.random.Generator, steps: np.ndarray, run: Columns) -> None:
    """D3-def-1: three times the level and more, a few steps; back within 50 (D0-mat-2)."""
    k = _at(rng)
    run["loss"][k : k + 4] += rng.uniform(5, 7) * np.array([1.0, 0.5, 0.22, 0.08])
    run["grad_norm"][k : k + 3] *= np.array([11.0, 4.0, 2.0])


def _persistent_spike(rng: np.random.Generator, steps: np.ndarray, run: Columns) -> None:
    """D3-case: 1.62 to 8.73, some dozen steps at 4 to 6, then to 2 and never back."""
    k = _at(rng)
    n = np.arange(POINTS - k)
    run["loss"][k:] += 1.1 + 5.8 * np.exp(-n / 14) + rng.normal(0, 0.05, len(n))
    run["grad_norm"][k:] += 0.8 + 20 * np.exp(-n / 4)


def _slow_climb(rng: np.random.Generator, steps: np.ndarray, run: Columns) -> None:
    k = _at(rng, 0.35, 0.5)
    n = np.arange(POINTS - k)
    run["loss"][k:] += 1.3 * n / len(n)


def _plateau(rng: np.random.Generator, steps: np.ndarray, run: Columns) -> None:
    run["loss"][:] = _START + rng.normal(0, 0.02, POINTS)
    run["grad_norm"][:] = np.abs(rng.normal(0.05, 0.01, POINTS))


def _loss_zero(rng: np.random.Generator, steps: np.ndarray, run: Columns) -> None:
    """D1-flat-2: a mask over the answer gives exactly 0 and no gradient."""
    run["loss"][:] = 0.0
    run["grad_norm"][:] = 0.0


def _resume_drift(rng: np.random.Generator, steps: np.ndarray, run: Columns) -> None:
    k = _at(rng)
    _load(steps, run, k)
    n = np.arange(POINTS - k)
    run["loss"][k:] += 0.55 * np.exp(-n / 160) + 0.15


def _load(steps: np.ndarray, run: Columns, k: int) -> None:
    """A load at point k of a checkpoint that lies 300 steps back: the steps in between are logged twice."""
    back = 30
    steps[k:] -= back * EVERY
    for values in run.values():
        values[k:] = values[k - back : POINTS - back].copy()


def _silent(rng: np.random.Generator, steps: np.ndarray, run: Columns) -> None:
    """D3-def-2: training loss as ever, evaluation goes its own way."""
    k = _at(rng, 0.4, 0.55)
    n = np.arange(POINTS)
    apart = np.maximum(0, n - k) / (POINTS - k)
    run["eval_loss"] = run["loss"] + 0.08 + 1.6 * apart + rng.normal(0, 0.02, POINTS)


def _throughput(rng: np.random.Generator, steps: np.ndarray, run: Columns) -> None:
    k = _at(rng)
    speed = 410_000 + rng.normal(0, 3_000, POINTS)
    speed[k:] *= 0.62
    run["throughput"] = speed


def _hang(rng: np.random.Generator, steps: np.ndarray, run: Columns) -> None:
    k = _at(rng)
    for name in run:
        run[name] = run[name][:k]


def _healthy(rng: np.random.Generator, steps: np.ndarray, run: Columns) -> None:
    """The saw-tooth of a healthy loss scale, single outliers of the norm without any reaction of the loss."""
    run["loss_scale"] = 2.0 ** (15 + (np.arange(POINTS) // 100) % 2)
    run["grad_norm"][rng.choice(POINTS, 3, replace=False)] *= 9


def _overshoot(rng: np.random.Generator, steps: np.ndarray, run: Columns) -> None:
    """D3-case: norm 2.0 to 4.0 over 200 steps, 23.6 at the spike, the rate near its peak."""
    run["lr"][:] = 3e-4 * np.minimum(1.0, steps / (0.3 * steps[-1])) * (0.3 + 0.35 * (1 + np.cos(steps / steps[-1])))
    k = int(rng.uniform(0.34, 0.4) * POINTS)
    before = 20
    run["grad_norm"][k - before : k] = np.linspace(1.6, 3.6, before) + rng.normal(0, 0.08, before)
    n = np.arange(POINTS - k)
    run["loss"][k:] += 1.0 + 6.5 * np.exp(-n / 12)
    run["grad_norm"][k:] += 0.9 + 22 * np.exp(-n / 3)


def _fp16(rng: np.random.Generator, steps: np.ndarray, run: Columns) -> None:
    """D3-tab-2: the scale plunges first, the loss jumps a moment later."""
    k = _at(rng)
    run["loss_scale"] = np.full(POINTS, 2.0**16)
    run["loss_scale"][k - 6 :] = 2.0 ** np.maximum(3, 16 - 2 * (np.arange(POINTS - k + 6) + 1))
    n = np.arange(POINTS - k)
    run["loss"][k:] += 4.0 * np.exp(-n / 10) + 0.3


def _bad_batch(rng: np.random.Generator, steps: np.ndarray, run: Columns) -> None:
    """D3-tab-3: nothing before; one point stands out, and again when the same samples come round."""
    period = int(rng.uniform(0.27, 0.31) * POINTS)
    for k in range(int(0.3 * POINTS), POINTS, period):
        run["loss"][k] += 5.5
        run["grad_norm"][k] *= 3


def _no_warmup(rng: np.random.Generator, steps: np.ndarray, run: Columns) -> None:
    rate = 3e-4 * (0.1 + 0.45 * (1 + np.cos(np.pi * steps / (1.15 * steps[-1]))))
    run["lr"][:] = rate
    k = 8
    n = np.arange(POINTS - k)
    run["loss"][k:] = 7.3 + 4.5 * np.exp(-n / 8) + rng.normal(0, 0.05, len(n)) - 0.4 * n / len(n)
    run["grad_norm"][:k] *= np.linspace(1, 14, k)
    run["grad_norm"][k:] = 0.15 + 8 * np.exp(-n / 5) + np.abs(rng.normal(0, 0.02, len(n)))


def _scale_collapse(rng: np.random.Generator, steps: np.ndarray, run: Columns) -> None:
    """D0-num-5: halving after halving, and learning stops for want of gradients."""
    k = _at(rng, 0.3, 0.45)
    n = np.arange(POINTS - k)
    run["loss_scale"] = np.full(POINTS, 2.0**16)
    run["loss_scale"][k:] = 2.0 ** np.maximum(0, 16 - n // 3)
    run["loss"][k:] = run["loss"][k - 20 : k].mean() + rng.normal(0, 0.03, len(n))
    run["grad_norm"][k:] *= np.exp(-n / 25) + 0.02


def _schedule_lost(rng: np.random.Generator, steps: np.ndarray, run: Columns) -> None:
    """D2-res-3: after the load the rate begins its warm-up anew."""
    k = _at(rng, 0.5, 0.65)
    _load(steps, run, k)
    n = np.arange(POINTS - k)
    run["lr"][k:] = 3e-4 * np.minimum(1.0, n / 25)
    run["loss"][k:] += 0.5 * np.minimum(1.0, n / 40)
    run["grad_norm"][k:] += 0.6 * np.minimum(1.0, n / 30)


def _moments_lost(rng: np.random.Generator, steps: np.ndarray, run: Columns) -> None:
    """D2-res-4: rate and data go on, the moments start at zero; a bump that heals."""
    k = _at(rng, 0.5, 0.65)
    _load(steps, run, k)
    n = np.arange(POINTS - k)
    run["loss"][k:] += 1.4 * np.exp(-n / 45)
    run["grad_norm"][k:] += 3.5 * np.exp(-n / 12)


def _logit_growth(rng: np.random.Generator, steps: np.ndarray, run: Columns) -> None:
    k = _at(rng, 0.72, 0.8)
    run["attention_logit_max"] = 8 * np.exp(3.2 * np.arange(POINTS) / POINTS) * rng.uniform(0.97, 1.03, POINTS)
    n = np.arange(POINTS - k)
    run["loss"][k:] += 2.5 * n / len(n)
    run["grad_norm"][k:] += 6 * n / len(n)


SYMPTOM_SHAPES: dict[str, Shape] = {
    "instant-nan": _instant_nan,
    "early-explosion": _early_explosion,
    "transient-spike": _transient_spike,
    "persistent-spike": _persistent_spike,
    "slow-climb": _slow_climb,
    "plateau": _plateau,
    "loss-zero": _loss_zero,
    "resume-drift": _resume_drift,
    "silent-degradation": _silent,
    "throughput-drop": _throughput,
    "hang-or-crash": _hang,
    "healthy": _healthy,
}

# cause -> (picture, what there is to see in it)
CAUSE_SHAPES: dict[str, tuple[Shape, str]] = {
    "lr-overshoot-at-peak": (
        _overshoot,
        "The gradient norm doubles over some hundred steps while the learning rate stands at its peak; then the loss"
        " breaks out and comes back only in part.",
    ),
    "fp16-gradient-overflow": (
        _fp16,
        "The loss scale plunges first, the loss jumps a moment later; the gradient norm gave no warning.",
    ),
    "corrupt-samples": (
        _bad_batch,
        "Nothing leads up to it: single points stand out and fall back at once, again and again at the same distance,"
        " as when the same samples come round.",
    ),
    "warmup-missing": (
        _no_warmup,
        "The learning rate is at full height in the first step; within the first hundred steps the norm surges and"
        " the loss gets stuck high.",
    ),
    "loss-scale-collapse": (
        _scale_collapse,
        "The loss scale is halved again and again and never returns; gradients vanish and the loss stands still.",
    ),
    "schedule-not-restored": (
        _schedule_lost,
        "At the load the learning rate leaves its curve and warms up anew; loss and norm follow it up.",
    ),
    "optimizer-state-lost": (
        _moments_lost,
        "At the load the learning rate goes on as planned, yet loss and norm make a bump that heals over some hundred"
        " steps: the moments started from zero.",
    ),
    "attention-logit-growth": (
        _logit_growth,
        "The largest attention logit grows for thousands of steps; gradient norm and loss follow late.",
    ),
}

_PANELS = {"throughput-drop": ("loss", "throughput"), "silent-degradation": ("loss", "eval_loss")}
RESUMES = frozenset({"resume-drift", "schedule-not-restored", "optimizer-state-lost"})


def draw(name: str, seed: int) -> Picture:
    """The picture of a symptom or cause with one seed; the same numbers for the same seed."""
    shape = SYMPTOM_SHAPES.get(name) or CAUSE_SHAPES[name][0]
    rng = np.random.default_rng([seed, *name.encode()])
    steps = np.arange(1, POINTS + 1) * EVERY
    planned = int(steps[-1])
    run = healthy(rng, steps)
    shape(rng, steps, run)
    chosen = _PANELS.get(name) or tuple(run)
    if name in SYMPTOM_SHAPES and name not in _PANELS:
        chosen = tuple(m for m in run if m != "lr")
    panels = tuple(Panel(m, steps[: len(run[m])], run[m], planned) for m in chosen)
    return Picture(panels, f"{', '.join(chosen)}: 0 - {planned}")
