"""`playbook` and `python -m playbook`."""

from __future__ import annotations

import sys


def main() -> None:
    """Run the command line; the overview is printed and the terminal opened without loading it."""
    import os

    arguments = sys.argv[1:]
    terminal = sys.stdin.isatty() and sys.stdout.isatty()
    if "_PLAYBOOK_COMPLETE" not in os.environ:
        if arguments in (["--help"], ["-h"]) or (not arguments and not terminal):
            if os.environ.get("PLAYBOOK_LANG") in (None, "", "en"):
                from playbook.faces.overview import text

                try:
                    sys.stdout.write(text())
                    sys.stdout.flush()
                except BrokenPipeError:
                    os._exit(141)  # nobody reads on, and what is buffered must not complain
                return
        elif not arguments:
            _open_terminal()
    from playbook.faces.cli import main as run

    run(arguments)


def _open_terminal() -> None:
    """The guided terminal; what stops it before it is open is told by the command line."""
    from playbook.errors import PlaybookError
    from playbook.faces.tui import Options, run

    try:
        sys.exit(run(Options()))
    except PlaybookError:
        return


if __name__ == "__main__":
    main()
