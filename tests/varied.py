"""Runs drawn at random: every kind of descent, noise, length, spacing and structure that logs have.

`noisy(seed)` varies curve and noise, `structured(seed)` what happens in the run (resumes, epochs, a batch that grows,
repeated data, rounding, holes, mixed rows): both are healthy, though a few in a thousand may look like a spike to
anybody. `climbing(seed)` is a slow climb.
"""

from __future__ import annotations

import numpy as np

from playbook.series import Run
from tests.runs import cosine, descent, grads, run, series, smooth


def noisy(seed: int) -> Run:
    rng = np.random.default_rng(10_000 + seed)
    n, spacing = int(np.exp(rng.uniform(np.log(25), np.log(8000)))), int(rng.choice([1, 1, 1, 5, 10, 50, 100, 500]))
    t = np.arange(n)
    high = float(np.exp(rng.uniform(0, 3)))
    low = high * rng.uniform(0.02, 0.6)
    base = {
        0: lambda: low + (high - low) * (1 + t / rng.uniform(2, n / 5 + 3)) ** -rng.uniform(0.3, 1.2),
        1: lambda: low + (high - low) * np.exp(-t / rng.uniform(3, n / 2 + 4)),
        2: lambda: high * (1 - 0.1 * t / n),
        3: lambda: low + (high - low) * np.exp(-t / rng.uniform(3, n / 4 + 4)) * (0.6 + 0.4 * np.cos(np.pi * t / n)),
    }[int(rng.integers(4))]()
    s = float(np.exp(rng.uniform(np.log(0.003), np.log(0.3))))
    e = {
        0: lambda: rng.normal(0, s, n),
        1: lambda: 0.6 * s * np.clip(rng.standard_t(3, n), -8, 8),
        2: lambda: rng.normal(0, 1.5 * s, n),
        3: lambda: smooth(rng, n, s, rng.uniform(0.3, 0.98)),
        4: lambda: np.where(rng.random(n) < 0.08, rng.normal(0, 3 * s, n), rng.normal(0, s, n)),  # some hard batches
        5: lambda: rng.normal(0, 1, n) * s * np.interp(t, [0, n / 3, n], rng.uniform(0.3, 2, 3)),
    }[int(rng.integers(6))]()
    loss = base * np.exp(e) * (10.0 ** rng.uniform(-4, 2) if rng.random() < 0.3 else 1.0)
    if rng.random() < 0.2:
        k = min(8, n)
        loss[1:k] *= 1 + rng.uniform(0, 1.5) * np.exp(-np.arange(k - 1) / 2.0)
    metrics = {"loss": loss}
    if rng.random() < 0.6:
        metrics["grad_norm"] = grads(rng, n, float(np.exp(rng.normal(0, 2))), rng.uniform(0.1, 0.6))
    if rng.random() < 0.6:
        metrics["lr"] = cosine(n, float(10 ** rng.uniform(-5, -1)))
    if rng.random() < 0.3:
        metrics["throughput"] = np.exp(rng.normal(8, rng.uniform(0.01, 0.3), n))
    return run(t * spacing + 1, metrics)


KINDS = (
    "resumes",
    "epochs",
    "ramp",
    "repeat",
    "irregular",
    "rewarm",
    "stable",
    "switch",
    "round",
    "twice",
    "mixed",
    "holes",
)


def structured(seed: int) -> Run:
    rng = np.random.default_rng(50_000 + seed)
    kind = KINDS[seed % len(KINDS)]
    n = int(np.exp(rng.uniform(np.log(150), np.log(6000))))
    t = np.arange(n)
    high, tau = rng.uniform(2, 12), rng.uniform(5, n / 5 + 6)
    low = high * rng.uniform(0.1, 0.6)
    base = low + (high - low) * (0.6 * np.exp(-t / tau) + 0.4 * (1 + t / tau) ** -0.5)
    s = float(np.exp(rng.uniform(np.log(0.005), np.log(0.12))))
    steps, e, lr = t, rng.normal(0, s, n), cosine(n)
    metrics: dict[str, np.ndarray] = {}
    if kind == "resumes":
        order: list[int] = []
        begin = 0
        for stop in sorted(rng.integers(30, n, int(rng.integers(1, 6))).tolist()):
            order += list(range(begin, stop))
            begin = max(0, stop - int(rng.integers(1, 60)))
        steps = np.array(order + list(range(begin, n)))
        base, lr, e = base[steps], lr[steps], rng.normal(0, s, len(steps))
    elif kind == "epochs":
        k = int(rng.integers(2, 6))
        drops = np.cumprod([1.0, *rng.uniform(0.4, 0.85, k - 1)])
        epoch = np.minimum(t * k // n, k - 1)
        base = base * drops[epoch] * (1 + 0.12 * ((t * k % n) / n) * (epoch > 0))
        if rng.random() < 0.5:
            metrics["epoch"] = t * k / n
    elif kind == "ramp":
        e = e * np.interp(t, [0, n], [3, 0.7])
        metrics["batch_size"] = np.where(t < n // 3, 256.0, np.where(t < 2 * n // 3, 512.0, 1024.0))
    elif kind == "repeat":
        period = max(40, n // 4)
        e = rng.normal(0, s, period)[t % period] + rng.normal(0, s / 5, n)
    elif kind == "irregular":
        steps = np.cumsum(rng.integers(1, 40, n))
    elif kind == "rewarm":
        half, warm = n // 2, max(5, n // 20)
        lr = np.where(t < half, lr, cosine(n, warm=warm)[np.maximum(t - half, 0)])
        base = base * (1 + 0.15 * np.exp(-(((t - half - warm) / (n / 15)) ** 2)) * (t > half))
    elif kind == "stable":
        lr = 3e-4 * np.minimum(1, np.minimum((t + 1) / 30, (n - t) / (n * 0.2)))
        base = base * np.where(t > 0.8 * n, 1 - 0.12 * (t - 0.8 * n) / (0.2 * n), 1)
    elif kind == "switch":
        at = int(n * rng.uniform(0.3, 0.8))
        base = base * np.where(t >= at, 1 + rng.uniform(-0.5, 0.25) * np.exp(-np.maximum(t - at, 0) / (n / 4)), 1)
    loss = base * np.exp(e)
    if kind == "round":
        loss = np.round(loss, int(rng.integers(1, 4)))
    elif kind == "twice":
        steps, lr, loss = np.repeat(t, 2), np.repeat(lr, 2), np.repeat(base, 2) * np.exp(rng.normal(0, s, 2 * n))
    elif kind == "mixed":
        order_ = np.argsort(t + rng.integers(0, 3, n) * 1.1, kind="stable")
        steps, loss, lr = steps[order_], loss[order_], lr[order_]
    elif kind == "holes":
        loss = np.where(t % int(rng.integers(2, 5)) == 0, loss, np.nan)
    metrics["loss"] = loss
    if rng.random() < 0.7:
        metrics["lr"] = lr
    if rng.random() < 0.5:
        metrics["grad_norm"] = grads(rng, len(loss))
    made = run(steps, metrics)
    if rng.random() < 0.3 and len(steps) == n:
        every = np.arange(20, n, max(10, n // 30))
        made.series["eval_loss", None] = series("eval_loss", steps[every], base[every] * 1.05)
    return made


def climbing(seed: int) -> tuple[Run, int, float]:
    """A slow climb at random: (run, step of the turn, how far the loss has risen at the end over its lowest level)."""
    rng = np.random.default_rng(seed)
    n = int(rng.choice([300, 600, 1500, 4000, 20000]))
    t = np.arange(n)
    slow = rng.uniform(0.1, 1.0) * np.exp(-t / (n * 0.6))
    loss = descent(n) if rng.random() < 0.5 else 1.8 + 2.5 * np.exp(-t / (n * rng.uniform(0.02, 0.2))) + slow
    at = int(n * rng.uniform(0.3, 0.75))
    since = np.clip((t - at) / (n - at), 0, None)
    loss = loss * np.exp(float(rng.choice([0.15, 0.25, 0.4, 0.8])) * since ** float(rng.choice([0.7, 1.0, 1.0, 1.5])))
    noise = np.exp(rng.normal(0, float(rng.choice([0.01, 0.02, 0.04, 0.08])), n))
    return run(t, {"loss": loss * noise}), at, float(loss[-1] / loss.min())
