"""The kernel's log: dmesg in all its time formats, raw /dev/kmsg, journal and syslog, pstore dumps of a panic.

Gives events for what is out of the ordinary (Xid, OOM killer, panic, machine checks, PCIe and link errors, storage,
segfaults) and none for ordinary lines. A pstore dump counts its parts backwards: events come in the order of time.
"""

from __future__ import annotations

import re
from pathlib import Path

from playbook.readers import text
from playbook.readers.base import RunBuilder
from playbook.readers.signatures import SIGNATURE, compiled
from playbook.readers.source import Source

NAME = "kernel_log"
TITLE = "kernel log (dmesg, kmsg, journal, pstore)"

_MONTH = r"(?:Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec)"
_FORMS = (
    re.compile(r"^\d{1,3},\d+,(?P<time>\d+),[-c+,\w=]*;(?P<text>.*)$"),  # /dev/kmsg: priority, sequence, microseconds
    re.compile(
        r"^(?:kern|user|daemon|syslog|auth|\w+) *:(?:emerg|alert|crit|err|warn|notice|info"
        r"|debug) *: *\[?(?P<time>[^\]]*?(?:\d{2}:\d{2}:\d{2}\S*(?: \d{4})?"
        r"|\d+\.\d+))\]? (?P<text>.*)$"
    ),
    re.compile(r"^(?:<\d{1,3}>)?\[ *(?P<time>\d+\.\d{6})\](?:\[ *[TC]\d+\])? ?(?P<text>.*)$"),
    re.compile(
        rf"^\[(?P<time>(?:Mon|Tue|Wed|Thu|Fri|Sat"
        rf"|Sun) {_MONTH} +\d+ \d{{2}}:\d{{2}}:\d{{2}} \d{{4}})\] (?P<text>.*)$"
    ),
    re.compile(
        r"^(?P<time>\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}[.,]?\d*(?:Z"
        r"|[+-]\d{2}:?\d{2})?) (?:\S+ )?kernel: (?:\[ *[\d.]+\] )?(?P<text>.*)$"
    ),
    re.compile(
        r"^(?P<time>\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2},\d{6}[+-]\d{2}:\d{2}) (?P<text>.*)$"
    ),  # dmesg --time-format iso
    re.compile(rf"^(?P<time>{_MONTH} +\d+ \d{{2}}:\d{{2}}:\d{{2}}) \S+ kernel: (?:\[ *[\d.]+\] )?(?P<text>.*)$"),
)
_OTHER_UNIT = re.compile(
    rf"^(?:{_MONTH} +\d+ \d{{2}}:\d{{2}}:\d{{2}}|\d{{4}}-\d{{2}}-\d{{2}}T\S+) \S+ [\w.\-@/]+(?:\[\d+\])?: "
)
_PART = re.compile(r"^(?:Panic|Oops|Emergency|Shutdown|Restart|Halt|Unknown)#(\d+) Part(\d+)")
_DUMP = re.compile(r"^(?:dmesg-(?:erst|efi|ramoops)|-- (?:Logs|Journal) begin)")

# kind, pattern: first match counts. Texts of Linux 4 to 6, the NVIDIA driver and mlx5.
KINDS: tuple[tuple[str, re.Pattern[str]], ...] = (
    ("xid", re.compile(r"NVRM: (?:GPU at PCI:[^:]+:[^:]+:[^:]+: )?Xid \(PCI|SXid \(PCI|NVRM: .*Xid:? \d")),
    (
        "gpu",
        re.compile(
            r"NVRM: .*(?:fallen off the bus|RmInitAdapter failed|GPU lost|uncorrectable|row remap"
            r"|GSP.*(?:error|timeout|failed)|Reset required|needs? reset|nvlink.*(?:error|fail|fatal))"
            r"|nvidia-nvswitch\d*: .*(?:error|fatal|fail)|knvlink\w*:.*(?:error|fail)"
            r"|amdgpu.*(?:\bring \S+ (?:timeout|test failed|reset failed)|GPU reset (?:begin|failed)|page fault"
            r"|uncorrectable|poison|device wedged|failed to respond|unrecoverable)",
            re.IGNORECASE,
        ),
    ),
    (
        "oom-killer",
        re.compile(
            r"invoked oom-killer|Out of memory: Kill|oom-kill:|oom_reaper: reaped"
            r"|Memory cgroup out of memory|Killed process \d+"
        ),
    ),
    (
        "panic",
        re.compile(
            r"Kernel panic|^BUG: |kernel BUG at|^Oops(?:: |\b)|general protection fault"
            r"|[Uu]nable to handle (?:kernel|page fault)|watchdog: BUG: soft lockup"
            r"|NMI watchdog: .*(?:LOCKUP|lockup)|rcu\w*:? .*(?:self-detected|detected) stall"
            r"|Fatal exception|double fault"
        ),
    ),
    ("hung-task", re.compile(r"blocked for more than \d+ seconds")),
    ("segfault", re.compile(r"\bsegfault at [0-9a-f]+ ip|traps: \S+\[\d+\] (?:general protection|trap)")),
    (
        "mce",
        re.compile(
            r"\[Hardware Error\]|Machine check|Machine Check|\bmce: .*(?:CMCI storm|Uncorrected|corrected)"
            r"|EDAC \w+: (?:\d+ )?(?:[CU]E)\b|EDAC .*\b[CU]E (?:memory|row|page)|Memory failure: 0x",
            re.IGNORECASE,
        ),
    ),
    (
        "pcie",
        re.compile(
            r"PCIe Bus Error|AER: .*(?:error|Error)|pcieport .*(?:[Ee]rror|Slot.*Link Down)|\bDPC: "
            r"|link is not (?:working|active)|limited by .*link at",
            re.IGNORECASE,
        ),
    ),
    (
        "network",
        re.compile(
            r"NETDEV WATCHDOG|transmit queue \d+ timed out|[Ll]ink (?:is )?(?:[Dd]own|DOWN)"
            r"|link status definitely down|\bmlx5_core .*(?:[Ll]ink down|health|[Ff]atal|[Ee]rror|status bad"
            r"|poll_health|timeout|reset)|\bib\w*: .*(?:link down|error)|Port module event\[error\]"
            r"|bad[ _]crc|High [Tt]emperature|Cable error"
        ),
    ),
    (
        "storage",
        re.compile(
            r"\bI/O error\b|Buffer I/O|EXT4-fs error|XFS .*(?:[Cc]orruption|shutdown|error)"
            r"|\bnfs: server .* (?:not responding|timed out)|LustreError|Lustre: .*(?:evict|lost"
            r"|timed out)|nvme\S* .*(?:timeout|reset|I/O|abort)|Remounting filesystem read-only"
            r"|critical medium error"
        ),
    ),
    (
        "thermal",
        re.compile(
            r"temperature (?:is )?above threshold|clock (?:is )?throttled|thermal .*critical"
            r"|Critical temperature"
        ),
    ),
)
# Ordinary lines that hold such words (boot messages, second ports without a cable).
ORDINARY = re.compile(
    r"SATA link down|link becomes ready|Cable unplugged|AER: enabled|enabled with IRQ|AER driver"
    r"|HEST:|DPC: error containment capabilities|EDAC MC: Ver|"
    r"Giving out device|mce: CPU supports|using \d+ MCE banks|Machine check (?:support|polling)"
    r"|_OSC: |PCIe AER|health check|available PCIe bandwidth \(|"
    r"Error Record Serialization|APEI: |error containment|MLX5E: StrdRq|firmware version"
    r"|EDAC \w+: (?:ADDRXLAT|Linked|DRAM ECC)|ECC (?:enabled|disabled)|"
    r"Machine check events logged: 0|clock \S+ throttled: 0"
)


def sniff(head: bytes, path: Path) -> int:
    lines = text.head_lines(head)[:400]
    if not lines:
        return 0
    mine = sum(1 for line in lines if parsed(line) is not None or _PART.match(line) or _DUMP.match(line))
    if mine >= max(1, len(lines) * 0.6):
        return 88
    units = sum(1 for line in lines if _OTHER_UNIT.match(line))
    return 60 if mine and mine + units >= len(lines) * 0.8 else 0


def parsed(line: str) -> tuple[str, str] | None:
    """(time as logged, message) of a line of the kernel; None for any other line."""
    for form in _FORMS:
        if hit := form.match(line):
            return hit["time"], hit["text"]
    return None


def read(source: Source, builder: RunBuilder) -> None:
    kept: list[tuple[int, int, str, str, str | None]] = []  # -part, line, kind, message, time
    dump: tuple[int, int, str, str, str | None] | None = None  # the head of a panic's dump
    part = 0
    taken = 0
    kept_time = ""
    signatures = compiled(builder.patterns)
    for number, raw, _ in source.marked_lines():
        line = text.clean(raw)
        if hit := _PART.match(line):
            part = int(hit[2][:9])
            if line.startswith(("Panic", "Oops")):
                dump = dump or (-part, number, "panic", line.strip(), None)
            continue
        found = parsed(line)
        if found is None and line[:1] == " " and line.lstrip().startswith("NVRM: "):
            found = kept_time, line  # a message of several lines has its time in the first one
        if found is None:
            if not (_OTHER_UNIT.match(line) and "nvidia" in line.lower()):
                continue
            found = "", line.split(": ", 1)[-1]
        taken += 1
        when, said = found
        kept_time = when
        if ORDINARY.search(said):
            continue
        kind = next((kind for kind, pattern in KINDS if pattern.search(said)), None)
        if kind is None and signatures.fits(said, said.lower()):
            kind = SIGNATURE
        if kind is not None:
            kept.append((-part, number, kind, said.strip(), when or None))
    if dump and not any(kind == "panic" for _, _, kind, _, _ in kept):
        kept.append(dump)
    kept.sort(key=lambda item: item[:2])
    for _, number, kind, said, time in kept:
        builder.event(said, kind, number, None, None, time)
    builder.rows = taken
