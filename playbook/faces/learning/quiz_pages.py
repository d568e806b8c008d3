"""Pages to be printed: a sheet with its key at the end, the report of an interview, notes for the leader of a drill."""

from __future__ import annotations

from collections.abc import Sequence

from playbook.engine.value import cost_of
from playbook.faces.learning.countdown import clock
from playbook.faces.learning.curves import as_svg
from playbook.faces.learning.drill_screen import alert_lines, outcome
from playbook.faces.printable import Block, Grid, Heading, Image, Items, Lines, Para
from playbook.faces.words import Words
from playbook.workflow.learning.drill import Drill, Game
from playbook.workflow.learning.drill_score import WEIGHTS, Score
from playbook.workflow.learning.interview import DEPTHS, MINUTES, Sat, total
from playbook.workflow.learning.quiz import TEMPLATES
from playbook.workflow.learning.quiz_cards import Card
from playbook.workflow.learning.quiz_curves import case_picture
from playbook.workflow.learning.quiz_marks import Mark

_ROOM = {"choice": 0, "order": 1, "number": 1, "percent": 1, "free": 6}  # empty lines to write on


def sheet(cards: Sequence[Card], marks: Sequence[Mark | None], seed: int | None, w: Words) -> list[Block]:
    """Questions first, the key on a page of its own; with the marks where the sheet was answered."""
    blocks: list[Block] = []
    if seed is not None:
        blocks.append(Para(w("Seed {seed}: whoever gives it gets the same sheet.", seed=seed), quiet=True))
    for place, card in enumerate(cards, 1):
        blocks.append(Heading(f"{place}. {card.ask}", 3))
        # Not the id: it names the entry, and so the answer.
        blocks.append(Para(f"{w(TEMPLATES[card.spec.template].title)} · {'★' * card.spec.level}", quiet=True))
        if card.facts:
            blocks.append(Items(card.facts))
        if card.picture is not None:
            blocks.append(Image(as_svg(card.picture), card.picture.alt))
        if card.options:
            blocks.append(Items(tuple(o.text for o in card.options), numbered=True))
        if card.form == "order":
            blocks.append(Items(card.shown_steps, numbered=True))
        if _ROOM[card.form]:
            blocks.append(Lines(_ROOM[card.form]))
    blocks.append(Heading(w("Key"), 2, new_page=True))
    for place, (card, marked) in enumerate(zip(cards, marks, strict=True), 1):
        blocks += _key(place, card, marked, w)
    return blocks


def _key(place: int, card: Card, marked: Mark | None, w: Words) -> list[Block]:
    blocks: list[Block] = [Heading(f"{place}. {_answer(card, w)}", 3)]
    if marked is not None:
        said = marked.said if card.form != "free" else ""
        blocks.append(Para(f"{w.lead('answered')}{said}  {marked.score:.0%}".replace("  ", " ")))
    if card.options:
        blocks.append(Items(tuple(f"{o.text} - {o.why} ({'/'.join(o.link)})" for o in card.options), numbered=True))
    elif card.points:
        covered = marked.covered if marked is not None else ()
        blocks.append(
            Items(
                tuple(f"[{p.depth}] {p.label}: {p.text}" for p in card.points),
                ticks=tuple(p.label in covered for p in card.points),
            )
        )
        blocks += [Items(tuple(f"{w.lead('trap')}{t}" for t in card.traps))] if card.traps else []
    else:
        blocks.append(Para(card.explain))
    blocks.append(Para(f"{card.id} → {', '.join(card.about)}; {', '.join(card.sources)}", quiet=True))
    return blocks


def _answer(card: Card, w: Words) -> str:
    if card.options:
        return f"{card.best + 1}: {card.options[card.best].text}"
    if card.form == "order":
        return " ".join(str(card.shown_steps.index(step) + 1) for step in card.steps)
    if card.number is not None:
        return f"{card.number.value:g} {card.number.unit}".strip()
    if card.chance is not None:
        return w("it was so") if card.chance.truth else w("it was not so")
    return w("key points")


def interview(sittings: Sequence[Sat], parts: Sequence[str], seed: int, w: Words) -> list[Block]:
    """The report: what was said, what was missing, how deep it went, and whether the answer had its frame."""
    blocks: list[Block] = [
        Para(w("Result {share:.0f} %, seed {seed}.", share=total(sittings), seed=seed)),
        Grid(
            (w("question"), w("score"), w("depth reached"), w("time"), w("allowed")),
            tuple(
                (
                    s.card.ask, f"{s.mark.score:.0%}", w(DEPTHS[s.mark.depth]),
                    clock(s.seconds), f"{MINUTES[s.card.spec.level]:g} min",
                )
                for s in sittings
            ),
        ),
    ]  # fmt: skip
    for place, sat in enumerate(sittings, 1):
        blocks.append(Heading(f"{place}. {sat.card.ask}"))
        blocks.append(Para(sat.reply or w("no answer")))
        points = sat.card.points
        blocks.append(
            Items(
                tuple(f"[{p.depth}] {p.label}: {p.text}" for p in points),
                ticks=tuple(p.label in sat.mark.covered for p in points),
            )
        )
        if sat.opening and parts:
            missing = [p for p in parts if p not in sat.frame]
            said = " → ".join(sat.frame) or w("none")
            blocks.append(
                Para(
                    w("Frame of the answer: {said}. Not heard: {missing}.", said=said,
                      missing=w.comma.join(missing) or w("none"))
                )
            )  # fmt: skip
        if sat.card.traps:
            blocks.append(Heading(w("Traps"), 3))
            blocks.append(Items(sat.card.traps))
        blocks.append(Para(f"→ {', '.join(sat.card.about)}; {', '.join(sat.card.sources)}", quiet=True))
    return blocks


def leader_notes(drill: Drill, par: Game, result: Score, w: Words) -> list[Block]:
    """Everything that the leader of a group needs: truth, the answer to every look, par, prices, what to talk about."""
    book, case = drill.book, drill.case
    entry = book.cases.get(case.id)
    truth = " + ".join(book.causes[c].title for c in drill.truth[:2])
    blocks: list[Block] = [
        Para(
            w("For the leader only. Participants start with `playbook drill {code} --seed {seed}`.",
              code=drill.code, seed=drill.seed)
        ),
        Heading(w("The incident")),
        Para(f"{case.id}: {drill.title}"),
        Para(f"{w.lead('cause')}{truth} ({', '.join(drill.truth[:2])})"),
    ]  # fmt: skip
    if entry is not None and entry.story:
        blocks.append(Para(entry.story))
    blocks += [
        Heading(w("What participants see first")),
        Items(tuple(alert_lines(drill))),
    ]
    picture = case_picture(drill.case.metrics, drill.folder)
    if picture is not None:
        blocks.append(Image(as_svg(picture), picture.alt))
    if drill.held:
        blocks.append(Para(w("Held back, since it would give the cause away: {what}.", what=", ".join(drill.held))))
    blocks += [Heading(w("Suspects on their list")), Items(tuple(_suspect(drill, c, w) for c in drill.suspects), True)]
    blocks += [Heading(w("What every look finds")), _looks(drill, w)]
    blocks.append(Para(w("Anything else: nobody knew (it costs a minute).")))
    blocks += [Heading(w("First aid and repair")), Items(_deeds(drill, w))]
    blocks += _par(par, result, w)
    if entry is not None and (entry.wrong_turns or entry.fix or entry.earlier):
        blocks.append(Heading(w("How it went in life")))
        turns = tuple(f"{w.lead('wrong turn')}{t}" for t in entry.wrong_turns)
        rest = ((w("what helped"), entry.fix), (w("what would have shown it earlier"), entry.earlier))
        blocks.append(Items((*turns, *(f"{name}: {text}" for name, text in rest if text))))
    blocks += [
        Heading(w("To talk about afterwards")),
        Items(
            (
                w("Which check changed your mind, and which one was bought out of habit?"),
                w("What should the log have held so that the most expensive check would have cost nothing?"),
                w("Which suspicion was held too long, and what would have ended it?"),
                w("Which test keeps this from coming back here?"),
            )
        ),
        Para(", ".join(case.sources), quiet=True),
    ]
    return blocks


def _suspect(drill: Drill, cause: str, w: Words) -> str:
    sign = f" ← {w('right')}" if drill.is_true(cause) else ""
    return f"{drill.book.causes[cause].title} ({cause}){sign}"


def _looks(drill: Drill, w: Words) -> Grid:
    known = {e.signal for e in drill.alert}
    rows = []
    for signal, state in sorted(drill.oracle.items()):
        if signal not in known:
            cost = cost_of(drill.book.signals[signal], drill.size)
            rows.append(
                (drill.book.signals[signal].title, signal, state, f"{cost.minutes:.0f}", f"{cost.gpu_hours:.1f}")
            )
    return Grid((w("look"), w("signal"), w("finds"), w("minutes"), w("GPU-hours")), tuple(rows))


def _deeds(drill: Drill, w: Words) -> tuple[str, ...]:
    book = drill.book
    aids = tuple(f"{w.lead('first aid')}{book.fixes[f].title} ({f})" for f in drill.aids)
    return aids + tuple(f"{w.lead('repair')}{f.title} ({f.id})" for f in drill.repairs[:4])


def _par(par: Game, result: Score, w: Words) -> list[Block]:
    rows = []
    for place, step in enumerate(par.steps, 1):
        rows.append((
            str(place), w(step.kind), step.name, outcome(step, w), f"{step.cost.minutes:.0f}",
            f"{step.cost.gpu_hours:.1f}", f"{step.chance:.0%}",
        ))  # fmt: skip
    weights = w.comma.join(f"{w(name)} {share:.0%}" for name, share in WEIGHTS.items())
    return [
        Heading(w("Par: how the engine plays it")),
        Para(
            w(
                "{minutes:.0f} minutes and {hours:.1f} GPU-hours, {total:.0f} minutes in all; {looks} looks,"
                " {suspects} suspicions.",
                minutes=result.par.minutes, hours=result.par.gpu_hours, total=result.par.total,
                looks=result.par_looks, suspects=result.par_suspects,
            )
        ),
        Grid(
            ("", w("step"), w("what"), w("finds"), w("minutes"), w("GPU-hours"), w("true cause")), tuple(rows)
        ),
        Para(w("Score: {weights}.", weights=weights), quiet=True),
    ]  # fmt: skip
