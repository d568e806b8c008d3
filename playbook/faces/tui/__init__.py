"""The guided terminal: `run(options)` opens it. Nothing heavy is imported before a screen is wanted."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

SWITCH = 0.001  # seconds after which a thread that reads a file must let the screen have its turn (Python: 0.005)


@dataclass(frozen=True, slots=True)
class Options:
    """What the command line asked for. `remember` off: settings and sessions are not written (tests, pictures)."""

    paths: tuple[str, ...] = ()
    packs: tuple[Path, ...] = ()
    lang: str | None = None
    db: str | None = None
    theme: str | None = None
    follow: bool = False
    remember: bool = True


def run(options: Options) -> int:
    """Open the terminal until the person leaves; returns the exit code."""
    import sys

    from playbook.faces.tui.app import PlaybookApp

    sys.setswitchinterval(SWITCH)
    app = PlaybookApp(options)
    app.run()
    return app.return_code or 0
