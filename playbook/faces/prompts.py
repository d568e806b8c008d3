"""The diagnosis as plain prompts: one question at a time, with "don't know", "cannot get", why, undo and stop."""

from __future__ import annotations

from collections.abc import Callable

from rich.console import Console
from rich.text import Text

from playbook.engine.diagnosis import Diagnosis
from playbook.faces.report import bar, print_first_aid, print_question
from playbook.faces.words import Words
from playbook.workflow.session import UNKNOWN, Session

_HELP = "number = answer, number? = probably, d = don't know, c = cannot get it, w = why this, u = undo, q = stop"


def walk(
    session: Session,
    out: Console,
    w: Words,
    after: Callable[[Session], None] | None = None,
    plain: bool = False,
) -> None:
    """Ask until it is decided, nothing is worth asking, or the person stops.

    `after` is called with every change; `plain` draws neither boxes nor bars.
    """
    diagnosis = session.diagnosis()
    print_first_aid(session, diagnosis, out, w, plain)
    while (option := diagnosis.next) is not None:
        print_question(session, option, out, w, plain)
        outcomes = list(session.book.signals[option.signal].outcomes)
        reply = _read(out, w)
        if reply in ("q", "quit", "exit"):
            return
        if reply in ("w", "why"):
            _why(session, diagnosis, out, w)
            continue
        if reply in ("u", "undo"):
            move = session.undo()
            out.print(w("took back {signal}", signal=move.signal) if move else w("nothing to take back"))
        elif reply in ("d", "c", UNKNOWN):
            session.answer(option.signal, UNKNOWN if reply != "c" else "cannot")
        elif (state := _state(reply, outcomes)) is not None:
            session.answer(option.signal, state)
        else:
            out.print(Text(w(_HELP), style="yellow"))
            continue
        if after is not None:
            after(session)
        diagnosis = session.diagnosis()
        _print_top(diagnosis, out, plain)


def _read(out: Console, w: Words) -> str:
    try:
        return out.input(f"[bold]1-9[/] / d / c / w / u / q [dim](? {w('for help')})[/] > ").strip().lower() or "help"
    except EOFError:
        return "q"


def _state(reply: str, outcomes: list[str]) -> str | None:
    unsure = "?" if reply.endswith("?") and len(reply) > 1 else ""
    word = reply.rstrip("?")
    if word.isdecimal() and 1 <= int(word) <= len(outcomes):
        return outcomes[int(word) - 1] + unsure
    fitting = [o for o in outcomes if o == word] or [o for o in outcomes if word and o.startswith(word)]
    return fitting[0] + unsure if len(fitting) == 1 else None


def _why(session: Session, diagnosis: Diagnosis, out: Console, w: Words) -> None:
    """Which outcome would lift which cause."""
    option = diagnosis.next
    assert option is not None
    for outcome in session.book.signals[option.signal].outcomes:
        after = session.what_if(option.signal, outcome).diagnosis(explained=False)
        top = "; ".join(f"{r.id} {r.probability:.0%}" for r in after.causes[:2])
        out.print(Text(f"  {outcome}: {w('then')} {top}", style="dim"))


def _print_top(diagnosis: Diagnosis, out: Console, plain: bool = False) -> None:
    for ranked in diagnosis.causes[:3]:
        share = "" if plain else f"{bar(ranked.probability, 12)} "
        out.print(Text(f"  {share}{ranked.probability:4.0%} {ranked.title}"))
    out.print()
