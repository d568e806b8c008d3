"""Logs as people paste them: faults of machines and launchers, and what must not be said about them.

The texts are in our own words; their shapes are those of public issue threads.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from playbook.knowledge.loader import Book
from playbook.workflow.ingest import Ingested, ingest


def seen(tmp_path: Path, book: Book, said: str, name: str = "out.log") -> Ingested:
    (tmp_path / name).write_text(said)
    return ingest([str(tmp_path / name)], book)


def states(got: Ingested) -> dict[str, str]:
    return {e.signal: e.state for e in got.evidence}


KERNEL = {
    "link": "[145291.904971] mlx5_core 0000:41:00.0 ib0: Link DOWN\n[145301.904971] mlx5_core ib0: Link UP\n",
    "share": "[  200.100000] nfs: server 10.9.2.3 not responding, still trying\n[  300.100000] nfs: 10.9.2.3 OK\n",
    "stuck": "[  320.100000] INFO: task python:8812 blocked for more than 120 seconds.\n",
    "memory": "[  100.904971] mce: [Hardware Error]: CPU 3: Machine Check: 0 Bank 7: dc00008000310e0f\n",
    "other vendor": (
        "[ 2679.300365] [drm:amdgpu_job_timedout [amdgpu]] *ERROR* ring comp_1.0.1 timeout, signaled seq=5\n"
        "[ 2679.300601] amdgpu 0000:0c:00.0: amdgpu: GPU reset begin!\n"
    ),
    "queue pair": (
        "[14529.904971] mlx5_core 0000:04:00.0: mlx5_cmd_check:795:(pid 12): RTR2RTS_QP(0x504) op_mod(0x0) failed,"
        " status bad parameter(0x3), syndrome (0x4bb)\n"
    ),
}


@pytest.mark.parametrize("fault", KERNEL)
def test_a_kernel_log_with_a_fault_is_not_called_healthy(tmp_path: Path, real_book: Book, fault: str) -> None:
    got = seen(tmp_path, real_book, KERNEL[fault], "dmesg.txt")
    assert got.verdict == "undecided" and got.run.events


def test_a_quiet_kernel_log_is_healthy(tmp_path: Path, real_book: Book) -> None:
    said = "[    1.000000] mlx5_core mlx5_5: Port: 1 Link ACTIVE\n[    2.000000] amdgpu: ring sdma0 uses inv eng 12\n"
    assert seen(tmp_path, real_book, said, "dmesg.txt").verdict == "healthy"


LOST = (
    "[ 1843.308145] NVRM: The NVIDIA GPU 0000:41:00.0\n"
    "               NVRM: (PCI ID: 10de:2330) installed in this system has\n"
    "               NVRM: fallen off the bus and is not responding to commands.\n",
    "[   49.261458] NVRM: GPU at 0000:41:00.0 has fallen off the bus.\n",
)


@pytest.mark.parametrize("said", LOST)
def test_a_lost_gpu_without_an_xid_is_found(tmp_path: Path, real_book: Book, said: str) -> None:
    got = states(seen(tmp_path, real_book, said, "dmesg.txt"))
    assert (got["xid-code"], got["crash-tail"], got["loss-shape"]) == ("bus-lost", "device-lost", "hang-or-crash")


def test_an_xid_of_the_memory_is_an_ecc_report(tmp_path: Path, real_book: Book) -> None:
    said = "[1189203.551000] NVRM: Xid (PCI:0000:3b:00): 94, pid=881, name=python, Contained: SM (0x1)\n"
    assert states(seen(tmp_path, real_book, said, "dmesg.txt"))["gpu-errors"] == "ecc"


def test_the_signal_that_the_launcher_sends_is_not_what_killed_the_worker(tmp_path: Path, real_book: Book) -> None:
    said = (
        "WARNING:torch.distributed.elastic.multiprocessing.api:Sending process 812 closing signal SIGTERM\n"
        "ERROR:torch.distributed.elastic.multiprocessing.api:failed (exitcode: -9) local_rank: 3 (pid: 815) of p\n"
        "torch.distributed.elastic.multiprocessing.errors.ChildFailedError: \n"
    )
    got = seen(tmp_path, real_book, said)
    (tail,) = (e for e in got.evidence if e.signal == "crash-tail")
    assert tail.state == "killed" and tail.origin.line == 2 and "-9" in (tail.because or "")


def test_a_sentence_of_an_error_is_no_table(tmp_path: Path, real_book: Book) -> None:
    said = (
        "RuntimeError: cuda runtime error (39) : uncorrectable ECC error encountered at /src/Allocator.cpp:265\n"
        "terminate called without an active exception\n"
    )
    got = seen(tmp_path, real_book, said)
    assert got.run.files[0].format == "text_log" and states(got)["gpu-errors"] == "ecc"


def test_overflows_without_a_row_between_are_no_steady_scale(tmp_path: Path, real_book: Book) -> None:
    said = "".join(
        f"Gradient overflow.  Skipping step, loss scaler 0 reducing loss scale to {2.0**n}\n" for n in range(9, -1, -1)
    )
    assert states(seen(tmp_path, real_book, said))["loss-scale-before"] == "collapses"


TAILS = {
    "EI0002: [PID: 31] 2025-10-11-15:09:34.713 The wait execution of the Notify register times out.": "nccl-timeout",
    "XlaRuntimeError: RESOURCE_EXHAUSTED: compile error. Ran out of memory in memory space hbm.": "oom",
    "(Worker(train-1) pid=18, ip=10.0.0.4) ValueError: no rows in the shard": "python-error",
    "stderr: ValueError: no rows in the shard": "python-error",
}


@pytest.mark.parametrize("said", TAILS)
def test_the_last_line_names_the_end(tmp_path: Path, real_book: Book, said: str) -> None:
    assert states(seen(tmp_path, real_book, f"step 3 loss 2.5\nstep 4 loss 2.4\n{said}\n"))["crash-tail"] == TAILS[said]
