"""The quiz: cards that can be trusted, marks that are fair, progress that survives, pages and decks that open."""
# ruff: noqa: F811  (a fixture of the kit is a parameter here)

from __future__ import annotations

import json
import re
from collections import Counter
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml
from rich.console import Console

from playbook import places
from playbook.errors import PlaybookError
from playbook.faces.cli import run
from playbook.faces.learning.curves import as_svg, as_text
from playbook.faces.learning.quiz_loop import interview as ask_interview
from playbook.faces.learning.quiz_loop import run as ask_cards
from playbook.faces.learning.quiz_screen import HELP, print_card
from playbook.faces.learning.replies import replies
from playbook.faces.words import Words, words
from playbook.knowledge.entries import LAYERS
from playbook.knowledge.graph import kind_of
from playbook.knowledge.loader import parse_yaml
from playbook.series import Origin, Run, Series
from playbook.workflow.book import Library, open_book
from playbook.workflow.ingest import look
from playbook.workflow.learning import interview
from playbook.workflow.learning.interview import DEPTHS
from playbook.workflow.learning.progress import Answer, Progress, brier, calibration, day_begin, weak_spots
from playbook.workflow.learning.quiz import TEMPLATES, Deck, take
from playbook.workflow.learning.quiz_cards import Card, Ground, Panel, Picture, Point, read_point
from playbook.workflow.learning.quiz_marks import depth, heard, mark, read_number
from playbook.workflow.learning.quiz_shapes import CAUSE_SHAPES, SYMPTOM_SHAPES, draw
from tests.incidents_kit import url  # noqa: F401  (a fixture)

NOW = datetime(2026, 3, 1, 9, 0, tzinfo=UTC)


@pytest.fixture(scope="module")
def deck(library: Library) -> Deck:
    return Deck(Ground(library))


@pytest.fixture(scope="module")
def cards(deck: Deck) -> dict[str, Card]:
    """Every card of the book, made once."""
    made = {item: deck.card(item) for item in deck.specs}
    return {item: card for item, card in made.items() if card is not None}


def right_answer(card: Card) -> str:
    if card.options:
        return str(card.best + 1)
    if card.form == "order":
        return " ".join(str(card.shown_steps.index(step) + 1) for step in card.steps)
    if card.number is not None:
        return str(card.number.value)
    if card.chance is not None:
        return f"{100 * card.chance.truth:.0f}"
    return ". ".join(p.words[0] for p in card.points if p.words)


# Cards


def test_every_kind_of_card_is_made(deck: Deck, cards: dict[str, Card]) -> None:
    made, named = Counter(c.spec.template for c in cards.values()), Counter(s.template for s in deck.specs.values())
    assert set(made) == set(TEMPLATES)
    for name in TEMPLATES:
        assert made[name] >= 0.6 * named[name], f"{name}: {made[name]} of {named[name]}"
    assert len(cards) > 1000


def test_every_wrong_choice_explains_itself_and_every_link_leads_somewhere(
    library: Library, cards: dict[str, Card]
) -> None:
    entries = library.book.entries
    for card in cards.values():
        for kind, name in (*card.links, *(o.link for o in card.options)):
            assert name in entries[kind], f"{card.id} links to {kind}/{name}"
        if card.options:
            assert len(card.options) >= 3, card.id
            assert [o.credit for o in card.options].count(1.0) == 1, card.id
            texts = [o.text for o in card.options]
            assert len(set(texts)) == len(texts), f"{card.id} offers one text twice"
            for option in card.options:
                assert len(option.why.split()) >= 3, f"{card.id}: {option.text!r} does not say why"
        assert 1 <= card.spec.level <= 4
        assert card.sources, card.id


def test_generated_wrong_choices_say_when_they_would_be_right(cards: dict[str, Card]) -> None:
    sign = re.compile(r"would be|That is|That takes back")
    for card in cards.values():
        if card.options and card.spec.template != "written":
            for option in card.options:
                assert option.credit == 1 or sign.search(option.why), f"{card.id}: {option.why}"


def test_right_answers_are_right_and_others_are_not(cards: dict[str, Card]) -> None:
    for card in cards.values():
        marked = mark(card, right_answer(card))
        assert marked.right and marked.score >= 0.85, f"{card.id}: {marked}"
        if card.options:
            others = [mark(card, str(k + 1)) for k in range(len(card.options)) if k != card.best]
            assert not any(m.right for m in others), card.id
        if card.form == "order":
            backwards = " ".join(reversed(right_answer(card).split()))
            assert mark(card, backwards).score == 0.0, card.id


def test_a_card_does_not_give_its_answer_away(cards: dict[str, Card]) -> None:
    for card in cards.values():
        if card.form == "order":
            assert card.shown_steps != card.steps
        if card.picture is not None:
            name = card.spec.node[1]
            assert name not in card.picture.alt and name not in as_svg(card.picture), card.id
    sample = [c for c in cards.values() if c.options][::40]
    for card in sample:
        out = Console(width=300, record=True, file=open("/dev/null", "w"))  # noqa: SIM115, PTH123
        print_card(card, out, Words())
        assert card.options[card.best].why not in out.export_text(), card.id


def test_ids_and_texts_are_the_same_in_every_process(library: Library, cards: dict[str, Card]) -> None:
    again = Deck(Ground(Library(library.book)))
    for item in list(cards)[::37]:
        other = again.card(item)
        assert other is not None and other.digest == cards[item].digest, item


def test_an_edited_entry_opens_its_card_again(library: Library, cards: dict[str, Card]) -> None:
    item = "layer:lr-overshoot-at-peak"
    book = open_book().book
    book.causes["lr-overshoot-at-peak"] = book.causes["lr-overshoot-at-peak"].model_copy(
        update={"summary": "Another text."}
    )
    edited = Deck(Ground(Library(book))).card(item)
    assert edited is not None and edited.digest != cards[item].digest


def test_next_best_check_is_marked_by_the_engine(library: Library, cards: dict[str, Card]) -> None:
    chosen = [c for c in cards.values() if c.spec.template == "next"]
    assert len(chosen) > 100
    for card in chosen:
        credits = sorted(o.credit for o in card.options)
        assert credits[-1] == 1.0 and credits[-2] <= 0.6, card.id
        best = card.options[card.best]
        assert best.link == card.links[0]
    partly = next(o for o in chosen[0].options if o.credit < 1)
    assert mark(chosen[0], partly.text).score == partly.credit


def test_probability_cards_do_not_choose_their_suspect_by_the_truth(cards: dict[str, Card]) -> None:
    told = [c.chance for c in cards.values() if c.chance is not None]
    assert len(told) > 100
    engine = float(np.mean([(c.engine - c.truth) ** 2 for c in told]))
    base = float(np.mean([c.truth for c in told]))
    assert engine < base * (1 - base), "the engine must beat whoever always says the base rate"


def test_prices_are_arithmetic(cards: dict[str, Card]) -> None:
    for card in cards.values():
        if card.spec.template == "price":
            assert card.number is not None
            steps, seconds, gpus = map(float, re.findall(r"([\d.]+) (?:steps|s|GPUs)", card.number.why)[:3])
            assert card.number.value == pytest.approx(steps * seconds * gpus / 3600, abs=1e-3)


# Written questions


@pytest.mark.parametrize("code", ["en", "zh"])
def test_interview_documents_are_held(code: str) -> None:
    """Every row of the ledger that is an interview has authored cards with graded key points and traps."""
    library = open_book(lang=code)
    questions, deck = library.book.kind("questions"), Deck(Ground(library, words(code)))
    rows = parse_yaml((places.knowledge() / "ledger.yaml").read_text("utf-8"), "ledger.yaml")
    interviews = [row for row in rows if re.fullmatch(r"D[1-4]-int-\d+", row)]
    assert {row[:2] for row in interviews} == {"D1", "D2", "D3", "D4"}
    for row in interviews:
        own = [q for q in questions.values() if row in q.sources]
        assert own and all(q.key_points and q.traps for q in own), row
        for q in own:
            card = deck.card(f"written:{q.id}")
            assert card is not None and card.form == "free"
            assert "interview" in card.spec.topics and {p.depth for p in card.points} >= {1, 2}, q.id
            assert card.links and all(p.words for p in card.points), q.id
            if code == "zh":
                spoken = [card.ask, *(p.text for p in card.points), *card.traps]
                assert all(re.search(r"[一-鿿]", text) for text in spoken), q.id
    threads = interview_threads(library)
    assert len(threads["nan-or-flat"]) == 3, "three follow-ups of D1"
    assert len(threads["distributed-nan"]) == 3, "three follow-ups of D4"
    assert len(threads["loss-spike"]) >= 5, "four traps and the spoken post-mortem of D3"
    assert threads["triage-first"]


def interview_threads(library: Library) -> dict[str, tuple[str, ...]]:
    from playbook.workflow.learning.quiz_written import interviews

    return interviews(Ground(library))


def test_written_questions_cover_every_layer_and_level(library: Library) -> None:
    book = library.book
    questions = list(book.kind("questions").values())
    picked = [q for q in questions if q.choices or q.number]
    assert len(picked) >= 40
    layers: Counter[str] = Counter()
    for q in picked:
        named = {*q.about, *(c.about for c in q.choices if c.about)}
        layers.update({book.causes[n].layer for n in named if n in book.causes})
    assert all(layers[layer] >= 4 for layer in LAYERS), layers
    assert {q.difficulty for q in questions} == {1, 2, 3, 4}


def test_words_of_key_points_belong_to_a_key_point(library: Library) -> None:
    for q in library.book.kind("questions").values():
        points = [read_point(text, q.synonyms) for text in q.key_points]
        labels = {p.label for p in points}
        assert len(labels) == len(points), q.id
        assert set(q.synonyms) == labels, f"{q.id}: {set(q.synonyms) ^ labels}"
        for choice in q.choices:
            assert choice.about is None or kind_of(library.book, choice.about), f"{q.id} names {choice.about}"


def test_translated_key_points_keep_their_other_words(library: Library) -> None:
    chinese = open_book(lang="zh").book.kind("questions")
    for q in library.book.kind("questions").values():
        for old, new in zip(q.key_points, chinese[q.id].key_points, strict=True):
            point, other = read_point(old, q.synonyms), read_point(new, chinese[q.id].synonyms)
            assert point.depth == other.depth and set(point.words) <= set(other.words), f"{q.id}: {new}"
    label = read_point(chinese["triage-first"].key_points[0], {}).label
    assert label != "Triage", "the labels are translated"


def test_numbers_are_asked_and_explained_in_chinese(library: Library) -> None:
    chinese = open_book(lang="zh").book
    deck = Deck(Ground(Library(chinese), words("zh")))
    asked = [q for q in library.book.kind("questions").values() if q.number is not None]
    assert len(asked) >= 8
    for q in asked:
        card = deck.card(f"written:{q.id}")
        assert card is not None and card.number is not None
        assert re.search(r"[一-鿿]", card.explain), q.id
        assert card.number.value == q.number.value and card.number.within == q.number.within
    assert chinese.kind("questions")["stop-loss-window"].number.unit == "步"


# Marks


@pytest.fixture(scope="module")
def choice(cards: dict[str, Card]) -> Card:
    return cards["written:sft-loss-exactly-zero"]


def test_a_choice_by_number_letter_or_text(choice: Card) -> None:
    right = choice.options[choice.best]
    for said in (str(choice.best + 1), f" {choice.best + 1}. ", "abcd"[choice.best], right.text[:20].upper()):
        assert mark(choice, said).right, said
    wrong = (choice.best + 1) % len(choice.options)
    marked = mark(choice, str(wrong + 1))
    assert not marked.right and marked.score == 0 and marked.why == choice.options[wrong].why


@pytest.mark.parametrize("said", ["", "0", "9", "the", "12", "²"])
def test_what_is_no_choice_is_said_to_be_none(choice: Card, said: str) -> None:
    with pytest.raises(PlaybookError, match="no choice"):
        mark(choice, said)


@pytest.mark.parametrize(
    ("said", "value"),
    [("65504", 65504), ("65,504", 65504), ("65 504 ", 65504), ("3.4e38", 3.4e38), ("2^16", 65536), ("2**16", 65536),
     ("1.5k", 1500), ("~12.5 GPU-h", 12.5), ("-3", -3), ("80%", 80), (".5", 0.5)],
)  # fmt: skip
def test_numbers_as_people_write_them(said: str, value: float) -> None:
    assert read_number(said) == pytest.approx(value)


@pytest.mark.parametrize("said", ["", "many", "e5"])
def test_words_are_no_numbers(said: str) -> None:
    with pytest.raises(PlaybookError, match="no number"):
        read_number(said)


def test_a_number_counts_within_its_tolerance_and_half_within_a_factor_of_two(cards: dict[str, Card]) -> None:
    card = cards["written:bill-of-an-incident"]
    scores = {said: mark(card, said).score for said in ("35.6", "38", "60", "20", "8", "-35.6", "356")}
    assert scores == {"35.6": 1.0, "38": 1.0, "60": 0.5, "20": 0.5, "8": 0.0, "-35.6": 0.0, "356": 0.0}


def test_an_order_is_scored_by_its_pairs(cards: dict[str, Card]) -> None:
    card = next(c for c in cards.values() if c.form == "order")
    right = right_answer(card).split()
    swapped = [right[1], right[0], *right[2:]]
    assert mark(card, "".join(right)).right, "digits without blanks"
    assert mark(card, ",".join(swapped)).score == pytest.approx(0.9)
    for said in ("1 2", "1 1 2 3 4", "", "1 2 3 4 9"):
        with pytest.raises(PlaybookError, match="no order"):
            mark(card, said)


def test_a_probability_is_marked_by_brier_against_the_engine(cards: dict[str, Card]) -> None:
    card = next(c for c in cards.values() if c.chance is not None and c.chance.truth == 1 and c.chance.engine < 0.9)
    assert card.chance is not None
    sure, engine, wrong = (mark(card, s) for s in ("100", f"{100 * card.chance.engine}%", "0"))
    assert sure.right and sure.brier == 0.0
    assert engine.score == 1.0 and engine.brier == pytest.approx(engine.engine_brier or -1, abs=1e-3)
    assert not wrong.right and wrong.brier == 1.0 and wrong.score < 0.9
    assert mark(card, "0.3").said == "30 %"
    with pytest.raises(PlaybookError, match="no probability"):
        mark(card, "140")


POINTS = (
    Point("Stop the loss", "roll back by a rule", 1, ("roll back", "rollback", "回滚")),
    Point("Epsilon", "1e-6", 2, ("1e-6",)),
    Point("Communication", "reductions", 2, ("all-reduce", "network")),
    Point("Own case", "told with figures", 3, ("we had + spike",)),
)


def test_key_points_are_heard_by_known_words() -> None:
    said = "First I'd ROLL-BACK, then look at the all reduce; we had a 7B run with a spike; epsilon 1e-6."
    assert heard(POINTS, said) == ("Stop the loss", "Epsilon", "Communication", "Own case")
    assert heard(POINTS, "先回滚检查点") == ("Stop the loss",)
    assert heard(POINTS, "stop the loss first") == ("Stop the loss",)


def test_a_slip_of_the_pen_is_forgiven_and_another_word_is_not() -> None:
    assert heard(POINTS, "I make a rollbcak at once") == ("Stop the loss",)
    assert "Communication" in heard(POINTS, "it may be the netwrok")
    assert heard(POINTS, "epsilon 1e-8 is fine") == ()
    words_ = (Point("Reach", "the range", 1, ("overflow", "gradient explosion")),)
    assert heard(words_, "underflow, an ingredient of an explosion") == ()
    assert heard(words_, "a gradeint explosoin, I think.") == ("Reach",)
    assert heard(POINTS, "nothing of the kind") == ()
    assert heard((Point("Sums", "in fp32", 1, ("one",)),), "none of these") == ()


def test_nobody_fails_by_spelling(cards: dict[str, Card]) -> None:
    """What was not recognised can be ticked, and counts the same."""
    card = cards["written:loss-spike"]
    own_words = mark(card, "in words that no list knows", ticks=[p.label for p in card.points])
    assert own_words.right and own_words.score == 1.0 and own_words.depth == 3
    empty = mark(card, "")
    assert empty.score == 0.0 and empty.covered == () and empty.depth == 0


def test_depth_needs_the_floors_below() -> None:
    assert depth(POINTS, {"Own case"}) == 0
    assert depth(POINTS, {"Stop the loss"}) == 1
    assert depth(POINTS, {"Stop the loss", "Epsilon", "Communication"}) == 2
    assert depth(POINTS, {p.label for p in POINTS}) == 3


# Sheets and progress


@pytest.fixture
def store(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path}/progress.db"


def test_a_seed_gives_everybody_the_same_sheet(library: Library, deck: Deck) -> None:
    other = Deck(Ground(Library(library.book)))
    first = [c.id for c in deck.sheet(seed=11, count=12)]
    assert first == [c.id for c in other.sheet(seed=11, count=12)]
    assert first != [c.id for c in deck.sheet(seed=12, count=12)]
    kinds = [c.spec.template for c in deck.sheet(seed=11, count=12)]
    assert all(a != b for a, b in pairwise(kinds)), kinds


def test_topic_and_level_are_kept(deck: Deck) -> None:
    for topic in ("numerics", "instant-nan", "first-aid", "lr-overshoot-at-peak", "bf16", "interview"):
        chosen = deck.sheet(topic=topic, seed=1, count=5)
        assert chosen and all(topic in c.spec.topics or topic == c.spec.template for c in chosen)
    assert all(c.spec.level == 4 for c in deck.sheet(level=4, seed=1, count=5))
    with pytest.raises(PlaybookError, match="numerics"):
        deck.sheet(topic="numerical", seed=1)


def answer(progress: Progress, card: Card, said: str, now: datetime) -> datetime:
    return take(progress, card, mark(card, said), now)


def test_a_card_comes_back_later_each_time_and_soon_after_a_mistake(store: str, choice: Card) -> None:
    progress = Progress(store, "me", fuzz=False)
    right, wrong = str(choice.best + 1), str((choice.best + 1) % 4 + 1)
    due = answer(progress, choice, right, NOW)
    gaps = []
    for _ in range(4):
        before = due
        due = answer(progress, choice, right, before)
        gaps.append(due - before)
    assert gaps == sorted(gaps) and gaps[-1] > timedelta(days=7)
    missed = answer(progress, choice, wrong, due)
    assert missed - due < timedelta(hours=1)
    assert due.tzinfo is not None


def test_due_cards_come_first_then_new_ones(store: str, deck: Deck) -> None:
    progress = Progress(store, "me", fuzz=False)
    first = deck.sheet(progress, count=3, now=NOW)
    assert deck.sheet(progress, due=True, now=NOW) == []
    for card in first:
        answer(progress, card, right_answer(card), NOW)
    later = NOW + timedelta(days=1)
    sheet = deck.sheet(progress, count=6, now=later)
    assert {c.id for c in sheet[:3]} == {c.id for c in first} and len({c.id for c in sheet}) == 6
    assert [c.id for c in deck.sheet(progress, due=True, count=9, now=later)] == [c.id for c in sheet[:3]]
    assert not {c.id for c in deck.sheet(progress, count=3, now=NOW)} & {c.id for c in first}, "not due yet"


def test_a_changed_card_is_new_again_and_a_lost_one_is_not_asked(store: str, choice: Card, deck: Deck) -> None:
    progress = Progress(store, "me", fuzz=False)
    row = Answer("2026-03-01T09:00:00Z", choice.id, 1.0, 3, ("data",), 1)
    progress.record(choice.id, "an older text", row, NOW)
    progress.record("layer:no-longer-there", "x", row, NOW)
    later = NOW + timedelta(days=30)
    assert progress.due(later, {choice.id: choice.digest}) == ["layer:no-longer-there"]
    assert deck.sheet(progress, due=True, now=later) == []
    answer(progress, choice, right_answer(choice), later)
    assert progress.seen()[choice.id] == choice.digest and len(progress.answers()) == 3


def test_learners_share_a_store_and_nothing_else(url: str, choice: Card, monkeypatch: pytest.MonkeyPatch) -> None:
    """On SQLite and on PostgreSQL; the incidents of the store are not touched."""
    monkeypatch.setenv("PLAYBOOK_LEARNER", "ann")
    ann, bob = Progress(url, fuzz=False), Progress(url, "bob", fuzz=False)
    assert ann.learner == "ann" and ann.seen() == {} and bob.answers() == []
    answer(ann, choice, right_answer(choice), NOW)
    answer(ann, choice, right_answer(choice), NOW + timedelta(minutes=10))
    due = answer(bob, choice, "1" if choice.best else "2", NOW)
    assert ann.seen() == bob.seen() == {choice.id: choice.digest}
    assert [a.score for a in ann.answers()] == [1.0, 1.0] and [a.score for a in bob.answers()] == [0.0]
    assert bob.due(due) == [choice.id] and ann.due(due) == []
    assert ann.answers()[0].topics == tuple(sorted(choice.spec.topics))


def test_looking_at_nothing_makes_no_store(tmp_path: Path, deck: Deck) -> None:
    path = tmp_path / "none" / "playbook.db"
    progress = Progress(f"sqlite:///{path}", "me")
    assert progress.due(NOW) == [] and progress.answers() == []
    assert len(deck.sheet(progress, count=2, now=NOW)) == 2
    assert not path.parent.exists()


def test_a_foreign_store_is_refused(tmp_path: Path, choice: Card) -> None:
    path = tmp_path / "notes.db"
    path.write_text("these are my notes, no database")
    with pytest.raises(PlaybookError, match="no SQLite database"):
        answer(Progress(f"sqlite:///{path}", "me"), choice, "1", NOW)
    assert path.read_text().startswith("these are my notes")
    with pytest.raises(ValueError, match="time zone"):
        answer(Progress(f"sqlite:///{tmp_path}/p.db", "me"), choice, "1", NOW.replace(tzinfo=None))


def test_weak_spots_and_calibration() -> None:
    def row(score: float, topics: tuple[str, ...], stated: float | None = None, truth: float | None = None) -> Answer:
        return Answer("2026-03-01T09:00:00Z", "x", score, 3, topics, 1, 0.0, stated, truth)

    rows = [row(1.0, ("data",))] * 3 + [row(0.0, ("numerics",))] * 3 + [row(0.0, ("model",))]
    spots = weak_spots(rows, LAYERS)
    assert [(s.topic, s.score) for s in spots] == [("numerics", 0.0), ("data", 1.0)], "one answer is no spot"
    told = [row(1.0, (), 0.9, 1.0)] * 3 + [row(1.0, (), 0.9, 0.0)] + [row(1.0, (), 0.1, 0.0)]
    assert brier(told) == pytest.approx((3 * 0.01 + 0.81 + 0.01) / 5, abs=1e-4)
    assert [(r["from"], r["came_true"]) for r in calibration(told)] == [(0.0, 0.0), (0.8, 0.75)]
    assert brier(rows) is None and calibration(rows) == []


# Curves

SEEN_BY_DETECTORS = set(SYMPTOM_SHAPES) - {"silent-degradation", "hang-or-crash"}  # these need more than one curve


@pytest.mark.parametrize("name", sorted(SEEN_BY_DETECTORS))
def test_drawn_curves_are_what_they_are_called(library: Library, name: str) -> None:
    """The product's own detectors name the symptom of every picture."""
    for seed in range(3):
        run_ = _as_run(name, seed)
        shapes = [e.state for e in look(run_, library.book).evidence if e.signal == "loss-shape"]
        assert shapes == [name], f"{name} with seed {seed}"


@pytest.mark.parametrize(
    ("name", "signal", "state"),
    [("lr-overshoot-at-peak", "grad-norm-before", "climbs"), ("lr-overshoot-at-peak", "lr-phase", "peak"),
     ("fp16-gradient-overflow", "loss-scale-before", "collapses"),
     ("loss-scale-collapse", "loss-scale-before", "collapses"),
     ("corrupt-samples", "grad-norm-before", "normal"), ("schedule-not-restored", "lr-leaves-schedule", "yes"),
     ("optimizer-state-lost", "lr-leaves-schedule", "no"), ("optimizer-state-lost", "loss-shape", "resume-drift")],
)  # fmt: skip
def test_curves_of_causes_hold_their_sign(library: Library, name: str, signal: str, state: str) -> None:
    for seed in range(3):
        found = {e.signal: e.state for e in look(_as_run(name, seed), library.book).evidence}
        assert found.get(signal) == state, f"{name}/{seed}: {signal} = {found.get(signal)}"


def _as_run(name: str, seed: int) -> Run:
    picture = draw(name, seed)
    rows = {
        (p.metric, None): Series(p.metric, None, p.steps.astype(np.int64), p.values, None, Origin("drawn"))
        for p in picture.panels
    }
    return Run(rows)


def test_pictures_are_the_same_for_the_same_seed_only() -> None:
    for name in (*SYMPTOM_SHAPES, *CAUSE_SHAPES):
        one, two, three = (draw(name, seed) for seed in (5, 5, 6))
        assert all(np.array_equal(a.values, b.values, True) for a, b in zip(one.panels, two.panels, strict=True))
        if name != "loss-zero":
            assert any(
                len(a.values) != len(b.values) or not np.array_equal(a.values, b.values, True)
                for a, b in zip(one.panels, three.panels, strict=True)
            ), name


def test_no_fault_can_hide_in_a_curve() -> None:
    """One bad value among thousands is painted, one high value keeps its column, in the terminal and on the page."""
    picture = draw("healthy", 1)
    loss = picture.panels[0]
    loss.values[300] = np.inf
    text = "\n".join(line.plain for line in as_text(picture, 80))
    assert "▒" in text and "NaN/Inf" in text
    assert "NaN/Inf" in as_svg(picture) and "#cf222e" in as_svg(picture)
    calm = "\n".join(line.plain for line in as_text(draw("healthy", 1), 80))
    assert "▒" not in calm and "NaN" not in calm
    spike = draw("healthy", 1)
    spike.panels[0].values[450] = 40.0
    assert "40" in as_text(spike, 80)[1].plain
    assert "┆" in "\n".join(line.plain for line in as_text(draw("resume-drift", 1), 80))


@pytest.mark.parametrize(
    "values",
    [[], [np.nan], [1.0], [0.0] * 3, [1e308] * 3, [1e18] * 3, [-1e308, 3, 1e308], [5e-324, 1e308], [5e-324] * 2],
)
def test_any_values_can_be_drawn(values: list[float]) -> None:
    picture = Picture((Panel("loss", np.arange(len(values)), np.array(values, float)),), "loss")
    lines = [line.plain for line in as_text(picture, 80)]
    drawn = any(0x2800 < ord(sign) < 0x2900 for line in lines for sign in line)
    assert drawn == bool(np.isfinite(values).any())
    assert "nan" not in as_svg(picture).replace("NaN/Inf", "") and ("<polyline" in as_svg(picture)) == drawn


def test_a_span_of_many_magnitudes_is_drawn_by_its_logarithm() -> None:
    for values in ((1.0, 100.0, 1e4), (1.0, 100.5, 200.0)):
        text = as_svg(Picture((Panel("loss", np.arange(3), np.array(values)),), "loss"))
        (line,) = re.findall(r'<polyline points="([^"]*)"', text)
        heights = [float(point.split(",")[1]) for point in line.split()]
        between = heights[2 * (len(heights) // 4)]
        assert (heights[0] - between) / (heights[0] - heights[-1]) == pytest.approx(0.5, abs=0.01), values


def test_a_short_run_is_a_line_with_its_holes() -> None:
    """A few rows over many columns: a line from row to row, but none over a value that is no number or a restart."""
    steps, values = np.arange(6), np.array([3.0, 2.0, np.nan, 2.5, 1.0, 1.0])

    def lines(of: Panel) -> list[str]:
        return re.findall(r'<polyline points="([^"]*)"', as_svg(Picture((of,), "loss")))

    assert len(lines(Panel("loss", steps, np.nan_to_num(values, nan=2.2)))) == 1
    assert len(lines(Panel("loss", steps, values))) == 2
    again = np.array([0, 1, 2, 0, 1, 2])
    assert len(lines(Panel("loss", again, np.nan_to_num(values, nan=2.2)))) == 2
    first = lines(Panel("loss", steps, values))[0].split()
    assert len(first) > 90 and len(set(first)) > 40
    drawn = [line.plain for line in as_text(Picture((Panel("loss", steps, values),), "loss"), 80)]
    assert sum(0x2800 < ord(sign) < 0x2900 for line in drawn for sign in line) > 30


@pytest.mark.parametrize("name", [*SYMPTOM_SHAPES, *CAUSE_SHAPES])
def test_svg_is_well_formed_and_stands_alone(name: str) -> None:
    from xml.etree import ElementTree

    svg = as_svg(draw(name, 2))
    ElementTree.fromstring(svg)
    assert not re.search(r"<script|href|nan|inf[^o/]", svg.replace("NaN/Inf", ""), re.IGNORECASE)


# Interview


def test_an_interview_is_an_opening_with_its_follow_ups(deck: Deck) -> None:
    asked = interview.plan(deck, count=4, seed=3)
    assert asked == interview.plan(deck, count=4, seed=3)
    assert asked[0][1] and len(asked) == 4
    first = asked[0][0].spec.node[1]
    for card, opening in asked[1:]:
        if opening:
            break
        assert card.spec.node[1].startswith(f"{first}-")
    with pytest.raises(PlaybookError):
        interview.plan(deck, topic="hardware", level=1)


def test_the_frame_is_heard_in_its_order(deck: Deck) -> None:
    parts = interview.frame(deck)
    assert [p.label for p in parts] == ["Define", "Stop the loss", "Causes by probability", "Evidence", "Prevention"]
    said = (
        "A spike is 3x the level. I roll back. The most likely suspects first. Grad norm, a replay. An alarm at last."
    )
    assert interview.in_order(parts, said) == tuple(p.label for p in parts)
    assert interview.in_order(parts, "I look at the gradient norm and then roll back") == ("Evidence", "Stop the loss")
    assert interview.in_order(parts, "lower the learning rate") == ()


def test_time_counts(cards: dict[str, Card]) -> None:
    card = cards["written:loss-spike"]
    assert interview.sit(card, "x", 301, (), True).over_time
    assert not interview.sit(card, "x", 299, (), True).over_time


class Typist(Console):
    """A console at which prepared lines are typed."""

    def __init__(self, lines: list[str]) -> None:
        super().__init__(width=100, record=True, file=open("/dev/null", "w"))  # noqa: SIM115, PTH123
        self.lines = lines

    def input(self, *args: Any, **more: Any) -> str:
        if not self.lines:
            raise EOFError
        return self.lines.pop(0)


def test_a_person_answers_corrects_and_leaves(store: str, cards: dict[str, Card], choice: Card) -> None:
    progress = Progress(store, "me", fuzz=False)
    other = cards["written:largest-fp16-number"]
    out = Typist(["no idea", f"{choice.best + 1} e", "q"])
    marks = ask_cards([choice, other], None, progress, out, Words())
    assert [m is not None and m.right for m in marks] == [True, False] and marks[1] is None
    assert progress.answers()[0].rating == 4, "easy"
    assert "is no choice" in out.export_text()


def test_the_last_answer_is_taken_back(store: str, cards: dict[str, Card], choice: Card) -> None:
    progress = Progress(store, "me", fuzz=False)
    other = cards["written:largest-fp16-number"]
    answer(progress, choice, right_answer(choice), NOW - timedelta(days=3))
    before = progress._cards()
    wrong = str(choice.best % len(choice.options) + 2 if choice.best == 0 else 1)
    out = Typist(["u", wrong, "u", str(choice.best + 1), "70000", "u", "u", "q"])
    marks = ask_cards([choice, other], None, progress, out, Words())
    text = out.export_text()
    assert "nothing to take back" in text and text.count("the last answer is taken back") == 3
    assert marks == [None, None] and progress._cards() == before, "everything is as it was"
    assert [a.score for a in progress.answers()] == [1.0], "and the answer of three days ago stays"
    marks = ask_cards([choice], None, progress, Typist([wrong, "undo", str(choice.best + 1)]), Words())
    assert marks[0] is not None and marks[0].right and len(progress.answers()) == 2


def test_an_answer_given_elsewhere_since_then_is_not_taken_back(url: str, choice: Card) -> None:
    here, there = Progress(url, "me", fuzz=False), Progress(url, "me", fuzz=False)
    answer(here, choice, right_answer(choice), NOW)
    answer(there, choice, right_answer(choice), NOW + timedelta(days=2))
    assert here.take_back() is None and len(here.answers()) == 2
    assert there.take_back() == choice.id and len(here.answers()) == 1
    assert Progress(url, "me").take_back() is None


def test_new_cards_have_a_daily_limit(store: str, deck: Deck) -> None:
    progress = Progress(store, "me", fuzz=False)
    first = deck.sheet(progress, count=10, now=NOW, new=4)
    assert len(first) == 4
    for card in first[:3]:
        answer(progress, card, right_answer(card), NOW)
    assert len(deck.sheet(progress, count=10, now=NOW, new=4)) == 1 and progress.new_since(day_begin(NOW)) == 3
    assert deck.sheet(progress, count=10, now=NOW, new=3) == []
    tomorrow = NOW + timedelta(days=1)
    sheet = deck.sheet(progress, count=10, now=tomorrow, new=2)
    assert {c.id for c in first[:3]} < {c.id for c in sheet} and len(sheet) == 5, "what is due comes all the same"
    assert len(deck.sheet(progress, count=10, now=tomorrow)) == 10
    assert len(deck.sheet(progress, count=10, seed=3, new=0)) == 10, "a seed is the same for everybody"


def test_the_daily_limit_on_the_command_line(store: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["quiz", "--new-per-day", "0", "--db", store]) == 0
    assert "new cards of today are done" in capsys.readouterr().out
    assert run(["quiz", "progress", "--json", "--db", store]) == 0
    assert json.loads(capsys.readouterr().out)["new_today"] == 0


def test_a_spoken_answer_is_ticked_by_the_speaker(cards: dict[str, Card]) -> None:
    card = cards["written:loss-spike-clipping"]
    out = Typist(["It bounds the step", "and that is all.", ".", "2, ②"])
    sat = ask_interview([(card, False)], None, (), out, Words())[0]
    assert sat.mark.covered == ("What it does", "Delay") and sat.reply.count("\n") == 1
    assert [p.label for p in sat.missing] == ["What it leaves", "As a test"]


def test_an_empty_reply_of_a_file_is_no_answer_and_ticks_alone_are_one(
    tmp_path: Path, store: str, cards: dict[str, Card], choice: Card
) -> None:
    spoken = cards["written:loss-spike-clipping"]
    path = tmp_path / "answers.yaml"
    for text in (f"{{{choice.id}: , {spoken.id}: {{ticks: [Delay]}}}}", '["", {ticks: [Delay]}]'):
        path.write_text(text)
        marks = ask_cards([choice, spoken], replies(path), Progress(store, "me"), Typist([]), Words(), quiet=True)
        assert marks[0] is None and marks[1] is not None and marks[1].covered == ("Delay",)


# Command line


def test_sheet_as_json_has_its_key(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["quiz", "--seed", "5", "--count", "4", "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert len(document["cards"]) == 4 and document["score"] is None and document["answered"] == 0


def test_answers_from_a_file(tmp_path: Path, capsys: pytest.CaptureFixture[str], cards: dict[str, Card]) -> None:
    chosen = ["written:sft-loss-exactly-zero", "written:initial-scale-power", "written:loss-spike-clipping"]
    given: dict[str, Any] = {i: right_answer(cards[i]) for i in chosen[:2]}
    given[chosen[2]] = {"text": "it bounds the step", "ticks": ["Delay"], "seconds": 30}
    path = tmp_path / "answers.yaml"
    path.write_text(yaml.safe_dump(given, sort_keys=False))
    assert run(["quiz", "--answers", str(path), "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert [c["id"] for c in document["cards"]] == chosen
    assert [c["right"] for c in document["cards"]] == [True, True, False]
    assert document["cards"][2]["covered"] == ["What it does", "Delay"]
    assert run(["quiz", "progress", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["answers"] == 3
    assert run(["quiz", "--answers", str(path)]) == 0
    printed = capsys.readouterr().out
    assert "2 of 3 right" in printed and "causes/mask-covers-answer" in printed


@pytest.mark.parametrize(
    ("text", "said"),
    [("{layer:nothing: 1}", "no card"), ("{written:sft-loss-exactly-zero: 7}", "no choice"), ("5", "no answers"),
     ("[1, {words: x}]", "no 'words'"), ("{a: 1", "not valid YAML"), ("{a: &x 1, b: *x}", "aliases")],
)  # fmt: skip
def test_bad_answers_are_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str], text: str, said: str) -> None:
    path = tmp_path / "answers.yaml"
    path.write_text(text)
    assert run(["quiz", "--answers", str(path)]) == 2
    error = capsys.readouterr().err
    assert said in error and error.count("\n") == 1


@pytest.mark.parametrize(
    "arguments",
    [["--topic", "nonsense"], ["--answers", "/nowhere.yaml"], ["--level", "9"], ["--lang", "xx"],
     ["--report", "/proc/no/where.html", "--seed", "1"], ["export", "--out", "deck.zip"]],
)  # fmt: skip
def test_wrong_use_is_one_line(capsys: pytest.CaptureFixture[str], arguments: list[str]) -> None:
    assert run(["quiz", *arguments]) == 2
    error = capsys.readouterr().err
    assert error.startswith("error:") and error.count("\n") == 1


def test_a_printed_sheet_keeps_its_key_for_the_end(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    page = tmp_path / "out" / "sheet.html"
    assert run(["quiz", "--seed", "5", "--count", "6", "--report", str(page)]) == 0
    again = tmp_path / "again.html"
    assert run(["quiz", "--seed", "5", "--count", "6", "--report", str(again)]) == 0
    text = page.read_text()
    assert text == again.read_text()
    questions, key = text.split('<h2 class="new-page">')
    assert "→" not in questions and "→" in key
    assert "<script" not in text and "http" not in text.replace("http://www.w3.org/2000/svg", "")
    markdown = tmp_path / "sheet.md"
    assert run(["quiz", "--seed", "5", "--count", "6", "--report", str(markdown)]) == 0
    assert markdown.read_text().startswith("# Quiz\n") and "## Key" in markdown.read_text()
    capsys.readouterr()


def test_interview_from_a_file_with_its_page(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path, page = tmp_path / "said.yaml", tmp_path / "interview.html"
    path.write_text("[{text: 'I would roll back <b>at once</b>', seconds: 900}, 'clip_grad_norm_']")
    command = ["quiz", "--interview", "--seed", "3", "--count", "2", "--answers", str(path)]
    assert run([*command, "--json", "--report", str(page)]) == 0
    document = json.loads(capsys.readouterr().out)
    assert len(document["questions"]) == 2 and document["questions"][0]["over_time"]
    assert document["questions"][0]["frame"] == ["Stop the loss"]
    assert "&lt;b&gt;at once" in page.read_text() and "<b>at once" not in page.read_text()
    assert run(command) == 0
    assert "frame of the answer" in capsys.readouterr().out


def test_every_word_has_its_chinese() -> None:
    """What the quiz says itself (the book has its own overlay)."""
    import ast

    table = words("zh").table
    root = Path(__file__).parent.parent / "playbook"
    files = [*root.glob("workflow/learning/*.py"), *root.glob("faces/learning/*.py")]
    files += [root / "faces/cli/quiz.py", root / "faces/cli/drill.py"]
    assert len(files) > 20, "files of the quiz were moved away"
    said = {t.title for t in TEMPLATES.values()} | {text for _, text in CAUSE_SHAPES.values()}
    said |= set(HELP.values()) | set(DEPTHS.values())
    for file in files:
        for node in ast.walk(ast.parse(file.read_text("utf-8"))):
            if isinstance(node, ast.Call) and node.args and isinstance(node.args[0], ast.Constant):
                name = node.func.id if isinstance(node.func, ast.Name) else getattr(node.func, "attr", "")
                if name in ("w", "say"):
                    said.add(str(node.args[0].value))
    assert not sorted(said - set(table)), sorted(said - set(table))
    for text in said:
        assert sorted(re.findall(r"{[^}]*}", text)) == sorted(re.findall(r"{[^}]*}", table[text])), text


def test_chinese_from_end_to_end(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["quiz", "--lang", "zh", "--seed", "2", "--count", "3"]) == 0
    assert re.search(r"[一-鿿]", capsys.readouterr().out)
