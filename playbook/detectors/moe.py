"""The router of a mixture of experts: load and auxiliary loss.

What it sees
    `load-collapsed`: the busiest expert takes a multiple of its share (or most of all tokens) and stays there.
    `aux-zero`: the balancing loss is 0.0 although experts exist.
Why it matters
    A collapsed router trains a fraction of the model while the loss still falls; without a balancing gradient it
    does so by itself.
Blind when
    Neither the load of the busiest expert nor an auxiliary loss was logged.
Easily mistaken for
    A dense model whose code prints an auxiliary loss of 0.0; the imbalance of the first steps; balancing without a
    loss term (bias per expert).
"""

from __future__ import annotations

import numpy as np

from playbook.detectors import stats
from playbook.detectors.shared import Shared, answer, blind, finding
from playbook.detectors.stats.curve import Curve
from playbook.findings import Finding, Scan

NAME = "moe"
NEEDS = (("expert_load_max", "aux_loss"),)
OPTIONAL = ()
KINDS = ("load-collapsed", "aux-zero")

LEAST = 10  # rows
SHARE = 0.5  # of all tokens, where the load is a share
TIMES = 4.0  # above the even load, where it is a multiple
GROWTH = 2.5  # times its own early level, where the unit is not known
EXPERTS = ("num_experts", "n_routed_experts", "num_local_experts", "moe_num_experts", "n_experts")


def look(shared: Shared) -> Scan:
    if gap := shared.lacks(NEEDS):
        return blind(NAME, gap)
    experts = shared.setting(*EXPERTS)
    out: list[Finding] = []
    load = shared.curve("expert_load_max")
    if load is not None:
        out += _load(load, experts)
    aux = shared.curve("aux_loss")
    if aux is not None and int(aux.finite.sum()) >= LEAST and (load is not None or (experts or 0) > 1):
        v = aux.values[aux.finite]
        zero = v[len(v) // 4 :] == 0.0
        if len(zero) and zero.mean() > 0.9:
            at = int(np.flatnonzero(aux.finite & (aux.values == 0.0))[0])
            text = (
                f"auxiliary loss is 0.0 in {int((v == 0).sum())} of {stats.rows(len(v))} "
                "although there are experts to balance"
            )
            out.append(finding(NAME, "aux-zero", aux, at, text, 0.8))
    return answer(NAME, out, "expert load and auxiliary loss are ordinary")


def _load(load: Curve, experts: float | None) -> list[Finding]:
    index = np.flatnonzero(load.finite)
    v = load.values[index]
    if len(v) < LEAST:
        return []
    early, late = float(np.median(v[: max(3, len(v) // 5)])), float(np.median(v[-max(3, len(v) // 10) :]))
    share = float(v.max()) <= 1.0
    if share:
        even = 1.0 / experts if experts and experts > 1 else None
        limit = max(SHARE, 3.0 * even) if even else SHARE
        limit = min(limit, 0.95)
    else:
        limit = TIMES if early < TIMES else GROWTH * early
    if late < limit:
        return []
    high = v >= limit
    starts, _ = stats.runs(high)
    row = int(index[starts[-1] if high[-1] else starts[0]])
    text = f"the busiest expert's load is {stats.number(late)} at the end ({stats.number(early)} early on)"
    sure = 0.85 if late > 1.5 * early or share else 0.7
    return [finding(NAME, "load-collapsed", load, row, text, sure, numbers={"early": early, "late": late})]
