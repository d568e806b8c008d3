"""Redaction before anything leaves: rules as data (`redact.yaml`), names that stay the same throughout a bundle.

Two passes. The first collects names of hosts and users from everything that goes out; the second replaces them
wherever they stand, so that a host named once in a log is not left over in a title. `host-3` is the same machine in
every file: who reads the bundle can still see that one node was bad. What was removed is counted, never listed.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from playbook.errors import PlaybookError, only_file, reason

RULES = Path(__file__).parent / "redact.yaml"
KINDS = ("secret", "mail", "user", "path", "url", "host", "device")
LEARNED = ("user", "host")  # names that are replaced everywhere once they are known
SHORTEST = 3  # a shorter name would be found inside ordinary words
# Fields of our own documents that hold ids of the book or of ourselves.
SAFE = frozenset(
    (
        "format", "id", "status", "opened_at", "closed_at", "word", "symptom", "class", "layer", "kind", "signal",
        "state", "sha256", "outcome", "decided", "cause", "cause_class", "metric", "scene", "at", "time", "verdict",
        "first_aid", "fixes", "playbook", "book", "detector", "source",
    )
)  # fmt: skip
PATHS = frozenset({"file", "path"})


@dataclass(frozen=True, slots=True)
class Rule:
    """One kind of thing to remove; `without` are exceptions by pattern."""

    name: str
    kind: str
    pattern: re.Pattern[str]
    without: tuple[re.Pattern[str], ...] = ()
    match: tuple[str, ...] = ()
    no_match: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Rules:
    rules: tuple[Rule, ...]
    fields: Mapping[str, re.Pattern[str]]
    ordinary: frozenset[str]


def read_rules(*files: Path) -> Rules:
    """The built-in rules and those of further files. Raises `PlaybookError` for a rule that does not hold."""
    import yaml

    rules: list[Rule] = []
    fields: dict[str, re.Pattern[str]] = {}
    ordinary: set[str] = set()
    for path in (RULES, *files):
        try:
            data = yaml.safe_load(only_file(path).read_text("utf-8")) or {}
            rules += [_rule(item) for item in data.get("rules", ())]
            fields |= {kind: re.compile(pattern) for kind, pattern in data.get("fields", {}).items()}
            ordinary |= {str(word) for word in data.get("ordinary", ())}
        except (OSError, UnicodeDecodeError) as error:
            raise PlaybookError(str(path), f"cannot be read: {reason(error)}", "name a YAML file of rules") from None
        except (yaml.YAMLError, re.error, KeyError, TypeError, AttributeError, ValueError) as error:
            what = str(error).splitlines()[0]
            raise PlaybookError(
                str(path), f"no rules of redaction: {what}", "see playbook/incidents/redact.yaml"
            ) from None
    return Rules(tuple(rules), fields, frozenset(ordinary))


def _rule(item: Mapping[str, Any]) -> Rule:
    if item["kind"] not in KINDS:
        raise ValueError(f"kind {item['kind']!r} of rule {item['name']} is none of {', '.join(KINDS)}")
    without = tuple(re.compile(p) for p in item.get("not", ()))
    match, no_match = tuple(item.get("match", ())), tuple(item.get("no_match", ()))
    return Rule(str(item["name"]), item["kind"], re.compile(item["pattern"]), without, match, no_match)


@dataclass
class Redactor:
    """Names seen so far, and how often each rule removed something."""

    rules: Rules
    names: dict[str, dict[str, str]] = field(default_factory=lambda: {kind: {} for kind in KINDS})
    counts: dict[tuple[str, str], int] = field(default_factory=dict)
    _known: re.Pattern[str] | None = None

    def learn(self, text: str) -> None:
        """First pass: collect the names of hosts and users."""
        for rule in self.rules.rules:
            if rule.kind in LEARNED:
                for found in rule.pattern.finditer(text):
                    for name in _named(found):
                        if not self._spared(rule, name):
                            self._alias(rule.kind, name)

    def learn_all(self, value: Any, key: str = "") -> None:
        """First pass over a document."""
        if isinstance(value, str):
            kind = self._field(key)
            if kind in LEARNED and value and not self._ordinary(value):
                self._alias(kind, value)
            self.learn(value)
        elif isinstance(value, Mapping):
            for name, item in value.items():
                self.learn_all(item, str(name))
        elif isinstance(value, (list, tuple)):
            for item in value:
                self.learn_all(item, key)

    def text(self, text: str) -> str:
        """Second pass: a text without what must not leave."""
        for rule in self.rules.rules:
            text = rule.pattern.sub(lambda m, rule=rule: self._replaced(rule, m), text)  # type: ignore[misc]
        known = self._learned()
        return known.sub(self._by_name, text) if known is not None else text

    def document(self, value: Any, key: str = "") -> Any:
        """Second pass: a document (JSON values), whose ids stay."""
        if isinstance(value, str):
            return self._string(value, key)
        if isinstance(value, Mapping):
            return {self.text(str(name)): self.document(item, str(name)) for name, item in value.items()}
        if isinstance(value, (list, tuple)):
            return [self.document(item, key) for item in value]
        return value

    def removed(self) -> list[dict[str, Any]]:
        """What was removed: rule, kind, how often. Never the thing itself."""
        return [{"rule": r, "kind": k, "count": n} for (r, k), n in sorted(self.counts.items())]

    def _string(self, value: str, key: str) -> str:
        if not value or key in SAFE:
            return value
        kind = self._field(key)
        if kind == "secret":
            return self._counted("field", "secret", "<secret>")
        if key in PATHS or (kind == "path" and ("/" in value or "\\" in value)):
            return self._counted("field", "path", self._path(value))
        if kind in LEARNED and not self._ordinary(value):
            return self._counted("field", kind, self._alias(kind, value))
        return self.text(value)

    def _field(self, key: str) -> str | None:
        return next((kind for kind, pattern in self.rules.fields.items() if pattern.search(key)), None)

    def _replaced(self, rule: Rule, found: re.Match[str]) -> str:
        names = _named(found)
        whole = found.group()
        if not names or all(self._spared(rule, n) for n in names):
            return whole
        for name in names:
            whole = whole.replace(name, self._counted(rule.name, rule.kind, self._stand_in(rule.kind, name)))
        return whole

    def _stand_in(self, kind: str, name: str) -> str:
        if kind == "secret":
            return "<secret>"
        return self._path(name) if kind == "path" else self._alias(kind, name)

    def _path(self, path: str) -> str:
        """The last part stays (it says which file of a traceback it was), the way to it goes."""
        folder, slash, last = path.replace("\\", "/").rpartition("/")
        if not slash:
            return self.text(last) if last else path
        if not last:
            return self._alias("path", folder) + "/"
        known = self._learned()
        return f"{self._alias('path', folder)}/{known.sub(self._by_name, last) if known is not None else last}"

    def _alias(self, kind: str, name: str) -> str:
        table = self.names[kind]
        if name not in table:
            table[name] = f"{kind}-{len(table) + 1}"
            self._known = None
        return table[name]

    def _learned(self) -> re.Pattern[str] | None:
        if self._known is None:
            names = [n for kind in LEARNED for n in self.names[kind] if len(n) >= SHORTEST and not self._ordinary(n)]
            if not names:
                return None
            ordered = "|".join(re.escape(n) for n in sorted(names, key=lambda n: (-len(n), n)))
            self._known = re.compile(rf"(?<![A-Za-z0-9])(?:{ordered})(?![A-Za-z0-9])")
        return self._known

    def _by_name(self, found: re.Match[str]) -> str:
        kind = next(k for k in LEARNED if found.group() in self.names[k])
        return self._counted("known-name", kind, self.names[kind][found.group()])

    def _counted(self, rule: str, kind: str, text: str) -> str:
        self.counts[rule, kind] = self.counts.get((rule, kind), 0) + 1
        return text

    def _ordinary(self, name: str) -> bool:
        return name.lower() in self.rules.ordinary or re.fullmatch(rf"(?:{'|'.join(KINDS)})-\d+", name) is not None

    def _spared(self, rule: Rule, name: str) -> bool:
        return self._ordinary(name) or name.startswith("<") or any(p.search(name) for p in rule.without)


def _named(found: re.Match[str]) -> list[str]:
    """The parts of a match to be replaced: its groups called name, name2; the whole without any."""
    groups = found.groupdict()
    if not groups:
        return [found.group()]
    return [text for name, text in groups.items() if name.startswith("name") and text]


def collect(redactor: Redactor, texts: Iterable[str]) -> None:
    for text in texts:
        redactor.learn(text)
