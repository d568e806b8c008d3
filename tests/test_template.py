"""Templates are valid entries, and land where the loader finds them."""

from __future__ import annotations

from pathlib import Path

import pytest

from playbook.errors import PlaybookError
from playbook.knowledge.entries import KINDS
from playbook.knowledge.loader import load, parse_yaml
from playbook.workflow.upkeep.template import place_of, template


@pytest.mark.parametrize("kind", KINDS)
def test_a_template_loads_as_it_is(kind: str, tmp_path: Path) -> None:
    entry_id = "data/my-entry" if kind == "causes" else "my-entry"
    path = place_of(tmp_path, kind, entry_id)
    path.parent.mkdir(parents=True)
    path.write_text(template(kind, entry_id))
    book = load([tmp_path])
    assert not book.problems, [str(p) for p in book.problems]
    assert list(book.entries[kind]) == ["my-entry"]


def test_a_kind_may_be_named_in_the_singular() -> None:
    assert template("cause", "data/a") == template("causes", "data/a")
    assert template("fix", "a") == template("fixes", "a")


@pytest.mark.parametrize(
    ("kind", "entry_id"), [("things", "a"), ("causes", "a"), ("fixes", "data/a"), ("fixes", "../a"), ("fixes", "a b")]
)
def test_what_is_no_place_is_refused(kind: str, entry_id: str) -> None:
    with pytest.raises(PlaybookError):
        template(kind, entry_id)


def test_counts_of_two_packs_add_up(tmp_path: Path) -> None:
    for name, n in (("a", 1), ("b", 2)):
        (tmp_path / name).mkdir()
        (tmp_path / name / "learned.yaml").write_text(
            f"counts: {{lr_too_high: {{precision: {{bf16: {n}}}}}}}\ncases: [{name}]\n"
        )
    book = load([tmp_path / "a", tmp_path / "b"])
    assert book.learned == {"counts": {"lr_too_high": {"precision": {"bf16": 3.0}}}, "cases": ["a", "b"]}
    (tmp_path / "b" / "learned.yaml").write_text("counts: [1]\n")
    assert [p.code for p in load([tmp_path / "a", tmp_path / "b"]).problems] == ["learned"]


def test_yaml_is_plain_values_and_nothing_else() -> None:
    values = {
        "a": "yes",
        "b": 1e-8,
        "c": -0.5,
        "e": "2021-01-01",
        "f": None,
        "g": "12e34567",
        "h": True,
        "i": "007",
        "j": 7,
    }
    text = "a: yes\nb: 1e-8\nc: -0.5\ne: 2021-01-01\nf:\ng: 12e34567\nh: true\ni: 007\nj: 7\n"
    assert parse_yaml(text, "x.yaml") == values
    assert parse_yaml("- '1'\n- [1, no]\n", "x.yaml") == ["1", [1, "no"]]


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("a: 1\na: 2", "x.yaml:2: .*stands twice"),
        ("a: &x [1]\nb: *x", "x.yaml:2: .*aliases"),
        ("a: !!python/object/apply:os.system [ls]", "x.yaml:1: .*tags"),
        ("[" * 100, "nested deeper"),
        ("? [1]\n: 2", "a key must be a plain text"),
        ("a: [1", "x.yaml"),
        ("a: \x00", "not valid YAML"),
    ],
)
def test_yaml_that_is_more_than_plain_values_is_refused(text: str, what: str) -> None:
    with pytest.raises(PlaybookError, match=what):
        parse_yaml(text, "x.yaml")
