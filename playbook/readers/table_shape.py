"""What a table of text looks like: its delimiter, its columns and where its rows begin. Also how one cell is read.

Knows padded headers, comment lines, headers inside a comment, Markdown tables, W&B and TensorBoard exports, and the one
headerless shape that is clear (whole steps that grow, and one number beside them).
"""

from __future__ import annotations

import csv
import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from pathlib import Path

from playbook.readers.base import number
from playbook.readers.names import epoch_name, plain, rank_in, step_names, wanted
from playbook.readers.source import MAX_LINE

MARKERS = ("<<<<<<<", "=======", ">>>>>>>", "|||||||")  # git leaves them where a merge failed
_DELIMITERS = (",", "\t", ";", "|", " ")
_COMMENT = ("#", "%", "//")
_JUMP = 10  # times the largest value before it: more is a lost exponent rather than a spike
_NUMBER = 64  # characters of the longest text that `number` takes for one
SAMPLE = 60  # lines that decide
_RUN = 8  # rows below a header that fit it: a table, whatever another run appended to it later
_UNIT = re.compile(
    r"([-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?)\s*"
    r"(?:%|[kmgt]i?b|[kmg]hz|w|c|°c|s|ms|us|it/s|tok/s|tokens/s|img/s|samples/s|[gm]b/s|[mbk])",
    re.IGNORECASE,
)
_TENSOR = re.compile(r"tensor\(\s*\[?([^,)\]\s]+).*\)?")
_COMMA = re.compile(r"[-+]?\d+,\d+(?:[eE][-+]?\d+)?")
_GROUPED = re.compile(r"[-+]?\d{1,3}(?:,\d{3})+(?:\.\d+)?")
_RULE = re.compile(r"[|\s:+\-=]+")  # the line under a Markdown header
_TAG_FILE = re.compile(r"(?:^|[-_.])tag[-_.](.+)$")  # TensorBoard's download: run-x-tag-train_loss.csv
_EXPORT = re.compile(r"^(.+?) - (.+)$")  # W&B's panel export: "pretty-sky-7 - train/loss"


@dataclass(frozen=True)
class Shape:
    """`names` of the columns; rows begin at line `first` (from 1); `rough` columns hold more than bare numbers."""

    delimiter: str
    names: tuple[str, ...]
    first: int
    headed: bool
    rough: frozenset[str]
    rows: int  # rows in the sample


def split(line: str, delimiter: str) -> list[str]:
    """The stripped cells of a line."""
    if delimiter == " ":
        return line.split()
    if delimiter == "|":
        line = line.strip().strip("|")
    if '"' in line:
        try:
            return [cell.strip() for cell in next(csv.reader([line], delimiter=delimiter, skipinitialspace=True))]
        except (csv.Error, StopIteration):
            pass
    return [cell.strip() for cell in line.split(delimiter)]


def cell(text: str, delimiter: str = ",") -> float | None:
    """A number with a unit ("85 %", "1410 MHz"), a printed tensor or a decimal comma; None for anything else."""
    found = number(text)
    if found is not None or not text:
        return found
    if hit := _UNIT.fullmatch(text):
        return float(hit[1])
    if delimiter != ";" and _GROUPED.fullmatch(text):
        return float(text.replace(",", ""))
    if delimiter != "," and _COMMA.fullmatch(text):
        return float(text.replace(",", "."))
    if hit := _TENSOR.fullmatch(text):
        return number(hit[1])
    return None


@lru_cache(maxsize=2)  # the same look twice: to see whose file it is, and to read it
def detect(head: bytes, path: Path, whole: bool) -> Shape | None:
    """The shape of a table, None for what is none. `whole` says that `head` is the whole file."""
    numbered: list[tuple[int, str]] = []
    comment: tuple[int, str] | None = None
    for place, raw in enumerate(_lines(head.decode("utf-8", "replace"), whole), 1):
        line = raw.replace("\0", "").strip("\r").strip()
        if not line or line.startswith(MARKERS):
            continue
        if line.startswith(_COMMENT):
            comment = (place, line.lstrip("#%/ ")) if not numbered else comment
            continue
        numbered.append((place, line))
        if len(numbered) >= SAMPLE:
            break
    if not numbered or len(numbered[0][1]) > MAX_LINE:
        return None
    for delimiter in _DELIMITERS:
        found = _with(delimiter, numbered, comment, path)
        if found is not None:
            return found
    return None


def _lines(text: str, whole: bool) -> Iterator[str]:
    """The lines of a text one by one; without the last one where the look cut it, not the writer."""
    start = 0
    while (end := text.find("\n", start)) >= 0:
        yield text[start:end]
        start = end + 1
    if whole or not start:
        yield text[start:]


def _plain(cells: list[str]) -> bool:
    """Whether all cells are plain numbers, as `number` would find too, in a tenth of its time."""
    try:
        list(map(float, cells))
    except ValueError:
        return False
    text = "".join(cells)
    return "_" not in text and text.isascii() and max(map(len, cells)) <= _NUMBER


def _with(delimiter: str, numbered: list[tuple[int, str]], comment: tuple[int, str] | None, path: Path) -> Shape | None:
    body = [
        (place, split(line, delimiter)) for place, line in numbered if not (delimiter == "|" and _RULE.fullmatch(line))
    ]
    if not body:
        return None
    head = body[0][1]
    if len(head) < 2 or any(len(text) > 200 for text in head):
        return None
    if all(cell(text, delimiter) is not None for text in head if text):
        return _without_header(delimiter, body, comment)
    rows = body[1:]
    fitting = [cells for _, cells in rows if len(cells) == len(head)]
    appended = delimiter != " " and len(rows) > _RUN and all(len(cells) == len(head) for _, cells in rows[:_RUN])
    if rows and not appended and len(fitting) < 0.7 * len(rows) and (len(rows) != 1 or delimiter == " "):
        return None
    names = column_names(head, path)
    telling = [name for name in names if wanted(name, {})] or step_names(names) or epoch_name(names)
    if delimiter == " " and (not telling or (not rows and any(name.endswith((":", ".")) for name in head))):
        return None  # one line that ends a word with a colon is a sentence
    if not all(_is_name(name) for name in head):
        return None
    mixed = [cells for cells in fitting if not _plain(cells)]
    plain_cells = (len(fitting) - len(mixed)) * len(head)
    texts = [text for cells in mixed for text in cells if text]
    numbers = plain_cells + sum(cell(text, delimiter) is not None for text in texts)
    filled = plain_cells + len(texts)
    if filled and (numbers < 0.3 * filled or (numbers < 0.6 * filled and not telling)):
        return None
    if not filled and not telling:
        return None
    rough = frozenset(
        name
        for place, name in enumerate(names)
        if any(cells[place] and number(cells[place]) is None for cells in mixed)
    )
    return Shape(delimiter, tuple(names), body[0][0] + 1, True, rough, len(rows))


def _without_header(delimiter: str, body: list[tuple[int, list[str]]], comment: tuple[int, str] | None) -> Shape | None:
    width = len(body[0][1])
    rows = [cells for _, cells in body if len(cells) == width]
    if len(rows) < len(body) - 1 or not all(number(text) is not None for cells in rows for text in cells if text):
        return None
    first = body[0][0]
    if comment is not None:
        names = split(comment[1], delimiter)
        names = names if len(names) == width else split(comment[1], " ")
        if len(names) == width and all(_is_name(name) for name in names):
            return Shape(delimiter, tuple(column_names(names, Path())), first, True, frozenset(), len(rows))
    steps = [number(cells[0]) for cells in rows]
    growing = all(a is not None and b is not None and b > a and b % 1 == 0 for a, b in pairwise(steps))
    parts = any(any(sign in cells[1] for sign in ".naNA") for cells in rows)
    if width == 2 and len(rows) >= 3 and growing and parts:
        return Shape(delimiter, ("step", "loss"), first, True, frozenset(), len(rows))
    if delimiter == " " and width == 3:
        return None  # an MLflow metric: `time value step`
    return Shape(delimiter, tuple(str(place + 1) for place in range(width)), first, False, frozenset(), len(rows))


def _is_name(text: str) -> bool:
    return (
        len(text) <= 120
        and (not text or number(text) is None)
        and "{" not in text
        and not text.endswith(("...", ".", "!", "?"))
    )


def column_names(head: Sequence[str], path: Path) -> list[str]:
    """The names of a header, with exports of W&B and TensorBoard brought to the metric's own name; each name once."""
    names = [text.strip().strip("'\"`*").strip() for text in head]
    # A first column without a name is the row number that pandas writes; elsewhere it is a stray delimiter.
    names = [name or (f"column {place}" if place > 1 else "index") for place, name in enumerate(names, 1)]
    lower = [plain(name) for name in names]
    if lower == ["wall time", "step", "value"] or (lower == ["step", "value"]):
        hit = _TAG_FILE.search(path.name.removesuffix(".csv"))
        names[-1] = hit[1] if hit else path.name.split(".")[0]
    exported = [_EXPORT.match(name) for name in names]
    if any(hit is not None and hit[2].endswith("__MIN") for hit in exported):
        kept = [
            hit[2] if hit is not None and not hit[2].endswith(("__MIN", "__MAX")) else name
            for hit, name in zip(exported, names, strict=True)
        ]
        names = kept
    seen: set[str] = set()
    result = []
    for place, name in enumerate(names):
        result.append(name if name not in seen else f"{name} ({place + 1})")
        seen.add(name)
    return result


def torn(last: str, before: Sequence[str]) -> bool:
    """True where a last cell without a line end may have lost digits: fewer places than its column usually has."""
    text = last.strip()
    word = text.lower().lstrip("+-")
    if word and word not in ("nan", "inf") and ("nan".startswith(word) or "infinity".startswith(word)):
        return word != "infinity"
    if word in ("nan", "inf") or (number(text) is None and text[-1:].isalpha()):
        return False
    if number(text) is None or text[-1:] in ".eE+-":
        return True
    texts = [other.strip() for other in before if number(other) is not None]
    finite = [abs(found) for other in texts if math.isfinite(found := number(other) or 0.0)]
    if not finite:
        return True  # nothing to compare with
    if "e" in text.lower():
        return len(text.lower().split("e")[1].lstrip("+-")) < 2
    if any("e" in other.lower() for other in texts) or abs(float(text)) > _JUMP * max(finite):
        return True  # 9.97e-05 cut to 9.97
    places = sorted(len(other.partition(".")[2]) for other in texts)
    usual = places[len(places) // 2]
    if "." in text or usual:
        return len(text.partition(".")[2]) < usual
    return len(text) != len(texts[-1])


def base_name(raw: str) -> str:
    """A column's name without its rank, in the form in which names are compared."""
    return plain(rank_in(raw)[0])
