"""The site: golden pages of the tiny book; laws of every page of the real one; hostile texts; bytes and folders."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import xml.etree.ElementTree as ET
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest

from playbook import places
from playbook.errors import PlaybookError
from playbook.faces.pages.shelf import FOLDERS
from playbook.faces.site.build import MARKER, Edition, build
from playbook.faces.site.search import sentence
from playbook.faces.words import Words, words
from playbook.knowledge.loader import Book, load
from playbook.knowledge.overlay import translate
from tests.browser_kit import JAVA, NU_VALIDATOR, needs_nu
from tests.site_kit import (
    HOSTILE,
    PageFacts,
    build_tiny,
    dead_links,
    digest,
    hostile_incident,
    incident,
    read_page,
    read_site,
)

TESTS = Path(__file__).parent
GOLDEN = TESTS / "golden" / "site"
FIRST_PAGE = 100_000  # bytes, with what it loads
# Copies of files that lie in `site/assets`: there they are read, here they would only be there twice.
NOT_GOLDEN = ("assets/",)
KINDS = ("symptoms", "signals", "causes", "fixes", "cases", "checklists", "questions")


@pytest.fixture(scope="module")
def tiny_site(tiny: Book, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("tiny") / "site"
    build_tiny(tiny, out, incident())
    return out


@pytest.fixture(scope="module")
def timed_site(real_book: Book, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, float]:
    """The real site in two languages, and the processor seconds that it took, children included."""
    out = tmp_path_factory.mktemp("real") / "site"
    editions = [Edition(code, words(code), translate(real_book, code)) for code in ("en", "zh")]
    before = os.times()
    build(out, editions, (incident(), hostile_incident()))
    after = os.times()
    return out, sum(after[:4]) - sum(before[:4])


@pytest.fixture(scope="module")
def real_site(timed_site: tuple[Path, float]) -> Path:
    return timed_site[0]


@pytest.mark.slow
def test_a_build_is_quick(timed_site: tuple[Path, float]) -> None:
    """About 700 pages in two languages take about 7 processor seconds; the limit leaves room for a busy machine."""
    out, seconds = timed_site
    pages = len(list(out.rglob("*.html")))
    assert seconds < 20 * max(1, pages / 1500)


def test_golden(tiny_site: Path, request: pytest.FixtureRequest) -> None:
    """Every file of the tiny site, byte for byte."""
    made = {
        path.relative_to(tiny_site).as_posix(): path.read_text("utf-8")
        for path in sorted(tiny_site.rglob("*"))
        if path.is_file() and not path.relative_to(tiny_site).as_posix().startswith(NOT_GOLDEN)
    }
    if request.config.getoption("--update-golden", default=False):
        for path in [p for p in GOLDEN.rglob("*") if p.is_file()]:
            path.unlink()
        for name, text in made.items():
            (GOLDEN / name).parent.mkdir(parents=True, exist_ok=True)
            (GOLDEN / name).write_text(text, "utf-8")
    kept = {p.relative_to(GOLDEN).as_posix(): p.read_text("utf-8") for p in sorted(GOLDEN.rglob("*")) if p.is_file()}
    hint = "if this is meant: pytest tests/test_site.py --update-golden"
    assert sorted(made) == sorted(kept), hint
    changed = [name for name in made if made[name] != kept[name]]
    assert not changed, f"{changed}: {hint}"


def test_same_bytes_again(tiny: Book, tiny_site: Path, tmp_path: Path) -> None:
    build_tiny(tiny, tmp_path / "again", incident())
    assert digest(tmp_path / "again") == digest(tiny_site)


@pytest.mark.parametrize("seed", ["1", "2"])
def test_same_bytes_in_another_process(seed: str, tiny_site: Path, tmp_path: Path) -> None:
    """Another hash seed, another time zone, one core: nothing of them is in the bytes."""
    code = (
        "import sys; from pathlib import Path; from playbook.knowledge.loader import load;"
        "from tests.site_kit import build_tiny, incident;"
        "build_tiny(load([Path(sys.argv[1])]), Path(sys.argv[2]), incident())"
    )
    environment = {**os.environ, "PYTHONHASHSEED": seed, "TZ": "Asia/Tokyo", "LC_ALL": "C.UTF-8"}
    subprocess.run(
        [sys.executable, "-c", code, str(TESTS / "tiny_knowledge"), str(tmp_path / "s")],
        cwd=TESTS.parent, env=environment, check=True,
    )  # fmt: skip
    assert digest(tmp_path / "s") == digest(tiny_site)


def _laws(site: Path) -> list[str]:
    """What is wrong with any page of a site."""
    pages = read_site(site)
    wrong = dead_links(site, pages)
    for name, facts in pages.items():
        wrong += [f"{name}: handler {x}" for x in facts.handlers]
        wrong += [f"{name}: style {x}" for x in facts.styles]
        wrong += [f"{name}: inline script {x[:40]}" for x in facts.inline_scripts]
        wrong += [f"{name}: loads {x}" for x in facts.assets if re.match(r"(?i)[a-z][a-z0-9+.-]*:|//", x)]
        wrong += [f"{name}: link {x}" for x in facts.links if re.match(r"(?i)(?!https?:)[a-z][a-z0-9+.-]*:", x)]
        wrong += [f"{name}: not closed {x}" for x in facts.unclosed]
        wrong += [f"{name}: id twice {x}" for x in set(facts.ids) if facts.ids.count(x) > 1]
        wrong += [f"{name}: bad id {x}" for x in facts.ids if not x or re.search(r"\s", x)]
        if facts.policy != POLICY:
            wrong.append(f"{name}: policy {facts.policy!r}")
        if facts.headings.count(1) != 1:
            wrong.append(f"{name}: {facts.headings.count(1)} headings of the first order")
        wrong += [
            f"{name}: h{b} after h{a}" for a, b in zip(facts.headings, facts.headings[1:], strict=False) if b > a + 1
        ]
        if not facts.title.strip() or not facts.lang:
            wrong.append(f"{name}: no title or language")
    return wrong


POLICY = (
    "default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self'; base-uri 'none'; form-action 'self'"
)  # fmt: skip


def test_laws_of_the_tiny_site(tiny_site: Path) -> None:
    assert _laws(tiny_site) == []


@pytest.mark.slow
def test_laws_of_the_real_site(real_site: Path) -> None:
    """No dead link or anchor, nothing inline, no foreign request, on all pages in both languages."""
    assert _laws(real_site) == []


def _nu(*paths: Path) -> list[str]:
    """What the Nu validator holds against pages and folders of pages."""
    command = [JAVA, "-Xss4m", "-jar", str(NU_VALIDATOR), "--format", "json", "--errors-only", "--skip-non-html"]
    done = subprocess.run(
        [*command, *map(str, paths)], capture_output=True, text=True, timeout=600, check=False
    )  # fmt: skip
    return [f"{m['url']}:{m.get('lastLine')}: {m['message']}" for m in json.loads(done.stderr)["messages"]]


@needs_nu
@pytest.mark.slow
def test_html_is_valid(tiny: Book, tiny_site: Path, real_site: Path, tmp_path: Path) -> None:
    """All pages, hostile texts too; and a page that is not valid is found out."""
    build_tiny(tiny, tmp_path / "s", hostile_incident())
    assert _nu(tiny_site, real_site, tmp_path / "s") == []
    page = (tiny_site / "en/about.html").read_text("utf-8")
    (tmp_path / "bad.html").write_text(
        page.replace("<main", "<ul>x</ul><main").replace('<html lang="en">', "<html lang=en x>")
    )
    assert len(_nu(tmp_path / "bad.html")) >= 2


def _clicks(pages: dict[str, PageFacts]) -> dict[str, int]:
    """How many links lead from the first page to each other one."""
    depth = {"index.html": 0}
    queue = ["index.html"]
    for name in queue:
        for link in pages[name].links:
            parts = urlsplit(link)
            target = os.path.normpath(Path(name).parent / unquote(parts.path))
            if not parts.scheme and parts.path and target in pages and target not in depth:
                depth[target] = depth[name] + 1
                queue.append(target)
    return depth


@pytest.mark.slow
def test_no_english_sentence_on_a_chinese_page(real_site: Path) -> None:
    """Names of sources and what a program prints aside: five words in a row are a text that nobody translated."""
    left = []
    for path in sorted((real_site / "zh").rglob("*.html")):
        if path.parent.name == "incidents" or path.name == "sources.html":
            continue  # words of people, and titles of publications
        text = re.sub(
            r"(?s)<(pre|code|title|desc|a class=\"out\"[^>]*)\b.*?</(pre|code|title|desc|a)>",
            " ",
            path.read_text("utf-8"),
        )
        left += [
            (path.name, found) for found in re.findall(r"(?:\b[a-z][a-z']+ ){5,}[a-z]+", re.sub(r"<[^>]+>", "|", text))
        ]
    printed = ("mismatch between collectives on ranks", "leaps at the peak of the rate")  # NCCL; title of an incident
    assert [row for row in left if row[1] not in printed] == []


@pytest.mark.slow
def test_three_clicks_to_a_fix(real_book: Book, real_site: Path) -> None:
    """First aid after one click on the curve, a cause with its repair after two, any fix by itself after three."""
    clicks = _clicks(read_site(real_site))
    assert {s for s in real_book.symptoms if clicks[f"en/symptoms/{s}.html"] > 1} == set()
    assert {c for c in real_book.causes if clicks[f"en/causes/{c}.html"] > 2} == set()
    assert {f for f in real_book.fixes if clicks[f"en/fixes/{f}.html"] > 3} == set()
    assert max(clicks.values()) <= 3


def test_the_laws_can_be_broken(tiny_site: Path) -> None:
    """The readers of the pages do see what they are there to see."""
    facts = read_page(
        '<p onclick="x()" style="a:b" id="i">b<a href="javascript:x">c</a><script>x()</script><img src="//h/x">'
    )
    assert facts.handlers == ["onclick"]
    assert facts.styles == ["a:b"]
    assert facts.inline_scripts == ["x()"]
    assert facts.assets == ["", "//h/x"]
    assert facts.unclosed == ["p"]
    pages = read_site(tiny_site)
    pages["en/index.html"].links += ["causes/none.html", "#nowhere", "../../../etc/passwd"]
    assert len(dead_links(tiny_site, pages)) == 3


@pytest.mark.slow
def test_every_id_has_a_page_in_every_language(real_book: Book, real_site: Path) -> None:
    for lang in ("en", "zh"):
        for kind in KINDS:
            for name in real_book.entries[kind]:
                assert (real_site / lang / FOLDERS[kind] / f"{name}.html").is_file(), (lang, kind, name)
    assert (real_site / "en" / "incidents" / "20260304-hostil.html").is_file()


def test_every_id_of_the_tiny_book_has_a_page(tiny: Book, tiny_site: Path) -> None:
    for kind in KINDS:
        for name in tiny.entries[kind]:
            assert (tiny_site / "en" / FOLDERS[kind] / f"{name}.html").is_file(), (kind, name)


def test_first_aid_comes_first(tiny_site: Path) -> None:
    """An alert links here: what to do at once stands before everything else."""
    facts = read_page((tiny_site / "en/symptoms/persistent-spike.html").read_text("utf-8"))
    anchors = [
        i
        for i in facts.ids
        if i in ("first-aid", "see", "impact", "confirm", "causes", "fix", "verify", "past", "sources")
    ]
    assert anchors == ["first-aid", "see", "impact", "confirm", "causes", "fix", "verify", "past", "sources"]


def test_the_engine_orders_the_checks_and_the_causes(tiny: Book, tiny_site: Path) -> None:
    """The numbers on a page are the engine's: one check and one cause by hand."""
    from playbook.engine.diagnosis import diagnose
    from playbook.engine.tables import compile_book
    from playbook.findings import Evidence

    diagnosis = diagnose(tiny, compile_book(tiny), [Evidence("loss-shape", "persistent-spike", "person")])
    text = (tiny_site / "en/symptoms/persistent-spike.html").read_text("utf-8")
    confirm = text[text.index('id="confirm"') : text.index('id="causes"')]
    asked = re.findall(r'<p class="more"><a href="\.\./signals/([^"]+)\.html">', confirm)
    assert asked[0] == diagnosis.plan[0].signal
    causes = text[text.index('id="causes"') : text.index('id="fix"')]
    assert re.findall(r'<li id="cause-([^"]+)">', causes) == [r.id for r in diagnosis.causes]
    assert f"{diagnosis.causes[0].probability * 100:.0f} %" in causes


@pytest.mark.slow
def test_on_call_pages_are_whole(real_book: Book, real_site: Path) -> None:
    """No page that an alert links to lacks a part: what to do, is it this, causes, fixes, verification, sources."""
    symptom = {
        "first-aid",
        "see",
        "impact",
        "confirm",
        "causes",
        "fix",
        "verify",
        "prevent",
        "picture",
        "past",
        "sources",
    }
    cause = {"see", "confirm", "fix", "verify", "prevent", "picture", "sources"}
    lacking = []
    for kind, parts in (("symptoms", symptom), ("causes", cause)):
        for name, entry in real_book.entries[kind].items():
            if name == "healthy" or entry.status != "stable":
                continue
            text = (real_site / "en" / kind / f"{name}.html").read_text("utf-8")
            lacking += [(name, part) for part in sorted(parts) if f'<section id="{part}"' not in text]
            if kind == "symptoms" and 'class="cmd' not in text:
                lacking.append((name, "a command"))
    assert lacking == []


@pytest.mark.slow
def test_budget_of_the_first_page(real_site: Path) -> None:
    loaded = ["index.html", "assets/style.css", "assets/theme.js", "assets/site.js", "assets/icon.svg"]
    facts = read_page((real_site / "index.html").read_text("utf-8"))
    assert sorted(facts.assets) == sorted(loaded[1:])
    assert sum((real_site / name).stat().st_size for name in loaded) < FIRST_PAGE


def test_hostile_texts_stay_texts(tiny: Book, tmp_path: Path) -> None:
    """Titles, notes, links, log lines and file names of an incident: shown, never run."""
    build_tiny(tiny, tmp_path / "s", hostile_incident())
    assert _laws(tmp_path / "s") == []
    page = (tmp_path / "s/en/incidents/20260304-hostil.html").read_text("utf-8")
    facts = read_page(page)
    assert "&lt;script&gt;alert(&#34;1&#34;)&lt;/script&gt;" in page
    assert facts.tags.count("script") == 2  # theme.js and site.js
    assert facts.tags.count("img") == 0
    assert not [x for x in facts.links if "javascript" in x.lower() or x.startswith("data:")]
    assert "49" not in re.findall(r"\{\{ 7\*7 \}\}|49", page)
    assert "<strong>bold" not in page
    assert "**bold**" in page
    feed = ET.fromstring((tmp_path / "s/en/incidents/feed.xml").read_text("utf-8"))
    atom = "{http://www.w3.org/2005/Atom}"
    assert "<script>" in (feed.findtext(f"{atom}entry/{atom}title") or "")
    for path in (tmp_path / "s/data").glob("*.js"):
        script = path.read_text("utf-8")
        assert "</script" not in script
        assert "\u2028" not in script
        json.loads(script.partition("=")[2].rstrip(";\n"))


def test_hostile_entries_stay_texts(tiny: Book, tmp_path: Path) -> None:
    """A knowledge pack is untrusted too: raw HTML and odd links in Markdown do nothing."""
    entry = tiny.symptoms["persistent-spike"]
    bad = f"{HOSTILE} <b onmouseover=x>b</b> ![p](https://h/x.png) [d](data:text/html,x) <https://example.org/y>"
    book = Book(
        {k: dict(v) for k, v in tiny.entries.items()}, dict(tiny.files), [], dict(tiny.sources), dict(tiny.classes)
    )
    book.entries["symptoms"]["persistent-spike"] = entry.model_copy(
        update={"title": HOSTILE, "summary": bad, "looks_like": bad, "sources": [HOSTILE]}
    )
    book.sources["tiny-1"] = {"title": HOSTILE, "url": "javascript:alert(1)", "kind": HOSTILE}
    build_tiny(book, tmp_path / "s")
    assert _laws(tmp_path / "s") == []
    page = (tmp_path / "s/en/symptoms/persistent-spike.html").read_text("utf-8")
    assert "<b onmouseover" not in page
    assert "<img" not in page
    assert 'href="https://example.org/y"' in page


def test_runbooks_feed_and_sitemap(tiny_site: Path) -> None:
    runbooks = json.loads((tiny_site / "runbooks.json").read_text("utf-8"))
    assert runbooks["format"] == 1
    for kind in ("symptoms", "causes", "signals", "fixes"):
        for row in runbooks[kind].values():
            assert all((tiny_site / path).is_file() for path in row["path"].values())
    assert runbooks["symptoms"]["persistent-spike"]["path"]["en"] == "en/symptoms/persistent-spike.html"
    atom = "{http://www.w3.org/2005/Atom}"
    feed = ET.parse(tiny_site / "en/incidents/feed.xml").getroot()
    assert [e.findtext(f"{atom}id") for e in feed.findall(f"{atom}entry")] == ["urn:playbook:incident:20260304-aaaaaa"]
    assert feed.findtext(f"{atom}updated") == "2026-03-05T05:06:07Z"
    sitemap = ET.parse(tiny_site / "sitemap.xml").getroot()
    places_ = [row[0].text or "" for row in sitemap]
    assert "http://127.0.0.1:8000/en/causes/lr-peak.html" in places_
    assert all((tiny_site / place.removeprefix("http://127.0.0.1:8000/")).is_file() for place in places_)


def test_search_finds_log_lines(tiny_site: Path) -> None:
    """The words that a person pastes are in the documents."""
    script = (tiny_site / "data/search.en.js").read_text("utf-8")
    rows = {row[0]: row for row in json.loads(script.partition("=")[2].rstrip(";\n"))}
    assert "torch.OutOfMemoryError: CUDA out of memory." in rows["signals/crash-tail.html"][6]
    assert rows["causes/lr-peak.html"][3] == "The learning rate is too high at its peak"


def test_past_incidents_are_on_the_pages(tiny_site: Path) -> None:
    """The cause, the symptom and the fix say when they last helped; both curves share a plot at the onset."""
    for name in ("causes/lr-peak", "symptoms/persistent-spike", "fixes/lower-peak-lr"):
        assert "../incidents/20260304-aaaaaa.html" in (tiny_site / f"en/{name}.html").read_text("utf-8"), name
    page = (tiny_site / "en/incidents/20260304-aaaaaa.html").read_text("utf-8")
    aligned, whole = re.findall(r'<svg class="plot"[^>]*>', page)
    assert 'data-low="-39" data-high="39" data-relative="1"' in aligned
    assert 'data-low="0" data-high="99">' in whole
    assert "line-before" in page
    assert "line-after" in page
    assert 'class="bad"' in page
    trends = (tiny_site / "en/incidents/index.html").read_text("utf-8")
    assert "768 USD" in trends


def test_a_folder_of_others_is_left_alone(tiny: Book, tmp_path: Path) -> None:
    (tmp_path / "precious").mkdir()
    (tmp_path / "precious" / "thesis.txt").write_text("years of work")
    with pytest.raises(PlaybookError, match="no site build has made"):
        build_tiny(tiny, tmp_path / "precious")
    assert (tmp_path / "precious" / "thesis.txt").read_text() == "years of work"
    (tmp_path / "file").write_text("x")
    with pytest.raises(PlaybookError, match="is no folder"):
        build_tiny(tiny, tmp_path / "file")


def test_a_build_replaces_the_one_before_whole(tiny: Book, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    out = tmp_path / "s"
    build_tiny(tiny, out, incident())
    before = digest(out)
    (out / "en" / "stale.html").write_text("from an older book")
    build_tiny(tiny, out, incident())
    assert digest(out) == before
    assert [p.name for p in tmp_path.iterdir()] == ["s"]

    def full(*_: object) -> int:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "write_bytes", full)
    with pytest.raises(PlaybookError, match="No space left"):
        build_tiny(tiny, out)
    monkeypatch.undo()
    assert digest(out) == before
    assert [p.name for p in tmp_path.iterdir()] == ["s"]


def test_ids_that_differ_only_in_case(tiny: Book, tmp_path: Path) -> None:
    book = Book(
        {k: dict(v) for k, v in tiny.entries.items()}, dict(tiny.files), [], dict(tiny.sources), dict(tiny.classes)
    )
    case = book.cases["tiny-lr"]
    book.entries["cases"]["Tiny-LR"] = case.model_copy(update={"id": "Tiny-LR"})
    book.files["cases", "Tiny-LR"] = book.files["cases", "tiny-lr"]
    with pytest.raises(PlaybookError, match="only in case"):
        build_tiny(book, tmp_path / "s")


def test_an_empty_book_is_a_site(tmp_path: Path) -> None:
    """A kind that is missing costs its pages, nothing else."""
    build_tiny(Book(), tmp_path / "s", hostile_incident())
    assert _laws(tmp_path / "s") == []


def test_a_retired_entry_keeps_its_address(tiny: Book, tmp_path: Path) -> None:
    book = Book(
        {k: dict(v) for k, v in tiny.entries.items()}, dict(tiny.files), [], dict(tiny.sources), dict(tiny.classes)
    )
    old = book.causes["lr-peak"].model_copy(update={"id": "old-lr", "status": "deprecated", "use_instead": "lr-peak"})
    book.entries["causes"]["old-lr"] = old
    build_tiny(book, tmp_path / "s")
    page = (tmp_path / "s/en/causes/old-lr.html").read_text("utf-8")
    assert "retired" in page
    assert 'href="../causes/lr-peak.html"' in page
    assert "old-lr" not in (tmp_path / "s/en/causes/index.html").read_text("utf-8")


class Recorder(Words):
    """Words that remember what they were asked for."""

    def __init__(self, asked: set[str]) -> None:
        super().__init__("zh", {})
        object.__setattr__(self, "asked", asked)

    def __call__(self, text: str, **values: object) -> str:
        self.asked.add(text)  # type: ignore[attr-defined]
        return super().__call__(text, **values)


def test_every_word_of_the_site_is_translated(tiny: Book, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from playbook.faces.site import build as module

    # One process, so that what a child is asked for is seen here.
    monkeypatch.setattr(module, "spread", lambda work, items: [work(item) for item in items])
    asked: set[str] = set()
    build(tmp_path / "s", [Edition("zh", Recorder(asked), tiny)], (incident(), hostile_incident()))
    table = words("zh").table
    assert sorted(text for text in asked if text not in table) == []
    for text in asked:
        assert set(re.findall(r"\{(\w+)\}", text)) == set(re.findall(r"\{(\w+)\}", table[text])), text


def test_both_languages_are_linked(tiny: Book, tmp_path: Path) -> None:
    build_tiny(tiny, tmp_path / "s", languages=("en", "zh"))
    page = (tmp_path / "s/en/causes/lr-peak.html").read_text("utf-8")
    assert '<link rel="alternate" hreflang="zh-Hans" href="../../zh/causes/lr-peak.html">' in page
    assert '<html lang="zh-Hans">' in (tmp_path / "s/zh/causes/lr-peak.html").read_text("utf-8")
    assert (tmp_path / "s" / MARKER).is_file()
    assert _laws(tmp_path / "s") == []


def test_assets_are_all_there() -> None:
    """The licence of what is not ours lies beside it."""
    names = {p.name for p in (places.site_source() / "assets").iterdir()}
    assert {"minisearch.js", "minisearch.LICENSE.txt", "engine.js", "style.css", "theme.js", "site.js"} <= names


def test_what_is_not_translated_says_so(tiny: Book, tmp_path: Path) -> None:
    """Also where the two books were loaded apart."""
    other = load([TESTS / "tiny_knowledge"])
    other.entries["causes"]["lr-peak"] = other.causes["lr-peak"].model_copy(update={"title": "峰值学习率过高"})
    build(tmp_path / "s", [Edition("en", Words(), tiny), Edition("zh", words("zh"), other)])
    note = words("zh").table["Not translated yet; the English text is shown."]
    assert note not in (tmp_path / "s/zh/causes/lr-peak.html").read_text("utf-8")
    assert "峰值学习率过高" in (tmp_path / "s/zh/symptoms/persistent-spike.html").read_text("utf-8")
    assert note in (tmp_path / "s/zh/causes/bad-samples.html").read_text("utf-8")
    assert note not in (tmp_path / "s/en/causes/bad-samples.html").read_text("utf-8")


def test_a_sentence_of_an_excerpt_has_one_mark_at_its_end() -> None:
    told = {"a": "a.", "a. ": "a.", "a?": "a?", "乙": "乙。", "乙。": "乙。", "": ""}
    assert {text: sentence(text) for text in told} == told
