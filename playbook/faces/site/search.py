"""Documents for the search in the browser: one a page, indexed there when somebody first searches."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Any

from playbook.faces.pages import blocks as b
from playbook.faces.pages.blocks import Page
from playbook.faces.pages.shelf import FOLDERS, Shelf

MOST_CHARACTERS = 1400  # of the sections of a document; titles, ids and log lines are kept whole
_KINDS = frozenset(FOLDERS)
_BLANK = re.compile(r"[\s`*]+")
_ENDS = (".", "!", "?", "…", "。", "！", "？")
_CHINESE = "\u2e80"  # and what follows it
_WORD = re.compile(r"[^\W\d_]{4}")


def documents(shelf: Shelf, pages: Iterable[Page]) -> list[list[Any]]:
    """[url, kind, id, title, lead, sections, log lines] of every page that is worth finding.

    A section is [anchor, heading, text], so that a hit leads to the place and shows the words around it.
    """
    rows = []
    for page in pages:
        if page.searched:
            kind = shelf.one_word(page.kind) if page.kind in _KINDS else ""
            found = list(_sections(page))
            rows.append([page.path, kind, page.id, page.title, _tidy(page.lead), found, _tidy(page.words)])
    return rows


def _tidy(text: str) -> str:
    return _BLANK.sub(" ", text).strip()


def sentence(text: str) -> str:
    """The text with one mark at its end, of its own script."""
    text = text.rstrip(". ")
    return text if not text or text.endswith(_ENDS) else f"{text}{'。' if text[-1] >= _CHINESE else '.'}"


def _sections(page: Page) -> Iterator[list[str]]:
    left = MOST_CHARACTERS
    for section in page.sections:
        if section.anchor in ("sources", "picture", "past", "quiz", "walk", "answers"):
            continue  # what is found there has a page of its own
        text = _tidy(" ".join(said for block in section.blocks for said in _block(block)))[:left]
        if text:
            left -= len(text)
            yield [section.anchor, section.heading, text]


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
        for row in block.rows:
            text = " · ".join(said for part in row for said in _cell(part))
            if text:
                yield sentence(text)
    elif isinstance(block, b.Actions):
        yield from (f"{sentence(action.ref.title)} {action.summary}" for action in block.rows)
    elif isinstance(block, b.Ticks):
        yield from (f"{item.text} {item.why}" for item in block.items)
    elif isinstance(block, b.Quiz):
        yield block.ask
        yield from (choice.text for choice in block.choices)
    elif isinstance(block, b.Fold):
        yield from (text for inner in block.blocks for text in _block(inner))


def _cell(cell: b.Cell) -> Iterator[str]:
    """The cell as one text; links say nothing of their own, nor do bare figures and prices."""
    if isinstance(cell, tuple):
        text = "".join(said for part in cell for said in _cell(part)).strip(" ,·")
        if text:
            yield text
    elif isinstance(cell, str):
        yield cell
    elif (
        isinstance(cell, b.Plain)
        and cell.searched
        and (cell.code or _WORD.search(cell.text) or not cell.text.strip("·, "))
    ):
        yield cell.text
