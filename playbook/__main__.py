"""`playbook` and `python -m playbook`."""

from __future__ import annotations

import sys


def main() -> None:
    """Run the command line; the overview alone is printed without loading it."""
    arguments = sys.argv[1:]
    if arguments in (["--help"], ["-h"]) or (not arguments and not (sys.stdin.isatty() and sys.stdout.isatty())):
        import os

        if "_PLAYBOOK_COMPLETE" not in os.environ:
            from playbook.faces.overview import text

            sys.stdout.write(text())
            return
    from playbook.faces.cli import main as run

    run()


if __name__ == "__main__":
    main()
