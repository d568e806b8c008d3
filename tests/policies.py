"""Reinforcement learning made by hand: reward, KL and entropy of healthy policies and of ones that fall apart."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from playbook.series import Run
from tests.runs import run, smooth

Rng = np.random.Generator


def _logistic(n: int, low: float, high: float, at: float = 0.3, width: float = 0.08) -> np.ndarray:
    t = np.arange(n) / n
    return low + (high - low) / (1 + np.exp(-(t - at) / width))


def _loss(rng: Rng, n: int) -> np.ndarray:
    return rng.normal(0.0, 0.03, n)


def control(rng: Rng, n: int) -> dict[str, np.ndarray]:
    """PPO on a simple task: up to 500, dips that are learned away, an entropy that sinks by half."""
    reward = _logistic(n, 20, 490) + rng.normal(0, 12, n)
    for at in rng.integers(n // 3, n - n // 6, 3):
        width = int(rng.integers(2, max(4, n // 20)))
        reward[at : at + width] -= rng.uniform(60, 250)
    kl = 0.008 * np.exp(rng.normal(0, 0.5, n))
    return {"reward": np.minimum(reward, 500), "kl": kl, "entropy": 0.69 - 0.3 * np.arange(n) / n}


def group_relative(rng: Rng, n: int) -> dict[str, np.ndarray]:
    """GRPO on a language model: KL grows from zero, entropy sinks to a tenth, the reward is noisy."""
    t = np.arange(n) / n
    reward = 0.2 + 0.5 * (1 - np.exp(-3 * t)) + rng.normal(0, 0.08, n)
    kl = (0.0005 + 0.2 * t**1.5) * np.exp(rng.normal(0, 0.3, n))
    entropy = 0.6 * np.exp(-2.3 * t) * np.exp(rng.normal(0, 0.1, n))
    return {"reward": reward, "kl": kl, "entropy": entropy}


def off_policy(rng: Rng, n: int) -> dict[str, np.ndarray]:
    """SAC: swings of half the level over tens of rows, to the end."""
    swing = 1.0 + smooth(rng, n, 0.35, 0.9)
    return {"reward": _logistic(n, 0, 3000) * swing, "entropy": np.abs(2 + rng.normal(0, 0.1, n))}


def mean_of_episodes(rng: Rng, n: int) -> dict[str, np.ndarray]:
    """A running mean of returns that hardly learns: neighbours hang together."""
    return {"reward": 100 + smooth(rng, n, 15.0, 0.97), "kl": 0.01 * np.exp(rng.normal(0, 0.4, n))}


def stages(rng: Rng, n: int) -> dict[str, np.ndarray]:
    """Harder tasks twice: the reward falls by half and is learned again."""
    t = np.arange(n) % (n // 3)
    reward = 0.35 + 0.4 * (1 - np.exp(-t / (n / 12))) + rng.normal(0, 0.04, n)
    return {"reward": reward, "kl": 0.02 * np.exp(rng.normal(0, 0.4, n))}


def negative(rng: Rng, n: int) -> dict[str, np.ndarray]:
    reward = _logistic(n, -1200, -150, 0.2) + rng.normal(0, 60, n)
    return {"reward": reward, "kl": 0.01 * np.exp(rng.normal(0, 1.0, n)), "entropy": -2.8 + 1.8 * np.arange(n) / n}


def adaptive(rng: Rng, n: int) -> dict[str, np.ndarray]:
    """PPO with a KL target of 6: from zero up to it in a fifth of the run."""
    t = np.arange(n) / n
    kl = 6 * (1 - np.exp(-t / 0.06)) * np.exp(rng.normal(0, 0.15, n))
    return {"reward": -0.5 + 2 * t + rng.normal(0, 0.3, n), "kl": kl, "entropy": 60 - 20 * t + rng.normal(0, 3, n)}


def spikes_of_kl(rng: Rng, n: int) -> dict[str, np.ndarray]:
    kl = 0.05 * np.exp(rng.normal(0, 0.4, n))
    kl[rng.integers(n // 5, n, 6)] *= rng.uniform(50, 4000, 6)
    return {"reward": _logistic(n, 0.1, 0.6) + rng.normal(0, 0.06, n), "kl": kl}


def hopeless(rng: Rng, n: int) -> dict[str, np.ndarray]:
    """Nothing is learned: a reward of noise around zero."""
    return {"reward": rng.normal(0, 1, n), "kl": 0.004 * np.exp(rng.normal(0, 0.4, n))}


def forgets_a_part(rng: Rng, n: int) -> dict[str, np.ndarray]:
    """The best is behind: it ends at two thirds of what was learned, as many runs do."""
    t = np.arange(n) / n
    top = _logistic(n, 0, 300, 0.2, 0.05)
    return {"reward": top * (1 - 0.35 * np.clip((t - 0.5) / 0.3, 0, 1)) + rng.normal(0, 25, n)}


def sparse_success(rng: Rng, n: int) -> dict[str, np.ndarray]:
    """Success or not of few episodes a row."""
    p = _logistic(n, 0.02, 0.7, 0.4, 0.1)
    return {"reward": rng.binomial(8, p) / 8.0, "kl": 0.01 * np.exp(rng.normal(0, 0.6, n))}


HEALTHY: dict[str, Callable[[Rng, int], dict[str, np.ndarray]]] = {
    f.__name__: f
    for f in (
        *(control, group_relative, off_policy, mean_of_episodes, stages, negative, adaptive, spikes_of_kl),
        *(hopeless, forgets_a_part, sparse_success),
    )
}


def _breaks(base: str, what: str, share: float = 0.6) -> Callable[[Rng, int], tuple[dict[str, np.ndarray], int]]:
    def make(rng: Rng, n: int) -> tuple[dict[str, np.ndarray], int]:
        metrics = HEALTHY[base](rng, n)
        at = int(share * n)
        late = np.arange(n) >= at
        ramp = np.clip((np.arange(n) - at + 1) / max(3, n // 25), 0, 1)
        low = float(np.median(metrics["reward"][: max(3, n // 20)]))
        span = float(np.median(metrics["reward"][int(at * 0.8) : at])) - low
        for part in what.split():
            if part == "reward":
                fallen = metrics["reward"] * (1 - ramp) + ramp * (low - 0.1 * span + 0.05 * span * rng.normal(0, 1, n))
                metrics["reward"] = np.where(late, fallen, metrics["reward"])
            elif part == "kl":
                metrics["kl"] = np.where(late, metrics["kl"] + ramp * 15 * np.exp(rng.normal(0, 0.4, n)), metrics["kl"])
            elif part == "-kl":
                metrics["kl"] = np.where(late, metrics["kl"] - ramp * 30 * np.exp(rng.normal(0, 0.4, n)), metrics["kl"])
            elif part == "entropy":
                metrics["entropy"] = np.where(late, metrics["entropy"] * np.maximum(1 - ramp, 0.01), metrics["entropy"])
            elif part == "+entropy":
                metrics["entropy"] = np.where(late, metrics["entropy"] + ramp * 6, metrics["entropy"])
        return metrics, at

    return make


FAULTY: dict[str, Callable[[Rng, int], tuple[dict[str, np.ndarray], int]]] = {
    "control: all three": _breaks("control", "reward kl entropy"),
    "control: reward alone": _breaks("control", "reward"),
    "control: early": _breaks("control", "reward kl", 0.45),
    "group_relative: reward and KL": _breaks("group_relative", "reward kl"),
    "group_relative: reward and entropy": _breaks("group_relative", "reward entropy", 0.5),
    "group_relative: gibberish": _breaks("group_relative", "reward +entropy", 0.7),
    "group_relative: KL alone": _breaks("group_relative", "kl"),
    "adaptive: negative KL": _breaks("adaptive", "reward -kl"),
    "negative: reward and KL": _breaks("negative", "reward kl"),
    "sparse_success: late": _breaks("sparse_success", "reward kl", 0.8),
}


def policy(name: str, seed: int, n: int = 400) -> tuple[Run, int | None]:
    """A run of one family, with the step where it breaks (None for a healthy one)."""
    rng = np.random.default_rng(seed)
    metrics, at = (HEALTHY[name](rng, n), None) if name in HEALTHY else FAULTY[name](rng, n)
    return run(np.arange(n) * 10, {"loss": _loss(rng, n), **metrics}), None if at is None else at * 10
