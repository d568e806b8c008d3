"""TFRecord framing: length, masked CRC of the length, payload, masked CRC of the payload; CRC-32C by table in numpy.

Every CRC is checked. A CRC is linear: that of a record is that of another one of its length, changed by a table's entry
for each byte that differs. Records of a log differ in a dozen bytes, and only these are looked up.
"""

from __future__ import annotations

import struct
from functools import cache

import numpy as np

_POLYNOMIAL = 0x82F63B78  # Castagnoli, reflected
_MASK_DELTA = 0xA282EAD8  # TensorFlow stores ((crc >> 15) | (crc << 17)) + delta, so that a CRC of a CRC is no problem
FRAME = 12  # bytes before the payload; 4 follow it
_BIGGEST = 1 << 31
_STEPS = 96  # frames that are walked one by one between two looks for a pattern
_PATTERN = 32  # frames of the longest pattern of lengths (the scalars of one step) that is foreseen
_CYCLES = 64  # of a pattern that are foreseen at first; four times as many each time that it holds


@cache
def _table() -> np.ndarray:
    """uint32[256]: CRC-32C of one byte."""
    crc = np.arange(256, dtype=np.uint32)
    for _ in range(8):
        crc = (crc >> np.uint32(1)) ^ np.where(crc & np.uint32(1), np.uint32(_POLYNOMIAL), np.uint32(0))
    return crc


def masked_crc(rows: np.ndarray) -> np.ndarray:
    """Masked CRC-32C of each row: uint8[n, length] -> uint32[n]."""
    table = _table()
    crc = np.full(len(rows), 0xFFFFFFFF, np.uint32)
    for place in range(rows.shape[1]):
        crc = table[(crc ^ rows[:, place]) & np.uint32(0xFF)] ^ (crc >> np.uint32(8))
    crc ^= np.uint32(0xFFFFFFFF)
    rotated = (crc >> np.uint32(15)) | (crc << np.uint32(17))
    return rotated + np.uint32(_MASK_DELTA)


def is_frame(data: bytes) -> bool:
    """True where the bytes begin with a frame whose length is right by its CRC."""
    if len(data) < FRAME:
        return False
    size, stored = struct.unpack_from("<QI", data, 0)
    return size < _BIGGEST and int(masked_crc(np.frombuffer(data[:8], np.uint8)[None, :])[0]) == stored


def size(data: bytes) -> int:
    """Bytes of the frame that begins here, its payload and CRCs included."""
    return int(struct.unpack_from("<Q", data, 0)[0]) + FRAME + 4


def frames(data: bytes) -> tuple[np.ndarray, np.ndarray, int | None]:
    """(starts int64[n], sizes int64[n] of the payloads, place where the frames end too early or None).

    The CRC of each length is checked; frames from the first wrong one on are left out. Lengths that come again in a
    fixed order are foreseen and compared at once.
    """
    starts: list[int] = []
    sizes: list[int] = []
    done: list[tuple[np.ndarray, np.ndarray]] = []
    place, end = 0, len(data)
    unpack = struct.Struct("<QI").unpack_from
    known: dict[int, int] = {}  # length -> its CRC
    whole = True
    while whole and place + FRAME <= end:
        for _ in range(_STEPS):
            if place + FRAME > end:
                break
            size, stored = unpack(data, place)
            crc = known.get(size)
            if crc is None:
                if len(known) > 10_000:
                    known.clear()
                crc = known[size] = masked_crc_of(data[place : place + 8])
            if size > _BIGGEST or crc != stored or place + FRAME + size + 4 > end:
                whole = False
                break
            starts.append(place + FRAME)
            sizes.append(size)
            place += FRAME + size + 4
        else:
            period = next((n for n in range(1, _PATTERN + 1) if sizes[-n:] == sizes[-2 * n : -n]), 0)
            if period:
                done.append((np.array(starts, np.int64), np.array(sizes, np.int64)))
                found = _foreseen(data, place, sizes[-period:], known)
                starts, sizes = [], []
                if len(found[0]):
                    done.append(found)
                    place = int(found[0][-1] + found[1][-1]) + 4
    done.append((np.array(starts, np.int64), np.array(sizes, np.int64)))
    begin = np.concatenate([part[0] for part in done])
    length = np.concatenate([part[1] for part in done])
    return begin, length, None if place == end else place


def _foreseen(data: bytes, place: int, pattern: list[int], known: dict[int, int]) -> tuple[np.ndarray, np.ndarray]:
    """(starts, sizes) of the frames that go on in a pattern of lengths."""
    offsets = np.cumsum([0, *(size + FRAME + 4 for size in pattern)])
    cycle = int(offsets[-1])
    heads = [struct.pack("<QI", size, known[size]) for size in pattern]
    parts: list[np.ndarray] = []
    count = _CYCLES
    while count := min(count, (len(data) - place) // cycle):
        good = np.ones(count, bool)
        for offset, head in zip(offsets, heads, strict=False):
            for first, kind in ((0, "<u8"), (8, "<u4")):
                seen = np.ndarray((count,), kind, data, place + int(offset) + first, (cycle,))
                good &= seen == np.frombuffer(head, kind, 1, first)[0]
        held = count if good.all() else int(np.argmin(good))
        parts.append((place + np.arange(held) * cycle)[:, None] + offsets[None, :-1] + FRAME)
        place += held * cycle
        if held < count:
            break
        count *= 4
    starts = np.concatenate(parts).ravel() if parts else np.empty(0, np.int64)
    return starts, np.tile(np.array(pattern, np.int64), len(starts) // len(pattern))


def varying(rows: np.ndarray) -> np.ndarray:
    """The columns in which not all rows hold the same byte: int64[k] of uint8[n, length]."""
    return np.flatnonzero(np.bitwise_or.reduce(rows, axis=0) != np.bitwise_and.reduce(rows, axis=0))


def masked_crcs(rows: np.ndarray, columns: np.ndarray) -> np.ndarray:
    """Masked CRC-32C of each row, where rows differ in the given columns only: uint8[n, length] -> uint32[n]."""
    length = rows.shape[1]
    if 3 * len(columns) > length:
        return masked_crc(rows)
    start = masked_crc_of(rows[0].tobytes()) - _MASK_DELTA & 0xFFFFFFFF
    crc = np.full(len(rows), (start << 15 | start >> 17) & 0xFFFFFFFF, np.uint32)
    for column in columns.tolist():
        crc ^= _behind(length - 1 - column).take(rows[:, column] ^ rows[0, column])
    rotated = crc >> np.uint32(15)
    crc <<= np.uint32(17)
    rotated |= crc
    rotated += np.uint32(_MASK_DELTA)
    return rotated


@cache
def _behind(count: int) -> np.ndarray:
    """uint32[256]: how a CRC changes with the bits of one byte that stands before `count` others."""
    if not count:
        return _table()
    before = _behind(count - 1)
    return _table()[before & np.uint32(0xFF)] ^ (before >> np.uint32(8))


def masked_crc_of(data: bytes) -> int:
    """Masked CRC-32C of one long text of bytes."""
    table, crc = _table().tolist(), 0xFFFFFFFF
    for byte in data:
        crc = table[(crc ^ byte) & 0xFF] ^ (crc >> 8)
    crc ^= 0xFFFFFFFF
    return (((crc >> 15) | (crc << 17)) + _MASK_DELTA) & 0xFFFFFFFF


def stored_crc(data: bytes, starts: np.ndarray, size: int) -> np.ndarray:
    """The CRC that follows each payload of one size: uint32[n]."""
    return np.ndarray((len(data) - 3,), "V4", data, 0, (1,))[starts + size].view("<u4")


def payloads(data: bytes, starts: np.ndarray, size: int) -> np.ndarray:
    """Payloads of one size: uint8[n, size]."""
    if not size:
        return np.empty((len(starts), 0), np.uint8)
    rows = np.ndarray((len(data) - size + 1,), f"V{size}", data, 0, (1,))[starts]
    return rows.view(np.uint8).reshape(len(starts), size)
