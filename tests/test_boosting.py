"""Boosted trees and Kaldi: what their lines tell, and what only looks like them."""

from __future__ import annotations

from pathlib import Path
from time import process_time

import pytest

from playbook import readers
from playbook.readers.logs.boosting import found

LINES = {
    "[10]\ttrain-logloss:0.41000\teval-logloss:0.47000": (10, {"loss": 0.41, "eval_loss": 0.47}),
    "[12:30:01] [10]\ttrain-mlogloss:0.41": (10, {"loss": 0.41}),
    "[10]\ttrain-rmse:0.41+0.012\ttest-rmse:0.47+0.020": (10, {"loss": 0.41, "eval_loss": 0.47}),
    "[10]\tvalidation_0-rmse:0.41\tvalidation_1-rmse:0.47": (10, {"loss": 0.41, "eval_loss": 0.47}),
    "[10]\tvalidation_0-rmse:0.47": (10, {"eval_loss": 0.47}),
    "[10]\ttrain-rmse:0.41\ttrain-mae:0.31\teval-rmse:0.47\teval-mae:0.37": (10, {"loss": 0.41, "eval_loss": 0.47}),
    "[10]\ttrain-rmse:0.41\ta-rmse:0.5\ta-mae:0.4\tb-rmse:0.47\tb-mae:0.37": (10, {"loss": 0.41, "eval_loss": 0.47}),
    "[10]\ttrain-poisson-nloglik:0.41\ttest-poisson-nloglik:0.47": (10, {"loss": 0.41, "eval_loss": 0.47}),
    "[10]\ttrain-tweedie-nloglik@1.5:0.41": (10, {"loss": 0.41}),
    "[10]\teval-auc:0.9\ttrain-auc:0.95": (10, {}),
    "[10]\tvalid_0's l2: 0.47": (10, {"eval_loss": 0.47}),
    "[10]\ttraining's auc: 0.9\ttraining's l2: 0.41\tvalid_1's l2: 0.47": (10, {"loss": 0.41, "eval_loss": 0.47}),
    "[10]\tcv_agg's l2: 0.47 + 0.01": (10, {"eval_loss": 0.47}),
    "[10]\tcv_agg's train l2: 0.41 + 0.01\tcv_agg's valid l2: 0.47 + 0.01": (10, {"loss": 0.41, "eval_loss": 0.47}),
    "[LightGBM] [Info] Iteration:10, training l2 : 0.41": (10, {"loss": 0.41}),
    "[LightGBM] [Info] Iteration:10, valid_1 auc : 0.9": (10, {}),
    "10:\tlearn: 0.41\ttest: 0.47\tbest: 0.4 (8)\ttotal: 3s\tremaining: 4m 2s": (10, {"loss": 0.41, "eval_loss": 0.47}),
    "10:\tlearn: 0.41\ttotal: 12ms\tremaining: 0us": (10, {"loss": 0.41}),
}


@pytest.mark.parametrize("line", LINES)
def test_a_line_is_read(line: str) -> None:
    assert found(line) == LINES[line]


@pytest.mark.parametrize(
    "line",
    [
        "[10] saved checkpoint-10 to out/",
        "[3] NCCL INFO Channel 00 : 0[0] -> 1[1] via P2P",
        "[rank0]: step 10 loss 2.5",
        "[10/100] loss: 2.5",
        "[10]\tprepared shard-7 of 12",
        "INFO 10: learn: more about this at the homepage",
    ],
)
def test_other_lines_are_left_alone(line: str) -> None:
    assert found(line) is None


@pytest.mark.parametrize("tail", ["x" * 100_000, "1:\tlearn: 1" + " " * 100_000, "word " * 20_000])
def test_a_long_line_takes_no_time(tail: str) -> None:
    begin = process_time()
    assert found("[1] " + tail) is None and found(tail) is None
    assert process_time() - begin < 2.0


@pytest.mark.parametrize("said", ["Early stopping, best iteration is:", "Stopping. Best iteration:"])
def test_the_best_row_that_is_told_again_is_no_step_back(tmp_path: Path, said: str) -> None:
    rows = [f"[{k}]\ttrain-rmse:{1 / (k + 1):.5f}\teval-rmse:{1 / (k + 1) + 0.1:.5f}" for k in range(40)]
    path = tmp_path / "train.log"
    path.write_text("\n".join([*rows, said, rows[30]]) + "\n")
    run = readers.read([path])
    for metric in ("loss", "eval_loss"):
        series = run.one(metric)
        assert series is not None and len(series) == 40 and not len(series.restarts)


def test_the_folder_of_catboost_is_one_run(tmp_path: Path) -> None:
    for name, metric in (("learn", "Logloss"), ("test", "Logloss")):
        rows = "".join(f"{k}\t{0.7 / (k + 1) + (name == 'test') * 0.1:.6f}\n" for k in range(30))
        (tmp_path / f"{name}_error.tsv").write_text(f"iter\t{metric}\n{rows}")
    (tmp_path / "time_left.tsv").write_text("iter\tPassed\tRemaining\n" + "".join(f"{k}\t{k}\t9\n" for k in range(30)))
    run = readers.read([tmp_path])
    assert {metric: len(series) for (metric, _), series in run.series.items()} == {"loss": 30, "eval_loss": 30}


def test_a_torn_document_of_catboost_is_refused_in_one_line(tmp_path: Path) -> None:
    path = tmp_path / "catboost_training.json"
    path.write_text('{"meta": {"iteration_count": 9, "learn_metrics": [{"name": "RMSE"}]}, "iterations": [{"lea')
    with pytest.raises(readers.PlaybookError, match="no whole JSON document of CatBoost"):
        readers.read([path])
