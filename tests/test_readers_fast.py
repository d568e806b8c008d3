"""The fast ways of large files give the same run as the careful ones, on random files with every kind of damage."""

from __future__ import annotations

import json
import math
import random
import struct
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from playbook.errors import PlaybookError
from playbook.readers.base import RunBuilder, number
from playbook.readers.documents import cells, json_columns, json_lines
from playbook.readers.source import Source
from playbook.readers.stores import tensorboard, tfrecord
from tests.event_files import event, frame, simple, tensor, varint, version

Number = Callable[[random.Random], object]

# How programs write numbers: fixed decimals, all digits, single precision, exponents, counts, and what is none.
PRINTED: tuple[Callable[[random.Random], str], ...] = (
    lambda rng: f"{rng.gauss(2.5, 0.1):.6f}",
    lambda rng: f"{rng.random() * 5:.4f}",
    lambda rng: repr(rng.gauss(2.5, 1)),
    lambda rng: repr(rng.random() * 10 ** rng.randint(-12, 12)),
    lambda rng: repr(float(np.float32(rng.random() * 12))),
    lambda rng: repr(rng.random() * 3e-4),
    lambda rng: str(round(rng.gauss(0, 1), 6)),
    lambda rng: f"{rng.random() * 3e-4:.4e}",
    lambda rng: str(rng.randint(-(10 ** rng.randint(1, 20)), 10 ** rng.randint(1, 20))),
    lambda rng: str(rng.randint(0, 10**9)),
    lambda rng: f"{rng.randint(0, 10**17) / 10**17:.17f}",
    lambda rng: "65536.0",
    lambda rng: "NaN",
)
EVEN: tuple[Callable[[random.Random], str], ...] = (  # all of one length
    lambda rng: f"{rng.gauss(2.5, 0.1):.6f}",
    lambda rng: f"{rng.uniform(1, 9):.4f}",
    lambda rng: f"{rng.uniform(1, 9):.13f}",
    lambda rng: f"{rng.uniform(1, 9):.17f}",
    lambda rng: f"{rng.uniform(100, 900):.2f}",
    lambda rng: f"{rng.uniform(1, 9):.4e}",
    lambda rng: f"-{rng.uniform(1, 9):.3f}",
    lambda rng: str(rng.randint(100, 999)),
    lambda rng: str(rng.randint(10**9, 10**10 - 1)),
    lambda rng: rng.choice(("1.5000", "2.5000")),
    lambda rng: "0.0003",
    lambda rng: "null",
    lambda rng: "true",
    lambda rng: "NaN",
)
ODD = (
    "NaN", "null", "-0", "-0.0", "0", "0.0", "Infinity", "-Infinity", "true", "01", "1.", ".5", "+1", "1e5", "1E+5",
    "-", "--1", "1.2.3", "0x1", "1e400", "1e-400", "5e-324", "[1]", "{}", "abc", "1_0", "-NaN", "nan", " 1",
    '"NaN"', '"0.5"',
    '"a"', "1" * 30, "9007199254740993", "9007199254740993.0", "0.1e-1", "2.5E3", "4.35", "1.7976931348623157e308",
)  # fmt: skip
FULL = settings(deadline=None, max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])


def parse(texts: list[str]) -> cells.Parsed:
    sizes = np.array([len(text) for text in texts], np.int64)
    starts = np.concatenate([[0], np.cumsum(sizes + 2)[:-1]])
    return cells.parse(np.frombuffer(", ".join(texts).encode() + bytes(cells.PAD), np.uint8), starts, sizes)


def same_bits(one: float, other: float) -> bool:
    return (math.isnan(one) and math.isnan(other)) or np.float64(one).tobytes() == np.float64(other).tobytes()


@FULL
@given(seed=st.integers(0, 2**32), share=st.sampled_from([0, 0.01, 0.3]), count=st.sampled_from([1, 7, 400]))
def test_a_column_of_cells_is_what_single_cells_are(seed: int, share: float, count: int) -> None:
    rng = random.Random(seed)
    kinds = rng.sample(PRINTED, rng.choice((1, 1, 3)))
    texts = [rng.choice(ODD) if rng.random() < share else rng.choice(kinds)(rng) for _ in range(count)]
    try:
        values, missing, odd = parse(texts)
    except cells.TooOdd:
        return
    for place, text in enumerate(texts):
        try:
            value = json.loads(text)
        except ValueError:
            value = []
        assert isinstance(value, (str, list, dict)) == (place in odd), text
        if place not in odd:
            found = number(value)
            assert (found is None) == (missing is not None and bool(missing[place])), text
            assert found is None or same_bits(found, values[place]), text


def test_numbers_between_two_doubles_are_rounded_as_python_does() -> None:
    """Ties and their neighbours, with 17 to 19 digits: an 80-bit division alone would round some of them twice."""
    rng = random.Random(4)
    texts = []
    for _ in range(3000):
        low = rng.random() * 10 ** rng.randint(-3, 0)
        middle = (low + float(np.nextafter(low, 2))) / 2 if rng.random() < 0.3 else low
        texts.append(f"{middle:.{rng.randint(16, 19)}f}")
    for first in range(0, len(texts), 20):
        part = texts[first : first + 20]
        values, _, odd = parse(part)
        assert not len(odd)
        assert all(same_bits(float(text), value) for text, value in zip(part, values, strict=True))


# ---- files ----------------------------------------------------------------------------------------------------------

KEYS = (
    "step", "loss", "grad_norm", "lr", "loss_scale", "train/loss", "eval_loss", "epoch", "iter", "rank", "acc_top1",
    "time", "data_time", "val/loss", "_runtime", "memory", "Loss", "value", "global_step",
)  # fmt: skip


def row(rng: random.Random, keys: list[str], kinds: dict[str, Callable[[random.Random], str]], step: int) -> str:
    joint = rng.choice((", ", ", ", ", ", ","))
    parts = []
    for key in keys:
        text = str(step) if key in ("step", "iter", "global_step") else kinds[key](rng)
        parts.append(f'"{key}": {text}')
    return "{" + joint.join(parts) + "}"


def some_file(rng: random.Random) -> bytes:
    """Rows of one to three shapes, and whatever else is met in logs."""
    shapes = []
    even = rng.random() < 0.5
    first = rng.choice((0, 10_000))
    for _ in range(rng.choice((1, 1, 2, 3))):
        keys = rng.sample(KEYS, rng.randint(2, 8))
        if rng.random() < 0.9 and "step" not in keys:
            keys.insert(rng.choice((0, len(keys))), "step")
        shapes.append((keys, {key: rng.choice(EVEN if even else PRINTED) for key in keys}, rng.choice((1, 0.1, 0.01))))
    extra = rng.choice(
        (
            "", "", "", ', "mode": "train"', ', "mode": "val"', ', "nested": {"lr": 0.5, "deep": {"loss": 1.5}}',
            ', "betas": [0.9, 0.95]', ', "note": "a, b"', ', "time": "0:00:01"', ', "name": "\u635f\u5931"',
            ', "none": null',
        )
    )  # fmt: skip
    damage = rng.choice((0, 0, 0.002, 0.02))
    lines = []
    for step in range(rng.choice((3, 40, 400, 3000))):
        keys, kinds, _ = rng.choices(shapes, [share for _, _, share in shapes])[0]
        line = row(rng, keys, kinds, first + step if rng.random() < 0.999 else step // 2)
        line = line[:-1] + extra + "}"
        if rng.random() < damage:
            line = rng.choice((
                line[: rng.randint(0, len(line))],
                "",
                line + line,
                line + ",",
                "  " + line + "  ",
                "<<<<<<< HEAD",
                "Traceback (most recent call last):",
                line.replace("1", "NaN", 1),
                line.replace("1", "null", 1),
                line.replace('"loss"', '"l\\u006fss"'),
                line.replace(":", "\0:", 1),
                line[:5] + "\r" + line,
                line.replace("{", '{"loss": 9.5, ', 1),
                re_number(line, rng.choice(ODD)),
                '{"metric": "loss", "value": 2.5, "step": 3}',
                '{"step": 5, "split": "valid", "loss": 4.25}',
            ))  # fmt: skip
        lines.append(line)
    end = rng.choice(("\n", "\n", "\n", "\r\n"))
    text = end.join(lines) + rng.choice((end, end, end, ""))
    data = text.encode(rng.choice(("utf-8", "utf-8", "utf-8", "utf-8-sig", "gbk")))
    return data[: len(data) - rng.choice((0, 0, 0, rng.randint(0, 60)))]


def re_number(line: str, cell: str) -> str:
    """The line with another first number."""
    first = next((place for place, sign in enumerate(line) if sign in "0123456789-"), None)
    if first is None:
        return line
    last = next((place for place in range(first, len(line)) if line[place] in ",}"), first)
    return line[:first] + cell + line[last:]


def told(path: Path, fast: bool) -> object:
    """All that the reader says of a file, numbers as their bytes."""
    builder = RunBuilder("x", "jsonl")
    source = Source(path, "x")
    try:
        if fast:
            if not json_columns.read(source, builder):
                assert not builder.rows and not builder.problems and not builder.raws()
                return None
        else:
            json_lines.read(source, builder)
    except PlaybookError as error:
        return str(error)
    series, unmapped = builder.finish()
    numbers = [
        (key, one.raw, one.steps.tolist(), [repr(float(v)) for v in one.values], np.asarray(one.lines).tolist())
        for key, one in series.items()
    ]
    return numbers, unmapped, builder.rows, [str(problem) for problem in builder.problems]


def check(seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> bool:
    """Whether the fast way took the file; it must say what the careful one says."""
    rng = random.Random(seed)
    path = tmp_path / "log.jsonl"
    path.write_bytes(some_file(rng))
    monkeypatch.setattr(json_columns, "_PIECE", rng.choice((2 << 10, 16 << 10, 1 << 20)))
    fast = told(path, True)
    if fast is None:
        return False
    careful = told(path, False)
    if fast != careful and isinstance(fast, tuple) and isinstance(careful, tuple):
        assert [n[:2] for n in fast[0]] == [n[:2] for n in careful[0]]
        for mine, its in zip(fast[0], careful[0], strict=True):
            assert mine == its
    assert fast == careful
    return True


@FULL
@given(seed=st.integers(0, 2**32))
def test_columns_give_the_same_run_as_lines(seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    check(seed, tmp_path, monkeypatch)


def test_the_fast_way_takes_most_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    taken = [check(seed, tmp_path, monkeypatch) for seed in range(40)]
    assert sum(taken) >= 20


# ---- event files ----------------------------------------------------------------------------------------------------


def some_events(rng: random.Random) -> bytes:
    """Scalars of a few tags, one record each or several in one, old and new, with other records between."""
    tags = rng.sample(
        ["loss", "train/loss", "lr", "grad_norm", "eval/loss", "act/max_layer_3", "xyzw"], rng.randint(1, 5)
    )
    kinds = {tag: rng.choice(("simple", "simple", "float", "double", "content", "int")) for tag in tags}
    together, holes = rng.random() < 0.2, rng.choice((0, 0, 0.05))
    tick, step = rng.choice((0.0, 1.25)), rng.choice((0, 100, 16_000, 2**31))
    records = [version()] if rng.random() < 0.8 else []

    def value(tag: str) -> bytes:
        number = rng.choice((rng.gauss(2, 1), rng.gauss(2, 1), math.nan, math.inf, 0.0))
        if kinds[tag] == "simple":
            return simple(tag, number)
        if kinds[tag] == "float":
            return tensor(tag, b"\x08\x01\x12\x00" + b"\x2d" + struct.pack("<f", number))
        if kinds[tag] == "double":
            return tensor(tag, b"\x08\x02\x12\x00" + b"\x32\x08" + struct.pack("<d", number))
        if kinds[tag] == "content":
            return tensor(tag, b"\x08\x01\x12\x00" + b"\x22\x04" + struct.pack("<f", number))
        return tensor(tag, b"\x08\x09\x12\x00\x52" + varint(len(varint(step))) + varint(step))

    for _ in range(rng.choice((1, 30, 300, 1500))):
        step += 1 if rng.random() < 0.99 else -5
        wall = 1.7e9 + tick * step
        if together:
            records.append(event(max(0, step), *(value(tag) for tag in tags), time=wall))
        else:
            chosen = [tag for tag in tags if rng.random() >= holes]
            records += [event(max(0, step) or None, value(tag), time=wall) for tag in chosen]
        if rng.random() < 0.01:
            records.append(
                rng.choice((frame(b""), frame(bytes(5000)), event(step, tensor("h", b"", "histograms")), frame(b"abc")))
            )
    data = bytearray(b"".join(records))
    for _ in range(rng.choice((0, 0, 0, 1, 3))):
        data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
    return bytes(data[: len(data) - rng.choice((0, 0, rng.randint(0, 60)))])


def one_by_one(data: bytes) -> tuple[tensorboard.Points, int, int]:
    """(points, records with a wrong CRC, bytes that were read): record after record, byte after byte."""
    points: tensorboard.Points = {}
    place = broken = count = 0
    while place + 12 <= len(data):
        size, stored = struct.unpack_from("<QI", data, place)
        if tfrecord.masked_crc_of(data[place : place + 8]) != stored or place + 16 + size > len(data):
            break
        record = data[place + 12 : place + 12 + size]
        if tfrecord.masked_crc_of(record) == struct.unpack_from("<I", data, place + 12 + size)[0]:
            tensorboard._record(record, count, points)
        else:
            broken += size <= 4096
        place, count = place + 16 + size, count + 1
    return points, broken, place


@FULL
@given(seed=st.integers(0, 2**32))
def test_event_records_together_are_what_single_ones_are(
    seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = random.Random(seed)
    data = some_events(rng)
    points, broken, stop = one_by_one(data)
    wanted = {
        tag: sorted(zip(*(np.concatenate(part).tolist() for part in parts), strict=True), key=lambda row: row[0])
        for tag, parts in points.items()
        if RunBuilder("x", "tensorboard").wants(tag)
    }
    path = tmp_path / "events.out.tfevents.1.host"
    path.write_bytes(data)
    monkeypatch.setattr(tensorboard, "_PIECE", rng.choice((64, 5000, 4 << 20)))
    builder = RunBuilder("x", "tensorboard")
    try:
        tensorboard.read(Source(path, "x"), builder)
    except PlaybookError:
        assert not any(wanted.values())
        return
    found = {raw: chunks[0][:2] for (raw, _), chunks in builder.chunks().items()}
    assert found.keys() == wanted.keys()
    for tag, (steps, values) in found.items():
        assert steps.tolist() == [row[1] for row in wanted[tag]]
        assert all(same_bits(one, row[2]) for one, row in zip(values.tolist(), wanted[tag], strict=True))
    told = {problem.code: problem.what for problem in builder.problems}
    assert ("crc" in told) == bool(broken) and (not broken or told["crc"].startswith(f"{broken} records"))
    assert ("cut" in told or "damaged" in told) == (stop < len(data))
    assert all(f"(byte {stop})" in told[code] for code in ("cut", "damaged") if code in told)


def test_every_record_has_its_crc_checked(tmp_path: Path) -> None:
    """One flipped bit in any byte of a record takes that record out, and no other."""
    records = [event(20_000 + step, simple("loss", 2.0 + step), time=1.7e9 + step) for step in range(300)]
    place = sum(map(len, records[:250]))
    for byte in range(12, len(records[250])):
        data = bytearray(b"".join(records))
        data[place + byte] ^= 0x10
        path = tmp_path / "events.out.tfevents.1.host"
        path.write_bytes(data)
        builder = RunBuilder("x", "tensorboard")
        tensorboard.read(Source(path, "x"), builder)
        ((steps, _, _),) = builder.chunks()["loss", None]
        assert steps.tolist() == [20_000 + step for step in range(300) if step != 250]
        assert [problem.code for problem in builder.problems] == ["crc"]
