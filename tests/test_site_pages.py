"""Page models: curves that hide nothing, pictures without overlaps, walks as the engine walks, plain percents."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from playbook.faces.pages.blocks import Plot, Ref, Table
from playbook.faces.pages.compare import compared, pair
from playbook.faces.pages.curve import HEIGHT, WIDTH, nice, plot
from playbook.faces.pages.numbers import SPEAKS, Numbers
from playbook.faces.pages.picture import UNITS, Column, Tie, cause_graph, layered, symptom_graph, units, wrap
from playbook.faces.pages.shelf import Shelf, anchor_of, percent
from playbook.faces.site.parallel import spread
from playbook.faces.words import Words
from playbook.knowledge.loader import Book
from playbook.workflow.cases import CaseFile, play, start
from playbook.workflow.records.published import Strip, case_strips
from tests.site_kit import incident


@pytest.fixture(scope="module")
def shelf(tiny: Book) -> Shelf:
    return Shelf(tiny, Numbers(tiny), Words())


def _points(shelf: Shelf, steps: np.ndarray, values: np.ndarray) -> list[tuple[float, float]]:
    drawn = plot(shelf, "loss", (Strip("loss", steps, values),))
    assert drawn is not None
    return [point for segment in drawn.lines[0].segments for point in segment]


def test_a_spike_of_one_step_survives(shelf: Shelf) -> None:
    """Of a hundred thousand steps the picture has hundreds of columns; the one that matters is in it."""
    values = np.full(100_000, 2.0)
    values[77_777] = 9.0
    points = _points(shelf, np.arange(100_000), values)
    assert len(points) < 4 * WIDTH
    top = min(points, key=lambda p: p[1])
    assert top[0] == pytest.approx(77_777 / 99_999 * WIDTH, abs=0.1)
    assert top[1] < HEIGHT * 0.1


def test_what_is_not_finite_is_painted_and_never_bridged(shelf: Shelf) -> None:
    values = np.ones(100)
    values[40:60] = np.nan
    values[80] = np.inf
    drawn = plot(shelf, "loss", (Strip("loss", np.arange(100), values),))
    assert drawn is not None
    assert len(drawn.lines[0].segments) == 3
    assert len(drawn.bad) == 2
    assert drawn.bad[0] == pytest.approx((40 / 99 * WIDTH, 59 / 99 * WIDTH), abs=0.1)
    assert ("loss: NaN or Inf", "21") in drawn.numbers


@pytest.mark.parametrize(
    ("steps", "values"),
    [
        (np.array([5]), np.array([1.0])),
        (np.arange(4), np.full(4, np.nan)),
        (np.arange(4), np.zeros(4)),
        (np.array([0, 1, 2, 1, 2, 3]), np.array([3.0, 2.0, 1.0, 2.0, 1.0, 0.5])),
        (np.arange(3), np.array([1e-300, 1.0, 1e300])),
        (np.array([7, 7, 7]), np.array([1.0, 2.0, 3.0])),
        (np.array([-(2**62), 2**62]), np.array([-1e308, 1e308])),
    ],
)
def test_odd_series_are_drawn(shelf: Shelf, steps: np.ndarray, values: np.ndarray) -> None:
    drawn = plot(shelf, "loss", (Strip("loss", steps, values),), [(1, "onset", "onset")])
    assert drawn is not None
    for segment in drawn.lines[0].segments:
        assert all(np.isfinite(p).all() and -1 <= p[0] <= WIDTH + 1 and -1 <= p[1] <= HEIGHT + 1 for p in segment)


def _strip(role: str, steps: np.ndarray, values: np.ndarray) -> Strip:
    return Strip("loss", steps, values, role)


def test_before_and_after_lie_at_the_onset() -> None:
    """A run that went on from a checkpoint keeps its count; no more of the calm is shown than of what came after."""
    before = _strip("before", np.arange(0, 1200), np.ones(1200))
    after = _strip("after", np.arange(900, 1500), np.zeros(600))
    found = pair((before, after), 1000)
    assert found is not None
    assert not found.anew
    assert (found.before.steps[0], found.before.steps[-1]) == (-499, 199)
    assert (found.after.steps[0], found.after.steps[-1]) == (-100, 499)


def test_a_run_that_counts_anew_begins_at_the_onset() -> None:
    before = _strip("before", np.arange(0, 1200), np.ones(1200))
    after = _strip("after", np.arange(1, 301), np.zeros(300))
    found = pair((before, after), 1000)
    assert found is not None
    assert found.anew
    assert (found.after.steps[0], found.after.steps[-1]) == (0, 299)


@pytest.mark.parametrize("roles", [("before",), ("after",), ("main", "after"), ()])
def test_one_side_is_no_comparison(roles: tuple[str, ...]) -> None:
    assert pair([_strip(role, np.arange(5), np.ones(5)) for role in roles], 2) is None


def test_the_comparison_in_numbers(shelf: Shelf) -> None:
    """From the onset on only: what was high before it says nothing of the fix."""
    steps = np.arange(0, 20)
    bad = np.where(steps < 10, 99.0, 5.0)
    bad[12] = np.nan
    strips = [_strip("before", steps, bad), _strip("after", steps, np.full(20, 2.0))]
    section = compared(shelf, {"loss": strips}, 10, [(10, "onset", "onset")])
    assert section is not None
    table = next(block for block in section.blocks if isinstance(block, Table))
    cells = [tuple(getattr(cell, "text", "") for cell in row[1:]) for row in table.rows]
    assert cells == [("5", "2"), ("5", "2"), ("5", "2"), ("1", "0")]
    drawn = next(block for block in section.blocks if isinstance(block, Plot))
    assert drawn.relative
    assert [(m.step, m.x) for m in drawn.marks] == [(10, pytest.approx(9 / 18 * WIDTH, abs=0.1))]
    assert {label for _, label in drawn.x_ticks} >= {"-5", "0", "+5"}


def test_nothing_to_draw(shelf: Shelf) -> None:
    assert plot(shelf, "loss", (Strip("loss", np.array([], int), np.array([])),)) is None


def test_a_restart_parts_the_line(shelf: Shelf) -> None:
    drawn = plot(shelf, "loss", (Strip("loss", np.array([0, 1, 2, 1, 2, 3]), np.arange(6.0)),))
    assert drawn is not None
    assert len(drawn.lines[0].segments) == 2


def test_ticks_are_round() -> None:
    assert nice(0, 100, 5) == [0, 20, 40, 60, 80, 100]
    assert nice(1.3, 9.2, 5) == [2, 4, 6, 8]
    assert nice(3, 3, 5) == [3]


def test_boxes_do_not_overlap(shelf: Shelf, tiny: Book) -> None:
    for drawn in (
        cause_graph(shelf, tiny.causes["fp16-overflow"]),
        symptom_graph(shelf, tiny.symptoms["persistent-spike"]),
    ):
        assert drawn is not None
        assert len({(n.ref.kind, n.ref.id) for n in drawn.nodes}) == len(drawn.nodes)
        for i, a in enumerate(drawn.nodes):
            assert 0 <= a.x <= drawn.width - a.width
            assert 0 <= a.y <= drawn.height - a.height
            for b in drawn.nodes[i + 1 :]:
                apart = a.x + a.width < b.x or b.x + b.width < a.x or a.y + a.height < b.y or b.y + b.height < a.y
                assert apart, (a.ref, b.ref)


def test_the_barycentre_untangles() -> None:
    """Two boxes named the wrong way round are exchanged, so that no arrows cross."""
    left, right = Column("l"), Column("r")
    a, b = left.add(Ref("", "a", "k", "a")), left.add(Ref("", "b", "k", "b"))
    y, x = right.add(Ref("", "y", "k", "y")), right.add(Ref("", "x", "k", "x"))
    drawn = layered("t", "d", (left, right), (Tie(a, x, 1), Tie(b, y, 1)))
    place = {n.ref.id: n.y for n in drawn.nodes}
    assert place["x"] < place["y"]


def test_titles_fit_their_boxes() -> None:
    for text in (
        "short",
        "a much longer title that needs at least two lines to be told",
        "学习率在峰值处过高导致损失跳升且不再回落",
        "x" * 80,
    ):
        lines = wrap(text)
        assert 1 <= len(lines) <= 2
        assert all(units(line) <= UNITS for line in lines)
    assert wrap("x" * 80)[-1].endswith("…")


def test_probabilities_for_people() -> None:
    assert [percent(p) for p in (0, 0.004, 0.014, 0.5, 0.996, 0.9999, 1)] == [
        "0 %", "< 1 %", "1 %", "50 %", "99 %", "100 %", "100 %",
    ]  # fmt: skip


def test_anchors_are_safe() -> None:
    assert anchor_of("D3-tab-1") == "D3-tab-1"
    assert anchor_of('a"b c<d>') == "a-b-c-d"
    assert anchor_of("!!") == "x"


def _by_the_book(book: Book, numbers: Numbers, name: str) -> tuple[list[str], float]:
    case = book.cases[name]
    file = CaseFile.model_validate(case.model_dump(by_alias=True))
    session = start(file, book, numbers.tables, book.files["cases", name].parent, {name: case_strips(book, case)[1]})
    session = play(session, file)
    return [m.signal for m in session.asked], float(session.diagnosis(explained=False).belief.by_class.max())


def test_walks_are_those_of_an_evaluation(tiny: Book) -> None:
    """The short cut past questions asked in vain changes neither the questions nor the outcome."""
    numbers = Numbers(tiny)
    for name in tiny.cases:
        walk = numbers.walk(tiny.cases[name])
        asked, top = _by_the_book(tiny, numbers, name)
        assert [m.signal for m in walk.moves] == asked
        assert (walk.moves[-1].top if walk.moves else walk.start_top)[0][1] == pytest.approx(top)


@pytest.mark.slow
def test_walks_of_the_real_cases(real_book: Book) -> None:
    numbers = Numbers(real_book)
    if real_book.learned.get("cases"):
        pytest.skip("the learned counts leave each case out; the plain evaluation above does not")
    for name in list(real_book.cases)[::6]:
        case = real_book.cases[name]
        walk = numbers.walk(case, {name: case_strips(real_book, case)[1]})
        assert [m.signal for m in walk.moves] == _by_the_book(real_book, numbers, name)[0], name


def test_spread_keeps_the_order_and_the_faults() -> None:
    assert spread(lambda x: x * x, range(20)) == [x * x for x in range(20)]
    with pytest.raises(ZeroDivisionError):
        spread(lambda x: 1 // x, [1, 0])


def test_incidents_are_told_newest_first(tiny: Book) -> None:
    from playbook.workflow.records.published import newest_first

    old, new = incident(), incident(id="20270101-bbbbbb", opened_at="2027-01-01T00:00:00Z")
    assert [i.record.id for i in newest_first([old, new])] == ["20270101-bbbbbb", "20260304-aaaaaa"]


def test_a_case_may_not_read_outside_its_folder(tiny: Book, tmp_path: Path) -> None:
    from playbook.errors import PlaybookError

    case = tiny.cases["tiny-lr"].model_copy(update={"metrics": ["../../../etc/passwd"]})
    with pytest.raises(PlaybookError, match="lies outside"):
        case_strips(tiny, case)


def test_every_outcome_of_a_circumstance_says_what_it_moves(real_book: Book) -> None:
    """No cause has a link to the software, only classes are judged: the page names a cause for each class."""
    numbers = Numbers(real_book)
    for outcome in real_book.signals["software"].outcomes:
        pro, con, _ = numbers.speaks("software", outcome)
        assert pro or con, outcome
        assert all(f >= SPEAKS for _, f in pro) and all(f <= 1 / SPEAKS for _, f in con)
    strongest = numbers.speaks("software", "collective-library")[0][0][0]
    assert real_book.causes[strongest].layer == "communication"
