"""Structured files of other people's jobs against what is known about them. Runs where the collection is at hand.

`PLAYBOOK_REAL` names the folder (else `../shared/real` beside the repository); without it nothing is tested here.
"""

from __future__ import annotations

import json
import math
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from playbook.errors import PlaybookError
from playbook.readers import read
from playbook.series import Run, Series

REAL = Path(os.environ.get("PLAYBOOK_REAL") or Path(__file__).parents[2] / "shared" / "real")
FORMATS = {
    "hf_trainer_state": "trainer_state",
    "json_lines": "jsonl",
    "mmengine_scalars": "jsonl",
    "lightning_csv": "csv",
    "ultralytics_csv": "csv",
    "rl_progress_csv": "csv",
    "csv_step_loss": "csv",
    "mlflow_metric": "mlflow",
    "tfevents": "tensorboard",
    "wandb_binary": "wandb",
    "wandb_summary_json": "json",
}
_TRUTH = json.loads((REAL / "truth.json").read_text("utf-8")) if (REAL / "truth.json").is_file() else []
ENTRIES = [entry for entry in _TRUTH if entry["format"] in FORMATS and (REAL / entry["name"]).is_dir()]
pytestmark = pytest.mark.skipif(not ENTRIES, reason="the collection of real files is not here")


def _by_raw(run: Run, raw: str) -> Series | None:
    names = {raw, "box_loss"} if raw == "value" else {raw}  # an MLflow file has no name inside
    return next((series for series in run.series.values() if series.raw in names), None)


@pytest.mark.parametrize("entry", ENTRIES, ids=[entry["name"] for entry in ENTRIES])
def test_a_real_file_says_what_is_known_about_it(entry: dict[str, Any]) -> None:
    path = next(file for file in (REAL / entry["name"]).iterdir())
    run, truth = read([path]), entry["truth"]
    assert run.files[0].format == FORMATS[entry["format"]]
    assert abs(run.files[0].rows - entry["rows"]) <= max(
        11, 0.01 * entry["rows"]
    )  # summaries and predictions are no rows
    if (main := truth["main"]) is not None:
        series = _by_raw(run, main["metric"])
        assert series is not None and len(series) == main["n"]
        values = series.values
        for found, known in (
            (values[0], "first"),
            (values[-1], "last"),
            (np.nanmin(values), "min"),
            (np.nanmax(values), "max"),
        ):
            assert math.isclose(found, main[known], rel_tol=1e-4, abs_tol=1e-6), known
    loss = run.get("loss")
    if loss is not None:
        bad = np.flatnonzero(~loss.finite)
        assert (int(loss.steps[bad[0]]) if len(bad) else None) == truth["first_nan_step"]
    if (norm := truth["grad_norm"]) is not None:
        series = run.get("grad_norm")
        assert series is not None and math.isclose(np.nanmedian(series.values), norm["median"], rel_tol=1e-3)
        assert int(series.steps[np.nanargmax(series.values)]) == norm["max_step"]
    for raw, known in (truth["nan_metrics"] or {}).items():
        series = _by_raw(run, raw)
        assert series is not None and int((~series.finite).sum()) == known["count"]
        assert int(series.steps[~series.finite][0]) == known["first_step"]


def test_restarts_of_real_files_stay_visible() -> None:
    for name, restarts in (("yolo-obb-restart-appended", 1), ("csv-resnet-restart", 1), ("mmengine-scalars", 1)):
        if (REAL / name).is_dir():
            loss = read([REAL / name]).get("loss")
            assert loss is not None and len(loss.restarts) == restarts, name


def test_reinforcement_learning_counts_environment_steps() -> None:
    folder = REAL / "rl-sb3-ppo-racer"
    if folder.is_dir():
        loss = read([folder]).get("loss")
        assert loss is not None and loss.steps[0] == 4096


def test_a_pointer_is_told(tmp_path: Path) -> None:
    folder = REAL / "tb-lfs-pointer"
    if folder.is_dir():
        with pytest.raises(PlaybookError, match="git lfs pull"):
            read([next(folder.iterdir())])
