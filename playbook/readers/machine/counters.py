"""Snapshots of error counters of ports: which counters rose between the first and the last one.

Shared by the readers of ethtool and perfquery. The sum of all error counters of all ports is the metric
`network_errors`, one step a snapshot; each counter that rose is an event.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from playbook.readers.base import RunBuilder

# Names that count something wrong, a loss, a congestion mark or a retransmission (mlx5, bnxt, i40e, ena, perfquery).
ERRORS = re.compile(
    r"err|drop|discard|crc|pause|retrans|rexmit|timeout|out_of_buffer|out_of_seq|symbol|link_down"
    r"|downed|recover|nack|(?:^|_)nak|cnp|ecn_|fail|miss|overrun|"
    r"no_buf|nobuf|fifo|corrupt|(?:^|_)bad|lost|congest|constraint|integrity|stall|oversize"
    r"|undersize|fragment|jabber|abort|allowance_exceeded",
    re.IGNORECASE,
)
_HARMLESS = re.compile(
    r"cache|recycle|xmitwait|_ok$|cqe_compress|csum_none|arfs|poll|_mode$|supported|storm_warning", re.IGNORECASE
)


@dataclass
class Snapshot:
    """The counters of one port at one time."""

    port: str
    line: int
    values: dict[str, tuple[int, int]] = field(default_factory=dict)  # counter -> (value, line)


def is_error(name: str) -> bool:
    """Whether a counter counts something that should stand still."""
    return ERRORS.search(name) is not None and _HARMLESS.search(name) is None


def put(snapshots: list[Snapshot], builder: RunBuilder) -> None:
    """Series and events of all snapshots in file order."""
    ports: dict[str, list[Snapshot]] = {}
    for shot in snapshots:
        if shot.values:
            ports.setdefault(shot.port, []).append(shot)
    if not ports:
        builder.problem(None, "no counter was found", "save the whole output of the tool")
        return
    for port, shots in ports.items():
        if len(shots) > 1 and len(shots[-1].values) < len(shots[-2].values):
            where = f"{port}: " if port else ""
            builder.problem(
                shots[-1].line,
                f"{where}the last snapshot has fewer counters than the one before and was not taken",
                code="cut",
            )
            shots.pop()
    for step in range(max(map(len, ports.values()))):
        taken = [shots[step] for shots in ports.values() if step < len(shots)]
        total = sum(value for shot in taken for name, (value, _) in shot.values.items() if is_error(name))
        builder.add(step, {"network_errors": float(total)}, min(shot.line for shot in taken))
    for port, shots in ports.items():
        if len(shots) > 1:
            _rises(port, shots[0].values, shots[-1].values, len(shots) - 1, builder)
    if all(len(shots) == 1 for shots in ports.values()):
        builder.problem(
            None,
            "one snapshot of counters: whether they rise cannot be seen",
            "take a second one some minutes later and append it to the file",
            "one-snapshot",
        )


def _rises(
    port: str,
    before: Mapping[str, tuple[int, int]],
    after: Mapping[str, tuple[int, int]],
    step: int,
    builder: RunBuilder,
) -> None:
    fell = False
    where = f"{port}: " if port else ""
    for name, (value, line) in after.items():
        if name not in before or not is_error(name):
            continue
        rose = value - before[name][0]
        if rose > 0:
            builder.event(f"{where}{name} rose by {rose} ({before[name][0]} -> {value})", "network", line, step)
        fell = fell or rose < 0
    if fell:
        builder.problem(
            None, f"{where}counters fell between the snapshots: the driver was loaded anew or they were reset"
        )
