"""Documents for machines: runbook addresses, the Atom feed of incidents, the sitemap. No clock is read."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any
from xml.sax.saxutils import escape, quoteattr

from playbook.faces.pages.parts import class_word
from playbook.faces.pages.shelf import FOLDERS, Shelf

FORMAT = 1  # of runbooks.json
# Characters that XML 1.0 does not have.
_NOT_XML = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def runbooks(shelves: Mapping[str, Shelf], base_url: str, version: str) -> dict[str, Any]:
    """id -> address in every language, by kind: what an alert's `runbook_url` is taken from."""
    first = next(iter(shelves))
    book = shelves[first].book
    document: dict[str, Any] = {"format": FORMAT, "base_url": base_url, "content": version, "languages": list(shelves)}
    for kind in ("symptoms", "causes", "signals", "fixes"):
        document[kind] = {
            entry_id: {
                "title": {lang: shelf.title(kind, entry_id) for lang, shelf in shelves.items()},
                "path": {lang: f"{lang}/{FOLDERS[kind]}/{entry_id}.html" for lang in shelves},
                "status": entry.status,
            }
            for entry_id, entry in sorted(book.entries[kind].items())
        }
    return document


def feed(shelf: Shelf, lang: str, base_url: str) -> str:
    """Atom, newest first. The ids hold for ever; a feed without incidents carries the epoch as its date."""
    w = shelf.w
    updated = max((i.changed_at for i in shelf.incidents), default="1970-01-01T00:00:00Z")
    here = f"{base_url}{lang}/incidents/"
    lines = [
        '<?xml version="1.0" encoding="utf-8"?>',
        f'<feed xmlns="http://www.w3.org/2005/Atom" xml:lang={quoteattr(lang)}>',
        f"<title>{_xml('playbook · ' + w('Incidents'))}</title>",
        f"<id>urn:playbook:incidents:{lang}</id>",
        f"<updated>{_xml(updated)}</updated>",
        "<author><name>playbook</name></author>",
        f'<link rel="self" href={quoteattr(here + "feed.xml")}/>',
        f'<link rel="alternate" href={quoteattr(here + "index.html")}/>',
    ]
    for incident in shelf.incidents:
        record = incident.record
        cause = incident.cause
        said = (shelf.title("causes", cause) or class_word(shelf, cause)) if cause else w("undecided")
        symptom = record.verdict.symptom
        what = f"{shelf.title('symptoms', symptom) or symptom} · {said}" if symptom else said
        lines += [
            "<entry>",
            f"<title>{_xml(record.title)}</title>",
            f"<id>urn:playbook:incident:{_xml(record.id)}</id>",
            f"<published>{_xml(record.opened_at)}</published>",
            f"<updated>{_xml(incident.changed_at)}</updated>",
            f"<link href={quoteattr(f'{here}{record.id}.html')}/>",
            f"<category term={quoteattr(record.status)}/>",
            f"<summary>{_xml(what)}</summary>",
            "</entry>",
        ]
    return "\n".join([*lines, "</feed>", ""])


def _xml(text: str) -> str:
    return escape(_NOT_XML.sub("", text))


def sitemap(paths: Sequence[str], base_url: str) -> str:
    rows = "\n".join(f"<url><loc>{_xml(base_url + path)}</loc></url>" for path in sorted(paths))
    head = '<?xml version="1.0" encoding="utf-8"?>\n<urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.9">'
    return f"{head}\n{rows}\n</urlset>\n"
