"""One setting under two names or twice in a file, with different values; and names that are misspelt.

A trainer takes one of two values without a word, and most read past a name that they do not know.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterator

from playbook.engine.observe import foreign
from playbook.readers.base import same_value
from playbook.readers.settings.known_settings import KNOWN
from playbook.series import Setting
from playbook.workflow.preflight.findings import Found, shown
from playbook.workflow.preflight.names import NAMES
from playbook.workflow.preflight.recipe import Recipe, figure
from playbook.workflow.preflight.vocabulary import WORDS

# What the trainer and DeepSpeed each own: the same thing under the names of both.
PAIRS: dict[str, tuple[str, ...]] = {
    "learning rate": ("learning_rate", "lr", "optimizer.params.lr", "scheduler.params.warmup_max_lr"),
    "weight decay": ("weight_decay", "optimizer.params.weight_decay"),
    "epsilon": ("adam_epsilon", "adam_eps", "optimizer.params.eps"),
    "accumulation": ("gradient_accumulation_steps", "accumulate_grad_batches"),
    "batch per device": ("per_device_train_batch_size", "train_micro_batch_size_per_gpu"),
    "clipping": ("max_grad_norm", "gradient_clipping", "clip_grad"),
    "warm-up": ("warmup_steps", "scheduler.params.warmup_num_steps"),
    "fp16": ("fp16", "fp16.enabled"),
    "bf16": ("bf16", "bf16.enabled"),
    "ZeRO stage": ("zero_stage", "zero_optimization.stage"),
    "global batch of Megatron and DeepSpeed": ("global_batch_size", "train_batch_size"),
}
_ENGINE = frozenset(("zero_optimization.stage", "train_micro_batch_size_per_gpu", "fp16.enabled", "bf16.enabled"))
# Sections that only say whose settings they hold: DeepSpeed's, and the trainer's.
_OF_ENGINE = ("deepspeed_config.", "deepspeed.", "ds_config.")
_OF_TRAINER = ("training_args.", "training_arguments.", "trainer.", "training.", "train.", "args.", "accelerate.",
               "hf.", "config.")  # fmt: skip
_WRITTEN = frozenset(("config", "script", "python"))  # readers of what a person wrote
_LONG = 12  # letters of a name from which two of them may differ


def twice(recipe: Recipe) -> Iterator[Found]:
    """A name stands once in a file, or twice with one value. Files in layers may override each other."""
    seen: dict[tuple[str, str], Setting] = {}
    for setting in recipe.settings:
        if setting.origin.reader not in _WRITTEN:
            continue  # a log prints its configuration again after a resume
        first = seen.setdefault((setting.origin.path, setting.name), setting)
        of_training = setting.name.rsplit(".", 1)[-1] in KNOWN | _ENDS
        if (
            first is not setting
            and of_training
            and not foreign(setting.name)
            and not same_value(first.value, setting.value)
        ):
            yield Found("bad", f"{shown(setting, first)}: set twice, one of them is not used", setting)


def two_owners(recipe: Recipe) -> Iterator[Found]:
    """Trainer and DeepSpeed say the same of what both own."""
    engines = {s.origin.path for s in recipe.settings if s.name in _ENGINE}
    owned: dict[str, dict[bool, Setting]] = {}  # name -> {of DeepSpeed: its last setting}
    for setting in recipe.settings:
        if setting.value is not None and setting.value != "auto":
            name, engine = _owner(setting.name)
            owned.setdefault(name, {})[engine or setting.origin.path in engines] = setting
    for keys in PAIRS.values():
        found = [setting for key in keys for setting in owned.get(key, {}).values()]
        for other in found[1:]:
            if not same_value(found[0].value, other.value) and not _left_open(found[0], other):
                yield Found("bad", f"{shown(other, found[0])}: two owners of one setting disagree", other)
                break


def _left_open(one: Setting, other: Setting) -> bool:
    """A 0 or -1 of the trainer often means: not set here."""
    values = {figure(one.value), figure(other.value)}
    return (0.0 in values or -1.0 in values) and not isinstance(one.value, bool) and not isinstance(other.value, bool)


def _owner(name: str) -> tuple[str, bool]:
    """The name without the section that only says whose settings it holds, and whether that is DeepSpeed's."""
    for prefix in (*_OF_ENGINE, *_OF_TRAINER):
        if name.startswith(prefix):
            return name[len(prefix) :], prefix in _OF_ENGINE
    return name, False


def misspelt(recipe: Recipe) -> Iterator[Found]:
    """A name that is a letter away from one that matters, and is none itself."""
    told: set[str] = set()
    for setting in recipe.settings:
        word = setting.name.rsplit(".", 1)[-1]
        if word in told or foreign(setting.name) or len(word) < 6:
            continue
        told.add(word)
        if (meant := meant_by(word)) is not None:
            yield Found("bad", f"{shown(setting)}: no trainer knows this name; {meant} is one", setting)


def meant_by(word: str) -> str | None:
    """The known name that a misspelt one means; None for a known name, and for one that is merely alike."""
    if word in KNOWN or word in WORDS or word in _ENDS:
        return None
    for near in difflib.get_close_matches(word, _MATTERS, n=3, cutoff=0.85):
        if near[0] == word[0] and _slip(word, near):
            return near
    return None


def _slip(word: str, near: str) -> bool:
    """One letter dropped, doubled, changed or swapped (two in a long name); never a digit, a plural or a whole part."""
    if any(sign.isdecimal() for sign in set(word) ^ set(near)):
        return False
    parts, others = word.split("_"), near.split("_")
    if len(parts) != len(others):
        return False
    changed = [(a, b) for a, b in zip(parts, others, strict=True) if a != b]
    a, b = changed[0]
    if len(changed) > 1 or min(len(a), len(b)) < 4 or a[0] != b[0]:
        return False
    if a in _PARTS or a.rstrip("s") == b.rstrip("s"):  # another word, or a plural
        return False
    return _distance(a, b) <= (2 if len(near) >= _LONG and len(b) >= 6 else 1)


def _distance(a: str, b: str) -> int:
    """Letters to change, swaps of neighbours counted once."""
    rows = [list(range(len(b) + 1))]
    for i, one in enumerate(a, 1):
        row = [i]
        for j, other in enumerate(b, 1):
            best = min(rows[-1][j] + 1, row[-1] + 1, rows[-1][j - 1] + (one != other))
            if i > 1 and j > 1 and one == b[j - 2] and a[i - 2] == other:
                best = min(best, rows[-2][j - 2] + 1)
            row.append(best)
        rows.append(row)
    return rows[-1][-1]


_ENDS = frozenset(end.rsplit(".", 1)[-1] for ends in NAMES.values() for end in ends)
_PARTS = frozenset(part for word in _ENDS | KNOWN | WORDS for part in word.split("_"))
_MATTERS = sorted(
    {word for word in _ENDS | KNOWN if len(word) >= 6 and "_" in word}
    | {"optimizer", "scheduler", "precision", "warmup", "dropout"}
)
