"""An entry of the book as text for the terminal, and where it leads: headings, paragraphs, commands, links."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from rich.cells import cell_len
from textual.content import Content

from playbook.faces.tui.widgets import paragraphs
from playbook.faces.words import Words
from playbook.knowledge.entries import Case, Cause, Entry, Fix, Question, Signal, Symptom
from playbook.knowledge.loader import Book

KINDS = ("symptoms", "causes", "signals", "fixes", "cases", "questions", "checklists")


@dataclass(frozen=True, slots=True)
class Link:
    """Another entry; `why` says how it hangs together with this one."""

    kind: str
    id: str
    title: str
    why: str


def page(book: Book, kind: str, entry_id: str, w: Words) -> Content:
    """The whole entry."""
    entry = book.kind(kind)[entry_id]
    head = [
        Content.styled(entry.title, "bold"),
        Content.styled(
            f"{w(kind)} / {entry.id}" + ("" if entry.status == "stable" else f" · {w(entry.status)}"),
            "$foreground-muted",
        ),
    ]
    body = _BODIES.get(type(entry), _plain)(entry, w)
    tail: list[Content] = []
    if entry.note:
        tail += _section(w("Note"), entry.note)
    tail += _section(w("Sources"), ", ".join(entry.sources))
    return paragraphs([*head, *body, *tail])


def _section(title: str, text: str | Iterable[str]) -> list[Content]:
    parts = [text] if isinstance(text, str) else list(text)
    parts = [" ".join(part.split()) for part in parts if part]
    if not parts:
        return []
    lines = [Content(parts[0])] if isinstance(text, str) else [_item(part) for part in parts]
    return [Content(""), Content.styled(title, "bold $accent"), *lines]


def _item(text: str) -> Content:
    return Content.assemble(("• ", "$accent"), text)


def _pairs(title: str, rows: Iterable[tuple[str, str]]) -> list[Content]:
    found = [(name, " ".join(str(text).split())) for name, text in rows]
    if not found:
        return []
    lines = [Content.assemble((name, "bold $primary"), f"  {text}") for name, text in found]
    return [Content(""), Content.styled(title, "bold $accent"), *lines]


def _commands(commands: Iterable[Any], w: Words) -> list[Content]:
    lines: list[Content] = []
    for command in commands:
        changes = f"  ! {w('changes something')}" if command.mutates else ""
        lines += [Content(""), Content.styled(f"{w('Command')}{changes}", "bold $accent")]
        lines += [Content.assemble(("┃ ", "$primary"), line) for line in command.run.rstrip().splitlines()]
        if command.expect:
            lines.append(Content.styled(f"→ {' '.join(command.expect.split())}", "$foreground-muted"))
    return lines


def _symptom(e: Symptom, w: Words) -> Iterator[Content]:
    yield Content(" ".join(e.summary.split()))
    yield from _section(w("What it looks like"), e.looks_like)
    yield from _section(w("What it is not"), e.not_this)
    yield from _section(w("What it costs to go on"), e.impact)
    yield from _section(w("When to stop"), e.stop_loss)
    yield from _section(w("Escalate"), e.escalate)


def _signal(e: Signal, w: Words) -> Iterator[Content]:
    yield Content.styled(e.question, "bold")
    yield from _pairs(w("Outcomes"), e.outcomes.items())
    yield from _section(w("how"), e.how)
    yield from _commands(e.commands, w)
    yield from _section(w("Log next time"), e.log_next_time)


def _cause(e: Cause, w: Words) -> Iterator[Content]:
    yield Content(" ".join(e.summary.split()))
    yield from _section(w("How it makes the symptom"), e.mechanism)
    yield from _pairs(w("Shows as"), ((name, w(word)) for name, word in e.shows.items()))
    telling = [(s, link) for s, link in e.expects.items() if link.why]
    telling += [(s, link) for s, link in e.expects.items() if not link.why]
    yield from _pairs(
        w("Evidence"),
        (
            (
                signal,
                ", ".join(f"{o}: {w(word)}" for o, word in link.states.items()) + (f". {link.why}" if link.why else ""),
            )
            for signal, link in telling
        ),
    )
    yield from _pairs(w("Impossible with"), ((f"{x.signal} = {x.outcome}", x.why) for x in e.excludes))
    yield from _pairs(w("Taken for"), ((m.cause, m.tell) for m in e.mistaken_for))
    yield from _pairs(w("Often together with"), ((c.cause, c.why) for c in e.couples))
    yield from _section(w("Found earlier by"), e.earlier)
    yield from _section(w("Earlier results"), e.affects_results)
    yield from _section(w("Regression test"), e.regression)


def _fix(e: Fix, w: Words) -> Iterator[Content]:
    yield Content(" ".join(e.summary.split()))
    yield Content.styled(f"{w(e.kind)} · {e.minutes:.0f} min · {w('risk')} {w(e.risk)}", "$foreground-muted")
    yield Content("")
    yield Content.styled(w("Steps"), "bold $accent")
    for place, step in enumerate(e.steps, 1):
        yield Content.assemble((f"{place}. ", "$accent"), " ".join(step.split()))
    yield from _commands(e.commands, w)
    for name, snippet in e.settings.items():
        yield Content("")
        yield Content.styled(name, "bold $accent")
        for line in snippet.rstrip().splitlines():
            yield Content.assemble(("┃ ", "$primary"), line)
    yield from _section(w("Cured when"), e.cured)
    yield from _section(w("Not cured when"), e.not_cured)
    yield from _section(w("Way back"), e.undo)


def _case(e: Case, w: Words) -> Iterator[Content]:
    yield Content(" ".join(e.story.split()))
    yield from _pairs(w("Context"), ((k, str(v)) for k, v in e.context.items()))
    yield from _pairs(w("What was found"), e.answers.items())
    yield from _section(w("Cause"), e.causes)
    yield from _section(w("Wrong turns"), e.wrong_turns)
    yield from _section(w("Repair"), e.fix)
    yield from _section(w("Found earlier by"), e.earlier)


def _question(e: Question, w: Words) -> Iterator[Content]:
    yield Content(" ".join(e.ask.split()))
    yield from _section(w("Key points"), e.key_points)
    yield from _section(w("Traps"), e.traps)
    yield from _pairs(w("Choices"), ((c.text, f"{c.why}{f' → {c.about}' if c.about else ''}") for c in e.choices))
    if e.number is not None:
        yield from _pairs(w("answer"), ((f"{e.number.value:.10g} {e.number.unit}".rstrip(), e.number.why),))


def _plain(e: Any, w: Words) -> Iterator[Content]:
    yield Content(" ".join(str(getattr(e, "summary", "")).split()))
    yield from _pairs(w("Items"), ((item.text, item.why) for item in getattr(e, "items", ())))


_BODIES: dict[type[Entry], Any] = {
    Symptom: _symptom,
    Signal: _signal,
    Cause: _cause,
    Fix: _fix,
    Case: _case,
    Question: _question,
}


def command_of(book: Book, kind: str, entry_id: str) -> str:
    """The first command or setting of the entry, to be copied."""
    entry = book.kind(kind)[entry_id]
    for command in getattr(entry, "commands", ()):
        return str(command.run).rstrip()
    for snippet in getattr(entry, "settings", {}).values():
        return str(snippet).rstrip()
    return ""


def leads_to(book: Book, kind: str, entry_id: str) -> list[Link]:
    """Entries that this one names or that name it, most useful kind first."""
    from playbook.knowledge.graph import links

    found: dict[tuple[str, str], str] = {}
    here = (kind, entry_id)
    for arrow in links(book):
        other = arrow.end if arrow.start == here else arrow.start if arrow.end == here else None
        if other is not None and other != here and other[1] in book.kind(other[0]):
            found.setdefault(other, arrow.kind)
    place = {name: k for k, name in enumerate(("fixes", "causes", "symptoms", "signals", "cases", "questions"))}
    rows = [Link(k, i, book.kind(k)[i].title, why) for (k, i), why in found.items()]
    return sorted(rows, key=lambda r: (place.get(r.kind, 9), r.title))


def search(book: Book, words: str, most: int = 60) -> list[tuple[str, str, str]]:
    """(kind, id, title) of the entries that fit, best first; without words the symptoms and causes."""
    entries = [(kind, entry) for kind in KINDS for entry in book.kind(kind).values()]
    if not words.strip():
        return [(kind, e.id, e.title) for kind, e in entries if kind in ("symptoms", "causes")][:most]
    from rapidfuzz import fuzz, process, utils

    texts = [f"{e.title} {e.id.replace('-', ' ')} {e.id}" for _, e in entries]
    wanted = utils.default_process(words)
    hits = process.extract(
        wanted, texts, scorer=fuzz.WRatio, processor=utils.default_process, limit=most, score_cutoff=55
    )
    ranked = [(score, index) for _, score, index in hits]
    # A whole word in the text of an entry counts, too, where its title does not have it.
    terms = [t for t in wanted.split() if cell_len(t) > 2]
    seen = {index for _, index in ranked}
    for index, (_, entry) in enumerate(entries):
        if index not in seen and terms:
            text = " ".join(str(getattr(entry, name, "")) for name in ("summary", "question", "mechanism")).lower()
            if all(t in text for t in terms):
                ranked.append((50.0, index))
    ranked.sort(key=lambda hit: (-hit[0], hit[1]))
    return [(entries[i][0], entries[i][1].id, entries[i][1].title) for _, i in ranked[:most]]
