"""Where answers come from: a person at the terminal, or a file (`--answers`) for scripts and tests.

A file is YAML or JSON: a list of replies in the order of asking, or {card id: reply}. A reply is a text or a number;
for a spoken answer it may be {text: ..., ticks: [labels], seconds: ...}. A drill's file is a list of moves.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Console

from playbook.errors import PlaybookError, only_file, reason
from playbook.faces.learning.countdown import Countdown
from playbook.knowledge.loader import parse_yaml


@dataclass(frozen=True, slots=True)
class Reply:
    """What was answered. `ticks` are labels of key points said in other words."""

    text: str
    ticks: tuple[str, ...] = ()
    seconds: float = 0.0


def read_file(path: Path) -> Any:
    """The document of an answers file. Raises `PlaybookError` with the line."""
    try:
        text = only_file(path).read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise PlaybookError(
            str(path), f"cannot be read: {reason(error)}", "name a YAML or JSON file of answers"
        ) from None
    return parse_yaml(text, str(path))


def replies(path: Path) -> dict[str, Reply] | list[Reply]:
    """Answers by card id, or in the order of asking."""
    data = read_file(path)
    if isinstance(data, dict):
        return {str(k): _reply(path, v) for k, v in data.items()}
    if isinstance(data, list):
        return [_reply(path, v) for v in data]
    raise PlaybookError(str(path), "holds no answers", "a list of replies, or {card id: reply}", 1)


def _reply(path: Path, value: Any) -> Reply:
    if isinstance(value, dict):
        if unknown := sorted(set(map(str, value)) - {"text", "ticks", "seconds"}):
            raise PlaybookError(str(path), f"a reply has no {unknown[0]!r}", "it has text, ticks and seconds")
        try:
            return Reply(
                str(value.get("text", "")), tuple(map(str, value.get("ticks", ()))), float(value.get("seconds", 0.0))
            )
        except (TypeError, ValueError):
            raise PlaybookError(str(path), "a reply cannot be read", "text, a list of ticks, seconds") from None
    if isinstance(value, list):
        return Reply(" ".join(map(str, value)))
    return Reply("" if value is None else str(value))


def moves(path: Path) -> Iterator[tuple[str, str]]:
    """The moves of a drill: `- look: SIGNAL`, or `- look SIGNAL`."""
    data = read_file(path)
    if not isinstance(data, list):
        raise PlaybookError(str(path), "holds no moves", "a list such as [aid: FIX, look: SIGNAL, suspect: CAUSE]", 1)
    for item in data:
        if isinstance(item, dict) and len(item) == 1:
            verb, name = next(iter(item.items()))
            yield str(verb), str(name)
        else:
            verb, _, name = str(item).strip().partition(" ")
            yield verb, name.strip()


def ask(out: Console, prompt: str) -> str | None:
    """One line from the person; None at the end of the input."""
    try:
        return out.input(f"[bold]{prompt}[/] > ").strip()
    except EOFError:
        return None


def ask_many(out: Console, clock: Countdown | None = None) -> str | None:
    """Lines up to one with a single dot (or the end of the input); None where nothing was said at all.

    With a clock each line begins with the time that is left.
    """
    lines: list[str] = []
    while True:
        try:
            line = out.input("[dim]|[/] " if clock is None else f"[dim]{clock.text():>5} |[/] ")
        except EOFError:
            return "\n".join(lines) if lines else None
        if line.strip() == ".":
            return "\n".join(lines)
        lines.append(line)
