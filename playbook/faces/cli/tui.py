"""`playbook tui` (and `playbook` alone): the guided terminal, in the terminal, as plain text or in the browser."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import click

from playbook.errors import PlaybookError
from playbook.faces.cli import common, completing
from playbook.faces.tui import Options


@click.command(short_help="The guided terminal, with files at once.")
@click.argument("paths", nargs=-1, metavar="[PATH...]", shell_complete=completing.files)
@click.option("--plain", is_flag=True, help="One question after another, as text (screen readers, dumb terminals).")
@click.option("--serve", is_flag=True, help="In the browser, on this machine only.")
@click.option("--port", type=click.IntRange(1, 65535), help="Port of --serve.  [default: 8617]")
@click.option("--watch", "follow", is_flag=True, help="Follow the files as they grow.")
@click.option("--theme", metavar="NAME", help="Theme of this session, such as playbook-light or ansi-dark.")
@click.option("--lang", metavar="CODE", help="Language: en or zh.")
@common.knowledge_option
@common.db_option
def tui(
    paths: tuple[str, ...],
    plain: bool,
    serve: bool,
    port: int | None,
    follow: bool,
    theme: str | None,
    lang: str | None,
    packs: tuple[Path, ...],
    db: str | None,
) -> int:
    """Open the guided terminal: curve, evidence, one question at a time, causes with their probabilities.

    PATH is a metrics file, a log or a folder. Without one, the first page asks. ? shows the keys, Ctrl+P every command.
    """
    if follow and not paths:
        raise PlaybookError("playbook tui --watch", "names nothing to follow", "give a file or a folder")
    if follow and plain:
        raise PlaybookError("playbook tui --watch", "needs a screen", "`playbook watch` tells the news as text")
    return open_terminal(Options(paths, packs, lang, db, theme, follow), plain, serve, port)


def open_terminal(options: Options, plain: bool = False, serve: bool = False, port: int | None = None) -> int:
    """Open it in one of its three forms; returns the exit code."""
    if serve:
        from playbook.faces.tui import serve as browser

        return browser.serve(options, port or browser.PORT)
    if plain:
        from playbook.faces.tui import plain as text

        return text.run(options, common.console())
    if not (sys.stdin.isatty() and sys.stdout.isatty()) and "TEXTUAL_DRIVER" not in os.environ:
        raise PlaybookError("playbook tui", "needs a terminal", "use --plain here, or `playbook diagnose` in scripts")
    from playbook.faces.tui import run

    return run(options)
