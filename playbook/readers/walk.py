"""Paths -> the files to read, in a fixed order, with the rank that a name carries.

Folders are walked whole: hidden files, version control, weights and pictures are left out, links that lead in circles,
FIFOs and devices are never opened. Parts of one log sort as people count (`log.2` before `log.10`).
"""

from __future__ import annotations

import glob
import os
import re
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

from playbook.errors import PlaybookError

_MAX_FILES = 20_000  # in one folder; a run leaves hundreds
_HIDDEN_KEPT = {".hydra"}  # Hydra leaves the configuration of a run there
_SKIP_FOLDERS = {"__pycache__", "node_modules", "site-packages", "media", "artifacts", "files_tmp"}
_SOURCES = "py|pyc|so|o|a|c|h|cpp|cu|cuh|rs|go|js|css|ipynb|lock|exe|dll|woff|woff2|ttf"
_PICTURES = "png|jpg|jpeg|gif|webp|svg|bmp|pdf|mp4|wav|flac|mp3"
_WEIGHTS = "pt|pth|bin|safetensors|ckpt|npz|npy|pkl|pickle|onnx|gguf|h5|hdf5|msgpack|pb|model|tflite|distcp|arrow"
_ARCHIVES = "zip|tar|tgz|7z|whl|jar|bz2|xz"
# Files that lie beside a run and say nothing about it: tokenizers, model cards, the trackers' own logs.
_BESIDE = re.compile(
    r"^(?:readme\.md|changelog\.md|licen[cs]e(?:\.\w+)?|requirements\.txt|conda-environment\.yaml|merges\.txt|vocab\.(?:txt|json)"
    r"|tokenizer(?:_config)?\.json|special_tokens_map\.json|added_tokens\.json|generation_config\.json|preprocessor_config\.json"
    r"|.+\.index\.json|debug(?:-internal|-core|-cli\..*)?\.log|latest|chat_template\.\w+)$",
    re.IGNORECASE,
)
_SKIP_FILE = re.compile(rf"\.(?:{_SOURCES}|{_PICTURES}|{_WEIGHTS}|{_ARCHIVES})$", re.IGNORECASE)
_RANK = re.compile(
    r"(?:^|[._\-])(?:(?:global|dp)[._\-]?)?(?:rank|worker|proc|process)[._\-=]?(\d{1,6})(?=$|[._\-])", re.IGNORECASE
)
_ATTEMPT = re.compile(r"^attempt_\d+$")  # torchrun --log-dir: <id>/attempt_0/<local rank>/stdout.log
_LAST_NUMBER = re.compile(r"^(.*?[._\-])(\d{1,6})((?:\.[A-Za-z]\w*)*)$")


@dataclass(frozen=True, slots=True)
class Found:
    """A file to read. `name` is for messages; a fault `inside` a folder or glob is no error; `rank` as named."""

    path: Path
    name: str
    inside: bool
    rank: int | None = None


def files(given: Iterable[str | Path]) -> list[Found]:
    """The files of all paths, each once. Raises `PlaybookError` for a path that is not there or cannot be read."""
    result: dict[str, Found] = {}
    for path in given:
        for found in _expand(str(path)):
            key = found.name if found.name == "-" else os.path.realpath(found.path)
            known = result.get(key)
            if known is None or (known.inside and not found.inside):
                result[key] = found
    return list(result.values())


def natural(text: str) -> list[tuple[int, str]]:
    """A sorting key that counts: `log.2` before `log.10`."""
    return [(int(part) if part.isdecimal() else -1, part) for part in re.split(r"(\d+)", text)]


def numbered(name: str) -> tuple[str, int] | None:
    """(name with a hole, number) of `train.3.csv`; None for a name without a number of its own."""
    hit = _LAST_NUMBER.match(Path(name).name)
    return (str(Path(name).parent / f"{hit[1]}#{hit[3]}"), int(hit[2])) if hit else None


def rank_of(path: Path, top: Path | None = None) -> int | None:
    """The rank in a name or in the folders below `top`: `rank0.jsonl`, `rank3/train.csv`, `attempt_0/3/stdout.log`."""
    parts = path.relative_to(top).parts if top is not None and path.is_relative_to(top) else path.parts[-2:]
    for part in reversed(parts):
        if hit := _RANK.search(part):
            return int(hit[1])
    for before, part in pairwise(parts):
        if _ATTEMPT.match(before) and part.isdecimal():
            return int(part)
    return None


def _expand(text: str) -> list[Found]:
    if text == "-":
        return [Found(Path("-"), "-", False)]
    if not text.strip():
        raise PlaybookError("(no path)", "the path is empty", "name a file or folder; `.` is the folder you are in")
    if "\0" in text:
        raise PlaybookError(text.replace("\0", "\\0"), "no such file or folder", "check the path")
    path = Path(text)
    try:
        if path.is_dir():
            return _folder(path)
        if path.is_file():
            return [Found(path, text, False, rank_of(path))]
        exists = path.exists()
    except OSError as error:
        raise PlaybookError(text, f"cannot be opened: {error.strerror or error}", "check the path") from None
    if exists:
        raise PlaybookError(text, "is a device, a pipe or a socket, not a file", "pipe it in and name `-`")
    if path.is_symlink():
        raise PlaybookError(text, "is a link to something that is not there", "check the link")
    if any(sign in text for sign in "*?["):
        hits = sorted(glob.glob(text, recursive=True), key=natural)  # noqa: PTH207 - absolute patterns
        found = [
            item for hit in hits for item in (_folder(Path(hit)) if Path(hit).is_dir() else _in_glob(Path(hit), text))
        ]
        if found:
            return found
        raise PlaybookError(text, "no file matches", "check the pattern, or quote it less")
    raise PlaybookError(text, "no such file or folder", "check the path")


def _in_glob(path: Path, pattern: str) -> list[Found]:
    root = Path(re.split(r"[*?\[]", pattern, maxsplit=1)[0])
    top = root if root.is_dir() else root.parent
    return [Found(path, str(path), True, rank_of(path, top))] if path.is_file() else []


def _folder(top: Path) -> list[Found]:
    found: list[Found] = []
    seen: set[tuple[int, int]] = set()

    def enter(folder: Path) -> None:
        try:
            status = folder.stat()
            entries = sorted(os.scandir(folder), key=lambda entry: natural(entry.name))
        except OSError as error:
            if folder == top:
                raise PlaybookError(
                    str(top), f"cannot be opened: {error.strerror or error}", "check its permissions"
                ) from None
            return
        if (status.st_dev, status.st_ino) in seen:
            return  # a link that leads back
        seen.add((status.st_dev, status.st_ino))
        for entry in entries:
            if (entry.name.startswith(".") and entry.name not in _HIDDEN_KEPT) or len(found) >= _MAX_FILES:
                continue
            path = Path(entry.path)
            try:
                if entry.is_dir():
                    if entry.name not in _SKIP_FOLDERS:
                        enter(path)
                elif folder.name == ".hydra" and entry.name != "config.yaml":
                    continue  # Hydra's settings of itself
                elif entry.is_file() and not (_SKIP_FILE.search(entry.name) or _BESIDE.match(entry.name)):
                    found.append(Found(path, str(path), True, rank_of(path, top)))
            except OSError:
                continue

    enter(top)
    if not found:
        raise PlaybookError(
            str(top), "holds no file that could be a log or a metrics file", "name the folder of the run"
        )
    return found
