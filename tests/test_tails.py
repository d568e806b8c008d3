"""Last words of jobs as launchers, schedulers and frameworks write them: what is heard, and what it leads to."""

from __future__ import annotations

from pathlib import Path

import pytest

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
