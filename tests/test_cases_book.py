"""The case studies of the book: they load, answer in known outcomes, agree with themselves, and their curves parse."""

from __future__ import annotations

import csv
import hashlib
import importlib.util
import math
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from playbook.knowledge.entries import SYMPTOMS, Case
from playbook.knowledge.loader import Book

ROOT = Path(__file__).resolve().parents[1]
KNOWLEDGE = ROOT / "knowledge"
SEED_CASES = {
    "lr-peak-hard-samples-7b",
    "overlong-sample-nan-1000gpu",
    "qkv-init-nan-rank2",
}  # from the source documents
CORPUS = 112  # published cases
YES_NO = [
    "forward-right-gradient-wrong",
    "single-device-removes-it",
    "ranks-disagree",
    "tied-to-samples",
    "loss-looks-normal",
    "fp32-removes-it",
    "present-at-first-step",
    "other-data-removes-it",
    "feature-off-removes-it",
    "other-release-removes-it",
    "error-is-exact-factor",
    "deterministic-on-replay",
    "other-hardware-removes-it",
    "norm-grows-before-loss",
    "depends-on-padding-or-length",
    "lower-lr-removes-it",
    "system-reports-fault",
    "lr-leaves-schedule",
    "state-equal-after-load",
    "begins-at-resume",
]
CONTRACT: dict[str, set[str]] = {name: {"yes", "no"} for name in YES_NO} | {
    "loss-shape": set(SYMPTOMS),
    "grad-norm-before": {"surges", "climbs", "normal", "nonfinite", "vanishes"},
    "loss-scale-before": {"collapses", "falls", "steady", "absent"},
    "lr-phase": {"warmup", "peak", "decay", "restart", "constant"},
    "ranks-affected": {"one", "some", "all", "single-process"},
    "precision": {"fp32", "fp16", "bf16", "fp8"},
    "network-counters": {"rising", "quiet"},
    "gpu-errors": {"xid", "ecc", "none"},
    "change-point": {"data", "resume", "lr", "batch-size", "code", "none"},
    "throughput": {"drops", "steady"},
    "parallelism": {"single", "data", "sharded", "tensor", "pipeline"},
    "first-nonfinite": {"input", "forward", "loss", "backward", "update"},
}
CONTEXT = {"gpus", "nodes", "task", "framework"}  # context that is no signal


@pytest.fixture(scope="module")
def cases(real_book: Book) -> dict[str, Case]:
    return real_book.cases


@pytest.fixture(scope="module")
def outcomes(real_book: Book) -> dict[str, set[str]]:
    return {name: set(signal.outcomes) for name, signal in real_book.signals.items()} | CONTRACT


def faults(case: Case, outcomes: dict[str, set[str]]) -> list[str]:
    """What is wrong with the answers of one case, as sentences."""
    known = {**{k: str(v) for k, v in case.context.items() if k not in CONTEXT}, **case.answers}
    found = [f"{s}: {o} is no outcome" for s, o in known.items() if s in outcomes and o not in outcomes[s]]
    found += [f"{s} is in context and in answers" for s in sorted(set(case.context) & set(case.answers))]
    found += [f"{s} is given but not answered" for s in case.given if s not in known]
    if "loss-shape" not in case.given:
        found.append("loss-shape is not given")
    rules = [  # (when, then): what one answer says about another
        ("precision", {"bf16", "fp32"}, "loss-scale-before", {"absent"}),
        ("precision", {"fp32"}, "fp32-removes-it", {"no"}),
        ("parallelism", {"single"}, "single-device-removes-it", {"no"}),
        ("parallelism", {"single"}, "ranks-affected", {"single-process"}),
        ("loss-shape", {"resume-drift"}, "begins-at-resume", {"yes"}),
        ("loss-shape", {"resume-drift"}, "change-point", {"resume"}),
        ("loss-shape", {"throughput-drop"}, "throughput", {"drops"}),
        ("first-nonfinite", {"input", "forward", "loss"}, "forward-right-gradient-wrong", {"no"}),
        ("matches-reference-step1", {"loss-equal-grad-differs"}, "forward-right-gradient-wrong", {"yes"}),
        ("gpu-errors", {"xid", "ecc"}, "system-reports-fault", {"yes"}),
    ]
    switches = [s for s in outcomes if s.endswith("-off-removes-it")] or []
    rules += [(s, {"yes"}, "feature-off-removes-it", {"yes"}) for s in switches]
    for signal, when, other, then in rules:
        if known.get(signal) in when and known.get(other) not in then:
            found.append(f"{signal}={known[signal]} needs {other} in {sorted(then)}")
    return found


def split_of(corpus_id: str) -> str:
    """The rule that halves the corpus: nobody chose which case lands where."""
    even = int(hashlib.sha256(f"playbook-split:{corpus_id}".encode()).hexdigest(), 16) % 2 == 0
    return "development" if even else "test"


def test_all_cases_load(real_book: Book, cases: dict[str, Case]) -> None:
    assert [str(p) for p in real_book.problems if "/cases/" in Path(p.where).as_posix()] == []
    files = {path.stem for path in (KNOWLEDGE / "cases").glob("*.yaml")}
    assert set(cases) == files
    assert files >= SEED_CASES
    assert sum(case.id not in SEED_CASES for case in cases.values() if case.split) >= CORPUS


def test_answers_are_known_outcomes_and_agree(cases: dict[str, Case], outcomes: dict[str, set[str]]) -> None:
    assert {name: found for name, case in cases.items() if (found := faults(case, outcomes))} == {}


@pytest.mark.parametrize(
    ("change", "fault"),
    [
        ({"answers": {"loss-shape": "wobbly"}}, "loss-shape: wobbly is no outcome"),
        ({"given": ["present-at-first-step"]}, "present-at-first-step is given but not answered"),
        ({"given": []}, "loss-shape is not given"),
        ({"context": {"precision": "int4"}}, "precision: int4 is no outcome"),
        ({"context": {"precision": "bf16"}}, "precision=bf16 needs loss-scale-before in ['absent']"),
        ({"context": {"loss-shape": "plateau"}}, "loss-shape is in context and in answers"),
        (
            {"answers": {"loss-shape": "plateau", "overlap-off-removes-it": "yes"}},
            "overlap-off-removes-it=yes needs feature-off-removes-it in ['yes']",
        ),
    ],
)
def test_faulty_answers_are_seen(change: dict[str, Any], fault: str, outcomes: dict[str, set[str]]) -> None:
    good: dict[str, Any] = {
        "id": "sample",
        "title": "Sample",
        "sources": ["D3-case"],
        "given": ["loss-shape"],
        "answers": {"loss-shape": "plateau"},
        "causes": ["weight_tying"],
    }
    known = outcomes | {"overlap-off-removes-it": {"yes", "no"}}
    assert faults(Case.model_validate(good), known) == []
    assert fault in faults(Case.model_validate({**good, **change}), known)


def test_splits_follow_the_rule(cases: dict[str, Case]) -> None:
    corpus = [case for case in cases.values() if case.split and case.id not in SEED_CASES]
    for case in corpus:
        assert case.id == case.sources[0]
        assert case.split == split_of(case.id), case.id
    share = sum(case.split == "development" for case in corpus) / len(corpus)
    assert 0.4 < share < 0.6


def test_sources_lead_to_a_page(real_book: Book, cases: dict[str, Case]) -> None:
    for case in cases.values():
        if case.id in SEED_CASES:
            continue
        for key in case.sources[1:]:
            page = real_book.sources[key]
            assert page["title"] and page["kind"] in {"issue", "chronicle", "paper", "docs"}
            assert page["url"].startswith("https://github.com/"), key


def test_every_case_tells_its_story(cases: dict[str, Case]) -> None:
    for case in cases.values():
        assert len(case.story) > 120, case.id
        assert case.fix and case.earlier, case.id


def test_causes_are_classes_or_entries(real_book: Book, cases: dict[str, Case]) -> None:
    classes = {cause.class_ for cause in real_book.causes.values()}
    if len(classes) < 48:
        pytest.skip("the book does not cover all classes of the taxonomy yet")
    named = {name for case in cases.values() for name in case.causes}
    assert sorted(named - classes - set(real_book.causes)) == []


def _rows(path: Path) -> list[dict[str, str]]:
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def test_metric_files_parse(real_book: Book, cases: dict[str, Case]) -> None:
    named: set[Path] = set()
    for case in cases.values():
        for name in case.metrics:
            path = real_book.files["cases", case.id].parent / name
            named.add(path)
            rows = _rows(path)
            assert len(rows) >= 8, path.name
            assert "step" in rows[0] and len(rows[0]) >= 2
            steps = [int(row["step"]) for row in rows]
            assert steps == sorted(set(steps)), path.name
            assert all(isinstance(float(text), float) for row in rows for text in row.values())
            assert path.stat().st_size < 60_000
    assert named == set((KNOWLEDGE / "cases").glob("*.csv"))  # none lies there unused


@pytest.fixture(scope="module")
def curves() -> ModuleType:
    spec = importlib.util.spec_from_file_location("case_curves", ROOT / "tests" / "lab" / "case_curves.py")
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_curves_are_what_the_script_writes(curves: ModuleType, tmp_path: Path) -> None:
    curves.main(tmp_path)
    for name in curves.CURVES:
        made, kept = _rows(tmp_path / name), _rows(KNOWLEDGE / "cases" / name)
        assert len(made) == len(kept)
        for new, old in zip(made, kept, strict=True):
            for key, text in old.items():
                assert float(new[key]) == pytest.approx(float(text), rel=1e-3, nan_ok=True), (name, old["step"], key)


def test_the_told_figures_stand_in_the_curves() -> None:
    spike = {int(r["step"]): r for r in _rows(KNOWLEDGE / "cases" / "lr-peak-hard-samples-7b.csv")}
    loss = {step: float(row["loss"]) for step, row in spike.items()}
    norm = {step: float(row["grad_norm"]) for step, row in spike.items()}
    assert loss[8_000] == pytest.approx(2.1, abs=0.05) and loss[13_000] == pytest.approx(1.6, abs=0.05)
    assert (loss[13_499], loss[13_500], norm[13_499], norm[13_500]) == (1.62, 8.73, 4.0, 23.6)
    assert norm[13_290] == pytest.approx(2.0, rel=0.2)
    assert all(4 <= loss[step] <= 6 for step in range(13_501, 13_516))
    assert min(value for step, value in loss.items() if step > 13_500) > 1.9
    assert loss[14_500] == pytest.approx(2.0, abs=0.1)
    assert max(float(row["lr"]) for row in spike.values()) <= 3e-4

    nan = _rows(KNOWLEDGE / "cases" / "overlong-sample-nan-1000gpu.csv")
    first = next(i for i, row in enumerate(nan) if math.isnan(float(row["loss"])))
    norms = [float(row["grad_norm"]) for row in nan[:first]]
    assert max(norms[:-10]) < 1.2 < norms[-5] < norms[-2] < norms[-1]
    assert all(math.isnan(float(row["loss"])) for row in nan[first:])
