"""What people do with a recorded incident: open one by hand, attach, try a fix, note, close with a cause, reopen.

Every act is a line of the timeline with its time; the store changes in one transaction, so two people at once lose
nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from playbook.errors import PlaybookError
from playbook.knowledge.loader import Book
from playbook.workflow.records.record import USD_PER_GPU_HOUR
from playbook.workflow.records.scenes import keep_file
from playbook.workflow.records.shelf import moment, shelf, utc
from playbook.workflow.session import did_you_mean

if TYPE_CHECKING:
    from playbook.incidents.record import Happening, Losses, Record, Treatment

OUTCOMES = ("cured", "not-cured", "unclear", "pending")
KINDS = ("log", "config", "batch", "capture", "metrics", "other")
OTHER = "other"  # a confirmed cause that the book does not have
# The seven questions of a playbook that a person may answer in own words (ledger D2-pb-1 to D2-pb-7).
QUESTIONS = ("symptom", "trigger", "root-cause", "earlier", "fix", "regression", "affected")
ATTACH_LIMIT = 100_000_000  # bytes of one attached file


@dataclass(frozen=True, slots=True)
class Closing:
    """What a person says when an incident is over. `hours` or `steps`: how much was lost; None keeps the estimate."""

    cause: str | None = None
    by: str = ""
    false_alarm: bool = False
    fixes: tuple[str, ...] = ()
    hours: float | None = None
    steps: int | None = None
    gpus: int | None = None
    step_seconds: float | None = None
    usd_per_gpu_hour: float | None = None
    answers: dict[str, str] = field(default_factory=dict)
    note: str = ""


def close(incident: str, said: Closing, book: Book, db: str | None = None, now: datetime | None = None) -> Record:
    """Close an incident with its confirmed cause (or as a false alarm). Raises `PlaybookError`."""
    if said.cause is None and not said.false_alarm:
        raise PlaybookError(incident, "needs its confirmed cause", "--cause CAUSE, --cause other, or --false-alarm")
    if said.cause is not None and said.false_alarm:
        raise PlaybookError(incident, "is either a false alarm or has a cause", "give one of the two")
    name, kind, layer = known_cause(said.cause, book) if said.cause is not None else (None, None, None)
    if name == OTHER and not said.note:
        raise PlaybookError("--cause other", "needs words", "say what it was: --note TEXT")
    treatments = [treatment(pair, book, utc(now)) for pair in said.fixes]
    for question in said.answers:
        if question not in QUESTIONS:
            raise PlaybookError(
                f"--answer {question}", "is none of the seven questions", f"one of {', '.join(QUESTIONS)}"
            )

    def edit(record: Record) -> Record:
        opened, closed = moment(record.opened_at), utc(now)
        # A clock that was set back must not close an incident before it was opened.
        ended = closed if opened is None or (moment(closed) or opened) >= opened else record.opened_at
        what = "closed as a false alarm" if said.false_alarm else f"closed: {name}"
        acts = [*(_act(f"tried {t.fix}: {t.outcome}", t.at) for t in treatments), _act(what, closed, said.by)]
        return record.model_copy(
            update={
                "status": "false-alarm" if said.false_alarm else "closed",
                "closed_at": ended,
                "cause": name,
                "cause_class": kind,
                "layer": layer,
                "confirmed_by": said.by,
                "losses": bill(record.losses, said),
                "treatments": merged(record.treatments, treatments),
                "answers": {**of_the_book(name, book), **record.answers, **said.answers},
                "notes": [*record.notes, *([said.note] if said.note else [])],
                "timeline": [*record.timeline, *acts],
            }
        )

    return _change(incident, edit, db)


def reopen(incident: str, db: str | None = None, now: datetime | None = None, note: str = "") -> Record:
    """Open a closed incident again: the cause was wrong, or it came back."""

    def edit(record: Record) -> Record:
        if record.status == "open":
            raise PlaybookError(record.id, "is open already", "close it first")
        act = _act(f"reopened{f': {note}' if note else ''} (was {record.cause or record.status})", utc(now))
        return record.model_copy(
            update={"status": "open", "closed_at": None, "cause": None, "cause_class": None, "layer": None,
                    "confirmed_by": "", "timeline": [*record.timeline, act],
                    "notes": [*record.notes, *([note] if note else [])]}
        )  # fmt: skip

    return _change(incident, edit, db)


@dataclass(frozen=True, slots=True)
class Attached:
    """What is added to an incident at once."""

    files: tuple[Path, ...] = ()
    kind: str | None = None
    links: tuple[str, ...] = ()
    fixes: tuple[str, ...] = ()
    note: str = ""


def attach(incident: str, what: Attached, book: Book, db: str | None = None, now: datetime | None = None) -> Record:
    """Add files (a folder of a capture whole), links, tried fixes, a note. Raises `PlaybookError`."""
    from playbook.incidents.record import Link

    paths = _files(what.files)
    treatments = [treatment(pair, book, utc(now)) for pair in what.fixes]
    links = [Link(url=_url(url)) for url in what.links]
    if not (paths or treatments or links or what.note):
        raise PlaybookError(incident, "nothing to attach", "name files, --link, --fix or --note")
    with shelf(db) as store:
        whole = store.resolve(incident)
        # Kept before the rows are written: an incident never refers to bytes that are not there.
        names = {a.name for a in store.get(whole).artifacts}
        refs = [keep_file(store, path, what.kind or kind_of(path), names, ATTACH_LIMIT) for path in paths]

        def edit(record: Record) -> Record:
            acts = [
                *(_act(f"attached {r.name}", utc(now)) for r in refs),
                *(_act(f"tried {t.fix}: {t.outcome}", t.at) for t in treatments),
                *([_act(what.note, utc(now), kind="note")] if what.note else []),
            ]
            return record.model_copy(
                update={
                    "artifacts": [*record.artifacts, *refs],
                    "links": [*record.links, *(x for x in links if x not in record.links)],
                    "treatments": merged(record.treatments, treatments),
                    "notes": [*record.notes, *([what.note] if what.note else [])],
                    "timeline": [*record.timeline, *acts],
                }
            )

        return store.change(whole, edit)


def known_cause(name: str, book: Book) -> tuple[str, str | None, str | None]:
    """(cause, class, layer) of a cause id or of a class of the book, or `other`."""
    if name == OTHER:
        return OTHER, None, None
    if name in book.causes:
        cause = book.causes[name]
        return name, cause.class_, cause.layer
    for cause in book.causes.values():
        if cause.class_ == name:
            return name, name, cause.layer
    raise PlaybookError(f"--cause {name}", "is no cause of the book", f"{did_you_mean(name, book.causes)} (or `other`)")


def treatment(pair: str, book: Book, at: str) -> Treatment:
    """`FIX=OUTCOME` -> a tried fix; a text with blanks is a fix in own words."""
    from playbook.incidents.record import Treatment

    fix, equals, outcome = pair.rpartition("=")
    if not equals:
        fix, outcome = pair, "pending"
    if outcome not in OUTCOMES:
        raise PlaybookError(f"--fix {pair}", f"{outcome!r} is no outcome", f"FIX=OUTCOME, one of {', '.join(OUTCOMES)}")
    fix = fix.strip()
    if fix not in book.fixes and " " not in fix:
        raise PlaybookError(f"--fix {fix}", "is no fix of the book", did_you_mean(fix, book.fixes))
    return Treatment(fix=fix, outcome=outcome, at=at)  # type: ignore[arg-type]


def merged(before: Sequence[Treatment], new: Sequence[Treatment]) -> list[Treatment]:
    """A fix that was pending and now has an outcome is one treatment, not two."""
    fresh = {t.fix for t in new}
    return [t for t in before if not (t.fix in fresh and t.outcome == "pending")] + list(new)


def bill(before: Losses, said: Closing) -> Losses:
    """GPUs x price x hours lost (ledger D3-cost-1)."""
    from playbook.incidents.record import Losses

    seconds = said.step_seconds if said.step_seconds is not None else before.step_seconds
    hours, estimated = before.hours, before.estimated
    if said.hours is not None:
        hours, estimated = said.hours, False
    elif said.steps is not None:
        if not seconds:
            raise PlaybookError(
                "--lost-steps", "the time of a step is not known", "add --step-seconds, or --lost-hours"
            )
        hours, estimated = round(said.steps * seconds / 3600, 4), False
    price = said.usd_per_gpu_hour if said.usd_per_gpu_hour is not None else before.usd_per_gpu_hour
    return Losses(
        gpus=said.gpus if said.gpus is not None else before.gpus,
        step_seconds=seconds,
        usd_per_gpu_hour=price or USD_PER_GPU_HOUR,
        hours=hours,
        estimated=estimated,
    )


def of_the_book(name: str | None, book: Book) -> dict[str, str]:
    """What the book says about the cause, kept with the incident as it read on that day."""
    cause: Any = book.causes.get(name) if name else None
    if cause is None:
        return {}
    told = {"earlier": cause.earlier, "regression": cause.regression, "affected": cause.affects_results}
    return {key: value for key, value in told.items() if value}


def kind_of(path: Path) -> str:
    """What a file probably is, by its name."""
    name, suffix = path.name.lower(), path.suffix.lower()
    if name in ("capture.json", "rng.json"):
        return "capture"
    if suffix in (".npz", ".npy", ".pt", ".safetensors"):
        return "batch" if "batch" in name else "other"
    if suffix in (".json", ".yaml", ".yml", ".toml", ".ini", ".cfg"):
        return "config"
    if suffix in (".csv", ".jsonl", ".parquet", ".tsv"):
        return "metrics"
    return "log" if suffix in (".log", ".txt", ".out", ".err") else "other"


def _files(paths: Sequence[Path]) -> list[Path]:
    found: list[Path] = []
    for path in paths:
        if path.is_dir():
            found += sorted(p for p in path.iterdir() if p.is_file() and not p.is_symlink())
        elif path.is_file():
            found.append(path)
        else:
            raise PlaybookError(str(path), "no such file", "name files or a folder to attach")
    for path in found:
        size = path.stat().st_size
        if size > ATTACH_LIMIT:
            raise PlaybookError(
                str(path), f"is too large to keep ({size / 1e6:.0f} MB)", "attach a cut, or a --link to it"
            )
    return found


def _url(url: str) -> str:
    if not url.startswith(("http://", "https://")):
        raise PlaybookError(f"--link {url}", "is no web address", "it begins with https:// or http://")
    return url


def _act(text: str, at: str, by: str = "", kind: str = "action") -> Happening:
    from playbook.incidents.record import Happening

    return Happening(kind=kind, text=text, time=at, by=by)  # type: ignore[arg-type]


def _change(incident: str, edit: Callable[[Record], Record], db: str | None) -> Record:
    with shelf(db) as store:
        return store.change(store.resolve(incident), edit)
