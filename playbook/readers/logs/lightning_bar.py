"""Progress bars with metrics, of Lightning, NeMo and tqdm: `Epoch 0: 10%|..| 5/50 [..., loss=2.3, global_step=4]`.

A bar is drawn many times for one step: the last drawing counts. The numbers may also stand before the bar (`Loss: 2.3:
10%|..|`). The step is `global_step` where the bar tells it in full, else the batches of all epochs (a bar that is full
and begins anew is the next epoch). Bars of validation, downloads and data preparation are left out.
"""

from __future__ import annotations

import re
from itertools import islice
from pathlib import Path

from playbook.readers import text
from playbook.readers.base import RunBuilder
from playbook.readers.logs import notable, printed_config
from playbook.readers.logs.rows import EpochSteps, Rows, Taker, walk
from playbook.readers.source import Source

NAME = "lightning_bar"
TITLE = "progress bar of Lightning, NeMo or tqdm"

_BAR = re.compile(
    r"(?P<what>[^|%\r]{0,80}?)\s*(?:\d{1,3}%\s?\|[^|]{0,400}\||[━╸╺\-─ ]{5,200})\s*"
    r"(?P<done>\d{1,12})/(?P<all>\d{1,12})\s*"
    r"(?:\[[^\]\[,]{0,60},?|[\d:• ]{5,40})(?P<rest>[^\]]*[=:][^\]]*)"
)
# Where a bar may begin; `_BAR` is tried from there only, since it would look at each place of a long line many times.
_CORE = re.compile(r"\d{1,3}%\s?\||(?<![━╸╺\-─ ])[━╸╺\-─ ]{5,}+(?=\d)")
_BEFORE = re.compile(r"[^|%\r]{0,80}\Z")
_LONGEST = 4096  # characters of a line that may be a bar
_CORES = 20  # of one line
_TITLED = re.compile(
    r"(?P<what>(?P<rest>[^%\r]{2,400}?)):?\s*\d{1,3}%\s?\|[^|]{0,400}\|\s*(?P<done>\d{1,12})/(?P<all>\d{1,12})\s*\["
)
_COUNT = re.compile(r"(?P<what>\bEpoch \d+: :?) (?P<done>\d{1,12})it \[[^\]\[,]{0,40},(?P<rest>[^\]]*=[^\]]*)")
_LINE = re.compile(r"\bTraining (?P<what>epoch \d+), iteration (?P<done>\d+)/(?P<all>\d+) \| (?P<rest>.*)$")
_EPOCH = re.compile(r"\bepoch\W{0,3}(\d{1,7})", re.IGNORECASE)
_OTHER = re.compile(
    r"\b(?:eval|val(?!ue)|test|predict|sanity|sanit|infer|download|map|generat|load|filter|token|fetch|sampl|pack)",
    re.IGNORECASE,
)
_TIMING = re.compile(rf"\b(train_step_timing in s|train_backward_timing in s)[=:] ?({text.NUM})")
_ROUNDED = re.compile(r"\bglobal_step=[\d.]+e\+")  # three digits of a large step: not enough
_STEPS = ("global_step", "step", "trainer/global_step")
_DROPPED = ("v_num", "global_step", "step", "iteration", "epoch")


def sniff(head: bytes, path: Path) -> int:
    bars = [found for line in text.head_lines(head) if (found := _found(line)) is not None]
    if any(hit.re is _LINE or _EPOCH.search(hit["what"]) for hit in bars):
        return 66
    return 35 if bars else 0


def read(source: Source, builder: RunBuilder) -> None:
    walk(source, builder, (taker, printed_config.watch), notable.watch, (printed_config.watch,))


def _found(shown: str) -> re.Match[str] | None:
    """A bar with metrics, of training."""
    shown = shown[:_LONGEST]
    if "%|" in shown or "% |" in shown or "━" in shown:
        hit = _bar(shown)
    elif "Training epoch" in shown:
        hit = _LINE.search(shown)
    else:
        hit = _COUNT.search(shown) if "it [" in shown else None
    if (hit is None or not _holds_metric(hit["rest"])) and "%|" in shown:
        hit = _TITLED.match(shown)
    if hit is None or _OTHER.search(hit["what"]) or not text.may_hold_metric(hit["rest"]):
        return None
    return hit


def _holds_metric(said: str) -> bool:
    return text.may_hold_metric(said) and any(map(text.is_metric, text.pair_spans(said)))


def _bar(shown: str) -> re.Match[str] | None:
    for core in islice(_CORE.finditer(shown), _CORES):
        low = max(0, core.start() - 80)
        before = _BEFORE.search(shown, low, core.start())
        if before is not None and (hit := _BAR.match(shown, before.start())):
            return hit
    return None


def taker(rows: Rows) -> Taker:
    """Takes bars; a step is handed on when the next one begins."""
    epochs = EpochSteps()
    pending: list[tuple[int, dict[str, float], int, int | None]] = []
    state = {"epoch": 0, "done": 0, "all": 0, "ahead": 0}  # ahead: global step less batches

    def put() -> None:
        if pending:
            step, values, place, rank = pending.pop()
            rows.add(step, values, place, rank)
            rows.open_step = None

    def batches(hit: re.Match[str], done: int, length: int) -> int:
        told = _EPOCH.search(hit["what"])
        if told is not None:
            state["epoch"] = int(told[1])
        elif done < state["done"] and state["done"] >= state["all"] > 0:
            state["epoch"] += 1
        state["done"], state["all"] = done, length
        if state["epoch"] == 0:
            return epochs.step(0, done, length)
        return epochs.step(state["epoch"], done, length, restarts=True)

    def take(place: int, shown: str | None) -> bool:
        if shown is None:
            put()
            return False
        hit = _found(shown)
        if hit is None:
            return False
        values = text.pairs(_TIMING.sub("", hit["rest"]))
        for name, found in _TIMING.findall(hit["rest"]):
            values[name] = text.value(found)
        told = next((values[name] for name in _STEPS if name in values), None)
        done, length = int(hit["done"]), int(hit.groupdict().get("all") or 0)
        step = done if hit.re is _LINE else batches(hit, done, length)
        if told is not None and abs(told) < 2**53:
            if _ROUNDED.search(hit["rest"]) is None:
                state["ahead"] = int(told) - step
                step = int(told)
            elif abs(told - step - state["ahead"]) <= 0.01 * told:
                step += state["ahead"]
            else:  # several batches make one step
                step = int(told)
        for name in _DROPPED:
            values.pop(name, None)
        if not any(map(text.is_metric, values)):
            return False
        if "reduced_train_loss" in values:
            values.pop("loss", None)  # Lightning's own, an average over the last steps
        rank = text.split(shown).rank
        if pending and pending[0][0] != step:
            put()
        pending[:] = [(step, values, place, rank)]
        rows.open_step = step
        return True

    return take
