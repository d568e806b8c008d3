"""Sentences made below the faces, in another language: detectors, readers and checks know English and nothing else.

`knowledge/languages/<code>/sentences/*.yaml` map English patterns (`loss is {what} at step {step}`) to the other text.
A hole of one letter (and {step}) holds one word or "12 rows", any other any text. What stands in a hole is looked up,
so that lists and clauses come along; a pattern of hardly a letter ("{a} or {others}") counts only there. A pattern that
begins with a comma, a semicolon, a colon, a space or a bracket is an end that a sentence may have; one that ends with
": " is a beginning. A sentence that no pattern knows stays English; a line of a log never matches one whole.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

HOLE = re.compile(r"\{(\w+)\}")
_ENDS, _BEGINNING = (",", ";", ":", " ", "("), ": "
_PROBLEM = re.compile(r"(?P<where>\S.*?): (?P<what>.+?)(?: \((?P<hint>.+)\))?", re.DOTALL)
_WORD = r"\S+(?: rows?)?"
_TELLING = 8  # letters: less may be a part of anything
_WEAK = 6  # letters: less says nothing outside of a hole


@dataclass(frozen=True)
class Pattern:
    """One row of the table."""

    english: str
    other: str

    @cached_property
    def pieces(self) -> list[str]:
        """The words between the holes."""
        return HOLE.split(self.english)[::2]

    @cached_property
    def weight(self) -> int:
        """Letters that have to be there: the pattern with most of them says most about a sentence."""
        return sum(map(len, self.pieces))

    @cached_property
    def regex(self) -> re.Pattern[str]:
        """The whole pattern; a hole that comes twice has to hold the same."""
        names: set[str] = set()
        parts = []
        for place, part in enumerate(HOLE.split(self.english)):
            if place % 2 == 0:
                parts.append(re.escape(part))
            else:
                fits = _WORD if len(part) == 1 or part == "step" else ".+?"
                parts.append(f"(?P={part})" if part in names else f"(?P<{part}>{fits})")
                names.add(part)
        return re.compile("".join(parts), re.DOTALL)

    def match(self, text: str) -> re.Match[str] | None:
        if not (text.startswith(self.pieces[0]) and text.endswith(self.pieces[-1])):
            return None
        return self.regex.fullmatch(text) if all(piece in text for piece in self.pieces) else None


class Sentences:
    """`Sentences({"{n} rows": "{n} 行"})("12 rows")` is "12 行"."""

    def __init__(self, table: Mapping[str, str]) -> None:
        rows = sorted((Pattern(*row) for row in table.items()), key=lambda p: -p.weight)
        self._ends = [p for p in rows if p.english.startswith(_ENDS)]
        self._beginnings = [p for p in rows if p.english.endswith(_BEGINNING)]
        self._whole = [p for p in rows if not p.english.startswith(_ENDS) and not p.english.endswith(_BEGINNING)]
        self._plain = table.keys()
        self._found: dict[tuple[str, bool], str | None] = {}

    def __call__(self, text: str) -> str:
        """The sentence in the other language, or as it is."""
        return self.find(text) or text

    def find(self, text: str, inside: bool = False) -> str | None:
        """The sentence in the other language; None where no pattern knows it. `inside` a hole weak patterns count."""
        if (text, inside) not in self._found:
            self._found[text, inside] = self._look(text, inside)
        return self._found[text, inside]

    def _look(self, text: str, inside: bool) -> str | None:
        # an end first: else the last hole of a shorter sentence would swallow it
        if text not in self._plain and (parts := self._with_an_end(text)) is not None:
            return parts
        for pattern in self._whole:
            strong = inside or pattern.weight >= _WEAK or pattern.english == text
            if strong and (hit := pattern.match(text)):
                return self._filled(pattern, hit.groupdict())
        for pattern in self._beginnings:
            hit = pattern.regex.match(text)
            if hit and (rest := self.find(text[hit.end() :])) is not None:
                return self._filled(pattern, hit.groupdict()) + rest
        return self._problem(text)

    def _problem(self, text: str) -> str | None:
        """`file:3: what (hint)`, as an error says itself; only where what it says is known."""
        hit = _PROBLEM.fullmatch(text)
        if hit is None or len(hit["what"]) < _TELLING or (what := self.find(hit["what"])) is None:
            return None
        return f"{hit['where']}：{what}" + (f"（{self(hit['hint'])}）" if hit["hint"] else "")

    def _with_an_end(self, text: str) -> str | None:
        """A sentence and its end, each in the other language; the last place where the end may begin counts."""
        for pattern in self._ends:
            at = text.rfind(pattern.pieces[0])
            while at > 0:
                hit = pattern.regex.fullmatch(text, at)
                if hit and (head := self.find(text[:at])) is not None:
                    return head + self._filled(pattern, hit.groupdict())
                at = text.rfind(pattern.pieces[0], 0, at)
        return None

    def _filled(self, pattern: Pattern, values: Mapping[str, str]) -> str:
        """The other text of a pattern with what stood in the holes, itself looked up."""
        return HOLE.sub(lambda hole: self.find(values[hole[1]], inside=True) or values[hole[1]], pattern.other)
