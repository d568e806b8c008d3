"""The curve: nothing that a file can hold breaks it, no single step is lost, nothing is bridged that is not finite."""

from __future__ import annotations

import math
import time
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.cells import cell_len
from textual.app import App, ComposeResult

from playbook.faces.tui import raster
from playbook.faces.tui.curve import CurveView
from playbook.faces.tui.desk import Mark, marks
from playbook.faces.tui.widgets import bar, fit, pad, percent, wrap
from playbook.faces.words import Words
from playbook.series import Origin, Run, Series
from tests.tui_kit import LARGE, run, small_found, small_run, terminal

WEIRD = st.one_of(
    st.floats(allow_nan=True, allow_infinity=True),
    st.sampled_from([math.nan, math.inf, -math.inf, 0.0, 1e308, -1e308, 5e-324]),
)


def line(values: Any, steps: Any = None) -> raster.Line:
    y = np.asarray(values, float)
    return raster.prepare(np.arange(len(y)) if steps is None else np.asarray(steps), y)


def codes(made: raster.Line, width: int = 20, rows: int = 4, log: bool | None = None) -> np.ndarray:
    cut = raster.columns(made, *made.span, 2 * width)
    return raster.braille(cut, raster.axis(cut.limits, log), rows)


@settings(max_examples=400, deadline=None)
@given(
    st.lists(WEIRD, max_size=200),
    st.integers(1, 60),
    st.integers(1, 12),
    st.sampled_from([None, True, False]),
    st.floats(0, 1),
    st.floats(0, 1),
)
def test_nothing_breaks_it(
    values: list[float], width: int, rows: int, log: bool | None, left: float, right: float
) -> None:
    made = line(values)
    low, high = made.span
    first, last = sorted((low + left * (high - low), low + right * (high - low)))
    cut = raster.columns(made, first, max(last, first + 1e-3), 2 * width)
    with np.errstate(over="raise", invalid="raise", divide="raise"):
        found = raster.braille(cut, raster.axis(cut.limits, log), rows)
    assert found.shape == (rows, width)
    assert ((found >= raster.BLANK) & (found <= raster.BLANK + 255)).all()


@given(st.lists(st.integers(-5, 50), min_size=1, max_size=60))
def test_steps_that_go_back_are_drawn_in_order(steps: list[int]) -> None:
    made = line(np.arange(len(steps)), steps)
    assert (np.diff(made.steps) >= 0).all() and sorted(made.steps) == sorted(steps)
    assert codes(made).shape == (4, 20)


@pytest.mark.parametrize("values", [[], [1.0], [math.nan], [2.0] * 50, [0.0] * 9, [math.inf] * 5, [-math.inf, 1.0]])
def test_small_and_constant_series(values: list[float]) -> None:
    found = codes(line(values))
    drawn = (found != raster.BLANK).any()
    assert drawn == any(math.isfinite(v) for v in values)


def test_no_single_step_is_lost_among_a_million() -> None:
    values = np.ones(1_000_000)
    values[777_777] = 50.0
    values[123_456] = -50.0
    made = line(values)
    cut = raster.columns(made, *made.span, 160)
    assert cut.limits == (-50.0, 50.0)
    assert int(np.nanargmax(cut.high)) == int(777_777 / 1_000_000 * 160)
    assert int(np.nanargmin(cut.low)) == int(123_456 / 1_000_000 * 160)


def test_one_bad_value_among_a_million_is_counted() -> None:
    values = np.ones(1_000_000)
    values[500_000] = math.inf
    made = line(values)
    cut = raster.columns(made, *made.span, 160)
    assert cut.bad.sum() == 1 and cut.bad[80] == 1


def test_a_gap_of_nan_is_not_bridged() -> None:
    values = np.ones(100)
    values[40:60] = math.nan
    found = codes(line(values), width=50, rows=2)
    blank = (found == raster.BLANK).all(axis=0)
    assert blank[21:29].all() and not blank[:19].any() and not blank[31:].any()


def test_sparse_points_are_joined() -> None:
    found = codes(line([0.0, 1.0], [0, 100]), width=20, rows=4)
    assert (found != raster.BLANK).any(axis=0).all()


def test_a_join_runs_on_across_the_edge_of_the_view() -> None:
    made = line([0.0, 1.0], [0, 100])
    cut = raster.columns(made, 40.0, 60.0, 20)
    found = raster.braille(cut, raster.axis((0.0, 1.0)), 4)
    assert (found != raster.BLANK).any(axis=0).all()


def test_powers_of_ten_are_chosen_where_they_are_needed() -> None:
    assert raster.axis((1.0, 1e6)).log and not raster.axis((1.0, 10.0)).log and not raster.axis((-1.0, 1e6)).log
    assert raster.axis(None).low < raster.axis(None).high
    scale = raster.axis((1.0, 100.0), True)
    assert scale.place(10.0) == pytest.approx(0.5) and scale.place(-5.0) == 0.0 and scale.place(1e9) == 1.0


def test_a_million_points_are_quick() -> None:
    rng = np.random.default_rng(0)
    made = line(rng.normal(size=1_000_000))
    codes(made)  # what is computed once
    begin = time.perf_counter()
    for _ in range(5):
        codes(made, width=120, rows=20)
    assert (time.perf_counter() - begin) / 5 < 2, (
        "about 20 ms once the curve is reduced; anew each time it would take seconds"
    )


@pytest.mark.parametrize(
    "value", [0.0, 1.0, 1.234567, 123456.7, 1e-9, -3.14159e12, math.nan, math.inf, -math.inf, 5e-324]
)
def test_numbers_fit_their_column(value: float) -> None:
    assert 0 < len(raster.number(value)) <= 8


# marks


def test_marks_name_onset_resumes_and_the_rate() -> None:
    found = small_found()
    kinds = {(m.kind, m.step) for m in marks(found.run, found.evidence)}
    assert {("onset", 200), ("resume", 240), ("lr", 50)} == kinds


def test_a_jump_of_the_rate_is_marked_and_a_warm_up_is_not() -> None:
    steps = np.arange(200, dtype=np.int64)
    rate = np.where(steps < 100, 1e-4, 4e-4)
    rate[:10] = np.linspace(0, 1e-4, 10)
    made = Run({("lr", None): Series("lr", None, steps, rate, None, Origin("x"))})
    assert [m.step for m in marks(made, ()) if m.kind == "lr"] == [100]
    coarse = np.array([1e-5, 1e-4, 3e-4, 2.9e-4, 2.8e-4])
    made = Run({("lr", None): Series("lr", None, np.arange(5) * 100, coarse, None, Origin("x"))})
    assert [(m.step, m.text) for m in marks(made, ())] == [(200, "peak")]


def test_restarts_are_resumes() -> None:
    steps = np.array([0, 1, 2, 3, 2, 3, 4], dtype=np.int64)
    made = Run({("loss", None): Series("loss", None, steps, np.ones(7), None, Origin("x"))})
    assert [(m.kind, m.step) for m in marks(made, ())] == [("resume", 2)]


# the widget


class One(App[None]):
    def __init__(self, made: Run | None, found: list[Mark]) -> None:
        super().__init__()
        self.made, self.found = made, found

    def compose(self) -> ComposeResult:
        yield CurveView(Words(), id="curve")

    def on_mount(self) -> None:
        self.query_one(CurveView).show(self.made, self.found)


def drawn(app: App[None]) -> list[str]:
    strips = app.screen._compositor.render_strips()
    return ["".join(segment.text for segment in strip) for strip in strips]


def of(values: Any, steps: Any = None, metric: str = "loss") -> Run:
    y = np.asarray(values, float)
    x = np.arange(len(y), dtype=np.int64) if steps is None else np.asarray(steps, dtype=np.int64)
    return Run({(metric, None): Series(metric, None, x, y, None, Origin("x"))})


@pytest.mark.parametrize("values", [[], [1.0], [math.nan] * 3, [math.inf, -math.inf], [1e308, -1e308], [7.0] * 40])
@pytest.mark.parametrize("size", [(80, 24), (20, 6), (9, 3), (300, 50)])
def test_the_widget_draws_anything_at_any_size(values: list[float], size: tuple[int, int]) -> None:
    async def walk() -> None:
        app = One(of(values), [Mark("onset", 1), Mark("resume", 0), Mark("lr", 10**15)])
        async with app.run_test(size=size) as pilot:
            view = app.query_one(CurveView)
            view.focus()
            for key in ("plus", "left", "right", "minus", "z", "g", "m", "M", "L", "comma", "full_stop", "L"):
                await pilot.press(key)
            assert all(cell_len(row) == size[0] for row in drawn(app))

    run(walk())


def test_no_run_at_all() -> None:
    async def walk() -> None:
        app = One(None, [])
        async with app.run_test() as pilot:
            app.query_one(CurveView).focus()
            for key in ("plus", "left", "g", "z", "m", "comma"):
                await pilot.press(key)

    run(walk())


def test_zoom_pan_and_home() -> None:
    async def walk() -> None:
        app = One(of(np.sin(np.arange(1000) / 9)), [])
        async with app.run_test() as pilot:
            view = app.query_one(CurveView)
            view.focus()
            await pilot.press("plus", "plus")
            assert view.last - view.first == pytest.approx(999 / 4)
            for _ in range(20):
                await pilot.press("right")
            assert view.last == 999
            for _ in range(40):
                await pilot.press("h")
            assert view.first == 0
            for _ in range(30):
                await pilot.press("plus")
            assert view.last - view.first >= 8
            await pilot.press("z")
            assert (view.first, view.last) == (0, 999)
            for _ in range(5):
                await pilot.press("minus")
            assert (view.first, view.last) == (0, 999)

    run(walk())


def test_the_mouse_zooms_drags_and_reads() -> None:
    async def walk() -> None:
        app = One(of(np.arange(1000.0)), [])
        async with app.run_test(size=(110, 20)) as pilot:
            view = app.query_one(CurveView)
            await pilot._post_mouse_events([__import__("textual.events").events.MouseScrollUp], view, (60, 3), button=0)
            await pilot.pause()
            width = view.last - view.first
            assert width == pytest.approx(999 / 2)
            first = view.first
            await pilot.mouse_down(view, offset=(60, 3))
            await pilot.hover(view, offset=(40, 3))
            await pilot.mouse_up(view, offset=(40, 3))
            assert view.first > first and view.last - view.first == pytest.approx(width)
            await pilot.click(view, offset=(60, 3))
            assert view.cursor is not None and "step" in str(view.border_title)

    run(walk())


def test_the_cursor_reads_values_and_names_what_is_not_finite() -> None:
    async def walk() -> None:
        app = One(of([1.0, math.nan, 3.0]), [Mark("onset", 1)])
        async with app.run_test() as pilot:
            view = app.query_one(CurveView)
            view.focus()
            await pilot.press("comma")
            assert "step 1: NaN" in str(view.border_title)
            await pilot.press("full_stop")
            assert "step 2: 3" in str(view.border_title)

    run(walk())


def test_a_bad_column_is_painted_and_crossed() -> None:
    async def walk() -> None:
        values = np.ones(300)
        values[150] = math.inf
        app = One(of(values), [])
        async with app.run_test() as pilot:
            await pilot.pause()
            rows = drawn(app)
            assert rows[1].count("✗") == 1 and "1 not finite" in rows[0]
            view = app.query_one(CurveView)
            at = rows[1].index("✗")
            strip = view.render_line(2)
            place, style = 0, None
            for segment in strip:
                if place <= at < place + cell_len(segment.text):
                    style = segment.style
                place += cell_len(segment.text)
            assert style is not None and style.bgcolor == view.get_component_rich_style("curve--bad").bgcolor

    run(walk())


def test_several_curves_move_together() -> None:
    async def walk() -> None:
        async with terminal(LARGE) as t:
            t.app.open_files(("run.csv",))
            await t.until(lambda: t.app.desk is not None)
            await t.settle()
            await t.press("f")
            views = [v for v in t.app.screen.query(CurveView) if v.display]
            assert [v.key[0] for v in views if v.key] == ["loss", "grad_norm", "lr"]
            await t.press("plus", "plus", "right")
            assert len({(v.first, v.last) for v in views}) == 1 and views[0].last - views[0].first < 100
            await t.press("tab", "m")
            assert views[1].key == ("lr", None)

    run(walk())


def test_ranks_are_series_of_their_own() -> None:
    base = small_run().one("loss")
    assert base is not None
    per_rank: dict[tuple[str, int | None], Series] = {}
    for k in range(3):
        per_rank["loss", k] = Series("loss", k, base.steps, base.values, None, Origin("x"))

    async def walk() -> None:
        app = One(Run(per_rank), [])
        async with app.run_test() as pilot:
            view = app.query_one(CurveView)
            view.focus()
            await pilot.press("m")
            assert view.key == ("loss", 1) and "rank 1" in str(view.border_title)

    run(walk())


# text that fits


@given(st.text(max_size=60), st.integers(0, 40))
def test_text_fits(text: str, width: int) -> None:
    assert cell_len(fit(text, width)) <= max(width, 0)
    assert cell_len(pad(text.replace("\n", " "), width)) == width


@given(st.text(alphabet="ab 学习率的é", max_size=80), st.integers(2, 30))
def test_wrapped_text_fits_and_loses_nothing(text: str, width: int) -> None:
    rows = wrap(text, width)
    assert all(cell_len(row) <= width for row in rows)
    assert "".join("".join(rows).split()) == "".join(text.split())


def test_chinese_fills_its_lines() -> None:
    """No line ends early because a sentence has no blanks, and none begins with a full stop."""
    assert wrap("loss 曲线看起来合理；问题在评估。", 16) == ["loss 曲线看起来", "合理；问题在评", "估。"]
    assert wrap("一二三四五六。七", 12) == ["一二三四五", "六。七"]


@pytest.mark.parametrize("share", [-1, 0, 0.004, 0.5, 0.999, 1, 2])
def test_bars_are_as_wide_as_told(share: float) -> None:
    assert len(bar(share, 10)) == 10


def test_certain_is_said_only_where_it_is_so() -> None:
    assert [percent(x) for x in (0, 0.001, 0.5, 0.999, 1)] == ["0%", "<1%", "50%", ">99%", "100%"]
