"""The table of formats, and `read`: paths -> one Run. Exactly one reader claims a file.

`read(paths, rename=None, step=None, progress=None, patterns=()) -> Run`; a path is a file, a folder, a glob or `-` for
standard input; raises `PlaybookError` for a path that is not there, an empty file or a format that nobody claims.
Inside a folder such files are stepped over and told as problems, as long as something was read.
"""

from __future__ import annotations

import difflib
import importlib
import sys
from collections.abc import Callable, Iterable, Mapping
from functools import cache
from pathlib import Path
from typing import cast

from playbook.errors import PlaybookError, Problem
from playbook.readers import merge, pages, refuse, walk
from playbook.readers.base import CERTAIN, Reader, RunBuilder
from playbook.readers.names import plain, rank_in, table
from playbook.readers.source import Source, spool_stdin
from playbook.series import FileReport, Run

# One line a format: the module, by its room. They are imported on first use and must be quick to import.
TABLE: tuple[str, ...] = (
    "documents.trainer_state",
    "stores.tensorboard",
    "stores.wandb_binary",
    "stores.parquet",
    "stores.sqlite_store",
    "documents.json_lines",
    "tables.csv_table",
    "documents.wrapped_log",
    "documents.catboost",
    "documents.json_document",
    "stores.mlflow",
    "settings.run_config",
    "settings.job_script",
    "settings.python_config",
    "logs.megatron",
    "logs.hf_print",
    "logs.fairseq",
    "logs.torchtitan",
    "logs.litgpt",
    "logs.olmo",
    "logs.mm_text",
    "logs.lightning_bar",
    "logs.deepspeed",
    "logs.nanogpt",
    "machine.kernel_log",
    "machine.nvidia_smi_q",
    "machine.nvidia_smi",
    "machine.dcgm",
    "machine.ethtool",
    "machine.infiniband",
    "machine.fabric_manager",
    "logs.nccl_log",
    "logs.text_log",
)

# Formats of the machine's own files: they have no loss, and silence in them is good news.
SYSTEM = frozenset(
    {"kernel_log", "nvidia_smi_q", "nvidia_smi", "dcgm", "ethtool", "infiniband", "fabric_manager", "nccl_log"}
)

# Formats of lines, in which a NUL is damage.
TEXTS = frozenset(place.rpartition(".")[2] for place in TABLE if place.startswith("logs.")) | {
    "csv",
    "jsonl",
    "wrapped_log",
}

Progress = Callable[[str], None]  # called with the name of each file before it is read


@cache
def _module(name: str) -> Reader:
    return cast(Reader, importlib.import_module(f"playbook.readers.{name}"))


def readers() -> tuple[Reader, ...]:
    """The reader modules of the table, in its order."""
    return tuple(_module(name) for name in TABLE)


def named(name: str) -> Reader:
    """The reader module of this name, whatever its room. Raises `KeyError` where the table has none."""
    return _module({place.rpartition(".")[2]: place for place in TABLE}[name])


def claim(head: bytes, path: Path, likely: Reader | None = None) -> Reader | None:
    """The reader with the highest score for this content (the first of the table among equals), None if all say 0.

    A score of `CERTAIN` ends the search: the readers below are then not even imported. `likely` is asked first: a
    thousand files of ranks have one format, and only one reader may be certain of a content.
    """
    if likely is not None and likely.sniff(head, path) >= CERTAIN:
        return likely
    best, owner = 0, None
    for name in TABLE:
        score = _module(name).sniff(head, path)
        if score > best:
            best, owner = score, _module(name)
        if best >= CERTAIN:
            break
    return owner


def read(
    paths: str | Path | Iterable[str | Path],
    rename: Mapping[str, str] | None = None,
    step: str | None = None,
    progress: Progress | None = None,
    patterns: tuple[str, ...] = (),
) -> Run:
    """Read everything that one training job left in `paths` into one Run.

    `rename` maps raw names to canonical ones (`--map loss=my_col` is {"my_col": "loss"}); `step` names the step column
    (a `rename` to `step` does the same). `patterns` are regular expressions that somebody waits for in logs: a line
    that fits one becomes an event.
    """
    pages.keep()
    names = {raw: _metric(metric, raw) for raw, metric in (rename or {}).items() if metric != "step"}
    step = step or next((raw for raw, metric in (rename or {}).items() if metric == "step"), None)
    given = [paths] if isinstance(paths, (str, Path)) else list(paths)
    found = walk.files(given)
    builders: list[tuple[walk.Found, RunBuilder, Reader]] = []
    reports: list[FileReport] = []
    stopped: PlaybookError | None = None
    together: dict[int, RunBuilder] = {}  # tables under one header are read many at a time
    looked = 0  # files up to here were looked at for that
    for place, item in enumerate(found):
        if progress:
            progress(item.name)
        if place in together:
            builders.append((item, together.pop(place), builders[-1][2]))
            continue
        try:
            reader, builder = read_one(item, names, step, builders[-1][2] if builders else None, patterns)
        except PlaybookError as error:
            if not item.inside:
                raise
            stopped = stopped or error
            reports.append(FileReport(item.name, "unknown", 0, (error.problem,)))
            continue
        builders.append((item, builder, reader))
        if place >= looked and place + 1 < len(found):
            count, together = _alike(found[place + 1 :], item, builder, reader)
            together = {place + 1 + index: one for index, one in together.items()}
            looked = place + 1 + count
    if not builders:
        if stopped is not None and len(reports) == 1:
            raise stopped
        raise PlaybookError(
            ", ".join(str(path) for path in given) or "(no path)",
            "no metric file, log or configuration here that can be read" + (f"; for one, {stopped}" if stopped else ""),
            "name a metrics file or a log",
        )
    _all_found(names, [builder for _, builder, _ in builders])
    return merge.merged(builders, reports)


def _alike(
    items: list[walk.Found], before: walk.Found, builder: RunBuilder, reader: Reader
) -> tuple[int, dict[int, RunBuilder]]:
    """(how many of `items` were looked at, builders of those that hold a table as `before` does, by their place)."""
    if reader.NAME != "csv" or before.name == "-":
        return 0, {}
    from playbook.readers.tables import csv_many

    like = csv_many.pattern(before, builder)
    return (0, {}) if like is None else csv_many.read(items, like, builder.rename, builder.step_column)


def _metric(name: str, raw: str) -> str:
    """The canonical metric that a `--map` means. Raises `PlaybookError` for a name that nothing looks at."""
    known = table()
    if hit := known.exact.get(plain(name)):
        return hit[0]
    near = difflib.get_close_matches(name, known.combine, n=3) or ["loss", "grad_norm", "lr", "eval_loss"]
    raise PlaybookError(f"--map {name}={raw}", f"`{name}` is no metric", f"for example {', '.join(near)}")


def _all_found(names: Mapping[str, str], builders: list[RunBuilder]) -> None:
    """Raise `PlaybookError` where a column that `--map` names is in no file: it would be left out without a word."""
    if not names:
        return
    raws = {plain(form) for builder in builders for raw in builder.raws() for form in (raw, rank_in(raw)[0])}
    for raw, metric in names.items():
        if plain(raw) not in raws:
            near = difflib.get_close_matches(plain(raw), sorted(raws), n=3)
            hint = f"did you mean {', '.join(near)}?" if near else "see `playbook ingest` for the names in the files"
            raise PlaybookError(f"--map {metric}={raw}", f"no file has a column or name `{raw}`", hint)


def read_one(
    item: walk.Found,
    names: Mapping[str, str],
    step: str | None,
    likely: Reader | None = None,
    patterns: tuple[str, ...] = (),
) -> tuple[Reader, RunBuilder]:
    """Read one file; `likely` is the reader of the file before, `patterns` as in `read`."""
    spooled = spool_stdin(sys.stdin.buffer) if item.name == "-" else None
    try:
        source = Source(spooled or item.path, item.name)
        head = source.head()
        refuse.unusable(source, head)
        source.refuse_bomb()
        reader = claim(head, source.inner, likely)
        if reader is None:
            raise refuse.unknown(source, head)
        builder = RunBuilder(item.name, reader.NAME, item.rank, names, step, patterns)
        try:
            reader.read(source, builder)
        except OSError as error:
            raise PlaybookError(
                item.name, f"cannot be read: {error.strerror or error}", "check the disk and the file"
            ) from None
        if source.nuls and reader.NAME in TEXTS:
            nuls = f"{sum(source.nuls)} NUL bytes"
            what = f"{nuls}, as a crash or a full disk leaves them, are passed over; rows may be lost"
            builder.problem(None, what, "", "nul")
        builder.problems += [
            Problem(item.name, None, note, "unpack it again from the original") for note in source.damage
        ]
        return reader, builder
    finally:
        if spooled is not None:
            spooled.unlink(missing_ok=True)
