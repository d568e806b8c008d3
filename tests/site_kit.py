"""For the tests of the site: builds, incidents (one of them hostile), and a reader of links, ids and scripts."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

import numpy as np

from playbook.faces.site.build import Built, Edition, build
from playbook.faces.words import Words
from playbook.incidents.record import Record, Verdict
from playbook.knowledge.loader import Book
from playbook.workflow.records.published import Published, Strip

HOSTILE = '<script>alert("1")</script><img src=x onerror=alert(2)>\'"&{{ 7*7 }} [x](javascript:alert(3)) \u2028 \u202e'
_VOID = {"area", "base", "br", "col", "embed", "hr", "img", "input", "link", "meta", "source", "track", "wbr"}


@dataclass
class PageFacts:
    """What a test wants to know of one page."""

    ids: list[str] = field(default_factory=list)
    links: list[str] = field(default_factory=list)
    assets: list[str] = field(default_factory=list)
    tags: list[str] = field(default_factory=list)
    handlers: list[str] = field(default_factory=list)
    styles: list[str] = field(default_factory=list)
    inline_scripts: list[str] = field(default_factory=list)
    headings: list[int] = field(default_factory=list)
    policy: str = ""
    lang: str = ""
    title: str = ""
    unclosed: list[str] = field(default_factory=list)


class _Reader(HTMLParser):
    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.facts = PageFacts()
        self.open: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        facts, given = self.facts, {name: value or "" for name, value in attrs}
        facts.tags.append(tag)
        if tag not in _VOID:
            self.open.append(tag)
        if "id" in given:
            facts.ids.append(given["id"])
        facts.handlers += [name for name in given if name.startswith("on")]
        if "style" in given:
            facts.styles.append(given["style"])
        if tag == "a" and "href" in given:
            facts.links.append(given["href"])
        if tag == "form":
            facts.links.append(given.get("action", ""))
        for name in ("src", "srcset", "poster", "data"):
            if name in given and tag != "script":
                facts.assets.append(given[name])
        if tag == "script":
            facts.assets.append(given.get("src", ""))
        if tag == "link" and given.get("rel") in ("stylesheet", "icon", "preload", "modulepreload"):
            facts.assets.append(given["href"])
        elif tag == "link":
            facts.links.append(given["href"])
        if tag == "meta" and given.get("http-equiv") == "Content-Security-Policy":
            facts.policy = given["content"]
        if tag == "html":
            facts.lang = given.get("lang", "")
        if len(tag) == 2 and tag[0] == "h" and tag[1].isdigit():
            facts.headings.append(int(tag[1]))

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attrs)
        if tag not in _VOID:
            self.open.pop()

    def handle_endtag(self, tag: str) -> None:
        if self.open and self.open[-1] == tag:
            self.open.pop()
        else:
            self.facts.unclosed.append(tag)

    def handle_data(self, data: str) -> None:
        if self.open and self.open[-1] == "script" and data.strip():
            self.facts.inline_scripts.append(data)
        if self.open[-1:] == ["title"] and "svg" not in self.open:
            self.facts.title += data


def read_page(text: str) -> PageFacts:
    reader = _Reader()
    reader.feed(text)
    reader.close()
    reader.facts.unclosed += reader.open
    return reader.facts


def read_site(folder: Path) -> dict[str, PageFacts]:
    return {
        path.relative_to(folder).as_posix(): read_page(path.read_text("utf-8"))
        for path in sorted(folder.rglob("*.html"))
    }


def dead_links(folder: Path, pages: dict[str, PageFacts]) -> list[str]:
    """Links and assets within the site that lead nowhere, anchors included. The 404 page is judged from the root."""
    dead = []
    for name, facts in pages.items():
        for link in [*facts.links, *facts.assets]:
            parts = urlsplit(link)
            if parts.scheme in ("http", "https"):
                continue
            if name == "404.html" and parts.path:
                target = folder / unquote(parts.path).lstrip("/")
            else:
                target = (folder / name).parent / unquote(parts.path) if parts.path else folder / name
            target = target.resolve()
            if not target.is_file() or not target.is_relative_to(folder.resolve()):
                dead.append(f"{name} -> {link}")
                continue
            other = pages.get(target.relative_to(folder.resolve()).as_posix())
            missing = other is not None and unquote(parts.fragment) not in other.ids
            if parts.fragment and missing and "=" not in parts.fragment:  # with `=` it is a diagnosis
                dead.append(f"{name} -> {link} (no such anchor)")
    return dead


def digest(folder: Path) -> str:
    """Of every path and every byte."""
    total = hashlib.sha256()
    for path in sorted(p for p in folder.rglob("*") if p.is_file()):
        total.update(path.relative_to(folder).as_posix().encode() + b"\0" + path.read_bytes() + b"\0")
    return total.hexdigest()


def incident(**changes: object) -> Published:
    """A closed incident of the tiny book, with a curve that has a NaN, and one from after the fix."""
    record = Record.model_validate(
        {
            "id": "20260304-aaaaaa",
            "title": "Loss leaps at the peak of the rate",
            "status": "closed",
            "opened_at": "2026-03-04T05:06:07Z",
            "closed_at": "2026-03-05T05:06:07Z",
            "cause": "lr-peak",
            "cause_class": "lr_too_high",
            "layer": "optimization",
            "confirmed_by": "ada",
            "context": {"gpus": 64},
            "losses": {"gpus": 64, "hours": 6.0, "usd_per_gpu_hour": 2.0, "estimated": False},
            "verdict": {
                "word": "incident",
                "symptom": "persistent-spike",
                "onset_step": 60,
                "decided": True,
                "causes": [
                    {"id": "lr-peak", "title": "x", "layer": "optimization", "class": "lr_too_high", "probability": 0.8}
                ],
                "unknown": 0.05,
            },
            "moves": [
                {"kind": "observed", "signal": "loss-shape", "state": "persistent-spike", "because": "leaps at 60"},
                {
                    "kind": "answered", "signal": "lower-lr-removes-it", "state": "yes", "minutes": 10.0,
                    "gpu_hours": 2.0, "paid": True, "top": [["lr-peak", 0.8], ["bad-samples", 0.1]],
                },
                {"kind": "closed", "signal": "crash-tail", "minutes": 1.0, "paid": True},
            ],
            "timeline": [
                {"kind": "finding", "text": "loss leaps", "step": 60},
                {"kind": "change", "text": "lr", "step": 50},
            ],
            "treatments": [{"fix": "lower-peak-lr", "outcome": "cured", "at": "2026-03-05T00:00:00Z"}],
            "links": [{"url": "https://example.org/ticket", "title": "the ticket"}],
            "notes": ["restarted from step 40"],
            **changes,
        }
    )  # fmt: skip
    steps = np.arange(0, 100)
    values = np.where(steps < 60, 2 - steps / 100, 5.0).astype(float)
    values[70] = np.nan
    before = Strip("loss", steps, values, "before", 60)
    after = Strip("loss", steps, 2 - steps / 100, "after")
    return Published(record, (before, after))


def hostile_incident() -> Published:
    """Every text that a person or a log may put into a record, as bad as it gets."""
    base = incident().record.model_dump(mode="json", by_alias=True)
    base |= {
        "id": "20260304-hostil",
        "title": HOSTILE,
        "cause": HOSTILE,
        "confirmed_by": HOSTILE,
        "context": {HOSTILE: HOSTILE},
        "answers": {"trigger": HOSTILE, HOSTILE: HOSTILE},
        "notes": [HOSTILE, "[click](javascript:alert(1)) **bold**"],
        "versions": {HOSTILE: HOSTILE},
        "links": [
            {"url": "javascript:alert(1)", "title": HOSTILE},
            {"url": "data:text/html,<script>alert(1)</script>", "title": ""},
            {"url": 'https://example.org/"onmouseover="alert(1)', "title": "quote"},
        ],
        "timeline": [{"kind": "event", "text": HOSTILE, "time": HOSTILE, "place": {"file": HOSTILE, "line": 1}}],
        "treatments": [{"fix": HOSTILE, "outcome": "cured", "note": HOSTILE, "at": HOSTILE}],
        "artifacts": [{"name": HOSTILE, "kind": "other", "sha256": "0" * 64, "size": 1, "note": HOSTILE}],
        "moves": [
            {"kind": "observed", "signal": HOSTILE, "state": HOSTILE, "because": HOSTILE, "at": {"file": HOSTILE}},
            {"kind": "answered", "signal": HOSTILE, "state": HOSTILE, "top": [[HOSTILE, 0.5]]},
        ],
        "verdict": Verdict(word="undecided", symptom=HOSTILE, why_undecided=HOSTILE).model_dump(mode="json"),
    }  # fmt: skip
    return Published(Record.model_validate(base), (Strip(HOSTILE, np.arange(3), np.array([1.0, np.inf, 2.0])),))


def build_tiny(book: Book, out: Path, *incidents: Published, languages: tuple[str, ...] = ("en",)) -> Built:
    return build(out, [Edition(code, Words(code), book) for code in languages], incidents)
