"""Pages to learn from and to tick: checklists and quiz questions."""

from __future__ import annotations

from playbook.faces.pages.blocks import Choice, Facts, Page, Plain, Prose, Quiz, Section, TickItem, Ticks
from playbook.faces.pages.parts import drop_empty, notices, refs_cell, sources_section
from playbook.faces.pages.shelf import Shelf
from playbook.knowledge.entries import Checklist, Question


def checklist_page(shelf: Shelf, checklist: Checklist) -> Page:
    w = shelf.w
    items = []
    for item in checklist.items:
        items.append(
            TickItem(
                anchor=item.id,
                text=item.text,
                why=item.why,
                refs=tuple(shelf.ref("causes", name) for name in item.prevents),
                snippets=tuple(item.snippets.items()),
            )
        )
    checked = [item.id for item in checklist.items if item.config or item.relation]
    sections = [Section("list", w("To tick"), (Ticks(checklist.id, tuple(items)),))]
    if checked:
        text = w("`playbook preflight CONFIG` checks {n} of these by itself.", n=len(checked))
        sections.append(Section("itself", w("What the program reads by itself"), (Prose(text),)))
    return Page(
        path=f"checklists/{checklist.id}.html",
        kind="checklists",
        id=checklist.id,
        title=checklist.title,
        lead=checklist.summary,
        sections=(
            *sections,
            sources_section(shelf, checklist, (key for item in checklist.items for key in item.sources)),
        ),
        crumbs=(shelf.index("checklists"),),
        notices=notices(shelf, checklist, "checklists"),
    )


def question_page(shelf: Shelf, question: Question) -> Page:
    w = shelf.w
    quiz = Quiz(
        ask=question.ask,
        choices=tuple(
            Choice(c.text, c.right, c.why, shelf.any_ref(c.about) if c.about else None) for c in question.choices
        ),
        key_points=tuple(question.key_points),
        traps=tuple(question.traps),
        number=question.number,
    )
    about = [shelf.any_ref(name) or Plain(name) for name in question.about]
    return Page(
        path=f"quiz/{question.id}.html",
        kind="questions",
        id=question.id,
        title=question.title,
        lead="",
        sections=drop_empty(
            [
                Section("question", w("Question"), (quiz,)),
                Section("about", w("Read on"), (Facts(((w("About"), refs_cell(about)),)),)),
                sources_section(shelf, question),
            ]
        ),
        crumbs=(shelf.index("questions"),),
        tags=(Plain(w("difficulty {n} of 4", n=question.difficulty)),),
        notices=notices(shelf, question, "questions"),
    )
