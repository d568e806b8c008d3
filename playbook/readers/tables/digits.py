"""Numbers out of bytes, a column at a time: exactly what `float` reads, for the forms that loggers print.

`numbers` takes a buffer and the places of its cells; cells of another form (nothing, NaN, a unit, more digits than fit)
are not guessed at but handed back. Eight characters are one machine word, so a cell costs a few dozen operations on
whole columns (some 8 ns) instead of a Python call (some 300 ns).
"""

from __future__ import annotations

from typing import TypeAlias

import numpy as np

from playbook.readers import decimal

PAD = 24  # bytes that must stand before the first cell of a buffer: the widest cell is loaded from its end
_WIDEST = 24  # characters: 17 digits of a float64, `0.000` or `e-05` with it

_NONE = np.zeros(0, np.intp)
_CHARACTERS = 8  # of one machine word

# Digits behind the dot: the same in all cells, int64[n], or None for no dot at all.
Places: TypeAlias = "int | np.ndarray | None"
# Digits as uint64[n], places, cells that are no number.
Mantissa: TypeAlias = tuple[np.ndarray, Places, "np.ndarray | None"]


def _word(byte: int) -> np.uint64:
    """A byte eight times."""
    return np.uint64(byte * 0x0101010101010101)


_ZEROS, _HIGH, _LOW7 = _word(0x30), _word(0x80), _word(0x7F)
_ALL = np.uint64(2**64 - 1)
_NO_DIGIT = _word(0x76)  # added to a byte above 9 it sets the highest bit
_DOT_BYTE = ord(".") ^ 0x30
_DOT = _word(_DOT_BYTE)
_THREE, _SEVEN, _EIGHT, _BYTE = np.uint64(3), np.uint64(7), np.uint64(8), np.uint64(56)
KEPT = np.array([(~((1 << (64 - 8 * n)) - 1)) & (2**64 - 1) for n in range(9)], np.uint64)  # the last n characters
_PLACE = np.uint64(sum(n << (61 - 8 * n) for n in range(1, 8)))  # times 2**(8 n): n in the three highest bits
_PLACE_BITS = np.uint64(61)
_TEN8, _TEN16 = np.uint64(10**8), np.uint64(10**16)
_TOO_LONG = np.uint64(400)  # of the digits before the last sixteen: beyond, the whole number would not fit


def words(buffer: np.ndarray) -> np.ndarray:
    """uint64 that begin at each byte of a buffer (no copy)."""
    return np.ndarray((len(buffer) - 7,), "<u8", buffer, strides=(1,))


def numbers(buffer: np.ndarray, starts: np.ndarray, ends: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(the numbers of the cells, indices of the cells that are of no form known here: their entries mean nothing).

    buffer uint8[m] with at least `PAD` bytes before the first cell; the result is int64[n] where all are whole.
    """
    if not len(starts):
        return np.zeros(0, np.int64), np.zeros(0, np.intp)
    view = words(buffer)
    if len(starts) > 2 and _alike(view, starts, ends):
        one, odd = numbers(buffer, starts[:1], ends[:1])
        return np.repeat(one, len(starts)), np.arange(len(starts) if len(odd) else 0)
    negative = buffer[starts] == ord("-")
    signed = bool(negative.any())
    if signed:
        starts = starts + negative
    mantissa, power, wrong = _mantissa(view, starts, ends)
    bad = _NONE if wrong is None else np.flatnonzero(wrong)
    if len(bad):
        raised, fine = _with_exponent(buffer, view, starts[bad], ends[bad], mantissa, bad)
        if len(fine):
            power = np.zeros(len(starts), np.int64) if power is None else power + np.zeros(len(starts), np.int64)
            power[fine] = raised
            assert wrong is not None
            wrong[fine] = False
            bad = np.flatnonzero(wrong)
            mantissa[bad], power[bad] = 0, 0
    if power is None:
        whole = mantissa.view(np.int64)
        if not signed:
            return whole, bad
        whole = np.where(negative, -whole, whole)
        lost = np.flatnonzero(negative & (whole == 0))  # -0 is a number of its own
        return whole, (np.union1d(bad, lost) if len(lost) else bad)
    values, unsure = decimal.scaled(mantissa, power)
    if signed:
        values[negative] *= -1
    return values, (np.union1d(bad, unsure) if len(unsure) else bad)


def holds(words: np.ndarray, sign: int, kept: np.uint64) -> np.ndarray:
    """Whether a character stands among those of each word that are kept."""
    found = (words ^ _word(sign)) | ~kept
    return (((found & _LOW7) + _LOW7) | found | _LOW7) != _ALL


def alike(
    words: list[np.ndarray], width: int, point: int | None, power: int | None, negative: bool
) -> tuple[np.ndarray, np.ndarray | None]:
    """(numbers of cells of one look, where a cell has another one after all).

    words     the last eight characters of each cell, those before them, ...; what stands before a cell is left out
    width     characters of a cell, without sign and exponent
    point     digits behind the point, None for no point
    power     of ten that divides the digits; None where the numbers are whole (int64)
    negative  whether a minus stands before them all
    """
    parts = [word ^ _ZEROS for word in words]
    if width < _CHARACTERS * len(parts):
        parts[-1] &= KEPT[width - _CHARACTERS * (len(parts) - 1)]
    part = parts[0]
    if len(parts) == 1 and len(part) > 1 and part[0] == part[-1] and (part == part[0]).all():  # a rate, a scale
        values, bad = _of_look([part[:1]], point, power, negative)
        return np.repeat(values, len(part)), None if bad is None else np.repeat(bad, len(part))
    return _of_look(parts, point, power, negative)


def _of_look(
    parts: list[np.ndarray], point: int | None, power: int | None, negative: bool
) -> tuple[np.ndarray, np.ndarray | None]:
    wrong = np.zeros(len(parts[0]), np.uint64)
    if point is not None:
        place, at = divmod(point, _CHARACTERS)
        at = 7 - at
        wrong |= (parts[place] & np.uint64(0xFF << (8 * at))) ^ np.uint64(_DOT_BYTE << (8 * at))
        _take_out(parts, place, at)
    for part in parts:
        wrong |= ((part + _NO_DIGIT) | part) & _HIGH
    mantissa, bad = _joined(parts, wrong != 0 if wrong.any() else None, point is None)
    if power is None:
        values = mantissa.view(np.int64)
        if negative:
            values = -values
            bad = _either(bad, values == 0)  # -0 is a number of its own
        return values, bad
    values, unsure = decimal.scaled(mantissa, power)
    if len(unsure):
        doubtful = np.zeros(len(values), bool)
        doubtful[unsure] = True
        bad = _either(bad, doubtful)
    return (-values if negative else values), bad


def _take_out(parts: list[np.ndarray], place: int, at: int) -> None:
    """Take the character at byte `at` of part `place` out of all cells; what stands before it moves up."""
    below = np.uint64((1 << (8 * at)) - 1)
    above = np.uint64(((1 << 64) - 1) & ~((1 << (8 * at + 8)) - 1))
    part = parts[place] & below
    part <<= _EIGHT
    part |= parts[place] & above
    parts[place] = part
    for further in range(place + 1, len(parts)):
        parts[further - 1] |= parts[further] >> _BYTE
        parts[further] <<= _EIGHT


def _alike(view: np.ndarray, starts: np.ndarray, ends: np.ndarray) -> bool:
    """Whether all cells hold the same text of at most eight characters (a constant rate, a scale)."""
    width = int(ends[0] - starts[0])
    if not 0 <= width <= _CHARACTERS:
        return False
    kept = KEPT[width]
    first = view[ends[0] - 8] & kept
    for place in (len(ends) // 2, -1):  # most columns are not: two looks tell
        if ends[place] - starts[place] != width or view[ends[place] - 8] & kept != first:
            return False
    return bool((ends - starts == width).all() and ((view[ends - 8] & kept) == first).all())


def _mantissa(view: np.ndarray, starts: np.ndarray, ends: np.ndarray) -> Mantissa:
    """The digits of cells without their dot, as whole numbers."""
    width = ends - starts
    widest = int(width.max())
    equal = widest == int(width.min())
    parts: list[np.ndarray] = []  # the last eight characters, those before them, those before these
    for place in range(max(1, min(3, -(-widest // _CHARACTERS)))):
        part = view[ends - _CHARACTERS * (place + 1)]
        part ^= _ZEROS
        if not equal:
            part &= KEPT.take(width - _CHARACTERS * place, mode="clip")
        elif widest < _CHARACTERS * (place + 1):
            part &= KEPT[max(0, widest - _CHARACTERS * place)]
        parts.append(part)
    places, dotted = _without_dots(parts)
    wrong = (parts[0] + _NO_DIGIT) | parts[0]
    for part in parts[1:]:
        wrong |= (part + _NO_DIGIT) | part
    wrong &= _HIGH
    bad: np.ndarray | None = wrong != 0 if wrong.any() else None
    if dotted is None or int(width.min()) < 2 or widest > _WIDEST:
        none = (width if dotted is None else width - dotted) < 1
        none |= width > _WIDEST
        bad = _either(bad, none)
    mantissa, bad = _joined(parts, bad, places is None)
    return mantissa, places, bad


def _joined(parts: list[np.ndarray], bad: np.ndarray | None, whole: bool) -> tuple[np.ndarray, np.ndarray | None]:
    """(digits of up to three parts as one number, cells that are none: those in `bad`, and those that do not fit).

    whole  no cell has a dot, so that the number must be exact in a float64
    """
    mantissa = decimal.eight(parts[0])
    if len(parts) > 1:
        mantissa += decimal.eight(parts[1]) * _TEN8
    if len(parts) > 2:
        high = decimal.eight(parts[2])
        bad = _either(bad, high >= _TOO_LONG)
        mantissa += high * _TEN16
    if whole and len(parts) > 1:
        bad = _either(bad, mantissa > np.uint64(decimal.EXACT))
    if bad is not None:
        mantissa[bad] = 0
    return mantissa, bad


def _either(one: np.ndarray | None, other: np.ndarray) -> np.ndarray | None:
    """Where one or the other holds; None for nowhere."""
    if not other.any():
        return one
    return other if one is None else one | other


def _without_dots(parts: list[np.ndarray]) -> tuple[Places, np.ndarray | None]:
    """Take the (last) dot of each cell out of `parts`; (digits behind it, cells that had one; None for none or all)."""
    if (all_at := _common_dot(parts[0])) is not None:
        _take_out(parts, 0, all_at)
        return 7 - all_at, np.True_  # type: ignore[return-value]
    places: np.ndarray | None = None
    taken: np.ndarray | None = None
    for place, part in enumerate(parts):
        dots = part ^ _DOT
        dots = ~(((dots & _LOW7) + _LOW7) | dots | _LOW7)
        if not dots.any():
            continue
        if taken is not None:
            dots[taken] = 0
        has = dots != 0
        dots &= np.negative(dots)
        dots >>= _SEVEN
        one = has.astype(np.uint64)
        before, behind = dots - one, ~((dots << _EIGHT) - one)
        behind &= part
        before &= part
        before <<= _EIGHT
        behind |= before
        parts[place] = behind
        shift = one << _THREE
        for further in range(place + 1, len(parts)):
            parts[further - 1] |= (parts[further] >> _BYTE) * one
            parts[further] <<= shift
        found = ((dots * _PLACE) >> _PLACE_BITS).view(np.int64)
        found = (8 * place + 7 - found) * has
        places = found if places is None else places + found
        taken = has if taken is None else taken | has
    return places, taken


def _common_dot(part: np.ndarray) -> int | None:
    """The place of the dot among the last eight characters (0 is the first) where all cells have it there."""
    first = int(part[0])
    at = next((place for place in range(8) if first >> (8 * place) & 0xFF == _DOT_BYTE), None)
    if at is None:
        return None
    same = (part & np.uint64(0xFF << (8 * at))) == np.uint64(_DOT_BYTE << (8 * at))
    return at if same.all() else None


def _with_exponent(
    buffer: np.ndarray, view: np.ndarray, starts: np.ndarray, ends: np.ndarray, mantissa: np.ndarray, at: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Cells such as `3e-05`: their digits go to `mantissa`; (digits behind the dot, indices of the cells)."""
    tens, ones = buffer[ends - 2] - 48, buffer[ends - 1] - 48
    sign = buffer[ends - 3]
    minus = sign == ord("-")
    fit = ((buffer[ends - 4] | 0x20) == ord("e")) & (minus | (sign == ord("+"))) & (tens < 10) & (ones < 10)
    fit &= ends - starts > 4
    chosen = np.flatnonzero(fit)
    if not len(chosen):
        return np.zeros(0, np.int64), _NONE
    found, places, wrong = _mantissa(view, starts[chosen], ends[chosen] - 4)
    exponent = (10 * tens[chosen].astype(np.int64) + ones[chosen]) * np.where(minus[chosen], -1, 1)
    power = (0 if places is None else places) - exponent
    good = (power <= decimal.FARTHEST) & (power > -decimal.POWERS)
    if wrong is not None:
        good &= ~wrong
    mantissa[at[chosen[good]]] = found[good]
    return power[good], at[chosen[good]]
