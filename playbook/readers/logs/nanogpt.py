"""Logs of nanoGPT, build-nanogpt, modded-nanogpt and llm.c, each with its own spelling of step, loss and time.

`iter 100: loss 3.1, time 200ms`, `step 500: train loss 3.0, val loss 3.1`, `step:125/1750 train_loss:...`,
`250 train 6.0`, `step 100/1000 | loss 5.3 (+1.2z)| norm 1.3 (..)| lr ...`, `s:100 trl:8.1`. The script that such logs
print at the head is stepped over.
"""

from __future__ import annotations

import re
from pathlib import Path

from playbook.readers import text
from playbook.readers.base import RunBuilder
from playbook.readers.logs import notable, printed_config
from playbook.readers.logs.rows import Rows, Taker, walk
from playbook.readers.source import Source

NAME = "nanogpt"
TITLE = "nanoGPT, modded-nanogpt and llm.c log"

_N = rf"({text.NUM})"
_ITER = re.compile(rf"\biter (\d+): loss {_N}(?:, time {_N}(ms|s))?(?:, mfu {_N}%)?")
_BOTH = re.compile(rf"\bstep (\d+): train loss {_N}, val loss {_N}")
_COLON = re.compile(r"\bstep:(\d+)/(\d+) (?=(?:train|val|loss|lr)\w*:)")
_PLAIN = re.compile(rf"^\s*(\d+) (train|val|hella) {_N}\s*$")
_WORDS = re.compile(rf"^\s*step (\d+) (train_loss|val_loss) {_N}\s*$")
_BARS = re.compile(r"\bstep\s+(\d+)(?:/(\d+)\s*\| (?:train )?loss|\s*\| loss:) +[-+\dn]")
_MAIN = re.compile(rf"^s:(\d+) (?:tel:{_N}|trl:{_N}|eval:\s*{_N})(.*)$")
_EVAL = re.compile(rf"^\s*(?:val(?:idation)? loss:?|HellaSwag accuracy: [\d/]+=|HellaSwag: \d+/\d+ = )\s*{_N}\s*$")
_MS = re.compile(rf"\|\s*{_N} ms\b")
_TOKENS = re.compile(rf"\|\s*{_N} tok/s")
_MFU = re.compile(rf"\|\s*{_N}% (?:\w+ )?MFU")
_ROW = re.compile(
    "|".join(re.sub(r"\((?!\?)", "(?:", p.pattern) for p in (_ITER, _BOTH, _COLON, _PLAIN, _WORDS, _BARS, _MAIN))
)
_SCRIPT = re.compile(r"""[f"']step:\{step\}/""")  # the line of the script that prints the rows


def sniff(head: bytes, path: Path) -> int:
    rows, _ = text.share(head, _ROW)
    if rows:
        return 70
    return 40 if text.share(head, _SCRIPT)[0] else 0


def read(source: Source, builder: RunBuilder) -> None:
    walk(source, builder, (taker, printed_config.watch), notable.watch, (printed_config.watch,))


def taker(rows: Rows) -> Taker:
    """Takes rows of all these dialects."""

    def put(step: str, values: dict[str, float], number: int, line: text.Line, total: str | None = None) -> bool:
        if total and rows.count == 0:
            rows.builder.set_config({"max_steps": int(total)})
        rows.add(int(step), values, number, line.rank, line.body)
        return True

    def take(number: int, shown: str | None) -> bool:
        if shown is None or not _quick(shown):
            return False
        line = text.split(shown)
        body = line.body
        if (hit := text.last(_COLON, shown)) is not None:
            return put(hit[1], text.pairs(shown[hit.end() :]), number, line, hit[2])
        if hit := _ITER.search(shown):
            values = {"loss": text.value(hit[2])}
            if hit[3]:
                values["time"] = text.value(hit[3], hit[4])
            if hit[5] and not hit[5].startswith("-"):  # -100 % before it is known
                values["mfu"] = text.value(hit[5])
            return put(hit[1], values, number, line)
        if hit := _BOTH.search(shown):
            return put(hit[1], {"train loss": text.value(hit[2]), "val loss": text.value(hit[3])}, number, line)
        if hit := _PLAIN.match(shown):
            name = {"train": "train loss", "val": "val loss", "hella": "hellaswag"}[hit[2]]
            return put(hit[1], {name: text.value(hit[3])}, number, line)
        if hit := _WORDS.match(body):
            return put(hit[1], {hit[2]: text.value(hit[3])}, number, line)
        if (hit := text.last(_BARS, shown)) is not None:
            rest = shown[hit.start() :]
            values = text.pairs(rest)
            values.pop("step", None)
            for name, pattern, unit in (("step_time", _MS, "ms"), ("tok/s", _TOKENS, None), ("mfu", _MFU, None)):
                if found := pattern.search(rest):
                    values.setdefault(name, text.value(found[1], unit))
            return put(hit[1], values, number, line, hit[2])
        if hit := _MAIN.match(shown):
            values = text.pairs(hit[5])
            for name, shown_value in (("val loss", hit[2]), ("trl", hit[3]), ("hellaswag", hit[4])):
                if shown_value:
                    values[name] = text.value(shown_value)
            return put(hit[1], values, number, line)
        if hit := _EVAL.match(body):
            name = "hellaswag" if "Hella" in body else "val loss"
            return put(str(rows.last_step or 0), {name: text.value(hit[1])}, number, line)
        return False

    return take


def _quick(shown: str) -> bool:
    return (
        "step" in shown
        or "iter " in shown
        or " loss" in shown
        or shown[:1].isdecimal()
        or shown[:2] == "s:"
        or "Hella" in shown
    )
