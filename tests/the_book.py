"""The built-in book, read and compiled once a process: for tests that are made from its entries, before any fixture."""

from __future__ import annotations

from functools import cache

from playbook import places
from playbook.engine.tables import Tables
from playbook.knowledge.loader import Book, load
from playbook.workflow.book import Library


@cache
def library() -> Library:
    return Library(load([places.knowledge()]))


def book() -> Book:
    return library().book


def tables() -> Tables:
    return library().tables
