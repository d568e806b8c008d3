"""One line of a text log: what is in front of it (rank, time, level), and the `key value` pairs that it holds.

Handles ANSI codes, labels of torchrun, srun, mpirun, ray and pdsh, time stamps of the usual loggers, units glued or
apart, thousands separators, `value (average)`, and numbers that a torn line ran into the next word (not taken).
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import NamedTuple

ANSI = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[@-Z\\-_=>])")
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f]")

# A number as logged: 1e-5, 131,072, 7.343709E+00, .5, nan, -inf.
NUM = (
    r"[-+]?(?:(?:\d{1,3}(?:,\d{3})+(?!\d)|\d+)(?:\.\d*)?|\.\d+)(?:[eE][-+]?\d+)?"
    r"|[-+]?\b(?:[nN][aA][nN]|[iI][nN][fF](?:inity)?)"
)
_UNITS = (
    r"%|ms|us|µs|ns|secs?|seconds?|s|mins?|minutes?|hrs?|hours?|h|m|[kKMGT]i?[bB]|[kKMGTB]|[kKMGT]?Hz|°?C|W|x|"
    r"(?:[kM]?(?:tok|tokens?|samples?|it|iters?|steps?|img|images?|seq|words?|[kMG]i?B)"
    r"|[TGP]?FLOPS?|[TGP]?FLOPs?)/?(?:s|sec|GPU|gpu)?(?:/GPU|/gpu)?|TFLOPs|it/s|s/it|sec/it"
)
_UNIT = rf"(?P<unit>{_UNITS}|(?: (?:ms|us|s|%|[kKMGT]i?B|W|MHz)(?![\w/])))?"  # glued, or one of a few apart
_END = r"(?=$|[\s,;|>)\]}'\"(]|\.(?:\s|$))"
_WRAP = r"['\"]?[\[(]?(?:np\.float\d+\(|tensor\()?['\"]?"
PAIR = re.compile(
    rf"(?P<key>[A-Za-z_][\w./@+\-]*(?:\[\w+\])?)['\"]?(?P<paren> ?\([^()|=]{{1,14}}\))?\s*(?P<sep>[:=])\s*{_WRAP}"
    rf"(?P<num>{NUM}){_UNIT}{_END}"
)
_SEGMENT = re.compile(
    rf"\s*(?P<key>[A-Za-z_][\w./@+\-]*(?: [A-Za-z_][\w./@+\-]*){{0,3}}?)\s+(?P<num>{NUM})\s?{_UNIT}"
    r"(?:\s*\([^()]*\))?\s*\Z"
)
_WORDS = re.compile(rf"(?:^|(?<=[\s,;|(]))(?P<key>[A-Za-z_][\w./\-]*)\s+(?P<num>{NUM}){_UNIT}{_END}")

_PARTS_OF_LINE = re.compile(r"[^|\t]+")

# Words that belong to the name when they stand before it with a blank between ("lm loss", "number of nan iterations").
_QUALIFIERS = frozenset((
    "lm", "grad", "gradient", "learning", "train", "training", "val", "valid", "validation", "test", "eval", "dev",
    "data", "vali",
    "aux", "auxiliary", "global", "batch", "consumed", "skipped", "nan", "number", "of", "step", "total", "load",
    "balancing", "router", "z", "per", "iteration", "elapsed", "time", "weight", "weights", "param", "params",
    "num", "mtp", "policy", "value", "actor", "critic", "actual", "loss", "mean", "average", "avg", "reduced",
    "running", "best", "local", "micro", "nll", "mlm", "gpu", "peak", "max", "tokens", "samples", "world", "size",
    "model", "throughput", "attention", "attn", "logit", "logits", "embedding", "norm", "moe", "expert", "update",
    "unclipped", "clipped", "iter", "seq", "sequence", "reward", "entropy", "in", "raw",
))  # fmt: skip

METRIC = re.compile(
    r"loss|ppl|perplex|bpb|(?<![a-z])(?:acc|lr|kl|nll|wer|cer|bleu|auc|map|mse|mae|psnr|snr"
    r"|si_?sd?r|elbo|norm|gnorm|ce|gan)"
    r"(?![a-z])|accuracy|learning[ _]?rate|grad|reward|return|entropy|scale|error_rate|score",
    re.IGNORECASE,
)

_PLAIN = frozenset(("time", "dt", "mfu", "Time", "tok/s", "tps"))  # may stand before a number without a sign between

_METRIC_WORDS = (
    "loss", "lr", "acc", "norm", "grad", "ppl", "perplex", "learning", "reward", "score", "kl", "entropy", "scale",
    "nll", "wer", "bleu", "map", "ce",
    "sdr", "snr", "bpb", "cer", "auc", "mse", "mae", "elbo", "return", "error_rate", "gan",
)  # fmt: skip

_RANK = (
    r"\[\s*[rR]ank[ :_]?\s*(?P<rank>\d+)\s*\](?:\[[^\]]*\])?:?",  # [rank3]: of torchrun and of PyTorch
    r"\[(?:default|worker|trainer|actor)(?P<local>\d+)\]:",  # [default7]: of torchrun --tee
    r"\[\d+,(?P<mpi>\d+)\]<std(?:out|err)>:",  # mpirun --tag-output
    r"\([\w.\-]+(?:\[rank=(?P<actor>\d+)\])?(?:\([^()]{0,80}\))? pid=\d+(?:, ip=[\d.]+)?\)",  # ray
    r"\[[A-Za-z][\w.\-]*:(?P<share>\d{1,5})/\d{1,5}\](?=\s)",  # [host:0/8] of ESPnet
    r"(?<=\] )\((?P<of>\d{1,5})/\d{1,5}\)(?= [A-Z])",  # [train.py:9] (0/8) Epoch 1: of icefall
    r"(?:[A-Za-z][\w.\-]{0,120}-)?[A-Za-z][\w.\-]{0,120}:(?P<host>\d+)(?=\t)",  # host:0<tab> of OLMo
)
_TIME = (
    r"\[?(?P<iso>\d{4}[-/]\d{2}[-/]\d{2}[T ]\d{2}:\d{2}:\d{2}(?:[.,]\d+)?(?:Z|[+-]\d{2}:?\d{2})?)\]?",
    r"\[?(?P<clock>\d{2}:\d{2}:\d{2}(?:[.,]\d+)?)\]?",
    r"\[?(?P<short>\d{2}[/-]\d{2} \d{2}:\d{2}:\d{2}(?:[.,]\d+)?)\]?",
    r"\[?(?P<named>(?:[A-Z][a-z]{2} )?[A-Z][a-z]{2} {1,2}\d{1,2} (?:\d{4} )?\d{2}:\d{2}:\d{2}(?:\.\d+)?(?: \d{4})?)\]?",
    r"\[[IWEF](?P<c10>\d{3,4} \d{2}:\d{2}:\d{2}\.\d+) [\w.]+:\d+\]",  # [E121 16:36:01.412 ProcessGroupNCCL.cpp:616]
    r"[IWEF](?P<glog>\d{4} \d{2}:\d{2}:\d{2}\.\d+) +\d+ [\w./]+:\d+\]",
    r"\[(?P<epoch>\d{9,10}\.\d+)\]",
    r"\[(?:INFO|WARNING|ERROR|DEBUG) (?P<paddle>\d{4}/\d{2}/\d{2} \d{2}:\d{2}:\d{2}) [\w.]+:\d+\]",
)
_LEVEL = (
    r"(?:INFO|WARNING|ERROR|DEBUG|CRITICAL):[A-Za-z_][\w.\-]*:(?=\S)",  # of Python's logging when nobody set it up
    r"(?:std(?:err|out):|\[STD(?:ERR|OUT)\]|std(?:err|out) [FP])(?=\s)",  # the last one of a container's log
    r"[\w.\-/]+ \[std(?:err|out)\](?=\s)",  # node3.run [stderr]
    r"[A-Za-z]\w*(?:\.[\w\-]+)+/\d+(?=\s)",  # i.pretrain/0 of torchx
    r"\([a-z_]\w*:\d+\)(?=\s)",  # (trainer:464) of ESPnet
    r"\[?(?:INFO|WARNING|WARN|ERROR|DEBUG|CRITICAL|FATAL)\]?:?(?=[\s|:-]|$)",
    r"\[[\w.\-]+\.py:\d+(?::\w+)?\]",  # [logging.py:96:log_dist]
    r"\[[A-Za-z_][\w.]*\](?=\s*(?:[\[\-:]|\d{4}-))",  # [fairseq.trainer][INFO], [titan] 2025-
    r"[A-Za-z_][\w.]*(?=\s+[-|]\s+(?:INFO|WARNING|ERROR|DEBUG))",  # mmcls - INFO
    r"[A-Za-z_][\w.]*(?=\s+(?:INFO|WARNING|ERROR|DEBUG)[:\s])",  # d2.utils.events INFO:
    r"[A-Za-z_]\w*\.[\w.]*(?=\s\|\s)",  # | INFO | fairseq.trainer |
    r"[A-Za-z_][\w.]*:\d+(?=\t)",  # train:417<tab>
    r"[|\-](?=\s)",
)
_PREFIX = re.compile("|".join((*_RANK, *_TIME, *_LEVEL)))
_RANKS = frozenset(("rank", "local", "mpi", "host", "share", "of", "actor"))
_RANK_SAID = re.compile(r"(?<![\w\-])[Rr]ank:? (\d{1,5})(?=,|\s*$)")
_SRUN = re.compile(r" {0,4}(?P<rank>\d{1,5}):(?: |$)")  # srun --label
_PDSH = re.compile(  # worker-1: [2023-...
    r"(?!E[A-Z]\d{4}: )[A-Za-z][\w\-]{0,120}\d[\w.\-]{0,120}: "
    r"(?=\[|\d{4}-|Traceback \(|  File \"|(?:\w+\.)*[A-Z]\w*(?:Error|Exception)\b)"
)
_SEEN = 2_000  # characters of a line that `sniff` looks at
_PARTS = 9  # labels, times and levels in front of one line


class Line(NamedTuple):
    """One line without what the launcher and the logger put before it; the body keeps its own indentation."""

    rank: int | None
    time: str | None
    body: str


def clean(text: str) -> str:
    """The line without colours and other control characters (tabs stay)."""
    if "\x1b" in text:
        text = ANSI.sub("", text)
    return _CONTROL.sub("", text) if _CONTROL.search(text) else text


def split(text: str) -> Line:
    """Take labels, times and levels off the front of a cleaned line."""
    rank: int | None = None
    time: str | None = None
    if hit := _SRUN.match(text):
        rank, text = int(hit["rank"]), text[hit.end() :]
    elif hit := _PDSH.match(text):
        text = text[hit.end() :]
    at = 0
    for _ in range(_PARTS):
        start = at
        while start < len(text) and text[start] in " \t" and at:
            start += 1
        hit = _PREFIX.match(text, start)
        if hit is None:
            break
        for name, value in hit.groupdict().items():
            if value is None:
                continue
            if name in _RANKS:
                rank = int(value[:9]) if rank is None else rank
            else:
                time = time or value
        at = hit.end()
    if at and text[at : at + 1] in (" ", "\t"):
        at += 1
    return Line(rank, time, text[at:])


def rank_said(body: str) -> int | None:
    """The rank that a row names among its numbers: `... lr 0.001 rank 2`, `Rank: 0, epoch: 1`."""
    hit = _RANK_SAID.search(body) if "ank" in body else None
    return int(hit[1]) if hit else None


def value(text: str, unit: str | None = None) -> float:
    """The number of a NUM match. A unit of time becomes seconds, k and M become factors; others change nothing."""
    number = float(text.replace(",", ""))
    unit = unit and unit.strip()
    if unit in ("ms",):
        return number / 1e3
    if unit in ("us", "µs"):
        return number / 1e6
    if unit in ("min", "mins", "minutes"):
        return number * 60
    if unit and unit[0] == "k" and not unit.startswith(("kB", "kiB", "kHz")):
        return number * 1e3
    if unit == "K" or (unit and unit[0] == "M" and "/" in unit and not unit.startswith(("MB", "MiB"))):
        return number * (1e3 if unit == "K" else 1e6)
    return number


@lru_cache(maxsize=8192)
def is_metric(key: str) -> bool:
    """Whether a key names a metric of training."""
    return METRIC.search(key) is not None


def may_hold_metric(line: str) -> bool:
    """False for most lines without a metric, and quickly."""
    low = line.lower()
    return any(word in low for word in _METRIC_WORDS)


def pairs(body: str) -> dict[str, float]:
    """All `key: value`, `key=value` and, on lines cut by | or tabs or of alternating words, `key value` numbers.

    The first value of a key counts: in `3.63 (3.60)` the second one is an average.
    """
    return {key: value(body[start:end], unit) for key, (start, end, unit) in pair_spans(body).items()}


def pair_spans(body: str, begin: int = 0) -> dict[str, tuple[int, int, str | None]]:
    """key -> where its number stands and its unit, from `begin` on."""
    found: dict[str, tuple[int, int, str | None]] = {}
    taken_to = begin
    for hit in PAIR.finditer(body, begin) if ":" in body or "=" in body else ():
        key = _whole_key(body, hit, taken_to)
        taken_to = hit.end()
        found.setdefault(key, (*hit.span("num"), hit["unit"]))
    if body.count("|") > 1 or "\t" in body:
        for part in _PARTS_OF_LINE.finditer(body, begin):
            if segment := _SEGMENT.match(body, *part.span()):
                found.setdefault(segment["key"], (*segment.span("num"), segment["unit"]))
    for hit in _WORDS.finditer(body, begin):
        if is_metric(hit["key"]) or hit["key"] in _PLAIN:
            found.setdefault(_whole_key(body, hit, begin), (*hit.span("num"), hit["unit"]))
    return found


def _whole_key(body: str, hit: re.Match[str], floor: int) -> str:
    """The key with the words before it that belong to it, and its unit in brackets: "iter time (s)", "lm loss"."""
    start = hit.start("key")
    key = hit["key"]
    for _ in range(5):
        if start <= floor or body[start - 1] != " " or start < 2 or body[start - 2] == " ":
            break
        before = start - 1
        begin = before
        while begin > floor and (body[begin - 1].isalnum() or body[begin - 1] in "_/"):
            begin -= 1
        word = body[begin:before]
        if word.lower() not in _QUALIFIERS or (begin and body[begin - 1] not in " ,;|[(\t"):
            break
        key, start = f"{word} {key}", begin
    paren = hit.groupdict().get("paren")
    return key + (paren if paren and paren.startswith(" ") else (" " + paren if paren else ""))


@lru_cache(maxsize=4)
def head_lines(head: bytes) -> tuple[str, ...]:
    """The first look at a file as cleaned lines, for `sniff`; progress bars count as lines of their own."""
    text = head.replace(b"\0", b"").decode("utf-8", "replace")
    return tuple(clean(line[:_SEEN]) for line in re.split(r"[\r\n]+", text) if line.strip())


def share(head: bytes, pattern: re.Pattern[str], at_most: int = 4_000) -> tuple[int, int]:
    """(lines that the pattern is found in, lines looked at) of the first look."""
    lines = head_lines(head)[:at_most]
    return sum(1 for line in lines if pattern.search(line)), len(lines)


def last(pattern: re.Pattern[str], body: str) -> re.Match[str] | None:
    """The last match: a line that another writer tore holds two rows, and only the last one has its end."""
    found = None
    for hit in pattern.finditer(body):
        found = hit
    return found
