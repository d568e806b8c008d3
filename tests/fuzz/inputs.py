"""Broken files, one for each (seed, number): samples cut, spliced and overwritten, and bytes of no meaning."""

from __future__ import annotations

import gzip
import random
from collections.abc import Sequence
from functools import cache
from pathlib import Path

FORMATS = Path(__file__).parent.parent / "samples" / "formats"
_LARGEST = 24 << 10  # bytes above which a part of a sample is taken: many small inputs find more than few large ones

# What readers trip over: holes, line ends, marks of encodings, packed heads, endless numbers, nesting, other formats.
_TOKENS: tuple[bytes, ...] = (
    b"\0", b"\0" * 70, b"\r", b"\n", b"\r\n", b"\n\n\n", b"\x1b[31m", b"\xef\xbb\xbf", b"\xff\xfe", b"\xfe\xff",
    b"\xb1\xb8\xd7\xa2", b"\xed\xa0\x80", b"\xf4\x90\x80\x80", b"\x1f\x8b\x08\0", b"\x28\xb5\x2f\xfd", b"PAR1",
    b"SQLite format 3\0", b"NaN", b"nan", b"-Infinity", b"1e999", b"-1e-999", b"9" * 5000, b"-" + b"9" * 25, b"0" * 400,
    b"1e", b"0x1p-3", b"1_000", b"--", b".", b",", b",,,,,,,,", b";", b"\t", b"|", b'"', b'""', b"'", b"\\", b"\\u0000",
    b"\\ud800", b"[" * 3000, b"{" * 300, b'{"a":' * 300, b"(" * 2000, b"]", b"}", b"{}", b"null", b"true", b"None",
    b"step", b"loss", b"rank", b"epoch", b"step=", b"loss: nan", b"iteration 5/", b"<<<<<<< HEAD\n", b"=======\n",
    b">>>>>>> b\n", b"[rank3]: ", b"3: ", b"%s%n", b"$(id)", b"a" * 70_000, b"x," * 9000, b"&a [*a, *a]\n",
    b"!!python/none ",
    b"\xff" * 12, b"\x80" * 12, b"\x7f\xff\xff\xff\xff\xff\xff\xff",
)  # fmt: skip


@cache
def samples(name: str) -> tuple[Path, ...]:
    """The sample files of one reader."""
    found = sorted((FORMATS / name).rglob("*"))
    return tuple(path for path in found if path.is_file() and not path.name.endswith(".expect.json"))


@cache
def content(path: Path) -> bytes:
    return path.read_bytes()


def made(name: str, names: Sequence[str], rng: random.Random) -> tuple[bytes, Path]:
    """(bytes, path below the folder of the run) of one input for a reader."""
    path = rng.choice(samples(name))
    inside = path.relative_to(FORMATS / name)
    kind = rng.random()
    if kind < 0.03:
        return rng.randbytes(rng.choice((0, 1, 7, 64, 1000))), inside
    data = bytearray(_window(content(path), rng))
    if kind < 0.06:  # the first bytes, then noise
        data[rng.randint(0, min(len(data), 400)) :] = rng.randbytes(rng.randint(0, 2000))
    for _ in range(rng.choice((0, 1, 1, 2, 3, 6, 20))):
        _changed(data, names, rng)
    if kind < 0.10:
        lines = bytes(data).split(b"\n")
        rng.shuffle(lines)
        data = bytearray(b"\n".join(lines))
    if kind < 0.13:
        data = bytearray(
            bytes(data).decode("utf-8", "replace").encode(rng.choice(("utf-16", "utf-8-sig", "utf-16-le")))
        )
    if kind > 0.97:
        packed = bytearray(gzip.compress(bytes(data), 1))
        for _ in range(rng.choice((0, 1, 3))):
            packed[rng.randrange(len(packed))] = rng.randrange(256)
        return bytes(packed[: len(packed) - rng.choice((0, 0, 5))]), inside.with_name(inside.name + ".gz")
    return bytes(data), inside


def _window(data: bytes, rng: random.Random) -> bytes:
    """A sample, or its head and a part of it."""
    if len(data) <= _LARGEST:
        return data
    start = rng.randint(0, len(data) - _LARGEST // 2)
    return data[: _LARGEST // 2] + data[start : start + _LARGEST // 2]


def _changed(data: bytearray, names: Sequence[str], rng: random.Random) -> None:
    """One change in place."""
    at = rng.randint(0, len(data))
    size = rng.choice((1, 2, 4, 9, 30, 200))
    kind = rng.randrange(10)
    if kind == 0:
        del data[at : at + size]
    elif kind == 1:
        data[at:at] = data[at : at + size]
    elif kind == 2 and data:
        data[at % len(data)] = rng.randrange(256)
    elif kind == 3 and data:
        data[at % len(data)] ^= 1 << rng.randrange(8)
    elif kind == 4:
        data[at:at] = rng.choice(_TOKENS)
    elif kind == 5:
        token = rng.choice(_TOKENS)
        data[at : at + len(token)] = token
    elif kind == 6:
        other = content(rng.choice(samples(rng.choice(names))))
        begin = rng.randint(0, len(other))
        data[at:at] = other[begin : begin + size * 5]
    elif kind == 7:
        del data[at:]
    elif kind == 8:
        data[at:at] = data[at : at + size] * rng.choice((2, 30, 300))
    else:  # one number becomes another
        digits = [place for place in range(at, min(len(data), at + 300)) if 48 <= data[place] <= 57]
        if digits:
            data[digits[0] : digits[0] + 1] = rng.choice(
                (b"-1", b"1e308", b"99999999999999999999", b"NaN", b"", b"0.1.2")
            )
