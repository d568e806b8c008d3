"""The page of a signal: the question, how to get it and at what price, and what each outcome speaks for and against."""

from __future__ import annotations

from playbook.faces.pages.blocks import (
    Block,
    Cell,
    Commands,
    Facts,
    Fold,
    Links,
    Page,
    Part,
    Plain,
    Prose,
    Section,
    Table,
)
from playbook.faces.pages.parts import drop_empty, notices, quiz_section, sources_section
from playbook.faces.pages.picture import signal_graph
from playbook.faces.pages.shelf import Shelf
from playbook.knowledge.entries import ConfigRule, Signal

MOST_CAUSES = 8  # named for an outcome; the rest is below the fold
MOST_CASES = 12


def signal_page(shelf: Shelf, signal: Signal) -> Page:
    w = shelf.w
    graph = signal_graph(shelf, signal)
    sections = drop_empty(
        [
            Section(
                "get", w("How to get it"), (Prose(signal.how), Commands(tuple(signal.commands)), _facts(shelf, signal))
            ),
            Section("outcomes", w("What it means"), tuple(_outcomes(shelf, signal)), w("Diagnosis")),
            _when(shelf, signal),
            _by_itself(shelf, signal),
            Section("log", w("Log this next time"), (Prose(signal.log_next_time),)) if signal.log_next_time else None,
            Section("picture", w("Picture"), (graph,)) if graph else None,
            _cases(shelf, signal),
            quiz_section(shelf, signal.id),
            sources_section(shelf, signal),
        ]
    )
    lines = [line for pattern in signal.log for line in pattern.match]
    return Page(
        path=f"signals/{signal.id}.html",
        kind="signals",
        id=signal.id,
        title=signal.title,
        lead=signal.question,
        sections=sections,
        crumbs=(shelf.index("signals"),),
        tags=(Plain(shelf.way_word(signal.kind)), Plain(shelf.signal_price(signal))),
        notices=notices(shelf, signal, "signals"),
        words="\n".join(lines),
    )


def _facts(shelf: Shelf, signal: Signal) -> Facts:
    w = shelf.w
    rows: list[tuple[str, Cell]] = [
        (w("Price"), Plain(shelf.signal_price(signal))),
        (w("Kind"), Plain(shelf.way_word(signal.kind))),
    ]
    if signal.danger != "none":
        rows.append((w("Mind"), Plain(shelf.danger_word(signal.danger))))
    if signal.needs:
        rows.append((w("Asked unless it is known to be otherwise"), _needs(shelf, signal)))
    if signal.cluster:
        others = [s.id for s in shelf.book.signals.values() if s.cluster == signal.cluster and s.id != signal.id]
        if others:
            rows.append((w("The same rerun answers"), _refs(shelf, others)))
    same = [s.id for s in shelf.book.signals.values() if s.group == signal.group and s.id != signal.id]
    if same:
        rows.append((w("Other views of the same fact"), _refs(shelf, same[:6])))
    return Facts(tuple(rows))


def _needs(shelf: Shelf, signal: Signal) -> tuple[Part, ...]:
    parts: list[Part] = []
    for name, outcomes in signal.needs.items():
        if parts:
            parts.append(Plain(" · "))
        parts += [shelf.ref("signals", name), Plain(" = "), Plain(", ".join(outcomes), code=True)]
    return tuple(parts)


def _refs(shelf: Shelf, signals: list[str]) -> tuple[Part, ...]:
    parts: list[Part] = []
    for name in signals:
        if parts:
            parts.append(Plain(" · "))
        parts.append(shelf.ref("signals", name))
    return tuple(parts)


def _outcomes(shelf: Shelf, signal: Signal) -> list[Block]:
    """A table of meanings, then for each outcome the causes it moves."""
    w = shelf.w
    rows: list[tuple[Cell, ...]] = []
    folds: list[Block] = []
    for outcome, meaning in signal.outcomes.items():
        pro, con, out = shelf.numbers.speaks(signal.id, outcome)
        rows.append(
            (
                Plain(outcome, code=True),
                meaning,
                _moved(shelf, pro[:3]),
                tuple(p for c in out[:3] for p in (shelf.ref("causes", c), Plain(" · ")))[:-1]
                or _moved(shelf, con[:2]),
            )
        )
        detail: list[tuple[Cell, ...]] = [
            (shelf.ref("causes", c), Plain(f"×{f:.1f}")) for c, f in pro[: MOST_CAUSES * 2]
        ]
        detail += [(shelf.ref("causes", c), Plain(f"×{f:.2f}")) for c, f in con[:MOST_CAUSES]]
        detail += [(shelf.ref("causes", c), Plain(w("impossible"))) for c in out[:MOST_CAUSES]]
        if len(pro) > 3 or len(con) > 2:
            folds.append(
                Fold(
                    w("{outcome}: all that it moves", outcome=outcome),
                    (Table((w("Cause"), w("Odds")), tuple(detail)),),
                )
            )
    head = (w("Outcome"), w("Meaning"), w("Speaks for"), w("Speaks against"))
    return [Table(head, tuple(rows), anchors="outcome-"), *folds]


def _moved(shelf: Shelf, causes: list[tuple[str, float]]) -> tuple[Part, ...]:
    parts: list[Part] = []
    for cause, factor in causes:
        if parts:
            parts.append(Plain(" · "))
        parts += [shelf.ref("causes", cause), Plain(f" ×{factor:.1f}" if factor >= 1 else f" ×{factor:.2f}")]
    return tuple(parts)


def _when(shelf: Shelf, signal: Signal) -> Section | None:
    """The symptoms at which it is among the first things to look at."""
    rows: list[tuple[Cell, ...]] = []
    for name, numbers in shelf.numbers.symptoms.items():
        if name == "healthy":
            continue
        for place, check in enumerate(numbers.checks, 1):
            if check.option.signal == signal.id:
                gain = shelf.w("tells {n} bit", n=f"{check.option.gain:.2f}")
                rows.append(
                    (shelf.ref("symptoms", name, "#confirm"), Plain(shelf.w("look no. {n}", n=place)), Plain(gain))
                )
    if not rows:
        return None
    head = (shelf.w("Symptom"), shelf.w("Place"), shelf.w("Worth"))
    return Section("when", shelf.w("When it is worth a look"), (Table(head, tuple(rows)),))


def _by_itself(shelf: Shelf, signal: Signal) -> Section | None:
    """How the program gets it without asking: detectors, log lines, the configuration."""
    w = shelf.w
    rows: list[tuple[Cell, ...]] = []
    for seen in signal.seen_by:
        said = [f"`{kind}` → `{outcome}`" for kind, outcome in seen.kinds.items()]
        said += [f"{w('nothing found')} → `{seen.clear}`"] if seen.clear else []
        said += [f"{w('blind')} → `{seen.blind}`"] if seen.blind else []
        rows.append((Plain(w("detector {name}", name=seen.detector)), "; ".join(said)))
    for pattern in signal.log:
        rows.append(
            ((Plain(w("log line") + " → "), Plain(pattern.outcome, code=True)), Plain(pattern.match[0], code=True))
        )
    for rule in signal.config:
        rows.append((Plain(w("config")), tuple(_config(rule))))
    if not rows:
        return None
    return Section(
        "itself",
        w("What the program reads by itself"),
        (Fold(w("{n} rules", n=len(rows)), (Table(("", ""), tuple(rows)),)),),
    )


def _config(rule: ConfigRule) -> list[Part]:
    parts: list[Part] = [Plain(", ".join(rule.keys[:6]), code=True), Plain(": ")]
    said = [f"{value} → {outcome}" for value, outcome in rule.equals.items()]
    said += [f"< {limit:g} → {outcome}" for limit, outcome in rule.below]
    said += [f"> {limit:g} → {outcome}" for limit, outcome in rule.above]
    return [*parts, Plain("; ".join(said))]


def _cases(shelf: Shelf, signal: Signal) -> Section | None:
    found = shelf.cases_by_signal.get(signal.id, [])
    if not found:
        return None
    w = shelf.w
    shown = Links(tuple((shelf.ref("cases", case.id), state) for case, state in found[:MOST_CASES]))
    rest = found[MOST_CASES:]
    blocks: list[Block] = [shown]
    if rest:
        blocks.append(
            Fold(
                w("{n} more", n=len(rest)),
                (Links(tuple((shelf.ref("cases", case.id), state) for case, state in rest)),),
            )
        )
    return Section("cases", w("Cases in which it was checked"), tuple(blocks))
