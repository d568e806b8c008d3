"""Small sound configurations in the dialects that trainings are started with: dialect -> (file name, text).

They lie in `samples/configurations/DIALECT/`, one file each, written in the manner of what is published.
"""

from __future__ import annotations

from pathlib import Path

_FOLDER = Path(__file__).parent / "samples" / "configurations"
SOUND: dict[str, tuple[str, str]] = {
    path.parent.name: (path.name, path.read_text("utf-8")) for path in sorted(_FOLDER.glob("*/*"))
}
