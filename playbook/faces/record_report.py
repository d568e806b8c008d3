"""Recorded incidents on a terminal: the list, and one incident with what was asked, tried and paid."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.markup import escape
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from playbook.faces.report import bar
from playbook.faces.words import Words, words

if TYPE_CHECKING:
    from playbook.incidents.record import MoveDoc, Record
    from playbook.workflow.records.similar import Similar

_STYLE = {"open": "bold yellow", "closed": "green", "false-alarm": "dim"}
_EVENTS = 30  # lines of the timeline shown


def print_list(
    found: Sequence[Mapping[str, Any]], total: int, out: Console, w: Words | None = None, store: str = ""
) -> None:
    """One line an incident, newest first; `store` names where there is none."""
    w = w or words()
    if not found:
        lead = f"{store}{w.colon}" if store else ""
        out.print(Text(lead + w("no incidents; `playbook diagnose ... --record` stores one")), soft_wrap=True)
        return
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="bold")
    for name in ("id", "status", "opened", "symptom", "cause", "USD", "title"):
        fixed = name in ("id", "status", "opened")
        table.add_column(w(name), no_wrap=fixed, overflow="fold", justify="right" if name == "USD" else "left")
    for row in found:
        guess = row["first_cause"] if row["verdict"] == "incident" else None
        cause = row["cause"] or (f"{guess}? {row['first_probability']:.0%}" if guess else "")
        table.add_row(
            row["id"], Text(w(row["status"]), style=_STYLE[row["status"]]), row["opened_at"][:10], row["symptom"] or "",
            Text(cause), f"{row['cost_usd']:,.0f}" if row["cost_usd"] else "", Text(w.say(row["title"])),
        )  # fmt: skip
    out.print(table)
    if total > len(found):
        out.print(f"[dim]{w('{n} more: --limit', n=total - len(found))}[/]")


def print_record(record: Record, out: Console, w: Words | None = None) -> None:
    """Everything about one incident that fits a terminal."""
    w = w or words()
    out.print(f"[bold]{escape(w.say(record.title))}[/]")
    status = f"[{_STYLE[record.status]}]{w(record.status)}[/]"
    ended = f" – {record.closed_at}" if record.closed_at else ""
    out.print(f"{record.id}  {status}  {record.opened_at}{ended}")
    if record.cause:
        by = f" ({w('confirmed by')} {record.confirmed_by})" if record.confirmed_by else ""
        out.print(Text(f"{w.lead('cause')}{record.cause}{by}", style="bold green"))
    losses = record.losses
    if losses.hours:
        how = f" ({w('estimated')})" if losses.estimated else ""
        product = f"{losses.gpus} GPU x {losses.usd_per_gpu_hour:g} USD/h x {losses.hours:g} h"
        out.print(f"{w.lead('cost')}{product} = {losses.usd:,.0f} USD{how}")
    out.print()
    _verdict(record, out, w)
    if record.asked:
        out.print(f"[bold]{w('Asked')}[/]  [dim]{record.minutes:g} min, {record.gpu_hours:g} GPU-h[/]")
        for move in record.asked:
            out.print(Text(_asked(move), overflow="fold"))
        out.print()
    if record.treatments:
        out.print(f"[bold]{w('Tried')}[/]")
        for t in record.treatments:
            out.print(Text(f"  {t.fix}: {w.say(t.outcome)}{f'  {t.note}' if t.note else ''}"))
        out.print()
    _timeline(record, out, w)
    for title, lines in (
        (w("Notes"), record.notes),
        (w("Links"), [x.url for x in record.links]),
        (w("Files"), [f"{a.name}  {a.kind}, {a.size:,} B{f', {a.note}' if a.note else ''}" for a in record.artifacts]),
    ):
        if lines:
            out.print(f"[bold]{title}[/]")
            for line in lines:
                out.print(Padding(Text(line), (0, 0, 0, 2)))
            out.print()


def _verdict(record: Record, out: Console, w: Words) -> None:
    verdict = record.verdict
    step = f" {w('from step {step}', step=verdict.onset_step)}" if verdict.onset_step is not None else ""
    decided = w("decided") if verdict.decided else w("undecided")
    said = f"{w.lead(verdict.word)}{verdict.symptom or ''}{step}"
    out.print(f"[bold]{w('Verdict when recorded')}[/]  {said} [dim]({decided})[/]")
    for ranked in verdict.causes[:3]:
        out.print(Text(f"  {bar(ranked.probability, 12)} {ranked.probability:4.0%} {ranked.title}  ({ranked.id})"))
    out.print()


def _asked(move: MoveDoc) -> str:
    top = f"  -> {move.top[0][0]} {move.top[0][1]:.0%}" if move.top else ""
    price = f"  [{move.minutes:g} min{f', {move.gpu_hours:g} GPU-h' if move.gpu_hours else ''}]"
    return f"  {move.signal} = {move.state or 'unknown'}{price}{top}"


def _timeline(record: Record, out: Console, w: Words) -> None:
    if not record.timeline:
        return
    out.print(f"[bold]{w('Timeline')}[/]")
    table = Table(box=None, padding=(0, 2, 0, 0), show_header=False)
    table.add_column(no_wrap=True, justify="right")
    table.add_column(overflow="fold")
    for item in record.timeline[:_EVENTS]:
        when = str(item.step) if item.step is not None else item.time or ""
        table.add_row(when, Text(w.say(item.text)))
    out.print(table)
    if len(record.timeline) > _EVENTS:
        out.print(f"  [dim]{w('and {n} more', n=len(record.timeline) - _EVENTS)}[/]")
    out.print()


def similar_document(found: Sequence[Similar]) -> list[dict[str, Any]]:
    """Similar incidents for `diagnose --json`."""
    return [
        {
            "id": s.id,
            "kind": s.kind,
            "title": s.title,
            "likeness": s.likeness,
            "cause": s.cause,
            "confirmed": s.confirmed,
            "shared": list(s.shared),
            "asked_there": [{"signal": signal, "state": state} for signal, state in s.asked],
            "cured_by": list(s.cured_by),
        }
        for s in found
    ]


def print_similar(found: Sequence[Similar], out: Console, w: Words) -> None:
    """What happened before, what it was, and what was asked there and not here."""
    if not found:
        return
    out.print(f"[bold]{w('Looked like this before')}[/]")
    for s in found:
        sure = w("confirmed") if s.confirmed else w("not confirmed")
        out.print(Text.assemble(f"  {s.likeness:4.0%} ", (s.title, "bold"), (f"  {w(s.kind)} {s.id}", "dim")))
        out.print(Text(f"       {w.lead('cause')}{s.cause or '?'} ({sure})"))
        if s.asked:
            told = ", ".join(f"{signal} = {state}" for signal, state in s.asked)
            out.print(Padding(Text(f"{w.lead('asked there, not here')}{told}", style="dim"), (0, 0, 0, 7)))
        if s.cured_by:
            out.print(Padding(Text(f"{w.lead('cured by')}{'; '.join(s.cured_by)}", style="green"), (0, 0, 0, 7)))
    out.print()


def print_trends(document: Mapping[str, Any], out: Console, w: Words | None = None) -> None:
    """Totals and the tables by cause, layer, symptom and month, with bars."""
    w = w or words()
    total = document["incidents"]
    many = w.count(total, "1 incident", "{n} incidents")
    out.print(f"[bold]{many}[/], {document['open']} {w('open')}, {document['usd']:,.0f} USD")
    for key, title in (("by_cause", "Cause"), ("by_layer", "Layer"), ("by_symptom", "Symptom"), ("by_month", "Month")):
        if not document[key]:
            continue
        table = Table(box=None, padding=(0, 2, 0, 0), header_style="bold")
        for name in (title, "", "n", "USD", "h lost", "min asked", "h to confirm"):
            table.add_column(w(name) if name else "", justify="left" if name in (title, "") else "right")
        for row in document[key][:12]:
            wait = row["median_hours_to_confirm"]
            table.add_row(
                Text(w.say(row["name"])), bar(row["incidents"] / max(total, 1), 12), str(row["incidents"]),
                f"{row['usd']:,.0f}",
                f"{row['hours_lost']:g}", f"{row['median_minutes_asked']:g}", "" if wait is None else f"{wait:g}",
            )  # fmt: skip
        out.print()
        out.print(table)
