"""Asking cards one by one: of a person at the terminal, or of a file of answers."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Literal

from rich.console import Console
from rich.text import Text

from playbook.errors import PlaybookError
from playbook.faces.learning.countdown import Countdown
from playbook.faces.learning.quiz_screen import HELP, print_card, print_interview_question, print_mark, print_sat
from playbook.faces.learning.replies import Reply, ask, ask_many
from playbook.faces.words import ENGLISH, Words
from playbook.workflow.learning.interview import MINUTES, Sat, sit
from playbook.workflow.learning.progress import Progress
from playbook.workflow.learning.quiz import take
from playbook.workflow.learning.quiz_cards import Card, Point
from playbook.workflow.learning.quiz_marks import Mark, heard, mark

_LEAVE = ("q", "quit", "exit")
_BACK = ("u", "undo")
_EASY = " e"  # behind an answer


def show(cards: Sequence[Card], out: Console, w: Words) -> None:
    """The sheet without its key: what is printed where nobody can be asked."""
    for place, card in enumerate(cards, 1):
        print_card(card, out, w, place, len(cards))


def show_interview(asked: Sequence[tuple[Card, bool]], out: Console, w: Words) -> None:
    for place, (card, opening) in enumerate(asked, 1):
        print_interview_question(card, opening, out, w, place, len(asked))


def run(
    cards: Sequence[Card],
    given: dict[str, Reply] | list[Reply] | None,
    progress: Progress,
    out: Console,
    w: Words,
    quiet: bool = False,
) -> list[Mark | None]:
    """Ask, mark, explain, store. None for a card that was not answered. Raises for a file's answer that is none."""
    marks: list[Mark | None] = []
    while len(marks) < len(cards):
        place = len(marks)
        card = cards[place]
        if not quiet:
            print_card(card, out, w, place + 1, len(cards))
            if given is None and not place:
                keys = w("u takes back the last answer, q leaves, an answer followed by e was easy")
                out.print(Text(keys, style="dim"))
        answered = _person(card, out, w) if given is None else _from_file(given, card, place)
        if answered == "leave":
            break
        if answered == "back":
            _take_back(marks, progress, out, w)
            continue
        if answered == "none":
            marks.append(None)
            continue
        due = take(progress, card, answered.mark, datetime.now(UTC), answered.seconds, answered.easy)
        if not quiet:
            print_mark(card, answered.mark, out, w, due)
        marks.append(answered.mark)
        if given is None and len(marks) == len(cards):
            said = ask(out, w("Enter ends, u takes back the last answer"))
            if said is not None and said.lower() in _BACK:
                _take_back(marks, progress, out, w)
    return marks + [None] * (len(cards) - len(marks))


def _take_back(marks: list[Mark | None], progress: Progress, out: Console, w: Words) -> None:
    """Take the last answer back, so that its card is asked again."""
    if not marks:
        out.print(Text(w("nothing to take back"), style="yellow"))
    elif progress.take_back() is None:
        out.print(Text(w("that card has been answered elsewhere since; that answer stays"), style="yellow"))
    else:
        marks.pop()
        out.print(Text(w("the last answer is taken back; here is its card again"), style="yellow"))


def _from_file(given: dict[str, Reply] | list[Reply], card: Card, place: int) -> _Answered | Literal["none"]:
    """The marked reply of a file. Raises `PlaybookError` with the card where it is no answer."""
    reply = _from(given, card, place)
    if reply is None:
        return "none"
    try:
        return _Answered(mark(card, reply.text, reply.ticks), reply.seconds)
    except PlaybookError as error:
        raise PlaybookError(f"{card.id}: {error.problem.where}", error.problem.what, error.problem.hint) from None


def _from(given: dict[str, Reply] | list[Reply], card: Card, place: int) -> Reply | None:
    """The reply of a file to a card; None where it has none, or an empty one."""
    if isinstance(given, dict):
        reply = given.get(card.id)
    else:
        reply = given[place] if place < len(given) else None
    return reply if reply is not None and (reply.text or reply.ticks) else None


@dataclass(frozen=True, slots=True)
class _Answered:
    """A marked answer; a person may add that it was easy."""

    mark: Mark
    seconds: float
    easy: bool = False


def _person(card: Card, out: Console, w: Words) -> _Answered | Literal["back", "leave"]:
    """What a person answers, or where they want to go."""
    begun = time.monotonic()
    if card.form == "free":
        out.print(Text(w(HELP["free"]), style="dim"))
        text = ask_many(out)
        if text is None or text.strip().lower() in _LEAVE:
            return "leave"
        if text.strip().lower() in _BACK:
            return "back"
        marked = mark(card, text, _ticks(card, text, out, w))
        return _Answered(marked, time.monotonic() - begun)
    while True:
        reply = ask(out, w(HELP[card.form]))
        if reply is None or reply.lower() in _LEAVE:
            return "leave"
        if reply.lower() in _BACK:
            return "back"
        easy = reply.lower().endswith(_EASY)
        try:
            marked = mark(card, reply[: -len(_EASY)] if easy else reply)
            return _Answered(marked, time.monotonic() - begun, easy)
        except PlaybookError as error:
            hint = error.problem.hint if w.code == ENGLISH else w(HELP[card.form])
            keys = w("u takes back the last answer, q leaves")
            out.print(Text(f"{w.lead(error.problem.what)}{hint}; {keys}", style="yellow"))


def _ticks(card: Card, text: str, out: Console, w: Words) -> tuple[str, ...]:
    """Key points that were not recognised, for the person to tick: only they know what they meant."""
    said = heard(card.points, text)
    rest = [p for p in card.points if p.label not in said]
    if not rest:
        return ()
    out.print(Text(w("Not recognised. Which of these did you say, in other words?"), style="bold"))
    for number, point in enumerate(rest, 1):
        out.print(Text(f"  {number} {point.label}: {point.text}"))
    reply = ask(out, w("numbers, or nothing")) or ""
    chosen = {int(n) for n in reply.replace(",", " ").split() if n.isdecimal()}
    return tuple(p.label for number, p in enumerate(rest, 1) if number in chosen)


def interview(
    asked: Sequence[tuple[Card, bool]],
    given: dict[str, Reply] | list[Reply] | None,
    parts: Sequence[Point],
    out: Console,
    w: Words,
    quiet: bool = False,
) -> list[Sat]:
    """Questions with the clock running; the check comes after each answer."""
    sittings: list[Sat] = []
    for place, (card, opening) in enumerate(asked):
        if not quiet:
            print_interview_question(card, opening, out, w, place + 1, len(asked))
        if given is None:
            out.print(Text(w(HELP["free"]), style="dim"))
            begun = time.monotonic()
            with Countdown(60 * MINUTES[card.spec.level], out) as clock:
                text = ask_many(out, clock)
            if text is None or text.strip().lower() in _LEAVE:
                break
            seconds = time.monotonic() - begun
            sat = sit(card, text, seconds, parts, opening, _ticks(card, text, out, w))
        else:
            reply = _from(given, card, place) or Reply("")
            sat = sit(card, reply.text, reply.seconds, parts, opening, reply.ticks)
        if not quiet:
            print_sat(sat, len(parts), out, w)
        sittings.append(sat)
    return sittings
