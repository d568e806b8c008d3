"""Metrics that are logged in another form: perplexities, negative entropies, bits per byte, bandwidths."""

from __future__ import annotations

import math
import random
from pathlib import Path

import numpy as np
import pytest

from playbook import readers
from playbook.readers import names
from playbook.series import Run
from tests import live_kit as kit


def read(path: Path, columns: dict[str, list[float]], **options: object) -> Run:
    count = len(next(iter(columns.values())))
    rows = [",".join(f"{columns[name][k]!r}" for name in columns) for k in range(count)]
    path.write_text(",".join(["step", *columns]) + "\n" + "".join(f"{k + 1},{row}\n" for k, row in enumerate(rows)))
    return readers.read(path, **options)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("raw", "metric"),
    [
        ("ppl", "loss"), ("train/ppl", "loss"), ("train_perplexity", "loss"), ("val_ppl", "eval_loss"),
        ("eval/perplexity", "eval_loss"), ("lm loss validation PPL", "eval_loss"), ("val_bpb", "eval_loss"),
        ("val/bits_per_byte", "eval_loss"), ("nccl_busbw", "bandwidth"), ("comm/busbw_gbps", None),
        ("train/entropy_loss", "entropy"), ("Loss / Entropy loss", "entropy"), ("actor/entropy_loss", "entropy"),
        ("train_bpb", None),
    ],
)  # fmt: skip
def test_names(raw: str, metric: str | None) -> None:
    assert names.canonical([raw], {}) == ({raw: metric} if metric else {})


def test_a_perplexity_stands_in_for_a_loss_that_was_not_logged(tmp_path: Path) -> None:
    loss = [3.0, 2.5, math.inf, 2.0, math.nan]
    run = read(
        tmp_path / "a.csv", {"train/ppl": [math.exp(v) for v in loss], "val_ppl": [30.0, 20.0, 15.0, 12.0, 10.0]}
    )
    assert np.allclose(run.series["loss", None].values, loss, equal_nan=True)
    assert np.allclose(run.series["eval_loss", None].values, np.log([30.0, 20.0, 15.0, 12.0, 10.0]))
    assert run.series["loss", None].raw == "train/ppl"
    assert [p.code for p in run.files[0].problems] == ["derived", "derived"]
    assert "logarithm of train/ppl" in run.files[0].problems[0].what


def test_a_loss_goes_before_its_perplexity(tmp_path: Path) -> None:
    run = read(tmp_path / "a.csv", {"ppl": [20.0, 10.0, 5.0], "loss": [3.0, 2.3, 1.6]})
    assert run.series["loss", None].raw == "loss" and not run.files[0].problems


def test_what_is_below_one_is_no_perplexity_and_a_map_is_taken_at_its_word(tmp_path: Path) -> None:
    run = read(tmp_path / "a.csv", {"ppl": [0.5, 0.4, 0.3]})
    assert run.series["loss", None].values.tolist() == [0.5, 0.4, 0.3] and not run.files[0].problems
    run = read(tmp_path / "b.csv", {"ppl": [20.0, 10.0, 5.0]}, rename={"ppl": "loss"})
    assert run.series["loss", None].values.tolist() == [20.0, 10.0, 5.0]


@pytest.mark.parametrize(
    ("raw", "logged", "entropy"),
    [
        ("train/entropy_loss", [-1.4, -1.2, -0.3], [1.4, 1.2, 0.3]),  # stable-baselines3 minimises the negative
        ("train/entropy_loss", [-1.4, -0.2, 0.3], [1.4, 0.2, -0.3]),  # a continuous policy that becomes narrow
        ("Loss / Entropy loss", [-0.014, -0.012, -0.003], [0.014, 0.012, 0.003]),
        ("train/entropy_loss", [1.4, 1.2, 0.3], [1.4, 1.2, 0.3]),
        ("actor/entropy_loss", [1.4, 1.2, 0.3], [1.4, 1.2, 0.3]),
        ("entropy", [-0.1, -0.5, -0.9], [-0.1, -0.5, -0.9]),  # of a continuous policy: below zero is no sign of ours
    ],
)  # fmt: skip
def test_the_sign_of_an_entropy(tmp_path: Path, raw: str, logged: list[float], entropy: list[float]) -> None:
    run = read(tmp_path / "a.csv", {raw: logged})
    assert np.allclose(run.series["entropy", None].values, entropy)


def test_a_followed_file_says_the_same(tmp_path: Path) -> None:
    text = "step,ppl,train/entropy_loss\n" + "".join(
        f"{k},{9.0 + 1 / (1 + k)},{-1.0 - k * 1e-4}\n" for k in range(3_000)
    )
    (tmp_path / "whole.csv").write_text(text)
    whole = readers.read(tmp_path / "whole.csv")
    grown = kit.followed(tmp_path / "grown.csv", text.encode(), random.Random(3), held=16_384)
    for metric in ("loss", "entropy"):
        assert np.array_equal(grown.series[metric, None].values, whole.series[metric, None].values)
    assert whole.series["entropy", None].values[0] == 1.0
