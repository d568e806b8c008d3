"""The protobuf wire format, as far as records of metrics need it: fields of one message, without any schema."""

from __future__ import annotations

import struct
from collections.abc import Iterator

VARINT, FIXED64, BYTES, FIXED32 = 0, 1, 2, 5  # wire types
Field = tuple[int, int, int, int, int]  # number, wire type, value (VARINT), start and end of the payload


class BadMessage(ValueError):
    """The bytes are no message, or one that is cut."""


def varint(data: bytes | memoryview, place: int) -> tuple[int, int]:
    """(value, next place) of a variable-length integer of at most 64 bits."""
    result = shift = 0
    try:
        while True:
            byte = data[place]
            place += 1
            result |= (byte & 0x7F) << shift
            if byte < 0x80:
                return result & 0xFFFFFFFFFFFFFFFF, place
            shift += 7
            if shift > 63:
                raise BadMessage("a number of more than 64 bits")
    except IndexError:
        raise BadMessage("cut in a number") from None


def signed(value: int) -> int:
    """A 64-bit two's complement number, as int32 and int64 fields hold it."""
    return value - (1 << 64) if value >= 1 << 63 else value


def fields(data: bytes | memoryview, start: int, end: int) -> Iterator[Field]:
    """The fields of a message between two places, in file order."""
    place = start
    while place < end:
        key, place = varint(data, place)
        kind = key & 7
        value, first = 0, place
        if kind == VARINT:
            value, place = varint(data, place)
        elif kind == FIXED64:
            place += 8
        elif kind == FIXED32:
            place += 4
        elif kind == BYTES:
            size, first = varint(data, place)
            place = first + size
        else:
            raise BadMessage(f"unknown wire type {kind}")
        if place > end:
            raise BadMessage("cut in a field")
        yield key >> 3, kind, value, first, place


def float32(data: bytes | memoryview, place: int) -> float:
    return float(struct.unpack_from("<f", data, place)[0])


def float64(data: bytes | memoryview, place: int) -> float:
    return float(struct.unpack_from("<d", data, place)[0])
