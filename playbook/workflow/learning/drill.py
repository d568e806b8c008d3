"""A drill: a real incident, played by a learner who pays for every look and every trial in minutes and GPU-hours.

Nothing in the alert gives the cause away: what would is held back until it is bought. A suspicion is proved as in
life, by trying its repair; so every drill can be solved, at a price. Par is what the engine pays on the same drill.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path

import numpy as np

from playbook.engine.advice import first_aid, fix_cost, trying
from playbook.engine.belief import Belief, posterior
from playbook.engine.diagnosis import IDLE_GAIN, IDLE_RATE
from playbook.engine.tables import SHAPE, Tables
from playbook.engine.value import FREE, Cost, Option, RunSize, gains, options, run_cost, sum_of
from playbook.errors import PlaybookError
from playbook.findings import Evidence
from playbook.knowledge.entries import Fix
from playbook.knowledge.loader import Book
from playbook.workflow.book import Library
from playbook.workflow.cases import CaseFile, context_facts, has_outcome, hits, read_case, start
from playbook.workflow.learning.quiz_cards import dice
from playbook.workflow.session import UNKNOWN, Session, did_you_mean
from playbook.workflow.upkeep.learn import counts_without

# The alert may not make the true mechanism more probable than this.
OPEN = 0.5
SUSPECTS = 8  # causes on the list that a learner may choose from
MENU = 5  # repairs, and first aids, offered to choose from
MOST_LOOKS = 80
# A suspicion without a repair in the book is proved by a control run (ledger D3-ctl-1: 500 steps).
_TRIAL_MINUTES, _TRIAL_STEPS = 30.0, 500


@dataclass(frozen=True)
class Drill:
    """One incident made ready to be played. `oracle`: what every look would find; `held`: kept back from the alert."""

    code: str
    case: CaseFile
    library: Library
    tables: Tables
    size: RunSize
    alert: tuple[Evidence, ...]
    oracle: dict[str, str]
    held: tuple[str, ...]
    suspects: tuple[str, ...]
    folder: Path
    seed: int = 0

    @property
    def book(self) -> Book:
        return self.library.book

    @property
    def title(self) -> str:
        """What the incident is called, in the language of the book."""
        entry = self.book.cases.get(self.case.id)
        return entry.title if entry is not None else self.case.title

    @property
    def symptom(self) -> str:
        """What the loss does; "" where the incident does not tell."""
        return self.oracle.get(SHAPE, "")

    @cached_property
    def truth(self) -> tuple[str, ...]:
        """Causes of the book that are right, the named ones first, then by how common they are."""
        t = self.tables
        right = [h for h, c in enumerate(t.causes) if hits(self.case, c, t.class_of[h])]
        order = sorted(right, key=lambda h: (t.causes[h] not in self.case.causes, -t.prior[h], t.causes[h]))
        return tuple(t.causes[h] for h in order)

    @cached_property
    def aids(self) -> tuple[str, ...]:
        """First aid for the symptom, best first."""
        belief = posterior(self.tables, self.alert)
        return first_aid(self.book, self.symptom, self.tables, belief, self.size)

    @cached_property
    def repairs(self) -> tuple[Fix, ...]:
        """What mends it: repairs of the named causes before those of their kind, the quicker first."""
        return repairs_of(self.book, self.truth, self.size)

    def is_true(self, cause: str) -> bool:
        """Whether a cause is a right answer: the named one, or one of the same mechanism."""
        if cause in self.truth:
            return True
        t = self.tables
        own = {t.class_of[t.index(c)] for c in self.truth}
        return cause in t.causes and t.class_of[t.index(cause)] in own

    def chance(self, belief: Belief) -> tuple[float, bool]:
        """(probability of the true mechanism, whether it leads)."""
        classes = {self.tables.class_of[self.tables.index(c)] for c in self.truth}
        right = [k for k, name in enumerate(self.tables.classes) if name in classes]
        p = float(belief.by_class[right].sum())
        return p, bool(int(belief.by_class.argmax()) in right)


def repairs_of(book: Book, causes: Iterable[str], size: RunSize) -> tuple[Fix, ...]:
    """Repairs that treat one of the causes; the first cause's own before those of its kin."""
    rank = {c: k for k, c in enumerate(causes)}
    found = [
        f
        for f in book.fixes.values()
        if f.kind == "repair" and f.status != "deprecated" and rank.keys() & set(f.treats)
    ]
    order = sorted(found, key=lambda f: (min(rank[c] for c in f.treats if c in rank), fix_cost(f, size), f.id))
    return tuple(order)


def trial_cost(book: Book, cause: str, size: RunSize) -> Cost:
    """What it costs to prove a suspicion: its quickest repair, run until it can be judged."""
    fixes = repairs_of(book, (cause,), size)
    run = trying(fixes[0], size) if fixes else run_cost(_TRIAL_MINUTES, _TRIAL_STEPS, size.gpus, size)
    return run.rounded()


def code_of(case_id: str) -> str:
    """Five hex digits for a case, so that its telling id need not be shown to those who play it."""
    return hashlib.sha256(case_id.encode()).hexdigest()[:5]


def make(case: CaseFile, folder: Path, library: Library, seed: int = 0) -> Drill:
    """A case as a drill. Raises `PlaybookError` where the book knows none of its causes or nothing can be looked at."""
    without = counts_without(library.book, case)
    tables = library.tables if without is None else library.tables_with(without)
    begun = start(case, library.book, tables, folder)
    known = {e.signal: e for e in begun.evidence}
    oracle = {s: e.state for s, e in known.items()} | context_facts(case.context, library.book)
    oracle |= {s: str(v) for s, v in case.answers.items() if has_outcome(library.book, s, str(v))}
    size = replace(begun.size, known=True)
    drill = Drill(code_of(case.id), case, library, tables, size, tuple(known.values()), oracle, (), (), folder, seed)
    if not drill.truth:
        raise PlaybookError(case.id, f"no cause of the book is {' or '.join(case.causes)}", "mend `causes`")
    drill = _hold_back(drill)
    if not set(oracle) - {e.signal for e in drill.alert}:
        raise PlaybookError(case.id, "has nothing to find out", "give the case more `answers`")
    return replace(drill, suspects=_suspects(drill))


def _hold_back(drill: Drill) -> Drill:
    """Take from the alert what gives the cause away, the strongest hint first, until it does not."""
    alert = {e.signal: e for e in drill.alert}
    held: list[str] = []
    while alert and _given_away(drill, alert.values()):
        # The curve is what people see first: it goes last.
        hints = [s for s in alert if s != SHAPE] or list(alert)
        left = {s: drill.chance(posterior(drill.tables, [e for k, e in alert.items() if k != s]))[0] for s in hints}
        strongest = min(sorted(left), key=lambda s: left[s])
        held.append(strongest)
        del alert[strongest]
    return replace(drill, alert=tuple(alert[s] for s in sorted(alert)), held=tuple(held))


def _given_away(drill: Drill, alert: Iterable[Evidence]) -> bool:
    session = Session(drill.book, drill.tables, drill.size)
    session.observe(alert)
    diagnosis = session.diagnosis(explained=False)
    return (diagnosis.decided and not diagnosis.healthy) or drill.chance(diagnosis.belief)[0] >= OPEN


def _suspects(drill: Drill) -> tuple[str, ...]:
    """A list that holds the true cause among those that the alert and all the evidence suggest; in seeded order."""
    t = drill.tables
    everything = posterior(t, [Evidence(s, o, "case") for s, o in sorted(drill.oracle.items())])
    at_first = posterior(t, drill.alert)
    score = everything.by_class + at_first.by_class
    near: list[str] = []
    for k in np.argsort(-score, kind="stable"):
        form = t.causes[max(t.members(int(k)), key=lambda h: everything.marginal[h] + at_first.marginal[h])]
        if not drill.is_true(form):
            near.append(form)
    told = [m.cause for m in drill.book.causes[drill.truth[0]].mistaken_for]
    mistaken = [m for m in told if m in t.causes and not drill.is_true(m) and m not in near[: SUSPECTS - 3]]
    others = dict.fromkeys([*near[: SUSPECTS - 3], *mistaken[:2], *near])
    chosen = [drill.truth[0], *list(others)[: SUSPECTS - 1]]
    dice(drill.case.id, "suspects", str(drill.seed)).shuffle(chosen)
    return tuple(chosen)


@dataclass(frozen=True, slots=True)
class Step:
    """One thing done. kind: look, aid, suspect, repair. `state` is what came of it; gain in bits, at that moment."""

    kind: str
    name: str
    state: str
    cost: Cost
    gain: float = 0.0
    best: str = ""  # the check that was most worth its cost at that moment
    share: float = 0.0  # value for cost of what was asked, against the best
    chance: float = 0.0  # of the true mechanism, after the step


@dataclass
class Game:
    """A drill being played. Every method pays and returns what came of it."""

    drill: Drill
    session: Session = field(init=False)
    steps: list[Step] = field(default_factory=list)
    extra: list[Cost] = field(default_factory=list)  # trials of suspicions and of repairs
    solved: bool = False
    mended: bool = False

    def __post_init__(self) -> None:
        self.session = Session(self.drill.book, self.drill.tables, self.drill.size)
        self.session.observe(self.drill.alert)

    @property
    def cost(self) -> Cost:
        """Minutes, GPU-hours and both together, so far."""
        return sum_of([self.session.cost, *self.extra])

    def look(self, signal: str) -> str:
        """Buy one observation; `unknown` where nobody in this incident knew."""
        book = self.drill.book
        if signal not in book.signals:
            raise PlaybookError(signal, "is nothing to look at", did_you_mean(signal, book.signals))
        if signal in {e.signal for e in self.session.evidence} or signal in self.session.closed:
            raise PlaybookError(signal, "is known, or was asked in vain", "look at something else")
        belief = posterior(self.drill.tables, self.session.evidence)
        gain = gains(self.drill.tables, belief, {e.signal for e in belief.used}).get(signal, 0.0)
        best = self.session.diagnosis(explained=False).next
        mine = next((o for o in self._plan(belief) if o.signal == signal), None)  # None: not worth asking at all
        state = self.drill.oracle.get(signal, UNKNOWN)
        before = self.cost
        self.session.answer(signal, state, source="case")
        after = self.cost
        paid = Cost(
            after.minutes - before.minutes, after.gpu_hours - before.gpu_hours, after.total - before.total
        ).rounded()
        self._did(
            Step(
                "look",
                signal,
                state,
                paid,
                gain=round(gain, 4) if state != UNKNOWN else 0.0,
                best=best.signal if best else "",
                share=round(min(1.0, mine.rate / best.rate), 4) if best and mine else 0.0,
            )
        )
        return state

    def _plan(self, belief: Belief) -> list[Option]:
        """What could be looked at now, best first: what is idle to the engine is left out, as in a diagnosis."""
        known = {e.signal for e in belief.used}
        drill, session = self.drill, self.session
        found = options(
            drill.tables, belief, drill.book.signals, known, session.closed, drill.size, session.clusters_done
        )
        return [o for o in found if o.gain >= IDLE_GAIN and o.rate >= IDLE_RATE]

    def aid(self, fix: str) -> bool:
        """Name the first aid; only the first naming counts."""
        self._fix(fix)
        good = fix in self.drill.aids
        self._did(Step("aid", fix, "right" if good else "wrong", FREE))
        return good

    def suspect(self, cause: str) -> bool:
        """Name the cause and prove it by trying its repair; a wrong one costs its trial."""
        if cause not in self.drill.tables.causes:
            raise PlaybookError(cause, "is no cause of the book", did_you_mean(cause, self.drill.tables.causes))
        right = self.drill.is_true(cause)
        cost = trial_cost(self.drill.book, cause, self.drill.size)
        self.extra.append(cost)
        self.solved = self.solved or right
        self._did(Step("suspect", cause, "right" if right else "wrong", cost))
        return right

    def repair(self, fix: str) -> bool:
        """Choose the repair once the cause stands; a wrong one costs its own trial."""
        entry = self._fix(fix)
        right = entry in self.drill.repairs
        cost = FREE if right else trying(entry, self.drill.size).rounded()
        if not right:
            self.extra.append(cost)
        self.mended = self.mended or right
        self._did(Step("repair", fix, "right" if right else "wrong", cost))
        return right

    def _fix(self, fix: str) -> Fix:
        entry = self.drill.book.fixes.get(fix)
        if entry is None:
            raise PlaybookError(fix, "is no fix of the book", did_you_mean(fix, self.drill.book.fixes))
        return entry

    def _did(self, step: Step) -> None:
        """Keep a step with the belief in the true mechanism that it left."""
        chance, _ = self.drill.chance(posterior(self.drill.tables, self.session.evidence))
        self.steps.append(replace(step, chance=round(chance, 4)))


def par_game(drill: Drill) -> Game:
    """The engine plays: its first aid, its questions until it stops, its suspicions in the order of its belief."""
    game = Game(drill)
    if drill.aids:
        game.aid(drill.aids[0])
    for _ in range(MOST_LOOKS):
        option = game.session.diagnosis(explained=False).next
        if option is None:
            break
        game.look(option.signal)
    for ranked in game.session.diagnosis(explained=False).causes:
        if game.suspect(ranked.id):
            break
    if drill.repairs:
        game.repair(drill.repairs[0].id)
    return game


def find(name: str, library: Library, seed: int = 0) -> Drill:
    """A drill by its code, its case id, or the path of a case file. Raises `PlaybookError`."""
    book = library.book
    path = Path(name)
    if path.suffix in (".yaml", ".yml") or path.is_file():
        return make(read_case(path), path.parent, library, seed)
    for case_id in sorted(book.cases):
        if name in (case_id, code_of(case_id)):
            file = book.files["cases", case_id]
            return make(read_case(file), file.parent, library, seed)
    hint = did_you_mean(name, book.cases).replace("`playbook knowledge show`", "`playbook drill --list`")
    raise PlaybookError(name, "is no drill", hint)


def all_codes(book: Book) -> dict[str, str]:
    """code -> case id, in the order of the codes; a code that two cases share belongs to the first."""
    codes: dict[str, str] = {}
    for case_id in sorted(book.cases):
        codes.setdefault(code_of(case_id), case_id)
    return dict(sorted(codes.items()))


def by_seed(seed: int, library: Library) -> Drill:
    """The same drill for everybody who names the same seed."""
    codes = list(all_codes(library.book))
    if not codes:
        raise PlaybookError("drill", "the book has no cases", "name a case file")
    return find(codes[dice("drill", str(seed)).randrange(len(codes))], library, seed)


def level(drill: Drill) -> int:
    """How hard it begins, 1 to 4: by the share that the alert alone gives to the true mechanism."""
    chance, leads = drill.chance(posterior(drill.tables, drill.alert))
    return 1 if leads else 2 if chance >= 0.1 else 3 if chance >= 0.03 else 4
