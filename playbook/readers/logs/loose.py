"""Rows of any logger: a step, an iteration or an epoch, and numbers with a key, at least one of them a metric.

Step units are tried from the most to the least global: `global_step`, `step`/`iter`, batches of an epoch (made global),
a leading `10/1000`, an epoch, an episode. Lines about checkpoints, source code and settings are no rows.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import NamedTuple

from playbook.readers import text
from playbook.readers.logs.rows import EpochSteps, Rows, Taker

_I = r"(\d{1,3}(?:,\d{3})+|\d{1,15})(?:\.0+)?(?![\d.]*\d)"
_GLOBAL = re.compile(
    rf"(?<![a-z])(?:trainer/|training/)?(?:global[ _]?steps?|num_updates|update_num"
    rf"|max_steps)['\"]?\s*[:=]\s*['\"]?{_I}(?:\s*/\s*{_I})?",
    re.IGNORECASE,
)
_STEP = re.compile(
    r"(?<![a-z_\-])(?<!total )(?<!max )(?<!warmup )(?<!every )(?<!per )(?<!num )(?<!of )(?:train(?:ing)?[ _])?"
    rf"(?:steps?|iterations?|iters?|itr|it|updates?"
    rf"|batch(?:es|[_ ]?(?:id|idx|index))?)['\"]?\s*[#:=(\[]?\s*['\"]?{_I}(?:\s*(?:/|of)\s*{_I})?",
    re.IGNORECASE,
)
_EPOCH_BATCH = re.compile(
    r"\bepoch\s*[:#=]?\s*[\[(]?\s*(\d{1,7}+)\s*(?:/\s*\d+)?\s*[\])]?[\s,:|\-]*(?:\d{1,3}%\|[^"
    r"|]*\|\s*)?[\[(]?\s*(\d{1,12})\s*/\s*(\d{1,12})\b(?!%)",
    re.IGNORECASE,
)
_TWO_BRACKETS = re.compile(r"\[\s*(\d{1,7})\s*(?:/\s*\d{1,7}\s*)?\]\s*\[\s*(\d{1,12})\s*/\s*(\d{1,12})\s*\]")
_LEADING = re.compile(r"^\s*\[?\s*(\d{1,12})\s*/\s*(\d{1,12})\s*\]?(?=[\s:|,\]])")
_TRAILING = re.compile(r"\[\s*(\d{1,12})\s*/\s*(\d{1,12})\s*\]\s*$")
_EPOCH_ITER = re.compile(r"\bepoch/iter\s*[:=]\s*(\d{1,7})/(\d{1,12})\b", re.IGNORECASE)
_NUMBERED = re.compile(r"^\s*\[?(\d{1,12})\]?[:\s|,]\s*(?=[A-Za-z_])")
_EPOCH = re.compile(r"(?<![a-z_])(?:epochs?|ep)\s*[:#=]?\s*[\[(]?\s*(\d{1,7})(?:\.(\d+))?\b", re.IGNORECASE)
_EPISODE = re.compile(r"\bepisodes?\s*[:#=]?\s*[\[(]?\s*(\d{1,12})\b(?!\.\d)", re.IGNORECASE)
_END_OF_EPOCH = re.compile(r"\bend of epoch\s+(\d{1,7})\b", re.IGNORECASE)
_EVAL = re.compile(r"(?:^|[^a-z])(?:vali?|valid|validation|eval|evaluation|test|cv)(?:[^a-z]|$)", re.IGNORECASE)
# Words that say of a whole row, before its first metric, that its numbers are those of held-out data.
_HELD = re.compile(
    r"(?<![\w./\-])(?:vali?|valid|validation|validating|eval|evaluation|evaluating|test|testing)(?![\w/\-.=])|^\W*dev\b",
    re.IGNORECASE,
)
_OF_BATCH = re.compile(r"\[\s*\d+\s*/\s*\d+|\d%\|")
_AVERAGE = re.compile(r"^(?:avg|average|mean)[ _.]", re.IGNORECASE)
_NO_ROW = re.compile(
    r"checkpoint|resum|Namespace\(|\b[Ss]av(?:ed|ing)\b|\b[Ll]oad(?:ed|ing)\b|num_train_epochs"
    r"|warmup_steps|\bargs?\b|argument|config|hyper|[Oo]ptimizer\(|\bTraceback\b"
)
_DIGIT = re.compile(r"\d")
# A number that stands by itself, with an optional unit glued to it; digits inside words belong to the shape of a line.
_TOKEN = re.compile(
    r"(?<![\w.])[-+]?(?:(?:\d{1,3}(?:,\d{3})+(?!\d)|\d+)(?:\.\d*)?(?:[eE][-+]?\d+)?(?![\d.])"
    r"|(?:[nN][aA][nN]|[iI][nN][fF](?:inity)?)(?!\w))"
)
_SHAPES = 500  # shapes of rows that are remembered
_LONGEST = 2_000  # characters of a line whose shape is remembered
_CODE = re.compile(
    r"\{[a-z_]\w*[:.}\[]|^\s*(?:def |class |import |return |print\w*\(|if |for |#|\"|')|(?<![=\[])==(?![=\]>])|\w\(self"
    r"|^[^;]*;\s*$|\*\*|//"
)
_DROPPED = re.compile(
    r"^(?:eta|end of epoch|remaining|phase|seed|best|progress|elapsed|lineno|pid|port|version|rank"
    r"|worker|epochs?_total|total_epochs)",
    re.IGNORECASE,
)
_UNITS = frozenset((
    "step", "steps", "iter", "iters", "iteration", "iterations", "itr", "it", "update", "updates", "batch",
    "batches", "batch_id", "batch_idx", "batch_index", "global_step", "num_updates", "train_step", "training_step",
    "episode", "episodes",
))  # fmt: skip
_OTHERS = (
    (_END_OF_EPOCH, "epoch"), (_LEADING, "part"), (_EPOCH, "epoch"), (_EPISODE, "step"), (_NUMBERED, "step"),
    (_TRAILING, "part"),
)  # fmt: skip


class Place(NamedTuple):
    """How a line counts: by a step, a step that may begin anew with each epoch, batches of an epoch, or epochs;
    a `10/100` ("part") is a step, or such a step of the epoch that stands in a line of its own above.

    Spans are (start, end) in the line; `row` is where the row begins (a torn line holds two: the last one counts).
    """

    kind: str  # "step", "epoch step", "batch", "epoch", "part"
    step: tuple[int, int]
    epoch: tuple[int, int] | None = None
    length: tuple[int, int] | None = None
    row: int = 0
    alone: bool = True  # whether the place depends on nothing but the shape of the line


def found(body: str) -> Place | None:
    """What a line counts; None where it counts nothing."""
    has_epoch = "poch" in body or "POCH" in body or "ep" in body
    if "poch/iter" in body and (hit := _EPOCH_ITER.search(body)):
        return Place("epoch step", hit.span(2), hit.span(1))
    epoch_batch = _EPOCH_BATCH.search(body) if has_epoch else None
    if epoch_batch is None and "[" in body:
        epoch_batch = _TWO_BRACKETS.search(body)
    for pattern in (_GLOBAL, _STEP):
        hits = list(pattern.finditer(body))
        if not hits:
            continue
        if epoch_batch is not None and pattern is _STEP and hits[-1].start() <= epoch_batch.end(2):
            break
        if pattern is _STEP and (_is_size(hits[0], body) or _is_length(hits[0], body)):
            break
        best = hits[-1] if len({h[1] for h in hits}) > 1 and _torn(hits) else hits[0]
        row = 0 if best is hits[0] else best.start()
        epoch = _EPOCH.search(body, row) if has_epoch and pattern is _STEP else None
        length = best.span(2) if best[2] else None
        if epoch is None:
            kind = "part" if length and pattern is _STEP else "step"
            return Place(kind, best.span(1), None, length, row, len(hits) == 1)
        return Place("epoch step", best.span(1), epoch.span(1), length, row, len(hits) == 1)
    if epoch_batch is not None:
        return Place("batch", epoch_batch.span(2), epoch_batch.span(1), epoch_batch.span(3))
    for pattern, kind in _OTHERS:
        if hit := pattern.search(body):
            return Place(kind, hit.span(1), None, hit.span(2) if kind == "part" else None)
    return None


def count(kind: str, step: int, epoch: int, length: int, lane: _Lane) -> int:
    """The step of the run that a line counts (an epoch stays an epoch)."""
    epochs = lane.epochs
    if kind == "part":
        return step if lane.heading is None else epochs.step(lane.heading, step, length)
    if kind == "batch":
        return epochs.step(epoch, step, length, restarts=True)
    return epochs.step(epoch, step, length or None) if kind == "epoch step" else step


def _is_size(hit: re.Match[str], body: str) -> bool:
    """Whether `batch 16` behind the values of a line that begins with `[500/50000]` is the size of a batch."""
    leading = _LEADING.match(body)
    return (
        leading is not None
        and hit[2] is None
        and hit[0].lower().startswith("batch")
        and text.is_metric(body[leading.end() : hit.start()])
    )


def _is_length(hit: re.Match[str], body: str) -> bool:
    """Whether `steps: 200` behind the number of an episode is how long it lasted."""
    episode = _EPISODE.search(body)
    return episode is not None and episode.start() < hit.start() and hit[0].lower().startswith("steps")


def _torn(hits: list[re.Match[str]]) -> bool:
    """Two counts with the same word are two rows; `iter 10 step 5` is one row with two counts."""
    words = [re.split(r"[\s:=#\[(]", hit[0].lower(), maxsplit=1)[0] for hit in hits]
    return len(set(words)) < len(words)


def _whole(shown: str) -> int:
    """The whole number of a span; raises ValueError where it is none."""
    shown = shown.replace(",", "")
    return int(shown) if shown.isdecimal() else int(shown.removesuffix("." + "0" * (len(shown) - shown.find(".") - 1)))


@lru_cache(maxsize=8192)
def _wanted(key: str) -> bool:
    """Whether a number is worth keeping: not the count itself, nor a time to go."""
    return key.lower() not in _UNITS and _DROPPED.match(key) is None


def taker(rows: Rows) -> Taker:
    """Takes rows of any logger."""
    lane = _lane(rows)

    def take(number: int, shown: str | None) -> bool:
        if shown is None or not text.may_hold_metric(shown) or _DIGIT.search(shown) is None:
            return False
        line = text.split(shown)
        body = line.body
        if _NO_ROW.search(body) or _CODE.search(body):
            return False
        place = found(body)
        if place is None:
            if line.rank is not None and shown.lstrip()[:1].isdecimal():  # "250: train loss 3.1": no label of srun
                return _put(rows, line.rank, text.pairs(body), number, None, shown)
            return _alone(rows, number, line)
        spans = text.pair_spans(body, place.row)
        values = {key: text.value(body[start:end], unit) for key, (start, end, unit) in spans.items()}
        rank = line.rank if line.rank is not None else text.rank_said(body)
        if subset := _held(body, spans):
            return _put_held(rows, lane, body, place, _named(values, subset), number, rank)
        counted, epoch, length = (_whole(body[slice(*s)]) if s else 0 for s in (place.step, place.epoch, place.length))
        step = count(place.kind, counted, epoch, length, lane)
        if place.kind == "epoch" and lane.batches and rows.last_step is not None:
            step = lane.epochs.end(step) or rows.last_step
            values = {
                key if _EVAL.search(key) else f"epoch_mean/{key}": value
                for key, value in values.items()
                if _wanted(key)
            }
        elif place.kind == "epoch":
            values.setdefault("epoch", float(step))
        if not _put(rows, step, values, number, rank, body):
            return False
        lane.batches = lane.batches or place.kind != "epoch"
        if place.alone and place.kind != "epoch":
            lane.learn(body, place, spans)
        return True

    return take


def quick(rows: Rows) -> Taker:
    """Takes lines of a shape that `taker` has taken before: only the numbers differ. Stands before all other takers."""
    lane = _lane(rows)

    def take(number: int, shown: str | None) -> bool:
        if shown is None or not lane.recipes or len(shown) > _LONGEST:
            return False
        line = text.split(shown)
        recipe = lane.recipes.get(_TOKEN.sub(_blank, line.body))
        if recipe is None:
            return False
        tokens = _TOKEN.findall(line.body)
        try:
            step, epoch, length = (_whole(tokens[place]) if place >= 0 else 0 for place in recipe.counts)
        except ValueError:
            return False
        values = {key: text.value(tokens[place], unit) for key, place, unit in recipe.values}
        rank = line.rank if line.rank is not None else text.rank_said(line.body)
        rows.add(count(recipe.kind, step, epoch, length, lane), values, number, rank, line.body)
        return True

    return take


class _Recipe(NamedTuple):
    """Where the numbers of a line of one shape go: places among its numbers."""

    kind: str
    counts: tuple[int, int, int]  # step, epoch, length of the epoch; -1 where the line has none
    values: tuple[tuple[str, int, str | None], ...]


class _Lane:
    """What the takers of one file share: epochs seen, and the shapes of lines that are rows."""

    def __init__(self) -> None:
        self.epochs, self.batches = EpochSteps(), False
        self.heading: int | None = None  # the epoch of a line `Epoch 3/10` above the rows
        self.recipes: dict[str, _Recipe] = {}

    def learn(self, body: str, place: Place, spans: dict[str, tuple[int, int, str | None]]) -> None:
        """Remember the shape of a row whose numbers all stand by themselves."""
        if len(self.recipes) >= _SHAPES or len(body) > _LONGEST:
            return
        at = {hit.span(): number for number, hit in enumerate(_TOKEN.finditer(body))}
        counts = tuple(-1 if span is None else at.get(span, -2) for span in (place.step, place.epoch, place.length))
        kept = [(key, at.get((start, end), -2), unit) for key, (start, end, unit) in spans.items() if _wanted(key)]
        if -2 not in counts and all(number >= 0 for _, number, _ in kept):
            self.recipes[_TOKEN.sub(_blank, body)] = _Recipe(place.kind, counts, tuple(kept))  # type: ignore[arg-type]


def _lane(rows: Rows) -> _Lane:
    lane: _Lane = rows.memo.setdefault("loose", _Lane())
    return lane


def headed(rows: Rows, epoch: int) -> None:
    """The lines from here on stand below a heading of this epoch."""
    _lane(rows).heading = epoch


def _blank(hit: re.Match[str]) -> str:
    """What a number looks like in a shape: whole, with a point, with separators, or nan and inf."""
    shown = hit[0]
    return (
        "0"
        if shown.isdecimal()
        else "0,000"  # two numbers with a comma between are "0,0"
        if "," in shown
        else "0.0"
        if shown[-1].isdecimal() or shown[-1] == "."
        else "nan"
    )


def _put(rows: Rows, step: int, values: dict[str, float], number: int, rank: int | None, said: str) -> bool:
    kept = {key: value for key, value in values.items() if _wanted(key)}
    if not any(map(text.is_metric, kept)):
        return False
    rows.add(step, kept, number, rank, said)
    return True


def _held(body: str, spans: dict[str, tuple[int, int, str | None]]) -> str | None:
    """What the words before the first metric say that a row is about: "test", "val"; None for training."""
    first = min(((start, key) for key, (start, _, _) in spans.items() if text.is_metric(key)), default=None)
    if first is None or _EVAL.search(first[1]) or "rain" in first[1]:
        return None
    said = _HELD.search(body, 0, first[0])
    return None if said is None else "test" if said[0].lower().startswith("test") else "val"


def _named(values: dict[str, float], subset: str) -> dict[str, float]:
    """The keys of such a row with what it is about before each of them that does not say so itself."""
    return {
        key
        if _EVAL.search(key) or "rain" in key or not text.is_metric(key)
        else f"{subset} {_AVERAGE.sub('', key)}": value
        for key, value in values.items()
    }


def _put_held(
    rows: Rows, lane: _Lane, body: str, place: Place, values: dict[str, float], number: int, rank: int | None
) -> bool:
    """A row of held-out data: at its own step, else at the end of its epoch; its single batches are left out."""
    if place.kind == "batch" or (place.kind == "part" and lane.heading is not None):
        return True
    step = _whole(body[slice(*place.step)])
    if place.kind == "epoch" and lane.batches:
        step = lane.epochs.end(step) or rows.last_step or 0
    elif place.kind == "epoch":
        values.setdefault("epoch", float(step))
    elif place.kind == "epoch step":
        step = rows.last_step or 0
    return _put(rows, step, values, number, rank, body)


def _alone(rows: Rows, number: int, line: text.Line) -> bool:
    """`validation loss: 3.2` without a step belongs to the last row."""
    body = line.body
    if rows.last_step is None or len(body) > 200 or not (_EVAL.search(body) or _HELD.search(body)):
        return False
    spans = text.pair_spans(body)
    values = {key: text.value(body[start:end], unit) for key, (start, end, unit) in spans.items()}
    if subset := _held(body, spans):
        if _OF_BATCH.search(body):
            return True  # one batch of the held-out data: its row is not that of the whole
        values = _named(values, subset)
    kept = {key: value for key, value in values.items() if _EVAL.search(key) and text.is_metric(key)}
    return bool(kept) and _put(rows, rows.last_step, kept, number, line.rank, body)
