"""Curves of cards and drills, dot by dot: what is drawn stands where the value says, and nothing stands outside."""

from __future__ import annotations

from xml.etree import ElementTree

import numpy as np
import pytest

from playbook.faces.learning.curves import as_svg, as_text, columns
from playbook.workflow.learning.quiz_cards import Panel, Picture

WIDTH, HEIGHT, MARGIN = 60, 5, 9
BITS = ((0x01, 0x08), (0x02, 0x10), (0x04, 0x20), (0x40, 0x80))  # of the Unicode block of braille
VALUES = {
    "rising": np.linspace(1.0, 9.0, 400),
    "falling": np.exp(-np.linspace(0, 9, 400)),  # by its logarithm a line
    "one spike": np.where(np.arange(400) == 200, 8.0, 2.0),
    "few rows": np.array([1.0, 3.0, 2.0, 5.0]),
}


def picture(values: np.ndarray, steps: np.ndarray | None = None, until: int | None = None) -> Picture:
    return Picture((Panel("loss", np.arange(len(values)) * 10 if steps is None else steps, values, until),), "a curve")


def place(values: np.ndarray) -> np.ndarray:
    """0 at the lowest value, 1 at the highest; by the logarithm over many magnitudes."""
    v = np.log10(values) if values.max() / values.min() > 300 else values
    return (v - v.min()) / np.ptp(v)


def dots(lines: list[str]) -> set[tuple[int, int]]:
    """(column, row from below) of every dot, two columns and four rows a sign."""
    return {
        (2 * x + dx, 4 * (len(lines) - 1 - y) + 3 - dy)
        for y, line in enumerate(lines)
        for x, sign in enumerate(line[MARGIN + 1 :])
        for dy, pair in enumerate(BITS)
        for dx, bit in enumerate(pair)
        if 0x2800 <= ord(sign) < 0x2900 and ord(sign) - 0x2800 & bit
    }


@pytest.mark.parametrize("name", VALUES)
def test_every_value_has_its_dot(name: str) -> None:
    values = VALUES[name]
    title, *block, axis = (line.plain for line in as_text(picture(values), WIDTH, HEIGHT))
    assert title == "loss" and len(block) == HEIGHT and all(len(line) <= WIDTH for line in (*block, axis))
    drawn = dots(block)
    across = 2 * (WIDTH - MARGIN - 1)
    for k, y in enumerate(place(values)):
        assert (k * across // len(values), round(y * (4 * HEIGHT - 1))) in drawn
    assert max(x for x, _ in drawn) < across
    by_column = {x: sorted(y for cx, y in drawn if cx == x) for x, _ in drawn}
    for x, ys in by_column.items():  # one line without a hole, upwards and sideways
        assert ys == list(range(ys[0], ys[-1] + 1))
        beside = by_column.get(x + 1)
        assert beside is None or (ys[0] <= beside[-1] + 1 and beside[0] <= ys[-1] + 1)
    assert axis.split() == ["0", "step", str(10 * (len(values) - 1))]


@pytest.mark.parametrize(
    ("values", "top", "bottom"),
    [
        ([1.0, 9.5], "9.5", "1"), ([0.001, 0.002], "2.0e-3", "1.0e-3"), ([2e5, 3e5], "3.0e5", "2.0e5"),
        ([100.0, 1234.0], "1,234", "100"), ([0.0, 0.5], "0.5", "0"), ([1e-5, 1.0], "1", "1.0e-5"),
        ([4.0, 4.0], "4.5", "3.5"),
    ],
)  # fmt: skip
def test_the_ends_of_the_axis_are_written(values: list[float], top: str, bottom: str) -> None:
    _, *block, _ = (line.plain for line in as_text(picture(np.array(values)), WIDTH, HEIGHT))
    labels = [line[: MARGIN + 1].strip("┤│ ") for line in block]
    assert labels == [top, *[""] * (HEIGHT - 2), bottom]
    texts = [node.text for node in ElementTree.fromstring(as_svg(picture(np.array(values)))).iter() if node.text]
    assert {top, bottom, "loss", "step", "0", "10"} <= set(texts)


def test_what_is_planned_beyond_the_last_step_stays_empty() -> None:
    half = picture(np.linspace(1, 2, 300), np.arange(300), until=600)
    assert max(x for x, _ in dots([line.plain for line in as_text(half, WIDTH, HEIGHT)][1:-1])) in (48, 49)
    assert as_text(half, WIDTH)[-1].plain.split() == ["0", "step", "600"]
    low, _, bad, back = columns(half.panels[0], 100)
    assert np.isfinite(low[:50]).all() and not np.isfinite(low[50:]).any() and not (bad | back).any()


def test_restarts_and_values_that_are_no_number_are_marked_where_they_are() -> None:
    steps, values = np.r_[0:200, 100:300], np.linspace(1, 2, 400)
    values[300] = np.nan
    _, _, bad, back = columns(Panel("loss", steps, values), 100)
    assert np.flatnonzero(bad).tolist() == [75] and np.flatnonzero(back).tolist() == [50]
    nodes = list(ElementTree.fromstring(as_svg(picture(values, steps), 640, 120)).iter())
    (bar,) = (n for n in nodes if n.get("opacity"))
    (line,) = (n for n in nodes if n.get("stroke-dasharray"))
    across = 640 - 64 - 12
    assert float(bar.attrib["x"]) == pytest.approx(64 + 0.75 * across, abs=3) and bar.get("height") == "120"
    assert float(line.attrib["x1"]) == pytest.approx(64 + 0.5 * across, abs=3)
    assert len([n for n in nodes if n.tag.endswith("polyline")]) == 3


@pytest.mark.parametrize("name", VALUES)
def test_points_of_the_image_stand_where_the_values_say_and_inside_it(name: str) -> None:
    values = VALUES[name]
    panel = picture(values).panels[0]
    root = ElementTree.fromstring(as_svg(Picture((panel, panel), "two"), 640, 120))
    width, height = float(root.attrib["width"]), float(root.attrib["height"])
    frames = [n for n in root.iter() if n.tag.endswith("rect") and n.get("stroke")]
    lines = [n for n in root.iter() if n.tag.endswith("polyline")]
    assert len(frames) == len(lines) == 2 and float(frames[1].attrib["y"]) >= float(frames[0].attrib["y"]) + 120
    for frame, line in zip(frames, lines, strict=True):
        x0, y0, w, h = (float(frame.attrib[key]) for key in ("x", "y", "width", "height"))
        points = np.array([[float(c) for c in point.split(",")] for point in line.attrib["points"].split()])
        assert (points[:, 0] >= x0).all() and (points[:, 0] <= x0 + w).all()
        assert points[:, 1].min() == pytest.approx(y0 + 3, abs=0.1)
        assert points[:, 1].max() == pytest.approx(y0 + h - 3, abs=0.1)
        for k, share in enumerate(place(values)):
            near = points[np.abs(points[:, 0] - x0 - k * w / len(values)) <= 3]
            wanted = y0 + 3 + (h - 6) * (1 - share)
            assert near[:, 1].min() - 0.1 <= wanted <= near[:, 1].max() + 0.1
    for node in root.iter():
        if node.tag.endswith("text"):
            assert 0 <= float(node.attrib["x"]) <= width and 0 <= float(node.attrib["y"]) <= height
