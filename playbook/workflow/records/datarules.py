"""Rules that a batch of token sequences must keep: length, token range, empty samples, labels, duplicates, masks.

What an incident's captured batch breaks is the check that would have caught it; the same check run over the data
loader keeps it from coming back. Arrays are [samples, positions]; a single sample may come as [positions].
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from playbook.engine.observe import flatten, lookup

IDS = ("input_ids", "tokens", "ids", "text", "x")
LABELS = ("labels", "targets", "y")
MASKS = ("attention_mask", "loss_mask", "mask", "padding_mask")
IGNORED = -100  # the label that torch's cross entropy leaves out
_LENGTH_KEYS = (
    "max_position_embeddings", "max_seq_length", "max_seq_len", "seq_length", "seq_len", "model_max_length",
    "block_size", "n_positions", "max_length",
)  # fmt: skip
_VOCAB_KEYS = ("padded_vocab_size", "vocab_size", "n_vocab")
MOST = 20  # violations named a rule


@dataclass(frozen=True, slots=True)
class Rules:
    """What a batch must keep; None leaves a rule out."""

    max_length: int | None = None
    vocab_size: int | None = None
    ignore_index: int = IGNORED
    unique: bool = True

    def plain(self) -> dict[str, Any]:
        return {
            "max_length": self.max_length,
            "vocab_size": self.vocab_size,
            "ignore_index": self.ignore_index,
            "unique": self.unique,
        }


@dataclass(frozen=True, slots=True)
class Broken:
    """A rule that a sample breaks. `sample` is its place in the batch, None for the batch as a whole."""

    rule: str
    sample: int | None
    what: str

    def __str__(self) -> str:
        place = f"sample {self.sample}" if self.sample is not None else "batch"
        return f"{self.rule}: {place} {self.what}"


def rules_of(*configs: Mapping[str, Any] | None) -> Rules:
    """Rules read off configurations, the first that names a value wins."""
    flats = [flatten(c) for c in configs if isinstance(c, Mapping)]

    def number(keys: tuple[str, ...]) -> int | None:
        for flat in flats:
            for key in keys:
                hit = lookup(flat, key)
                if hit is not None:
                    try:
                        return int(float(hit[1]))
                    except (TypeError, ValueError, OverflowError):
                        continue
        return None

    ignored = number(("ignore_index", "ignore_label"))
    return Rules(number(_LENGTH_KEYS), number(_VOCAB_KEYS), IGNORED if ignored is None else ignored)


def check(batch: Mapping[str, Any], rules: Rules, sample_ids: Sequence[Any] | None = None) -> list[Broken]:
    """Every broken rule of a batch, in the order of rules and samples."""
    arrays = {name: np.asarray(value) for name, value in batch.items()}
    ids, labels = _named(arrays, IDS), _named(arrays, LABELS)
    masks = {name: _rows(a) for name, a in arrays.items() if name.rpartition(".")[2] in MASKS and a.ndim <= 2}
    found: list[Broken] = []
    found += _length(ids, masks.get("attention_mask"), rules)
    found += _range(ids, labels, rules)
    found += _empty(ids, masks.get("attention_mask"))
    found += _labels(labels, masks.get("loss_mask"), rules)
    found += _duplicates(ids, sample_ids, rules)
    found += _masks(ids, masks)
    found += _finite(arrays)
    return found


def _named(arrays: Mapping[str, np.ndarray], names: tuple[str, ...]) -> np.ndarray | None:
    for name in names:
        for key, value in arrays.items():
            if key.rpartition(".")[2] == name and value.dtype.kind in "iu" and 1 <= value.ndim <= 2:
                return _rows(value)
    return None


def _rows(array: np.ndarray) -> np.ndarray:
    return array.reshape(1, -1) if array.ndim <= 1 else array


def _length(ids: np.ndarray | None, mask: np.ndarray | None, rules: Rules) -> list[Broken]:
    if ids is None or rules.max_length is None:
        return []
    lengths = np.full(len(ids), ids.shape[1])
    if mask is not None and mask.shape == ids.shape:
        lengths = (mask != 0).sum(axis=1)
    return [
        Broken("length", int(k), f"has {lengths[k]} tokens, at most {rules.max_length} fit")
        for k in np.flatnonzero(lengths > rules.max_length)[:MOST]
    ]


def _range(ids: np.ndarray | None, labels: np.ndarray | None, rules: Rules) -> list[Broken]:
    found = []
    for name, array in (("token", ids), ("label", labels)):
        if array is None:
            continue
        bad = array < 0
        if name == "label":
            bad &= array != rules.ignore_index
        if rules.vocab_size is not None:
            bad |= array >= rules.vocab_size
        for k in np.flatnonzero(bad.any(axis=1))[:MOST]:
            worst = int(array[k][bad[k]][0])
            of = f"0 .. {rules.vocab_size - 1}" if rules.vocab_size is not None else "0 and above"
            found.append(Broken("token-range", int(k), f"has {name} {worst}, outside {of}"))
    return found


def _empty(ids: np.ndarray | None, mask: np.ndarray | None) -> list[Broken]:
    if ids is not None and ids.shape[1] == 0:
        return [Broken("empty", None, "has no tokens")]
    if ids is None or mask is None or mask.shape != ids.shape:
        return []
    return [
        Broken("empty", int(k), "has no token that is attended to") for k in np.flatnonzero(~mask.any(axis=1))[:MOST]
    ]


def _labels(labels: np.ndarray | None, loss_mask: np.ndarray | None, rules: Rules) -> list[Broken]:
    if labels is None:
        return []
    counts = labels != rules.ignore_index
    if loss_mask is not None and loss_mask.shape == labels.shape:
        counts &= loss_mask != 0
    if not counts.any():
        return [Broken("labels", None, "has no label that counts: the mean is 0 / 0")]
    return [Broken("labels", int(k), "has no label that counts") for k in np.flatnonzero(~counts.any(axis=1))[:MOST]]


def _duplicates(ids: np.ndarray | None, sample_ids: Sequence[Any] | None, rules: Rules) -> list[Broken]:
    if not rules.unique:
        return []
    found: list[Broken] = []
    seen: dict[str | bytes, int] = {}
    keys: list[str | bytes] = (
        [str(i) for i in sample_ids] if sample_ids else [row.tobytes() for row in ids] if ids is not None else []
    )
    for place, key in enumerate(keys):
        if key in seen:
            found.append(Broken("duplicate", place, f"is sample {seen[key]} again"))
        seen.setdefault(key, place)
    return found[:MOST]


def _masks(ids: np.ndarray | None, masks: Mapping[str, np.ndarray]) -> list[Broken]:
    found = []
    for name, mask in masks.items():
        if ids is not None and mask.shape != ids.shape:
            found.append(Broken("mask", None, f"has {name} of shape {list(mask.shape)} for tokens {list(ids.shape)}"))
        elif mask.dtype.kind in "iub" and not np.isin(mask, (0, 1)).all():
            found.append(Broken("mask", None, f"has {name} with values other than 0 and 1"))
    return found


def _finite(arrays: Mapping[str, np.ndarray]) -> list[Broken]:
    return [
        Broken("finite", None, f"has {int((~np.isfinite(a)).sum())} values in {name} that are not finite")
        for name, a in arrays.items()
        if a.dtype.kind == "f" and not np.isfinite(a).all()
    ]
