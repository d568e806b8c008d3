"""The monitor as a callback of the Transformers Trainer (and of trainers made from it, such as TRL's).

    from playbook.monitor.hf import PlaybookCallback
    Trainer(..., callbacks=[PlaybookCallback("playbook-run")])

Reads what the Trainer logs (every `logging_steps`) and keeps the last batch of a bad step (the Trainer hands it to no
callback: it is noted as it goes into the model; the gradients are gone by then). Only the main process looks.
`stop=True` ends the training when an incident began. Needs `transformers`.
"""

from __future__ import annotations

from contextlib import suppress
from typing import Any

from transformers import TrainerCallback  # type: ignore[import-not-found,unused-ignore]

from playbook.monitor.core import Monitor

_SUMMARY = ("train_runtime", "train_samples_per_second", "train_steps_per_second", "total_flos", "train_loss")


class PlaybookCallback(TrainerCallback):  # type: ignore[misc,unused-ignore]
    """Options are those of `Monitor`."""

    def __init__(self, folder: Any = "playbook-run", *, stop: bool = False, **options: Any) -> None:
        self.monitor: Monitor | None = None
        self._folder, self._stop, self._options = folder, stop, options
        self._batch: Any = None  # what went into the model last
        self._hook: Any = None

    def on_train_begin(self, args: Any, state: Any, control: Any, model: Any = None, **kwargs: Any) -> None:
        try:
            options = {"model": model, "optimizer": kwargs.get("optimizer")} | self._options
            options.setdefault("rank", 0 if state.is_world_process_zero else int(getattr(args, "process_index", 1)))
            options.setdefault("config", _config(args, model))
            self.monitor = Monitor(self._folder, **options)
        except Exception:  # nothing of ours may stop a training
            self.monitor = None
            return
        with suppress(Exception):  # a compiled graph would be cut by the hook
            if not getattr(args, "torch_compile", False):
                self._hook = model.register_forward_pre_hook(self._note, with_kwargs=True)

    def _note(self, module: Any, positional: Any, named: Any) -> None:
        if module.training:
            self._batch = named or positional

    def on_log(self, args: Any, state: Any, control: Any, logs: Any = None, **kwargs: Any) -> None:
        if self.monitor is None or not logs:
            return
        if "train_runtime" in logs:
            logs = {name: value for name, value in logs.items() if name not in _SUMMARY}
        if logs.keys() <= {"epoch"}:
            return
        self.monitor.log(state.global_step, logs, batch=self._batch)
        if self._stop and self.monitor.incident is not None:
            control.should_training_stop = True

    def on_train_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        with suppress(Exception):
            if self._hook is not None:
                self._hook.remove()
        self._hook = self._batch = None
        if self.monitor is not None:
            self.monitor.close()


def _config(args: Any, model: Any) -> dict[str, Any]:
    """The training arguments and the size of the vocabulary, as plain values."""
    found = args.to_dict() if hasattr(args, "to_dict") else dict(vars(args))
    vocabulary = getattr(getattr(model, "config", None), "vocab_size", None)
    plain = {k: v for k, v in found.items() if isinstance(v, (int, float, str, bool))}
    return plain | ({"vocab_size": vocabulary} if isinstance(vocabulary, int) else {})
