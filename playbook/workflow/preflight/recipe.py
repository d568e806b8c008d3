"""What a configuration says of the training, whatever its dialect calls it: rate, batch, length, precision, layout.

Every answer carries the `Setting` it was read from, so that a fault can name file and line. What is not said is None;
nothing is filled with a default.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from playbook.engine.observe import flatten, foreign
from playbook.readers.base import number
from playbook.series import Origin, Setting
from playbook.workflow.preflight.kinds import FROM_SCRATCH, KINDS, START_FROM
from playbook.workflow.preflight.names import NAMES

_SIZE = re.compile(r"(?<![0-9a-z.])(?:(\d+)x)?(\d+(?:\.\d+)?|0_\d+)(b|m)(?![a-z0-9])(?!-?tok)", re.IGNORECASE)
_STEPS = re.compile(r"(\d+(?:\.\d+)?(?:e\d+)?)(?:ba)?", re.IGNORECASE)
_PAIR = re.compile(r"[\[(]?\s*([\d.eE+-]+)\s*,\s*([\d.eE+-]+)")
_SCHEDULES = ("decay_method", "lr_scheduler", "lr_scheduler_type", "scheduler", "schedule", "lr_policy")
LARGE_BATCH = 500_000  # tokens an update: tuning takes fewer
_OFF = frozenset(("", "none", "null", "false", "no", "0", "0.0"))
# Kinds of optimizers as their names hold them, the surest first.
_KINDS = ("noam", "dadapt", "prodigy", "adam", "lamb", "lion", "sophia", "muon", "adafactor", "sgd", "lars", "rmsprop")


@dataclass(frozen=True)
class Recipe:
    """The settings of a run by what they mean."""

    settings: tuple[Setting, ...]

    @cached_property
    def _ends(self) -> dict[str, list[Setting]]:
        found: dict[str, list[Setting]] = {}
        for setting in self.settings:
            if foreign(setting.name):
                continue
            parts = setting.name.split(".")
            for start in range(max(0, len(parts) - 4), len(parts)):
                found.setdefault(".".join(parts[start:]), []).append(setting)
        return found

    def key(self, *ends: str) -> Setting | None:
        """The last setting under one of these names that says something; the shortest name first."""
        for end in ends:
            hits = [s for s in self._ends.get(end, []) if s.value is not None]
            if hits:
                fewest = min(s.name.count(".") for s in hits)
                return [s for s in hits if s.name.count(".") == fewest][-1]
        return None

    def get(self, what: str) -> Setting | None:
        """The setting of one of `NAMES`."""
        return self.key(*NAMES[what])

    def every(self, what: str) -> list[Setting]:
        """All settings of one of `NAMES`, by their names' order."""
        found = (s for end in NAMES[what] for s in self._ends.get(end, []) if s.value is not None)
        return list({id(s): s for s in found}.values())

    def figure(self, what: str) -> tuple[float, Setting] | None:
        """A finite number and its setting; the first name that holds one. `100ba` is 100 batches."""
        for end in NAMES[what]:
            setting = self.key(end)
            if setting is None:
                continue
            value = figure(setting.value)
            if value is None and (hit := _STEPS.fullmatch(str(setting.value).strip())):
                value = float(hit[1])
            if value is not None:
                return value, setting
        return None

    def count(self, what: str) -> int | None:
        """A whole number above 0."""
        found = self.figure(what)
        return int(found[0]) if found and found[0] >= 1 and found[0] == int(found[0]) else None

    def on(self, *ends: str) -> Setting | None:
        """The setting of a switch that is on."""
        for end in ends:
            setting = self.key(end)
            if setting is not None and _on(setting.value):
                return setting
        return None

    def text(self, what: str) -> str:
        setting = self.get(what)
        return str(setting.value).lower() if setting is not None else ""

    def marked(self, kind: str) -> bool:
        """Whether the run is of one of `KINDS`, by its marks."""
        mark = KINDS[kind]

        def said(name: str) -> str:
            setting = self.get(name) if name in NAMES else self.key(name)
            return str(setting.value).lower() if setting is not None else ""

        return (
            self.key(*mark.named) is not None
            or self.on(*mark.on) is not None
            or any(said(name) in values for name, values in mark.said.items())
            or any(word in said(name) for name, words in mark.holds.items() for word in words)
        )

    @cached_property
    def steps(self) -> tuple[float, Setting] | None:
        """Optimizer updates of the run; -1 (by epochs) and durations in tokens or epochs are none."""
        for end in NAMES["steps"]:
            setting = self.key(end)
            if setting is None or isinstance(setting.value, bool) or (end == "steps" and setting.name != end):
                continue  # `sampler.steps` are others
            hit = _STEPS.fullmatch(str(setting.value).strip())
            if hit and 0 < float(hit[1]) < 1e8:
                return float(hit[1]), setting
        return None

    @cached_property
    def optimizer(self) -> str:
        """adam, sgd, lion ...; adam where its moments or a trainer of its default are named; empty where nothing is."""
        said = self.text("optimizer")
        kind = next((kind for kind in _KINDS if kind in said), "")
        if any("noam" in str(s.value).lower() for s in map(self.key, _SCHEDULES) if s is not None):
            return "noam"  # its rate is a factor
        moments = self.get("beta2") or self.get("betas")
        return kind or ("adam" if moments is not None or self.marked("adam") else "")

    @cached_property
    def beta2(self) -> tuple[float, Setting] | None:
        if found := self.figure("beta2"):
            return found
        pair = self.get("betas")
        if pair is None:
            return None
        if isinstance(pair.value, list) and len(pair.value) == 2:
            value = figure(pair.value[1])
        else:
            hit = _PAIR.match(str(pair.value))
            value = figure(hit[2]) if hit else None
        return (value, pair) if value is not None else None

    @cached_property
    def size(self) -> float | None:
        """Parameters: as the model's name says, else from layers and width."""
        for end in NAMES["model"]:
            setting = self.key(end)
            hits = _SIZE.findall(str(setting.value).rsplit("/", 1)[-1]) if setting is not None else []
            if hits:
                many, amount, unit = hits[0]
                return float(many or 1) * float(amount.replace("_", ".")) * (1e9 if unit in "bB" else 1e6)
        layers, width = self.count("layers"), self.count("hidden")
        return 12.0 * layers * width**2 if layers and width else None

    @cached_property
    def world(self) -> int | None:
        """Processes of the run."""
        if (said := self.key("world_size", "num_processes", "distributed_world_size")) and (n := _whole(said.value)):
            return n
        nodes = self.key("nnodes", "num_nodes", "slurm.nodes", "nodes", "num_machines")
        each = self.key("nproc_per_node", "n_gpus_per_node", "slurm.gpus_per_node", "gpus_per_node", "trainer.devices")
        count = _whole(each.value) if each is not None else 0
        return count * (_whole(nodes.value) if nodes is not None else 1) or None

    @cached_property
    def replicas(self) -> int | None:
        """Processes that take samples of their own: all but those that share a model, its layers or a sequence."""
        share = (self.count("tp") or 1) * (self.count("pp") or 1) * (self.count("cp") or 1)
        return self.world // share if self.world and self.world % share == 0 else None

    @cached_property
    def global_batch(self) -> tuple[int, Setting] | None:
        """Samples an update: as said, else per device x accumulation x replicas where all three are known."""
        setting = self.key("global_batch_size", "global_train_batch_size", "trainer.train_batch_size")
        if setting is None and self.key(
            "train_micro_batch_size_per_gpu", "zero_optimization.stage", "micro_train_batch_size"
        ):
            setting = self.key("train_batch_size")
        if setting is not None and (n := _whole(setting.value)):
            return n, setting
        micro, accumulation = self.figure("micro_batch"), self.count("accumulation")
        if micro and accumulation and self.replicas and micro[0] >= 1:
            return int(micro[0]) * accumulation * self.replicas, micro[1]
        return None

    @cached_property
    def tokens(self) -> int | None:
        """Tokens an update."""
        length = self.count("seq_len")
        return self.global_batch[0] * length if self.global_batch and length else None

    @cached_property
    def tuner(self) -> str:
        """The kind of adapter as it is written: lora, ia3, prompt_tuning, full."""
        said = self.key("adapter", "finetuning_type", "train_type", "tuner_type", "peft_type")
        return str(said.value).lower() if said is not None else ""

    @cached_property
    def adapter(self) -> bool:
        """Only a part of the weights is trained."""
        rank = self.key("lora_r", "lora_rank", "lora.r", "lora_alpha", "lora_config.r", "peft.dim")
        return self.marked("adapter") or (rank is not None and bool(figure(rank.value)))

    @cached_property
    def tuned(self) -> bool:
        """It starts from the weights of another training, or goes on from a checkpoint."""
        given = self.key(*START_FROM)
        if given is not None and str(given.value).lower() not in (*_OFF, *FROM_SCRATCH):
            return True
        named = self.key("model")
        if named is not None and re.fullmatch(r"[A-Za-z]\w*/[\w.-]+", str(named.value)):
            return True  # an organisation's model on a hub
        if self.marked("tuning"):
            return True
        init = self.key("init_from")
        if init is not None and str(init.value).lower() != "scratch":
            return True
        load, save = self.key("load"), self.key("save")
        return load is not None and isinstance(load.value, str) and (save is None or load.value != save.value)

    @cached_property
    def goes_on(self) -> bool:
        """Pre-training that goes on from the weights of another: large batches, rates as from scratch."""
        return self.marked("continued") or (self.tokens or 0) >= LARGE_BATCH

    @cached_property
    def policy(self) -> bool:
        """Reinforcement learning or preferences."""
        return self.marked("policy")

    @cached_property
    def images(self) -> bool:
        return self.marked("images")

    @cached_property
    def language_pretraining(self) -> bool:
        """A decoder language model from scratch."""
        other = self.tuned or self.adapter or self.policy or self.images or self.marked("encoder")
        return not other and self.get("seq_len") is not None

    @cached_property
    def loaded(self) -> Setting | None:
        """The dtype that weights are loaded in."""
        return None if self.marked("stored") else self.key("torch_dtype", "model_dtype", "weights_dtype")

    @cached_property
    def half(self) -> dict[str, Setting]:
        """The 16-bit formats that are on: {"fp16": setting, "bf16": setting}."""
        found: dict[str, Setting] = {}
        for kind, more in (("fp16", "float16"), ("bf16", "bfloat16")):
            if setting := self.on(f"{kind}.enabled", kind, f"{more}.enabled"):
                found[kind] = setting
        said = self.key("mixed_precision", "precision", "trainer.precision", "mixed_precision_param", "amp_dtype")
        said = said or (self.key("dtype") if not found else None)
        if said is not None and (kind := precision_of(said.value)):
            found.setdefault(kind, said)
        return found


def precision_of(value: Any) -> str:
    """fp16, bf16 or nothing: what a text of precision means."""
    shown = str(value).lower().removeprefix("torch.")
    if shown in ("bf16", "bfloat16", "amp_bf16", "bf16-mixed", "bf16-true", "amp_bfloat16", "pure_bf16"):
        return "bf16"
    return "fp16" if shown in ("16", "fp16", "float16", "amp_fp16", "16-mixed", "16-true", "half", "pure_fp16") else ""


def figure(value: Any) -> float | None:
    """A finite number, also as text or as the one item of a list."""
    if isinstance(value, list) and len(value) == 1:
        value = value[0]
    found = number(value)
    return found if found is not None and math.isfinite(found) else None


def _whole(value: Any) -> int:
    """A whole number above 0 and below a billion; 0 for anything else."""
    found = figure(value)
    return int(found) if found and 1 <= found < 1e9 and found == int(found) else 0


def _on(value: Any) -> bool:
    return value == 1 or (isinstance(value, str) and value.lower() in ("true", "yes", "on"))


def settings_of(config: dict[str, Any], settings: Iterable[Setting]) -> tuple[Setting, ...]:
    """The settings with places in the order of the files, and those of the configuration that came without."""
    placed = tuple(settings)
    names = {setting.name for setting in placed}
    rest = (Setting(name, value, Origin("")) for name, value in flatten(config).items() if name not in names)
    return (*placed, *rest)
