"""Lines of one look, turned together, give what cell by cell gives: the same lines, the same bits."""

from __future__ import annotations

import random
from collections.abc import Callable

import numpy as np
import pytest

from playbook.readers.tables import csv_alike, csv_plain, digits

NAMES = ("step", "note", "loss", "grad_norm", "lr", "epoch")
WANTED = ("step", "loss", "grad_norm", "lr", "epoch")
PLACES = {name: place for place, name in enumerate(NAMES)}

Cell = Callable[[random.Random, int], str]


def fixed(digits_: int, scale: float = 1.0) -> Cell:
    return lambda rng, _: f"{rng.gauss(2.5, 0.5) * scale:.{digits_}f}"


def words(*some: str) -> Cell:
    return lambda rng, _: rng.choice(some)


CELLS: dict[str, Cell] = {
    "count": lambda _, n: str(n),
    "count down": lambda _, n: str(500 - n),
    "fixed": fixed(6),
    "wide": fixed(13),
    "wider": fixed(17),
    "small": lambda rng, _: f"{rng.random() * 1e-5:.19f}",
    "around zero": lambda rng, _: f"{rng.gauss(0, 0.5):.3f}",
    "whole": lambda rng, _: str(rng.randrange(-3, 3)),
    "minus zero": words("-0", "0", "-1"),
    "long whole": lambda rng, _: str(rng.randrange(10**15, 10**17)),
    "exponent": lambda rng, _: f"{rng.random() * 1e-3:.3e}",
    "large exponent": lambda rng, _: f"{rng.random() * 1e9:.2e}",
    "constant": words("0.0003"),
    "word": words("nan", "inf", "-inf", "NaN", "None", ""),
    "holes": lambda rng, n: f"{rng.random():.5f}" if n % 2 else "",
    "other holes": lambda rng, n: "" if n % 2 else f"{rng.random():.5f}",
    "empty": words(""),
    "odd": words("1.5", "+1.5", "5.", ".5", "1,5".replace(",", "."), "1e5", "1E-05", " 2.5", "2.5 ", "0x1F", "1_0"),
    "mixed": words("3", "4.5", "6", "1e-3", "1e-03"),
    "seldom": lambda rng, n: "nan" if rng.random() < 0.01 else f"{rng.random():.4f}",
    "all digits": lambda rng, _: repr(rng.gauss(2.5, 0.1)),
}
NOTES: dict[str, Cell] = {
    "plain": words("a", "b"),
    "foreign": words("grün", "好", "ok"),
    "none": words(""),
    "marks": lambda rng, n: "#" if rng.random() < 0.05 else "x",
}

ODD_ROWS = ("", "# note", "step,note,loss,grad_norm,lr,epoch", "1,2", " 3,a,1.0,2.0,0.1,1", "1,a,2,3,4,5,")


def both(text: str, width: int = len(NAMES)) -> tuple[csv_plain.Lines | None, csv_plain.Lines | None, frozenset[bytes]]:
    block = b"\0" * digits.PAD + text.encode()
    reader = csv_plain.Reader(WANTED, ",")
    fast = reader._alike(block, digits.PAD, len(block), PLACES, width)
    slow = csv_plain.Reader(WANTED, ",")._cell_by_cell(block, digits.PAD, len(block), PLACES, width)
    return fast, slow, reader.words


def same(fast: csv_plain.Lines, slow: csv_plain.Lines) -> None:
    assert fast.starts.tolist() == slow.starts.tolist()
    assert fast.ends.tolist() == slow.ends.tolist()
    assert fast.loose == slow.loose
    assert (fast.plain is None) == (slow.plain is None)
    if fast.plain is not None and slow.plain is not None:
        assert fast.plain.tolist() == slow.plain.tolist()
    for name in WANTED:
        (ours, gaps), (theirs, holes) = fast.columns[name], slow.columns[name]
        shown = np.ones(len(theirs), bool) if holes is None else ~holes
        assert (gaps is None) == (holes is None), name
        assert gaps is None or (~gaps).tolist() == shown.tolist(), name
        assert len(ours) == len(theirs)
        if shown.any():
            assert ours.dtype == theirs.dtype, name
            assert ours[shown].tobytes() == theirs[shown].tobytes(), name


@pytest.mark.parametrize("seed", range(60))
def test_same_as_cell_by_cell(seed: int) -> None:
    rng = random.Random(seed)
    steady = [CELLS[name] for name in ("fixed", "wide", "constant", "holes", "other holes", "empty", "seldom")]
    cells = [rng.choice(list(CELLS.values())), *(rng.choice(steady) for _ in range(3))]
    rng.shuffle(cells)
    kinds = [CELLS["count"], rng.choice(list(NOTES.values())), *cells]
    if seed % 5 == 0:
        kinds[0] = rng.choice(list(CELLS.values()))
    low = rng.choice((0, 1, 95, 990, 10**6, 10**16))
    rows = [",".join(kind(rng, n) for kind in kinds) for n in range(low, low + 1500)]
    for _ in range(rng.choice((0, 0, 3, 40))):
        row = rng.choice(
            ("", "# note", "step,note,loss,grad_norm,lr,epoch", "1,2", " 3,a,1.0,2.0,0.1,1", "1,a,2,3,4,5,")
        )
        rows.insert(rng.randrange(len(rows)), row)
    fast, slow, _ = both("\n".join(rows) + "\n")
    assert slow is not None
    if fast is not None:
        same(fast, slow)


@pytest.mark.parametrize("kind", CELLS)
def test_each_kind_alone(kind: str) -> None:
    rng = random.Random(kind)
    text = "".join(f"{n},a,{CELLS[kind](rng, n)},{CELLS[kind](rng, n)},0.0003,{n // 100}\n" for n in range(1000, 3000))
    fast, slow, _ = both(text)
    assert slow is not None
    if fast is None:
        assert kind in ("all digits", "odd", "word", "mixed", "exponent", "large exponent", "minus zero", "long whole")
    else:
        same(fast, slow)


def test_a_delimiter_where_another_line_has_a_letter() -> None:
    """Equal length, one cell more: the line is not taken for one of the others."""
    lines = [f"{n},abc,2.5,1.5,0.1,1\n" for n in range(1000, 2000)]
    lines[300] = "1300,a,c,2.5,1.5,0.,1\n"
    lines[301] = "1301,a,c,2.5,1.5,0.1,\n"
    fast, slow, _ = both("".join(lines))
    assert fast is not None and slow is not None
    same(fast, slow)
    assert fast.plain is not None and 300 not in fast.plain


def test_words_are_remembered() -> None:
    _, _, words_ = both("".join(f"{n},a,{'nan' if n % 2 else '2.5'},1.5,0.1,1\n" for n in range(1000, 2000)))
    assert words_ == {b"nan"}


def test_too_many_looks_are_left_to_the_other_way() -> None:
    rng = random.Random(1)
    fast, _, _ = both("".join(f"{rng.randrange(10 ** rng.randrange(1, 60))},a,1,2,3,4\n" for _ in range(2000)))
    assert fast is None


def test_a_reader_rests_after_too_many_looks(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []

    def none(*args: object) -> None:
        asked.append(args)

    monkeypatch.setattr(csv_alike, "parts", none)
    block = b"\0" * digits.PAD + b"".join(b"%d,a,2.5,1.5,0.1,1\n" % n for n in range(1000))
    reader = csv_plain.Reader(WANTED, ",")
    for _ in range(csv_plain._REST + 2):
        assert reader.lines(block, digits.PAD, len(block), PLACES, len(NAMES)) is not None
    assert len(asked) == 2
