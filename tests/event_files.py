"""Writes small TensorBoard event files for tests: the same bytes that TensorFlow and PyTorch write."""

from __future__ import annotations

import struct

from playbook.readers.stores.tfrecord import masked_crc_of


def varint(value: int) -> bytes:
    value &= 0xFFFFFFFFFFFFFFFF
    result = bytearray()
    while value >= 0x80:
        result.append(value & 0x7F | 0x80)
        value >>= 7
    result.append(value)
    return bytes(result)


def block(number: int, payload: bytes) -> bytes:
    return varint(number << 3 | 2) + varint(len(payload)) + payload


def frame(payload: bytes) -> bytes:
    head = struct.pack("<Q", len(payload))
    return head + struct.pack("<I", masked_crc_of(head)) + payload + struct.pack("<I", masked_crc_of(payload))


def simple(tag: str, value: float) -> bytes:
    return block(1, tag.encode()) + varint(2 << 3 | 5) + struct.pack("<f", value)


def tensor(tag: str, payload: bytes, plugin: str = "scalars") -> bytes:
    return block(1, tag.encode()) + block(9, block(1, block(1, plugin.encode()))) + block(8, payload)


def event(step: int | None, *values: bytes, time: float = 1.7e9) -> bytes:
    body = b"\x09" + struct.pack("<d", time)
    if step is not None:
        body += b"\x10" + varint(step)
    return frame(body + block(5, b"".join(block(1, value) for value in values)))


def version(time: float = 1.7e9) -> bytes:
    return frame(b"\x09" + struct.pack("<d", time) + block(3, b"brain.Event:2"))
