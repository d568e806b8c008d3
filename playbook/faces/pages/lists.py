"""The first page, the lists of every kind, and the map: the whole graph as dots instead of a hairball."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from playbook.faces.pages.blocks import Card, Cards, Links, Listing, Matrix, Page, Prose, Ref, Section, Web
from playbook.faces.pages.parts import drop_empty
from playbook.faces.pages.picture import pieces, units
from playbook.faces.pages.shelf import Shelf, shape_of
from playbook.knowledge.entries import LAYERS, SYMPTOMS

MOST_RECENT = 3  # incidents on the first page
CARD = 96  # Latin letters of text on a card

Rows = tuple[tuple[Ref, str, str], ...]


def symptoms_in_order(shelf: Shelf) -> list[Any]:
    known = {name: place for place, name in enumerate(SYMPTOMS)}
    live = [s for s in shelf.book.symptoms.values() if s.status != "deprecated"]
    return sorted(live, key=lambda s: (known.get(s.id, len(known)), s.id))


def home_page(shelf: Shelf) -> Page:
    """What do you see?"""
    w = shelf.w
    cards = tuple(Card(shelf.ref("symptoms", s.id), _short(s.looks_like), shape=s.id) for s in symptoms_in_order(shelf))
    recent: tuple[tuple[Ref | Web, str], ...] = tuple(
        (shelf.ref("incidents", i.record.id), i.day) for i in shelf.incidents[:MOST_RECENT]
    )
    doors: tuple[tuple[Ref | Web, str], ...] = (
        (Ref("diagnose.html", w("Guided diagnosis")), w("answers in, causes out; the next best question each time")),
        (Ref("search.html", w("Search an error message")), w("paste a line of the log")),
        (Ref("map.html", w("Map")), w("all causes against all symptoms")),
        (shelf.index("checklists"), w("before a run, and after an incident")),
        (shelf.index("cases"), w("published incidents, with the walk to their cause")),
    )
    sections = [
        Section("see", w("What do you see?"), (Cards(cards),)),
        Section("doors", w("Or begin elsewhere"), (Links(doors),)),
    ]
    if recent:
        sections.append(Section("recent", w("Latest incidents"), (Links(recent),)))
    return Page(
        path="index.html",
        kind="home",
        id="",
        title=w("Training run in trouble?"),
        lead=w("Find the curve that looks like yours. Each page begins with what to do in the next five minutes."),
        sections=tuple(sections),
        template="home.html",
        searched=False,
    )


def _short(text: str) -> str:
    """The first sentence, cut between words where it is long: a card is for a glance."""
    for end in (". ", "。", "; ", "；"):
        if end in text:
            text = text.split(end)[0].rstrip(".") + ("。" if end in "。；" else ".")
            break
    if units(text) <= CARD:
        return text
    kept = ""
    for piece in pieces(text):
        if units(kept + piece) > CARD:
            break
        kept += piece
    return kept.rstrip(" ,，、(（") + " …"


def symptoms_page(shelf: Shelf) -> Page:
    w = shelf.w
    cards = tuple(Card(shelf.ref("symptoms", s.id), s.summary, shape=s.id) for s in symptoms_in_order(shelf))
    return _list_page(shelf, "symptoms", w("What a person sees first; the door of every diagnosis."), (
        Section("list", w("All symptoms"), (Cards(cards),)),
    ))  # fmt: skip


def causes_page(shelf: Shelf) -> Page:
    w = shelf.w
    groups = [
        (layer, shelf.layer_word(layer), tuple((shelf.ref("causes", c.id), c.summary, "") for c in causes))
        for layer, causes in shelf.causes_by_layer.items()
    ]
    return _listing(
        shelf, "causes", w("Mechanisms whose removal ends an incident, by layer."), groups, w("Filter causes")
    )


def signals_page(shelf: Shelf) -> Page:
    w = shelf.w
    kinds = ("metrics", "log", "config", "probe", "ask", "experiment")
    groups = _grouped(
        shelf.book.signals.values(),
        lambda s: s.kind,
        kinds,
        shelf.way_word,
        lambda s: (shelf.ref("signals", s.id), s.question, shelf.signal_price(s)),
    )
    return _listing(
        shelf,
        "signals",
        w("Observations that tell causes apart, by how they are obtained."),
        groups,
        w("Filter signals"),
    )


def fixes_page(shelf: Shelf) -> Page:
    w = shelf.w
    words = {"first-aid": w("first aid"), "repair": w("repair"), "prevention": w("prevention")}
    groups = _grouped(
        shelf.book.fixes.values(),
        lambda f: f.kind,
        tuple(words),
        lambda kind: words[kind],
        lambda f: (shelf.ref("fixes", f.id), f.summary, f"{shelf.minutes(f.minutes)} · {shelf.risk_word(f.risk)}"),
    )
    return _listing(
        shelf,
        "fixes",
        w("Actions with their price, their risk, a way to verify and a way back."),
        groups,
        w("Filter fixes"),
    )


def cases_page(shelf: Shelf) -> Page:
    w = shelf.w
    order = (*SYMPTOMS, "")
    groups = _grouped(
        shelf.book.cases.values(),
        lambda c: shape_of(c) if shape_of(c) in order else "",
        order,
        lambda name: (shelf.title("symptoms", name) or name) if name else w("other"),
        lambda c: (shelf.ref("cases", c.id), shelf.w.comma.join(_cause_titles(shelf, c.causes)), ""),
    )
    lead = w("Published incidents. Each one shows its story, its wrong turns, and how the engine walks it.")
    return _listing(shelf, "cases", lead, groups, w("Filter cases"))


def _cause_titles(shelf: Shelf, names: Iterable[str]) -> list[str]:
    from playbook.faces.pages.parts import class_word

    return [shelf.title("causes", name) or class_word(shelf, name) for name in names]


def checklists_page(shelf: Shelf) -> Page:
    w = shelf.w
    rows: Rows = tuple(
        (shelf.ref("checklists", c.id), c.summary, w("{n} items", n=len(c.items)))
        for c in shelf.book.kind("checklists").values()
    )
    return _listing(
        shelf, "checklists", w("To tick before a run and after an incident."), [("all", w("All checklists"), rows)], ""
    )


def questions_page(shelf: Shelf) -> Page:
    w = shelf.w
    groups = _grouped(
        shelf.book.kind("questions").values(),
        lambda q: q.difficulty,
        (1, 2, 3, 4),
        lambda n: w("difficulty {n} of 4", n=n),
        lambda q: (shelf.ref("questions", q.id), "", ""),
        lambda n: f"difficulty-{n}",
    )
    return _listing(
        shelf,
        "questions",
        w("Questions to test yourself with; `playbook quiz` asks them on a schedule."),
        groups,
        w("Filter questions"),
    )


def _grouped(
    entries: Iterable[Any],
    key: Callable[[Any], Any],
    order: tuple[Any, ...],
    heading: Callable[[Any], str],
    row: Callable[[Any], tuple[Ref, str, str]],
    anchor: Callable[[Any], str] = str,
) -> list[tuple[str, str, Rows]]:
    live = [e for e in entries if e.status != "deprecated"]
    groups = []
    for name in order:
        rows = tuple(row(e) for e in live if key(e) == name)
        if rows:
            groups.append((anchor(name) or "other", heading(name), rows))
    return groups


def _listing(shelf: Shelf, kind: str, lead: str, groups: list[tuple[str, str, Rows]], label: str) -> Page:
    filled = [g for g in groups if g[2]]
    if filled:
        section = Section("list", "", (Listing(tuple(filled), label),))
    else:
        section = Section("list", "", (Prose(shelf.w("Nothing here yet.")),))
    return _list_page(shelf, kind, lead, (section,))


def _list_page(shelf: Shelf, kind: str, lead: str, sections: tuple[Section, ...]) -> Page:
    return Page(
        path=shelf.index(kind).url,
        kind=kind,
        id="",
        title=shelf.kind_word(kind),
        lead=lead,
        sections=drop_empty(sections),
        searched=False,
    )


def map_page(shelf: Shelf) -> Page:
    """Rows are causes by layer, columns are symptoms, dots say how often."""
    w = shelf.w
    symptoms = [s for s in symptoms_in_order(shelf) if s.id != "healthy"]
    groups = []
    for layer in LAYERS:
        rows = []
        for cause in shelf.causes_by_layer.get(layer, ()):
            cells = tuple(
                (shelf.often_level(cause.shows.get(s.id, "")), shelf.often_word(cause.shows.get(s.id, "")))
                for s in symptoms
            )
            rows.append((shelf.ref("causes", cause.id), cells))
        if rows:
            groups.append((layer, shelf.layer_word(layer), tuple(rows)))
    matrix = Matrix(
        tuple(shelf.ref("symptoms", s.id) for s in symptoms),
        tuple(groups),
        w("How often a cause shows a symptom: the larger the dot, the more often."),
    )
    return Page(
        path="map.html",
        kind="map",
        id="",
        title=w("Map"),
        lead=w("Every cause against every symptom. Each cause's own page draws its neighbourhood."),
        sections=(Section("map", "", (matrix,)),),
        searched=False,
    )
