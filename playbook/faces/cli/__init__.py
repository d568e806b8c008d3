"""The command line: a table of commands, imported only when called, and the one place where an error becomes text.

Standard output is the answer, standard error the narration. Exit codes: 0 done; 1 found (`--check`) or a check failed;
2 wrong usage or unusable input, one line; 130 interrupted; 141 the reader of our output went away.
"""

from __future__ import annotations

import importlib
import io
import os
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, TextIO

import click

from playbook.faces.cli import common
from playbook.faces.cli.speech import current, speaking, spoken
from playbook.faces.overview import COMMANDS, text

if TYPE_CHECKING:
    from playbook.faces.words import Words


# The reader of our output went away (`| head`): as the shell tells it of other filters (128 + SIGPIPE), since 0 would
# say under `--check` that nothing was found, and 1 that something was.
_CUT_SHORT = 141


class LazyGroup(common.Group):
    """A group that imports a command's module when the command is called, not to print an overview."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, name: str) -> click.Command | None:
        if name not in COMMANDS:
            return None
        module, attribute, _ = COMMANDS[name]
        command = getattr(importlib.import_module(module), attribute)
        assert isinstance(command, click.Command)
        return speaking(command)

    def get_help(self, ctx: click.Context) -> str:
        return text(current().help).rstrip()

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[click.shell_completion.CompletionItem]:
        from click.shell_completion import CompletionItem

        told = current().help
        return [
            CompletionItem(n, help=told.get(line, line))
            for n, (_, _, line) in COMMANDS.items()
            if n.startswith(incomplete)
        ]

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args and args[0] not in COMMANDS:
            import difflib

            near = difflib.get_close_matches(args[0], COMMANDS, n=1)
            hint = f" Did you mean {near[0]!r}?" if near else " See `playbook --help`."
            raise click.UsageError(f"no command {args[0]!r}.{hint}", ctx)
        return super().resolve_command(ctx, args)


@click.group(cls=LazyGroup, invoke_without_command=True, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="playbook", prog_name="playbook")
@click.option("--plain", is_flag=True)
@click.option("--serve", is_flag=True)
@click.option("--port", type=click.IntRange(1, 65535))
@click.option("--lang", metavar="CODE")
@click.pass_context
def playbook(ctx: click.Context, plain: bool, serve: bool, port: int | None, lang: str | None) -> int | None:
    """Find the cause of a failed training run (the whole text is in `faces/overview.py`).

    Without a command it opens the guided terminal; the options are those of `playbook tui`.
    """
    if ctx.invoked_subcommand is not None:
        if plain or serve or port:
            raise click.UsageError("--plain, --serve and --port go without a command, or after `tui`.", ctx)
        return None
    from playbook.faces.cli.tui import open_terminal
    from playbook.faces.tui import Options
    from playbook.faces.words import words

    words(lang)  # refuses a language that the book does not have
    if not (plain or serve) and not (sys.stdin.isatty() and sys.stdout.isatty()):
        click.echo(ctx.get_help())
        return 0
    return open_terminal(Options(lang=lang), plain, serve, port)


def main(args: Sequence[str] | None = None) -> None:
    """Run a command and leave with the contract's exit code."""
    sys.exit(run(args))


def run(args: Sequence[str] | None = None) -> int:
    """Run a command; returns the exit code. Every foreseen fault is one line on standard error."""
    from playbook.errors import PlaybookError

    _lenient(sys.stdout, sys.stderr)
    given = list(sys.argv[1:] if args is None else args)
    w, out = spoken(given), sys.stdout
    try:
        code = playbook.main(args=given, prog_name="playbook", standalone_mode=False, obj=w)
        sys.stdout.flush()
        return code if isinstance(code, int) else 0
    except PlaybookError as error:
        return _say(w.problem(error.problem), 2, w)
    except PermissionError as error:
        fault = PlaybookError(str(error.filename), f"cannot be opened: {error.strerror}", "check its permissions")
        return _say(w.problem(fault.problem), 2, w)
    except click.exceptions.Exit as leave:
        return leave.exit_code
    except click.Abort:
        return _say("interrupted", 130, w)
    except click.ClickException as error:
        return _say(error.format_message(), 2, w)
    except KeyboardInterrupt:
        return _say("interrupted", 130, w)
    except BrokenPipeError:
        # What is still buffered would be a complaint of the interpreter at its end.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return _CUT_SHORT
    except SystemExit:
        if sys.stdout is not out:  # click has wrapped it: a broken pipe
            return _CUT_SHORT
        raise


def _lenient(*streams: TextIO) -> None:
    """Escape what a terminal or a pipe cannot take (names come from files): no answer is lost for one character."""
    for stream in streams:
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def _say(message: str, code: int, w: Words) -> int:
    line = w.say(" ".join(message.split()))
    if code == 2:
        colour = sys.stderr.isatty() and not os.environ.get("NO_COLOR")
        word = w.say("error:")
        mark = click.style(word, fg="red", bold=True) if colour else word
        line = f"{mark}{line}" if word.endswith("：") else f"{mark} {line}"
    print(line, file=sys.stderr)
    return code
