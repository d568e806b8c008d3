"""What was seen in a run, and what is known about an incident.

A `Finding` has numbers and places, no judgement. A `Scan` is one detector's answer: found, clear or blind; only
*clear* is evidence of absence. `Evidence` is the state of one signal of the book, with where it came from.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from playbook.series import Origin

Status = Literal["found", "clear", "blind"]
Source = Literal["metrics", "log", "config", "probe", "person", "case"]


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that a detector saw.

    kind        what it is, from the detector's own `KINDS`
    confidence  0..1, how sure the detector is that this is no ordinary noise
    because     one sentence with the numbers, for people
    step        where it begins; `last_step` where it ends (None: not over, or one point)
    numbers     the measured values, finite floats
    remark      what to do about it where it is no fault by itself and worth a look all the same
    """

    detector: str
    kind: str
    metric: str
    step: int | None
    because: str
    confidence: float = 0.9
    last_step: int | None = None
    rank: int | None = None
    ranks: tuple[int, ...] = ()
    numbers: dict[str, float] = field(default_factory=dict)
    origin: Origin | None = None
    remark: str = ""


@dataclass(frozen=True, slots=True)
class Scan:
    """One detector's answer about one run. `because` says why it is blind, or what was looked at when clear."""

    detector: str
    status: Status
    findings: tuple[Finding, ...] = ()
    because: str = ""


@dataclass(frozen=True, slots=True)
class Evidence:
    """The state of one signal in one incident.

    `likelihood` weighs unsure evidence: {outcome: weight in 0..1}; None means `state` is certain. `remark` is that of
    the finding.
    """

    signal: str
    state: str
    source: Source
    because: str = ""
    step: int | None = None
    rank: int | None = None
    confidence: float = 1.0
    origin: Origin | None = None
    likelihood: tuple[tuple[str, float], ...] | None = None
    remark: str = ""
