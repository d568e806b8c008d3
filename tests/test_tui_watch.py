"""A file that grows, and a file that is too large for the screen's own process."""

from __future__ import annotations

import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from playbook.errors import PlaybookError
from playbook.faces.tui.curve import CurveView
from playbook.faces.tui.tail import Look, Tail
from playbook.faces.tui.watch import Watch
from playbook.series import Run
from playbook.workflow import apart
from playbook.workflow.book import open_book
from playbook.workflow.ingest import Ingested, ingest
from tests.tui_kit import run, series, small_found, terminal

HEAD = "step,loss,lr\n"


def rows(first: int, last: int) -> str:
    return "".join(f"{k},{2 + 0.01 * (k % 7):.3f},0.0003\n" for k in range(first, last))


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("playbook.faces.tui.watch.EVERY", 0.05)
    monkeypatch.setattr("playbook.faces.tui.watch.PATIENCE", 0.0)


def grow(path: Path, text: str) -> None:
    with path.open("a") as out:
        out.write(text)


def nan(first: int, last: int) -> str:
    return "".join(f"{k},nan,0.0003\n" for k in range(first, last))


@pytest.mark.usefixtures("quick")
def test_watch_follows_a_file_and_rings_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "live.csv"
    path.write_text(HEAD + rows(0, 300))
    rung: list[int] = []

    async def walk() -> None:
        async with terminal(ingest=ingest) as t:
            monkeypatch.setattr(type(t.app), "bell", lambda self: rung.append(1))
            t.app.push_screen(Watch((str(path),)))
            await t.until(lambda: "step 299" in t.text)
            assert "nothing happened yet" in t.text
            grow(path, rows(300, 400))
            await t.until(lambda: "step 399" in t.text)
            assert not rung
            grow(path, nan(400, 460))
            await t.until(lambda: "INCIDENT" in t.text)
            assert "from step 400" in t.text and "✗" in t.text
            assert "FIRST AID" in t.text, "what to do at once stands on the screen"
            grow(path, nan(460, 500))
            await t.until(lambda: "step 499" in t.text)
            assert rung == [1] and t.text.count("INCIDENT") == 1, "one alarm an incident"
            await t.press("a")
            assert "FIRST AID" not in t.text
            await t.press("space")
            assert "paused" in t.text
            grow(path, nan(500, 510))
            await t.pilot.pause(0.3)
            assert "step 509" not in t.text
            await t.press("space")
            await t.until(lambda: "step 509" in t.text)
            await t.press("enter")
            await t.until(lambda: t.page == "DiagnosisPage")
            assert t.app.desk is not None and t.app.desk.shape is not None and t.app.desk.shape.state == "instant-nan"

    run(walk())


@pytest.mark.usefixtures("quick")
def test_watch_waits_for_a_file_and_survives_its_end(tmp_path: Path) -> None:
    path = tmp_path / "later.csv"

    async def walk() -> None:
        async with terminal(ingest=ingest) as t:
            await t.press("W", *str(path), "enter")
            await t.until(lambda: "no such file" in t.text)
            path.write_text(HEAD + rows(0, 300) + nan(300, 360))
            await t.until(lambda: "step 359" in t.text)
            path.unlink()
            await t.until(lambda: "no such file" in t.text)
            assert "step 359" in t.text, "what was seen stays on the screen"
            await t.press("enter")
            await t.until(lambda: t.page == "DiagnosisPage")
            assert t.app.desk is not None and t.app.desk.shape is not None, "and can be diagnosed without the file"
            assert t.app.desk.run is not None and t.app.desk.run.one("loss") is not None
            await t.press("q")
            assert t.page == "Welcome"

    run(walk())


@pytest.mark.usefixtures("quick")
def test_each_byte_is_read_once_and_a_new_file_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Rotated and truncated files: the screen ends with what `ingest` says of what is there."""
    path = tmp_path / "live.csv"
    path.write_text(HEAD + rows(0, 300))
    read: list[int] = []
    from playbook.readers.live.tap import Tap

    inner = Tap.more

    def more(self: Tap) -> Any:
        took = inner(self)
        read.append(len(took.data))
        return took

    monkeypatch.setattr(Tap, "more", more)

    async def walk() -> None:
        async with terminal(ingest=ingest) as t:
            page = Watch((str(path),))
            t.app.push_screen(page)
            await t.until(lambda: "step 299" in t.text)
            grow(path, rows(300, 350))
            await t.until(lambda: "step 349" in t.text)
            assert sum(read) == path.stat().st_size
            path.rename(tmp_path / "live.csv.1")
            path.write_text(HEAD + rows(350, 420))
            await t.until(lambda: "step 419" in t.text)
            loss = page.found.run.one("loss") if page.found is not None else None
            assert loss is not None and len(loss) == 420
            await t.until(lambda: "replaced by a new file" in t.text)
            path.write_text(HEAD + rows(0, 40))
            await t.until(lambda: "step 39" in t.text and "step 390" not in t.text)
            here = ingest([str(path)], t.app.library.book if t.app.library else None)  # type: ignore[arg-type]
            assert page.found is not None and page.found.verdict == here.verdict

    run(walk())


@pytest.mark.usefixtures("quick")
def test_a_folder_of_ranks_and_another_path(tmp_path: Path) -> None:
    for rank in range(2):
        (tmp_path / f"rank{rank}.csv").write_text(HEAD + rows(0, 200))
    other = tmp_path / "other" / "run.csv"
    other.parent.mkdir()

    async def walk() -> None:
        async with terminal(ingest=ingest) as t:
            t.app.push_screen(Watch((str(tmp_path),)))
            await t.until(lambda: "2 files" in t.text)
            other.write_text(HEAD + rows(0, 77))
            await t.press("o", *str(other), "enter")
            await t.until(lambda: "step 76" in t.text)
            assert "2 files" not in t.text

    run(walk())


def test_zoom_stays_while_the_file_grows() -> None:
    async def walk() -> None:
        async with terminal() as t:
            page = Watch(())
            t.app.push_screen(page)
            await t.settle()
            assert t.app.library is not None
            page.tail = Tail((), t.app.library)
            page.post_message(Watch.Looked(page.tail, Look(small_found(), fresh=True), 0.0))
            await t.settle()
            view = page.query_one(CurveView)
            view.look_at(100, 150)
            page.post_message(Watch.Looked(page.tail, Look(small_found(), fresh=True), 0.0))
            await t.settle()
            assert (view.first, view.last) == (100, 150)

    run(walk())


def test_the_terminal_may_open_with_the_watch(tmp_path: Path) -> None:
    path = tmp_path / "live.csv"
    path.write_text(HEAD + rows(0, 100))

    async def walk() -> None:
        async with terminal(paths=(str(path),), follow=True) as t:
            await t.until(lambda: "step 99" in t.text)
            assert t.page == "Watch"

    run(walk())


# a process of its own


def test_apart_says_the_same(tmp_path: Path) -> None:
    path = tmp_path / "run.csv"
    path.write_text(HEAD + rows(0, 400) + "".join(f"{k},nan,0.0003\n" for k in range(400, 460)))
    from playbook.workflow.book import open_book

    told: list[str] = []
    here = ingest([str(path)], open_book(strict=False).book)
    there = apart.ingest_apart([str(path)], progress=told.append)
    assert there.evidence == here.evidence and there.scans == here.scans
    assert [Path(name).name for name in told] == ["run.csv"]
    for key, s in here.run.series.items():
        assert np.array_equal(there.run.series[key].values, s.values, equal_nan=True)


def test_apart_passes_faults_on() -> None:
    with pytest.raises(PlaybookError, match="no such file") as caught:
        apart.ingest_apart(["/nowhere/at/all.csv"])
    assert caught.value.problem.where == "/nowhere/at/all.csv"


def test_apart_can_be_given_up(tmp_path: Path) -> None:
    path = tmp_path / "run.csv"
    path.write_text(HEAD + rows(0, 400))
    stop = threading.Event()
    stop.set()
    begin = time.monotonic()
    with pytest.raises(PlaybookError, match="given up"):
        apart.ingest_apart([str(path)], stop=stop)
    assert time.monotonic() - begin < 5


def test_a_process_that_dies_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As when the system ends it for its memory."""
    import multiprocessing.process

    path = tmp_path / "run.csv"
    path.write_text(HEAD + rows(0, 400))
    started = multiprocessing.process.BaseProcess.start

    def start_and_kill(self: Any) -> None:
        started(self)
        self.kill()

    monkeypatch.setattr(multiprocessing.process.BaseProcess, "start", start_and_kill)
    with pytest.raises(PlaybookError, match="died"):
        apart.ingest_apart([str(path)])


def test_long_series_come_back_thinned_with_every_extreme(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(apart, "POINTS", 10_000)
    monkeypatch.setattr(apart, "AROUND", 100)
    monkeypatch.setattr(apart, "BUCKETS", 500)
    values = np.sin(np.arange(50_000) / 11)
    values[7], values[40_001], values[30_000] = 99.0, -99.0, np.nan
    made = Run({("loss", None): series("loss", values.tolist()), ("lr", None): series("lr", [1.0] * 100)})
    thinned = apart.handy(Ingested(made, (), small_found().evidence)).run
    loss = thinned.one("loss")
    assert loss is not None and len(loss) < 10_000
    assert np.nanmax(loss.values) == 99.0 and np.nanmin(loss.values) == -99.0 and np.isnan(loss.values).sum() == 1
    assert thinned.one("lr") is made.one("lr")


def test_sizes_of_files_folders_and_globs(tmp_path: Path) -> None:
    for name in ("a.csv", "b.csv"):
        (tmp_path / name).write_text("x" * 100)
    assert apart.size_of([str(tmp_path)]) == 200
    assert apart.size_of([str(tmp_path / "*.csv"), str(tmp_path / "a.csv")]) == 300
    assert apart.size_of([str(tmp_path / "none")]) == 0


def test_the_terminal_reads_large_files_apart(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "run.csv"
    path.write_text(HEAD + rows(0, 400))
    monkeypatch.setattr(apart, "LARGE", 100)
    called: list[tuple[str, ...]] = []

    def instead(paths: Any, packs: Any, lang: str, progress: Any, stop: threading.Event) -> Ingested:
        called.append(tuple(paths))
        assert not stop.is_set()
        return small_found()

    monkeypatch.setattr(apart, "ingest_apart", instead)

    async def walk() -> None:
        async with terminal(ingest=None, open_book=None) as t:
            t.app.open_files((str(path),))
            await t.until(lambda: t.app.desk is not None)

    run(walk())
    assert called == [(str(path),)]


def test_a_run_that_begins_anew_may_fail_at_the_same_steps(tmp_path: Path) -> None:
    """As `playbook watch` tells it: the first incident is over, the same fault of the next run is another one."""
    path = tmp_path / "live.csv"
    path.write_text(HEAD + rows(0, 300) + nan(300, 360))
    tail = Tail((str(path),), open_book())
    assert [item.kind for item in tail.look().news] == ["incident"]
    path.unlink()
    path.write_text(HEAD + rows(0, 300).replace(",2.", ",2.1") + nan(300, 365))
    assert [(item.kind, item.step) for item in tail.look().news] == [("over", 300), ("incident", 300)]
