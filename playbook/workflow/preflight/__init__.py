"""A run's configuration against the checklists of the book, before it is started."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from playbook.engine.observe import flatten, lookup, rule_outcome
from playbook.errors import PlaybookError
from playbook.knowledge.entries import CheckItem
from playbook.knowledge.loader import Book
from playbook.series import Origin, Run
from playbook.workflow.preflight import doubles, layout, relations
from playbook.workflow.preflight.findings import Relation
from playbook.workflow.preflight.recipe import Recipe, settings_of

STATES = ("bad", "warn", "ok", "unknown")  # in the order of the report

# What `relation:` of a checklist item may name.
RELATIONS: dict[str, Relation] = {
    "learning-rate": relations.learning_rate,
    "rate-floor": relations.rate_floor,
    "warm-up-fits": relations.warm_up_fits,
    "warm-up-there": relations.warm_up_there,
    "schedule-fits": relations.schedule_fits,
    "second-moment": relations.second_moment,
    "epsilon": relations.epsilon,
    "one-half-precision": relations.one_half_precision,
    "scaler": relations.scaler,
    "clipping": relations.clipping,
    "weight-decay": relations.weight_decay,
    "batch-product": layout.batch_product,
    "divides": layout.divides,
    "vocabulary": layout.vocabulary,
    "positions": layout.positions,
    "zero-options": layout.zero_options,
    "one-sharder": layout.one_sharder,
    "trains-something": layout.trains_something,
    "saves-something": layout.saves_something,
    "weights-dtype": relations.weights_dtype,
    "best-model": layout.best_model,
    "set-twice": doubles.twice,
    "two-owners": doubles.two_owners,
    "misspelt": doubles.misspelt,
}


@dataclass(frozen=True, slots=True)
class Verdict:
    """One item of a checklist: `state` bad, warn, ok, or unknown (the configuration does not say).

    `location` is {"file", "line"} of the setting to mend, where it stands in a file.
    """

    item: str
    state: str
    text: str
    why: str
    found: str
    prevents: tuple[str, ...]
    location: dict[str, Any] | None = None


def preflight(run: Run, book: Book) -> list[Verdict]:
    """Every item that can be read off a configuration. Raises `PlaybookError` where there is none."""
    flat = flatten(run.config)
    if not flat:
        path = run.files[0].path if run.files else "CONFIG"
        raise PlaybookError(
            path,
            "holds no settings",
            "name a run configuration (JSON, YAML, TOML, Python, a job script or a log with its arguments)",
        )
    recipe = Recipe(settings_of(flat, run.settings))
    places = {setting.name: setting.origin for setting in recipe.settings}
    items = [item for checklist in book.kind("checklists").values() for item in checklist.items]
    found = [verdict for item in items for verdict in _judged(item, flat, recipe, places)]
    return sorted(found, key=lambda v: (STATES.index(v.state), v.item))


def _judged(
    item: CheckItem, flat: Mapping[str, Any], recipe: Recipe, places: Mapping[str, Origin]
) -> Iterator[Verdict]:
    """The verdicts of an item: by its relation, else by its rules; one `unknown` where neither says anything."""

    def verdict(state: str, found: str, origin: Origin | None) -> Verdict:
        return Verdict(item.id, state, item.text, item.why, found, tuple(item.prevents), _location(origin))

    if item.relation in RELATIONS:
        said = list(RELATIONS[item.relation](recipe))
        worst = [one for one in said if one.state != "ok"] or said[:1]
        for one in worst:
            yield verdict(one.state, one.text, one.at.origin)
        if worst:
            return
    for rule in item.config:
        for key in rule.keys:
            hit = lookup(flat, key)
            if hit is not None and hit[1] is not None and (state := rule_outcome(rule, hit[1])) in STATES:
                yield verdict(state, f"{hit[0]} = {hit[1]}", places.get(hit[0]))
                return
    if item.config:
        yield verdict("unknown", "", None)


def _location(origin: Origin | None) -> dict[str, Any] | None:
    return {"file": origin.path, "line": origin.line} if origin is not None and origin.path else None
