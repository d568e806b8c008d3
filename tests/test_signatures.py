"""No log signature of the book waits in vain: a line that it fits is kept, and costs little to look for."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from playbook.knowledge.loader import Book
from playbook.readers.base import RunBuilder
from playbook.readers.logs import notable_words, text_log
from playbook.readers.signatures import Signatures, fragments
from playbook.readers.source import Source
from playbook.workflow.ingest import ingest
from tests.pattern_lines import lines

# Summaries of nccl-tests are taken as numbers, and only in the output of that tool.
ELSEWHERE = re.compile(r"^# (?:Avg bus bandwidth|Out of bounds)")


def _events(path: Path, line: str, patterns: tuple[str, ...]) -> list[str]:
    path.write_text(f"step 1 loss 2.0\nstep 2 loss 2.1\n{line}\n")
    builder = RunBuilder("x", "x", patterns=patterns)
    text_log.read(Source(path, "x"), builder)
    return [event.text for event in builder.events]


def test_every_alternative_of_every_signature_is_seen(tmp_path: Path, real_book: Book) -> None:
    dead, tried = [], 0
    for signal in real_book.signals.values():
        for rule in signal.log:
            for line in lines(rule.pattern):
                if line.endswith(" ") and re.search(rule.pattern, line + "x"):
                    line += "x"  # events have no blanks at their ends
                assert re.search(rule.pattern, line), (signal.id, line)
                tried += 1
                seen = _events(tmp_path / "t.log", line, real_book.patterns)
                if not ELSEWHERE.match(line) and not any(re.search(rule.pattern, text) for text in seen):
                    dead.append((signal.id, line))
    assert tried > 400
    assert not dead


def test_every_alternative_of_every_kind_is_looked_at() -> None:
    """The kinds of notable lines and the words by which lines are chosen are two tables: neither runs ahead."""
    missed = [
        (kind, line)
        for kind, pattern in notable_words.KINDS
        for line in lines(pattern.pattern)
        if pattern.search(line) and not notable_words.hinted(line if kind != "stack" else f"  {line.strip()}")
    ]
    assert not missed


def test_the_level_of_a_logger_is_no_infinity() -> None:
    assert not notable_words.hinted("2026-11-03 02:00:08 INFO worker 3 fetched shard 12 from the bucket")
    assert notable_words.hinted("grad norm is inf at step 3")
    assert notable_words.hinted("found inf")


def test_a_signature_of_a_pack_needs_no_word_of_the_reader(tmp_path: Path) -> None:
    line = "zebra unit 7 has left the herd"
    assert _events(tmp_path / "t.log", line, ()) == []
    assert _events(tmp_path / "t.log", line, (r"[Zz]ebra unit \d+ has (?:left|joined)",)) == [line]


@pytest.mark.parametrize(
    ("pattern", "words"),
    [
        ("No space left", {"no space left"}),
        (r"[Ll]oss is (?:nan|inf)", {"loss is nan", "loss is inf"}),
        (r"Xid \([^)]*\): (?:48|79)\b", {"xid ("}),
        (r"(?:left|right)\d+", {"left", "right"}),
        (r"a(?:bc)?d+efgh", {"efgh"}),
        (r"(?:abcd)+x", {"abcd"}),
        (r"\d+|abc", None),
        (r"^\s*\w+$", None),
        (r"\d", None),
        (r"(?i)ABC(?=DE)", {"abc"}),
        (r"ab(?!cd)ef", {"abef"}),
    ],
)
def test_what_a_line_must_hold(pattern: str, words: set[str] | None) -> None:
    assert fragments(pattern) == (None if words is None else frozenset(words))


def test_words_that_are_looked_for_anyway_cost_nothing_more() -> None:
    assert Signatures([r"Unable to load \w+ from checkpoint"], ["checkpoint"]).hints == ()
    assert Signatures([r"Unable to load \w+ from storage"], ["checkpoint"]).hints == ("unable to load ",)


def test_a_pattern_without_words_is_tried_on_every_line() -> None:
    found = Signatures([r"^\d+[-_]\d+$"])
    assert found.hints == ("",)
    assert found.fits("12-7", "12-7")
    assert not found.fits("12 7", "12 7")


def test_the_book_adds_few_words_to_look_for(real_book: Book) -> None:
    """Each costs some thirty nanoseconds on every line that is no row."""
    hints = notable_words.signatures(real_book.patterns).hints
    assert "" not in hints
    assert len(hints) < 112


def test_lost_optimizer_state_is_evidence_in_the_words_of_several_trainers(tmp_path: Path, real_book: Book) -> None:
    for line in (
        "No optimizer state found in checkpoint",
        "2026-11-04 03:12:44 WARNING optimizer.pt not found in /ckpt/5000, optimizer state is initialised from scratch",
        "WARNING:root:resetting optimizer state",
        "Warning: optimizer state not found in checkpoint, training from scratch with new optimizer states",
    ):
        path = tmp_path / "train.log"
        path.write_text(f"step 1 loss 2.0\nstep 2 loss 2.1\n{line}\n")
        found = {item.signal: item.state for item in ingest([str(path)], real_book).evidence}
        assert found.get("resume-optimizer-restored") == "no", line


def test_weights_that_do_not_fit_are_no_damaged_checkpoint(tmp_path: Path, real_book: Book) -> None:
    path = tmp_path / "train.log"
    path.write_text(
        'step 1 loss 2.0\nTraceback (most recent call last):\n  File "train.py", line 3, in <module>\n'
        "RuntimeError: Error(s) in loading state_dict for GPT:\n"
        '\tMissing key(s) in state_dict: "lm_head.weight". \n\tUnexpected key(s) in state_dict: "head.weight". \n'
    )
    found = {item.signal: item.state for item in ingest([str(path)], real_book).evidence}
    assert found.get("state-equal-after-load") == "no"
    assert found.get("crash-tail") == "python-error"
    assert "checkpoint-checksum" not in found
