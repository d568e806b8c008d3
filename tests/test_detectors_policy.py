"""Reinforcement learning: a policy that falls apart is told with its onset, one that swings is left in peace."""

from __future__ import annotations

import numpy as np
import pytest

from playbook.detectors import INCIDENT, onset, scan
from playbook.knowledge.loader import Book
from playbook.series import Run
from playbook.workflow.ingest import look
from tests import policies

SEEDS = range(12)
SIZES = (60, 400, 3000)


def _sure(run: Run) -> list[str]:
    (answer,) = scan(run, ["policy"])
    return [f"{f.kind} {f.step} {f.because}" for f in answer.findings if f.confidence >= INCIDENT]


@pytest.mark.parametrize("name", policies.HEALTHY)
def test_a_policy_that_swings_is_no_incident(name: str) -> None:
    for n in SIZES:
        for seed in SEEDS:
            made, _ = policies.policy(name, seed, n)
            assert _sure(made) == [], (name, n, seed)


@pytest.mark.parametrize("name", policies.FAULTY)
def test_a_policy_that_falls_apart_is_told(name: str) -> None:
    """Nearly always with some hundred rows, mostly with sixty; the onset is within 3 % of the run."""
    for n, most in ((60, 4), (400, 2), (3000, 0)):
        missed, late = [], []
        for seed in SEEDS:
            made, at = policies.policy(name, seed, n)
            begin = onset(made)
            assert at is not None
            if not _sure(made) or begin is None:
                missed.append(seed)
            elif abs(begin.step - at) > max(0.03 * n * 10, 50):
                late.append((seed, begin))
        assert len(missed) <= most and len(late) <= 1, (name, n, missed, late)


def test_the_whole_chain_says_so(real_book: Book) -> None:
    made, at = policies.policy("group_relative: reward and KL", 1)
    found = look(made, real_book)
    assert found.verdict == "incident" and found.symptom is not None and at is not None
    assert found.symptom.state == "silent-degradation" and abs((found.symptom.step or 0) - at) <= 80
    states = {e.signal: e.state for e in found.evidence}
    assert states["rl-importance-ratio"] == "drifts" and states["rl-training"] == "yes"


def test_reward_without_a_loss_can_be_healthy(real_book: Book) -> None:
    made, _ = policies.policy("control", 1)
    bare = Run({key: s for key, s in made.series.items() if key[0] != "loss"}, (), {})
    assert look(bare, real_book).verdict == "healthy"


def test_a_kl_of_another_kind_says_nothing() -> None:
    """The KL term of an autoencoder grows from zero in health, and nothing else speaks of a policy."""
    from tests.runs import run

    n = 400
    kl = np.where(np.arange(n) < 200, 0.01, 25.0)
    (answer,) = scan(run(np.arange(n), {"loss": 100 + np.zeros(n), "kl": kl}), ["policy"])
    assert answer.status == "blind"
