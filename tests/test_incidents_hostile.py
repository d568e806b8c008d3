"""Documents, scenes and captures bent at random: whatever is let in can be shown, replayed, frozen and sent on."""

from __future__ import annotations

import json
import math
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from rich.console import Console

from playbook.errors import PlaybookError
from playbook.faces.record_report import print_list, print_record, print_trends
from playbook.incidents import scene
from playbook.incidents.record import document, parse, tidy
from playbook.incidents.redact import Redactor, read_rules
from playbook.incidents.store import Filter, Store, open_store
from playbook.knowledge.loader import Book
from playbook.series import Event, Origin, Run, Series
from playbook.workflow.book import Library
from playbook.workflow.records import exchange, regression
from playbook.workflow.records.incident import Closing, bill
from playbook.workflow.records.postmortem import markdown, postmortem
from playbook.workflow.records.replay import replay_incident
from playbook.workflow.records.trends import of
from playbook.workflow.upkeep.teach import as_case
from tests.incidents_kit import record, spiked

QUICK = settings(max_examples=80, deadline=None, suppress_health_check=list(HealthCheck))
LEAF = st.one_of(
    st.none(), st.booleans(), st.integers(-(2**70), 2**70), st.floats(), st.text(max_size=30),
    st.sampled_from(["", "../../x", "\x1b[2J", "<script>", "=1+1", "nan", "2026-13-45", "a" * 5000, "\ud800"]),
)  # fmt: skip
VALUE = st.recursive(
    LEAF,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=6,
)


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Store:
    return open_store(f"sqlite:///{tmp_path_factory.mktemp('hostile')}/x.db")


def places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """The way to every value of a document."""
    found = [path] if path else []
    if isinstance(value, dict):
        for key, item in value.items():
            found += places(item, (*path, key))
    elif isinstance(value, list):
        for key, item in enumerate(value):
            found += places(item, (*path, key))
    return found


def bent(data: Any, path: tuple[Any, ...], value: Any) -> Any:
    data = json.loads(json.dumps(data))
    at = data
    for key in path[:-1]:
        at = at[key]
    at[path[-1]] = value
    return data


DATA = document(record(1))
PLACES = places(DATA)


def foreseen(work: Callable[[], object]) -> None:
    """May refuse in a line, may not break."""
    try:
        work()
    except PlaybookError as error:
        assert "\n" not in str(error)


@QUICK
@given(st.sampled_from(PLACES), VALUE)
@example(("run", "size"), {"gpus": "many", "step_seconds": []})
@example(("opened_at",), "2026-03-04T00:00:00")
@example(("moves", 0, "confidence"), 1e300)
@example(("losses", "hours"), 1e308)
def test_a_document_bent_anywhere(store: Store, tiny: Book, path: tuple[Any, ...], value: Any) -> None:
    try:
        made = parse(bent(DATA, path, value), "x.json")
    except PlaybookError as error:
        assert "\n" not in str(error)
        return
    store.put([made])
    assert store.get(made.id) == made
    library = Library(tiny)
    out = Console(file=open("/dev/null", "w"), width=100)  # noqa: SIM115, PTH123
    print_list(store.summaries(Filter(limit=5)), 5, out)
    print_record(made, out)
    print_trends(of(store.summaries()), out)
    assert "\x1b" not in markdown(postmortem(made, tiny, store))
    replay_incident(made, library, store)
    foreseen(lambda: exchange.redact(store, [made]))
    foreseen(lambda: as_case(made, tiny))
    foreseen(lambda: bill(made.losses, Closing(steps=10)))
    with tempfile.TemporaryDirectory() as folder:
        db = f"sqlite:///{store.database.file}"
        foreseen(lambda: regression.freeze(made.id, Path(folder) / "r", library, db))
    store.remove(made.id)


@QUICK
@given(
    st.lists(st.floats(width=64), min_size=1, max_size=30),
    st.lists(st.integers(-(2**63), 2**63 - 1), min_size=1, max_size=30),
    st.text(max_size=40), st.sampled_from([None, 0, 7]),
)  # fmt: skip
def test_a_scene_keeps_every_bit(values: list[float], steps: list[int], text: str, rank: int | None) -> None:
    n = min(len(values), len(steps))
    text = tidy(text)
    series = Series("loss", rank, np.array(steps[:n]), np.array(values[:n]), None, Origin(text, 3, "csv"), text)
    run = Run({("loss", rank): series}, (Event(text, "note", Origin(text)),), {"key": text})
    data = scene.freeze(run)
    again = scene.thaw(data)
    got = again.series["loss", rank]
    same = [a == b or (math.isnan(a) and math.isnan(b)) for a, b in zip(got.values, values[:n], strict=True)]
    assert all(same) and got.steps.tolist() == steps[:n] and scene.freeze(again) == data
    assert again.events == run.events and again.config == run.config and got.raw == text


def test_a_scene_keeps_where_a_file_begins() -> None:
    steps = np.arange(2000)
    series = Series("loss", None, steps, 3.0 - steps / 1e3, None, Origin("a .. b", None, "csv"), "loss", (700, 1300))
    again = scene.thaw(scene.freeze(scene.thin(Run({("loss", None): series}), 1900, 20, 16))).series["loss", None]
    assert len(again) < 200 and [int(again.steps[row]) for row in again.seams] == [700, 1300]
    assert [int(again.steps[row - 1]) for row in again.seams] == [699, 1299]


SCENE = scene.freeze(spiked(120, 90))


@QUICK
@given(st.integers(0, len(SCENE) - 1), st.binary(min_size=1, max_size=6))
def test_a_scene_bent_anywhere_is_read_or_told(at: int, data: bytes) -> None:
    foreseen(lambda: scene.thaw(SCENE[:at] + data + SCENE[at + len(data) :], "scene.jsonl"))


RULES = read_rules()


@QUICK
@given(st.text(max_size=200), st.sampled_from(["alice", "carol_w", "x9"]), st.sampled_from(["gpu-node-17", "dgx07"]))
def test_a_learned_name_never_stays(text: str, user: str, host: str) -> None:
    whole = f"{text} /home/{user}/x on {host}\n{text} {user}: {host} {text}"
    redactor = Redactor(RULES)
    redactor.learn(whole)
    clean = redactor.text(whole)
    assert f" {user}:" not in clean or len(user) < 3
    assert f" {host} " not in clean
    redactor.removed()


@QUICK
@given(VALUE)
def test_redaction_takes_any_document(value: Any) -> None:
    redactor = Redactor(RULES)
    redactor.learn_all(tidy(value))
    json.dumps(redactor.document(tidy(value)))
