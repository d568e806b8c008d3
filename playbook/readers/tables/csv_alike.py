"""Lines of a table that look alike are turned together: same length, delimiters, points and words in the same places.

A logger prints with a format, so a megabyte of its lines has a few looks (`9,2.31,0.0003` and `10,2.31,0.0003` are
two). Of lines of one look every cell has a fixed place: no delimiter is searched, and a column is a stride through
copies of the lines. Values are those of `digits.numbers` to the last bit; what has no common look is handed back.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from playbook.readers import decimal
from playbook.readers.tables import digits
from playbook.readers.tables.csv_rows import Column, value_of

LONGEST = 512  # characters of a line; longer ones have cells that nobody wants, and are not worth a copy
_LEAST = 256  # lines below which nothing is gained
_RARE = 256  # one line in so many is too few for a look of its own
_LOOKS, _EARLY = 24, 6  # tried in one piece, and after how many of them it is asked whether they fit
_EXAMPLES = (0.5, 0.25, 0.9, 0.0)  # where in the lines of a length that are left the ones stand whose look is tried
_COMMON = 0.85  # share of the lines that must be of frequent lengths, and in the end of a known look
_FIT = 0.2  # share of the lines of a length that must have the look of one of them
_CELL = re.compile(rb"(-?)(\d+)(?:\.(\d+))?(?:[eE]([+-]\d\d))?")
_WIDEST, _WORD = 24, 8  # digits and point of a number; characters of a word (nan, None)
_WORDS = 10_000  # texts of cells that are remembered
_NO_LINES = np.zeros(0, np.intp)
STRANGE_START = np.zeros(256, bool)  # first bytes of comments, markers and blank lines
STRANGE_START[[*b"#%<=>|\t\n\v\f\r \x1c\x1d\x1e\x1f", *range(128, 256)]] = True

Part = tuple[
    "np.ndarray | None", dict[str, np.ndarray], dict[str, "np.ndarray | bool"]
]  # lines (None: all), values, gaps


@dataclass(frozen=True, slots=True)
class Look:
    """How one line looks, by places in it: its delimiters, its wanted cells, those that nobody wants."""

    length: int
    cuts: tuple[int, ...]
    cells: tuple[tuple[str, int, int], ...]
    other: tuple[tuple[int, int], ...]


class Known:
    """The words that stood in cells and the numbers they mean (None for none)."""

    def __init__(self, delimiter: str) -> None:
        self.delimiter = delimiter
        self.words: dict[bytes, float | None] = {}

    def value(self, word: bytes) -> float | None:
        if word not in self.words:
            if len(self.words) > _WORDS:
                self.words.clear()
            self.words[word] = value_of(word.decode(), self.delimiter)
        return self.words[word]


def parts(
    buffer: np.ndarray,
    starts: np.ndarray,
    ends: np.ndarray,
    wanted: Sequence[str],
    places: Mapping[str, int],
    width: int,
    known: Known,
) -> tuple[list[Part], np.ndarray] | None:
    """(lines of each look with the values of their cells, indices of the lines left); None where looks are too many.

    The text holds no quote, NUL or carriage return; `buffer` has `digits.PAD` bytes before the first line.
    """
    count = len(starts)
    lengths = ends - starts
    if count < _LEAST or int(lengths.max()) > LONGEST or any(name not in places for name in wanted):
        return None
    often = np.bincount(lengths)
    order = np.argsort(-often, kind="stable")
    order = order[often[order] >= max(_LEAST // 4, count // _RARE)]
    if often[order].sum() < _COMMON * count:
        return None
    found: list[Part] = []
    done = np.zeros(count, bool)
    tried = matched = 0
    for length in order.tolist():
        left = None if often[length] == count else np.flatnonzero(lengths == length)
        for place in _EXAMPLES:
            size = count if left is None else len(left)
            if tried >= _LOOKS or size < max(_LEAST // 4, count // _RARE):
                break
            if tried >= _EARLY and matched < _FIT * count:
                return None
            tried += 1
            example = int(size * place)
            first = int(starts[example if left is None else left[example]])
            look = _look(buffer[first : first + length].tobytes(), wanted, places, width, known.delimiter)
            part, misfits = (None, _NO_LINES) if look is None else _turned(buffer, starts, left, look, known)
            if part is None:
                continue
            found.append(part)
            if part[0] is None:
                return found, np.zeros(0, np.intp)
            done[part[0]] = True
            matched += size - len(misfits)
            left = misfits
    others = np.flatnonzero(~done)
    return None if len(others) > (1 - _COMMON) * count else (found, others)


def _look(line: bytes, wanted: Sequence[str], places: Mapping[str, int], width: int, delimiter: str) -> Look | None:
    """How a line looks; None where it is no plain row."""
    cells = line.split(delimiter.encode())
    if len(cells) != width or not line or STRANGE_START[line[0]]:
        return None
    ends, place = [], 0
    for cell in cells:
        place += len(cell)
        ends.append(place)
        place += 1
    mine = {places[name] for name in wanted}
    return Look(
        len(line),
        tuple(ends[:-1]),
        tuple((name, ends[places[name]] - len(cells[places[name]]), ends[places[name]]) for name in wanted),
        tuple((ends[n] - len(cells[n]), ends[n]) for n in range(width) if n not in mine and cells[n]),
    )


def _turned(
    buffer: np.ndarray, starts: np.ndarray, lines: np.ndarray | None, look: Look, known: Known
) -> tuple[Part | None, np.ndarray]:
    """The lines of this look with their values, and the indices of the others (of all lines, if `lines` is None)."""
    back = digits.PAD  # bytes of what stands before the line, in its copy
    size = back + look.length
    window = np.ndarray((len(buffer) - size + 1,), f"V{size}", buffer, strides=(1,))
    copies = window[(starts if lines is None else starts[lines]) - back]
    text = copies.view(np.uint8).reshape(-1, size)
    sign = ord(known.delimiter)
    bad = np.zeros(len(text), bool)
    for place in look.cuts:
        bad |= text[:, back + place] != sign
    for begin, end in look.other:
        for stop in range(end, begin, -_WORD):
            kept = digits.KEPT[min(_WORD, stop - begin)]
            bad |= digits.holds(_load(text, back + stop), sign, kept)
        if not begin:
            bad |= STRANGE_START[text[:, back]]
    good = None
    if bad.any():
        good = np.flatnonzero(~bad)
        if len(good) < _FIT * len(text):
            return None, _NO_LINES
        copies = copies[good]
        text = copies.view(np.uint8).reshape(-1, size)
        bad = np.zeros(len(text), bool)
    values: dict[str, np.ndarray] = {}
    gaps: dict[str, np.ndarray | bool] = {}
    full = False
    for name, begin, end in look.cells:
        cell = text[0, back + begin : back + end].tobytes()
        turned = _column(text, back + begin, back + end, cell, bad, known)
        if turned is None:
            return None, _NO_LINES
        values[name], gaps[name] = turned
        full |= not gaps[name]
    if not full:
        return None, _NO_LINES
    if bad.any():
        fine = np.flatnonzero(~bad)
        good = fine if good is None else good[fine]
        values = {name: column[fine] for name, column in values.items()}
    if good is None:
        return (lines, values, gaps), _NO_LINES
    every = np.arange(len(starts)) if lines is None else lines
    misfit = np.ones(len(every), bool)
    misfit[good] = False
    return (every[good], values, gaps), every[misfit]


def _column(
    text: np.ndarray, begin: int, end: int, cell: bytes, bad: np.ndarray, known: Known
) -> tuple[np.ndarray, bool] | None:
    """The values of cells that look like `cell` and whether they are no numbers; sets `bad` where one is another."""
    count = len(text)
    if not cell:
        return np.zeros(count, np.int64), True
    hit = _CELL.fullmatch(cell)
    whole = len(hit[2]) + len(hit[3] or b"") + (hit[3] is not None) if hit else 0
    if hit is None or whole > _WIDEST:
        if len(cell) > _WORD or b" " in cell or not cell.isascii():
            return None
        bad |= (_load(text, end) & digits.KEPT[len(cell)]) != (_load(text[:1], end) & digits.KEPT[len(cell)])
        value = known.value(cell)
        return (np.zeros(count, np.int64), True) if value is None else (np.full(count, value), False)
    if hit[1]:
        bad |= text[:, begin] != ord("-")
    power = len(hit[3] or b"") - int(hit[4] or 0)
    if hit[4]:
        if not 0 <= power <= decimal.FARTHEST:
            return None
        bad |= (_load(text, end) & digits.KEPT[4]) != (_load(text[:1], end) & digits.KEPT[4])
        end -= 4
    words = [_load(text, end - 8 * n) for n in range(-(-whole // 8))]
    point = len(hit[3]) if hit[3] is not None else None
    values, wrong = digits.alike(words, whole, point, None if point is None and not hit[4] else power, bool(hit[1]))
    if wrong is not None:
        bad |= wrong
    return values, False


def _load(text: np.ndarray, end: int) -> np.ndarray:
    """The eight characters before a place of each line, as words."""
    return np.ndarray((len(text),), "<u8", text, end - 8, (text.strides[0],))


def joined(name: str, parts: Sequence[Part], count: int) -> Column:
    """The column of all lines out of those of each look: whole numbers where all are."""
    if len(parts) == 1 and parts[0][0] is None:
        _, values, gaps = parts[0]
        return values[name], np.ones(count, bool) if gaps[name] else None
    kinds = {values[name].dtype for _, values, _ in parts if len(values[name])}
    column = np.zeros(count, np.int64 if all(kind.kind == "i" for kind in kinds) else np.float64)
    missing: np.ndarray | None = None
    for lines, values, gaps in parts:
        column[lines] = values[name]
        hidden = gaps[name]
        if hidden is True or isinstance(hidden, np.ndarray):
            missing = np.zeros(count, bool) if missing is None else missing
            missing[lines] = hidden
    return column, missing
