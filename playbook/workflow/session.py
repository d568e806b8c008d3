"""One diagnosis as a list of moves: observed, answered, cannot be got, retracted, tried. All else is recomputed.

A move can be undone and redone; what-if is a session copied. The session never asks by itself: a face (or a case, or
nobody) answers `session.next`.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Literal

from playbook.engine.advice import repair_cost
from playbook.engine.diagnosis import Diagnosis, diagnose
from playbook.engine.tables import Tables
from playbook.engine.value import FREE, Cost, RunSize, cost_of, sum_of
from playbook.errors import PlaybookError
from playbook.findings import Evidence
from playbook.knowledge.loader import Book

UNKNOWN = "unknown"  # answered, but not known
OPPOSITE = {"yes": "no", "no": "yes"}
UNSURE = 0.7  # weight of the named outcome in an answer such as "probably yes"


@dataclass(frozen=True, slots=True)
class Move:
    """observed: came by itself; answered: asked for; closed: cannot be got or not known; retracted: take it back.

    tried: a repair that did not mend it, `signal` is the fix.
    """

    kind: Literal["observed", "answered", "closed", "retracted", "tried"]
    signal: str
    evidence: Evidence | None = None
    cost: Cost | None = None


@dataclass
class Session:
    """The moves so far. `size` is what a control run costs here."""

    book: Book
    tables: Tables
    size: RunSize = field(default_factory=RunSize)
    moves: list[Move] = field(default_factory=list)
    undone: list[Move] = field(default_factory=list)

    def observe(self, evidence: Iterable[Evidence]) -> None:
        """Evidence that came by itself: metrics, logs, configuration."""
        self.moves += [Move("observed", item.signal, item) for item in evidence]

    def answer(self, signal: str, state: str, source: str = "person", because: str = "", free: bool = False) -> None:
        """A person's (or a case's) answer; `unknown` closes the signal, `STATE?` is an unsure one.

        Raises `PlaybookError` for a signal or an outcome that the book does not have.
        """
        self.undone.clear()
        entry = self.book.signals.get(signal)
        if entry is None:
            raise PlaybookError(signal, "is no signal of the book", did_you_mean(signal, self.book.signals))
        cost = FREE if free else cost_of(entry, self.size, self.clusters_done)
        unsure, outcome = state.endswith("?"), state.rstrip("?")
        if outcome in (UNKNOWN, "cannot"):
            self.moves.append(Move("closed", signal, None, Cost(1.0, 0.0, 1.0) if not free else cost))
            return
        if outcome not in entry.outcomes:
            raise PlaybookError(
                f"{signal}={state}", f"{outcome!r} is no outcome", f"one of {', '.join(entry.outcomes)}, unknown"
            )
        evidence = Evidence(signal, outcome, source, because, confidence=UNSURE if unsure else 1.0)  # type: ignore[arg-type]
        self.moves.append(Move("answered", signal, evidence, cost))

    def retract(self, signal: str) -> None:
        """Take back what is known about a signal, wherever it came from."""
        self.undone.clear()
        self.moves.append(Move("retracted", signal))

    def did_not_help(self, fix: str) -> None:
        """A repair was tried in vain: what it tests turned out the other way, where that is a plain yes or no.

        What was seen before stays: a repair that fails does not unsee it. Raises `PlaybookError` for an unknown fix.
        """
        entry = self.book.fixes.get(fix)
        if entry is None:
            raise PlaybookError(fix, "is no fix of the book", did_you_mean(fix, self.book.fixes))
        known = {item.signal for item in self.evidence}
        for signal, outcome in entry.tests.items():
            if signal not in known and set(self.book.signals[signal].outcomes) == set(OPPOSITE):
                self.answer(signal, OPPOSITE[outcome], because=_in_vain(fix), free=True)
        self.undone.clear()
        self.moves.append(Move("tried", fix, None, repair_cost(entry, self.size)))

    def undo(self) -> Move | None:
        """Take back the last move of a person (what was observed stays); a trial goes with what it told."""
        for index in range(len(self.moves) - 1, -1, -1):
            if self.moves[index].kind != "observed":
                move = self.moves.pop(index)
                self.undone.append(move)
                while move.kind == "tried" and index and _told_by(self.moves[index - 1], move.signal):
                    index -= 1
                    self.undone.append(self.moves.pop(index))
                return move
        return None

    def redo(self) -> Move | None:
        if not self.undone:
            return None
        move = self.undone.pop()
        self.moves.append(move)
        trial = next((m for m in reversed(self.undone) if m.kind == "tried"), None)
        while trial is not None and _told_by(move, trial.signal):
            move = self.undone.pop()
            self.moves.append(move)
        return move

    def what_if(self, signal: str, state: str) -> Session:
        """A copy with one more answer; this session stays as it is."""
        copy = replace(self, moves=list(self.moves), undone=[])
        copy.answer(signal, state)
        return copy

    @property
    def evidence(self) -> tuple[Evidence, ...]:
        """What is known now, by signal; a later move replaces an earlier one. Who does not know after all takes back
        what was told, and not what was read from files."""
        known: dict[str, Evidence] = {}
        for move in self.moves:
            if move.evidence is not None:
                known[move.signal] = move.evidence
            elif move.kind == "retracted" or (move.kind == "closed" and _told(known.get(move.signal))):
                known.pop(move.signal, None)
        return tuple(known[key] for key in sorted(known))

    @property
    def closed(self) -> frozenset[str]:
        """Signals that nobody can get."""
        closed: set[str] = set()
        for move in self.moves:
            if move.kind == "closed":
                closed.add(move.signal)
            else:
                closed.discard(move.signal)
        return frozenset(closed)

    @property
    def clusters_done(self) -> frozenset[str]:
        """Reruns that were made: what else they answer is only to be read off."""
        done = set()
        for move in self.moves:
            entry = self.book.signals.get(move.signal)
            if move.kind == "answered" and entry is not None and entry.cluster:
                done.add(entry.cluster)
        return frozenset(done)

    @property
    def tried(self) -> frozenset[str]:
        """Repairs that did not mend it."""
        return frozenset(m.signal for m in self.moves if m.kind == "tried")

    @property
    def asked(self) -> tuple[Move, ...]:
        """Answered and closed moves, in order: what was paid for."""
        return tuple(m for m in self.moves if m.kind in ("answered", "closed"))

    @property
    def cost(self) -> Cost:
        """What the answers have cost so far."""
        return sum_of(m.cost for m in self.moves if m.cost is not None)

    def diagnosis(self, explained: bool = True) -> Diagnosis:
        return diagnose(
            self.book, self.tables, self.evidence, self.closed, self.size, self.clusters_done, explained, self.tried
        )


def _told(item: Evidence | None) -> bool:
    return item is not None and item.source == "person"


def _in_vain(fix: str) -> str:
    return f"{fix} did not help"


def _told_by(move: Move, fix: str) -> bool:
    """Whether an answer came from the trial of a fix."""
    return move.kind == "answered" and move.evidence is not None and move.evidence.because == _in_vain(fix)


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """A hint with the nearest known ids."""
    import difflib

    near = difflib.get_close_matches(word, list(known), n=3, cutoff=0.5)
    return f"did you mean {', '.join(near)}?" if near else "see `playbook knowledge show`"
