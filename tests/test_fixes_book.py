"""Symptoms, fixes and checklists of the built-in book: every cause is repaired, every symptom has first aid, and the
rules of preflight judge sample configurations as a person would."""

from __future__ import annotations

import ast
import json
import re
import tomllib
from collections import Counter
from typing import Any

import pytest

from playbook.engine.advice import SURE_ENOUGH
from playbook.findings import Evidence
from playbook.knowledge.entries import SYMPTOMS, CheckItem, Fix
from playbook.knowledge.lint import cited
from playbook.series import Run
from playbook.workflow.preflight import preflight
from playbook.workflow.session import Session
from tests.the_book import book, tables

# Settings that a good, a sloppy and a faulty run would hand to preflight: (configuration, {item: state}).
SAMPLES: dict[str, tuple[dict[str, Any], dict[str, str]]] = {
    "HF arguments of the source documents": (
        {
            "learning_rate": 2e-4,
            "warmup_ratio": 0.02,
            "adam_epsilon": 1e-6,
            "max_grad_norm": 1.0,
            "bf16": True,
            "fp16": False,
            "logging_steps": 10,
            "save_steps": 500,
            "logging_nan_inf_filter": False,
            "save_only_model": False,
            "seed": 42,
            "lr_scheduler_type": "cosine",
        },
        dict.fromkeys(
            (
                "peak-rate",
                "warm-up",
                "adam-epsilon",
                "clipping-on",
                "precision",
                "logging-interval",
                "save-interval",
                "non-finite-values-visible",
                "full-state-saved",
                "seeds",
                "schedule-shape",
            ),
            "ok",
        ),
    ),
    "HF defaults": (
        {
            "learning_rate": 5e-5,
            "warmup_ratio": 0.0,
            "warmup_steps": 0,
            "adam_epsilon": 1e-8,
            "max_grad_norm": 1.0,
            "bf16": False,
            "fp16": True,
            "logging_steps": 500,
            "save_steps": 500,
            "save_total_limit": None,
            "logging_nan_inf_filter": True,
            "dataloader_num_workers": 0,
        },
        {
            "peak-rate": "ok",
            "warm-up": "unknown",
            "adam-epsilon": "ok",
            "clipping-on": "ok",
            "precision": "ok",
            "logging-interval": "ok",
            "save-interval": "ok",
            "checkpoints-kept": "unknown",
            "non-finite-values-visible": "unknown",
            "loader-workers": "unknown",
        },
    ),
    "HF faults": (
        {
            "learning_rate": 3.0,
            "warmup_steps": 200,
            "adam_epsilon": 1e-10,
            "max_grad_norm": 0.0,
            "logging_strategy": "epoch",
            "logging_steps": 10,
            "save_strategy": "no",
            "save_total_limit": 1,
            "save_only_model": True,
            "torch_dtype": "float16",
        },
        {
            "peak-rate": "bad",
            "warm-up": "ok",
            "adam-epsilon": "bad",
            "clipping-on": "bad",
            "logging-interval": "ok",
            "save-interval": "unknown",
            "checkpoints-kept": "ok",
            "full-state-saved": "warn",
            "dtype-of-loaded-weights": "bad",
        },
    ),
    "warm-up as a fraction (Transformers 5)": ({"warmup_steps": 0.02}, {"warm-up": "ok"}),
    "warm-up by ratio beside a step number of 0": ({"warmup_steps": 0, "warmup_ratio": 0.02}, {"warm-up": "ok"}),
    "DeepSpeed, clipping as an object": (
        {
            "optimizer": {"type": "AdamW", "params": {"lr": 2e-4, "eps": 1e-6, "weight_decay": 0.1}},
            "gradient_clipping": {"enabled": True, "max_grad_norm": 1.0},
            "fp16": {"enabled": True, "loss_scale": 0, "initial_scale_power": 16},
        },
        {
            "deepspeed-clipping-is-a-number": "bad",
            "clipping-on": "bad",
            "adam-epsilon": "ok",
            "peak-rate": "ok",
            "weight-decay": "ok",
            "loss-scale-start": "ok",
            "precision": "ok",
        },
    ),
    "DeepSpeed, clipping as a number": (
        {
            "gradient_clipping": 1.0,
            "bf16": {"enabled": True, "bf16_optimizer_states": True},
            "fp16": {"enabled": False, "initial_scale_power": 32},
            "data_types": {"grad_accum_dtype": "bf16"},
            "train_batch_size": 1024,
        },
        {
            "deepspeed-clipping-is-a-number": "ok",
            "clipping-on": "ok",
            "precision": "ok",
            "loss-scale-start": "ok",
            "reduction-precision": "unknown",
            "optimizer-state-precision": "warn",
            "global-batch": "ok",
        },
    ),
    "DeepSpeed under the HF Trainer": (
        {"gradient_clipping": "auto", "train_batch_size": "auto", "optimizer": {"params": {"lr": "auto"}}},
        {"deepspeed-clipping-is-a-number": "ok", "clipping-on": "ok", "global-batch": "ok", "peak-rate": "ok"},
    ),
    "DeepSpeed, clipping off": (
        {"gradient_clipping": 0.0},
        {"deepspeed-clipping-is-a-number": "bad", "clipping-on": "bad"},
    ),
    "Megatron arguments": (
        {
            "lr": 3e-4,
            "clip_grad": 1.0,
            "adam_eps": 1e-8,
            "adam_beta2": 0.95,
            "lr_warmup_iters": 2000,
            "lr_warmup_fraction": None,
            "log_interval": 100,
            "save_interval": 5000,
            "global_batch_size": 1024,
            "bf16": True,
            "fp16": False,
            "params_dtype": "torch.bfloat16",
            "initial_loss_scale": 4294967296,
            "check_for_nan_in_loss_and_grad": False,
            "accumulate_allreduce_grads_in_fp32": True,
            "no_save_optim": True,
            "exit_on_missing_checkpoint": False,
            "fp8_recipe": "delayed",
            "distributed_timeout_minutes": 10,
        },
        {
            "peak-rate": "ok",
            "clipping-on": "ok",
            "adam-epsilon": "ok",
            "adam-beta2": "ok",
            "warm-up": "ok",
            "logging-interval": "ok",
            "save-interval": "ok",
            "global-batch": "ok",
            "precision": "ok",
            "dtype-of-loaded-weights": "unknown",
            "loss-scale-start": "unknown",
            "non-finite-values-visible": "warn",
            "reduction-precision": "ok",
            "full-state-saved": "bad",
            "full-state-loaded": "unknown",
            "fp8-recipe": "ok",
            "timeouts-and-recorder": "ok",
        },
    ),
    "torchtitan": (
        tomllib.loads(
            """
            [optimizer]
            lr = 8e-4
            eps = 1e-8
            early_step_in_backward = true
            [lr_scheduler]
            warmup_steps = 200
            [training]
            max_norm = 1.0
            global_batch_size = -1
            mixed_precision_param = "bfloat16"
            mixed_precision_reduce = "float32"
            [metrics]
            log_freq = 10
            [checkpoint]
            enable_checkpoint = false
            interval = 500
            keep_latest_k = 0
            [comm]
            trace_buf_size = 0
            """
        ),
        {
            "peak-rate": "ok",
            "adam-epsilon": "ok",
            "warm-up": "ok",
            "clipping-on": "ok",
            "clipping-by-global-norm": "bad",
            "precision": "ok",
            "reduction-precision": "ok",
            "logging-interval": "ok",
            "save-interval": "ok",
            "checkpoints-kept": "ok",
            "global-batch": "ok",
            "timeouts-and-recorder": "unknown",
        },
    ),
    "Lightning": (
        {
            "trainer": {
                "gradient_clip_val": 0.5,
                "gradient_clip_algorithm": "value",
                "precision": "16-true",
                "log_every_n_steps": 50,
                "detect_anomaly": True,
            }
        },
        {
            "clipping-on": "ok",
            "clipping-by-global-norm": "ok",
            "precision": "bad",
            "logging-interval": "ok",
            "anomaly-mode-off": "warn",
        },
    ),
}


def fixes(kind: str) -> list[Fix]:
    return [f for f in book().fixes.values() if f.kind == kind]


def check_items() -> list[CheckItem]:
    return [item for checklist in book().kind("checklists").values() for item in checklist.items]


def judged(config: dict[str, Any]) -> dict[str, str]:
    return {v.item: v.state for v in preflight(Run(config=config), book())}


def test_no_entry_is_broken() -> None:
    bad = [p for p in book().problems if any(f"/{k}/" in p.where for k in ("fixes", "symptoms", "checklists"))]
    assert bad == []


def test_the_book_holds_enough() -> None:
    count = Counter(f.kind for f in book().fixes.values())
    assert set(book().symptoms) == set(SYMPTOMS)
    assert count["first-aid"] >= 18 and count["prevention"] >= 20 and sum(count.values()) >= 140


def test_every_cause_is_repaired() -> None:
    treated = {cause for fix in fixes("repair") for cause in fix.treats}
    assert sorted(set(book().causes) - treated) == []
    assert sorted(treated - set(book().causes)) == []


def test_every_symptom_has_two_to_five_first_aids() -> None:
    count = Counter(symptom for fix in fixes("first-aid") for symptom in fix.symptoms)
    assert set(count) == set(SYMPTOMS) - {"healthy"}
    assert {s: n for s, n in count.items() if not 2 <= n <= 5} == {}


@pytest.mark.parametrize("symptom", sorted(set(SYMPTOMS) - {"healthy"}))
def test_a_symptom_says_when_to_stop_in_figures(symptom: str) -> None:
    page = book().symptoms[symptom]
    assert re.search(r"\d", page.looks_like) and re.search(r"\d", page.stop_loss), "no figure at 3 a.m."
    assert page.escalate


def test_a_fix_can_be_done_judged_and_undone() -> None:
    thin = [f.id for f in book().fixes.values() if len(f.steps) < 2 or len(f.undo.split()) < 3]
    assert thin == []


def test_what_a_cure_shows_fits_the_causes() -> None:
    """A cure that is read as evidence must not speak against the very cause that it repairs."""
    wrong = []
    for fix in book().fixes.values():
        for signal, outcome in fix.tests.items():
            for name in fix.treats:
                link = book().causes[name].expects.get(signal)
                word = link.states.get(outcome) if link else None
                sure = link is not None and "almost_always" in link.states.values()
                if word in ("seldom", "almost_never") or (sure and not word):
                    wrong.append((fix.id, signal, outcome, name))
    assert wrong == []


def test_sources_are_there() -> None:
    known = set(book().sources) | set(book().cases) | set(book().ledger)
    entries = [e for kind in ("fixes", "symptoms", "checklists") for e in book().kind(kind).values()]
    assert sorted({s for e in entries for s in cited(e)} - known) == []


def test_python_commands_parse() -> None:
    for fix in book().fixes.values():
        for command in fix.commands:
            if command.language == "python":
                ast.parse(command.run)


def snippets(framework: str) -> list[tuple[str, str]]:
    mine = [(f.id, f.settings[framework]) for f in book().fixes.values() if framework in f.settings]
    return mine + [(i.id, i.snippets[framework]) for i in check_items() if framework in i.snippets]


def test_settings_of_torchtitan_are_toml() -> None:
    for _, text in snippets("torchtitan"):
        tomllib.loads(text)


def test_settings_of_megatron_are_flags() -> None:
    for name, text in snippets("Megatron-LM"):
        for line in text.splitlines():
            assert line.lstrip().startswith(("--", "#")), (name, line)


def test_deepspeed_clipping_is_never_written_as_an_object() -> None:
    texts = snippets("DeepSpeed")
    assert any('"gradient_clipping": 1.0' in text for _, text in texts)
    for name, text in texts:
        live = "\n".join(line for line in text.splitlines() if not line.lstrip().startswith("#"))
        assert not re.search(r'"gradient_clipping":\s*\{', live), name


def test_deepspeed_settings_that_are_json_parse() -> None:
    for name, text in snippets("DeepSpeed"):
        bare = re.sub(r"\s+#.*$", "", text, flags=re.MULTILINE).strip()
        bare = "\n".join(line for line in bare.splitlines() if not line.lstrip().startswith("#"))
        if bare.startswith("{"):
            assert isinstance(json.loads(bare), dict), name


def test_core_metrics_have_a_snippet_for_each_framework() -> None:
    core = next(i for i in check_items() if i.id == "core-metrics")
    assert {"HF Trainer", "DeepSpeed", "Megatron-LM", "torchtitan", "Lightning", "PyTorch"} <= set(core.snippets)


def test_checklists_of_the_plan_are_there() -> None:
    wanted = {"before-a-run", "what-to-log", "after-a-resume", "recurrence", "stability-check-up", "post-mortem"}
    wanted |= {"triage", "last-resorts", "data-governance", "node-health"}
    assert wanted <= set(book().kind("checklists"))


@pytest.mark.parametrize("name", SAMPLES)
def test_preflight_judges_samples(name: str) -> None:
    config, expected = SAMPLES[name]
    found = judged(config)
    assert {item: found.get(item) for item in expected} == expected


def test_rules_use_three_words_and_each_can_answer() -> None:
    for item in check_items():
        for rule in item.config:
            words = set(rule.equals.values()) | {w for _, w in (*rule.below, *rule.above)}
            assert words and words <= {"ok", "warn", "bad"}, item.id


def test_each_state_is_seen_somewhere() -> None:
    seen = {state for config, _ in SAMPLES.values() for state in judged(config).values()}
    assert seen == {"ok", "warn", "bad", "unknown"}


# --- first aid that fits what is known ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("told", "first", "never"),
    [
        # there is no checkpoint before the first step
        ("loss-shape=instant-nan present-at-first-step=yes", "stop-and-keep-the-scene", "go-back-before-the-first-nan"),
        # the stacks of a hung job are gone once its node is drained
        (
            "loss-shape=hang-or-crash nccl-log=watchdog-timeout ranks-affected=one",
            "dump-stacks-before-killing",
            "trial-at-a-third-of-the-rate",
        ),
        # no node is a suspect
        ("loss-shape=throughput-drop slow-rank=all-slow", "snapshot-where-the-step-waits", "swap-in-a-spare-node"),
        ("loss-shape=throughput-drop slow-rank=one-slow", "isolate-the-node", "dump-stacks-before-killing"),
        # the data goes with the batch to the next node
        ("loss-shape=persistent-spike ranks-affected=one tied-to-samples=yes", "", "isolate-the-node"),
        ("loss-shape=persistent-spike begins-at-resume=yes", "freeze-resumes", "isolate-the-node"),
        ("loss-shape=persistent-spike lower-lr-removes-it=no", "", "trial-at-a-third-of-the-rate"),
        # against one cause, and nothing speaks for it
        ("loss-shape=hang-or-crash", "dump-stacks-before-killing", "shrink-the-micro-batch-after-oom"),
        ("loss-shape=early-explosion", "stop-and-keep-the-scene", "turn-on-clipping-at-one"),
        ("loss-shape=hang-or-crash crash-tail=oom", "shrink-the-micro-batch-after-oom", "keep-the-batch-of-the-spike"),
        ("loss-shape=resume-drift older-checkpoint-helps=no", "freeze-resumes", "resume-from-an-older-checkpoint"),
    ],
)
def test_first_aid_fits_what_is_known(told: str, first: str, never: str) -> None:
    session = Session(book(), tables())
    for pair in told.split():
        signal, _, state = pair.partition("=")
        session.answer(signal, state)
    aid = session.diagnosis(explained=False).first_aid
    assert not first or aid[0] == first
    assert never not in aid and aid


@pytest.mark.parametrize(
    ("told", "cause"),
    [
        (
            "loss-shape=resume-drift loss-jump-size-at-resume=to-initial begins-at-resume=yes",
            "wrong-weights-loaded",
        ),
        (
            "loss-shape=resume-drift world-size-changed=yes begins-at-resume=yes loss-jump-size-at-resume=large",
            "layout-changed-at-resume",
        ),
    ],
)
def test_checks_of_the_same_checkpoint_do_not_take_weight_from_each_other(told: str, cause: str) -> None:
    """Three further looks, all of them what the cause lets expect, leave it where it is: first."""
    session = Session(book(), tables())
    further = "checkpoint-checksum=matches older-checkpoint-helps=no state-equal-after-load=no"
    for pair in f"{told} {further}".split():
        signal, _, state = pair.partition("=")
        session.answer(signal, state)
    first = session.diagnosis(explained=False).causes[0]
    assert first.id == cause and first.probability > 0.6


@pytest.mark.parametrize(("sure", "offered"), [(SURE_ENOUGH - 0.01, True), (SURE_ENOUGH, False)])
def test_what_forbids_a_first_aid_must_be_likely(sure: float, offered: bool) -> None:
    session = Session(book(), tables())
    session.answer("loss-shape", "persistent-spike")
    session.observe([Evidence("ranks-affected", "one", "metrics", "one rank departs", 100, 3, sure)])
    assert ("trial-at-a-third-of-the-rate" in session.diagnosis().first_aid) is offered
