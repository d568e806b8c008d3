"""The folder as rows to pick from: folders first, then what looks like metrics or a log."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

MOST = 500  # rows of one folder
_LIKELY = (
    ".csv", ".tsv", ".jsonl", ".ndjson", ".json", ".log", ".txt", ".out", ".err", ".parquet", ".yaml", ".yml", ".wandb",
    ".db", ".gz", ".zst",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Row:
    """path absolute; `folder` says that choosing it opens it."""

    path: str
    name: str
    folder: bool
    size: int = 0


def listing(folder: Path, everything: bool = False) -> tuple[list[Row], str]:
    """(rows, what is wrong). The way up comes first."""
    rows: list[Row] = []
    try:
        with os.scandir(folder) as found:
            for item in found:
                if item.name.startswith("."):
                    continue
                try:
                    is_folder = item.is_dir()
                    if is_folder or everything or _likely(item.name):
                        size = 0 if is_folder else item.stat().st_size
                        rows.append(Row(item.path, item.name, is_folder, size))
                except OSError:
                    continue
                if len(rows) >= MOST:
                    break
    except OSError as error:
        return [Row(str(folder.parent), "..", True)], str(error.strerror or error)
    rows.sort(key=lambda r: (not r.folder, r.name.lower()))
    up = [Row(str(folder.parent), "..", True)] if folder.parent != folder else []
    return up + rows, ""


def _likely(name: str) -> bool:
    low = name.lower()
    return low.endswith(_LIKELY) or "tfevents" in low


def size(count: int) -> str:
    """Bytes for people."""
    amount = float(count)
    for unit in ("B", "kB", "MB", "GB"):
        if amount < 1000 or unit == "GB":
            return f"{amount:.0f} {unit}" if amount >= 10 or unit == "B" else f"{amount:.1f} {unit}"
        amount /= 1000
    return f"{amount:.0f} GB"


def complete(text: str) -> str | None:
    """The rest of a path where only one thing fits, for the input's suggestion."""
    if not text:
        return None
    head, tail = os.path.split(os.path.expanduser(text))  # noqa: PTH111
    try:
        names = sorted(n for n in os.listdir(head or ".") if n.startswith(tail) and n != tail)[:2]  # noqa: PTH208
    except OSError:
        return None
    if not names:
        return None
    rest = names[0][len(tail) :]
    path = Path(head or ".") / names[0]
    return text + rest + ("/" if path.is_dir() else "")
