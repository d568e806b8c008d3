"""Evidence -> Diagnosis: ranked causes with reasons, what to do first, what to look at next, and whether it is decided.

Causes of one class are forms of one mechanism: the ranking goes by class, the most probable form stands for it and
carries the probability of the class, the other forms are listed as its variants. That keeps a ranking from filling up
with five wordings of one thing.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass

from playbook.engine import explain
from playbook.engine.advice import first_aid, repairs
from playbook.engine.belief import Belief, posterior
from playbook.engine.explain import Reason, RuledOut, Tipping
from playbook.engine.observe import HEALTHY
from playbook.engine.precedents import TELLERS
from playbook.engine.tables import SHAPE, Tables
from playbook.engine.trial import Trial, trial
from playbook.engine.value import TIE, Option, RunSize, options
from playbook.findings import Evidence
from playbook.knowledge.loader import Book

# A verdict is given at this probability of the leading class, with at least this much evidence behind it. The numbers
# here were set by what was right among told cases: a verdict should be right nineteen times of twenty.
DECIDE = 0.82
DECIDE_EVIDENCE = 3
# Less than that may do where one line of a log says it: no other class comes near, nor what is not in the book.
ALONE = 30.0
# Symptoms are called an incident only when the detector is this sure: warnings on healthy runs cost trust. A weaker one
# decides nothing, and neither does what is told beside a curve that looks healthy.
INCIDENT = 0.7
# What rests on one line of a log that leaves other classes has to be surer than what several observations come to.
DECIDE_ON_A_LINE = 0.9
# What speaks against the leading cause may come to this share of what speaks for it. Answers that contradict each other
# leave a cause first that fits none too badly: a mistaken answer or two faults, no verdict. Below it verdicts on
# published reports are right as often as those that nothing speaks against.
CONTRADICTED = 0.6
# A told outcome at most this usual tells of a fault, however the curve looks.
UNUSUAL = 0.2
# Asking goes on beyond a verdict while it is cheap to check it, for a probability that was just reached is often passed
# by chance; at CERTAIN it ends. A check is what the book links to the leading cause or to one of its nearest RIVALS.
CERTAIN = 0.99
RIVALS = 2
# Of the classes that published incidents tell, so many are named at most, and those from this probability on.
PRECEDENTS_NAMED, PRECEDENT_NAMED = 3, 0.05
# Bits, and bits per minute, below which asking on is idle.
IDLE_GAIN = 0.01
IDLE_RATE = 0.0003


@dataclass(frozen=True, slots=True)
class Ranked:
    """One mechanism: its most probable form, with the probability of the class."""

    id: str
    title: str
    layer: str
    class_: str
    probability: float
    variants: tuple[tuple[str, float], ...]
    pro: tuple[Reason, ...]
    con: tuple[Reason, ...]


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """The answer of the engine. `next` is None when nothing is worth asking; `healthy` when nothing is wrong.

    `plan` is what is worth asking, best first; after a verdict it holds checks of it only.

    `trial` is a harmless repair that is better tried than asked about (None where a question comes first).
    """

    causes: tuple[Ranked, ...]
    coupled: tuple[tuple[str, str, float], ...]
    unknown: float
    decided: bool
    healthy: bool
    why_undecided: str
    next: Option | None
    plan: tuple[Option, ...]
    first_aid: tuple[str, ...]
    fixes: tuple[str, ...]
    ruled_out: tuple[RuledOut, ...]
    tipping: Tipping | None
    trial: Trial | None
    unmapped: tuple[Evidence, ...]
    belief: Belief


def diagnose(
    book: Book,
    tables: Tables,
    evidence: Iterable[Evidence],
    closed: Collection[str] = (),
    size: RunSize | None = None,
    clusters_done: Collection[str] = (),
    explained: bool = True,
    tried: Collection[str] = (),
) -> Diagnosis:
    """Judge the evidence. `closed`: signals that cannot be got; `explained=False` leaves out what only people read.

    `tried` are repairs that did not mend it: they are not proposed as a trial again.
    """
    known = tuple(evidence)
    belief = posterior(tables, known)
    signals = {e.signal for e in belief.used}
    weighed = explain.weigh(tables, belief) if explained else None
    ranked = _rank(book, tables, belief, weighed)
    plan = options(tables, belief, book.signals, signals, set(closed), size or RunSize(), clusters_done)
    plan = [o for o in plan if o.gain >= IDLE_GAIN and o.rate >= IDLE_RATE]
    healthy = _healthy(book, tables, belief)
    decided, why = (True, "") if healthy else _decide(tables, ranked, belief, plan, weighed)
    if decided and not healthy:
        plan = [o for o in plan if _checks(tables, o.signal, ranked)]
    shape = next((e.state for e in belief.used if e.signal == SHAPE), None)
    return Diagnosis(
        causes=() if healthy else ranked,
        coupled=()
        if healthy
        else tuple((tables.causes[i], tables.causes[j], p) for i, j, p in belief.pairs if p >= 0.02),
        unknown=belief.unknown,
        decided=decided,
        healthy=healthy,
        why_undecided=why,
        next=None if healthy or not plan or _certain(ranked) else plan[0],
        plan=() if healthy else tuple(plan[:8]),
        first_aid=() if healthy else first_aid(book, shape, tables, belief, size or RunSize()),
        fixes=() if healthy else repairs(book, tables, belief, size or RunSize()),
        ruled_out=tuple(explain.ruled_out(tables, belief, weighed)) if weighed and not healthy else (),
        tipping=explain.tipping(tables, belief, known, frozenset(closed)) if explained and not healthy else None,
        trial=trial(book, tables, belief, plan, size or RunSize(), tried) if explained and not healthy else None,
        unmapped=belief.unmapped,
        belief=belief,
    )


def _healthy(book: Book, tables: Tables, belief: Belief) -> bool:
    """The curve was judged healthy and nothing that was told speaks of a fault."""
    shape = next((e for e in belief.used if e.signal == SHAPE), None)
    if shape is None or shape.state != HEALTHY:
        return False
    return not any(tells_of_a_fault(book, tables, e) for e in belief.used if e.source in TELLERS)


def tells_of_a_fault(book: Book, tables: Tables, item: Evidence) -> bool:
    """A plain yes to a question about a fault, or an outcome that is unusual; how a run is set up is no fault."""
    if item.signal == SHAPE or book.signals[item.signal].kind == "config":
        return False
    background = tables.background[tables.columns[item.signal]]
    usual = float(background[tables.outcomes[item.signal].index(item.state)])
    return usual <= UNUSUAL or (item.state == "yes" and usual <= 0.5)


def _rank(book: Book, tables: Tables, belief: Belief, weighed: explain.Weighed | None) -> tuple[Ranked, ...]:
    members: dict[str, list[int]] = {}
    for h, name in enumerate(tables.class_of):
        members.setdefault(name, []).append(h)
    ranked = []
    for c, name in enumerate(tables.classes):
        forms = sorted(members[name], key=lambda h: (-round(float(belief.marginal[h]), TIE), tables.causes[h]))
        cause = book.causes[tables.causes[forms[0]]]
        pro, con = explain.reasons(belief, weighed, forms[0]) if weighed else ([], [])
        variants = tuple((tables.causes[h], float(belief.marginal[h])) for h in forms)
        ranked.append(
            Ranked(
                cause.id, cause.title, cause.layer, name, float(belief.by_class[c]), variants, tuple(pro), tuple(con)
            )
        )
    return tuple(sorted(ranked, key=lambda r: (-round(r.probability, TIE), r.id)))


def precedents_of(diagnosis: Diagnosis, tables: Tables, most: int = PRECEDENTS_NAMED) -> list[tuple[str, float]]:
    """(class, probability): what published incidents that tell the same were; most probable first."""
    judged = diagnosis.belief.judged
    if judged is None or diagnosis.healthy:
        return []
    found = [(name, float(p)) for name, p in zip(tables.classes, judged, strict=True) if p > 0]
    return sorted(found, key=lambda row: (-row[1], row[0]))[:most]


def named_precedents(diagnosis: Diagnosis, tables: Tables) -> list[tuple[str, float]]:
    """Those of `precedents_of` that are worth telling."""
    return [row for row in precedents_of(diagnosis, tables) if row[1] >= PRECEDENT_NAMED]


def _leaves_no_other(ranked: tuple[Ranked, ...], belief: Belief) -> bool:
    """Whether no class comes near the first one, and something is wrong beside the line that says so."""
    if all(e.signal != SHAPE for e in belief.used):
        return False
    others = max([belief.unknown, *(r.probability for r in ranked[1:2])])
    return ranked[0].probability >= ALONE * others


def _certain(ranked: tuple[Ranked, ...]) -> bool:
    return bool(ranked) and ranked[0].probability >= CERTAIN


def _checks(tables: Tables, signal: str, ranked: tuple[Ranked, ...]) -> bool:
    """Whether a signal can confirm or upset the verdict; how a run is set up confirms nothing."""
    forms = [tables.index(r.id) for r in ranked[: 1 + RIVALS]]
    return signal not in tables.circumstances and bool(tables.linked[forms, tables.signals.index(signal)].any())


def _decide(
    tables: Tables, ranked: tuple[Ranked, ...], belief: Belief, plan: list[Option], weighed: explain.Weighed | None
) -> tuple[bool, str]:
    if not ranked:
        return False, "the book has no causes"
    first = tables.index(ranked[0].id)
    on_a_line = explain.rests_on_a_line(belief, first)
    alone = on_a_line and _leaves_no_other(ranked, belief)
    if len({e.signal for e in belief.used} - {SHAPE}) < DECIDE_EVIDENCE and not alone:
        return False, "too little is known"
    if any(e.signal == SHAPE and (e.confidence < INCIDENT or e.state == HEALTHY) for e in belief.used):
        return False, "whether there is a fault at all is not sure"
    if belief.unknown > ranked[0].probability:
        return False, "nothing in the book explains this evidence well"
    bar = DECIDE_ON_A_LINE if on_a_line and not alone else DECIDE
    if ranked[0].probability < bar:
        several = "several causes explain the evidence"
        return False, several if plan else "nothing that is left to look at would decide it"
    if not explain.has_reason(tables, belief, weighed or explain.weigh(tables, belief), first):
        return False, "nothing that was seen or told speaks for the first cause by itself"
    if explain.contradiction(belief, first) > CONTRADICTED:
        return False, "the evidence contradicts itself: one answer may be wrong, or two faults meet"
    return True, ""
