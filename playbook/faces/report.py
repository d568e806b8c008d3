"""Reports for a terminal: what was read and found, the diagnosis with its reasons, an evaluation."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from rich.console import Console, Group
from rich.markup import escape
from rich.padding import Padding
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from playbook.engine.diagnosis import Diagnosis, Ranked, named_precedents
from playbook.engine.trial import Trial
from playbook.engine.value import Option
from playbook.faces.prices import price
from playbook.faces.words import ENGLISH, Words
from playbook.faces.wrapping import cells, wrapped
from playbook.findings import Evidence
from playbook.knowledge.loader import Book
from playbook.workflow.ingest import Ingested
from playbook.workflow.missing import missing
from playbook.workflow.session import Session
from playbook.workflow.verdict import noted, symptom, what_to_do, word

_NARROW = 80  # columns under which a table of findings breaks its words
_NAME = 80  # characters of a raw name that are shown
_NOTES = 3  # remarks beside a healthy verdict
_BAR = 20  # cells of a probability bar
_VERDICT = {"incident": "bold red", "healthy": "bold green", "undecided": "bold yellow"}


def bar(share: float, width: int = _BAR) -> str:
    """A bar that reads without colour."""
    full = round(max(0.0, min(1.0, share)) * width)
    return "█" * full + "·" * (width - full)


def print_ingest(found: Ingested, session: Session, out: Console, w: Words = Words()) -> None:  # noqa: B008
    """Files, verdict, findings with file and line, blind spots."""
    known = _print_read(found, session, out, w)
    _print_findings(found.evidence, out, w)
    blind = missing(found, session)[:5]
    if blind and known != "healthy":
        out.print(f"[bold]{w('Blind spots')}[/] [dim]({w('log these and the next incident is quicker')})[/]")
        for item in blind:
            text = f"{session.book.signals[item.signal].title}{w.colon}{w.say(item.why)}"
            out.print(Padding(Text(text), (0, 0, 0, 2)))
        out.print()


def print_read(found: Ingested, session: Session, out: Console, w: Words = Words()) -> None:  # noqa: B008
    """Files and verdict, and who lists the findings: on a terminal they would push the first aid out of sight."""
    _print_read(found, session, out, w)
    if found.evidence:
        held = w.count(len(found.evidence), "1 signal read", "{n} signals read")
        out.print(f"[dim]{held}{w.colon}playbook ingest[/]\n")


def _print_read(found: Ingested, session: Session, out: Console, w: Words) -> str:
    """The word of the verdict, printed."""
    run = found.run
    for file in run.files:
        held = w.count(file.rows, "1 row", "{n} rows")
        if not file.rows and (settings := sum(s.origin.path == file.path for s in run.settings)):
            held = w.count(settings, "1 setting", "{n} settings")
        out.print(f"[bold]{escape(file.path)}[/]  {file.format}, {held}", soft_wrap=True)
        for problem in file.problems[:5]:
            line = f":{problem.line}" if problem.line is not None else ""
            out.print(f"  [yellow]![/] {escape(file.path)}{line}: {escape(w.say(problem.what))}", soft_wrap=True)
        if len(file.problems) > 5:
            out.print(f"  [yellow]![/] {w('and {n} more problems', n=len(file.problems) - 5)}")
    first, last = run.step_range()
    if run.metrics:
        ranks = f", {w('{n} ranks', n=len(run.ranks))}" if run.ranks else ""
        out.print(f"{w('steps')} {first} – {last}{ranks}{w.colon}{', '.join(run.metrics)}")
    if run.unmapped:
        short = (name if len(name) <= _NAME else name[:_NAME] + "..." for name in run.unmapped[:8])
        names = ", ".join(short) + (" ..." if len(run.unmapped) > 8 else "")
        out.print(f"[dim]{w.lead('not used')}{escape(names)}[/]")
    out.print()
    known = word(session, session.diagnosis(explained=False), found)
    _print_verdict(known, found, session, out, w)
    return known


def _print_verdict(known: str, found: Ingested, session: Session, out: Console, w: Words) -> None:
    """`known` is the word of the verdict."""
    trouble = symptom(session)
    style = _VERDICT[known]
    if trouble is None:
        text = w.healthy(noted(session)) if known == "healthy" else w("undecided: not enough evidence")
        if known == "incident":
            text = w("incident: a cause is decided, though no curve shows it")
        if known == "undecided" and found.verdict == "healthy":
            text = w("undecided: the files show nothing, what was told speaks of a fault")
        out.print(f"[{style}]{text}[/]")
        if known == "healthy":
            _print_notes(session, out, w)
    else:
        entry = session.book.symptoms.get(trouble.state)
        title = entry.title if entry else trouble.state
        step = f" {w('from step {step}', step=trouble.step)}" if trouble.step is not None else ""
        sure = f"[dim]({w('confidence')} {trouble.confidence:.2f})[/]"
        out.print(f"[{style}]{w.lead(known)}{escape(title)}[/]{step}  {sure}")
        if trouble.because:
            out.print(Padding(Text(w.say(trouble.because)), (0, 0, 0, 2)))
    out.print()


def _print_notes(session: Session, out: Console, w: Words) -> None:
    """What speaks of a fault beside a healthy loss: where, why, and how to look at it."""
    for item in noted(session)[:_NOTES]:
        title = session.book.signals[item.signal].title
        step = f" {w('from step {step}', step=item.step)}" if item.step is not None else ""
        head = Text.assemble((title, "bold"), step, w.colon, w.say(item.because))
        how = Text(f"{w.lead('how')}{w.say(what_to_do(session, item))}", "dim")
        out.print(Padding(Group(head, how), (0, 0, 0, 2)))


def _print_findings(evidence: Sequence[Evidence], out: Console, w: Words) -> None:
    if not evidence:
        return
    if out.width < _NARROW:
        for item in evidence:
            out.print(Text.assemble((f"{item.signal} = {item.state}", "bold")))
            out.print(Padding(Text(_because(item, w)), (0, 0, 0, 2)))
        out.print()
        return
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="bold", title_justify="left")
    for name in ("signal", "state", "step", "because"):
        table.add_column(w(name), overflow="fold", no_wrap=name in ("step",), ratio=3 if name == "because" else None)
    for item in evidence:
        table.add_row(item.signal, item.state, "" if item.step is None else str(item.step), Text(_because(item, w)))
    out.print(table)
    out.print()


def _because(item: Evidence, w: Words) -> str:
    rank = f" [{w('rank')} {item.rank}]" if item.rank is not None else ""
    return w.say(item.because) + rank + _place(item)


def _place(item: Evidence | None) -> str:
    """File and line in brackets, or nothing."""
    origin = item.origin if item is not None else None
    return f" ({origin.path.rsplit('/', 1)[-1]}:{origin.line})" if origin is not None and origin.line else ""


def print_diagnosis(
    session: Session,
    diagnosis: Diagnosis,
    out: Console,
    w: Words = Words(),  # noqa: B008
    plain: bool = False,
) -> None:
    """First aid, the ranked causes with reasons, what was ruled out, what would change it, the repairs.

    `plain` draws neither boxes nor bars.
    """
    book = session.book
    if diagnosis.healthy:
        if not session.asked:
            return  # the report of the files has said so
        out.print(f"[bold green]{w.healthy(noted(session))}[/]")
        return
    print_first_aid(session, diagnosis, out, w, plain)
    verdict = w("decided") if diagnosis.decided else f"{w.lead('undecided')}{w(diagnosis.why_undecided)}"
    out.print(f"[bold]{w('Causes')}[/]  [{'green' if diagnosis.decided else 'yellow'}]({verdict})[/]")
    shown = [r for r in diagnosis.causes if r.probability >= 0.03][:5] or list(diagnosis.causes[:3])
    for place, ranked in enumerate(shown, 1):
        out.print(_cause_line(place, ranked, out.width, plain))
        if place <= 3:
            _print_reasons(ranked, session, out, w)
    if diagnosis.unknown >= 0.03:
        meter = "" if plain else f"{bar(diagnosis.unknown)} "
        out.print(f"   {meter}{diagnosis.unknown:4.0%}  {w('something that is not in the book')}")
    for a, b, p in diagnosis.coupled[:2]:
        out.print(f"   [dim]{w.lead('both at once')}{a} + {b} ({p:.0%})[/]")
    out.print()
    _print_ruled_out(diagnosis, out, w)
    if diagnosis.tipping is not None:
        tip = diagnosis.tipping
        text = w(
            "would change the verdict: {signal} = {outcome} (then {cause})",
            signal=tip.signal,
            outcome=tip.outcome,
            cause=tip.cause,
        )
        out.print(f"[dim]{escape(text)}[/]")
        out.print()
    _print_precedents(session, diagnosis, out, w)
    if diagnosis.fixes:
        out.print(f"[bold]{w('Repair')}[/]")
        for place, fix_id in enumerate(diagnosis.fixes[:4], 1):
            fix = book.fixes[fix_id]
            head = Text.assemble(f" {place}. ", (fix.title, "bold"))
            out.print(_with_tail(head, f"{fix_id}, {w('risk')} {w(fix.risk)}", out.width))
            out.print(Padding(Text(fix.summary), (0, 0, 0, 4)))
            out.print(Padding(Text(f"{w.lead('cured')}{fix.cured}", style="green"), (0, 0, 0, 4)))
        out.print()
    if diagnosis.next is not None:
        title = w("Next, to check the verdict") if diagnosis.decided else w("Next, most worth its cost")
        out.print(f"[bold]{title}[/]")
        print_question(session, diagnosis.next, out, w, plain)
    if diagnosis.trial is not None:
        out.print(trial_line(book, diagnosis.trial, w))


def _print_precedents(session: Session, diagnosis: Diagnosis, out: Console, w: Words) -> None:
    """What published incidents that tell the same were; nothing where nothing was told."""
    found = named_precedents(diagnosis, session.tables)
    named = [f"{session.book.class_title(name)} {p:.0%}" for name, p in found]
    if named:
        out.print(f"[dim]{w.lead('Published incidents that tell the same')}{escape(w.comma.join(named))}[/]")
        out.print()


def print_optimum(rows: Sequence[Mapping[str, Any]], out: Console, w: Words = Words()) -> None:  # noqa: B008
    """Expected minutes on the small parts of the book that are solved exactly, and their sum against the best."""
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="bold")
    columns = ("best", "order", "engine", "fixed")
    for name in (
        "symptom",
        "best possible",
        "the engine's order",
        "the engine's order and stop",
        "order of the alphabet",
    ):
        table.add_column(w(name), justify="left" if name == "symptom" else "right")
    for row in rows:
        table.add_row(row["symptom"], *(f"{row[name]:.0f}" for name in columns))
    best = sum(row["best"] for row in rows)
    table.add_row(
        w("against the best"), *(f"{sum(row[name] for row in rows) / best:.3f}" for name in columns), style="bold"
    )
    out.print(f"\n[bold]{w('expected minutes on small parts of the book, solved exactly')}[/]")
    out.print(table)


def trial_line(book: Book, trial: Trial, w: Words) -> Text:
    """A repair that is its own experiment: what it is, and the minutes that it is expected to save."""
    text = w(
        "Or try it at once: {fix} works with {chance}; expected until mended: {tried} min, {asked} min asking first.",
        fix=f"{book.fixes[trial.fix].title} ({trial.fix})",
        chance=f"{trial.chance:.0%}",
        tried=f"{trial.if_tried:.0f}",
        asked=f"{trial.if_asked:.0f}",
    )
    return Text(text, style="green")


def print_first_aid(session: Session, diagnosis: Diagnosis, out: Console, w: Words, plain: bool = False) -> None:
    """What to do in the next five minutes; `plain` draws no box (a screen reader would read it aloud)."""
    if not diagnosis.first_aid:
        return
    lines: list[Any] = []
    for place, fix_id in enumerate(diagnosis.first_aid[:3], 1):
        fix = session.book.fixes[fix_id]
        lines += [Text(f"{place}. {fix.title}", "bold"), Padding(Text(fix.steps[0]), (0, 0, 0, 3))]
    if plain:
        out.print(Text(f"{w('First aid')}:", "bold"), *lines, sep="\n")
    else:
        out.print(Panel(Group(*lines), title=w("First aid"), title_align="left", border_style="red"))


def _cause_line(place: int, ranked: Ranked, width: int, plain: bool = False) -> Text:
    lead = f"{place}. " + ("" if plain else f"{bar(ranked.probability)} ") + f"{ranked.probability:4.0%}  "
    fits = cells(lead + ranked.title) <= width
    title = ranked.title if fits else f"\n{'':6}".join(["", *wrapped(ranked.title, width - 6)])
    return _with_tail(Text.assemble((lead, "cyan"), (title, "bold")), f"{ranked.layer}/{ranked.id}", width)


def _with_tail(head: Text, tail: str, width: int) -> Text:
    """The tail behind the head, or on a line of its own where both do not fit."""
    fits = "\n" not in head.plain and head.cell_len + 2 + cells(tail) <= width
    return Text.assemble(head, "  " if fits else f"\n{'':6}", (tail, "dim"))


def _print_reasons(ranked: Ranked, session: Session, out: Console, w: Words) -> None:
    seen = {item.signal: item for item in session.evidence}
    for label, style, rows in ((w("for"), "green", ranked.pro[:4]), (w("against"), "red", ranked.con[:2])):
        if rows:
            text = Text(f"{label}{w.colon}", style)
            text.append("; ".join(f"{r.signal} = {r.state}{_place(seen.get(r.signal))}" for r in rows), "none")
            out.print(Padding(text, (0, 0, 0, 6)))


def _print_ruled_out(diagnosis: Diagnosis, out: Console, w: Words) -> None:
    if not diagnosis.ruled_out:
        return
    out.print(f"[bold]{w('Ruled out')}[/]")
    for item in diagnosis.ruled_out[:4]:
        how = w("impossible given") if item.hard else w("unlikely given")
        out.print(Text(f"   {item.cause}{w.colon}{how} {item.signal} = {item.state}", style="dim"))
    out.print()


def print_question(session: Session, option: Option, out: Console, w: Words, plain: bool = False) -> None:
    """The question, its outcomes, how to get it, what it costs; `plain` draws no box.

    The command stands outside the box and unwrapped: it is there to be copied.
    """
    signal = session.book.signals[option.signal]
    parts: list[Any] = [Text(f"{w.lead('Question')}" * plain + signal.question, style="bold")]
    for place, (name, meaning) in enumerate(signal.outcomes.items(), 1):
        parts.append(Text.assemble((f"  {place} ", "bold"), name, (f"  {meaning}", "dim")))
    parts.append(Text(f"{w.lead('how')}{signal.how}", style="dim"))
    parts.append(Text(f"{w.lead('cost')}{price(option.cost)} · {w('tells')} {option.gain:.2f} bit", style="dim"))
    box = Panel(Group(*parts), title=f"{signal.title}  ({signal.id})", title_align="left", border_style="blue")
    out.print(Group(*parts) if plain else box)
    for command in signal.commands[:1]:
        out.print(Text(command.run.rstrip(), "cyan"), soft_wrap=True)


# What a total is called where the word of the JSON document is not shown.
_SCORES = {
    "top1": "true cause first", "top3": "true cause among the first three", "decided": "decided",
    "right_when_decided": "right when decided", "mean_questions": "questions on the average",
    "mean_cost_minutes": "cost in minutes on the average", "brier": "Brier score",
    "calibration_error": "calibration error",
}  # fmt: skip
# Heads of columns that mean something else than the word does elsewhere.
_HEADS = {"questions": "questions asked", "rank": "rank of the truth", "first": "came first"}


def _head(name: str, w: Words) -> str:
    return name if w.code == ENGLISH else w(_HEADS.get(name, name))


def _totals(document: Mapping[str, Any], w: Words) -> Iterator[str]:
    """One line a total, with its 90 % interval where it has one."""
    names = {
        key: key if w.code == ENGLISH else w(_SCORES.get(key, key))
        for key in (*document["intervals"], *("mean_questions", "mean_cost_minutes", "brier", "calibration_error"))
    }
    width = max(20, *map(cells, names.values()))
    chance = document["calibration_error_by_chance"]
    for key, name in names.items():
        value, more = document[key], ""
        if key in document["intervals"]:
            low, high = document["intervals"][key]
            value, more = f"{bar(value)} {value:.1%}", w("{a} to {b}", a=f"{low:.0%}", b=f"{high:.0%}")
        elif key == "calibration_error":
            more = w("{a} to {b} if perfectly calibrated", a=f"{chance['p5']:.2f}", b=f"{chance['p95']:.2f}")
        yield f"  {name}{' ' * (width - cells(name))} {value}" + (f"  [dim]({more})[/]" if more else "")


def print_evaluation(document: Mapping[str, Any], out: Console, w: Words = Words()) -> None:  # noqa: B008
    """Totals with their 90 % intervals, the reliability diagram and the cases that went wrong."""
    out.print(f"[bold]{w('{n} cases', n=document['cases'])}[/]")
    for line in _totals(document, w):
        out.print(line)
    out.print(f"\n[bold]{w('stated probability -> how often right')}[/]")
    for row in document["reliability"]:
        low = row["from"]
        of = w("{share} of {n}", share=f"{row['accuracy']:.0%}", n=f"{row['cases']:.0f}")
        out.print(f"  {low:.1f}-{low + 0.1:.1f}  {bar(row['accuracy'])} {of}")
    if document.get("baselines"):
        table = Table(box=None, padding=(0, 2, 0, 0), header_style="bold")
        for name in ("method", "top1", "top3", "questions", "cost in minutes"):
            table.add_column(_head(name, w))
        table.add_row(
            w("the engine"), f"{document['top1']:.1%}", f"{document['top3']:.1%}", f"{document['mean_questions']:.1f}",
            f"{document['mean_cost_minutes']:.1f}",
        )  # fmt: skip
        for row in document["baselines"]:
            cost = (f"{row['questions']:.1f}", f"{row['minutes']:.1f}") if row["minutes"] else ("", "")
            table.add_row(w(row["method"]), f"{row['top1']:.1%}", f"{row['top3']:.1%}", *cost)
        out.print(f"\n[bold]{w('against simpler methods')}[/]")
        out.print(table)
    if document.get("optimum"):
        print_optimum(document["optimum"], out, w)
    wrong = [c for c in document["per_case"] if c["rank"] != 1]
    if wrong:
        table = Table(box=None, padding=(0, 2, 0, 0), header_style="bold")
        for name in ("case", "truth", "rank", "p(truth)", "first", "decided"):
            table.add_column(_head(name, w), overflow="fold")
        for case in wrong:
            table.add_row(
                case["id"], ", ".join(case["truth"]), str(case["rank"]), f"{case['probability']:.2f}", case["first"],
                w("yes") if case["decided"] else w("no"),
            )  # fmt: skip
        out.print(f"\n[bold]{w('not first')}[/]")
        out.print(table)
