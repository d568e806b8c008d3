"""Rows over several lines: a line that counts, then one `name: value` a line.

Composer (`[batch=1/3200]:`), Coqui (`--> STEP: 24/377 -- GLOBAL_STEP: 25`), rsl_rl (`Learning iteration 1/10`), Ray
(`Result for ...`), and any `Step 100:` or `current step: 3th step` alone on its line.
"""

from __future__ import annotations

import re

from playbook.readers import text
from playbook.readers.logs.rows import EpochSteps, Rows, Taker
from playbook.readers.names import step_names

_HEAD = re.compile(
    r"^\s*(?:(?:\[epoch=(?P<epoch>\d{1,7})\])?\[batch=(?P<batch>\d{1,12})/(?P<length>\d{1,12})\]:?"
    r"|--> (?:TIME: .{1,40} -- )?STEP: \d+/\d+ -- GLOBAL_STEP: (?P<global>\d{1,12})"
    r"|Learning iteration (?P<iteration>\d{1,12})/\d+"
    r"|(?P<inside>Result for \S{1,200}:)"
    r"|(?P<held>--> EVAL PERFORMANCE)"
    r"|(?:current |global )?(?:step|iter(?:ation)?)\s*[:=]?\s*(?P<alone>\d{1,12})"
    r"(?:(?:st|nd|rd|th)(?: step)?|\s*/\s*\d+)?\s*:?)\s*$",
    re.IGNORECASE,
)
_WORDS = ("batch=", "STEP: ", "Learning iteration ", "Result for ", "EVAL PERF", "tep", "ter", "poch")
_PAIR = re.compile(
    rf"^(?P<indent>\s*)(?:\|\s*>\s*|>\s+)?(?:(?:Train|Eval) (?=\S+/))?(?P<key>[A-Za-z][\w /.\-@%]{{0,80}}?)\s*[:=]\s*"
    rf"(?P<num>{text.NUM})(?P<unit>ms|s|%)?(?:\s*\([^()]*\))?\s*$"
)
_MOST = 400  # values of one record


def taker(rows: Rows) -> Taker:
    """Takes records; one is handed on when it ends."""
    epochs = EpochSteps()
    values: dict[str, float] = {}
    # step (None: told inside), line and rank of the open record
    head: list[tuple[int | None, int, int | None]] = []
    state = {"held": False, "inside": False}

    def put() -> None:
        if head and any(map(text.is_metric, values)):
            step, place, rank = head[0]
            if step is None and (names := step_names(values)):
                told = values.pop(names[0])
                step = int(told) if told == told and abs(told) < 2**53 else None
            if step is not None and values:
                rows.add(step, dict(values), place, rank, f"{place}")
        head.clear()
        values.clear()

    def keep(key: str, said: float) -> None:
        if len(values) < _MOST:
            values.setdefault(f"val/{key.removeprefix('avg_')}" if state["held"] else key, said)

    def opens(place: int, line: text.Line) -> bool:
        hit = _HEAD.match(line.body)
        if hit is None:
            return False
        put()
        state.update(held=hit["held"] is not None, inside=hit["inside"] is not None)
        if hit["batch"]:
            step: int | None = epochs.step(int(hit["epoch"] or 0), int(hit["batch"]), int(hit["length"]))
        elif hit["inside"]:
            step = None
        else:
            told = hit["global"] or hit["iteration"] or hit["alone"]
            step = int(told) if told else rows.last_step
        head.append((step, place, line.rank))
        return hit["alone"] is None

    def take(place: int, shown: str | None) -> bool:
        if shown is None:
            put()
            return False
        if not head and (len(shown) > 300 or not any(word in shown for word in _WORDS)):
            return False
        line = text.split(shown)
        if opens(place, line):
            return True
        if not head:
            return False
        if hit := _PAIR.match(line.body):
            keep(hit["key"], text.value(hit["num"], hit["unit"]))
            return True
        if state["inside"] or shown[:1] in " \t":
            if shown[:1] not in " \t":
                put()
            return False
        if head[0][1] != place:
            put()
        return False

    return take
