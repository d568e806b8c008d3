"""Every sample file, whatever its format: read as written beside it, claimed by one reader, the same every time.

`pytest tests/test_readers_samples.py --update-golden` writes the expectations anew; read the difference.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from playbook.readers import read, readers
from playbook.readers.source import Source
from tests.reading import FORMATS, reader_of, samples, summary

SAMPLES = samples(*sorted(folder.name for folder in FORMATS.iterdir()))
IDS = [f"{reader_of(path)}/{path.name}" for path in SAMPLES]


@pytest.mark.parametrize("sample", SAMPLES, ids=IDS)
def test_sample_reads_as_expected(sample: Path, request: pytest.FixtureRequest) -> None:
    run = read(sample)
    found = json.loads(json.dumps(summary(run), default=str))
    expected = sample.with_name(sample.name + ".expect.json")
    if request.config.getoption("--update-golden"):
        expected.write_text(json.dumps(found, indent=1, ensure_ascii=False) + "\n", "utf-8")
    assert found == json.loads(expected.read_text("utf-8"))
    assert summary(read(sample)) == summary(run)


@pytest.mark.parametrize("sample", SAMPLES, ids=IDS)
def test_exactly_one_reader_claims_it(sample: Path) -> None:
    head = Source(sample, sample.name).head()
    scores = sorted(((reader.sniff(head, sample), reader.NAME) for reader in readers()), reverse=True)
    assert scores[0][1] == reader_of(sample)
    assert scores[0][0] > scores[1][0], scores[:3]


def test_every_reader_has_a_sample_and_the_four_names() -> None:
    names = [reader.NAME for reader in readers()]
    assert len(set(names)) == len(names)
    for reader in readers():
        assert reader.TITLE and callable(reader.sniff) and callable(reader.read)
        assert samples(reader.NAME), f"no sample of {reader.NAME}"
