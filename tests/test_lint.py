"""Each promise of the book: kept by a small good book, broken by one change each, and told with its code."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from playbook.knowledge import lint
from playbook.knowledge.entries import (
    CheckItem,
    Checklist,
    ConfigRule,
    Couple,
    Entry,
    Exclusion,
    Expectation,
    LogPattern,
    Mistaken,
    SeenBy,
)
from playbook.knowledge.lint import RULES, Names
from playbook.knowledge.loader import Book

NAMES = Names(
    {
        "nonfinite": frozenset({"nan"}),
        "spike": frozenset({"persistent"}),
        "grad_norm": frozenset({"surges", "climbs", "normal"}),
    },
    frozenset({"learning-rate"}),
)
WORDS = "word " * 60


def changed(book: Book, kind: str, entry_id: str, **fields: Any) -> Book:
    """The book with one entry changed (or, without fields, left out)."""
    entries = dict(book.entries[kind])
    if fields:
        entries[entry_id] = entries[entry_id].model_copy(update=fields)
    else:
        del entries[entry_id]
    return replace(book, entries={**book.entries, kind: entries})


def checked(book: Book, **how: Any) -> Book:
    """The book with a checklist of one item."""
    item = CheckItem(id="rate", text="The rate fits.", why="It explodes.", sources=["tiny-1"], **how)
    checklist = Checklist(id="before", title="Before", summary="What to look at.", sources=["tiny-1"], items=[item])
    return replace(book, entries={**book.entries, "checklists": {"before": checklist}})


def codes(book: Book) -> list[str]:
    return [p.code for rule in RULES.values() for p in rule(book, NAMES)]


@pytest.fixture
def good(tiny: Book) -> Book:
    """The tiny book with enough words on its pages."""
    texts = {"causes": "mechanism", "symptoms": "summary", "fixes": "summary", "signals": "how"}
    entries: dict[str, dict[str, Entry]] = {
        kind: {i: e.model_copy(update={texts[kind]: WORDS}) if kind in texts else e for i, e in of.items()}
        for kind, of in tiny.entries.items()
    }
    lowered = entries["causes"]["lr-peak"]
    entries["causes"]["lr-peak"] = lowered.model_copy(
        update={
            "expects": {**lowered.expects, "crash-tail": Expectation(states={"none": "usually"}, because=["tiny-1"])}
        }
    )
    return replace(tiny, entries=entries)


def test_the_good_book_keeps_every_promise(good: Book) -> None:
    assert codes(good) == []
    assert codes(checked(good, relation="learning-rate", config=[ConfigRule(keys=["lr"], above=[(1.0, "bad")])])) == []


Change = Callable[[Book], Book]
BAD: list[tuple[str, Change]] = [
    ("dangling", lambda b: changed(b, "causes", "lr-peak", mistaken_for=[Mistaken(cause="nobody", tell="x")])),
    (
        "dangling",
        lambda b: changed(b, "causes", "lr-peak", couples=[Couple(cause="nobody", why="x", because=["tiny-1"])]),
    ),
    ("dangling", lambda b: changed(b, "fixes", "use-bf16", tests={"precision": "fp4"})),
    (
        "dangling",
        lambda b: changed(
            b, "causes", "lr-peak", excludes=[Exclusion(signal="precision", outcome="fp4", because=["tiny-1"], why="x")]
        ),
    ),
    ("unreachable", lambda b: changed(b, "causes", "lr-peak", shows={"persistent-spike": "almost_never"})),
    (
        "twins",
        lambda b: changed(
            b, "causes", "bad-samples", expects=b.causes["lr-peak"].expects, shows=b.causes["lr-peak"].shows
        ),
    ),
    ("no-first-aid", lambda b: changed(b, "fixes", "stop-and-keep")),
    ("no-fix", lambda b: changed(b, "fixes", "use-bf16")),
    ("no-verify", lambda b: changed(b, "fixes", "use-bf16", cured="Good.")),
    ("no-verify", lambda b: changed(b, "fixes", "use-bf16", cured="It is as before.", not_cured="It is as before.")),
    ("unobtainable", lambda b: changed(b, "signals", "tied-to-samples", how="Look.")),
    (
        "unused-signal",
        lambda b: changed(
            b, "causes", "lr-peak", expects={k: v for k, v in b.causes["lr-peak"].expects.items() if k != "crash-tail"}
        ),
    ),
    ("no-detector", lambda b: changed(b, "signals", "precision", seen_by=[SeenBy(detector="oracle")])),
    (
        "no-detector",
        lambda b: changed(b, "signals", "precision", seen_by=[SeenBy(detector="spike", kinds={"odd": "fp16"})]),
    ),
    ("no-check", lambda b: checked(b, relation="lerning-rate")),
    ("no-check", lambda b: checked(b, config=[ConfigRule(keys=["lr"], above=[(1.0, "wrong")])])),
    (
        "log-pattern",
        lambda b: changed(b, "signals", "crash-tail", log=[LogPattern(pattern="xyz", outcome="oom", match=["abc"])]),
    ),
    (
        "log-pattern",
        lambda b: changed(
            b, "signals", "crash-tail", log=[LogPattern(pattern="a", outcome="oom", match=["a"], no_match=["ab"])]
        ),
    ),
    ("no-source", lambda b: changed(b, "causes", "lr-peak", sources=["nobody-2020"])),
    ("ledger-row", lambda b: changed(b, "causes", "lr-peak", sources=["D9-none-1"])),
    ("thin", lambda b: changed(b, "causes", "lr-peak", mechanism="Short.", summary="Short.")),
    ("no-class", lambda b: changed(b, "causes", "lr-peak", class_="no_such_class")),
    ("class-without-cause", lambda b: replace(b, classes={**b.classes, "moe_routing": {"published": 1}})),
    ("symptoms", lambda b: changed(b, "symptoms", "healthy")),
    ("opinion", lambda b: replace(b, opinions={"no-such-signal": {"lr_too_high": {"yes": 90.0, "no": 10.0}}})),
    ("precedent", lambda b: replace(b, precedents={"features": [["no-such-signal", "yes"]], "classes": []})),
    ("precedent", lambda b: replace(b, precedents={"features": [], "classes": ["no_such_class"]})),
]


@pytest.mark.parametrize(("code", "change"), BAD, ids=[f"{code}-{k}" for k, (code, _) in enumerate(BAD)])
def test_a_broken_promise_is_told(code: str, change: Change, good: Book) -> None:
    assert code in codes(change(good))


def test_a_reference_that_climbs_is_told(good: Book, monkeypatch: pytest.MonkeyPatch) -> None:
    """The schema has no field that could climb; the rule guards the links, whatever field a later schema adds."""
    up = lint.links.__globals__["Link"]("treats", ("causes", "lr-peak"), ("fixes", "lower-peak-lr"))
    monkeypatch.setattr(lint, "links", lambda book: iter([up]))
    assert [p.code for p in lint.climbing(good, NAMES)] == ["climbing"]


def test_every_rule_has_a_bad_sample() -> None:
    told = {code for code, _ in BAD} | {"climbing"}
    assert set(RULES) <= told, sorted(set(RULES) - told)
