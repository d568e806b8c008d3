"""`playbook quiz`: cards with spaced repetition, interview practice, an Anki deck, the progress."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from playbook.errors import PlaybookError
from playbook.faces.cli import common

if TYPE_CHECKING:
    from playbook.faces.words import Words
    from playbook.workflow.learning.quiz import Deck
    from playbook.workflow.learning.quiz_cards import Card
    from playbook.workflow.learning.quiz_marks import Mark

_topic = click.option(
    "--topic", metavar="WORD", help="A layer, symptom, kind of card, class or entry id (see `quiz topics`)."
)
_level = click.option("--level", type=click.IntRange(1, 4), help="Difficulty: 1 easy to 4 expert.")
_lang = click.option("--lang", metavar="CODE", help="Language: en or zh.")


@click.group(
    cls=common.Group,
    invoke_without_command=True,
    short_help="Cards with spaced repetition, interview practice, an Anki deck.",
)
@_topic
@_level
@click.option("--due", is_flag=True, help="Only cards that are due.")
@click.option("--count", type=click.IntRange(1), help="How many (default 10; 4 in an interview).")
@click.option(
    "--new-per-day",
    "new",
    type=click.IntRange(0),
    metavar="N",
    help="New cards per day at most; cards that are due always come.  [default: 20]",
)
@click.option("--seed", type=int, help="Everybody who gives the same number gets the same sheet.")
@click.option("--interview", is_flag=True, help="Spoken questions: time, free answer, key points, follow-ups.")
@click.option(
    "--answers", type=click.Path(path_type=Path), metavar="FILE", help="Take the answers from a file (YAML or JSON)."
)
@click.option("--report", type=click.Path(path_type=Path), metavar="FILE", help="Write a page to print (.html or .md).")
@_lang
@common.json_option
@common.knowledge_option
@common.db_option
@click.pass_context
def quiz(
    ctx: click.Context,
    topic: str | None,
    level: int | None,
    due: bool,
    count: int | None,
    new: int | None,
    seed: int | None,
    interview: bool,
    answers: Path | None,
    report: Path | None,
    lang: str | None,
    as_json: bool,
    packs: tuple[Path, ...],
    db: str | None,
) -> int:
    """Learn the book: what is due first, then what is new. Every answer explains itself and says where to read on.

    \b
    playbook quiz --topic numerics --level 2     ten cards, on the terminal
    playbook quiz --seed 7 --report sheet.html   the same sheet for everybody
    playbook quiz --interview                    spoken questions with key points
    """
    if ctx.invoked_subcommand is not None:
        return 0
    deck, w = _deck(packs, lang)
    if interview:
        return _interview(deck, w, topic, level, count or 4, seed, answers, report, as_json)
    return _sheet(deck, w, topic, level, due, count, new, seed, answers, report, as_json, db)


def _deck(packs: tuple[Path, ...], lang: str | None) -> tuple[Deck, Words]:
    from playbook.faces.words import words
    from playbook.workflow.book import open_book
    from playbook.workflow.learning.quiz import Deck
    from playbook.workflow.learning.quiz_cards import Ground

    w = words(lang)
    return Deck(Ground(open_book(packs, lang=w.code), w)), w


def _sheet(
    deck: Deck,
    w: Words,
    topic: str | None,
    level: int | None,
    due: bool,
    count: int | None,
    new: int | None,
    seed: int | None,
    answers: Path | None,
    report: Path | None,
    as_json: bool,
    db: str | None,
) -> int:
    from datetime import UTC, datetime

    from playbook.faces.learning import quiz_loop
    from playbook.faces.learning.quiz_screen import mark_document, print_end
    from playbook.faces.learning.replies import replies
    from playbook.workflow.learning.progress import NEW_A_DAY, Progress
    from playbook.workflow.learning.quiz import COUNT

    given = replies(answers) if answers is not None else None
    # Answers from a file may be given again and again: their due dates are not spread by chance.
    progress = Progress(db, fuzz=given is None)
    if isinstance(given, dict):
        cards = [_named(deck, item) for item in given]
    else:
        most = NEW_A_DAY if new is None else new
        cards = deck.sheet(progress, topic, level, due, count or COUNT, seed, datetime.now(UTC), most)
    asks = given is None and not as_json and sys.stdin.isatty()
    out = common.console()
    marks: list[Mark | None] = [None] * len(cards)
    if given is not None or asks:
        marks = quiz_loop.run(cards, given, progress, out, w, quiet=as_json)
    elif not as_json:
        quiz_loop.show(cards, out, w)
    if report is not None:
        from playbook.faces.learning import quiz_pages
        from playbook.faces.printable import write

        write(report, w("Quiz"), quiz_pages.sheet(cards, marks, seed, w), w.code)
        click.echo(w("written: {path}", path=report), err=True)
    done = [m for m in marks if m is not None]
    if as_json:
        rows = [mark_document(card, m) for card, m in zip(cards, marks, strict=True)]
        score = sum(m.score for m in done) / len(done) if done else None
        common.emit({"cards": rows, "answered": len(done), "score": score, "seed": seed})
    elif given is not None or asks:
        print_end(done, out, w)
    elif due and not cards:
        click.echo(w("nothing is due"))
    if not cards and not due and not as_json:
        click.echo(w("nothing is due, and the new cards of today are done (--new-per-day)"))
    return 0


def _named(deck: Deck, item: str) -> Card:
    from playbook.workflow.session import did_you_mean

    card = deck.card(item)
    if card is None:
        raise PlaybookError(item, "is no card of the book", did_you_mean(item, deck.specs))
    return card


def _interview(
    deck: Deck,
    w: Words,
    topic: str | None,
    level: int | None,
    count: int,
    seed: int | None,
    answers: Path | None,
    report: Path | None,
    as_json: bool,
) -> int:
    from playbook.faces.learning import quiz_loop
    from playbook.faces.learning.quiz_screen import mark_document, print_interview_end
    from playbook.faces.learning.replies import replies
    from playbook.workflow.learning import interview as use_case

    given = replies(answers) if answers is not None else None
    number = seed if seed is not None else _fresh_seed()
    asked = use_case.plan(deck, topic, level, count, number)
    parts = use_case.frame(deck)
    out = common.console()
    if given is None and (as_json or not sys.stdin.isatty()):
        if as_json:
            common.emit({"questions": [mark_document(c, None) for c, _ in asked], "seed": number})
        else:
            quiz_loop.show_interview(asked, out, w)
        return 0
    sittings = quiz_loop.interview(asked, given, parts, out, w, quiet=as_json)
    if report is not None:
        from playbook.faces.learning import quiz_pages
        from playbook.faces.printable import write

        labels = tuple(p.label for p in parts)
        write(report, w("Interview"), quiz_pages.interview(sittings, labels, number, w), w.code)
        click.echo(w("written: {path}", path=report), err=True)
    if as_json:
        rows = [
            {**mark_document(s.card, s.mark), "seconds": s.seconds, "over_time": s.over_time, "frame": list(s.frame)}
            for s in sittings
        ]
        common.emit({"questions": rows, "score": use_case.total(sittings), "seed": number})
    else:
        print_interview_end(sittings, out, w)
    return 0


def _fresh_seed() -> int:
    import secrets

    return secrets.randbelow(100_000)


@quiz.command()
@click.option(
    "--out", "target", required=True, type=click.Path(path_type=Path), metavar="FILE", help="The deck, FILE.apkg."
)
@_topic
@_level
@_lang
@common.knowledge_option
def export(target: Path, topic: str | None, level: int | None, lang: str | None, packs: tuple[Path, ...]) -> int:
    """Write the cards as an Anki deck, with pictures. A later deck updates the notes of an earlier one."""
    import time

    from playbook.faces.learning.anki import export as write

    deck, w = _deck(packs, lang)
    cards = (card for spec in deck.matching(topic, level) if (card := deck.card(spec.id)) is not None)
    count = write(cards, target, w, time.time())
    click.echo(w("{n} cards in {path}", n=count, path=target))
    return 0


@quiz.command(short_help="What is due, and where the weak spots are.")
@_lang
@common.json_option
@common.knowledge_option
@common.db_option
def progress(lang: str | None, as_json: bool, packs: tuple[Path, ...], db: str | None) -> int:
    """What is due, where the weak spots are, and how well stated probabilities came true."""
    from datetime import UTC, datetime

    from playbook.faces.learning.quiz_screen import print_progress
    from playbook.knowledge.entries import LAYERS, SYMPTOMS
    from playbook.workflow.learning.progress import Progress, brier, calibration, day_begin, weak_spots
    from playbook.workflow.learning.quiz import TEMPLATES

    deck, w = _deck(packs, lang)
    store = Progress(db)
    answers = store.answers()
    due = [item for item in store.due(datetime.now(UTC)) if item in deck.specs]
    today = store.new_since(day_begin(datetime.now(UTC)))
    known = [item for item in store.seen() if item in deck.specs]
    if as_json:
        spots = {
            name: [{"topic": s.topic, "answers": s.answers, "score": s.score} for s in weak_spots(answers, among)]
            for name, among in (("layer", LAYERS), ("symptom", SYMPTOMS), ("template", tuple(TEMPLATES)))
        }
        common.emit({
            "answers": len(answers), "due": len(due), "met": len(known), "new_today": today,
            "cards": len(deck.specs), "weak": spots,
            "brier": brier(answers), "calibration": calibration(answers),
        })  # fmt: skip
    else:
        print_progress(answers, len(due), len(known), len(deck.specs), common.console(), w)
    return 0


@quiz.command(short_help="What --topic takes.")
@_lang
@common.json_option
@common.knowledge_option
def topics(lang: str | None, as_json: bool, packs: tuple[Path, ...]) -> int:
    """What --topic takes: kinds of cards, layers, symptoms (and any class or entry id)."""
    from playbook.faces.learning.quiz_screen import print_topics

    deck, w = _deck(packs, lang)
    if as_json:
        common.emit(deck.topics())
    else:
        print_topics(deck.topics(), common.console(), w)
    return 0
