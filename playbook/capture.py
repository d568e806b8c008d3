"""For training code: keep what made a bad step bad, so that it can be replayed.

    import playbook.capture
    if not math.isfinite(loss.item()):
        playbook.capture("captures", step=step, batch=batch, model=model, loss=loss.item(), reason="non-finite loss")

Writes a folder of plain files (no pickle): `capture.json` (step, reason, shapes, statistics of the batch and of every
gradient, versions), `batch.npz` and `rng.json`. It never raises into the training and never writes more than `most`
captures; torch is used where it is there and needed nowhere. `playbook incident attach ID FOLDER` puts it on record;
`incidents/captured.py` reads it back and sets the generators. It imports nothing of the product.
"""

from __future__ import annotations

import base64
import functools
import json
import math
import os
import platform
import random
import shutil
import sys
import tempfile
import types
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, ParamSpec

FORMAT = 1
MOST = 3  # captures a folder: a run that stays NaN is bad at every step
LIMIT_MB = 256.0  # of the batch; beyond it only shapes and statistics are kept
PARAMETERS = 5_000  # of which gradient statistics are kept
TEXTS = 256  # strings of a batch that are kept, cut to TEXT_LENGTH characters
TEXT_LENGTH = 2_000
_PACKAGES = (
    "torch", "numpy", "transformers", "accelerate", "deepspeed", "megatron-core", "lightning", "pytorch-lightning",
    "flash-attn", "transformer-engine", "apex", "bitsandbytes", "peft", "trl", "datasets", "tokenizers", "jax",
    "triton",
)  # fmt: skip

_Given = ParamSpec("_Given")


def _harmless(write: Callable[_Given, Path | None]) -> Callable[_Given, Path | None]:
    """A fault while writing becomes a warning, never an exception in the training."""

    @functools.wraps(write)
    def guarded(*args: _Given.args, **named: _Given.kwargs) -> Path | None:
        try:
            return write(*args, **named)
        except Exception as error:
            what = f"playbook.capture: nothing kept of step {named.get('step')}: {error}"
            warnings.warn(what, RuntimeWarning, stacklevel=2)
            return None

    return guarded


@_harmless
def capture(
    folder: str | os.PathLike[str],
    *,
    step: int,
    batch: Any = None,
    loss: float | None = None,
    grad_norm: float | None = None,
    model: Any = None,
    optimizer: Any = None,
    sample_ids: Sequence[Any] | None = None,
    config: Mapping[str, Any] | None = None,
    rank: int | None = None,
    reason: str = "",
    most: int = MOST,
    limit_mb: float = LIMIT_MB,
) -> Path | None:
    """Write one capture below `folder`; its path, or None where there are `most` already or it could not be written.

    batch   tensors, arrays, numbers and strings in mappings and sequences, in any nesting
    model   anything with `named_parameters()`; gradients must not have been set to None yet
    """
    folder = Path(folder)
    if rank is None:
        rank = int(os.environ.get("RANK", "0") or 0)
    suffix = f"rank{rank}"
    target = folder / f"capture-step{int(step):09d}-{suffix}"
    folder.mkdir(parents=True, exist_ok=True)
    if target.exists() or len(list(folder.glob(f"capture-step*-{suffix}"))) >= most:
        return None
    rng = rng_state()  # first of all: nothing below may draw from it
    # After a device-side assert every look at the GPU fails: what cannot be read is told, the rest is kept.
    problems: dict[str, str] = {}

    def part(name: str, value: Any, read: Callable[[Any], Any], missing: Any = None) -> Any:
        try:
            return missing if value is None else read(value)
        except Exception as error:
            problems[name] = f"{type(error).__name__}: {error}"[:500]
            return missing

    arrays, texts = part("batch", batch, _flat, ({}, {}))
    info: dict[str, Any] = {
        "capture": FORMAT,
        "step": int(step),
        "rank": rank,
        "reason": reason,
        "loss": part("loss", loss, _number),
        "grad_norm": part("grad_norm", grad_norm, _number),
        "batch": {name: _tensor_facts(value) for name, value in arrays.items()},
        "texts": texts,
        "sample_ids": part("sample_ids", sample_ids, lambda ids: [_plain(i) for i in _listed(ids)]),
        "config": part("config", config, lambda c: _plain(dict(c))),
        "parameters": part("model", model, lambda m: list(_parameters(m)), []),
        "optimizer": part("optimizer", optimizer, _optimizer),
        "versions": versions(),
        "problems": problems,
    }
    temporary = Path(tempfile.mkdtemp(prefix=".capture-", dir=folder))
    try:
        size = sum(_nbytes(value) for value in arrays.values())
        if arrays and size <= limit_mb * 1e6:
            _save_arrays(temporary / "batch.npz", arrays)
        elif arrays:
            info["batch_left_out"] = f"{size / 1e6:.0f} MB, limit {limit_mb:g} MB"
        _write(temporary / "rng.json", rng)
        _write(temporary / "capture.json", info)
        temporary.rename(target)
    except BaseException:
        shutil.rmtree(temporary, ignore_errors=True)
        raise
    return target


def _write(path: Path, data: Any) -> None:
    with path.open("w", encoding="utf-8") as file:
        json.dump(_plain(data), file, ensure_ascii=False, indent=1, allow_nan=False)
        file.flush()
        os.fsync(file.fileno())


def _listed(values: Any) -> list[Any]:
    return values.tolist() if hasattr(values, "tolist") else list(values)


def _number(value: Any) -> Any:
    """A number or a one-element tensor as JSON; NaN and infinities as text."""
    if value is None:
        return None
    value = float(value.detach() if hasattr(value, "detach") else value)
    return value if math.isfinite(value) else repr(value)


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {str(k): _plain(v) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(v) for v in value]
    if isinstance(value, float):
        return value if math.isfinite(value) else repr(value)
    if isinstance(value, str) or value is None or isinstance(value, (bool, int)):
        return value
    if hasattr(value, "tolist"):
        return _plain(value.tolist())
    return str(value)


def _flat(batch: Any) -> tuple[dict[str, Any], dict[str, list[str]]]:
    """Nested batch -> ({name: tensor or array}, {name: strings})."""
    arrays: dict[str, Any] = {}
    texts: dict[str, list[str]] = {}

    def walk(value: Any, name: str) -> None:
        if value is None:
            return
        if isinstance(value, str):
            kept = texts.setdefault(name or "text", [])
            if len(kept) < TEXTS:
                kept.append(value[:TEXT_LENGTH])
        elif isinstance(value, Mapping) or (hasattr(value, "keys") and hasattr(value, "__getitem__")):
            for key in value.keys():  # noqa: SIM118  (a BatchEncoding is no Mapping)
                walk(value[key], f"{name}.{key}" if name else str(key))
        elif _is_tensor(value):
            arrays[name or "batch"] = value
        elif isinstance(value, (list, tuple)):
            if value and all(isinstance(v, (int, float)) for v in value):
                import numpy as np

                arrays[name or "batch"] = np.asarray(value)
            elif value and all(isinstance(v, str) for v in value):
                for v in value:
                    walk(v, name)
            else:
                for place, v in enumerate(value):
                    walk(v, f"{name}.{place}" if name else str(place))
        elif isinstance(value, (int, float)):
            import numpy as np

            arrays[name or "batch"] = np.asarray(value)

    walk(batch, "")
    return arrays, texts


def _is_tensor(value: Any) -> bool:
    return (hasattr(value, "shape") and hasattr(value, "dtype") and hasattr(value, "__array__")) or hasattr(
        value, "detach"
    )


def _array(value: Any) -> Any:
    """A tensor or array as numpy; types that numpy lacks (bf16, fp8) as float32."""
    import numpy as np

    if hasattr(value, "to_local"):  # a sharded tensor: this rank's part
        value = value.to_local()
    if hasattr(value, "detach"):
        value = value.detach().cpu()
        try:
            return value.numpy()
        except TypeError:
            return value.float().numpy()
    array = np.asarray(value)
    if array.dtype == object:
        raise TypeError("holds Python objects")
    return array


def _nbytes(value: Any) -> int:
    if hasattr(value, "nbytes"):
        return int(value.nbytes)
    return int(value.element_size() * value.nelement()) if hasattr(value, "element_size") else 0


def _save_arrays(path: Path, arrays: dict[str, Any]) -> None:
    import numpy as np

    made = {}
    for name, value in arrays.items():
        with suppress(TypeError, ValueError, RuntimeError):
            made[name.replace("/", "_")] = _array(value)
    with path.open("wb") as file:
        np.savez_compressed(file, **made)
        file.flush()
        os.fsync(file.fileno())


def _tensor_facts(value: Any) -> dict[str, Any]:
    """Shape, type, range and the share that is finite."""
    import numpy as np

    facts: dict[str, Any] = {"shape": [int(n) for n in value.shape], "dtype": str(value.dtype)}
    with suppress(TypeError, ValueError, RuntimeError):
        array = _array(value)
        if array.size and array.dtype.kind in "fiub":
            numbers = array.astype(np.float64) if array.dtype.kind == "f" else array
            finite = numbers[np.isfinite(numbers)] if array.dtype.kind == "f" else numbers
            facts["finite"] = round(finite.size / array.size, 6)
            if finite.size:
                facts |= {"min": finite.min().item(), "max": finite.max().item()}
    return facts


def _parameters(model: Any) -> Iterator[dict[str, Any]]:
    """Gradient and weight statistics, parameter by parameter; one that cannot be read is told as such."""
    import numpy as np

    for place, (name, parameter) in enumerate(model.named_parameters()):
        if place == PARAMETERS:
            return
        row: dict[str, Any] = {"name": name, "shape": [int(n) for n in parameter.shape], "dtype": str(parameter.dtype)}
        for part, value in (("weight", parameter), ("grad", getattr(parameter, "grad", None))):
            if value is None:
                continue
            try:
                array = _array(value).astype(np.float64)
                finite = np.isfinite(array)
                chosen = array[finite]
                row |= {
                    f"{part}_norm": float(np.sqrt((chosen**2).sum())),
                    f"{part}_max": float(np.abs(chosen).max()) if chosen.size else 0.0,
                    f"{part}_nonfinite": int(array.size - chosen.size),
                }
            except (TypeError, ValueError, RuntimeError) as error:
                row[f"{part}_problem"] = str(error)[:200]
        yield row


def _optimizer(optimizer: Any) -> list[dict[str, Any]]:
    """The plain numbers of each parameter group."""
    keep = (int, float, str, bool, tuple)
    return [
        {k: _plain(v) for k, v in group.items() if k != "params" and isinstance(v, keep)}
        for group in optimizer.param_groups
    ]


def versions() -> dict[str, str]:
    """Python, platform, the packages that matter here, and what torch says about the GPU."""
    from importlib.metadata import PackageNotFoundError, version

    found = {"python": platform.python_version(), "platform": f"{platform.system()} {platform.machine()}"}
    for name in _PACKAGES:
        with suppress(PackageNotFoundError):
            found[name] = version(name)
    torch: Any = sys.modules.get("torch")
    if torch is not None:
        with suppress(Exception):
            found["cuda"] = str(torch.version.cuda)
            if torch.cuda.is_available():
                found["gpu"] = torch.cuda.get_device_name(0)
                found["cudnn"] = str(torch.backends.cudnn.version())
                found["nccl"] = ".".join(str(n) for n in torch.cuda.nccl.version())
    return found


def rng_state() -> dict[str, Any]:
    """The state of every generator in use: Python, numpy, torch (CPU and each GPU)."""
    kind, state, gauss = random.getstate()
    found: dict[str, Any] = {"python": [kind, list(state), gauss]}
    numpy: Any = sys.modules.get("numpy")
    if numpy is not None:
        name, keys, place, has_gauss, cached = numpy.random.get_state()
        found["numpy"] = [name, keys.tolist(), int(place), int(has_gauss), float(cached)]
    torch: Any = sys.modules.get("torch")
    if torch is not None:
        with suppress(Exception):
            found["torch"] = _encode(torch.get_rng_state())
            if torch.cuda.is_available() and torch.cuda.is_initialized():
                found["cuda"] = [_encode(s) for s in torch.cuda.get_rng_state_all()]
    return found


def _encode(state: Any) -> str:
    return base64.b64encode(bytes(state.cpu().numpy())).decode("ascii")


class _Callable(types.ModuleType):
    """Lets `playbook.capture(...)` be called, though `playbook.capture` is this module."""

    def __call__(self, *args: Any, **named: Any) -> Path | None:
        return capture(*args, **named)


sys.modules[__name__].__class__ = _Callable
