"""A curve as a page has it: lines in plot units, marks, bands without a finite number, and the same in figures."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Line:
    """One line of a plot, in plot units, reduced to the lowest and highest value per pixel column."""

    name: str
    segments: tuple[tuple[tuple[float, float], ...], ...]
    style: str = "main"  # main | before | after | faint


@dataclass(frozen=True, slots=True)
class Mark:
    """A vertical mark at a step. kind: onset | event | change."""

    x: float
    step: int
    label: str
    kind: str = "onset"


@dataclass(frozen=True, slots=True)
class Plot:
    """A curve in a box of `width` x `height` plot units, with the numbers for those who cannot see it."""

    title: str
    description: str
    width: int
    height: int
    lines: tuple[Line, ...]
    bad: tuple[tuple[float, float], ...]  # bands without a finite value: (left, right)
    marks: tuple[Mark, ...]
    x_ticks: tuple[tuple[float, str], ...]
    y_ticks: tuple[tuple[float, str], ...]
    x_range: tuple[float, float]
    log: bool
    numbers: tuple[tuple[str, str], ...]
    relative: bool = False  # steps count from the onset
