"""Every published case through the real screen ends with the verdict of the command line."""

from __future__ import annotations

from pathlib import Path

import pytest

from playbook import places
from playbook.engine.diagnosis import precedents_of
from playbook.faces.tui.desk import WORTH_A_WORD, Desk, why_asked
from playbook.faces.tui.widgets import percent
from playbook.findings import Evidence
from playbook.workflow.book import Library
from playbook.workflow.cases import MAX_QUESTIONS, CaseFile, has_outcome, play, read_cases, start
from playbook.workflow.session import UNKNOWN, Session
from tests.tui_kit import LARGE, SMALL, Terminal, run, terminal

PARTS = 8  # of the cases, so that several processes can share them


def reply(case: CaseFile, library: Library, signal: str) -> str:
    """What the investigator of the case says, as `play` lets him say it."""
    state = str(case.answers.get(signal, UNKNOWN))
    return state if has_outcome(library.book, signal, state) else UNKNOWN


async def by_screen(t: Terminal, case: CaseFile, library: Library) -> None:
    """Answer through the page's own actions until nothing is asked."""
    for _ in range(MAX_QUESTIONS):
        desk = t.app.desk
        assert desk is not None
        if desk.question is None:
            return
        t.app.answer(desk.question.id, reply(case, library, desk.question.id), "case")


@pytest.mark.slow
@pytest.mark.parametrize("part", range(PARTS))
def test_every_case_ends_as_on_the_command_line(part: int, library: Library) -> None:
    cases = read_cases(places.knowledge() / "cases")[part::PARTS]
    assert len(cases) >= 2
    cache: dict[str, list[Evidence]] = {}

    async def walk() -> list[str]:
        wrong = []
        async with terminal(LARGE, open_book=lambda: library) as t:
            for number, (path, case) in enumerate(cases):
                wanted = play(start(case, library.book, library.tables, path.parent, cache), case)
                session = start(case, library.book, library.tables, path.parent, cache)
                t.app.put_on_desk(Desk(session, f"case-{number}", case.title))
                await by_screen(t, case, library)
                await t.pilot.pause()
                ours, theirs = session.diagnosis(), wanted.diagnosis()
                same = (
                    [m.signal for m in session.asked] == [m.signal for m in wanted.asked]
                    and [(r.id, r.probability) for r in ours.causes] == [(r.id, r.probability) for r in theirs.causes]
                    and ours.decided == theirs.decided
                )
                shown = t.text
                word = "healthy" if theirs.healthy else "decided" if theirs.decided else "undecided"
                if not same or f" {word}" not in shown.splitlines()[0]:
                    wrong.append(case.id)
        return wrong

    assert run(walk()) == []


@pytest.mark.parametrize("size", [SMALL, LARGE])
@pytest.mark.parametrize("name", ["lr-peak-hard-samples-7b", "qkv-init-nan-rank2"])
def test_a_case_by_keys_alone(name: str, size: tuple[int, int], library: Library) -> None:
    """From the files (or the symptom) to the verdict with nothing but the keyboard."""
    path = places.knowledge() / "cases" / f"{name}.yaml"
    case = read_cases(path)[0][1]

    async def walk() -> None:
        async with terminal(size, open_book=lambda: library) as t:
            t.app.put_on_desk(Desk(start(case, library.book, library.tables, Path(path.parent)), "by-keys", case.title))
            for _ in range(MAX_QUESTIONS):
                desk = t.app.desk
                assert desk is not None
                signal = desk.question
                if signal is None:
                    break
                state = reply(case, library, signal.id)
                if state == UNKNOWN:
                    await t.pilot.press("d")
                elif (place := list(signal.outcomes).index(state)) < 9:
                    await t.pilot.press(str(place + 1))
                else:
                    await t.pilot.press("Q", "g", *(["down"] * place), "enter")
            await t.settle()
            wanted = play(start(case, library.book, library.tables, Path(path.parent)), case).diagnosis()
            assert t.app.desk is not None
            ours = t.app.desk.diagnosis
            assert [r.id for r in ours.causes[:3]] == [r.id for r in wanted.causes[:3]]
            assert ours.decided == wanted.decided and "Verdict" in t.text

    run(walk())


def test_no_unlikely_cause_is_the_reason_of_a_question(library: Library) -> None:
    """The leading causes may be one sure one and the dust behind it: the dust gives no reason."""
    for number, (path, case) in enumerate(read_cases(places.knowledge() / "cases")[:12]):
        session = start(case, library.book, library.tables, path.parent)
        for _ in range(15):
            desk = Desk(session, f"case-{number}")
            if (option := desk.diagnosis.next) is None:
                break
            chance = {ranked.id: ranked.probability for ranked in desk.diagnosis.causes}
            assert all(chance[row.cause] >= WORTH_A_WORD for row in why_asked(desk, option.signal))
            session.answer(option.signal, reply(case, library, option.signal), source="case")


def test_what_published_incidents_were_stands_beside_a_cause(library: Library) -> None:
    session = Session(library.book, library.tables)
    session.answer("loss-shape", "persistent-spike")
    session.answer("lower-lr-removes-it", "yes")
    first = session.diagnosis().causes[0]
    share = dict(precedents_of(session.diagnosis(), library.tables))[first.class_]

    async def walk() -> None:
        async with terminal(LARGE, open_book=lambda: library) as t:
            t.app.put_on_desk(Desk(session, "told", "told"))
            await t.press("e")
            assert f"Published incidents that tell the same: {percent(share)}" in " ".join(t.text.split())

    run(walk())
