"""Rows of logs as people paste them: which number is what, at which step, and whose.

The texts are in our own words; their shapes are those of public issue threads.
"""

from __future__ import annotations

import math
from pathlib import Path

import pytest

from playbook.readers import read

Points = list[tuple[int, float]]
NAN = math.nan


def points(tmp_path: Path, said: str) -> dict[str, Points]:
    """metric (with `@rank` where a rank owns it) -> its points in the order of the file."""
    (tmp_path / "out.log").write_text(said)
    found: dict[str, Points] = {}
    for one in read(tmp_path / "out.log").series.values():
        name = one.metric if one.rank is None else f"{one.metric}@{one.rank}"
        found[name] = [(int(step), float(value)) for step, value in zip(one.steps, one.values, strict=True)]
    return found


def same(found: Points, wanted: Points) -> bool:
    return [step for step, _ in found] == [step for step, _ in wanted] and all(
        math.isclose(a, b, rel_tol=1e-9) or (math.isnan(a) and math.isnan(b))
        for (_, a), (_, b) in zip(found, wanted, strict=True)
    )


BAR = "|##        |"
SHAPES: dict[str, tuple[str, dict[str, Points]]] = {
    "what stands behind a bar has a line of its own": (
        f"  1%{BAR} 6/1184 [00:21<1:09:10,  3.52s/it][2024-02-04 15:06:19,825] [INFO] [stage2.py:1:step] [deepspeed] "
        "OVERFLOW! Rank 0 Skipping step. Attempted loss scale: 64.0, reducing to 32.0\n"
        f"  1%{BAR} 7/1184 [00:24<1:07:59,  3.47s/it]{{'loss': 2.5, 'learning_rate': 1e-05, 'epoch': 0.01}}\n",
        {"loss_scale": [(6, 32.0)], "loss": [(7, 2.5)]},
    ),
    "numbers before the bar": (
        f"1|1|Loss: 1.93:   5%{BAR} 1/20 [00:05<01:35,  5.00s/it]\r"
        f"1|2|Loss: nan:  10%{BAR} 2/20 [00:10<01:30,  5.00s/it]\n",
        {"loss": [(1, 1.93), (2, NAN)]},
    ),
    "several numbers before the bar": (
        f"[losses/total_loss: 1.64 | losses/value_loss: 7.62]:  16%{BAR} 24/640 [1:14:23<1:13:02,  1.23it/s]\n",
        {"loss": [(24, 1.64)]},
    ),
    "an average of the bar beside the number itself": (
        f"Epoch 0:   1%{BAR} 5/772 [9:07<8:01, 4.3s/it, loss=3.1, v_num=, reduced_train_loss=3.09, global_step=4.0]\n",
        {"loss": [(4, 3.09)]},
    ),
}


@pytest.mark.parametrize("shape", SHAPES)
def test_rows_are_read_as_they_are_meant(tmp_path: Path, shape: str) -> None:
    said, wanted = SHAPES[shape]
    found = points(tmp_path, said)
    for metric, row in wanted.items():
        assert same(found.get(metric, []), row), (metric, found)
