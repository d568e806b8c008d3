"""The language of the command line: which one a call speaks, and `--help` in it, wrapped by cells.

The language is that of `--lang`, wherever it stands, else of PLAYBOOK_LANG; English pages are click's own.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Any

import click

from playbook.errors import PlaybookError
from playbook.faces.words import ENGLISH, Words, words
from playbook.faces.wrapping import cells, wrapped

# What click puts behind the help of an option: "  [default: 1.0; x>=0]".
_EXTRA = re.compile(r"(?P<text>.*?)(?P<extra>  \[[^\[\]]*(?:\[[^\]]*\])?[^\]]*\])?", re.DOTALL)


def spoken(args: Sequence[str]) -> Words:
    """The words for help and errors. A language that we do not have is refused by the command itself, in English."""
    code = None
    for place, arg in enumerate(args):
        if arg == "--lang" and place + 1 < len(args):
            code = args[place + 1]
        elif arg.startswith("--lang="):
            code = arg.removeprefix("--lang=")
    for choice in (code, None):
        try:
            return words(choice)
        except PlaybookError:
            continue
    return words(ENGLISH)


def current() -> Words:
    """The words of the call that runs."""
    context = click.get_current_context(silent=True)
    found = context.obj if context is not None else None
    return found if isinstance(found, Words) else words()


def say(text: str, err: bool = False) -> None:
    """An English line (or several, some of them indented), told in the language of the call."""
    w = current()
    lines = ((line[: len(line) - len(line.lstrip())], line.lstrip()) for line in text.split("\n"))
    click.echo("\n".join(indent + w.say(line) for indent, line in lines), err=err)


def speaking(command: click.Command) -> click.Command:
    """The command, and what is below it, with help in the language of the call."""
    command.context_class = Speaking
    if isinstance(command, click.Group):
        for below in command.commands.values():
            speaking(below)
    return command


class Formatter(click.HelpFormatter):
    """Help in another language than English."""

    def __init__(self, w: Words, **more: Any) -> None:
        super().__init__(**more)
        self.w = w

    def write_usage(self, prog: str, args: str = "", prefix: str | None = None) -> None:
        super().write_usage(prog, args, self.w.help.get("Usage:", "Usage: "))

    def write_heading(self, heading: str) -> None:
        self.write(f"{'':>{self.current_indent}}{self.w.help.get(f'{heading}:', f'{heading}:')}\n")

    def write_text(self, text: str) -> None:
        indent = " " * self.current_indent
        paragraphs = []
        for paragraph in text.split("\n\n"):
            found = self.w.help.get(_key(paragraph))
            raw = paragraph.lstrip().startswith("\b")
            body = (found or paragraph.replace("\b\n", "")).rstrip()
            lines = body.splitlines() if raw else wrapped(body, self.width - self.current_indent)
            paragraphs.append("\n".join(indent + line for line in lines))
        self.write("\n\n".join(paragraphs) + "\n")

    def write_dl(self, rows: Iterable[tuple[str, str]], col_max: int = 30, col_spacing: int = 2) -> None:
        rows = [(first, self._told(second)) for first, second in rows]
        column = min(max((cells(first) for first, _ in rows), default=0), col_max) + col_spacing
        for first, second in rows:
            lines = wrapped(second, max(self.width - column - 2, 10))
            begin = f"{'':>{self.current_indent}}{first}"
            gap = column - cells(first)
            if gap < col_spacing:
                self.write(f"{begin}\n")
                begin, gap = " " * self.current_indent, column
            self.write(f"{begin}{' ' * gap}{lines[0]}\n")
            for line in lines[1:]:
                self.write(f"{'':>{column + self.current_indent}}{line}\n")

    def _told(self, text: str) -> str:
        """The help of one option or command; click cuts that of a command at its first sentence or at the width."""
        hit = _EXTRA.fullmatch(text)
        assert hit is not None
        known, key = self.w.help, _key(hit["text"])
        if whole := known.get(_key(text)):
            return whole
        found = known.get(key)
        if found is None:
            begin = key.removesuffix("...").rstrip()
            other = next((known[name] for name in known if begin and name.startswith(begin)), None)
            found = f"{other.partition('。')[0]}。" if other else key
        extra = re.sub(r"default: |required|env var: ", lambda part: known.get(part[0], part[0]), hit["extra"] or "")
        return found + extra


class Speaking(click.Context):
    """A context whose help speaks the language of the call."""

    def make_formatter(self) -> click.HelpFormatter:
        w = self.find_root().obj
        if not isinstance(w, Words) or w.code == ENGLISH:
            return super().make_formatter()
        return Formatter(w, width=self.terminal_width, max_width=self.max_content_width)


def _key(text: str) -> str:
    """A text with single spaces, as it is a key."""
    return " ".join(text.replace("\b", "").split())
