"""The diagnostic graph: who points at whom, what a mutation changes, and a networkx view of it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from playbook.knowledge.entries import Case, Cause, Fix, Signal
from playbook.knowledge.loader import Book

if TYPE_CHECKING:
    import networkx


@dataclass(frozen=True, slots=True)
class Link:
    """One arrow. `kind` says which, as `links` names them; `label` is its word, outcome or remark."""

    kind: str
    start: tuple[str, str]  # (folder, id)
    end: tuple[str, str]
    label: str = ""
    because: tuple[str, ...] = ()


def links(book: Book) -> Iterator[Link]:
    """Every link of the book, in a stable order."""
    for cause in book.causes.values():
        yield from _of_cause(cause)
    for signal in book.signals.values():
        yield from _of_signal(signal)
    for fix in book.fixes.values():
        yield from _of_fix(fix)
    for case in book.cases.values():
        yield from _of_case(case, book)
    for question in book.kind("questions").values():
        for name in question.about:
            kind = kind_of(book, name) or "?"
            yield Link("about", ("questions", question.id), (kind, name), "", tuple(question.sources))
    for checklist in book.kind("checklists").values():
        for item in checklist.items:
            for name in item.prevents:
                yield Link("prevents", ("checklists", checklist.id), ("causes", name), item.id, tuple(item.sources))


def _of_cause(cause: Cause) -> Iterator[Link]:
    here, sources = ("causes", cause.id), tuple(cause.sources)
    for symptom, word in cause.shows.items():
        yield Link("shows", here, ("symptoms", symptom), word, sources)
    for signal, link in cause.expects.items():
        label = ", ".join(f"{outcome}: {word}" for outcome, word in link.states.items())
        yield Link("expects", here, ("signals", signal), label, tuple(link.because))
    for rule in cause.excludes:
        yield Link("excludes", here, ("signals", rule.signal), rule.outcome, tuple(rule.because))
    for other in cause.mistaken_for:
        yield Link("mistaken", here, ("causes", other.cause), other.tell, sources)
        if other.signal:
            yield Link("mistaken-signal", here, ("signals", other.signal), other.tell, sources)
    for couple in cause.couples:
        yield Link("couple", here, ("causes", couple.cause), couple.why, tuple(couple.because))


def _of_signal(entry: Signal) -> Iterator[Link]:
    for others in entry.told_by.values():
        for name, outcomes in others.items():
            for outcome in outcomes:
                yield Link("told-by", ("signals", entry.id), ("signals", name), outcome, tuple(entry.sources))
    for name, outcomes in entry.needs.items():
        for outcome in outcomes:
            yield Link("needs", ("signals", entry.id), ("signals", name), outcome, tuple(entry.sources))


def _of_fix(fix: Fix) -> Iterator[Link]:
    here, sources = ("fixes", fix.id), tuple(fix.sources)
    for name in fix.treats:
        yield Link("treats", here, ("causes", name), fix.kind, sources)
    for name in fix.symptoms:
        yield Link("first-aid", here, ("symptoms", name), fix.kind, sources)
    for kind, table in (("called-by", fix.called_by), ("unless", fix.unless)):
        for signal, outcomes in table.items():
            for outcome in outcomes:
                yield Link(kind, here, ("signals", signal), outcome, sources)
    for signal, outcome in fix.tests.items():
        yield Link("tests", here, ("signals", signal), outcome, sources)


def _of_case(case: Case, book: Book) -> Iterator[Link]:
    here, sources = ("cases", case.id), tuple(case.sources)
    for signal, state in case.answers.items():
        yield Link("answers", here, ("signals", signal), str(state), sources)
    for name in case.causes:
        if name in book.causes:  # else it is a class
            yield Link("truth", here, ("causes", name), "", sources)


def kind_of(book: Book, entry_id: str) -> str | None:
    """The folder that holds an id (ids may repeat over kinds: causes go first)."""
    order = ("causes", "signals", "symptoms", "fixes", "cases", "checklists", "questions")
    return next((kind for kind in order if entry_id in book.entries[kind]), None)


def network(
    book: Book, kinds: frozenset[str] = frozenset({"shows", "expects", "treats", "first-aid"})
) -> networkx.DiGraph:
    """The graph for drawing and walking; nodes are (folder, id)."""
    import networkx

    graph: Any = networkx.DiGraph()
    for kind in ("symptoms", "signals", "causes", "fixes"):
        for entry in book.entries[kind].values():
            graph.add_node((kind, entry.id), title=entry.title, kind=kind)
    for link in links(book):
        if link.kind in kinds and link.start in graph and link.end in graph:
            graph.add_edge(link.start, link.end, kind=link.kind, label=link.label)
    return graph


def neighbourhood(book: Book, kind: str, entry_id: str, hops: int = 1, most: int = 40) -> list[tuple[str, str]]:
    """Nodes within `hops` of an entry, nearest and best linked first, at most `most`."""
    graph = network(book).to_undirected()
    start = (kind, entry_id)
    if start not in graph:
        return []
    import networkx

    near = networkx.single_source_shortest_path_length(graph, start, cutoff=hops)
    order = sorted(near, key=lambda node: (near[node], -graph.degree(node), node))
    return order[:most]
