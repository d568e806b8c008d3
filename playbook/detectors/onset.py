"""The onset, decided once: the step at which the incident begins, before which all detectors of a state look.

Of the confident loss faults the earliest one that lasts; a transient one only where none lasts, or where it is the
beginning of what lasts.
"""

from __future__ import annotations

from dataclasses import dataclass
from types import ModuleType

import numpy as np

from playbook.detectors import (
    explosion,
    level_shift,
    loss_zero,
    nonfinite,
    plateau,
    policy,
    resume,
    slow_climb,
    spike,
)
from playbook.detectors.shared import INCIDENT, Shared
from playbook.detectors.stats.curve import Curve
from playbook.findings import Finding, Scan
from playbook.series import Run

# The kinds of findings that make an incident of the loss: those that last, and those that pass.
LASTING: dict[str, frozenset[str]] = {
    "nonfinite": frozenset({"nan-from-start", "nan", "hidden-nan", "grad-nan-lasting"}),
    "explosion": frozenset({"early", "late"}),
    "spike": frozenset({"persistent"}),
    "level_shift": frozenset({"up"}),
    "slow_climb": frozenset({"climb"}),
    "plateau": frozenset({"no-descent", "stuck", "uniform-output"}),
    "loss_zero": frozenset({"zero-from-start", "zero", "near-zero-from-start"}),
    "policy": frozenset({"reward-falls", "kl-explodes", "entropy-collapses", "entropy-explodes"}),
    "resume": frozenset({"jump", "to-initial", "repeated-samples"}),
}
PASSING: dict[str, frozenset[str]] = {
    "nonfinite": frozenset({"nan-transient"}),
    "loss_zero": frozenset({"no-label"}),
    "spike": frozenset({"transient", "repeated", "growing"}),
}
_LOSS: tuple[ModuleType, ...] = (
    *(nonfinite, explosion, spike, level_shift, slow_climb, plateau, loss_zero, policy, resume),
)
CHAIN = 200  # steps: a passing fault this close before a lasting one belongs to it (D3-stop-1)


@dataclass(frozen=True, slots=True)
class Onset:
    """Where the incident begins, and the finding that says so."""

    step: int
    finding: Finding


def scanned(module: ModuleType, shared: Shared) -> Scan:
    """The answer of a detector, computed once for one `Shared`."""
    key = f"scan:{module.NAME}"
    if key not in shared.memo:
        shared.memo[key] = module.look(shared)
    scan: Scan = shared.memo[key]
    return scan


def onset_of(shared: Shared) -> Onset | None:
    """The onset of a run that is being scanned; None for a run without a confident loss fault."""
    if "onset" not in shared.memo:
        shared.memo["onset"] = _decide(shared)
    found: Onset | None = shared.memo["onset"]
    return found


def prior(curve: Curve, begin: Onset, rows: int | None = None) -> np.ndarray:
    """Indices of the finite rows of a curve before the onset, in order; the last `rows` of them.

    Of a run that was resumed behind the incident, rows written after the onset are left out where lines tell.
    """
    index = curve.before(begin.step)
    origin = begin.finding.origin
    lines = curve.series.lines
    if origin is not None and origin.line is not None and lines is not None and origin.path == curve.series.origin.path:
        index = index[np.asarray(lines)[curve.rows[index]] <= origin.line]
    return index if rows is None else index[-rows:]


def onset(run: Run) -> Onset | None:
    """The onset of a run."""
    return onset_of(Shared(run))


def _decide(shared: Shared) -> Onset | None:
    confident = [
        f for m in _LOSS for f in scanned(m, shared).findings if f.confidence >= INCIDENT and f.step is not None
    ]
    lasting = [f for f in confident if f.kind in LASTING.get(f.detector, ())]
    passing = [f for f in confident if f.kind in PASSING.get(f.detector, ())]
    if not lasting:
        return _earliest(passing)
    begin = _earliest(lasting)
    assert begin is not None
    low, high = shared.run.step_range()
    reach = max(CHAIN, 0.02 * ((high or 0) - (low or 0)))
    chain = [f for f in passing if f.step is not None and begin.step - reach <= f.step < begin.step]
    return _earliest(chain) or begin


def _earliest(findings: list[Finding]) -> Onset | None:
    if not findings:
        return None
    first = min(findings, key=lambda f: (f.step, -f.confidence, f.detector, f.kind))
    assert first.step is not None
    return Onset(first.step, first)
