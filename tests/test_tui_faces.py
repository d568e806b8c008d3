"""The other two forms of the terminal, in the browser and as plain text, and the command that opens them."""

from __future__ import annotations

import io
import os
import re
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from playbook.faces.tui import Options, plain, serve
from playbook.workflow.records import kept
from tests.tui_kit import CLOCK, run, tiny_library

CSV = "step,loss,lr\n" + "".join(f"{k},{2 + 0.01 * (k % 7)},0.0003\n" for k in range(400))
BOX = re.compile("[─-╿█▏▎▍▌▋▊▉·]{2}")


def ask(monkeypatch: pytest.MonkeyPatch, *replies: str, options: Options = Options()) -> tuple[int, str]:  # noqa: B008
    """Run plain mode with these replies; afterwards the input is at its end."""
    left = list(replies)

    def reply(prompt: object = "") -> str:
        if not left:
            raise EOFError
        return left.pop(0)

    monkeypatch.setattr("builtins.input", reply)
    out = io.StringIO()
    console = Console(file=out, width=100, highlight=False)
    code = plain.run(options, console, lambda: CLOCK)
    return code, out.getvalue()


@pytest.fixture
def tiny_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    """Plain mode on the tiny book."""
    monkeypatch.setattr("playbook.workflow.book.open_book", lambda *packs, **more: tiny_library())


@pytest.mark.usefixtures("tiny_terminal")
def test_plain_mode_walks_from_a_symptom_to_a_verdict(monkeypatch: pytest.MonkeyPatch) -> None:
    code, text = ask(monkeypatch, "", "2", "2", "1", "2", "d", "d", "n")
    assert code == 0
    assert "What do you see?" in text and "First aid" in text and "Question: What about" in text
    assert "The learning rate is too high at its peak" in text and "Repair" in text
    assert not BOX.search(text), "no boxes and no bars: a screen reader would read them aloud"
    assert kept.listing()[0][0].answers >= 2


@pytest.mark.usefixtures("tiny_terminal")
def test_plain_mode_is_kept_and_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    ask(monkeypatch, "", "persistent-spike", "1", "q", "n")
    before = kept.listing()[0][0]
    assert before.answers == 2
    _, text = ask(monkeypatch, "y", "d", "q", "n")
    assert "go on with" in text
    after = kept.listing()[0][0]
    assert after.name == before.name and after.answers == 3


@pytest.mark.usefixtures("tiny_terminal")
def test_plain_mode_reads_files_and_records(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    path = tmp_path / "run.csv"
    path.write_text(CSV)
    db = f"sqlite:///{tmp_path / 'x.db'}"
    code, text = ask(monkeypatch, "y", options=Options(paths=(str(path),), db=db))
    assert code == 0 and "400 rows" in text and "recorded as incident" in text
    assert not kept.listing()[0], "recorded: it need not be offered again"


@pytest.mark.usefixtures("tiny_terminal")
def test_plain_mode_at_the_end_of_its_input(monkeypatch: pytest.MonkeyPatch) -> None:
    code, _ = ask(monkeypatch)
    assert code == 0
    code, text = ask(monkeypatch, "nowhere.csv", "", "no-such-symptom", "99", "")
    assert code == 0 and "nowhere.csv" in text and "is no outcome" in text


# the browser


@pytest.mark.parametrize(
    ("host", "origin", "good"),
    [
        ("127.0.0.1:8617", None, True),
        ("127.0.0.1:8617", "http://127.0.0.1:8617", True),
        ("localhost:8617", "http://localhost:8617", True),
        ("127.0.0.1:8617", "https://evil.example", False),
        ("127.0.0.1:8617", "null", False),
        ("evil.example:8617", None, False),
        ("127.0.0.1:9999", None, False),
        ("", None, False),
        ("127.0.0.1:8617.evil.example", None, False),
        ("127.0.0.1:8617", "http://127.0.0.1:8617.evil.example", False),
    ],
)
def test_only_its_own_page_may_drive_the_terminal(host: str, origin: str | None, good: bool) -> None:
    assert serve.allowed(host, origin, 8617) is good


def test_the_page_asks_nobody_for_anything() -> None:
    page = (Path(serve.__file__).parent / "serve_page" / "app_index.html").read_text("utf-8")
    assert not re.search(r"https?://", page) and "font" in page and "googleapis" not in page


def test_the_command_of_a_visitor_is_quoted() -> None:
    text = serve.command(Options(paths=("a b;rm", "-x"), packs=(Path("/p q"),), lang="zh"))
    import shlex

    assert shlex.split(text)[1:] == [
        "-m",
        "playbook",
        "tui",
        "--knowledge",
        "/p q",
        "--lang",
        "zh",
        "--",
        "a b;rm",
        "-x",
    ]


def test_the_server_serves_its_page_here_and_refuses_others() -> None:
    pytest.importorskip("textual_serve")
    from aiohttp import ClientSession
    from aiohttp.test_utils import TestServer

    async def walk() -> None:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        made = serve.server(Options(), port)
        assert made.host == "127.0.0.1"
        web = TestServer(await made._make_app(), host="127.0.0.1", port=port)
        await web.start_server()
        try:
            base = f"http://127.0.0.1:{port}"
            async with ClientSession() as client:
                async with client.get(base) as answer:
                    page = await answer.text()
                    assert answer.status == 200 and "playbook" in page
                    outside = [
                        u for u in re.findall(r'(?:https?|wss?):[^"\'\s>]+', page) if f"127.0.0.1:{port}" not in u
                    ]
                    assert [u for u in outside if u.strip(":;") not in ("ws", "wss")] == []
                for path in ("css/xterm.css", "js/textual.js"):
                    async with client.get(f"{base}/static/{path}") as answer:
                        assert answer.status == 200
                async with client.get(base, headers={"Host": "evil.example"}) as answer:
                    assert answer.status == 403
                async with client.get(f"{base}/ws", headers={"Origin": "https://evil.example"}) as answer:
                    assert answer.status == 403
        finally:
            await web.close()

    run(walk())


def test_without_the_extra_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    from playbook.errors import PlaybookError

    monkeypatch.setitem(sys.modules, "textual_serve.server", None)
    with pytest.raises(PlaybookError, match=r"playbook\[serve\]"):
        serve.server(Options())


# the command


def playbook(*arguments: str, **more: Any) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "playbook", *arguments], capture_output=True, text=True, input="", timeout=60, **more
    )


def test_without_a_terminal_it_says_what_to_do() -> None:
    done = playbook()
    assert done.returncode == 0 and "Usage: playbook" in done.stdout
    done = playbook("tui")
    assert done.returncode == 2 and "needs a terminal" in done.stderr and done.stderr.count("\n") == 1
    done = playbook("--plain", "ingest", "x")
    assert done.returncode == 2 and "without a command" in done.stderr


@pytest.mark.parametrize("arguments", [["tui", "--lang", "xx", "--plain"], ["--lang", "xx"], ["--lang=xx"], []])
def test_a_language_that_the_book_does_not_have_is_refused(arguments: list[str]) -> None:
    more = {} if arguments else {"env": {**os.environ, "PLAYBOOK_LANG": "xx"}}
    done = playbook(*arguments, **more)
    assert done.returncode == 2 and "no such language" in done.stderr and not done.stdout


def test_playbook_alone_on_a_terminal_opens_it(tmp_path: Path) -> None:
    """A real pseudo-terminal: the first page is painted, q leaves, the exit code is 0 and the screen is given back."""
    import pty
    import select
    import time

    pid, master = pty.fork()
    if pid == 0:  # pragma: no cover - the child
        os.environ |= {"PLAYBOOK_HOME": str(tmp_path), "TERM": "xterm-256color", "COLUMNS": "80", "LINES": "24"}
        os.execv(sys.executable, [sys.executable, "-m", "playbook"])
    seen, sent, end = b"", False, time.monotonic() + 60
    while time.monotonic() < end:
        ready, _, _ = select.select([master], [], [], 0.2)
        if ready:
            try:
                part = os.read(master, 65536)
            except OSError:
                break
            if not part:
                break
            seen += part
        if b"causes" in seen and not sent:
            os.write(master, b"q")
            sent = True
    _, status = os.waitpid(pid, 0)
    assert sent and os.waitstatus_to_exitcode(status) == 0
    assert b"What do you see?" in seen and b"\x1b[?1049l" in seen and b"Traceback" not in seen
