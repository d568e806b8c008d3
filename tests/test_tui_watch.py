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
from playbook.faces.tui.watch import Watch
from playbook.series import Run
from playbook.workflow import apart
from playbook.workflow.ingest import Ingested, ingest
from tests.tui_kit import run, series, small_found, terminal

HEAD = "step,loss,lr\n"


def rows(first: int, last: int) -> str:
    return "".join(f"{k},{2 + 0.01 * (k % 7):.3f},0.0003\n" for k in range(first, last))


def test_watch_follows_a_file_and_rings_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("playbook.faces.tui.watch.EVERY", 0.05)
    monkeypatch.setattr("playbook.faces.tui.watch.PATIENCE", 0.0)
    path = tmp_path / "live.csv"
    path.write_text(HEAD + rows(0, 300))
    rung: list[int] = []

    async def walk() -> None:
        async with terminal(ingest=ingest) as t:
            monkeypatch.setattr(type(t.app), "bell", lambda self: rung.append(1))
            t.app.push_screen(Watch((str(path),)))
            await t.until(lambda: "step 299" in t.text)
            with path.open("a") as out:
                out.write(rows(300, 400))
            await t.until(lambda: "step 399" in t.text)
            assert not rung
            with path.open("a") as out:
                out.write("".join(f"{k},nan,0.0003\n" for k in range(400, 460)))
            await t.until(lambda: "incident" in t.text)
            assert "from step 400" in t.text and "✗" in t.text
            with path.open("a") as out:
                out.write("".join(f"{k},nan,0.0003\n" for k in range(460, 500)))
            await t.until(lambda: "step 499" in t.text)
            assert rung == [1], "one alarm an incident"
            await t.press("space")
            assert "paused" in t.text
            await t.press("enter")
            await t.until(lambda: t.page == "DiagnosisPage")
            assert t.app.desk is not None and t.app.desk.shape is not None and t.app.desk.shape.state == "instant-nan"

    run(walk())


def test_watch_waits_for_a_file_and_survives_its_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("playbook.faces.tui.watch.EVERY", 0.05)
    path = tmp_path / "later.csv"

    async def walk() -> None:
        async with terminal(ingest=ingest) as t:
            await t.press("W", *str(path), "enter")
            await t.until(lambda: "no such file" in t.text)
            path.write_text(HEAD + rows(0, 300))
            await t.until(lambda: "step 299" in t.text)
            path.unlink()
            await t.until(lambda: "no such file" in t.text)
            assert "step 299" in t.text, "what was seen stays on the screen"
            await t.press("q")
            assert t.page == "Welcome"

    run(walk())


def test_zoom_stays_while_the_file_grows() -> None:
    grown = small_found()

    async def walk() -> None:
        async with terminal() as t:
            page = Watch(())
            t.app.push_screen(page)
            await t.settle()
            page.post_message(Watch.Read(small_found(), "", 0.0))
            await t.settle()
            view = page.query_one(CurveView)
            view.look_at(100, 150)
            page.post_message(Watch.Read(grown, "", 0.0))
            await t.settle()
            assert (view.first, view.last) == (100, 150)

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
