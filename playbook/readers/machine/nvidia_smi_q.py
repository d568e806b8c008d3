"""`nvidia-smi -q`: utilisation, temperature, clocks, power, memory and ECC of each GPU as series (rank = GPU index).

One snapshot is step 0; further snapshots of a loop (`-l`) count on. What is off (a hardware slowdown, uncorrected ECC,
pending remaps, a narrow link, a GPU that must be reset) becomes an event, named as nvidia-smi names it.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

from playbook.readers import text
from playbook.readers.base import RunBuilder
from playbook.readers.machine.lines import whole_lines
from playbook.readers.source import Source

NAME = "nvidia_smi_q"
TITLE = "nvidia-smi -q"

_HEAD = re.compile(r"^=+NVSMI LOG=+")
_GPU = re.compile(r"^GPU ([0-9A-Fa-f]{4,8}:[0-9A-Fa-f]{2}:[0-9A-Fa-f]{2}\.[0-9A-Fa-f])\s*$")
_SECTION = re.compile(r"^(?P<indent>\s+)(?P<key>[A-Z][\w /\-().]*)$")  # of a line without blanks at its end
_NUMBER = re.compile(r"^([\d.]+)\s*(?:%|C|W|MHz|MiB|x|KB/s|mV)?$")

# metric, paths (section/key, the last names count); the first that holds a number wins
_SERIES: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("gpu_util", ("Utilization/Gpu", "Utilization/GPU")),
    ("gpu_mem_util", ("Utilization/Memory",)),
    ("gpu_temp", ("Temperature/GPU Current Temp",)),
    ("gpu_mem_temp", ("Temperature/Memory Current Temp",)),
    ("gpu_power", ("Power Readings/Power Draw", "GPU Power Readings/Average Power Draw",
                   "GPU Power Readings/Power Draw", "GPU Power Readings/Instantaneous Power Draw")),
    ("gpu_power_limit", ("Power Readings/Enforced Power Limit", "GPU Power Readings/Current Power Limit")),
    ("gpu_clock", ("Clocks/SM",)),
    ("gpu_clock_max", ("Max Clocks/SM",)),
    ("gpu_mem", ("FB Memory Usage/Used",)),
    ("pcie_width", ("Link Width/Current",)),
    ("pcie_generation", ("PCIe Generation/Current", "PCIe Generation/Device Current")),
    ("pcie_replays", ("PCI/Replays Since Reset",)),
)  # fmt: skip
_ECC = re.compile(r"ECC Errors/(Volatile|Aggregate)/(?:.*/)?(.*[Uu]ncorrectable.*|Double Bit.*|Total)$")
_ECC_ALL = re.compile(r"ECC Errors/Volatile/(?:.*/)?(?!Total)[^/]+$")
_SLOW = ("HW Slowdown", "HW Thermal Slowdown", "HW Power Brake Slowdown", "SW Thermal Slowdown")
_REASONS = ("Clocks Throttle Reasons/", "Clocks Event Reasons/")
_BROKEN = re.compile(r"requires reset|\bERR!|Unknown Error|GPU is lost|Reset Required\s*:\s*Yes", re.IGNORECASE)


def sniff(head: bytes, path: Path) -> int:
    lines = text.head_lines(head)
    if any(_HEAD.match(line) for line in lines[:40]):
        return 90
    gpus = sum(1 for line in lines if _GPU.match(line))
    return 70 if gpus and sum(1 for line in lines if _pair(line)) > len(lines) // 2 else 0


def read(source: Source, builder: RunBuilder) -> None:
    snapshot, index = -1, -1
    values: dict[str, tuple[str, int]] = {}  # path -> (value, line)
    sections: list[tuple[int, str]] = []
    bus = ""

    def put() -> None:
        if values and index >= 0:
            _gpu(values, bus, index, max(0, snapshot), builder)
        values.clear()
        sections.clear()

    for number, line in whole_lines(source, builder):
        if _HEAD.match(line):
            put()
            index = -1
        elif line.startswith("Timestamp"):
            put()
            snapshot, index = snapshot + 1, -1
        elif hit := _GPU.match(line):
            put()
            index, bus = index + 1, hit[1]
        elif pair := _pair(line):
            indent, key, shown = pair
            if index < 0 and key in ("Driver Version", "CUDA Version", "Attached GPUs"):
                builder.set_config({key.lower().replace(" ", "_"): shown})
                continue
            _close(sections, indent)
            values.setdefault("/".join([name for _, name in sections] + [key]), (shown, number))
            sections.append((indent, key))
        elif hit := _SECTION.match(line.rstrip()):
            _close(sections, len(hit["indent"]))
            sections.append((len(hit["indent"]), hit["key"].strip()))
    put()


def _pair(line: str) -> tuple[int, str, str] | None:
    """(indent, key, value) of `    Power Draw     : 91.3 W`; None for any other line."""
    left, colon, value = line.partition(":")
    key = left.strip()
    if not colon or not key or value[:1] not in ("", " "):
        return None
    return len(left) - len(left.lstrip()), key, value.strip()


def _close(sections: list[tuple[int, str]], indent: int) -> None:
    while sections and sections[-1][0] >= indent:
        sections.pop()


def _number(shown: str) -> float | None:
    hit = _NUMBER.match(shown)
    try:
        return float(hit[1]) if hit else None
    except ValueError:
        return None


def _gpu(values: dict[str, tuple[str, int]], bus: str, index: int, step: int, builder: RunBuilder) -> None:
    """One GPU of one snapshot."""
    row: dict[str, float] = {}

    def get(*names: str) -> tuple[float, int] | None:
        for name in names:
            for path, (shown, line) in values.items():
                if (path == name or path.endswith("/" + name)) and (found := _number(shown)) is not None:
                    return found, line
        return None

    def say(what: str, line: int) -> None:
        builder.event(f"GPU {index} ({bus}): {what}", "gpu", line, step, index)

    for metric, names in _SERIES:
        if (found := get(*names)) is not None:
            row[metric] = found[0]
    counted = [
        number
        for path, (shown, _) in values.items()
        if _ECC_ALL.search(path) and (number := _number(shown)) is not None
    ]
    if counted and "ECC Errors/" not in next(reversed(values)):  # a file cut in that section has a part of the sum
        row["ecc_errors"] = sum(counted)
    _faults(values, get, say)
    if row:
        builder.add(step, row, min(line for _, line in values.values()), index)


def _faults(
    values: dict[str, tuple[str, int]], get: Callable[..., tuple[float, int] | None], say: Callable[[str, int], None]
) -> None:
    """What nvidia-smi itself shows as not in order."""
    for path, (shown, line) in values.items():
        name = path.rsplit("/", 1)[-1]
        number = _number(shown)
        if any(part in path for part in _REASONS) and name in _SLOW and shown == "Active":
            say(f"{name} : Active", line)
        elif (hit := _ECC.search(path)) and number:
            say(f"ECC errors, {hit[1].lower()}, {hit[2]}: {number:.0f}", line)
        elif (
            path.endswith(
                (
                    "Remapped Rows/Pending",
                    "Remapped Rows/Remapping Failure Occurred",
                    "Retired Pages/Pending Page Blacklist",
                )
            )
            and shown == "Yes"
        ):
            say(f"{' '.join(path.split('/')[-2:])}: Yes", line)
        elif path.endswith("Remapped Rows/Uncorrectable Error") and number:
            say(f"Remapped Rows Uncorrectable Error: {number:.0f}", line)
        elif _BROKEN.search(f"{name} : {shown}"):
            say(f"{name}: {shown}", line)
    width, widest = get("Link Width/Current"), get("Link Width/Max")
    if width and widest and width[0] < widest[0]:
        say(f"PCIe link width {width[0]:.0f}x of {widest[0]:.0f}x", width[1])
    busy, now, most = (
        get("Utilization/Gpu", "Utilization/GPU"),
        get("PCIe Generation/Current"),
        get("PCIe Generation/Max"),
    )
    if now and most and now[0] < most[0] and busy and busy[0] > 0:  # an idle GPU lowers its generation by itself
        say(f"PCIe generation {now[0]:.0f} of {most[0]:.0f} under load", now[1])
    temperature, limit = (
        get("Temperature/GPU Current Temp"),
        get("Temperature/GPU Max Operating Temp", "Temperature/GPU Slowdown Temp"),
    )
    if temperature and limit and limit[0] and temperature[0] >= limit[0]:
        say(f"temperature {temperature[0]:.0f} C at or above its limit of {limit[0]:.0f} C", temperature[1])
