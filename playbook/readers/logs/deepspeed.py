"""Logs of the DeepSpeed engine and of DeepSpeed-Chat: `step=10, skipped=0, lr=[..], mom=[..]`, OVERFLOW lines, timers.

The loss scale comes from the overflow lines (each rank may repeat one; it is taken once). Scripts print their own loss
lines between, so those of any usual shape are taken too.
"""

from __future__ import annotations

import re
from pathlib import Path

from playbook.readers import text
from playbook.readers.base import RunBuilder
from playbook.readers.logs import hf_print, lightning_bar, loose, notable, printed_config
from playbook.readers.logs.rows import Rows, Taker, walk
from playbook.readers.source import Source

NAME = "deepspeed"
TITLE = "DeepSpeed log"

_STEP = re.compile(rf"\bstep=(\d+), skipped=(\d+), lr=\[(?P<lr>{text.NUM})?[^\]]*\]")
_TIMER = re.compile(r"\b(?:epoch=\d+/)?micro_step=\d+/global_step=(\d+), (.*)")
_PIPE = re.compile(rf"\bsteps: (\d+) loss: ({text.NUM}) iter time \(s\): ({text.NUM}) samples/sec: ({text.NUM})")
_CHAT = re.compile(rf"\bEpoch: (\d+), Step: (\d+), Rank: (\d+), loss = ({text.NUM})")
_PPO = re.compile(r"\bEpoch: (\d+) \| Step: (\d+) \| PPO Epoch: \d+ \|(.*)")
_SCORE = re.compile(
    rf"^\s*(?:Average reward score|average reward score|ppl|chosen_last_scores \(higher is better\) ?): ?({text.NUM})"
)
_ACC = re.compile(rf"acc \(higher is better\) : ({text.NUM})")
_EPOCH = re.compile(rf"^Epoch (\d+)/\d+ with loss ({text.NUM})")
_MICRO = re.compile(r"^Beginning of Epoch (\d+)/(\d+), Total Micro Batches (\d+)")
_MINE = re.compile(
    r"\bstep=\d+, skipped=\d+, lr=\[|micro_step=\d+/global_step=|\[deepspeed\] OVERFLOW!"
    r"|\[Rank 0\] Overflow detected|fused_optimizer\.py:\d+|"
    r"\bsteps: \d+ loss: |PPO Epoch: \d+|Epoch: \d+, Step: \d+, Rank: \d+, loss"
)
_ENGINE = re.compile(r"\[config\.py:\d+:print\]|DeepSpeed info: version|loss_scaler\.py")


def sniff(head: bytes, path: Path) -> int:
    if text.share(head, _MINE)[0]:
        return 55
    return 35 if text.share(head, _ENGINE)[0] > 1 else 0


def read(source: Source, builder: RunBuilder) -> None:
    walk(
        source,
        builder,
        (taker, loose.quick, hf_print.taker, lightning_bar.taker, printed_config.watch, loose.taker),
        notable.watch,
        (printed_config.watch,),
    )


def taker(rows: Rows) -> Taker:
    """Takes the rows of the engine and of DeepSpeed-Chat."""

    def take(number: int, shown: str | None) -> bool:
        if shown is None:
            return False
        if "step=" in shown:
            if hit := _STEP.search(shown):
                values = {"skipped": float(hit[2])}
                if hit["lr"]:
                    values["lr"] = text.value(hit["lr"])
                rows.add(int(hit[1]), values, number, None, hit[0])
                return True
            if hit := _TIMER.search(shown):
                rows.add(int(hit[1]), text.pairs(hit[2]), number, None, hit[0])
                return True
        if "steps: " in shown and (hit := _PIPE.search(shown)):
            named = zip(("loss", "iter time (s)", "samples/sec"), hit.groups()[1:], strict=True)
            rows.add(int(hit[1]), {name: text.value(found) for name, found in named}, number, None, hit[0])
            return True
        if "poch" in shown or "score" in shown or "ppl" in shown:
            return chat(number, shown)
        return False

    def chat(number: int, shown: str) -> bool:
        if hit := _CHAT.search(shown):
            rows.add(int(hit[2]), {"loss": text.value(hit[4])}, number, int(hit[3]))
            return True
        if hit := _PPO.search(shown):
            rows.add(int(hit[2]), text.pairs(hit[3].replace("|", ",")), number)
            return True
        body = text.split(shown).body
        if hit := _MICRO.match(body):
            rows.builder.set_config({"num_train_epochs": int(hit[2]), "micro_batches_per_epoch": int(hit[3])})
            return True
        if hit := _EPOCH.match(body):
            rows.add(rows.last_step or 0, {"epoch loss": text.value(hit[2])}, number)
            return True
        if hit := _SCORE.match(body):
            name = "eval_ppl" if body.lstrip().startswith("ppl") else "reward" if "verage" in hit[0] else "chosen_score"
            values = {name: text.value(hit[1])}
            if found := _ACC.search(body):
                values["eval_accuracy"] = text.value(found[1])
            rows.add(rows.last_step or 0, values, number)
            return True
        return False

    return take
