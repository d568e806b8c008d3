"""The causes of the data and numerics layers: every telling signal really tells, hard facts are hard, weights add up.

A cause that names another one as its double promises an observation; here that promise is held against both entries.
"""

from __future__ import annotations

import pytest

from playbook.knowledge.entries import HOW_OFTEN, Cause
from tests.the_book import book

LAYERS = ("data", "numerics")
TELLS = 0.3  # total variation between the two causes that a telling signal owes
SCALER = ("loss-scale-collapse", "loss-scale-applied-twice", "loss-scale-not-shared", "endless-skip")
ONE_RANK_AMONG_SEVERAL = (
    "ranks-read-same-data",
    "shard-assignment-wrong",
    "one-rank-bad-shard",
    "loss-scale-not-shared",
)


def causes() -> list[Cause]:
    return [cause for cause in book().causes.values() if cause.layer in LAYERS]


def weights(cause: Cause, signal: str, outcomes: tuple[str, ...]) -> dict[str, float]:
    """P(outcome | cause): what the link names, the rest in equal shares."""
    named = {outcome: HOW_OFTEN[word] for outcome, word in cause.expects[signal].states.items()}
    rest = [outcome for outcome in outcomes if outcome not in named]
    left = max(0.0, 1 - sum(named.values()))
    return {outcome: named.get(outcome, left / len(rest) if rest else 0.0) for outcome in outcomes}


def apart(one: Cause, other: Cause, signal: str) -> float:
    """Total variation between two causes on one signal; 0 where one of them does not mention it."""
    if signal not in one.expects or signal not in other.expects:
        return 0.0
    outcomes = tuple(dict.fromkeys([*one.expects[signal].states, *other.expects[signal].states, "anything-else"]))
    known = book().signals.get(signal)
    if known is not None:
        outcomes = tuple(known.outcomes)
    a, b = weights(one, signal, outcomes), weights(other, signal, outcomes)
    return sum(abs(a[o] - b[o]) for o in outcomes) / 2


def test_the_layers_are_complete() -> None:
    found = {layer: sum(cause.layer == layer for cause in causes()) for layer in LAYERS}
    assert found == {"data": 25, "numerics": 22}


@pytest.mark.parametrize("cause", causes(), ids=lambda cause: cause.id)
def test_a_telling_signal_separates_the_two_causes(cause: Cause) -> None:
    vague = []
    for double in cause.mistaken_for:
        if double.signal and apart(cause, book().causes[double.cause], double.signal) < TELLS:
            vague.append(f"{double.cause} by {double.signal}")
    assert not vague


def test_the_same_cause_is_not_told_from_itself() -> None:
    cause = book().causes["corrupt-samples"]
    assert apart(cause, cause, "batch-inspection") == 0
    assert apart(cause, cause, "no-such-signal") == 0


@pytest.mark.parametrize("cause", causes(), ids=lambda cause: cause.id)
def test_weights_are_probabilities(cause: Cause) -> None:
    """Five words are coarse: three of them may come to a little over 1, which the engine normalises, not to more."""
    assert sum(HOW_OFTEN[word] for word in cause.shows.values()) <= 1
    too_much = [s for s, link in cause.expects.items() if sum(HOW_OFTEN[w] for w in link.states.values()) > 1.1]
    assert not too_much


def impossible(cause_id: str) -> set[tuple[str, str]]:
    return {(e.signal, e.outcome) for e in book().causes[cause_id].excludes}


def test_hard_facts() -> None:
    for scaler in SCALER:
        assert ("precision", "fp32") in impossible(scaler)
    for rank_fault in ONE_RANK_AMONG_SEVERAL:
        assert ("parallelism", "single") in impossible(rank_fault)
    assert ("precision", "bf16") in impossible("fp16-attention-overflow")
    assert not impossible("corrupt-samples") and not impossible("equal-worker-seeds")
