"""The building stones of a page: sections with an anchor, and blocks of text, steps, commands, tables, bars, pictures.

Texts are entry texts (Markdown, not trusted). A `Ref` points at a page relative to the root of its language.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from playbook.faces.pages.plots import Plot
from playbook.knowledge.entries import Command, Figure


@dataclass(frozen=True, slots=True)
class Ref:
    """A link to a page of the site: `url` such as `causes/hard-samples.html#fix`."""

    url: str
    title: str
    kind: str = ""
    id: str = ""


@dataclass(frozen=True, slots=True)
class Web:
    """A link out of the site; `url` is empty where the address is none that may be followed (http, https)."""

    url: str
    title: str


@dataclass(frozen=True, slots=True)
class Plain:
    """Text that is shown as it is: log lines, titles of incidents, ids. `code` sets it in the typeface of code.

    `searched` is off for what stands here although the page is not about it.
    """

    text: str
    code: bool = False
    searched: bool = True


# What a cell of a table or of a list of facts may hold; a bare text is Markdown.
Part: TypeAlias = "str | Ref | Web | Plain"
Cell: TypeAlias = "Part | tuple[Part, ...]"


@dataclass(frozen=True, slots=True)
class Prose:
    text: str


@dataclass(frozen=True, slots=True)
class Notice:
    """A line that must not be overlooked. tone: stop | warn | note."""

    tone: str
    text: str
    ref: Ref | None = None


@dataclass(frozen=True, slots=True)
class Steps:
    """Numbered steps; `numbered=False` makes it a plain list."""

    items: tuple[Cell, ...]
    numbered: bool = True


@dataclass(frozen=True, slots=True)
class Commands:
    """Things to copy, each marked read-only or mutating, with what to expect."""

    items: tuple[Command, ...]


@dataclass(frozen=True, slots=True)
class Snippets:
    """Settings by framework."""

    items: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class Facts:
    """Label and value, in rows."""

    rows: tuple[tuple[str, Cell], ...]


@dataclass(frozen=True, slots=True)
class Table:
    """With `anchors` each row has an id: this prefix and the text of its first cell, a `Plain`.

    `compact`: its cells are so short that it fits a phone as it is.
    """

    head: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]
    caption: str = ""
    anchors: str | None = None
    compact: bool = False


@dataclass(frozen=True, slots=True)
class Bar:
    """One probability: a label, a share in 0..1, an explanation and what hangs below it."""

    label: Cell
    share: float
    note: Cell = ""
    below: tuple[Cell, ...] = ()
    anchor: str = ""


@dataclass(frozen=True, slots=True)
class Bars:
    """Probabilities; with `counts` the bars compare numbers that stand in their notes."""

    rows: tuple[Bar, ...]
    caption: str = ""
    counts: bool = False


@dataclass(frozen=True, slots=True)
class Links:
    """References with a word of explanation each."""

    rows: tuple[tuple[Ref | Web, str], ...]


@dataclass(frozen=True, slots=True)
class Outcome:
    """One outcome of a check: its id, its meaning, what leads after it and with which probability."""

    id: str
    meaning: str
    leads: Ref | None = None
    share: float = 0.0


@dataclass(frozen=True, slots=True)
class Check:
    """An observation worth making: the question, its price, what it tells, and where each outcome leads."""

    ref: Ref
    question: str
    way: str
    price: str
    gain: str
    outcomes: tuple[Outcome, ...]
    how: str
    commands: tuple[Command, ...]
    danger: str = ""


@dataclass(frozen=True, slots=True)
class Checks:
    """With `more` they go on where a list before them ended."""

    rows: tuple[Check, ...]
    more: bool = False


@dataclass(frozen=True, slots=True)
class Action:
    """A fix in short: what to do, what it risks, how it is seen to work and how it is undone."""

    ref: Ref
    summary: str
    steps: tuple[str, ...]
    commands: tuple[Command, ...]
    price: str
    risk: str
    risk_word: str
    cured: str = ""
    not_cured: str = ""
    undo: str = ""
    note: str = ""


@dataclass(frozen=True, slots=True)
class Actions:
    rows: tuple[Action, ...]
    tone: str = "fix"  # aid | fix
    open: bool = True


@dataclass(frozen=True, slots=True)
class Card:
    """A door to a page: with the drawing of a curve where `shape` names one."""

    ref: Ref
    text: str
    shape: str = ""
    meta: str = ""


@dataclass(frozen=True, slots=True)
class Cards:
    rows: tuple[Card, ...]


@dataclass(frozen=True, slots=True)
class Listing:
    """A long list of entries in groups, with a filter where a script runs. rows: (ref, text, tags)."""

    groups: tuple[tuple[str, str, tuple[tuple[Ref, str, str], ...]], ...]  # (anchor, heading, rows)
    filter_label: str = ""


@dataclass(frozen=True, slots=True)
class Shape:
    """The small drawing of a symptom's curve."""

    id: str
    title: str


@dataclass(frozen=True, slots=True)
class Node:
    """A box of a graph picture, placed."""

    ref: Ref
    x: int
    y: int
    width: int
    height: int
    lines: tuple[str, ...]
    role: str  # kind, or `here` for the page's own entry


@dataclass(frozen=True, slots=True)
class Edge:
    """An arrow between two boxes: weight 1 (seldom) to 3 (almost always)."""

    x1: int
    y1: int
    x2: int
    y2: int
    weight: int
    label: str


@dataclass(frozen=True, slots=True)
class Graph:
    title: str
    description: str
    width: int
    height: int
    nodes: tuple[Node, ...]
    edges: tuple[Edge, ...]
    heads: tuple[tuple[int, str], ...]  # (x, heading of a column)


@dataclass(frozen=True, slots=True)
class Matrix:
    """The whole graph as a table of dots: rows in groups against columns; a cell is (level 0..5, word)."""

    columns: tuple[Ref, ...]
    groups: tuple[tuple[str, str, tuple[tuple[Ref, tuple[tuple[int, str], ...]], ...]], ...]
    caption: str


@dataclass(frozen=True, slots=True)
class Move:
    """One step of a decision walk: what was asked, what came back, what it cost, what led afterwards."""

    signal: Ref
    question: str
    answer: str
    meaning: str
    price: str
    top: tuple[tuple[Ref, float], ...]
    known: bool = True


@dataclass(frozen=True, slots=True)
class Walk:
    """`runs` are the moves in order, those that were answered and those asked in vain parted."""

    start: tuple[tuple[Ref, str], ...]
    start_top: tuple[tuple[Ref, float], ...]
    runs: tuple[tuple[Move, ...], ...]
    trace: tuple[float, ...]  # probability of the true cause: at the start and after every move
    verdict: str


@dataclass(frozen=True, slots=True)
class Choice:
    """One choice of a question; `ref` is where to read on, None where the question's own list says it."""

    text: str
    right: bool
    why: str
    ref: Ref | None = None


@dataclass(frozen=True, slots=True)
class Quiz:
    ask: str
    choices: tuple[Choice, ...]
    key_points: tuple[str, ...]
    traps: tuple[str, ...]
    number: Figure | None = None


@dataclass(frozen=True, slots=True)
class TickItem:
    """One line of a checklist; `anchor` is its stable id."""

    anchor: str
    text: str
    why: str
    refs: tuple[Ref, ...]
    snippets: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class Ticks:
    id: str
    items: tuple[TickItem, ...]


@dataclass(frozen=True, slots=True)
class Fold:
    """Blocks below the fold."""

    title: str
    blocks: tuple[Block, ...]


Block: TypeAlias = (
    Prose | Notice | Steps | Commands | Snippets | Facts | Table | Bars | Links | Checks | Actions | Cards | Listing
    | Shape | Plot | Graph | Matrix | Walk | Quiz | Ticks | Fold
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Section:
    """`aside` is the other common name of the section (Meaning, Impact, Diagnosis, Mitigation)."""

    anchor: str
    heading: str
    blocks: tuple[Block, ...]
    aside: str = ""
    tone: str = ""  # aid: what to do at once


@dataclass(frozen=True, slots=True)
class Page:
    """One page of one language. `path` is relative to the language's root; `words` is what only the search reads."""

    path: str
    kind: str
    id: str
    title: str
    lead: str
    sections: tuple[Section, ...]
    crumbs: tuple[Ref, ...] = ()
    tags: tuple[Cell, ...] = ()
    notices: tuple[Notice, ...] = ()
    hero: tuple[Block, ...] = ()
    words: str = ""
    template: str = "page.html"
    searched: bool = True
