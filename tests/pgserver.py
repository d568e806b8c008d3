"""A real PostgreSQL for the tests: started from installed binaries as an unprivileged user, on a socket of its own."""

from __future__ import annotations

import atexit
import itertools
import os
import pwd
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path


def binaries() -> Path | None:
    """The folder with `initdb` and `postgres`, newest first; None where PostgreSQL is not installed."""
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin"), key=lambda p: int(p.parent.name), reverse=True)
    on_path = shutil.which("initdb")
    folders = [*found, *([Path(on_path).resolve().parent] if on_path else [])]
    return next((f for f in folders if (f / "initdb").exists() and (f / "postgres").exists()), None)


@dataclass
class Server:
    """A running server; `new_database` gives each test one of its own."""

    folder: Path
    _numbers: Iterator[int] = field(default_factory=lambda: itertools.count(1))

    def url(self, name: str = "postgres") -> str:
        return f"postgresql://play@/{name}?host={self.folder}"

    def execute(self, statement: str) -> None:
        import psycopg

        with psycopg.connect(self.url(), autocommit=True) as connection:
            connection.execute(statement)

    def new_database(self) -> str:
        name = f"t{next(self._numbers)}"
        self.execute(f"CREATE DATABASE {name}")
        return self.url(name)


def _someone() -> dict[str, object]:
    """PostgreSQL refuses to run as root: as root, take the user postgres or nobody."""
    if os.geteuid() != 0:
        return {}
    for name in ("postgres", "nobody"):
        try:
            entry = pwd.getpwnam(name)
        except KeyError:
            continue
        return {"user": entry.pw_uid, "group": entry.pw_gid, "extra_groups": []}
    return {"user": 65534, "group": 65534, "extra_groups": []}


@contextmanager
def running(bin_folder: Path) -> Iterator[Server]:
    """Start a server, stop it at the end. A socket path is short (107 bytes), so it lies right below /tmp."""
    import psycopg

    folder = Path(tempfile.mkdtemp(prefix="pbpg"))
    who = _someone()
    if who:
        os.chown(folder, int(str(who["user"])), int(str(who["group"])))
    try:
        common = {"cwd": folder, "env": {"PATH": os.environ.get("PATH", ""), "LC_ALL": "C.UTF-8"}, **who}
        made = subprocess.run(
            [bin_folder / "initdb", "-D", folder / "data", "-U", "play", "-A", "trust", "-E", "UTF8", "--no-sync"],
            capture_output=True, text=True, check=False, **common,
        )  # fmt: skip
        if made.returncode:
            raise RuntimeError(f"initdb failed: {made.stderr}")
        with (folder / "log").open("wb") as log:
            process = subprocess.Popen(
                [bin_folder / "postgres", "-D", folder / "data", "-k", folder, "-h", "", "-F"],
                stdout=log, stderr=log, **common,
            )  # fmt: skip
        server = Server(folder)
        try:
            for _ in range(300):
                try:
                    psycopg.connect(server.url(), connect_timeout=2).close()
                    break
                except psycopg.OperationalError:
                    if process.poll() is not None:
                        raise RuntimeError((folder / "log").read_text("utf-8", "replace")) from None
                    time.sleep(0.1)
            yield server
        finally:
            process.send_signal(2)  # fast shutdown: open sessions are closed
            process.wait(timeout=30)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@cache
def shared() -> Server:
    """One server for all tests of this process, stopped when it ends."""
    folder = binaries()
    assert folder is not None
    stack = ExitStack()
    server = stack.enter_context(running(folder))
    atexit.register(stack.close)
    return server
