"""What the ranks of a hung job say about the collective that they wait in, laid side by side.

What it sees
    The sequence number, operation and size in the watchdog's line of each rank, the last work that a rank has enqueued,
    and reports that name ranks (desynchronisation, monitored barrier, flight recorder). `mismatch`: ranks of one group
    wait in different collectives, or one never joined; `together`: every rank of the job waits in the same one;
    `one-behind`, `some-behind`: who has not come along.
Why it matters
    That a collective timed out says that ranks waited, not why. A rank that is elsewhere is a decision, a count of
    batches or an exception of its own; all in one place point at a link, a GPU or the library (D0-com-3, D4-case-2).
Blind when
    The lines of fewer than two ranks were kept, or no line names a collective.
Easily mistaken for
    Different groups, each with its own count: numbers are compared within a group, and with caution where no line names
    it. Exchanges whose sizes may differ. A rank that crashed by itself and is missing for that reason.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from playbook.detectors.shared import Shared, answer, blind
from playbook.findings import Finding, Scan
from playbook.series import Event

NAME = "collectives"
NEEDS = ()
OPTIONAL = ()
KINDS = ("mismatch", "together", "one-behind", "some-behind")

_WORK = re.compile(r"WorkNCCL\(SeqNum=(\d{1,18}), OpType=(\w+)(?:, NumelIn=(\d{1,18}))?")
_GROUP = re.compile(r"\[PG (?:ID )?(\d+)(?: PG GUID ([^\s(\]]+))? ?(?:\((\w+)\))? Rank (\d{1,6})\]")
_AT = re.compile(r"(?:watchdog at work(?: sequence id)?:?|Timeout at NCCL work:) (\d{1,18})")
_LAST = re.compile(r"[Ll]ast enqueued (?:NCCL )?work: (-?\d{1,18}), last completed (?:NCCL )?work: -?\d{1,18}")
_RANK = re.compile(r"\[Rank (\d{1,6})\]")
_NAMED = re.compile(
    r"\[(?P<a>[\d, ]{1,400})\] (?:finished collective #\d+, but didn't join|never joined)"
    r"|ranks \[(?P<b>[\d, ]{1,400})\] are the lagging ranks"
    r"|Ranks? (?P<c>\d[\d, ]{0,400}) failed to pass monitoredBarrier"
    r"|[Mm]issing ranks(?: are|:) \{(?P<d>[\d, ]{1,400})\}"
)
# Operations of which every rank of the group gives the same number of elements.
_EVEN = frozenset(
    ("ALLREDUCE", "BROADCAST", "_BROADCAST_OOP", "REDUCE", "_ALLGATHER_BASE", "_REDUCE_SCATTER_BASE", "BARRIER")
)
_PAIRED = frozenset(("SEND", "RECV", "COALESCED", "UNKNOWN"))  # of two ranks, or of many operations at once
_DEFAULT = "0"  # the first group that a job makes
_OWN_CRASHES = ("oom", "killed", "segfault", "cuda-error", "traceback", "xid")
_PARALLEL = (
    *(f"{name}_parallel_size" for name in ("tensor_model", "pipeline_model", "context", "expert_model")),
    *("tensor_parallel_degree", "pipeline_parallel_degree", "tp_size", "pp_size"),
)
_WORLD = ("world_size", "num_gpus", "n_gpus", "num_processes", "nranks")
NEAR = 100  # numbers of two groups are seldom so close
FEW = 4  # of so many ranks at least one may be missing
UNTOLD = ""  # the group of lines that name none


@dataclass(slots=True)
class _Rank:
    """What one rank of one group says: the first work that timed out, and the last that it has enqueued."""

    number: int | None = None
    operation: str = ""
    size: int | None = None
    enqueued: int | None = None
    event: Event | None = None


@dataclass(slots=True)
class _Told:
    groups: dict[str, dict[int, _Rank]] = field(default_factory=dict)
    named: dict[int, Event] = field(default_factory=dict)  # ranks that a report calls missing

    def of(self, group: str, rank: int) -> _Rank:
        return self.groups.setdefault(group, {}).setdefault(rank, _Rank())


def look(shared: Shared) -> Scan:
    told = _read(shared.run.events)
    if told.named:
        return answer(NAME, [_behind(told.named, f"a report names {_ranks(told.named)} as missing", 0.8)], "")
    groups = {name: ranks for name, ranks in told.groups.items() if len(ranks) >= 2}
    if not groups:
        return blind(NAME, "no log of a hang in which two ranks name their collective")
    out: list[Finding] = []
    for name, ranks in sorted(groups.items(), key=lambda item: (item[0] == UNTOLD, -len(item[1]), item[0])):
        out = _judge(shared, name, ranks)
        if out:
            break
    if not out:
        return blind(NAME, "the lines of the ranks do not tell whether all of them wait in one collective")
    return answer(NAME, out, "")


def _read(events: Iterable[Event]) -> _Told:
    told = _Told()
    works: dict[tuple[int, int], tuple[re.Match[str], Event]] = {}  # (rank, number) -> the watchdog's line
    groups: dict[tuple[int, int], str] = {}
    for event in _last_hang(events):
        if hit := _NAMED.search(event.text):
            listed = next(part for part in hit.groups() if part)
            told.named.update({int(rank): event for rank in re.findall(r"\d{1,6}", listed)})
        group = _GROUP.search(event.text)
        rank = event.rank if event.rank is not None else _own_rank(event.text, group)
        if rank is None:
            continue
        if hit := _WORK.search(event.text):
            works.setdefault((rank, int(hit[1])), (hit, event))
        if group is None:
            continue
        name = group[2] or " ".join(part for part in (group[3], group[1]) if part)
        if hit := _AT.search(event.text):
            groups[rank, int(hit[1])] = name
        if hit := _LAST.search(event.text):
            one = told.of(name, rank)
            one.enqueued, one.event = max(one.enqueued or 0, int(hit[1])), one.event or event
    for (rank, number), (hit, event) in works.items():
        one = told.of(groups.get((rank, number), UNTOLD), rank)
        if one.number is None or number < one.number:
            one.number, one.operation, one.event = number, hit[2], event
            one.size = int(hit[3]) if hit[3] else None
    return told


def _last_hang(events: Iterable[Event]) -> list[Event]:
    """The lines behind the last row of each file: a log that was appended to holds the hang of an earlier start too."""
    kept = [
        e for e in events if _WORK.search(e.text) or _LAST.search(e.text) or _AT.search(e.text) or _NAMED.search(e.text)
    ]
    last = {e.origin.path: e.step for e in kept}
    return [e for e in kept if e.step == last[e.origin.path]]


def _own_rank(text: str, group: re.Match[str] | None) -> int | None:
    hit = _RANK.search(text)
    return int(hit[1]) if hit else int(group[4]) if group else None


def _judge(shared: Shared, name: str, ranks: Mapping[int, _Rank]) -> list[Finding]:
    """What one group shows: those that wait elsewhere, those that never came, or all in one place."""
    waiting = {rank: one for rank, one in ranks.items() if one.number is not None and one.operation not in _PAIRED}
    if not waiting:
        return []
    front, _ = Counter(sorted((one.number or 0 for one in waiting.values()), reverse=True)).most_common(1)[0]
    here = {rank: one for rank, one in waiting.items() if one.number == front}
    sure = 0.9 if name != UNTOLD else 0.75
    if other := _unlike(here):
        return [_differs(here, other, sure), *_who(other, len(waiting), sure - 0.15)]
    behind = {rank: one for rank, one in ranks.items() if _is_behind(one, front)}
    ahead = {rank: one for rank, one in waiting.items() if (one.number or 0) > front}
    elsewhere = behind or ahead
    if elsewhere and name == UNTOLD:
        near = all(one.number is not None and abs(one.number - front) <= NEAR for one in elsewhere.values())
        if not near or any((shared.setting(key) or 1) > 1 for key in _PARALLEL):
            return []  # as well the counts of two groups
        sure = 0.65
    if elsewhere:
        where = _whereabouts(next(iter(elsewhere.values())))
        alike = [rank for rank, one in elsewhere.items() if _whereabouts(one) == where]
        text = f"{_ranks(alike)}: {where}; others waiting in {_place(next(iter(here.values())))}: {len(here)}"
        return [_finding("mismatch", elsewhere, text, sure), *_who(elsewhere, len(ranks), sure - 0.1)]
    return _all_here(shared, name, ranks, here)


def _is_behind(one: _Rank, front: int) -> bool:
    if one.number is not None:
        return one.number < front
    return one.enqueued is not None and one.enqueued < front


def _unlike(here: Mapping[int, _Rank]) -> dict[int, _Rank]:
    """Those of the same number with another operation or size than most."""
    kinds = {rank: (one.operation, one.size if one.operation in _EVEN else None) for rank, one in here.items()}
    usual, _ = Counter(kinds[rank] for rank in sorted(kinds)).most_common(1)[0]
    return {rank: here[rank] for rank, kind in kinds.items() if kind != usual}


def _differs(here: Mapping[int, _Rank], other: Mapping[int, _Rank], sure: float) -> Finding:
    usual = next(one for rank, one in here.items() if rank not in other)
    where = _place(next(iter(other.values())))
    alike = [rank for rank, one in other.items() if _place(one) == where]
    text = f"at the same number {_ranks(alike)}: {where}; others: {_place(usual)}"
    return _finding("mismatch", other, text, sure)


def _all_here(shared: Shared, name: str, ranks: Mapping[int, _Rank], here: Mapping[int, _Rank]) -> list[Finding]:
    """Nobody is elsewhere: are all ranks of the job here, or does one never speak?"""
    world = int(shared.setting(*_WORLD) or 0)
    if world < 2 or not (name in (UNTOLD, _DEFAULT) or "default_pg" in name):
        return []
    missing = [rank for rank in range(min(world, 65_536)) if rank not in ranks]
    place = _place(next(iter(here.values())))
    if not missing and len(here) == world:
        return [_finding("together", here, f"all {world} ranks wait in {place}", 0.75)]
    if not missing or len(here) < 3 or len(missing) > max(1, world // FEW):
        return []
    gone = {rank: next(iter(here.values())) for rank in missing}
    text = f"{_ranks(gone)}: no word; {len(here)} of {world} ranks wait in {place}"
    if any(event.kind in _OWN_CRASHES for event in shared.run.events):  # it may have ended before
        return [_behind({rank: one.event for rank, one in gone.items()}, text, 0.65)]
    return [_finding("mismatch", gone, text, 0.6), _behind({rank: one.event for rank, one in gone.items()}, text, 0.65)]


def _who(elsewhere: Mapping[int, _Rank], known: int, sure: float) -> list[Finding]:
    """Which ranks are elsewhere, where they are the lesser part: of two ranks neither is."""
    if 2 * len(elsewhere) >= known:
        return []
    events = {rank: one.event for rank, one in elsewhere.items()}
    return [_behind(events, f"{_ranks(elsewhere)} of {known} did not come along", sure)]


def _behind(events: Mapping[int, Event | None], text: str, sure: float) -> Finding:
    kind = "one-behind" if len(events) == 1 else "some-behind"
    return _made(kind, events, text, sure)


def _finding(kind: str, who: Mapping[int, _Rank], text: str, sure: float) -> Finding:
    return _made(kind, {rank: one.event for rank, one in who.items()}, text, sure)


def _made(kind: str, events: Mapping[int, Event | None], text: str, sure: float) -> Finding:
    ranks = tuple(sorted(events))
    event = next((events[rank] for rank in ranks if events[rank] is not None), None)
    rank = ranks[0] if len(ranks) == 1 else None
    step, origin = (event.step, event.origin) if event else (None, None)
    return Finding(NAME, kind, "", step, text, round(sure, 2), rank=rank, ranks=ranks, origin=origin)


def _whereabouts(one: _Rank) -> str:
    return _place(one) if one.number is not None else f"has enqueued no more than work {one.enqueued}"


def _place(one: _Rank) -> str:
    if one.size is None:
        return f"work {one.number} ({one.operation})"
    return f"work {one.number} ({one.operation} of {one.size} elements)"


def _ranks(ranks: Iterable[int]) -> str:
    listed = sorted(ranks)
    shown = ", ".join(map(str, listed[:8])) + (", ..." if len(listed) > 8 else "")
    return f"rank {shown}" if len(listed) == 1 else f"ranks {shown}"
