"""Rows of any logger: a step, an iteration or an epoch, and numbers with a key, at least one of them a metric.

Step units are tried from the most to the least global: `global_step`, `step`/`iter`, batches of an epoch (made global),
a leading `10/1000`, an epoch. Lines about checkpoints, source code and settings are no rows.
"""

from __future__ import annotations

import re

from playbook.readers import text
from playbook.readers.rows import EpochSteps, Rows, Taker

_I = r"(\d{1,3}(?:,\d{3})+|\d{1,15})(?:\.0+)?(?![\d.]*\d)"
_GLOBAL = re.compile(
    rf"(?<![a-z])(?:trainer/|training/)?(?:global[ _]?steps?|num_updates|update_num"
    rf"|max_steps)['\"]?\s*[:=]\s*['\"]?{_I}(?:\s*/\s*{_I})?",
    re.IGNORECASE,
)
_STEP = re.compile(
    r"(?<![a-z_\-])(?<!total )(?<!max )(?<!warmup )(?<!every )(?<!per )(?<!num )(?<!of )(?:train(?:ing)?[ _])?"
    rf"(?:steps?|iterations?|iters?|itr|it|updates?"
    rf"|batch(?:es)?)['\"]?\s*[#:=(\[]?\s*['\"]?{_I}(?:\s*(?:/|of)\s*{_I})?",
    re.IGNORECASE,
)
_EPOCH_BATCH = re.compile(
    r"\bepoch\s*[:#=]?\s*[\[(]?\s*(\d{1,7}+)\s*(?:/\s*\d+)?\s*[\])]?[\s,:|\-]*(?:\d{1,3}%\|[^"
    r"|]*\|\s*)?[\[(]?\s*(\d{1,12})\s*/\s*(\d{1,12})\b(?!%)",
    re.IGNORECASE,
)
_TWO_BRACKETS = re.compile(r"\[\s*(\d{1,7})\s*\]\s*\[\s*(\d{1,12})\s*/\s*(\d{1,12})\s*\]")
_LEADING = re.compile(r"^\s*\[?\s*(\d{1,12})\s*/\s*(\d{1,12})\s*\]?(?=[\s:|,\]])")
_NUMBERED = re.compile(r"^\s*\[?(\d{1,12})\]?[:\s|,]\s*(?=[A-Za-z_])")
_EPOCH = re.compile(r"(?<![a-z_])(?:epochs?|ep)\s*[:#=]?\s*[\[(]?\s*(\d{1,7})(?:\.(\d+))?\b", re.IGNORECASE)
_END_OF_EPOCH = re.compile(r"\bend of epoch\s+(\d{1,7})\b", re.IGNORECASE)
_EVAL = re.compile(r"(?:^|[^a-z])(?:val|valid|validation|eval|evaluation|test)(?:[^a-z]|$)", re.IGNORECASE)
_NO_ROW = re.compile(
    r"checkpoint|resum|Namespace\(|\b[Ss]av(?:ed|ing)\b|\b[Ll]oad(?:ed|ing)\b|num_train_epochs"
    r"|warmup_steps|\bargs?\b|argument|config|hyper|[Oo]ptimizer\(|\bTraceback\b"
)
_CODE = re.compile(
    r"\{[a-z_]\w*[:.}\[]|^\s*(?:def |class |import |return |print\w*\(|if |for |#|\"|')|==|\w\(self|;\s*$|\*\*|//"
)
_DROPPED = re.compile(
    r"^(?:eta|end of epoch|remaining|phase|seed|best|progress|elapsed|lineno|pid|port|version|rank"
    r"|worker|epochs?_total|total_epochs)",
    re.IGNORECASE,
)
_UNITS = frozenset(
    [
        "step",
        "steps",
        "iter",
        "iters",
        "iteration",
        "iterations",
        "itr",
        "it",
        "update",
        "updates",
        "batch",
        "batches",
        "global_step",
        "num_updates",
        "train_step",
        "training_step",
    ]
)


def found(body: str, epochs: EpochSteps) -> tuple[int, str, bool] | None:
    """(step, text of the row, whether it is only an epoch) of a line; None where it counts nothing.

    A line that a second writer tore holds two rows: the text begins at the last one.
    """
    epoch_batch = _EPOCH_BATCH.search(body) or _TWO_BRACKETS.search(body)
    for pattern in (_GLOBAL, _STEP):
        hits = list(pattern.finditer(body))
        if not hits:
            continue
        if epoch_batch is not None and pattern is _STEP and hits[-1].start() <= epoch_batch.end(2):
            break
        best = hits[-1] if len({h[1] for h in hits}) > 1 and _torn(body, hits) else hits[0]
        step = int(best[1].replace(",", ""))
        row = body[best.start() :] if best is not hits[0] else body
        epoch = _EPOCH.search(row)
        if pattern is _STEP and epoch is not None:
            total = int(best[2].replace(",", "")) if best[2] else None
            return epochs.step(int(epoch[1]), step, total), row, False
        return step, row, False
    if epoch_batch is not None:
        number, batch, length = (int(part) for part in epoch_batch.groups())
        return epochs.step(number, batch, length, restarts=True), body, False
    if hit := _END_OF_EPOCH.search(body):
        return int(hit[1]), body, True
    if hit := _LEADING.match(body):
        return int(hit[1]), body, False
    if hit := _EPOCH.search(body):
        return int(hit[1]), body, True
    if hit := _NUMBERED.match(body):
        return int(hit[1]), body, False
    return None


def _torn(body: str, hits: list[re.Match[str]]) -> bool:
    """Two counts with the same word are two rows; `iter 10 step 5` is one row with two counts."""
    words = [re.split(r"[\s:=#\[(]", hit[0].lower(), maxsplit=1)[0] for hit in hits]
    return len(set(words)) < len(words)


def taker(rows: Rows) -> Taker:
    """Takes rows of any logger."""
    epochs = EpochSteps()
    batches = [False]  # whether rows below an epoch were met: then an epoch's own row stands at the last step

    def take(number: int, shown: str | None) -> bool:
        if (
            shown is None
            or len(shown) > 20_000
            or text.METRIC.search(shown) is None
            or not any(map(str.isdigit, shown))
        ):
            return False
        line = text.split(shown)
        body = line.body
        if _NO_ROW.search(body) or _CODE.search(body):
            return False
        place = found(body, epochs)
        rank = line.rank
        if place is None:
            if rank is not None and shown.lstrip()[:1].isdigit():  # "250: train loss 3.1": no label of srun
                return put(rank, text.pairs(body), number, None, shown)
            return alone(number, line)
        step, row, is_epoch = place
        values = text.pairs(row)
        if is_epoch and batches[0] and rows.last_step is not None:
            step = epochs.end(step) or rows.last_step
            kept = {key: value for key, value in values.items() if not _DROPPED.match(key)}
            values = {key if _EVAL.search(key) else f"epoch_mean/{key}": value for key, value in kept.items()}
        if not put(step, values, number, rank, body):
            return False
        batches[0] = batches[0] or not is_epoch
        return True

    def put(step: int, values: dict[str, float], number: int, rank: int | None, said: str) -> bool:
        kept = {key: value for key, value in values.items() if key.lower() not in _UNITS and not _DROPPED.match(key)}
        if not any(text.METRIC.search(key) for key in kept):
            return False
        rows.add(step, kept, number, rank, said)
        return True

    def alone(number: int, line: text.Line) -> bool:
        """`validation loss: 3.2` without a step belongs to the last row."""
        if rows.last_step is None or len(line.body) > 200 or not _EVAL.search(line.body):
            return False
        values = text.pairs(line.body)
        kept = {key: value for key, value in values.items() if _EVAL.search(key) and text.METRIC.search(key)}
        return bool(kept) and put(rows.last_step, kept, number, line.rank, line.body)

    return take
