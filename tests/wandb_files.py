"""Writes small W&B run files for tests: head, blocks of 32 KiB, fragments with CRC, protobuf records."""

from __future__ import annotations

import json
import struct
import zlib
from collections.abc import Iterable, Mapping
from typing import Any

from tests.event_files import block, varint

BLOCK = 32 * 1024


def item(key: str, value: Any, nested: bool = False) -> bytes:
    return block(2 if nested else 1, key.encode()) + block(16, json.dumps(value).encode())


def history(row: Mapping[str, Any], nested: bool = False, step: int | None = None) -> bytes:
    body = b"".join(block(1, item(key, value, nested)) for key, value in row.items())
    if step is not None:
        body += block(2, b"\x08" + varint(step))
    return block(2, body)


def stats(row: Mapping[str, Any]) -> bytes:
    return block(7, b"".join(block(3, item(key, value)) for key, value in row.items()))


def output(line: str) -> bytes:
    return block(13, block(3, line.encode()))


def run(run_id: str, config: Mapping[str, Any]) -> bytes:
    return block(17, block(1, run_id.encode()) + block(4, b"".join(block(1, item(k, v)) for k, v in config.items())))


def fragment(kind: int, payload: bytes) -> bytes:
    return struct.pack("<IHB", zlib.crc32(payload, zlib.crc32(bytes([kind]))), len(payload), kind) + payload


def run_file(records: Iterable[bytes]) -> bytes:
    """The bytes of a `.wandb` file with these records."""
    data = bytearray(b":W&B\xe1\xbe\x00")
    for record in records:
        first = True
        while True:
            left = BLOCK - len(data) % BLOCK
            if left < 7:
                data += b"\0" * left
                left = BLOCK
            part, record = record[: left - 7], record[left - 7 :]
            kind = (1 if first else 4) if not record else (2 if first else 3)
            data += fragment(kind, part)
            first = False
            if not record:
                break
    return bytes(data)
