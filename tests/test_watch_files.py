"""Files that grow: read in any pieces they say what they say when read at once, and the memory stays bounded."""

from __future__ import annotations

import os
import random
import shutil
import tracemalloc
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from playbook import readers
from playbook.errors import PlaybookError
from playbook.knowledge.loader import Book
from playbook.readers import walk
from playbook.readers.live.follow import LINES, RECORDS, Growing
from playbook.readers.live.history import LIMIT, History, Track
from playbook.readers.live.pieces import HELD, Text
from playbook.readers.live.tap import Tap
from playbook.workflow.ingest import look
from playbook.workflow.watching.live import Follower
from tests import live_kit as kit
from tests.reading import FORMATS

SAMPLES = [p for p in sorted(FORMATS.rglob("*")) if p.is_file() and not p.name.endswith(".expect.json")]


def twin(sample: Path, folder: Path) -> Path:
    """Where a copy of a sample lies: some readers look at the folders above."""
    path = folder / sample.relative_to(FORMATS)
    path.parent.mkdir(parents=True, exist_ok=True)
    return path


@pytest.mark.parametrize("sample", SAMPLES, ids=lambda p: str(p.relative_to(FORMATS)))
def test_a_sample_in_pieces_says_what_it_says_at_once(sample: Path, tmp_path: Path, real_book: Book) -> None:
    data = sample.read_bytes()
    path = twin(sample, tmp_path)
    path.write_bytes(data)
    try:
        whole = readers.read(path)
    except PlaybookError:
        pytest.skip("nothing to read")
    rng = random.Random(sample.name)
    for most in (3, 40):
        run = kit.followed(path, data, rng, most=most)
        assert kit.told(run) == kit.told(whole)
        assert look(run, real_book).evidence == look(whole, real_book).evidence


REAL = Path(os.environ.get("PLAYBOOK_REAL") or Path(__file__).parents[2] / "shared" / "real")
LOGS = sorted(p for p in REAL.glob("*/*") if p.is_file()) if REAL.is_dir() else []


@pytest.mark.slow
@pytest.mark.parametrize("log", LOGS, ids=[p.parent.name for p in LOGS])
def test_a_real_file_in_pieces_gives_the_verdict_of_ingest(log: Path, tmp_path: Path, real_book: Book) -> None:
    data = log.read_bytes()
    path = tmp_path / log.parent.name / log.name
    path.parent.mkdir()
    path.write_bytes(data)
    try:
        whole = look(readers.read(path), real_book)
    except PlaybookError:
        pytest.skip("nothing to read")
    run = kit.followed(path, data, random.Random(log.name), most=8)
    assert kit.told(run) == kit.told(whole.run)
    assert look(run, real_book).evidence == whole.evidence
    sealed = look(kit.followed(path, data, random.Random(log.name), held=128 << 10, most=8), real_book)
    assert (sealed.verdict, sealed.symptom and (sealed.symptom.state, sealed.symptom.step)) == (
        whole.verdict,
        whole.symptom and (whole.symptom.state, whole.symptom.step),
    )


LONG = {
    "csv": kit.csv_bytes(kit.losses(9_000)),
    "sparse.csv": kit.csv_bytes(kit.losses(9_000), every=25),
    "jsonl": kit.jsonl_bytes(kit.losses(6_000)),
    "megatron.log": kit.megatron_bytes(kit.losses(2_000)),
    "epochs.log": kit.epoch_bytes(kit.losses(6_000), 400),
    "nostep.csv": b"loss,lr\n" + b"".join(b"%.5f,0.1\n" % v for v in kit.losses(20_000)),
}


@pytest.mark.parametrize("name", LONG)
def test_sealed_rows_are_the_rows_of_the_file(name: str, tmp_path: Path) -> None:
    """With a window of 64 KiB most rows are sealed, in pieces that end anywhere."""
    data, path = LONG[name], tmp_path / name
    path.write_bytes(data)
    step = "#" if name == "nostep.csv" else None
    whole = kit.told(readers.read(path, step=step))
    assert len(data) > 3 * (64 << 10)
    for seed in range(3):
        run = kit.told(kit.followed(path, data, random.Random(seed), held=64 << 10, most=60, step=step))
        assert run == whole


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(cuts=st.lists(st.integers(0, 60_000), max_size=30), held=st.integers(4_000, 30_000))
def test_where_the_pieces_end_is_of_no_account(cuts: list[int], held: int, tmp_path: Path) -> None:
    data = kit.csv_bytes(kit.losses(1_800))
    path = tmp_path / "run.csv"
    path.write_bytes(b"")
    growing = Growing(walk.Found(path, "run.csv", False), {}, None, LIMIT, held)
    for start, end in zip([0, *sorted(cuts)], [*sorted(cuts), len(data)], strict=True):
        kit.append(path, data[start:end])
        growing.poll()
        growing.part()
    growing.settle()
    part = growing.part()
    assert part is not None
    series, _ = part[1].finish()
    assert series["loss", None].steps.tolist() == list(range(1, 1_801))
    assert series["loss", None].lines is not None and series["loss", None].lines.tolist() == list(range(2, 1_802))


def test_an_unfinished_line_is_kept_back_until_it_ends(tmp_path: Path) -> None:
    path = tmp_path / "run.jsonl"
    path.write_text('{"step": 1, "loss": 3.0}\n{"step": 2, "loss": 2.5}\n{"step": 3, "loss": 2.')
    follower = Follower([str(path)])
    assert kit.polled(follower).series["loss", None].steps.tolist() == [1, 2]
    kit.append(path, b'25}\n{"step"')
    run = kit.polled(follower)
    assert run.series["loss", None].values.tolist() == [3.0, 2.5, 2.25]
    assert not run.files[0].problems


def test_an_unfinished_line_that_stands_still_is_taken_as_it_is_offline(tmp_path: Path) -> None:
    path = tmp_path / "run.jsonl"
    path.write_text('{"step": 1, "loss": 3.0}\n{"step": 2, "loss": 2.5}')  # the logger writes the line end first
    follower = Follower([str(path)])
    assert kit.polled(follower).series["loss", None].steps.tolist() == [1]
    fresh = [follower.poll() for _ in range(5)]
    run = follower.run()
    assert fresh.count(True) == 1 and run is not None
    assert run.series["loss", None].steps.tolist() == [1, 2]
    kit.append(path, b'\n{"step": 3, "loss": 2.4}\n')
    assert kit.polled(follower).series["loss", None].steps.tolist() == [1, 2, 3]


def test_a_renamed_file_is_finished_and_its_successor_goes_on(tmp_path: Path) -> None:
    path = tmp_path / "train.csv"
    values = kit.losses(300)
    rows = kit.csv_bytes(values).decode().splitlines(keepends=True)
    path.write_text("".join(rows[:100]))
    follower = Follower([str(tmp_path)])
    kit.polled(follower)
    kit.append(path, "".join(rows[100:140]).encode())  # not yet read when it is renamed
    path.rename(tmp_path / "train.csv.1")
    path.write_text("".join(rows[140:145]))  # without a header
    kit.polled(follower)
    kit.polled(follower)
    kit.append(path, "".join(rows[145:]).encode())
    run = kit.polled(follower)
    loss = run.series["loss", None]
    assert loss.steps.tolist() == list(range(1, 301)) and [f.path for f in run.files] == [str(path)]
    assert loss.lines is not None and follower.line(str(path), int(loss.lines[-1])) == 161
    assert [note.code for note in follower.notes()] == ["turned"]


def test_a_file_that_is_cut_and_written_on_goes_on(tmp_path: Path) -> None:
    """logrotate's copytruncate."""
    path = tmp_path / "train.log"
    data = kit.megatron_bytes(kit.losses(60))
    lines = data.splitlines(keepends=True)
    path.write_bytes(b"".join(lines[:30]))
    follower = Follower([str(path)])
    kit.polled(follower)
    shutil.copy(path, tmp_path / "train.log.1")
    os.truncate(path, 0)
    follower.poll()
    kit.append(path, b"".join(lines[30:]))
    assert kit.polled(follower).series["loss", None].steps.tolist() == list(range(1, 61))


@pytest.mark.parametrize("in_place", [True, False])
def test_a_run_that_begins_anew_takes_the_place_of_the_old_one(tmp_path: Path, in_place: bool) -> None:
    path = tmp_path / "train.csv"
    path.write_bytes(kit.csv_bytes(kit.losses(100)))
    follower = Follower([str(path)])
    kit.polled(follower)
    if not in_place:
        path.unlink()
    path.write_bytes(kit.csv_bytes(kit.losses(40, seed=1)))
    follower.poll()
    follower.poll()
    run = follower.run()
    assert run is not None and run.series["loss", None].steps.tolist() == list(range(1, 41))
    assert run.series["loss", None].lines is not None and run.series["loss", None].lines[0] == 2


def test_a_file_that_is_written_whole_again_and_again_is_read_once(tmp_path: Path) -> None:
    """`DataFrame.to_csv` after every epoch: the beginning is the same, the end is longer."""
    path = tmp_path / "history.csv"
    follower = Follower([str(path)])
    for n in (5, 9, 30):
        path.write_bytes(kit.csv_bytes(kit.losses(30)[:n]))
        assert kit.polled(follower).series["loss", None].steps.tolist() == list(range(1, n + 1))
    path.write_bytes(b"x,y\n" + kit.csv_bytes(kit.losses(90, seed=5)))  # longer, and something else
    follower.poll()
    assert [note.code for note in follower.notes()][:1] == ["turned"]


def test_documents_are_read_again_and_half_written_ones_wait(tmp_path: Path) -> None:
    path = tmp_path / "trainer_state.json"
    good = '{"log_history": [{"step": 1, "loss": 2.0}, {"step": 2, "loss": 1.9}], "global_step": 2, "max_steps": 9}'
    path.write_text(good)
    follower = Follower([str(path)])
    assert kit.polled(follower).series["loss", None].steps.tolist() == [1, 2]
    path.write_text(good[:40])
    follower.poll()
    run = follower.run()
    assert run is not None and run.series["loss", None].steps.tolist() == [1, 2]
    path.write_text(good.replace("1.9}", '1.9}, {"step": 3, "loss": 1.8}'))
    assert kit.polled(follower).series["loss", None].steps.tolist() == [1, 2, 3]
    assert not follower.notes()


def test_new_ranks_of_a_folder_join(tmp_path: Path) -> None:
    follower = Follower([str(tmp_path / "logs")])
    assert not follower.poll() and follower.run() is None and follower.waiting
    (tmp_path / "logs").mkdir()
    (tmp_path / "logs" / "rank0.csv").write_bytes(kit.csv_bytes(kit.losses(40)))
    assert kit.polled(follower).ranks == []
    (tmp_path / "logs" / "rank1.csv").write_bytes(kit.csv_bytes(kit.losses(40, seed=1)))
    run = kit.polled(follower)
    assert run.ranks == [0, 1] and not follower.waiting
    assert kit.told(run) == kit.told(readers.read(tmp_path / "logs"))


def test_ranks_that_part_have_the_common_past(tmp_path: Path) -> None:
    """Ranks that log one value are one series; it becomes theirs when they part, also if that past is sealed."""
    lines = [f"[rank{r}]: step {i} loss {3 - i / 1000:.4f} lr 0.1\n" for i in range(900) for r in range(2)]
    lines += [f"[rank{r}]: step {i} loss {2 + r + i / 1000:.4f} lr 0.1\n" for i in range(900, 960) for r in range(2)]
    path = tmp_path / "out.log"
    run = kit.followed(path, "".join(lines).encode(), random.Random(0), held=16 << 10, most=50)
    assert run.ranks == [0, 1] and ("loss", None) not in run.series
    for rank in (0, 1):  # a row may be lost where a piece ends between the ranks' lines of one step
        steps = run.series["loss", rank].steps
        assert len(steps) >= 955 and steps[0] == 0 and steps[-1] == 959 and (np.diff(steps) >= 0).all()
    assert run.series["loss", 0].values[-1] != run.series["loss", 1].values[-1]


def test_memory_does_not_grow_with_the_file(tmp_path: Path) -> None:
    path = tmp_path / "run.csv"
    path.write_bytes(b"step,loss,grad_norm,lr\n")
    growing = Growing(walk.Found(path, "run.csv", False), {}, None, 2_048, 32 << 10)
    rows = kit.csv_bytes(kit.losses(1_000)).splitlines(keepends=True)[1:]
    sizes = []
    tracemalloc.start()
    for turn in range(60):
        kit.append(path, b"".join(b"%d,%s" % (turn * 1_000 + i, row.split(b",", 1)[1]) for i, row in enumerate(rows)))
        growing.poll()
        part = growing.part()
        assert part is not None
        sizes.append(tracemalloc.get_traced_memory()[0])
    tracemalloc.stop()
    series, _ = part[1].finish()
    assert len(series["loss", None]) <= 2_048 + 1_200  # rows that are held as text come on top
    assert series["loss", None].steps[-1] == 59_999 and series["loss", None].steps[0] < 200
    assert max(sizes[30:]) < 1.3 * max(sizes[10:30])


def test_thinning_keeps_what_a_verdict_hangs_on() -> None:
    n = 40_000
    steps = np.concatenate([np.arange(0, 30_000, 10), np.arange(25_000, 25_000 + (n - 3_000) * 10, 10)])
    values = np.ones(n)
    values[1_000:1_050] = np.nan
    track = Track(np.zeros(0, np.int64), np.zeros(0), np.zeros(0, np.int64))
    for at in range(0, n, 500):
        track.extend(
            steps[at : at + 500], values[at : at + 500], np.arange(at, at + 500)[: len(steps[at : at + 500])], 4_096
        )
    assert len(track.steps) <= 4_096 and track.logged == n
    assert {10_000, 10_010, 10_020} <= set(track.steps[np.isnan(track.values)].tolist())
    back = np.flatnonzero(np.diff(track.steps) < 0)
    assert track.steps[back].tolist() == [29_990] and track.steps[back + 1].tolist() == [25_000]
    assert np.diff(track.steps[-2_000:]).tolist() == [10] * 1_999  # the newer half is as it was logged
    older = np.diff(track.steps[track.steps < 25_000][:-1])
    assert len(older) > 60 and older.max() <= 2 * np.median(older) + 10  # and the older one even
    assert track.lines is not None and (np.diff(track.lines) > 0).all()


def test_series_of_the_same_steps_are_thinned_alike() -> None:
    history = History(1_024)
    steps = np.arange(0, 50_000, 5)
    for key, values in (("loss", np.ones(10_000)), ("grad_norm", np.where(np.arange(10_000) % 900 == 0, np.nan, 1.0))):
        for at in range(0, 10_000, 400):
            history.add((key, None), steps[at : at + 400], values[at : at + 400], None)
    loss, norm = history.tracks["loss", None].steps, history.tracks["grad_norm", None].steps
    assert len(np.intersect1d(loss, norm)) > 0.9 * len(loss)


def test_a_tap_gives_every_byte_once(tmp_path: Path) -> None:
    path = tmp_path / "log"
    tap = Tap(path)
    assert tap.more().data == b""
    path.write_bytes(b"one\n")
    assert tap.more().data == b"one\n" and tap.more().data == b""
    kit.append(path, b"two\n")
    path.rename(tmp_path / "log.1")
    path.write_bytes(b"three\n")
    took = [tap.more(), tap.more(), tap.more()]
    assert [t.data for t in took] == [b"two\n", b"three\n", b""] and [bool(t.turn) for t in took] == [
        False,
        True,
        False,
    ]
    path.write_bytes(b"other and longer\n")
    took = [tap.more()]
    assert took[0].turn and took[0].data == b"other and longer\n"


@pytest.mark.parametrize("seed", range(8))
def test_no_bytes_end_the_watch(seed: int, tmp_path: Path) -> None:
    rng = random.Random(seed)
    path = tmp_path / "noise.log"
    data = kit.jsonl_bytes(kit.losses(200))
    for _ in range(30):  # overwrite, insert and cut
        at = rng.randrange(len(data))
        data = data[:at] + rng.randbytes(rng.randrange(1, 40)) + data[at + rng.randrange(40) :]
    path.write_bytes(b"")
    follower = Follower([str(path)], held=8 << 10)
    for piece in kit.chunks(data, rng, 30):
        kit.append(path, piece)
        follower.poll()
        follower.run()
    follower.settle()
    run = follower.run()
    assert run is not None and len(run.series["loss", None]) > 50


def test_a_reader_that_fails_is_told_and_stops_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "run.jsonl"
    path.write_bytes(kit.jsonl_bytes(kit.losses(50)))
    follower = Follower([str(path)])
    kit.polled(follower)

    def broken(self: Text, still: bool) -> None:
        raise RuntimeError("a row too much")

    with monkeypatch.context() as patch:
        patch.setattr(Text, "builder", broken)
        kit.append(path, kit.jsonl_bytes(kit.losses(50), first=51))
        run = kit.polled(follower)
        assert len(run.series["loss", None]) == 50
    assert "a row too much" in str(follower.notes()[0])
    kit.append(path, kit.jsonl_bytes(kit.losses(5), first=101))
    assert len(kit.polled(follower).series["loss", None]) == 105


def test_the_kinds_of_formats_are_those_of_the_readers() -> None:
    names = {module.NAME for module in readers.readers()}
    assert names >= LINES | RECORDS and HELD > 16 * (64 << 10)
