"""nvidia-smi beside `-q`: `--query-gpu ... --format=csv`, the default table, `dmon`: one series a GPU (rank = index).

Steps count the samples of a loop. What the table shows as `ERR!` or the query as an active slowdown becomes an event.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Callable
from pathlib import Path

from playbook.readers import text
from playbook.readers.base import RunBuilder
from playbook.readers.machine.lines import whole_lines
from playbook.readers.source import Source

NAME = "nvidia_smi"
TITLE = "nvidia-smi table, query as CSV, or dmon"

_QUERY = re.compile(
    r"(?:^|,\s*)(?:utilization\.gpu|temperature\.gpu|clocks(?:\.current)?\.sm|clocks_(?:throttle"
    r"|event)_reasons\.\w+|memory\.used|power\.draw)(?:\.\w+)?(?: \[[^\]]+\])?\s*(?:,|$)"
)
_DMON = re.compile(r"^#\s*gpu\b.*\b(?:pwr|sm|gtemp|fb|pclk|rxpci|sbecc)\b", re.IGNORECASE)
_TABLE = re.compile(r"^\| NVIDIA-SMI \d")
_FIRST = re.compile(r"^\|\s+(\d+)\s+\S.*\|\s*([0-9A-Fa-f]{8}:[0-9A-Fa-f]{2}:[0-9A-Fa-f]{2}\.\d)\s+\S+\s*\|\s*(\S+)")
_SECOND = re.compile(
    r"^\|\s*(?:N/A|\d+%|ERR!)\s+(?P<temp>\d+C|ERR!)\s+P\d+\s+(?P<power>[\d.]+W|N/A"
    r"|ERR!)\s*/\s*\S+\s*\|\s*(?P<mem>\d+)MiB\s*/\s*\d+MiB\s*\|\s*(?P<util>\d+%|N/A|ERR!)"
)

_CSV_NAMES = {
    "utilization.gpu": "gpu_util",
    "utilization.memory": "gpu_mem_util",
    "temperature.gpu": "gpu_temp",
    "temperature.memory": "gpu_mem_temp",
    "power.draw": "gpu_power",
    "power.draw.average": "gpu_power",
    "power.draw.instant": "gpu_power",
    "clocks.sm": "gpu_clock",
    "clocks.current.sm": "gpu_clock",
    "memory.used": "gpu_mem",
    "ecc.errors.uncorrected.volatile.total": "ecc_errors",
    "ecc.errors.corrected.volatile.total": "ecc_corrected",
    "pcie.link.width.current": "pcie_width",
    "pcie.link.gen.current": "pcie_generation",
}
_DMON_NAMES = {
    "pwr": "gpu_power", "gtemp": "gpu_temp", "temp": "gpu_temp", "mtemp": "gpu_mem_temp", "sm": "gpu_util",
    "mem": "gpu_mem_util", "pclk": "gpu_clock", "fb": "gpu_mem",
    "dbecc": "ecc_errors", "sbecc": "ecc_corrected", "xid": "xid",
}  # fmt: skip
_SLOW = re.compile(r"^clocks_(?:throttle|event)_reasons\.((?:hw|sw_thermal)\w*)")
_REASONS = {
    "hw_slowdown": "HW Slowdown",
    "hw_thermal_slowdown": "HW Thermal Slowdown",
    "hw_power_brake_slowdown": "HW Power Brake Slowdown",
    "sw_thermal_slowdown": "SW Thermal Slowdown",
}
_VALUE = re.compile(r"^\s*(-?\d+(?:\.\d+)?)\s*(?:%|C|W|MHz|MiB|x)?\s*$")
_BROKEN = re.compile(r"ERR!|Unknown Error|GPU is lost|requires reset", re.IGNORECASE)


def sniff(head: bytes, path: Path) -> int:
    lines = text.head_lines(head)
    if any(_QUERY.search(line) and line.count(",") >= 1 for line in lines[:3]):
        return 92
    if any(_DMON.match(line) for line in lines[:5]):
        return 90
    if any(_TABLE.match(line) for line in lines[:6]):
        return 65 if sum(1 for line in lines if line.startswith(("|", "+"))) > len(lines) * 0.6 else 0
    return 0


def read(source: Source, builder: RunBuilder) -> None:
    """Choose the shape by the first lines, then read the lines."""
    lines = text.head_lines(source.head())
    if any(_QUERY.search(line) and line.count(",") >= 1 for line in lines[:3]):
        take = _query(builder)
    elif any(_DMON.match(line) for line in lines[:5]):
        take = _dmon(builder)
    else:
        take = _table(builder)
    for number, line in whole_lines(source, builder):
        if line:
            take(number, line)


class _Samples:
    """Counts samples: a GPU that comes again begins the next one."""

    def __init__(self) -> None:
        self.step, self._seen = 0, set[int]()

    def of(self, gpu: int) -> int:
        if gpu in self._seen:
            self.step += 1
            self._seen.clear()
        self._seen.add(gpu)
        return self.step


def _value(shown: str) -> float | None:
    hit = _VALUE.match(shown)
    return float(hit[1]) if hit else None


def _query(builder: RunBuilder) -> Callable[[int, str], None]:
    header: list[str] = []
    samples = _Samples()
    known: dict[str, int] = {}  # uuid or bus id -> index, where the query has no index

    def take(number: int, line: str) -> None:
        cells = [cell.strip() for cell in next(csv.reader([line], skipinitialspace=True))]
        names = [re.sub(r" \[.*\]$", "", cell) for cell in cells]
        if _QUERY.search(line) and not any(_value(cell) is not None for cell in cells):
            header[:] = names
            return
        if len(cells) != len(header):
            return
        row = dict(zip(header, cells, strict=True))
        label = row.get("index") or row.get("gpu_index")
        if label is not None and label.isdecimal():
            gpu = int(label[:6])
        else:
            name = row.get("uuid") or row.get("gpu_uuid") or row.get("pci.bus_id") or row.get("gpu_bus_id") or ""
            gpu = known.setdefault(name, len(known))
        step = samples.of(gpu)
        values = {
            _CSV_NAMES[name]: found
            for name, cell in row.items()
            if name in _CSV_NAMES and (found := _value(cell)) is not None
        }
        if values:
            builder.add(step, values, number, gpu)
        for name, cell in row.items():
            if (hit := _SLOW.match(name)) and cell == "Active":
                builder.event(
                    f"GPU {gpu}: {_REASONS.get(hit[1], hit[1])} : Active",
                    "gpu",
                    number,
                    step,
                    gpu,
                    row.get("timestamp"),
                )
            elif _BROKEN.search(cell):
                builder.event(f"GPU {gpu}: {name}: {cell}", "gpu", number, step, gpu, row.get("timestamp"))
        width, widest = _value(row.get("pcie.link.width.current", "")), _value(row.get("pcie.link.width.max", ""))
        if width is not None and widest is not None and width < widest:
            builder.event(
                f"GPU {gpu}: PCIe link width {width:.0f}x of {widest:.0f}x",
                "gpu",
                number,
                step,
                gpu,
                row.get("timestamp"),
            )

    return take


def _dmon(builder: RunBuilder) -> Callable[[int, str], None]:
    header: list[str] = []
    samples = _Samples()

    def take(number: int, line: str) -> None:
        if line.startswith("#"):
            if _DMON.match(line):
                header[:] = [name for name in line[1:].lower().split() if name not in ("date", "time")]
                extra[0] = len(line[1:].split()) - len(header)
            return
        cells = line.split()[extra[0] :]
        if len(cells) != len(header) or not cells[0].isdecimal():
            return
        gpu = int(cells[0][:6])
        step = samples.of(gpu)
        named = zip(header[1:], cells[1:], strict=True)
        values = {
            _DMON_NAMES[name]: found
            for name, cell in named
            if name in _DMON_NAMES and (found := _value(cell)) is not None
        }
        if values:
            builder.add(step, values, number, gpu)

    extra = [0]
    return take


def _table(builder: RunBuilder) -> Callable[[int, str], None]:
    samples = _Samples()
    at: list[tuple[int, int]] = []  # GPU and sample of the block that is open

    def take(number: int, line: str) -> None:
        if at and "ERR!" in line:
            builder.event(f"GPU {at[0][0]}: {' '.join(line.strip('| ').split())}", "gpu", number, at[0][1], at[0][0])
        if hit := _FIRST.match(line):
            gpu = int(hit[1][:6])
            at[:] = [(gpu, samples.of(gpu))]
            if hit[3].isdecimal():
                builder.add(at[0][1], {"ecc_errors": float(hit[3])}, number, gpu)
        elif at and (hit := _SECOND.match(line)):
            gpu, step = at.pop()
            row: dict[str, float] = {"gpu_mem": float(hit["mem"])}
            for name, group in (("gpu_temp", "temp"), ("gpu_power", "power"), ("gpu_util", "util")):
                if (found := _value(hit[group].rstrip("CW%"))) is not None:
                    row[name] = found
            builder.add(step, row, number, gpu)

    return take
