"""What a shell offers after TAB beside commands and options: files, ids of the book, answers, recorded incidents.

The book and the database are opened only while a shell completes. What cannot be read offers nothing: an error text in
the middle of a line that somebody types helps nobody, and the command itself will tell it.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

import click

from playbook.errors import PlaybookError

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

    from playbook.knowledge.loader import Book

    Offers = Callable[[click.Context, click.Parameter, str], list[CompletionItem]]

_MOST = 100  # incidents, newest first

# The shell's own completion of paths, for arguments that take more than paths (globs, `-`) and stay text.
files = click.Path().shell_complete


def _offering(source: Callable[[click.Context], Iterable[tuple[str, str]]]) -> Offers:
    """A callback of click from a function that yields (value, what it is)."""

    @functools.wraps(source)
    def offers(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
        from click.shell_completion import CompletionItem

        try:
            return [CompletionItem(v, help=title) for v, title in source(ctx) if v.startswith(incomplete)]
        except PlaybookError:
            return []

    return offers


def _book(ctx: click.Context) -> Book:
    """The book with the packs that the line names so far."""
    from playbook.workflow.book import open_book

    return open_book(ctx.params.get("packs") or (), strict=False).book


@_offering
def entries(ctx: click.Context) -> Iterable[tuple[str, str]]:
    """Ids of all entries of the book, or of those of `--kind`."""
    kind = ctx.params.get("kind")
    for name, found in _book(ctx).entries.items():
        if kind in (None, name):
            yield from ((entry.id, entry.title) for entry in found.values())


@_offering
def kinds(ctx: click.Context) -> Iterable[tuple[str, str]]:
    from playbook.knowledge.entries import KINDS

    return [(name, "") for name in KINDS]


@_offering
def cases(ctx: click.Context) -> Iterable[tuple[str, str]]:
    """Ids of the published case studies."""
    return [(case.id, case.title) for case in _book(ctx).cases.values()]


@_offering
def answers(ctx: click.Context) -> Iterable[tuple[str, str]]:
    """SIGNAL=STATE of every signal."""
    signals = _book(ctx).signals.values()
    return [(f"{signal.id}={outcome}", signal.title) for signal in signals for outcome in signal.outcomes]


@_offering
def incidents(ctx: click.Context) -> Iterable[tuple[str, str]]:
    """Ids of recorded incidents, newest first."""
    from playbook.workflow.records.shelf import is_there, shelf

    db = ctx.params.get("db")
    if not is_there(db):
        return []
    from playbook.incidents.store import Filter

    with shelf(db) as store:
        return [(str(row["id"]), str(row["title"])) for row in store.summaries(Filter(limit=_MOST))]


def replayable(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """What `replay` takes: incidents, case studies, folders."""
    both = [*incidents(ctx, param, incomplete), *cases(ctx, param, incomplete)]
    return both or files(ctx, param, incomplete)
