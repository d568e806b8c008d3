"""The check that every step gets, in microseconds: is this loss or gradient norm bad enough to keep the batch?

It only decides what is kept and that the detectors look at once; whether there is an incident is theirs to say.
"""

from __future__ import annotations

import math
from collections import deque

WINDOW = 64  # rows: the level of the loss
LEAST = 50  # rows: the bump of the first steps is no news
RISE, SIGMAS = 2.5, 8.0  # times the level, and times the spread, as the spike detector's
QUIET = 50  # rows after a jump in which no further one is reported
_LOSSES = frozenset(("loss", "train_loss", "training_loss", "lm_loss", "total_loss", "lm loss", "train loss"))


class Inline:
    """Feed it every logged number; it answers with a reason or with ""."""

    __slots__ = ("_norms", "_quiet", "_recent", "_roles", "_rows")

    def __init__(self) -> None:
        self._recent: deque[float] = deque(maxlen=WINDOW)
        self._roles: dict[str, int] = {}  # 1 = loss, 2 = gradient norm, 0 = neither
        self._norms = 0  # non-finite gradient norms in a row
        self._rows = 0
        self._quiet = 0

    def look(self, name: str, value: float) -> str:
        role = self._roles.get(name)
        if role is None:
            role = self._roles[name] = _role(name)
        if role == 1:
            return self._loss(value)
        if role == 2:
            # One alone is an ordinary overflow of fp16, whose step is skipped.
            self._norms = 0 if math.isfinite(value) else self._norms + 1
            return "non-finite gradient norm twice in a row" if self._norms == 2 else ""
        return ""

    def _loss(self, value: float) -> str:
        self._rows += 1
        if not math.isfinite(value):
            return "non-finite loss"
        recent = self._recent
        reason = ""
        if self._rows > LEAST and self._rows > self._quiet and len(recent) >= WINDOW // 2:
            ordered = sorted(recent)
            level, spread = ordered[len(ordered) // 2], ordered[len(ordered) * 7 // 8] - ordered[len(ordered) // 8]
            # the range of the middle three quarters of a normal law is 2.3 sigma
            if level > 0 and value > RISE * level and value - level > SIGMAS * spread / 2.3:
                reason = f"loss jumps from {level:.4g} to {value:.4g}"
                self._quiet = self._rows + QUIET
        recent.append(value)
        return reason


def _role(name: str) -> int:
    low = name.lower()
    if low in _LOSSES or low.rsplit("/", 1)[-1] in _LOSSES:
        return 0 if low.startswith(("val", "eval", "test")) else 1
    return 2 if "grad" in low and "norm" in low else 0
