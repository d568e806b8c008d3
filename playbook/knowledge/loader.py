"""YAML files -> entries, with file and line of every fault. Safe YAML only; duplicate keys and ids are refused.

`load` never raises for a bad entry: it returns the entries that hold and a list of problems; the caller decides.
A pack is a folder laid out like `knowledge/`; a later pack overrides an entry of the same id whole, or extends it
where the file says `extend: true` (mappings are merged, lists appended).
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml
from pydantic import ValidationError

from playbook.errors import PlaybookError, Problem, reason
from playbook.knowledge.entries import KINDS, LAYERS, Entry

_Raw = dict[tuple[str, str], tuple[dict[str, Any], Path]]  # (kind, id) -> (data, file), before validation
_MAX_BYTES = 1_000_000  # an entry is a page of text; a pack is untrusted input
_Parser: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)  # only its events are used, nothing is constructed by it

# What a plain scalar may be besides text. YAML 1.1 reads a bare yes, no, on, off as booleans and dates as dates; in our
# files yes and no are outcomes of signals, so only these are read.
_WORDS: dict[str, Any] = {"true": True, "false": False, "null": None, "~": None, "": None}
_INT = re.compile(r"[-+]?(?:0|[1-9]\d*)")  # 00123456 may be a hash
_FLOAT = re.compile(r"[-+]?(?:(?:\d+\.\d*|\.\d+)(?:[eE][-+]?\d+)?|\d+[eE][-+]\d+)")  # 12e34567 may be a hash
_HEAVIEST = 1_000_000  # of a written weight
_DEEPEST = 40  # levels of nesting: an entry has about five


def parse_yaml(text: str, where: str) -> Any:
    """One YAML document of plain values; raises `PlaybookError` with the line.

    Safe by construction: mappings, lists, texts, numbers, booleans and null come out, whatever stands in the file.
    Aliases (a small file could blow up to gigabytes), tags, double keys and deep nesting are refused.
    """
    try:
        events = yaml.parse(text, Loader=_Parser)
        for event in events:
            if isinstance(event, yaml.DocumentStartEvent):
                return _value(events, next(events), where, 0)
        return None
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line = mark.line + 1 if mark else None
        raise PlaybookError(where, f"not valid YAML: {error.problem}", "mend the file", line) from None
    except (yaml.YAMLError, ValueError) as error:
        raise PlaybookError(where, f"not valid YAML: {str(error).splitlines()[0]}", "mend the file") from None


def _value(events: Iterator[Any], event: Any, where: str, depth: int) -> Any:
    if event.__class__ is yaml.ScalarEvent:
        if event.tag is not None:
            raise _refused(where, event, f"tags ({event.tag}) are not allowed")
        return _scalar(event.value) if event.implicit[0] else event.value
    if event.__class__ is yaml.AliasEvent:
        raise _refused(where, event, "aliases (*name) are not allowed")
    if depth > _DEEPEST:
        raise _refused(where, event, f"nested deeper than {_DEEPEST} levels")
    if event.tag is not None:
        raise _refused(where, event, f"tags ({event.tag}) are not allowed")
    if event.__class__ is yaml.SequenceStartEvent:
        items: list[Any] = []
        for item in events:
            if item.__class__ is yaml.SequenceEndEvent:
                return items
            items.append(_value(events, item, where, depth + 1))
    mapping: dict[Any, Any] = {}
    for start in events:
        if start.__class__ is yaml.MappingEndEvent:
            break
        if start.__class__ is not yaml.ScalarEvent:
            raise _refused(where, start, "a key must be a plain text")
        key = _value(events, start, where, depth + 1)
        if key in mapping:
            raise _refused(where, start, f"key {key!r} stands twice")
        mapping[key] = _value(events, next(events), where, depth + 1)
    return mapping


def _scalar(text: str) -> Any:
    """A plain (unquoted) scalar."""
    if text in _WORDS:
        return _WORDS[text]
    if text[0] in "-+.0123456789":
        if _INT.fullmatch(text):
            return int(text) if len(text) < 20 else text
        if _FLOAT.fullmatch(text):
            return float(text)
    return text


def _refused(where: str, event: Any, what: str) -> PlaybookError:
    return PlaybookError(where, f"not valid YAML: {what}", "mend the file", event.start_mark.line + 1)


@dataclass
class Book:
    """All entries by kind and id, with the file each came from.

    sources   key of `sources.yaml` -> title, url and so on; `ledger` row of a source document -> what it says
    classes   class of causes -> its title, how many published incidents, what it means
    learned   {"counts": class -> signal -> outcome -> incidents, "cases": those that were counted}
    opinions  signal -> class -> outcome -> share
    precedents  a network as `knowledge fit` writes it (`engine/precedents.py`); empty where no pack has one
    """

    entries: dict[str, dict[str, Entry]] = field(default_factory=lambda: {kind: {} for kind in KINDS})
    files: dict[tuple[str, str], Path] = field(default_factory=dict)
    problems: list[Problem] = field(default_factory=list)
    sources: dict[str, dict[str, Any]] = field(default_factory=dict)
    classes: dict[str, dict[str, Any]] = field(default_factory=dict)
    learned: dict[str, Any] = field(default_factory=dict)
    opinions: dict[str, dict[str, dict[str, float]]] = field(default_factory=dict)
    precedents: dict[str, Any] = field(default_factory=dict)
    ledger: dict[str, str] = field(default_factory=dict)
    exceptions: dict[str, dict[str, str]] = field(default_factory=dict)
    folders: list[Path] = field(default_factory=list)

    def kind(self, name: str) -> dict[str, Any]:
        return self.entries[name]

    @property
    def symptoms(self) -> dict[str, Any]:
        return self.entries["symptoms"]

    @property
    def signals(self) -> dict[str, Any]:
        return self.entries["signals"]

    @property
    def patterns(self) -> tuple[str, ...]:
        """Every pattern that a signal waits for in logs: what fits one must not be passed over by a reader."""
        return tuple(dict.fromkeys(rule.pattern for name in sorted(self.signals) for rule in self.signals[name].log))

    @property
    def causes(self) -> dict[str, Any]:
        return self.entries["causes"]

    def class_title(self, name: str) -> str:
        """What people call a class of causes; its name in words where the book has no title for it."""
        info = self.classes.get(name)
        title = info.get("title") if isinstance(info, dict) else None
        return str(title or name.replace("_", " "))

    @property
    def fixes(self) -> dict[str, Any]:
        return self.entries["fixes"]

    @property
    def cases(self) -> dict[str, Any]:
        return self.entries["cases"]


def load(folders: Iterable[Path]) -> Book:
    """Load packs in order, later over earlier. Raises `PlaybookError` only for a folder that is not there."""
    book = Book()
    raw: _Raw = {}
    for folder in folders:
        if not folder.is_dir():
            raise PlaybookError(str(folder), "no such knowledge folder", "it has symptoms/, signals/, causes/ ...")
        book.folders.append(folder)
        _load_sources(folder, book)
        _load_plain(folder / "classes.yaml", book.classes, book)
        _load_learned(folder / "learned.yaml", book)
        _load_opinions(folder, book)
        _load_precedents(folder / "precedents.json", book)
        _load_plain(folder / "ledger.yaml", book.ledger, book)
        _load_plain(folder / "exceptions.yaml", book.exceptions, book)
        for kind in KINDS:
            for path in _files(folder / kind):
                _take(path, kind, folder, raw, book)
    for (kind, entry_id), (data, path) in sorted(raw.items()):
        entry = _validate(kind, data, path, book.problems)
        if entry is not None:
            book.entries[kind][entry_id] = entry
            book.files[kind, entry_id] = path
    return book


def _files(root: Path) -> list[Path]:
    return sorted(p for p in root.rglob("*.yaml") if p.is_file() and not p.is_symlink()) if root.is_dir() else []


def _mapping(path: Path, book: Book) -> dict[str, Any]:
    """A file that is a mapping; empty (and a problem of the book) where it cannot be read."""
    try:
        data = parse_yaml(path.read_text("utf-8"), str(path))
    except (PlaybookError, UnicodeDecodeError) as error:
        book.problems.append(_problem(error, path))
        return {}
    return data if isinstance(data, dict) else {}


def _load_sources(folder: Path, book: Book) -> None:
    """`sources.yaml` and `sources/*.yaml`: key -> {title, url, ...}."""
    single = folder / "sources.yaml"
    for path in ([single] if single.is_file() else []) + _files(folder / "sources"):
        found = _mapping(path, book)
        book.sources.update({str(k): v if isinstance(v, dict) else {"title": str(v)} for k, v in found.items()})


def _load_plain(path: Path, target: dict[str, Any], book: Book) -> None:
    """A mapping of the whole pack, where it has one: `classes.yaml` (base rates), `ledger.yaml` and the like."""
    if path.is_file():
        target.update(_mapping(path, book))


def _load_learned(path: Path, book: Book) -> None:
    """Counts of packs add up, and so do the incidents that were counted; a broken file is a problem of its own."""
    found = _mapping(path, book) if path.is_file() else {}
    counts, cases = found.get("counts", {}), found.get("cases", [])
    if not isinstance(counts, dict) or not isinstance(cases, list):
        book.problems.append(
            Problem(str(path), 1, "counts or cases is missing", "written by `knowledge learn`", "learned")
        )
        return
    if not found:
        return
    total = book.learned.setdefault("counts", {})
    for name, signals in counts.items():
        for signal, states in signals.items():
            row = total.setdefault(name, {}).setdefault(signal, {})
            for state, n in states.items():
                row[state] = row.get(state, 0.0) + float(n)
    book.learned["cases"] = [*book.learned.get("cases", []), *cases]


def _load_opinions(folder: Path, book: Book) -> None:
    """Judgements of classes, signal by signal; rows go by the outcomes that the file names, a later pack replaces them.

    Written by hand they are `opinions.yaml`; what `knowledge fit` writes is `opinions.json`, which is read much faster.
    """
    path = folder / "opinions.json"
    if path.is_file():
        signals = _json(path, book)
    else:
        path = folder / "opinions.yaml"
        signals = _mapping(path, book).get("signals", {}) if path.is_file() else {}
    for name, opinion in signals.items() if isinstance(signals, dict) else ():
        rows = opinion.get("classes") if isinstance(opinion, dict) else None
        outcomes = opinion.get("outcomes") if isinstance(opinion, dict) else None
        if not isinstance(rows, dict) or not isinstance(outcomes, list):
            what = f"{name}: outcomes or classes is missing"
            line = _line_of(path, [str(name)])
            book.problems.append(Problem(str(path), line, what, "see the file of the built-in book", "opinions"))
            continue
        for class_, shares in rows.items():
            numbers = isinstance(shares, list) and all(isinstance(x, (int, float)) and x >= 0 for x in shares)
            if not numbers or len(shares) != len(outcomes) or sum(shares) <= 0:
                what = f"{name}, {class_}: not {len(outcomes)} shares of 0 or more"
                line = _line_of(path, [str(class_)])
                book.problems.append(Problem(str(path), line, what, "one number an outcome", "opinions"))
                continue
            row = dict(zip(map(str, outcomes), map(float, shares), strict=True))
            book.opinions.setdefault(str(name), {})[str(class_)] = row


def _load_precedents(path: Path, book: Book) -> None:
    """A network of one hidden layer; a later pack replaces it whole."""
    if not path.is_file():
        return
    net = _json(path, book)
    if net and not _is_network(net):
        what = "is no network of features, classes and whole weights that fit each other"
        book.problems.append(Problem(str(path), 1, what, "run `playbook knowledge fit` again", "precedents"))
    elif net:
        book.precedents = net


def _is_network(net: Any) -> bool:
    names = {"scale", "classes", "features", "hidden", "hidden_bias", "out", "out_bias"}
    if not isinstance(net, dict) or set(net) != names or type(net["scale"]) is not int or net["scale"] < 1:
        return False
    if not all(isinstance(net[name], list) and net[name] for name in names - {"scale"}):
        return False
    classes, features, units = len(net["classes"]), len(net["features"]), len(net["hidden_bias"])
    return (
        all(isinstance(name, str) for name in net["classes"])
        and all(isinstance(f, list) and len(f) == 2 and all(isinstance(x, str) for x in f) for f in net["features"])
        and len(net["hidden"]) == features
        and len(net["out"]) == units
        and all(_whole(row, units) for row in [*net["hidden"], net["hidden_bias"]])
        and all(_whole(row, classes) for row in [*net["out"], net["out_bias"]])
    )


def _whole(row: Any, length: int) -> bool:
    """A row of whole numbers that a float holds."""
    return isinstance(row, list) and len(row) == length and all(type(x) is int and abs(x) <= _HEAVIEST for x in row)


def _json(path: Path, book: Book) -> Any:
    try:
        return json.loads(path.read_text("utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        line = error.lineno if isinstance(error, json.JSONDecodeError) else None
        what = f"is no JSON: {error}"
        book.problems.append(Problem(str(path), line, what, "run `playbook knowledge fit` again", path.stem))
        return {}


def _problem(error: Exception, path: Path) -> Problem:
    if isinstance(error, PlaybookError):
        return error.problem
    return Problem(str(path), None, f"cannot be read: {reason(error)}", "save it as UTF-8", "unreadable")


def _take(path: Path, kind: str, folder: Path, raw: _Raw, book: Book) -> None:
    try:
        if path.stat().st_size > _MAX_BYTES:
            raise PlaybookError(str(path), "larger than 1 MB", "an entry is a page of text")
        data = parse_yaml(path.read_text("utf-8"), str(path))
    except (PlaybookError, UnicodeDecodeError) as error:
        book.problems.append(_problem(error, path))
        return
    if not isinstance(data, dict):
        book.problems.append(Problem(str(path), 1, "is not a mapping", "write `title: ...` and so on", "not-a-mapping"))
        return
    entry_id = path.stem
    if data.setdefault("id", entry_id) != entry_id:
        book.problems.append(
            Problem(str(path), 1, f"id {data['id']!r} is not the file name", "rename one of them", "id-differs")
        )
        return
    if kind == "causes":
        layer = path.parent.name
        if layer not in LAYERS:
            book.problems.append(
                Problem(str(path), None, f"folder {layer!r} is no layer", f"one of {', '.join(LAYERS)}", "no-layer")
            )
            return
        data["layer"] = layer
    key = (kind, entry_id)
    extend = bool(data.pop("extend", False))
    if key in raw:
        if raw[key][1].is_relative_to(folder):
            book.problems.append(
                Problem(str(path), 1, f"{kind} {entry_id!r} stands twice in one pack", f"see {raw[key][1]}", "twice")
            )
            return
        if extend:
            data = _merge(raw[key][0], data)
    raw[key] = (data, path)


def _merge(below: Any, above: Any) -> Any:
    if isinstance(below, dict) and isinstance(above, dict):
        return {**below, **{key: _merge(below[key], value) if key in below else value for key, value in above.items()}}
    if isinstance(below, list) and isinstance(above, list):
        return below + [item for item in above if item not in below]
    return above


def _expand(kind: str, data: dict[str, Any]) -> dict[str, Any]:
    """The short form of a cause's link, `{climbs: usually, because: [D3-tab-1]}`, in the long one of the schema."""
    if kind != "causes" or not isinstance(data.get("expects"), dict):
        return data
    links: dict[str, Any] = {}
    for signal, link in data["expects"].items():
        if isinstance(link, dict) and "states" not in link:
            own = {key: link[key] for key in ("because", "why") if key in link}
            link = {"states": {k: v for k, v in link.items() if k not in own}, **own}
        links[signal] = link
    return {**data, "expects": links}


def _validate(kind: str, data: dict[str, Any], path: Path, problems: list[Problem]) -> Entry | None:
    try:
        return KINDS[kind].model_validate(_expand(kind, data))
    except ValidationError as error:
        for fault in error.errors():
            place = ".".join(str(part) for part in fault["loc"]) or "entry"
            line = _line_of(path, [str(part) for part in fault["loc"]])
            problems.append(
                Problem(str(path), line, f"{place}: {fault['msg']}", "see `playbook knowledge schema`", "schema")
            )
        return None


def _line_of(path: Path, loc: list[str]) -> int | None:
    """The line of the deepest named key that the file has (text search: good enough for a message)."""
    lines = path.read_text("utf-8").splitlines()
    for name in reversed(loc):
        for number, line in enumerate(lines, 1):
            if line.strip().lstrip("- ").startswith(f"{name}:"):
                return number
    return 1
