"""Pictures of the diagnostic graph: the neighbourhood of one entry in layers, never the whole hairball.

Own layout in whole numbers: the same on every machine, nothing to install. A column is ordered by the mean place of its
neighbours in the column before (barycentre), ties by the order in which the caller names the boxes.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import lru_cache

from playbook.faces.pages.blocks import Edge, Graph, Node, Ref
from playbook.faces.pages.shelf import Shelf
from playbook.knowledge.entries import Cause, Signal, Symptom

# In pixels of the picture; the page scales it down where it is narrower.
BOX = 196
GAP_X = 74
GAP_Y = 10
LINE = 16
PAD = 8
HEAD = 26
UNITS = 27  # of text in one line of a box: a Latin letter is 1, a Chinese character 1.8
MOST_LINES = 2

Key = tuple[str, str]


@dataclass
class Column:
    """One layer: its heading, its boxes in the order of the caller, whether that order is kept."""

    heading: str
    boxes: list[tuple[Key, Ref, str]] = field(default_factory=list)  # (key, ref, role)
    keep: bool = False

    def add(self, ref: Ref, role: str = "") -> Key:
        key = (ref.kind, ref.id)
        if all(key != k for k, _, _ in self.boxes):
            self.boxes.append((key, ref, role or ref.kind))
        return key


@dataclass(frozen=True, slots=True)
class Tie:
    start: Key
    end: Key
    weight: int
    label: str = ""


def layered(title: str, description: str, columns: Sequence[Column], ties: Sequence[Tie]) -> Graph:
    """Place the columns from left to right."""
    order = [list(c.boxes) for c in columns]
    for index in range(1, len(columns)):
        if not columns[index].keep:
            order[index] = _barycentre(order[index - 1], order[index], ties)
    heights = [[PAD * 2 + LINE * len(wrap(ref.title)) for _, ref, _ in boxes] for boxes in order]
    tall = max((sum(h) + GAP_Y * (len(h) - 1) for h in heights if h), default=0)
    nodes: dict[Key, Node] = {}
    for index, boxes in enumerate(order):
        x = index * (BOX + GAP_X)
        y = HEAD + (tall - sum(heights[index]) - GAP_Y * (len(boxes) - 1)) // 2
        for (key, ref, role), height in zip(boxes, heights[index], strict=True):
            nodes[key] = Node(ref, x, y, BOX, height, wrap(ref.title), role)
            y += height + GAP_Y
    edges = tuple(_edge(nodes[t.start], nodes[t.end], t) for t in ties if t.start in nodes and t.end in nodes)
    width = len(columns) * BOX + (len(columns) - 1) * GAP_X
    heads = tuple((i * (BOX + GAP_X), c.heading) for i, c in enumerate(columns) if c.boxes)
    return Graph(title, description, width, HEAD + tall + 2, tuple(nodes.values()), edges, heads)


def _barycentre(
    before: list[tuple[Key, Ref, str]], boxes: list[tuple[Key, Ref, str]], ties: Sequence[Tie]
) -> list[tuple[Key, Ref, str]]:
    place = {key: i for i, (key, _, _) in enumerate(before)}
    ranked = []
    for i, box in enumerate(boxes):
        near = [place[t.start] for t in ties if t.end == box[0] and t.start in place]
        near += [place[t.end] for t in ties if t.start == box[0] and t.end in place]
        ranked.append((sum(near) / len(near) if near else float(len(before)), i, box))
    return [box for _, _, box in sorted(ranked, key=lambda r: r[:2])]


def _edge(a: Node, b: Node, tie: Tie) -> Edge:
    if a.x > b.x:
        a, b = b, a
    return Edge(a.x + a.width, a.y + a.height // 2, b.x, b.y + b.height // 2, tie.weight, tie.label)


def units(text: str) -> float:
    """Width of a text in Latin letters."""
    return sum(1.8 if unicodedata.east_asian_width(ch) in "WF" else 1.0 for ch in text)


@lru_cache(maxsize=4096)
def wrap(text: str) -> tuple[str, ...]:
    """At most two lines that fit a box; Chinese breaks anywhere, Latin between words; a cut ends in an ellipsis."""
    lines = [""]
    for piece in pieces(text):
        if lines[-1] and units(lines[-1] + piece.rstrip()) > UNITS:
            lines.append("")
        lines[-1] += piece if lines[-1] else piece.lstrip()
    lines = [_cut(line.strip()) for line in lines if line.strip()] or [""]
    if len(lines) > MOST_LINES:
        lines = [*lines[: MOST_LINES - 1], _cut(lines[MOST_LINES - 1] + "…")]
    return tuple(lines)


def pieces(text: str) -> list[str]:
    """Where a line may break: after a blank or a dash, around a Chinese character."""
    pieces: list[str] = []
    for ch in text:
        wide = unicodedata.east_asian_width(ch) in "WF"
        if (
            wide
            or not pieces
            or pieces[-1].endswith((" ", "-"))
            or unicodedata.east_asian_width(pieces[-1][-1]) in "WF"
        ):
            pieces.append(ch)
        else:
            pieces[-1] += ch
    return pieces


def _cut(line: str) -> str:
    if units(line) <= UNITS:
        return line
    line = line.rstrip("…")
    while line and units(line) > UNITS - 1:
        line = line[:-1]
    return line.rstrip() + "…"


def weight_of(shelf: Shelf, word: str) -> int:
    """How-often word -> thickness 1..3."""
    return max(1, (shelf.often_level(word) + 1) // 2)


def cause_graph(
    shelf: Shelf, cause: Cause, symptoms: int = 6, signals: int = 8, fixes: int = 5, near: int = 5
) -> Graph:
    """Symptoms | this cause and those it is taken for | telling signals and fixes."""
    w = shelf.w
    left, middle, right = (
        Column(w("Symptoms")),
        Column(w("Causes"), keep=True),
        Column(w("Signals and fixes"), keep=True),
    )
    here = middle.add(shelf.ref("causes", cause.id), "here")
    ties: list[Tie] = []
    ordered = sorted(cause.shows.items(), key=lambda item: (-shelf.often_level(item[1]), item[0]))
    for symptom, word in ordered[:symptoms]:
        ties.append(Tie(left.add(shelf.ref("symptoms", symptom)), here, weight_of(shelf, word), shelf.often_word(word)))
    telling = [s for s, _ in shelf.numbers.telling.get(cause.id, ()) if s in cause.expects][:signals]
    for signal in telling:
        best = max(cause.expects[signal].states.items(), key=lambda item: shelf.often_level(item[1]))
        label = f"{best[0]}: {shelf.often_word(best[1])}"
        ties.append(Tie(here, right.add(shelf.ref("signals", signal)), weight_of(shelf, best[1]), label))
    for fix in [f for f in shelf.fixes_of.get(cause.id, []) if f.kind != "prevention"][:fixes]:
        ties.append(Tie(here, right.add(shelf.ref("fixes", fix.id)), 2, w("treats it")))
    for other in cause.mistaken_for[:near]:
        key = middle.add(shelf.ref("causes", other.cause))
        if other.signal and other.signal in shelf.book.signals:
            ties.append(Tie(key, right.add(shelf.ref("signals", other.signal)), 1, other.tell))
        for symptom in getattr(shelf.book.causes.get(other.cause), "shows", {}):
            if symptom in cause.shows:
                ties.append(Tie(("symptoms", symptom), key, 1, ""))
    description = w(
        "Symptoms on the left, causes in the middle, signals and fixes on the right; thick lines are frequent."
    )
    return layered(w("Neighbourhood of {title}", title=cause.title), description, (left, middle, right), ties)


def symptom_graph(shelf: Shelf, symptom: Symptom, causes: int = 9, signals: int = 3) -> Graph | None:
    """This symptom | its likely causes | what singles each of them out."""
    w = shelf.w
    numbers = shelf.numbers.symptoms.get(symptom.id)
    if numbers is None or not numbers.diagnosis.causes:
        return None
    left, middle, right = (
        Column(w("Symptom")),
        Column(w("Likely causes"), keep=True),
        Column(w("What singles them out")),
    )
    here = left.add(shelf.ref("symptoms", symptom.id), "here")
    ties: list[Tie] = []
    for ranked in numbers.diagnosis.causes[:causes]:
        if ranked.probability < 0.01:
            break
        key = middle.add(shelf.ref("causes", ranked.id))
        level = 3 if ranked.probability >= 0.15 else 2 if ranked.probability >= 0.05 else 1
        ties.append(Tie(here, key, level, f"{ranked.probability:.0%}"))
        for signal, outcome in numbers.apart.get(ranked.id, ())[: signals - 1]:
            ties.append(Tie(key, right.add(shelf.ref("signals", signal)), 1, outcome))
    description = w(
        "The symptom on the left, its likely causes in the middle, the signals that single them out on the right."
    )
    return layered(w("Neighbourhood of {title}", title=symptom.title), description, (left, middle, right), ties)


def signal_graph(shelf: Shelf, signal: Signal, each: int = 4) -> Graph | None:
    """This signal | its outcomes | the causes that each outcome speaks for."""
    w = shelf.w
    left, middle, right = Column(w("Signal")), Column(w("Outcome"), keep=True), Column(w("Speaks for"))
    here = left.add(shelf.ref("signals", signal.id), "here")
    ties: list[Tie] = []
    for outcome in signal.outcomes:
        key = middle.add(Ref(f"signals/{signal.id}.html#outcome-{outcome}", outcome, "outcome", outcome))
        ties.append(Tie(here, key, 2))
        for cause, factor in shelf.numbers.speaks(signal.id, outcome)[0][:each]:
            level = 3 if factor >= 6 else 2 if factor >= 3 else 1
            ties.append(Tie(key, right.add(shelf.ref("causes", cause)), level, f"×{factor:.1f}"))
    if not right.boxes:
        return None
    description = w("The signal on the left, its outcomes in the middle, the causes they speak for on the right.")
    return layered(w("What {title} decides", title=signal.title), description, (left, middle, right), ties)
