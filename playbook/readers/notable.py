"""Notable lines of a text log -> events with a kind: crashes, communication, skipped steps, NaN, resumes, checkpoints.

Says what was written and when, never why. A Python traceback gives one event for its last exception line; what a
launcher writes after a worker died is an event only where nothing else in the log says how it died. Source code and
configuration that a log prints are no events.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from playbook.readers import text
from playbook.readers.rows import Rows

# kind, pattern; the first that fits decides. The texts are those of PyTorch, CUDA, NCCL, DeepSpeed, Megatron-LM,
# fairseq, apex, transformers, Lightning, slurm and the kernel's messages to a terminal.
_KINDS: tuple[tuple[str, re.Pattern[str]], ...] = (
    ("xid", re.compile(r"NVRM: Xid|\bXid \(PCI|SXid \(PCI")),
    (
        "oom",
        re.compile(
            r"(?:CUDA|HIP|NPU|XPU|MPS backend|GPU)\b.{0,20} out of memory|OutOfMemoryError"
            r"|OOM: Ran out of memory|out of memory\. Tried to allocate"
            r"|CUBLAS_STATUS_ALLOC_FAILED|CUDNN_STATUS_ALLOC_FAILED|cudaErrorMemoryAllocation"
            r"|DefaultCPUAllocator: (?:can't|not enough)"
            r"|Failed to CUDA (?:c|m)alloc|RESOURCE_EXHAUSTED|^MemoryError\b|\bCannot allocate memory\b",
            re.IGNORECASE,
        ),
    ),
    (
        "killed",
        re.compile(
            r"oom[_-]kill(?:er)?\b|DUE TO (?:TIME LIMIT|PREEMPTION|NODE FAILURE|TASK FAILURE)|CANCELLED AT"
            r"|\bSIGKILL\b|\bSIGTERM\b(?!.*ignor)"
            r"|got signal: ?\d+|[Rr]eceived (?:signal )?\d+ death signal|\bsignal 9\b|\bsignal 15\b"
            r"|killed by signal|^\s*Killed\s*$|: \d+ Killed\b"
            r"|^KeyboardInterrupt|exited on signal|Terminated\s*$|Caught signal (?:15|9|2)\b|preempted\b"
            r"|main process received SIG(?:INT|TERM)",
        ),
    ),
    (
        "segfault",
        re.compile(
            r"[Ss]egmentation fault|SIGSEGV|\bsegfault at|[Ss]ignal 11\b|\bSIGBUS\b|[Ss]ignal: Bus error"
            r"|\bBus error\b|core dumped"
        ),
    ),
    (
        "nccl",
        re.compile(
            r"NCCL WARN|NCCL (?:error|timeout|failure)|[Nn][Cc][Cc][Ll] (?:operation"
            r"|communicator).{0,40}(?:fail|abort|time|error)|DistBackendError"
            r"|nccl(?:System|UnhandledCuda|Internal|Remote|InvalidUsage|InvalidArgument)(?:Error)?\b"
            r"|Watchdog caught collective|collective operation timeout"
            r"|ProcessGroupNCCL(?:'s)? (?:watchdog|heartbeat)|[Hh]eartbeat monitor timed out"
            r"|[Dd]etected mismatch between collectives"
            r"|Some NCCL operations have failed|monitoredBarrier|store->get|[Tt]imed out.{0,60}(?:store"
            r"|barrier|clients|rendezvous)|DistStoreError"
            r"|Connection (?:closed by|reset by) (?:remote )?peer|Socket Timeout|HCCL.{0,60}(?:[Ee]rror"
            r"|fail|time ?out)|Timeout at NCCL work|async(?:hronous)? NCCL",
        ),
    ),
    (
        "cuda-error",
        re.compile(
            r"CUDA (?:driver )?error|HIP error|device-side assert|cudaError(?!MemoryAlloc)\w+"
            r"|CUDA_ERROR_\w+|CUBLAS_STATUS_(?!SUCCESS|ALLOC)\w+"
            r"|CUDNN_STATUS_(?!SUCCESS|ALLOC)\w+|illegal memory access|[Uu]ncorrectable ECC"
            r"|unspecified launch failure|CUDA initialization"
            r"|\.cu:\d+:.*Assertion|Assertion `[^`']*' ?failed|Assertion `[^`]*` failed",
        ),
    ),
    (
        "warning-loss-scale",
        re.compile(
            r"[Mm]inimum loss scale|loss scale (?:is )?already at (?:its )?minimum"
            r"|[Cc]urrent loss scale already at minimum|tried to decrease below|"
            r"[Cc]annot decrease (?:loss )?scale|loss scale.{0,30}(?:too small|too low)",
        ),
    ),
    (
        "overflow-skip",
        re.compile(
            r"OVERFLOW!|[Gg]rad(?:ient)?s? overflow|Overflow detected|[Ss]kipping (?:this |the )?(?:step"
            r"|update|optimizer step|iteration|batch)\b"
            r"|ignoring gradient|[Ss]kip(?:ped)? (?:step|update|iteration).{0,40}(?:nan|inf|overflow"
            r"|spike)|Reducing dynamic loss scale from",
        ),
    ),
    (
        "nan-line",
        re.compile(
            r"(?:\b(?:nans?|inf|infs|infinite|infinity|non-?finite)\b.{0,50}?\b(?:found|detect\w*"
            r"|encounter\w*|return\w*|appear\w*|stopping|abort\w*|exit\w*"
            r"|skip\w*|terminat\w*|values? in|in (?:the )?(?:local )?(?:loss|grad\w*|output|input|param\w*"
            r"|weight\w*|activation\w*|forward|backward|logits?|batch))\b)"
            r"|(?:\b(?:found|detect\w*|encounter\w*|return\w*|contain\w*|got|is|are|was|became|becomes?"
            r"|went|produced|hit)\b.{0,25}?\b(?:nans?|non-?finite|infinite|inf)\b(?!\w|=|: ?\d))",
            re.IGNORECASE,
        ),
    ),
    (
        "io-error",
        re.compile(
            r"No space left on device|Stale (?:NFS )?file handle|Input/output error|Disk quota exceeded"
            r"|PytorchStream(?:Reader|Writer) failed"
            r"|insufficient shared memory|Transport endpoint is not connected|Read-only file system",
        ),
    ),
    (
        "resume",
        re.compile(
            r"\b[Rr]esum(?:ed|ing) (?:from|at|training|run|checkpoint|the)\b|\b(?:[Ll]oad(?:ed|ing)"
            r"|[Rr]estor(?:ed|ing)) (?:(?:the|a|from|model|training|full|sharded|"
            r"distributed|latest|state|optimizer)\s)*(?:checkpoint|ckpt)\b(?! shards)"
            r"|will not load any checkpoints|will start from random"
            r"|Continuing training from|[Ss]tarting training from (?:step|iteration|epoch|checkpoint)"
            r"|[Cc]heckpoint loaded|[Rr]estarting from"
            r"|Successfully loaded checkpoint|[Ss]kip(?:ping)? (?:the )?first \d+ (?:batches|epochs)",
        ),
    ),
    (
        "checkpoint",
        re.compile(
            r"\b[Ss]av(?:ed|ing) (?:(?:the|a|full|sharded|model|training|new|last|best|final|unsharded"
            r"|intermediate|distributed|state|to)\s)*(?:checkpoint|ckpt)\b"
            r"|Saving model (?:checkpoint|weights)|[Cc]heckpoint (?:was )?saved|[Ss]aved checkpoint"
            r"|successfully saved checkpoint|Finished saving checkpoint"
            r"|(?:[Ff]ailed|[Ee]rror|unable|[Uu]nable).{0,30}\b(?:sav|writ|load"
            r"|read)\w*.{0,30}(?:checkpoint|ckpt)|[Cc]hecksum mismatch",
        ),
    ),
)
_CRASHES = frozenset(("oom", "killed", "segfault", "nccl", "cuda-error", "traceback"))

# Lower-case fragments, one of which every notable line has; most lines have none and cost no regular expression.
_HINTS = (
    "traceback", "error", "memory", "oom", "kill", "signal", "segfault", "nccl", "hccl", "cuda", "cublas", "cudnn",
    "xid", "overflow", "skip", "scale", "nan", " inf", "finite", "resum", "checkpoint", "ckpt", "restor",
    "cancelled", "assert", "sigterm", "sigbus", "terminated", "core dumped", "ignoring gradient", "timed out",
    "timeout", "death", "preempt", "no space", "quota", "stale", "watchdog", "start from random",
    "starting training", "continuing training", "exhausted", "uncorrectable", "barrier", "collective", "interrupt",
    "sigint", "fault", "failed", "exitcode", "connection", "local_rank",
)  # fmt: skip

# Harmless lines that look like more (README of the collection: rule 11).
_HARMLESS = re.compile(
    r"^No Grad overflow|not loading|[Ss]tarting training from (?:step|iteration|epoch) [01]\b"
    r"|NCCL_ASYNC_ERROR_HANDLING|destroy_process_group|NCCL INFO|TORCH_NCCL_\w+ ?(?:is|=)"
    r"|nan_to_num|check_for_nan|inotify_add_watch"
    r"|^(?!.*Skipping).*\bhysteresis\b|skip_nan|ignore_nan|ignores?_index"
    r"|loading checkpoint shards|Set(?:ting)? CUDA|FutureWarning|DeprecationWarning"
    r"|nan iterations: +0|exits? successfully|--\w*(?:resume|checkpoint)"
    r"|^Compile with `TORCH_USE_CUDA_DSA`|^For debugging consider|^CUDA kernel errors might|CUDA_LAUNCH_BLOCKING=1",
    re.IGNORECASE,
)
# What source code looks like (logs of modded-nanogpt print their whole script) and lines of printed configurations.
_CODE = re.compile(
    r"^\s*(?:def |class |import |from \w[\w.]* import |if [^:]*:\s*$|elif |else:"
    r"|for \w.* in .*:\s*$|while .*:\s*$|return\b|raise \w|print\w*\(|assert |with .*:\s*$"
    r"|try:|except\b.*:|@\w|#|\"\"\"|'''|[\w.\[\]]+(?:, ?[\w.\[\]]+)* ?(?:=|\+=|-=|:=) |self\."
    r"|super\(|[fr]?[\"']|//|/\*|[{}\])]|\w+\(\w*\)?[,)]*$)"
    r"|\{[a-z_]\w*(?:[.\[(:!}])|\.{4,} \S|^\s*\w+ \.{2,}|^\+ |^\s*\(\w+\): \w+\("
)
_START = re.compile(r"^\s*(?:\+ )?(?:Exception Group )?Traceback \(most recent call last\)")
_CHAINED = re.compile(r"During handling of the above exception|The above exception was the direct cause")
_EXCEPTION = re.compile(
    r"^(?P<name>(?:[A-Za-z_]\w*\.)*[A-Z]\w*(?:Error|Exception|Interrupt|Exit|Warning|Failure"
    r"|Timeout|Abort|Killed|Iteration|Fault|NotFound|Crash)\w*|KeyboardInterrupt|"
    r"(?:[A-Za-z_]\w*\.)+[A-Z]\w+)(?::(?= |$)|$)"
)
_LAUNCHER_FRAME = re.compile(
    r"torch/distributed/(?:run|launch)\.py|torch/distributed/launcher/|elastic/agent/"
    r"|accelerate/commands/|deepspeed/launcher/|bin/torchrun|horovod/runner"
)
_LAUNCHER_NAME = re.compile(
    r"ChildFailedError|SignalException|CalledProcessError|ProcessExitedException|ProcessRaisedException|WorkerCrashed"
)
_LAUNCHER_LINE = re.compile(
    r"closing signal SIG|elastic/multiprocessing/api|elastic/agent|sigkill_handler"
    r"|Killing subprocess|launch\.py:\d+|exitcode|^\s*traceback : |srun: error"
    r"|mpirun|Sending process|failed \(exitcode|Root Cause|SignalException|prterun|task \d+: |Terminating job step",
)
_RANK_IN = re.compile(r"\[?\b[Rr]ank[ :=]{0,2}(\d{1,6})\b")
_RANK_ROW = re.compile(r"^\s*rank\s+: (\d+) \(local_rank")
_STEP_IN = re.compile(
    r"\b(?:global[_ ]step|steps?|iterations?|iter|updates?)[ =:_]{1,3}(\d{1,12})\b"
    r"|\bcheckpoint[-_/](?:step[-_])?0*(\d{1,12})\b"
)
_SCALE = re.compile(
    r"(?:reducing (?:loss scale )?to|setting loss scale to:?|reducing loss scale to"
    r"|dynamic loss scale from [\d.e+]+ to) ?([\d.]+(?:e[+-]?\d+)?)",
    re.IGNORECASE,
)
_FROM = re.compile(r"(?:[Aa]ttempted loss scale: ?|loss scale from )([\d.]+(?:e[+-]?\d+)?)")
_GROWN = re.compile(r"Increasing dynamic loss scale from [\d.e+]+ to (\d+(?:\.\d*)?)")
_AT = re.compile(r"^[Gg]rad overflow on iteration:? (\d+)")
_FRAMES = 400  # lines of one traceback: beyond that it is no longer one


class _Open:
    """A traceback that is being read."""

    __slots__ = ("launcher", "lines", "number", "said", "time")

    def __init__(self, time: str | None) -> None:
        self.lines, self.number, self.said, self.launcher, self.time = 0, 0, "", False, time


def watch(rows: Rows) -> Callable[[int, str], None]:
    """A function that looks at lines (number, cleaned text) and adds events, and loss scales that such lines tell."""
    builder = rows.builder
    opened: dict[int | None, _Open] = {}
    said: dict[tuple[str, int | None, str], int] = {}
    state = {"pulse": -1, "crashed": -1, "at": -1, "root_rank": -1, "grown": -1}

    def emit(kind: str, body: str, number: int, rank: int | None, time: str | None, launcher: bool = False) -> None:
        if state["pulse"] != rows.pulse:
            state["pulse"] = rows.pulse
            said.clear()
        if launcher and state["crashed"] == rows.pulse:
            return
        step = rows.last_step
        key = body.strip()
        scale: float | None = None
        if kind == "overflow-skip":
            scale, before = _scale(_SCALE, body), _scale(_FROM, body)
            if scale is None and (hit := _AT.match(body)):
                state["at"] = int(hit[1])  # the next line says what became of the scale
                return
            if scale is not None or before is not None:
                key = f"{before}>{scale}"
            if state["at"] >= 0:
                step = max(state["at"], step or 0)
            rank = None  # the scale is that of the job, whoever tells it
        elif kind in ("cuda-error", "segfault"):
            key = re.sub(r"\d+", "#", key)
        elif kind in ("resume", "checkpoint") and (hit := _STEP_IN.search(body)):
            step = int(hit[1] or hit[2])
        second = (time or "").split(".")[0].split(",")[0]
        if (mark := (kind, rank, key + (second if kind == "overflow-skip" else ""))) in said:
            return
        said[mark] = number
        if kind in _CRASHES:
            state["crashed"] = rows.pulse
        if scale is not None:
            rows.point("loss_scale", scale, number)
        builder.event(body.strip(), kind, number, step, rank, time)

    def close(rank: int | None) -> None:
        trace = opened.pop(rank, None)
        if trace is None or not trace.said:
            return
        name = trace.said.split(":")[0]
        launcher = trace.launcher or _LAUNCHER_NAME.search(name) is not None
        kind = next((kind for kind, pattern in _KINDS[:6] if pattern.search(trace.said)), "traceback")
        emit(kind, trace.said, trace.number, rank, trace.time, launcher)

    def inside(number: int, line: text.Line) -> bool:
        """Whether the line belongs to an open traceback of its rank."""
        trace = opened.get(line.rank)
        if trace is None:
            return False
        body = line.body
        trace.lines += 1
        if _START.match(body):
            if trace.said:
                close(line.rank)
            opened[line.rank] = fresh = _Open(line.time)
            fresh.lines = 0
            return True
        if trace.said:
            if _CHAINED.search(body):
                trace.said = ""
                return True
            if not body.strip():
                return True
            close(line.rank)
            return False
        if _LAUNCHER_FRAME.search(body):
            trace.launcher = True
        if body[:1] in (" ", "\t", "|", "+", "^", "~") or not body:
            return trace.lines < _FRAMES or opened.pop(line.rank, None) is None
        if _EXCEPTION.match(body):
            trace.said, trace.number = body, number
            return True
        if trace.lines > _FRAMES:
            opened.pop(line.rank, None)
        return False

    def see(number: int, raw: str) -> None:
        if number == 0:
            for rank in list(opened):
                close(rank)
            return
        low = raw.lower()
        hinted = any(hint in low for hint in _HINTS)
        if not hinted and not opened:
            return
        line = text.split(raw)
        if opened and inside(number, line):
            return
        if not hinted:
            return
        body = line.body
        if grown := _GROWN.search(body):
            if state["grown"] != rows.pulse:
                rows.point("loss_scale", float(grown[1]), number)
                state["grown"] = rows.pulse  # the other ranks say it too
            return
        if _START.match(body):
            opened[line.rank] = _Open(line.time)
            return
        if hit := _RANK_ROW.match(body):
            state["root_rank"] = int(hit[1])
            return
        if _HARMLESS.search(body):
            return
        launcher = _LAUNCHER_LINE.search(raw) is not None
        if launcher:  # the workers have spoken
            for waiting in [rank for rank, trace in opened.items() if trace.said]:
                close(waiting)
        if not launcher and _CODE.search(body):
            return
        kind = next((kind for kind, pattern in _KINDS if pattern.search(body)), None)
        if kind is None:
            return
        rank = line.rank
        if rank is None and kind in _CRASHES and (hit := _RANK_IN.search(body)):
            rank = int(hit[1])
        if rank is None and launcher and state["root_rank"] >= 0:
            rank = state["root_rank"]
        emit(kind, body, number, rank, line.time, launcher)

    return see


def _scale(pattern: re.Pattern[str], body: str) -> float | None:
    hit = pattern.search(body)
    if hit is None:
        return None
    try:
        return float(hit[1].rstrip("."))
    except ValueError:
        return None
