"""Faults of the batch, the parallel layout and the shape of the model: what must divide, and what excludes what."""

from __future__ import annotations

from collections.abc import Iterator

from playbook.series import Setting
from playbook.workflow.preflight.findings import Found, shown
from playbook.workflow.preflight.names import NAMES, STRETCHED, UNEVEN_STAGES
from playbook.workflow.preflight.recipe import Recipe, figure

# Keys of frameworks that pad the vocabulary to what the layout needs.
_PADS = ("make_vocab_size_divisible_by", "tensor_model_parallel_size", "tensor_parallel_degree", "model_parallel_size")
LONG = 10_000  # steps after which a run without a checkpoint is a loss
_STAGES = frozenset((0, 1, 2, 3))


def batch_product(recipe: Recipe) -> Iterator[Found]:
    """Per device x accumulation x data-parallel processes is the global batch."""
    for what in ("micro_batch", "accumulation", "global_batch"):
        found = recipe.figure(what)
        if found is not None and found[0] <= 0 and found[0] != -1:
            yield Found("bad", f"{shown(found[1])} is no batch", found[1])
            return
    whole, micro = recipe.global_batch, recipe.figure("micro_batch")
    if whole is None or micro is None or whole[1] is micro[1] or micro[0] != int(micro[0]):
        return
    size, setting = whole
    accumulation = recipe.figure("accumulation")
    unit = int(micro[0]) * (int(accumulation[0]) if accumulation and accumulation[0] >= 1 else 1)
    parts = [micro[1], *([accumulation[1]] if accumulation and accumulation[0] > 1 else [])]
    if unit <= 0:
        return
    whole_unit = unit * recipe.replicas if recipe.replicas else None
    if size % unit:
        yield Found("bad", f"{shown(setting, *parts)}: {size} is no multiple of {unit}", setting)
    elif accumulation and whole_unit and whole_unit != size and recipe.key("train_micro_batch_size_per_gpu"):
        yield Found("bad", f"{shown(setting, *parts)} on {recipe.world} processes make {whole_unit}", setting)
    elif whole_unit and size % whole_unit:
        what = f"{shown(setting, *parts)} on {recipe.replicas} data-parallel ranks: {size} is no multiple"
        yield Found("bad", what, setting)
    else:
        yield Found("ok", shown(setting, *parts), setting)


def divides(recipe: Recipe) -> Iterator[Found]:
    """Heads, key-value heads, width and layers divide over tensor and pipeline ranks; width over heads."""
    tp, pp = recipe.figure("tp"), recipe.figure("pp")
    good: Setting | None = None
    for what, parts in (("heads", tp), ("kv_heads", tp), ("hidden", tp), ("layers", pp)):
        whole, found = recipe.count(what), recipe.figure(what)
        if parts is None or whole is None or found is None or parts[0] <= 1 or parts[0] != int(parts[0]):
            continue
        if what == "layers" and any(recipe.key(key) is not None for key in UNEVEN_STAGES):
            continue
        good = found[1]
        if whole % int(parts[0]) and not (what == "kv_heads" and int(parts[0]) % whole == 0):
            yield Found("bad", f"{shown(found[1], parts[1])}: {whole} does not divide by {parts[0]:g}", found[1])
            return
    heads, hidden = recipe.figure("heads"), recipe.figure("hidden")
    alone = recipe.key("kv_channels", "head_dim", "head_size", "d_kv", "dim_head", "attention_head_dim") is None
    if heads and hidden and alone and heads[0] >= 1 and hidden[0] % heads[0] and _together(heads[1], hidden[1]):
        yield Found("bad", f"{shown(hidden[1], heads[1])}: the width does not divide by the heads", hidden[1])
    elif good is not None and tp is not None:
        yield Found("ok", shown(good, tp[1]), good)


def _together(one: Setting, other: Setting) -> bool:
    """Two settings of one section: `model.d_model` and `model.n_heads`, not the width of another module."""
    return one.name.rpartition(".")[0] == other.name.rpartition(".")[0]


def vocabulary(recipe: Recipe) -> Iterator[Found]:
    """The padded vocabulary divides over the tensor ranks."""
    tp = recipe.figure("tp")
    if tp is None or tp[0] <= 1 or tp[0] != int(tp[0]):
        return
    for end in NAMES["vocab"]:
        setting = recipe.key(end)
        size = figure(setting.value) if setting is not None else None
        if setting is None or size is None or size < 2:
            continue
        if end == "vocab_size" and any(recipe.key(key) is not None for key in _PADS):
            continue
        state = "bad" if size % tp[0] else "ok"
        rest = f": {size:g} does not divide by {tp[0]:g}, pad it" if state == "bad" else ""
        yield Found(state, shown(setting, tp[1]) + rest, setting)
        return


def positions(recipe: Recipe) -> Iterator[Found]:
    """No sequence is longer than the table of positions."""
    length, table = recipe.figure("seq_len"), recipe.figure("positions")
    if length is None or table is None or table[0] < 1 or length[1] is table[1]:
        return
    stretched = [s for key in STRETCHED if (s := recipe.key(key)) is not None and str(s.value).lower() not in
                 ("false", "none", "learned_absolute", "learned", "1", "1.0")]  # fmt: skip
    alibi = bool(stretched) and "alibi" in str(stretched[0].value).lower()
    if length[0] > table[0] and not alibi and all(s.name.endswith("position_embedding_type") for s in stretched):
        if recipe.key("rope_theta", "architectures", "hidden_act") is not None:  # rotary of a model on a hub
            what = f"{shown(length[1], table[1])}: the model has not learned positions beyond {table[0]:g}"
            yield Found("warn", what, length[1])
            return
        yield Found("bad", f"{shown(length[1], table[1])}: positions beyond {table[0]:g} are not there", length[1])
    elif length[0] <= table[0]:
        yield Found("ok", shown(length[1], table[1]), length[1])


def zero_options(recipe: Recipe) -> Iterator[Found]:
    """The stage of ZeRO exists, and what is asked with it works with it."""
    found = recipe.figure("zero_stage")
    if found is None:
        return
    stage, setting = found
    if stage not in _STAGES:
        yield Found("bad", f"{shown(setting)}: stages are 0 to 3", setting)
        return
    devices = {kind: recipe.key(f"offload_{kind}.device", f"offload_{kind}_device") for kind in ("param", "optimizer")}
    used = {kind: s for kind, s in devices.items() if s is not None and str(s.value).lower() in ("cpu", "nvme")}
    if "param" in used and stage != 3:
        yield Found("bad", f"{shown(used['param'], setting)}: parameters are offloaded by stage 3 only", used["param"])
    elif "optimizer" in used and (stage == 0 or (stage < 3 and str(used["optimizer"].value).lower() == "nvme")):
        what = f"{shown(used['optimizer'], setting)}: this stage does not offload the optimizer there"
        yield Found("bad", what, used["optimizer"])
    elif stage >= 2 and (pipe := recipe.figure("pp")) is not None and pipe[0] > 1:
        yield Found("bad", f"{shown(setting, pipe[1])}: pipeline parallelism takes stage 1 at most", setting)
    else:
        yield Found("ok", shown(setting), setting)


def one_sharder(recipe: Recipe) -> Iterator[Found]:
    """DeepSpeed and FSDP do not both shard."""
    fsdp = recipe.key("fsdp")
    deepspeed = recipe.key("deepspeed", "deepspeed_config")
    if fsdp is None or deepspeed is None:
        return
    shards = isinstance(fsdp.value, str) and fsdp.value.strip().lower() not in ("", "false", "none", "no")
    if shards and (deepspeed.value is True or "json" in str(deepspeed.value)):
        yield Found("bad", shown(fsdp, deepspeed), fsdp)


def trains_something(recipe: Recipe) -> Iterator[Found]:
    """The configuration trains: it is no evaluation, and its length is not 0."""
    for key in ("do_train", "train"):
        said = recipe.key(key)
        others = recipe.on("do_eval", "do_predict", "evaluate")
        if said is not None and said.value is False and others is not None and not said.origin.path.endswith(".json"):
            yield Found("bad", shown(said, others), said)
            return
    mode = next((s for s in recipe.settings if s.name == "mode"), None)
    if mode is not None and str(mode.value).lower() in ("val", "validate", "eval", "evaluate", "test", "predict"):
        yield Found("bad", f"{shown(mode)}: nothing is trained", mode)
        return
    only = recipe.on("eval_only", "evaluate_only", "evaluation_only", "test_only", "skip_train", "eval")
    if only is not None:
        yield Found("bad", f"{shown(only)}: nothing is trained", only)
        return
    lengths = [
        s for what in ("steps", "epochs", "samples") for s in recipe.every(what) if not isinstance(s.value, bool)
    ]
    counted = [(figure(s.value), s) for s in lengths if s.name.rsplit(".", 1)[-1] not in ("steps", "max_update")]
    zero = next((s for value, s in counted if value == 0), None)
    if zero is not None and recipe.steps is None and not any(value for value, _ in counted):
        yield Found("bad", f"{shown(zero)}: nothing is trained", zero)


def best_model(recipe: Recipe) -> Iterator[Found]:
    """Loading the best model at the end needs evaluations at the saved steps."""
    best = recipe.on("load_best_model_at_end")
    if best is None:
        return
    look = recipe.key("eval_strategy", "evaluation_strategy")
    save = recipe.key("save_strategy")
    if look is not None and str(look.value).lower() in ("no", "false"):
        yield Found("bad", f"{shown(best, look)}: no evaluation tells which is best", best)
    elif look is not None and save is not None and str(look.value) != str(save.value) and str(save.value) != "best":
        yield Found("bad", shown(best, look, save), best)
    elif look is not None and str(look.value) == "steps":
        every, kept = recipe.key("eval_steps"), recipe.key("save_steps")
        a, b = (figure(every.value) if every else None), (figure(kept.value) if kept else None)
        if a and b and every is not None and kept is not None and a >= 1 and b % a:
            yield Found("bad", f"{shown(best, kept, every)}: not every saved step is evaluated", kept)


def saves_something(recipe: Recipe) -> Iterator[Found]:
    """A long run keeps checkpoints."""
    off = next(
        (s for key in ("enable_checkpoint", "checkpoint.enable", "enable_checkpointing") if (s := recipe.key(key))
         is not None and s.value is False), None
    )  # fmt: skip
    if off is None or recipe.on("create_checkpoint_callback") is not None:
        return
    long = recipe.steps is not None and recipe.steps[0] >= LONG
    yield Found("warn" if long else "ok", shown(off, *([recipe.steps[1]] if long and recipe.steps else [])), off)
