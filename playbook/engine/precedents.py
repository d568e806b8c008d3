"""What published incidents that tell the same turned out to be: a second judgement of what was told, class by class.

The graph weighs each fact for itself. A told incident holds more: facts mean more together than one by one, and which
of a hundred questions somebody found worth answering is evidence too. A small network with one hidden layer, fitted to
published reports by `workflow/upkeep/precedents.py`, has learned both; its judgement is pooled with that of the graph
(Genest and Zidek 1986). It reads what a case file or a person tells, with the shape of the loss; what else files, logs
and settings show is there whatever the cause, and is left to the graph.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from playbook.findings import Evidence
from playbook.knowledge.entries import SHAPE

# Exponents of the two judgements in the pool, chosen by cross-validation over the reports and by those that no fit
# reads. They come to more than 1: two that agree for different reasons may be surer than each (Baron et al., Decision
# Analysis 11, 2014). What differs by 0.1 from them judges as well.
GRAPH, PRECEDENTS = 0.35, 0.9
LEAST = 1e-12
TELLERS = ("case", "person")


def told(used: Sequence[Evidence]) -> tuple[Evidence, ...]:
    """What of `used` was told, and the shape of the loss with it; empty where no more than that shape is."""
    if not any(item.source in TELLERS and item.signal != SHAPE for item in used):
        return ()
    return tuple(item for item in used if item.source in TELLERS or item.signal == SHAPE)


@dataclass(frozen=True)
class Precedents:
    """A fitted network: relu(x @ hidden + hidden_bias) @ out + out_bias are log odds of the classes.

    features  (signal, outcome) of each input; it is 1 where that outcome is told, else 0
    classes   of each output
    hidden float64[f, u], hidden_bias float64[u], out float64[u, c], out_bias float64[c]
    """

    features: tuple[tuple[str, str], ...]
    classes: tuple[str, ...]
    hidden: np.ndarray
    hidden_bias: np.ndarray
    out: np.ndarray
    out_bias: np.ndarray

    @classmethod
    def read(cls, net: Mapping[str, Any]) -> Precedents:
        """As `upkeep/precedents.rounded` writes it: whole numbers, `scale` of them are 1."""
        arrays = (np.array(net[name], float) / net["scale"] for name in ("hidden", "hidden_bias", "out", "out_bias"))
        return cls(tuple((s, o) for s, o in net["features"]), tuple(net["classes"]), *arrays)

    @cached_property
    def _place(self) -> dict[tuple[str, str], int]:
        return {feature: k for k, feature in enumerate(self.features)}

    def judge(self, told: Iterable[Evidence], classes: Sequence[str]) -> np.ndarray:
        """float64[c] over `classes`, sums to 1; NaN for a class that no precedent has.

        Unsure evidence enters with the weight of each outcome.
        """
        x = np.zeros(len(self.features))
        for item in told:
            for outcome, weight in item.likelihood or ((item.state, item.confidence),):
                if (k := self._place.get((item.signal, outcome))) is not None:
                    x[k] += weight
        found = dict(zip(self.classes, self.probabilities(x[None, :])[0], strict=True))
        view = np.array([found.get(name, np.nan) for name in classes])
        return np.asarray(view / np.nansum(view))

    def probabilities(self, x: np.ndarray) -> np.ndarray:
        """float64[n, c] of float64[n, f] inputs."""
        z = np.maximum(x @ self.hidden + self.hidden_bias, 0.0) @ self.out + self.out_bias
        z = np.exp(z - z.max(axis=1, keepdims=True))
        return np.asarray(z / z.sum(axis=1, keepdims=True))


def pool(view: np.ndarray, graph: np.ndarray) -> np.ndarray:
    """float64[c]: what the pool adds to the log mass of each class of the graph; both float64[c].

    All classes that both know keep their common share of the graph; one that is NaN in `view` stays as it is.
    """
    moved = np.zeros(len(graph))
    both = ~np.isnan(view)
    share = graph[both].sum()
    if share <= 0 or view[both].sum() <= 0:
        return moved
    own, other = (np.log(np.maximum(p[both] / p[both].sum(), LEAST)) for p in (graph, view))
    log = PRECEDENTS * other + (GRAPH - 1) * own
    moved[both] = log + np.log(share / (graph[both] @ np.exp(log)))
    return moved
