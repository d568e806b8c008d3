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


@pytest.mark.parametrize("line", ["IndexError: index out of range in self", "KeyError: 'loss' not found at step 3"])
def test_one_line_of_an_error_is_no_empty_table(tmp_path: Path, real_book: Book, line: str) -> None:
    assert seen(tmp_path, real_book, line + "\n").run.files[0].format == "text_log"


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


ROWS = "".join(f"step {n} loss {2.5 - n / 300:.4f} grad_norm 1.{n % 7} lr 1e-4\n" for n in range(1, 61))
MORE = "".join(f"step {n} loss {2.3 - n / 900:.4f} grad_norm 1.{n % 7} lr 1e-4\n" for n in range(61, 121))
TRACE = 'Traceback (most recent call last):\n  File "train.py", line 10, in <module>\n    main()\n'

STOPPED = {
    "disk": TRACE + "OSError: [Errno 28] No space left on device\n",
    "share": TRACE + "OSError: [Errno 116] Stale file handle: '/out/checkpoint-500'\n",
    "worker": TRACE + "RuntimeError: DataLoader worker (pid(s) 411948) exited unexpectedly\n",
    "sample": TRACE + "KeyError: Caught KeyError in DataLoader worker process 3.\n",
    "actor": TRACE + "ray.exceptions.RayActorError: The actor died unexpectedly before finishing this task.\n",
    "driver": TRACE + "RuntimeError: CUDA error: unknown error\n",
    "records": TRACE + "tensorflow.python.framework.errors_impl.DataLossError: corrupted record at 775087002\n",
    "memory of the host": "/var/spool/job191/slurm_script: line 28:  8156 Killed                  python3 main.py\n",
    "memory of the pod": "    State:          Terminated\n      Reason:       OOMKilled\n      Exit Code:    137\n",
    "memory of the device": TRACE
    + "tensorflow.python.framework.errors_impl.ResourceExhaustedError: OOM when allocating "
    "tensor with shape[32,512,3072] and type float on /job:localhost/replica:0/task:0/device:GPU:0\n",
    "link": "n2:984:1357 [4] ib_plugin.c:1615 NCCL WARN NET/IB : Got completion from peer 172.36.143.59<44206> with "
    "status=12 opcode=129 len=65536 vendor err 129 (Recv)\n",
    "peer": "coordination_service.cc:954] /job:jax_worker/replica:0/task:37 has been set to ERROR in coordination "
    "service: UNAVAILABLE: Task /job:jax_worker/replica:0/task:37 heartbeat timeout. This indicates that the remote "
    "task has failed, got preempted, or crashed unexpectedly.\n",
    "node": "slurmstepd: error: *** STEP 771.0 ON n11 CANCELLED AT 2025-03-02T04:11:09 DUE TO NODE FAILURE ***\n",
}


@pytest.mark.parametrize("fault", STOPPED.values(), ids=STOPPED)
def test_a_run_that_an_error_stopped_is_not_healthy(tmp_path: Path, real_book: Book, fault: str) -> None:
    got = seen(tmp_path, real_book, ROWS + fault)
    assert got.verdict == "incident"
    assert states(got)["loss-shape"] == "hang-or-crash"


NO_FAULT = {
    "it went on": ROWS + TRACE + "RuntimeError: CUDA out of memory. Tried to allocate 2.00 GiB.\n" + MORE,
    "another attempt before": TRACE + "RuntimeError: CUDA out of memory. Tried to allocate 2.00 GiB.\n" + ROWS,
    "it was through": ROWS + "Training completed.\n" + TRACE + "requests.exceptions.HTTPError: 403 Client Error\n",
    "a key": ROWS + TRACE + "KeyboardInterrupt\n",
    "a limit": ROWS + "slurmstepd: error: *** JOB 8 ON n17 CANCELLED AT 2025-03-02T04:11:09 DUE TO TIME LIMIT ***\n",
    "a bad batch": ROWS + "INFO: skipping batch 231: loss is nan\n",
    "a row set aside": ROWS
    + "[9.1] NVRM: Xid (PCI:0000:38:00): 63, pid=18, Row Remapper: New row marked for remapping\n",
    "at the end of the interpreter": ROWS
    + "Exception ignored in: <function _Iter.__del__ at 0x7f1>\n"
    + TRACE
    + "AssertionError: can only test a child process\n",
    "a thread": ROWS
    + "Exception in thread Thread-7:\n"
    + TRACE
    + "ConnectionResetError: [Errno 104] Connection reset\n",
    "a warning": ROWS + "n17:881:990 [3] NCCL WARN NET/IB : mlx5_3:1 Got async event : client reregistration\n",
}


@pytest.mark.parametrize("said", NO_FAULT.values(), ids=NO_FAULT)
def test_a_run_that_no_error_stopped_is_healthy(tmp_path: Path, real_book: Book, said: str) -> None:
    assert seen(tmp_path, real_book, said).verdict == "healthy"


def test_who_ended_a_run_by_a_limit_says_nothing_of_its_memory(tmp_path: Path, real_book: Book) -> None:
    for why in ("TIME LIMIT", "PREEMPTION", "NODE FAILURE"):
        got = seen(
            tmp_path, real_book, f"{ROWS}slurmstepd: error: *** JOB 8 ON n17 CANCELLED AT 2025 DUE TO {why} ***\n"
        )
        assert states(got).get("crash-tail", "none") == "none"


def test_an_error_that_was_survived_hides_no_later_end(tmp_path: Path, real_book: Book) -> None:
    oom = TRACE + "RuntimeError: CUDA out of memory. Tried to allocate 2.00 GiB.\n"
    got = seen(tmp_path, real_book, ROWS + oom + MORE + TRACE + "OSError: [Errno 28] No space left on device\n")
    (shape,) = [e for e in got.evidence if e.signal == "loss-shape"]
    assert (shape.state, shape.step) == ("hang-or-crash", 120)
    assert "No space left" in shape.because


SAID = {
    "free(): invalid pointer": ("crash-tail", "segfault"),
    "Memory access fault by GPU node-2 (Agent handle: 0x55) on address 0x7f. Reason: Unknown.": (
        "crash-tail",
        "cuda-fault",
    ),
    "RuntimeError: NPU out of memory. Tried to allocate 2.00 GiB (NPU 0; 60.97 GiB total capacity)": (
        "crash-tail",
        "oom",
    ),
    "RuntimeError: MPS backend out of memory (MPS allocated: 17.9 GB)": ("crash-tail", "oom"),
    "PIL.UnidentifiedImageError: cannot identify image file <_io.BytesIO object at 0x7f>": (
        "batch-inspection",
        "corrupt",
    ),
    "Message truncated : received 1024 bytes instead of 256": ("collective-mismatch", "yes"),
    "[1.6] mlx5_core 0000:5e:00.0: Port module event[error]: module 0, Cable error": ("system-reports-fault", "yes"),
    "Unable to determine the device handle for GPU0000:3B:00.0: Unknown Error": ("xid-code", "bus-lost"),
    "RuntimeError: probability tensor contains either `inf`, `nan` or element < 0": ("first-nonfinite", "forward"),
}


@pytest.mark.parametrize("line", SAID)
def test_what_a_line_says_is_evidence(tmp_path: Path, real_book: Book, line: str) -> None:
    signal, state = SAID[line]
    assert states(seen(tmp_path, real_book, f"{ROWS}{line}\n")).get(signal) == state


def test_a_switch_that_goes_on_stops_no_run(tmp_path: Path, real_book: Book) -> None:
    said = "[9.1] nvidia-nvswitch3: SXid (PCI:0000:c1:00.0): 12028, Non-fatal, Link 44 egress non-posted PRIV error\n"
    assert seen(tmp_path, real_book, ROWS + said).verdict == "healthy"


def test_versions_that_do_not_fit_are_named(tmp_path: Path, real_book: Book) -> None:
    said = {
        "RuntimeError: The NVIDIA driver on your system is too old (found version 11040).",
        "ImportError: flash_attn_2_cuda.cpython-310-x86_64-linux-gnu.so: undefined symbol: _ZN3c104cuda9SetDeviceEi",
        "Failed to initialize NVML: Driver/library version mismatch",
    }
    for line in said:
        assert states(seen(tmp_path, real_book, f"{line}\n")).get("version-mismatch") == "yes"
        assert seen(tmp_path, real_book, f"{line}\n{ROWS}").verdict == "healthy"  # it runs without


LABELS = {
    "[rank3]: ": 3,
    "[default3]:": 3,
    "3: ": 3,
    "2026-11-03T02:00:00.123456789Z stderr F ": None,
    "(Trainer[rank=31] pid=3264030, ip=10.1.101.236) ": 31,
    "node3.run [stderr] ": None,
    "i.pretrain/0 [rank4]:": 4,
    "node12: ": None,
    "[1,3]<stderr>:": 3,
}


@pytest.mark.parametrize("label", LABELS)
def test_what_a_launcher_puts_before_a_traceback_hides_nothing(tmp_path: Path, real_book: Book, label: str) -> None:
    said = "".join(label + line for line in (TRACE + "KeyError: 'labels'\n").splitlines(keepends=True))
    got = seen(tmp_path, real_book, ROWS + said)
    assert got.verdict == "incident"
    (tail,) = [e for e in got.evidence if e.signal == "crash-tail"]
    assert (tail.state, tail.because, tail.rank) == ("python-error", "KeyError: 'labels'", LABELS[label])
