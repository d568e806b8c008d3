"""What is not there yet: keys before the book is loaded, a store that somebody else has locked."""

from __future__ import annotations

import sqlite3
import threading
import time
from pathlib import Path

import pytest

from playbook.faces.tui.shop import Shop
from playbook.incidents.database import BUSY_SECONDS
from tests.tui_kit import LARGE, run, terminal


def said(t: object) -> list[str]:
    return [n.message for n in t.app._notifications]  # type: ignore[attr-defined]


@pytest.mark.parametrize(("key", "page"), [("2", "DiagnosisPage"), ("b", "Browse"), ("t", "Quiz")])
def test_a_key_before_the_book_is_done_once_it_is_there(key: str, page: str) -> None:
    async def walk() -> None:
        async with terminal(LARGE) as t:
            await t.settle()
            library, t.app.library = t.app.library, None
            await t.pilot.press(key)
            await t.pilot.pause()
            assert t.page == "Welcome" and any("reading the book" in text for text in said(t))
            t.app.library = library
            t.app.do_later()
            await t.until(lambda: t.page == page)

    run(walk())


def test_only_the_last_wish_is_done() -> None:
    async def walk() -> None:
        async with terminal(LARGE) as t:
            await t.settle()
            done: list[str] = []
            t.app.later(lambda: done.append("first"))
            t.app.later(lambda: done.append("last"))
            t.app.do_later()
            await t.until(lambda: bool(done))
            t.app.do_later()
            await t.settle()
            assert done == ["last"]

    run(walk())


def test_a_locked_store_is_told_at_once(tmp_path: Path) -> None:
    from playbook.faces.tui import jobs
    from playbook.incidents.store import open_store

    assert jobs.PATIENCE == BUSY_SECONDS
    path = tmp_path / "x.db"
    open_store(f"sqlite:///{path}").close()
    free = threading.Event()

    def lock() -> None:
        other = sqlite3.connect(path, isolation_level=None)
        other.execute("BEGIN IMMEDIATE")
        free.wait(20)
        other.execute("ROLLBACK")
        other.close()

    async def walk() -> None:
        async with terminal(LARGE, shop=Shop(f"sqlite:///{path}")) as t:
            t.app.start_with("persistent-spike")
            await t.until(lambda: t.page == "DiagnosisPage")
            await t.settle()
            thread = threading.Thread(target=lock)
            thread.start()
            time.sleep(0.1)
            begin = time.monotonic()
            await t.pilot.press("R")
            await t.pilot.press("enter")
            try:
                await t.until(lambda: any("waiting for it" in text for text in said(t)))
                assert time.monotonic() - begin < 5, "told long before the store gives up"
            finally:
                free.set()
                thread.join()
            await t.until(lambda: t.app.desk is not None and t.app.desk.incident is not None)

    run(walk())
