"""Drills: every case can be solved and none is solved at the start, par gets full marks and a guesser does not."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from rich.console import Console

from playbook.engine.advice import trying
from playbook.engine.tables import SHAPE
from playbook.errors import PlaybookError
from playbook.faces.cli import run
from playbook.faces.learning import drill_loop
from playbook.faces.words import Words
from playbook.workflow.book import Library, open_book
from playbook.workflow.learning.drill import (
    OPEN,
    SUSPECTS,
    Drill,
    Game,
    all_codes,
    by_seed,
    code_of,
    find,
    make,
    par_game,
    trial_cost,
)
from playbook.workflow.learning.drill_score import LATE, WEIGHTS, replay, score
from playbook.workflow.session import Session

CASE = "lr-peak-hard-samples-7b"
PARTS = 6  # of the cases, so that several processes can share them


@pytest.fixture(scope="module")
def drill(library: Library) -> Drill:
    return find(CASE, library)


@pytest.fixture(scope="module")
def par(drill: Drill) -> Game:
    return par_game(drill)


def guess(drill: Drill) -> Game:
    """Somebody who looks at nothing and tries one suspect after the other."""
    game = Game(drill)
    for cause in drill.suspects:
        if game.suspect(cause):
            break
    if drill.repairs:
        game.repair(drill.repairs[0].id)
    return game


def lucky(drill: Drill) -> Game:
    """Somebody who looks at nothing and names everything right at once."""
    game = Game(drill)
    if drill.aids:
        game.aid(drill.aids[0])
    game.suspect(drill.truth[0])
    if drill.repairs:
        game.repair(drill.repairs[0].id)
    return game


@pytest.mark.parametrize("part", range(PARTS))
def test_every_case_can_be_solved_and_none_is_solved_at_the_start(part: int, library: Library) -> None:
    """Over all published cases; the engine plays each of them to the end."""
    names = sorted(library.book.cases)
    assert len(names) >= 100
    for place, name in enumerate(names[part::PARTS]):
        drill = find(name, library)
        begun = Session(library.book, drill.tables, drill.size)
        begun.observe(drill.alert)
        diagnosis = begun.diagnosis(explained=False)
        chance, _ = drill.chance(diagnosis.belief)
        assert chance < OPEN, f"{name}: the alert gives the cause {chance:.0%}"
        assert not diagnosis.decided or diagnosis.healthy, f"{name} is decided by its alert"
        assert SHAPE in {e.signal for e in drill.alert}, f"{name} begins without a symptom"
        assert len(drill.suspects) == SUSPECTS == len(set(drill.suspects)), name
        assert [c for c in drill.suspects if drill.is_true(c)] == [drill.truth[0]], name

        game = par_game(drill)
        result = score(game, game)
        assert game.solved and result.total == 100.0, f"{name}: par gets {result}"
        assert any(s.kind == "look" and s.state != "unknown" for s in game.steps), f"{name} has nothing to find out"
        if place % 3 == 0:
            assert score(guess(drill), game).total < 60, name
            assert score(lucky(drill), game).total < 75, name


def test_what_would_decide_at_once_is_held_back(library: Library) -> None:
    held = [d for name in ("megatron-lm-442", "pytorch-22192", CASE) if (d := find(name, library)).held]
    assert held, "at least the cases that their context decides"
    for drill in held:
        assert not set(drill.held) & {e.signal for e in drill.alert}
        game = Game(drill)
        assert game.look(drill.held[0]) == drill.oracle[drill.held[0]], "it can be bought"


def test_lists_belong_to_the_seed(library: Library) -> None:
    one, again, other = find(CASE, library, 1), find(CASE, library, 1), find(CASE, library, 2)
    assert one.suspects == again.suspects and sorted(one.suspects) == sorted(other.suspects)
    assert one.suspects != other.suspects
    assert drill_loop.aid_menu(one) == drill_loop.aid_menu(again)
    assert by_seed(42, library).case.id == by_seed(42, library).case.id
    assert len({by_seed(n, library).case.id for n in range(12)}) > 6


def test_codes_tell_nothing_and_find_everything(library: Library) -> None:
    codes = all_codes(library.book)
    assert len(codes) == len(library.book.cases), "two cases share a code: make it longer"
    for code, name in list(codes.items())[:5]:
        assert find(code, library).case.id == name and code == code_of(name)
    with pytest.raises(PlaybookError, match="no drill"):
        find("nothing-like-it", library)


# The price of things


def test_a_look_costs_what_the_engine_says_and_an_idle_one_a_minute(drill: Drill) -> None:
    from playbook.engine.value import cost_of

    game = Game(drill)
    assert game.look("lower-lr-removes-it") == "yes"
    assert game.cost == cost_of(drill.book.signals["lower-lr-removes-it"], drill.size)
    before = game.cost.total
    assert game.look("host-stack") == "unknown"
    assert game.cost.total == before + 1.0
    for name in ("lower-lr-removes-it", "host-stack"):
        with pytest.raises(PlaybookError, match="known"):
            game.look(name)
    with pytest.raises(PlaybookError, match="lower-lr"):
        game.look("lower-lr")
    assert len(game.steps) == 2, "a refused look is no step"


def test_a_wrong_suspicion_costs_its_trial(drill: Drill) -> None:
    game = Game(drill)
    wrong = next(c for c in drill.suspects if not drill.is_true(c))
    assert not game.suspect(wrong) and not game.solved
    assert game.cost.total == trial_cost(drill.book, wrong, drill.size).total > 0
    assert game.suspect(drill.truth[0]) and game.solved
    with pytest.raises(PlaybookError, match="no cause"):
        game.suspect("the weather")


def test_causes_of_the_same_mechanism_are_right(drill: Drill) -> None:
    """The truth of a coupled case: both, and what is of their kind; a neighbour is not."""
    assert drill.is_true("lr-overshoot-at-peak") and drill.is_true("hard-samples")
    assert drill.is_true("lr-too-high-constant"), "same class"
    assert not drill.is_true("gpu-memory-ecc") and not drill.is_true("no such thing")


def test_first_aid_counts_once_and_less_when_it_comes_late(drill: Drill, par: Game) -> None:
    early, late, wrong = Game(drill), Game(drill), Game(drill)
    early.aid(drill.aids[0])
    late.look("lr-phase" if "lr-phase" not in {e.signal for e in drill.alert} else "adam-eps")
    late.aid(drill.aids[0])
    other = next(f for f in drill_loop.aid_menu(drill) if f not in drill.aids)
    wrong.aid(other)
    wrong.aid(drill.aids[0])
    shares = [score(g, par).parts["first-aid"] for g in (early, late, wrong, Game(drill))]
    assert shares == [1.0, LATE, 0.0, 0.0]


def test_a_second_repair_is_worth_half(drill: Drill, par: Game) -> None:
    game = lucky(drill)
    assert score(game, par).parts["repair"] == 1.0
    game = Game(drill)
    game.suspect(drill.truth[0])
    wrong = next(f for f in drill_loop.repair_menu(drill) if f not in {x.id for x in drill.repairs})
    assert not game.repair(wrong) and game.steps[-1].cost == trying(drill.book.fixes[wrong], drill.size).rounded()
    assert game.repair(drill.repairs[0].id)
    assert score(game, par).parts["repair"] == 0.5


# The score


def test_par_is_the_engine_itself(drill: Drill, par: Game) -> None:
    from playbook.workflow.cases import play, start

    result = score(par, par)
    assert result.total == 100.0 and set(result.parts) == set(WEIGHTS) and not result.under_par
    if not drill.held:
        session = play(start(drill.case, drill.book, drill.tables, drill.folder), drill.case)
        assert [s.name for s in par.steps if s.kind == "look"] == [m.signal for m in session.asked]


def test_luck_has_no_grounds_and_no_thrift(drill: Drill, par: Game) -> None:
    result = score(lucky(drill), par)
    assert result.solved and result.under_par
    assert result.parts["grounds"] == 0.0 and result.parts["economy"] == 0.0 and result.parts["cause"] == 1.0


def test_the_same_verdict_at_half_the_price_is_full_marks_and_at_twice_the_price_is_not(drill: Drill) -> None:
    par = par_game(drill)
    thrifty = Game(drill)
    thrifty.aid(drill.aids[0])
    answered = [s.name for s in par.steps if s.kind == "look" and s.state != "unknown"]
    for name in answered:
        thrifty.look(name)
    for cause in [s.name for s in par.steps if s.kind == "suspect"]:
        thrifty.suspect(cause)
    thrifty.repair(drill.repairs[0].id)
    result = score(thrifty, par)
    assert result.under_par and result.total == 100.0
    spender = Game(drill)
    spender.aid(drill.aids[0])
    known = {e.signal for e in drill.alert}
    for name in answered:
        spender.look(name)
    dear = [s for s in sorted(drill.book.signals) if s not in known and s not in answered and s in drill.oracle]
    for name in dear:
        spender.look(name)
    for cause in [c for c in drill.suspects if not drill.is_true(c)][:3]:
        spender.suspect(cause)
    spender.suspect(drill.truth[0])
    spender.repair(drill.repairs[0].id)
    paid = score(spender, par)
    assert paid.parts["economy"] < 1 and paid.parts["cause"] < 1 and paid.total < result.total


def test_who_gives_up_keeps_what_was_founded(drill: Drill, par: Game) -> None:
    game = Game(drill)
    assert score(game, par).total == 0.0
    game.look("lower-lr-removes-it")
    result = score(game, par)
    assert not result.solved and 0 < result.total < 50 and result.parts["cause"] == 0.0


def test_the_replay_shows_the_better_question(drill: Drill, par: Game) -> None:
    assert not any(row.signal for row in replay(par)), "the engine asked the best question each time"
    game = Game(drill)
    game.look("eval-contamination")  # an hour for next to nothing
    row = replay(game)[0]
    assert row.signal and row.signal != "eval-contamination" and row.step.share < 0.6
    assert row.state == drill.oracle.get(row.signal, "unknown")


# A run of one's own


def write_case(folder: Path, **changes: Any) -> Path:
    data: dict[str, Any] = {
        "id": "ours",
        "title": "Ours",
        "context": {"precision": "fp16", "gpus": 8},
        "given": ["loss-shape"],
        "answers": {"loss-shape": "plateau", "loss-scale-before": "collapses", "skipped-steps": "many"},
        "causes": ["loss-scale-collapse"],
    }
    path = folder / "ours.yaml"
    path.write_text(yaml.safe_dump({**data, **changes}))
    return path


def test_a_lab_run_is_a_drill(tmp_path: Path, library: Library) -> None:
    drill = find(str(write_case(tmp_path)), library)
    game = par_game(drill)
    assert game.solved and score(game, game).total == 100.0
    assert drill.chance(Session(library.book, drill.tables).diagnosis(False).belief)[0] < OPEN


@pytest.mark.parametrize(
    ("changes", "said"),
    [({"causes": ["no-such-cause"]}, "no cause of the book"), ({"metrics": ["missing.csv"]}, "missing.csv"),
     ({"answers": {"loss-shape": "plateau"}}, "nothing to find"), ({"causes": []}, "causes")],
)  # fmt: skip
def test_what_is_no_drill_says_why(tmp_path: Path, library: Library, changes: dict[str, Any], said: str) -> None:
    context = {"context": {}} if "answers" in changes else {}
    with pytest.raises(PlaybookError, match=said):
        find(str(write_case(tmp_path, **changes, **context)), library)


def test_make_needs_no_case_of_the_book(library: Library) -> None:
    from playbook.workflow.cases import CaseFile

    case = CaseFile(id="x", causes=["wrong-labels"], answers={"loss-shape": "plateau", "batch-inspection": "corrupt"})
    assert make(case, Path(), library).symptom == "plateau"


# Terminal and command line


class Typist(Console):
    def __init__(self, lines: list[str]) -> None:
        super().__init__(width=110, record=True, file=open("/dev/null", "w"))  # noqa: SIM115, PTH123
        self.lines = lines

    def input(self, *args: Any, **more: Any) -> str:
        if not self.lines:
            raise EOFError
        return self.lines.pop(0)


def test_a_person_plays_to_the_end(drill: Drill) -> None:
    aid = str(drill_loop.aid_menu(drill).index(drill.aids[0]) + 1)
    truth = str(drill.suspects.index(drill.truth[0]) + 1)
    wrong = str(next(n for n, c in enumerate(drill.suspects, 1) if not drill.is_true(c)))
    repairs = drill_loop.repair_menu(drill)
    right = {f.id for f in drill.repairs}
    bad = str(next(n for n, f in enumerate(repairs, 1) if f not in right))
    good = str(next(n for n, f in enumerate(repairs, 1) if f in right))
    out = Typist(
        ["①", aid, "?", "l experiment", "²", "s ②", "1", "lower-lr-removes-it", "l nonsense", "blah", "e", "s",
         f"s {wrong}", "s 99", f"s {truth}", bad, good]
    )  # fmt: skip
    game = drill_loop.play(drill, out, Words())
    assert game.solved and game.mended
    assert [s.kind for s in game.steps][:1] == ["aid"]
    assert {s.name for s in game.steps} >= {"lower-lr-removes-it"}
    text = out.export_text()
    assert "The trial did not help." in text and "is nothing to look at" in text and "is no cause" in text
    before = text.split("The trial ends the incident")[0]
    assert drill.case.title not in before and drill.case.id not in before, "the title would tell"


def test_giving_up_ends_it(drill: Drill) -> None:
    for lines in (["", "g"], [""], []):
        game = drill_loop.play(drill, Typist(list(lines)), Words())
        assert not game.solved


def test_moves_from_a_file(tmp_path: Path, capsys: pytest.CaptureFixture[str], drill: Drill) -> None:
    path = tmp_path / "moves.yaml"
    path.write_text(
        f"- aid: {drill.aids[0]}\n- look lower-lr-removes-it\n- look: clipping-effect\n"
        f"- suspect: {drill.truth[0]}\n- repair {drill.repairs[0].id}\n"
    )
    assert run(["drill", CASE, "--answers", str(path), "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["solved"] and 60 < document["score"] <= 100 and document["case"] == CASE
    assert [r["step"] for r in document["replay"]] == ["aid", "look", "look", "suspect", "repair"]
    assert document["par"]["total_minutes"] > 0
    assert run(["drill", CASE, "--answers", str(path)]) == 0
    printed = capsys.readouterr().out
    assert "Score" in printed and "Replay" in printed and "causes/lr-overshoot-at-peak" in printed


@pytest.mark.parametrize(
    ("text", "said"),
    [("- dance: now", "no move"), ("- look: nothing", "nothing to look at"), ("look: x", "no moves"),
     ("- aid: lr-overshoot-at-peak", "no fix"), ("[", "not valid YAML")],
)  # fmt: skip
def test_bad_moves_are_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str], text: str, said: str) -> None:
    path = tmp_path / "moves.yaml"
    path.write_text(text)
    assert run(["drill", CASE, "--answers", str(path)]) == 2
    error = capsys.readouterr().err
    assert said in error and error.count("\n") == 1


def test_the_engine_may_play(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["drill", CASE, "--par", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["score"] == 100.0


def test_without_a_terminal_only_the_alert_is_shown(capsys: pytest.CaptureFixture[str], drill: Drill) -> None:
    assert run(["drill", CASE]) == 0
    printed = capsys.readouterr().out
    assert drill.code in printed and "Score" not in printed and CASE not in printed
    assert drill.case.title not in printed
    assert run(["drill", CASE, "--json"]) == 2
    assert run(["drill", "no-such-drill"]) == 2


def test_the_list_gives_nothing_away(capsys: pytest.CaptureFixture[str], library: Library) -> None:
    assert run(["drill", "--list"]) == 0
    printed = capsys.readouterr().out
    assert not any(name in printed for name in library.book.cases)
    assert printed.count("★") > 100
    assert run(["drill", "--list", "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)["drills"]
    assert {r["case"] for r in rows} == set(library.book.cases)
    assert {r["level"] for r in rows} == {1, 2, 3, 4}


@pytest.mark.parametrize("name", ["notes.html", "notes.md"])
def test_leader_notes(tmp_path: Path, capsys: pytest.CaptureFixture[str], drill: Drill, name: str) -> None:
    one, two = tmp_path / name, tmp_path / f"again-{name}"
    for page in (one, two):
        assert run(["drill", CASE, "--seed", "7", "--leader-notes", str(page)]) == 0
    capsys.readouterr()
    text = one.read_text()
    assert text == two.read_text()
    for needed in (drill.code, CASE, *drill.truth[:2], "Par", "To talk about afterwards", drill.repairs[0].id):
        assert needed in text, needed
    for signal in set(drill.oracle) - {e.signal for e in drill.alert}:
        assert signal in text, f"the leader must be able to answer {signal}"
    assert "<script" not in text


def test_leader_notes_in_chinese(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "notes.md"
    assert run(["drill", CASE, "--lang", "zh", "--leader-notes", str(path)]) == 0
    text, title = path.read_text("utf-8"), open_book(lang="zh").book.cases[CASE].title
    assert title in text and open_book().book.cases[CASE].title not in text
    assert "正确" in text and "| right |" not in text and "unknown" not in text.partition("GPU")[2].replace("`", "")
    capsys.readouterr()
