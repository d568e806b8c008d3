"""The signals of the built-in book: log patterns hit their samples, stay silent on harmless lines; config rules answer.

The harmless lines have the shape of lines of healthy runs that contain alarming words; every pattern of every signal
must stay silent on all of them, so a new pattern is tried against the whole list for free.
"""

from __future__ import annotations

import re
from typing import Any

import pytest

from playbook.engine.observe import flatten, from_config, from_scans
from playbook.findings import Finding, Scan, Status
from playbook.knowledge.entries import HOW_OFTEN, LogPattern
from tests.the_book import book

HARMLESS = (
    # counters and settings with "nan", "inf", "loss", "skip" in their names
    " iteration     120/ 500000 | lm loss: 2.401337E+00 | loss scale: 65536.0 | grad norm: 1.204 "
    "| number of skipped iterations:   0 | number of nan iterations:   0 |",
    "10:22:31 [INFO] Epoch 3/100 (12.4s) | loss=33.9127 (raw=34.1) pos=1.02 | NaN=0",
    "step:0/5100 val_loss:10.8258 train_time:0.02s step_avg:nanms",
    "  # Avoid Inf/NaN error",
    '  "logging_nan_inf_filter": true,',
    '  "ignore_data_skip": false,',
    "[2024-01-11 06:12:04,117] [INFO] [config.py:1000:print]   bfloat16_config .............. enabled=False "
    "immediate_grad_update=False check_grad_overflow=False",
    "[2023-06-30 14:18:21,005][fairseq.data.audio.raw_audio_dataset][INFO] - loaded 28539, skipped 0 samples",
    "Epoch:[1/1](10/39695), loss: 8.5371, logits_loss: 8.5371, aux_loss: 0.0000, lr: 0.00050000",
    "Average Precision  (AP) @[ IoU=0.50:0.95 | area= small | maxDets=100 ] = nan",
    # NCCL and c10d chatter
    "node01:411:411 [0] NCCL INFO Bootstrap : Using eth0:10.0.0.1<0>",
    "NCCL version 2.21.5+cuda12.4",
    "node01:411:430 [0] NCCL INFO NET/IB : Using [0]mlx5_0:1/IB [1]mlx5_1:1/RoCE [RO]; OOB eth0:10.0.0.1<0>",
    "node01:411:430 [0] NCCL INFO NCCL_IB_TIMEOUT set by environment to 22.",
    "node01:411:430 [0] NCCL INFO Channel 00/0 : 4[4] -> 0[0] [receive] via NET/IB/0/GDRDMA",
    "[rank0]:[W1103 09:12:01 Utils.hpp:136] Warning: Environment variable NCCL_ASYNC_ERROR_HANDLING is deprecated; "
    "use TORCH_NCCL_ASYNC_ERROR_HANDLING instead (function operator())",
    "[rank0]:[W1103 11:02:44 ProcessGroupNCCL.cpp:1250] Warning: WARNING: process group has NOT been destroyed before "
    "we destruct ProcessGroupNCCL. destroy_process_group() was not called before program exit",
    "[W socket.cpp:464] [c10d] The server socket cannot be initialized on [::]:29500 "
    "(errno: 97 - Address family not supported by protocol).",
    "[2024-02-02 10:00:01,003] [INFO] [comm.py:637:init_distributed] Initializing TorchBackend in DeepSpeed with "
    "backend nccl",
    "dist_params = dict(backend='nccl')",
    "  timeout ......................................... 600.0",
    # memory and CUDA tables
    "|            CUDA OOMs: 0            |        cudaMalloc retries: 0         |",
    "Compile with `TORCH_USE_CUDA_DSA` to enable device-side assertions.",
    "For debugging consider passing CUDA_LAUNCH_BLOCKING=1",
    "# Out of bounds values : 0 OK",
    # kernel log and driver
    "6,3964,206764307,-;nvidia-nvswitch2: open (major=510)",
    "<6>[    2.608284] mlx5_core 0000:41:00.1: 63.008 Gb/s available PCIe bandwidth (8.0 GT/s PCIe x8 link)",
    "<6>[    2.962781] mlx5_core 0000:41:00.1: Port module event: module 1, Cable unplugged",
    "6,3973,227986636,-;IPv6: ADDRCONF(NETDEV_CHANGE): eth0: link becomes ready",
    "perf: interrupt took too long (2509 > 2500), lowering kernel.perf_event_max_sample_rate to 79500",
    "pcieport 0000:00:1c.0: AER: enabled with IRQ 122",
    "<6>[    2.875476] ata3: SATA link down (SStatus 0 SControl 300)",
    "            SRAM Uncorrectable Parity         : 0",
    "    Xid                                       : N/A",
    "[Feb 25 2025 13:59:45] [INFO] [tid 1808] multicast group 0 is freed.",
    "wandb_blob: q1hpZCBOQ0NMIFdBUk4geGlkMTMgT09NIG5hbg==",
    # Python warnings and launchers
    "train.py:44: FutureWarning: `torch.cuda.amp.autocast(args...)` is deprecated. Please use `torch.amp.autocast`.",
    "/usr/lib/python3.10/multiprocessing/resource_tracker.py:224: UserWarning: resource_tracker: There appear to be 8 "
    "leaked semaphore objects to clean up at shutdown",
    "Token indices sequence length is longer than the specified maximum sequence length for this model (5120 > 4096).",
    "mmengine - WARNING - The model and loaded state dict do not match exactly",
    "2025-11-04 10:11:12.001\thost-0:0\ttrain:55\tWARNING\tYou want to reset the optimizer or trainer state, but we're "
    "not loading from the checkpoint. The setting has no effect.",
    "  resume_from_checkpoint: null",
    "INFO: processes left over are killed 30 s after the end of the job (KillWait=30)",
    "WARNING: could not find the metadata file /checkpoints/gpt2/latest_checkpointed_iteration.txt ",
    "usage: sbatch [--signal=[R|B:]<sig_num>[@sig_time]] [--requeue] script",
    "{'loss': 1.8421, 'grad_norm': 0.7311, 'learning_rate': 0.00019, 'epoch': 0.42}",
)


def patterns() -> list[tuple[str, LogPattern]]:
    return [(name, pattern) for name, signal in sorted(book().signals.items()) for pattern in signal.log]


def by_name(item: Any) -> str:
    return item if isinstance(item, str) else getattr(item, "pattern", "")[:40]


@pytest.mark.parametrize(("signal", "pattern"), patterns(), ids=by_name)
def test_pattern_hits_its_samples_and_no_others(signal: str, pattern: LogPattern) -> None:
    rx = re.compile(pattern.pattern)
    assert [line for line in pattern.match if not rx.search(line)] == []
    assert [line for line in pattern.no_match if rx.search(line)] == []
    assert pattern.no_match, f"{signal}: {pattern.pattern} has no negative sample"
    assert all("\n" not in line for line in [*pattern.match, *pattern.no_match]), "one log line each"


@pytest.mark.parametrize(("signal", "pattern"), patterns(), ids=by_name)
def test_pattern_is_silent_on_harmless_lines(signal: str, pattern: LogPattern) -> None:
    rx = re.compile(pattern.pattern)
    assert [line for line in HARMLESS if rx.search(line)] == [], signal


def test_harmless_list_is_worth_the_name() -> None:
    """The lines must hold the words that tempt a pattern, else their silence says nothing."""
    text = "\n".join(HARMLESS).lower()
    assert len(HARMLESS) >= 40
    in_systems = ("nccl", "oom", "xid", "timeout", "uncorrectable", "killed")
    in_training = ("nan", "skipped", "loss scale", "resume", "optimizer", "warning")
    for word in (*in_systems, *in_training):
        assert word in text, word


def test_no_pattern_matches_an_empty_or_plain_line() -> None:
    """A pattern that matches everything would answer for every run."""
    for signal, pattern in patterns():
        rx = re.compile(pattern.pattern)
        assert not rx.search(""), (signal, pattern.pattern)
        assert not rx.search("step 100 loss 2.31 lr 3.0e-4 grad_norm 0.81"), (signal, pattern.pattern)


def test_background_names_every_outcome() -> None:
    for name, signal in book().signals.items():
        assert set(signal.background) == set(signal.outcomes), name
        assert sum(HOW_OFTEN[word] for word in signal.background.values()) > 0


def test_config_rules_are_lower_case_and_can_answer() -> None:
    """Keys and values are compared in lower case, so an upper-case one could never match."""
    for name, signal in book().signals.items():
        for rule in signal.config:
            assert rule.equals or rule.below or rule.above, name
            assert all(key == key.lower() for key in rule.keys), (name, rule.keys)
            assert all(value == value.lower() for value in rule.equals), (name, rule.equals)


def test_metric_signals_have_a_way_to_be_seen() -> None:
    for name, signal in book().signals.items():
        if signal.kind == "metrics":
            assert signal.seen_by, name
        if signal.kind == "log":
            assert signal.log, name
        if signal.kind == "config":
            assert signal.config, name
        if signal.kind in ("experiment", "probe"):
            assert signal.commands, name


def test_every_experiment_says_what_it_costs() -> None:
    for name, signal in book().signals.items():
        if signal.kind == "experiment":
            assert signal.minutes > 0, name
            assert signal.steps > 0 or signal.gpus != "none" or signal.cluster, name


def test_no_private_paths_in_the_book() -> None:
    for name in book().signals:
        text = book().files["signals", name].read_text("utf-8")
        assert "/work/" not in text, name
        assert "/tmp/" not in text, name


# code -> outcome, after NVIDIA's catalogue
XID = {
    **dict.fromkeys((13, 31, 43, 45, 69), "app-fault"),
    **dict.fromkeys((48, 63, 64, 92, 94, 95, 140), "memory"),
    **dict.fromkeys((61, 62, 109, 119, 120, 143), "firmware"),
    **dict.fromkeys((74, 144, 145, 146, 147, 148, 149, 150), "nvlink"),
    54: "thermal-or-power",
    79: "bus-lost",
}


@pytest.mark.parametrize("code", sorted(XID))
def test_each_xid_has_one_meaning(code: int) -> None:
    signal = book().signals["xid-code"]
    line = f"[1189203.551] NVRM: Xid (PCI:0000:3b:00): {code}, pid=88121, name=python"
    assert {p.outcome for p in signal.log if re.search(p.pattern, line)} == {XID[code]}


@pytest.mark.parametrize("code", [106, 107, 154])
def test_notes_of_the_driver_are_no_fault(code: int) -> None:
    line = f"NVRM: Xid (PCI:0000:3b:00): {code}, GPU recovery action changed from 0x0 (None) to 0x1 (Reset Required)"
    assert [(name, p.pattern) for name, p in patterns() if re.search(p.pattern, line)] == []


CONFIGS: tuple[tuple[str, dict[str, Any], str | None], ...] = (
    ("precision", {"fp16": False, "bf16": True}, "bf16"),  # Hugging Face
    ("precision", {"fp16": True, "bf16": False}, "fp16"),
    ("precision", {"fp16": False, "bf16": False}, "fp32"),
    ("precision", {"fp16": {"enabled": True}, "bf16": {"enabled": False}}, "fp16"),  # DeepSpeed
    ("precision", {"fp16": {"enabled": False}, "bf16": {"enabled": True}}, "bf16"),
    ("precision", {"fp16": {"enabled": "auto"}, "gradient_clipping": "auto"}, None),
    ("precision", {"bf16": True, "fp8": "hybrid"}, "fp8"),  # Megatron
    ("precision", {"bf16": True, "fp8": None}, "bf16"),
    ("precision", {"training": {"mixed_precision_param": "bfloat16"}}, "bf16"),  # torchtitan
    ("precision", {"trainer": {"precision": "16-mixed"}}, "fp16"),  # Lightning
    ("parallelism", {"tensor-model-parallel-size": 4, "pipeline-model-parallel-size": 1, "world-size": 8}, "tensor"),
    ("parallelism", {"tensor_model_parallel_size": 4, "pipeline_model_parallel_size": 2}, "pipeline"),
    ("parallelism", {"zero_optimization": {"stage": 3}, "world_size": 8}, "sharded"),
    ("parallelism", {"zero_optimization": {"stage": 0}, "world_size": 8}, "data"),
    ("parallelism", {"fsdp": ["full_shard", "auto_wrap"], "world_size": 8}, "sharded"),
    ("parallelism", {"fsdp": [], "world_size": 1}, "single"),
    ("warmup-length", {"warmup_ratio": 0.0, "warmup_steps": 2000}, "usual"),
    ("warmup-length", {"warmup_ratio": 0.03, "warmup_steps": 0}, "usual"),
    ("warmup-length", {"warmup_ratio": 0.0, "warmup_steps": 0}, "none"),
    ("warmup-length", {"lr_warmup_iters": 200}, "short"),
    ("grad-clipping", {"max_grad_norm": 1.0}, "on"),
    ("grad-clipping", {"gradient_clipping": 0.0}, "off"),
    ("grad-clipping", {"training": {"max_norm": 1.0}}, "on"),
    ("adam-eps", {"adam_epsilon": 1e-8}, "small"),
    ("adam-eps", {"optimizer": {"params": {"eps": 1e-6}}}, "usual"),
    ("beta2", {"adam_beta2": 0.95}, "usual"),
    ("beta2", {"optimizer": {"params": {"betas": [0.9, 0.999]}}}, "high"),
    ("lr-value", {"learning_rate": 5.0}, "absurd"),
    ("lr-value", {"learning_rate": 2e-5}, "usual"),
    ("lr-value", {"lr": 0.1}, None),  # usual for SGD, far too high for Adam: not told by the value alone
    ("grad-accum-on", {"gradient_accumulation_steps": 8}, "yes"),
    ("grad-accum-on", {"gradient_accumulation_steps": 1}, "no"),
    ("batch-size-per-gpu", {"per_device_train_batch_size": 2}, "tiny"),
    ("moe-in-model", {"num_experts": 64}, "yes"),
    ("moe-in-model", {"num_experts": None, "model_type": "llama"}, "no"),
    ("ranks-affected", {"world_size": 1}, "single-process"),
    ("ranks-affected", {"world_size": 64}, None),
    ("rl-training", {"algorithm": {"adv_estimator": "grpo"}}, "yes"),
    ("rl-training", {"stage": "sft"}, "no"),
    ("state-dtype", {"optim": "adamw_bnb_8bit"}, "low-precision"),
    ("resume-sampler-restored", {"ignore_data_skip": True}, "no"),
    ("resume-sampler-restored", {"ignore_data_skip": False}, None),
    ("resume-optimizer-restored", {"no-load-optim": True}, "no"),
)


@pytest.mark.parametrize(("signal", "config", "outcome"), CONFIGS)
def test_config_rules_read_settings_of_frameworks(signal: str, config: dict[str, Any], outcome: str | None) -> None:
    evidence = from_config(book().signals[signal], flatten(config))
    assert (evidence.state if evidence else None) == outcome


def scan(detector: str, *kinds: str, status: Status = "found") -> Scan:
    found = tuple(Finding(detector, kind, "loss", 100, "numbers", 0.9) for kind in kinds)
    return Scan(detector, status if found or status != "found" else "clear", found)


SHAPES: tuple[tuple[tuple[Scan, ...], str | None], ...] = (
    ((scan("spike", "persistent"), scan("nonfinite", "nan")), "instant-nan"),
    ((scan("nonfinite", "hidden-nan"), scan("loss_zero", "zero")), "loss-zero"),
    ((scan("spike", "transient", "repeated"),), "transient-spike"),
    ((scan("spike", "transient", "persistent"),), "persistent-spike"),
    ((scan("spike", "persistent"), scan("resume", "jump")), "resume-drift"),
    ((scan("spike", "persistent"), scan("explosion", "early")), "early-explosion"),
    ((scan("spike"), scan("resume", "clean"), scan("plateau", "uniform-output")), "plateau"),
    ((scan("spike"), scan("throughput", "drops")), "throughput-drop"),
    ((scan("spike"), scan("eval_gap", "eval-jump")), "silent-degradation"),
    ((scan("spike"), scan("nonfinite", "grad-nan-once")), "healthy"),  # one skipped step of fp16
    ((scan("spike"), scan("nonfinite", "eval-nan")), "healthy"),  # the training loss is fine
    ((scan("spike"), scan("level_shift", "down")), "healthy"),  # ends of epochs, decay of the learning rate
    ((scan("spike", status="blind"), scan("nonfinite")), None),
)


@pytest.mark.parametrize(("scans", "shape"), SHAPES)
def test_loss_shape_is_decided_in_order(scans: tuple[Scan, ...], shape: str | None) -> None:
    evidence = from_scans(book().signals["loss-shape"], {s.detector: s for s in scans})
    assert (evidence.state if evidence else None) == shape


def test_a_loss_scale_that_is_not_logged_is_no_answer_but_bf16_is() -> None:
    signal = book().signals["loss-scale-before"]
    assert from_scans(signal, {"loss_scale": scan("loss_scale", status="blind")}) is None
    assert from_config(signal, {"fp16": True}) is None
    evidence = from_config(signal, {"bf16": True})
    assert evidence is not None and evidence.state == "absent"


# What a question is about -> the signal that says whether the run has it. A question about it must name it in `needs`.
_ABOUT = {
    r"\bfp8\b|run in fp32|dynamic loss scale|because of overflow|vanish by rounding": {"precision"},
    r"\bexperts?\b|\brouter\b": {"moe-in-model"},
    r"sampler's probabilities": {"rl-training", "task"},
    r"\branks?\b|single GPU|number of GPUs|collectives|\bNCCL|nccl-tests|\bNICs\b": {"parallelism"},
    r"accumulation steps change": {"grad-accum-on"},
    r"clipping threshold": {"grad-clipping"},
    r"\bXid message": {"gpu-errors"},
    r"at the resume\?$|size.* at resume": {"begins-at-resume"},
    r"\bspikes?\b|around the jump|first NaN": {"loss-shape"},
    r"next token|chat template|\bln\(vocabulary\)|one document": {"task"},
}
# Questions of which a word is about something else, with what they are asked for.
_ANYWHERE = {
    "crash-tail": "the first rank that failed is the only one in a run on one device",
    "moe-in-model": "tells it",
    "batch-or-gpu-change": "one GPU may have been eight before",
    "world-size-changed": "likewise",
    "error-is-exact-factor": "the number of GPUs is one of the factors",
    "system-reports-fault": "NCCL is one of those who report",
    "other-release-removes-it": "NCCL is one of the releases",
    "resume-scaler-rng-restored": "random states are kept in every run",
    "tied-weights-equal": "a load can untie them on one device",
    "resume-optimizer-restored": "a damage of the state may be seen long after the resume",
    "spike-period": "swings of the throughput have periods too",
}


def test_a_question_names_what_a_run_must_have_for_it() -> None:
    for name, signal in book().signals.items():
        wanted = {need for words, needs in _ABOUT.items() if re.search(words, signal.question) for need in needs}
        assert (wanted <= set(signal.needs)) is (name not in _ANYWHERE), (name, wanted - set(signal.needs))


def test_needs_name_outcomes_that_a_run_can_have() -> None:
    for name, signal in book().signals.items():
        for other, outcomes in signal.needs.items():
            known = set(book().signals[other].outcomes)
            assert other != name and set(outcomes) < known, (name, other)
