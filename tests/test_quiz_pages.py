"""A question where people read it: its page of the site and its text on the terminal, in both languages."""

from __future__ import annotations

import re

import pytest

from playbook.faces.pages.numbers import Numbers
from playbook.faces.pages.shelf import Shelf
from playbook.faces.pages.study import question_page
from playbook.faces.site.render import Renderer
from playbook.faces.tui.entry_text import page as terminal_page
from playbook.faces.words import words
from playbook.knowledge.loader import Book
from playbook.knowledge.overlay import translate


def drawn(book: Book, code: str, question: str) -> str:
    shelf = Shelf(translate(book, code), Numbers(book), words(code))
    entry = shelf.book.kind("questions")[question]
    return Renderer(shelf, code, ("en", "zh")).page(question_page(shelf, entry))


@pytest.mark.parametrize(
    ("code", "says"), [("en", ("in steps", "50 % off", "100 to 200 steps")), ("zh", ("步", "100 到 200 步"))]
)
def test_a_number_is_folded_away_with_its_reason(real_book: Book, code: str, says: tuple[str, ...]) -> None:
    html = drawn(real_book, code, "stop-loss-window")
    before, _, after = html.partition(f"<summary>{words(code)('Show the answer')}</summary>")
    assert after, "the answer is behind a fold"
    assert re.search(r"<strong>200 (steps|步)</strong>", after)
    assert not re.search(r"\b200\b", before.partition('class="quiz"')[2]), "the question gives nothing away"
    assert all(text in html for text in says)


@pytest.mark.parametrize(
    ("question", "shown"),
    [("largest-fp16-number", "65,504"), ("largest-fp32-number", "3.4e+38"), ("attention-scale-factor", "11.31")],
)
def test_numbers_are_written_as_people_write_them(real_book: Book, question: str, shown: str) -> None:
    assert f"<strong>{shown} </strong>" in drawn(real_book, "en", question).replace(
        f"{shown}</strong>", f"{shown} </strong>"
    )


def test_a_choice_leads_to_its_entry(real_book: Book) -> None:
    led = [(q.id, c.about) for q in real_book.kind("questions").values() for c in q.choices if c.about]
    assert len(led) > 20
    for question, about in led[:: len(led) // 10]:
        assert re.search(rf'→ <a [^>]*href="\.\./\w+/{about}\.html"', drawn(real_book, "en", question)), (
            question,
            about,
        )


@pytest.mark.parametrize("code", ["en", "zh"])
def test_the_terminal_shows_all_of_a_question(real_book: Book, code: str) -> None:
    book, w = translate(real_book, code), words(code)
    for name, entry in book.kind("questions").items():
        text = " ".join(terminal_page(book, "questions", name, w).plain.split())
        flat = [*entry.traps, *(c.why for c in entry.choices), *(c.about for c in entry.choices if c.about)]
        if entry.number is not None:
            flat += [entry.number.why, f"{entry.number.value:.10g}", entry.number.unit]
        assert all(" ".join(part.split()) in text for part in flat), name
