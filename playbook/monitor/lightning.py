"""The monitor as a callback of Lightning.

    from playbook.monitor.lightning import PlaybookCallback
    Trainer(..., callbacks=[PlaybookCallback("playbook-run")])

Reads `trainer.callback_metrics` every `log_every_n_steps` steps (they are tensors: reading them waits for the GPU) and
keeps the batch of a bad step. `stop=True` ends the training when an incident began. Needs `lightning` or
`pytorch-lightning`.
"""

from __future__ import annotations

from typing import Any

try:
    from lightning.pytorch import Callback  # type: ignore[import-not-found,unused-ignore]
except ImportError:
    from pytorch_lightning import Callback  # type: ignore[import-not-found,no-redef,unused-ignore]

from playbook.monitor.core import Monitor


class PlaybookCallback(Callback):  # type: ignore[misc,unused-ignore]
    """Options are those of `Monitor`; `every` counts optimiser steps (None: the trainer's `log_every_n_steps`)."""

    def __init__(self, folder: Any = "playbook-run", *, every: int | None = None, stop: bool = False, **options: Any):
        self.monitor: Monitor | None = None
        self._folder, self._every, self._stop, self._options = folder, every, stop, options
        self._last = -1
        self._own_loss: bool | None = None  # no loss among the metrics: that of the step's outputs is taken

    def on_train_start(self, trainer: Any, module: Any) -> None:
        try:
            options = {"model": module} | self._options
            options.setdefault("rank", int(trainer.global_rank))
            parameters = getattr(module, "hparams", None) or {}
            plain = {k: v for k, v in dict(parameters).items() if isinstance(v, (int, float, str, bool))}
            options.setdefault("config", {"precision": str(trainer.precision), **plain})
            self.monitor = Monitor(self._folder, **options)
        except Exception:  # nothing of ours may stop a training
            self.monitor = None

    def on_train_batch_end(self, trainer: Any, module: Any, outputs: Any, batch: Any, index: int) -> None:
        step = int(trainer.global_step)
        every = self._every or int(trainer.log_every_n_steps)
        if self.monitor is None or step == self._last or step % max(1, every):
            return
        self._last = step
        try:
            metrics = {str(k): v for k, v in trainer.callback_metrics.items() if not str(k).endswith("_epoch")}
            if self._own_loss is None:
                self._own_loss = not any("loss" in name.lower() for name in metrics)
            if self._own_loss and outputs is not None:
                loss = outputs.get("loss") if isinstance(outputs, dict) else outputs
                metrics |= {} if loss is None else {"loss": loss}
            self.monitor.log(step, metrics, batch=batch)
            if self._stop and self.monitor.incident is not None:
                trainer.should_stop = True
        except Exception as error:
            self.monitor._fault("a step was not noted", error)

    def on_train_end(self, trainer: Any, module: Any) -> None:
        if self.monitor is not None:
            self.monitor.close()
