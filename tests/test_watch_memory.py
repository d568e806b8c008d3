"""A watch that is started again: it tells nothing twice and misses nothing that began while nobody watched."""

from __future__ import annotations

import json
import random
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

from playbook.errors import PlaybookError
from playbook.faces.cli import playbook as cli
from playbook.faces.watch_report import happening_lines
from playbook.faces.words import words
from playbook.workflow.book import Library
from playbook.workflow.watching import memory
from playbook.workflow.watching.live import Follower
from playbook.workflow.watching.notify import Sender
from playbook.workflow.watching.watch import Happening, Options, _Watcher, watch
from tests import live_kit as kit


class Watched:
    """A watch that is looked at by hand, killed without warning and started again."""

    def __init__(self, paths: Sequence[Path], library: Library, kept: Path | None) -> None:
        self.paths, self.library, self.kept = [str(p) for p in paths], library, kept
        self.seen: list[Happening] = []
        self.start()

    def start(self) -> None:
        options = Options(memory=self.kept)
        self.watcher = _Watcher(Follower(self.paths), self.library, options, Sender(()))
        self.seen += self.watcher.recall()

    def look(self) -> list[Happening]:
        before = len(self.seen)
        self.seen += self.watcher.look()
        while self.watcher.follower.behind:
            self.seen += self.watcher.look()
        return self.seen[before:]

    def alerts(self) -> list[tuple[str, int | None]]:
        return [(h.news.evidence.state, h.news.evidence.step) for h in self.seen if h.kind == "incident" and h.news]

    def kinds(self) -> list[str]:
        return [h.kind for h in self.seen if h.kind not in ("reading", "problem")]


def rows(values: np.ndarray, first: int = 1) -> list[bytes]:
    return kit.csv_bytes(values, first).splitlines(keepends=True)


def bad(count: int, begin: int, seed: int = 0) -> np.ndarray:
    values = kit.losses(count, seed)
    values[begin:] = np.nan
    return values


def test_a_known_incident_is_not_told_again(library: Library, tmp_path: Path) -> None:
    path = tmp_path / "run.csv"
    path.write_bytes(b"".join(rows(bad(300, 200))[:251]))
    one = Watched([path], library, tmp_path / "kept.json")
    one.look()
    assert one.alerts() == [("instant-nan", 201)]
    one.start()
    kit.append(path, b"".join(rows(bad(300, 200))[251:]))
    known = one.look()
    assert [h.kind for h in known] == ["reading", "known"] and one.alerts() == [("instant-nan", 201)]
    assert known[1].incidents == 1 and known[1].alert["number"] == 1
    assert "reported before" in happening_lines(known[1], words("en"))[0]
    assert "仍在继续" in happening_lines(known[1], words("zh"))[0]


def test_an_incident_that_began_while_nobody_watched_is_told(library: Library, tmp_path: Path) -> None:
    path = tmp_path / "run.csv"
    path.write_bytes(b"".join(rows(bad(300, 200))[:150]))
    one = Watched([path], library, tmp_path / "kept.json")
    one.look()
    assert one.alerts() == []
    kit.append(path, b"".join(rows(bad(300, 200))[150:]))
    one.start()
    one.look()
    assert one.alerts() == [("instant-nan", 201)]


def test_a_second_incident_after_a_rollback_is_told_after_a_restart(library: Library, tmp_path: Path) -> None:
    path = tmp_path / "run.csv"
    path.write_bytes(b"".join(rows(bad(300, 200))))
    one = Watched([path], library, tmp_path / "kept.json")
    one.look()
    one.start()
    again = bad(300, 215, seed=1)
    kit.append(path, b"".join(rows(again[150:], 151)[1:]))  # rolled back to step 150, NaN once more at 216
    one.look()
    assert one.alerts()[0] == ("instant-nan", 201) and len(one.alerts()) == 2
    one.start()
    one.look()
    assert len(one.alerts()) == 2


@pytest.mark.parametrize("restart", [False, True])
@pytest.mark.parametrize("in_place", [False, True])
def test_a_run_that_begins_anew_may_fail_at_the_same_steps(
    library: Library, tmp_path: Path, in_place: bool, restart: bool
) -> None:
    path = tmp_path / "run.csv"
    path.write_bytes(b"".join(rows(bad(300, 200))))
    one = Watched([path], library, tmp_path / "kept.json")
    one.look()
    if not in_place:
        path.unlink()
    second = rows(bad(300, 100, seed=3))
    path.write_bytes(b"".join(second[:60]))
    if restart:
        one.start()
    one.look()
    kit.append(path, b"".join(second[60:]))
    one.look()
    assert one.alerts() == [("instant-nan", 201), ("instant-nan", 101)]
    assert one.kinds() == ["incident", "over", "incident"]


@pytest.mark.parametrize("kept_beside", [True, False])
def test_a_file_that_was_renamed_meanwhile_is_read_to_its_end(
    library: Library, tmp_path: Path, kept_beside: bool
) -> None:
    """What began and ended in the file that was rotated away is told, if the file can still be found."""
    path = tmp_path / "run.csv"
    values = kit.losses(900)
    values[400:404] = [14.0, 12.0, 9.0, 5.0]
    values[640:] = np.nan
    every = rows(values)
    path.write_bytes(b"".join(every[:300]))
    one = Watched([path], library, tmp_path / "kept.json")
    one.look()
    kit.append(path, b"".join(every[300:500]))  # the spike, unseen
    path.rename(tmp_path / "run.csv.1")
    path.write_bytes(b"".join([every[0], *every[500:700]]))
    if not kept_beside:
        (tmp_path / "run.csv.1").unlink()
    one.start()
    one.look()
    states = [state for state, _ in one.alerts()]
    assert states == (["transient-spike", "instant-nan"] if kept_beside else ["instant-nan"])
    told = one.alerts()
    one.start()
    kit.append(path, b"".join(every[700:]))
    one.look()
    assert one.alerts() == told


def test_a_folder_knows_its_renamed_files(library: Library, tmp_path: Path) -> None:
    folder = tmp_path / "logs"
    folder.mkdir()
    every = rows(bad(400, 250))
    (folder / "run.csv").write_bytes(b"".join(every[:301]))
    one = Watched([folder], library, tmp_path / "kept.json")
    one.look()
    assert one.alerts() == [("instant-nan", 251)]
    (folder / "run.csv").rename(folder / "run.csv.1")
    (folder / "run.csv").write_bytes(b"".join([every[0], *every[301:]]))
    one.start()
    one.look()
    assert one.alerts() == [("instant-nan", 251)]


@pytest.mark.parametrize("seed", range(12))
def test_restarts_at_any_moment_change_no_alert(seed: int, library: Library, tmp_path: Path) -> None:
    """The alerts of a watch that is killed again and again are those of one that is never interrupted."""
    rng = random.Random(seed)
    values = kit.losses(900, seed)
    begin = rng.randrange(150, 300)
    values[begin : begin + 4] = [14.0, 12.0, 9.0, 5.0]
    if rng.random() < 0.7:
        values[rng.randrange(650, 850) :] = np.nan
    every = rows(values)
    marks = sorted({*(rng.randrange(20, len(every)) for _ in range(7)), len(every)})
    rotations = set(rng.sample(marks[:-1], 2))
    found = []
    for name in ("whole", "killed"):
        folder = tmp_path / name
        folder.mkdir()
        path = folder / "run.csv"
        path.write_bytes(every[0])
        one = Watched([path], library, tmp_path / "kept.json" if name == "killed" else None)
        at = 1
        for count, mark in enumerate(marks):
            kit.append(path, b"".join(every[at:mark]))
            at = mark
            if name == "killed" and random.Random(seed + count).random() < 0.6:
                one.start()
            one.look()
            if mark in rotations:
                path.rename(folder / f"run.csv.{count + 1}")
                path.write_bytes(every[0])
        found.append([state for state, _ in one.alerts()])
    assert found[0] == found[1] and found[0]


def test_what_was_told_outlives_the_lines_and_files(library: Library, tmp_path: Path) -> None:
    path, kept = tmp_path / "run.csv", tmp_path / "kept.json"
    path.write_bytes(b"".join(rows(bad(300, 200))))
    one = Watched([path], library, kept)
    one.look()
    alarm = one.watcher.alarm
    read = memory.read(kept)
    assert read.told == alarm.told and read.count == 1 and read.positions is not None
    assert read.positions[str(path)].holds(path) and not read.positions[str(path)].holds(kept)
    assert set(json.loads(kept.read_text())) == {"version", "count", "told", "files"}


@pytest.mark.parametrize(
    "text", ["", "{", "[]", '{"version": 1}', '{"version": 1, "told": [{}], "files": {}, "count": 1}', "\x00"]
)
def test_a_damaged_memory_is_told_and_the_watch_goes_on(text: str, library: Library, tmp_path: Path) -> None:
    path, kept = tmp_path / "run.csv", tmp_path / "kept.json"
    path.write_bytes(b"".join(rows(bad(300, 200))))
    kept.write_text(text)
    seen = list(watch([str(path)], library, Options(seconds=0, memory=kept)))
    assert [h.kind for h in seen] == ["problem", "reading", "incident", "end"] and "delete the file" in str(
        seen[0].problem
    )
    assert [h.kind for h in watch([str(path)], library, Options(seconds=0, memory=kept))] == ["reading", "known", "end"]


def test_a_memory_of_another_version_is_passed_over(tmp_path: Path) -> None:
    (tmp_path / "kept.json").write_text('{"version": 999}')
    assert memory.read(tmp_path / "kept.json") == memory.Memory()


def test_a_folder_that_cannot_be_written_is_told_once(library: Library, tmp_path: Path) -> None:
    path = tmp_path / "run.csv"
    path.write_bytes(b"".join(rows(bad(300, 200))))
    (tmp_path / "file").write_text("in the way")
    seen = list(watch([str(path)], library, Options(0.02, 0.2, memory=tmp_path / "file" / "kept.json")))
    assert [h.kind for h in seen].count("problem") == 1 and "--no-memory" in str(
        next(h.problem for h in seen if h.problem)
    )
    with pytest.raises(PlaybookError):
        memory.write(tmp_path / "file" / "kept.json", (), 0, Follower([str(path)]), None)


def test_nothing_is_remembered_before_it_is_delivered(library: Library, tmp_path: Path) -> None:
    """A watch that dies with an undelivered alert tells it again."""
    path, kept = tmp_path / "run.csv", tmp_path / "kept.json"
    path.write_bytes(b"".join(rows(bad(300, 200))))
    gate = threading.Event()
    posts: list[dict[str, Any]] = []

    def slow(document: dict[str, Any], _: threading.Event) -> None:
        gate.wait(20)
        posts.append(document)

    sender = Sender([slow])
    watcher = _Watcher(Follower([str(path)]), library, Options(memory=kept), sender)
    list(watcher.recall())
    list(watcher.look())
    assert not sender.idle and not kept.exists()
    gate.set()
    sender.close(20)
    assert sender.idle and len(posts) == 1
    list(watcher.look())
    assert len(memory.read(kept).told) == 1


def test_receivers_have_memories_of_their_own(tmp_path: Path) -> None:
    names = {
        memory.place(["a.csv"], ["", ""], tmp_path), memory.place(["a.csv"], ["", "http://x"], tmp_path),
        memory.place(["b.csv"], ["", ""], tmp_path), memory.place(["a.csv", "b.csv"], ["", ""], tmp_path),
    }  # fmt: skip
    assert len(names) == 4
    assert memory.place(["a.csv", "b.csv"], [""], tmp_path) == memory.place(["b.csv", "a.csv"], [""], tmp_path)


def test_the_command_remembers_unless_told_not_to(tmp_path: Path) -> None:
    path = tmp_path / "run.csv"
    path.write_bytes(b"".join(rows(bad(300, 200))))
    command = ["watch", str(path), "--max-seconds", "0", "--json", "--check"]

    def run(*more: str) -> tuple[list[str], int]:
        result = CliRunner().invoke(cli, [*command, *more], standalone_mode=False)
        return [json.loads(line)["event"] for line in result.stdout.splitlines()], int(result.return_value)

    assert run() == (["reading", "incident", "end"], 1)
    assert run() == (["reading", "known", "end"], 1), "it still goes on: --check says so"
    assert run("--until-incident") == (["reading", "known", "end"], 1), "only a new one ends the watch"
    assert run("--no-memory") == (["reading", "incident", "end"], 1)
    assert run("--exec", "true") == (["reading", "incident", "end"], 1), "another receiver has not heard of it"
    assert run("--exec", "true") == (["reading", "known", "end"], 1)
    path.write_bytes(b"".join(rows(kit.losses(300, 9))))
    assert run() == (["reading", "over", "end"], 0)
    assert run() == (["reading", "end"], 0)
