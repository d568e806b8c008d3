"""The promises of the book, each one small rule with a code: what an entry must hold before anybody relies on it.

A rule is a function `(book, names) -> problems`. `names` tells what the other wings have; this wing imports none.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import combinations
from typing import Any

from playbook.errors import Problem
from playbook.knowledge.entries import HOW_OFTEN, SHAPE, SYMPTOMS, Cause
from playbook.knowledge.graph import kind_of, links
from playbook.knowledge.loader import Book

# Words of prose below which a page says too little to help at night.
THIN = {"causes": 30, "symptoms": 40, "fixes": 15, "signals": 15}
# Two causes are told apart when one signal gives them probabilities that differ by this much.
APART = 0.25
_LEDGER_ROW = re.compile(r"^D\d-")
_UNNAMED = 0.2  # what an outcome that a link does not name is taken for when two causes are compared


@dataclass(frozen=True)
class Names:
    """What the rest of the house has. `detectors`: name -> kinds of findings; `relations`: checks of `preflight`."""

    detectors: Mapping[str, frozenset[str]] = field(default_factory=dict)
    relations: frozenset[str] = frozenset()


Rule = Callable[[Book, Names], Iterator[Problem]]


def lint(book: Book, names: Names) -> list[Problem]:
    """Every broken promise: what the loader met, then rule by rule."""
    found = list(book.problems)
    for rule in RULES.values():
        found += rule(book, names)
    return found


def _at(book: Book, kind: str, entry_id: str, what: str, hint: str, code: str) -> Problem:
    path = book.files.get((kind, entry_id))
    return Problem(str(path) if path else f"{kind}/{entry_id}", 1, what, hint, code)


# Arrows to a signal whose label is one of its outcomes.
_WITH_OUTCOME = frozenset({"excludes", "tests", "called-by", "unless", "told-by", "needs"})


def dangling(book: Book, names: Names) -> Iterator[Problem]:
    """A reference to an entry, or an outcome, that is not there."""
    for link in links(book):
        kind, name = link.end
        if kind == "?" or name not in book.entries.get(kind, {}):
            yield _at(book, *link.start, f"{link.kind} names {name!r}, which is not there", "mend the id", "dangling")
        elif link.kind in _WITH_OUTCOME and link.label not in book.signals[name].outcomes:
            yield _at(book, *link.start, f"{name} has no outcome {link.label!r}", "mend the outcome", "dangling")
    for cause in book.causes.values():
        for signal, link_ in cause.expects.items():
            known = book.signals[signal].outcomes if signal in book.signals else link_.states
            for outcome in sorted(set(link_.states) - set(known)):
                yield _at(
                    book, "causes", cause.id, f"{signal} has no outcome {outcome!r}", "mend the outcome", "dangling"
                )
    for entries in book.entries.values():
        for entry in entries.values():
            if entry.use_instead and kind_of(book, entry.use_instead) is None:
                yield Problem(entry.id, None, f"use_instead names {entry.use_instead!r}", "mend the id", "dangling")


_FLOOR = {"symptoms": 0, "signals": 1, "causes": 2, "fixes": 3, "checklists": 3, "cases": 4, "questions": 5}


def climbing(book: Book, names: Names) -> Iterator[Problem]:
    """A reference that climbs: questions > cases > fixes > causes > signals > symptoms."""
    for link in links(book):
        above = _FLOOR.get(link.end[0], 0) > _FLOOR.get(link.start[0], 9)
        if above:
            yield _at(book, *link.start, f"{link.kind} points up at {'/'.join(link.end)}", "turn it round", "climbing")


def unreachable(book: Book, names: Names) -> Iterator[Problem]:
    """A cause that no symptom leads to."""
    for cause in book.causes.values():
        if not any(s in book.symptoms and w not in ("almost_never",) for s, w in cause.shows.items()):
            yield _at(book, "causes", cause.id, "no symptom leads to it", "write `shows`", "unreachable")


def twins(book: Book, names: Names) -> Iterator[Problem]:
    """Two causes that no signal tells apart."""
    profiles = {c.id: _profile(c) for c in book.causes.values() if c.status != "deprecated"}
    for a, b in combinations(sorted(profiles), 2):
        if not _told_apart(profiles[a], profiles[b]):
            yield _at(book, "causes", a, f"no signal tells it from {b}", "write the signal that does, in both", "twins")


def _profile(cause: Cause) -> dict[tuple[str, str], float]:
    profile = {(SHAPE, s): HOW_OFTEN[w] for s, w in cause.shows.items()}
    for signal, link in cause.expects.items():
        profile |= {(signal, outcome): HOW_OFTEN[word] for outcome, word in link.states.items()}
    for rule in cause.excludes:
        profile[rule.signal, rule.outcome] = 0.0
    return profile


def _told_apart(a: Mapping[tuple[str, str], float], b: Mapping[tuple[str, str], float]) -> bool:
    return any(abs(a.get(key, _UNNAMED) - b.get(key, _UNNAMED)) >= APART for key in {*a, *b})


def symptom_without_first_aid(book: Book, names: Names) -> Iterator[Problem]:
    """A symptom for which nothing says what to do in the first five minutes."""
    served = {s for fix in book.fixes.values() if fix.kind == "first-aid" for s in fix.symptoms}
    for name in book.symptoms:
        if name not in served and name != "healthy":
            yield _at(book, "symptoms", name, "has no first aid", "write a fix with `kind: first-aid`", "no-first-aid")


def cause_without_fix(book: Book, names: Names) -> Iterator[Problem]:
    """A cause that nothing repairs."""
    treated = {c for fix in book.fixes.values() if fix.kind == "repair" for c in fix.treats}
    for cause in book.causes.values():
        if cause.id not in treated and cause.status != "deprecated":
            yield _at(book, "causes", cause.id, "has no repair", "write a fix that treats it", "no-fix")


def fix_without_verification(book: Book, names: Names) -> Iterator[Problem]:
    """A fix of which nobody can tell whether it worked."""
    for fix in book.fixes.values():
        if min(len(fix.cured.split()), len(fix.not_cured.split())) < 3 or fix.cured == fix.not_cured:
            yield _at(
                book, "fixes", fix.id, "cannot be verified", "say what is seen when cured and when not", "no-verify"
            )


def unobtainable(book: Book, names: Names) -> Iterator[Problem]:
    """A signal that nobody can get: no detector, no log, no config, no command and hardly a word on how."""
    for signal in book.signals.values():
        by_itself = signal.seen_by or signal.log or signal.config
        if not by_itself and not signal.commands and len(signal.how.split()) < 6:
            yield _at(
                book, "signals", signal.id, "nothing says how to get it", "write `how` or `commands`", "unobtainable"
            )


def unused_signal(book: Book, names: Names) -> Iterator[Problem]:
    """A signal that tells nothing: no cause has a link to it, and of no class is an opinion known."""
    used = {s for cause in book.causes.values() for s in (*cause.expects, *(r.signal for r in cause.excludes))}
    used |= set(book.opinions)
    for name in book.signals:
        if name not in used and name != SHAPE:
            yield _at(
                book, "signals", name, "no cause has a link to it", "write the link or drop the signal", "unused-signal"
            )


def unknown_detector(book: Book, names: Names) -> Iterator[Problem]:
    """A signal that names a detector, or a kind of finding, that does not exist."""
    if not names.detectors:
        return
    for signal in book.signals.values():
        for seen in signal.seen_by:
            if seen.detector not in names.detectors:
                yield _at(
                    book,
                    "signals",
                    signal.id,
                    f"no detector {seen.detector!r}",
                    "see playbook/detectors",
                    "no-detector",
                )
                continue
            for kind in sorted(set(seen.kinds) - names.detectors[seen.detector]):
                what = f"detector {seen.detector} finds no {kind!r}"
                yield _at(book, "signals", signal.id, what, "see its KINDS", "no-detector")


_JUDGED = frozenset({"ok", "warn", "bad"})


def unknown_check(book: Book, names: Names) -> Iterator[Problem]:
    """An item of a checklist that `preflight` passes over: no such relation, or an outcome that is no judgement."""
    for checklist in book.kind("checklists").values():
        for item in checklist.items:
            if item.relation and names.relations and item.relation not in names.relations:
                what = f"{item.id}: no relation {item.relation!r}"
                yield _at(book, "checklists", checklist.id, what, "see playbook/workflow/preflight", "no-check")
            for rule in item.config:
                said = {*rule.equals.values(), *(outcome for _, outcome in (*rule.below, *rule.above))}
                for outcome in sorted(said - _JUDGED):
                    what = f"{item.id}: a configuration is judged ok, warn or bad, not {outcome!r}"
                    yield _at(book, "checklists", checklist.id, what, "mend the outcome", "no-check")


def log_patterns(book: Book, names: Names) -> Iterator[Problem]:
    """A log pattern that misses its own sample, or matches what it must not."""
    for signal in book.signals.values():
        for rule in signal.log:
            regex = re.compile(rule.pattern)
            for line in rule.match:
                if not regex.search(line):
                    yield _at(
                        book,
                        "signals",
                        signal.id,
                        f"{rule.pattern!r} misses {line!r}",
                        "mend the pattern",
                        "log-pattern",
                    )
            for line in rule.no_match:
                if regex.search(line):
                    yield _at(
                        book,
                        "signals",
                        signal.id,
                        f"{rule.pattern!r} matches {line!r}",
                        "mend the pattern",
                        "log-pattern",
                    )


def unknown_source(book: Book, names: Names) -> Iterator[Problem]:
    """A citation that leads nowhere: no ledger row, no case, no key of the sources."""
    for kind, entries in book.entries.items():
        for entry in entries.values():
            for source in sorted(cited(entry)):
                if source in book.sources or source in book.cases or source in book.ledger:
                    continue
                code = "ledger-row" if _LEDGER_ROW.match(source) else "no-source"
                yield _at(book, kind, entry.id, f"cites {source!r}, which is not there", "mend the citation", code)


def cited(entry: Any) -> set[str]:
    """Every source that an entry names, in its head and in its links."""
    found = set(entry.sources)
    for link in getattr(entry, "expects", {}).values():
        found |= set(link.because)
    for part in (*getattr(entry, "excludes", ()), *getattr(entry, "couples", ())):
        found |= set(part.because)
    for item in getattr(entry, "items", ()):
        found |= set(item.sources)
    return found


def thin(book: Book, names: Names) -> Iterator[Problem]:
    """A page with too few words to help."""
    texts: dict[str, Callable[[Any], str]] = {
        "causes": lambda e: f"{e.summary} {e.mechanism}",
        "symptoms": lambda e: f"{e.summary} {e.looks_like} {e.not_this} {e.impact} {e.stop_loss}",
        "fixes": lambda e: f"{e.summary} {' '.join(e.steps)}",
        "signals": lambda e: f"{e.question} {e.how}",
    }
    for kind, text in texts.items():
        for entry in book.entries[kind].values():
            if (count := len(text(entry).split())) < THIN[kind]:
                what = f"says too little ({count} of {THIN[kind]} words)"
                yield _at(book, kind, entry.id, what, "write what helps at 3 a.m.", "thin")


def class_unknown(book: Book, names: Names) -> Iterator[Problem]:
    """A cause of a class that the taxonomy lacks; a class without a cause."""
    if not book.classes:
        return
    for cause in book.causes.values():
        info = book.classes.get(cause.class_)
        if info is None:
            yield _at(book, "causes", cause.id, f"class {cause.class_!r} is not in classes.yaml", "mend it", "no-class")
    for name in sorted(set(book.classes) - {c.class_ for c in book.causes.values()}):
        yield Problem("classes.yaml", None, f"class {name!r} has no cause", "write one", "class-without-cause")


def symptoms_fixed(book: Book, names: Names) -> Iterator[Problem]:
    """The outcomes of `loss-shape` are the symptoms, and each has its page."""
    shape = book.signals.get(SHAPE)
    if shape is None:
        return
    for name in sorted(set(shape.outcomes) ^ set(book.symptoms)):
        yield Problem(
            "signals/loss-shape",
            None,
            f"{name!r} is an outcome or a symptom, not both",
            f"see {SYMPTOMS[0]}",
            "symptoms",
        )


def opinions_fit(book: Book, names: Names) -> Iterator[Problem]:
    """A pooled judgement of a signal, an outcome or a class that the book lacks: the engine would leave it out."""
    for signal, rows in sorted(book.opinions.items()):
        entry = book.signals.get(signal)
        for class_, row in sorted(rows.items()):
            if entry is None or set(row) != set(entry.outcomes):
                what = f"{signal}, {class_}: no such signal, or other outcomes than its own"
                yield Problem("opinions", None, what, "name every outcome of the signal once", "opinion")
            elif book.classes and class_ not in book.classes:
                yield Problem("opinions", None, f"{signal}: no class {class_!r}", "see classes.yaml", "opinion")


def precedents_fit(book: Book, names: Names) -> Iterator[Problem]:
    """A network that knows an outcome or a class which the book lacks was learned from another book."""
    for signal, outcome in book.precedents.get("features", ()):
        entry = book.signals.get(signal)
        if entry is None or outcome not in entry.outcomes:
            what = f"{signal} = {outcome}: no such signal, or no outcome of it"
            yield Problem("precedents", None, what, "run `playbook knowledge fit` again", "precedent")
    for name in book.precedents.get("classes", ()):
        if book.classes and name not in book.classes:
            yield Problem("precedents", None, f"no class {name!r}", "run `playbook knowledge fit` again", "precedent")


RULES: dict[str, Rule] = {
    "dangling": dangling,
    "climbing": climbing,
    "unreachable": unreachable,
    "twins": twins,
    "no-first-aid": symptom_without_first_aid,
    "no-fix": cause_without_fix,
    "no-verify": fix_without_verification,
    "unobtainable": unobtainable,
    "unused-signal": unused_signal,
    "no-detector": unknown_detector,
    "no-check": unknown_check,
    "log-pattern": log_patterns,
    "no-source": unknown_source,
    "thin": thin,
    "no-class": class_unknown,
    "symptoms": symptoms_fixed,
    "opinion": opinions_fit,
    "precedent": precedents_fit,
}
