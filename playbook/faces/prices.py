"""What an observation costs, as it is shown: minutes of a person and, where they are worth a word, GPU-hours."""

from __future__ import annotations

from playbook.engine.value import Cost

SHOWN_HOURS = 0.05  # GPU-hours; with one decimal less than that would be a nought


def price(cost: Cost, between: str = ", ") -> str:
    """Minutes and GPU-hours."""
    hours = f"{between}{cost.gpu_hours:.1f} GPU-h" if cost.gpu_hours >= SHOWN_HOURS else ""
    return f"{cost.minutes:.0f} min{hours}"
