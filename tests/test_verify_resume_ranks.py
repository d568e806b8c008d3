"""verify-resume on files with ranks: each is judged, one that breaks is named, chance among many is no fault."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from playbook.faces.cli import run as command
from playbook.series import Run, Series
from playbook.workflow.comparison import verify_resume as use_case
from playbook.workflow.comparison.seam import Check, find
from playbook.workflow.comparison.verify_resume import suspects, verdict, verify
from tests.test_verify_resume import SEAM, Table, part, run, table

RANKS = 8


def job(parts: list[Table], mean: bool = False) -> Run:
    """One run whose ranks are the parts; `mean`: with the loss of the whole job beside them."""
    series: dict[tuple[str, int | None], Series] = {}
    for rank, one in enumerate(parts):
        series |= {(name, rank): replace(s, rank=rank) for (name, _), s in run(one).series.items()}
    if mean:
        whole = {**parts[0], "loss": np.mean([p["loss"] for p in parts], axis=0)}
        series |= {("loss", None): run(whole).series["loss", None]}
    return Run(series)


def halves(ranks: int = RANKS, rows: int = 300) -> tuple[list[Table], list[Table]]:
    data = [table(order=7 + rank, own=7 + rank) for rank in range(ranks)]
    return [part(t, 0, SEAM) for t in data], [part(t, SEAM, SEAM + rows) for t in data]


def named(checks: list[Check], name: str) -> Check:
    return next(check for check in checks if check.name == name)


@pytest.mark.parametrize("mean", [False, True])
def test_many_good_ranks_pass(mean: bool) -> None:
    before, after = halves(24)
    checks = verify(job(before, mean), job(after, mean))
    assert verdict(checks) == "continues" and not any(check.ranks for check in checks)


@pytest.mark.parametrize("mean", [False, True])
@pytest.mark.parametrize(
    ("metric", "factor", "name", "cause"),
    [
        ("loss", 1.4, "loss", "wrong-weights-loaded"),
        ("lr", 0.5, "learning rate", "schedule-not-restored"),
        ("grad_norm", 8.0, "gradient norm", "gradient-scaled-by-world-size"),
    ],
)
def test_one_rank_that_breaks_is_named(mean: bool, metric: str, factor: float, name: str, cause: str) -> None:
    """Of the others, the lowest among them, nothing is seen, and hardly anything in their mean."""
    before, after = halves()
    after[5][metric] = after[5][metric] * factor
    checks = verify(job(before, mean), job(after, mean))
    assert verdict(checks) == "broken" and cause in suspects(checks)
    assert named(checks, name).ranks == (5,)
    assert [check.name for check in checks if check.status == "failed"] == [name]


def test_what_breaks_in_all_ranks_is_the_job_s() -> None:
    before, after = halves()
    for one in after:
        one["lr"] = one["lr"] * 0.5
    assert named(verify(job(before), job(after)), "learning rate").ranks == ()


def test_a_loss_that_is_no_number_in_one_rank() -> None:
    before, after = halves()
    after[3]["loss"][:] = np.nan
    found = named(verify(job(before), job(after)), "loss")
    assert found.status == "failed" and found.ranks == (3,) and "no number" in found.because


def test_a_rank_whose_file_ends_at_the_resume_is_left_out() -> None:
    before, after = halves()
    after[2] = before[2]
    assert verdict(verify(job(before), job(after))) == "continues"


def test_one_of_many_has_to_stand_out_further(monkeypatch: pytest.MonkeyPatch) -> None:
    """A step of the norm between one and one and a half times the bar of a curve alone is chance among ranks."""
    before, after = halves()
    for factor in np.exp(np.arange(0.3, 1.2, 0.05)):
        moved = {**after[5], "grad_norm": after[5]["grad_norm"] * factor}
        if named(verify(run(before[5]), run(moved)), "gradient norm").status == "failed":
            break
    after[5] = moved
    assert named(verify(job(before), job(after)), "gradient norm").status == "ok"
    monkeypatch.setattr(use_case, "WIDE", 1.0)
    assert named(verify(job(before), job(after)), "gradient norm").ranks == (5,)
    assert find(job(before), job(after)).wide == 1.0


def test_the_rank_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before, after = halves(4, 60)
    after[3]["lr"] = after[3]["lr"] * 0.5
    for name, parts in (("a.csv", before), ("b.csv", after)):
        rows = ["step,rank,loss,lr"]
        for rank, one in enumerate(parts):
            rows += [
                f"{s},{rank},{v:.6g},{lr:.6g}" for s, v, lr in zip(one["step"], one["loss"], one["lr"], strict=True)
            ]
        (tmp_path / name).write_text("\n".join(rows) + "\n")
    assert command(["verify-resume", str(tmp_path / "a.csv"), str(tmp_path / "b.csv")]) == 1
    assert "[rank 3]" in capsys.readouterr().out
