"""Documents for the search in the browser: one a page, indexed there when somebody first searches."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from playbook.faces.pages import blocks as b
from playbook.faces.pages.blocks import Page
from playbook.faces.pages.shelf import FOLDERS, Shelf

MOST_CHARACTERS = 1400  # of the body of a document; titles, ids and log lines are kept whole
_KINDS = frozenset(FOLDERS)
_BLANK = re.compile(r"[\s`*]+")


def documents(shelf: Shelf, pages: Iterable[Page]) -> list[list[str]]:
    """[url, kind, id, title, lead, body, log lines] of every page that is worth finding."""
    rows = []
    for page in pages:
        if page.searched:
            kind = shelf.one_word(page.kind) if page.kind in _KINDS else ""
            body = _tidy(" ".join(_texts(page)))[:MOST_CHARACTERS]
            rows.append([page.path, kind, page.id, page.title, _tidy(page.lead), body, _tidy(page.words)])
    return rows


def _tidy(text: str) -> str:
    return _BLANK.sub(" ", text).strip()


def _texts(page: Page) -> Iterator[str]:
    for section in page.sections:
        if section.anchor in ("sources", "picture", "past", "quiz", "walk", "answers"):
            continue  # what is found there has a page of its own
        for block in section.blocks:
            yield from _block(block)


def _block(block: b.Block) -> Iterator[str]:
    """What a block says; bars, links and pictures say nothing of their own."""
    if isinstance(block, b.Prose):
        yield block.text
    elif isinstance(block, b.Steps):
        yield from (text for item in block.items for text in _cell(item))
    elif isinstance(block, b.Commands):
        yield from (command.run for command in block.items)
    elif isinstance(block, b.Facts):
        yield from (text for _, value in block.rows for text in _cell(value))
    elif isinstance(block, b.Table):
        yield from (text for row in block.rows for part in row for text in _cell(part))
    elif isinstance(block, b.Actions):
        yield from (f"{action.ref.title}. {action.summary}" for action in block.rows)
    elif isinstance(block, b.Ticks):
        yield from (f"{item.text} {item.why}" for item in block.items)
    elif isinstance(block, b.Quiz):
        yield block.ask
        yield from (choice.text for choice in block.choices)
    elif isinstance(block, b.Fold):
        yield from (text for inner in block.blocks for text in _block(inner))


def _cell(cell: b.Cell) -> Iterator[str]:
    if isinstance(cell, tuple):
        for part in cell:
            yield from _cell(part)
    elif isinstance(cell, str):
        yield cell
    elif isinstance(cell, b.Plain):
        yield cell.text
