"""What makes a line of a text log notable: kinds with their patterns, quick hints, and what only looks like it.

The texts are those of PyTorch, CUDA, NCCL, DeepSpeed, Megatron-LM, fairseq, apex, transformers, accelerate, Lightning,
slurm, torchrun and the kernel. A line gets the first kind that fits; what it means is said by the signals of the book.
"""

from __future__ import annotations

import re
from functools import lru_cache

from playbook.readers.machine import kernel_log
from playbook.readers.signatures import Signatures, compiled

KINDS: tuple[tuple[str, re.Pattern[str]], ...] = (
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
            r"oom[_-]kill(?:er)?\b|^\d[\w.+]* .*\bOUT_OF_ME"
            r"|DUE TO (?:TIME LIMIT|PREEMPTION|NODE FAILURE|TASK FAILURE)|CANCELLED AT"
            r"|\bSIGKILL\b|\bSIGTERM\b(?!.*ignor)"
            r"|got signal: ?\d+|[Rr]eceived (?:signal )?\d+ death signal|\bsignal 9\b|\bsignal 15\b"
            r"|return code = -9\b|\bexit code:? +137\b|killed by signal|^\s*Killed\s*$|: \d+ Killed\b"
            r"|^KeyboardInterrupt|exited on signal (?:2|9|15)\b|Terminated\s*$|Caught signal (?:15|9|2)\b"
            r"|[Pp]reempted\b|main process received SIG(?:INT|TERM)"
            # what the kubelet and the scheduler of Kubernetes write of a pod that they end
            r"|(?:Reason:|Warning|Status:)\s+Evicted\b|\b[Pp]od\b.{0,80}\bevicted\b"
            r"|low on resource: |total limit of containers|EmptyDir volume .* exceeds the limit"
            r"|longer than the specified deadline|deletion due to NoExecute taint",
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
        "aborted",
        re.compile(
            r"exits with return code = (?!-?(?:0|9|15)\b)-?\d+"
            r"|MPI_A(?:BORT|bort)\b.*(?:invoked|called|rank|process)|called MPI_Abort|exited with non-zero status"
            r"|exited on signal \d+|[OP]RTE has lost communication|: task [\d,\-]+: Exited with exit code [1-9]"
            r"|: task \d+ launch failed|Unable to create step for job"
        ),
    ),
    (
        "nccl",
        re.compile(
            r"NCCL WARN|lagging/dead/mismatched ranks|detected by watchdog at work|Timed out waiting \d+ms"
            r"|NCCL (?:error|timeout|failure)|[Nn][Cc][Cc][Ll] (?:operation"
            r"|communicator).{0,40}(?:fail|abort|time|error)|DistBackendError"
            r"|nccl(?:System|UnhandledCuda|Internal|Remote|InvalidUsage|InvalidArgument)(?:Error)?\b"
            r"|Watchdog caught collective|collective operation timeout"
            r"|ProcessGroupNCCL(?:'s)? (?:watchdog|heartbeat)|[Hh]eartbeat monitor timed out"
            r"|[Dd]etected mismatch between collectives"
            r"|Some NCCL operations have failed|monitoredBarrier|store->get|[Tt]imed out.{0,60}(?:store"
            r"|barrier|clients|rendezvous)|DistStoreError"
            r"|Connection (?:closed by|reset by) (?:remote )?peer|Socket Timeout|HCCL.{0,60}(?:[Ee]rror"
            r"|fail|time ?out)|Timeout at NCCL work|async(?:hronous)? NCCL"
            r"|Got completion from peer .{0,80}(?:status=|error )|\bEI000[26]: |Notify register times out"
            r"|Getting socket times out|\bHccl\w+, error code|client socket has timed out"
            r"|Rendezvous(?:Connection|Timeout)Error|[Ll]ast enqueued (?:NCCL )?work: |[Mm]issing ranks(?: are|:) \{"
            r"|stopped sending heartbeats|distributed service detected fatal errors"
            r"|finished collective #\d+|lagging ranks that caused|joined any collectives|Not all ranks joining",
        ),
    ),
    (
        "cuda-error",
        re.compile(
            r"CUDA (?:driver )?error|HIP error|NPU (?:function )?error\b|NPU warning, error"
            r"|device-side assert|cudaError(?!MemoryAlloc)\w+"
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
            r"OVERFLOW!|[Gg]rad(?:ient)?s? overflow|[Oo]verflow detected|[Ss]kipping (?:this |the )?(?:step"
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
            r"|went|produced|hit)\b.{0,25}?\b(?:nans?|non-?finite|infinite|inf)\b(?!\w|=|: ?\d))"
            r"|diverged with loss = nan|nan loss (?:during|encountered)|invalid loss, terminating"
            r"|non-?finite loss, ending",
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
            r"(?:optimizer|scheduler|sampler|random|scaler|model) (?:states?|weights) loaded successfully"
            r"|Could not load random states|Didn't find an RNG file|\b[Rr]esum(?:ed|ing) (?:from|at"
            r"|training|run|checkpoint|the)\b|\b(?:[Ll]oad(?:ed|ing)"
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
            r"|read)\w*.{0,30}(?:checkpoint|ckpt)|[Cc]hecksum mismatch"
            r"|(?:Missing|Unexpected) key\(s\) in state_dict|size mismatch for \S+: copying|unexpected EOF, expected"
            r"|Error while deserializing header|DP world size of \d+",
        ),
    ),
    (
        "setting",
        re.compile(
            r"\(from args\) != |mismatch TrainingArguments values|it will override any value given in"
            r"|Setting args\.\w+ to |overriding \w[\w ]{2,30} value to|using checkpoint value \S+ for"
        ),
    ),
    ("dataloader", re.compile(r"prefetch buffer is empty|DataLoader timed out|[Dd]ata ?[Ll]oader worker.{0,40}exited")),
    ("gpu", re.compile(r"Unable to determine the device handle|GPU is lost|GPU requires reset")),
    (
        "warning",
        re.compile(
            r"None of the inputs have requires_grad|did not receive grad|Could not find response key"
            r"|Token indices sequence length is longer|before `?optimizer\.step\(\)"
        ),
    ),
    (
        "end",
        re.compile(
            r"`?Trainer\.fit`? stopped:|after training is done"
            r"|^\W*(?:[\w.\-]+: )?[Tt]raining (?:has |is |was )?(?:completed?|finished|done)\b"
            r"|^\W*[Ff]inished training\b|^\W*train_runtime\W"
        ),
    ),
    ("stack", re.compile(r"^\s+[\w<>.]+ \(\S+\.(?:py|pyx|cpp|cc|c|cu|h):\d+\)\s*$")),  # py-spy dump
)
# Kinds that an exception line may have; any other is a "traceback".
OF_EXCEPTIONS = ("xid", "oom", "killed", "segfault", "nccl", "cuda-error")
CRASHES = frozenset(("oom", "killed", "segfault", "aborted", "nccl", "cuda-error", "traceback"))

# Lower-case fragments, one of which every notable line has; most lines have none and cost no regular expression.
HINTS = (
    "traceback", "error", "memory", "oom", "kill", "signal", "segfault", "nccl", "hccl", "cuda", "cublas", "cudnn",
    "xid", "overflow", "skip", "scale", "nan", "finite", "resum", "checkpoint", "ckpt", "restor",
    "cancelled", "assert", "sigterm", "sigbus", "terminated", "core dumped", "ignoring gradient", "timed out",
    "timeout", "death", "preempt", "no space", "quota", "stale", "watchdog", "start from random",
    "starting training", "continuing training", "exhausted", "uncorrectable", "barrier", "collective", "interrupt",
    "sigint", "fault", "failed", "exitcode", "connection", "local_rank", "states loaded", "rng file", "random states",
    "from args", "mismatch", "override", "overriding", "prefetch", "device handle", "state_dict", "unexpected eof",
    "deserializ", "requires_grad", "receive grad", "response key", "exception", "setting args", "sequence length",
    "before `optimizer", "dp world size", "missing key", "completion from peer", "times out", "hccl", "socket has",
    "rendezvous", "npu warning", "npu error", "npu function error", "invalid loss", "diverged", "due to node",
    "due to task", "due to time", "sigsegv", "store->get", "ei0002", "ei0006", "unspecified launch",
    "tried to decrease", "transport endpoint", "read-only file", "loaded successfully", "saving model weights",
    "loader worker", "gpu is lost", "gpu requires", "restarting from",
    "enqueued work", "missing ranks", "lagging ranks", "all ranks joining", "stopped:",
    "heartbeats", "distributed service", "create step",
    "training is", "training complete", "training finished", "training done", "training has", "training was",
    "finished training", "train_runtime", "return code", "exit code", "mpi_abort", "non-zero status", "exited on",
    "lost communication", "evicted", "low on resource", "limit of containers", "emptydir", "specified deadline",
    "noexecute", "retry", "continuing with", "out_of_me",
)  # fmt: skip

# Harmless lines that look like more (README of the collection: rule 11).
HARMLESS = re.compile(
    r"^No Grad overflow|not loading|[Ss]tarting training from (?:step|iteration|epoch) [01]\b"
    r"|NCCL_ASYNC_ERROR_HANDLING|destroy_process_group|NCCL INFO|TORCH_NCCL_\w+ ?(?:is|=)"
    r"|nan_to_num|check_for_nan|inotify_add_watch|[Ss]ending process \d+ closing signal"
    r"|^(?!.*Skipping).*\bhysteresis\b|skip_nan|ignore_nan|ignores?_index"
    r"|loading checkpoint shards|Set(?:ting)? CUDA|FutureWarning|DeprecationWarning"
    r"|nan iterations: +0|exits? successfully|--\w*(?:resume|checkpoint)"
    r"|^Compile with `TORCH_USE_CUDA_DSA`|^For debugging consider|^CUDA kernel errors might|CUDA_LAUNCH_BLOCKING=1",
    re.IGNORECASE,
)
# What source code looks like (logs of modded-nanogpt print their whole script) and lines of printed configurations.
CODE = re.compile(
    r"^\s*(?:def |class |import |from \w[\w.]* import |if [^:]*:\s*$|elif |else:"
    r"|for \w.* in .*:\s*$|while .*:\s*$|return\b|raise \w|print\w*\(|assert |with .*:\s*$"
    r"|try:|except\b.*:|@\w|#|\"\"\"|'''|[\w.\[\]]+(?:, ?[\w.\[\]]+)* ?(?:=|\+=|-=|:=) |self\."
    r"|super\(|[fr]?[\"']|//|/\*|[{}\])]|\w+\(\w*\)?[,)]*$)"
    r"|\{[a-z_]\w*(?:[.\[(:!}])|\.{4,} \S|^\s*\w+ \.{2,}|^\+ |^\s*\(\w+\): \w+\("
)
_INFINITY = re.compile(r"\binf(?!o)")  # not the level of a logger
_KERNEL_HINTS = (
    "nvrm", "kernel", "bug:", "mce", "machine check", "aer:", "pcie bus", "link down", "link is down",
    "blocked for more",
    "lockup", "i/o error", "edac", "out of memory", "oom", "hardware error", "netdev watchdog",
    "sxid", "pcie bandwidth", "amdgpu", "nfs: server", "lustre",
)  # fmt: skip


def signatures(patterns: tuple[str, ...]) -> Signatures:
    """What a reader was asked to look for; words that every line is searched for anyway cost nothing more."""
    return compiled(patterns, HINTS + _KERNEL_HINTS)


def hinted(line: str, words: tuple[str, ...] | None = None) -> bool:
    """Whether a line may be notable; says no to most lines, quickly. `words` are the `hints` that are looked for."""
    low = line.lower()
    for word in words or hints(()):  # a third of the time of one pattern for all, half that of `any`
        if word in low:
            return True
    return ("inf" in low and _INFINITY.search(low) is not None) or (line[:2] == "  " and line.endswith(")"))


@lru_cache(maxsize=8)
def hints(patterns: tuple[str, ...]) -> tuple[str, ...]:
    """The fragments one of which every notable line has (infinity apart); none that holds another one."""
    words = dict.fromkeys((*HINTS, *_KERNEL_HINTS, *signatures(patterns).hints))
    return tuple(word for word in words if not any(other != word and other in word for other in words))


def kind_of(body: str) -> str | None:
    """The kind of a line, None for an ordinary one."""
    low = body.lower()
    if any(hint in low for hint in _KERNEL_HINTS) and not kernel_log.ORDINARY.search(body):
        kind = next((kind for kind, pattern in kernel_log.KINDS if pattern.search(body)), None)
        if kind is not None:
            return kind
    return next((kind for kind, pattern in KINDS if pattern.search(body)), None)


def kind_of_exception(said: str) -> str:
    """The kind of the last line of a traceback."""
    return next((kind for kind, pattern in KINDS if kind in OF_EXCEPTIONS and pattern.search(said)), "traceback")
