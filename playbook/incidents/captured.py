"""Captures of training code (`playbook.capture`) read back: facts, arrays, generators. Runs nothing that files hold."""

from __future__ import annotations

import base64
import json
import os
import random
import sys
import zipfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from playbook.errors import PlaybookError, reason

FORMAT = 1  # as written by `playbook/capture.py`


@dataclass(frozen=True)
class Captured:
    """A capture as read back: the facts, the arrays of the batch, the generators."""

    info: dict[str, Any]
    batch: dict[str, Any] = field(default_factory=dict)
    rng: dict[str, Any] = field(default_factory=dict)


def read(folder: str | os.PathLike[str]) -> Captured:
    """Read a capture. Raises `PlaybookError` where it is none or damaged; runs nothing that the files hold."""
    root = Path(folder)
    info = _read_json(root / "capture.json")
    if info.get("capture") != FORMAT:
        raise PlaybookError(str(root / "capture.json"), "is no capture that this playbook reads", f"capture: {FORMAT}")
    batch = read_batch(root / "batch.npz") if (root / "batch.npz").is_file() else {}
    rng = _read_json(root / "rng.json") if (root / "rng.json").is_file() else {}
    return Captured(info, batch, rng)


def read_batch(path: Path) -> dict[str, Any]:
    """The arrays of a `batch.npz`, without pickle."""
    import numpy as np

    try:
        with np.load(path, allow_pickle=False) as file:
            return {name: file[name] for name in file.files}
    except (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile) as error:
        raise PlaybookError(
            str(path), f"is no batch of a capture: {str(error).splitlines()[0]}", "capture it anew"
        ) from None


def _read_json(path: Path) -> dict[str, Any]:
    try:
        data = json.loads(path.read_text("utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise PlaybookError(str(path), f"cannot be read: {reason(error)}", "name the folder of a capture") from None
    if not isinstance(data, dict):
        raise PlaybookError(str(path), "is no capture", "name the folder of a capture")
    return data


def restore_rng(captured: Captured) -> list[str]:
    """Set the generators to where they were; the names of those that were set."""
    done, state = [], captured.rng
    if "python" in state:
        kind, keys, gauss = state["python"]
        random.setstate((kind, tuple(keys), gauss))
        done.append("python")
    if "numpy" in state:
        import numpy as np

        name, keys, place, has_gauss, cached = state["numpy"]
        np.random.set_state((name, np.array(keys, dtype=np.uint32), place, has_gauss, cached))
        done.append("numpy")
    torch: Any = sys.modules.get("torch")
    if torch is not None and "torch" in state:
        torch.set_rng_state(torch.tensor(list(base64.b64decode(state["torch"])), dtype=torch.uint8))
        done.append("torch")
        if "cuda" in state and torch.cuda.is_available():
            torch.cuda.set_rng_state_all(
                [torch.tensor(list(base64.b64decode(s)), dtype=torch.uint8) for s in state["cuda"]]
            )
            done.append("cuda")
    return done
