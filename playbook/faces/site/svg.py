"""Drawings as inline SVG: curve shapes, plots, graph pictures, traces. Attributes and classes only, no inline style."""

from __future__ import annotations

from collections.abc import Sequence

from markupsafe import Markup, escape

from playbook.faces.pages.blocks import Graph, Plot

# One stroke a symptom, in a box of 120 x 64 with the baseline at 56. `|` parts the path from what is drawn in the
# colour of trouble. A cross marks where numbers end.
SHAPES: dict[str, str] = {
    "instant-nan": "M6 12C22 26 34 33 46 36 54 38 58 37 64 38"
    "|M70 32l10 10m0-10l-10 10M86 32l10 10m0-10l-10 10M102 32l10 10m0-10l-10 10",
    "early-explosion": "M6 34C14 40 20 43 28 43|M28 43C44 42 50 30 55 6M48 13L55 5 61 14",
    "transient-spike": "M6 16C18 30 28 36 44 39L50 40M68 42C82 44 96 46 114 47|M50 40L57 6 60 28 68 42",
    "persistent-spike": "M6 16C18 32 32 40 52 43|M52 43L57 6C62 20 74 19 90 21 98 22 106 21 114 22",
    "slow-climb": "M6 14C16 32 28 42 46 44|M46 44C66 45 84 40 114 26",
    "plateau": "M6 20C8 23 10 25 14 26|M14 26C24 27 32 25 42 26 54 27 62 25 74 26 88 27 98 25 114 26",
    "loss-zero": "M6 14C14 26 22 32 34 35L46 37|M46 37L50 56H114",
    "resume-drift": "M6 14C18 30 34 38 54 42|M62 24C72 32 88 37 114 40M58 6v7M58 20v7M58 34v7M58 48v7",
    "silent-degradation": "M6 14C22 34 44 44 114 49|M40 30C58 26 78 24 114 12",
    "throughput-drop": "M6 18H56|M56 18L62 44H74L78 40 84 45 92 42 114 44",
    "hang-or-crash": "M6 14C18 28 32 36 50 40L64 42|M65 30V54M74 42h5M86 42h5M98 42h5M110 42h4",
    "healthy": "M6 10C16 28 26 36 40 40L44 38 48 42 58 42 62 45 72 45 78 47 90 47 98 49 114 50|",
}
_UNKNOWN = "M6 14C18 30 34 38 56 42|M56 42C70 46 84 20 114 30"


def number(value: float) -> str:
    """At most one decimal, no trailing zero: the same bytes everywhere."""
    return f"{value:.1f}".removesuffix(".0")


def _t(text: object) -> str:
    """Text for an element or an attribute. f-strings over escaped text are several times quicker than Markup.format."""
    return str(escape(text))


def shape(name: str, title: str = "") -> Markup:
    """The small drawing of a symptom; without a title it is decoration beside a text that says the same."""
    calm, _, trouble = SHAPES.get(name, _UNKNOWN).partition("|")
    label = f'role="img" aria-label="{_t(title)}"' if title else 'aria-hidden="true"'
    paths = f'<path class="calm" d="{calm}"/>' + (f'<path class="trouble" d="{trouble}"/>' if trouble else "")
    return Markup(f'<svg class="shape" viewBox="0 0 120 64" {label}><path class="axis" d="M6 4V58H116"/>{paths}</svg>')


def bar(share: float) -> Markup:
    """A horizontal bar; the number stands beside it as text."""
    width = number(max(0.0, min(1.0, share)) * 100)
    return Markup(
        '<svg class="bar" viewBox="0 0 100 8" preserveAspectRatio="none" aria-hidden="true">'
        f'<rect class="bar-bg" width="100" height="8"/><rect class="bar-fg" width="{width}" height="8"/></svg>'
    )


def plot(drawn: Plot, key: str) -> Markup:
    """A curve with axes, bands without numbers, and marks. `key` makes the ids of the page unique."""
    left, right, top, bottom = 58, 12, 22, 26
    width, height = drawn.width, drawn.height
    box = f"-{left} -{top} {width + left + right} {height + top + bottom}"
    relative = ' data-relative="1"' if drawn.relative else ""
    parts = [
        f'<svg class="plot" viewBox="{box}" role="img" aria-labelledby="{key}-t {key}-d"'
        f' data-low="{drawn.x_range[0]:.15g}" data-high="{drawn.x_range[1]:.15g}"{relative}>'
        f'<title id="{key}-t">{_t(drawn.title)}</title><desc id="{key}-d">{_t(drawn.description)}</desc>'
        f'<defs><pattern id="{key}-h" width="6" height="6" patternUnits="userSpaceOnUse" '
        'patternTransform="rotate(45)"><path class="hatch" d="M0 0V6"/></pattern>'
        f'<clipPath id="{key}-c"><rect x="0" y="-{top}" width="{width}" height="{height + top}"/></clipPath></defs>'
        '<g class="grid">'
    ]
    for y, label in drawn.y_ticks:
        parts.append(f'<path d="M0 {number(y)}H{width}"/><text x="-6" y="{number(y + 4)}">{_t(label)}</text>')
    parts.append('</g><g class="xticks">')
    for x, label in drawn.x_ticks:
        parts.append(f'<path d="M{number(x)} {height}v5"/><text x="{number(x)}" y="{height + 18}">{_t(label)}</text>')
    parts.append(f'</g><path class="frame" d="M0 0V{height}H{width}"/><g clip-path="url(#{key}-c)"><g class="world">')
    for x1, x2 in drawn.bad:
        wide = number(max(1.5, x2 - x1))
        parts.append(
            f'<rect class="bad" x="{number(x1)}" y="0" width="{wide}" height="{height}" fill="url(#{key}-h)"/>'
        )
    for line in drawn.lines:
        path = " ".join(_path(segment) for segment in line.segments)
        parts.append(f'<path class="line line-{line.style}" d="{path}"/>')
    for mark in drawn.marks:
        parts.append(f'<path class="mark mark-{mark.kind}" d="M{number(mark.x)} 0V{height}"/>')
    parts.append("</g>")
    for level, mark in enumerate(drawn.marks):
        anchor, shift = ("end", -4) if mark.x > width * 0.75 else ("start", 4)
        parts.append(
            f'<text class="mark-label" x="{number(mark.x + shift)}" y="{12 + 15 * (level % 4)}" text-anchor="{anchor}"'
            f' data-x="{number(mark.x)}">{_t(mark.label)} · {mark.step:,}</text>'
        )
    parts.append("</g></svg>")
    return Markup("".join(parts))


def _path(points: Sequence[tuple[float, float]]) -> str:
    if len(points) == 1:  # a lone point between two gaps: a dot, by the round cap
        x, y = points[0]
        return f"M{number(x)} {number(y)}h0"
    first, *rest = points
    return f"M{number(first[0])} {number(first[1])}L" + " ".join(f"{number(x)} {number(y)}" for x, y in rest)


def graph(drawn: Graph, up: str, key: str) -> Markup:
    """Boxes that are links, and curved arrows whose thickness says how often."""
    width = drawn.width + 4
    parts = [
        f'<svg class="graph" viewBox="-2 0 {width} {drawn.height}" width="{width}" height="{drawn.height}" '
        f'aria-labelledby="{key}-t"><title id="{key}-t">{_t(drawn.title)}</title>'
    ]
    parts += [f'<text class="graph-head" x="{x}" y="14">{_t(heading)}</text>' for x, heading in drawn.heads]
    for e in drawn.edges:
        if e.x2 <= e.x1:  # two boxes of one column
            continue
        bend = (e.x2 - e.x1) // 2
        label = f"<title>{_t(e.label)}</title>" if e.label else ""
        parts.append(
            f'<path class="edge edge-{e.weight}" d="M{e.x1} {e.y1}C{e.x1 + bend} {e.y1} {e.x2 - bend} {e.y2} '
            f'{e.x2} {e.y2}">{label}</path>'
        )
    for node in drawn.nodes:
        first = node.y + node.height // 2 - 16 * (len(node.lines) - 1) // 2 + 4
        lines = "".join(
            f'<tspan x="{node.x + 10}" y="{first + 16 * i}">{_t(text)}</tspan>' for i, text in enumerate(node.lines)
        )
        group = (
            f'<g class="node node-{_t(node.role)}"><title>{_t(node.ref.title)}</title><rect x="{node.x}" y="{node.y}" '
            f'width="{node.width}" height="{node.height}" rx="4"/><text>{lines}</text></g>'
        )
        linked = node.ref.url and node.role != "here"
        parts.append(f'<a href="{_t(up + node.ref.url)}">{group}</a>' if linked else group)
    parts.append("</svg>")
    return Markup("".join(parts))


def trace(values: Sequence[float], title: str) -> Markup:
    """How the probability of the true cause went, move by move."""
    if len(values) < 2:
        return Markup("")
    step = 300 / (len(values) - 1)
    places = [(number(i * step), number(58 - 52 * v)) for i, v in enumerate(values)]
    points = " ".join(f"{x},{y}" for x, y in places)
    dots = "".join(f'<circle cx="{x}" cy="{y}" r="2.5"/>' for x, y in places)
    return Markup(
        f'<svg class="trace" viewBox="-34 0 342 64" role="img" aria-label="{_t(title)}">'
        '<path class="grid" d="M0 6H300M0 32H300M0 58H300"/><g class="ticks"><text x="-6" y="10">100 %</text>'
        f'<text x="-6" y="36">50 %</text><text x="-6" y="62">0 %</text></g><polyline points="{points}"/>{dots}</svg>'
    )
