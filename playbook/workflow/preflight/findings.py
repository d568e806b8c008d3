"""What a relation between settings gives, and how it shows a setting."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from playbook.series import Setting
from playbook.workflow.preflight.recipe import Recipe


@dataclass(frozen=True, slots=True)
class Found:
    """`state` bad, warn or ok; `text` what stands there and against what; `at` the setting to mend."""

    state: str
    text: str
    at: Setting


Relation = Callable[[Recipe], Iterator[Found]]


def shown(*settings: Setting) -> str:
    """`lr = 0.0003, optimizer.params.lr = 0.0001 (ds.json:4)`: one of another file or line says where it stands."""
    first = settings[0]
    parts = []
    for setting in settings:
        place = ""
        if setting is not first and setting.origin.line is not None and setting.origin != first.origin:
            file = f"{setting.origin.path}:" if setting.origin.path != first.origin.path else "line "
            place = f" ({file}{setting.origin.line})"
        parts.append(f"{setting.name} = {setting.value}{place}")
    return ", ".join(parts)
