"""The detectors: what each one sees in the metrics of a run, and the table that names them in reading order.

A detector is a module with NAME, NEEDS, OPTIONAL, KINDS and `look(shared)`. `NEEDS` lists canonical metrics; a tuple
inside it means any one of them. Its docstring has four headings, which the site prints. None touches a file, a clock
or a random number. What they have in common: `shared` (one run, computed once), `onset` (where the incident begins)
and `stats` (curves, levels, segments, excursions, ranks, rates).
"""

from __future__ import annotations

from collections.abc import Iterable
from types import ModuleType

from playbook.detectors import (
    abnormally_low,
    artifact,
    change_point,
    clipping,
    collectives,
    eval_gap,
    explosion,
    first_loss,
    fp8,
    gpu,
    grad_norm,
    level_shift,
    loss_scale,
    loss_zero,
    lr_phase,
    lr_value,
    moe,
    nonfinite,
    norms,
    periodic,
    plateau,
    policy,
    ranks,
    resume,
    schedule,
    skipped,
    slow_climb,
    slow_rank,
    spike,
    throughput,
)
from playbook.detectors.onset import LASTING, PASSING, Onset, onset, scanned
from playbook.detectors.shared import INCIDENT, Shared
from playbook.findings import Scan
from playbook.series import Run

__all__ = ["INCIDENT", "LASTING", "PASSING", "TABLE", "Onset", "onset", "scan"]

TABLE: tuple[ModuleType, ...] = (
    # the loss: these decide whether there is an incident, and where it begins
    nonfinite,
    spike,
    periodic,
    explosion,
    level_shift,
    slow_climb,
    plateau,
    loss_zero,
    abnormally_low,
    first_loss,
    policy,
    # the state before the onset
    grad_norm,
    clipping,
    loss_scale,
    skipped,
    lr_phase,
    lr_value,
    schedule,
    resume,
    throughput,
    ranks,
    slow_rank,
    change_point,
    eval_gap,
    norms,
    moe,
    fp8,
    gpu,
    collectives,
    artifact,
)


def scan(run: Run, only: Iterable[str] | None = None) -> list[Scan]:
    """The answers of all detectors (or of those named), in the order of the table."""
    shared = Shared(run)
    names = None if only is None else set(only)
    return [scanned(module, shared) for module in TABLE if names is None or module.NAME in names]
