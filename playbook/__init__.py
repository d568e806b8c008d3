"""Incident knowledge base and playbook engine for failures of deep-learning training."""

from __future__ import annotations

from typing import Any

__version__ = "0.1.0"


def __getattr__(name: str) -> Any:
    """`playbook.capture(...)` and `playbook.monitor` without an import; nothing is loaded until it is used."""
    if name in ("capture", "monitor"):
        import importlib

        return importlib.import_module(f"playbook.{name}")
    raise AttributeError(f"module 'playbook' has no attribute {name!r}")
