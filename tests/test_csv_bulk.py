"""Tables read by the megabyte and line by line give the same run; numbers out of bytes are those of `float`."""

from __future__ import annotations

import gzip
import math
import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from playbook.errors import PlaybookError
from playbook.readers import read, source
from playbook.readers.base import RunBuilder
from playbook.readers.source import Source
from playbook.readers.tables import csv_bulk, csv_plain, csv_table, digits

FLOATS = st.floats(width=64)
NUMBERS = st.one_of(
    st.integers(-(10**20), 10**20).map(str),
    st.integers(0, 10**6).map(str),
    FLOATS.map(repr),
    st.floats(width=32).map(repr),
    st.floats(-1e6, 1e6).flatmap(lambda x: st.integers(0, 20).map(lambda n: f"{x:.{n}f}")),
    st.floats(-1e6, 1e6).flatmap(lambda x: st.integers(0, 17).map(lambda n: f"{x:.{n}e}")),
    st.floats(1e-30, 1e30).map(lambda x: f"{x:g}"),
)
WORDS = "|| |nan|NaN|-nan|inf|-inf|Infinity|None|null|-|.|5.|.5|-.5|-0|+3|-0.0|1_000|1e5|e-05|1.e-05|.e-05|--1|1..2"
WORDS += "|1.2.3|0x10|85 %|1410 MHz|٣|１|tensor(2.5)|2,5|9007199254740993|9007199254740993.0|00012|1.5e-05e-05|/:|損失"
WORDS += "|1e+22|1e+23|1.7e-22|1-05|#|\x1f2"
LONG = ["x" * 30, "1" * 19, "1" * 25, "0." + "0" * 21 + "1", "0." + "0" * 23 + "1"]
ODD = st.sampled_from([*WORDS.split("|"), *LONG])
CELLS = st.one_of(NUMBERS, NUMBERS, ODD, st.text("0123456789.-+eE /:_", max_size=26))


def parsed(cells: list[str]) -> tuple[np.ndarray, set[int]]:
    """Cells without a comma by `digits.numbers`."""
    data = b"\0" * digits.PAD + b"".join(cell.encode() + b"," for cell in cells)
    buffer = np.frombuffer(data, np.uint8)
    ends = np.flatnonzero(buffer == ord(","))
    starts = np.concatenate([[digits.PAD], ends[:-1] + 1])
    values, odd = digits.numbers(buffer, starts, ends)
    return values, set(odd.tolist())


def same(value: float, wanted: float) -> bool:
    return value == wanted and math.copysign(1, value) == math.copysign(1, wanted)


@settings(max_examples=400, deadline=None)
@given(st.lists(CELLS.filter(lambda text: "," not in text), min_size=1, max_size=30), st.integers(1, 3))
def test_numbers_are_those_of_float(cells: list[str], times: int) -> None:
    cells = cells * times
    values, odd = parsed(cells)
    for place, cell in enumerate(cells):
        if place not in odd:
            assert same(float(values[place]), float(cell)), cell


@settings(max_examples=200, deadline=None)
@given(st.lists(st.floats(1e-4, 1e6), min_size=1, max_size=50))
def test_printed_floats_come_back(numbers: list[float]) -> None:
    """What loggers write is read here and not handed back; ties may be."""
    values, odd = parsed([repr(x) for x in numbers])
    assert len(odd) <= len(numbers) // 20 + 1
    assert all(same(float(values[i]), x) for i, x in enumerate(numbers) if i not in odd)


def test_numbers_next_to_a_tie() -> None:
    """Decimals in the middle between two floats, cut and a little beside it."""
    from decimal import Decimal, getcontext

    getcontext().prec = 60
    rng = np.random.default_rng(1)
    cells = []
    for x in rng.random(2_000) * 10.0 ** rng.integers(-2, 5, 2_000):
        middle = (Decimal(float(x)) + Decimal(float(np.nextafter(x, np.inf)))) / 2
        cells.append(f"{middle:f}"[: int(rng.integers(14, 25))])
    values, odd = parsed(cells)
    for place, cell in enumerate(cells):
        assert place in odd or same(float(values[place]), float(cell)), cell


@pytest.mark.parametrize("cell", ["2.5", "7", "-3.25", "0.0003", "nan", "", "-0"])
def test_a_column_of_one_text(cell: str) -> None:
    values, odd = parsed([cell] * 7)
    if cell in ("nan", "", "-0"):
        assert odd == set(range(7))
    else:
        assert not odd and (values == float(cell)).all()


def test_bits_are_kept() -> None:
    """Any float64 of a sane size, written by Python, comes back bit by bit."""
    bits = np.random.default_rng(2).integers(0, 2**64, 5_000, np.uint64)
    texts = [repr(struct.unpack("d", struct.pack("Q", int(b)))[0]) for b in bits]
    values, odd = parsed(texts)
    assert all(same(float(values[i]), float(text)) for i, text in enumerate(texts) if i not in odd)


# ---- whole tables

HEADERS = (
    ("step", "loss", "lr"),
    ("epoch", "step", "train_loss", "note", "val_loss"),
    ("note", "step", "loss", "grad_norm"),
    ("rank", "step", "loss"),
    ("step", "loss", *(f"extra_{n}" for n in range(9)), "grad_norm"),
)
FEW = st.one_of(
    st.floats(0.1, 9).map(lambda x: f"{x:.4f}"),
    st.floats(0.1, 9).map(lambda x: f"{x:.4f}"),
    st.floats(0.1, 9).map(repr),
    CELLS,
)


@st.composite
def tables(draw: Any) -> tuple[bytes, str]:
    """A file and its name: a clean table with any number of faults."""
    sign = draw(st.sampled_from([",", ",", ",", ";", "\t"]))
    head = draw(st.sampled_from(HEADERS))
    clean = draw(st.booleans())
    end = draw(st.sampled_from(["\n", "\n", "\n", "\r\n"]))
    body = draw(st.sampled_from(["", "", "# made by hand\n", "\n\n"]))
    lines = [sign.join(head)]
    cells = st.floats(0.1, 9).map(lambda x: f"{x:.4f}") if clean else FEW
    for number in range(draw(st.integers(2, 40))):
        kind = draw(st.sampled_from(["row"] * (1 if clean else 12) + ([] if clean else FAULTS)))
        row = [draw(cells).replace(sign, "") for _ in head]
        for name in ("step", "rank", "epoch"):
            if name in head and (clean or draw(st.integers(0, 9))):
                row[head.index(name)] = str(
                    number % 2 if name == "rank" else number // 3 if name == "epoch" else number
                )
        if "note" in head:
            row[head.index("note")] = draw(st.sampled_from(["warm", "", "gpu 3", "好", "2.5"]))
        lines.append(_fault(kind, row, head, sign))
    text = body + end.join(lines) + (end if clean or draw(st.booleans()) else "")
    data = text.encode("utf-8", "surrogateescape")
    packing = draw(st.sampled_from(["", "", "", "gbk", "bom", "utf-16", "gz", "cut"]))
    if packing == "gbk":
        data = text.encode("gbk", "replace")
    elif packing == "bom":
        data = b"\xef\xbb\xbf" + data
    elif packing == "utf-16":
        data = text.encode("utf-16", "replace")
    elif packing == "gz":
        return gzip.compress(data), "m.csv.gz"
    elif packing == "cut" and not clean:
        data = data[: draw(st.integers(len(data) // 2, len(data)))]
    return data, "m.csv"


FAULTS = ["short", "long", "empty", "blank", "comment", "marker", "header", "other", "quoted", "nul", "return", "extra"]
FAULTS += ["padded", "indented", "words", "foreign", "broken"]


def _fault(kind: str, row: list[str], head: tuple[str, ...], sign: str) -> str:
    line = sign.join(row)
    return {
        "short": sign.join(row[:-1]),
        "long": line + sign + "7",
        "empty": sign * (len(row) - 1),
        "blank": "  ",
        "comment": "# " + line,
        "marker": "<<<<<<< HEAD",
        "header": sign.join(head),
        "other": sign.join(["step", "loss", "eval_loss", "lr"][: len(head) + 1]),
        "quoted": sign.join(f'"{cell}"' for cell in row),
        "nul": line[:2] + "\0\0" + line[2:],
        "return": line + "\r" + line,
        "extra": line + sign,
        "padded": sign.join(f"  {cell} " for cell in row),
        "indented": "\t " + line,
        "words": sign.join("abc" for _ in row),
        "foreign": sign.join([*row[:-1], "\udcff\udc81"]),
        "broken": line[: len(line) // 2],
    }.get(kind, line)


def outcome(path: Path) -> Any:
    """All that a reading says, in a form that can be compared."""
    builder = RunBuilder("m.csv", csv_table.NAME)
    try:
        csv_table.read(Source(path, "m.csv"), builder)
        series, unmapped = builder.finish()
    except PlaybookError as error:
        return str(error)
    return (
        {
            key: (one.steps.tolist(), one.values.tobytes(), one.values.dtype.str, _lines(one.lines), one.raw)
            for key, one in series.items()
        },
        unmapped,
        builder.report(),
        builder.columns,
    )


def _lines(lines: np.ndarray | None) -> list[int] | None:
    return None if lines is None else lines.tolist()


@settings(max_examples=600, deadline=None)
@given(tables(), st.sampled_from([1, 7, 64, 1 << 20]), st.sampled_from([64, 300, 1 << 20]))
def test_both_ways_read_the_same(tmp_path_factory: Any, table: tuple[bytes, str], piece: int, chunk: int) -> None:
    content, name = table
    path = tmp_path_factory.mktemp("table") / name
    path.write_bytes(content)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(csv_bulk, "_MOST", piece)
        patch.setattr(csv_bulk, "_WARY", 2)
        patch.setattr(source, "_CHUNK", chunk)
        fast = outcome(path)
        patch.setattr(csv_plain, "DELIMITERS", frozenset())
        slow = outcome(path)
    assert fast == slow


def test_a_clean_table_is_never_read_line_by_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """NaN, infinities, holes, CRLF and text in columns that nobody needs are no reason for the slow way."""
    path = tmp_path / "metrics.csv"
    body = "".join(
        f"{n},{2 + n / 997!r},{'nan' if n % 5 else '-inf'},{'' if n % 2 else n},gpu {n}\r\n" for n in range(3000)
    )
    path.write_text("step,loss,grad_norm,eval_loss,note\r\n" + body, newline="")
    from playbook.readers.tables.csv_rows import Rows

    monkeypatch.setattr(Rows, "line", lambda *_: pytest.fail("a line was read for itself"))
    run = read([path])
    assert len(run.series["loss", None]) == 3000 and len(run.series["eval_loss", None]) == 1500
    assert np.isneginf(run.series["grad_norm", None].values).sum() == 600
    assert run.series["eval_loss", None].lines is not None and run.series["eval_loss", None].lines[1] == 4


def test_another_header_every_other_line(tmp_path: Path) -> None:
    path = tmp_path / "metrics.csv"
    pair = "step,lr,loss\n{0},0.1,2.5\nstep,loss,lr\n{0},2.5,0.1\n"
    path.write_text("step,loss,lr\n1,2.5,0.1\n" + "".join(pair.format(n) for n in range(2, 3000)))
    run = read([path])
    assert (run.series["loss", None].values == 2.5).all() and len(run.series["loss", None]) == 5997


def test_a_million_short_lines_under_a_wide_header(tmp_path: Path) -> None:
    """The width of the header must not multiply with the number of lines."""
    path = tmp_path / "metrics.csv"
    head = ",".join(["step", "loss", *(f"c{n}" for n in range(20_000))])
    row = ",".join(["1", "2.5"] + ["0"] * 20_000)
    path.write_text(f"{head}\n{row}\n{row}\n" + "1\n" * 20_000)
    run = read([path])
    assert len(run.series["loss", None]) >= 2
