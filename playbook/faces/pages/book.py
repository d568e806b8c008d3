"""All pages of one language, in a stable order."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping

from playbook.faces.pages import lists, reference
from playbook.faces.pages.blocks import Page
from playbook.faces.pages.case import case_page
from playbook.faces.pages.cause import cause_page
from playbook.faces.pages.fix import fix_page
from playbook.faces.pages.incident import incident_page, incidents_page
from playbook.faces.pages.numbers import WalkNumbers
from playbook.faces.pages.shelf import Shelf
from playbook.faces.pages.signal import signal_page
from playbook.faces.pages.study import checklist_page, question_page
from playbook.faces.pages.symptom import symptom_page
from playbook.knowledge.loader import Book
from playbook.workflow.records.published import Strip


def version_of(book: Book) -> str:
    """A short hash of what the book says: a past decision can name the book that it was made with."""
    digest = hashlib.sha256()
    for kind, entries in sorted(book.entries.items()):
        for name, entry in sorted(entries.items()):
            digest.update(json.dumps([kind, name, entry.model_dump(mode="json")], sort_keys=True).encode())
    digest.update(json.dumps([book.classes, book.learned, book.opinions], sort_keys=True, default=str).encode())
    return digest.hexdigest()[:12]


def pages(
    shelf: Shelf, version: str, walks: Mapping[str, WalkNumbers], curves: Mapping[str, tuple[Strip, ...]]
) -> Iterator[Page]:
    """Every page that is made of the book and the incidents. `walks` and `curves` go by case id."""
    book = shelf.book
    yield lists.home_page(shelf)
    yield lists.symptoms_page(shelf)
    yield from (symptom_page(shelf, s) for s in book.symptoms.values())
    yield lists.causes_page(shelf)
    yield from (cause_page(shelf, c) for c in book.causes.values())
    yield lists.signals_page(shelf)
    yield from (signal_page(shelf, s) for s in book.signals.values())
    yield lists.fixes_page(shelf)
    yield from (fix_page(shelf, f) for f in book.fixes.values())
    yield lists.cases_page(shelf)
    yield from (case_page(shelf, c, walks.get(c.id), curves.get(c.id, ())) for c in book.cases.values())
    yield lists.checklists_page(shelf)
    yield from (checklist_page(shelf, c) for c in book.kind("checklists").values())
    yield lists.questions_page(shelf)
    yield from (question_page(shelf, q) for q in book.kind("questions").values())
    yield incidents_page(shelf)
    yield from (incident_page(shelf, i) for i in shelf.incidents)
    yield lists.map_page(shelf)
    yield reference.glossary_page(shelf)
    yield reference.sources_page(shelf)
    yield reference.about_page(shelf, version)
