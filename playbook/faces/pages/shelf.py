"""What every page needs at hand: the book in one language, the engine's numbers, the words, who points at whom.

The reverse of the book's links is built once here, so that a page about a cause knows its fixes, cases and incidents.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from playbook.engine.tables import SHAPE
from playbook.engine.value import Cost, RunSize, cost_of
from playbook.faces.pages.blocks import Part, Plain, Ref, Web
from playbook.faces.pages.numbers import Numbers
from playbook.faces.prices import SHOWN_HOURS
from playbook.faces.words import Words
from playbook.knowledge.entries import LAYERS, Case, Cause, Fix, Signal
from playbook.knowledge.loader import Book
from playbook.workflow.records.published import Published

# The folder of a page = the kind of its entry. Questions live under `quiz/`.
FOLDERS = {
    "symptoms": "symptoms",
    "signals": "signals",
    "causes": "causes",
    "fixes": "fixes",
    "cases": "cases",
    "checklists": "checklists",
    "questions": "quiz",
    "incidents": "incidents",
}
LEVELS = ("almost_never", "seldom", "half", "usually", "almost_always")
SAFE_URL = re.compile(r"^https?://[^\s\"'<>]+$", re.IGNORECASE)


@dataclass
class Shelf:
    """One language's view. `original` is the English book where `book` is a translation of it."""

    book: Book
    numbers: Numbers
    w: Words
    incidents: tuple[Published, ...] = ()
    original: Book | None = None

    def translated(self, kind: str, entry_id: str) -> bool:
        """Whether the entry is in the language of the page; an overlay leaves what it lacks as it was."""
        if self.original is None or self.original is self.book:
            return True
        mine, source = self.book.entries[kind][entry_id], self.original.entries[kind].get(entry_id)
        return mine is not source and mine != source

    # References

    def ref(self, kind: str, entry_id: str, anchor: str = "") -> Ref:
        """A link to an entry; one that the book lacks has an empty url and is shown as its id."""
        title = self.title(kind, entry_id)
        if title is None:
            return Ref("", entry_id, kind, entry_id)
        return Ref(f"{FOLDERS[kind]}/{entry_id}.html{anchor}", title, kind, entry_id)

    def title(self, kind: str, entry_id: str) -> str | None:
        if kind == "incidents":
            found = self.incident_by_id.get(entry_id)
            return self.w.say(found.record.title) if found else None
        entry = self.book.entries[kind].get(entry_id)
        return entry.title if entry is not None else None

    def any_ref(self, entry_id: str) -> Ref | None:
        """A link to whatever entry has this id."""
        for kind in ("causes", "signals", "symptoms", "fixes", "cases", "checklists", "questions"):
            if entry_id in self.book.entries[kind]:
                return self.ref(kind, entry_id)
        return None

    def state(self, signal: str, outcome: str) -> str:
        """`signal = outcome` in the titles of the book."""
        entry = self.book.signals.get(signal)
        return f"{entry.title if entry else signal} = {outcome}"

    def index(self, kind: str) -> Ref:
        """The list of a kind."""
        return Ref(f"{FOLDERS[kind]}/index.html", self.kind_word(kind), kind)

    def kind_word(self, kind: str) -> str:
        w = self.w
        return {
            "symptoms": w("Symptoms"),
            "signals": w("Signals"),
            "causes": w("Causes"),
            "fixes": w("Fixes"),
            "cases": w("Cases"),
            "checklists": w("Checklists"),
            "questions": w("Quiz"),
            "incidents": w("Incidents"),
        }[kind]

    def one_word(self, kind: str) -> str:
        w = self.w
        return {
            "symptoms": w("Symptom"),
            "signals": w("Signal"),
            "causes": w("Cause"),
            "fixes": w("Fix"),
            "cases": w("Case"),
            "checklists": w("Checklist"),
            "questions": w("Quiz question"),
            "incidents": w("Incident"),
        }[kind]

    def layer_word(self, layer: str) -> str:
        w = self.w
        words = {
            "data": w("Data"),
            "numerics": w("Numerics"),
            "model": w("Model"),
            "optimization": w("Optimization"),
            "implementation": w("Implementation"),
            "communication": w("Communication"),
            "hardware": w("Hardware"),
            "checkpoint": w("Checkpoint"),
        }
        return words.get(layer, layer)

    def often_word(self, word: str) -> str:
        w = self.w
        words = {
            "almost_always": w("almost always"),
            "usually": w("usually"),
            "half": w("about half the time"),
            "seldom": w("seldom"),
            "almost_never": w("almost never"),
        }
        return words.get(word, word)

    def risk_word(self, risk: str) -> str:
        w = self.w
        return {
            "safe": w("safe"),
            "low": w("low risk"),
            "medium": w("medium risk"),
            "high": w("high risk"),
        }.get(risk, risk)

    def way_word(self, kind: str) -> str:
        """How a signal is got."""
        w = self.w
        return {
            "metrics": w("from metrics"),
            "log": w("from logs"),
            "config": w("from the config"),
            "ask": w("ask or look"),
            "experiment": w("control run"),
            "probe": w("from the machine"),
        }.get(kind, kind)

    def danger_word(self, danger: str) -> str:
        w = self.w
        return {
            "slows": w("slows the run"),
            "stops-the-run": w("stops the run"),
            "changes-the-run": w("changes the run"),
        }.get(danger, "")

    def minutes(self, minutes: float) -> str:
        if minutes >= 90:
            return self.w("{n} h", n=f"{minutes / 60:.1f}".removesuffix(".0"))
        if 0 < minutes < 1:
            return self.w("< 1 min")
        return self.w("{n} min", n=f"{minutes:.0f}")

    def price(self, cost: Cost) -> str:
        text = self.minutes(cost.minutes)
        return f"{text} · {self.w('{n} GPU-h', n=f'{cost.gpu_hours:.1f}')}" if cost.gpu_hours >= SHOWN_HOURS else text

    def signal_price(self, signal: Signal) -> str:
        return self.price(cost_of(signal, RunSize()))

    def sources(self, keys: Iterable[str]) -> tuple[Part, ...]:
        return tuple(self.source(key) for key in keys)

    def source(self, key: str) -> Part:
        """A source as a link: to the web where it has an address, to a case, to the page of sources."""
        found = self.book.sources.get(key)
        if found is not None:
            title = str(found.get("title", key))
            url = str(found.get("url", ""))
            return Web(url, title) if SAFE_URL.match(url) else Ref(f"sources.html#{anchor_of(key)}", title)
        if key in self.book.cases:
            return self.ref("cases", key)
        if key in self.book.ledger:
            return Ref(f"sources.html#{anchor_of(key)}", key)
        return Plain(key)

    # Who points here

    @cached_property
    def fixes_of(self) -> dict[str, list[Fix]]:
        """cause -> fixes, repairs before preventions, cheap and safe first."""
        return self._by_target((f, f.treats) for f in self._fixes())

    @cached_property
    def aid_of(self) -> dict[str, list[Fix]]:
        """symptom -> first aid."""
        return self._by_target((f, f.symptoms) for f in self._fixes() if f.kind == "first-aid")

    def _fixes(self) -> list[Fix]:
        order = {"first-aid": 0, "repair": 1, "prevention": 2}
        live = [f for f in self.book.fixes.values() if f.status != "deprecated"]
        return sorted(live, key=lambda f: (order[f.kind], f.minutes, f.id))

    @staticmethod
    def _by_target(pairs: Iterable[tuple[Any, Iterable[str]]]) -> dict[str, list[Any]]:
        result: dict[str, list[Any]] = {}
        for item, targets in pairs:
            for target in dict.fromkeys(targets):
                result.setdefault(target, []).append(item)
        return result

    @cached_property
    def causes_by_class(self) -> dict[str, list[Cause]]:
        return self._by_target((c, [c.class_]) for c in self.book.causes.values())

    @cached_property
    def causes_by_layer(self) -> dict[str, list[Cause]]:
        found = self._by_target((c, [c.layer]) for c in self.book.causes.values() if c.status != "deprecated")
        return {layer: found[layer] for layer in LAYERS if layer in found}

    @cached_property
    def cases_of(self) -> dict[str, list[Case]]:
        """cause id -> cases whose truth it is, or whose class it has."""
        pairs = []
        for case in self.book.cases.values():
            causes = [name for name in case.causes if name in self.book.causes]
            classes = [c.id for name in case.causes for c in self.causes_by_class.get(name, ())]
            pairs.append((case, [*causes, *classes]))
        return self._by_target(pairs)

    @cached_property
    def cases_by_symptom(self) -> dict[str, list[Case]]:
        return self._by_target((c, [shape_of(c)]) for c in self.book.cases.values())

    @cached_property
    def cases_by_signal(self) -> dict[str, list[tuple[Case, str]]]:
        result: dict[str, list[tuple[Case, str]]] = {}
        for case in self.book.cases.values():
            for signal, state in case.answers.items():
                result.setdefault(signal, []).append((case, str(state)))
        return result

    @cached_property
    def questions_of(self) -> dict[str, list[Any]]:
        return self._by_target((q, q.about) for q in self.book.kind("questions").values())

    @cached_property
    def checklists_of(self) -> dict[str, list[Any]]:
        lists = self.book.kind("checklists").values()
        return self._by_target((c, [name for item in c.items for name in item.prevents]) for c in lists)

    @cached_property
    def mistaken_of(self) -> dict[str, list[tuple[Cause, Any]]]:
        """cause -> (other cause, its remark) where the other one says that it is taken for this one."""
        result: dict[str, list[tuple[Cause, Any]]] = {}
        for cause in self.book.causes.values():
            for other in cause.mistaken_for:
                result.setdefault(other.cause, []).append((cause, other))
        return result

    @cached_property
    def cited_by(self) -> dict[str, list[tuple[str, str]]]:
        """source key -> (kind, id) of the entries that rest on it."""
        result: dict[str, list[tuple[str, str]]] = {}
        for kind in ("symptoms", "causes", "signals", "fixes", "cases", "checklists", "questions"):
            for entry in self.book.entries[kind].values():
                keys = [*entry.sources]
                if isinstance(entry, Cause):
                    for link in entry.expects.values():
                        keys += link.because
                for key in dict.fromkeys(keys):
                    result.setdefault(key, []).append((kind, entry.id))
        return result

    # Incidents

    @cached_property
    def incident_by_id(self) -> dict[str, Published]:
        return {i.record.id: i for i in self.incidents}

    @cached_property
    def incidents_by_symptom(self) -> dict[str, list[Published]]:
        return self._by_target((i, [i.record.verdict.symptom or ""]) for i in self.incidents)

    @cached_property
    def incidents_by_cause(self) -> dict[str, list[Published]]:
        """Confirmed cause (or class), or the leading cause of the verdict where nobody has confirmed one."""
        return self._by_target((i, [i.cause or ""]) for i in self.incidents)

    @cached_property
    def incidents_by_fix(self) -> dict[str, list[Published]]:
        return self._by_target((i, [t.fix for t in i.record.treatments]) for i in self.incidents)

    def often_level(self, word: str) -> int:
        """1 (almost never) to 5 (almost always)."""
        return LEVELS.index(word) + 1 if word in LEVELS else 0


def anchor_of(key: str) -> str:
    """A key as an id of a page: what is not safe in a URL becomes a dash."""
    return re.sub(r"[^A-Za-z0-9._-]+", "-", key).strip("-") or "x"


def shape_of(case: Case) -> str:
    return str(case.answers.get(SHAPE, ""))


def percent(share: float) -> str:
    """A probability for people: whole percents, `< 1 %` where it is not nothing, never 100 before it is certain."""
    if share <= 0:
        return "0 %"
    if share < 0.01:
        return "< 1 %"
    return f"{min(99, round(share * 100)) if share < 0.9995 else 100} %"
