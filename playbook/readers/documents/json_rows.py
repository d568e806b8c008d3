"""JSON objects, one a logged row, gathered into columns.

Nested objects become `a/b`; numbers may be texts ("3.924", "NaN"); rows that say they are validation get the prefix
`val/`; `{"metric": "loss", "value": 2.3}` becomes `{"loss": 2.3}`. Lists and texts are no numbers and are left out.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from playbook.readers import held_out, tabular
from playbook.readers.base import RunBuilder, flat, number
from playbook.readers.names import epoch_name, plain, rank_name, step_names

HELD = "val/"


@dataclass
class Rows:
    """Rows so far: per raw name the row numbers and the values that were logged."""

    builder: RunBuilder
    lines: list[int] = field(default_factory=list)
    words: dict[str, list[tuple[int, str]]] = field(default_factory=dict)  # of each key, where a number should stand
    _points: dict[str, tuple[list[int], list[float]]] = field(default_factory=dict)
    _layouts: dict[tuple[tuple[str, ...], bool], list[tuple[str, tuple[list[int], list[float]]]]] = field(
        default_factory=dict
    )

    def add(self, row: Mapping[str, Any], line: int) -> None:
        """One row; `line` is its line in the file."""
        row, held = _flattened(row)
        keys = tuple(row)
        layout = self._layouts.get((keys, held))
        if layout is None:
            layout = self._layouts[keys, held] = self._layout(row, held)
        place = len(self.lines)
        self.lines.append(line)
        for key, (places, values) in layout:
            value = row[key]
            if type(value) is not float:
                found = number(value)
                if found is None:
                    if isinstance(value, str) and value.strip().lower() not in tabular.BLANK:
                        self.words.setdefault(key, []).append((line, value))
                    continue
                value = found
            places.append(place)
            values.append(value)

    def named(self, row: Mapping[str, Any]) -> list[tuple[str, Any]]:
        """(raw name, value) of what `add` would take from a row; nothing is added."""
        row, held = _flattened(row)
        named = ((self._name(key, held), value) for key, value in row.items())
        return [(name, value) for name, value in named if name is not None]

    def columns(self) -> dict[str, np.ma.MaskedArray]:
        """name -> masked float64[rows]."""
        size = len(self.lines)
        result = {}
        for name, (places, values) in self._points.items():
            data, mask = np.zeros(size), np.ones(size, bool)
            data[places] = values
            mask[places] = False
            result[name] = np.ma.MaskedArray(data, mask)
        return result

    def tell_of_words(self) -> None:
        """Tell where a number is a word in a few rows only: a damaged row looks like that."""
        for key, told in self.words.items():
            numbers = max(len(self._points.get(name, ((),))[0]) for name in (key, HELD + key))
            if tabular.seldom(len(told), len(told) + numbers) and numbers > len(told):
                tabular.tell_of_words(self.builder, key, told)

    def _layout(self, row: Mapping[str, Any], held: bool) -> list[tuple[str, tuple[list[int], list[float]]]]:
        layout = []
        for key, value in row.items():
            name = self._name(key, held)
            if name is not None:
                layout.append((key, self._points.setdefault(name, ([], []))))
            elif number(value) is not None:
                self.builder.see([HELD + key if held else key])
        return layout

    def _name(self, key: str, held: bool) -> str | None:
        """The raw name under which a key's numbers are kept; None where they can become no metric."""
        if counts_rows(key, self.builder):
            return key
        name = HELD + key if held else key
        return name if self.builder.wants(name) else None


def counts_rows(key: str, builder: RunBuilder) -> bool:
    """True for what counts steps or epochs or names the rank."""
    if builder.step_column is not None and plain(builder.step_column) == plain(key):
        return True
    return bool(step_names([key]) or epoch_name([key]) or rank_name([key]))


def _flattened(row: Mapping[str, Any]) -> tuple[Mapping[str, Any], bool]:
    """(the row without nesting, whether it is one of a validation)."""
    if any(isinstance(value, Mapping) for value in row.values()):
        row = dict(flat(row))
    if "value" in row:
        row = _long(row)
    return row, _held(row)


def _held(row: Mapping[str, Any]) -> bool:
    """Rows of a validation: by their own word, or mmengine's (`time` and `data_time` without `lr` and `loss`)."""
    for key, value in row.items():
        if isinstance(value, str) and plain(key) in held_out.SPLITS and held_out.is_held(value):
            return True
    return "data_time" in row and "time" in row and "lr" not in row and not any("loss" in key for key in row)


def _long(row: Mapping[str, Any]) -> Mapping[str, Any]:
    tag = next((key for key in row if plain(key) in held_out.TAGS and isinstance(row[key], str)), None)
    if tag is None:
        return row
    return {row[tag]: row["value"]} | {key: value for key, value in row.items() if key not in (tag, "value")}
