"""When a verdict is given on the whole book, and when what is known is not enough for one."""

from __future__ import annotations

from pathlib import Path

import pytest

from playbook.engine.diagnosis import DECIDE, INCIDENT, Diagnosis
from playbook.engine.value import moot
from playbook.findings import Evidence
from playbook.workflow.ingest import ingest
from playbook.workflow.session import Session
from playbook.workflow.verdict import word
from tests.lab import judge

NO_REASON = "nothing that was seen or told speaks for the first cause by itself"


def told(*answers: str) -> Session:
    book = judge.library()
    session = Session(book.book, book.tables)
    for answer in answers:
        signal, state = answer.split("=")
        session.answer(signal, state)
    return session


@pytest.mark.parametrize(
    "answers",
    [
        "loss-shape=resume-drift precision=fp8 task=other parallelism=data",
        "loss-shape=silent-degradation precision=fp16 task=detection parallelism=single batchnorm-in-model=yes",
        "loss-shape=throughput-drop precision=fp8 task=pretraining parallelism=sharded present-at-first-step=no "
        "loss-looks-normal=no crash-tail=none change-point=none slow-rank=none first-bad-layer=attention "
        "lr-value=usual",
    ],
)
def test_what_is_usual_and_how_a_run_is_set_up_decide_nothing(answers: str) -> None:
    """They leave one cause over by ruling out the others, and one that nobody has thought of is left over as well."""
    found = told(*answers.split()).diagnosis()
    assert not found.decided
    assert found.why_undecided == NO_REASON or found.causes[0].probability < DECIDE
    assert found.next is not None, "what would be a reason is still to be asked"


def test_one_reason_beside_the_set_up_is_enough() -> None:
    setting = ["loss-shape=resume-drift", "precision=bf16", "task=detection", "parallelism=data"]
    seen = ["present-at-first-step=no", "lr-phase=warmup", "resume-scheduler-restored=no"]
    assert told(*setting, *seen).diagnosis().decided


@pytest.mark.parametrize(("sure", "decided"), [(INCIDENT - 0.01, False), (INCIDENT, True)])
def test_a_detector_that_is_not_sure_of_a_fault_decides_none(sure: float, decided: bool) -> None:
    session = told("precision=bf16", "task=detection", "parallelism=data", "present-at-first-step=no")
    session.observe(
        [Evidence("loss-shape", "resume-drift", "metrics", "the loss steps up at a resume", 100, None, sure)]
    )
    for answer in ("lr-phase=warmup", "resume-scheduler-restored=no"):
        session.answer(*answer.split("="))
    found = session.diagnosis()
    assert found.decided is decided
    assert decided or found.why_undecided == "whether there is a fault at all is not sure"


# --- one line of a log ------------------------------------------------------------------------------------------------

TRACE = 'Traceback (most recent call last):\n  File "train.py", line 10, in <module>\n    main()\n'
WAITED = "".join(
    f"[rank{rank}]:[E1218 20:27:21.426 ProcessGroupNCCL.cpp:629] [Rank {rank}] Watchdog caught collective operation "
    "timeout: WorkNCCL(SeqNum=8811, OpType=ALLREDUCE, Timeout(ms)=600000) ran for 600081 milliseconds before timing "
    "out.\n"
    for rank in range(3)
)


def read(folder: Path, said: str) -> tuple[Session, Diagnosis]:
    """What is known of a job of which only the end of its output is left."""
    file = folder / "run.log"
    file.write_text("2026-05-01 10:00:00 INFO train: starting\n2026-05-01 10:00:09 INFO train: model ready\n" + said)
    book = judge.library()
    session = Session(book.book, book.tables)
    session.observe(ingest([str(file)], book.book).evidence)
    return session, session.diagnosis()


SAYS_IT = {
    "RuntimeError: CUDA error: device-side assert triggered": "token_or_embedding_mismatch",
    "IndexError: index out of range in self": "token_or_embedding_mismatch",
    "RuntimeError: PytorchStreamReader failed reading zip archive: failed finding central directory": (
        "checkpoint_damaged"
    ),
    "NVRM: Xid (PCI:0000:c6:00): 79, pid=1101, name=python, GPU has fallen off the bus.": "gpu_device_fault",
    "RuntimeError: CUDA error: uncorrectable ECC error encountered": "gpu_device_fault",
    "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 1.53 GiB.": "gpu_device_fault",
}


@pytest.mark.parametrize("line", SAYS_IT)
def test_a_line_that_leaves_no_other_class_decides_alone(tmp_path: Path, line: str) -> None:
    session, found = read(tmp_path, TRACE + line + "\n")
    assert found.decided and found.causes[0].class_ == SAYS_IT[line]
    assert word(session, found) == "incident"


OPEN = {
    "time-out": WAITED,
    "signal 9": "  exitcode  : -9 (pid: 24711)\n",
    "killed": "run.sh: line 28:  8156 Killed                  python3 main.py --epochs 400\n",
    "loader killed": TRACE + "RuntimeError: DataLoader worker (pid 8123) is killed by signal: Killed.\n",
    "address": TRACE + "RuntimeError: CUDA error: an illegal memory access was encountered\n",
    "launch": TRACE + "RuntimeError: CUDA error: unspecified launch failure\n",
    "blas": TRACE + "RuntimeError: CUDA error: CUBLAS_STATUS_EXECUTION_FAILED when calling `cublasSgemm(handle)`\n",
    "a value": "../aten/src/ATen/native/cuda/Loss.cu:115: operator(): block: [0,0,0], thread: [33,0,0] Assertion "
    "`input_val >= zero && input_val <= one` failed.\n" + TRACE
    + "RuntimeError: CUDA error: device-side assert triggered\n",
    "a pickle": TRACE + "_pickle.UnpicklingError: pickle data was truncated\n",
    "exception": TRACE + "KeyError: 'labels'\n",
}  # fmt: skip


@pytest.mark.parametrize("said", OPEN.values(), ids=OPEN)
def test_a_line_that_many_causes_leave_decides_nothing(tmp_path: Path, said: str) -> None:
    _, found = read(tmp_path, said)
    assert not found.decided


BESIDE = [line for line in SAYS_IT if "zip archive" not in line]
SENSIBLE = "".join(
    f"step {10 * n} loss {2 + 4 / (1 + n / 10):.3f} lr 0.0003 grad_norm {0.8 + 0.01 * (n % 7):.2f}\n"
    for n in range(1, 61)
)


@pytest.mark.parametrize("line", BESIDE)
def test_it_decides_behind_a_healthy_curve_too(tmp_path: Path, line: str) -> None:
    """That the loss looked well is no second opinion on a line that names its fault."""
    _, found = read(tmp_path, SENSIBLE + TRACE + line + "\n")
    assert found.decided and found.causes[0].class_ == SAYS_IT[line]


REPAIRED = [
    "NVRM: Xid (PCI:0000:10:1c): 63, pid=1896, Row Remapper: New row marked for remapping, reset gpu to activate.",
    "NVRM: Xid (PCI:0000:10:1c): 63, pid='<unknown>', name=<unknown>, Dynamic Page Retirement: New page retired",
]


@pytest.mark.parametrize("line", REPAIRED)
def test_the_record_of_a_repair_is_no_incident(tmp_path: Path, line: str) -> None:
    session, found = read(tmp_path, line + "\n")
    assert not found.decided and word(session, found) != "incident"
    session, found = read(tmp_path, SENSIBLE + line + "\n")
    assert word(session, found) == "healthy"


GONE = ["torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 1.53 GiB.", "KeyError: 'labels'"]


@pytest.mark.parametrize("line", GONE)
def test_who_is_dead_has_no_stacks_to_dump(tmp_path: Path, line: str) -> None:
    _, found = read(tmp_path, TRACE + line + "\n")
    assert not {"dump-stacks-before-killing", "isolate-the-node"} & set(found.first_aid)
    _, waited = read(tmp_path, WAITED)
    assert waited.first_aid[0] == "dump-stacks-before-killing"


def test_who_sent_signal_9_is_not_known(tmp_path: Path) -> None:
    """The kernel for want of memory, but also a scheduler, a watchdog, an operator or the launcher."""
    _, bare = read(tmp_path, OPEN["killed"])
    assert bare.causes[0].class_ == "host_or_input_stall" and bare.causes[0].probability < 0.6
    _, said = read(
        tmp_path, "slurmstepd: error: Detected 1 oom_kill event in StepId=129.0. Some tasks were OOM Killed.\n"
    )
    assert said.decided and said.causes[0].id == "host-memory-leak"


def test_one_line_with_nothing_wrong_beside_it_decides_nothing(tmp_path: Path) -> None:
    """Without a symptom it may be of another job, or have been mended by what came after."""
    session, _ = read(tmp_path, "RuntimeError: CUDA error: device-side assert triggered\n")
    session.retract("loss-shape")
    assert not session.diagnosis().decided


FULL = [
    "OSError: [Errno 28] No space left on device: '/scratch/ckpt/step_4000/model.pt'",
    "OSError: [Errno 122] Disk quota exceeded: '/home/u/ckpt/optimizer.pt'",
    "OSError: [Errno 116] Stale file handle: '/mnt/nfs/data/shard_0012.tar'",
    "OSError: [Errno 5] Input/output error: '/mnt/lustre/data/shard_0012.tar'",
]


@pytest.mark.parametrize("line", FULL)
def test_errors_of_the_file_system_lead_to_it(tmp_path: Path, line: str) -> None:
    _, found = read(tmp_path, TRACE + line + "\n")
    assert found.causes[0].id == "filesystem-stall" and "relieve-the-file-system" in found.fixes


def test_full_shared_memory_is_no_full_disk(tmp_path: Path) -> None:
    said = "node01:411:430 [0] NCCL WARN Error: failed to extend /dev/shm/nccl-fDg9jh to 33030532 bytes, error: "
    session, _ = read(tmp_path, said + "No space left on device (28)\n")
    assert "storage-errors" not in {e.signal for e in session.evidence}


DIED = {
    "[rank3]: KeyError: 'labels'": "python-error",
    "[rank3]: torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 1.53 GiB.": "oom",
    "[rank3]: IndexError: index out of range in self": "python-error",
    "[rank3]: RuntimeError: CUDA error: device-side assert triggered": "cuda-assert",
}


@pytest.mark.parametrize("line", DIED)
@pytest.mark.parametrize("late", [False, True])
def test_what_one_rank_died_of_stands_above_the_time_out_of_those_that_waited(
    tmp_path: Path, line: str, late: bool
) -> None:
    died = TRACE + line + "\n"
    session, found = read(tmp_path, WAITED + died if late else died + WAITED)
    assert {e.signal: e.state for e in session.evidence}["crash-tail"] == DIED[line]
    assert found.causes[0].class_ != "collective_desync", "that the others waited is no news any more"


def test_a_rank_that_lost_another_one_died_of_nothing_of_its_own(tmp_path: Path) -> None:
    lost = TRACE + "RuntimeError: [gloo/transport/tcp/pair.cc:534] Connection closed by peer [10.0.0.12]:43211\n"
    session, _ = read(tmp_path, lost + TRACE + "KeyError: 'labels'\n")
    (tail,) = (e for e in session.evidence if e.signal == "crash-tail")
    assert tail.because == "KeyError: 'labels'"


def test_how_a_run_ended_is_not_asked_of_one_that_goes_on() -> None:
    book = judge.library()
    for shape, asked in (("plateau", False), ("slow-climb", False), ("hang-or-crash", True)):
        session = told(f"loss-shape={shape}")
        assert ("crash-tail" not in moot(book.tables, session.diagnosis(explained=False).belief.used)) is asked


def test_after_a_resume_it_is_asked_what_was_restored() -> None:
    session = told("loss-shape=resume-drift", "begins-at-resume=yes")
    for _ in range(20):
        option = session.diagnosis(explained=False).next
        if option is None:
            break
        session.answer(option.signal, "unknown")
    kept = ("scheduler", "optimizer", "sampler")
    assert {f"resume-{name}-restored" for name in kept} <= session.closed


CAUGHT = {
    "a tracker": "wandb: ERROR OSError: [Errno 28] No space left on device: '/home/u/.cache/wandb/x'",
    "an evaluation": "WARNING eval: skipped a sample, IndexError: index out of range in self",
    "a data set": "WARNING data: part-0012.tar: checksum mismatch, loading it again",
    "a start": "ERROR loader: _pickle.UnpicklingError: pickle data was truncated",
}


@pytest.mark.parametrize("line", CAUGHT.values(), ids=CAUGHT)
def test_a_line_beside_a_curve_that_goes_on_well_is_no_incident(tmp_path: Path, line: str) -> None:
    rows = "".join(f'{{"step": {n}, "loss": {2.5 - n / 300 + 0.01 * (n % 7):.4f}}}\n' for n in range(1, 201))
    (tmp_path / "metrics.jsonl").write_text(rows)
    (tmp_path / "run.log").write_text(f"2026-05-01 10:00:00 INFO train: starting\n{line}\n" + "INFO train: on\n" * 90)
    assert ingest([str(tmp_path)], judge.library().book).verdict == "healthy"


OF_THE_PROGRAM = [13, 31]


@pytest.mark.parametrize("code", OF_THE_PROGRAM)
def test_what_a_program_did_is_not_blamed_on_the_bus_or_the_network(tmp_path: Path, code: int) -> None:
    _, found = read(tmp_path, f"NVRM: Xid (PCI:0000:c1:00): {code}, pid=4411, name=python, Ch 00000008\n")
    assert not found.decided
    assert found.causes[0].class_ in ("library_version", "kernel_or_compiler_bug")


def test_an_amd_gpu_has_memory_errors_too(tmp_path: Path) -> None:
    said = "amdgpu 0000:c3:00.0: amdgpu: RAS: uncorrectable hardware errors detected in umc block\n"
    _, found = read(tmp_path, said)
    assert found.causes[0].id == "gpu-memory-ecc"


STOPPED_AT_NAN = {
    "a root": "RuntimeError: Function 'SqrtBackward0' returned nan values in its 0th output.",
    "a guard": "ValueError: The loss is nan. Stopping.",
    "infinite": "RuntimeError: Loss is inf, stopping training",
}


@pytest.mark.parametrize("line", STOPPED_AT_NAN.values(), ids=STOPPED_AT_NAN)
def test_an_exception_that_tells_of_nan_is_no_crash_of_its_own(tmp_path: Path, line: str) -> None:
    session, found = read(tmp_path, SENSIBLE + TRACE + line + "\n")
    seen = {e.signal: e.state for e in session.evidence}
    assert seen["loss-shape"] == "instant-nan" and "crash-tail" not in seen
    if "Sqrt" in line:
        assert found.causes[0].class_ == "loss_domain_error"


VERSIONS = [
    "ImportError: /opt/conda/lib/python3.11/site-packages/torch/lib/libtorch_cuda.so: undefined symbol: ncclCommWindow",
    "deepspeed.ops.op_builder.builder.CUDAMismatchException: >- DeepSpeed Op Builder: Installed CUDA version 12.4 does "
    "not match the version torch was compiled with 11.8, unable to compile cuda/cpp extensions",
    "RuntimeError: jaxlib version 0.4.20 is newer than and incompatible with jax version 0.4.13.",
    "RuntimeError: FlashAttention only supports Ampere GPUs or newer.",
    "ModuleNotFoundError: No module named 'mmcv._ext'",
    "Exception: data did not match any variant of untagged enum ModelWrapper at line 1251003 column 3",
    "RuntimeError: CUDA error: system not yet initialized",
    "OSError: libcudart.so.11.0: cannot open shared object file: No such file or directory",
    "TypeError: Trainer.__init__() got an unexpected keyword argument 'tokenizer'",
]


@pytest.mark.parametrize("line", VERSIONS)
def test_versions_that_do_not_fit_are_heard_in_the_words_of_every_library(tmp_path: Path, line: str) -> None:
    session, found = read(tmp_path, TRACE + line + "\n")
    assert {e.signal: e.state for e in session.evidence}["version-mismatch"] == "yes"
    assert found.causes[0].class_ == "library_version"


FIRMWARE = [61, 62, 109, 110, 119, 120]


@pytest.mark.parametrize("code", FIRMWARE)
def test_trouble_of_the_driver_with_its_gpu_is_not_blamed_on_the_network(tmp_path: Path, code: int) -> None:
    _, found = read(tmp_path, f"NVRM: Xid (PCI:0000:c1:00): {code}, pid=4411, name=python, Ch 00000008\n")
    assert not found.decided
    assert found.causes[0].class_ == "gpu_device_fault"


def test_a_checkpoint_that_is_empty_or_of_another_model_is_the_wrong_one(tmp_path: Path) -> None:
    for line in (
        "EOFError: Ran out of input",
        "ValueError: loaded state dict contains a parameter group that doesn't match the size of optimizer's group",
        "AssertionError: num_layers value from checkpoint (24) is not equal to the input argument value (32)",
    ):
        _, found = read(tmp_path, TRACE + line + "\n")
        assert found.causes[0].class_ == "checkpoint_damaged" and not found.decided
