"""Small sound configurations in the dialects that trainings are started with: dialect -> (file name, text).

They lie in `samples/configurations/DIALECT/`, one file each, written in the manner of what is published; those that a
reader of programs or scripts is tried with as well lie once, in `samples/formats/`.
"""

from __future__ import annotations

from pathlib import Path

_SAMPLES = Path(__file__).parent / "samples"
_OF_READERS = {
    "megatron": "script/pretrain.sh",
    "mmengine": "python/faster_rcnn.py",
    "nanogpt": "python/train_gpt2.py",
    "slurm": "script/job.slurm",
    "verl": "script/grpo.sh",
}
_PATHS = {path.parent.name: path for path in (_SAMPLES / "configurations").glob("*/*")} | {
    dialect: _SAMPLES / "formats" / name for dialect, name in _OF_READERS.items()
}
SOUND: dict[str, tuple[str, str]] = {
    dialect: (path.name, path.read_text("utf-8")) for dialect, path in sorted(_PATHS.items())
}
