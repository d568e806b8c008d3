"""A run's configuration against the checklists of the book, before it is started."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from playbook.engine.observe import flatten, lookup, rule_outcome
from playbook.errors import PlaybookError
from playbook.knowledge.entries import CheckItem
from playbook.knowledge.loader import Book
from playbook.series import Run

STATES = ("bad", "warn", "ok", "unknown")  # in the order of the report


@dataclass(frozen=True, slots=True)
class Verdict:
    """One item of a checklist: `state` bad, warn, ok, or unknown (the configuration does not say)."""

    item: str
    state: str
    text: str
    why: str
    found: str
    prevents: tuple[str, ...]


def preflight(run: Run, book: Book) -> list[Verdict]:
    """Every item that can be read off a configuration. Raises `PlaybookError` where there is none."""
    flat = flatten(run.config)
    if not flat:
        path = run.files[0].path if run.files else "CONFIG"
        raise PlaybookError(
            path, "holds no settings", "name a run configuration (JSON, YAML, TOML or a log with its arguments)"
        )
    found = [
        _judge(item, flat) for checklist in book.kind("checklists").values() for item in checklist.items if item.config
    ]
    return sorted(found, key=lambda v: (STATES.index(v.state), v.item))


def _judge(item: CheckItem, flat: Mapping[str, Any]) -> Verdict:
    for rule in item.config:
        for key in rule.keys:
            hit = lookup(flat, key)
            if hit is not None and hit[1] is not None and (state := rule_outcome(rule, hit[1])) in STATES:
                return Verdict(item.id, state, item.text, item.why, f"{hit[0]} = {hit[1]}", tuple(item.prevents))
    return Verdict(item.id, "unknown", item.text, item.why, "", tuple(item.prevents))
