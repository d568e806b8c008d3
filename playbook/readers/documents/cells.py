"""Numbers in text, a column of cells at a time: bytes -> float64 in numpy, to the last bit what `float()` gives.

Cells that look like the first one (its sign, place of the point, exponent) are turned together: eight digits of each in
one 64-bit word, three multiplications a word. What is left is tried the same way again, and in the end one by one. A
number is digits over a power of ten (`decimal`); what may lie in the middle between two doubles goes one by one.
"""

from __future__ import annotations

import json
import re

import numpy as np

from playbook.readers import decimal
from playbook.readers.base import number

PAD = 64  # bytes behind the text that may be looked at
_WIDE = 24  # bytes of the widest cell that is read here: sign, 17 digits and exponent of a printed double
_GUESSES = 12  # kinds of cells in one column of one piece that are turned together
_ONES = 0.1  # share of the cells of a piece that may go one by one

_U = np.uint64
_ZEROS = _U(0x3030303030303030)
_SIX = 0x0606060606060606
_TENS = _U(0xF0F0F0F0F0F0F0F0)
_ALL = (1 << 64) - 1
_POINT = 0x2E ^ 0x30
_LEFT = tuple(  # bytes of each of three words that a cell of 0..24 bytes fills
    np.array([(1 << 8 * min(8, max(0, size - 8 * word))) - 1 for size in range(_WIDE + 1)], np.uint64)
    for word in range(3)
)
_SHIFT = np.array([64 - 8 * size for size in range(9)], np.uint64)  # bits that move a short cell to the right
_PLAIN = re.compile(rb"(-?)(0|[1-9]\d*)(\.\d+)?([eE][+-]?\d+)?")
_TEN_TO = np.array([10**power for power in range(17)], np.uint64)
_MOST = np.array(
    [_ALL // 10 ** (8 + third) for third in range(9)], np.uint64
)  # first digits that leave room for so many


Turned = tuple[np.ndarray | None, np.ndarray]
Parsed = tuple[np.ndarray, np.ndarray | None, np.ndarray]


class TooOdd(Exception):
    """Too many cells of too many kinds: another way is faster."""


def window(text: np.ndarray, size: int) -> np.ndarray:
    """Every place of the text as `size` bytes: index it with places, and view the result as words."""
    return np.ndarray((len(text) - size + 1,), f"V{size}", text, 0, (1,))


def parse(text: np.ndarray, starts: np.ndarray, sizes: np.ndarray) -> Parsed:
    """(values float64[n], missing bool[n] or None for none, indices of cells that hold something else).

    text    uint8, `PAD` bytes longer than what the cells fill
    starts  int64[n], first byte of each cell
    sizes   int64[n]
    Raises `TooOdd`.
    """
    count = len(starts)
    values = np.empty(count)
    missing: np.ndarray | None = None
    odd: list[int] = []
    left: np.ndarray | None = None  # indices that are not done yet, None for all
    budget = int(_ONES * count) + 20
    for guess in range(_GUESSES + budget):
        todo = count if left is None else len(left)
        if not todo:
            break
        first = 0 if left is None else int(left[0])
        cell = text[starts[first] : starts[first] + sizes[first]].tobytes()
        hit = _PLAIN.fullmatch(cell) if guess < _GUESSES else None
        done: np.ndarray | None = None
        if hit is not None and len(cell) <= _WIDE:
            places, widths = (starts, sizes) if left is None else (starts[left], sizes[left])
            found = _alike(text, places, widths, hit)
            if found is not None:
                done, numbers = found
                if left is None and (done is None or done.all()):
                    return numbers, None, np.array(odd, np.int64)
                done = np.ones(todo, bool) if done is None else done
                where = np.flatnonzero(done) if left is None else left[done]
                values[where] = numbers[done]
        if done is None or not done[0]:
            value, known = scalar(cell)
            if not known:
                odd.append(first)
                done = np.zeros(todo, bool)
                done[0] = True
            else:
                same = _same(text, starts, sizes, left, cell) if guess < _GUESSES else None
                same = np.arange(todo) == 0 if same is None else same
                where = np.flatnonzero(same) if left is None else left[same]
                values[where] = np.nan if value is None else value
                if value is None:
                    missing = np.zeros(count, bool) if missing is None else missing
                    missing[where] = True
                done = same if done is None else done | same
        left = np.flatnonzero(~done) if left is None else left[~done]
    else:
        if left is None or len(left):
            raise TooOdd
    return values, missing, np.array(odd, np.int64)


def evenly(rows: np.ndarray, begin: int, cell: bytes) -> np.ndarray | None:
    """The numbers at one place of even rows, where all are built as `cell`; None where that is not so.

    rows  uint8[n, width], with `_WIDE` bytes of no meaning at the end of each
    """
    hit = _PLAIN.fullmatch(cell)
    if hit is None or hit[1] or hit[4] or (len(cell) > _WIDE or len(hit[2]) > 6 if hit[3] else len(cell) > 8):
        return None
    count, width = rows.shape
    parts = []
    for place in range(-(-len(cell) // 8)):
        part = np.ndarray((count,), _U, rows, begin + 8 * place, (width,)) ^ _ZEROS
        if hit[3]:
            part &= _LEFT[place][len(cell)]
        parts.append(part)
    if hit[3]:
        turned = _turned(parts, None, len(hit[2]), 0, len(cell))
        if turned is None or (turned[0] is not None and not turned[0].all()):
            return None
        return turned[1]
    word = parts[0]
    if len(cell) > 1 and not (word & _U(0xFF)).all():
        return None  # JSON has no leading zeros
    word <<= _SHIFT[len(cell)]
    return decimal.eight(word).astype(np.float64) if _all_digits(word).all() else None


def scalar(cell: bytes) -> tuple[float | None, bool]:
    """(the number or None, whether it is a JSON scalar and no text): null and true hold no number."""
    try:
        value = json.loads(cell.decode("ascii"))
    except (ValueError, RecursionError):
        return None, False
    if isinstance(value, (list, dict, str)):
        return None, False
    return number(value), True


def _same(
    text: np.ndarray, starts: np.ndarray, sizes: np.ndarray, left: np.ndarray | None, cell: bytes
) -> np.ndarray | None:
    """Which cells hold the very same bytes: NaN tokens, null, a value that never changes."""
    if len(cell) > _WIDE:
        return None
    if left is not None:
        starts, sizes = starts[left], sizes[left]
    same = sizes == len(cell)
    for place in range(0, len(cell), 8):
        part = int.from_bytes(cell[place : place + 8], "little")
        mask = _ALL >> 8 * max(0, place + 8 - len(cell))
        same &= (window(text, 8)[starts + place].view(_U) & _U(mask)) == _U(part)
    return same


def _alike(text: np.ndarray, starts: np.ndarray, sizes: np.ndarray, first: re.Match[bytes]) -> Turned | None:
    """(bool[n] the cells built as the first one, None for all; float64[n]); None where this kind is not turned here."""
    sign, whole, fraction, exponent = first.groups()
    fits: np.ndarray | None = None
    if sign:
        fits = text.take(starts) == 45
        starts, sizes = starts + 1, sizes - 1
    power = 0
    if exponent is not None:
        power = int(exponent[1:])
        if abs(power) > 40:
            return None
        end = _tail(text, starts, sizes, exponent)
        fits = end if fits is None else fits & end
        sizes = sizes - len(exponent)
    if fraction is None:
        found = _integers(text, starts, sizes, len(whole), power)
    else:
        found = _decimals(text, starts, sizes, len(whole), len(whole) + len(fraction), power)
    if found is None:
        return None
    good, values = _both(found[0], fits), found[1]
    if sign:
        np.negative(values, out=values)
        if fraction is None and exponent is None:
            values += 0.0  # JSON's -0 is the whole number 0
    return good, values


def _tail(text: np.ndarray, starts: np.ndarray, sizes: np.ndarray, tail: bytes) -> np.ndarray:
    """Which cells end in the same exponent."""
    places = starts + sizes
    places -= len(tail)
    good = sizes > len(tail)
    for place, byte in enumerate(tail):
        good &= text.take(places + place, mode="clip") == byte
    return good


def _integers(text: np.ndarray, starts: np.ndarray, sizes: np.ndarray, digits: int, power: int) -> Turned | None:
    """Whole numbers of up to eight digits (up to sixteen where the first one has more), moved to the right."""
    if digits > 16:
        return None
    most = 8 if digits <= 8 else 16
    good = (sizes <= most) & (sizes > 0 if most == 8 else sizes > 8)
    clipped = sizes if good.all() else np.where(good, sizes, most)
    head = clipped if most == 8 else clipped - 8
    word = window(text, 8)[starts].view(_U)
    word ^= _ZEROS
    if int(clipped.max()) > 1:
        good &= ((word & _U(0xFF)) != 0) | (clipped == 1)  # JSON has no leading zeros
    word <<= _SHIFT.take(head)
    good &= _all_digits(word)
    value = decimal.eight(word)
    if most == 16:
        low = window(text, 8)[starts + head].view(_U)
        low ^= _ZEROS
        good &= _all_digits(low)
        value = value * _U(10**8) + decimal.eight(low)
    sure, values = _scaled(value, -power)
    return _both(good, sure), values


def _decimals(
    text: np.ndarray, starts: np.ndarray, sizes: np.ndarray, point: int, size: int, power: int
) -> Turned | None:
    """Numbers with the point in one place; short ones are filled with zeros to the right to 7 or 15 digits."""
    if point > 6:
        return None
    words = max(1, (min(int(sizes.max()), _WIDE) + 7) // 8)
    low, high = int(sizes.min()), int(sizes.max())
    good: np.ndarray | None = None
    if low < point + 2 or high > 8 * words:
        good = (sizes >= point + 2) & (sizes <= 8 * words)
        sizes = np.where(good, sizes, size)
        low, high = int(sizes.min()), int(sizes.max())
    cells = window(text, (8, 16, 32)[words - 1])[starts].view(_U).reshape(len(starts), -1)
    parts = []
    for word in range(words):
        part = cells[:, word] ^ _ZEROS
        if low == high:
            part &= _LEFT[word][low]
        elif low < 8 * word + 8:
            part &= _LEFT[word].take(sizes)
        parts.append(part)
    return _turned(parts, good, point, power, sizes)


def _turned(
    parts: list[np.ndarray], good: np.ndarray | None, point: int, power: int, sizes: np.ndarray | int
) -> Turned | None:
    """(good or None for all, float64[n]) of cells in words of digit values, filled with zeros to the right."""
    words = len(parts)
    first = parts[0]
    first ^= _U(_POINT << 8 * point)
    above = _ALL << 8 * (point + 1) & _ALL
    below = (1 << 8 * point) - 1
    check = first + _U(_SIX & (above | below))
    check |= first
    check &= _U(0xF0F0F0F0F0F0F0F0 | 0xFF << 8 * point)
    for part in parts[1:]:
        more = part + _U(_SIX)
        more |= part
        more &= _TENS
        check |= more
    if check.any():
        good = _both(good, check == 0)
    if point > 1 and not (first & _U(0xFF)).all():
        good = _both(good, (first & _U(0xFF)) != 0)  # JSON has no leading zeros
    value = _pointed(first, point)
    if words == 1:
        places: int | np.ndarray = 7 - point - power
    elif words == 2:
        value *= _U(10**8)
        value += decimal.eight(parts[1])
        places = 15 - point - power
    else:
        third = np.clip(np.asarray(sizes) - 16, 0, 8)  # digits in the third word, moved to its right
        parts[2] <<= _SHIFT.take(third)
        fits = value < _MOST.take(third)
        if not fits.all():
            good = _both(good, fits)
        value *= _TEN_TO.take(third + 8)
        value += decimal.eight(parts[1]) * _TEN_TO.take(third)
        value += decimal.eight(parts[2])
        places = 15 - point - power + third
    sure, values = _scaled(value, places)
    return _both(good, sure), values


def _both(one: np.ndarray | None, other: np.ndarray | None) -> np.ndarray | None:
    """Both conditions; None is one that always holds."""
    return other if one is None else one if other is None else one & other


def _all_digits(word: np.ndarray) -> np.ndarray:
    check = word + _U(_SIX)
    check |= word
    check &= _TENS
    return check == 0


def _pointed(word: np.ndarray, point: int) -> np.ndarray:
    """As `_eight`, with a zero where the point stood: the seven digits around it."""
    weight = [10 ** (6 - 2 * pair - (2 * pair < point)) for pair in range(4)]
    word *= _U(2561)
    word >>= _U(8)
    other = word >> _U(16)
    word &= _U(0x000000FF000000FF)
    word *= _U(weight[0] << 32 | weight[2])
    other &= _U(0x000000FF000000FF)
    other *= _U(weight[1] << 32 | weight[3])
    word += other
    word >>= _U(32)
    return word


def _scaled(digits: np.ndarray, places: int | np.ndarray) -> Turned:
    """(bool[n] the numbers that are rounded rightly for sure, None for all; digits / 10**places)."""
    values, unsure = decimal.scaled(digits, places)
    if not len(unsure):
        return None, values
    sure = np.ones(len(values), bool)
    sure[unsure] = False
    return sure, values
