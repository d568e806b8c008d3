"""`playbook` and `python -m playbook`."""

from __future__ import annotations

from playbook.faces.cli import main

if __name__ == "__main__":
    main()
