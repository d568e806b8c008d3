"""The callbacks in real trainings of the real libraries, where these are installed (transformers, lightning).

A tiny model of ours is trained on made-up tokens; a weight is set to NaN at a known step.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")
STEPS, BAD = 120, 80


@pytest.mark.parametrize(("at", "stop"), [(None, False), (BAD, False), (BAD, True)])
def test_the_transformers_trainer(at: int | None, stop: bool, tmp_path: Path) -> None:
    transformers = pytest.importorskip("transformers")
    pytest.importorskip("accelerate")
    from playbook.monitor.hf import PlaybookCallback

    class Poison(transformers.TrainerCallback):  # type: ignore[misc]
        def on_step_begin(self, args: Any, state: Any, control: Any, model: Any = None, **_: Any) -> None:
            if state.global_step == at:
                model.transformer.h[0].mlp.c_fc.weight.data[0, 0] = float("nan")

    told: list[dict[str, Any]] = []
    config = transformers.GPT2Config(
        vocab_size=64, n_positions=16, n_embd=16, n_layer=1, n_head=2, bos_token_id=0, eos_token_id=0
    )
    rows = [{"input_ids": (x := (torch.arange(16) * 3 + i) % 64), "labels": x} for i in range(STEPS * 4)]
    callback = PlaybookCallback(tmp_path / "run", stop=stop, on_incident=told.append)
    arguments = transformers.TrainingArguments(
        output_dir=str(tmp_path / "out"), max_steps=STEPS, learning_rate=1e-2,
        per_device_train_batch_size=4, logging_steps=1,
        report_to=[], use_cpu=True, save_strategy="no", disable_tqdm=True, logging_nan_inf_filter=False,
    )  # fmt: skip
    trainer = transformers.Trainer(
        model=transformers.GPT2LMHeadModel(config), args=arguments, train_dataset=rows,
        callbacks=[callback, Poison()],
    )  # fmt: skip
    trainer.train()
    _judge(callback.monitor, told, tmp_path / "run", at, "input_ids", (4, 16))
    assert not trainer.model._forward_pre_hooks


@pytest.mark.parametrize(("at", "logs"), [(None, True), (BAD, True), (BAD, False)])
def test_lightning(at: int | None, logs: bool, tmp_path: Path) -> None:
    lightning = pytest.importorskip("lightning.pytorch")
    from playbook.monitor.lightning import PlaybookCallback

    class Net(lightning.LightningModule):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.layer = torch.nn.Linear(8, 1)

        def training_step(self, batch: Any, index: int) -> Any:
            if self.global_step == at:
                self.layer.weight.data[0, 0] = float("nan")
            loss = ((self.layer(batch[0]) - batch[1]) ** 2).mean() + 2
            if logs:
                self.log("train_loss", loss, on_step=True, on_epoch=True)
            return loss

        def configure_optimizers(self) -> Any:
            return torch.optim.AdamW(self.parameters(), 1e-2)

    told: list[dict[str, Any]] = []
    torch.manual_seed(0)
    x = torch.randn(STEPS * 4, 8)
    loader = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(x, x.sum(1, keepdim=True)), batch_size=4)
    callback = PlaybookCallback(tmp_path / "run", every=1, on_incident=told.append)
    trainer = lightning.Trainer(
        max_steps=STEPS, callbacks=[callback], logger=False, enable_checkpointing=False, enable_progress_bar=False,
        enable_model_summary=False, accelerator="cpu",
    )  # fmt: skip
    trainer.fit(Net(), loader)
    _judge(callback.monitor, told, tmp_path / "run", at, "0", (4, 8))


def _judge(
    monitor: Any, told: list[dict[str, Any]], folder: Path, at: int | None, name: str, shape: tuple[int, ...]
) -> None:
    written = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    assert [row["step"] for row in written] == list(range(1, len(written) + 1))
    if at is None:
        assert not told and not monitor.captures and len(written) == STEPS
        return
    assert [(a["symptom"]["id"], a["symptom"]["onset_step"]) for a in told] == [("instant-nan", at + 1)]
    assert len(monitor.captures) == 3 and f"{at + 1}-" in monitor.captures[0].name
    batch = np.load(monitor.captures[0] / "batch.npz")
    assert batch[next(k for k in batch.files if name in k)].shape == shape
