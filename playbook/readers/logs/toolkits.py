"""Rows whose shape belongs to one toolkit, and which the rules for any logger cannot read.

Darknet, Marian, ESPnet, WeNet, timm and OpenPCDet, Levanter, Kaldi, TensorFlow's estimator, Deeplearning4j, MindSpore,
CycleGAN: one line of the table each.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import NamedTuple

from playbook.readers import text
from playbook.readers.logs.rows import EpochSteps, Rows, Taker

_N = text.NUM


class Toolkit(NamedTuple):
    """`row` has the groups `step` (none: the row before), perhaps `epoch`, `length`, `kilo`, and `rest`, whose pairs
    are values; every other group is a value under its own name. Without a value the line is taken and gives no row."""

    hint: str  # stands in every such line
    row: re.Pattern[str]
    held: bool = False  # the numbers are those of held-out data
    means: Mapping[str, str] = {}  # names that mean another thing here than elsewhere


_COUNTS = frozenset(("step", "epoch", "length", "kilo", "rest"))
TABLE = (
    Toolkit(  # 2267: 1.2034, 1.3412 avg, 0.001000 rate, 3.430528 seconds, 145088 images
        " rate, ",
        re.compile(
            rf"^\s*(?P<step>\d{{1,9}}): (?P<loss>{_N}), (?P<avg_loss>{_N}) avg(?: loss)?, (?P<lr>{_N}) rate,"
            rf" (?P<step_time>{_N}) seconds, \d+ images"
        ),
    ),
    Toolkit(  # Ep. 1 : Up. 14000 : Sen. 965,843 : Cost 5.2 : Time 359.59s : 3007.81 words/s : gNorm 0.2 : L.r. 3e-04
        " : Up. ",
        re.compile(
            rf"^Ep\. \d+ : Up\. (?P<step>\d[\d,]{{0,14}}) : Sen\. [\d,]+ : Cost (?P<cost>{_N})[^:]* : Time [\d.]+s"
            rf"(?: : (?P<words_per_second>{_N}) words/s)?(?: : gNorm (?P<gnorm>{_N}))?(?: : L\.r\. (?P<lr>{_N}))?"
        ),
    ),
    Toolkit(
        " : perplexity : ",
        re.compile(rf"^\[valid\] Ep\. \d+ : Up\. (?P<step>\d[\d,]{{0,14}}) : perplexity : (?P<valid_ppl>{_N})"),
    ),
    Toolkit(  # 1epoch:train:683-1364batch: iter_time=2.9e-04, loss=123.963, ..., optim0_lr0=3.460e-06
        "epoch:train:",
        re.compile(r"^(?P<epoch>\d{1,7})epoch:train:\d+-(?P<step>\d{1,12})batch: (?P<rest>.*)"),
        means={"iter_time": "data_time", "train_time": "step_time"},
    ),
    Toolkit("epoch results: ", re.compile(r"^\d{1,7}epoch results: .*?\[valid\] (?P<rest>.*?)(?:, \[|$)"), held=True),
    Toolkit(
        "TRAIN Batch ",
        re.compile(r"^TRAIN Batch (?P<epoch>\d{1,7})/(?P<step>\d{1,12}) (?P<rest>.*)"),
    ),
    Toolkit("CV Batch ", re.compile(r"^CV Batch \d{1,7}/\d{1,12} ")),
    Toolkit(  # Train: 0 [  50/1251 (  4%)]  Loss: 6.94 (6.95)  Time: 0.350s, 2925.10/s  LR: 1.000e-05
        "%)]",
        re.compile(
            r"^Train: +(?P<epoch>\d{1,7})(?:/\d+)?(?: \( *\d+%\))? \[ *(?P<step>\d{1,12})/(?P<length>\d{1,12}) "
            r"\( *\d+%\)\] +(?P<rest>.*)"
        ),
    ),
    Toolkit(  # Progress on:train 1.23kit/5.00kit rate:1.2it/s remaining:55:33 elapsed:13:53 postfix:loss=2.34
        "Progress on:train ",
        re.compile(r"Progress on:train (?P<step>[\d.]{1,12})(?P<kilo>k?)it/\S+ .*?postfix:(?P<rest>.*)"),
    ),
    Toolkit(  # LOG (nnet3-train...) Average objective function for 'output' for minibatches 0-9 is -0.2 over 12800
        "Average objective function for 'output' ",
        re.compile(rf"for 'output' for minibatches \d+-(?P<step>\d{{1,9}}) is -(?P<loss>{_N}) over \d"),
    ),
    Toolkit(
        "Score at iteration ",
        re.compile(rf"\bScore at iteration (?P<step>\d{{1,12}}) is (?P<loss>{_N})"),
    ),
    Toolkit(  # epoch: 2 step: 100, loss is 1.9231
        ", loss is ",
        re.compile(
            rf"^epoch: (?P<epoch>\d{{1,7}}),? step: (?P<step>\d{{1,12}})(?:/(?P<length>\d{{1,12}}))?"
            rf", loss is (?P<loss>{_N})"
        ),
    ),
    Toolkit(  # Train epoch time: 20568.1 ms, per step time: 41.136 ms
        "per step time: ",
        re.compile(r"^(?:Train )?epoch time: .*?(?P<rest>per step time: .*)"),
        means={"per step time": "step_time", "time": "step_time"},
    ),
    Toolkit(  # (epoch: 1, iters: 100, time: 1.2, data: 0.9) D_A: 0.2 G_A: 0.3 cycle_A: 1.4
        "(epoch: ",
        re.compile(r"\(epoch: (?P<epoch>\d{1,7}), iters: (?P<step>\d{1,12}), (?P<rest>time: .*)"),
    ),
    Toolkit("global_step/sec: ", re.compile(rf"^global_step/sec: (?P<steps_per_second>{_N})")),
)
_HINTS = tuple(kit.hint for kit in TABLE)


def found(body: str) -> tuple[Toolkit, re.Match[str]] | None:
    """The toolkit whose row a line (without what the logger put before it) is."""
    for kit in TABLE:
        if kit.hint in body and (hit := kit.row.search(body)):
            return kit, hit
    return None


def taker(rows: Rows) -> Taker:
    """Takes the rows of the table."""
    epochs = EpochSteps()

    def take(number: int, shown: str | None) -> bool:
        if shown is None or not any(hint in shown for hint in _HINTS):
            return False
        line = text.split(shown)
        what, rank = found(line.body.lstrip()), line.rank
        if what is None and (what := found(shown)) is not None:
            rank = None  # the `250:` in front is the step and no label of srun
        if what is None:
            return False
        kit, hit = what
        groups = hit.groupdict()
        values = {name: text.value(said) for name, said in groups.items() if name not in _COUNTS and said}
        values |= text.pairs(groups.get("rest") or "")
        values = {kit.means.get(name, name): value for name, value in values.items()}
        step = _step(groups, epochs) if groups.get("step") else rows.last_step
        if step is None or not values:
            return True
        if kit.held:
            values = {f"val/{name}": value for name, value in values.items()}
        rank = rank if rank is not None else text.rank_said(line.body)
        rows.add(step, values, number, rank, line.body)
        return True

    return take


def _step(groups: dict[str, str | None], epochs: EpochSteps) -> int:
    said = (groups["step"] or "0").replace(",", "")
    step = round(float(said) * 1000) if groups.get("kilo") else int(float(said))
    if not groups.get("epoch"):
        return step
    return epochs.step(int(groups["epoch"] or 0), step, int(groups.get("length") or 0), restarts=True)
