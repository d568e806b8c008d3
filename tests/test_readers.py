"""Structured formats: cut, packed, damaged and in other encodings, and the laws that every reader keeps."""

from __future__ import annotations

import gzip
import math
import random
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from playbook.errors import PlaybookError
from playbook.readers import read, readers
from tests.reading import logged, parsed, reader_of, samples

MINE = ("csv", "jsonl", "trainer_state", "json", "tensorboard", "wandb", "mlflow", "sqlite", "parquet")
MINE += ("config", "script", "python")
SAMPLES = samples(*MINE)
IDS = [f"{reader_of(path)}/{path.name}" for path in SAMPLES]
CLOSE = 1e-3  # a last number of a table may lose digits that change it by less than this share


def _cuts(data: bytes) -> Iterator[int]:
    places = range(1, len(data))
    yield from places if len(data) <= 1_000 else sorted(random.Random(len(data)).sample(places, 300))


@pytest.mark.parametrize("sample", SAMPLES, ids=IDS)
def test_a_cut_file_gives_a_beginning_or_a_clear_error(sample: Path, tmp_path: Path) -> None:
    """Cut at every byte: nothing but `PlaybookError`, and no point that the whole file does not have."""
    data, name = sample.read_bytes(), reader_of(sample)
    target = tmp_path / sample.relative_to(sample.parents[3])
    whole = logged(parsed(data, target, name))
    for cut in list(_cuts(data))[:: 10 if name in ("parquet", "sqlite") else 1]:
        try:
            part = logged(parsed(data[:cut], target, name))
        except PlaybookError as error:
            assert "\n" not in str(error)
            continue
        if sample.name in BY_WHOLE:
            continue
        for key, points in part.items():
            known = whole.get(key, [])
            assert len(points) <= len(known), (cut, key)
            for (step, value), (true_step, true_value) in zip(points, known, strict=False):
                assert step == true_step, (cut, key, data[max(0, cut - 40) : cut])
                same = value == true_value or (math.isnan(value) and math.isnan(true_value))
                assert same or math.isclose(value, true_value, rel_tol=CLOSE), (cut, key, data[max(0, cut - 40) : cut])


# What these say depends on rows further down: which column counts, whose rank a row is, how long an epoch is.
BY_WHOLE = frozenset(
    (
        "ranks.csv",
        "ranks.jsonl",
        "batches.csv",
        "splits.jsonl",
        "pairs.dat",
        "table.md",
        "panel.csv",
        "appended_runs.csv",
    )
)


@pytest.mark.parametrize("sample", SAMPLES, ids=IDS)
def test_packed_files_read_the_same(sample: Path, tmp_path: Path) -> None:
    if "mlflow" in sample.parts:
        pytest.skip("the folder is part of the format")
    packed = tmp_path / (sample.name + ".gz")
    packed.write_bytes(gzip.compress(sample.read_bytes()))
    plain, unpacked = read(sample), read(packed)
    if "tag" not in sample.name and "summary" not in sample.name and "train" not in sample.parts:
        assert set(unpacked.series) == set(plain.series) and unpacked.config == plain.config


@pytest.mark.parametrize("sample", [s for s in SAMPLES if reader_of(s) in ("csv", "jsonl", "json")], ids=str)
def test_other_encodings_read_the_same(sample: Path, tmp_path: Path) -> None:
    text = sample.read_bytes().decode()
    for encoding in ("utf-8-sig", "utf-16", "utf-16-be"):
        mark = "\ufeff" if encoding == "utf-16-be" else ""
        other = tmp_path / encoding / sample.name
        other.parent.mkdir(exist_ok=True)
        other.write_bytes((mark + text).encode(encoding))
        assert set(read(other).series) == set(read(sample).series)


@pytest.mark.parametrize("name", MINE)
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_damaged_bytes_never_raise_anything_else(name: str, data: st.DataObject, tmp_path: Path) -> None:
    sample = data.draw(st.sampled_from(samples(name)))
    content = bytearray(sample.read_bytes())
    for _ in range(data.draw(st.integers(0, 4))):
        place = data.draw(st.integers(0, max(0, len(content) - 1)))
        content[place : place + data.draw(st.integers(0, 9))] = data.draw(st.binary(max_size=9))
    target = tmp_path / sample.relative_to(sample.parents[3])
    for reader in readers():
        assert 0 <= reader.sniff(bytes(content), target) <= 100
    try:
        parsed(bytes(content), target, name)
    except PlaybookError as error:
        assert "\n" not in str(error) and str(error).startswith("x")


@settings(max_examples=80, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.binary(max_size=300), st.sampled_from(MINE))
def test_any_bytes_never_raise_anything_else(tmp_path: Path, content: bytes, name: str) -> None:
    try:
        parsed(content, tmp_path / "input", name)
    except PlaybookError as error:
        assert "\n" not in str(error)
