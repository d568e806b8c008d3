"""The foot of a page, colours of commands, and what the search is given: sections, with their anchors."""

from __future__ import annotations

import html
import json
import re
import subprocess
from pathlib import Path

import pytest

from playbook.errors import PlaybookError
from playbook.faces.pages.blocks import Plain
from playbook.faces.site import search
from playbook.faces.site.build import Edition, build
from playbook.faces.site.code import coloured
from playbook.faces.words import Words
from playbook.knowledge.loader import Book, load
from playbook.workflow.upkeep.origins import Origin, origins
from tests.site_kit import HOSTILE, build_tiny, read_page

TINY = Path(__file__).parent / "tiny_knowledge"


@pytest.mark.parametrize("language", ["sh", "python", "json", "yaml", "no-such-language"])
@pytest.mark.parametrize(
    "text", ["a = 1  # why\n\tprint('x')", "\n  for f in *; do echo $f; done  ", HOSTILE, "", "\r\n"]
)
def test_coloured_text_is_the_same_text(text: str, language: str) -> None:
    """Copied from the page it is what the book says; nothing in it becomes a tag."""
    made = str(coloured(text, language))
    plain = re.sub(r'<span class="h[cskn]">|</span>', "", made)
    assert "<" not in plain
    assert html.unescape(plain) == text.replace("\r\n", "\n") if language != "no-such-language" else True


def test_comments_and_strings_are_told_apart() -> None:
    made = str(coloured("cp 'a b' c  # keep it", "sh"))
    assert '<span class="hs">&#39;a b&#39;</span>' in made
    assert '<span class="hc"># keep it</span>' in made


def _git(folder: Path, *words: str, day: str = "2026-03-04") -> None:
    who = ("-c", "user.name=a", "-c", "user.email=a@example.org", "-c", "init.defaultBranch=main")
    env = {"PATH": "/usr/bin:/bin", "GIT_COMMITTER_DATE": f"{day}T12:00:00", "GIT_AUTHOR_DATE": f"{day}T12:00:00"}
    subprocess.run(["git", "-C", str(folder), *who, *words], check=True, capture_output=True, env=env)


@pytest.fixture
def book_in_git(tmp_path: Path) -> Book:
    """A copy of the tiny book: everything committed on one day, one cause again on another, one signal not yet."""
    folder = tmp_path / "book"
    for path in TINY.rglob("*.yaml"):
        (folder / path.relative_to(TINY)).parent.mkdir(parents=True, exist_ok=True)
        (folder / path.relative_to(TINY)).write_text(path.read_text("utf-8"), "utf-8")
    _git(folder, "init")
    _git(folder, "add", ".", ":!signals")
    _git(folder, "commit", "-m", "all")
    cause = load([folder]).files["causes", "lr-peak"]
    cause.write_text(cause.read_text("utf-8") + "# looked at again\n", "utf-8")
    _git(folder, "commit", "-am", "one", day="2026-05-06")
    return load([folder])


def test_the_day_a_page_last_changed(book_in_git: Book, tmp_path: Path) -> None:
    found = origins(book_in_git)
    assert found["causes", "lr-peak"].day == "2026-05-06"
    assert found["causes", "bad-samples"].day == "2026-03-04"
    assert found["signals", "precision"].day == ""
    out = tmp_path / "s"
    build(out, [Edition("en", Words("en"), book_in_git)], origins=found, edit_url="https://git.example.org/edit/main")
    page = (out / "en/causes/lr-peak.html").read_text("utf-8")
    assert "last changed 2026-05-06" in page
    path = found["causes", "lr-peak"].path
    assert path.startswith("book/causes/")
    assert f'href="https://git.example.org/edit/main/{path}"' in page
    assert "last changed" not in (out / "en/signals/precision.html").read_text("utf-8")


def test_a_book_outside_a_repository_has_no_days(tmp_path: Path) -> None:
    (tmp_path / "book").mkdir()
    for path in TINY.rglob("*.yaml"):
        (tmp_path / "book" / path.relative_to(TINY)).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "book" / path.relative_to(TINY)).write_text(path.read_text("utf-8"), "utf-8")
    found = origins(load([tmp_path / "book"]))
    assert {origin.day for origin in found.values()} == {""}


def test_a_hostile_path_stays_a_path(tiny: Book, tmp_path: Path) -> None:
    bad = {("causes", "lr-peak"): Origin('a b/"><script>.yaml', "2026-03-04")}
    build(tmp_path / "s", [Edition("en", Words("en"), tiny)], origins=bad, edit_url="https://git.example.org/edit")
    facts = read_page((tmp_path / "s/en/causes/lr-peak.html").read_text("utf-8"))
    assert "https://git.example.org/edit/a%20b/%22%3E%3Cscript%3E.yaml" in facts.links
    assert facts.tags.count("script") == 2


def test_an_edit_url_is_a_web_address(tmp_path: Path) -> None:
    from click.testing import CliRunner

    from playbook.faces.cli.site import site

    done = CliRunner().invoke(site, ["build", "--out", str(tmp_path / "s"), "--edit-url", "javascript:alert(1)"])
    assert isinstance(done.exception, PlaybookError)
    assert "is no web address" in str(done.exception)


def test_neighbours_are_of_the_same_list(tiny: Book, tmp_path: Path) -> None:
    build_tiny(tiny, tmp_path / "s")
    names = list(tiny.causes)
    for k, name in enumerate(names):
        page = (tmp_path / f"s/en/causes/{name}.html").read_text("utf-8")
        beside = dict(re.findall(r'<a rel="(prev|next)" href="\.\./causes/([^"]+)\.html">', page))
        assert beside.get("prev") == (names[k - 1] if k else None)
        assert beside.get("next") == (names[k + 1] if k + 1 < len(names) else None)
    assert 'rel="next"' not in (tmp_path / "s/en/causes/index.html").read_text("utf-8")


def test_a_hit_can_name_its_section(tiny: Book, tmp_path: Path) -> None:
    """Every section given to the search is an anchor of its page; figures and prices alone are not worth finding."""
    build_tiny(tiny, tmp_path / "s")
    script = (tmp_path / "s/data/search.en.js").read_text("utf-8")
    rows = json.loads(script.partition("=")[2].rstrip(";\n"))
    for url, _, _, _, _, sections, _ in rows:
        ids = read_page((tmp_path / f"s/en/{url}").read_text("utf-8")).ids
        assert {anchor for anchor, _, _ in sections} <= set(ids), url
        assert all(text for _, _, text in sections), url
    texts = {url: " ".join(text for _, _, text in sections) for url, _, _, _, _, sections, _ in rows}
    assert "Stop and keep the scene" in texts["symptoms/instant-nan.html"]
    assert not re.search(r"\d min\b|GPU-h", " ".join(texts.values()))


def test_what_hardly_ever_comes_with_a_cause_does_not_find_it() -> None:
    """ "nccl-timeout seldom" is said on a page that is about something else."""
    cells = (
        Plain("python-error", code=True), Plain(" usually"),
        Plain(", ", searched=False), Plain("nccl-timeout", code=True, searched=False),
        Plain(" seldom", searched=False),
    )  # fmt: skip
    assert list(search._cell(cells)) == ["python-error usually"]
