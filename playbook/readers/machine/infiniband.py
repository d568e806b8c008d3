"""ibstat, ibstatus and perfquery: ports that are not up or slower than their neighbours, and counters that rose."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path

from playbook.readers import text
from playbook.readers.base import RunBuilder
from playbook.readers.machine import counters
from playbook.readers.machine.lines import whole_lines
from playbook.readers.source import Source

NAME = "infiniband"
TITLE = "ibstat, ibstatus or perfquery"

_CA = re.compile(r"^CA '([^']+)'")
_CA_PORT = re.compile(r"^\s+Port (\d+):\s*$")
_STATUS = re.compile(r"^Infiniband device '([^']+)' port (\d+) status:")
_PAIR = re.compile(r"^\s+([A-Za-z][\w ]*?):\s+(.+?)\s*$")
_COUNTERS = re.compile(r"^# Port (?:extended )?counters: (?:Lid (\d+)|GUID (\S+)|([^(]*?)) port (\d+)")
_COUNTER = re.compile(r"^([A-Za-z]\w*):\.*(\d{1,20})\s*$")
_RATE = re.compile(r"^(\d+(?:\.\d+)?)")


@dataclass
class _Port:
    name: str
    line: int
    kind: str = ""
    values: dict[str, str] = field(default_factory=dict)


def sniff(head: bytes, path: Path) -> int:
    lines = text.head_lines(head)[:200]
    if any(_STATUS.match(line) or _COUNTERS.match(line) for line in lines):
        return 93
    return 92 if any(_CA.match(line) for line in lines) and any(_CA_PORT.match(line) for line in lines) else 0


def read(source: Source, builder: RunBuilder) -> None:
    ports: list[_Port] = []
    shots: list[counters.Snapshot] = []
    adapter, kind = "", ""
    for number, line in whole_lines(source, builder):
        if hit := _CA.match(line):
            adapter, kind = hit[1], ""
        elif (hit := _CA_PORT.match(line)) and adapter:
            ports.append(_Port(f"{adapter} port {hit[1]}", number, kind))
        elif hit := _STATUS.match(line):
            ports.append(_Port(f"{hit[1]} port {hit[2]}", number))
            adapter = hit[1]
        elif hit := _COUNTERS.match(line):
            shots.append(counters.Snapshot(f"{(hit[1] and 'lid ' + hit[1]) or hit[2] or hit[3]} port {hit[4]}", number))
        elif shots and (hit := _COUNTER.match(line)):
            shots[-1].values.setdefault(hit[1], (int(hit[2]), number))
        elif hit := _PAIR.match(line):
            if hit[1] == "CA type":
                kind = hit[2]
            elif ports:
                ports[-1].values.setdefault(hit[1].lower(), hit[2])
    if ports:
        _states(ports, builder)
    if shots:
        counters.put(shots, builder)


def _states(ports: list[_Port], builder: RunBuilder) -> None:
    """Events of ports that are down, and of ports slower than others of the same kind and link layer."""
    best: dict[tuple[str, str], float] = {}
    rates: dict[str, float] = {}
    for port in ports:
        layer = port.values.get("link layer") or port.values.get("link_layer") or ""
        hit = _RATE.match(port.values.get("rate", ""))
        if hit and _up(port):
            rates[port.name] = float(hit[1])
            key = (port.kind, layer)
            best[key] = max(best.get(key, 0.0), float(hit[1]))
    builder.rows += len(ports)
    for port in ports:
        layer = port.values.get("link layer") or port.values.get("link_layer") or ""
        state, physical = (
            port.values.get("state", "?"),
            port.values.get("physical state") or port.values.get("phys state") or "?",
        )
        if not _up(port):
            builder.event(
                f"{port.name}: state {state}, physical state {physical} ({layer or 'link layer unknown'})",
                "network",
                port.line,
            )
        elif port.name in rates and rates[port.name] < best.get((port.kind, layer), 0.0):
            builder.event(
                f"{port.name}: rate {rates[port.name]:g} Gb/s, others of its kind {best[port.kind, layer]:g} Gb/s",
                "network",
                port.line,
            )


def _up(port: _Port) -> bool:
    state, physical = (
        port.values.get("state", ""),
        port.values.get("physical state") or port.values.get("phys state") or "",
    )
    return "active" in state.lower() and "linkup" in physical.lower().replace(" ", "").replace("_", "")
