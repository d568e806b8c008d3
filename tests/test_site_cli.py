"""`playbook site build` and `serve`: JSON, faults in one line, the incidents of the store, the little server."""

from __future__ import annotations

import json
import threading
import urllib.error
import urllib.request
from pathlib import Path

import pytest

from playbook.faces.cli import run
from playbook.knowledge.loader import Book
from tests.site_kit import build_tiny

TINY = Path(__file__).parent / "tiny_knowledge"


@pytest.fixture
def only_tiny(monkeypatch: pytest.MonkeyPatch) -> None:
    """The tiny book as the built-in one: a build of the real book takes seconds."""
    from playbook.knowledge.loader import load

    monkeypatch.setattr("playbook.workflow.book.load", lambda folders: load([TINY, *list(folders)[1:]]))


def _incident_in_store(db: str) -> None:
    from playbook.incidents.store import open_store
    from tests.site_kit import incident

    store = open_store(db)
    store.add(incident().record)
    store.close()


def test_build_tells_json(only_tiny: None, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["site", "build", "--out", str(tmp_path / "s"), "--lang", "en", "--json"]) == 0
    said = json.loads(capsys.readouterr().out)
    assert said["languages"] == ["en"]
    assert said["incidents"] == 0
    assert Path(said["index"]).is_file()
    assert said["pages"] == len(list((tmp_path / "s").rglob("*.html")))


def test_build_tells_people(only_tiny: None, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["site", "build", "--out", str(tmp_path / "s"), "--lang", "en"]) == 0
    assert f"open {tmp_path / 's' / 'index.html'}" in capsys.readouterr().out


def test_recorded_incidents_are_shown(only_tiny: None, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    db = f"sqlite:///{tmp_path / 'store.db'}"
    _incident_in_store(db)
    for arguments, count in ((["--db", db], 1), (["--db", db, "--no-incidents"], 0)):
        assert run(["site", "build", "--out", str(tmp_path / "s"), "--lang", "en", "--json", *arguments]) == 0
        assert json.loads(capsys.readouterr().out)["incidents"] == count
        assert (tmp_path / "s/en/incidents/20260304-aaaaaa.html").is_file() is bool(count)


def test_a_scene_becomes_curves(only_tiny: None, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """From a metric file through the record to a plot with the onset."""
    rows = [f"{step},{2.0 - step / 1000 if step < 300 else 'nan'}" for step in range(400)]
    (tmp_path / "m.csv").write_text("\n".join(["step,loss", *rows]) + "\n")
    db = f"sqlite:///{tmp_path / 'store.db'}"
    assert run(["diagnose", str(tmp_path / "m.csv"), "--no-input", "--record", "--db", db]) == 0
    assert run(["site", "build", "--out", str(tmp_path / "s"), "--lang", "en", "--db", db]) == 0
    capsys.readouterr()
    pages = [p for p in (tmp_path / "s/en/incidents").glob("*.html") if p.name != "index.html"]
    assert len(pages) == 1
    page = pages[0].read_text("utf-8")
    assert 'class="plot"' in page
    assert "onset · 300" in page
    assert 'class="bad"' in page


def test_the_base_url_is_in_what_machines_read(only_tiny: None, tmp_path: Path) -> None:
    out = tmp_path / "s"
    assert run(["site", "build", "--out", str(out), "--lang", "en", "--base-url", "https://h.example/pb"]) == 0
    assert json.loads((out / "runbooks.json").read_text())["base_url"] == "https://h.example/pb/"
    assert "https://h.example/pb/en/index.html" in (out / "sitemap.xml").read_text()
    assert 'href="/pb/assets/style.css"' in (out / "404.html").read_text()


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--lang", "xx"], "no such language"),
        (["--lang", ","], "names no language"),
        (["--lang", "en,en"], "twice"),
        (["--base-url", "ftp://h/"], "no web address"),
        (["--out", "{file}"], "is no folder"),
        (["--out", "{full}"], "no site build has made"),
        (["--knowledge", "{none}"], "no such knowledge folder"),
    ],
)
def test_faults_in_one_line(
    arguments: list[str], says: str, only_tiny: None, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").write_text("x")
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "x").write_text("x")
    fill = {"file": tmp_path / "file", "full": tmp_path / "full", "none": tmp_path / "none"}
    given = [a.format(**fill) for a in arguments]
    assert run(["site", "build", "--out", str(tmp_path / "s"), *given]) == 2
    lines = capsys.readouterr().err.strip().splitlines()
    assert len(lines) == 1
    assert says in lines[0]
    assert not (tmp_path / "s").exists()


def test_serving_what_is_no_site(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["site", "serve", "--dir", str(tmp_path)]) == 2
    assert "holds no built site" in capsys.readouterr().err


def test_the_server(tiny: Book, tmp_path: Path) -> None:
    from playbook.errors import PlaybookError
    from playbook.faces.site.serve import server

    build_tiny(tiny, tmp_path / "s")
    running = server(tmp_path / "s", 0)
    port = running.server_address[1]
    threading.Thread(target=running.serve_forever, daemon=True).start()
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/en/causes/lr-peak.html") as answer:
            assert answer.headers["Content-Type"] == "text/html; charset=utf-8"
            assert answer.headers["X-Content-Type-Options"] == "nosniff"
            assert b"too high at its peak" in answer.read()
        for path in ("/en/causes/none.html", "/data/", "/../../etc/passwd", "/%2e%2e/%2e%2e/etc/passwd"):
            with pytest.raises(urllib.error.HTTPError) as fault:
                urllib.request.urlopen(f"http://127.0.0.1:{port}{path}")
            assert fault.value.code == 404
            assert b"No such page" in fault.value.read()
        with pytest.raises(PlaybookError, match="cannot be used"):
            server(tmp_path / "s", port)
    finally:
        running.shutdown()
        running.server_close()
