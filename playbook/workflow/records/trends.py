"""What goes wrong most, what it costs, how long it takes to know: sums over all recorded incidents."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from statistics import median
from typing import Any

from playbook.workflow.records.shelf import is_there, moment, shelf

NOT_CONFIRMED = "not confirmed"


def trends(db: str | None = None) -> dict[str, Any]:
    """Sums over the store (an empty table where there is none)."""
    if not is_there(db):
        return of([])
    with shelf(db) as store:
        return of(store.summaries())


def of(rows: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """Summaries -> totals, and rows by cause, class, layer, symptom and month. False alarms count apart."""
    every = list(rows)
    real = [r for r in every if r["status"] != "false-alarm" and r["verdict"] != "healthy"]
    return {
        "incidents": len(real),
        "open": sum(r["status"] == "open" for r in real),
        "closed": sum(r["status"] == "closed" for r in real),
        "false_alarms": sum(r["status"] == "false-alarm" for r in every),
        "usd": round(sum(r["cost_usd"] for r in real), 2),
        "hours_lost": round(sum(r["hours_lost"] for r in real), 3),
        "first_was_right": _first_was_right(real),
        "by_cause": _by(real, lambda r: r["cause"] or NOT_CONFIRMED),
        "by_class": _by(real, lambda r: r["cause_class"] or NOT_CONFIRMED),
        "by_layer": _by(real, lambda r: r["layer"] or NOT_CONFIRMED),
        "by_symptom": _by(real, lambda r: r["symptom"] or "none"),
        "by_month": _by(real, lambda r: r["opened_at"][:7], in_order=True),
    }


def _first_was_right(rows: list[Mapping[str, Any]]) -> float | None:
    """Share of confirmed incidents whose cause (by class) stood first when they were recorded."""
    known = [r for r in rows if r["status"] == "closed" and r["cause_class"]]
    return round(sum(r["cause_class"] == r["first_class"] for r in known) / len(known), 4) if known else None


def _by(
    rows: list[Mapping[str, Any]], key: Callable[[Mapping[str, Any]], str], in_order: bool = False
) -> list[dict[str, Any]]:
    groups: dict[str, list[Mapping[str, Any]]] = {}
    for row in rows:
        groups.setdefault(key(row), []).append(row)
    found = [_sums(name, members) for name, members in groups.items()]
    return sorted(found, key=lambda g: g["name"] if in_order else (-g["incidents"], -g["usd"], g["name"]))


def _sums(name: str, rows: list[Mapping[str, Any]]) -> dict[str, Any]:
    waits = [h for r in rows if (h := hours_to_close(r)) is not None]
    return {
        "name": name,
        "incidents": len(rows),
        "usd": round(sum(r["cost_usd"] for r in rows), 2),
        "hours_lost": round(sum(r["hours_lost"] for r in rows), 3),
        "median_minutes_asked": round(median(r["minutes"] for r in rows), 2),
        "median_questions": median(r["questions"] for r in rows),
        "median_hours_to_confirm": round(median(waits), 3) if waits else None,
    }


def hours_to_close(row: Mapping[str, Any]) -> float | None:
    """From the record to the confirmed cause, never below zero; None while it is open."""
    opened, closed = moment(row["opened_at"]), moment(row["closed_at"])
    if opened is None or closed is None:
        return None
    return max(0.0, (closed - opened).total_seconds() / 3600)
