"""For training code: look at the run while it trains, say when an incident begins, keep the bad batch.

    from playbook.monitor import Monitor
    monitor = Monitor("playbook-run", model=model, config=vars(args))
    for step, batch in enumerate(loader):
        ...
        monitor.log(step, loss=loss, grad_norm=norm, lr=lr, batch=batch)   # plain numbers, before zero_grad

It writes `metrics.jsonl` (for `playbook watch` and `playbook diagnose`) and captures of bad steps into the folder,
tells an incident once (log, `on_incident`, program, web hook), and never raises into the training. Numbers are only
noted in the training's thread; another thread looks at them, for at most a three-hundredth of the time. For the loops
of Transformers and Lightning there are `playbook.monitor.hf.PlaybookCallback` and
`playbook.monitor.lightning.PlaybookCallback`.
"""

from __future__ import annotations

from playbook.monitor.core import Monitor

__all__ = ["Monitor"]
