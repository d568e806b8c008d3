"""TFRecord framing: length, masked CRC of the length, payload, masked CRC of the payload; CRC-32C by table in numpy."""

from __future__ import annotations

import struct
from functools import cache

import numpy as np

_POLYNOMIAL = 0x82F63B78  # Castagnoli, reflected
_MASK_DELTA = 0xA282EAD8  # TensorFlow stores ((crc >> 15) | (crc << 17)) + delta, so that a CRC of a CRC is no problem
FRAME = 12  # bytes before the payload; 4 follow it
_BIGGEST = 1 << 31


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


def frames(data: bytes) -> tuple[np.ndarray, np.ndarray, int | None]:
    """(starts int64[n], sizes int64[n] of the payloads, place where the frames end too early or None).

    The CRCs of all lengths are checked at once; frames from the first wrong one on are left out.
    """
    starts, sizes = [], []
    place, end = 0, len(data)
    unpack = struct.Struct("<Q").unpack_from
    while place + FRAME <= end:
        size = unpack(data, place)[0]
        if size > _BIGGEST or place + FRAME + size + 4 > end:
            break
        starts.append(place + FRAME)
        sizes.append(size)
        place += FRAME + size + 4
    stop = None if place == end else place
    begin, length = np.asarray(starts, np.int64), np.asarray(sizes, np.int64)
    if len(begin):
        raw = np.frombuffer(data, np.uint8)
        heads = raw[(begin - FRAME)[:, None] + np.arange(8)]
        stored = raw[(begin - 4)[:, None] + np.arange(4)].copy().view("<u4")[:, 0]
        wrong = masked_crc(heads) != stored
        if wrong.any():
            first = int(np.argmax(wrong))
            return begin[:first], length[:first], int(begin[first]) - FRAME
    return begin, length, stop


def masked_crc_of(data: bytes) -> int:
    """Masked CRC-32C of one long text of bytes."""
    table, crc = _table().tolist(), 0xFFFFFFFF
    for byte in data:
        crc = table[(crc ^ byte) & 0xFF] ^ (crc >> 8)
    crc ^= 0xFFFFFFFF
    return (((crc >> 15) | (crc << 17)) + _MASK_DELTA) & 0xFFFFFFFF


def stored_crc(data: bytes, starts: np.ndarray, size: int) -> np.ndarray:
    """The CRC that follows each payload of one size: uint32[n]."""
    raw = np.frombuffer(data, np.uint8)
    return raw[(starts + size)[:, None] + np.arange(4)].copy().view("<u4")[:, 0]
