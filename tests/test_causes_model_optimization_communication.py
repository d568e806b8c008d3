"""The causes of the model, optimization and communication layers: complete, told apart on both sides, hard facts hard.

Likelihoods are compared as the engine compiles them, so a telling signal must tell after normalisation and slips. The
7B incident of D3-case is the demo of the whole product, so its ranking is held step by step.
"""

from __future__ import annotations

import numpy as np
import pytest

from playbook.engine.belief import Belief, posterior
from playbook.findings import Evidence
from playbook.knowledge.entries import Cause
from tests.the_book import book, tables

LAYERS = {"model": 19, "optimization": 24, "communication": 13}
TELLS = (
    0.15  # total variation that a telling signal owes, after what reports say of whole classes (see upkeep/mutation)
)
DEMO = {
    "precision": "bf16",
    "loss-shape": "persistent-spike",
    "grad-norm-before": "climbs",
    "lr-phase": "peak",
    "lower-lr-removes-it": "yes",
    "clipping-effect": "delays",
    "eps-larger-removes-it": "no",
}


def causes() -> list[Cause]:
    return [cause for cause in book().causes.values() if cause.layer in LAYERS]


def apart(one: str, other: str, signal: str) -> float:
    """Total variation between two causes on one signal, as the engine sees it."""
    rows, where = tables().likelihood, tables().columns[signal]
    difference = rows[tables().index(one), where] - rows[tables().index(other), where]
    return float(np.abs(difference).sum() / 2)


def believe(answers: dict[str, str]) -> Belief:
    return posterior(tables(), [Evidence(signal=s, state=o, source="person") for s, o in answers.items()])


def probability(belief: Belief, cause: str) -> float:
    return float(belief.marginal[tables().index(cause)])


def test_the_layers_are_complete() -> None:
    assert {layer: sum(c.layer == layer for c in causes()) for layer in LAYERS} == LAYERS


@pytest.mark.parametrize("cause", causes(), ids=lambda cause: cause.id)
def test_a_telling_signal_separates_the_two_causes(cause: Cause) -> None:
    known = [m for m in cause.mistaken_for if m.signal in book().signals and m.cause in book().causes]
    vague = [f"{m.cause} by {m.signal}" for m in known if apart(cause.id, m.cause, m.signal or "") < TELLS]
    assert cause.mistaken_for and not vague


def test_a_cause_is_not_told_from_itself() -> None:
    assert apart("packing-leak", "packing-leak", "feature-off-removes-it") == 0
    assert apart("lr-too-low", "schedule-decayed-to-zero", "fp32-removes-it") < TELLS


@pytest.mark.parametrize("cause", causes(), ids=lambda cause: cause.id)
def test_a_cause_can_be_found_by_its_own_picture(cause: Cause) -> None:
    """Symptom and signals, each in the most telling state that is not rare, bring the class among the first three."""
    engine = tables()
    usual = engine.prior @ engine.likelihood
    answers = {}
    for signal in ("loss-shape", *cause.expects):
        if signal not in engine.columns:
            continue
        where = engine.columns[signal]
        row = engine.likelihood[engine.index(cause.id), where]
        telling = np.where(row >= min(0.3, row.max()), row / usual[where], 0)
        answers[signal] = engine.outcomes[signal][int(telling.argmax())]
    order = np.argsort(-believe(answers).by_class)
    assert cause.class_ in [engine.classes[i] for i in order[:3]]


def test_the_7b_incident_points_at_the_peak_and_not_at_its_neighbours() -> None:
    ranked = believe(DEMO)
    assert tables().causes[int(ranked.marginal.argmax())] == "lr-overshoot-at-peak"
    assert probability(ranked, "lr-overshoot-at-peak") > 0.5
    assert any(
        {tables().causes[i], tables().causes[j]} == {"lr-overshoot-at-peak", "hard-samples"} for i, j, _ in ranked.pairs
    )


@pytest.mark.parametrize(
    ("changed", "favourite"),
    [
        ({"clipping-effect": "removes", "grad-clipping": "off", "grad-norm-before": "surges"}, "grad-clip-missing"),
        ({"warmup-length": "short", "lr-phase": "warmup"}, "warmup-too-short"),
        ({"attention-logit-max": "grows", "first-bad-layer": "attention"}, "attention-logit-growth"),
        ({"lr-phase": "restart", "change-point": "lr"}, "lr-too-high-after-restart"),
    ],
)
def test_other_evidence_moves_the_7b_verdict(changed: dict[str, str], favourite: str) -> None:
    before, after = believe(DEMO), believe({**DEMO, **changed})
    assert probability(after, favourite) > probability(before, favourite)
    assert probability(after, favourite) > probability(after, "lr-overshoot-at-peak")


def test_hard_facts() -> None:
    def impossible(cause: str) -> set[tuple[str, str]]:
        return {(e.signal, e.outcome) for e in book().causes[cause].excludes}

    assert ("moe-in-model", "no") in impossible("router-imbalance")
    assert ("batchnorm-in-model", "no") in impossible("batchnorm-not-synced")
    assert ("rl-training", "no") in impossible("rl-policy-step-too-large")
    assert ("parallelism", "single") in impossible("network-link-flap")
    # Offload races happen on one GPU, and a group of one rank still runs the collective library (nccl-1950).
    assert not impossible("offload-copy-race") and not impossible("collective-library-defect")


def test_two_engines_that_disagree_are_told_from_a_step_that_is_too_large() -> None:
    """Both let the ratio of a policy drift; the rate tells which it is."""
    drifts = {"loss-shape": "silent-degradation", "rl-training": "yes", "rl-importance-ratio": "drifts"}
    at_no_rate = believe(drifts | {"lower-lr-removes-it": "no", "present-at-first-step": "yes"})
    at_a_lower_rate = believe(drifts | {"lower-lr-removes-it": "yes", "present-at-first-step": "no"})
    assert probability(at_no_rate, "rollout-engine-disagrees") > 5 * probability(at_no_rate, "rl-policy-step-too-large")
    assert probability(at_a_lower_rate, "rl-policy-step-too-large") > 0.75
