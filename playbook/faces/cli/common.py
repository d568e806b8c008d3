"""What the commands share: options, JSON, colours, progress."""

from __future__ import annotations

import json
import math
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from playbook.errors import PlaybookError
from playbook.faces.words import words

if TYPE_CHECKING:
    from rich.console import Console


# Options that many commands share, with the number of their values: they may stand before the command too.
SHARED = {"--lang": 1, "--knowledge": 1, "--db": 1, "--json": 0}


class Group(click.Group):
    """A group before whose command the shared options may stand: `playbook --lang zh diagnose`."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        return super().parse_args(ctx, late(args, self._values()))

    def _values(self) -> dict[str, int]:
        """The group's own options, each with the number of its values."""
        return {
            name: 0 if getattr(param, "is_flag", False) else param.nargs
            for param in self.params
            for name in (*param.opts, *param.secondary_opts)
        }


def late(args: list[str], own: dict[str, int]) -> list[str]:
    """The arguments with the shared options that stand before a command moved behind it; without one as they are."""
    kept: list[str] = []
    moved: list[str] = []
    place = 0
    while place < len(args) and args[place].startswith("-") and args[place] != "--":
        name, equals, _ = args[place].partition("=")
        values = SHARED.get(name, own.get(name, 0))
        size = 1 if equals else 1 + values
        (moved if name in SHARED else kept).extend(args[place : place + size])
        place += size
    if place >= len(args) or args[place] == "--":
        return args
    rest = args[place:]
    end = rest.index("--") if "--" in rest else len(rest)
    return [*kept, *rest[:end], *moved, *rest[end:]]


class Finite(click.FloatRange):
    """A number within bounds; `nan` and `inf` are none."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        found = super().convert(value, param, ctx)
        if not math.isfinite(found):
            self.fail(f"{value} is no finite number.", param, ctx)
        return found


def json_option(command: Any) -> Any:
    return click.option("--json", "as_json", is_flag=True, help="One JSON document on standard output, nothing else.")(
        command
    )


def knowledge_option(command: Any) -> Any:
    return click.option(
        "--knowledge",
        "packs",
        multiple=True,
        metavar="DIR",
        type=click.Path(path_type=Path),
        help="A knowledge pack laid over the built-in book (repeatable).",
    )(command)


def lang_option(command: Any) -> Any:
    """The language of a command that has no other use for it: what it prints goes through `speech.say`."""
    return click.option("--lang", metavar="CODE", expose_value=False, callback=_language, help="Language: en or zh.")(
        command
    )


def _language(ctx: click.Context, param: click.Parameter, value: str | None) -> None:
    words(value)  # one that we do not have is refused here; `spoken` has read the arguments


def db_option(command: Any) -> Any:
    return click.option(
        "--db", metavar="URL", help="Database of incidents (sqlite:///FILE or postgresql://...). Default: PLAYBOOK_DB."
    )(command)


def map_option(command: Any) -> Any:
    return click.option(
        "--map",
        "mapping",
        multiple=True,
        metavar="METRIC=COLUMN",
        help="Take COLUMN of the file as METRIC, such as --map loss=my_loss --map step=it (repeatable).",
    )(command)


def parse_mapping(pairs: tuple[str, ...]) -> dict[str, str]:
    """`METRIC=COLUMN` -> {column: metric}."""
    result = {}
    for pair in pairs:
        metric, equals, column = pair.partition("=")
        if not equals or not metric or not column:
            raise PlaybookError(f"--map {pair}", "is not METRIC=COLUMN", "write for example --map loss=my_loss")
        result[column] = metric
    return result


def emit(document: Any) -> None:
    """Print JSON: no bare NaN (null instead), stable order."""
    told = "utf" in (getattr(sys.stdout, "encoding", None) or "utf-8").lower()
    json.dump(clean(document), sys.stdout, ensure_ascii=not told, indent=2, allow_nan=False)
    sys.stdout.write("\n")


def clean(value: Any) -> Any:
    """Plain JSON values; a number that is not finite becomes null."""
    if isinstance(value, dict):
        return {str(k): clean(v) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return [clean(v) for v in value]
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, (str, int, bool)) or value is None:
        return value
    if hasattr(value, "item"):
        return clean(value.item())
    return str(value)


def console(stderr: bool = False) -> Console:
    """A rich console that respects NO_COLOR, and that wraps at 100 columns where there is no terminal."""
    from rich.console import Console as Rich

    from playbook.faces.wrapping import wrap_wide_characters

    wrap_wide_characters()

    class Console(Rich):
        def on_broken_pipe(self) -> None:
            raise BrokenPipeError  # `run` knows what to say

    stream = sys.stderr if stderr else sys.stdout
    width = None if stream.isatty() else int(os.environ.get("COLUMNS", "100"))
    return Console(file=stream, width=width, highlight=False, soft_wrap=False, emoji=False)


def narrator(quiet: bool = False) -> Callable[[str], None] | None:
    """Progress lines on standard error, only on a terminal."""
    if quiet or not sys.stderr.isatty():
        return None

    def say(text: str) -> None:
        sys.stderr.write(f"\r\x1b[2K{text[:100]}")
        sys.stderr.flush()

    return say


def hush() -> None:
    """Wipe the progress line."""
    if sys.stderr.isatty():
        sys.stderr.write("\r\x1b[2K")
        sys.stderr.flush()
