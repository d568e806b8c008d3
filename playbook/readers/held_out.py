"""Rows that say in a text cell what they are: `split: val`, `mode: train`, `metric: loss, value: 2.3`.

Numbers of held-out rows get the prefix `val/`, so that a validation loss is never taken for a training loss.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np

from playbook.readers.names import plain

SPLITS = frozenset(("split", "mode", "phase", "stage", "subset", "dataset split", "partition", "set", "job type"))
TAGS = frozenset(("metric", "tag", "metric name", "key", "name", "variable"))
_HELD = frozenset(
    ("val", "valid", "validation", "eval", "evaluation", "evaluate", "test", "testing", "dev", "holdout", "predict")
)


def is_held(label: object) -> bool:
    """True for the words that name rows which are not training."""
    return isinstance(label, str) and plain(label) in _HELD


def label_columns(names: Iterable[str]) -> list[str]:
    """The columns of a table that hold such words, or the metric's name in a long table (metric, value, step)."""
    raws = list(names)
    plains = {plain(raw): raw for raw in raws}
    found = [raw for name, raw in plains.items() if name in SPLITS]
    if "value" in plains:
        found += [raw for name, raw in plains.items() if name in TAGS][:1]
    return found


def spread(columns: Mapping[str, np.ma.MaskedArray], labels: Mapping[str, list[str]]) -> dict[str, np.ma.MaskedArray]:
    """One column for each kind of row: held-out rows move to `val/<name>`, values of a long table to their metric."""
    result = dict(columns)
    shared = {raw for raw in columns if _counts(raw)}
    for name, texts in labels.items():
        known = np.asarray(texts, object)
        if plain(name) in TAGS:
            value = next((raw for raw in result if plain(raw) == "value"), None)
            if value is not None:
                column = result.pop(value)
                result.update({tag: _only(column, known == tag) for tag in sorted(set(texts)) if tag})
            continue
        held = np.fromiter((is_held(text) for text in texts), bool, len(texts))
        if held.any():
            for raw in [raw for raw in result if raw not in shared]:
                column = result[raw]
                result[raw] = _only(column, ~held)
                if (moved := _only(column, held)).count():
                    result[f"val/{raw}"] = moved
    return result


def _counts(raw: str) -> bool:
    from playbook.readers.names import epoch_name, rank_name, step_names

    return bool(step_names([raw]) or epoch_name([raw]) or rank_name([raw]))


def _only(column: np.ma.MaskedArray, rows: np.ndarray) -> np.ma.MaskedArray:
    return np.ma.MaskedArray(np.ma.getdata(column), np.ma.getmaskarray(column) | ~rows)
