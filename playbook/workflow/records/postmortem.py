"""The post-mortem of a recorded incident: the seven questions of a playbook, the curve, the timeline, the bill.

`postmortem` gathers it as plain values, `markdown` writes the document; `say` puts what they say by themselves into
another language. Text of people and logs is escaped: a hostile title stays a title.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from playbook.errors import PlaybookError
from playbook.knowledge.loader import Book
from playbook.series import Run, Series
from playbook.workflow.records.incident import of_the_book
from playbook.workflow.records.scenes import scene_of

if TYPE_CHECKING:
    from playbook.incidents.record import Record
    from playbook.incidents.store import Store

Say = Callable[[str], str]
COLUMNS, ROWS = 72, 14  # characters of the curve
TIMELINE = 60  # lines
# Headings in the order of ledger rows D2-pb-1 to D2-pb-7.
SEVEN = (
    ("symptom", "Symptom"),
    ("trigger", "Trigger"),
    ("root-cause", "Root cause"),
    ("earlier", "How monitoring finds it earlier"),
    ("fix", "Fix"),
    ("regression", "Regression test"),
    ("affected", "Are earlier conclusions affected?"),
)
_WIDE_ENDS = ("。", "！", "？")
_NOT_SAID = "Not answered yet."


@dataclass(frozen=True)
class Curve:
    """The loss around the incident, `COLUMNS` stretches wide. low, high float64[n], NaN where a stretch has no number;
    bad bool[n] where it has a NaN or an infinity; steps int64[n], first step of each; `onset` is a column.
    """

    metric: str
    steps: np.ndarray
    low: np.ndarray
    high: np.ndarray
    bad: np.ndarray
    onset: int | None


@dataclass(frozen=True)
class Postmortem:
    """Everything that the document says."""

    record: Record
    seven: tuple[tuple[str, str, str], ...]  # (key, heading, text)
    curve: Curve | None
    problem: str = ""


def postmortem(record: Record, book: Book, store: Store | None = None, say: Say = str) -> Postmortem:
    """Gather the post-mortem. A scene that is missing or damaged is told, and the rest stands."""
    curve, problem = None, ""
    ref = record.artifact("scene")
    if ref is not None and store is not None:
        try:
            curve = curve_of(scene_of(store, ref), record.verdict.onset_step)
        except PlaybookError as error:
            problem = say(str(error))
    texts = answers_of(record, book, say)
    return Postmortem(record, tuple((key, say(title), texts.get(key, "")) for key, title in SEVEN), curve, problem)


def answers_of(record: Record, book: Book, say: Say = str) -> dict[str, str]:
    """The seven answers: a person's own words, else what the record and the book say."""
    return {**_told(record, book, say), **{k: v for k, v in record.answers.items() if v}}


def _told(record: Record, book: Book, say: Say) -> dict[str, str]:
    verdict = record.verdict
    told: dict[str, str] = {}
    if verdict.symptom:
        entry: Any = book.symptoms.get(verdict.symptom)
        step = say(f"From step {verdict.onset_step}.") if verdict.onset_step is not None else ""
        told["symptom"] = _joined(entry.summary if entry else verdict.symptom, step)
    changes = [h.text for h in record.timeline if h.kind == "change" or h.source.startswith("change")]
    if changes:
        told["trigger"] = _joined(*(_sentence(say(c)) for c in changes[:3]))
    cause: Any = book.causes.get(record.cause or "")
    if record.cause is not None:
        by = say(f"Confirmed by {record.confirmed_by}.") if record.confirmed_by else ""
        named = _sentence(cause.title if cause else record.cause)
        told["root-cause"] = _joined(named, cause.summary if cause else "", by)
    elif verdict.first is not None:
        first = f"{verdict.first.title} ({verdict.first.probability:.0%})"
        told["root-cause"] = say(f"Not confirmed. Most probable: {first}.")
    if cause is not None:
        told |= of_the_book(record.cause, book)
    if record.treatments:
        tried = ((_sentence(_fix_title(t.fix, book)), say(f"Outcome: {t.outcome}.")) for t in record.treatments)
        told["fix"] = _joined(*(part for pair in tried for part in pair))
    return told


def _fix_title(fix: str, book: Book) -> str:
    entry: Any = book.fixes.get(fix)
    return entry.title if entry is not None else fix


def _sentence(text: str) -> str:
    text = text.strip()
    if text.endswith((".", "!", "?", *_WIDE_ENDS)):
        return text
    return f"{text}{'。' if any('一' <= c <= '鿿' for c in text) else '.'}"


def _joined(*sentences: str) -> str:
    """One after the other; a wide full stop brings its own space."""
    found = ""
    for sentence in filter(None, sentences):
        found += sentence if not found or found.endswith(_WIDE_ENDS) else f" {sentence}"
    return found


def curve_of(run: Run, onset: int | None, columns: int = COLUMNS) -> Curve | None:
    """The loss, least and greatest value a column, by position in the file (a resume does not fold it back)."""
    series = run.one("loss") or next((run.one(m) for m in run.metrics), None)
    if series is None or not len(series):
        return None
    return _columns(series, onset, columns)


def _columns(series: Series, onset: int | None, columns: int) -> Curve:
    n = len(series)
    edges = np.unique(np.linspace(0, n, min(columns, n) + 1).astype(int))
    low, high, bad = [], [], []
    for a, b in pairwise(edges):
        part = series.values[a:b]
        finite = part[np.isfinite(part)]
        low.append(finite.min() if finite.size else math.nan)
        high.append(finite.max() if finite.size else math.nan)
        bad.append(finite.size < part.size)
    column = None
    if onset is not None:
        at = np.flatnonzero(series.steps >= onset)
        if at.size:
            column = int(np.searchsorted(edges, at[0], side="right")) - 1
    return Curve(series.metric, series.steps[edges[:-1]], np.array(low), np.array(high), np.array(bad), column)


def draw(curve: Curve, rows: int = ROWS, say: Say = str) -> str:
    """The curve in characters: # from least to greatest value of a column, x for NaN or infinity, ^ the onset."""
    finite = np.isfinite(curve.low)
    if not finite.any():
        return say(f"{curve.metric}: no finite value")
    least, most = float(curve.low[finite].min()), float(curve.high[finite].max())
    span = (most - least) or 1.0
    grid = [[" "] * len(curve.low) for _ in range(rows)]
    for c in range(len(curve.low)):
        if finite[c]:
            top = round((most - curve.high[c]) / span * (rows - 1))
            bottom = round((most - curve.low[c]) / span * (rows - 1))
            for r in range(top, bottom + 1):
                grid[r][c] = "#"
        if curve.bad[c]:
            grid[0][c] = "x"
    labels = [f"{most:.4g}", *[""] * (rows - 2), f"{least:.4g}"]
    width = max(map(len, labels))
    lines = [f"{label:>{width}} |{''.join(row)}".rstrip() for label, row in zip(labels, grid, strict=True)]
    mark = " " * curve.onset + "^ " + say("onset") if curve.onset is not None else ""
    lines.append(f"{'':>{width}} +{'-' * len(curve.low)}")
    if mark:
        lines.append(f"{'':>{width}}  {mark}")
    reach = say(f"{curve.metric}, steps {int(curve.steps[0])} to {int(curve.steps[-1])} and on")
    lines.append(f"{'':>{width}}  {reach}")
    return "\n".join(lines)


def markdown(found: Postmortem, say: Say = str) -> str:
    """The document."""
    record = found.record
    lines = [f"# {_escaped(say(record.title))}", ""]
    closed = f", closed {record.closed_at}" if record.closed_at else ""
    lines += [say(f"Incident `{record.id}`, {record.status}. Recorded {record.opened_at}{closed}."), ""]
    for _, title, text in found.seven:
        lines += [f"## {title}", "", _escaped(text) if text else f"*{say(_NOT_SAID)}*", ""]
    if found.curve is not None:
        lines += [f"## {say('Curve')}", "", *_fenced(draw(found.curve, say=say)), ""]
    if found.problem:
        lines += [f"*{say(f'The scene cannot be shown: {_escaped(found.problem)}')}*", ""]
    lines += _bill(record, say) + _asked(record, say) + _timeline(record, say)
    for title, rows in (
        ("Notes", [_escaped(n) for n in record.notes]),
        ("Links", [f"<{x.url}>" if " " not in x.url and ">" not in x.url else _escaped(x.url) for x in record.links]),
        (
            "Files",
            [f"`{_code(a.name)}` ({a.kind}, {a.size:,} bytes, sha256 {a.sha256[:12]})" for a in record.artifacts],
        ),
    ):
        if rows:
            lines += [f"## {say(title)}", "", *(f"- {row}" for row in rows), ""]
    return "\n".join(lines).rstrip() + "\n"


def _bill(record: Record, say: Say) -> list[str]:
    losses = record.losses
    sure = " (estimated)" if losses.estimated else ""
    product = f"{losses.gpus} GPUs x {losses.usd_per_gpu_hour:g} USD an hour x {losses.hours:g} h"
    lost = say(f"Lost: {product} = {losses.usd:,.2f} USD{sure}")
    price = f"{len(record.asked)} questions, {record.minutes:g} minutes, {record.gpu_hours:g} GPU-hours"
    asked = say(f"To know the cause: {price}")
    return [f"## {say('Cost')}", "", f"- {lost}", f"- {asked}", ""]


def _asked(record: Record, say: Say) -> list[str]:
    rows = [m for m in record.moves if m.kind in ("answered", "closed", "retracted", "tried")]
    if not rows:
        return []
    heads = ("Signal", "Answer", "Minutes", "GPU-hours", "Leading cause after it")
    lines = [f"## {say('What was asked')}", "", f"| {' | '.join(map(say, heads))} |", "|---|---|---|---|---|"]
    for m in rows:
        top = f"{m.top[0][0]} {m.top[0][1]:.0%}" if m.top else ""
        state = m.state or say("unknown")
        if m.kind in ("retracted", "tried"):
            state = say("taken back" if m.kind == "retracted" else "did not help")
        lines.append(f"| {_cell(m.signal)} | {_cell(state)} | {m.minutes:g} | {m.gpu_hours:g} | {_cell(top)} |")
    return [*lines, ""]


def _timeline(record: Record, say: Say) -> list[str]:
    if not record.timeline:
        return []
    lines = [f"## {say('Timeline')}", "", f"| {say('Step or time')} | {say('What')} |", "|---|---|"]
    for item in record.timeline[:TIMELINE]:
        when = str(item.step) if item.step is not None else item.time or ""
        lines.append(f"| {_cell(when)} | {_cell(say(item.text))} |")
    if len(record.timeline) > TIMELINE:
        lines.append(f"| | {say(f'and {len(record.timeline) - TIMELINE} more')} |")
    return [*lines, ""]


def _fenced(text: str) -> Sequence[str]:
    return ["```text", *text.splitlines(), "```"]


def _escaped(text: str) -> str:
    """Text that means nothing to Markdown or HTML."""
    flat = " ".join(text.split())
    for special in "\\`*_[]<>#|":
        flat = flat.replace(special, {"<": "&lt;", ">": "&gt;"}.get(special, "\\" + special))
    return flat


def _cell(text: str) -> str:
    return _escaped(text)


def _code(text: str) -> str:
    return " ".join(text.replace("`", "'").split())
