"""Raw metric names -> canonical ones, by the table `knowledge/metrics.yaml`.

A file may log several names that mean one metric (`loss`, `train/loss`); the one that the table lists first wins. A
name may carry the rank that logged it (`rank3/loss`, `loss_rank_3`); `rank_in` cuts it off.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache, lru_cache
from typing import Any

from playbook import places

_JOINTS = re.compile(r"[\s\-_/.:()\[\]@|,=]+")
_OWNER = r"(?:(?:global|local|dp|mpi|node)\s)?(?:rank|worker|replica|proc|process|device|gpu|host)"
_RANK_FIRST = re.compile(rf"^{_OWNER}\s?(\d{{1,6}})\s(.+)$")
_RANK_LAST = re.compile(rf"^(.+?)\s(?:{_OWNER}|r)\s?(\d{{1,6}})$")
_RANK_INSIDE = re.compile(r"^(.+?)\srank\s?(\d{1,6})\s(.+)$")
_FEW = 2  # a preferred name with fewer points than this loses against one with at least ten times as many


@dataclass(frozen=True)
class Table:
    """`metrics.yaml`, ready for look-ups. `exact` and `prefixed` give (metric, preference), lower is better."""

    exact: Mapping[str, tuple[str, int]]
    prefixes: tuple[str, ...]
    ignore: tuple[re.Pattern[str], ...]
    patterns: tuple[tuple[re.Pattern[str], str], ...]
    combine: Mapping[str, str]
    steps: Mapping[str, int]
    epochs: Mapping[str, int]
    ranks: Mapping[str, int]
    shapes: Mapping[str, str]  # name -> log or minus: how its value becomes the metric's


@lru_cache(maxsize=4096)
def plain(raw: str) -> str:
    """The form in which names are compared: lower case, one blank for every run of joints."""
    return _JOINTS.sub(" ", raw.strip().lower()).strip()


@cache
def table() -> Table:
    """The alias table of the built-in book, read once."""
    import yaml

    text = (places.knowledge() / "metrics.yaml").read_text("utf-8")
    data: dict[str, Any] = yaml.load(text, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))
    exact: dict[str, tuple[str, int]] = {}
    patterns: list[tuple[re.Pattern[str], str]] = []
    combine: dict[str, str] = {}
    shapes: dict[str, str] = {}
    prefixes = tuple(plain(prefix) + " " for prefix in data["prefixes"])
    for metric, entry in data["metrics"].items():
        names = [metric, *(str(name) for name in entry.get("names", ()))]
        for place, name in enumerate(names):
            exact.setdefault(plain(name), (metric, place))
        patterns += [(re.compile(pattern), metric) for pattern in entry.get("patterns", ())]
        combine[metric] = entry.get("combine", "first")
        shapes |= {plain(name): shape for shape in ("log_of", "minus") for name in entry.get(shape, ())}
    return Table(
        exact,
        prefixes,
        tuple(re.compile(pattern) for pattern in data["ignore"]),
        tuple(patterns),
        combine,
        _ordered(data["step"]["names"], prefixes),
        _ordered(data["step"]["epoch"], prefixes),
        _ordered(data["rank"]["names"], ()),
        shapes,
    )


def _ordered(names: list[str], prefixes: tuple[str, ...]) -> dict[str, int]:
    """name -> place; a name with a prefix stands directly behind the name itself."""
    order: dict[str, int] = {}
    for place, name in enumerate(names):
        order.setdefault(plain(name), 2 * place)
        for prefix in prefixes:
            order.setdefault(prefix + plain(name), 2 * place + 1)
    return order


@cache
def rank_in(raw: str) -> tuple[str, int | None]:
    """(name without the rank, rank or None): `rank3/loss` -> (`loss`, 3), `loss` -> (`loss`, None)."""
    name = plain(raw)
    if name in table().exact:
        return raw, None
    known = table()
    if (found := _RANK_FIRST.match(name)) and (found[2] in known.exact or "rank" in name) and not _of_device(name):
        return found[2], int(found[1])
    if (found := _RANK_LAST.match(name)) and (found[1] in known.exact or "rank" in name):
        return found[1], int(found[2])
    if found := _RANK_INSIDE.match(name):
        return f"{found[1]} {found[3]}", int(found[2])
    for pattern, _ in table().patterns:
        if "rank" in pattern.groupindex and (hit := pattern.match(name)):
            return raw, int(hit["rank"])
    return raw, None


def _of_device(name: str) -> bool:
    """True for the families that name a device and not a rank (`gpu 1 memory`): their patterns know better."""
    return name.startswith("gpu ") and any(pattern.match(name) for pattern, _ in table().patterns)


@cache
def _look_up(name: str) -> tuple[str, tuple[int, int, str]] | None:
    """(metric, preference) of a name without its rank; preference sorts: kind of match, place in the table, member."""
    known = table()
    if name in known.exact:
        metric, place = known.exact[name]
        return metric, (0, place, name)
    if any(pattern.search(name) for pattern in known.ignore) and not name.startswith(
        ("eval ", "val ", "valid ", "validation ")
    ):
        return None
    for prefix in known.prefixes:
        if name.startswith(prefix) and name[len(prefix) :] in known.exact:
            metric, place = known.exact[name[len(prefix) :]]
            return metric, (0, place, name)
    for place, (pattern, metric) in enumerate(known.patterns):
        if pattern.match(name):
            member = "".join(part.zfill(6) if part.isdecimal() else part for part in re.split(r"(\d+)", name))
            return metric, (1, place, member)
    return None


def canonical(
    raws: Iterable[str], rename: Mapping[str, str], counts: Mapping[str, int] | None = None
) -> dict[str, str]:
    """raw name -> canonical metric; one raw name a metric and rank, except for families that are combined.

    `rename` (from `--map`, raw -> canonical) goes first. `counts` is the number of points of each raw name: a preferred
    name that was logged once (a summary) does not hide the curve.
    """
    counts = counts or {}
    asked = {plain(raw): metric for raw, metric in rename.items()}
    wanted: dict[tuple[str, int | None], list[tuple[tuple[int, int, str], str]]] = {}
    for raw in sorted(set(raws)):
        base, rank = rank_in(raw)
        if raw in rename or plain(raw) in asked or plain(base) in asked:
            metric = rename.get(raw) or asked.get(plain(raw)) or asked[plain(base)]
            wanted.setdefault((metric, rank), []).append(((-1, 0, raw), raw))
        elif found := _look_up(plain(base)):
            wanted.setdefault((found[0], rank), []).append((found[1], raw))
    result: dict[str, str] = {}
    for (metric, _), candidates in wanted.items():
        candidates.sort()
        most = max((counts.get(raw, 0) for _, raw in candidates), default=0)
        full = [c for c in candidates if c[0][0] < 0 or not (counts.get(c[1], 0) < _FEW and most >= 10 * _FEW)]
        kept = full or candidates
        best = kept[0]
        result[best[1]] = metric
        if table().combine.get(metric) == "max" and best[0][0] == 1:  # a family: every member belongs to it
            result.update({raw: metric for key, raw in kept if key[:2] == best[0][:2]})
    return result


def combines(metric: str) -> bool:
    """True where a family of raw names becomes one series by the maximum of each step."""
    return table().combine.get(metric) == "max"


def shape(raw: str) -> str | None:
    """`log_of` or `minus` where the value under a raw name is not that of its metric."""
    name, known = plain(rank_in(raw)[0]), table()
    for prefix in ("", *known.prefixes):
        if name.startswith(prefix) and (found := known.shapes.get(name[len(prefix) :])):
            return found
    return None


def wanted(raw: str, rename: Mapping[str, str]) -> bool:
    """True where a raw name can become a metric, by the table or by `rename`."""
    base = plain(rank_in(raw)[0])
    if _look_up(base) is not None:
        return True
    return bool(rename) and (raw in rename or not {plain(raw), base}.isdisjoint(plain(name) for name in rename))


def step_names(raws: Iterable[str]) -> list[str]:
    """The raw names that may count steps, the preferred one first. An epoch is no step: see `epoch_name`."""
    order = table().steps
    found = [(order[plain(raw)], place, raw) for place, raw in enumerate(raws) if plain(raw) in order]
    return [raw for _, _, raw in sorted(found)]


def epoch_name(raws: Iterable[str]) -> str | None:
    """The raw name that counts epochs."""
    return _preferred(raws, table().epochs)


def rank_name(raws: Iterable[str]) -> str | None:
    """The raw name of the column or key that says whose row it is."""
    return _preferred(raws, table().ranks)


def _preferred(raws: Iterable[str], order: Mapping[str, int]) -> str | None:
    found = [(order[plain(raw)], place, raw) for place, raw in enumerate(raws) if plain(raw) in order]
    return min(found)[2] if found else None
