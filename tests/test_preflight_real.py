"""Configurations as they are published: a sound one is read and left alone, a fault is named with file and line."""

from __future__ import annotations

import json
from functools import cache
from itertools import pairwise
from pathlib import Path

import pytest
from configurations import SOUND

from playbook import places, readers
from playbook.errors import PlaybookError
from playbook.faces.cli import run as command
from playbook.knowledge.loader import Book, load
from playbook.series import Run
from playbook.workflow.ingest import look, run_size
from playbook.workflow.preflight import RELATIONS, Verdict, preflight
from playbook.workflow.preflight.doubles import meant_by
from playbook.workflow.preflight.recipe import Recipe, settings_of


@cache
def book() -> Book:
    return load([places.knowledge()])


def written(folder: Path, *files: tuple[str, str]) -> Run:
    for name, text in files:
        (folder / name).write_text(text)
    return readers.read([folder / name for name, _ in files])


def judged(folder: Path, *files: tuple[str, str]) -> list[Verdict]:
    return preflight(written(folder, *files), book())


def alarms(verdicts: list[Verdict]) -> list[tuple[str, str, str]]:
    return [(v.state, v.item, v.found) for v in verdicts if v.state in ("bad", "warn")]


@pytest.mark.parametrize("dialect", sorted(SOUND))
def test_a_sound_configuration_is_left_alone(tmp_path: Path, dialect: str) -> None:
    verdicts = judged(tmp_path, SOUND[dialect])
    assert alarms(verdicts) == []
    assert any(v.state == "ok" for v in verdicts) or dialect in ("accelerate", "ldm", "model")


# (dialect, what stands there, what is put there, the item that must name it)
BROKEN: list[tuple[str, str, str, str]] = [
    ("hf", "bf16: true", "bf16: true\nfp16: true", "one-half-precision"),
    ("hf", "torch_dtype: bfloat16\nbf16: true", "torch_dtype: bfloat16\nfp16: true", "precision"),
    ("hf", "torch_dtype: bfloat16\nbf16: true", "torch_dtype: float16\nfp16: true", "dtype-of-loaded-weights"),
    ("hf", "learning_rate: 2.0e-05", "learning_rate: 2.0e-03", "peak-rate"),
    ("hf", "learning_rate: 2.0e-05", "learning_rate: 2e5", "peak-rate"),
    ("hf", "learning_rate:", "learing_rate:", "names-are-known"),
    ("hf", "gradient_accumulation_steps:", "gradient_acumulation_steps:", "names-are-known"),
    ("hf", "seed: 42", "seed: 42\nlearning_rate: 1e-4", "set-once"),
    ("hf", "warmup_ratio: 0.1", "warmup_ratio: 100", "warm-up-within-the-run"),
    ("hf", "max_steps: -1", "max_steps: 500\nwarmup_steps: 2000", "warm-up-within-the-run"),
    ("hf", "save_steps: 100", "save_steps: 150\nload_best_model_at_end: true", "best-model-is-known"),
    ("hf", "eval_strategy: steps", 'load_best_model_at_end: true\neval_strategy: "no"', "best-model-is-known"),
    ("hf", "seed: 42", "fsdp: full_shard\ndeepspeed: ds.json", "one-sharder"),
    ("hf", "weight_decay: 0.0", "weight_decay: -0.1", "weight-decay"),
    ("hf", "per_device_train_batch_size: 16", "per_device_train_batch_size: 0", "global-batch"),
    ("hf", "adam_beta2: 0.999", "adam_beta2: 1.0", "adam-beta2"),
    ("llamafactory", "do_train: true", "do_train: false\ndo_predict: true", "trains-something"),
    ("llamafactory", "num_train_epochs: 3.0", "num_train_epochs: 0", "trains-something"),
    ("deepspeed", '"loss_scale": 0', '"loss_scale": 1', "precision"),
    ("deepspeed", '"gradient_accumulation_steps": 8', '"gradient_accumulation_steps": 7', "global-batch"),
    ("deepspeed", '"warmup_max_lr": 3e-5', '"warmup_max_lr": 3e-4', "one-owner"),
    ("deepspeed", '"stage": 3', '"stage": 2', "zero-stage-allows-it"),
    ("deepspeed", '"stage": 3', '"stage": 4', "zero-stage-allows-it"),
    ("deepspeed", '"gradient_clipping": 1.0', '"gradient_cliping": 1.0', "names-are-known"),
    (
        "deepspeed",
        '"gradient_clipping": 1.0',
        '"gradient_clipping": {"max_norm": 1.0}',
        "deepspeed-clipping-is-a-number",
    ),
    ("deepspeed", '"eps": 1e-8', '"eps": 1e-12', "adam-epsilon"),
    ("deepspeed", '"lr": 3e-5,', '"lr": 3e-5, "lr": 3e-4,', "set-once"),
    ("deepspeed", '"hysteresis": 2\n  },', '"hysteresis": 2\n  },\n  "bf16": {"enabled": true},', "one-half-precision"),
    ("megatron", "LR=1.2e-4", "LR=1.2e-3", "peak-rate"),
    ("megatron", "--min-lr 1.2e-5", "--min-lr 1.2e-3", "floor-below-the-peak"),
    ("megatron", "--lr-warmup-iters 1430", "--lr-warmup-iters 0", "warm-up"),
    ("megatron", "--lr-warmup-iters 1430", "--lr-warmup-iters 200000", "warm-up-within-the-run"),
    ("megatron", "--lr-decay-iters 130000", "--lr-decay-iters 13000", "schedule-shape"),
    ("megatron", "--clip-grad 1.0", "--clip-grad 0", "clipping-on"),
    ("megatron", "--adam-beta2 0.95", "--adam-beta2 0.999", "adam-beta2"),
    ("megatron", "--adam-eps 1e-8", "--adam-eps 1e-10", "adam-epsilon"),
    ("megatron", "--fp16 ", "--fp16 --bf16 ", "one-half-precision"),
    ("megatron", "--fp16 ", "--fp16 --loss-scale 1 ", "precision"),
    ("megatron", "--num-attention-heads 32", "--num-attention-heads 30", "sizes-divide"),
    ("megatron", "--num-layers 32", "--num-layers 33", "sizes-divide"),
    ("megatron", "--seq-length $SEQ_LEN", "--seq-length 4096", "positions-reach"),
    ("megatron", "--fp16 ", "--fp16 --lr 3e-3 ", "set-once"),
    ("megatron", "--fp16 ", "--fp16 --padded-vocab-size 50257 ", "vocabulary-divides"),
    ("megatron", "--train-iters 143000", "--train-iters 0", "trains-something"),
    ("slurm", '"gradient_clipping": 1.0', '"gradient_clipping": 0.5', "one-owner"),
    ("slurm", '"stage": $ZERO', '"stage": 5', "zero-stage-allows-it"),
    ("nanogpt", "warmup_iters = 2000", "warmup_iters = 700 * 1000", "warm-up-within-the-run"),
    ("nanogpt", "lr_decay_iters = 600000", "lr_decay_iters = 5000", "schedule-shape"),
    ("nanogpt", "max_iters = 600000", "max_iters = 5000", "schedule-shape"),
    ("nanogpt", "grad_clip = 1.0", "grad_clip = 0.0", "clipping-on"),
    ("nanogpt", "min_lr = learning_rate / 10", "min_lr = learning_rate * 10", "floor-below-the-peak"),
    ("nanogpt", "n_embd = 768", "n_embd = 770", "sizes-divide"),
    ("nanogpt", "learning_rate = 6e-4", "learning_rate = 6e-3", "peak-rate"),
    ("torchtitan", "lr = 3e-4", "lr = 3e-3", "peak-rate"),
    ("torchtitan", "warmup_steps = 200\n", "warmup_steps = 2000\n", "warm-up-within-the-run"),
    ("torchtitan", "max_norm = 1.0", "max_norm = 0.0", "clipping-on"),
    ("neox", '"lr": 0.00012', '"lr": 0.0012', "peak-rate"),
    ("neox", '"min_lr": 0.000012', '"min_lr": 0.0012', "floor-below-the-peak"),
    ("neox", '"loss_scale": 0', '"loss_scale": 1', "precision"),
    ("neox", '"seq-length": 2048', '"seq-length": 8192', "positions-reach"),
    ("neox", '"num-attention-heads": 32', '"num-attention-heads": 33', "sizes-divide"),
    ("axolotl", "learning_rate: 0.0002", "learning_rate: 0.002", "peak-rate"),
    ("axolotl", "bf16: auto\nfp16:", "bf16: true\nfp16: true", "one-half-precision"),
    ("olmo", "t_warmup: 5000", "t_warmup: 0", "warm-up"),
    ("olmo", "  - 0.95", "  - 0.999", "adam-beta2"),
    ("olmo", "max_grad_norm: 1.0", "max_grad_norm: 0.0", "clipping-on"),
    ("olmo", "alpha_f: 0.1", "alpha_f: 10", "floor-below-the-peak"),
    ("olmo", "learning_rate: 3.0e-4", "learning_rate: 3.0e-3", "peak-rate"),
    ("composer", "t_warmup: 100ba", "t_warmup: 70000ba", "warm-up-within-the-run"),
    ("composer", "device_train_microbatch_size: 8", "device_train_microbatch_size: 7", "global-batch"),
    ("fairseq", "warmup_updates: 10000", "warmup_updates: 150000", "warm-up-within-the-run"),
    ("fairseq", "tokens_per_sample: 512", "tokens_per_sample: 1024", "positions-reach"),
    ("nemo", "precision: 16", "precision: 16-true", "precision"),
    ("nemo", "min_lr: 2e-5", "min_lr: 2e-3", "floor-below-the-peak"),
    ("nemo", "num_attention_heads: 12", "num_attention_heads: 10", "sizes-divide"),
    ("nemo", "global_batch_size: 8", "global_batch_size: 10", "global-batch"),
    ("nemo", "  gradient_clip_val: 1.0\n", "", "clipping-on"),
    ("olmo", "max_grad_norm: 1.0\n", "", "clipping-on"),
    ("lightning", "lr: 0.001", "lr: 0,001", "peak-rate"),
    ("lightning", "lr: 0.001", "lr: 0.1", "peak-rate"),
    ("lightning", "precision: 16-mixed", "precision: 16-true", "precision"),
    ("litgpt", "min_lr: 4.0e-05", "min_lr: 4.0e-03", "floor-below-the-peak"),
    ("litgpt", "  max_norm: 1.0", "  max_norm: 0", "clipping-on"),
    ("litgpt", "  lr_warmup_steps: 2000\n", "  lr_warmup_steps: 0\n", "warm-up"),
    ("mmengine", "lr = 0.02", "lr = 20.0", "peak-rate"),
    ("mmengine", "max_epochs=12", "max_epochs=0", "trains-something"),
    ("timm", "lr: 0.001", "lr: 0.1", "peak-rate"),
    ("timm", "warmup_epochs: 5", "warmup_epochs: 500", "warm-up-within-the-run"),
    ("timm", "seed: 42", "eval_only: true", "trains-something"),
    ("open_clip", "2.048e-3", "2.048e-1", "peak-rate"),
    ("verl", "optim.lr=1e-6", "optim.lr=1e-4", "peak-rate"),
    ("maxtext", "warmup_steps_fraction: 0.1", "warmup_steps_fraction: 10", "warm-up-within-the-run"),
    ("maxtext", "gradient_clipping_threshold: 1.0", "gradient_clipping_threshold: 0", "clipping-on"),
    ("levanter", "min_lr_ratio: 0.1", "min_lr_ratio: 10", "floor-below-the-peak"),
    ("nanotron", "num_key_value_heads: 16", "num_key_value_heads: 3", "sizes-divide"),
    ("nanotron", "zero_stage: 0", "zero_stage: 2", "zero-stage-allows-it"),
    ("torchtune", "lr: 2e-5", "lr: 2e-3", "peak-rate"),
    ("swift", "--learning_rate 1e-4", "--learning_rate 1e-2", "peak-rate"),
    ("diffusers", "--learning_rate=1e-05", "--learning_rate=1e-05 --lr_warmup_steps=20000", "set-once"),
]


@pytest.mark.parametrize(("dialect", "old", "new", "item"), BROKEN)
def test_a_fault_is_named_where_it_stands(tmp_path: Path, dialect: str, old: str, new: str, item: str) -> None:
    name, text = SOUND[dialect]
    assert text.count(old) >= 1
    at = text.index(old)
    text = text[:at] + new + text[at + len(old) :]
    bad = [v for v in judged(tmp_path, (name, text)) if v.state == "bad"]
    named = next((v for v in bad if v.item == item), None)
    assert named is not None, [(v.item, v.found) for v in bad]
    first = text.count("\n", 0, at) + 1
    lines = range(first - 1, first + new.count("\n") + 2)
    said = {v.location["line"] for v in bad if v.item == item and v.location}
    shown = "".join(v.found for v in bad if v.item == item)
    key = old.split()[0].strip('"-:=').replace("-", "_")
    other = f"{key} = " in shown  # a relation names one of the two, and shows the other
    assert said & set(lines) or any(f"line {n})" in shown for n in lines) or other or "betas" in shown or not new
    assert named.location is not None and named.location["file"].endswith(name)
    assert named.text and named.why


@pytest.mark.parametrize(
    ("trainer", "engine", "item"),
    [
        ("gradient_accumulation_steps: 4\n", '"gradient_accumulation_steps": 8', "one-owner"),
        ("learning_rate: 1e-4\n", '"optimizer": {"type": "Adam", "params": {"lr": 3e-4}}', "one-owner"),
        ("bf16: true\n", '"fp16": {"enabled": true}', "one-half-precision"),
        ("per_device_train_batch_size: 4\n", '"train_micro_batch_size_per_gpu": 8', "one-owner"),
        ("max_grad_norm: 1.0\n", '"gradient_clipping": 0.5', "one-owner"),
    ],
)
def test_trainer_and_engine_say_the_same(tmp_path: Path, trainer: str, engine: str, item: str) -> None:
    mine, theirs = (
        ("args.yaml", "seed: 1\n" + trainer),
        ("ds.json", f'{{"zero_optimization": {{"stage": 2}},\n {engine}}}'),
    )
    bad = [v for v in judged(tmp_path, mine, theirs) if v.state == "bad"]
    assert [v.item for v in bad] == [item]
    places = f"{bad[0].location} {bad[0].found}"
    assert "args.yaml" in places and "ds.json" in places
    assert alarms(judged(tmp_path, mine, ("ds.json", engine_auto(engine)))) == []


def engine_auto(engine: str) -> str:
    """The same DeepSpeed file with the setting left to the trainer."""
    key = engine.split('"')[1]
    value = {"optimizer": '{"params": {"lr": "auto"}}', "fp16": '{"enabled": "auto"}'}.get(key, '"auto"')
    return f'{{"zero_optimization": {{"stage": 2}},\n "{key}": {value}}}'


def test_what_is_bad_is_told_beside_what_is_right(tmp_path: Path) -> None:
    """One item may see several settings: all that is wrong, or else one that is right."""
    both = judged(tmp_path, ("a.yaml", "lr: 1e-3\nmin_lr: 1e-4\nmin_lr_ratio: 1.5\n"))
    assert [v.found.split()[0] for v in both if v.item == "floor-below-the-peak"] == ["min_lr_ratio"]
    right = judged(tmp_path, ("a.yaml", "lr: 1e-3\nmin_lr: 1e-4\nmin_lr_ratio:\n"))
    assert [v.state for v in right if v.item == "floor-below-the-peak"] == ["ok"]
    assert (
        [v.location for v in right if v.state == "unknown"].count(None) == sum(v.state == "unknown" for v in right) > 0
    )


def test_a_later_file_may_override_an_earlier_one(tmp_path: Path) -> None:
    assert alarms(judged(tmp_path, ("base.yaml", "lr: 1e-4\nepochs: 3\n"), ("mine.yaml", "lr: 3e-4\n"))) == []


@pytest.mark.parametrize(
    "word",
    [
        "learning_rate",
        "train_batch_size",
        "num_gpus",
        "num_cpus",
        "checkpoints_dir",
        "warmup_step",
        "eval_step",
        "adam_beta1",
        "adam_beta3",
        "model_dtype",
        "max_grad_norms",
        "save_step",
        "lr_schedule",
        "weights_decay",
        "batch_size2",
        "batch_sizes2",
        "optimizers",
        "learning_rots",
        "weight_dekoy",
        "gradeint_acumulation_steps",
        "gradient_clapper",
        "warmup_staps_per_epoch",
        "lr_warmup",
        "num_layer",
    ],
)
def test_a_name_that_is_merely_alike_is_no_slip(word: str) -> None:
    assert meant_by(word) is None


@pytest.mark.parametrize(
    ("word", "meant"),
    [
        ("learing_rate", "learning_rate"),
        ("leanring_rate", "learning_rate"),
        ("gradient_cliping", "gradient_clipping"),
        ("graident_accumulation_steps", "gradient_accumulation_steps"),
        ("weigth_decay", "weight_decay"),
        ("warmup_stpes", "warmup_steps"),
        ("max_grad_nrom", "max_grad_norm"),
        ("gradient_akkumulation_steps", "gradient_accumulation_steps"),
        ("shceduler", "scheduler"),
        ("per_device_train_batch_szie", "per_device_train_batch_size"),
    ],
)
def test_a_slip_is_known(word: str, meant: str) -> None:
    assert meant_by(word) == meant


def test_every_relation_of_the_book_exists_and_is_used() -> None:
    items = [item for checklist in book().kind("checklists").values() for item in checklist.items]
    assert sorted(item.relation for item in items if item.relation) == sorted(RELATIONS)


def test_what_the_dialects_call_it_is_the_same_thing(tmp_path: Path) -> None:
    """Rate, batch, clipping, precision, warm-up, size and layout are read in every dialect that writes them."""
    found = {}
    for dialect, file in SOUND.items():
        run = written(tmp_path, file)
        recipe = Recipe(settings_of(run.config, run.settings))
        found[dialect] = recipe
    rate = {d: r.figure("lr")[0] for d, r in found.items() if r.figure("lr")}
    assert set(SOUND) - set(rate) == {"deepspeed-auto", "accelerate", "ldm", "model", "spacy"}
    assert rate["megatron"] == 1.2e-4 and rate["fairseq"] == 5e-4 and rate["mmengine"] == 0.02 and rate["verl"] == 1e-6
    assert {d for d, r in found.items() if r.beta2} >= {
        "hf",
        "deepspeed",
        "megatron",
        "neox",
        "olmo",
        "fairseq",
        "litgpt",
    }
    assert {d for d, r in found.items() if r.language_pretraining} >= {
        "megatron", "slurm", "nanogpt", "torchtitan", "neox", "olmo", "composer", "nemo", "litgpt", "maxtext",
        "levanter", "nanotron",
    }  # fmt: skip
    assert not any(
        found[d].language_pretraining for d in ("hf", "fairseq", "timm", "axolotl", "verl", "diffusers", "swift")
    )
    assert found["megatron"].world is None or found["megatron"].world == 128
    assert found["slurm"].world == 32 and found["verl"].world == 8 and found["accelerate"].world == 8
    sizes = {"hf": 7e9, "axolotl": 7e9, "torchtitan": 8e9, "olmo": 7e9, "torchtune": 8e9, "litgpt": 1.1e9}
    assert {d: found[d].size for d in sizes} == sizes
    assert round(found["megatron"].size / 1e9, 1) == 6.4
    assert {d: r.tokens for d, r in found.items() if r.tokens and d in ("megatron", "nemo")} == {
        "megatron": 2097152,
        "nemo": 4096,
    }
    half = {d: "+".join(sorted(r.half)) for d, r in found.items()}
    assert half["hf"] == half["nanogpt"] == half["olmo"] == "bf16" and half["megatron"] == half["nemo"] == "fp16"


@pytest.mark.parametrize(
    ("name", "text", "what"),
    [
        ("tab.yaml", "lr: 1e-4\n\tbatch_size: 3\n", "tab.yaml:2: not valid YAML.*no tabs"),
        ("dup.toml", "[optimizer]\nlr = 1\nlr = 2\n", "dup.toml:3: not valid TOML"),
        ("cut.py", "learning_rate = \nbatch_size = 4\n", "cut.py:1: not valid Python"),
        ("base.py", "_base_ = ['../schedule.py']\n", "takes its settings from other files"),
        ("hydra.yaml", "defaults:\n  - model: gpt\n", "takes its settings from other files"),
        ("compose.yaml", "services:\n  web: {image: x}\n", "sets nothing that we know of a training"),
        ("empty.yaml", "", "the file is empty"),
        ("hello.sh", "#!/bin/bash\necho hello --world --to --all\n", "no command with settings of a training"),
    ],
)
def test_what_is_no_configuration_is_refused_in_one_line(tmp_path: Path, name: str, text: str, what: str) -> None:
    with pytest.raises(PlaybookError, match=what) as error:
        judged(tmp_path, (name, text))
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("a.yaml", "\ufeffwarmup_steps: 200\r\nmax_steps: 100\r\n"),
        ("b.yaml", "base: &b\n  max_steps: 100\ntrain:\n  <<: *b\n  warmup_steps: 200\n"),
        ("c.yaml", "warmup_steps: 200\nmax_steps: ${run.steps}\nrun:\n  steps: 100\nx: ${x}\ny: ${oc.env:HOME}\n"),
        ("d.yaml", 'warmup_steps: "200"\nmax_steps: "1e2"\n'),
        ("e.yaml", "---\nwarmup_steps: 200\n---\nmax_steps: 100\n...\n"),
        ("f.yaml", "学习率: 1\nwarmup_steps: 200\nmax_steps: 100\n"),
        ("g.json", '// by hand\n{"warmup_steps": 200, "max_steps": 100, // short\n}\n'),
        ("h.toml", "warmup_steps = 200\nmax_steps = 100\n"),
        ("i.py", "steps = 5 * 20\nwarmup_steps, max_steps = 2 * steps, steps\nimport os; seed = os.getpid()\n"),
        ("j.py", "args = TrainingArguments(warmup_steps=200, max_steps=100, seed=make())\n"),
        ("k.py", "cfg = get()\ncfg.warmup_steps = 200\ncfg.max_steps = 10**2\n"),
        (
            "l.py",
            'p.add_argument("--warmup-steps", type=int, default=200)\np.add_argument("--max-steps", default=100)\n',
        ),
        ("m.sh", "W=200\npython train.py --lr 1e-4 --warmup_steps $W \\\n  --max_steps=$((W / 2))\n"),
        ("n.sh", 'A=(--warmup_steps 200 # long\n  --seed 1)\nA+=(--max_steps 100)\npython train.py "${A[@]}"\n'),
        ("o.txt", "torchrun --nproc_per_node 8 train.py \\\n  --warmup_steps 200 \\\n  --max_steps 100 --seed 3\n"),
        ("q.ini", "[training]\nwarmup_steps = 200\nmax_steps = 100\nname = me & you\n"),
        (
            "r.yaml",
            "pod:\n- name: x\n  args:\n  - t.py\n  - --lr=1e-4\n  - --warmup_steps=200\n  - --max_steps=100\n",
        ),
        (
            "s.yaml",
            "num_nodes: 2\nrun: |\n  torchrun t.py \\\n    --lr 1e-4 --warmup_steps 200 \\\n    --max_steps 100\n",
        ),
        ("t.log", "using 8 GPUs\nwarmup_steps ........ 200\nmax_steps ........... 100\n"),
        ("p.sh", "if [ $X ]; then\n  S=7\nelse\n  S=8\nfi\npython t.py --seed $S --warmup_steps 200 --max_steps 100\n"),
    ],
)
def test_the_same_fault_in_odd_clothes(tmp_path: Path, name: str, text: str) -> None:
    (tmp_path / name).write_text(text, newline="")
    run = readers.read(tmp_path / name)
    bad = [v for v in preflight(run, book()) if v.state == "bad"]
    assert [v.item for v in bad] == ["warm-up-within-the-run"]
    assert bad[0].location is not None and bad[0].location["line"] is not None


def test_nothing_is_run(tmp_path: Path) -> None:
    mark = tmp_path / "ran"
    written(
        tmp_path, ("a.py", f"import os\nlr = os.system('touch {mark}')\nbatch_size = 4\nepochs = 9**9**9\nseed = 3\n")
    )
    written(
        tmp_path, ("a.sh", f"X=$(touch {mark})\npython t.py --lr `touch {mark}` --epochs $X --batch-size 4 --seed 3\n")
    )
    written(tmp_path, ("a.yaml", f'lr: !!python/object/apply:os.system ["touch {mark}"]\nbatch_size: 4\n'))
    assert not mark.exists()


def test_only_what_the_script_itself_says_is_taken(tmp_path: Path) -> None:
    script = "LR=1e-4\nif [ $BIG ]; then LR=3e-4; fi\n"
    script += "python t.py --lr $LR --batch-size $1 --epochs $(nproc) --seed 7 --warmup-epochs 1\n"
    assert written(tmp_path, ("a.sh", script)).config == {"seed": 7, "warmup_epochs": 1}


def test_two_trainings_in_one_script_are_told(tmp_path: Path) -> None:
    script = "python t.py --lr 1e-4 --epochs 3 --seed 1 --batch-size 8\npython t.py --lr 1e-5 --epochs 1 --seed 1\n"
    run = written(tmp_path, ("a.sh", script))
    assert run.config["lr"] == 1e-4
    assert [(p.line, p.code) for p in run.files[0].problems] == [(2, "another-run")]


def test_aliases_that_multiply_end(tmp_path: Path) -> None:
    rows = ["a: &a {lr: 1, x: 2}"] + [
        f"{b}: &{b} [{','.join(['*' + a] * 9)}]" for a, b in zip("abcdefgh", "bcdefghi", strict=True)
    ]
    run = written(tmp_path, ("bomb.yaml", "\n".join(rows) + "\nlearning_rate: 1e-4\n"))
    assert len(run.settings) <= 20_000


def test_sections_and_variables_that_multiply_end(tmp_path: Path) -> None:
    letters = "abcdefghijklmn"
    rows = ["a = dict(lr=1e-4, batch_size=8)"]
    rows += [f"{b} = dict({', '.join(f'k{n}={a}' for n in range(10))})" for a, b in pairwise(letters)]
    assert len(written(tmp_path, ("many.py", "\n".join(rows))).settings) <= 20_000
    doubling = "A=x\n" + 'A="$A $A --x 1"\n' * 60
    run = written(tmp_path, ("many.sh", f"python t.py --lr 1e-4 --epochs 3 --seed 1\n{doubling}python u.py $A\n"))
    assert run.config["lr"] == 1e-4


def test_preflight_on_the_command_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "args.yaml"
    path.write_text("seed: 1\nbf16: true\nfp16: true\n")
    assert command(["preflight", str(path), "--json"]) == 1
    document = json.loads(capsys.readouterr().out)
    bad = [item for item in document["items"] if item["state"] == "bad"]
    assert [(item["item"], item["location"]) for item in bad] == [
        ("one-half-precision", {"file": str(path), "line": 3})
    ]
    assert command(["preflight", str(path)]) == 1
    shown = capsys.readouterr().out
    assert f"{path}:3: fp16 = True, bf16 = True (line 2)" in shown and "mend:" in shown
    assert "\n1 bad, 0 warn, " in shown
    path.write_text("seed: 1\nbf16: true\n")
    assert command(["preflight", str(path)]) == 0


def test_of_several_scripts_in_a_folder_none_is_taken(tmp_path: Path) -> None:
    for name, rate in (("small.sh", "1e-4"), ("large.sh", "3e-4")):
        (tmp_path / name).write_text(f"python t.py --lr {rate} --epochs 3 --seed 1\n")
    (tmp_path / "metrics.csv").write_text("step,loss\n0,3\n1,2\n2,1\n")
    run = readers.read(tmp_path)
    assert run.config == {} and run.settings == ()
    assert [p.code for f in run.files for p in f.problems] == ["several-scripts"] * 2
    named = readers.read([tmp_path / "metrics.csv", tmp_path / "small.sh"])
    assert named.config["lr"] == 1e-4 and named.one("loss") is not None


def test_evidence_of_a_configuration_says_where_it_stands(tmp_path: Path) -> None:
    run = written(tmp_path, ("metrics.csv", "step,loss\n0,3\n1,2\n2,1\n"), ("args.yaml", "seed: 1\nfp16: true\n"))
    found = {e.signal: e for e in look(run, book()).evidence}
    precision = found["precision"]
    assert precision.state == "fp16" and precision.origin is not None
    assert (precision.origin.path, precision.origin.line) == (str(tmp_path / "args.yaml"), 2)


def test_the_size_of_a_run_is_read_off_its_script(tmp_path: Path) -> None:
    assert run_size(written(tmp_path, SOUND["megatron"])).gpus == 128


def test_a_step_time_in_milliseconds_is_told_in_seconds(tmp_path: Path) -> None:
    row = (
        " iteration {k}/ 100 | elapsed time per iteration (ms): 2500.0 | learning rate: 1.0E-04 | lm loss: 2.5E+00 |\n"
    )
    (tmp_path / "a.log").write_text("".join(row.format(k=k) for k in range(1, 9)))
    assert run_size(readers.read([tmp_path / "a.log"])).step_seconds == 2.5
