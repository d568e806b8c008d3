"""Curves as text (braille, for a terminal) and as SVG (for pages and cards), drawn so that no fault can hide.

Every column keeps its least and greatest value, so a spike of one step stays visible; a column with a value that is
not finite is painted over its whole height; a step that goes back is a dashed line. Points keep the order of the file.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from html import escape
from itertools import pairwise

import numpy as np
from rich.text import Text

from playbook.workflow.learning.quiz_cards import Panel, Picture

_LOG_SPAN = 300.0  # a panel whose positive values span more than this factor is drawn on a logarithmic scale
_DOTS = ((0x01, 0x08), (0x02, 0x10), (0x04, 0x20), (0x40, 0x80))  # braille bits by row, column
_NOT_FINITE = "▒"
_COLOURS = {"loss": "#1f6feb", "eval_loss": "#8250df", "grad_norm": "#bc4c00", "lr": "#1a7f37", "loss_scale": "#9a6700"}


def columns(panel: Panel, width: int) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """(low, high, bad, back) over `width` columns: float64 extremes of finite values (NaN: none), and bool flags.

    bad     a value of the column is not finite; back: a step of it goes back
    """
    n = len(panel.values)
    share = 1.0
    if panel.until and n and panel.steps[-1] < panel.until and not (np.diff(panel.steps) < 0).any():
        share = max(0.05, float(panel.steps[-1]) / panel.until)
    place = np.minimum((np.arange(n) * width * share / max(n, 1)).astype(int), width - 1)
    low, high = np.full(width, np.nan), np.full(width, np.nan)
    bad, back = np.zeros(width, bool), np.zeros(width, bool)
    finite = np.isfinite(panel.values)
    bad[place[~finite]] = True
    np.fmin.at(low, place[finite], panel.values[finite])
    np.fmax.at(high, place[finite], panel.values[finite])
    back[place[1:][np.diff(panel.steps) < 0]] = True
    return low, high, bad, back


@dataclass(frozen=True, slots=True)
class _Axis:
    """The value axis of a panel, from `bottom` to `top`: exponents of ten where it is logarithmic, else values."""

    log: bool
    bottom: float
    top: float

    @classmethod
    def of(cls, panel: Panel) -> _Axis:
        finite = panel.values[np.isfinite(panel.values)]
        if not len(finite):
            return cls(False, 0.0, 1.0)
        low, high = float(finite.min()), float(finite.max())
        if low > 0 and high / low > _LOG_SPAN:
            return cls(True, math.log10(low), math.log10(high))
        return cls(False, low, high) if high > low else cls(False, low - 0.5, high + 0.5)

    def place(self, value: float) -> float:
        """0 at the bottom, 1 at the top."""
        half = (math.log10(value) if self.log else value) / 2  # the span of values from -1e308 to 1e308 is no float
        span = self.top / 2 - self.bottom / 2
        return (half - self.bottom / 2) / span if span > 0 else 0.5  # a constant so large that 0.5 more is the same

    @property
    def ticks(self) -> tuple[str, str]:
        """(bottom, top) as they are written."""
        return _tick(self.bottom, self.log), _tick(self.top, self.log)


def _ends(picture: Picture) -> tuple[int, int]:
    """First and last step of the axis that all panels share; 0 where nothing was logged."""
    panel = picture.panels[0]
    return (int(panel.steps[0]), max(int(panel.steps.max()), panel.until or 0)) if len(panel.steps) else (0, 0)


def _drawn(panel: Panel, axis: _Axis, width: int) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """`columns` with the extremes as places on the axis, and a line over columns between two rows of a short run."""
    low, high, bad, back = columns(panel, width)
    there = np.flatnonzero(np.isfinite(low))
    for values in (low, high):
        values[there] = [axis.place(float(value)) for value in values[there]]
    for a, b in pairwise(there.tolist()):
        if not bad[a : b + 1].any() and not back[a + 1 : b + 1].any():
            line = np.linspace((low[a] + high[a]) / 2, (low[b] + high[b]) / 2, b - a + 1)[1:-1]
            low[a + 1 : b] = high[a + 1 : b] = line
    return low, high, bad, back


def _tick(value: float, log: bool) -> str:
    real = 10**value if log else value
    if real != 0 and (abs(real) >= 1e5 or abs(real) < 1e-2):
        return f"{real:.1e}".replace("e-0", "e-").replace("e+0", "e")
    return f"{real:,.3g}" if abs(real) < 1000 else f"{real:,.0f}"


def as_text(picture: Picture, width: int = 76, height: int = 6) -> list[Text]:
    """Lines for a terminal: one block a metric, all over one step axis."""
    margin = 9
    inner = max(20, width - margin - 1)
    lines: list[Text] = []
    for panel in picture.panels:
        lines.append(Text(panel.metric, style="bold"))
        lines += _block(panel, inner, height, margin)
    first, last = _ends(picture)
    axis = f"{first}{'step':^{max(4, inner - len(str(first)) - len(str(last)))}}{last}"
    return [*lines, Text(" " * (margin + 1) + axis, style="dim")]


def _block(panel: Panel, inner: int, height: int, margin: int) -> list[Text]:
    axis = _Axis.of(panel)
    low, high, bad, back = _drawn(panel, axis, inner * 2)
    rows = height * 4
    cells = np.zeros((height, inner), int)
    last_y: tuple[int, int] | None = None
    for x in range(inner * 2):
        if not np.isfinite(low[x]):
            last_y = None
            continue
        y0, y1 = round(float(low[x]) * (rows - 1)), round(float(high[x]) * (rows - 1))
        if last_y is not None:  # the gap to the column before is closed, so that the line is one
            y0, y1 = min(y0, last_y[1] + 1), max(y1, last_y[0] - 1)
        last_y = (y0, y1)
        for y in range(max(0, y0), min(rows - 1, y1) + 1):
            row = rows - 1 - y
            cells[row // 4, x // 2] |= _DOTS[row % 4][x % 2]
    lines = []
    for r in range(height):
        label = {0: axis.ticks[1], height - 1: axis.ticks[0]}.get(r, "")
        line = Text(f"{label:>{margin}}", style="dim")
        line.append("┤" if label else "│", "dim")
        for x in range(inner):
            pair = slice(2 * x, 2 * x + 2)
            if bad[pair].any():
                line.append(_NOT_FINITE, "red")
            elif cells[r, x]:
                line.append(chr(0x2800 + int(cells[r, x])), "cyan")
            elif back[pair].any():
                line.append("┆", "yellow")
            else:
                line.append(" ")
        lines.append(line)
    if bad.any():
        lines[0].append("  NaN/Inf", "red")
    return lines


def as_svg(picture: Picture, width: int = 640, height: int = 120) -> str:
    """One SVG image; no script, no outside reference."""
    left, right, gap, foot = 64, 12, 26, 26
    total = len(picture.panels) * (height + gap) + foot
    inner = width - left - right
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {total}" width="{width}" height="{total}"'
        f' role="img" font-family="system-ui, sans-serif" font-size="12"><title>{escape(picture.alt)}</title>'
        f'<rect width="{width}" height="{total}" fill="#ffffff"/>'
    ]
    for place, panel in enumerate(picture.panels):
        parts.append(_svg_panel(panel, left, place * (height + gap) + 18, inner, height))
    first, last = _ends(picture)
    y = total - 10
    parts.append(
        f'<text x="{left}" y="{y}" fill="#57606a">{first}</text>'
        f'<text x="{left + inner / 2:.0f}" y="{y}" fill="#57606a" text-anchor="middle">step</text>'
        f'<text x="{left + inner}" y="{y}" fill="#57606a" text-anchor="end">{last}</text></svg>'
    )
    return "".join(parts)


def _svg_panel(panel: Panel, left: int, top_y: int, inner: int, height: int) -> str:
    axis = _Axis.of(panel)
    n = inner // 2
    low, high, bad, back = _drawn(panel, axis, n)
    parts = [
        f'<text x="{left}" y="{top_y - 5}" font-weight="600" fill="#1f2328">{escape(panel.metric)}</text>'
        f'<rect x="{left}" y="{top_y}" width="{inner}" height="{height}" fill="none" stroke="#d0d7de"/>'
    ]
    for label, y in zip(axis.ticks, (top_y + height - 2, top_y + 11), strict=True):
        parts.append(f'<text x="{left - 6}" y="{y}" text-anchor="end" fill="#57606a">{label}</text>')

    lines: list[list[str]] = [[]]
    for x in range(n):
        px = left + 2 * x + 1
        if bad[x]:
            parts.append(f'<rect x="{px - 1}" y="{top_y}" width="2" height="{height}" fill="#cf222e" opacity="0.35"/>')
        if back[x]:
            ends = f'x1="{px}" x2="{px}" y1="{top_y}" y2="{top_y + height}"'
            parts.append(f'<line {ends} stroke="#9a6700" stroke-dasharray="3 3"/>')
            lines.append([])
        if not np.isfinite(low[x]):
            lines.append([])
            continue
        lines[-1] += [f"{px},{top_y + 3 + (height - 6) * (1 - place):.1f}" for place in (float(high[x]), float(low[x]))]
    colour = _COLOURS.get(panel.metric, "#0a7ea4")
    for points in lines:
        if points:
            parts.append(f'<polyline points="{" ".join(points)}" fill="none" stroke="{colour}" stroke-width="1.4"/>')
    if bad.any():
        x = left + inner - 4
        parts.append(
            f'<text x="{x}" y="{top_y + 14}" text-anchor="end" fill="#cf222e" font-weight="600">NaN/Inf</text>'
        )
    return "".join(parts)
