"""The page of an incident and the list of them: verdict, curves, timeline, moves, what was tried; and the trends.

Everything in a record was typed or logged by somebody: it is shown as plain text, never read as Markdown.
"""

from __future__ import annotations

from pathlib import PurePath

from playbook.faces.pages.blocks import (
    Bar,
    Bars,
    Block,
    Cell,
    Facts,
    Listing,
    Move,
    Page,
    Part,
    Plain,
    Prose,
    Ref,
    Section,
    Shape,
    Steps,
    Table,
    Walk,
    Web,
)
from playbook.faces.pages.compare import compared
from playbook.faces.pages.curve import plot
from playbook.faces.pages.parts import cause_cell, class_word, drop_empty, runs_of
from playbook.faces.pages.shelf import SAFE_URL, Shelf
from playbook.faces.prices import SHOWN_HOURS
from playbook.incidents.record import MoveDoc, Record
from playbook.workflow.records import trends
from playbook.workflow.records.published import Published, Strip, summary

MOST_MARKS = 6  # on one curve
MOST_LINES = 200  # of a timeline
MOST_CAUSES = 5
MOST_ROWS = 12  # of one trend


def incident_page(shelf: Shelf, incident: Published) -> Page:
    w = shelf.w
    record = incident.record
    symptom = record.verdict.symptom
    sections = drop_empty(
        [
            Section("verdict", w("Verdict"), tuple(_verdict(shelf, incident)), w("Meaning")),
            _curves(shelf, incident),
            _timeline(shelf, record),
            _moves(shelf, record),
            _tried(shelf, record),
            _questions(shelf, record),
            _losses(shelf, record),
            _about(shelf, record),
        ]
    )
    hero = (Shape(symptom, shelf.title("symptoms", symptom) or symptom),) if symptom in shelf.book.symptoms else ()
    return Page(
        path=f"incidents/{record.id}.html",
        kind="incidents",
        id=record.id,
        title=shelf.w.say(record.title),
        lead="",
        sections=sections,
        crumbs=(shelf.index("incidents"),),
        tags=(Plain(status_word(shelf, record.status)), Plain(record.opened_at)),
        hero=hero if symptom else (),
        words=" ".join(record.notes),
    )


def status_word(shelf: Shelf, status: str) -> str:
    w = shelf.w
    return {"open": w("open"), "closed": w("closed"), "false-alarm": w("false alarm")}.get(status, status)


def _verdict(shelf: Shelf, incident: Published) -> list[Block]:
    w = shelf.w
    record, verdict = incident.record, incident.record.verdict
    rows: list[tuple[str, Cell]] = []
    if verdict.symptom:
        rows.append((w("Symptom"), shelf.ref("symptoms", verdict.symptom)))
    if verdict.onset_step is not None:
        rows.append((w("Onset"), Plain(w("step {n}", n=verdict.onset_step))))
    if record.cause:
        by = (Plain(f" · {w('confirmed by {name}', name=record.confirmed_by)}"),) if record.confirmed_by else ()
        rows.append((w("Confirmed cause"), (cause_cell(shelf, record.cause), *by)))
    why = w.table.get(verdict.why_undecided, verdict.why_undecided)  # the engine's words, or none
    rows.append((w("Decided"), Plain(w("yes") if verdict.decided else f"{w('no')} · {why}".strip(" ·"))))
    blocks: list[Block] = [Facts(tuple(rows))]
    if verdict.causes:
        bars = tuple(
            Bar(cause_cell(shelf, c.id), c.probability, Plain(class_word(shelf, c.class_)))
            for c in verdict.causes[:MOST_CAUSES]
        )
        blocks.append(Bars((*bars, Bar(Plain(w("Not in the book")), verdict.unknown)), w("As it was judged then")))
    return blocks


def _curves(shelf: Shelf, incident: Published) -> Section | None:
    """One plot a metric; where curves from before and after the fix were kept they are compared at the onset."""
    w = shelf.w
    by_metric: dict[str, list[Strip]] = {}
    for strip in incident.strips:
        by_metric.setdefault(strip.metric, []).append(strip)
    marks = _marks(shelf, incident.record)
    onset = incident.record.verdict.onset_step
    laid = compared(shelf, by_metric, onset, marks) if onset is not None else None
    if laid is not None:
        return laid
    drawn = [plot(shelf, metric, strips, marks) for metric, strips in by_metric.items()]
    blocks = tuple(p for p in drawn if p is not None)
    both = any(s.role == "after" for s in incident.strips)
    heading = w("Before and after the fix") if both else w("Curves")
    return Section("curves", heading, blocks) if blocks else None


def _marks(shelf: Shelf, record: Record) -> list[tuple[int, str, str]]:
    marks: list[tuple[int, str, str]] = []
    if record.verdict.onset_step is not None:
        marks.append((record.verdict.onset_step, shelf.w("onset"), "onset"))
    for line in record.timeline:
        if line.kind == "change" and line.step is not None and len(marks) < MOST_MARKS:
            marks.append((line.step, shelf.w.say(line.text)[:40], "change"))
    return marks


def _timeline(shelf: Shelf, record: Record) -> Section | None:
    w = shelf.w
    kinds = {
        "finding": w("finding"),
        "event": w("event"),
        "change": w("change"),
        "note": w("note"),
        "action": w("action"),
    }
    rows: list[tuple[Cell, ...]] = []
    for line in record.timeline[:MOST_LINES]:
        where = str(line.step) if line.step is not None else (line.time or "")
        place = _where(line.place.file, line.place.line) if line.place else ""
        rank = f" [{w('rank')} {line.rank}]" if line.rank is not None else ""
        what = (Plain(w.say(line.text) + rank), Plain(place))
        rows.append((Plain(where), Plain(kinds.get(line.kind, line.kind)), what))
    if not rows:
        return None
    table = Table((w("Step or time"), w("Kind"), w("What")), tuple(rows))
    blocks: list[Block] = [table]
    if len(record.timeline) > MOST_LINES:
        blocks.append(Prose(w("and {n} more", n=len(record.timeline) - MOST_LINES)))
    return Section("timeline", w("Timeline"), tuple(blocks))


def _moves(shelf: Shelf, record: Record) -> Section | None:
    """What was observed at the start, then the walk: asked, answered, what led afterwards."""
    w = shelf.w
    if not record.moves:
        return None
    observed = [m for m in record.moves if m.kind == "observed"]
    walked = [m for m in record.moves if m.kind != "observed"]
    blocks: list[Block] = []
    if observed:
        rows: tuple[tuple[Cell, ...], ...] = tuple(
            (shelf.ref("signals", m.signal), Plain(m.state or "", code=True), Plain(_because(shelf, m)))
            for m in observed
        )
        blocks.append(Table((w("Signal"), w("Outcome"), w("Because")), rows, w("Seen by itself")))
    if walked:
        last = observed[-1].top if observed else []
        blocks.append(
            Walk(
                start=(),
                start_top=tuple((_cause_ref(shelf, c), p) for c, p in last[:3]),
                runs=runs_of([_move(shelf, m) for m in walked]),
                trace=(),
                verdict="",
            )
        )
    return Section("moves", w("How it was diagnosed"), tuple(blocks), w("Diagnosis"))


def _because(shelf: Shelf, move: MoveDoc) -> str:
    return shelf.w.say(move.because) + (_where(move.at.file, move.at.line) if move.at else "")


def _where(file: str, line: int | None) -> str:
    """Name and line of a file; the folders it lay in are nobody's business here, and long."""
    return f" ({PurePath(file).name}:{line})" if line is not None else ""


def _move(shelf: Shelf, move: MoveDoc) -> Move:
    w = shelf.w
    signal = shelf.book.signals.get(move.signal)
    kinds = {"closed": w("not known"), "retracted": w("taken back"), "tried": w("did not help")}
    answer = kinds.get(move.kind, move.state or "")
    return Move(
        signal=shelf.ref("fixes" if move.kind == "tried" else "signals", move.signal),
        question=signal.question if signal else "",
        answer=answer,
        meaning=signal.outcomes.get(move.state or "", "") if signal and move.kind == "answered" else "",
        price=shelf.minutes(move.minutes)
        + (f" · {w('{n} GPU-h', n=f'{move.gpu_hours:.1f}')}" if move.gpu_hours >= SHOWN_HOURS else ""),
        top=tuple((_cause_ref(shelf, c), p) for c, p in move.top[:3]),
        known=move.kind == "answered",
    )


def _cause_ref(shelf: Shelf, cause: str) -> Ref:
    if cause not in shelf.book.causes and cause in shelf.causes_by_class:
        return Ref("", class_word(shelf, cause))
    return shelf.ref("causes", cause)


def _tried(shelf: Shelf, record: Record) -> Section | None:
    w = shelf.w
    words = {
        "cured": w("cured it"),
        "not-cured": w("not cured"),
        "unclear": w("unclear"),
        "pending": w("pending"),
    }
    rows: tuple[tuple[Cell, ...], ...] = tuple(
        (shelf.ref("fixes", t.fix), Plain(words.get(t.outcome, t.outcome)), Plain(t.note), Plain(t.at))
        for t in record.treatments
    )
    if not rows:
        return None
    return Section(
        "tried", w("What was tried"), (Table((w("Fix"), w("Outcome"), w("Note"), w("When")), rows),), w("Mitigation")
    )


def _questions(shelf: Shelf, record: Record) -> Section | None:
    """The seven questions of a playbook: own words where somebody wrote some, else what the book says of the cause."""
    w = shelf.w
    cause = shelf.book.causes.get(record.cause or "")
    own = record.answers
    rows: list[tuple[str, Cell]] = []
    for key, label, known in (
        ("symptom", w("Symptom"), ""),
        ("trigger", w("Trigger"), cause.mechanism if cause else ""),
        ("root-cause", w("Root cause"), cause.summary if cause else ""),
        ("earlier", w("Found earlier by"), cause.earlier if cause else ""),
        ("fix", w("Fix"), ""),
        ("regression", w("Regression test"), cause.regression if cause else ""),
        ("affected", w("Are earlier results affected?"), cause.affects_results if cause else ""),
    ):
        said = own.get(key)
        if said:
            rows.append((label, Plain(said)))
        elif known:
            rows.append((label, known))
    for key in sorted(set(own) - {"symptom", "trigger", "root-cause", "earlier", "fix", "regression", "affected"}):
        rows.append((key.replace("_", " ").replace("-", " "), Plain(own[key])))
    return Section("playbook", w("The seven questions"), (Facts(tuple(rows)),)) if rows else None


def _losses(shelf: Shelf, record: Record) -> Section | None:
    w = shelf.w
    losses = record.losses
    if not losses.hours and not losses.usd and not record.minutes:
        return None
    rows: list[tuple[str, Cell]] = []
    if losses.hours:
        estimated = f" ({w('estimated')})" if losses.estimated else ""
        rows.append((w("Lost"), Plain(f"{losses.hours:g} h × {losses.gpus} GPU{estimated}")))
    if losses.usd:
        rows.append((w("Bill"), Plain(f"{losses.usd:,.0f} USD")))
    if record.minutes or record.gpu_hours:
        rows.append((w("Spent on the diagnosis"), Plain(f"{record.minutes:g} min · {record.gpu_hours:g} GPU-h")))
    return Section("losses", w("What it cost"), (Facts(tuple(rows)),), w("Impact"))


def _about(shelf: Shelf, record: Record) -> Section | None:
    w = shelf.w
    rows: list[tuple[str, Cell]] = [(w("Id"), Plain(record.id, code=True))]
    if record.context:
        told = [w.say(f"{k}: {v}") for k, v in record.context.items() if v is not None]
        rows.append((w("Setting"), Plain(w.comma.join(told))))
    if record.links:
        parts: list[Part] = []
        for link in record.links:
            safe = link.url if SAFE_URL.match(link.url) else ""
            parts += [Web(safe, link.title or link.url), Plain(" · ")]
        rows.append((w("Links"), tuple(parts[:-1])))
    for name, version in sorted(record.versions.items()):
        rows.append((name, Plain(version)))
    blocks: list[Block] = [Facts(tuple(rows))]
    if record.notes:
        blocks.append(Steps(tuple(Plain(n) for n in record.notes), numbered=False))
    if record.artifacts:
        kept: tuple[tuple[Cell, ...], ...] = tuple(
            (Plain(a.name), Plain(a.kind), Plain(f"{a.size:,}"), Plain(a.sha256[:12], code=True))
            for a in record.artifacts
        )
        blocks.append(Table((w("File"), w("Kind"), w("Bytes"), "SHA-256"), kept))
    return Section("about", w("Record"), tuple(blocks))


def incidents_page(shelf: Shelf) -> Page:
    """All incidents, newest first, and what they add up to."""
    w = shelf.w
    groups: dict[str, list[tuple[Ref, str, str]]] = {}
    for incident in shelf.incidents:
        month = incident.record.opened_at[:7]
        cause = incident.cause
        said = (shelf.title("causes", cause) or class_word(shelf, cause)) if cause else w("undecided")
        ref = shelf.ref("incidents", incident.record.id)
        groups.setdefault(month, []).append(
            (ref, f"{incident.day} · {said}", status_word(shelf, incident.record.status))
        )
    listing = Listing(tuple((month, month, tuple(rows)) for month, rows in groups.items()), w("Filter incidents"))
    sections: list[Section | None] = []
    if shelf.incidents:
        sections = [Section("list", w("All incidents"), (listing,)), _trends(shelf)]
    else:
        text = w(
            "No incident is recorded yet. `playbook diagnose LOGS --record` stores one; then build the site again."
        )
        sections = [Section("list", w("All incidents"), (Prose(text),))]
    return Page(
        path="incidents/index.html",
        kind="incidents",
        id="",
        title=w("Incidents"),
        lead=w("What went wrong here, what it was, and what it cost."),
        sections=drop_empty(sections),
        searched=False,
    )


def _trends(shelf: Shelf) -> Section:
    """Counts by month, symptom, cause and layer; what they cost; how often the first cause was the right one."""
    w = shelf.w
    sums = trends.of(summary(i.record) for i in shelf.incidents)
    facts: list[tuple[str, Cell]] = [
        (w("Incidents"), Plain(f"{sums['incidents']} ({w('{n} open', n=sums['open'])})")),
        (w("False alarms"), Plain(str(sums["false_alarms"]))),
        (w("Lost"), Plain(f"{sums['hours_lost']:.1f} h · {sums['usd']:,.0f} USD")),
    ]
    if sums["first_was_right"] is not None:
        facts.append((w("The first cause was right"), Plain(f"{sums['first_was_right']:.0%}")))

    def cause(name: str) -> Cell:
        return Plain(w("not confirmed")) if name == trends.NOT_CONFIRMED else cause_cell(shelf, name)

    def layer(name: str) -> Cell:
        return Plain(w("not confirmed") if name == trends.NOT_CONFIRMED else shelf.layer_word(name))

    def symptom(name: str) -> Cell:
        return shelf.ref("symptoms", name)

    blocks: list[Block] = [Facts(tuple(facts))]
    for caption, key, draw in (
        (w("By month"), "by_month", lambda name: Plain(name)),
        (w("By symptom"), "by_symptom", symptom),
        (w("By cause"), "by_cause", cause),
        (w("By layer"), "by_layer", layer),
    ):
        rows = sums[key][-MOST_ROWS:] if key == "by_month" else sums[key][:MOST_ROWS]
        blocks.append(_counted(caption, [(draw(r["name"]), r["incidents"], str(r["incidents"])) for r in rows]))
    lost = sorted((r for r in sums["by_cause"] if r["hours_lost"]), key=lambda r: (-r["hours_lost"], r["name"]))
    if lost:
        rows = [(cause(r["name"]), r["hours_lost"], f"{r['hours_lost']:.1f} h") for r in lost[:MOST_ROWS]]
        blocks.append(_counted(w("Hours lost by cause"), rows))
    return Section("trends", w("Trends"), tuple(b for b in blocks if not isinstance(b, Bars) or b.rows))


def _counted(caption: str, rows: list[tuple[Cell, float, str]]) -> Bars:
    most = max((n for _, n, _ in rows), default=1) or 1
    return Bars(tuple(Bar(label, n / most, Plain(said)) for label, n, said in rows), caption, counts=True)
