"""Last words of jobs as launchers, schedulers and frameworks write them: what is heard, and what it leads to."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from playbook.readers.logs import notable_words
from playbook.workflow.ingest import Ingested, ingest
from playbook.workflow.session import Session
from tests.lab import judge

TRACE = 'Traceback (most recent call last):\n  File "train.py", line 10, in <module>\n    main()\n'
START = "2026-05-01 10:00:00 INFO train: starting\n"


def read(folder: Path, said: str) -> Ingested:
    file = folder / "run.log"
    file.write_text(START + said)
    return ingest([str(file)], judge.library().book)


def told(folder: Path, said: str) -> dict[str, str]:
    return {e.signal: e.state for e in read(folder, said).evidence}


def judged(got: Ingested) -> Session:
    book = judge.library()
    session = Session(book.book, book.tables)
    session.observe(got.evidence)
    return session


SIGNAL_9 = {
    "mpirun": "mpirun noticed that process rank 3 with PID 0 on node node03 exited on signal 9 (Killed).\n",
    "deepspeed": "[2025-12-01 10:00:00,003] [ERROR] [launch.py:321:sigkill_handler] ['/usr/bin/python', 'train.py'] "
    "exits with return code = -9\n",
    "a container": "command terminated with exit code 137\n",
}


@pytest.mark.parametrize("said", SIGNAL_9.values(), ids=SIGNAL_9)
def test_signal_9_is_heard_of_every_launcher(tmp_path: Path, said: str) -> None:
    assert told(tmp_path, said)["crash-tail"] == "killed"


NO_HOST_MEMORY = {
    "torch": "RuntimeError: [enforce fail at alloc_cpu.cpp:117] err == 0. DefaultCPUAllocator: can't allocate memory: "
    "you tried to allocate 137438953472 bytes. Error code 12 (Cannot allocate memory)",
    "a fork": "OSError: [Errno 12] Cannot allocate memory",
    "python": "MemoryError",
}


@pytest.mark.parametrize("said", NO_HOST_MEMORY.values(), ids=NO_HOST_MEMORY)
def test_host_memory_that_was_refused_leads_to_the_host_and_decides_nothing(tmp_path: Path, said: str) -> None:
    """One request that was too large is refused as well."""
    got = read(tmp_path, TRACE + said + "\n")
    assert {e.signal: e.state for e in got.evidence}["crash-tail"] == "host-oom"
    found = judged(got).diagnosis()
    assert found.causes[0].class_ == "host_or_input_stall" and not found.decided


@pytest.mark.parametrize(
    "said", ["PytorchStreamWriter failed writing file data/12: file write failed", "unexpected pos 4096 vs 3990"]
)
def test_a_writer_that_failed_speaks_of_the_file_system_first(tmp_path: Path, said: str) -> None:
    got = read(tmp_path, TRACE + f"RuntimeError: [enforce fail at inline_container.cc:337] . {said}\n")
    assert judged(got).diagnosis().causes[0].id == "filesystem-stall"


@pytest.mark.parametrize("code", [-11, -6])
def test_a_bare_native_crash_is_spread_over_causes(tmp_path: Path, code: int) -> None:
    assert judged(read(tmp_path, f"  exitcode  : {code} (pid: 24711)\n")).diagnosis().causes[0].probability < 0.5


# --- chains and launchers ---------------------------------------------------------------------------------------------

OOM = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB."
FULL = "OSError: [Errno 28] No space left on device"
DURING = "\nDuring handling of the above exception, another exception occurred:\n\n"
CAUSE = "\nThe above exception was the direct cause of the following exception:\n\n"
CLEANING = "RuntimeError: cannot schedule new futures after shutdown"
LOST = (
    "[rank1]: torch.distributed.DistBackendError: NCCL error in: ProcessGroupNCCL.cpp:2027, remote process exited or "
    "there was a network error, NCCL version 2.21.5\n"
)


@pytest.mark.parametrize("link", [DURING, CAUSE])
def test_what_fails_while_a_crash_is_handled_hides_no_crash(tmp_path: Path, link: str) -> None:
    assert told(tmp_path, TRACE + OOM + "\n" + link + TRACE + CLEANING + "\n")["crash-tail"] == "oom"


def test_the_direct_cause_of_an_exception_is_heard(tmp_path: Path) -> None:
    said = TRACE + FULL + "\n" + CAUSE + TRACE + "SaveError: step 400 was not written\n"
    assert told(tmp_path, said)["storage-errors"] == "full"


def test_what_was_handled_on_the_way_to_another_exception_is_not(tmp_path: Path) -> None:
    said = TRACE + "KeyError: 'tok'\n" + DURING + TRACE + "ValueError: no tokenizer\n"
    (event,) = [e for e in read(tmp_path, said).run.events if e.kind == "traceback"]
    assert event.text == "ValueError: no tokenizer"


@pytest.mark.parametrize(
    "said",
    [
        "numpy.core._exceptions._ArrayMemoryError: Unable to allocate 24.0 GiB for an array with shape (3221225472,)",
        "zlib.error: Error -3 while decompressing data: incorrect header check",
        "socket.gaierror: [Errno -2] Name or service not known",
    ],
)
def test_names_of_exceptions_that_begin_otherwise_end_a_traceback(tmp_path: Path, said: str) -> None:
    (event,) = [e for e in read(tmp_path, TRACE + said + "\n").run.events if e.kind == "traceback"]
    assert event.text == said


def test_the_launcher_knows_who_was_killed_while_the_others_waited(tmp_path: Path) -> None:
    said = told(tmp_path, LOST * 2 + "  exitcode  : -9 (pid: 4187)\n")
    assert said["crash-tail"] == "killed"


def test_whom_the_launcher_killed_after_a_crash_is_no_news(tmp_path: Path) -> None:
    assert told(tmp_path, TRACE + OOM + "\n" + LOST + "  exitcode  : -9 (pid: 4187)\n")["crash-tail"] == "oom"


# --- beside and behind a run that was well ----------------------------------------------------------------------------

LIMIT = "slurmstepd: error: *** JOB 8 ON n17 CANCELLED AT 2025-03-02T04:11:09 DUE TO TIME LIMIT ***\n"
LOSSES = [2.0 + 2.0 / (1 + n / 60) + 0.01 * (n * 7 % 5) for n in range(1, 301)]
CURVE = "step,loss\n" + "".join(f"{n},{loss:.4f}\n" for n, loss in enumerate(LOSSES, 1))
PRINTED = "".join(
    f"{{'loss': {loss:.4f}, 'learning_rate': 1e-05, 'epoch': {n / 100:.2f}}}\n" for n, loss in enumerate(LOSSES, 1)
)
ROWS = "".join(f"step {n} loss {loss:.4f} lr 1e-4\n" for n, loss in enumerate(LOSSES, 1))
WORDS = "".join(f"2025-03-02 04:{n // 60:02d}:{n % 60:02d} INFO prepared shard {n}\n" for n in range(200))


def test_what_ranks_cry_after_an_order_is_no_incident_without_a_curve_either(tmp_path: Path) -> None:
    said = told(tmp_path, LIMIT + LOST)
    assert "loss-shape" not in said and "nccl-log" not in said


CAUGHT = {
    "retried": "WARNING eval: CUDA out of memory. Tried to allocate 2.00 GiB, retrying with batch size 4\n",
    "traced": TRACE + OOM + "\nINFO finder: batch size 64 does not fit, trying 32\n",
    "a sandbox": "INFO eval: sample 3 returned -11 (Segmentation fault)\n",
}


@pytest.mark.parametrize("said", CAUGHT.values(), ids=CAUGHT)
def test_a_crash_that_a_log_without_rows_goes_on_after_was_caught(tmp_path: Path, said: str) -> None:
    (tmp_path / "metrics.csv").write_text(CURVE)
    (tmp_path / "run.log").write_text(WORDS + said + WORDS)
    assert ingest([str(tmp_path)], judge.library().book).verdict == "healthy"
    (tmp_path / "run.log").write_text(WORDS + TRACE + OOM + "\n")
    assert ingest([str(tmp_path)], judge.library().book).verdict == "incident"


DONE = {
    "transformers": PRINTED + "{'train_runtime': 1200.1, 'train_loss': 2.31, 'epoch': 3.0}\n",
    "words": ROWS + "Training completed.\n",
    "lightning": ROWS + "`Trainer.fit` stopped: `max_steps=300` reached.\n",
    "a logger": ROWS + "INFO trainer: Training completed in 3h\n",
    "own words": ROWS + "2025-12-01 10:00:00 INFO: Finished training after 300 steps\n",
}  # fmt: skip


@pytest.mark.parametrize("said", ["Segmentation fault (core dumped)\n", LOST], ids=["native", "peer"])
@pytest.mark.parametrize("log", DONE.values(), ids=DONE)
def test_who_leaves_badly_has_trained_well(tmp_path: Path, log: str, said: str) -> None:
    (tmp_path / "train.log").write_text(log + said)
    assert ingest([str(tmp_path)], judge.library().book).verdict == "healthy"


def test_a_crash_behind_rows_that_follow_the_word_done_is_one(tmp_path: Path) -> None:
    (tmp_path / "train.log").write_text("Training completed.\n" + ROWS + "Segmentation fault (core dumped)\n")
    assert ingest([str(tmp_path)], judge.library().book).verdict == "incident"


@pytest.mark.parametrize("said", [*SIGNAL_9.values(), "  exitcode  : -9 (pid: 24711)\n"], ids=[*SIGNAL_9, "torchrun"])
def test_a_job_that_was_killed_at_the_end_of_a_healthy_curve_did_not_end_well(tmp_path: Path, said: str) -> None:
    (tmp_path / "metrics.csv").write_text(CURVE)
    (tmp_path / "run.log").write_text(WORDS + said)
    assert ingest([str(tmp_path)], judge.library().book).verdict == "incident"
    (tmp_path / "run.log").write_text(WORDS + LIMIT + said)
    assert ingest([str(tmp_path)], judge.library().book).verdict == "healthy"
    (tmp_path / "run.log").write_text(WORDS + said + WORDS)
    assert ingest([str(tmp_path)], judge.library().book).verdict == "healthy"


OLD = (
    "The NVIDIA driver on your system is too old (found version 11040). Please update your GPU driver by downloading "
    "and installing a new version"
)


def test_a_log_without_a_curve_that_ends_in_an_exception_is_of_a_crash(tmp_path: Path) -> None:
    got = read(tmp_path, TRACE + "KeyError: 'labels'\n")
    assert got.verdict == "incident" and not judged(got).diagnosis().decided
    found = judged(read(tmp_path, TRACE + f"RuntimeError: {OLD}\n")).diagnosis()
    assert found.decided and found.causes[0].id == "cuda-driver-mismatch"


OPEN_ENDS = {
    "it goes on": TRACE + "ModuleNotFoundError: No module named 'pynvml'\n" + WORDS,
    "a warning": f"torch/cuda/__init__.py:141: UserWarning: CUDA initialization: {OLD}\nINFO train: on the CPU\n",
    "a key": TRACE + "KeyboardInterrupt\n",
    "an order": LIMIT + TRACE + "RuntimeError: DataLoader worker is gone\n",
    "through": "Training completed.\n" + TRACE + "HTTPError: 403 Client Error\n",
    "tried again": "ConnectionError: hub not reached, retrying in 5 s\n",
}


@pytest.mark.parametrize("said", OPEN_ENDS.values(), ids=OPEN_ENDS)
def test_a_log_without_a_curve_that_ends_otherwise_tells_of_no_crash(tmp_path: Path, said: str) -> None:
    assert "loss-shape" not in told(tmp_path, said)


EVICTED = {
    "memory": (
        "Message: The node was low on resource: memory. Threshold quantity: 100Mi, available: 42Mi.",
        "host-oom",
    ),
    "memory, kubelet": ("Warning  Evicted  3m  kubelet  The node was low on resource: memory.", "host-oom"),
}


@pytest.mark.parametrize(("said", "end"), EVICTED.values(), ids=EVICTED)
@pytest.mark.parametrize("before", [WORDS, ROWS], ids=["words", "rows"])
def test_who_was_evicted_for_want_of_memory_had_none(tmp_path: Path, before: str, said: str, end: str) -> None:
    got = read(tmp_path, before + said + "\n")
    assert got.verdict == "incident"
    assert {e.signal: e.state for e in got.evidence}["crash-tail"] == end
    assert judged(got).diagnosis().causes[0].class_ == "host_or_input_stall"


@pytest.mark.parametrize(
    ("said", "kind"),
    [
        ("Reason: Evicted", "killed"),
        ("  Warning  Evicted  3m  kubelet  The node had condition: [MemoryPressure].", "killed"),
        ("Pod trainer-0 was evicted", "killed"),
        ("Evicted 12 blocks from the KV cache", None),
        ("prefetch: evicted 35 entries, hit rate 0.93", None),
    ],
)
def test_a_cache_that_evicts_kills_nobody(said: str, kind: str | None) -> None:
    assert notable_words.kind_of(said) == kind


FILLED = [
    "Message: The node was low on resource: ephemeral-storage. Container trainer was using 212Gi, request is 0.",
    "Message: Pod ephemeral local storage usage exceeds the total limit of containers 100Gi.",
    'Message: Usage of EmptyDir volume "scratch" exceeds the limit "64Gi".',
]


@pytest.mark.parametrize("said", FILLED)
def test_who_was_evicted_for_a_full_disk_had_no_room(tmp_path: Path, said: str) -> None:
    got = read(tmp_path, ROWS + "Reason: Evicted\n" + said + "\n")
    assert got.verdict == "incident"
    assert judged(got).diagnosis().causes[0].id == "filesystem-stall"


BY_ORDER = [
    "Warning  Preempted  2m  default-scheduler  Preempted by pod 8f1 on node gpu-7",
    "Message: Pod was active on the node longer than the specified deadline",
    "Message: Taint manager: deletion due to NoExecute taint",
    "slurmstepd: error: *** JOB 9 ON node01 CANCELLED AT 2025-03-02T04:11:09 DUE TO PREEMPTION ***",
]


@pytest.mark.parametrize("said", BY_ORDER)
def test_who_had_to_make_room_for_others_met_no_fault(tmp_path: Path, said: str) -> None:
    cried = TRACE + "RuntimeError: DataLoader worker (pid 77) exited unexpectedly\n"
    assert read(tmp_path, ROWS + said + "\n" + cried).verdict == "healthy"


LAUNCHED = {
    "abort": "MPI_ABORT was invoked on rank 3 in communicator MPI_COMM_WORLD\nwith errorcode 1.\n",
    "mpich": "application called MPI_Abort(MPI_COMM_WORLD, 1) - process 3\n",
    "non-zero": "mpirun detected that one or more processes exited with non-zero status, thus causing\n"
    "the job to be terminated. The first process to do so was:\n",
    "lost daemon": "ORTE has lost communication with a remote daemon.\n",
    "prte": "PRTE has lost communication with a remote daemon.\n",
    "signal 6": "mpirun noticed that process rank 3 with PID 0 on node node03 exited on signal 6 (Aborted).\n",
    "srun": "srun: error: node017: task 3: Exited with exit code 1\n",
    "srun, signal": "srun: error: node017: task 3: Segmentation fault (core dumped)\n",
}


def test_a_stage_that_is_done_hides_no_crash_of_the_next(tmp_path: Path) -> None:
    (tmp_path / "metrics.csv").write_text(CURVE)
    (tmp_path / "run.log").write_text("Training completed.\n" + WORDS)
    assert ingest([str(tmp_path)], judge.library().book).verdict == "healthy"
    (tmp_path / "train.log").write_text("Training completed.\n" + ROWS + TRACE + "KeyError: 'labels'\n")
    (tmp_path / "metrics.csv").unlink()
    (tmp_path / "run.log").unlink()
    assert ingest([str(tmp_path)], judge.library().book).verdict == "incident"


HANDLED = {
    "before": "ERROR data: cannot read sample 4711, skipping it\n" + TRACE + "OSError: image file is truncated\n",
    "after": TRACE + "OSError: image file is truncated\nINFO data: continuing with the next sample\n",
    "retry": TRACE + "ConnectionError: storage not reached\nWARNING io: attempt 1 of 5 failed, retrying in 2 s\n",
}


@pytest.mark.parametrize("said", HANDLED.values(), ids=HANDLED)
def test_an_exception_that_was_handled_near_the_end_stops_nothing(tmp_path: Path, said: str) -> None:
    assert "loss-shape" not in told(tmp_path, said + WORDS[: WORDS.index("\n") * 5])
    assert read(tmp_path, ROWS + said).verdict == "healthy"
    assert read(tmp_path, ROWS + said + TRACE + "KeyError: 'labels'\n").verdict == "incident"


SAID_PLAINLY = {
    "an error of a peer": "gpu4:881:990 [2] NCCL WARN NET/IB: Got completion from peer 10.4.0.17<51233> with "
    "status=IBV_WC_RETRY_EXC_ERR(12) opcode=IBV_WC_RDMA_WRITE(1) reqSize=0 vendor_err=129 req_type=Send\n",
    "tasks without a heartbeat": "E0304 10:40:11.2 1123 coordination_service_agent.cc:707] Polled an error from "
    "coordination service: UNAVAILABLE: The following tasks are unhealthy (stopped sending heartbeats):\n",
    "a plain Exception": TRACE + "Exception: no such model\n",
    "no room for tensors": "RuntimeError: unable to open shared memory object </torch_2113_0> in read-write mode: "
    "No space left on device (28)\n",
    "a step that was not launched": "srun: error: task 0 launch failed: Slurmd could not execve job\n",
}


LAST_WORDS = LAUNCHED | SAID_PLAINLY


@pytest.mark.parametrize("said", LAST_WORDS.values(), ids=LAST_WORDS)
@pytest.mark.parametrize("before", [WORDS, ROWS], ids=["words", "rows"])
def test_what_ends_a_job_without_an_exception_of_its_own_is_heard(tmp_path: Path, before: str, said: str) -> None:
    assert read(tmp_path, before + said).verdict == "incident"
    assert read(tmp_path, ROWS + LIMIT + said).verdict == "healthy"


IGNORED = (
    "Exception ignored in: <function Adam.__del__ at 0x7f18>\nAttributeError: 'Adam' object has no attribute 'op'\n"
)


def test_an_exception_that_python_ignores_stops_nothing_and_hides_none(tmp_path: Path) -> None:
    assert read(tmp_path, ROWS + IGNORED).verdict == "healthy"
    got = read(tmp_path, ROWS + IGNORED + TRACE + "KeyError: 'labels'\n")
    assert got.verdict == "incident"
    assert "KeyError" in {e.signal: e.because for e in got.evidence}["crash-tail"]


def test_a_loss_scale_at_its_least_is_not_steady(tmp_path: Path) -> None:
    skipped = (
        "[INFO] [loss_scaler.py:190:update_scale] [deepspeed] OVERFLOW! Rank 0 Skipping step. Attempted loss scale: "
    )
    said = skipped + "2, reducing to 1\n" + skipped + "1, reducing to 1\n"
    end = TRACE + "Exception: Current loss scale already at minimum - cannot decrease scale anymore. Exiting run.\n"
    got = read(tmp_path, ROWS + said + end)
    assert "loss-scale-before" not in {e.signal for e in got.evidence}
    assert judged(got).diagnosis().causes[0].class_ in ("loss_scaler_fault", "fp16_overflow")


@pytest.mark.parametrize("error", ["an illegal memory access was encountered", "uncorrectable ECC error encountered"])
def test_who_has_lost_the_gpu_only_tidies_up_however_long(tmp_path: Path, error: str) -> None:
    (tmp_path / "metrics.csv").write_text(CURVE)
    (tmp_path / "run.log").write_text(WORDS + TRACE + f"RuntimeError: CUDA error: {error}\n" + 3 * WORDS)
    assert ingest([str(tmp_path)], judge.library().book).verdict == "incident"


STRUCTURED = {
    "docker": lambda said: {"log": said + "\n", "stream": "stderr", "time": "2025-11-30T10:02:00Z"},
    "cloud": lambda said: {"severity": "ERROR", "jsonPayload": {"message": said}},
    "a logger": lambda said: {"level": "error", "msg": "failed", "exc_info": TRACE + said},
}


@pytest.mark.parametrize("rows", ["as text", "as numbers"])
@pytest.mark.parametrize("wrap", STRUCTURED.values(), ids=STRUCTURED)
def test_last_words_are_heard_in_json_too(tmp_path: Path, wrap: Callable[[str], dict[str, Any]], rows: str) -> None:
    lines = ROWS.splitlines()
    if rows == "as text":
        before: list[dict[str, Any]] = [wrap(line) | {"exc_info": ""} for line in lines]
        before = [row | {"msg": line} if "msg" in row else row for row, line in zip(before, lines, strict=True)]
    else:
        before = [{"msg": "trained", "step": n, "loss": loss} for n, loss in enumerate(LOSSES, 1)]
    file = tmp_path / "run.json.log"
    file.write_text("".join(json.dumps(row) + "\n" for row in before))
    assert ingest([str(file)], judge.library().book).verdict == "healthy"
    file.write_text("".join(json.dumps(row) + "\n" for row in [*before, wrap(OOM)]))
    got = ingest([str(file)], judge.library().book)
    assert got.verdict == "incident" and {e.signal: e.state for e in got.evidence}["crash-tail"] == "oom"
    assert got.run.step_range() == (1, 300)


CODES = {"failed": 1, "aborted": -6}


@pytest.mark.parametrize("code", CODES.values(), ids=CODES)
def test_a_return_code_of_a_worker_is_heard(tmp_path: Path, code: int) -> None:
    said = f"[2025-12-01 11:00:00] [ERROR] [launch.py:321:sigkill_handler] ['python'] exits with return code = {code}"
    assert read(tmp_path, ROWS + said + "\n").verdict == "incident"
    assert read(tmp_path, ROWS + said.replace(f"= {code}", "= 0") + "\n").verdict == "healthy"


NAN_STOPS = ["FloatingPointError: invalid value (nan) encountered in jit(train_step)", "Found Inf or NaN global norm."]


@pytest.mark.parametrize("said", NAN_STOPS)
def test_other_frameworks_stop_at_nan_too(tmp_path: Path, said: str) -> None:
    assert told(tmp_path, ROWS + TRACE + said + "\n")["loss-shape"] == "instant-nan"


BESIDE_IT = {
    "a resume before": "Skipping the first 200 batches of the epoch\n" + TRACE + "KeyError: 'labels'\n",
    "an option before": "WARNING config: ignoring unknown key `lora`\n" + TRACE + "KeyError: 'labels'\n",
    "a tracker behind": TRACE + "KeyError: 'labels'\nwandb: Network error (ConnectTimeout), entering retry loop.\n",
}


@pytest.mark.parametrize("said", BESIDE_IT.values(), ids=BESIDE_IT)
def test_words_about_something_else_handle_no_exception(tmp_path: Path, said: str) -> None:
    assert read(tmp_path, ROWS + said).verdict == "incident"
