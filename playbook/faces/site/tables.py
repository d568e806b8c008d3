"""The engine's tables and texts for the browser: the same numbers that the command line computes with.

`tables.js` holds numbers only and is the same for all languages; `texts.<lang>.js` holds what is shown. Rows of
likelihoods repeat a lot, so each distinct row is written once. Numbers are cut to 15 significant digits, which
is nearer than 1e-14 to the engine's own and the same text on every machine.
"""

from __future__ import annotations

from typing import Any

from playbook.engine import advice, belief, diagnosis, explain, precedents, trial, value
from playbook.engine.tables import IMPOSSIBLE, SHAPE, Tables
from playbook.faces.pages.shelf import Shelf
from playbook.knowledge.entries import HOW_OFTEN
from playbook.knowledge.loader import Book
from playbook.workflow.session import UNKNOWN, UNSURE

DIGITS = 15


def constants() -> dict[str, Any]:
    """Every number that the engine's modules fix."""
    return {
        "discount": belief.DISCOUNT,
        "temperature": belief.TEMPERATURE,
        "told": belief.TOLD,
        "unknownPrior": belief.UNKNOWN_PRIOR,
        "authoredPairsPrior": belief.AUTHORED_PAIRS_PRIOR,
        "otherPairsPrior": belief.OTHER_PAIRS_PRIOR,
        "pairCandidates": belief.PAIR_CANDIDATES,
        "rulesOut": belief.RULES_OUT,
        "impossible": IMPOSSIBLE,
        "decide": diagnosis.DECIDE,
        "decideEvidence": diagnosis.DECIDE_EVIDENCE,
        "certain": diagnosis.CERTAIN,
        "contradicted": diagnosis.CONTRADICTED,
        "unusual": diagnosis.UNUSUAL,
        "incident": diagnosis.INCIDENT,
        "reason": explain.REASON,
        "objection": explain.OBJECTION,
        "clear": explain.CLEAR,
        "idleGain": diagnosis.IDLE_GAIN,
        "idleRate": diagnosis.IDLE_RATE,
        "minutesPerGpuHour": value.MINUTES_PER_GPU_HOUR,
        "waitingWeight": value.WAITING_WEIGHT,
        "overheadMinutes": value.OVERHEAD_MINUTES,
        "dangerMinutes": value.DANGER_MINUTES,
        "trivial": value.TRIVIAL,
        "trivialCircumstance": value.TRIVIAL_CIRCUMSTANCE,
        "rivals": diagnosis.RIVALS,
        "plain": value.PLAIN,
        "otherThanTold": value.OTHER_THAN_TOLD,
        "readOffMinutes": value.READ_OFF_MINUTES,
        "riskMinutes": advice.RISK_MINUTES,
        "worthNaming": advice.WORTH_NAMING,
        "mostRepairs": advice.MOST,
        "likely": advice.LIKELY,
        "mostAids": advice.MOST_AIDS,
        "sureEnough": advice.SURE_ENOUGH,
        "burnHours": advice.BURN_HOURS,
        "sceneMinutes": advice.SCENE_MINUTES,
        "stateSteps": advice.STATE_STEPS,
        "handOnMinutes": trial.HAND_ON_MINUTES,
        "harmless": list(trial.HARMLESS),
        "trialAsked": trial.ASKED,
        "trialLikely": trial.LIKELY,
        "trialSaves": trial.SAVES,
        "negligible": trial.NEGLIGIBLE,
        "poolGraph": precedents.GRAPH,
        "poolPrecedents": precedents.PRECEDENTS,
        "poolLeast": precedents.LEAST,
        "precedentsNamed": diagnosis.PRECEDENTS_NAMED,
        "precedentNamed": diagnosis.PRECEDENT_NAMED,
        "tellers": list(precedents.TELLERS),
        "gpus": value.RunSize().gpus,
        "stepSeconds": value.RunSize().step_seconds,
        "shape": SHAPE,
        "unknown": UNKNOWN,
        "unsure": UNSURE,
    }


def numbers(book: Book, tables: Tables) -> dict[str, Any]:
    """The document behind `tables.js`; tests read it too."""
    signals = []
    for name in tables.signals:
        where = tables.columns[name]
        rows: list[list[float]] = []
        places: dict[tuple[float, ...], int] = {}
        cells = []
        for h in range(len(tables.causes)):
            row = tuple(_cut(x) for x in tables.likelihood[h, where])
            if row not in places:
                places[row] = len(rows)
                rows.append(list(row))
            cells.append(places[row])
        entry = book.signals[name]
        signals.append(
            {
                "id": name,
                "group": entry.group,
                "cluster": entry.cluster,
                "minutes": entry.minutes,
                "steps": entry.steps,
                "gpus": entry.gpus,
                "danger": entry.danger,
                "answered": _cut(tables.answered[name]),
                "setUp": entry.kind == "config",
                "circumstance": entry.circumstance,
                "outcomes": list(tables.outcomes[name]),
                "background": [_cut(x) for x in tables.background[where]],
                "rows": rows,
                "cells": cells,
                "toldBy": _told_by(tables, where),
                "needs": [[other, sorted(o)] for other, o in sorted(tables.needs.get(name, {}).items())],
                "reasonFrom": explain.reason_from(tables, name),
                "linked": [h for h in range(len(tables.causes)) if tables.linked[h, tables.signals.index(name)]],
            }
        )
    fixes = [
        {
            "id": f.id,
            "kind": f.kind,
            "treats": list(f.treats),
            "symptoms": list(f.symptoms),
            "minutes": f.minutes,
            "gpuSteps": f.gpu_steps,
            "risk": f.risk,
            "calledBy": [[s, list(outcomes)] for s, outcomes in f.called_by.items()],
            "unless": [[s, list(outcomes)] for s, outcomes in f.unless.items()],
            "tests": [[signal, outcome] for signal, outcome in f.tests.items() if signal in tables.columns],
            "averts": [[kind, HOW_OFTEN[often]] for kind, often in f.averts.items()],
        }
        for f in book.fixes.values()
        if f.status != "deprecated"
    ]
    return {
        "constants": constants(),
        "causes": list(tables.causes),
        "classes": list(tables.classes),
        "classOf": [tables.classes.index(name) for name in tables.class_of],
        "prior": [_cut(x) for x in tables.prior],
        "couples": sorted([i, j] for i, j in tables.couples),
        "signals": signals,
        "fixes": fixes,
        # As it is written: whole numbers, `scale` of them are 1.
        "precedents": book.precedents if tables.precedents else None,
    }


def _told_by(tables: Tables, where: slice) -> list[list[list[str]]]:
    """Per outcome of one signal the [signal, outcome] that say as much."""
    names = {tables.column(signal, o): [signal, o] for signal, outcomes in tables.outcomes.items() for o in outcomes}
    return [[names[k] for k in sorted(tables.told_by.get(own, ()))] for own in range(where.start, where.stop)]


def _cut(value: float) -> float:
    return float(f"{float(value):.{DIGITS}g}")


def texts(shelf: Shelf) -> dict[str, Any]:
    """The document behind `texts.<lang>.js`: what the guided diagnosis shows."""
    w = shelf.w
    book, tables = shelf.book, shelf.numbers.tables
    signals = {
        name: {
            "title": entry.title,
            "question": entry.question,
            "outcomes": dict(entry.outcomes),
            "how": " ".join(entry.how.split()),
            "run": entry.commands[0].run.rstrip() if entry.commands else "",
            "way": shelf.way_word(entry.kind),
            "danger": shelf.danger_word(entry.danger),
        }
        for name, entry in book.signals.items()
    }
    words = {
        "unknown": w("Don't know, or cannot look"),
        "undo": w("Undo"),
        "restart": w("Start again"),
        "how": w("How to find out"),
        "price": w("Price"),
        "tells": w("tells {n} bit"),
        "minutes": w("{n} min"),
        "underMinute": w("< 1 min"),
        "hours": w("{n} h"),
        "gpuHours": w("{n} GPU-h"),
        "known": w("What you said"),
        "nothing": w("Nothing yet. Pick what you see."),
        "notInBook": w("Not in the book"),
        "decided": w("Decided"),
        "undecided": w("Not decided"),
        "healthy": w("Nothing speaks of a fault."),
        "tooLittle": w("Too little is known yet."),
        "weakSymptom": w("Whether there is a fault at all is not sure."),
        "nothingExplains": w("Nothing in the book explains this well."),
        "several": w("Several causes explain it."),
        "noReason": w("Nothing that you said speaks for the first cause by itself."),
        "contradicts": w("The answers contradict each other: one may be wrong, or two faults meet."),
        "nothingLeft": w("Nothing that is left to look at would decide it."),
        "firstAid": w("First aid"),
        "fixes": w("Fixes worth trying"),
        "next": w("Next best question"),
        "noNext": w("No further question is worth its price."),
        "other": w("Or answer another one"),
        "for": w("for"),
        "against": w("against"),
        "remove": w("Take back"),
        "also": w("also"),
        "together": w("Two at once"),
        "precedents": w("Published incidents that tell the same"),
        "notKnown": w("not known"),
        "tryTitle": w("Or try it at once"),
        "tryLine": w(
            "works with {chance}, takes {minutes} min; expected {tried} min in all, {asked} when asking first"
        ),
        "itMended": w("it mended it"),
        "itDidNot": w("it did not"),
        "inVain": w("did not help"),
        "mended": w("Mended. The cause was most probably:"),
        "copyLine": w("The same on the command line"),
    }
    return {
        "words": words,
        "signals": signals,
        "causes": {
            name: [book.causes[name].title, shelf.layer_word(book.causes[name].layer)] for name in tables.causes
        },
        "classes": {name: book.class_title(name) for name in tables.classes},
        "fixes": {f.id: f.title for f in book.fixes.values()},
        "symptoms": {s.id: s.title for s in book.symptoms.values()},
    }
