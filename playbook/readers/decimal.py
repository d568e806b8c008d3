"""Digits -> float64, a column at a time: a whole number over a power of ten, rounded once, as `float` rounds it.

The last step of both converters: `digits` (cells of any look, for CSV) and `cells` (cells of one look, for JSON).
"""

from __future__ import annotations

import numpy as np

EXACT = 1 << 53  # whole numbers up to here are exact in a float64
POWERS = 23  # 10**0 .. 10**22 are exact in a float64, so one division by them rounds once
FARTHEST = 27  # the highest power of ten that is the exact sum of two float64

_SCALE = np.array([10.0**n for n in range(FARTHEST + 1)])
_SCALE_LOW = np.array([float(10**n - int(10.0**n)) for n in range(FARTHEST + 1)])  # what `_SCALE` lacks, exactly
_MOST = np.uint64((1 << 63) - 1024)  # whole numbers whose nearest float64 is an int64
_NEAR_TIE = 0.4999  # of a last place: closer to the middle between two numbers than this is left to `float`
_NONE = np.zeros(0, np.intp)
# Of the bits of a float64: its exponent, its fraction, and the exponent's distance to the last place.
_EXPONENT, _FRACTION, _LAST_PLACE = 0x7FF << 52, (1 << 52) - 1, 52 << 52
_VELTKAMP = 134217729.0  # 2**27 + 1


def eight(word: np.ndarray) -> np.ndarray:
    """The number of eight digits (values, one a byte, the first one in the lowest) as uint64; in place."""
    word *= np.uint64(2561)  # pairs: 10 * 2**8 + 1
    word >>= np.uint64(8)
    word &= np.uint64(0x00FF00FF00FF00FF)
    word *= np.uint64(6553601)  # fours: 100 * 2**16 + 1
    word >>= np.uint64(16)
    word &= np.uint64(0x0000FFFF0000FFFF)
    word *= np.uint64(42949672960001)  # all: 10000 * 2**32 + 1
    word >>= np.uint64(32)
    return word


def scaled(mantissa: np.ndarray, power: int | np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(mantissa / 10**power rounded once, indices of those that are not sure to be rounded right).

    mantissa  uint64[n]; power int or int64[n], below 0 a power that multiplies
    """
    if np.ndim(power) == 0:
        power = int(power)
        if not power:
            return mantissa.astype(np.float64), _NONE
    whole = mantissa.view(np.int64)
    lowest, highest = (power, power) if isinstance(power, int) else (int(power.min()), int(power.max()))
    if lowest >= 0:
        values = whole / _SCALE.take(power, mode="clip")
    else:
        scale = _SCALE.take(np.abs(power), mode="clip")
        values = np.where(np.asarray(power) < 0, whole * scale, whole / scale)
    hard = mantissa > np.uint64(EXACT) if int(mantissa.max()) > EXACT else None
    if lowest <= -POWERS or highest >= POWERS:
        far = np.broadcast_to(np.abs(power) >= POWERS, len(mantissa))
        hard = far if hard is None else hard | far
    if hard is None:
        return values, _NONE
    places = np.flatnonzero(hard)
    values[places], sure = _divided(mantissa[places], power if isinstance(power, int) else power[places])
    return values, places[~sure]


def _divided(mantissa: np.ndarray, power: int | np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(quotients of whole numbers beyond 2**53 or by high powers, whether each is sure to be the nearest float64).

    The whole number and the power are sums of two float64; the rest of their division is exact to the last bit but
    one of these sums (Dekker's product), so the quotient is known to some 100 bits; only one that lies in the middle
    between two float64 is left open.
    """
    sure = np.asarray(power >= 0) & (mantissa < _MOST) & (mantissa > np.uint64(0))
    sure &= power <= FARTHEST
    scale = _SCALE.take(power, mode="clip")
    whole = np.where(sure, mantissa, np.uint64(1)).view(np.int64)
    head = whole.astype(np.float64)
    tail = (whole - head.astype(np.int64)).astype(np.float64)
    rough = head / scale
    product = rough * scale
    rough_high, rough_low = _halves(rough)
    scale_high, scale_low = _halves(scale)
    lost = (
        (rough_high * scale_high - product) + rough_high * scale_low + rough_low * scale_high
    ) + rough_low * scale_low
    if np.max(power) >= POWERS:
        tail -= rough * _SCALE_LOW.take(power, mode="clip")
    rest = (((head - product) - lost) + tail) / scale
    value = rough + rest
    error = (rough - value) + rest
    bits = value.view(np.int64)
    place = ((bits & _EXPONENT) - _LAST_PLACE).view(np.float64)
    sure &= (np.abs(error) < _NEAR_TIE * place) & (bits & _FRACTION != 0)  # below a power of two the places are finer
    return value, sure


def _halves(x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """A float64 as the sum of two of 26 bits (Veltkamp)."""
    spread = x * _VELTKAMP
    high = spread - (spread - x)
    return high, x - high
