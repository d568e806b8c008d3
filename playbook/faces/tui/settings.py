"""What the terminal remembers of a person: theme, height of the curve, files opened last, that it was greeted.

A damaged or unwritable file costs the memory, never the program.
"""

from __future__ import annotations

import json
from contextlib import suppress
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path

from playbook import places

DEFAULT_THEME = "playbook-dark"


@dataclass(frozen=True)
class Settings:
    """theme; curve_rows as last used (0: by the size of the screen); greeted; why: outcomes show where they lead."""

    theme: str = DEFAULT_THEME
    curve_rows: int = 0
    greeted: bool = False
    why: bool = False
    recent: tuple[str, ...] = ()


def path() -> Path:
    return places.home() / "terminal.json"


def load() -> Settings:
    """The settings, or the defaults where there are none or they are damaged."""
    try:
        data = json.loads(path().read_text("utf-8"))
        known = {f.name: type(getattr(Settings(), f.name)) for f in fields(Settings)}
        good = {k: v for k, v in data.items() if k in known and k != "recent" and isinstance(v, known[k])}
        recent = tuple(str(item) for item in data.get("recent", ()))[:_RECENT]
        return replace(Settings(), **good, recent=recent)
    except (OSError, ValueError, TypeError, AttributeError, RecursionError):
        return Settings()


def save(settings: Settings) -> None:
    """Write them whole or not at all."""
    target = path()
    aside = target.with_suffix(".part")
    with suppress(OSError):
        target.parent.mkdir(parents=True, exist_ok=True)
        aside.write_text(json.dumps(asdict(settings)), "utf-8")
        aside.replace(target)


_RECENT = 8  # files that were opened last


def opened(settings: Settings, names: tuple[str, ...]) -> Settings:
    """With `names` on top of the files that were opened last."""
    rest = [name for name in settings.recent if name not in names]
    return replace(settings, recent=(*names, *rest)[:_RECENT])
