"""Figures about figures: the calibration error, what chance does to it, intervals of shares."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

from playbook.faces.cli import playbook as cli
from playbook.workflow import calibration

CASES = Path(__file__).parent.parent / "knowledge" / "cases"


def test_calibration_error_is_the_mean_gap_of_the_bins() -> None:
    stated = [0.95, 0.95, 0.15, 0.15]
    assert calibration.calibration_error(stated, [True, True, False, False]) == pytest.approx((0.05 + 0.15) / 2)
    assert calibration.calibration_error(stated, [False, False, True, True]) == pytest.approx((0.95 + 0.85) / 2)
    assert calibration.calibration_error([], []) == 0


def test_certainty_belongs_to_the_last_bin() -> None:
    rows = calibration.reliability([1.0, 0.9, 0.0], [True, False, False])
    assert [tuple(r.values()) for r in rows] == [(0.0, 1, 0.0, 0.0), (0.9, 2, 0.95, 0.5)]
    assert [r["from"] for r in calibration.reliability([0.19, 0.2, 0.99], [0, 1, 1], bins=5)] == [0.0, 0.2, 0.8]
    assert calibration.reliability([], []) == []


def test_chance_explains_much_on_few_cases_and_little_on_many() -> None:
    stated = np.random.default_rng(3).random(4000)
    few, many = calibration.by_chance(stated[:40]), calibration.by_chance(stated)
    assert few["p5"] < few["p50"] < few["p95"]
    assert few["p50"] > 0.1 and many["p95"] < 0.03
    assert calibration.by_chance(stated[:40]) == few
    assert set(few) == set(calibration.by_chance([])) == {"p5", "p50", "p95"}
    assert set(calibration.by_chance([]).values()) == {0.0}
    assert calibration.by_chance([1.0, 0.0]) == {"p5": 0.0, "p50": 0.0, "p95": 0.0}, "certainty has no luck"


def test_an_honest_judge_stays_within_chance_and_a_boaster_does_not() -> None:
    rng = np.random.default_rng(5)
    stated = rng.random(300)
    right = rng.random(300) < stated
    chance = calibration.by_chance(stated)
    assert calibration.calibration_error(stated, right) < chance["p95"]
    boast = np.sqrt(stated)
    assert calibration.calibration_error(boast, right) > calibration.by_chance(boast)["p95"]


def test_intervals_of_shares() -> None:
    assert calibration.interval(0, 0) == (0, 1)
    assert calibration.interval(0, 20)[0] == 0 and 0.1 < calibration.interval(0, 20)[1] < 0.15
    assert calibration.interval(20, 20)[1] == 1
    low, high = calibration.interval(50, 100)
    assert low == pytest.approx(1 - high, abs=1e-3) and 0.41 < low < 0.43


@pytest.mark.parametrize(("hits", "n"), [(1, 3), (7, 20), (50, 57), (86, 87)])
def test_the_ends_of_an_interval_are_the_shares_that_the_count_is_just_compatible_with(hits: int, n: int) -> None:
    for end in calibration.interval(hits, n):
        away = (hits / n - end) / np.sqrt(end * (1 - end) / n)
        assert abs(away) == pytest.approx(1.6449, abs=0.02), "as many standard errors as leave out 5 % on each side"


def test_evaluate_puts_its_figures_beside_what_chance_does(tmp_path: Path) -> None:
    for name in ("deepspeed-6550", "build-nanogpt-30"):
        (tmp_path / f"{name}.yaml").write_text((CASES / f"{name}.yaml").read_text("utf-8"), "utf-8")
    told = json.loads(CliRunner().invoke(cli, ["evaluate", str(tmp_path), "--json"]).stdout)
    low, high = told["intervals"]["top1"]
    assert low <= told["top1"] <= high and high - low > 0.2
    assert told["calibration_error_by_chance"]["p95"] > 0
    assert sum(row["cases"] for row in told["reliability"]) == 2
    shown = CliRunner().invoke(cli, ["evaluate", str(tmp_path)]).stdout
    assert "if perfectly calibrated" in shown
