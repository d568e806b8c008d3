"""Notable lines of text logs: what becomes an event, with which kind, and what does not."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from playbook.errors import PlaybookError
from playbook.knowledge.loader import Book
from playbook.readers import claim
from playbook.readers.base import RunBuilder
from playbook.readers.logs import text_log
from playbook.readers.source import Source
from tests.reading import parsed

# Lines that are notable only inside the output of their tool (nvidia-smi -q, a table of dcgmi), and rows; and what the
# readers of counters and GPUs say themselves (their samples hold it).
ONLY_IN_PLACE = re.compile(
    r"^\s+HW \w+.* : Active$|^\| \w+ +\| Fail|^# Out of bounds|^ iteration"
    r"|^GPU \d+ ?[:(]|^.* rose by \d|^mlx5_\d port|^dcgmi diag: all"
)


def test_the_lines_that_signals_wait_for_become_events(tmp_path: Path, real_book: Book) -> None:
    """A pattern over the log is dead when no reader keeps the line that it was written for."""
    path = tmp_path / "train.log"
    dead: list[tuple[str, str]] = []
    for signal in real_book.signals.values():
        for pattern in signal.log:
            for line in pattern.match:
                path.write_text(line + "\n")
                texts: list[str] = []
                for reader in (claim(Source(path, "x").head(), path), text_log):
                    builder = RunBuilder("x", "x", patterns=real_book.patterns)
                    try:
                        if reader is not None:
                            reader.read(Source(path, "x"), builder)
                    except PlaybookError:
                        continue
                    texts += [event.text for event in builder.events]
                if not any(re.search(pattern.pattern, text) for text in texts) and not ONLY_IN_PLACE.match(line):
                    dead.append((signal.id, line))
    assert not dead


ORDINARY = """\
NCCL_ASYNC_ERROR_HANDLING is deprecated, use TORCH_NCCL_ASYNC_ERROR_HANDLING instead
Warning: WARNING: destroy_process_group() was not called before program exit, which can leak resources.
Loading checkpoint shards: 100%|##########| 2/2 [00:05<00:00,  2.61s/it]
[2023-04-18 03:20:44,459] [INFO] [launch.py:460:main] Process 73584 exits successfully.
  check_for_nan_in_loss_and_grad .................. True
  save ............................................ /ckpt/resume-from-nan
def resume(path):  # loading checkpoint after a NCCL error
    raise RuntimeError("CUDA out of memory: NaN found in loss")
print(f"step {step}: loss is nan {loss:.3f}, skipping step")
Setting OMP_NUM_THREADS environment variable for each process to be 1 in default
/opt/torch/checkpoint.py:31: FutureWarning: `torch.cuda.amp.autocast(args...)` is deprecated. CUDA error checks moved.
No Grad overflow for 100 iterations
node-a:3121:3121 [0] NCCL INFO NET/IB : No device found, error ignored
2024-05-01 10:00:00,000 INFO trainer: logging to train.log, 0 errors so far
deepspeed main.py --resume_from_checkpoint none --skip_steps 0
export NCCL_DEBUG=INFO
Starting training from iteration 0
torch.nan_to_num is used for the mask; information about infinite datasets follows
  (3): CrossEntropyLoss(ignore_index=-100)
number of nan iterations:   0
<6>[    2.875476] ata3: SATA link down (SStatus 0 SControl 300)
best checkpoint score so far 0.91
the dataset has 12 skipped documents
"""

NOTABLE = {
    "oom": [
        "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.25 GiB.",
        "RuntimeError: CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`",
        "jax: RESOURCE_EXHAUSTED: Out of memory while trying to allocate 1024 bytes.",
    ],
    "cuda-error": [
        "RuntimeError: CUDA error: an illegal memory access was encountered",
        "RuntimeError: cuDNN error: CUDNN_STATUS_EXECUTION_FAILED",
        "terminate called: CUDA error: unspecified launch failure",
    ],
    "nccl": [
        "[rank3]:[E1 12:00:00.123 ProcessGroupNCCL.cpp:616] [Rank 3] Watchdog caught collective operation timeout",
        "torch.distributed.DistBackendError: NCCL error in: ../torch/csrc/distributed/c10d/NCCLUtils.hpp:219",
        "RuntimeError: [1] is setting up NCCL communicator and retrieving ncclUniqueId: Connection reset by peer",
    ],
    "killed": [
        "slurmstepd: error: *** STEP 12.0 ON n1 CANCELLED AT 2025-01-01T00:00:00 DUE TO TIME LIMIT ***",
        "/var/spool/job: line 12: 3021 Killed                  python train.py",
        "Received signal 15, exiting: SIGTERM",
    ],
    "segfault": ["Fatal Python error: Segmentation fault", "*** Signal 11 (SIGSEGV) received by PID 3021"],
    "overflow-skip": [
        "Gradient overflow.  Skipping step, loss scaler 0 reducing loss scale to 256.0",
        "NOTE: gradient overflow detected, ignoring gradient, setting loss scale to: 64.0",
    ],
    "warning-loss-scale": [
        "Exception: Current loss scale already at minimum - cannot decrease scale anymore. Exiting run."
    ],
    "nan-line": [
        "Loss is nan, stopping training",
        "WARNING: NaN or Inf found in input tensor.",
        "found NaN in local forward loss calculation. Device: 3, node: host-a",
    ],
    "resume": [
        "Resuming from ./checkpoints/checkpoint_0705000.pt",
        " > loading distributed checkpoint from /ckpt at step 12",
    ],
    "checkpoint": [
        "Saving model checkpoint to out/checkpoint-500",
        "successfully saved checkpoint at iteration 1000 to /ckpt",
    ],
    "io-error": ["cp: error writing '/out/step_500.pt': No space left on device"],
    "xid": ["NVRM: Xid (PCI:0000:38:00): 79, pid=1, GPU has fallen off the bus."],
    "dataloader": ["WARNING trying to fetch item, but prefetch buffer is empty"],
    "traceback": [
        "ValueError: Expected more than 1 value per channel when training, got input size torch.Size([1, 256])"
    ],
}


def test_ordinary_lines_are_no_events(tmp_path: Path) -> None:
    data = ("step 1 loss 3.0\n" + ORDINARY).encode()
    assert [event.text for event in parsed(data, tmp_path / "log", "text_log").events] == []


@pytest.mark.parametrize("kind, line", [(kind, line) for kind, lines in NOTABLE.items() for line in lines])
def test_notable_lines_have_their_kind(tmp_path: Path, kind: str, line: str) -> None:
    data = f"step 1 loss 3.0\n{line}\nstep 2 loss 3.0\n".encode()
    (event,) = parsed(data, tmp_path / "log", "text_log").events
    assert (event.kind, event.origin.line, event.step) == (kind, 2, event.step)


def test_a_line_that_all_ranks_repeat_is_one_event_and_a_label_keeps_them_apart(tmp_path: Path) -> None:
    line = "Loss is nan, stopping training\n"
    assert len(parsed(b"step 1 loss nan\n" + line.encode() * 8, tmp_path / "log", "text_log").events) == 1
    labelled = "".join(f"[rank{rank}]: {line}" for rank in range(4))
    events = parsed(b"step 1 loss nan\n" + labelled.encode(), tmp_path / "log", "text_log").events
    assert [event.rank for event in events] == [0, 1, 2, 3]
