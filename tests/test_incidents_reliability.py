"""The record under bad weather: killed writers, many writers, full disks, read-only folders, locks, clocks, bit rot."""
# ruff: noqa: F811  (a fixture of the kit is a parameter here)

from __future__ import annotations

import errno
import os
import random
import signal
import sqlite3
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from playbook.errors import PlaybookError
from playbook.faces.cli import run as command
from playbook.incidents import artifacts
from playbook.incidents.database import open_database
from playbook.incidents.store import Store, open_store
from playbook.knowledge.loader import Book
from playbook.workflow.ingest import look
from playbook.workflow.records.incident import Closing, close
from playbook.workflow.records.record import record as recorded
from playbook.workflow.records.trends import trends
from tests.incidents_kit import record, session_on, shape, spiked, url  # noqa: F401  (url is a fixture)

TESTS = Path(__file__).parent


@dataclass
class Child:
    """A process of its own, forked so that it need not load everything again; `told` is what it has printed."""

    pid: int
    pipe: int
    text: str = ""

    def line(self) -> None:
        """Wait for the first line."""
        while "\n" not in self.text:
            part = os.read(self.pipe, 65_536).decode()
            if not part:
                return
            self.text += part

    def end(self) -> int:
        """Read what is left, reap the process; its exit code, negative for a signal."""
        while part := os.read(self.pipe, 65_536):
            self.text += part.decode()
        os.close(self.pipe)
        return os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])

    @property
    def told(self) -> list[str]:
        """Whole lines only: a killed child may have been cut in the middle of one."""
        return self.text.split("\n")[:-1]


def fork(work: Callable[[Callable[[str], object]], None]) -> Child:
    """Run `work(say)` in a child."""
    reading, writing = os.pipe()
    pid = os.fork()
    if pid:
        os.close(writing)
        return Child(pid, reading)
    code = 1
    try:
        os.close(reading)
        work(lambda line: os.write(writing, f"{line}\n".encode()))
        code = 0
    except BaseException as error:
        os.write(2, f"child: {error!r}\n".encode())
    finally:
        os._exit(code)


def recorder(url: str, book: Book, who: int, many: int) -> Callable[[Callable[[str], object]], None]:
    """Records incidents with a scene each; says an id only after it was committed."""
    run = spiked(300, 240)
    found = look(run, book)
    session = session_on(book, found)
    diagnosis = session.diagnosis()

    def work(say: Callable[[str], object]) -> None:
        for k in range(many):
            other = replace(found, run=replace(run, config={"k": k, "who": who}))
            say(recorded(session, other, diagnosis, url, f"writer {who} incident {k}"))

    return work


def everything_is_whole(store: Store) -> set[str]:
    """Ids in the store; fails where a row, a file or the database itself is not whole."""
    for sha, path in artifacts.every(store.artifacts):
        assert artifacts.digest(path.read_bytes()) == sha, f"half an artifact: {path}"
    found = set()
    for made in store.records():
        found.add(made.id)
        for ref in made.artifacts:
            assert len(store.fetch(ref.sha256)) == ref.size
    if store.database.is_sqlite:
        with store.database.reading() as connection:
            assert connection.exec_driver_sql("PRAGMA integrity_check").scalar() == "ok"
            assert connection.exec_driver_sql("PRAGMA foreign_key_check").all() == []
    return found


@pytest.fixture
def shared(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """One artifact folder for all children, on both databases."""
    monkeypatch.setenv("PLAYBOOK_ARTIFACTS", str(tmp_path / "artifacts"))
    return tmp_path / "artifacts"


@pytest.mark.slow
def test_kill_9_at_random_points_of_200_recordings(url: str, tiny: Book, shared: Path) -> None:
    dice = random.Random(5)
    told: set[str] = set()
    killed = 0
    for who in range(200):
        child = fork(recorder(url, tiny, who, 25))
        child.line()
        time.sleep(dice.uniform(0.0, 0.4))
        os.kill(child.pid, signal.SIGKILL)
        code = child.end()
        assert code in (-signal.SIGKILL, 0)
        killed += code != 0
        told |= set(child.told)
        if len(told) >= 200 and killed >= 10:
            break
    assert len(told) >= 200 and killed >= 10
    store = open_store(url, shared)
    there = everything_is_whole(store)
    assert told <= there
    assert len(there) - len(told) <= killed  # at most one a kill was committed and not yet told
    store.close()


@pytest.mark.slow
def test_eight_processes_write_at_once(url: str, tiny: Book, shared: Path) -> None:
    """They also find no tables yet: all eight want to make them."""
    children = [fork(recorder(url, tiny, who, 8)) for who in range(8)]
    assert [child.end() for child in children] == [0] * 8
    told = [line for child in children for line in child.told]
    store = open_store(url, shared)
    assert len(told) == 64
    assert everything_is_whole(store) == set(told)
    store.close()


@pytest.mark.slow
def test_eight_people_change_one_incident_and_lose_nothing(url: str, tmp_path: Path) -> None:
    store = open_store(url, tmp_path)
    store.add(record(1))
    store.close()

    def adder(who: int) -> Callable[[Callable[[str], object]], None]:
        def work(say: Callable[[str], object]) -> None:
            own = open_store(url, tmp_path)
            for k in range(15):
                own.change("20260304-made1", lambda r, k=k: r.model_copy(update={"notes": [*r.notes, f"{who}-{k}"]}))

        return work

    children = [fork(adder(who)) for who in range(8)]
    assert [child.end() for child in children] == [0] * 8
    notes = store.get("20260304-made1").notes
    assert sorted(notes) == sorted(f"{who}-{k}" for who in range(8) for k in range(15))
    store.close()


# Full disks.


def test_a_full_disk_under_the_database(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from playbook.incidents import database

    url = f"sqlite:///{tmp_path}/x.db"
    store = open_store(url)
    store.add(record(1))
    with store.database.reading() as connection:
        pages = connection.exec_driver_sql("PRAGMA page_count").scalar()
    connect = database._connect

    def full(*arguments: object) -> sqlite3.Connection:
        opened = connect(*arguments)  # type: ignore[arg-type]
        opened.execute(f"PRAGMA max_page_count={pages}")
        return opened

    monkeypatch.setattr(database, "_connect", full)
    with pytest.raises(PlaybookError, match="the disk is full"):
        for k in range(2, 60):
            store.add(record(k, notes=["x" * 4000]))
    monkeypatch.undo()
    there = everything_is_whole(store)
    assert "20260304-made1" in there
    store.add(record(99))
    store.close()


@pytest.mark.parametrize("call", ["fsync", "write"])
def test_a_full_disk_under_the_artifacts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: str) -> None:
    artifacts.put(tmp_path, b"before")

    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    if call == "fsync":
        monkeypatch.setattr(os, "fsync", full)
    else:
        monkeypatch.setattr(artifacts, "_temporary", lambda tmp, sha: (os.open("/dev/full", os.O_WRONLY), _half(tmp)))
    with pytest.raises(PlaybookError, match="No space left"):
        artifacts.put(tmp_path, b"x" * 100_000)
    monkeypatch.undo()
    assert [sha for sha, _ in artifacts.every(tmp_path)] == [artifacts.digest(b"before")]
    assert not list((tmp_path / "tmp").iterdir())


def _half(folder: Path) -> Path:
    path = Path(folder) / "half"
    path.touch()
    return path


def test_an_incident_whose_scene_cannot_be_kept_is_not_half_there(
    tiny: Book, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = look(spiked(300, 240), tiny)
    session = session_on(tiny, found)

    def full(*_: object) -> str:
        raise PlaybookError("artifacts", "an artifact cannot be written: No space left on device")

    monkeypatch.setattr(artifacts, "put", full)
    db = f"sqlite:///{tmp_path}/x.db"
    with pytest.raises(PlaybookError, match="No space left"):
        recorded(session, found, session.diagnosis(), db)
    store = open_store(db)
    assert store.count() == 0
    store.close()


# Read-only folders. As root nothing is read-only, so the tests give up being root for a while.


@contextmanager
def nobody() -> Iterator[None]:
    if os.geteuid() != 0:
        yield
        return
    os.setegid(65534)
    os.seteuid(65534)
    try:
        yield
    finally:
        os.seteuid(0)
        os.setegid(0)


@pytest.fixture
def open_folder(tmp_path: Path) -> Path:
    """A folder below one that everybody may enter."""
    for folder in (tmp_path, *tmp_path.parents):
        if folder.stat().st_uid == os.getuid() and folder != Path(folder.anchor):
            folder.chmod(folder.stat().st_mode | 0o755)
    made = tmp_path / "kept"
    made.mkdir()
    return made


def test_a_read_only_folder_can_be_read(open_folder: Path) -> None:
    url = f"sqlite:///{open_folder}/x.db"
    store = open_store(url)
    sha = store.keep(b"scene")
    store.add(record(1))
    store.close()
    open_folder.chmod(0o555)
    try:
        with nobody():
            again = open_store(url)
            assert again.database.read_only
            assert again.get("20260304-made1") == record(1)
            assert [r["id"] for r in again.summaries()] == ["20260304-made1"]
            assert again.fetch(sha) == b"scene"
            with pytest.raises(PlaybookError, match="cannot be written"):
                again.add(record(2))
            with pytest.raises(PlaybookError, match="cannot be written"):
                again.keep(b"more")
            again.close()
            with pytest.raises(PlaybookError, match="read-only"):
                open_store(f"sqlite:///{open_folder}/new.db")
            with pytest.raises(PlaybookError, match="cannot be made"):
                open_store(f"sqlite:///{open_folder}/deeper/new.db")
    finally:
        open_folder.chmod(0o755)
    assert sorted(p.name for p in open_folder.iterdir()) == ["artifacts", "x.db"]


def test_a_read_only_folder_sees_what_a_living_writer_committed(open_folder: Path) -> None:
    """With the write-ahead log still there, its content counts too."""
    url = f"sqlite:///{open_folder}/x.db"
    store = open_store(url)
    store.add(record(1))
    writer = sqlite3.connect(open_folder / "x.db", isolation_level=None)
    writer.execute("SELECT count(*) FROM incident").fetchone()  # keeps the log from being folded in
    store.add(record(2))
    assert (open_folder / "x.db-wal").stat().st_size > 0
    for name in ("x.db", "x.db-wal", "x.db-shm"):
        (open_folder / name).chmod(0o644)
    open_folder.chmod(0o555)
    try:
        with nobody():
            again = open_store(url)
            assert again.count() == 2
            again.close()
    finally:
        open_folder.chmod(0o755)
        writer.close()
        store.close()


# Locks.


def test_a_locked_database_is_told_after_the_wait(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/x.db"
    store = open_store(url, busy_seconds=0.2)
    store.add(record(1))
    other = sqlite3.connect(tmp_path / "x.db", isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    started = time.monotonic()
    with pytest.raises(PlaybookError, match="locked by another process"):
        store.add(record(2))
    assert 0.1 < time.monotonic() - started < 5
    assert store.count() == 1  # readers go on
    other.execute("ROLLBACK")
    store.add(record(2))
    assert store.count() == 2
    other.close()
    store.close()


def test_a_writer_waits_for_the_one_before(tmp_path: Path) -> None:
    import threading

    url = f"sqlite:///{tmp_path}/x.db"
    store = open_store(url)
    other = sqlite3.connect(tmp_path / "x.db", isolation_level=None, check_same_thread=False)
    other.execute("BEGIN IMMEDIATE")
    threading.Timer(0.5, lambda: other.execute("COMMIT")).start()
    store.add(record(1))
    assert store.count() == 1
    other.close()
    store.close()


def test_a_wholly_locked_database_is_one_line_and_exit_2(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "x.db"
    database = open_database(f"sqlite:///{path}")
    database.engine.dispose()
    other = sqlite3.connect(path, isolation_level=None)
    other.execute("PRAGMA journal_mode=DELETE")
    other.execute("BEGIN EXCLUSIVE")
    with pytest.MonkeyPatch.context() as quick:
        quick.setattr("playbook.incidents.store.BUSY_SECONDS", 0.1)
        quick.setattr("playbook.incidents.database.BUSY_SECONDS", 0.1)
        quick.setattr(open_store, "__defaults__", (None, 0.1))
        assert command(["incident", "list", "--db", f"sqlite:///{path}"]) == 2
    told = capsys.readouterr().err
    assert "locked by another process" in told and told.count("\n") == 1
    other.close()


# Clocks.


def test_a_clock_that_goes_back(tiny: Book, tmp_path: Path) -> None:
    db = f"sqlite:///{tmp_path}/x.db"
    session = session_on(tiny)
    session.observe([shape()])
    late = datetime(2026, 3, 4, 12, 0, tzinfo=UTC)
    first = recorded(session, None, session.diagnosis(), db, now=late)
    second = recorded(session, None, session.diagnosis(), db, now=late - timedelta(days=400))
    said = Closing(cause="lr-peak", by="me", hours=1.0, gpus=8)
    closed = close(first, said, tiny, db, now=late - timedelta(days=1))
    assert closed.closed_at == closed.opened_at
    assert trends(db)["by_cause"][0]["median_hours_to_confirm"] == 0.0
    store = open_store(db)
    assert [r["id"] for r in store.summaries()] == [first, second]
    store.close()


# Bit rot.


@pytest.fixture
def rotten(tiny: Book, tmp_path: Path) -> tuple[str, str, str]:
    """(database, an incident with a damaged scene, one with whole files)."""
    db = f"sqlite:///{tmp_path}/x.db"
    ids = []
    for seed in (3, 4):
        found = look(spiked(300, 240, seed), tiny)
        session = session_on(tiny, found)
        ids.append(recorded(session, found, session.diagnosis(), db))
    store = open_store(db)
    scene = store.get(ids[0]).artifact("scene")
    assert scene is not None
    path = artifacts.path_of(store.artifacts, scene.sha256)
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(bytes(data))
    store.close()
    return db, ids[0], ids[1]


TINY = ("--knowledge", str(TESTS / "tiny_knowledge"))


def test_a_damaged_artifact_is_told_and_the_rest_works(
    rotten: tuple[str, str, str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    db, bad, good = rotten
    assert command(["incident", "verify", "--db", db]) == 1
    assert f"{bad}/scene: is damaged" in capsys.readouterr().out
    assert command(["incident", "show", bad, "--db", db]) == 0
    assert command(["incident", "show", bad, "--markdown", "--db", db]) == 0
    assert "The scene cannot be shown" in capsys.readouterr().out
    assert command(["replay", bad, good, "--db", db, "--json", *TINY]) in (0, 1)
    told = capsys.readouterr()
    assert '"replayed": 2' in told.out and "is damaged" in told.out
    out = tmp_path / "b.zip"
    assert command(["incident", "export", "--all", "--out", str(out), "--db", db]) == 0
    assert "is damaged" in capsys.readouterr().out
    assert command(["incident", "regression", bad, "--out", str(tmp_path / "r"), "--db", db]) == 2
    assert "is damaged" in capsys.readouterr().err
    other = f"sqlite:///{tmp_path}/y/y.db"
    assert command(["incident", "import", str(out), "--db", other]) == 0
    assert command(["incident", "verify", "--db", other]) == 0


def test_rows_changed_by_hand_are_told_and_the_rest_works(
    rotten: tuple[str, str, str], capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    db, bad, _ = rotten
    raw = sqlite3.connect(tmp_path / "x.db")
    raw.execute("UPDATE incident SET detail = '{}' WHERE id = ?", (bad,))
    raw.commit()
    raw.close()
    assert command(["incident", "show", bad, "--db", db]) == 2
    assert "rows are damaged" in capsys.readouterr().err
    assert command(["incident", "list", "--db", db]) == 0
    assert command(["incident", "verify", "--db", db]) == 1
    capsys.readouterr()
    assert command(["replay", "--db", db, "--json", *TINY, bad]) in (0, 1)
    assert "cannot be replayed" in capsys.readouterr().out
