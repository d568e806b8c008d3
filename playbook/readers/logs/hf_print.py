"""What the transformers Trainer (and TRL, LLaMA-Factory, ms-swift) prints: `{'loss': 2.31, 'grad_norm': nan, ...}`.

The prints carry no step. It comes from the progress bar before the print, else from the epoch and the header of the
run, else from counting (which is told).
"""

from __future__ import annotations

import ast
import re
from itertools import pairwise
from pathlib import Path
from typing import Any

from playbook.readers import text
from playbook.readers.base import COUNTED, RunBuilder, number
from playbook.readers.logs import notable, printed_config
from playbook.readers.logs.rows import Rows, Taker, walk
from playbook.readers.source import Source

NAME = "hf_print"
TITLE = "console output of the transformers Trainer"

_ROW = re.compile(r"\{'(?:loss|eval_loss|train_runtime|eval_\w+)': ?[^}]*\}")
_DICT = re.compile(r"\{['\"](?:[\w/.\- ]+)['\"]: ?[^{}]*\}")
_BAR = re.compile(r"^(?:train: *)?\s*\d{1,3}%\|[^|]*\| *(\d+)/(\d+) \[|^\s*\[ *(\d+)/(\d+) ")
_TOTAL = re.compile(r"Total optimization steps = (\d[\d,]{0,14})")
_EPOCHS = re.compile(r"Num Epochs = (\d[\d,]{0,14})")
_LOGGING = re.compile(r"\blogging_steps=(\d{1,9}(?:\.\d{1,9})?)")
_FIRST = re.compile(r"\blogging_first_step=True")
_GLOBAL = ("global_step/max_steps", "step", "global_step", "current_steps", "iter", "iteration", "trainer/global_step")
_TRAINING = frozenset(("loss", "learning_rate", "lr", "loss/policy_avg"))
_SUMMARY = ("train_runtime", "train_samples_per_second", "train_steps_per_second", "total_flos", "train_loss")
# line, step, epoch, whether it is about training, values, rank
Print = tuple[int, int | None, float | None, bool, dict[str, float], int | None]
_LAG = 0.2  # share of the logging interval by which a bar may be behind (tqdm draws ten times a second at most)


def sniff(head: bytes, path: Path) -> int:
    found, lines = text.share(head, _ROW)
    return 72 if found and lines else 0


def read(source: Source, builder: RunBuilder) -> None:
    walk(source, builder, (taker, printed_config.watch), notable.watch, (printed_config.watch,))


def numbers(shown: str) -> dict[str, Any] | None:
    """A printed dict with bare nan and inf; None where it is none."""
    try:
        found = ast.literal_eval(re.sub(r"(?<=[:\[,] )(-?)(nan|inf)\b", r"'\1\2'", shown, flags=re.IGNORECASE))
    except (ValueError, SyntaxError, RecursionError, MemoryError):
        return None
    return found if isinstance(found, dict) else None


def taker(rows: Rows) -> Taker:
    """Takes printed dicts; they become rows at the end, when the logging interval is known."""
    kept: list[Print] = []
    bars: dict[int, int] = {}
    known: dict[str, float] = {}
    last_total = [0]
    training = [0]
    last_said = [""]

    def bar(shown: str) -> bool:
        hit = _BAR.match(text.split(shown).body if shown[0] in "[(" else shown)
        if hit is None:
            return False
        done, total = int(hit[1] or hit[3]), int(hit[2] or hit[4])
        if bars.get(total) != done:
            last_said[0] = ""  # the same print at another step is no repetition
        bars[total] = done
        last_total[0] = total
        if total == (training[0] or int(known.get("total", 0)) or total):
            rows.open_step = done
        if len(bars) > 64:
            del bars[next(iter(bars))]
        return True

    def take(line_number: int, shown: str | None) -> bool:
        if shown is None:
            _place(rows, kept, known)
            return False
        is_bar = "%|" in shown and bar(shown) and "loss=" not in shown
        if "{'" not in shown and '{"' not in shown:
            if "= " in shown or "logging_" in shown:
                header(shown)
            return is_bar
        hit = _DICT.search(shown)
        said = numbers(hit[0]) if hit else None
        if said is None:
            return is_bar
        values = {key: found for key, value in said.items() if (found := number(value)) is not None}
        if not any("loss" in key or "reward" in key or key.startswith("eval_") for key in values):
            return is_bar
        if shown == last_said[0] and not is_bar:
            return True  # another rank says the same
        last_said[0] = shown
        told = next((whole(said[key]) for key in _GLOBAL if key in said), None)
        trains = not _TRAINING.isdisjoint(values)
        trains = trains or ("train_loss" in values and "train_runtime" not in values)
        if trains and not training[0] and last_total[0]:
            training[0] = int(known.get("total", 0)) if int(known.get("total", 0)) in bars else last_total[0]
        step = told if told is not None else bars.get(training[0])
        if "train_runtime" in values:
            rows.builder.event(shown.strip(), "end", line_number)
            values = {key: value for key, value in values.items() if key not in _SUMMARY}
        epoch = values.get("epoch")
        for key in _GLOBAL:
            values.pop(key, None)
        if [key for key in values if key != "epoch"]:
            kept.append(
                (line_number, step, epoch, trains, values, text.split(shown[: hit.start()] if hit else shown).rank)
            )
            rows.pulse += 1
            rows.last_step = step if step is not None else rows.last_step
        return True

    def header(shown: str) -> None:
        for name, pattern in (("total", _TOTAL), ("epochs", _EPOCHS), ("logging", _LOGGING)):
            if hit := pattern.search(shown):
                known[name] = float(hit[1].replace(",", ""))
        if _FIRST.search(shown):
            known["first"] = 1.0

    return take


def whole(value: Any) -> int | None:
    found = number(str(value).split("/")[0])
    return int(found) if found is not None and found == found and abs(found) < 2**62 else None


def _place(
    rows: Rows,
    kept: list[Print],
    known: dict[str, float],
) -> None:
    """Give every print its step and add the rows."""
    if not kept:
        return
    if known.get("total") and known.get("epochs"):
        rows.builder.set_config({"max_steps": int(known["total"]), "num_train_epochs": known["epochs"]})
    if not (known.get("total") and known.get("epochs")):
        kept = _by_epoch(kept)
    seen = [step for _, step, _, trains, _, _ in kept if trains and step is not None]
    every = int(known.get("logging", 0)) if known.get("logging", 0) >= 1 else _interval(seen)
    per_epoch = known["total"] / known["epochs"] if known.get("epochs") and known.get("total") else None
    counted = 0
    guessed = False
    last = 0
    for line, step, epoch, trains, values, rank in kept:
        if trains:
            counted += 1
        if step is not None:
            behind = -step % every if every > 1 else 0
            first = trains and counted == 1 and step <= 1
            at = step + behind if trains and behind and behind <= max(1, every * _LAG) and not first else step
        elif per_epoch and epoch is not None and epoch == epoch:
            at = round(epoch * per_epoch)
            if every > 1 and trains and abs(at - round(at / every) * every) <= every * _LAG:
                at = round(at / every) * every
        elif trains:
            guessed = True
            at = counted * max(1, int(known.get("logging", 1)))
        else:
            at = last
        last = at
        rows.add(at, values, line, rank, f"{line}")
    if guessed and "logging" not in known:
        rows.builder.problem(
            None,
            "the prints carry no step and no progress bar stands before them; steps are the count of prints",
            "read trainer_state.json of the newest checkpoint instead, or keep the progress bars in the log",
            COUNTED,
        )


def _by_epoch(kept: list[Print]) -> list[Print]:
    """The dicts of an own loop, one a whole epoch and none with a step: the epoch counts."""
    whole_epochs = {epoch for _, step, epoch, *_ in kept if step is None and epoch is not None and epoch % 1.0 == 0.0}
    if len(whole_epochs) < len(kept):
        return kept
    return [(line, int(epoch or 0), epoch, trains, values, rank) for line, _, epoch, trains, values, rank in kept]


def _interval(seen: list[int]) -> int:
    """The logging interval that the bars show: the usual distance between two prints."""
    gaps = sorted(b - a for a, b in pairwise(seen) if b > a)
    return gaps[len(gaps) // 2] if len(gaps) >= 3 else 0
