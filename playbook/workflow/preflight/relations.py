"""Faults of rate, schedule, optimizer and precision that no single setting shows.

Each relation looks at a `Recipe` and gives what it found, or nothing where the configuration does not say enough. The
limits are those beyond which no published sound training is known to us: an expert shrugs at a warning below them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from playbook.series import Setting
from playbook.workflow.preflight.findings import Found, shown
from playbook.workflow.preflight.recipe import Recipe, figure, precision_of

SUBNORMAL = 6e-8  # the smallest number above 0 that fp16 holds
LARGE = 1_000_000  # tokens an update from which a language model needs a warm-up and a beta2 below 0.999
MANY = 4_096  # samples an update, the same where the length is not known
# Optimizer -> the rate above which something else than training was meant.
HIGHEST = {"adam": 0.01, "lion": 0.003, "lamb": 0.1, "adafactor": 1.5, "sgd": 10.0, "lars": 50.0, "muon": 0.5}
# (parameters, rate of a language model from scratch under AdamW): above all that is published.
BY_SIZE = ((100e9, 5e-4), (3e9, 9e-4), (0.8e9, 1.9e-3), (0.05e9, 5e-3))
# (from here on it is uncommon, from here on above all that is published), for 3B parameters and more;
TUNED, ADAPTED, POLICY = (1e-4, 3e-4), (1e-3, 1.5e-3), (1e-5, 5e-5)
SMALL = 3  # times as much below them.
OF_HF = ("per_device_train_batch_size", "num_train_epochs", "logging_strategy", "save_strategy", "lr_scheduler_type")
_NO_NUMBER = re.compile(r"-?(?:nan|inf)|[-+]?\d[\d.,_eE+-]*", re.IGNORECASE)  # 1,5e-4 and 3e--4 are texts
SCALERS = ("use_grad_scaler", "grad_scaler", "use_scaler", "grad_scaler.enabled", "dynamic_loss_scale")
EXACT = 1 - 1e-9  # 0.0003 and 3 * 0.0001 are the same rate


def learning_rate(recipe: Recipe) -> Iterator[Found]:
    """The rate against what is published for this optimizer, size and kind of training."""
    found = recipe.figure("lr")
    if found is None:
        wrong = recipe.get("lr")
        if wrong is not None and _NO_NUMBER.fullmatch(str(wrong.value)):
            yield Found("bad", f"{shown(wrong)} is no number", wrong)
        return
    rate, setting = found
    said = shown(setting)
    if any(word in recipe.tuner for word in ("prompt", "prefix", "ia3", "p_tuning", "ptuning")):
        yield Found("ok", said, setting)  # a few vectors take a rate of 0.03
        return
    if rate < 0:
        yield Found("bad", f"{said} is below 0", setting)
        return
    most = HIGHEST.get(recipe.optimizer, max(HIGHEST.values()))
    if rate > most:
        what = f"{said} with {recipe.optimizer or 'any optimizer'}, where at most {most:g} is known"
        yield Found("bad", what, setting)
    elif recipe.optimizer in ("", "adam") and (limit := _limit(recipe)) is not None and rate >= limit[0] * EXACT:
        yield Found("bad" if rate >= limit[1] * EXACT else "warn", f"{said}, {limit[2]}", setting)
    elif 0 < rate < 1e-9:
        yield Found("bad", f"{said} moves nothing", setting)
    else:
        yield Found("ok", said, setting)


def _limit(recipe: Recipe) -> tuple[float, float, str] | None:
    """The rates that are uncommon and too high here, and in words why."""
    size = recipe.size
    if size is None:
        return None
    what, more = f"{size / 1e9:.3g}B parameters", 1 if size >= 2.9e9 else SMALL
    if size >= 0.9e9 and recipe.adapter:
        return more * ADAPTED[0], more * ADAPTED[1], f"adapters on {what} take 1e-5 to {more * 5e-4:.0e}"
    if size >= 0.9e9 and recipe.policy:
        text = f"reinforcement learning or preferences on {what} take 1e-7 to {more * 5e-6:.0e}"
        return more * POLICY[0], more * POLICY[1], text
    if size >= 0.9e9 and recipe.tuned and not recipe.images and not recipe.goes_on:
        return more * TUNED[0], more * TUNED[1], f"fine-tuning of {what} takes 1e-6 to {more * 5e-5:.0e}"
    if not recipe.language_pretraining or recipe.on("use_mup", "mup"):
        return None
    for least, most_known in BY_SIZE:
        if size >= least:
            text = f"pre-training of {what} is published with {most_known / 15:.1g} to {most_known / 2:.1g}"
            return most_known, most_known, text
    return None


def rate_floor(recipe: Recipe) -> Iterator[Found]:
    """The schedule ends below its peak."""
    low, high = recipe.figure("min_lr"), recipe.figure("lr")
    if low and high and high[0] > 0 and low[1].origin.path == high[1].origin.path:
        state = "bad" if low[0] * EXACT > high[0] else "ok"
        yield Found(state, shown(low[1], high[1]), low[1])
    share = recipe.figure("min_lr_ratio")
    if share and share[0] > 1:
        yield Found("bad", f"{shown(share[1])} is a share of the peak and above 1", share[1])


def warm_up_fits(recipe: Recipe) -> Iterator[Found]:
    """The warm-up is over before the training is."""
    for what, whole in (("warmup_steps", recipe.steps), ("warmup_samples", recipe.figure("samples")),
                        ("warmup_epochs", recipe.figure("epochs"))):  # fmt: skip
        part = recipe.figure(what)
        if part is None or whole is None or whole[0] < 1 or part[0] < 1:
            continue
        said = shown(part[1], whole[1])
        if part[0] > whole[0]:
            yield Found("bad", f"{said}: the peak is never reached", part[1])
        elif part[0] > 0.5 * whole[0] and whole[0] >= 100:
            yield Found("warn", f"{said}: more than half of the run is warm-up", part[1])
        else:
            yield Found("ok", said, part[1])
    share = recipe.figure("warmup_share")
    if share and share[0] > 1 and share[1].name.rsplit(".", 1)[-1] != "warmup":
        yield Found("bad", f"{shown(share[1])} is a share of the run and above 1", share[1])
    elif share and 0.5 < share[0] < 1:
        yield Found("warn", f"{shown(share[1])}: more than half of the run is warm-up", share[1])


def warm_up_there(recipe: Recipe) -> Iterator[Found]:
    """A large batch from scratch begins with a warm-up."""
    if (
        recipe.optimizer not in ("", "adam", "lamb", "lars", "sgd")
        or not _large(recipe)
        or recipe.tuned
        or recipe.policy
    ):
        return
    kinds = ("warmup_steps", "warmup_share", "warmup_samples", "warmup_epochs")
    said = [found for kind in kinds if (found := recipe.figure(kind)) is not None]
    if any(value > 0 for value, _ in said):
        return
    rate = recipe.figure("lr")
    if said:
        yield Found("bad", f"{shown(said[0][1])} with {_batch(recipe)} an update", said[0][1])
    elif rate is not None and recipe.get("schedule") is not None:
        yield Found("bad", f"{shown(rate[1])}, {_batch(recipe)} an update and no warm-up", rate[1])


def _large(recipe: Recipe) -> bool:
    if recipe.tokens is not None and recipe.language_pretraining:
        return recipe.tokens >= LARGE
    return recipe.global_batch is not None and recipe.global_batch[0] >= MANY


def _batch(recipe: Recipe) -> str:
    if recipe.tokens is not None and recipe.language_pretraining:
        return f"{recipe.tokens / 1e6:.2g}M tokens"
    return f"{recipe.global_batch[0]} samples" if recipe.global_batch else "a large batch"


def schedule_fits(recipe: Recipe) -> Iterator[Found]:
    """The decay is as long as the training."""
    low = recipe.figure("min_lr") or recipe.figure("min_lr_ratio")
    for what, whole in (("decay_steps", recipe.steps), ("decay_samples", recipe.figure("samples"))):
        part = recipe.figure(what)
        if part is None or whole is None or part[0] < 1 or whole[0] < 1 or part[1] is whole[1]:
            continue
        share, said = part[0] / whole[0], shown(part[1], whole[1])
        if share < 0.98 and low is not None and low[0] == 0:
            yield Found("bad", f"{said}: the rate is 0 for the last {100 - 100 * share:.0f} % of the run", part[1])
        elif share < 0.5:
            yield Found("bad", f"{said}: the last {100 - 100 * share:.0f} % of the run stay at the floor", part[1])
        elif share > 3:
            yield Found("bad", f"{said}: the rate hardly decays before the end", part[1])
        else:
            yield Found("ok", said, part[1])


def second_moment(recipe: Recipe) -> Iterator[Found]:
    """beta2 fits the batch."""
    if recipe.beta2 is None:
        return
    value, setting = recipe.beta2
    if not 0 < value < 1:
        yield Found("bad", f"{shown(setting)}: beta2 is between 0 and 1", setting)
    elif value < 0.5:
        yield Found("bad", f"{shown(setting)}: a second moment over {1 / (1 - value):.1f} steps is noise", setting)
    elif (
        value > 0.9989 and recipe.optimizer == "adam" and recipe.language_pretraining and (recipe.tokens or 0) >= LARGE
    ):
        what = f"{shown(setting)} at {_batch(recipe)} an update; published with 0.95 to 0.98"
        yield Found("bad", what, setting)
    elif value > 0.99995:
        yield Found("warn", f"{shown(setting)} averages {1 / (1 - value):.0f} steps", setting)
    else:
        yield Found("ok", shown(setting), setting)


def epsilon(recipe: Recipe) -> Iterator[Found]:
    """Adam's epsilon is a number in the format that holds it, and no brake."""
    found = recipe.figure("eps")
    if found is None or recipe.optimizer not in ("", "adam", "lamb"):
        return
    value, setting = found
    pure = _pure_half(recipe)
    if value < 0 or (value == 0 and recipe.optimizer):
        yield Found("bad", f"{shown(setting)}: the update divides by 0 where a gradient stays 0", setting)
    elif pure is not None and value < SUBNORMAL:
        yield Found("bad", f"{shown(setting, pure)}: fp16 rounds it to 0 (its smallest number is 6e-8)", setting)
    elif "fp16" in recipe.half and value < 1e-9:
        yield Found(
            "bad", f"{shown(setting, recipe.half['fp16'])}: below what fp16 gradients leave in the moments", setting
        )
    elif value >= 2e-3 and recipe.optimizer == "adam":
        yield Found("bad", f"{shown(setting)}: above the second moments of most layers, it fades the updates", setting)
    else:
        yield Found("ok", shown(setting), setting)


def _pure_half(recipe: Recipe) -> Setting | None:
    """The setting that keeps weights or moments themselves in fp16."""
    for end in ("precision", "trainer.precision"):
        setting = recipe.key(end)
        if setting is not None and str(setting.value).lower() in ("16-true", "pure_fp16"):
            return setting
    loaded = recipe.loaded
    if loaded is not None and precision_of(loaded.value) == "fp16" and not recipe.adapter:
        return loaded
    return recipe.on("fp16_master_weights_and_grads", "memory_efficient_fp16", "pure_fp16")


def one_half_precision(recipe: Recipe) -> Iterator[Found]:
    """fp16 and bf16 are not both on."""
    half = recipe.half
    if len(half) == 2 and half["fp16"].name != half["bf16"].name:
        yield Found("bad", shown(half["fp16"], half["bf16"]), half["fp16"])
    elif half:
        setting = next(iter(half.values()))
        yield Found("ok", shown(setting), setting)


def scaler(recipe: Recipe) -> Iterator[Found]:
    """fp16 has a scaler that can move, and the weights are not in fp16 themselves."""
    pure = _pure_half(recipe)
    if pure is not None and not pure.name.endswith("dtype"):
        yield Found("bad", f"{shown(pure)}: weights in fp16, so there is no scaler and small updates are lost", pure)
    half = recipe.half.get("fp16")
    if half is None:
        return
    scale = recipe.figure("loss_scale")
    off = next((s for key in SCALERS if (s := recipe.key(key)) is not None and s.value is False), None)
    if off is not None and (scale is None or scale[0] in (0, 1)):
        yield Found("bad", f"{shown(off, half)}: small gradients become 0", off)
    elif scale is not None and scale[0] == 1:
        yield Found("bad", f"{shown(scale[1], half)}: a scale of 1 is none, small gradients become 0", scale[1])
    elif scale is not None and scale[0] > 1:
        yield Found("warn", f"{shown(scale[1], half)}: a static scale overflows or underflows one day", scale[1])
    grown = recipe.loaded
    if grown is not None and precision_of(grown.value) == "bf16":
        yield Found("bad", f"{shown(half, grown)}: the scaler of fp16 does not take bf16 weights", half)


def weights_dtype(recipe: Recipe) -> Iterator[Found]:
    """Weights that are trained are not loaded in fp16."""
    setting = recipe.loaded
    if setting is not None and precision_of(setting.value) == "fp16" and not recipe.adapter:
        half = recipe.half.get("fp16")
        what = "the scaler cannot unscale fp16 weights" if half else "small updates of fp16 weights are lost"
        yield Found("bad", f"{shown(setting, *([half] if half else []))}: {what}", setting)


def clipping(recipe: Recipe) -> Iterator[Found]:
    """Language models from scratch clip their gradients; what is written as a threshold is one."""
    setting = recipe.get("clip")
    if setting is None:
        yield from _not_clipped(recipe)
        return
    value = figure(setting.value)
    if ".gradient_clipping." in f".{setting.name}" and not setting.name.endswith("clipping_threshold"):
        return  # an object where DeepSpeed takes a number: the rule of the item names it
    end = setting.name.rsplit(".", 1)[-1]
    large = recipe.size is not None and recipe.size >= 0.9e9
    trainer = end == "gradient_clipping" or (end == "max_grad_norm" and recipe.key(*OF_HF) is not None)
    usual = trainer and not recipe.images
    language = recipe.language_pretraining or large or usual
    off = value == 0 or str(setting.value).lower() in ("none", "false", "off", "inf", "infinity")
    if isinstance(setting.value, bool) and setting.value:
        return
    if value is not None and value < 0 and value != -1:
        yield Found("bad", f"{shown(setting)} is below 0", setting)
    elif off and language:
        yield Found("bad", f"{shown(setting)}: the gradients are not clipped", setting)
    elif value is not None and value > 100 and recipe.language_pretraining:
        yield Found("bad", f"{shown(setting)}: no gradient is ever clipped", setting)
    elif value:
        yield Found("ok", shown(setting), setting)


def _not_clipped(recipe: Recipe) -> Iterator[Found]:
    """Trainers that clip nothing unless they are told to, where the whole recipe stands in the configuration."""
    rate = recipe.figure("lr")
    bare = recipe.key("device_train_microbatch_size", "trainer.devices", "trainer.accelerator") is not None
    if rate is None or recipe.optimizer == "noam":
        return
    if bare and recipe.language_pretraining:
        yield Found(
            "bad", f"{shown(rate[1])} and no clipping: this trainer clips nothing unless it is told to", rate[1]
        )
    elif (
        recipe.key("optimizer.params.lr") is not None
        and recipe.key("zero_optimization.stage", "fp16.enabled", "bf16.enabled") is not None
        and recipe.key("train_batch_size") is not None
        and recipe.key("pipe_parallel_size", "max_grad_norm") is None
        and not any(s.value == "auto" for s in recipe.settings)
    ):
        yield Found("warn", f"{shown(rate[1])} and no gradient_clipping: DeepSpeed's default is none", rate[1])


def weight_decay(recipe: Recipe) -> Iterator[Found]:
    """Weight decay in the convention of the optimizer, and none on norms."""
    found = recipe.figure("weight_decay")
    if found is not None:
        value, setting = found
        if value < 0:
            yield Found("bad", f"{shown(setting)} is below 0: weights grow", setting)
        elif value > 1 and recipe.optimizer == "adam":
            yield Found("bad", f"{shown(setting)}; AdamW takes 0.01 to 0.3", setting)
        elif value >= 0.02 and recipe.optimizer == "sgd":
            yield Found("bad", f"{shown(setting)} with SGD, which takes 1e-5 to 5e-4", setting)
        else:
            yield Found("ok", shown(setting), setting)
    norm = recipe.key("weight_decay_norm", "norm_weight_decay", "wd_norm")
    if norm is not None and (figure(norm.value) or 0) > 0:
        yield Found("warn", f"{shown(norm)}: decay pulls the gains of the norms to 0", norm)
