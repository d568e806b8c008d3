"""Opinions fitted to published reports: what is read, what is learned, and that held-out cases stay out."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path
from shutil import copytree

import numpy as np
import pytest

from playbook import places
from playbook.engine.tables import compile_book
from playbook.errors import PlaybookError
from playbook.faces.cli import run as command
from playbook.knowledge.loader import Book
from playbook.workflow.cases import CaseFile, read_cases, read_lines, unmapped
from playbook.workflow.upkeep import fit, precedents
from playbook.workflow.upkeep.learn import class_of, facts
from playbook.workflow.upkeep.reports import Elicited, Report, read_elicited, write_opinions

LINE = '{"id": "a-1", "answers": {"loss-shape": "plateau"}, "causes": ["lr_too_high"]}'
BROKEN = {
    LINE + "\n{\n": (2, "is no case file"),
    LINE + "\n\n" + LINE + "\n": (3, "stands twice"),
    '{"id": "a-1", "causes": []}\n': (1, "is no case file"),
}


@pytest.mark.parametrize("text", BROKEN)
def test_a_broken_report_is_told_with_its_line(tmp_path: Path, text: str) -> None:
    path = tmp_path / "reports.jsonl"
    path.write_text(text, "utf-8")
    with pytest.raises(PlaybookError) as error:
        read_lines(path, Report)
    assert (error.value.problem.line, True) == (BROKEN[text][0], BROKEN[text][1] in error.value.problem.what)


def test_a_folder_without_reports_is_told_in_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert command(["knowledge", "fit", str(tmp_path)]) == 2
    assert len(capsys.readouterr().err.splitlines()) == 1


@pytest.fixture(scope="module")
def elicited() -> Elicited:
    return read_elicited(places.knowledge())


def test_the_documents_name_the_reports_that_there_are() -> None:
    reports = len(read_lines(places.knowledge() / "elicited" / "reports.jsonl", Report))
    for name in ("README.md", "CHANGELOG.md"):
        text = " ".join((Path(__file__).parents[1] / name).read_text("utf-8").split())
        assert f" {reports:,} published reports" in text, name


def test_every_report_speaks_the_words_of_the_book(real_book: Book, elicited: Elicited) -> None:
    for case in (*elicited.real, *elicited.imagined):
        assert unmapped(case.read_twice(), real_book) == [], case.id
        assert facts(case, real_book).keys().isdisjoint(case.inferred), f"{case.id}: told and inferred"
        assert all(class_of(real_book, name) for name in case.causes), case.id
    assert set(elicited.raters) <= set(real_book.signals)
    known = {case.id for case in (*elicited.real, *elicited.imagined)}
    assert set(elicited.judged) <= known
    for id_, row in elicited.judged.items():
        assert set(row) <= set(real_book.classes) and 0 < sum(row.values()) <= 1.001, id_


def _threads(case: CaseFile) -> set[tuple[str, str]]:
    """(repository, number) of the public threads that a case names."""
    text = " ".join([case.id.replace("-pr-", "-"), *case.sources])
    found = {(m[1].lower(), m[2]) for m in re.finditer(r"/([\w.-]+)/(?:issues|pull|discussions)/(\d+)", text)}
    named = re.fullmatch(r"(.+)-(\d+)", case.id)
    return found | ({(named[1].lower(), named[2])} if named else set())


def test_nothing_of_the_held_out_half_is_learned(elicited: Elicited) -> None:
    held = [case for _, case in read_cases(places.knowledge() / "cases") if case.split == "test"]
    assert len(held) > 80
    learned = {thread for case in elicited.real for thread in _threads(case)}
    assert {case.id for case in held}.isdisjoint({case.id for case in elicited.real} | set(elicited.judged))
    assert learned.isdisjoint({thread for case in held for thread in _threads(case)})


def test_unseen_reports_are_seen_by_no_fit(elicited: Elicited) -> None:
    unseen = read_lines(places.knowledge() / "elicited" / "unseen.jsonl", Report)
    assert len(unseen) > 700
    known = {case.id for case in elicited.real} | {case.id for _, case in read_cases(places.knowledge() / "cases")}
    assert known.isdisjoint(case.id for case in unseen)
    pages = {source for case in elicited.real for source in case.sources if "github.com" in source}
    assert pages.isdisjoint(source for case in unseen for source in case.sources)


def _reports(class_: str, n: int, **answers: str) -> list[Report]:
    known = {k.replace("_", "-"): v for k, v in answers.items()}
    return [Report(id=f"{class_}-{known}-{i}", answers=known, causes=[class_]) for i in range(n)]


def _fitted(book: Book, cases: list[Report]) -> tuple[fit.Start, np.ndarray]:
    elicited = Elicited(tuple(cases), (), {}, {})
    every = {name: dict.fromkeys(signal.outcomes, 1.0) for name, signal in book.signals.items()}
    classes = {cause.class_ for cause in book.causes.values()}
    begin = fit.start(book, {name: dict.fromkeys(sorted(classes), row) for name, row in every.items()})
    return begin, np.exp(fit.fit(begin, fit.taught(begin, book, elicited, cases)))


def test_what_was_inferred_from_a_report_teaches_less_than_what_it_tells(tiny: Book) -> None:
    def share(told: dict[str, str], inferred: dict[str, str]) -> float:
        reports = [
            report.model_copy(update={"inferred": inferred if class_ == "lr_too_high" else {}})
            for class_ in ("lr_too_high", "data_bad_content")
            for report in _reports(
                class_, 20, loss_shape="persistent-spike", **(told if class_ == "lr_too_high" else {})
            )
        ]
        begin, after = _fitted(tiny, reports)
        yes = begin.tables.column("lower-lr-removes-it", "yes")
        assert yes is not None
        return float(after[begin.tables.classes.index("lr_too_high"), yes])

    assert share({}, {}) < share({}, {"lower-lr-removes-it": "yes"}) < share({"lower_lr_removes_it": "yes"}, {})


def test_reports_move_what_is_believed_of_a_class(tiny: Book) -> None:
    """Reports of one class show an outcome, those of the other do not: the fit tells them apart further."""
    begin, after = _fitted(
        tiny,
        [
            *_reports("lr_too_high", 20, loss_shape="persistent-spike", lower_lr_removes_it="yes"),
            *_reports("data_bad_content", 20, loss_shape="persistent-spike", lower_lr_removes_it="no"),
        ],
    )
    tables = begin.tables
    yes = tables.column("lower-lr-removes-it", "yes")
    rate, data = tables.classes.index("lr_too_high"), tables.classes.index("data_bad_content")
    assert after[rate, yes] > begin.share[rate, yes] and after[data, yes] < begin.share[data, yes]
    for where in tables.columns.values():
        assert np.allclose(after[:, where].sum(axis=1), 1)


def test_reports_do_not_move_how_common_a_number_format_is(real_book: Book, elicited: Elicited) -> None:
    begin = fit.start(real_book, elicited.raters)
    told = [case for case in elicited.real if "precision" in case.answers][:20]
    lesson = fit.lessons(begin, real_book, told, elicited)
    where = begin.tables.columns["precision"]
    assert "precision" in begin.rated and len(told) == 20
    assert not lesson.weight[:, where].any() and lesson.weight.any()


def test_how_many_reports_a_class_has_is_no_base_rate(tiny: Book) -> None:
    """The same observation in all classes, and ten times the reports of one: that one gains nothing by its number."""
    same = {"loss_shape": "persistent-spike"}
    begin, after = _fitted(tiny, [*_reports("lr_too_high", 60, **same), *_reports("data_bad_content", 6, **same)])
    k = begin.tables.column("loss-shape", "persistent-spike")
    rate, data = begin.tables.classes.index("lr_too_high"), begin.tables.classes.index("data_bad_content")
    moved = np.log(after[:, k] / begin.share[:, k])
    assert moved[rate] < 0.05 and moved[data] > moved[rate]


def test_pooled_with_the_links_the_opinions_come_to_the_fit(tiny: Book) -> None:
    begin, after = _fitted(tiny, _reports("lr_too_high", 30, loss_shape="plateau", lower_lr_removes_it="yes"))
    pooled = compile_book(replace(tiny, opinions=fit.opinions(begin, tiny, np.log(after))))
    assert np.abs(fit.by_class(pooled) - after).max() < 0.02


def test_a_report_in_parts_keeps_its_symptom_and_the_same_answers_each_time() -> None:
    kept = [fit._kept("a-1", f"signal-{i}", 1) for i in range(2000)]
    assert kept == [fit._kept("a-1", f"signal-{i}", 1) for i in range(2000)]
    assert np.mean(kept) == pytest.approx(fit.KEPT, abs=0.04)


def test_what_is_written_is_read_again(tmp_path: Path) -> None:
    opinions = {"fp32-removes-it": {"fp16_overflow": {"yes": 93.0, "no": 7.0}}}
    path = write_opinions(tmp_path, opinions)
    assert json.loads(path.read_text("utf-8"))["fp32-removes-it"]["classes"]["fp16_overflow"] == [93.0, 7.0]
    from playbook.knowledge.loader import load

    assert load([tmp_path]).opinions == opinions
    path.write_text("{", "utf-8")
    (problem,) = load([tmp_path]).problems
    assert problem.where.endswith("opinions.json") and problem.line == 1


def test_the_written_opinions_are_those_of_the_fit(capsys: pytest.CaptureFixture[str]) -> None:
    assert command(["knowledge", "fit", "--check", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["largest_difference"] <= 2 and found["precedents_difference"] <= 2


def test_a_fit_explains_reports_that_it_has_not_seen(
    real_book: Book, elicited: Elicited, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A third of them, two folds: the gain is far above what chance would give."""
    monkeypatch.setattr(precedents, "EPOCHS", 50)
    some = replace(elicited, real=elicited.real[::3], imagined=elicited.imagined[::3])
    before, after, pooled = fit.judge(fit.start(real_book, elicited.raters), real_book, some, 2)
    assert after.loss < before.loss - 0.2 and after.first > before.first
    assert pooled.loss < after.loss - 0.02 and pooled.first > before.first


def small(folder: Path, split: str) -> Path:
    """A knowledge folder of one case and no reports."""
    copytree(Path(__file__).parent / "tiny_knowledge", folder)
    for case in (folder / "cases").glob("*.yaml"):
        case.unlink()
    (folder / "cases" / "mine.yaml").write_text(
        f"id: mine\ncauses: [lr-peak]\nsplit: {split}\nanswers: {{loss-shape: plateau}}\n"
    )
    (folder / "elicited").mkdir()
    for name in ("reports.jsonl", "scenarios.jsonl"):
        (folder / "elicited" / name).write_text("")
    for name in ("judgements.json", "raters.json"):
        (folder / "elicited" / name).write_text("{}")
    return folder


def test_one_report_is_enough_for_a_fit_and_for_its_judgement(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(precedents, "EPOCHS", 1)
    folder = str(small(tmp_path / "book", "development"))
    for args in (["--folds", "3"], [], ["--check"]):
        assert command(["knowledge", "fit", folder, *args]) == 0, capsys.readouterr().err


def test_no_report_at_all_is_refused_in_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = small(tmp_path / "book", "test")
    for code, said in (("en", "holds no reports"), ("zh", "里面没有报告")):
        assert command(["knowledge", "fit", str(folder), "--lang", code]) == 2
        (line,) = capsys.readouterr().err.splitlines()
        assert str(folder / "elicited") in line and said in line
