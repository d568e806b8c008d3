"""How a run ended, told by a log that lies beside its curve: a crash is no healthy run, a warning is no crash."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from playbook.knowledge.loader import Book
from playbook.workflow.ingest import Ingested, ingest

NOISE = np.random.default_rng(5).normal(size=(301, 2))
CURVE = "step,loss,grad_norm,lr\n" + "".join(
    f"{n},{2.0 + 2.0 / (1 + n / 60) + 0.02 * NOISE[n, 0]:.4f},{1 + 0.1 * NOISE[n, 1]:.3f},1e-4\n" for n in range(1, 301)
)
SAID = "".join(f"2025-03-02 04:{n // 60:02d}:{n % 60:02d} INFO prepared shard {n} of the corpus\n" for n in range(200))
TRACE = 'Traceback (most recent call last):\n  File "train.py", line 10, in <module>\n    main()\n'
OOM = TRACE + "torch.cuda.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.\n"
VALUE = TRACE + "ValueError: expected 5 columns, got 4\n"
LIMIT = "slurmstepd: error: *** JOB 8 ON n17 CANCELLED AT 2025-03-02T04:11:09 DUE TO TIME LIMIT ***\n"
PEER = "[rank1]: torch.distributed.DistBackendError: NCCL error in: ProcessGroupNCCL.cpp:1275, remote process exited\n"


def beside(folder: Path, book: Book, curve: str = CURVE, **logs: str) -> Ingested:
    """What is said of a curve with logs beside it; `train_log` is the file train.log."""
    (folder / "metrics.csv").write_text(curve)
    for name, said in logs.items():
        (folder / name.replace("_", ".")).write_text(said)
    return ingest([str(folder)], book)


CRASHED = {
    "an exception": SAID + VALUE,
    "memory": SAID + OOM,
    "a segfault": SAID + "Fatal Python error: Segmentation fault\n",
    "a device": SAID + TRACE + "RuntimeError: CUDA error: device-side assert triggered\n",
    "a collective": SAID + PEER,
    "other ranks and the launcher speak after it": SAID
    + VALUE
    + PEER * 3
    + "W0302 04:12:00.1 41 elastic/multiprocessing/api.py:897] Sending process 43 closing signal SIGTERM\n"
    + "srun: error: n17: task 3: Exited with exit code 1\n"
    + "wandb: Run history:\n" * 20,
    "caught before, and then not": SAID + VALUE + SAID + OOM,
    "stopped and cancelled": SAID + VALUE + LIMIT,
}


@pytest.mark.parametrize("said", CRASHED.values(), ids=CRASHED)
def test_a_log_without_rows_that_ends_in_an_error_is_a_crash(tmp_path: Path, real_book: Book, said: str) -> None:
    got = beside(tmp_path, real_book, train_log=said)
    (shape,) = [e for e in got.evidence if e.signal == "loss-shape"]
    assert (got.verdict, shape.state, shape.step) == ("incident", "hang-or-crash", 300)
    assert shape.origin is not None and shape.origin.path.endswith("train.log") and shape.origin.line
    assert shape.because in said


QUIET = {
    "nothing but words": SAID,
    "warnings": SAID + "2025-03-02 04:09:00 WARNING UserWarning: lr_scheduler.step() before optimizer.step()\n" * 3,
    "an exception logged as a warning": SAID + "2025-03-02 04:09:00 WARNING OSError: [Errno 5] read failed\n",
    "an exception that is tried again": SAID + "ConnectionError: hub not reached, retrying in 5 s\n",
    "caught": SAID + VALUE + SAID,
    "through": SAID + "Training completed.\n" + VALUE,
    "a key": SAID + TRACE + "KeyboardInterrupt\n",
    "a key and what the other ranks cry": SAID + TRACE + "KeyboardInterrupt\n" + PEER,
    "a limit": SAID + LIMIT,
    "a limit and what the ranks cry": SAID + LIMIT + PEER,
    "a signal": SAID + "Received SIGTERM, saving and leaving\n" + TRACE + "RuntimeError: DataLoader worker is gone\n",
    "at exit": SAID + "Exception ignored in: <function _Iter.__del__>\n" + TRACE + "AssertionError: no child\n",
    "tried again in the same file": VALUE + "Resuming training from checkpoint-200\n" + SAID[:2000],
}


@pytest.mark.parametrize("said", QUIET.values(), ids=QUIET)
def test_a_log_without_rows_that_ends_otherwise_leaves_a_healthy_run_alone(
    tmp_path: Path, real_book: Book, said: str
) -> None:
    assert beside(tmp_path, real_book, train_log=said).verdict == "healthy"


def rows(first: int, last: int, every: int = 1) -> str:
    named = [line.split(",") for line in CURVE.splitlines()[1:]]
    return "".join(
        f"step {n} loss {loss} grad_norm {norm} lr {lr}\n"
        for n, loss, norm, lr in named
        if first <= int(n) <= last and int(n) % every == 0
    )


def test_rows_that_repeat_the_curve_hide_no_crash(tmp_path: Path, real_book: Book) -> None:
    assert beside(tmp_path, real_book, train_log=rows(1, 300, 20) + VALUE).verdict == "incident"


def test_an_attempt_that_ended_long_before_the_curve_is_over(tmp_path: Path, real_book: Book) -> None:
    assert beside(tmp_path, real_book, train_log=rows(1, 150) + VALUE).verdict == "healthy"


def test_a_later_attempt_is_the_end(tmp_path: Path, real_book: Book) -> None:
    assert beside(tmp_path, real_book, **{"job-7_log": SAID + VALUE, "job-8_log": SAID}).verdict == "healthy"
    said = "Resuming training from checkpoint-200\n" + SAID
    assert beside(tmp_path, real_book, **{"job-7_log": SAID + VALUE, "again_log": said}).verdict == "healthy"


def test_the_last_attempt_and_the_other_stream_count(tmp_path: Path, real_book: Book) -> None:
    assert beside(tmp_path, real_book, **{"job-7_log": SAID, "job-8_log": SAID + VALUE}).verdict == "incident"
    (tmp_path / "job-8.log").unlink()
    said = "Resuming training from checkpoint-10\n" + SAID
    assert beside(tmp_path, real_book, job_out=said, job_err=VALUE).verdict == "incident"


def test_a_curve_with_restarts_does_not_say_which_attempt_a_log_is_of(tmp_path: Path, real_book: Book) -> None:
    lines = CURVE.splitlines(keepends=True)
    again = "".join(lines[:201] + lines[151:])
    assert beside(tmp_path, real_book, again, train_log=SAID + VALUE).verdict == "healthy"
