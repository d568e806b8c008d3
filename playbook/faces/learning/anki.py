"""The cards as an Anki deck. Ids of model, decks and notes are fixed, so that a later deck updates the notes in place.

Anki takes a note over where its time is newer than that of the note it has: every deck bears the time of its making.
Each language has a deck and notes of its own, so that both may lie in one collection. genanki is an extra; the pictures
are the same SVG as on the pages.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterable
from html import escape
from pathlib import Path
from typing import Any

from playbook.errors import PlaybookError, only_file, reason
from playbook.faces.learning.curves import as_svg
from playbook.faces.words import ENGLISH, Words
from playbook.workflow.learning.quiz import TEMPLATES
from playbook.workflow.learning.quiz_cards import Card

# Never to be changed: Anki knows our notes by them.
MODEL_ID = 1_706_245_001
DECK_ID = 1_706_245_002
_OF_LANGUAGE = 1_706_300_000  # deck of another language: this and a number made of its code

_FRONT = "<div class='kind'>{{Kind}}</div><div class='ask'>{{Ask}}</div>{{Facts}}{{Picture}}{{Choices}}"
_BACK = "{{FrontSide}}<hr id='answer'>{{Answer}}<div class='links'>{{Links}}</div>"
_CSS = """
.card{font-family:system-ui,sans-serif;font-size:17px;line-height:1.45;text-align:left;color:#1f2328;background:#fff}
.nightMode.card{color:#e6edf3;background:#0d1117}.kind,.links{font-size:13px;color:#6e7781;margin:.3em 0}
.ask{font-weight:600}.right{color:#1a7f37}.wrong{color:#57606a}img{max-width:100%;background:#fff}
"""


def export(cards: Iterable[Card], target: Path, w: Words, now: float) -> int:
    """Write the deck, made at `now` (seconds since 1970); returns the number of notes.

    Raises `PlaybookError` without genanki or a writable target.
    """
    try:
        import genanki
    except ImportError:
        raise PlaybookError(
            "quiz export", "needs the package genanki", "pip install 'playbook[anki]' (or uv add genanki)"
        ) from None
    if target.suffix != ".apkg":
        raise PlaybookError(str(target), "is no Anki package", "name a file that ends in .apkg")
    model = genanki.Model(
        MODEL_ID,
        "playbook card",
        fields=[{"name": name} for name in ("Id", "Kind", "Ask", "Facts", "Picture", "Choices", "Answer", "Links")],
        templates=[{"name": "card", "qfmt": _FRONT, "afmt": _BACK}],
        css=_CSS,
    )
    deck = genanki.Deck(deck_id(w.code), "playbook" if w.code == ENGLISH else f"playbook ({w.code})")
    count = 0
    with tempfile.TemporaryDirectory() as folder:
        media = []
        for card in cards:
            picture = ""
            if card.picture is not None:
                path = Path(folder) / f"playbook-{card.id.replace(':', '-')}.svg"
                path.write_text(as_svg(card.picture), "utf-8")
                media.append(str(path))
                picture = f'<img src="{path.name}" alt="{escape(card.picture.alt)}">'
            deck.add_note(_note(genanki, model, card, picture, w))
            count += 1
        if not count:
            raise PlaybookError("quiz export", "no card fits", "leave out --topic or --level")
        try:
            target.parent.mkdir(parents=True, exist_ok=True)
            genanki.Package(deck, media_files=media).write_to_file(str(only_file(target)), timestamp=now)
        except OSError as error:
            raise PlaybookError(str(target), f"cannot be written: {reason(error)}", "name another file") from None
    return count


def deck_id(code: str) -> int:
    """The deck of a language."""
    return DECK_ID if code == ENGLISH else _OF_LANGUAGE + int.from_bytes(code.encode()[:3], "big") % 90_000


def _note(genanki: Any, model: Any, card: Card, picture: str, w: Words) -> Any:
    facts = "".join(f"<li>{_text(f)}</li>" for f in card.facts)
    shown = [o.text for o in card.options] or (list(card.shown_steps) if card.form == "order" else [])
    choices = "".join(f"<li>{_text(c)}</li>" for c in shown)
    fields = [
        card.id,
        f"{escape(w(TEMPLATES[card.spec.template].title))} {'★' * card.spec.level}",
        _text(card.ask),
        f"<ul>{facts}</ul>" if facts else "",
        picture,
        f"<ol>{choices}</ol>" if choices else "",
        _answer(card, w),
        escape(", ".join(card.about)),
    ]
    tags = sorted({_tag(t) for t in card.spec.topics})
    own = () if w.code == ENGLISH else (w.code,)
    return genanki.Note(model=model, fields=fields, guid=genanki.guid_for("playbook", card.id, *own), tags=tags)


def _answer(card: Card, w: Words) -> str:
    if card.options:
        rows = []
        for option in card.options:
            style = "right" if option is card.options[card.best] else "wrong"
            sign = "✓" if style == "right" else "✗"
            rows.append(f"<li class='{style}'>{sign} <b>{_text(option.text)}</b><br>{_text(option.why)}</li>")
        return f"<ol>{''.join(rows)}</ol>"
    if card.form == "order":
        return f"<ol>{''.join(f'<li>{_text(s)}</li>' for s in card.steps)}</ol>"
    if card.number is not None:
        return f"<b>{card.number.value:g} {escape(card.number.unit)}</b><br>{_text(card.explain)}"
    if card.points:
        rows = [f"<li>[{p.depth}] <b>{_text(p.label)}</b>: {_text(p.text)}</li>" for p in card.points]
        traps = "".join(f"<li>{escape(w('trap'))}: {_text(t)}</li>" for t in card.traps)
        return f"<ul>{''.join(rows)}</ul>" + (f"<ul class='wrong'>{traps}</ul>" if traps else "")
    return _text(card.explain)


def _text(text: str) -> str:
    return escape(text).replace("\n", "<br>").replace("{{", "{ {")


def _tag(topic: str) -> str:
    return "".join(c if c.isalnum() or c in "-_" else "-" for c in topic)
